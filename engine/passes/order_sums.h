// Sums that are the same, bit by bit, for any number of ranks.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/ir/graph.h"

namespace lockstep::passes {

// In the graph of one rank: what op ordered-sum adds is gathered from the ranks of `axis` first, so
// that each adds what all have in the order of ranks. A step of micro-batches then adds the parts
// of its batch one after another, as one rank would. A rank receives ranks − 1 times the gradients
// in each micro-batch, where an all-reduce of their sum costs it 2·(ranks − 1)/ranks of them once.
Result<ir::Graph> orderSums(const ir::Graph& local, std::string_view axis, int ranks);

}  // namespace lockstep::passes
