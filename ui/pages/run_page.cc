#include "ui/pages/run_page.h"

#include <QCryptographicHash>
#include <QHBoxLayout>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QScrollArea>
#include <QSlider>
#include <QTabBar>
#include <QTabWidget>
#include <QTableView>
#include <QToolButton>
#include <algorithm>
#include <cmath>
#include <utility>

#include "ui/dialogs/debug_dialog.h"
#include "ui/dialogs/exclude_dialog.h"
#include "ui/dialogs/rebalance_dialog.h"
#include "ui/dialogs/restart_dialog.h"
#include "ui/dialogs/what_if_panel.h"
#include "ui/models/breakdown_model.h"
#include "ui/pages/costs_panel.h"
#include "ui/pages/dashboard_view.h"
#include "ui/pages/documents_panel.h"
#include "ui/pages/run_logs.h"
#include "ui/pages/steps_panel.h"
#include "ui/pages/straggler_panel.h"
#include "ui/pages/traffic_panel.h"
#include "ui/plots/plot_group.h"
#include "ui/plots/plot_view.h"
#include "ui/studio/background.h"
#include "ui/studio/step_reader.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/breakdown_bars.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kNodesTab = 1;
constexpr qint64 kLeastPauseMs = 5000, kPauses = 20;  // between readings of the energy
constexpr int kAtOnceMs = 30'000;  // after a click, what was asked for may take the view

}  // namespace

RunPage::RunPage(std::unique_ptr<RunDocument> document, QWidget* parent)
    : Page("runPage", "run:" + document->run(), parent), document_(document.release()) {
  document_->setParent(this);
  stepGroup_ = new PlotGroup(this);
  timeGroup_ = new PlotGroup(this);
  epochGroup_ = new PlotGroup(this);
  stepGroup_->setObjectName("stepPlots");
  timeGroup_->setObjectName("timePlots");
  epochGroup_->setObjectName("epochPlots");
  buildHead();
  buildPlotTools();
  buildTabs();
  connectButtons();
  connectDocument();
  connect(&second_, &QTimer::timeout, this, &RunPage::refreshFigures);
  connect(&second_, &QTimer::timeout, this, &RunPage::showProfiled);
  connect(&second_, &QTimer::timeout, this, &RunPage::readEnergy);
  second_.start(1000);
  connect(&Theme::instance(), &Theme::changed, this, &RunPage::restyle);
  placeAllSeries();
  restyle();
  retranslate();
}

// Curves of nodes are read from the history when their tab is opened.
void RunPage::placeAllSeries() {
  const std::set<std::string> names = document_->curves().names();  // reading adds to them
  for (const std::string& name : names) placeSeries(QString::fromStdString(name));
}

RunPage::~RunPage() {
  energyStop_.request_stop();
  document_->disconnect(this);
  document_->blockSignals(true);
}

void RunPage::buildHead() {
  auto* head = new QHBoxLayout;
  head->setSpacing(kSpaceS);
  heading_ = makeHeading("runHeading", this);
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
}

