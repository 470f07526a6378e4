// How much rounding alone changes the results of the one-rank plan: runs with noise of rounding's
// size (rounding_noise.h), against which differences of several ranks are held.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "engine/runtime/verify.h"
#include "engine/runtime/verify_reference.h"

namespace lockstep::runtime {

// The experiment with noise number `number`, on processors, where results can be disturbed.
Experiment disturbed(const Experiment& experiment, std::string_view precision, int number);

// Measures the noise of gradients, updates and losses that every verification begins with.
Status addNoise(const PlanPair& plans, const Experiment& experiment, Reference& one,
                const std::atomic<bool>& stop);

// Rounding noise of matmul operands in 16 bits (bf16, fp16, tf32). It is rare but large: a value
// near a tie is rounded the other way. A few noisy runs may therefore miss it. Where a tensor
// differs by more than they explain, this runs the one-rank plan up to 24 more times with noise.
// If these do not explain the difference either, no other difference is excused.
class RareNoise {
 public:
  using Probe = std::function<Result<Tensors>(const Experiment& experiment)>;
  RareNoise(std::string_view precision, const Experiment& experiment)
      : precision_(precision), experiment_(experiment) {}

  // Returns the largest difference of the tensor `name` between noisy runs of the one-rank `probe`
  // and `reference`, at least `known`. Adds to what is `measured`.
  Result<double> of(const std::string& name, double difference, double known,
                    const Tolerance& tolerance, Reference::More::Rare& measured,
                    const Tensors& reference, const Probe& probe);

 private:
  const std::string_view precision_;
  const Experiment& experiment_;
  bool gaveUp_ = false;
};

// Measures Reference::More::moved on one rank, once.
Status measureMoved(const Reference& one, const Experiment& experiment,
                    const std::atomic<bool>& stop);

}  // namespace lockstep::runtime
