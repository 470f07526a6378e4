// From one graph whose nodes have stages to a graph a stage, and from a stage's graph to the
// programs that its schedule runs. Stages are those of a pipeline, or workers and parameter
// servers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/ir/model_graph.h"

namespace lockstep::passes {

// Gives every node of a forward graph the stage of its layer.
void assignStages(ir::ModelGraph& model, const std::vector<int>& stageOfLayer);

// Consecutive layers to `stages` stages, none of them empty, so that the largest sum of costs is as
// small as it can be. Precondition: no fewer layers than stages.
std::vector<int> balanceStages(const std::vector<double>& layerCosts, int stages);
// The same where a layer costs each stage something else: costs[stage][layer].
std::vector<int> balanceStages(const std::vector<std::vector<double>>& costs);

// One graph a stage: its own nodes and those of every stage, in the order they had. What another
// stage reads is sent where it is made, and received at the same point of the order; so between two
// stages all is sent and received in one order. Inputs, constants and initial values are not sent
// but recreated. What a server reads of its workers is a partial sum over axis "data", which it
// adds up; what they read of it goes to all of them. In server sessions a server reads of one
// worker, and sends to one. Rows that are pushed and pulled become messages of as many rows as
// there are.
Result<std::vector<ir::Graph>> cutStages(const ir::Graph& graph, const cluster::Mesh& mesh,
                                         bool serverSessions = false);

// A value that a program leaves for a later one of the same micro-batch, or for the thread that
// sends: it is a state, of which each micro-batch on the way needs a copy.
struct SavedTensor {
  std::string state;
  ir::TensorType type;
  int from = 0, to = 0;  // the programs that make it and that read it last
  bool sent = false;     // the thread may still send it when the program runs again
};
struct Programs {
  std::vector<ir::Graph> graphs;
  std::vector<SavedTensor> saved;
};
inline std::vector<const ir::Graph*> graphsIn(const Programs& programs) {
  std::vector<const ir::Graph*> out;
  for (const ir::Graph& graph : programs.graphs) out.push_back(&graph);
  return out;
}
// `partOf` says of each node in which program it runs; no node reads what a later one makes.
// States are named "stash.<name>.N". Views, inputs and constants are recreated where they are read.
Result<Programs> splitPrograms(const ir::Graph& graph, const std::vector<int>& partOf, int parts,
                               std::string_view name);

// The parts of a training step: forward and backward; with `splitWeightGrad` a third one, of the
// gradients of parameters, which nothing waits for (Qi et al.: "Zero Bubble Pipeline Parallelism",
// 2023): all but those that are little work and would keep more than they make.
std::vector<int> trainingParts(const ir::Graph& stage, bool splitWeightGrad);

// The parts of a server's session with a worker for one step, plan::kServerSession.
std::vector<int> serverSessionParts(const ir::Graph& server);

}  // namespace lockstep::passes