void RunPage::buildTabs() {
  tabs_ = new QTabWidget(this);
  tabs_->setObjectName("runTabs");
  auto* overview = new QWidget(this);
  overview->setObjectName("runOverviewTab");
  auto* column = new QVBoxLayout(overview);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(kSpaceM);
  column->addWidget(buildOverview(), 1);
  straggler_ = new StragglerPanel(document_, this);
  column->addWidget(straggler_);  // in sight however low the window
  addPart("overview", overview);
  addPart("nodes", buildNodes());
  logs_ = new RunLogs(document_->logs(), document_->historyFolder(), document_->run().toStdString(),
                      this);
  addPart("logs", logs_);
  connect(logs_, &RunLogs::failed, this,
          [this](const Error& error) { message()->showError(error); });
  auto* reader = new StepReader(document_->historyFolder(), document_->run().toStdString(), this);
  steps_ = new StepsPanel(document_, reader, this);
  addPart("steps", scrolled(steps_, this));
  costs_ = new CostsPanel(document_, this);
  whatIf_ = new WhatIfPanel(this);
  whatIf_->setSource(whatIfOfRun(document_->historyFolder(), document_->run()));
  auto* waits = new QWidget(this);
  waits->setObjectName("runWaits");
  auto* waitsColumn = new QVBoxLayout(waits);
  waitsColumn->setContentsMargins(0, 0, 0, 0);
  waitsColumn->setSpacing(0);
  waitsColumn->addWidget(costs_, 1);
  waitsColumn->addWidget(whatIf_);
  addPart("stragglers", scrolled(waits, this));
  traffic_ = new TrafficPanel(document_, reader, this);
  addPart("traffic", scrolled(traffic_, this));
  dashboard_ = new DashboardView(*document_, {stepGroup_, timeGroup_, epochGroup_}, this);
  addPart("dashboard", dashboard_);
  connect(dashboard_, &DashboardView::problem, this,
          [this](const Error& error) { message()->showError(error); });
  documentsPanel_ = new DocumentsPanel(document_, this);
  addPart("documents", documentsPanel_);
  connect(documentsPanel_, &DocumentsPanel::saved, this, &RunPage::sayExported);
  connect(tabs_, &QTabWidget::currentChanged, this, [this] {
    Q_EMIT placeChanged();
    if (nodesOpened_ || tabs_->currentIndex() != kNodesTab) return;
    nodesOpened_ = true;
    placeAllSeries();
  });
  connect(steps_, &StepsPanel::cellChosen, this, &RunPage::showMoment);
  shareZoom();
  for (PlotGroup* group : groups())
    connect(group, &PlotGroup::cursorLeft, steps_, [this] { steps_->choose(-1, 0); });
  connect(costs_, &CostsPanel::shown, this, &RunPage::showStep);
  connect(costs_, &CostsPanel::debugWanted, this, &RunPage::debugRank);
  connect(costs_, &CostsPanel::excludeWanted, this, &RunPage::excludeNode);
  connect(reader, &StepReader::failed, this,
          [this](const Error& error) { message()->showError(error); });
  tabs_->setCornerWidget(tools_, Qt::TopRightCorner);
  body()->addWidget(tabs_, 1);
}

void RunPage::addPart(const char* name, QWidget* widget) {
  parts_ << name;
  tabs_->addTab(widget, {});
}

Place RunPage::place() const {
  return {key(), parts_.value(tabs_->currentIndex()), steps_->chosenRank(), steps_->chosenStep()};
}

void RunPage::go(const Place& place) {
  const QString name = place.part == "code" ? "documents" : place.part;  // of an earlier version
  const auto part = parts_.indexOf(name);
  if (part >= 0) tabs_->setCurrentIndex(static_cast<int>(part));
  steps_->choose(place.rank, place.step);
}

void RunPage::connectButtons() {
  connect(stop_, &QPushButton::clicked, document_, &RunDocument::stop);
  connect(kill_, &QPushButton::clicked, document_,
          [this] { document_->ask(app::RunRequest::kKill); });
  connect(resume_, &QPushButton::clicked, this,
          [this] { Q_EMIT relaunchWanted(app::RelaunchKind::kResume); });
  connect(rerun_, &QPushButton::clicked, this,
          [this] { Q_EMIT relaunchWanted(app::RelaunchKind::kRerun); });
  connect(clone_, &QPushButton::clicked, this, &RunPage::cloneWanted);
  connect(straggler_->profileButton(), &QToolButton::clicked, document_,
          [this] { document_->ask(app::RunRequest::kProfile); });
  connect(straggler_->restartButton(), &QToolButton::clicked, this, &RunPage::restartRanks);
  connect(straggler_->debugButton(), &QToolButton::clicked, this, [this] { debugRank(); });
  connect(straggler_->excludeButton(), &QToolButton::clicked, this, [this] { excludeNode(); });
  connect(straggler_->rebalanceButton(), &QToolButton::clicked, this, &RunPage::rebalance);
  connect(straggler_->fasterButton(), &QToolButton::clicked, this,
          [this] { Q_EMIT relaunchWanted(app::RelaunchKind::kFaster); });
  connect(message(), &MessagePanel::actionTriggered, this, [this] {
    if (unreachableNs_ != 0) document_->giveUp();
  });
}

