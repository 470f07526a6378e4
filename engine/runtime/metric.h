// Metrics: from sums over samples to one number that says how good a model is.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "engine/backends/backend.h"

namespace lockstep::runtime {

// "accuracy": sums[0] / weight. "auc": of sums[b], the weight of samples of label 1 with a score in
// bin b of half of the sums, and sums[half + b], that of samples of label 0, the share of pairs of
// one of each whose scores are in the right order. Pairs of one bin count a half: of the AUC of the
// scores themselves it is off by at most Σ sums[b]·sums[half + b] / (2·Σ sums[b]·Σ sums[half + b]).
// Not a number where there are no such pairs, or no samples, and of an unknown metric.
// "perplexity": e^(sums[0] / weight), where sums[0] is Σ w·loss.
double metricValue(std::string_view metric, std::span<const double> sums, double weight);

// Of the result "metrics…" of a play: Σ w·loss, Σ w, the sums of the metric, and the number of
// ranks asked to stop; in f64 whatever the compute type.
struct Sums {
  double loss = 0, weight = 0;
  std::vector<double> metric;  // as many as the result has
};
std::size_t metricSums(const backends::Operand& metrics);
void addTo(Sums& sums, const backends::Operand& metrics);
bool stopAsked(const backends::Operand& metrics);

}  // namespace lockstep::runtime
