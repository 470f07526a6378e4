// Evaluations: at the coordinator of a run in which a node of role evaluator evaluates. Which
// checkpoint is the newest that is to be evaluated, its bytes, and what came of it. A checkpoint
// that is being fetched stays readable when newer ones have taken its place. Threads: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

class Evaluations {
 public:
  explicit Evaluations(std::string node) : node_(std::move(node)) {}
  ~Evaluations();
  Evaluations(const Evaluations&) = delete;
  Evaluations& operator=(const Evaluations&) = delete;
  const std::string& node() const { return node_; }

  // An epoch has ended: the checkpoint of its step is to be evaluated once it has been written.
  void onEpoch(const run::v1::EpochInfo& epoch) { ended_ = epoch; }
  // True where this is that checkpoint: newest() is to be told.
  bool onCheckpoint(const run::v1::CheckpointInfo& checkpoint);

  // The newest checkpoint, where nothing has come of it yet.
  std::optional<node::v1::Evaluate> newest() const;
  node::v1::CheckpointPart part(const node::v1::CheckpointGet& asked);
  // False where it was known already.
  bool onEvaluated(const node::v1::Evaluated& evaluated);
  void giveUp() { lost_ = true; }  // nothing more will come
  bool lost() const { return lost_; }
  bool awaited() const { return !lost_ && newest().has_value(); }
  // Of the newest checkpoint that was evaluated.
  const std::optional<run::v1::EpochInfo>& last() const { return last_; }
  // Whether that is the newest there is.
  bool complete() const { return last_ && newest_ && last_->step() == newest_->epoch().step(); }

 private:
  const std::string node_;
  std::optional<run::v1::EpochInfo> ended_, last_;
  std::optional<node::v1::Evaluate> newest_;
  std::string path_;            // of the newest
  std::int64_t answered_ = -1;  // step of the newest that something came of
  bool lost_ = false;
  int file_ = -1;  // being fetched: of step fetched_
  std::int64_t fetched_ = -1;
};

}  // namespace lockstep::agent
