#include "ui/pages/run_page.h"

#include <QComboBox>
#include <QCryptographicHash>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QSlider>
#include <QSplitter>
#include <QStackedWidget>
#include <QTabWidget>
#include <QTableView>
#include <QToolButton>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "ui/models/breakdown_model.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kPlotCardHeight = 208;

// Scrolls only where its least height is not there: wrapped labels would have it scroll already at
// the height it likes.
class Overview : public QWidget {
 public:
  using QWidget::QWidget;
  int heightForWidth(int) const override { return minimumSizeHint().height(); }
};

QScrollArea* scrolled(QWidget* inner, QWidget* parent) {
  auto* area = new QScrollArea(parent);
  area->setObjectName(inner->objectName() + "Scroll");
  area->setWidget(inner);
  area->setWidgetResizable(true);
  area->setFocusPolicy(Qt::NoFocus);
  area->viewport()->setAutoFillBackground(false);
  inner->setAutoFillBackground(false);
  return area;
}

}  // namespace

RunPage::RunPage(std::unique_ptr<RunDocument> document, QWidget* parent)
    : Page("runPage", "run:" + document->run(), parent), document_(document.release()) {
  document_->setParent(this);
  stepGroup_ = new PlotGroup(this);
  timeGroup_ = new PlotGroup(this);
  buildHead();
  tabs_ = new QTabWidget(this);
  tabs_->setObjectName("runTabs");
  auto* overview = new QWidget(this);
  overview->setObjectName("runOverviewTab");
  auto* column = new QVBoxLayout(overview);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(kSpaceM);
  column->addWidget(scrolled(buildOverview(), this), 1);
  column->addWidget(slowCard_);  // in sight however low the window
  tabs_->addTab(overview, {});
  tabs_->addTab(scrolled(buildNodes(), this), {});
  tabs_->addTab(buildLogs(), {});
  tabs_->setCornerWidget(tools_, Qt::TopRightCorner);
  body()->addWidget(tabs_, 1);

  connect(stop_, &QPushButton::clicked, document_, &RunDocument::stop);
  connect(kill_, &QPushButton::clicked, document_, &RunDocument::kill);
  connect(resume_, &QPushButton::clicked, this,
          [this] { Q_EMIT relaunchWanted(app::RelaunchKind::kResume); });
  connect(rerun_, &QPushButton::clicked, this,
          [this] { Q_EMIT relaunchWanted(app::RelaunchKind::kRerun); });
  connect(clone_, &QPushButton::clicked, this, &RunPage::cloneWanted);
  connect(message(), &MessagePanel::actionTriggered, this, [this] {
    if (unreachableNs_ != 0) document_->giveUp();
  });
  connect(document_, &RunDocument::rowChanged, this, &RunPage::refreshRow);
  connect(document_, &RunDocument::seriesAdded, this, &RunPage::placeSeries);
  connect(document_, &RunDocument::breakdownChanged, this, &RunPage::refreshBreakdown);
  connect(document_, &RunDocument::slowChanged, this, [this] {
    refreshSlow();
    alertStraggler();
  });
  connect(document_, &RunDocument::dataChanged, this, [this] {
    stepGroup_->dataChanged();
    timeGroup_->dataChanged();
    refreshFigures();
  });
  connect(document_, &RunDocument::failed, this, [this](const Error& error) {
    reachShown_ = false;
    message()->showError(error);
    alertError(Tone::kBad, error);
  });
  connect(document_, &RunDocument::warned, this,
          [this](const Error& warning) { alertError(Tone::kWarning, warning); });
  connect(
      document_, &RunDocument::nodeNote, this,
      [this](const QString& node, bool reachable, const QString&) {
        const QString key = this->key() + ":node:" + node;
        if (reachable) {
          Q_EMIT alertOver(key);
        } else {
          Q_EMIT alertRaised(
              {key, Tone::kWarning, title(), unreachableText(node.toStdString()), {}, true, {}});
        }
      });
  connect(document_, &RunDocument::finished, this, [this] {
    // What there is to see is all there.
    for (PlotGroup* group : {stepGroup_, timeGroup_}) group->follow();
    const app::RunState phase = document_->row().phase;
    Q_EMIT alertRaised(
        {key() + ":end", runPhaseTone(phase), title(), runOutcome(phase), {}, false, {}});
    alertStraggler();
  });
  connect(&second_, &QTimer::timeout, this, &RunPage::refreshFigures);
  second_.start(1000);
  connect(&Theme::instance(), &Theme::changed, this, &RunPage::restyle);
  for (const auto& [name, series] : document_->allSeries())
    placeSeries(QString::fromStdString(name));
  restyle();
  retranslate();
}

