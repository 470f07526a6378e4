#include "engine/cluster/strategies.h"

#include <array>

namespace lockstep::cluster {
namespace {

constexpr std::array kStrategies{
    Strategy{.name = "multi-worker-mirrored"},
    Strategy{.name = "mirrored", .oneNode = true},
    Strategy{.name = "zero-1", .splitOptimizer = true},
    Strategy{.name = "zero-2", .splitOptimizer = true, .splitGradients = true},
    Strategy{
        .name = "zero-3", .splitOptimizer = true, .splitGradients = true, .splitParameters = true},
    Strategy{.name = "tensor-parallel", .axis = kModelAxis},  // splits each layer
    Strategy{.name = "pipeline", .axis = kStageAxis},         // splits the layers
    Strategy{.name = "placement", .axis = kStageAxis, .pinned = true},
    Strategy{.name = "local-sgd", .local = true},
    Strategy{.name = "parameter-server", .servers = true, .staleness = true},
    Strategy{.name = "central-storage", .oneNode = true, .servers = true, .oneServer = true},
};

}  // namespace

std::span<const Strategy> strategies() { return kStrategies; }

const Strategy* findStrategy(std::string_view name) {
  for (const Strategy& strategy : kStrategies) {
    if (strategy.name == name) return &strategy;
  }
  return nullptr;
}

}  // namespace lockstep::cluster
