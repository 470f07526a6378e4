// RunControl: copies of checkpoints on other nodes.
//
// When a checkpoint is published on all nodes, the coordinator asks the nodes that keep copies to
// copy it. Once all have done so, the ranks may remove older ones, and the run can continue from it
// without any one of its nodes. A checkpoint that is published meanwhile waits for its turn. Copies
// have a tenth of the link (copy_pace.h) until something waits for them.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"
#include "engine/specs/links.h"

namespace lockstep::agent {
namespace {

// Returns the speed of the link from a node to this one, in bytes per second: what the cluster's
// spec says, else that of the adapter with this node's address; 0: neither is known.
double linkFrom(const std::string& node, const node::v1::PrepareRequest& request,
                const std::string& address) {
  const double link = specs::bandwidthBetween(request.cluster(), node, request.node());
  return link > 0 ? link : adapterSpeed(address);
}

}  // namespace

bool RunControl::listens() const {
  return nodesOf(request_).size() > 1 && !evaluates() &&
         (agent::continuesWithoutAny(request_.spec(), launched_, nodesOf(request_).size()) ||
          !copiedNodes(request_).empty() || specs::evaluatorNode(request_.cluster()) != nullptr);
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
    sources.push_back({name, addresses[name], ranks.at(name), linkFrom(name, request_, host_)});
  copies().setSources(std::move(sources));
}

CheckpointCopies& RunControl::copies() {
  if (!copies_)
    copies_ = std::make_unique<CheckpointCopies>(
        loop_, request_, generation_, checkpointFolder(), folder_.model(),
        request_.spec().training().checkpoint().keep(),
        CheckpointCopies::Handlers{
            [this](std::string line) { say(std::move(line)); },
            [this](std::int64_t step, const Status& copied) { onCopied(step, copied); },
            [this](const Status& copied) { onModelCopied(copied); }});
  return *copies_;
}

void RunControl::onPublished(std::int64_t step) {
  checkpoints_.onPublished(step);
  checkpointAsked_ = false;
  if (!coordinates()) return;
  beginCopies();
  hurryCopies();
}

// At the coordinator.
void RunControl::beginCopies() {
  std::set<std::string> by;
  for (const auto& [node, of] : copiedNodes(request_)) by.insert(node);
  if (checkpoints_.begin(std::move(by)) == 0) return;
  if (areCopiesAwaited()) checkpoints_.hurry();
  askForCopies();
}

// By a later checkpoint, a request, a stop, or the end of the run; or the run has lost a node, and
// until there are copies it must not lose another.
bool RunControl::areCopiesAwaited() const {
  return checkpoints_.isLate() || awaitsCheckpoint() || stopping_ || isEnding() ||
         (recover_.has_members() && !checkpoints_.isCopiedHere());
}

// Those under way have the whole link from now on, if something waits for them.
void RunControl::hurryCopies() {
  if (areCopiesAwaited() && checkpoints_.hurry()) askForCopies();
}

// Of the checkpoint that is copied now; of the trained model once none is.
node::v1::ToPeer RunControl::copyMessage() const {
  node::v1::ToPeer out;
  out.mutable_copy_checkpoint()->set_step(checkpoints_.step());
  out.mutable_copy_checkpoint()->set_at_once(checkpoints_.isHurried());
  out.mutable_copy_checkpoint()->set_model(checkpoints_.step() == 0);
  return out;
}

void RunControl::askForCopies() {
  const node::v1::ToPeer message = copyMessage();
  tellPeers(message);
  copyHere(message.copy_checkpoint());
}

void RunControl::copyHere(const node::v1::CopyCheckpoint& asked) {
  if (asked.model())
    copies().copyModel({.node = coordinator_, .address = coordinatorAddress_});
  else if (copies_)
    copies_->copy(asked.step(), asked.at_once());
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

// At the coordinator, when nothing else is copied any more.
void RunControl::beginModelCopies() {
  if (std::exchange(copiesModel_, true)) return;
  std::error_code none;
  if (!std::filesystem::exists(folder_.model(), none)) return;
  for (const std::string& node : modelHolders(request_, request_.node()))
    modelAwaited_.insert(node);
  for (const std::string& node : modelAwaited_) server_->send(node, copyMessage());
}

void RunControl::onModelCopied(const Status& copied) {
  if (!copied.ok()) warn(copied.error());
  node::v1::FromPeer message;
  message.mutable_copied()->set_model(true);
  message.mutable_copied()->set_failed(!copied.ok());
  if (client_) client_->send(std::move(message));
}

// At the coordinator.
void RunControl::noteCopied(const std::string& node, const node::v1::CheckpointCopied& copied) {
  if (copied.model()) {
    if (modelAwaited_.erase(node) != 0) checkDone();
    return;
  }
  const auto answer = checkpoints_.onAnswer(node, copied.step(), copied.failed());
  if (answer == CopyRounds::Answer::kNotOver) return;
  if (answer == CopyRounds::Answer::kAllCopied) {
    node::v1::ToPeer message;
    message.mutable_copied()->set_step(copied.step());
    tellPeers(message);
    onAllCopied(copied.step());
    regroup(copied.step());
  } else {
    cannotExclude("the checkpoint could not be copied");
    cannotRebalance("the checkpoint could not be copied");
    if (requests_.restarts()) regroup(copied.step());  // it needs no copies
  }
  beginCopies();
  checkDone();  // the run's end may wait for it
}

// At every node.
void RunControl::onAllCopied(std::int64_t step) {
  checkpoints_.onCopied(step);
  tellCopied();
}

// Workers keep this checkpoint, also when later ones are not copied.
void RunControl::tellCopied() {
  node::v1::ToWorker message;
  message.mutable_copied()->set_step(checkpoints_.copied());
  workers_.sendAll(message);
}

// A new generation begins.
void RunControl::endCopies() {
  std::erase_if(endedCopies_, [](const auto& one) { return one->isOver(); });
  if (!copies_) return;
  copies_->end();
  endedCopies_.push_back(std::move(copies_));
}

}  // namespace lockstep::agent
