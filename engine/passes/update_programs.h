// From gradients to updated states: the optimizer's part of each kind of training step.
#pragma once

#include <string>
#include <vector>

#include "engine/passes/program_parts.h"

namespace lockstep::passes {

// The values of a training step that the update reads.
struct StepValues {
  std::vector<ir::ValueId> parameters;  // by group, before the step
  std::vector<ir::ValueId> packs;       // flat gradients by group; the metrics may be one more
  Tables tables;                        // gradients of groups that are updated by rows
  ir::ValueId serverMetrics = -1;  // the metrics for servers that hold nothing but tables; −1: none
  ir::ValueId scaling = -1;        // the state of loss scaling; −1: none
};

// Appends the update of every group from gradients summed over ranks. Returns what the gradients
// are divided by: below 0 in a skipped step.
Result<ir::ValueId> emitUpdates(GraphBuilder& build, const StepProgram& program,
                                const StepValues& values, const Optimizer& optimizer,
                                const StepLayout& layout);

// Appends what an asynchronous worker does with its gradients: their mean goes to the servers,
// which update by it as it comes.
Status emitPushes(GraphBuilder& build, const StepProgram& program, const StepValues& values,
                  const Optimizer& optimizer, const StepLayout& layout);

// Program "update": follows the last micro-batch, updates from accumulated gradients and resets
// them.
Result<ir::Graph> updateProgram(const std::string& model, DType dtype, const StepProgram& step,
                                const Optimizer& optimizer, const StepLayout& layout);
// Program "average": the mean of the ranks' states, weighted by their samples.
Result<ir::Graph> averageProgram(const std::string& model, DType dtype, const StepProgram& step,
                                 const Optimizer& optimizer, const StepLayout& layout);

}  // namespace lockstep::passes
