// Requests: what a person has asked of a running training that is done after its next checkpoint:
// to continue without nodes, to restart all ranks, to divide the batch anew. Nodes that fail again
// and again are left out in the same way, though nobody has asked. Says what is due; has neither
// processes nor timers. The coordinator tells the other nodes what is pending, so that one that
// takes over continues with it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/supervisor/recovery.h"
#include "engine/base/status.h"

namespace lockstep::agent {

// Why a node is excluded that has failed again and again.
Message failingText(const Recovery& recovery, const std::string& node);

class Requests {
 public:
  // To be done after a checkpoint of step `from` or later. A later request replaces an earlier one;
  // nodes are excluded together.
  void exclude(const std::string& node, std::int64_t from);
  void restart(std::int64_t from) { restartFrom_ = from; }
  void rebalance(std::vector<double> shares, std::int64_t from);
  // Excludes a node that nobody has asked to exclude.
  void excludeFailing(const std::string& node);

  // What another Requests continues from. Its own pending requests are replaced.
  node::v1::Decisions pending() const;
  void continueFrom(const node::v1::Decisions& pending);

  void dropExclusion(const std::string& node);
  // Each returns whether there was something to drop.
  bool dropRestart() { return std::exchange(restartFrom_, std::nullopt).has_value(); }
  bool dropRebalancing() { return std::exchange(rebalancing_, std::nullopt).has_value(); }
  std::vector<std::string> dropExclusions();  // returns the nodes
  // All ranks restart. Nodes that are still to be excluded are so after any checkpoint; these were.
  void onRestart(std::set<std::string> excluded);
  // The run goes on without the node. Returns whether it was to be excluded: then it stays so.
  bool onLeftOut(const std::string& node);

  bool any() const { return !excluding_.empty() || restartFrom_ || rebalancing_; }
  struct Due {
    bool exclusion = false, restart = false, rebalancing = false;
    bool any() const { return exclusion || restart || rebalancing; }
  };
  Due due(std::int64_t step) const;  // after a checkpoint of this step
  bool restarts() const { return restartFrom_.has_value(); }
  std::vector<double> shares() const;  // of the batch; empty: it is not divided anew
  // Nodes to exclude, in the order of the requests.
  const std::vector<std::string>& excluding() const { return excluding_; }
  bool isExcluding(const std::string& node) const;
  // Whether the node is to be excluded and nobody has asked.
  bool isFailing(const std::string& node) const { return failing_.contains(node); }
  // Whether the run has gone on without the node, and does not take it back.
  bool isExcluded(const std::string& node) const { return excluded_.contains(node); }
  const std::set<std::string>& excluded() const { return excluded_; }
  Message excludedText(const Recovery& recovery) const;  // why the nodes are excluded

 private:
  struct Rebalancing {
    std::vector<double> shares;
    std::int64_t from = 0;
  };
  std::vector<std::string> excluding_;
  std::set<std::string> failing_;  // those of them that nobody has asked to exclude
  std::int64_t excludeFrom_ = 0;
  std::optional<std::int64_t> restartFrom_;
  std::optional<Rebalancing> rebalancing_;
  std::set<std::string> excluded_;
};

}  // namespace lockstep::agent
