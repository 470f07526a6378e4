// RunControl: evaluation by a node of role evaluator, apart from the training.
#include <algorithm>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/run_control.h"
#include "engine/base/log.h"
#include "engine/specs/specs.h"

namespace lockstep::agent {

using node::v1::FromPeer;
using node::v1::ToPeer;

// ---- at the coordinator

void RunControl::onEpoch(run::v1::Record& record) {
  if (!evaluations_) return;
  record.mutable_epoch()->set_evaluated_later(true);
  evaluations_->onEpoch(record.epoch());
}

void RunControl::onCheckpoint(std::int64_t step) {
  if (evaluations_ && evaluations_->onCheckpoint(step, fileSources())) tellEvaluator();
}

// The nodes whose ranks write checkpoints, then those that keep copies.
std::vector<node::v1::FileSource> RunControl::fileSources() const {
  std::vector<node::v1::FileSource> out;
  const auto add = [&](const std::string& name, const std::vector<int>& ranks) {
    const auto peer = peers_.find(name);
    const bool isHere = name == request_.node();
    if (!isHere && peer == peers_.end()) return;
    node::v1::FileSource& source = out.emplace_back();
    source.set_node(name);
    source.set_address(isHere ? server_->address() : peer->second.address);
    source.mutable_ranks()->Add(ranks.begin(), ranks.end());
  };
  const auto ranks = ranksByNode(request_);
  for (const auto& [name, own] : ranks) add(name, own);
  for (const auto& [holder, nodes] : copiedNodes(request_))
    for (const std::string& name : nodes) add(holder, ranks.at(name));
  return out;
}

void RunControl::tellEvaluator() {
  const auto newest = evaluations_->newest();
  if (!newest) return;
  ToPeer message;
  *message.mutable_evaluate() = *newest;
  server_->send(evaluations_->node(), message);
}

void RunControl::onEvaluated(const node::v1::Evaluated& evaluated) {
  if (over_ || !evaluations_->onEvaluated(evaluated)) return;
  if (evaluated.error().code().empty()) {
    run::v1::Record record;
    *record.mutable_evaluation() = evaluated.epoch();
    record.mutable_evaluation()->set_evaluated_later(false);
    spool_.append(std::move(record));
  } else {
    const Error cause = fromInfo(evaluated.error());
    Error warning = cause;
    warning.what =
        message("the weights after step {} could not be evaluated", evaluated.epoch().step());
    warning.why = cause.why.empty() ? cause.what : message("{}: {}", cause.what, cause.why);
    warning.next = "the training goes on, and so does evaluation after its next epoch";
    warning.node = evaluations_->node();
    warning.rank = -1;
    warning.step = evaluated.epoch().step();
    warn(std::move(warning));
  }
  checkDone();
}

void RunControl::evaluatorLost(const Message& why) {
  if (evaluations_->lost()) return;
  evaluations_->giveUp();
  Error warning =
      makeError(Code::kUnavailable, "node {} does not evaluate any more", evaluations_->node());
  warning.why = why;
  warning.next = "the training goes on without evaluation";
  warning.node = evaluations_->node();
  warn(std::move(warning));
  checkDone();
}

void RunControl::warn(Error warning) {
  logWarning("{}", warning.text());
  run::v1::Record record;
  *record.mutable_warning() = toInfo(warning);
  if (!over_) spool_.append(std::move(record));
}

// ---- at the node that evaluates

void RunControl::startEvaluator() {
  Evaluator::Handlers handlers;
  handlers.generation = [this] { return generation_; };
  handlers.tell = [this](const node::v1::Evaluated& evaluated) {
    FromPeer message;
    *message.mutable_evaluated() = evaluated;
    if (client_) client_->send(std::move(message));
  };
  handlers.say = [this](std::string line) {
    if (!over_) say(std::move(line));
  };
  const spec::v1::NodeSpec* node = specs::evaluatorNode(request_.cluster());
  const specs::RankDevice device = specs::rankDevices(*node, request_.spec().training()).front();
  evaluator_ = std::make_unique<Evaluator>(loop_, folder_, request_, device, std::move(handlers));
  if (Status status = evaluator_->start(); !status.ok()) localFailure(status.error(), false);
}

}  // namespace lockstep::agent