void RunPage::connectDocument() {
  connect(document_, &RunDocument::rowChanged, this, &RunPage::refreshRow);
  connect(document_, &RunDocument::rowChanged, whatIf_, [this] { whatIf_->retry(); });
  connect(&document_->curves(), &RunCurves::added, this, &RunPage::placeSeries);
  connect(document_, &RunDocument::breakdownChanged, this, &RunPage::refreshBreakdown);
  connect(document_, &RunDocument::slowChanged, this, &RunPage::refreshSlow);
  connect(document_, &RunDocument::profiled, this, [this](qint64 first, int steps) {
    profiled_ = Profiled{first, first + steps - 1};
    profiled_->asked.start();
    message()->showNote(Tone::kActive, [first, last = profiled_->last] {
      return MessagePanel::Note{.what = tr("All events of steps %1 to %2 are being recorded.")
                                            .arg(formatCount(first), formatCount(last))};
    });
  });
  connect(document_, &RunDocument::checkpointAsked, this, [this] {
    checkpointAsked_ = true;
    message()->showNote(Tone::kActive, [] {
      return MessagePanel::Note{.what = tr("The run was asked for a checkpoint.")};
    });
  });
  connect(document_, &RunDocument::checkpointSaved, this, [this](qint64 step) {
    if (!std::exchange(checkpointAsked_, false)) return;
    message()->showNote(Tone::kGood, [step] {
      return MessagePanel::Note{
          .what = tr("The checkpoint of step %1 is saved.").arg(formatCount(step))};
    });
  });
  connect(document_, &RunDocument::dataChanged, this, [this] {
    for (PlotGroup* group : groups()) group->dataChanged();
    whatIf_->noteChange();
    refreshFigures();
  });
  connect(document_, &RunDocument::failed, this, [this](const Error& error) {
    checkpointAsked_ = false;  // its answer would hide the error
    if (profiled_) profiled_->isTold = false;
    message()->showError(error);
    alertError(Tone::kBad, error);
  });
  connect(document_, &RunDocument::warned, this,
          [this](const Error& warning) { alertError(Tone::kWarning, warning); });
  connect(document_, &RunDocument::restarted, this, &RunPage::showRestart);
  connect(document_, &RunDocument::alerted, this, &RunPage::showAlert);
  connect(document_, &RunDocument::finished, this, &RunPage::showEnd);
  connect(document_, &RunDocument::queuedAgain, this, [this](const QString& state) {
    message()->showNote(Tone::kActive, [state] {
      return MessagePanel::Note{
          .what = tr("The scheduler ended the run's job. It goes on when it has nodes again."),
          .why = state,
          .next = tr("Keep this page open: closing it cancels the job.")};
    });
  });
  connect(document_, &RunDocument::continued, this, [this](const QString& run) {
    message()->showNote(Tone::kGood, [run] {
      return MessagePanel::Note{.what = tr("The run goes on as run %1.").arg(run)};
    });
  });
}

void RunPage::resizeEvent(QResizeEvent* event) {
  constexpr int kRoomForId = 940;
  Page::resizeEvent(event);
  runId_->setVisible(width() >= kRoomForId);
  fitTools();
}

// All tabs are in sight: the label of the slider gives way, then the slider.
void RunPage::fitTools() {
  const int label = smoothLabel_->sizeHint().width() + kSpaceXs;
  const int tools = tools_->layout()->sizeHint().width() - smooth_->maximumWidth() + kSliderWidth -
                    (smoothLabel_->isHidden() ? 0 : label);
  const int room = width() - 2 * kSpaceL - tabs_->tabBar()->sizeHint().width();
  smoothLabel_->setVisible(tools + label <= room);
  smooth_->setFixedWidth(std::clamp(kSliderWidth + room - tools, kLeastSlider, kSliderWidth));
}

