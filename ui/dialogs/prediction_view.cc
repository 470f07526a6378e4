#include "ui/dialogs/prediction_view.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollArea>
#include <QStackedWidget>
#include <QTabWidget>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>
#include <cmath>

#include "ui/dialogs/advice_panel.h"
#include "ui/dialogs/launch_preview.h"
#include "ui/dialogs/plan_timeline.h"
#include "ui/dialogs/what_if_panel.h"
#include "ui/models/breakdown_model.h"
#include "ui/models/placement_model.h"
#include "ui/models/summary_model.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/breakdown_bars.h"
#include "ui/widgets/delegates.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kRemarksHeight = 110;  // pixels; more of them scroll: the table keeps its room

}  // namespace

PredictionView::PredictionView(QWidget* parent) : QWidget(parent) {
  setObjectName("launchPrediction");
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins({});
  column->setSpacing(kSpaceM);
  auto* figures = new QHBoxLayout;
  figures->setSpacing(kSpaceL);
  stepTime_ = new Figure("launchStepTime", this);
  throughput_ = new Figure("launchThroughput", this);
  memory_ = new Figure("launchMemory", this);
  wire_ = new Figure("launchWire", this);
  energy_ = new Figure("launchEnergy", this);
  ranks_ = new Figure("launchRanks", this);
  for (Figure* figure : {stepTime_, throughput_, memory_, wire_, energy_, ranks_})
    figures->addWidget(figure, 1);
  column->addLayout(figures);
  auto* sourceRow = new QHBoxLayout;
  source_ = makeLabel("launchSource", this, "muted");
  source_->setWordWrap(true);
  benchmark_ = makeButton("launchBenchmark", "chart", this);
  sourceRow->addWidget(source_, 1);
  preflight_ = makeButton("launchPreflight", "node", this);
  sourceRow->addWidget(preflight_);
  sourceRow->addWidget(benchmark_);
  column->addLayout(sourceRow);
  tabs_ = new QTabWidget(this);
  tabs_->setObjectName("launchTabs");
  tabs_->setDocumentMode(true);
  tabs_->addTab(buildPlacement(), {});
  tabs_->addTab(buildBars(), {});
  timeline_ = new PlanTimeline(this);
  tabs_->addTab(timeline_, {});
  plan_ = new QPlainTextEdit(this);
  plan_->setObjectName("planText");
  plan_->setReadOnly(true);
  plan_->setLineWrapMode(QPlainTextEdit::NoWrap);
  plan_->setFont(Theme::instance().monospace());
  plan_->setFrameShape(QFrame::NoFrame);
  tabs_->addTab(plan_, {});
  tabs_->addTab(buildCandidates(), {});
  advice_ = new AdvicePanel(this);
  tabs_->addTab(advice_, {});
  whatIf_ = new WhatIfPanel(this);
  tabs_->addTab(scrolled(whatIf_, this), {});
  tabs_->addTab(buildSummary(), {});
  column->addWidget(tabs_, 1);
  connect(tabs_, &QTabWidget::currentChanged, this, &PredictionView::compareWanted);
}

QWidget* PredictionView::buildPlacement() {
  auto* page = new QWidget(this);
  auto* layout = new QVBoxLayout(page);
  layout->setContentsMargins(0, kSpaceS, 0, 0);
  placementModel_ = new PlacementModel(this);
  placement_ = new QTableView(page);
  placement_->setObjectName("placementTable");
  placement_->setModel(placementModel_);
  applyTableStyle(placement_);
  placement_->horizontalHeader()->setStretchLastSection(false);
  placementColumns_ =
      new ColumnFitter(placement_, {PlacementModel::kGradients, PlacementModel::kOptimizer,
                                    PlacementModel::kThreads, PlacementModel::kActivations,
                                    PlacementModel::kParameters, PlacementModel::kDevice});
  layout->addWidget(placement_, 1);
  auto* remarks = new QWidget(page);
  auto* lines = new QVBoxLayout(remarks);  // tells the area when they need another height
  lines->setContentsMargins({});
  remarks_ = makeLabel("launchRemarks", remarks, "muted");
  remarks_->setWordWrap(true);
  lines->addWidget(remarks_);
  remarksArea_ = new QScrollArea(page);
  remarksArea_->setObjectName("launchRemarksArea");
  remarksArea_->setWidget(remarks);
  remarksArea_->setWidgetResizable(true);
  remarksArea_->setFocusPolicy(Qt::NoFocus);
  remarksArea_->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Maximum);
  remarksArea_->setMaximumHeight(kRemarksHeight);
  layout->addWidget(remarksArea_);
  return page;
}

