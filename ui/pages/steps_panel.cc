#include "ui/pages/steps_panel.h"

#include <QCheckBox>
#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QSplitter>
#include <QStackedWidget>
#include <QTableView>
#include <QToolButton>
#include <cmath>

#include "ui/dialogs/timeline_stack.h"
#include "ui/models/step_table_model.h"
#include "ui/plots/color_map.h"
#include "ui/plots/heat_map_view.h"
#include "ui/plots/timeline_view.h"
#include "ui/studio/run_document.h"
#include "ui/studio/step_reader.h"
#include "ui/theme/format.h"
#include "ui/widgets/breakdown_bars.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

using app::StepMeasure;

constexpr int kGrowMs = 200;                  // between looks at data that go on arriving
constexpr int kLookMs = 1000;                 // … and for a first sampled step
constexpr std::size_t kSliceCells = 100'000;  // about 10 ms
constexpr StepMeasure kShown[] = {
    StepMeasure::kCompute,       StepMeasure::kWaiting,   StepMeasure::kTransfer,
    StepMeasure::kCommunication, StepMeasure::kData,      StepMeasure::kForward,
    StepMeasure::kBackward,      StepMeasure::kOptimizer, StepMeasure::kStep};

}  // namespace

StepsPanel::StepsPanel(RunDocument* document, StepReader* reader, QWidget* parent)
    : QWidget(parent), document_(document), reader_(reader) {
  setObjectName("stepsPanel");
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, kSpaceM, 0, 0);
  auto* splitter = new QSplitter(Qt::Vertical, this);
  splitter->setObjectName("stepsSplitter");
  splitter->addWidget(buildMap());
  splitter->addWidget(buildTimeline());
  splitter->setChildrenCollapsible(false);
  splitter->setHandleWidth(kSpaceM);
  splitter->setStretchFactor(0, 1);
  splitter->setStretchFactor(1, 1);
  layout->addWidget(splitter);
  more_.setSingleShot(true);
  connectParts();
  refreshPhases();
}

Card* StepsPanel::buildMap() {
  mapCard_ = new Card("heatMapCard", this);
  measure_ = new QComboBox(this);
  measure_->setObjectName("heatMapMeasure");
  relative_ = new QComboBox(this);
  relative_->setObjectName("heatMapScale");
  order_ = new QComboBox(this);
  order_->setObjectName("heatMapOrder");
  legend_ = new ColorLegend(this);
  fit_ = makeToolButton("heatMapFit", "fit", this);
  asTable_ = makeToolButton("heatMapAsTable", "table", this);
  asTable_->setCheckable(true);
  auto* row = new QHBoxLayout;
  row->setSpacing(kSpaceS);
  row->addWidget(measure_);
  row->addWidget(relative_);
  row->addWidget(order_);
  row->addStretch(1);
  mapCard_->head()->addWidget(legend_);
  mapCard_->head()->addWidget(fit_);
  mapCard_->head()->addWidget(asTable_);
  mapCard_->body()->addLayout(row);
  view_ = new HeatMapView("heatMap", map_, this);
  tableModel_ = new StepTableModel(document_->steps(), this);
  table_ = new QTableView(this);
  table_->setObjectName("heatMapTable");
  table_->setModel(tableModel_);
  applyTableStyle(table_);
  table_->setSelectionBehavior(QAbstractItemView::SelectItems);
  table_->verticalHeader()->show();
  table_->horizontalHeader()->setStretchLastSection(false);
  stack_ = new QStackedWidget(this);
  stack_->addWidget(view_);
  stack_->addWidget(table_);
  mapCard_->body()->addWidget(stack_, 1);
  cell_ = new ElidedLabel("heatMapCell", this, "muted");
  mapCard_->body()->addWidget(cell_);
  return mapCard_;
}

Card* StepsPanel::buildTimeline() {
  timelineCard_ = new Card("timelineCard", this);
  phases_ = makeLabel("timelinePhases", this);
  phases_->setTextFormat(Qt::RichText);
  withMedian_ = new QCheckBox(this);
  withMedian_->setObjectName("timelineMedian");
  withMedian_->setChecked(true);
  withPrediction_ = new QCheckBox(this);
  withPrediction_->setObjectName("timelinePredicted");
  withPrediction_->setChecked(true);
  timelineFit_ = makeToolButton("timelineFit", "fit", this);
  timelineCard_->head()->addWidget(withMedian_);
  timelineCard_->head()->addWidget(withPrediction_);
  timelineStack_ = new TimelineStack("timeline", this);
  timeline_ = timelineStack_->view();
  timelineCard_->head()->addWidget(timelineFit_);
  timelineCard_->head()->addWidget(timelineStack_->button());
  timelineCard_->body()->addWidget(phases_);
  timelineCard_->body()->addWidget(timelineStack_, 1);
  span_ = new ElidedLabel("timelineSpan", this, "muted");
  timelineCard_->body()->addWidget(span_);
  return timelineCard_;
}

