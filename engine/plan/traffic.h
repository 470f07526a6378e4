// What a plan's ranks send each other.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/plan.h"

namespace lockstep::plan {

// Traffic from one rank to another in a training step.
struct Traffic {
  int from = 0, to = 0;
  std::int64_t bytes = 0;
  // Includes table rows, planned as if all ids were distinct and evenly spread over servers; a
  // bound only on a worker's total with all servers.
  bool atMost = false;
};
// Both are sorted by sender, then receiver. Messages go between stages, or to and from servers.
std::vector<Traffic> messageTraffic(const Plan& plan);
// Messages and collectives. Of an all-reduce with an algorithm in its step these are its messages;
// of one that the communicator makes itself a direct reduce-scatter and all-gather: 2/n of the
// payload between every two of n ranks.
std::vector<Traffic> stepTraffic(const Plan& plan);

// Tables that servers hold by rows.
struct ServedTables {
  std::int64_t tableBytes = 0;      // of all their rows
  std::int64_t rows = 0;            // that the worker receives in a training step, at most
  std::int64_t exchangedBytes = 0;  // with all servers: ids, rows and gradients, at most
};
ServedTables servedTables(const Plan& plan, int worker);

}  // namespace lockstep::plan