QWidget* PredictionView::buildBars() {
  auto* page = new QWidget(this);
  auto* layout = new QVBoxLayout(page);
  layout->setContentsMargins(0, kSpaceS, 0, 0);
  barsAsTable_ = makeToolButton("launchBarsAsTable", "table", page);
  barsAsTable_->setCheckable(true);
  bars_ = new BreakdownBars("launchBars", page);
  auto* scroll = new QScrollArea(page);
  scroll->setObjectName("launchBarsScroll");
  scroll->setWidget(bars_);
  scroll->setWidgetResizable(true);
  scroll->setFocusPolicy(Qt::NoFocus);
  barsModel_ = new BreakdownModel(this);
  barsTable_ = new QTableView(page);
  barsTable_->setObjectName("launchBarsTable");
  barsTable_->setModel(barsModel_);
  applyTableStyle(barsTable_);
  setColumns(barsTable_, {64, 96, 66, 82, 92, 78, 78, 88, 72});
  auto* stack = new QStackedWidget(page);
  stack->addWidget(scroll);
  stack->addWidget(barsTable_);
  layout->addWidget(barsAsTable_, 0, Qt::AlignRight);
  layout->addWidget(stack, 1);
  connect(barsAsTable_, &QToolButton::toggled, stack, &QStackedWidget::setCurrentIndex);
  return page;
}

QWidget* PredictionView::buildCandidates() {
  candidateModel_ = new CandidateModel(this);
  candidates_ = new QTableView(this);
  candidates_->setObjectName("candidateTable");
  candidates_->setModel(candidateModel_);
  applyTableStyle(candidates_);
  candidates_->horizontalHeader()->setStretchLastSection(false);
  candidates_->setColumnWidth(CandidateModel::kStrategy, 168);
  for (int column = CandidateModel::kEstimate; column < CandidateModel::kColumns; ++column) {
    candidates_->horizontalHeader()->setSectionResizeMode(column, QHeaderView::Stretch);
  }
  new ColumnFitter(candidates_,
                   {CandidateModel::kEnergy, CandidateModel::kBubble, CandidateModel::kWire});
  // Why a strategy is refused stands whole across the figures that it has none of.
  candidates_->setWordWrap(true);
  candidates_->setItemDelegate(new WrapDelegate(candidates_));
  candidates_->verticalHeader()->setMinimumSectionSize(30);
  candidates_->verticalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  connect(candidateModel_, &QAbstractItemModel::modelReset, this, [this] {
    candidates_->clearSpans();
    for (int row = 0; row < candidateModel_->rowCount(); ++row) {
      if (candidateModel_->refused(row))
        candidates_->setSpan(row, CandidateModel::kEstimate, 1,
                             CandidateModel::kColumns - CandidateModel::kEstimate);
    }
  });
  connect(candidates_->horizontalHeader(), &QHeaderView::sectionResized, candidates_,
          &QTableView::resizeRowsToContents);
  connect(candidates_, &QTableView::activated, this, [this](const QModelIndex& index) {
    const auto& all = candidateModel_->candidates();
    const auto at = static_cast<std::size_t>(index.row());
    if (at < all.size()) Q_EMIT strategyChosen(std::string(all[at].strategy));
  });
  return candidates_;
}

