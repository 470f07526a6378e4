#include "engine/runtime/metric.h"

#include <cmath>
#include <cstddef>
#include <limits>

#include "engine/runtime/executor.h"

namespace lockstep::runtime {
namespace {

double auc(std::span<const double> sums) {
  const std::size_t bins = sums.size() / 2;
  double below = 0, ones = 0, ordered = 0;  // weight of label 0 in lower bins
  for (std::size_t b = 0; b < bins; ++b) {
    ordered += sums[b] * (below + 0.5 * sums[bins + b]);
    ones += sums[b];
    below += sums[bins + b];
  }
  return ordered / (ones * below);
}

}  // namespace

std::size_t metricSums(const backends::Operand& metrics) {
  const std::int64_t count = metrics.type.count();
  return metrics.data == nullptr || count < 3 ? 0 : static_cast<std::size_t>(count) - 3;
}

void addTo(Sums& sums, const backends::Operand& metrics) {
  sums.loss += readFloat(metrics, 0);
  sums.weight += readFloat(metrics, 1);
  for (std::size_t i = 0; i < sums.metric.size(); ++i) sums.metric[i] += readFloat(metrics, 2 + i);
}

double inputOf(Request request) {
  if (request == Request::kNone) return 0;
  return request == Request::kStop ? 1 : 0x1p-20;
}

Request requested(const backends::Operand& metrics) {
  const double sum = readFloat(metrics, 2 + metricSums(metrics));
  if (sum >= 1) return Request::kStop;
  return sum > 0 ? Request::kCheckpoint : Request::kNone;
}

double metricValue(std::string_view metric, std::span<const double> sums, double weight) {
  if (metric == "accuracy" && sums.size() == 1) return sums[0] / weight;
  if (metric == "auc") return auc(sums);
  if (metric == "perplexity" && sums.size() == 1) return std::exp(sums[0] / weight);
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace lockstep::runtime