RunPage::~RunPage() {
  document_->disconnect(this);
  document_->blockSignals(true);
}

void RunPage::buildHead() {
  auto* head = new QHBoxLayout;
  head->setSpacing(kSpaceS);
  heading_ = makeLabel("runHeading", this);
  badge_ = new StateBadge("runState", this);
  runId_ = new ElidedLabel("runId", this, "muted");
  stop_ = makeButton("stopButton", "stop", this);
  kill_ = makeButton("killButton", "kill", this, "danger");
  head->addWidget(heading_);
  head->addWidget(badge_);
  head->addWidget(runId_);  // where there is room; the inspector has it too
  head->addStretch(1);
  clone_ = makeButton("cloneButton", "copy", this);
  rerun_ = makeButton("rerunButton", "refresh", this);
  resume_ = makeButton("resumeButton", "play", this, "primary");
  for (QPushButton* button : {stop_, kill_, clone_, rerun_, resume_}) head->addWidget(button);
  body()->addLayout(head);
  auto* figures = new QHBoxLayout;
  figures->setSpacing(kSpaceXl);
  step_ = new Figure("runStep", this);
  lossFigure_ = new Figure("runLoss", this);
  metricFigure_ = new Figure("runMetric", this);
  throughputFigure_ = new Figure("runThroughput", this);
  stepTime_ = new Figure("runStepTime", this);
  time_ = new Figure("runTime", this);
  for (Figure* figure : {step_, lossFigure_, metricFigure_, throughputFigure_, stepTime_, time_}) {
    figures->addWidget(figure, 1);
  }
  body()->addLayout(figures);
  progress_ = new QProgressBar(this);
  progress_->setObjectName("runProgress");
  progress_->setTextVisible(false);
  progress_->setRange(0, 1000);
  body()->addWidget(progress_);

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
  smooth_->setFixedWidth(110);
  pause_ = makeToolButton("pauseButton", "pause", tools_);
  pause_->setCheckable(true);
  logX_ = makeToolButton("logXButton", "logx", tools_);
  logX_->setCheckable(true);
  follow_ = makeToolButton("followButton", "follow", tools_);
  follow_->setCheckable(true);
  row->addWidget(smoothLabel_);
  row->addWidget(smooth_);
  row->addSpacing(kSpaceS);
  row->addWidget(pause_);
  row->addWidget(logX_);
  row->addWidget(follow_);
  connect(smooth_, &QSlider::valueChanged, this,
          [this](int value) { stepGroup_->setSmoothing(value / 100.0); });
  connect(pause_, &QToolButton::toggled, this, [this](bool on) {
    stepGroup_->setPaused(on);
    timeGroup_->setPaused(on);
  });
  connect(logX_, &QToolButton::toggled, stepGroup_, &PlotGroup::setLogX);
  connect(follow_, &QToolButton::clicked, this, [this] {
    stepGroup_->follow();
    timeGroup_->follow();
    refreshFollow();
  });
  for (PlotGroup* group : {stepGroup_, timeGroup_})
    connect(group, &PlotGroup::followingChanged, this, &RunPage::refreshFollow);
  refreshFollow();
}

