// Evaluation: program "evaluate" played over a data set.
#pragma once

#include <cstdint>
#include <string>

#include "engine/runtime/feed.h"

namespace lockstep::runtime {

struct Evaluation {
  double loss = 0, metric = 0;  // of all samples; 0 on a rank that has no result, a server
  bool finite = true;           // Σ w·loss is
  // the first of this rank's, where its executor watches the loss
  std::optional<NonFiniteTensor> nonFinite;
};
// All ranks call it together. `step` stands in errors.
Result<Evaluation> evaluate(const plan::Plan& plan, Feed& program, const data::Dataset& data,
                            const Groups& groups, std::int64_t step, std::uint64_t seed);

// Of a checkpoint's model, by a plan of one rank that needs no program but "evaluate".
Result<Evaluation> evaluateCheckpoint(const plan::Plan& plan, const std::string& checkpoint,
                                      const data::Dataset& data, backends::Backend& backend);

}  // namespace lockstep::runtime
