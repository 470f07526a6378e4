// Evaluation: runs program "evaluate" over a data set.
#pragma once

#include <cstdint>
#include <string>

#include "engine/runtime/feed.h"

namespace lockstep::runtime {

struct Evaluation {
  double loss = 0, metric = 0;  // over all samples; 0 on a rank without results (a server)
  bool finite = true;           // whether Σ w·loss is finite
  // the first non-finite tensor of this rank, if its executor watches the loss
  std::optional<NonFiniteTensor> nonFinite;
};
// Collective over all ranks. `step` appears in errors.
Result<Evaluation> evaluate(const plan::Plan& plan, Feed& program, const data::Dataset& data,
                            std::int64_t step, std::uint64_t seed);

// Evaluates a checkpoint with a plan of one rank, which needs no program but "evaluate".
Result<Evaluation> evaluateCheckpoint(const plan::Plan& plan, const std::string& checkpoint,
                                      const data::Dataset& data, backends::Backend& backend);

}  // namespace lockstep::runtime