QUndoStack* RunPage::undoStack() {
  return tabs_->currentWidget() == dashboard_ ? dashboard_->undoStack() : nullptr;
}

QString RunPage::title() const {
  return document_->row().name.empty() ? document_->run().left(12) : runTitle(document_->row());
}

void RunPage::find() {
  tabs_->setCurrentWidget(logs_);
  logs_->find();
}

void RunPage::showStep(int rank, qint64 step) {
  tabs_->setCurrentIndex(static_cast<int>(parts_.indexOf("steps")));
  steps_->choose(rank, step);
}

// Shows the recorded steps once the history has them; says so where that took long.
void RunPage::showProfiled() {
  if (!profiled_) return;
  const bool over = app::isFinal(document_->row().phase);
  const qint64 last = std::min<qint64>(profiled_->last, document_->lastStep());
  if (!over && document_->lastStep() <= profiled_->last) return;
  if (!std::exchange(profiled_->isWritten, true)) return;
  const Profiled done = *std::exchange(profiled_, {});
  if (last < done.first) {  // the run has ended before
    if (done.isTold) message()->clear();
    return;
  }
  if (done.asked.elapsed() < kAtOnceMs) {
    const auto& slow = document_->slow();
    return showStep(slow && !slow->link && slow->rank >= 0 ? slow->rank : 0, done.first);
  }
  if (!done.isTold) return;
  message()->showNote(Tone::kGood, [first = done.first, last] {
    return MessagePanel::Note{.what = tr("All events of steps %1 to %2 are recorded.")
                                          .arg(formatCount(first), formatCount(last)),
                              .next = tr("Select one of them in the heat map.")};
  });
}

// The moment that a cell of the heat map is of, in all plots and in the logs; in those of nodes the
// rank's.
void RunPage::showMoment(int rank, qint64 step) {
  Q_EMIT placeChanged();
  const double began = document_->steps().began(rank, step);
  if (rank < 0) {
    stepGroup_->clearCursor();
    logs_->showAllRanks();
  } else {
    stepGroup_->setCursor(static_cast<double>(step));
    logs_->showMoment(rank, began);
  }
  if (std::isnan(began))
    timeGroup_->clearCursor();
  else
    timeGroup_->setCursor(document_->secondsIntoRun(began), nodeOfRank(rank));
}

