#include "engine/cluster/cuts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace lockstep::cluster {

std::vector<std::int64_t> evenCuts(std::int64_t extent, int shares) {
  std::vector<std::int64_t> cuts{0};
  const std::int64_t base = extent / shares, larger = extent % shares;
  for (int i = 0; i < shares; ++i) cuts.push_back(cuts.back() + base + (i < larger ? 1 : 0));
  return cuts;
}

std::vector<std::int64_t> cutsBy(std::int64_t extent, const std::vector<double>& shares) {
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<std::int64_t> cuts{0};
  double before = 0;
  for (const double share : shares) {
    before += share;
    cuts.push_back(std::llround(static_cast<double>(extent) * before / all));
  }
  return cuts;
}

int divisorUpTo(int whole, int most) {
  int divisor = std::max(1, std::min(whole, most));
  while (whole % divisor != 0) --divisor;
  return divisor;
}

std::int64_t largestPart(const std::vector<std::int64_t>& cuts) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    largest = std::max(largest, cuts[i + 1] - cuts[i]);
  return largest;
}

bool leaveNoneEmpty(const std::vector<std::int64_t>& cuts) {
  return std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) == cuts.end();
}

}  // namespace lockstep::cluster
