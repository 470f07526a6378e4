// BatchShares: how many samples of a step each rank has.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/cluster/mesh.h"

namespace lockstep::plan {

struct Plan;

class BatchShares {
 public:
  BatchShares() = default;  // not known
  explicit BatchShares(const Plan& plan);
  // Returns those of ranks 0 … world − 1; of another world than the plan's, those of a run that was
  // planned again for so many ranks. 0: of a server. Empty: not known.
  std::vector<double> of(int world) const;
  // Returns which share each of these ranks has, counted from 0; -1: a server. Empty: not known.
  std::vector<int> shareOf(int world) const;
  // The batch was divided anew; by rank.
  void divideAnew(std::vector<double> samples) { anew_ = std::move(samples); }

 private:
  cluster::Mesh meshOf(int world) const;

  std::vector<double> anew_;  // empty: it was not
  cluster::Mesh mesh_;
  std::vector<std::int64_t> cuts_;  // of a micro-batch, along axis data
  int microBatches_ = 1;            // of a step
};

}  // namespace lockstep::plan
