#include "engine/runtime/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/runtime/verify_differences.h"
#include "engine/runtime/verify_double_sums.h"
#include "engine/runtime/verify_noise.h"
#include "engine/runtime/verify_reference.h"
#include "engine/runtime/verify_runs.h"

namespace lockstep::runtime {
namespace {

constexpr double kNoiseTimes = 4;  // what several ranks may differ by, where noise differs by 1
// Elements that rounding alone moves by more of a tensor's limit than this are set aside; at most
// such shares of a tensor, and of all.
constexpr double kSteady = 0x1p-10;
constexpr double kMostAside = 0.5, kMostAsideOfAll = 0.25;
// Runs of the gradients of one batch, that of other batches included, which show a fault that
// comes and goes; those of the same batch are the same bits.
constexpr int kGradientRuns = 4;
// The largest limits of such elements, and of an fp64 evaluation that depends on them; beyond these
// they are undecided.
constexpr double kMostOfAside = 1e-5, kMostOfEvaluation = 1e-6;
// How much further than noise says such elements may be apart: what moves a gradient of 0 is the
// same for all samples of a rank, and seldom so where each result has noise of its own.
constexpr double kAsideTimes = 8;
// Of its norm, all parameters move about so far in a first step of `updates`.
constexpr double kUpdateLength = 0x1p-6;

// Weights of fp64 are nearly equal but where an optimizer makes much of rounding: of a gradient
// that is 0 but for rounding, as that of a key's bias, adagrad with weight decay makes steps as
// long as any. Where tensors differ, what rounding alone moves on one rank is set aside. The
// evaluation depends on these weights too: running statistics lag behind them.
Status compareEnds(const Reference& one, const RunResult& mine, const Limits& limits,
                   const Experiment& experiment, std::vector<Finding>& out,
                   const std::atomic<bool>& stop) {
  const RunResult& theirs = one.result;
  const Tolerance& tolerance = limits.gradients;
  const Tolerance ofAside{tolerance.least, kMostOfAside};
  Worst weights("weights at the end"), evaluation("evaluation");
  std::size_t aside = 0, undecided = 0, all = 0;
  for (const auto& [name, difference] : apartness(mine.end, theirs.end).tensors) {
    const auto a = mine.end.find(name), b = theirs.end.find(name);
    if (b != theirs.end.end()) all += b->second.count();
    if (difference <= tolerance.least || a == mine.end.end() || b == theirs.end.end() ||
        a->second.count() != b->second.count()) {
      weights.add(difference, tolerance, 0, name, name);
      continue;
    }
    LOCKSTEP_TRY(measureMoved(one, experiment, stop));
    const Steady steady = steadyApart(a->second, b->second, one.more->moved->weights.at(name),
                                      kSteady * tolerance.least);
    weights.add(steady.difference, tolerance, 0, name, name);
    if (steady.aside == 0) continue;
    const double noise = kAsideTimes * steady.noise;
    weights.add(steady.asideDifference, ofAside, noise, name, name);
    aside += steady.aside;
    if (ofAside.decides(noise)) continue;
    undecided += steady.aside;
    if (static_cast<double>(steady.aside) > kMostAside * static_cast<double>(b->second.count()))
      weights.setUndecided();
  }
  if (static_cast<double>(undecided) > kMostAsideOfAll * static_cast<double>(all))
    weights.setUndecided();
  out.push_back(weights.take());
  if (aside > 0)
    out.back().where +=
        fmt::format("; without {} of {} elements that rounding alone moves", aside, all);

  const double apart = worstRelative({mine.evaluation}, {theirs.evaluation});
  double noise = 0;
  if (apart > limits.losses.least && aside > 0) noise = one.more->moved->evaluation;
  evaluation.add(apart, {limits.losses.least, kMostOfEvaluation}, noise, "", "");
  out.push_back(evaluation.take());
  return {};
}

// A power of two, so that products are exact.
double updateRate(const Tensors& start, const Tensors& gradients) {
  double weights = 0, slopes = 0;
  for (const auto& [name, tensor] : gradients)
    for (std::size_t i = 0; i < tensor.count(); ++i) {
      weights += start.at(name).at(i) * start.at(name).at(i);
      slopes += tensor.at(i) * tensor.at(i) / (kProbeRate * kProbeRate);
    }
  const double rate = kUpdateLength * std::sqrt(weights / slopes);
  return std::isfinite(rate) && rate > 0 ? std::exp2(std::round(std::log2(rate))) : 1;
}

// The greatest difference between runs of one plan on the same batch.
struct Repeat {
  double difference = 0;
  std::string where;
};

// Compares plans that must equal one rank's.
Result<Repeat> compareEqual(const Reference& one, const RunResult& mine, const PlanPair& several,
                            const Experiment& experiment, std::vector<Finding>& out,
                            const std::atomic<bool>& stop) {
  const RunResult& theirs = one.result;
  const Limits limits = limitsOf(several.train.precision);
  Reference::More& more = *one.more;
  const std::size_t first = out.size();
  Worst gradients("gradients");
  RareNoise rare(several.probe.precision, experiment);
  std::vector<Reference::Noise> along;
  Repeat repeat;
  for (std::size_t batch = 0; batch < one.gradients.size(); ++batch) {
    const auto probed = [&](const plan::Plan& plan, const Experiment& as) {
      return gradient(plan, as, static_cast<int>(batch), stop);
    };
    LOCKSTEP_ASSIGN(const Tensors stepped, probed(several.probe, experiment));
    Apart apart = apartness(stepped, one.gradients[batch], kLeastShare);
    for (const auto& [name, difference] : apart.tensors) {
      const auto& noise = one.gradientNoise[batch];
      const auto known = noise.find(name);
      LOCKSTEP_ASSIGN(const double moved,
                      rare.of(name, difference, known == noise.end() ? 0 : known->second,
                              limits.gradients, more.gradients[batch], one.gradients[batch],
                              [&](const Experiment& as) { return probed(more.probe, as); }));
      gradients.add(
          difference, limits.gradients, moved, name,
          one.gradients.size() == 1 ? name : fmt::format("{} in batch {}", name, batch + 1));
    }
    along.push_back(std::move(apart.along));
    if (batch > 0 || !experiment.fixedOrder) continue;
    const int runs = std::max(1, kGradientRuns - experiment.probeCount);
    for (int run = 0; run < runs && repeat.difference == 0; ++run) {
      LOCKSTEP_ASSIGN(const Tensors again, probed(several.probe, experiment));
      const Finding bits = sameBits("", again, stepped);
      repeat = {bits.difference, bits.where};
    }
  }
  out.push_back(gradients.take());
  Worst scales("gradient scale");
  scales.add(scaleOf(along, one.gradientNoise, limits.gradients.least), limits.scale,
             one.scaleNoise, "", "");
  out.push_back(scales.take());

  const auto updated = [&](const plan::Plan& plan, const Experiment& as) {
    return probe(plan, as, one.updateRate, 0, kUpdateSteps, stop);
  };
  LOCKSTEP_ASSIGN(const Tensors moved, updated(several.probe, experiment));
  Worst updates("updates");
  for (const auto& [name, difference] : apartness(moved, one.updates, kLeastShare).tensors) {
    const auto known = one.updateNoise.find(name);
    LOCKSTEP_ASSIGN(const double noise,
                    rare.of(name, difference, known == one.updateNoise.end() ? 0 : known->second,
                            limits.updates, more.updates, one.updates,
                            [&](const Experiment& as) { return updated(more.probe, as); }));
    updates.add(difference, limits.updates, noise, name, name);
  }
  out.push_back(updates.take());

  Worst losses("losses");
  std::size_t at = 0;
  const double apart = worstRelative(mine.losses, theirs.losses, &at);
  losses.add(apart, limits.losses, one.lossNoise, "", stepText(at));
  out.push_back(losses.take());
  if (several.train.precision == "fp64") {
    LOCKSTEP_TRY(compareEnds(one, mine, limits, experiment, out, stop));
    return repeat;
  }
  const auto isUndecided = [](const Finding& one) { return one.undecided; };
  if (std::none_of(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(), isUndecided))
    return repeat;
  LOCKSTEP_ASSIGN(const auto exact, compareExact(one, several, experiment, stop));
  if (!exact) return repeat;
  for (Finding& finding : out) {
    if (!finding.undecided || exact->undecided) continue;
    finding.undecided = false;
    finding.where += finding.where.empty() ? "decided by fp64 sums" : "; decided by fp64 sums";
  }
  out.push_back(*exact);
  return repeat;
}

}  // namespace

double Tensor::at(std::size_t index) const {
  if (dtype == DType::kF64) {
    double out = 0;
    std::memcpy(&out, bytes.data() + index * sizeof out, sizeof out);
    return out;
  }
  float out = 0;
  std::memcpy(&out, bytes.data() + index * sizeof out, sizeof out);
  return static_cast<double>(out);
}

void Tensor::set(std::size_t index, double value) {
  std::byte* const to = bytes.data() + index * sizeOf(dtype);
  if (dtype == DType::kF64) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const auto single = static_cast<float>(value);
  std::memcpy(to, &single, sizeof single);
}

double Tolerance::of(double noise) const { return std::max(least, kNoiseTimes * noise); }
bool Tolerance::decides(double noise) const { return of(noise) <= most; }

// A factor is rounded to one of its 16-bit neighbours, of bf16 2⁻⁸ apart and of fp16 2⁻¹¹, as few
// of all factors are otherwise where sums are in another order: least is what that makes of small
// models. Most is a kink of a small batch, and of a loss what all factors rounded otherwise would
// make.
Limits limitsOf(std::string_view precision) {
  if (precision == "fp64") return {{1e-9, 1e-9}, {1e-9, 1e-9}, {1e-9, 1e-9}, {1e-9, 1e-9}};
  if (precision == "bf16")
    return {{0x1p-12, 0x1p-3}, {0x1p-16, 0x1p-12}, {0x1p-11, 0x1p-3}, {0x1p-15, 0x1p-8}};
  if (precision == "fp16" || precision == "tf32")
    return {{0x1p-13, 0x1p-4}, {0x1p-16, 0x1p-12}, {0x1p-12, 0x1p-4}, {0x1p-15, 0x1p-10}};
  return {{1e-5, 0x1p-4}, {2e-6, 1e-4}, {4e-5, 0x1p-4}, {1e-5, 1e-3}};
}

Result<RunResult> runPlans(const PlanPair& plans, const Experiment& experiment,
                           const std::atomic<bool>& stop) {
  RunResult out;
  LOCKSTEP_ASSIGN(TrainedOnce trained,
                  trainOnce(plans.train, experiment, experiment.batches, experiment.schedule,
                            experiment.steps, true, stop));
  out.start = std::move(trained.start);
  out.end = std::move(trained.tensors);
  out.losses = std::move(trained.losses);
  out.evaluation = trained.summary.evalLoss;
  out.differing = std::move(trained.differing);
  out.weightsSha256 = trained.summary.weightsSha256;
  return out;
}

Result<Reference> runReference(const PlanPair& plans, const Experiment& experiment,
                               const std::atomic<bool>& stop) {
  Reference out;
  LOCKSTEP_ASSIGN(out.result, runPlans(plans, experiment, stop));
  if (!experiment.equal) return out;
  out.more = std::make_shared<Reference::More>(plans.probe, plans.train);
  out.more->gradients.resize(static_cast<std::size_t>(experiment.probeCount));
  for (int batch = 0; batch < experiment.probeCount; ++batch) {
    LOCKSTEP_ASSIGN(Tensors of, gradient(plans.probe, experiment, batch, stop));
    out.gradients.push_back(std::move(of));
  }
  out.gradientNoise.resize(out.gradients.size());
  out.updateRate = updateRate(out.result.start, out.gradients.front());
  LOCKSTEP_ASSIGN(out.updates,
                  probe(plans.probe, experiment, out.updateRate, 0, kUpdateSteps, stop));
  if (plans.probe.precision != "fp64") LOCKSTEP_TRY(addNoise(plans, experiment, out, stop));
  return out;
}

Result<std::vector<std::pair<std::string, double>>> gradientLengths(
    const plan::Plan& plan, const data::Dataset& batch, std::string_view backend,
    const backends::BackendOptions& options) {
  const std::atomic<bool> stop{false};
  const Experiment experiment{.batches = batch,
                              .steps = 1,
                              .probes = batch,
                              .schedule = {},
                              .backend = std::string(backend),
                              .backendOptions = options};
  Schedule rate;
  rate.peak = kProbeRate;
  LOCKSTEP_ASSIGN(const TrainedOnce trained,
                  trainOnce(plan, experiment, batch, rate, 1, true, stop, NonFinite::kTaken));
  std::vector<std::pair<std::string, double>> out{{"loss", trained.losses.front()}};
  for (const auto& [name, tensor] : trained.tensors) {
    double squares = 0;
    for (std::size_t i = 0; i < tensor.count(); ++i) squares += tensor.at(i) * tensor.at(i);
    out.emplace_back("gradient of " + name, std::sqrt(squares) / kProbeRate);
  }
  return out;
}

Result<Verified> verifyAgainst(const Reference& one, const PlanPair& several,
                               const Experiment& experiment, const std::atomic<bool>& stop) {
  LOCKSTEP_ASSIGN(const RunResult mine, runPlans(several, experiment, stop));
  const RunResult& theirs = one.result;
  std::vector<Finding> out;
  out.push_back(sameBits("initial weights", mine.start, theirs.start));
  Repeat repeat;
  if (experiment.equal) {
    LOCKSTEP_ASSIGN(repeat, compareEqual(one, mine, several, experiment, out, stop));
  } else {
    const double worse = (mine.evaluation - theirs.evaluation) / std::abs(theirs.evaluation);
    out.push_back(
        {"quality", std::isnan(worse) ? INFINITY : std::max(0.0, worse), 0.1,
         fmt::format("loss {:.4g}, one rank's {:.4g}", mine.evaluation, theirs.evaluation),
         worse <= 0.1});
  }
  if (several.train.mesh.workers() > 1 && experiment.fixedOrder)
    out.push_back({"all ranks", mine.differing.empty() ? 0.0 : INFINITY, 0, mine.differing,
                   mine.differing.empty()});
  if (!experiment.fixedOrder) return Verified{std::move(out), mine.losses};
  LOCKSTEP_ASSIGN(const TrainedOnce again,
                  trainOnce(several.train, experiment, experiment.batches, experiment.schedule,
                            experiment.steps, false, stop));
  std::size_t at = 0;
  Finding bits{"two runs", worstRelative(again.losses, mine.losses, &at), 0, "", false};
  const bool sameEnd = bits.difference == 0 && again.summary.weightsSha256 == mine.weightsSha256;
  bits.holds = sameEnd && repeat.difference == 0;
  if (!sameEnd)
    bits.where = bits.difference > 0 ? stepText(at) : "weights at the end";
  else
    bits.difference = repeat.difference, bits.where = repeat.where;
  out.push_back(std::move(bits));
  return Verified{std::move(out), mine.losses};
}

}  // namespace lockstep::runtime
