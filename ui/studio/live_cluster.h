// LiveCluster: a ClusterSession with Qt signals, shared by the pages and recorders that use it.
// Threads: GUI.
#pragma once

#include <QObject>
#include <memory>

#include "app/cluster/cluster_session.h"

namespace lockstep::ui {

class LiveCluster : public QObject {
  Q_OBJECT

 public:
  LiveCluster(std::shared_ptr<const spec::v1::ClusterSpec> cluster, app::ClusterSessionOptions options,
              app::Inbox& inbox);

  app::ClusterSession& session() { return *session_; }
  bool anyConnected() const;

 Q_SIGNALS:
  void nodeChanged(int node);
  void loadChanged(int node);
  void question(const lockstep::app::NodeQuestion& question);

 private:
  std::unique_ptr<app::ClusterSession> session_;
};

}  // namespace lockstep::ui
