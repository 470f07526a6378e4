// Gradient compression: what ranks exchange of the gradients is coded, and what coding leaves out
// is added to the next step's (error feedback).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/ir/graph.h"
#include "engine/ir/ops.h"
#include "engine/passes/programs.h"

namespace lockstep::passes {

struct Compression {
  ir::Coding coding{};
  double keptRatio = 0.01;                      // kTopK
  std::int64_t kept(std::int64_t count) const;  // of so many elements; 0 where not kTopK
};

// Prefix of the states of error feedback: "residual.K" is what a rank has not sent yet of its
// gradients of group K. A skipped step (node kFinite) leaves it unchanged.
inline constexpr std::string_view kResidual = "residual.";

// Replaces every sum of a group's gradients over `axis` in the graph of one of `ranks` ranks by:
// encode with the residual, all-gather, decode and add in the order of ranks. All ranks get the
// same bits; each number is encoded once, and what is sent is added exactly. A rank receives ranks
// − 1 payloads, where an all-reduce costs 2·(ranks − 1)/ranks of the gradients: less up to twice as
// many ranks as the compression ratio; the planner refuses more. (All-to-all of parts, a sum, and
// all-gather would take less with more ranks, and would encode the sums a second time.) Where ranks
// reduce-scatter, each part is encoded by itself and goes to its rank by all-to-all.
Result<ir::Graph> compress(const ir::Graph& local, std::string_view axis, int ranks,
                           const GradientNodes& gradients, const Compression& how);

}  // namespace lockstep::passes
