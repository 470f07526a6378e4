// Whether a plan of several ranks computes what one rank computes from the same batches.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/runtime/local_run.h"

namespace lockstep::runtime {

// The first `steps` batches of a run as a data set of its own, to be read without shuffling: the
// samples of a batch one after another, as they are after augmentation. The last batch is half full, so
// that padding is met.
class KeptBatches final : public data::Dataset {
 public:
  struct Options {
    std::int64_t batch = 1, steps = 1;
    std::uint64_t seed = 1;
    bool shuffle = true;
    data::Augment augment;
  };
  KeptBatches(const data::Dataset& from, const Options& options);
  std::int64_t size() const override { return size_; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override;

 private:
  std::vector<data::Field> fields_;
  std::vector<std::vector<std::byte>> bytes_;  // by field
  std::int64_t size_;
};

// What all plans that are compared are played with.
struct Experiment {
  const data::Dataset& batches;  // KeptBatches of the training plans
  std::int64_t steps = 1;
  // Gradients jump where the input of a kink (relu, the greatest of a pool) is 0 within rounding, in one
  // batch and not in another: they are compared on the first of so many batches on which they agree.
  const data::Dataset& probes;   // of the probes, so many at least
  int probeCount = 1;
  // Of a strategy that is by design not equal to one rank, initial weights, ranks and quality alone are
  // compared; two plays where the order of its sums is fixed.
  bool equal = true, fixedOrder = true;
  Schedule schedule;
  std::string backend = "reference";
  backends::BackendOptions backendOptions;  // of each rank
  // What opens a rank's; null: makeBackend() with these. Ranks' devices become groups where they can.
  std::function<Result<std::unique_ptr<backends::Backend>>(int rank)> openBackend = nullptr;
};

// Two plans of the same ranks: `train` has the run's optimizer, `probe` plain SGD without momentum,
// decay or clipping, so that one of its steps shows the gradients.
struct PlanPair {
  const plan::Plan& probe;
  const plan::Plan& train;
};

struct Tensor {
  DType dtype = DType::kF32;
  std::vector<std::byte> bytes;
  std::size_t count() const { return bytes.size() / sizeOf(dtype); }
  double at(std::size_t index) const;
};
using Tensors = std::map<std::string, Tensor>;  // whole ones, by their names in the model

// What a plan made of the batches.
struct Played {
  Tensors start;                 // parameters before the first step
  Tensors end;                   // parameters and running statistics after the last step
  std::vector<double> losses;    // of the steps
  double evaluation = 0;         // loss after the last step: of the first batch, or of all of them
  std::string differing;         // ranks that should hold the same weights at the end and do not
  std::string weightsSha256;     // of `end`
};
// Errors: what a rank says; kCancelled where `stop` was set.
Result<Played> play(const PlanPair& plans, const Experiment& experiment, const std::atomic<bool>& stop);

// One rank, and how far apart its losses come where nothing but the order of its sums differs.
struct Reference {
  Played played;
  std::vector<Tensors> stepped;  // parameters after one step of the probe, of each gradient batch
  double reordering = 0;         // greatest relative difference of a loss
  double gradientReordering = 0; // of the last batch's gradients, of fp16
};
// Sums are reordered by `reordered`, plans of one rank with micro-batches, and by changing the places
// of samples within blocks of `permuteWithin` of a batch, where it is above 1.
Result<Reference> playReference(const PlanPair& plans, std::span<const plan::Plan> reordered,
                                std::int64_t permuteWithin, const Experiment& experiment,
                                const std::atomic<bool>& stop);

struct Finding {
  std::string check;             // "gradients"
  double difference = 0;         // relative: of tensors |a − b| / |b| in the Euclidean norm
  double limit = 0;              // 0: the same bits
  std::string where;             // of the greatest difference: a tensor, "step 7"
  bool holds = false;
};
struct Verified {
  std::vector<Finding> findings;
  std::vector<double> losses;    // of the several ranks
};
// Of fp64: losses, gradients, weights and evaluation within 1e-9. Of fp32: gradients within 1e-5,
// losses within the greater of 1e-5 and what reordering does. Of bf16 2⁻⁸ instead, of fp16
// 2⁻¹¹, of losses 2⁻¹⁰, and of gradients that agree in no batch twice what reordering does. All: equal bits at the
// start, of the ranks that hold the same weights, and of two plays. Where equality is not meant, the loss of all batches
// after the last step is within a tenth of one rank's, or below it; after few steps that says nothing.
Result<Verified> verifyAgainst(const Reference& one, const PlanPair& several,
                               const Experiment& experiment, const std::atomic<bool>& stop);

// Of a plan of one rank with plain SGD: the loss of one batch, "loss", and the length of each gradient,
// "gradient of dense1.weight", by name.
Result<std::vector<std::pair<std::string, double>>> gradientLengths(const plan::Plan& plan,
                                                                    const data::Dataset& batch,
                                                                    std::string_view backend,
                                                                    const backends::BackendOptions& options);

}  // namespace lockstep::runtime
