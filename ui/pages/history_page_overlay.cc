// The comparison of selected runs in the history page: their curves over one axis, and what differs
// between their specs.
#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QStackedLayout>
#include <QTableView>
#include <QToolButton>
#include <limits>
#include <memory>

#include "app/report/run_axis.h"
#include "ui/models/run_table_model.h"
#include "ui/models/spec_diff_model.h"
#include "ui/pages/history_page.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/studio/background.h"
#include "ui/studio/run_curves.h"
#include "ui/studio/run_document.h"
#include "ui/studio/workspace.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr std::size_t kMostCurves = 24;
constexpr int kMostSpans = 65'536;  // of a curve: more are reduced to their extremes
constexpr int kOverlayAfterMs = 120;

// All points where there are few enough.
Result<std::vector<app::Point>> readReduced(const app::RunStore& store, const std::string& curve) {
  constexpr double kEver = std::numeric_limits<double>::infinity();
  LOCKSTEP_ASSIGN(const auto spans, store.read(curve, -kEver, kEver, kMostSpans));
  return pointsOf(spans);
}

}  // namespace

struct HistoryPage::Curve {
  std::shared_ptr<Series> line;
  app::SpecFields fields;
  Message missing;  // why the line has no points on the axis
  app::RunFigures figures;
};

void HistoryPage::buildComparison() {
  plotCard_ = new Card("overlayCard", this);
  group_ = new PlotGroup(this);
  plot_ = new PlotView("overlayPlot", this);
  group_->add(plot_);
  curve_ = new QComboBox(this);
  curve_->setObjectName("overlayCurve");
  axis_ = new QComboBox(this);
  axis_->setObjectName("overlayAxis");
  plotCard_->head()->addWidget(curve_);
  plotCard_->head()->addWidget(axis_);
  diff_ = new SpecDiffModel(this);
  diffTable_ = new QTableView(this);
  diffTable_->setObjectName("specDifferences");
  diffTable_->setModel(diff_);
  applyTableStyle(diffTable_);
  diffTable_->horizontalHeader()->setStretchLastSection(false);
  differences_ = makeToolButton("differencesButton", "compare", this);
  differences_->setCheckable(true);
  plotCard_->head()->addWidget(differences_);
  overlayNote_ = makeLabel("overlayNote", this, "muted");
  overlayNote_->setTextFormat(Qt::PlainText);
  overlayNote_->setWordWrap(true);
  overlayNote_->hide();
  auto* compared = new QWidget(this);
  compareStack_ = new QStackedLayout(compared);
  compareStack_->addWidget(plot_);
  compareStack_->addWidget(diffTable_);
  plotCard_->body()->addWidget(overlayNote_);
  plotCard_->body()->addWidget(compared, 1);
  overlayDelay_.setSingleShot(true);
  overlayDelay_.setInterval(kOverlayAfterMs);
  connect(&overlayDelay_, &QTimer::timeout, this, &HistoryPage::readOverlay);
  connect(differences_, &QToolButton::toggled, this, [this](bool on) {
    compareStack_->setCurrentIndex(on ? 1 : 0);
    refreshAxis();
  });
  connect(curve_, &QComboBox::currentIndexChanged, this, [this] {
    refreshAxis();
    refreshOverlay();
  });
  connect(axis_, &QComboBox::currentIndexChanged, this, [this] {
    refreshAxis();
    refreshOverlay();
  });
}

// What the plot is over: a curve over epochs has no steps that could be replaced.
void HistoryPage::refreshAxis() {
  const bool shown = !differences_->isChecked();
  const bool epochs = curve_->currentData().toString().startsWith("epoch/");
  curve_->setEnabled(shown);
  axis_->setEnabled(shown && !epochs);
  const auto axis = static_cast<app::RunAxis>(axis_->currentData().toInt());
  plot_->setXAxis(axis == app::RunAxis::kTime && !epochs ? PlotView::XAxis::kTime
                                                         : PlotView::XAxis::kNumber);
  plot_->setTexts(tr("Curves"), epochs ? tr("epoch") : axis_->currentText().toLower(), {},
                  tr("Select runs to overlay their curves."));
}

void HistoryPage::refreshOverlay() {
  ++overlayGeneration_;  // what is being read is of an earlier selection
  overlayStop_.request_stop();
  overlayDelay_.start();
}

