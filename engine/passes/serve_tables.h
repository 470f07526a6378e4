// Tables on parameter servers: those that a batch touches in few rows are divided among the servers
// by rows, and a worker and a server exchange the rows that are touched alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/ir/model_graph.h"

namespace lockstep::passes {

// The parameters that are read by embeddings alone, by fewer ids in `samples` samples of the batch
// than they have rows, so that each of `servers` servers can have some.
std::vector<std::string> tablesOf(const ir::ModelGraph& model, std::int64_t samples, int servers);

// Each table becomes a parameter "<name>.rows.<s>" a server s, on stage 1+s, in as equal parts as
// can be. In the place of a lookup a worker finds the distinct ids of its samples, pushes them to
// the servers that have their rows, pulls the rows, and looks up in these; so that gradients are
// those of its distinct rows, and go the same way back. Of the batch each of `workers` workers has
// at most `share` samples, and a server is with so many of them at once: all, or one.
Result<ir::ModelGraph> serveTables(const ir::ModelGraph& model,
                                   const std::vector<std::string>& tables, int servers, int workers,
                                   int with, std::int64_t share);

}  // namespace lockstep::passes
