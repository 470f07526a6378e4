// Activation recomputation: what the backward pass reads of the forward pass is kept in part, and
// the rest made again from it when it is read. It trades time for memory and changes no bit.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/ir/graph.h"

namespace lockstep::passes {

enum class Recompute {
  kNone,
  // Products, convolutions, attention, lookups and sums of branches are kept, what is between them
  // is made again (Korthikanti et al.: "Reducing Activation Recomputation in Large Transformer
  // Models", 2022).
  kSelective,
  // The forward pass is cut, where one value is all that later layers read of earlier ones, into
  // segments of which only the ends are kept; so that the ends and the largest segment together are
  // least (Chen et al.: "Training Deep Nets with Sublinear Memory Cost", 2016).
  kFull,
};
// Parses "none", "selective", "full". Errors: kInvalidArgument, listing them.
Result<Recompute> recomputeFromName(std::string_view name);

// Rewrites a train graph (forward nodes, then backward nodes that read some of their values).
// Recomputed nodes are in phase backward, on their stage, named "<name>.again", before their first
// reader. The last segment is not recomputed, since the backward pass begins with it. Sums, and
// values that another stage reads, are always kept.
Result<ir::Graph> recompute(const ir::Graph& train, Recompute what);

}  // namespace lockstep::passes