void HistoryPage::readOverlay() {
  overlayStop_ = {};
  const int generation = ++overlayGeneration_;
  const std::string curve = curve_->currentData().toString().toStdString();
  const bool epochs = curve.starts_with("epoch/");
  const auto axis =
      epochs ? app::RunAxis::kStep : static_cast<app::RunAxis>(axis_->currentData().toInt());
  std::vector<std::pair<std::string, QString>> wanted;
  const QStringList chosen = selectedRuns();
  for (const QString& run : chosen) {
    if (wanted.size() == kMostCurves) break;
    const auto& row = runs_->runs()[static_cast<std::size_t>(runs_->find(run))];
    wanted.emplace_back(row.run, runTitle(row));
  }
  const auto read = [curve, axis](app::History& history, const std::string& run, Curve& out) {
    if (const auto documents = history.documents(run); documents.ok())
      out.fields = app::comparedFields(*documents);
    if (const auto row = history.row(run); row.ok()) out.figures = row->figures;
    auto store = history.openRun(run);
    auto points = store ? readReduced(**store, curve) : store.error();
    if (points) points = app::placedOn(axis, history, **store, run, std::move(*points));
    if (!points) {
      out.missing = points.error().message();
      return;
    }
    for (const auto& point : *points) out.line->append(point.x, point.y);
    out.line->setSmoothing(0.9);
  };
  runInBackground(
      this,
      [folder = workspace_.home().historyFolder(), wanted, read, epochs,
       stop = overlayStop_.get_token()]() -> Result<std::vector<Curve>> {
        std::vector<Curve> out;
        LOCKSTEP_ASSIGN(const auto history, app::History::open(folder));
        for (const auto& [run, name] : wanted) {
          if (stop.stop_requested()) break;
          const auto color = static_cast<int>(out.size());
          out.emplace_back().line = std::make_shared<Series>(name, color, !epochs);
          out.back().line->dots = epochs;
          read(*history, run, out.back());
        }
        return out;
      },
      [this, generation, all = chosen.size()](const Result<std::vector<Curve>>& curves) {
        if (generation != overlayGeneration_) return;
        if (!curves.ok()) return message()->showError(curves.error());
        const QString note =
            all > static_cast<qsizetype>(kMostCurves)
                ? tr("The first %1 of %2 runs are shown.").arg(kMostCurves).arg(all)
                : QString();
        showOverlay(*curves, note);
      });
}

void HistoryPage::showOverlay(const std::vector<Curve>& curves, const QString& note) {
  const QString curve = curve_->currentData().toString();
  plot_->clearSeries();
  QStringList names, notes{note};
  std::vector<app::SpecFields> fields;
  for (const Curve& one : curves) {
    plot_->addSeries(one.line);
    names << one.line->name;
    fields.push_back(one.fields);
    const app::RunFigures& figures = one.figures;
    if (figures.joules > 0)
      fields.back()[tr("Energy").toStdString()] = formatEnergy(figures.joules).toStdString();
    if (figures.joules > 0 && figures.steps > 0)
      fields.back()[tr("Energy per step").toStdString()] =
          formatEnergy(figures.joules / static_cast<double>(figures.steps)).toStdString();
    if (!one.missing.empty()) notes << messageText(one.missing);
  }
  notes.removeAll(QString());
  overlayNote_->setText(notes.join('\n'));
  overlayNote_->setVisible(!notes.isEmpty());
  diff_->setRuns(std::move(names), fields);
  diffTable_->resizeColumnsToContents();
  plot_->setUnit(curve == "accuracy" || curve == "epoch/eval_accuracy" ? PlotView::Unit::kPercent
                                                                       : PlotView::Unit::kNumber);
  group_->follow();
}

void HistoryPage::retranslateOverlay() {
  plotCard_->setTitle(tr("Compare selected runs"));
  const auto fill = [](QComboBox* box, const QList<std::pair<QString, QVariant>>& items) {
    const int index = std::max(0, box->currentIndex());
    const QSignalBlocker blocker(box);
    box->clear();
    for (const auto& [text, data] : items) box->addItem(text, data);
    box->setCurrentIndex(index);
  };
  fill(curve_, {{tr("Loss"), "loss"},
                {tr("Accuracy"), "accuracy"},
                {tr("AUC"), "auc"},
                {tr("Perplexity"), "perplexity"},
                {tr("Throughput"), "samples_per_second"},
                {tr("Learning rate"), "learning_rate"},
                {tr("Gradient norm"), "gradient_norm"},
                {tr("Loss scale"), "loss_scale"},
                {tr("Evaluation loss by epoch"), "epoch/eval_loss"},
                {tr("Evaluation accuracy by epoch"), "epoch/eval_accuracy"},
                {tr("Evaluation AUC by epoch"), "epoch/eval_auc"},
                {tr("Evaluation perplexity by epoch"), "epoch/eval_perplexity"}});
  using app::RunAxis;
  fill(axis_, {{tr("Step"), static_cast<int>(RunAxis::kStep)},
               {tr("Time"), static_cast<int>(RunAxis::kTime)},
               {tr("Samples"), static_cast<int>(RunAxis::kSamples)},
               {tr("Tokens"), static_cast<int>(RunAxis::kTokens)}});
  curve_->setAccessibleName(tr("Curve"));
  axis_->setAccessibleName(tr("Horizontal axis"));
  axis_->setToolTip(tr("What the curves are laid over"));
  setTexts(differences_,
           tr("Compare the specs and environments of the selected runs (lockstep history diff)"));
  diffTable_->setAccessibleName(tr("Differences of specs and environments"));
  diff_->retranslate();
  refreshAxis();
}

}  // namespace lockstep::ui
