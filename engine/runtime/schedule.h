// The learning rate as a function of the step.
#pragma once

#include <cstdint>

namespace lockstep::runtime {

struct Schedule {
  enum class Kind : std::uint8_t {
    kConstant,
    kStep,  // times `factor` after every `every` steps
    // from the peak to `last` along half a cosine (Loshchilov and Hutter 2017), then `last`
    kCosine,
    kLinear,  // from the peak to `last` along a line, then `last`
  };
  Kind kind = Kind::kConstant;
  double peak = 1e-3;
  std::int64_t warmup = 0;  // steps in which the rate grows evenly to the peak
  std::int64_t steps = 0;   // kCosine, kLinear: those after which it is `last`, warm-up included
  double last = 0;
  std::int64_t every = 1;  // kStep, counted after the warm-up
  double factor = 0.1;

  double at(std::int64_t step) const;  // steps count from 1
};

}  // namespace lockstep::runtime
