// Multithreaded kernels: a result is partitioned, and each part is computed by one thread of the
// team exactly as on a single thread, so results are bit-identical for any number of threads.
// Internal to engine/backends.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/backends/cpu/kernels.h"
#include "engine/base/subnormals.h"

namespace lockstep::backends {

// Returns the cost of a team barrier in units of 10 µs, at least 1: a few µs where all threads spin
// on cores of their own, about 100 µs where they sleep, more where cores are shared. Measured on
// the calling thread's first call, in a few milliseconds; 1 for a team of one.
int measureBarrierCost(int threads);

// CPU resources of a rank.
struct Cpu {
  const cpu::Kernels& kernels;
  int threads = 1;
  int barrierCost = 1;
  // Returns the number of parts for `work`, of which a thread does `least` in some 10 µs: as many
  // as keep each part longer than a team barrier.
  int parts(std::int64_t work, std::int64_t least) const {
    return static_cast<int>(std::clamp<std::int64_t>(work / (least * barrierCost), 1, threads));
  }
};
inline constexpr std::int64_t kMinMultiplyAdds = 1 << 19, kMinElements = 1 << 15;

struct Part {
  std::int64_t first = 0, count = 0;
};
// Returns part i of n items split into `parts`, at multiples of `step`.
inline Part partOf(std::int64_t n, int i, int parts, std::int64_t step = 1) {
  const std::int64_t steps = (n + step - 1) / step;
  const std::int64_t first = std::min(n, steps * i / parts * step);
  return {first, std::min(n, steps * (i + 1) / parts * step) - first};
}

// A thread's team never shrinks: OpenMP would end the surplus threads and start them again later.
inline int teamFor(int parts) {
  static thread_local int team = 1;
  return team = std::max(team, parts);
}
// Runs f(i) for each i < parts in parallel, with subnormals treated as on the calling thread.
// Allocates nothing except the team, the first time a thread uses that many parts.
template <typename F>
void forParts(int parts, const F& f) {
  if (parts == 1) return f(0);
  const int team = teamFor(parts);
  const std::uint64_t mode = subnormalMode();
#pragma omp parallel num_threads(team)
  {
    setSubnormalMode(mode);
#pragma omp for schedule(static, 1) nowait
    for (int i = 0; i < parts; ++i) f(i);
  }
}

}  // namespace lockstep::backends
