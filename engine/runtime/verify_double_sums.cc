#include "engine/runtime/verify_double_sums.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/runtime/double_storage.h"
#include "engine/runtime/verify_differences.h"
#include "engine/runtime/verify_noise.h"
#include "engine/runtime/verify_reference.h"
#include "engine/runtime/verify_runs.h"

namespace lockstep::runtime {
namespace {

using Exact = Reference::More::Exact;

// Batches whose gradients are compared, the largest limit, and the largest plans,
// which take some minutes.
constexpr int kExactBatches = 3;
constexpr double kMostOfExact = 1e-6;
constexpr double kMostExactFlops = 1e11;

// Gradients, updates and losses with fp64 sums.
Result<Exact> runExact(const plan::Plan& probePlan, const plan::Plan& trainPlan, double rate,
                       const Experiment& exact, const std::atomic<bool>& stop) {
  Exact out;
  for (int batch = 0; batch < exact.probeCount; ++batch) {
    LOCKSTEP_ASSIGN(Tensors of, gradient(probePlan, exact, batch, stop));
    out.gradients.push_back(std::move(of));
  }
  LOCKSTEP_ASSIGN(out.updates, probe(probePlan, exact, rate, 0, kUpdateSteps, stop));
  LOCKSTEP_ASSIGN(TrainedOnce trained, trainOnce(trainPlan, exact, exact.batches, exact.schedule,
                                                 exact.steps, false, stop));
  out.losses = std::move(trained.losses);
  return out;
}

double stepFlops(const plan::Plan& plan) {
  double out = 0;
  for (int rank = 0; rank < plan.mesh.size(); ++rank)
    for (const plan::ScheduleEntry& entry : plan.entriesOf(rank))
      if (const plan::Body* body = plan.find(entry.program, rank))
        for (const plan::Step& step : body->steps) out += step.flops;
  return out;
}

}  // namespace

Result<std::optional<Finding>> compareExact(const Reference& one, const PlanPair& several,
                                            const Experiment& experiment,
                                            const std::atomic<bool>& stop) {
  Reference::More& more = *one.more;
  const std::int64_t steps = std::min<std::int64_t>(experiment.steps, kUpdateSteps);
  const int batches = std::min(experiment.probeCount, kExactBatches);
  const double flops = stepFlops(more.probe) * (batches + kUpdateSteps) +
                       stepFlops(more.train) * static_cast<double>(steps);
  if (flops > kMostExactFlops) return std::optional<Finding>();
  const auto probePlan = withDoubleStorage(several.probe),
             trainPlan = withDoubleStorage(several.train);
  if (!probePlan.ok() || !trainPlan.ok()) return std::optional<Finding>();
  const DoubleFields batchesOf(experiment.batches), probesOf(experiment.probes);
  Experiment exact{.batches = batchesOf,
                   .steps = steps,
                   .probes = probesOf,
                   .probeCount = batches,
                   .schedule = experiment.schedule,
                   .backend = "reference",
                   .backendOptions = {},
                   .openBackend = nullptr,
                   .wrapBackend = nullptr};
  const auto alone = [&](const Experiment& as) -> Result<Exact> {
    LOCKSTEP_ASSIGN(const plan::Plan oneProbe, withDoubleStorage(more.probe));
    LOCKSTEP_ASSIGN(const plan::Plan oneTrain, withDoubleStorage(more.train));
    return runExact(oneProbe, oneTrain, one.updateRate, as, stop);
  };
  if (!more.exact) {
    LOCKSTEP_ASSIGN(more.exact, alone(exact));
  }
  const Exact& theirs = *more.exact;
  exact.wrapBackend = experiment.wrapBackend;
  LOCKSTEP_ASSIGN(const Exact mine, runExact(*probePlan, *trainPlan, one.updateRate, exact, stop));

  const Tolerance tolerance{limitsOf("fp64").gradients.least, kMostOfExact};
  const auto compare = [&](const Exact& a, const auto& add) {
    for (std::size_t batch = 0; batch < theirs.gradients.size(); ++batch)
      for (const auto& [name, difference] :
           apartness(a.gradients[batch], theirs.gradients[batch], kLeastShare).tensors)
        add(difference, fmt::format("gradient of {} in batch {}", name, batch + 1), "");
    for (const auto& [name, difference] : apartness(a.updates, theirs.updates, kLeastShare).tensors)
      add(difference, "update of " + name, "");
    std::size_t at = 0;
    const double difference = worstRelative(a.losses, theirs.losses, &at);
    add(difference, "loss", " of " + stepText(at));
  };
  Reference::Noise noise;
  bool apart = false;
  compare(mine, [&](double difference, const std::string&, const std::string&) {
    apart = apart || !(difference <= tolerance.least);
  });
  if (apart) {
    if (!more.noisyExact) {
      LOCKSTEP_ASSIGN(more.noisyExact, alone(disturbed(exact, "fp64", 0)));
    }
    compare(*more.noisyExact, [&](double difference, const std::string& what, const std::string&) {
      noise[what] = difference;
    });
  }
  Worst worst("fp64 sums");
  compare(mine, [&](double difference, const std::string& what, const std::string& where) {
    const auto known = noise.find(what);
    worst.add(difference, tolerance, known == noise.end() ? 0 : known->second, what, what + where);
  });
  return std::optional(worst.take());
}

}  // namespace lockstep::runtime