QString RunPage::nodeOfRank(int rank) const {
  const auto nodes = document_->nodesOfRanks();
  const auto at = static_cast<std::size_t>(rank);
  return at < nodes.size() ? QString::fromStdString(nodes[at]) : QString();
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

// It lasts from the failure until the run trains again, or has ended.
void RunPage::showRestart(const app::RunRestart& restart) {
  if (restart.generation < restartShown_ ||
      (restart.begins() && restart.generation == restartShown_))
    return;  // told before
  restartShown_ = restart.generation;
  const auto when = QDateTime::fromMSecsSinceEpoch(restart.wallNs / 1'000'000);
  if (restart.begins())
    Q_EMIT alertRaised(
        {restartKey(), Tone::kWarning, title(), app::restartWarning(restart).what, when, true, {}});
  else
    Q_EMIT alertOver(restartKey(), when);
}

void RunPage::showAlert(const app::AlertEvent& event) {
  const std::string_view rule = app::alertRuleInfo(event.rule).name;
  const QString alert = QString("%1:%2:%3")
                            .arg(key(), QLatin1String(rule.data(), static_cast<int>(rule.size())),
                                 QString::fromStdString(event.subject));
  if (!event.raised) {
    Q_EMIT alertOver(alert);
    return;
  }
  const Tone tone = event.rule == app::AlertRule::kRunEnded ? runPhaseTone(document_->row().phase)
                    : event.severe                          ? Tone::kBad
                                                            : Tone::kWarning;
  Q_EMIT alertRaised({alert, tone, title(), event.text, {}, event.lasts, {}});
}

void RunPage::showEnd() {
  const std::int64_t end = document_->row().finishedNs;
  Q_EMIT alertOver(restartKey(),
                   end > 0 ? QDateTime::fromMSecsSinceEpoch(end / 1'000'000) : QDateTime());
  // All data has arrived: show all of it.
  for (PlotGroup* group : groups()) group->follow();
}

// A run out of reach goes on, or has ended unheard: only the person knows which to take it for.
void RunPage::showReach(std::int64_t sinceNs) {
  if (sinceNs == unreachableNs_) return;
  unreachableNs_ = sinceNs;
  if (sinceNs == 0) return message()->dropAction();
  message()->showNote(Tone::kWarning, [sinceNs] {
    return MessagePanel::Note{tr("The run has been unreachable since %1.").arg(formatWhen(sinceNs)),
                              tr("Its coordinator does not answer. Lockstep keeps trying."),
                              tr("Giving up ends the run in the history and on all nodes that "
                                 "answer. Other nodes follow when they are connected again."),
                              tr("Give up"), true};
  });
}

// Of an ended run with its parts, which are sums over all of its steps. Of one under way again and
// again, with pauses that are long beside the reading.
void RunPage::readEnergy() {
  const app::RunRow& row = document_->row();
  const bool ended = app::isFinal(row.phase);
  if (!document_->loaded() || document_->ending() || energyReading_) return;
  if (ended && std::exchange(energyReadFor_, row.figures.joules) == row.figures.joules) return;
  if (!ended && !isVisible()) return;
  if (!ended && energyPause_.isValid() && !energyPause_.hasExpired(energyPauseMs_)) return;
  energyReading_ = true;
  QElapsedTimer clock;
  clock.start();
  runInBackground(
      this,
      [folder = document_->historyFolder(), run = row.run, ended,
       stop = energyStop_.get_token()]() -> Result<app::RunEnergy> {
        LOCKSTEP_ASSIGN(const auto history, app::History::open(folder));
        return ended ? app::readRunEnergy(*history, run, stop)
                     : app::readEnergySoFar(*history, run);
      },
      [this, clock](Result<app::RunEnergy> drawn) {
        energyReading_ = false;
        energyPauseMs_ = std::max(kLeastPauseMs, kPauses * clock.elapsed());
        energyPause_.start();
        energy_.reset();
        if (drawn.ok()) energy_ = *std::move(drawn);
        Q_EMIT inspectorChanged();
      });
}

void RunPage::refreshRow() {
  const app::RunRow& row = document_->row();
  showAsProgram();
  heading_->setText(title());
  runId_->setText(document_->run());
  const QString awaited = messageText(document_->awaited());
  badge_->setState(!document_->loaded()                        ? tr("reading")
                   : document_->ending() || !awaited.isEmpty() ? tr("finishing")
                                                               : runStateText(row),
                   row.unreachableNs != 0 ? Tone::kWarning : runPhaseTone(row.phase));
  badge_->setToolTip(awaited);
  stop_->setEnabled(document_->canStop());
  kill_->setEnabled(document_->canKill());
  showReach(row.unreachableNs);
  const bool running = !app::isFinal(row.phase);
  stop_->setVisible(running);
  kill_->setVisible(running);
  for (QPushButton* button : {clone_, rerun_, resume_}) button->setVisible(!running);
  clone_->setEnabled(document_->canRelaunch());
  rerun_->setEnabled(document_->canRelaunch());
  resume_->setEnabled(document_->canResume());
  logs_->setRanks(row.world, document_->members());
  documentsPanel_->refresh();
  refreshFigures();
  refreshSlow();
  setAccessibleName(tr("Run %1").arg(title()));
  readEnergy();
  Q_EMIT titleChanged();
  Q_EMIT inspectorChanged();
}

void RunPage::refreshFigures() {
  if (asProgram_) showStepsOfProgram();
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
                  document_->ofProgram() ? QString()
                  : total > 0            ? tr("of %1 · epoch %2")
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
                  left >= 0 ? timeLeftText(left) : tr("elapsed"));
  // A run that ended before its time shows how far it came.
  progress_->setValue(
      row.phase == app::RunState::SUCCEEDED ? 1000 : static_cast<int>(1000 * progress.fraction()));
  placeEvaluations(tested);
}

