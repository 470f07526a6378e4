// Evaluations: the coordinator's side of evaluation by an evaluator node. Tracks the newest
// checkpoint to evaluate, and keeps its result. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

class Evaluations {
 public:
  explicit Evaluations(std::string node) : node_(std::move(node)) {}
  const std::string& node() const { return node_; }

  // Records the end of an epoch, whose checkpoint is evaluated once it is written.
  void onEpoch(const run::v1::EpochInfo& epoch) { ended_ = epoch; }
  // A checkpoint is published; `sources` have its files. Returns whether it is the checkpoint of
  // the epoch that has ended; the evaluator must then be sent newest().
  bool onCheckpoint(std::int64_t step, std::vector<node::v1::FileSource> sources);

  // Returns the newest checkpoint, if it has no result yet.
  std::optional<node::v1::Evaluate> newest() const;
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
  std::int64_t answered_ = -1;  // step of the newest that something came of
  bool lost_ = false;
};

}  // namespace lockstep::agent
