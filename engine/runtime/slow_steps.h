// SlowSteps: which steps of a training took much longer than the ones before them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "engine/base/clock.h"

namespace lockstep::runtime {

class SlowSteps {
 public:
  static constexpr std::size_t kKnown = 32, kEvery = 8;
  static constexpr double kFactor = 1.5;
  static constexpr Nanoseconds kApart = 1'000'000'000;
  static constexpr int kStepsApart = 25;  // few beside those that are sampled

  // The median of the last kKnown steps, found anew every kEvery; 0: fewer than kEvery are known.
  Nanoseconds median() const { return median_; }
  // Adds a step. Returns whether it took more than kFactor times the median of those before; at
  // most once within kApart and kStepsApart. Allocates nothing.
  bool add(Nanoseconds begin, Nanoseconds end) {
    const bool isSlow =
        median_ > 0 && static_cast<double>(end - begin) > kFactor * static_cast<double>(median_);
    const Nanoseconds apart = std::max(kApart, kStepsApart * median_);
    last_[count_++ % kKnown] = end - begin;
    if (count_ % kEvery == 0) findMedian();
    if (!isSlow || (told_ > 0 && end - told_ < apart)) return false;
    told_ = end;
    return true;
  }

 private:
  void findMedian() {
    const auto known = static_cast<std::ptrdiff_t>(std::min(count_, kKnown));
    std::array<Nanoseconds, kKnown> sorted = last_;
    const auto middle = sorted.begin() + known / 2;
    std::nth_element(sorted.begin(), middle, sorted.begin() + known);
    median_ = *middle;
  }

  std::array<Nanoseconds, kKnown> last_{};
  std::size_t count_ = 0;
  Nanoseconds median_ = 0, told_ = 0;  // told_: when the last slow one ended
};

}  // namespace lockstep::runtime
