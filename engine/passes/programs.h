// The programs of a run as logical graphs of the whole batch, before placement.
//
// State "params.K" is the flat group K; optimizer state has one flat group beside each. Every
// program that computes a loss has the result "metrics" f[4]: Σ w·loss, Σ w, Σ w·[correct] and the
// number of ranks asked to stop. In the step they travel as the tail of the first gradient group,
// so that they cost no collective of their own.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/ir/model_graph.h"
#include "engine/passes/group.h"
#include "engine/passes/train_graph.h"

namespace lockstep::passes {

// Prefixes of the optimizer's state groups: "adam.m", "adam.v"; "sgd.v".
// Errors: kInvalidArgument for an unknown optimizer, listing the known.
Result<std::vector<std::string>> optimizerStates(const Optimizer& optimizer);

struct TrainProgram {
  ir::Graph graph;             // inputs of the model, "lr", "t", "stop"
  std::vector<Group> groups;   // in the order their gradients are filled
};
Result<TrainProgram> stepProgram(const ir::ModelGraph& model, const TrainOptions& options,
                                 std::int64_t bucketBytes);
Result<ir::Graph> evaluateProgram(const ir::ModelGraph& model, const std::vector<Group>& groups);
// Every element is a function of seed, parameter name and its index: equal for every grouping.
Result<ir::Graph> initProgram(const ir::ModelGraph& model, const std::vector<Group>& groups,
                              const TrainOptions& options);

}  // namespace lockstep::passes
