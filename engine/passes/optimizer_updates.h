// The optimizer's nodes: from gradients to the states of after an update.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/passes/graph_builder.h"
#include "engine/passes/group.h"
#include "engine/passes/programs.h"

namespace lockstep::passes {

// A gradient that is a few rows of a table: dy's row i is that of the table's row ids[i].
struct TableRows {
  ir::ValueId ids = -1, rows = -1;
  ir::Attrs part;  // which elements of the table the group is: first, axis, stride
};
// The gradients of groups that are updated by rows.
using Tables = std::map<std::size_t, TableRows>;

// Of group k: parameters and optimizer state by the sum of gradients / norm.
Status emitUpdate(GraphBuilder& build, const Optimizer& optimizer, std::size_t k, std::int64_t count,
                  ir::ValueId parameters, ir::ValueId gradients, ir::ValueId norm, ir::ValueId rate,
                  ir::ValueId updates);
// The rows of all ranks are brought together, then those of one id added up.
Status emitRowUpdate(GraphBuilder& build, const Optimizer& optimizer, std::size_t k,
                     std::int64_t count, ir::ValueId parameters, const TableRows& gradient,
                     ir::ValueId norm, ir::ValueId rate);
// What the sum of gradients is divided by so that their mean is at most `limit` long. A parameter
// that several ranks hold counts once.
Result<ir::ValueId> clipped(GraphBuilder& build, const std::vector<Group>& groups,
                        const std::vector<ir::ValueId>& gradients, const Grouping& grouping,
                        ir::ValueId norm, double limit);
// From whole sums of gradients to the states of after an update; `norm` is how much they weigh, where it
// is not known by another value on a group's stage.
Status emitOptimizer(GraphBuilder& build, const std::vector<Group>& groups,
                     const std::vector<ir::ValueId>& parameters, const std::vector<ir::ValueId>& gradients,
                     const Tables& tables, ir::ValueId norm, const Optimizer& optimizer,
                     const Grouping& grouping, const std::map<int, ir::ValueId>& norms = {});

}  // namespace lockstep::passes