QWidget* RunPage::buildOverview() {
  auto* page = new Overview(this);
  page->setObjectName("runOverview");
  auto* grid = new QGridLayout(page);
  grid->setContentsMargins(0, kSpaceM, 0, 0);
  grid->setSpacing(kSpaceM);
  const auto plotCard = [&](PlotView*& plot, const QString& name, PlotGroup* group) {
    auto* card = new Card(name + "Card", page);
    plot = new PlotView(name, card);
    card->body()->addWidget(plot, 1);
    group->add(plot);
    return card;
  };
  grid->addWidget(plotCard(loss_, "lossPlot", stepGroup_), 0, 0);
  grid->addWidget(plotCard(metric_, "metricPlot", stepGroup_), 0, 1);
  grid->addWidget(plotCard(throughput_, "throughputPlot", stepGroup_), 1, 0);
  throughput_->setFromZero(true);

  breakdownCard_ = new Card("breakdownCard", page);
  bars_ = new BreakdownBars("breakdownBars", page);
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
  grid->addWidget(breakdownCard_, 1, 1);

  slowCard_ = new Card("stragglerPanel", this);
  slowHead_ = makeLabel("stragglerWho", this);
  slowText_ = makeLabel("stragglerEvidence", this, "muted");
  for (QLabel* label : {slowHead_, slowText_}) {
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    slowCard_->body()->addWidget(label);
  }
  // As high with a straggler as without: nothing moves when one comes or goes.
  slowCard_->layout()->setContentsMargins(kSpaceL, kSpaceXs, kSpaceL, kSpaceS);
  slowCard_->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Maximum);
  slowHead_->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Maximum);
  slowText_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  slowText_->setMinimumHeight(2 * slowText_->fontMetrics().lineSpacing());
  grid->setRowStretch(0, 1);
  grid->setRowStretch(1, 1);
  grid->setColumnStretch(0, 1);
  grid->setColumnStretch(1, 1);
  return page;
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
    timeGroup_->add(*plot);
    grid->addWidget(card, at / 2, at % 2);
    ++at;
  }
  for (PlotView* plot : {cpu_, memory_, network_, disk_}) plot->setSorted(true);
  cpu_->setPercent(true);
  memory_->setBytes(true);
  network_->setRate(true);
  disk_->setRate(true);
  for (PlotView* plot : {memory_, network_, disk_}) plot->setFromZero(true);
  nodeGrid_ = grid;
  return page;
}

QWidget* RunPage::buildLogs() {
  auto* page = new QWidget(this);
  page->setObjectName("runLogs");
  auto* layout = new QVBoxLayout(page);
  layout->setContentsMargins(0, kSpaceM, 0, 0);
  layout->setSpacing(kSpaceS);
  auto* row = new QHBoxLayout;
  logSearch_ = new QLineEdit(page);
  logSearch_->setObjectName("logSearch");
  logSearch_->setClearButtonEnabled(true);
  logRank_ = new QComboBox(page);
  logRank_->setObjectName("logRank");
  logLevel_ = new QComboBox(page);
  logLevel_->setObjectName("logLevel");
  row->addWidget(logSearch_, 1);
  row->addWidget(logRank_);
  row->addWidget(logLevel_);
  layout->addLayout(row);
  logFilter_ = new LogFilter(this);
  logFilter_->setSourceModel(document_->logs());
  logTable_ = new QTableView(page);
  logTable_->setObjectName("logTable");
  logTable_->setModel(logFilter_);
  applyTableStyle(logTable_);
  logTable_->setFont(Theme::instance().monospace());
  logTable_->verticalHeader()->setDefaultSectionSize(22);
  setColumns(logTable_, {120, 140, 400});
  layout->addWidget(logTable_, 1);
  connect(logSearch_, &QLineEdit::textChanged, logFilter_, &LogFilter::setText);
  connect(logRank_, &QComboBox::currentIndexChanged, this, [this] {
    logFilter_->setRank(logRank_->currentData().isValid() ? logRank_->currentData().toInt() : -2);
  });
  connect(logLevel_, &QComboBox::currentIndexChanged, this,
          [this] { logFilter_->setLowestLevel(logLevel_->currentData().toInt()); });
  // The newest line stays in view while the table stands at its end.
  connect(logFilter_, &QAbstractItemModel::rowsInserted, this, [this] {
    const QScrollBar* bar = logTable_->verticalScrollBar();
    if (bar->value() >= bar->maximum() - 2)
      QTimer::singleShot(0, logTable_, &QTableView::scrollToBottom);
  });
  return page;
}

