// Gradient compression: what ranks exchange of the gradients is coded, and what coding leaves out
// is added to the next step's (error feedback).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/ir/graph.h"
#include "engine/ir/ops.h"

namespace lockstep::passes {

struct Compression {
  ir::Coding coding{};
  double keptRatio = 0.01;                      // kTopK
  std::int64_t kept(std::int64_t count) const;  // of so many elements; 0 where not kTopK
};

// State "residual.K" is what has not been sent yet of a rank's gradients of group K. Where a node
// kFinite says that a step updates nothing, it stays as it was.
inline constexpr std::string_view kResidual = "residual.";

// In the graph of one rank every sum of a gradient group "grads.K" over `axis`, of `ranks` ranks,
// becomes: encode with the residual, all-gather, decode and add in the order of ranks. So all ranks
// have the same bits, each number is coded once, and what all have sent is added exactly. A rank
// receives ranks − 1 payloads, where an all-reduce costs it 2·(ranks − 1)/ranks of the gradients:
// it is less up to twice as many ranks as the coding makes the gradients smaller. (All-to-all of
// parts, a sum, and all-gather would take less with more ranks, and would code the sums a second
// time.) Where ranks want parts of the sum, each part is coded by itself and goes to the rank that
// wants it, all-to-all.
Result<ir::Graph> compress(const ir::Graph& local, std::string_view axis, int ranks,
                           const Compression& how);

}  // namespace lockstep::passes
