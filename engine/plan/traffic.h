// Traffic between a plan's ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/plan.h"

namespace lockstep::plan {

// Traffic from one rank to another in a training step.
struct Traffic {
  int from = 0, to = 0;
  std::int64_t bytes = 0;
  // Includes table rows, planned as if all ids were distinct and evenly spread over the servers: an
  // upper bound only on a worker's total with all servers.
  bool atMost = false;
};
// Both are sorted by sender, then receiver. Messages go between stages, or to and from servers.
std::vector<Traffic> messageTraffic(const Plan& plan);
// Messages and collectives. An all-reduce with a planned algorithm counts as its messages; one that
// the communicator implements itself counts as a direct reduce-scatter and all-gather: 2/n of the
// payload between every two of n ranks.
std::vector<Traffic> stepTraffic(const Plan& plan);
// Returns the bytes that the rank sends to and receives from all others in a training step, counted
// alike. In a collective of such a step it receives as much as it sends.
std::int64_t exchangedBytes(const Plan& plan, int rank);

// Tables that servers shard by rows.
struct ServedTables {
  std::int64_t tableBytes = 0;      // all rows
  std::int64_t rows = 0;            // at most, received by the worker in a training step
  std::int64_t exchangedBytes = 0;  // at most, with all servers: ids, rows and gradients
};
ServedTables servedTables(const Plan& plan, int worker);

}  // namespace lockstep::plan
