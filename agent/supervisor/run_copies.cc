// RunControl: copies of checkpoints on other nodes.
//
// When a checkpoint is published on all nodes, the coordinator asks the nodes that keep copies to
// copy it. Once all have done so, the ranks may remove older ones, and the run can continue from it
// without any one of its nodes. A checkpoint that is published meanwhile waits for its turn.
#include <algorithm>

#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"

namespace lockstep::agent {

bool RunControl::listens() const {
  return nodesOf(request_).size() > 1 && !evaluates() &&
         (agent::continuesWithoutAny(request_.spec(), launched_, nodesOf(request_).size()) ||
          !copiedNodes(request_).empty());
}

void RunControl::setCopySources() {
  const auto copied = copiedNodes(request_);
  const auto own = copied.find(request_.node());
  if (own == copied.end()) return;
  std::map<std::string, std::string> addresses;
  for (const auto& [name, peer] : peers_) addresses[name] = peer.address;
  for (const node::v1::Listener& listener : succession_.listeners())
    addresses[listener.node()] = listener.address();
  if (!coordinates()) addresses[coordinator_] = coordinatorAddress_;
  const auto ranks = ranksByNode(request_);
  std::vector<CheckpointCopies::Source> sources;
  for (const std::string& name : own->second)
    sources.push_back({name, addresses[name], ranks.at(name)});
  if (!copies_)
    copies_ = std::make_unique<CheckpointCopies>(
        loop_, request_, checkpointFolder(), request_.spec().training().checkpoint().keep(),
        CheckpointCopies::Handlers{
            [this](std::string line) { say(std::move(line)); },
            [this](std::int64_t step, const Status& copied) { onCopied(step, copied); }});
  copies_->setSources(std::move(sources));
}

void RunControl::onPublished(std::int64_t step) {
  hasCheckpoint_ = true;
  if (!coordinates() || copiedNodes(request_).empty()) return;
  published_ = std::max(published_, step);
  if (copying_ == 0) beginCopies();
}

// At the coordinator.
void RunControl::beginCopies() {
  copying_ = published_;
  awaitedCopies_.clear();
  for (const auto& [node, of] : copiedNodes(request_)) awaitedCopies_.insert(node);
  node::v1::ToPeer message;
  message.mutable_copy_checkpoint()->set_step(copying_);
  tellPeers(message);
  if (copies_) copies_->copy(copying_);
}

void RunControl::onCopied(std::int64_t step, const Status& copied) {
  if (!copied.ok() && !std::exchange(warnedOfCopies_, true)) warn(copied.error());
  if (copied.ok()) warnedOfCopies_ = false;
  node::v1::FromPeer message;
  message.mutable_copied()->set_step(step);
  message.mutable_copied()->set_failed(!copied.ok());
  if (coordinates())
    noteCopied(request_.node(), message.copied());
  else if (client_)
    client_->send(std::move(message));
}

// At the coordinator. Without one of its copies a checkpoint counts as not copied.
void RunControl::noteCopied(const std::string& node, const node::v1::CheckpointCopied& copied) {
  if (copied.step() != copying_ || awaitedCopies_.erase(node) == 0) return;
  copyFailed_ = copyFailed_ || copied.failed();
  if (!awaitedCopies_.empty()) return;
  if (!std::exchange(copyFailed_, false)) {
    node::v1::ToPeer message;
    message.mutable_copied()->set_step(copying_);
    tellPeers(message);
    onAllCopied(copying_);
    regroup(copying_);
    if (leaving_) return;
  } else {
    cannotExclude("the checkpoint could not be copied");
    cannotRebalance("the checkpoint could not be copied");
    if (restartFrom_) regroup(copying_);  // it needs no copies
    if (leaving_) return;
  }
  const bool next = published_ > std::exchange(copying_, 0);
  if (next) beginCopies();
}

// At every node.
void RunControl::onAllCopied(std::int64_t step) {
  hasCopies_ = copiedHere_ = true;
  copied_ = step;
  tellCopied();
}

// Workers keep this checkpoint, also when later ones are not copied.
void RunControl::tellCopied() {
  node::v1::ToWorker message;
  message.mutable_copied()->set_step(copied_);
  sendAll(message);
}

// A new generation begins.
void RunControl::endCopies() {
  published_ = copying_ = 0;
  copyFailed_ = false;
  awaitedCopies_.clear();
  std::erase_if(endedCopies_, [](const auto& one) { return one->isOver(); });
  if (!copies_) return;
  copies_->end();
  endedCopies_.push_back(std::move(copies_));
}

}  // namespace lockstep::agent
