// The plots of the run page: of training, of step time, and of the nodes with their GPUs; the tools
// for all of them, and which series each plot shows.
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QSlider>
#include <QStackedWidget>
#include <QTableView>
#include <QToolButton>
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ui/dialogs/what_if_panel.h"
#include "ui/models/breakdown_model.h"
#include "ui/pages/run_page.h"
#include "ui/plots/picture_file.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/studio/metrics.h"
#include "ui/theme/format.h"
#include "ui/widgets/breakdown_bars.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kPlotCardHeight = 208;
constexpr int kOverviewCardHeight = 176;  // two rows in a window of the usual height

// Scrolls only where its least height is not there: wrapped labels would have it scroll already at
// the height it likes.
class Overview : public QWidget {
 public:
  using QWidget::QWidget;
  int heightForWidth(int) const override { return minimumSizeHint().height(); }
};

}  // namespace

void RunPage::buildPlotTools() {
  tools_ = new QWidget(this);
  tools_->setObjectName("plotTools");
  auto* row = new QHBoxLayout(tools_);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(kSpaceXs);
  smoothLabel_ = makeLabel("smoothLabel", tools_, "muted");
  smooth_ = new QSlider(Qt::Horizontal, tools_);
  smooth_->setObjectName("smoothSlider");
  smooth_->setRange(0, 99);
  smooth_->setValue(90);
  smooth_->setFixedWidth(kSliderWidth);
  pause_ = makeToolButton("pauseButton", "pause", tools_);
  pause_->setCheckable(true);
  logX_ = makeToolButton("logXButton", "logx", tools_);
  logX_->setCheckable(true);
  xAxis_ = makeToolButton("xAxisButton", "xaxis", tools_);
  follow_ = makeToolButton("followButton", "follow", tools_);
  follow_->setCheckable(true);
  row->addWidget(smoothLabel_);
  row->addWidget(smooth_);
  row->addSpacing(kSpaceS);
  row->addWidget(pause_);
  row->addWidget(logX_);
  row->addWidget(xAxis_);
  row->addWidget(follow_);
  connect(smooth_, &QSlider::valueChanged, this,
          [this](int value) { stepGroup_->setSmoothing(value / 100.0); });
  connect(pause_, &QToolButton::toggled, this, [this](bool on) {
    for (PlotGroup* group : groups()) group->setPaused(on);
  });
  connect(logX_, &QToolButton::toggled, stepGroup_, &PlotGroup::setLogX);
  connect(xAxis_, &QToolButton::clicked, this, &RunPage::showXMenu);
  connect(follow_, &QToolButton::clicked, this, [this] {
    for (PlotGroup* group : groups()) group->follow();
    refreshFollow();
  });
  for (PlotGroup* group : groups())
    connect(group, &PlotGroup::followingChanged, this, &RunPage::refreshFollow);
  refreshFollow();
}

void RunPage::showXMenu() {
  auto* menu = new QMenu(this);
  menu->setObjectName("xAxisMenu");
  menu->setAttribute(Qt::WA_DeleteOnClose);
  // Samples are read when they are first asked for.
  const std::vector<std::string> known = document_->metrics();
  const auto add = [&](const char* name, const std::string& series, const QString& text) {
    QAction* choice = menu->addAction(text, this, [this, series] { setXSeries(series); });
    choice->setObjectName(name);
    choice->setCheckable(true);
    choice->setChecked(series == xSeries_);
    choice->setEnabled(series.empty() ||
                       std::find(known.begin(), known.end(), series) != known.end());
  };
  add("xAxisSteps", "", tr("Steps"));
  add("xAxisSamples", "samples", tr("Samples"));
  add("xAxisTokens", "tokens", tr("Tokens"));
  menu->popup(xAxis_->mapToGlobal(QPoint(0, xAxis_->height())));
}

void RunPage::setXSeries(const std::string& series) {
  xSeries_ = series;
  if (series.empty())
    stepGroup_->setXScale(std::nullopt, {});
  else
    stepGroup_->setXScale(SeriesScale(document_->series(series)),
                          series == "samples" ? tr("samples") : tr("tokens"));
}