QString RunPage::straggler() const { return document_->slow() ? straggler_->who() : QString(); }

void RunPage::debugRank(int rank) {
  if (!document_->canDebug()) return;
  const auto& slow = document_->slow();
  DebugSubject subject;
  subject.cluster = document_->cluster();
  subject.run = document_->row();
  subject.nodes = document_->documents().nodes;
  subject.rank = rank >= 0 ? rank : slow && !slow->link && slow->rank >= 0 ? slow->rank : 0;
  auto* dialog = new DebugDialog(document_->workspace(), std::move(subject), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->show();
}

void RunPage::excludeNode(const QString& wanted, const QString& why) {
  if (!document_->canExclude()) return;
  QStringList nodes;
  for (const std::string& node : document_->members()) nodes << QString::fromStdString(node);
  QString chosen = nodes.contains(wanted) ? wanted : nodes.back(), reason = why;
  if (const auto& slow = document_->slow(); slow && wanted.isEmpty()) {
    chosen = QString::fromStdString(!slow->link                  ? slow->node
                                    : slow->link->common.empty() ? slow->link->to
                                                                 : slow->link->common);
    if (!nodes.contains(chosen)) nodes << chosen;
    reason = straggler_->who() + '\n' + straggler_->evidence();
  }
  auto* dialog =
      new ExcludeDialog(document_->run(), nodes, chosen, reason, document_->ofProgram(), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, document_, [this, dialog] {
    document_->ask({app::RunRequest::kExclude, dialog->node().toStdString()});
  });
  dialog->open();
}

void RunPage::rebalance() {
  if (!document_->canRebalance()) return;
  auto* dialog = new RebalanceDialog(*document_, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, document_, [this, dialog] {
    app::RunRequest what = app::RunRequest::kRebalance;
    what.shares = dialog->shares();
    document_->ask(what);
  });
  dialog->open();
}

void RunPage::restartRanks() {
  if (!document_->canProfile()) return;
  auto* dialog = new RestartDialog(document_->run(), document_->ofProgram(), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, document_,
          [this] { document_->ask(app::RunRequest::kRestart); });
  dialog->open();
}

void RunPage::refreshSlow() {
  straggler_->refresh();
  refreshBreakdown();
}

// Libraries have names of their own.
QString RunPage::sourceName(const std::string& name) {
  if (name == "stdout") return tr("Output");
  if (name == "DistributedDataParallel") return QStringLiteral("PyTorch DDP");
  if (name == "log") return tr("import lockstep");
  if (name == "tensorboard") return tr("TensorBoard event files");
  if (name == "processor time") return tr("Processor time");
  return QString::fromStdString(name);
}

// The files that the program has left.
QVector<InspectorRow> RunPage::fileRows() const {
  QVector<InspectorRow> out;
  const app::KnownArtifacts& artifacts = document_->artifacts();
  if (!artifacts.wanted && !document_->fetching()) return out;
  out << InspectorRow{tr("Files"), {}, true};
  if (const auto& now = document_->fetching()) {
    out << InspectorRow{tr("Fetching"),
                        tr("%1 of %2")
                            .arg(formatBytes(static_cast<double>(now->bytesDone)),
                                 formatBytes(static_cast<double>(now->bytesTotal)))};
  } else if (!artifacts.found) {
    out << InspectorRow{tr("Fetched"), tr("not yet")};
  } else {
    out << InspectorRow{tr("Fetched"),
                        tr("%1, %2").arg(formatCount(artifacts.found->files),
                                         formatBytes(static_cast<double>(artifacts.found->bytes)))};
    if (artifacts.found->files > 0)
      out << InspectorRow{tr("Folder"),
                          formatPath(QString::fromStdString(artifacts.found->folder))};
    for (const Message& problem : artifacts.found->problems)
      out << InspectorRow{tr("Not fetched"), messageText(problem)};
  }
  return out;
}

// How the program's code differs from its commit.
QVector<InspectorRow> RunPage::changeRows() const {
  constexpr std::size_t kMost = 30;
  QVector<InspectorRow> out;
  const std::vector<app::ChangedFile>& files = document_->changedFiles();
  if (files.empty()) return out;
  out << InspectorRow{tr("Changed since the commit"), {}, true};
  for (std::size_t i = 0; i < std::min(files.size(), kMost); ++i)
    out << InspectorRow{QString::fromStdString(files[i].path),
                        files[i].committed ? tr("+%1 −%2").arg(formatCount(files[i].added),
                                                               formatCount(files[i].removed))
                                           : tr("not in the commit")};
  if (files.size() > kMost)
    out << InspectorRow{tr("More files"),
                        formatCount(static_cast<std::int64_t>(files.size() - kMost))};
  return out;
}

QVector<InspectorRow> RunPage::inspectorRows() const {
  const app::RunRow& row = document_->row();
  QVector<InspectorRow> out;
  const auto add = [&](const QString& name, const QString& value) {
    if (!value.isEmpty()) out << InspectorRow{name, value};
  };
  out << InspectorRow{tr("Run"), {}, true};
  const QString awaited = messageText(document_->awaited());
  add(tr("State"), awaited.isEmpty() ? runStateText(row) : awaited);
  add(tr("Started"), formatWhen(row.startedNs));
  add(tr("Finished"), row.finishedNs > 0 ? formatWhen(row.finishedNs) : QString());
  add(tr("Restarts"), row.generation > 1 ? QString::number(row.generation - 1) : QString());
  add(tr("Lost to failures"),
      row.figures.lostSeconds > 0 ? formatSeconds(row.figures.lostSeconds) : QString());
  add(tr("Effective training time"),
      row.startedNs > 0 ? formatPercent(app::effectiveTime(row), 1) : QString());
  out << energyRows(row, energy_ ? &*energy_ : nullptr);
  add(tr("Error"), messageText(row.error));
  out << InspectorRow{tr("Configuration"), {}, true};
  add(document_->ofProgram() ? tr("Program") : tr("Model"), QString::fromStdString(row.name));
  if (!document_->ofProgram()) add(tr("Strategy"), QString::fromStdString(row.strategy));
  add(tr("Cluster"), QString::fromStdString(row.clusterName));
  add(tr("Ranks"), row.world > 0 ? QString::number(row.world) : QString());
  add(tr("Communicator"), QString::fromStdString(row.comm));
  add(tr("Resumed from"), QString::fromStdString(row.resumedFrom));
  if (!document_->sources().empty()) out << InspectorRow{tr("Sources"), {}, true};
  for (const app::ProgramSource& source : document_->sources()) {
    const auto ranks = static_cast<int>(source.ranks.size());
    QStringList parts;
    if (!source.version.empty()) parts << QString::fromStdString(source.version);
    parts << (ranks >= row.world ? tr("all ranks")
                                 : tr("%1 of %2 ranks").arg(ranks).arg(row.world));
    if (!source.problem.empty())
      parts << tr("not read: %1").arg(QString::fromStdString(source.problem));
    add(sourceName(source.name), parts.join(QStringLiteral(", ")));
  }
  if (document_->prediction()) out << remarkRows(document_->prediction()->remarks);
  out << changeRows();
  out << fileRows();
  out << environmentRows(document_->environment());
  out << InspectorRow{tr("Identity"), {}, true};
  add(tr("Run"), document_->run());
  add(tr("Plan"), QString::fromStdString(row.planHash).left(16));
  add(tr("Agent"), QString::fromStdString(row.version).left(16));
  add(tr("Weights"), QString::fromStdString(row.figures.weightsSha256).left(16));
  add(tr("Model file"), formatPath(QString::fromStdString(row.modelFile)));
  return out;
}

void RunPage::restyle() {
  heading_->setFont(Theme::instance().title());
  refreshSlow();
}

void RunPage::retranslate() {
  const QString run = document_->run();
  // What it does, and the command that does the same.
  const auto tip = [&](const QString& text, const char* command) {
    return text + "\nlockstep " + QString(command).arg(run);
  };
  setTexts(stop_, tr("Stop"), tip(tr("Finish this step, save a checkpoint, stop"), "stop %1"));
  setTexts(kill_, tr("Kill"), tip(tr("Kill all workers, without a checkpoint"), "kill %1"));
  setTexts(resume_, tr("Resume…"),
           tip(tr("Continue from the last checkpoint, as a new run"), "resume %1"));
  setTexts(rerun_, tr("Rerun…"),
           tip(tr("Launch the same spec on the same cluster again"), "rerun %1"));
  setTexts(clone_, tr("Clone…"),
           tip(tr("Open this run's spec as a new model and launch it"),
               "history export %1 --format yaml"));
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
  tabs_->setTabText(3, tr("Steps"));
  tabs_->setTabText(4, tr("Stragglers"));
  tabs_->setTabText(5, tr("Traffic"));
  tabs_->setTabText(6, tr("Dashboard"));
  tabs_->setTabText(7, tr("Documents"));
  tabs_->setTabToolTip(2, "lockstep logs " + run);
  tabs_->setTabToolTip(3, QString("lockstep steps %1\nlockstep timeline %1").arg(run));
  tabs_->setTabToolTip(4, "lockstep stragglers " + run);
  tabs_->setTabToolTip(5, "lockstep traffic " + run);
  tabs_->setTabToolTip(7, QString("lockstep history show %1 --document plan").arg(run));
  tabs_->setAccessibleName(tr("Parts of the run"));
  smoothLabel_->setText(tr("Smoothing"));
  smooth_->setAccessibleName(tr("Smoothing"));
  smooth_->setToolTip(tr("Smoothing"));
  fitTools();
  setTexts(pause_, tr("Pause the plots; data keep arriving"));
  setTexts(logX_, tr("Logarithmic x axis"));
  setTexts(xAxis_, tr("Label the x axis in steps, samples or tokens"));
  setXSeries(xSeries_);
  setTexts(follow_, tr("Follow: show all data as they arrive"));
  const QString waiting = tr("No data yet.");
  loss_->setTexts(tr("Loss"), tr("step"), {}, waiting);
  throughput_->setTexts(tr("Throughput"), tr("step"), tr("per second"), waiting);
  rate_->setTexts(tr("Learning rate"), tr("step"), {}, waiting);
  gradientNorm_->setTexts(tr("Gradient norm"), tr("step"), {},
                          tr("No data yet. training.watch.every says in which steps it is "
                             "measured."));
  cpu_->setTexts(tr("CPU"), tr("time"), {}, waiting);
  memory_->setTexts(tr("Memory"), tr("time"), {}, waiting);
  network_->setTexts(tr("Network"), tr("time"), {}, waiting);
  disk_->setTexts(tr("Disk"), tr("time"), {}, waiting);
  nameGpuPlots();
  breakdownCard_->setTitle(tr("Step time: measured above, predicted below"));
  breakdownEmpty_->setText(tr("Breakdown appears after the first steps."));
  bars_->setAccessibleName(tr("Step time of each rank"));
  breakdownTable_->setAccessibleName(tr("Step time of each rank, as a table"));
  breakdownModel_->retranslate();
  setTexts(breakdownAsTable_, tr("Show the data as a table"));
  straggler_->setAccessibleName(tr("Slowest rank"));
  straggler_->retranslate();
  logs_->retranslate();
  steps_->retranslate();
  costs_->retranslate();
  whatIf_->retranslate();
  traffic_->retranslate();
  dashboard_->retranslate();
  documentsPanel_->retranslate();
  placeAllSeries();
  refreshRow();
  refreshBreakdown();
}

}  // namespace lockstep::ui
