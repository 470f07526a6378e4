// Pyramid: a series of samples with its min/max pyramid, so that drawing costs pixels and not
// samples. Invariants: x never decreases; level k holds one min/max pair per kFanout^k samples,
// complete ones only. Samples that are not finite keep their place and count in no minimum or
// maximum. Threads: one.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace lockstep::ui {

struct MinMax {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  bool empty() const { return min > max; }
  void add(double value) {
    if (!std::isfinite(value)) return;
    if (value < min) min = value;
    if (value > max) max = value;
  }
  void add(const MinMax& other) {
    if (other.min < min) min = other.min;
    if (other.max > max) max = other.max;
  }
};

class Pyramid {
 public:
  static constexpr std::size_t kFanout = 8;

  void append(double x, double y);  // x below the last one is raised to it
  void clear();
  void truncate(std::size_t size);                     // to its first samples
  void keep(const std::vector<std::size_t>& samples);  // these only; increasing
  std::size_t size() const { return x_.size(); }
  double x(std::size_t i) const { return x_[i]; }
  double y(std::size_t i) const { return y_[i]; }
  // First sample with x >= at (lower) or x > at (upper).
  std::size_t lower(double at) const;
  std::size_t upper(double at) const;
  std::size_t lower(double at, std::size_t near) const;  // the same, quick if it is near that one
  std::ptrdiff_t nearest(double at) const;  // the sample with the nearest x; -1: there is none
  MinMax range(std::size_t begin, std::size_t end) const;  // O(kFanout · levels)

 private:
  std::vector<double> x_, y_;
  std::vector<std::vector<MinMax>> levels_;  // levels_[0] spans kFanout samples
};

}  // namespace lockstep::ui