QWidget* RunPage::buildOverview() {
  auto* page = new Overview(this);
  page->setObjectName("runOverview");
  auto* grid = overviewGrid_ = new QGridLayout(page);
  grid->setContentsMargins(0, kSpaceM, 0, 0);
  grid->setSpacing(kSpaceM);
  const auto plotCard = [&](PlotView*& plot, const QString& name, PlotGroup* group) {
    auto* card = new Card(name + "Card", page);
    plot = new PlotView(name, card);
    card->body()->addWidget(plot, 1);
    addToGroup(group, plot);
    return card;
  };
  grid->addWidget(plotCard(loss_, "lossPlot", stepGroup_), 0, 0);
  grid->addWidget(plotCard(metric_, "metricPlot", stepGroup_), 0, 1);
  grid->addWidget(plotCard(throughput_, "throughputPlot", stepGroup_), 1, 0);
  throughput_->setFromZero(true);
  grid->addWidget(buildBreakdown(page), 1, 1);
  grid->addWidget(plotCard(rate_, "learningRatePlot", stepGroup_), 2, 0);
  grid->addWidget(plotCard(gradientNorm_, "gradientNormPlot", stepGroup_), 2, 1);
  rate_->setFromZero(true);
  gradientNorm_->setLogY(true);
  for (int row = 0; row < 3; ++row) grid->setRowStretch(row, 1);
  for (auto* card : page->findChildren<Card*>(Qt::FindDirectChildrenOnly))
    card->setMinimumHeight(kOverviewCardHeight);
  grid->setColumnStretch(0, 1);
  grid->setColumnStretch(1, 1);
  return scrolled(page, this);
}

// Measured and predicted step time of each rank, as bars or as a table.
QWidget* RunPage::buildBreakdown(QWidget* page) {
  breakdownCard_ = new Card("breakdownCard", page);
  bars_ = new BreakdownBars("breakdownBars", page);
  bars_->setContextMenuPolicy(Qt::CustomContextMenu);
  connect(bars_, &QWidget::customContextMenuRequested, this,
          [this](const QPoint& at) { showPictureMenu(bars_, bars_->mapToGlobal(at)); });
  breakdownModel_ = new BreakdownModel(this);
  breakdownTable_ = new QTableView(page);
  breakdownTable_->setObjectName("breakdownTable");
  breakdownTable_->setModel(breakdownModel_);
  applyTableStyle(breakdownTable_);
  setColumns(breakdownTable_, {64, 96, 66, 82, 92, 78, 78, 88, 72});
  breakdownEmpty_ = makeLabel("breakdownEmpty", page, "muted");
  breakdownEmpty_->setAlignment(Qt::AlignCenter);
  breakdownEmpty_->setWordWrap(true);
  breakdownStack_ = new QStackedWidget(page);
  breakdownStack_->addWidget(breakdownEmpty_);
  breakdownStack_->addWidget(scrolled(bars_, page));
  breakdownStack_->addWidget(breakdownTable_);
  breakdownAsTable_ = makeToolButton("breakdownAsTable", "table", page);
  breakdownAsTable_->setCheckable(true);
  breakdownCard_->head()->addWidget(breakdownAsTable_);
  breakdownCard_->body()->addWidget(breakdownStack_, 1);
  connect(breakdownAsTable_, &QToolButton::toggled, this, &RunPage::refreshBreakdown);
  return breakdownCard_;
}

QWidget* RunPage::buildNodes() {
  auto* page = new QWidget(this);
  page->setObjectName("runNodes");
  auto* grid = new QGridLayout(page);
  grid->setContentsMargins(0, kSpaceM, 0, 0);
  grid->setSpacing(kSpaceM);
  int at = 0;
  for (auto [plot, name] : {std::pair<PlotView**, const char*>{&cpu_, "cpuPlot"},
                            {&memory_, "memoryPlot"},
                            {&network_, "networkPlot"},
                            {&disk_, "diskPlot"}}) {
    auto* card = new Card(QString(name) + "Card", page);
    *plot = new PlotView(name, card);
    (*plot)->setXAxis(PlotView::XAxis::kTime);
    card->body()->addWidget(*plot, 1);
    addToGroup(timeGroup_, *plot);
    grid->addWidget(card, at / 2, at % 2);
    ++at;
  }
  for (PlotView* plot : {cpu_, memory_, network_, disk_}) plot->setSorted(true);
  cpu_->setUnit(PlotView::Unit::kPercent);
  memory_->setUnit(PlotView::Unit::kBytes);
  network_->setUnit(PlotView::Unit::kByteRate);
  disk_->setUnit(PlotView::Unit::kByteRate);
  for (PlotView* plot : {memory_, network_, disk_}) plot->setFromZero(true);
  nodeGrid_ = grid;
  return scrolled(page, this);
}