void RunPage::placeSeries(const QString& qname) {
  const std::string name = qname.toStdString();
  const auto line = document_->series(name);
  const auto add = [&](PlotView* plot, const QString& shown, int color) {
    line->name = shown;
    if (color >= 0) line->colorIndex = color;  // else the plot's
    if (std::find(plot->series().begin(), plot->series().end(), line) == plot->series().end()) {
      plot->addSeries(line);
    }
  };
  const auto nodeOf = [&] { return qname.section('/', 1, 1); };
  if (name == "loss") {
    add(loss_, tr("training"), 0);
    line->setSmoothing(smooth_->value() / 100.0);
  } else if (app::isMetric(name)) {
    add(metric_, tr("training"), 0);
    line->setSmoothing(smooth_->value() / 100.0);
  } else if (name == "samples_per_second") {
    add(throughput_, tr("samples per second"), 2);
    line->setSmoothing(smooth_->value() / 100.0);
  } else if (name.starts_with("epoch/eval_")) {
    // Over epochs: drawn at the step on which the epoch ended (see refreshFigures).
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
    add(network_,
        nodeOf() + " " +
            (what == "net_in"    ? tr("in")
             : what == "net_out" ? tr("out")
                                 : tr("loopback")),
        -1);
  } else if (qname.startsWith("node/") &&
             (qname.endsWith("/disk_read") || qname.endsWith("/disk_write"))) {
    add(disk_, nodeOf() + " " + (qname.endsWith("read") ? tr("read") : tr("written")), -1);
  }
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
    timeGroup_->add(plot);
    card->hide();
    plot->setFromZero(strcmp(figure, "temperature") != 0);
    gpuPlots_ << GpuPlot{figure, plot, card};
  }
  gpuPlots_[0].plot->setPercent(true);
  gpuPlots_[1].plot->setBytes(true);
  gpuPlots_[5].plot->setRate(true);
  gpuPlots_[6].plot->setRate(true);
  gpuPlots_[7].plot->setPercent(true);
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
    line->name = !traffic ? gpu : gpu + ' ' + (figure.endsWith("_in") ? tr("in") : tr("out"));
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

void RunPage::resizeEvent(QResizeEvent* event) {
  constexpr int kRoomForId = 940;
  Page::resizeEvent(event);
  runId_->setVisible(width() >= kRoomForId);
}

QString RunPage::title() const {
  return document_->row().name.empty() ? document_->run().left(12) : runTitle(document_->row());
}

void RunPage::find() {
  tabs_->setCurrentIndex(2);
  logSearch_->setFocus(Qt::ShortcutFocusReason);
  logSearch_->selectAll();
}

void RunPage::refreshFollow() {
  follow_->setChecked(stepGroup_->following() && timeGroup_->following());
}

// Told again, as by a history that is read anew, an error keeps its time.
void RunPage::alertError(Tone tone, const Error& error) {
  const auto& row = document_->row();
  const auto hash =
      QCryptographicHash::hash(QByteArray::fromStdString(error.text()), QCryptographicHash::Sha256);
  QDateTime when;
  if (!document_->loaded() || (app::isFinal(row.phase) && row.finishedNs > 0))
    when = QDateTime::fromMSecsSinceEpoch((row.finishedNs > 0 ? row.finishedNs : row.createdNs) /
                                          1'000'000);
  Q_EMIT alertRaised(
      {key() + ":" + hash.toHex().left(12), tone, title(), error.what, when, false, {}});
}

