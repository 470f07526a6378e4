// LiveCluster: a ClusterSession with Qt signals, shared by the pages and recorders that use it. The
// session's threads end off the GUI thread. Threads: GUI.
#pragma once

#include <QObject>
#include <QThreadPool>
#include <memory>

#include "app/cluster/cluster_session.h"

namespace lockstep::ui {

// Destroys an ended object, and then what it depends on, on a thread of `pool`.
template <typename T>
void destroyAsync(QThreadPool& pool, std::unique_ptr<T> ended, std::shared_ptr<void> needed = {}) {
  pool.start([ended = std::shared_ptr<T>(std::move(ended)), needed = std::move(needed)]() mutable {
    ended.reset();
    needed.reset();
  });
}

class LiveCluster : public QObject {
  Q_OBJECT

 public:
  LiveCluster(std::shared_ptr<const spec::v1::ClusterSpec> cluster,
              app::ClusterSessionOptions options, app::Inbox& inbox, QThreadPool& teardownPool);
  ~LiveCluster() override;

  app::ClusterSession& session() { return *session_; }
  // Keeps the session alive for a recorder or launch that is being destroyed.
  std::shared_ptr<void> sessionRef() const { return session_; }
  bool anyConnected() const;

 Q_SIGNALS:
  void nodeChanged(int node);
  void loadChanged(int node);
  void question(const lockstep::app::NodeQuestion& question);

 private:
  QThreadPool& teardownPool_;
  std::shared_ptr<app::ClusterSession> session_;
};

}  // namespace lockstep::ui
