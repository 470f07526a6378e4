// Metrics: model quality as one number, from sums over samples.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "engine/backends/backend.h"

namespace lockstep::runtime {

// Returns the value of a metric; NaN if it is unknown or there are no samples.
// - "accuracy": sums[0] / weight.
// - "auc": sums[b] is the weight of samples of label 1 whose score is in bin b (of half as many
//   bins as there are sums), sums[half + b] that of label 0. Returns the fraction of pairs, one of
//   each label, that are in the right order; pairs in one bin count ½. Differs from the AUC of the
//   scores by at most Σ sums[b]·sums[half + b] / (2·Σ sums[b]·Σ sums[half + b]). NaN without such
//   pairs.
// - "perplexity": e^(sums[0] / weight), where sums[0] is Σ w·loss.
double metricValue(std::string_view metric, std::span<const double> sums, double weight);

// The result "metrics…" of a run in f64: Σ w·loss, Σ w, the sums of the metric, and the sum of the
// ranks' requests.
struct Sums {
  double loss = 0, weight = 0;
  std::vector<double> metric;  // as many as the result has
};
std::size_t metricSums(const backends::Operand& metrics);
void addTo(Sums& sums, const backends::Operand& metrics);

// What ranks may ask of all ranks, to be done after the same step.
enum class Request : std::uint8_t { kNone, kCheckpoint, kStop };
// The value of a rank's input "stop". Their sum over ranks and micro-batches, of which there are
// less than 2^20, tells requested() whether any rank asked; stopping goes before a checkpoint.
double inputOf(Request request);
Request requested(const backends::Operand& metrics);

}  // namespace lockstep::runtime