// Of a program only the loss and its other values are known: each has a plot, two in a row.
void RunPage::showAsProgram() {
  if (asProgram_ || !document_->ofProgram()) return;
  asProgram_ = true;
  for (Figure* figure : {metricFigure_, throughputFigure_, stepTime_}) figure->hide();
  progress_->hide();
  tabs_->setTabVisible(static_cast<int>(parts_.indexOf("traffic")), false);
  whatIf_->hide();
  showStepsOfProgram();
  const auto hidden = [this](QWidget* card) {
    overviewGrid_->removeWidget(card);
    card->hide();
  };
  for (QWidget* plot : std::initializer_list<QWidget*>{metric_, throughput_, rate_, gradientNorm_})
    hidden(plot->parentWidget());
  hidden(breakdownCard_);
  for (int row = 1; row < overviewGrid_->rowCount(); ++row) overviewGrid_->setRowStretch(row, 0);
  overviewGrid_->removeWidget(loss_->parentWidget());
  overviewGrid_->addWidget(loss_->parentWidget(), 0, 0, 1, 2);
}

// Of most programs steps are known after a while.
void RunPage::showStepsOfProgram() {
  const bool known = document_->measuresSteps();
  for (const char* part : {"steps", "stragglers"})
    if (const int tab = static_cast<int>(parts_.indexOf(part)); tabs_->isTabVisible(tab) != known)
      tabs_->setTabVisible(tab, known);  // which draws all of the page again
}

// With its first data.
void RunPage::placeValue(const std::string& name) {
  showAsProgram();
  constexpr std::size_t kMostPlots = 60;  // the dashboard has all others
  if (!values_.contains(name) && values_.size() >= kMostPlots) return;
  PlotView*& plot = values_[name];
  if (plot == nullptr) {
    QWidget* page = overviewGrid_->parentWidget();
    const QString label = metricText(QString::fromStdString(name));
    auto* card = new Card("valueCard", page);
    plot = new PlotView("valuePlot/" + QString::fromStdString(name), card);
    plot->setTexts(label, tr("step"), {}, tr("No data yet."));
    card->body()->addWidget(plot, 1);
    card->setMinimumHeight(kOverviewCardHeight);
    addToGroup(stepGroup_, plot);
    const auto at = static_cast<int>(values_.size());  // the loss is alone in the first row
    if (at == 1) {
      overviewGrid_->removeWidget(loss_->parentWidget());
      overviewGrid_->addWidget(loss_->parentWidget(), 0, 0);
    }
    overviewGrid_->addWidget(card, at / 2, at % 2);
    overviewGrid_->setRowStretch(at / 2, 1);
  }
  const auto line = document_->series(name);
  line->name = tr("training");
  line->colorIndex = static_cast<int>(values_.size());
  line->setSmoothing(smooth_->value() / 100.0);
  const auto& there = plot->series();
  if (std::find(there.begin(), there.end(), line) == there.end()) plot->addSeries(line);
}

void RunPage::addToGroup(PlotGroup* group, PlotView* plot) {
  group->add(plot);
  connect(plot, &PlotView::rangeShown, this, [this, plot](double lower, double upper, int pixels) {
    document_->refine(plot->series(), lower, upper, pixels);
  });
}

