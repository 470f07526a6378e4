#include "ui/studio/live_cluster.h"

namespace lockstep::ui {

LiveCluster::LiveCluster(std::shared_ptr<const spec::v1::ClusterSpec> cluster,
                         app::ClusterSessionOptions options, app::Inbox& inbox,
                         QThreadPool& teardownPool)
    : teardownPool_(teardownPool) {
  app::ClusterObserver observer;
  observer.onNode = [this](int node) { Q_EMIT nodeChanged(node); };
  observer.onLoad = [this](int node) { Q_EMIT loadChanged(node); };
  observer.onQuestion = [this](const app::NodeQuestion& asked) { Q_EMIT question(asked); };
  session_ = std::make_shared<app::ClusterSession>(std::move(cluster), std::move(options), inbox,
                                                   std::move(observer));
}

LiveCluster::~LiveCluster() {
  session_->end();
  destroyAsync<int>(teardownPool_, nullptr, std::move(session_));
}

bool LiveCluster::anyConnected() const {
  for (int i = 0; i < session_->size(); ++i) {
    if (session_->status(i).phase == app::NodeState::CONNECTED) return true;
  }
  return false;
}

}  // namespace lockstep::ui
