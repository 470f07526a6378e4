// RunDocument: the state of one run: its row, curves, logs, breakdown and straggler. Reads the
// history in the background; a recorder adds live data. Threads: GUI.
#pragma once

#include <QObject>
#include <QTimer>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "app/alerts/alert_watch.h"
#include "app/history/history.h"
#include "app/runs/artifacts.h"
#include "app/runs/code_patch.h"
#include "app/runs/preview.h"
#include "app/runs/program_sources.h"
#include "app/runs/rank_costs.h"
#include "app/runs/recorder.h"
#include "app/runs/run_environment.h"
#include "app/runs/run_model.h"
#include "app/runs/step_matrix.h"
#include "app/specs/spec_text.h"
#include "ui/studio/live_cluster.h"
#include "ui/studio/log_model.h"
#include "ui/studio/run_curves.h"
#include "ui/studio/step_lines.h"
#include "ui/theme/theme.h"

namespace lockstep::ui {

class RunLaunch;
class Workspace;

class RunDocument : public QObject {
  Q_OBJECT

 public:
  RunDocument(QString run, Workspace& workspace, QObject* parent = nullptr);
  ~RunDocument() override;

  const QString& run() const { return run_; }
  const app::RunRow& row() const { return model_.row(); }
  bool ofProgram() const { return model_.ofProgram(); }  // of the user's own
  // Whether the steps of its ranks are known: of a program, where its libraries tell them.
  bool measuresSteps() const { return !ofProgram() || steps_.ranks() > 0; }
  const std::vector<app::ProgramSource>& sources() const { return sources_.all(); }
  // The files that its program has left; while they are fetched, how far that is.
  const app::KnownArtifacts& artifacts() const { return artifacts_; }
  const std::string& codeCommit() const { return codeCommit_; }  // "": none
  const std::vector<app::ChangedFile>& changedFiles() const { return changedFiles_; }
  const std::vector<app::EnvironmentField>& environment() const { return environment_; }
  const std::optional<app::ArtifactsUpdate>& fetching() const { return fetching_; }
  bool loaded() const { return loaded_; }
  bool ending() const { return ending_; }  // its last records are being read
  // Returns what the run still waits for, trained to its end; empty: nothing.
  Message awaited() const { return model_.awaited(); }
  const app::RunDocuments& documents() const { return documents_; }
  const app::Preview* prediction() const { return prediction_ ? &*prediction_ : nullptr; }
  LogModel* logs() { return logs_; }
  const std::vector<app::StepBreakdown>& breakdown() const { return model_.breakdown(); }
  const std::optional<app::Straggler>& slow() const { return model_.slow(); }
  const std::vector<app::EpochRow>& epochs() const { return model_.epochs(); }
  const app::RunProgress& progress() const { return model_.progress(); }
  std::int64_t lastStep() const { return model_.step(); }
  double elapsedSeconds() const;
  double remainingSeconds() const;  // below 0: not known
  // Returns the pace shown: of a running run that of its last steps, none while it is stalled; of
  // an ended run the mean.
  app::Pace pace() const;
  double stalledSeconds() const;  // 0: no stall
  // The time that each rank spent on each step; the only place of these series.
  app::StepMatrix& steps() { return steps_; }
  // The node of each rank, as launched; empty: not known, as where other nodes have taken over.
  std::vector<std::string> nodesOfRanks() const;
  const app::PlanFacts& plan() const { return plan_; }
  // The nodes that have ranks now, as far as this document has followed the run.
  std::vector<std::string> members() const;
  // Converts a wall clock time, in seconds, to the x of series over time.
  double secondsIntoRun(double wallSeconds) const;
  std::string historyFolder() const;
  // Series over time have x in seconds since the run began.
  RunCurves& curves() { return curves_; }
  std::shared_ptr<Series> series(const std::string& name) { return curves_.series(name); }
  // Returns a line of its own with the samples of a series, also of those that steps() has. Later
  // samples are added to it as long as it is held. A series that has no samples yet may get some.
  std::shared_ptr<Series> pin(const std::string& name);
  // As RunCurves::refine(), of lines of either kind.
  void refine(const std::vector<std::shared_ptr<Series>>& lines, double from, double to,
              int pixels);
  // The names of all series that have come, sorted.
  std::vector<std::string> metrics() const;
  Workspace& workspace() const { return workspace_; }
  // The session of its nodes; null: the run has ended, or is being read.
  std::shared_ptr<LiveCluster> cluster() const { return cluster_; }
  bool canDebug() const { return loaded_ && cluster_ && app::isUnderWay(model_.row().phase); }
  bool canExclude() const;  // a node
  bool canProfile() const;  // and restart its ranks
  bool canRebalance() const;
  // Whether a faster strategy may be sought: it can be launched again, or, under way, its steps may
  // be planned anew, and it can be resumed after a stop.
  bool canAdvise() const;
  bool canStop() const;
  bool canKill() const;
  bool canRelaunch() const {
    return loaded_ && model_.over() && !documents_.specYaml.empty() && !next_;
  }
  bool canResume() const;