void StepsPanel::connectParts() {
  connect(document_, &RunDocument::dataChanged, this, &StepsPanel::dataChanged);
  connect(document_, &RunDocument::breakdownChanged, this, &StepsPanel::dataChanged);
  connect(&more_, &QTimer::timeout, this, &StepsPanel::readMore);
  connect(measure_, &QComboBox::activated, this, &StepsPanel::measureChanged);
  connect(relative_, &QComboBox::activated, this, &StepsPanel::measureChanged);
  connect(order_, &QComboBox::activated, this, &StepsPanel::refreshMap);
  connect(fit_, &QToolButton::clicked, view_, &GridView::showAll);
  connect(asTable_, &QToolButton::toggled, this, [this](bool on) {
    stack_->setCurrentIndex(on ? 1 : 0);
    refreshMap();
  });
  view_->setDescription([this](int rank, std::int64_t step) { return cellText(rank, step); });
  connect(view_, &HeatMapView::cellChosen, this, [this](int rank, qint64 step) {
    awaited_.reset();  // the person has chosen another
    cell_->setText(rank < 0 ? tr("Click a cell to see the step's timeline and the rank's logs.")
                            : cellText(rank, step));
    timeline_->markRank(rank);
    if (rank >= 0) reader_->read(step);
    Q_EMIT cellChosen(rank, step);
  });
  connect(table_->selectionModel(), &QItemSelectionModel::currentChanged, this,
          [this](const QModelIndex& now) {
            if (now.isValid()) view_->chooseCell(now.column(), tableModel_->firstStep(now.row()));
          });
  connect(reader_, &StepReader::changed, this, &StepsPanel::refreshTimeline);
  connect(withMedian_, &QCheckBox::toggled, this, &StepsPanel::refreshTimeline);
  connect(withPrediction_, &QCheckBox::toggled, this, &StepsPanel::refreshTimeline);
  connect(timelineFit_, &QToolButton::clicked, timeline_, &GridView::showAll);
  connect(timeline_, &TimelineView::spanChosen, this, &StepsPanel::refreshSpan);
  connect(&Theme::instance(), &Theme::changed, this, &StepsPanel::refreshPhases);
}

void StepsPanel::choose(int rank, qint64 step, bool comesIntoView) {
  awaited_ = Cell{rank, step, comesIntoView};
  if (!more_.isActive() && map_.ranks() > 0) chooseAwaited();
  if (awaited_ && rank >= 0) dataChanged();  // also while another tab is shown
}
int StepsPanel::chosenRank() const { return awaited_ ? awaited_->rank : view_->chosenRank(); }
GridView* StepsPanel::map() const { return view_; }
qint64 StepsPanel::chosenStep() const { return awaited_ ? awaited_->step : view_->chosenStep(); }

app::StepMeasure StepsPanel::measure() const {
  return static_cast<StepMeasure>(measure_->currentData().toInt());
}

void StepsPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  dataChanged();
}

void StepsPanel::dataChanged() {
  const bool isLookedFor = awaited_ && awaited_->rank >= 0;
  if ((!isVisible() && !isLookedFor) || more_.isActive()) return;
  more_.start(map_.steps() == 0 ? 0 : kGrowMs);
  // The first sampled step of a run that goes on.
  if (!reader_->measured() && !reader_->reading() && nextLook_.hasExpired()) {
    nextLook_.setRemainingTime(kLookMs);
    reader_->read(0);
  }
}

void StepsPanel::measureChanged() {
  map_.setMeasure(measure(), relative_->currentData().toBool());
  tableModel_->setMeasure(measure());
  refreshUnits();
  view_->setUpdatesEnabled(false);  // until all of it is read
  more_.start(0);
}

