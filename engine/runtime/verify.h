// Whether a plan of several ranks computes what one rank computes from the same batches.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/runtime/local_run.h"

namespace lockstep::runtime {

// Inputs of all compared plans.
struct Experiment {
  const data::Dataset& batches;  // KeptBatches of the training plans
  std::int64_t steps = 1;
  // batches of the probes: probeCount whole batches, at least kUpdateSteps
  const data::Dataset& probes;
  int probeCount = 1;  // gradients are compared on each of so many batches
  // The strategy by design computes something else than one rank: only initial weights, ranks and
  // quality are compared, and two runs if the order of sums is fixed.
  bool equal = true, fixedOrder = true;
  Schedule schedule;
  std::string backend = "reference";
  backends::BackendOptions backendOptions;  // of each rank
  // Opens a rank's backend; null: makeBackend() with these. Ranks with devices form device groups
  // if possible.
  std::function<Result<std::unique_ptr<backends::Backend>>(int rank)> openBackend = nullptr;
  // Wraps the backend of each rank; null: no wrapper. For tests.
  std::function<std::unique_ptr<backends::Backend>(int rank, std::unique_ptr<backends::Backend>)>
      wrapBackend = nullptr;
};
inline constexpr int kUpdateSteps = 3;

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
  void set(std::size_t index, double value);
};
using Tensors = std::map<std::string, Tensor>;  // whole ones, by their names in the model

// Result of a plan on the batches.
struct RunResult {
  Tensors start;               // parameters and running statistics before the first step
  Tensors end;                 // the same after the last step
  std::vector<double> losses;  // of the steps
  double evaluation = 0;       // loss after the last step: of the first batch, or of all of them
  std::string differing;       // ranks that should hold the same weights at the end and do not
  std::string weightsSha256;   // of `end`
};
// Errors: what a rank says; kCancelled where `stop` was set.
Result<RunResult> runPlans(const PlanPair& plans, const Experiment& experiment,
                           const std::atomic<bool>& stop);

// The one-rank result and its rounding noise, from a few reruns with rounding-sized perturbations
// (rounding_noise.h). No noise in fp64 or where equality is not expected.
struct Reference {
  using Noise = std::map<std::string, double>;  // of each tensor: the greatest relative difference
  RunResult result;
  std::vector<Tensors> gradients;  // of each probe's batch, all times the same number
  std::vector<Noise> gradientNoise;
  double scaleNoise = 0;  // of how much too long the gradients are altogether
  double updateRate = 1;  // at which weights move visibly, and little
  Tensors updates;        // how far the probe moves in kUpdateSteps steps at that rate
  Noise updateNoise;
  double lossNoise = 0;  // greatest relative difference of a step's loss
  // The plans, and further measurements of them, each made when it is first needed. Noise is
  // measured on one rank, so a faulty plan cannot widen its own tolerance.
  struct More;
  std::shared_ptr<More> more;
};
Result<Reference> runReference(const PlanPair& plans, const Experiment& experiment,
                               const std::atomic<bool>& stop);

struct Finding {
  std::string check;      // "gradients"
  double difference = 0;  // relative: of tensors |a − b| / |b| in the Euclidean norm
  double limit = 0;       // 0: the same bits
  // of the difference nearest to, or furthest beyond, its limit: a tensor, "step 7"
  std::string where;
  bool holds = false;
  // Rounding alone moves a tensor too far to tell right from wrong in more than half of the
  // batches, and neither does "fp64 sums" decide it.
  bool undecided = false;
};
struct Verified {
  std::vector<Finding> findings;
  std::vector<double> losses;  // of the several ranks
};

// How far apart plans of a precision may be. Where noise alone moves one rank by n, as it does
// where the input of a kink (relu, the greatest of a pool) is 0 within rounding or an operand is
// near the middle between two of its 16-bit neighbours, the limit is 4·n instead of `least`.
// Above `most` a comparison is inconclusive, but must still be within 4·n. A
// tensor is undecided where more than half of its batches are set aside.
struct Tolerance {
  double least = 0, most = 0;
  double of(double noise) const;     // `least` at least
  bool decides(double noise) const;  // whether that is `most` at most
};
struct Limits {
  Tolerance gradients;  // of each tensor in each batch
  Tolerance scale;      // of all of them together: of gradients that are all a little too long
  Tolerance updates;    // of each tensor after kUpdateSteps
  Tolerance losses;     // of each step
};
Limits limitsOf(std::string_view precision);

// Checks of strategies that are to be equal to one rank:
//   initial weights     the same bits
//   gradients           every tensor in every probe's batch
//   gradient scale      ⟨a − b, b⟩ / ⟨b, b⟩, the mean over tensors and batches, weighted by their
//                       freedom from noise: rounding goes all ways, a factor does not
//   updates             every tensor after kUpdateSteps consecutive steps of plain SGD
//   losses              each step with the run's optimizer
//   fp64 sums           where one of these four is undecided: gradients, updates and losses of both
//                       plans with fp64 in the place of fp32 (double_storage.h), within 1e-9
//   weights at the end, evaluation
//                       in fp64 only. Elements that rounding alone changes are set aside: they have
//                       to be within 32 times that, and decide nothing where it is beyond 1e-5. A
//                       tensor is undecided where more than half of its elements are such, all are
//                       where more than a quarter of all are.
//   all ranks           those that hold the same weights at the end hold the same bits
//   two runs            two trainings, and gradients of a batch in several runs: the same bits
// Of others: initial weights, all ranks, two runs where the order of sums is fixed, and
//   quality             the loss of all batches after the last step is within a tenth of one
//                       rank's, or below it; after few steps that says nothing
//
// Why fp64 sums decide what fp32 cannot: a batch norm after each convolution passes on what one
// rounded operand changes to all samples and layers. In fashion-resnet's small variant rounding
// alone moves gradients by up to 90 % in bf16 and 40 % in fp16, as much as a fault may. With fp64
// sums both plans round the same operands at the same places to the same 16 bits and differ by less
// than 1e-13, while a rank's weight gradients that are 1.001 times as long differ by 70 % after
// kUpdateSteps. What is left to the 4·n above, and to the tests of kernels, is the arithmetic of
// fp32 kernels.
Result<Verified> verifyAgainst(const Reference& one, const PlanPair& several,
                               const Experiment& experiment, const std::atomic<bool>& stop);

// Returns, for a one-rank plan with plain SGD, by name: the loss of one batch, "loss", and the norm
// of each gradient, "gradient of dense1.weight".
Result<std::vector<std::pair<std::string, double>>> gradientLengths(
    const plan::Plan& plan, const data::Dataset& batch, std::string_view backend,
    const backends::BackendOptions& options);

}  // namespace lockstep::runtime
