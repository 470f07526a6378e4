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

// The rows of all ranks brought together, those of one id added up; −1 where there is none.
struct CombinedRows {
  ir::ValueId sums = -1, ids = -1;
};
Result<CombinedRows> combineRows(GraphBuilder& build, std::size_t k, const TableRows& gradient);

// Updates parameters and optimizer state of group k with the sum of gradients / norm. Returns the
// parameters after it.
Result<ir::ValueId> emitUpdate(GraphBuilder& build, const Optimizer& optimizer, std::size_t k,
                               const Group& group, ir::ValueId parameters, ir::ValueId gradients,
                               ir::ValueId norm, ir::ValueId rate, ir::ValueId updates);
Result<ir::ValueId> emitRowUpdate(GraphBuilder& build, const Optimizer& optimizer, std::size_t k,
                                  const Group& group, ir::ValueId parameters,
                                  const CombinedRows& gradient, const ir::Attrs& part,
                                  ir::ValueId norm, ir::ValueId rate);
// Σ of the squares of all gradients, or of other values that are laid out in the groups. A
// parameter that several ranks hold counts once. `at`: the stage that has the sum.
Result<ir::ValueId> sumOfSquares(GraphBuilder& build, const std::string& name, int at,
                                 const std::vector<Group>& groups,
                                 const std::vector<ir::ValueId>& values,
                                 const std::map<std::size_t, CombinedRows>& rows,
                                 const StepLayout& layout);
// Returns the divisor of the sum of gradients with which the norm of their mean is at most `limit`.
Result<ir::ValueId> clipped(GraphBuilder& build, const StepLayout& layout, ir::ValueId norm,
                            ir::ValueId squares, double limit);
// From whole sums of gradients to the states of after an update; `norm` is how much they weigh,
// where it is not known by another value on a group's stage. `scaling` is the state of loss
// scaling, −1 without. What they are divided by: where it is below 0 nothing has been updated.
Result<ir::ValueId> emitOptimizer(GraphBuilder& build, const std::vector<Group>& groups,
                                  const std::vector<ir::ValueId>& parameters,
                                  const std::vector<ir::ValueId>& gradients, const Tables& tables,
                                  ir::ValueId norm, const Optimizer& optimizer,
                                  const StepLayout& layout, ir::ValueId scaling = -1,
                                  const std::map<int, ir::ValueId>& norms = {});

}  // namespace lockstep::passes
