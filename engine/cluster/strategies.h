// The strategies by name, each described by what it distributes. Placement derives everything else.
#pragma once

#include <span>
#include <string_view>

#include "engine/cluster/mesh.h"

namespace lockstep::cluster {

struct Strategy {
  std::string_view name;
  std::string_view axis = kDataAxis;  // gets all ranks that other axes do not use
  bool oneNode = false;               // all ranks are on one node
  bool servers = false;               // parameters and optimizer state are on dedicated ranks
  bool oneServer = false;             // on one dedicated rank
  bool staleness = false;             // supports asynchronous workers
  bool pinned = false;                // stages are as the user pins layers to them
  bool local = false;  // ranks update locally; after each step all states are averaged
  // What is sharded over axis `data` (Rajbhandari et al.: "ZeRO", 2020). With sharded optimizer
  // state gradients are reduce-scattered and updated parameters gathered. Sharding gradients
  // matters only where those of micro-batches are accumulated.
  bool splitOptimizer = false, splitGradients = false, splitParameters = false;
};

std::span<const Strategy> strategies();               // the default first
const Strategy* findStrategy(std::string_view name);  // null if unknown

// In a spec, stands for the best strategy found for the cluster.
inline constexpr std::string_view kAutoStrategy = "auto";

}  // namespace lockstep::cluster