void RunPage::alertStraggler() {
  const auto& slow = document_->slow();
  const QString now = slow && !app::isFinal(document_->row().phase)
                          ? QString("%1:straggler:%2").arg(key()).arg(slow->rank)
                          : QString();
  if (!alertedRank_.isEmpty() && now != alertedRank_) Q_EMIT alertOver(alertedRank_);
  if (!now.isEmpty() && now != alertedRank_)
    Q_EMIT alertRaised({now, Tone::kWarning, title(), stragglerHeadline(*slow), {}, true, {}});
  alertedRank_ = now;
}

// A run out of reach goes on, or has ended unheard: only the person knows which to take it for.
void RunPage::showReach(std::int64_t sinceNs) {
  if (sinceNs == unreachableNs_) return;
  unreachableNs_ = sinceNs;
  if (sinceNs == 0) {  // an error that has come meanwhile stays
    if (std::exchange(reachShown_, false))
      message()->clear();
    else
      message()->dropAction();
    return;
  }
  reachShown_ = true;
  message()->showNote(Tone::kWarning, [sinceNs] {
    return MessagePanel::Note{tr("The run has been unreachable since %1.").arg(formatWhen(sinceNs)),
                              tr("Its coordinator does not answer. Lockstep keeps trying."),
                              tr("Giving up ends the run in the history and on all nodes that "
                                 "answer. Other nodes follow when they are connected again."),
                              tr("Give up")};
  });
}

void RunPage::refreshRow() {
  const app::RunRow& row = document_->row();
  heading_->setText(title());
  runId_->setText(document_->run());
  badge_->setState(!document_->loaded()  ? tr("reading")
                   : document_->ending() ? tr("finishing")
                                         : runStateText(row),
                   row.unreachableNs != 0 ? Tone::kWarning : runPhaseTone(row.phase));
  stop_->setEnabled(document_->canStop() && row.phase == app::RunState::RUNNING);
  kill_->setEnabled(document_->canStop());
  showReach(row.unreachableNs);
  const bool running = !app::isFinal(row.phase);
  stop_->setVisible(running);
  kill_->setVisible(running);
  for (QPushButton* button : {clone_, rerun_, resume_}) button->setVisible(!running);
  clone_->setEnabled(document_->canRelaunch());
  rerun_->setEnabled(document_->canRelaunch());
  resume_->setEnabled(document_->canResume());
  const QString rank = logRank_->currentText();
  if (logRank_->count() != row.world + 2) {
    logRank_->clear();
    logRank_->addItem(tr("All ranks"), -2);
    logRank_->addItem(tr("Supervisors"), -1);
    for (int i = 0; i < row.world; ++i) logRank_->addItem(tr("rank %1").arg(i), i);
    logRank_->setCurrentText(rank);
  }
  refreshFigures();
  refreshSlow();
  setAccessibleName(tr("Run %1").arg(title()));
  Q_EMIT titleChanged();
  Q_EMIT inspectorChanged();
}

