// The strategies by name, each as what it shares out. Everything else follows from placement.
#pragma once

#include <span>
#include <string_view>

#include "engine/cluster/mesh.h"

namespace lockstep::cluster {

struct Strategy {
  std::string_view name;
  std::string_view axis = kDataAxis;  // has all ranks that no other axis is asked to have
  bool oneNode = false;               // all ranks are in one node
  bool servers = false;               // parameters and optimizer state are on ranks of their own,
  bool oneServer = false;             // or on one
  bool staleness = false;             // workers may be ahead of each other
  bool local = false;  // each rank updates by itself; after a step's updates all are averaged
  // Whether the ranks of axis `data` each hold a part, or all of it each. Where parts of optimizer
  // state are held, gradients arrive reduced and in parts, and updated parameters are gathered
  // (Rajbhandari et al.: "ZeRO", 2020). Splitting gradients too makes a difference where those of
  // micro-batches are added up.
  bool splitOptimizer = false, splitGradients = false, splitParameters = false;
};

std::span<const Strategy> strategies();               // the default first
const Strategy* findStrategy(std::string_view name);  // null for an unknown one

}  // namespace lockstep::cluster
