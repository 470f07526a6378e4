// A backend whose results are off by as much as rounding puts them off, at random: what the results
// of a plan owe to the order of its sums (Monte Carlo arithmetic: Parker, Pierce and Eggert 2000).
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backends/backend.h"

namespace lockstep::runtime {

struct RoundingNoise {
  // each float that a kernel computes is multiplied by 1 + u·relative, |u| ≤ 1
  double relative = 0;
  // Precisions whose operands are rounded inside kernels: so many floats are off by so much
  // instead, as an operand is that was near the middle between two neighbours.
  double flipped = 0, flip = 0;
  std::uint64_t seed = 1;
};

// Returns a backend of `inner`'s kernels on the host's memory. The same seed gives the same bits.
// Exact: zeros, what is copied or chosen (the greatest of a pool), integers, 16-bit floats,
// optimizers' updates.
std::unique_ptr<backends::Backend> withRoundingNoise(std::unique_ptr<backends::Backend> inner,
                                                     const RoundingNoise& noise);

}  // namespace lockstep::runtime