void StepsPanel::offerClocks() {
  const int clock = static_cast<int>(StepMeasure::kGpuClock);
  if (!document_->steps().has(StepMeasure::kGpuClock) || measure_->findData(clock) >= 0) return;
  measure_->addItem(measureName(StepMeasure::kGpuClock), clock);
}

void StepsPanel::readMore() {
  if (map_.stride() != document_->steps().stride()) view_->setUpdatesEnabled(false);
  if (!map_.update(document_->steps(), kSliceCells)) return more_.start(0);
  view_->setUpdatesEnabled(true);
  offerClocks();
  refreshMap();
  chooseAwaited();
}

// Steps that are not there yet may come, of a run that is read or goes on.
void StepsPanel::chooseAwaited() {
  if (!awaited_) return;
  const bool mayCome = !document_->loaded() || !app::isFinal(document_->row().phase);
  if (map_.steps() < awaited_->step && mayCome) return;
  const Cell cell = *std::exchange(awaited_, std::nullopt);
  view_->chooseCell(cell.rank, cell.step, cell.comesIntoView);
}

QString StepsPanel::rankName(int rank) const {
  const auto nodes = document_->nodesOfRanks();
  const QString name = tr("rank %1").arg(rank);
  if (static_cast<std::size_t>(rank) >= nodes.size()) return name;
  return QString::fromUtf8("%1 · %2").arg(
      QString::fromStdString(nodes[static_cast<std::size_t>(rank)]), name);
}

void StepsPanel::refreshMap() {
  const auto nodes = document_->nodesOfRanks();
  const auto by = static_cast<app::RowOrder>(order_->currentData().toInt());
  std::vector<QString> names;
  for (int rank = 0; rank < map_.ranks(); ++rank)
    names.push_back(by == app::RowOrder::kNode ? rankName(rank) : tr("rank %1").arg(rank));
  const double scale = map_.scale();
  view_->refresh(app::rowOrder(document_->steps(), by, measure(), nodes), names, scale);
  if (asTable_->isChecked()) tableModel_->refresh();
  refreshLegend(scale > 0 ? scale : 1);
  if (view_->chosenRank() >= 0) cell_->setText(cellText(view_->chosenRank(), view_->chosenStep()));
  std::vector<QString> all;
  for (int rank = 0; rank < std::max(map_.ranks(), static_cast<int>(nodes.size())); ++rank)
    all.push_back(tr("rank %1").arg(rank));
  timeline_->setNames(std::move(all));
}

// A low clock has the colours of a long time.
void StepsPanel::refreshLegend(double scale) {
  const bool isClock = measure() == StepMeasure::kGpuClock;
  if (!map_.isRelative()) {
    const QString most = measureText(measure(), scale);
    legend_->setScale(ColorMap::Kind::kSequential, isClock ? tr("GPU clock") : tr("seconds"),
                      isClock ? most : "0", isClock ? measureText(measure(), 0) : most);
    return;
  }
  const QString below = QString::fromUtf8("−%1").arg(formatPercent(scale, 0)),
                above = "+" + formatPercent(scale, 0);
  legend_->setScale(ColorMap::Kind::kDiverging,
                    isClock ? tr("difference from the median rank, % of its clock")
                            : tr("difference from the median rank, % of the step time"),
                    isClock ? above : below, isClock ? below : above);
}

void StepsPanel::refreshUnits() {
  const bool isClock = measure() == StepMeasure::kGpuClock;
  relative_->setItemText(relative_->findData(0), isClock ? tr("in MHz") : tr("in seconds"));
  table_->setAccessibleName(isClock ? tr("MHz per rank and step")
                                    : tr("Seconds per rank and step"));
}

QString StepsPanel::cellText(int rank, std::int64_t step) const {
  const double value = static_cast<double>(document_->steps().value(measure(), rank, step));
  const bool isClock = measure() == StepMeasure::kGpuClock;
  QStringList parts{tr("step %1").arg(formatCount(step)), rankName(rank)};
  if (const auto [first, last] = document_->steps().stepsOf(step); first != last)
    parts << (isClock ? tr("lowest of steps %1 to %2") : tr("greatest of steps %1 to %2"))
                 .arg(formatCount(first), formatCount(last));
  if (std::isnan(value)) {
    parts << tr("no data");
  } else {
    parts << QString("%1 %2").arg(measureName(measure()), measureText(measure(), value));
    const double difference = static_cast<double>(map_.value(rank, step));
    if (map_.isRelative() && !std::isnan(difference)) {
      const bool isBelow = isClock ? difference > 0 : difference < 0;
      const QString text =
          isClock   ? (isBelow ? tr("%1 below the median rank") : tr("%1 above the median rank"))
          : isBelow ? tr("%1 of the step time below the median rank")
                    : tr("%1 of the step time above the median rank");
      parts << text.arg(formatPercent(std::abs(difference), 1));
    }
  }
  return parts.join(QString::fromUtf8(" · "));
}

