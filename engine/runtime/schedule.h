// Learning-rate schedules: the rate as a function of the step.
#pragma once

#include <cstdint>

namespace lockstep::runtime {

struct Schedule {
  enum class Kind : std::uint8_t {
    kConstant,
    kStep,  // multiplied by `factor` after every `every` steps
    // cosine decay from the peak to `last` (Loshchilov and Hutter 2017), then `last`
    kCosine,
    kLinear,  // linear decay from the peak to `last`, then `last`
  };
  Kind kind = Kind::kConstant;
  double peak = 1e-3;
  std::int64_t warmup = 0;  // steps of linear warm-up to the peak
  std::int64_t steps = 0;   // kCosine, kLinear: total steps until `last`, warm-up included
  double last = 0;
  std::int64_t every = 1;  // kStep, counted after the warm-up
  double factor = 0.1;

  double at(std::int64_t step) const;  // steps count from 1
};

}  // namespace lockstep::runtime
