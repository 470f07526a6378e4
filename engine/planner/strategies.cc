#include "engine/planner/strategies.h"

#include <array>

namespace lockstep::planner {
namespace {

constexpr std::array kStrategies{
    Strategy{.name = "mirrored", .oneNode = true},
    Strategy{.name = "multi-worker-mirrored"},
    Strategy{.name = "zero-1", .splitOptimizer = true},
    Strategy{.name = "zero-2", .splitOptimizer = true, .splitGradients = true},
    Strategy{.name = "zero-3", .splitOptimizer = true, .splitGradients = true,
             .splitParameters = true},
    Strategy{.name = "tensor-parallel"},  // each layer over axis model, the batch over axis data
    Strategy{.name = "pipeline"},         // the layers over axis stage, the batch over axis data
    Strategy{.name = "placement"},        // the same, with the layers where they are pinned
    Strategy{.name = "local-sgd", .local = true},
    Strategy{.name = "parameter-server", .servers = true},
    Strategy{.name = "central-storage", .oneNode = true, .servers = true, .oneServer = true},
};

}  // namespace

std::span<const Strategy> strategies() {
  return kStrategies;
}

const Strategy* findStrategy(std::string_view name) {
  for (const Strategy& strategy : kStrategies) {
    if (strategy.name == name) return &strategy;
  }
  return nullptr;
}

}  // namespace lockstep::planner
