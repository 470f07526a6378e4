#include "engine/base/statistics.h"

#include <algorithm>
#include <cstddef>

namespace lockstep {
namespace {

double valueAt(std::vector<double>& values, std::size_t index) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

double median(std::vector<double> values) {
  return values.empty() ? 0 : valueAt(values, values.size() / 2);
}

double lowerMedian(std::vector<double> values) { return valueAt(values, (values.size() - 1) / 2); }

}  // namespace lockstep
