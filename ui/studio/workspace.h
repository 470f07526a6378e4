// Workspace: shared by all pages of a window: home, history, settings, inbox, jobs, clusters.
// Threads: GUI.
#pragma once

#include <QObject>
#include <QTimer>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "app/alerts/alert_actions.h"
#include "app/core/home.h"
#include "app/core/inbox.h"
#include "app/history/history.h"
#include "ui/studio/job_tracker.h"
#include "ui/studio/live_cluster.h"
#include "ui/studio/settings.h"

namespace lockstep::app {
struct LaunchRequest;
}  // namespace lockstep::app

namespace lockstep::ui {

struct StudioOptions {
  app::Home home;
  QString sshConfig;
  QString examples;  // folder; "" : found beside the program or in the source tree
  QString lessons;   // folder; "": app::lessonFolder()
};

class Workspace : public QObject {
  Q_OBJECT

 public:
  explicit Workspace(StudioOptions options, QObject* parent = nullptr);
  ~Workspace() override;

  const app::Home& home() const { return options_.home; }
  const QString& sshConfig() const { return options_.sshConfig; }
  app::Inbox& inbox() { return inbox_; }
  // Destroys sessions, recorders and launches, and runs what uses this object meanwhile.
  QThreadPool& teardownPool() { return teardownPool_; }
  Settings& settings() { return settings_; }
  JobTracker& jobs() { return jobs_; }
  QStringList examples() const;
  const QString& lessons() const { return options_.lessons; }
  // Returns an editable copy of an example in the home folder; "" if it cannot be made.
  QString copyOfExample(const QString& path);

  // `start`: how agents start over SSH; none: as each node was deployed.
  std::shared_ptr<LiveCluster> makeCluster(std::shared_ptr<const spec::v1::ClusterSpec> cluster,
                                           std::optional<app::AgentStart> start = {});
  // Removes the files of deleted runs from the connected nodes, in the background.
  void cleanUpNodes();
  // Polls once a second for changes of the history by any process, and emits historyChanged().
  void watchHistory();
  void keepForRun(const QString& run, std::shared_ptr<LiveCluster> cluster);
  // Returns the session that a run was launched on, or null; the caller then creates one in the
  // background.
  std::shared_ptr<LiveCluster> clusterForRun(const QString& run) const;

  // Of a run that this window launched and whose job may be queued again: who launched it continues
  // it. Returned once; null: it is another's to continue.
  void keepLaunch(const QString& run, std::shared_ptr<const app::LaunchRequest> launch);
  std::shared_ptr<const app::LaunchRequest> takeLaunch(const QString& run);

  const app::AlertSettings& alertSettings() const { return alertSettings_; }
  // Reads the file of the alert rules, which others may have changed. If it is damaged, the
  // defaults are used, and alertProblem() is emitted.
  void readAlertSettings();
  // What is wrong with the file; empty: nothing.
  const Message& alertFileProblem() const { return alertFileProblem_; }
  Status saveAlertSettings(const app::AlertSettings& settings);
  // Performs the actions of an alert.
  void act(const app::AlertEvent& event);

 Q_SIGNALS:
  void alertSettingsChanged();
  // The file of the rules is damaged, or a command or webhook failed.
  void alertProblem(const lockstep::Error& error);
  void notification(const lockstep::app::AlertEvent& event);  // to be shown on the desktop
  void historyChanged();
  // A damaged history file was renamed to `file`. Emitted once per file and window, also for files
  // renamed earlier.
  void historySetAside(const QString& file);
  void question(std::shared_ptr<lockstep::ui::LiveCluster> cluster,
                const lockstep::app::NodeQuestion& question);

 private:
  StudioOptions options_;
  Settings settings_;
  app::Inbox inbox_;
  QThreadPool teardownPool_;  // after what its tasks post to: it waits for them
  JobTracker jobs_;
  app::AlertSettings alertSettings_;
  Message alertFileProblem_;
  app::AlertActions alertActions_;
  std::vector<std::weak_ptr<LiveCluster>> clusters_;
  std::map<QString, std::weak_ptr<LiveCluster>> byRun_;
  std::map<QString, std::shared_ptr<const app::LaunchRequest>> launches_;  // by run
  QTimer watch_;
  bool looking_ = false;
};

}  // namespace lockstep::ui