void StepsPanel::refreshTimeline() {
  const auto& measured = reader_->measured();
  const auto& predicted = reader_->predicted();
  withPrediction_->setEnabled(predicted != nullptr);
  const auto hasMedian = [](const auto& timeline) {
    return timeline && !timeline->medians.empty();
  };
  withMedian_->setEnabled(hasMedian(measured) || hasMedian(predicted));
  timeline_->setTimelines(measured, withPrediction_->isChecked() ? predicted : nullptr,
                          withMedian_->isChecked());
  timeline_->markRank(view_->chosenRank());
  const std::int64_t wanted = reader_->wanted();
  QString title = tr("Timeline");
  if (measured && (wanted == 0 || wanted == measured->step))
    title = (measured->slow ? tr("Timeline of slow step %1") : tr("Timeline of step %1"))
                .arg(formatCount(measured->step));
  else if (measured)
    title = (measured->slow ? tr("Timeline of slow step %1, the recorded step nearest to step %2")
                            : tr("Timeline of step %1, the sampled step nearest to step %2"))
                .arg(formatCount(measured->step), formatCount(wanted));
  else if (predicted && withPrediction_->isChecked())
    title = tr("Predicted timeline (no step has been sampled yet)");
  timelineCard_->setTitle(title);
  refreshSpan();
}

void StepsPanel::refreshSpan() {
  const QString text = timeline_->chosenText();
  span_->setText(text.isEmpty()
                     ? tr("Click a span for its details and the arrival time of each rank.")
                     : text);
}

void StepsPanel::refreshPhases() {
  phases_->setText(phaseLegend());
  phases_->setFont(Theme::instance().small());
}

void StepsPanel::retranslate() {
  const auto fill = [](QComboBox* box, const QVector<QPair<QString, int>>& items) {
    const int now = std::max(0, box->currentIndex());
    box->clear();
    for (const auto& [name, value] : items) box->addItem(name, value);
    box->setCurrentIndex(now);
  };
  QVector<QPair<QString, int>> measures;
  for (const StepMeasure shown : kShown)
    measures << QPair(measureName(shown), static_cast<int>(shown));
  if (document_->steps().has(StepMeasure::kGpuClock))
    measures << QPair(measureName(StepMeasure::kGpuClock),
                      static_cast<int>(StepMeasure::kGpuClock));
  fill(measure_, measures);
  fill(relative_, {{tr("vs. median rank"), 1}, {tr("in seconds"), 0}});
  fill(order_, {{tr("by rank"), static_cast<int>(app::RowOrder::kRank)},
                {tr("by node"), static_cast<int>(app::RowOrder::kNode)},
                {tr("slowest first"), static_cast<int>(app::RowOrder::kCost)}});
  mapCard_->setTitle(tr("Rank × step"));
  measure_->setAccessibleName(tr("Measure"));
  relative_->setAccessibleName(tr("Scale"));
  order_->setAccessibleName(tr("Rank order"));
  setTexts(fit_, tr("Show all ranks and steps"));
  setTexts(asTable_, tr("Show the data as a table"));
  view_->setAccessibleName(tr("Heat map, rank × step"));
  view_->setEmptyText(tr("The heat map appears after the first steps."));
  refreshUnits();
  withMedian_->setText(tr("Show median rank"));
  withPrediction_->setText(tr("Show prediction"));
  setTexts(timelineFit_, tr("Show the whole step"));
  timeline_->setAccessibleName(tr("Timeline of a step"));
  timeline_->setEmptyText(
      tr("No step has been sampled yet. By default, every 50th step and slow ones are sampled."));
  timelineStack_->retranslate();
  if (view_->chosenRank() < 0)
    cell_->setText(tr("Click a cell to see the step's timeline and the rank's logs."));
  tableModel_->retranslate();
  refreshPhases();
  refreshMap();
  refreshTimeline();
}

}  // namespace lockstep::ui
