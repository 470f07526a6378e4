// Running statistics of batch norm: sums over ranks and micro-batches, and the states they update.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/passes/program_parts.h"

namespace lockstep::passes {

std::vector<StepProgram::Running> runningOf(const ir::Graph& train,
                                            const std::vector<Group>& statistics);

// Flattens what ranks sum for the statistics of group k into one value: one collective at most.
Result<ir::ValueId> packStatistics(GraphBuilder& build, const StepProgram& program, std::size_t k,
                                   const Rewrite& values);

// Appends the statistics of group k after the step, from the flat `sums`. `before` returns a mean
// or variance before the step by the name of its state.
Result<ir::ValueId> nextStatistics(
    GraphBuilder& build, const StepProgram& program, std::size_t k, ir::ValueId sums,
    const std::function<Result<ir::ValueId>(const std::string&)>& before);
// Appends the statistics of every group, in the program that computes their sums.
Result<std::vector<ir::ValueId>> nextStatistics(GraphBuilder& build, const StepProgram& program,
                                                const Rewrite& values);

// Stores the statistics `next` of group k. `norm` is the id of a value that is below 0 in a skipped
// step, which keeps `before`; −1 where no step is skipped.
Status storeStatistics(GraphBuilder& build, const StepProgram& program, std::size_t k,
                       ir::ValueId next, ir::ValueId before, ir::ValueId norm);
Status storeStatistics(GraphBuilder& build, const StepProgram& program,
                       const std::vector<ir::ValueId>& next, const std::vector<ir::ValueId>& before,
                       ir::ValueId norm);

}  // namespace lockstep::passes