void RunPage::placeSeries(const QString& qname) {
  if (qname.startsWith("node/") && !nodesOpened_) return;
  const std::string name = qname.toStdString();
  if (document_->ofProgram() && name != "loss" && !qname.startsWith("node/") &&
      !qname.startsWith("rank/"))
    return placeValue(name);
  const auto add = [&](PlotView* plot, const QString& shown, int color,
                       const QString& quantity = {}) {
    const auto line = document_->series(name);
    line->name = shown;
    line->quantity = quantity;
    if (color >= 0) line->colorIndex = color;  // else the plot's
    if (std::find(plot->series().begin(), plot->series().end(), line) == plot->series().end()) {
      plot->addSeries(line);
    }
    return line;
  };
  const auto nodeOf = [&] { return qname.section('/', 1, 1); };
  if (name == "loss") {
    add(loss_, tr("training"), 0)->setSmoothing(smooth_->value() / 100.0);
  } else if (app::isMetric(name)) {
    add(metric_, tr("training"), 0)->setSmoothing(smooth_->value() / 100.0);
  } else if (name == "samples_per_second") {
    add(throughput_, tr("samples per second"), 2)->setSmoothing(smooth_->value() / 100.0);
  } else if (name == "tokens_per_second") {
    // Of another size than samples, which a click on the legend shows again.
    const auto& there = throughput_->series();
    if (std::find(there.begin(), there.end(), document_->series(name)) == there.end())
      document_->series("samples_per_second")->visible = false;
    add(throughput_, tr("tokens per second"), 3)->setSmoothing(smooth_->value() / 100.0);
  } else if (name == "learning_rate") {
    add(rate_, tr("learning rate"), 4);
  } else if (name == "gradient_norm") {
    add(gradientNorm_, tr("gradient norm"), 5)->setSmoothing(smooth_->value() / 100.0);
  } else if (name == "update_ratio") {
    add(gradientNorm_, tr("update ratio"), 6)->setSmoothing(smooth_->value() / 100.0);
  } else if (name.starts_with("epoch/eval_")) {
    // Over epochs: drawn at the step on which the epoch ended (see placeEvaluations).
  } else if (qname.startsWith("node/") && qname.section('/', 2, 2) == "gpu") {
    placeGpuSeries(qname);
  } else if (qname.startsWith("node/") && qname.endsWith("/cpu")) {
    add(cpu_, nodeOf(), -1);
  } else if (qname.startsWith("node/") && qname.endsWith("/memory")) {
    add(memory_, nodeOf(), -1);
  } else if (qname.startsWith("node/") &&
             (qname.endsWith("/net_in") || qname.endsWith("/net_out") ||
              qname.endsWith("/loopback"))) {
    const QString what = qname.section('/', 2, 2);
    const QString quantity = what == "net_in"    ? tr("in")
                             : what == "net_out" ? tr("out")
                                                 : tr("loopback");
    add(network_, nodeOf() + " " + quantity, -1, quantity);
  } else if (qname.startsWith("node/") &&
             (qname.endsWith("/disk_read") || qname.endsWith("/disk_write"))) {
    const QString quantity = qname.endsWith("read") ? tr("read") : tr("written");
    add(disk_, nodeOf() + " " + quantity, -1, quantity);
  }
}

// Evaluations lie over epochs; on the step axis they stand where their epoch ended.
void RunPage::placeEvaluations(const std::vector<app::EpochRow>& tested) {
  const auto evaluated = [&](const char* name, PlotView* plot, double app::EpochRow::*field) {
    const auto line = document_->series(name);
    line->name = tr("evaluation");
    if (line->raw().size() == tested.size() &&
        (line->raw().size() == 0 ||
         line->raw().x(line->raw().size() - 1) == static_cast<double>(tested.back().step)))
      return;
    std::vector<app::Point> points;
    for (const auto& epoch : tested)
      points.push_back({static_cast<double>(epoch.step), epoch.*field});
    document_->curves().replace(name, points);
    line->dots = true;
    line->colorIndex = 1;
    if (std::find(plot->series().begin(), plot->series().end(), line) == plot->series().end())
      plot->addSeries(line);
    plot->markDirty();
  };
  evaluated("evaluated/loss", loss_, &app::EpochRow::evalLoss);
  if (!document_->row().figures.metric.empty())
    evaluated("evaluated/metric", metric_, &app::EpochRow::evalMetric);
}

// With the first GPU's data: most runs need none of it.
void RunPage::buildGpuPlots() {
  QWidget* page = nodeGrid_->parentWidget();
  for (const auto& [figure, name] : {std::pair{"utilisation", "gpuPlot"},
                                     {"memory", "gpuMemoryPlot"},
                                     {"temperature", "temperaturePlot"},
                                     {"power", "powerPlot"},
                                     {"sm_clock", "clockPlot"},
                                     {"pcie", "pciePlot"},
                                     {"nvlink", "nvlinkPlot"},
                                     {"throttled", "throttledPlot"}}) {
    auto* card = new Card(QString(name) + "Card", page);
    auto* plot = new PlotView(name, card);
    plot->setXAxis(PlotView::XAxis::kTime);
    plot->setSorted(true);
    card->body()->addWidget(plot, 1);
    addToGroup(timeGroup_, plot);
    card->hide();
    plot->setFromZero(strcmp(figure, "temperature") != 0);
    gpuPlots_ << GpuPlot{figure, plot, card};
  }
  gpuPlots_[0].plot->setUnit(PlotView::Unit::kPercent);
  gpuPlots_[1].plot->setUnit(PlotView::Unit::kBytes);
  gpuPlots_[5].plot->setUnit(PlotView::Unit::kByteRate);
  gpuPlots_[6].plot->setUnit(PlotView::Unit::kByteRate);
  gpuPlots_[7].plot->setUnit(PlotView::Unit::kPercent);
  nameGpuPlots();
  // More rows than the page has room for: it scrolls, and a plot keeps a height that can be read.
  for (auto* card : page->findChildren<Card*>(Qt::FindDirectChildrenOnly))
    card->setMinimumHeight(kPlotCardHeight);
}

