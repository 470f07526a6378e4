#include "engine/backends/parallel.h"

#include <array>
#include <cmath>
#include <map>

#include "engine/base/clock.h"

namespace lockstep::backends {
namespace {

constexpr int kMeetings = 41;
constexpr double kUnit = 10e-6;
constexpr Nanoseconds kBetween = 50'000;  // like a kernel on one thread between two parallel ones

}  // namespace

int measureBarrierCost(int threads) {
  if (threads == 1) return 1;
  static thread_local std::map<int, int> known;
  int& cost = known[threads];
  if (cost > 0) return cost;
  std::array<Nanoseconds, kMeetings> all{};
  for (Nanoseconds& one : all) {
    const Nanoseconds begin = monotonicNow();
    forParts(threads, [](int) {});
    const Nanoseconds end = monotonicNow();
    one = end - begin;
    while (monotonicNow() - end < kBetween) {
    }
  }
  std::sort(all.begin(), all.end());
  const double seconds = static_cast<double>(all[kMeetings / 2]) * 1e-9;
  return cost = static_cast<int>(std::clamp(std::ceil(seconds / kUnit), 1.0, 1000.0));
}

}  // namespace lockstep::backends
