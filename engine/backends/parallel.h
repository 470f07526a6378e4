// Kernels on several threads: a kernel's result is cut into parts, and each is computed by the
// calling thread or one of its team as it would be alone, so that the bits are the same whatever
// the number of threads. Internal to engine/backends.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/backends/cpu/kernels.h"

namespace lockstep::backends {

// How long a team of so many threads takes to meet, in tens of microseconds, 1 at least: a few
// microseconds where each waits awake on a core of its own, a hundred where it sleeps, more where
// others have the cores. Measured, in some milliseconds, the first time that the calling thread
// asks; 1 of a team of one.
int meetingCost(int threads);

// What a rank computes with.
struct Cpu {
  const cpu::Kernels& kernels;
  int threads = 1;
  int meeting = 1;
  // How many parts `work` is worth, of which a thread does `least` in some ten microseconds: as
  // many as are each longer than the team takes to meet.
  int parts(std::int64_t work, std::int64_t least) const {
    return static_cast<int>(std::clamp<std::int64_t>(work / (least * meeting), 1, threads));
  }
};
inline constexpr std::int64_t kLeastProducts = 1 << 19, kLeastElements = 1 << 15;

struct Part {
  std::int64_t first = 0, count = 0;
};
// Of n things in `parts` parts, cut at multiples of `step`.
inline Part partOf(std::int64_t n, int i, int parts, std::int64_t step = 1) {
  const std::int64_t steps = (n + step - 1) / step;
  const std::int64_t first = std::min(n, steps * i / parts * step);
  return {first, std::min(n, steps * (i + 1) / parts * step) - first};
}

// A thread's team never shrinks: the threads left over would be ended, and made anew for the next.
inline int teamFor(int parts) {
  static thread_local int team = 1;
  return team = std::max(team, parts);
}
// f(i) for each i < parts. Allocates nothing but, the first time that a thread has so many parts,
// its team.
template <typename F>
void forParts(int parts, const F& f) {
  if (parts == 1) return f(0);
  const int team = teamFor(parts);
#pragma omp parallel for num_threads(team) schedule(static, 1)
  for (int i = 0; i < parts; ++i) f(i);
}

}  // namespace lockstep::backends