void RunPage::nameGpuPlots() {
  const QString titles[] = {tr("GPU use"),   tr("GPU memory"),   tr("GPU temperature"),
                            tr("GPU power"), tr("SM clock"),     tr("PCIe"),
                            tr("NVLink"),    tr("GPU throttled")};
  const QString units[] = {{}, {}, QString::fromUtf8("°C"), "W", "MHz", {}, {}, {}};
  for (int i = 0; i < gpuPlots_.size(); ++i)
    gpuPlots_[i].plot->setTexts(titles[i], tr("time"), units[i], tr("No data yet."));
}

// "node/n1/gpu/0/power". A card takes its place in the grid with the first data for it.
void RunPage::placeGpuSeries(const QString& name) {
  if (gpuPlots_.isEmpty()) buildGpuPlots();
  const QString figure = name.section('/', 4, 4);
  const QString gpu = name.section('/', 1, 1) + ':' + name.section('/', 3, 3);
  for (const GpuPlot& one : gpuPlots_) {
    const bool traffic =
        figure == QString(one.figure) + "_in" || figure == QString(one.figure) + "_out";
    if (figure != one.figure && !traffic) continue;
    const auto line = document_->series(name.toStdString());
    if (traffic) line->quantity = figure.endsWith("_in") ? tr("in") : tr("out");
    line->name = traffic ? gpu + ' ' + line->quantity : gpu;
    const auto& there = one.plot->series();
    if (std::find(there.begin(), there.end(), line) == there.end()) one.plot->addSeries(line);
    if (!one.card->isHidden()) return;
    one.card->show();
    int at = 4;
    for (const GpuPlot& shown : gpuPlots_) {
      if (shown.card->isHidden()) continue;
      nodeGrid_->addWidget(shown.card, at / 2, at % 2);
      ++at;
    }
    return;
  }
}

void RunPage::refreshFollow() {
  const QVector<PlotGroup*> all = groups();
  follow_->setChecked(std::all_of(all.begin(), all.end(),
                                  [](const PlotGroup* group) { return group->following(); }));
}

void RunPage::refreshBreakdown() {
  std::vector<BreakdownBar> bars;
  const app::Preview* prediction = document_->prediction();
  const auto& measured = document_->breakdown();
  const std::size_t ranks = std::max(measured.size(), prediction ? prediction->ranks.size() : 0);
  for (std::size_t i = 0; i < ranks; ++i) {
    BreakdownBar bar;
    bar.name = tr("rank %1").arg(i);
    if (i < measured.size()) {
      const auto& m = measured[i];
      bar.measured = {m.data, m.forward, m.backward, m.waiting, m.transfer, m.optimizer};
      bar.hasMeasured = true;
    } else {
      // From the history: the mean over the run.
      using app::StepMeasure;
      constexpr StepMeasure kPhases[] = {StepMeasure::kData,     StepMeasure::kForward,
                                         StepMeasure::kBackward, StepMeasure::kWaiting,
                                         StepMeasure::kTransfer, StepMeasure::kOptimizer};
      for (std::size_t phase = 0; phase < std::size(kPhases); ++phase) {
        const double mean = document_->steps().mean(kPhases[phase], static_cast<int>(i));
        if (std::isnan(mean)) continue;
        bar.measured[phase] = mean;
        bar.hasMeasured = true;
      }
    }
    if (prediction && i < prediction->ranks.size()) {
      const auto& p = prediction->ranks[i];
      bar.predicted = {p.data, p.forward, p.backward, p.waiting, p.transfer, p.optimizer};
      bar.hasPredicted = true;
    }
    bar.flagged = document_->slow() && document_->slow()->rank == static_cast<int>(i);
    bars.push_back(bar);
  }
  breakdownModel_->setBars(bars);
  bars_->setBars(std::move(bars));
  breakdownStack_->setCurrentIndex(ranks == 0 ? 0 : breakdownAsTable_->isChecked() ? 2 : 1);
  refreshFigures();
}

void RunPage::nameMetric() {
  const std::string& metric = shownMetric_ = document_->row().figures.metric;
  metricFigure_->setName(metricName(metric));
  metric_->setTexts(metricName(metric), tr("step"), {}, tr("No data yet."));
  metric_->setUnit(metric == "accuracy" ? PlotView::Unit::kPercent : PlotView::Unit::kNumber);
}

}  // namespace lockstep::ui