QWidget* PredictionView::buildSummary() {
  summaryModel_ = new SummaryModel(this);
  summary_ = new QTableView(this);
  summary_->setObjectName("summaryTable");
  summary_->setModel(summaryModel_);
  applyTableStyle(summary_);
  summary_->horizontalHeader()->setStretchLastSection(true);
  summary_->horizontalHeader()->setSectionResizeMode(SummaryModel::kLabel,
                                                     QHeaderView::ResizeToContents);
  // Values stand whole, in several lines where they are long.
  summary_->setWordWrap(true);
  summary_->setItemDelegate(new WrapDelegate(summary_));
  summary_->verticalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  connect(summary_->horizontalHeader(), &QHeaderView::sectionResized, summary_,
          &QTableView::resizeRowsToContents);
  return summary_;
}

void PredictionView::setSummary(std::vector<app::SummaryRow> rows) {
  summaryModel_->setRows(std::move(rows));
}

bool PredictionView::comparing() const { return tabs_->currentWidget() == candidates_; }

bool PredictionView::choosing() const { return candidates_->hasFocus() || advice_->choosing(); }

void PredictionView::setCandidates(std::vector<Candidate> candidates) {
  candidateModel_->setCandidates(std::move(candidates));
}

void PredictionView::setChosen(const std::string& strategy,
                               const std::map<std::string, double>& benchmarks) {
  candidateModel_->setBenchmarks(benchmarks);
  candidateModel_->setChosen(strategy);
}

void PredictionView::showKind(bool ofProgram) {
  for (int tab = 1; tab < tabs_->count(); ++tab)
    tabs_->setTabVisible(tab, !ofProgram || tabs_->widget(tab) == summary_);
  for (QWidget* part :
       std::initializer_list<QWidget*>{stepTime_, throughput_, memory_, wire_, benchmark_})
    part->setVisible(!ofProgram);
  if (ofProgram) tabs_->setCurrentIndex(0);
}

void PredictionView::clear() {
  placementModel_->setRanks({});
  barsModel_->setBars({});
  bars_->setBars({});
  timeline_->setPreview(nullptr);
  plan_->clear();
  candidateModel_->setCandidates({});
  summaryModel_->setRows({});
  whatIf_->setSource({});
  for (Figure* figure : {stepTime_, throughput_, memory_, wire_, energy_, ranks_}) {
    figure->setValue(QString(QChar(0x2014)), QString(QChar(0xa0)));  // nothing below moves
  }
  energy_->setToolTip({});
  source_->clear();
  remarksArea_->hide();
}

void PredictionView::showEnergy(const app::Preview& preview, bool told) {
  constexpr double kSecondsPerHour = 3600;
  const app::Energy energy = app::predictedEnergy(preview);
  energy_->setToolTip({});
  if (!told || energy.seconds <= 0 || !energy.isComplete())
    return energy_->setValue(QString(QChar(0x2014)),
                             !energy.isComplete() ? tr("GPU power unknown") : tr("per step"));
  const app::EnergyPhases parts = app::predictedPhases(preview, energy);
  QString tip = tr("Computing %1, communication %2, waiting %3, other %4")
                    .arg(formatEnergy(parts.compute), formatEnergy(parts.transfer),
                         formatEnergy(parts.waiting), formatEnergy(parts.other));
  if (energy.carbonGrams)
    tip += '\n' + tr("CO2 equivalent of an hour: %1")
                      .arg(formatCarbon(*energy.carbonGrams / energy.seconds * kSecondsPerHour));
  energy_->setToolTip(tip);
  energy_->setValue(
      formatEnergy(energy.joules()),
      energy.cost
          ? tr("per step, %1/h")
                .arg(formatMoney(*energy.cost / energy.seconds * kSecondsPerHour, energy.currency))
          : tr("per step, %1 W").arg(formatNumber(energy.watts(), 3)));
}