void RunPage::refreshFigures() {
  const app::RunRow& row = document_->row();
  const std::int64_t step = document_->lastStep();
  const app::RunProgress& progress = document_->progress();
  const bool over = app::isFinal(row.phase);
  const std::int64_t total = over ? 0 : progress.totalSteps();
  const auto& epochs = document_->epochs();
  std::vector<app::EpochRow> tested;  // an evaluator's results come later
  std::copy_if(epochs.begin(), epochs.end(), std::back_inserter(tested),
               [](const app::EpochRow& epoch) { return epoch.evaluated(); });
  step_->setValue(step > 0 ? formatCount(step) : QString(QChar(0x2014)),
                  total > 0 ? tr("of %1 · epoch %2")
                                  .arg(formatCount(total))
                                  .arg(static_cast<qlonglong>(progress.epoch()))
                            : tr("epoch %1").arg(static_cast<qlonglong>(progress.epoch())));
  const auto last = [&](const char* name) {
    const auto line = document_->series(name);
    return line->shown().size() == 0 ? std::nan("") : line->shown().y(line->shown().size() - 1);
  };
  lossFigure_->setValue(
      formatNumber(last("loss"), 4),
      tested.empty() ? QString() : tr("evaluated %1").arg(formatNumber(tested.back().evalLoss, 4)));
  const std::string& metric = row.figures.metric;
  if (metric != shownMetric_) nameMetric();
  const double trained = metric.empty() ? std::nan("") : last(metric.c_str());
  metricFigure_->setValue(
      tested.empty() ? formatMetric(metric, trained, 1)
                     : formatMetric(metric, tested.back().evalMetric, 2),
      tested.empty() ? tr("training")
                     : tr("evaluated, epoch %1").arg(static_cast<qlonglong>(tested.back().epoch)));
  const app::Pace pace = document_->pace();
  const double stalled = document_->stalledSeconds();
  const QString silent =
      stalled > 0 ? tr("no step for %1 s").arg(std::llround(stalled)) : QString();
  throughputFigure_->setValue(pace.samplesPerSecond > 0
                                  ? tr("%1/s").arg(formatCount(std::llround(pace.samplesPerSecond)))
                                  : QString(QChar(0x2014)),
                              stalled > 0 ? silent : tr("samples"));
  stepTime_->setValue(
      pace.stepSeconds > 0 ? formatSeconds(pace.stepSeconds) : QString(QChar(0x2014)),
      stalled > 0 ? silent
      : row.predictedStepSeconds > 0
          ? tr("predicted %1").arg(formatSeconds(row.predictedStepSeconds))
          : QString());
  const double left = document_->remainingSeconds();
  time_->setValue(formatDuration(document_->elapsedSeconds()),
                  left >= 0 ? tr("about %1 left").arg(formatDuration(left)) : tr("elapsed"));
  // A run that ended before its time shows how far it came.
  progress_->setValue(
      row.phase == app::RunState::SUCCEEDED ? 1000 : static_cast<int>(1000 * progress.fraction()));
  // Evaluations lie over epochs; on the step axis they stand where their epoch ended.
  const auto evaluated = [&](const char* name, PlotView* plot, double app::EpochRow::*field) {
    const auto line = document_->series(name);
    line->name = tr("evaluation");
    if (line->raw().size() == tested.size() &&
        (line->raw().size() == 0 ||
         line->raw().x(line->raw().size() - 1) == static_cast<double>(tested.back().step)))
      return;
    line->clear();
    for (const auto& epoch : tested) line->append(static_cast<double>(epoch.step), epoch.*field);
    line->dots = true;
    line->colorIndex = 1;
    if (std::find(plot->series().begin(), plot->series().end(), line) == plot->series().end())
      plot->addSeries(line);
    plot->markDirty();
  };
  evaluated("evaluated/loss", loss_, &app::EpochRow::evalLoss);
  if (!metric.empty()) evaluated("evaluated/metric", metric_, &app::EpochRow::evalMetric);
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
      static const char* const phases[] = {"data",    "forward",  "backward",
                                           "waiting", "transfer", "optimizer"};
      for (int phase = 0; phase < kPhaseCount; ++phase) {
        const auto& all = document_->allSeries();
        const auto it = all.find("rank/" + std::to_string(i) + "/" + phases[phase]);
        if (it == all.end() || it->second->raw().size() == 0) continue;
        double sum = 0;
        for (std::size_t k = 0; k < it->second->raw().size(); ++k) sum += it->second->raw().y(k);
        bar.measured[static_cast<std::size_t>(phase)] =
            sum / static_cast<double>(it->second->raw().size());
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

QString RunPage::straggler() const { return document_->slow() ? slowHead_->text() : QString(); }

QString RunPage::evidenceText(const app::SlowEvidence& evidence) const {
  const QString share = formatPercent(evidence.share, 0);
  switch (evidence.cause) {
    case app::SlowCause::kStopped:
      return tr("Its process was suspended %1 of the time.").arg(share);
    case app::SlowCause::kThrottled:
      return tr("A CPU quota throttled it %1 of the time.").arg(share);
    case app::SlowCause::kCrowded:
      return tr("Other processes used its cores %1 of the time.").arg(share);
    case app::SlowCause::kFrozen:
      return tr("Its process did not run %1 of the time.").arg(share);
    case app::SlowCause::kGpuHeat:
      return tr("Its GPU %1 was thermally throttled %2 of the time.").arg(evidence.gpu).arg(share);
    case app::SlowCause::kGpuPower:
      return tr("Its GPU %1 was held at its power limit %2 of the time.")
          .arg(evidence.gpu)
          .arg(share);
    case app::SlowCause::kGpuLink:
      return tr("The PCIe link of its GPU %1 has %2 of %3 lanes.")
          .arg(evidence.gpu)
          .arg(evidence.lanes)
          .arg(evidence.lanesMax);
    case app::SlowCause::kUnknown:
      break;
  }
  return evidence.cores > 0 ? tr("It had %1 cores.").arg(formatNumber(evidence.cores, 2))
                            : QString();
}

void RunPage::refreshSlow() {
  const auto& slow = document_->slow();
  wasLive_ = wasLive_ || (document_->loaded() && !app::isFinal(document_->row().phase));
  slowText_->setVisible(slow || wasLive_);
  if (!slow) {
    slowHead_->setText(document_->row().world > 1
                           ? tr("No straggler: all ranks are near the median.")
                           : tr("A run of one rank has no stragglers."));
    slowHead_->setStyleSheet({});
    slowText_->setText(QString(QChar(0xa0)));
    refreshBreakdown();
    return;
  }
  slowHead_->setText(messageText(stragglerHeadline(*slow)));
  slowHead_->setStyleSheet(
      QString("color: %1; font-weight: 600;").arg(Theme::instance().color("bad").name()));
  QStringList lines;
  static const char* const phases[] = {"data",    "forward",  "backward",
                                       "waiting", "transfer", "optimizer"};
  QString phase = QString::fromStdString(slow->phase);
  for (int i = 0; i < kPhaseCount; ++i) {
    if (slow->phase == phases[i]) phase = phaseName(i);
  }
  if (slow->halted) {
    lines << tr("No step has completed since step %1.").arg(formatCount(slow->sinceStep));
  } else {
    lines << tr("Since step %1, mostly in %2.").arg(formatCount(slow->sinceStep), phase);
    if (const QString why = evidenceText(slow->evidence); !why.isEmpty()) lines << why;
  }
  if (slow->withoutSeconds > 0) {
    lines << tr("Without this rank a step would take %1 instead of %2.")
                 .arg(formatSeconds(slow->withoutSeconds), formatSeconds(slow->stepSeconds));
  }
  slowText_->setText(lines.join(' '));
  refreshBreakdown();
}

QVector<InspectorRow> RunPage::inspectorRows() const {
  const app::RunRow& row = document_->row();
  QVector<InspectorRow> out;
  const auto add = [&](const QString& name, const QString& value) {
    if (!value.isEmpty()) out << InspectorRow{name, value};
  };
  out << InspectorRow{tr("Run"), {}, true};
  add(tr("State"), runStateText(row));
  add(tr("Started"), formatWhen(row.startedNs));
  add(tr("Finished"), row.finishedNs > 0 ? formatWhen(row.finishedNs) : QString());
  add(tr("Error"), messageText(row.error));
  out << InspectorRow{tr("Configuration"), {}, true};
  add(tr("Model"), QString::fromStdString(row.name));
  add(tr("Strategy"), QString::fromStdString(row.strategy));
  add(tr("Cluster"), QString::fromStdString(row.clusterName));
  add(tr("Ranks"), row.world > 0 ? QString::number(row.world) : QString());
  add(tr("Communicator"), QString::fromStdString(row.comm));
  add(tr("Resumed from"), QString::fromStdString(row.resumedFrom));
  out << InspectorRow{tr("Identity"), {}, true};
  add(tr("Run"), document_->run());
  add(tr("Plan"), QString::fromStdString(row.planHash).left(16));
  add(tr("Agent"), QString::fromStdString(row.version).left(16));
  add(tr("Weights"), QString::fromStdString(row.figures.weightsSha256).left(16));
  add(tr("Model file"), formatPath(QString::fromStdString(row.modelFile)));
  return out;
}

void RunPage::nameMetric() {
  const std::string& metric = shownMetric_ = document_->row().figures.metric;
  metricFigure_->setName(metricName(metric));
  metric_->setTexts(metricName(metric), tr("step"), {}, tr("No data yet."));
  metric_->setPercent(metric == "accuracy");
}

void RunPage::restyle() {
  heading_->setFont(Theme::instance().title());
  refreshSlow();
}

void RunPage::retranslate() {
  setTexts(stop_, tr("Stop"), tr("Finish this step, save a checkpoint, stop"));
  setTexts(kill_, tr("Kill"), tr("Kill all workers, without a checkpoint"));
  setTexts(resume_, tr("Resume…"), tr("Continue from the last checkpoint, as a new run"));
  setTexts(rerun_, tr("Rerun…"), tr("Launch the same spec on the same cluster again"));
  setTexts(clone_, tr("Clone…"), tr("Open this run's spec as a new model and launch it"));
  step_->setName(tr("Step"));
  lossFigure_->setName(tr("Loss"));
  nameMetric();
  throughputFigure_->setName(tr("Throughput"));
  stepTime_->setName(tr("Step time"));
  time_->setName(tr("Time"));
  progress_->setAccessibleName(tr("Progress"));
  tabs_->setTabText(0, tr("Overview"));
  tabs_->setTabText(1, tr("Nodes"));
  tabs_->setTabText(2, tr("Logs"));
  tabs_->setAccessibleName(tr("Parts of the run"));
  smoothLabel_->setText(tr("Smoothing"));
  smooth_->setAccessibleName(tr("Smoothing"));
  setTexts(pause_, tr("Pause the plots; data keep arriving"));
  setTexts(logX_, tr("Logarithmic x axis"));
  setTexts(follow_, tr("Follow: show all data as they arrive"));
  const QString waiting = tr("No data yet.");
  loss_->setTexts(tr("Loss"), tr("step"), {}, waiting);
  throughput_->setTexts(tr("Throughput"), tr("step"), tr("samples/s"), waiting);
  cpu_->setTexts(tr("CPU"), tr("time"), {}, waiting);
  memory_->setTexts(tr("Memory"), tr("time"), {}, waiting);
  network_->setTexts(tr("Network"), tr("time"), {}, waiting);
  disk_->setTexts(tr("Disk"), tr("time"), {}, waiting);
  nameGpuPlots();
  breakdownCard_->setTitle(tr("Step time: measured above, predicted below"));
  breakdownEmpty_->setText(tr("Breakdown appears after the first steps."));
  bars_->setAccessibleName(tr("Step time of each rank"));
  breakdownTable_->setAccessibleName(tr("Step time of each rank, as a table"));
  setTexts(breakdownAsTable_, tr("Show the data as a table"));
  slowCard_->setAccessibleName(tr("Slowest rank"));
  logSearch_->setPlaceholderText(tr("Find in the logs"));
  logSearch_->setAccessibleName(tr("Find in the logs"));
  logRank_->setAccessibleName(tr("Rank"));
  logRank_->clear();
  logLevel_->setAccessibleName(tr("Level"));
  logLevel_->clear();
  logLevel_->addItem(tr("All lines"), 0);
  logLevel_->addItem(tr("Warnings and errors"), 2);
  logLevel_->addItem(tr("Errors"), 3);
  logTable_->setAccessibleName(tr("Log lines"));
  document_->logs()->retranslate();
  for (const auto& [name, series] : document_->allSeries())
    placeSeries(QString::fromStdString(name));
  refreshRow();
  refreshBreakdown();
}

}  // namespace lockstep::ui