  void ask(const app::RunRequest& what);
  void stop();
  // Gives up an unreachable run: ends it in the history and on the nodes that answer, and ends its
  // recorder.
  void giveUp();
  // Adds an update; also called by tests.
  void take(const app::RunUpdate& update);

 Q_SIGNALS:
  void rowChanged();
  void metricAdded(const QString& name);  // any series, also one of steps()
  void dataChanged();
  void breakdownChanged();
  void slowChanged();
  // an error of the run, live or from the history, or of a request
  void failed(const lockstep::Error& error);
  void stopRefused(const lockstep::Error& error);  // failed() comes too
  void warned(const lockstep::Error& warning);     // the run goes on
  void restarted(const lockstep::app::RunRestart& restart);
  void checkpointAsked();
  void checkpointSaved(qint64 step);           // asked for or not
  void profiled(qint64 firstStep, int steps);  // their events are about to be recorded
  void alerted(const lockstep::app::AlertEvent& event);
  void finished();
  // The scheduler queues the run's job again, and this window, which launched the run, waits for
  // that: how far it is.
  void queuedAgain(const QString& state);
  void continued(const QString& run);  // as this run

 private:
  struct Loaded;
  static Loaded readRun(const std::string& folder, const std::string& run);
  void load();
  void takeOver(const std::shared_ptr<Loaded>& loaded);  // in slices that leave the window free
  void follow();
  void leaveNodes();  // agents wait some seconds for their clients before their job ends
  void add(const app::RunBatch::Series& series, bool preview);
  void tell(const std::vector<app::AlertEvent>& events);
  void takeFiles(const app::ArtifactsUpdate& update);
  void noteMetric(const std::string& name);
  void leaveJob();
  void goOn(app::LaunchRequest launch);

  QString run_;
  Workspace& workspace_;
  app::RunModel model_;
  app::ProgramSources sources_;
  app::KnownArtifacts artifacts_;
  std::string codeCommit_;
  std::vector<app::ChangedFile> changedFiles_;      // of the program, since its commit
  std::vector<app::EnvironmentField> environment_;  // as launched
  std::optional<app::ArtifactsUpdate> fetching_;
  app::RunDocuments documents_;
  std::optional<app::Preview> prediction_;
  app::PlanFacts plan_;
  bool takesCheckpoints_ = false;     // which its nodes have
  bool isAsLaunched_ = true;          // the nodes of the ranks
  std::vector<std::string> members_;  // of the last generation with others; empty: as launched
  LogModel* logs_;
  RunCurves curves_;
  std::set<std::string> metrics_;
  app::StepMatrix steps_;
  StepLines stepLines_;
  app::AlertWatch alerts_;
  QTimer alertTick_;
  bool loaded_ = false, ending_ = false;
  bool toldToEnd_ = false;     // by the person
  RunLaunch* next_ = nullptr;  // of the run that continues this one
  std::shared_ptr<LiveCluster> cluster_;
  std::unique_ptr<app::Recorder> recorder_;  // before cluster_ in destruction
};

QString runPhaseText(app::RunState phase);
// Returns the run's state, or since when it is unreachable.
QString runStateText(const app::RunRow& row);
// "fashion-cnn · 14:03", with the date if it is not today, to distinguish runs of one model.
QString runTitle(const app::RunRow& row);
Tone runPhaseTone(app::RunState phase);

}  // namespace lockstep::ui
