#include "app/runs/gpu_clocks.h"

#include <cmath>

namespace lockstep::app {

void GpuClocks::add(std::int64_t ns, double clock) {
  if (!samples_.empty() && ns < samples_.back().ns) samples_.clear();
  samples_.push_back({ns, clock});
  if (samples_.size() > kMost) samples_.pop_front();
}

std::optional<double> GpuClocks::take(std::int64_t begin, std::int64_t end) {
  while (samples_.size() > 1 && samples_[1].ns < begin) samples_.pop_front();
  double sum = 0;
  int count = 0;
  for (const Sample& sample : samples_) {
    if (sample.ns >= end) break;
    if (sample.ns < begin) continue;
    sum += sample.clock;
    ++count;
  }
  if (count > 0) return std::round(sum / count);
  if (samples_.empty() || samples_[0].ns >= begin || begin - samples_[0].ns > kHoldNs)
    return std::nullopt;
  return samples_[0].clock;
}

}  // namespace lockstep::app
