// Evaluations: the coordinator's side of evaluation by an evaluator node. Tracks the newest
// checkpoint to evaluate, serves its bytes and keeps its result. A checkpoint stays readable while
// it is being fetched, even if newer ones replace it. Not thread-safe.
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

  // Records the end of an epoch, whose checkpoint is evaluated once it is written.
  void onEpoch(const run::v1::EpochInfo& epoch) { ended_ = epoch; }
  // Returns whether this is that checkpoint; the evaluator must then be sent newest().
  bool onCheckpoint(const run::v1::CheckpointInfo& checkpoint);

  // Returns the newest checkpoint, if it has no result yet.
  std::optional<node::v1::Evaluate> newest() const;
  node::v1::CheckpointPart part(const node::v1::CheckpointGet& asked);
  // Returns false if the result is a duplicate.
  bool onEvaluated(const node::v1::Evaluated& evaluated);
  void giveUp() { lost_ = true; }  // nothing more will come
  bool lost() const { return lost_; }
  bool awaited() const { return !lost_ && newest().has_value(); }
  // Returns the result of the newest evaluated checkpoint.
  const std::optional<run::v1::EpochInfo>& last() const { return last_; }
  // Returns whether the newest checkpoint is evaluated.
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
