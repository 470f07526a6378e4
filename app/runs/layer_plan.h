// The layers of a model as a plan places them on ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class RunSpec;
}

namespace lockstep::app {

struct PlannedLayer {
  int stage = 0;  // of a pipeline
  // Bytes of parameters, statistics and optimizer state on the rank that holds most of them.
  std::int64_t stateBytes = 0;
  // Bytes of the output for the samples that a rank has at a time, before tensor parallelism
  // divides it.
  std::int64_t outputBytes = 0;
};
struct LayerPlan {
  int ranks = 0, stages = 1;
  std::int64_t samples = 0;  // of a micro-batch on a rank, at most
  std::vector<PlannedLayer> layers;
};
// Plans a complete spec (loadRunSpec) on `ranks` CPU ranks of one node. Takes milliseconds, seconds
// for a thousand layers. Thread-safe. Errors: as makePreview().
Result<LayerPlan> planLayers(const spec::v1::RunSpec& spec, int ranks);
// Returns the smallest number of ranks that the spec's strategy can divide the work among.
int leastRanks(const spec::v1::RunSpec& spec);

}  // namespace lockstep::app
