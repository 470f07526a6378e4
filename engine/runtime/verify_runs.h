// Runs of plans that verification compares: training, and the gradients of single batches.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/runtime/verify.h"

namespace lockstep::runtime {

// So great that what is left of a parameter after a step is its gradient; a power of two, so that
// the product is exact.
constexpr double kProbeRate = 1 << 20;

// Some batches of the kept ones.
class SomeBatches final : public data::Dataset {
 public:
  SomeBatches(const data::Dataset& from, std::int64_t batch, std::int64_t number,
              std::int64_t batches = 1)
      : from_(from),
        first_(batch * number),
        size_(std::min(batch * batches, from.size() - first_)) {}
  std::int64_t size() const override { return size_; }
  const std::vector<data::Field>& fields() const override { return from_.fields(); }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    from_.read(first_ + index, field, out);
  }

 private:
  const data::Dataset& from_;
  std::int64_t first_, size_;
};

struct TrainedOnce {
  std::vector<double> losses;
  std::int64_t skipped = 0;  // updates
  TrainerSummary summary;
  Tensors start, tensors;
  std::string differing;
};

// `steps` steps of a plan on batches; the tensors of rank 0 where they are asked for.
Result<TrainedOnce> trainOnce(const plan::Plan& plan, const Experiment& experiment,
                              const data::Dataset& batches, const Schedule& schedule,
                              std::int64_t steps, bool keepTensors, const std::atomic<bool>& stop,
                              NonFinite nonFinite = NonFinite::kRefused);
// How far parameters come in `steps` steps from the probes' batch of this number.
Result<Tensors> probe(const plan::Plan& plan, const Experiment& experiment, double rate, int batch,
                      std::int64_t steps, const std::atomic<bool>& stop);
Result<Tensors> gradient(const plan::Plan& plan, const Experiment& experiment, int batch,
                         const std::atomic<bool>& stop);

}  // namespace lockstep::runtime
