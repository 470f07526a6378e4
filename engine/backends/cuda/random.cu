// Random numbers, bit-identical with a host's; compiled without contraction of products and sums,
// as base/normal.h requires.
#include "engine/backends/cuda/block.h"
#include "engine/base/random.h"

namespace lockstep::backends::cuda {

namespace {

// As randomNormal() of base/random.h.
LOCKSTEP_DEVICE double normalNumber(std::uint64_t key, std::uint64_t index) {
  const double u = 1.0 - randomUniform(key, 2 * index), v = randomUniform(key, 2 * index + 1);
  return sqrt(random::logarithm<double, std::uint64_t>(u) * -2.0) *
         random::cosineOfTurns<double, std::uint64_t>(v);
}

}  // namespace

LOCKSTEP_KERNEL(randomNumbers, RandomArguments) {
  for (Index i = firstOf(); i < a.n; i += strideOf()) {
    const auto element = static_cast<std::uint64_t>(i / a.block * a.pitch + a.first + i % a.block);
    const double x =
        a.normal ? normalNumber(a.key, element) : 2 * randomUniform(a.key, element) - 1;
    a.y[i] = static_cast<float>(a.scale * x);
  }
}

}  // namespace lockstep::backends::cuda
