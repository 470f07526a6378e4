// From the graph of a program to the bodies of all ranks: placement over axis "data", stages, each
// rank's share, memory.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/passes/pass_manager.h"
#include "engine/passes/stages.h"
#include "engine/planner/overlap.h"
#include "engine/planner/pipeline.h"
#include "engine/planner/plan_context.h"
#include "engine/planner/state_layout.h"

namespace lockstep::planner {

class ProgramBuilder {
 public:
  // Adds programs to `plan`. All outlive the builder.
  ProgramBuilder(const PlanContext& context, const passes::PassManager& passes,
                 PipelineSchedule& pipeline, StateLayout& state, plan::Plan& plan)
      : context_(context), passes_(passes), pipeline_(pipeline), state_(state), plan_(plan) {}

  // Adds the programs that one graph becomes: one, or those into which `names` divide a training
  // step (a pipeline's passes, a parameter-server session).
  Status add(const std::vector<std::string>& names, const ir::Graph& graph,
             const passes::Sources& sources);
  // Like add(). If gradients are top-k compressed after a warm-up, also adds the uncompressed
  // programs of the warm-up (Lin et al.: "Deep gradient compression", 2018).
  Status addTraining(const std::vector<std::string>& names, const ir::Graph& graph,
                     const passes::Sources& sources, const passes::GradientNodes& gradients);

 private:
  // The passes, in order: of a program's graph, then of each rank's.
  std::vector<passes::Pass> programPasses(const passes::Sources& sources) const;
  std::vector<passes::Pass> rankPasses(int rank) const;

  Status addStages(const std::vector<std::string>& names, const ir::Graph& placed);
  Status addBodies(std::vector<plan::Program>& programs, const ir::Graph& graph, int stage,
                   int rank);
  int copiesOf(int stage, const passes::SavedTensor& one) const;
  void chooseCopies(int stage, const std::vector<passes::SavedTensor>& saved);
  OverlapPolicy& overlapOf(const std::string& program);
  std::string stageRole(const plan::Program& program, int stage, int rank) const;
  std::string role(std::string_view program, int rank, int bodies) const;

  const PlanContext& context_;
  const passes::PassManager& passes_;
  PipelineSchedule& pipeline_;
  StateLayout& state_;
  plan::Plan& plan_;
  passes::GradientNodes gradients_;  // of the training programs
  bool compresses_ = true;      // false while the programs of an uncompressed warm-up are built
  std::set<int> copiesChosen_;  // stages whose number of copies is final
  std::map<std::string, OverlapPolicy> overlap_;  // by program
};

}  // namespace lockstep::planner
