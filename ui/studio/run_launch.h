// RunLaunch: starts a run in the background: has the scheduler of its cluster, if it has one,
// allocate the nodes, and launches on them. One of the window's jobs. Destroyed before its end, it
// is cancelled, and the job of its nodes too. Threads: GUI.
#pragma once

#include <QObject>
#include <QString>
#include <memory>

#include "app/cluster/allocation.h"
#include "app/runs/launcher.h"
#include "ui/studio/live_cluster.h"

namespace lockstep::ui {

class Workspace;

class RunLaunch : public QObject {
  Q_OBJECT

 public:
  // `cluster` is the session to launch on; null: a scheduler has yet to allocate the nodes.
  RunLaunch(app::LaunchRequest request, std::shared_ptr<LiveCluster> cluster, Workspace& workspace,
            QObject* parent);
  ~RunLaunch() override;

  void cancel();  // failed() follows

 Q_SIGNALS:
  void progressed(const QString& text);
  // One of these, once.
  void launched(const QString& run);
  void failed(const lockstep::Error& error);

 private:
  void allocate();
  void launch();
  void tell(const QString& text, double fraction = -1);  // as JobTracker::progress()
  void end();
  void fail(const Error& error);

  app::LaunchRequest request_;
  std::shared_ptr<LiveCluster> cluster_;
  Workspace& workspace_;
  std::unique_ptr<app::Allocation> allocation_;
  std::unique_ptr<app::Launch> launch_;
  int job_ = 0;
};

}  // namespace lockstep::ui
