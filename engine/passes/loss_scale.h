// Loss scaling (Micikevicius et al.: "Mixed precision training", 2018): gradients are made of a
// loss that is multiplied by so much that they are not too small for f16, and divided by it again
// where an optimizer divides by the norm. Where they are too large all the same the step updates
// nothing, on any rank, and the scale is smaller from then on.
//
// State "scaling.0" is {scale, good_steps, skipped}, see kLossScale. The scale is of the mean loss
// of a step; the graph's loss is a sum, whose scale is smaller by the number of its terms, as a
// power of two: no digit is lost. Result "scaling" f[2] of a program that updates: the scale that
// its gradients had, and a norm, below 0 where it updated nothing.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/passes/graph_builder.h"
#include "engine/passes/group.h"
#include "engine/passes/train_graph.h"

namespace lockstep::passes {

inline constexpr std::string_view kScaling = "scaling.0";
// The node that says whether a step updates, by its norm: 0 or above.
inline constexpr std::string_view kFinite = "scaling.divisor";

struct Scaling {
  LossScale how;
  std::int64_t terms = 1;  // of the loss of a step
  int stage = 0;           // where the state is
};

Group scalingGroup(const Scaling& scaling);
// The state as it was before a program; `copied`: a copy of it, which may still be on its way when
// the state changes, to stages that send nothing back by which it is known to have arrived, as a
// server that has no group.
Result<ir::ValueId> scalingState(GraphBuilder& build, const Scaling& scaling, bool copied);
// From the state, on the builder's stage: what the gradient of the sum starts from.
Result<ir::ValueId> lossSeed(GraphBuilder& build, const Scaling& scaling, ir::ValueId state,
                             std::string name);
Status storeInitialScaling(GraphBuilder& build, const Scaling& scaling);

struct Judged {
  ir::ValueId norm = -1;     // what gradients are divided by; below 0: nothing is updated
  ir::ValueId updates = -1;  // the number of this one among those that update
};
// Returns whether gradients are finite, and the scaling state after the step. `squares` is the sum
// of squares of all gradients, equal on all ranks. `unscaled` gradients are already divided by the
// scale.
Result<Judged> judge(GraphBuilder& build, const Scaling& scaling, int everywhere, ir::ValueId state,
                     ir::ValueId norm, ir::ValueId squares, ir::ValueId updates, bool unscaled);

}  // namespace lockstep::passes
