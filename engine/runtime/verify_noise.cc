#include "engine/runtime/verify_noise.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/runtime/rounding_noise.h"
#include "engine/runtime/verify_differences.h"
#include "engine/runtime/verify_runs.h"

namespace lockstep::runtime {
namespace {

constexpr int kNoisyRuns = 6;
// Sixteen times what rounding one result puts it off: a sum of many terms is off by that of its
// partial sums.
constexpr double kNoise = 0x1p-20, kNoiseOfDouble = 0x1p-49;

}  // namespace

Experiment disturbed(const Experiment& experiment, std::string_view precision, int number) {
  Experiment out = experiment;
  out.wrapBackend = nullptr;
  if (out.backend != "reference") out.backend = "onednn";
  // Processors compute tf32 as fp32, and GPUs round factors to 11 bits: of what is off by kNoise,
  // this share changes sides.
  RoundingNoise noise{.relative = precision == "fp64" ? kNoiseOfDouble : kNoise,
                      .seed = static_cast<std::uint64_t>(number) + 1};
  if (precision == "tf32") noise.flipped = kNoise * 0x1p11, noise.flip = 0x1p-11;
  out.openBackend = [noise, backend = out.backend, options = out.backendOptions](
                        int) -> Result<std::unique_ptr<backends::Backend>> {
    LOCKSTEP_ASSIGN(std::unique_ptr<backends::Backend> inner,
                    backends::makeBackend(backend, options));
    return withRoundingNoise(std::move(inner), noise);
  };
  return out;
}

Status addNoise(const PlanPair& plans, const Experiment& experiment, Reference& one,
                const std::atomic<bool>& stop) {
  std::vector<std::vector<Reference::Noise>> along(kNoisyRuns);  // by run and batch
  for (int run = 0; run < kNoisyRuns; ++run) {
    const Experiment noisy = disturbed(experiment, plans.probe.precision, run);
    for (std::size_t batch = 0; batch < one.gradients.size(); ++batch) {
      LOCKSTEP_ASSIGN(const Tensors other,
                      gradient(plans.probe, noisy, static_cast<int>(batch), stop));
      Apart apart = apartness(other, one.gradients[batch], kLeastShare);
      widen(one.gradientNoise[batch], apart);
      along[static_cast<std::size_t>(run)].push_back(std::move(apart.along));
    }
    LOCKSTEP_ASSIGN(const Tensors moved,
                    probe(plans.probe, noisy, one.updateRate, 0, kUpdateSteps, stop));
    widen(one.updateNoise, apartness(moved, one.updates, kLeastShare));
    LOCKSTEP_ASSIGN(const TrainedOnce trained,
                    trainOnce(plans.train, noisy, experiment.batches, experiment.schedule,
                              experiment.steps, false, stop));
    one.lossNoise = std::max(one.lossNoise, worstRelative(trained.losses, one.result.losses));
  }
  const double least = limitsOf(plans.probe.precision).gradients.least;
  for (const auto& each : along)
    one.scaleNoise = std::max(one.scaleNoise, scaleOf(each, one.gradientNoise, least));
  return {};
}

Result<double> RareNoise::of(const std::string& name, double difference, double known,
                             const Tolerance& tolerance, Reference::More::Rare& measured,
                             const Tensors& reference, const Probe& probe) {
  constexpr int kMoreRuns = 24;
  const bool rounds = precision_ != "fp64" && precision_ != "fp32";
  if (!rounds || std::isinf(difference)) return known;
  const auto most = [&] {
    const auto found = measured.noise.find(name);
    return found == measured.noise.end() ? known : std::max(known, found->second);
  };
  while (!gaveUp_ && difference > tolerance.of(most()) && measured.runs < kMoreRuns) {
    LOCKSTEP_ASSIGN(const Tensors noisy,
                    probe(disturbed(experiment_, precision_, kNoisyRuns + measured.runs)));
    ++measured.runs;
    widen(measured.noise, apartness(noisy, reference, kLeastShare));
  }
  gaveUp_ = gaveUp_ || difference > tolerance.of(most());
  return most();
}

Status measureMoved(const Reference& one, const Experiment& experiment,
                    const std::atomic<bool>& stop) {
  Reference::More& more = *one.more;
  if (more.moved) return {};
  Reference::More::Moved out;
  for (int run = 0; run < kNoisyRuns; ++run) {
    LOCKSTEP_ASSIGN(
        const TrainedOnce noisy,
        trainOnce(more.train, disturbed(experiment, more.train.precision, run), experiment.batches,
                  experiment.schedule, experiment.steps, true, stop));
    out.evaluation =
        std::max(out.evaluation, worstRelative({noisy.summary.evalLoss}, {one.result.evaluation}));
    for (const auto& [name, tensor] : noisy.tensors) {
      std::vector<double>& moved = out.weights[name];
      const Tensor& end = one.result.end.at(name);
      moved.resize(tensor.count());
      for (std::size_t i = 0; i < tensor.count(); ++i)
        moved[i] = std::max(moved[i], std::abs(tensor.at(i) - end.at(i)));
    }
  }
  more.moved = std::move(out);
  return {};
}

}  // namespace lockstep::runtime
