#include "ui/studio/run_document.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QElapsedTimer>
#include <QPointer>
#include <QTimer>
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "app/runs/relaunch.h"
#include "engine/base/clock.h"
#include "ui/studio/background.h"
#include "ui/studio/log_reader.h"
#include "ui/studio/metrics.h"
#include "ui/studio/run_launch.h"
#include "ui/studio/scheduler_job.h"
#include "ui/studio/workspace.h"

namespace lockstep::ui {
namespace {

// of the GUI thread at a time, for a long run's curves
constexpr int kSliceMs = 12;
constexpr std::size_t kSlicePoints = 20'000;

// What progress and scales of the x axis are made of, besides measures of steps.
const std::set<std::string> kProgress{"loss", "rank/0/step", "samples_per_second", "samples",
                                      "tokens"};

}  // namespace

// The history's rows of the run, and how many of them the document has taken.
struct RunDocument::Loaded {
  Status status;
  app::RunRow row;
  app::RunDocuments documents;
  app::RunScope scope;
  std::optional<app::Preview> prediction;
  app::PlanFacts plan;
  bool isAsLaunched = true, takesCheckpoints = false;
  std::vector<std::string> curves;  // all names
  app::StepMatrix steps;
  std::vector<app::RunBatch::Series> measures;  // that `steps` has; the last point of each
  std::vector<app::RunBatch::Series> series;    // those that progress is made of
  QVector<LogRow> logs;
  std::vector<app::EpochRow> epochs;
  std::vector<Error> errors;
  app::ProgramSources sources;
  app::KnownArtifacts artifacts;
  std::string codeCommit;
  std::vector<app::ChangedFile> changedFiles;
  std::vector<app::EnvironmentField> environment;
  bool lacksFiles = false;
  std::shared_ptr<const spec::v1::ClusterSpec> cluster;
  std::size_t seriesAt = 0, pointAt = 0;
};

RunDocument::Loaded RunDocument::readRun(const std::string& folder, const std::string& run) {
  Loaded out;
  auto history = app::History::open(folder);
  if (!history) {
    out.status = history.error();
    return out;
  }
  auto row = (*history)->row(run);
  if (!row) {
    out.status = row.error();
    return out;
  }
  out.row = *row;
  if (auto documents = (*history)->documents(run)) {
    out.documents = std::move(*documents);
    out.takesCheckpoints = app::checkpointFoldersOf(run, out.documents).ok();
    out.codeCommit = app::codeCommit(out.documents.specResolved);
    out.changedFiles = app::changedFiles(out.documents.codePatch);
    out.environment = app::environmentFields(app::nodeEnvironments(out.documents.nodes));
    out.scope = app::scopeOf(**history, out.row, out.documents);
    if (auto prediction = app::parsePrediction(out.documents.prediction)) {
      out.prediction = std::move(*prediction);
    }
  }
  if (auto store = (*history)->openRun(run)) {
    for (const auto& info : (*store)->series()) {
      const bool measure = app::StepMatrix::takes(info.name);
      if (!measure) out.curves.push_back(info.name);
      if (!measure && !kProgress.contains(info.name)) continue;  // a view may ask for it
      auto points = (*store)->readAll(info.name);
      if (!points || points->empty()) continue;
      app::RunBatch::Series series{info.name, std::move(*points)};
      if (out.steps.add(series)) out.measures.push_back({info.name, {series.points.back()}});
      if (kProgress.contains(info.name)) out.series.push_back(std::move(series));
    }
    if (auto logs = (*store)->logs({}, 0, LogModel::kKept)) out.logs = logRows(*logs);
    out.plan = app::planFactsOf(out.documents, **store);
    out.isAsLaunched = !app::regrouped(**store);
    out.epochs = (*store)->epochs();
    out.errors = (*store)->errors();
    out.sources = app::programSources((*store)->facts());
    out.artifacts = app::artifactsIn(**store);
    out.lacksFiles = app::lacksArtifacts(**store, out.row);
  }
  if (!app::isFinal(out.row.phase) || app::lacksModel(out.row) || out.lacksFiles) {
    if (auto cluster = app::clusterOfRun(**history, run)) out.cluster = *cluster;
  }
  return out;
}

QString runPhaseText(app::RunState phase) {
  static const char* const names[] = {QT_TRANSLATE_NOOP("lockstep::ui::RunPhase", "unknown"),
                                      QT_TRANSLATE_NOOP("lockstep::ui::RunPhase", "launching"),
                                      QT_TRANSLATE_NOOP("lockstep::ui::RunPhase", "prepared"),
                                      QT_TRANSLATE_NOOP("lockstep::ui::RunPhase", "running"),
                                      QT_TRANSLATE_NOOP("lockstep::ui::RunPhase", "stopping"),
                                      QT_TRANSLATE_NOOP("lockstep::ui::RunPhase", "succeeded"),
                                      QT_TRANSLATE_NOOP("lockstep::ui::RunPhase", "failed"),
                                      QT_TRANSLATE_NOOP("lockstep::ui::RunPhase", "stopped"),
                                      QT_TRANSLATE_NOOP("lockstep::ui::RunPhase", "expired"),
                                      QT_TRANSLATE_NOOP("lockstep::ui::RunPhase", "recovering")};
  static_assert(std::size(names) == run::v1::RunState_ARRAYSIZE);
  return QCoreApplication::translate("lockstep::ui::RunPhase", names[static_cast<int>(phase)]);
}

QString runStateText(const app::RunRow& row) {
  if (row.unreachableNs == 0) return runPhaseText(row.phase);
  return QCoreApplication::translate("lockstep::ui::RunPhase", "unreachable since %1")
      .arg(QDateTime::fromMSecsSinceEpoch(row.unreachableNs / 1'000'000).toString("HH:mm:ss"));
}

QString runTitle(const app::RunRow& row) {
  const QString name = QString::fromStdString(row.name);
  if (row.createdNs <= 0) return name;
  const QDateTime made = QDateTime::fromMSecsSinceEpoch(row.createdNs / 1'000'000);
  const bool today = made.date() == QDate::currentDate();
  return name + QString::fromUtf8(" · ") + made.toString(today ? "HH:mm:ss" : "MM-dd HH:mm");
}

Tone runPhaseTone(app::RunState phase) {
  switch (phase) {
    case app::RunState::LAUNCHING:
    case app::RunState::PREPARED:
    case app::RunState::RUNNING:
      return Tone::kActive;
    case app::RunState::SUCCEEDED:
      return Tone::kGood;
    case app::RunState::FAILED:
      return Tone::kBad;
    case app::RunState::RECOVERING:
    case app::RunState::STOPPING:
    case app::RunState::STOPPED:
      return Tone::kWarning;
    default:
      return Tone::kNeutral;
  }
}

RunDocument::RunDocument(QString run, Workspace& workspace, QObject* parent)
    : QObject(parent),
      run_(std::move(run)),
      workspace_(workspace),
      logs_(new LogModel(this)),
      curves_(workspace.home().historyFolder(), run_.toStdString(), this),
      stepLines_(steps_, curves_.room(), this) {
  connect(&curves_, &RunCurves::changed, this, &RunDocument::dataChanged);
  connect(&stepLines_, &StepLines::changed, this, &RunDocument::dataChanged);
  connect(&curves_, &RunCurves::added, this,
          [this](const QString& name) { noteMetric(name.toStdString()); });
  connect(&curves_, &RunCurves::failed, this, &RunDocument::failed);
  workspace_.readAlertSettings();
  alerts_.setSettings(workspace_.alertSettings(), wallNow());
  connect(&workspace_, &Workspace::alertSettingsChanged, this,
          [this] { tell(alerts_.setSettings(workspace_.alertSettings(), wallNow())); });
  connect(&alertTick_, &QTimer::timeout, this,
          [this] {  // of a run that nobody follows nothing is known
            if (recorder_) tell(alerts_.tick(monotonicNow(), wallNow()));
          });
  alertTick_.start(1000);
  app::RunRow row;
  row.run = run_.toStdString();
  model_.begin(std::move(row), {});
  cluster_ = workspace_.clusterForRun(run_);  // of the launch that just ended, before it lets go
  load();
}

RunDocument::~RunDocument() { leaveNodes(); }

void RunDocument::leaveNodes() {
  if (recorder_) {
    recorder_->end();
    destroyAsync(workspace_.teardownPool(), std::move(recorder_), cluster_->sessionRef());
  }
  cluster_.reset();
}

void RunDocument::load() {
  runInBackground(
      this,
      [folder = workspace_.home().historyFolder(), run = run_.toStdString()] {
        return std::make_shared<Loaded>(readRun(folder, run));
      },
      [this](const std::shared_ptr<Loaded>& loaded) {
        if (!loaded->status.ok()) {
          loaded_ = true;
          Q_EMIT failed(loaded->status.error());
          return;
        }
        documents_ = std::move(loaded->documents);
        prediction_ = std::move(loaded->prediction);
        plan_ = loaded->plan;
        isAsLaunched_ = isAsLaunched_ && loaded->isAsLaunched;
        takesCheckpoints_ = loaded->takesCheckpoints;
        sources_ = std::move(loaded->sources);
        artifacts_ = std::move(loaded->artifacts);
        codeCommit_ = std::move(loaded->codeCommit);
        changedFiles_ = std::move(loaded->changedFiles);
        environment_ = std::move(loaded->environment);
        model_.begin(loaded->row, std::move(loaded->scope));
        for (const auto& epoch : loaded->epochs) model_.addEpoch(epoch);
        alerts_.begin(loaded->row, model_.progress(), monotonicNow());
        if (loaded->logs.size() >= LogModel::kKept)  // older ones are in the store alone
          logs_->setMissingUntil(loaded->logs.front().wallNs);
        logs_->append(loaded->logs);
        curves_.setOrigin(-secondsIntoRun(0));
        std::set<std::string> given;
        for (const auto& series : loaded->series)
          if (!app::StepMatrix::takes(series.name)) given.insert(series.name);
        curves_.begin(loaded->curves, given);
        steps_ = std::move(loaded->steps);
        for (const auto& measure : loaded->measures) {
          noteMetric(measure.name);
          stepLines_.took(measure);
        }
        Q_EMIT rowChanged();
        takeOver(loaded);
      });
}

void RunDocument::takeOver(const std::shared_ptr<Loaded>& loaded) {
  QElapsedTimer spent;
  spent.start();
  while (loaded->seriesAt < loaded->series.size() && spent.elapsed() < kSliceMs) {
    const auto& from = loaded->series[loaded->seriesAt];
    const std::size_t end = std::min(from.points.size(), loaded->pointAt + kSlicePoints);
    const app::RunBatch::Series slice{
        from.name,
        {from.points.begin() + static_cast<std::ptrdiff_t>(loaded->pointAt),
         from.points.begin() + static_cast<std::ptrdiff_t>(end)}};
    model_.addSeries(slice, monotonicNow());
    const bool last = end == from.points.size();
    if (!app::StepMatrix::takes(slice.name)) curves_.load(slice, last);
    loaded->pointAt = end;
    if (!last) continue;
    loaded->pointAt = 0;
    ++loaded->seriesAt;
  }
  Q_EMIT dataChanged();
  if (loaded->seriesAt < loaded->series.size()) {
    QTimer::singleShot(0, this, [this, loaded] { takeOver(loaded); });
    return;
  }
  loaded_ = true;
  Q_EMIT rowChanged();
  Q_EMIT breakdownChanged();
  for (const auto& error : loaded->errors) Q_EMIT failed(error);
  if (model_.over() && !app::lacksModel(row()) && !loaded->lacksFiles) return;
  if (!cluster_) cluster_ = workspace_.clusterForRun(run_);
  if (!cluster_ && loaded->cluster) {
    cluster_ = workspace_.makeCluster(loaded->cluster);
    workspace_.keepForRun(run_, cluster_);
  }
  follow();
}

void RunDocument::follow() {
  if (!cluster_) return;
  cluster_->session().connect();
  recorder_ = std::make_unique<app::Recorder>(
      run_.toStdString(), cluster_->session(), workspace_.home(), workspace_.inbox(),
      [this](const app::RunUpdate& update) { take(update); });
}

std::vector<std::string> RunDocument::nodesOfRanks() const {
  std::vector<std::string> out;
  if (prediction_ && isAsLaunched_)
    for (const app::RankPreview& rank : prediction_->ranks) out.push_back(rank.node);
  return out;
}

std::vector<std::string> RunDocument::members() const {
  if (!members_.empty()) return members_;
  std::vector<std::string> out;
  for (const std::string& node : nodesOfRanks())
    if (std::find(out.begin(), out.end(), node) == out.end()) out.push_back(node);
  return out;
}

double RunDocument::secondsIntoRun(double wallSeconds) const {
  return wallSeconds -
         static_cast<double>(row().startedNs > 0 ? row().startedNs : row().createdNs) * 1e-9;
}

std::string RunDocument::historyFolder() const { return workspace_.home().historyFolder(); }

std::shared_ptr<Series> RunDocument::pin(const std::string& name) {
  return StepLines::has(name) ? stepLines_.pin(name) : curves_.pin(name);
}

void RunDocument::refine(const std::vector<std::shared_ptr<Series>>& lines, double from, double to,
                         int pixels) {
  curves_.refine(lines, from, to, pixels);
  stepLines_.refine(lines, from, to, pixels);
}

std::vector<std::string> RunDocument::metrics() const { return {metrics_.begin(), metrics_.end()}; }

void RunDocument::noteMetric(const std::string& name) {
  if (name.ends_with("/began") || !metrics_.insert(name).second) return;
  Q_EMIT metricAdded(QString::fromStdString(name));
}

void RunDocument::add(const app::RunBatch::Series& series, bool preview) {
  if (steps_.add(series, preview)) {
    noteMetric(series.name);
    if (!preview) stepLines_.took(series);  // else it comes again, after what is missing
    return;
  }
  if (preview)
    curves_.preview(series);
  else
    curves_.append(series);
}

void RunDocument::tell(const std::vector<app::AlertEvent>& events) {
  for (const app::AlertEvent& event : events) {
    Q_EMIT alerted(event);
    workspace_.act(event);
  }
}

void RunDocument::takeFiles(const app::ArtifactsUpdate& update) {
  if (update.bytesTotal > 0) fetching_ = update;
  if (!update.over()) return;
  fetching_.reset();
  if (update.found) artifacts_.found = update.found;
  if (update.error) Q_EMIT failed(*update.error);
}

void RunDocument::take(const app::RunUpdate& update) {
  const bool over = model_.over();
  model_.add(update, monotonicNow());
  ending_ = (ending_ || update.ending) && !update.finished;
  if (update.row) curves_.setOrigin(-secondsIntoRun(0));
  for (const auto& series : update.series) add(series, update.preview);
  if (!update.logs.empty()) logs_->append(logRows(update.logs));
  if (!update.breakdown.empty()) Q_EMIT breakdownChanged();
  if (update.slowChanged) Q_EMIT slowChanged();
  for (const auto& source : update.sources) sources_.add(source);
  for (const auto& warning : update.warnings) Q_EMIT warned(warning);
  for (const auto& restart : update.restarts) {
    Q_EMIT restarted(restart);
    if (!restart.begins()) continue;
    if (!restart.nodes.empty()) {
      members_ = restart.nodes;
      isAsLaunched_ = false;
    }
    app::divideAnew(plan_, restart.samples, restart.cause->step);
  }
  if (update.checkpoint) Q_EMIT checkpointSaved(*update.checkpoint);
  for (const auto& error : update.errors) Q_EMIT failed(error);
  if (update.artifacts) takeFiles(*update.artifacts);
  if (update.row || update.artifacts || update.awaited) Q_EMIT rowChanged();
  tell(alerts_.take(update, monotonicNow(), wallNow()));
  const bool isData = !update.series.empty() || !update.epochs.empty();
  if (isData && !update.more) Q_EMIT dataChanged();
  if (update.finished) {
    if (!over) Q_EMIT finished();  // its model may come later
    if (cluster_ && model_.over()) leaveJob();
    Q_EMIT workspace_.historyChanged();
  }
}

// The job ends with the run, but for one that the scheduler may queue again.
void RunDocument::leaveJob() {
  const auto launch = workspace_.takeLaunch(run_);
  const auto cluster = cluster_->session().cluster();
  if (!app::mayBeQueuedAgain(*cluster) || row().phase == app::RunState::SUCCEEDED || toldToEnd_)
    return endJob(workspace_, cluster);
  if (!launch) return;
  runInBackground(
      &workspace_,
      [launch, run = run_.toStdString(), options = schedulerOptions(workspace_)] {
        return continueOrEndJob(*launch, run, options);
      },
      [document = QPointer<RunDocument>(this),
       &workspace = workspace_](const std::optional<app::LaunchRequest>& next) {
        if (!next) return;
        if (!document) return endJob(workspace, next->cluster);  // its page was closed meanwhile
        document->goOn(*next);
      },
      workspace_.teardownPool());
}

void RunDocument::goOn(app::LaunchRequest launch) {
  leaveNodes();
  const auto end = [this] { std::exchange(next_, nullptr)->deleteLater(); };
  next_ = new RunLaunch(std::move(launch), nullptr, workspace_, this);
  connect(next_, &RunLaunch::progressed, this, &RunDocument::queuedAgain);
  connect(next_, &RunLaunch::launched, this, [this, end](const QString& run) {
    end();
    Q_EMIT continued(run);
    Q_EMIT rowChanged();
  });
  connect(next_, &RunLaunch::failed, this, [this, end](const Error& error) {
    end();
    Q_EMIT failed(error);
    Q_EMIT rowChanged();
  });
  Q_EMIT rowChanged();
}

double RunDocument::elapsedSeconds() const { return model_.elapsedSeconds(wallNow()); }
double RunDocument::remainingSeconds() const { return model_.secondsLeft(wallNow()); }
double RunDocument::stalledSeconds() const { return model_.stalledSeconds(monotonicNow()); }
app::Pace RunDocument::pace() const { return model_.pace(monotonicNow()); }

bool RunDocument::canResume() const { return canRelaunch() && takesCheckpoints_; }

bool RunDocument::canKill() const { return recorder_ && !ending_ && !model_.over(); }
bool RunDocument::canStop() const {
  return canKill() && app::isUnderWay(row().phase) && row().phase != app::RunState::STOPPING;
}

bool RunDocument::canExclude() const { return canStop() && members().size() > 1; }
bool RunDocument::canProfile() const { return canStop() && row().phase == app::RunState::RUNNING; }

bool RunDocument::canRebalance() const {
  return canProfile() && !ofProgram() && row().world > 1 && !plan_.isAsynchronous;
}

bool RunDocument::canAdvise() const {
  if (canRelaunch()) return !ofProgram();
  return canProfile() && takesCheckpoints_ && isAsLaunched_ && !plan_.isAsynchronous &&
         plan_.sharesFrom <= 1;
}

void RunDocument::ask(const app::RunRequest& what) {
  if (!recorder_) return;
  if (what.kind == app::RunRequest::kCheckpoint) Q_EMIT checkpointAsked();
  if (what.kind == app::RunRequest::kStop || what.kind == app::RunRequest::kKill) toldToEnd_ = true;
  recorder_->ask(what, [this, kind = what.kind](const Result<app::RunAnswer>& answer) {
    if (!answer.ok()) {
      Q_EMIT failed(answer.error());
      if (kind == app::RunRequest::kStop) Q_EMIT stopRefused(answer.error());
    } else if (answer->steps > 0) {
      Q_EMIT profiled(answer->firstStep, answer->steps);
    }
  });
}

void RunDocument::stop() {
  app::RunRequest what(app::RunRequest::kStop);
  what.repeated = true;  // a second click, before the run is seen to stop, is no second request
  ask(what);
}

void RunDocument::giveUp() {
  toldToEnd_ = true;
  runInBackground(
      this,
      [folder = workspace_.home().historyFolder(),
       run = run_.toStdString()]() -> Result<app::RunRow> {
        LOCKSTEP_ASSIGN(const auto history, app::History::open(folder));
        LOCKSTEP_TRY(history->giveUp(run));
        return history->row(run);
      },
      [this](Result<app::RunRow> row) {
        if (!row) return Q_EMIT failed(row.error());
        app::RunUpdate update;
        update.row = std::move(*row);
        update.finished = true;
        take(update);
      });
}

}  // namespace lockstep::ui
