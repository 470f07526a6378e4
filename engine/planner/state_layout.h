// The state of a run in flat groups: parameters, optimizer state, statistics, residuals, sums; and
// where along axis "data" each of them lives.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/ir/model_graph.h"
#include "engine/passes/distribute.h"
#include "engine/passes/programs.h"
#include "engine/planner/plan_context.h"

namespace lockstep::planner {

class StateLayout {
 public:
  // Appends slots to `plan`, which outlives the layout, as does the context.
  StateLayout(const PlanContext& context, plan::Plan& plan)
      : context_(context), plan_(plan), bytes_(static_cast<std::size_t>(context.stages()), 0) {}

  // Adds the slots of a step program. `splits` says which parameters axis "model" divides, `parts`
  // which are rows of a sharded table.
  Status add(const passes::StepProgram& step, const passes::Sources& splits,
             const std::map<std::string, ir::Parameter::PartOf, std::less<>>& parts);
  // Places one slot behind those of its stage.
  void addSlot(plan::StateSlot slot);
  std::int64_t peakBytes() const;  // of the stage that has most

  // Placements along axis "data" of states, and of what is computed for them.
  passes::Sources sources() const;
  // Adds: gradients are reduce-scattered where optimizer state is split.
  void splitGradients(const passes::StepProgram& step, passes::Sources& sources) const;
  // Adds: the model's inputs are cut along the batch.
  static void splitInputs(const ir::Graph& model, const std::vector<std::int64_t>& cuts,
                          passes::Sources& sources);

 private:
  plan::StateSlot slotOf(plan::StateRole role, std::string name, const passes::Group& group) const;
  // Adds a slot of `kind` for each group, numbered from `first` on; `split`: each rank along axis
  // "data" holds a part.
  void addGroups(plan::StateRole role, const std::string& kind, bool split,
                 const std::vector<passes::Group>& groups, const passes::Sources& splits,
                 const std::map<std::string, ir::Parameter::PartOf, std::less<>>& parts,
                 std::size_t first = 0);
  void addResiduals(const passes::StepProgram& step);
  void addSums(const passes::StepProgram& step);

  const PlanContext& context_;
  plan::Plan& plan_;
  std::vector<std::int64_t> bytes_;               // by stage
  std::set<std::string, std::less<>> wholeSums_;  // sums that every rank has of all ranks
};

}  // namespace lockstep::planner