void PredictionView::show(const std::shared_ptr<const app::Preview>& shown, bool told) {
  const app::Preview& preview = *shown;
  const QString dash(QChar(0x2014));
  const QString kind = !told              ? tr("not benchmarked")
                       : preview.measured ? tr("benchmarked")
                                          : tr("rough estimate");
  stepTime_->setValue(told ? formatSeconds(preview.stepSeconds) : dash, kind);
  throughput_->setValue(
      told ? tr("%1/s").arg(formatCount(std::llround(preview.samplesPerSecond))) : dash,
      tr("samples"));
  memory_->setValue(formatBytes(static_cast<double>(app::peakMemory(preview))),
                    tr("peak per rank"));
  wire_->setValue(formatBytes(static_cast<double>(app::wireBytes(preview.plan))),
                  tr("per rank per step"));
  showEnergy(preview, told);
  ranks_->setValue(QString::number(preview.ranks.size()), QString::fromStdString(preview.comm));
  source_->setText(
      preview.ofProgram() ? tr("What the program computes and exchanges is not known before.")
      : preview.measured  ? tr("From a benchmark of these nodes.")
      : told ? tr("Rough estimate from built-in costs. Benchmark the nodes to calibrate it.")
             : tr("These settings have not been benchmarked. Compare strategies shows a rough "
                  "estimate."));
  placementModel_->setRanks(preview.ranks, preview.ofProgram());
  placement_->resizeColumnsToContents();
  placementColumns_->fit();
  std::vector<BreakdownBar> bars;
  for (const auto& rank : preview.ranks) {
    if (!told) break;
    BreakdownBar bar;
    bar.name = tr("rank %1").arg(rank.rank);
    bar.predicted = {rank.data,    rank.forward,  rank.backward,
                     rank.waiting, rank.transfer, rank.optimizer};
    bar.hasPredicted = true;
    bars.push_back(std::move(bar));
  }
  barsModel_->setBars(bars);
  bars_->setBars(std::move(bars));
  timeline_->setPreview(told ? shown : nullptr);
  plan_->setPlainText(QString::fromStdString(preview.planText));
  QStringList remarks;
  for (const auto& remark : preview.remarks)
    remarks << QString::fromUtf8("• ") + messageText(remark);
  remarks_->setText(remarks.join('\n'));
  remarksArea_->setVisible(!remarks.isEmpty());
}

void PredictionView::retranslate() {
  setTexts(
      preflight_, tr("Pre-flight…"),
      tr("Connects the nodes, measures them and the links between them, and shows what is weak"));
  setTexts(benchmark_, tr("Benchmark nodes"),
           tr("Connects the nodes and benchmarks these settings"));
  stepTime_->setName(tr("Step time"));
  throughput_->setName(tr("Throughput"));
  memory_->setName(tr("Memory"));
  wire_->setName(tr("Traffic"));
  energy_->setName(tr("Energy"));
  ranks_->setName(tr("Ranks"));
  tabs_->setTabText(0, tr("Placement"));
  tabs_->setTabText(1, tr("Step time"));
  tabs_->setTabText(2, tr("Timeline"));
  tabs_->setTabText(3, tr("Plan"));
  tabs_->setTabText(4, tr("Compare strategies"));
  tabs_->setTabText(5, tr("Fastest"));
  tabs_->setTabText(6, tr("What if"));
  tabs_->setTabText(7, tr("Summary"));
  tabs_->setAccessibleName(tr("Prediction"));
  placement_->setAccessibleName(tr("Placement"));
  bars_->setAccessibleName(tr("Predicted step time of each rank"));
  barsTable_->setAccessibleName(tr("Predicted step time of each rank, as a table"));
  setTexts(barsAsTable_, tr("Show the data as a table"));
  barsModel_->retranslate();
  candidates_->setAccessibleName(tr("Compare strategies"));
  candidates_->setToolTip(tr("Double-click a strategy to choose it"));
  placementModel_->retranslate();
  candidateModel_->retranslate();
  summary_->setAccessibleName(tr("Summary of the launch"));
  summaryModel_->retranslate();
  timeline_->retranslate();
  advice_->retranslate();
  whatIf_->retranslate();
  plan_->setAccessibleName(tr("Text of the plan"));
}

}  // namespace lockstep::ui
