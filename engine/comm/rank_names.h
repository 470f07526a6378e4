// RankNames: how messages to people call the ranks of a group. A run has one group for each axis of
// its mesh, whose ranks are other ranks of the run.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace lockstep::comm {

class RankNames {
 public:
  RankNames() = default;  // as they are
  explicit RankNames(std::vector<int> ofRun) : ofRun_(std::move(ofRun)) {}
  int operator()(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return at < ofRun_.size() ? ofRun_[at] : rank;
  }

 private:
  std::vector<int> ofRun_;  // by rank of the group
};

}  // namespace lockstep::comm
