#include "engine/runtime/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "engine/base/memory.h"
#include "engine/comm/memory_store.h"
#include "engine/runtime/rounding_noise.h"

namespace lockstep::runtime {
namespace {

constexpr Nanoseconds kPeerLimit = 120'000'000'000;
constexpr int kNoisyRuns = 6;
constexpr double kNoiseTimes = 4;  // what several ranks may differ by, where noise differs by 1
// Sixteen times what rounding one result puts it off: a sum of many terms is off by that of its
// partial sums.
constexpr double kNoise = 0x1p-20, kNoiseOfDouble = 0x1p-49;
// Elements that rounding alone moves by more of a tensor's limit than this are none that it says
// anything of.
constexpr double kSteady = 0x1p-10;
// The largest tolerance of an fp64 evaluation that depends on such elements; beyond it, it is
// undecided.
constexpr double kMostOfEvaluation = 1e-6;
// Of its norm, all parameters move about so far in a first step of `updates`.
constexpr double kUpdateLength = 0x1p-6;
// So great that what is left of a parameter after a step is its gradient; a power of two, so that
// the product is exact.
constexpr double kProbeRate = 1 << 20;

class Collect final : public TrainerObserver {
 public:
  explicit Collect(std::int64_t steps) { losses.reserve(static_cast<std::size_t>(steps)); }
  void onReady(std::int64_t) override {}
  void onStep(const StepRecord& record) override {
    if (losses.size() < losses.capacity()) losses.push_back(record.loss);
    skipped += record.skipped;
  }
  void onEvents(const std::vector<plan::Event>&) override {}
  void onEpoch(const EpochRecord&) override {}
  void onCheckpoint(std::int64_t, const std::string&) override {}
  std::vector<double> losses;
  std::int64_t skipped = 0;
};

// So many batches of kept ones.
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

struct Training {
  std::vector<double> losses;
  std::int64_t skipped = 0;  // updates
  TrainerSummary summary;
  Tensors start, tensors;
  std::string differing;
};

// "rank 3 differs from rank 1": two that are at one place but for axis data.
std::string differingReplicas(const cluster::Mesh& mesh,
                              const std::vector<Result<TrainerSummary>>& ranks) {
  for (int rank = 0; rank < mesh.workers(); ++rank) {
    const std::vector<int> group = mesh.group(rank, "data");
    const int first = group.empty() ? rank : group.front();
    if (ranks[static_cast<std::size_t>(rank)]->replicaSha256 !=
        ranks[static_cast<std::size_t>(first)]->replicaSha256)
      return fmt::format("rank {} differs from rank {}", rank, first);
  }
  return {};
}

// `steps` steps of a plan on batches; the tensors of rank 0 where they are asked for.
Result<Training> trainOnce(const plan::Plan& plan, const Experiment& experiment,
                           const data::Dataset& batches, const Schedule& schedule,
                           std::int64_t steps, bool keepTensors, const std::atomic<bool>& stop,
                           NonFinite nonFinite = NonFinite::kRefused) {
  Training out;
  TrainerOptions options;
  options.nonFinite = nonFinite;
  options.epochs = 0;
  options.maxSteps = steps;
  options.shuffle = false;
  options.hashReplica = true;
  options.schedule = schedule;
  const auto keepIn = [](Tensors& tensors) {
    return [&tensors](const TensorInfo& tensor, std::span<const std::byte> bytes) {
      tensors[tensor.name] = {tensor.dtype, {bytes.begin(), bytes.end()}};
    };
  };
  if (keepTensors) {
    options.onFirstTensor = keepIn(out.start);
    options.onTensor = keepIn(out.tensors);
  }
  const SomeBatches batch(batches, plan.globalBatch, 0);
  const data::Dataset& evaluate =
      experiment.equal ? static_cast<const data::Dataset&>(batch) : batches;
  LOCKSTEP_ASSIGN(LocalGroups groups, LocalGroups::make(plan.mesh, kPeerLimit));
  std::vector<std::unique_ptr<Collect>> observers;
  for (int rank = 0; rank < plan.mesh.size(); ++rank)
    observers.push_back(std::make_unique<Collect>(steps));
  comm::MemoryStore store;
  auto ranks = trainLocally(
      {plan, options, batches, evaluate, experiment.backend, experiment.backendOptions,
       experiment.openBackend, plan.staleness == 0 ? &store : nullptr},
      groups, stop,
      [&](int rank) -> TrainerObserver& { return *observers[static_cast<std::size_t>(rank)]; });
  // A rank that was ended by another's error is not what a person wants to hear of.
  const Error* first = nullptr;
  for (auto& rank : ranks) {
    if (rank.ok()) continue;
    if (rank.error().rank < 0) rank.error().rank = static_cast<int>(&rank - ranks.data());
    if (first == nullptr || (first->code == Code::kAborted && rank.error().code != Code::kAborted))
      first = &rank.error();
  }
  if (first != nullptr) return *first;
  if (stop) return makeError(Code::kCancelled, "the verification was cancelled");
  out.losses = std::move(observers.front()->losses);
  out.skipped = observers.front()->skipped;
  out.summary = *ranks.front();
  out.differing = differingReplicas(plan.mesh, ranks);
  return out;
}

// How far parameters come in `steps` steps from the probes' batch of this number.
Result<Tensors> probe(const plan::Plan& plan, const Experiment& experiment, double rate, int batch,
                      std::int64_t steps, const std::atomic<bool>& stop) {
  Schedule constant;
  constant.peak = rate;
  LOCKSTEP_ASSIGN(
      Training probed,
      trainOnce(plan, experiment, SomeBatches(experiment.probes, plan.globalBatch, batch, steps),
                // the rate is no one's to train with
                constant, steps, true, stop, NonFinite::kTaken));
  if (probed.skipped > 0) {
    Error error = makeError(Code::kInvalidArgument,
                            "gradients overflow, and a step that updates nothing shows none");
    error.next = "set training.loss_scale.initial to a smaller power of two";
    return error;
  }
  for (const plan::StateSlot& slot : plan.state)  // running statistics have no gradients
    if (slot.role == plan::StateRole::kStatistics)
      for (const auto& member : slot.members) probed.tensors.erase(member.name);
  for (auto& [name, tensor] : probed.tensors) {
    const Tensor& before = probed.start.at(name);
    for (std::size_t i = 0; i < tensor.count(); ++i) tensor.set(i, before.at(i) - tensor.at(i));
  }
  return std::move(probed.tensors);
}
Result<Tensors> gradient(const plan::Plan& plan, const Experiment& experiment, int batch,
                         const std::atomic<bool>& stop) {
  return probe(plan, experiment, kProbeRate, batch, 1, stop);
}

// Not a number is worse than any difference.
double relative(double difference, double of) {
  if (difference == 0) return 0;
  const double out = difference / of;
  return std::isnan(out) ? INFINITY : out;
}

double worstRelative(const std::vector<double>& a, const std::vector<double>& b,
                     std::size_t* where = nullptr) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = relative(std::abs(a[i] - b[i]), std::abs(b[i]));
    if (difference <= worst) continue;
    worst = difference;
    if (where != nullptr) *where = i;
  }
  return worst;
}

// The smallest norm that differences are divided by, as a share of the norm of all gradients. Some
// gradients are zero except for rounding, such as that of a bias before a batch norm. Their
// relative difference would be meaningless.
constexpr double kLeastShare = 0x1p-14;

// How far tensors are apart, relative to `b`, at least to `leastShare` of the length of all.
struct Apart {
  Reference::Noise tensors;  // ‖a − b‖ / ‖b‖
  Reference::Noise along;    // ⟨a − b, b⟩ / ⟨b, b⟩
};
Apart apartness(const Tensors& a, const Tensors& b, double leastShare = 0) {
  Apart out;
  double all = 0;
  for (const auto& [name, tensor] : b)
    for (std::size_t i = 0; leastShare > 0 && i < tensor.count(); ++i)
      all += tensor.at(i) * tensor.at(i);
  for (const auto& [name, theirs] : b) {
    const auto mine = a.find(name);
    double& difference = out.tensors[name] = INFINITY;
    if (mine == a.end() || mine->second.count() != theirs.count()) continue;
    double apart = 0, along = 0, norm = 0;
    for (std::size_t i = 0; i < theirs.count(); ++i) {
      const double other = theirs.at(i), by = mine->second.at(i) - other;
      apart += by * by;
      along += by * other;
      norm += other * other;
    }
    norm = std::max(norm, leastShare * leastShare * all);
    difference = relative(std::sqrt(apart), std::sqrt(norm));
    if (norm > 0) out.along[name] = along / norm;
  }
  for (const auto& [name, tensor] : a)
    if (!b.contains(name)) out.tensors[name] = INFINITY;
  return out;
}

// By how much gradients are too long altogether: the mean over tensors and batches, each as much as
// it is free of noise.
double scaleOf(const std::vector<Reference::Noise>& along,
               const std::vector<Reference::Noise>& noise, double least) {
  double sum = 0, weights = 0;
  for (std::size_t batch = 0; batch < along.size(); ++batch)
    for (const auto& [name, by] : along[batch]) {
      const auto known = noise[batch].find(name);
      const double spread = least + (known == noise[batch].end() ? 0 : known->second);
      sum += by / (spread * spread);
      weights += 1 / (spread * spread);
    }
  return std::abs(sum / std::max(weights, std::numeric_limits<double>::min()));
}

// A finding that is as near to its limit as any of those it is made of.
class Worst {
 public:
  explicit Worst(std::string check) : found_{std::move(check), 0, 0, "", true} {}
  // Of `what`, a tensor or a number; `where` it is found.
  void add(double difference, const Tolerance& tolerance, double noise, const std::string& what,
           const std::string& where) {
    const double limit = tolerance.of(noise);
    const bool decides = tolerance.decides(noise);
    bool& decided = decided_[what];
    decided = decided || decides;
    ++all_;
    if (limit > tolerance.least) ++stretched_;
    if (!decides) ++aside_;
    noise_ = std::max(noise_, noise);
    const double share = std::isnan(difference) ? INFINITY : difference / limit;
    found_.holds = found_.holds && share <= 1;
    if (share <= share_ && all_ > 1) return;
    share_ = share;
    found_.difference = std::isnan(difference) ? INFINITY : difference;
    found_.limit = limit;
    found_.where = where;
  }
  Finding take() {
    found_.undecided =
        std::any_of(decided_.begin(), decided_.end(), [](const auto& one) { return !one.second; });
    if (stretched_ > 0 && all_ > 1)
      found_.where +=
          fmt::format("; rounding alone moves {} of {} by up to {:.0e}", stretched_, all_, noise_);
    if (aside_ > 0 && all_ > 1) found_.where += fmt::format(", {} too far to decide", aside_);
    return std::move(found_);
  }

 private:
  Finding found_;
  double share_ = 0, noise_ = 0;
  int all_ = 0, stretched_ = 0, aside_ = 0;
  std::map<std::string, bool> decided_;
};

Finding sameBits(std::string check, const Tensors& a, const Tensors& b) {
  Finding out{std::move(check), 0, 0, "", true};
  for (const auto& [name, difference] : apartness(a, b).tensors) {
    if (difference <= out.difference) continue;
    out = {out.check, difference, 0, name, false};
  }
  return out;
}

std::string stepText(std::size_t index) { return fmt::format("step {}", index + 1); }

void widen(Reference::Noise& noise, const Apart& apart) {
  for (const auto& [name, difference] : apart.tensors)
    noise[name] = std::max(noise[name], difference);
}

// On processors, where results can be disturbed.
Experiment disturbed(const Experiment& experiment, std::string_view precision, int number) {
  Experiment out = experiment;
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
    LOCKSTEP_ASSIGN(const Training trained,
                    trainOnce(plans.train, noisy, experiment.batches, experiment.schedule,
                              experiment.steps, false, stop));
    one.lossNoise = std::max(one.lossNoise, worstRelative(trained.losses, one.result.losses));
  }
  const double least = limitsOf(plans.probe.precision).gradients.least;
  for (const auto& each : along)
    one.scaleNoise = std::max(one.scaleNoise, scaleOf(each, one.gradientNoise, least));
  return {};
}

// Rounding noise of matmul operands in 16 bits (bf16, fp16, tf32). It is rare but large: a value
// near a tie is rounded the other way. A few noisy runs may therefore miss it. Where a tensor
// differs by more than they explain, this runs the plan under test up to 24 more times with noise.
// If these do not explain the difference either, no other difference is excused.
class RareNoise {
 public:
  using Probe = std::function<Result<Tensors>(const Experiment& experiment)>;
  RareNoise(const plan::Plan& plan, const Experiment& experiment)
      : plan_(plan), experiment_(experiment) {}

  // Returns the largest difference of the tensor `name` between noisy runs of `probe`, at least
  // `known`.
  Result<double> of(const std::string& name, double difference, double known,
                    const Tolerance& tolerance, const Probe& probe) {
    const bool rounds = plan_.precision != "fp64" && plan_.precision != "fp32";
    if (!rounds || gaveUp_ || std::isinf(difference) || difference <= tolerance.of(known))
      return known;
    constexpr int kMoreRuns = 24;
    Tensors first;
    for (int run = 0; run < kMoreRuns && difference > tolerance.of(known); ++run) {
      LOCKSTEP_ASSIGN(Tensors noisy,
                      probe(disturbed(experiment_, plan_.precision, kNoisyRuns + run)));
      if (run == 0)
        first = std::move(noisy);
      else
        known = std::max(known, apartness(noisy, first, kLeastShare).tensors.at(name));
    }
    gaveUp_ = difference > tolerance.of(known);
    return known;
  }

 private:
  const plan::Plan& plan_;
  const Experiment& experiment_;
  bool gaveUp_ = false;
};

// How much rounding alone changes the results of training.
struct Moved {
  std::map<std::string, std::vector<double>> weights;  // each element of each tensor
  double evaluation = 0;                               // relative
};
Result<Moved> movedByRounding(const plan::Plan& plan, const Experiment& experiment,
                              const std::atomic<bool>& stop) {
  Moved out;
  Tensors first;
  double evaluation = 0;
  for (int run = 0; run < kNoisyRuns; ++run) {
    LOCKSTEP_ASSIGN(Training noisy,
                    trainOnce(plan, disturbed(experiment, plan.precision, run), experiment.batches,
                              experiment.schedule, experiment.steps, true, stop));
    if (run == 0) first = noisy.tensors, evaluation = noisy.summary.evalLoss;
    out.evaluation =
        std::max(out.evaluation, worstRelative({noisy.summary.evalLoss}, {evaluation}));
    for (const auto& [name, tensor] : noisy.tensors) {
      std::vector<double>& moved = out.weights[name];
      moved.resize(tensor.count());
      for (std::size_t i = 0; i < tensor.count(); ++i)
        moved[i] = std::max(moved[i], std::abs(tensor.at(i) - first.at(name).at(i)));
    }
  }
  return out;
}

// ‖a − b‖ / ‖b‖ of the elements that rounding alone moves by no more than `most`·‖b‖, and how many
// it moves further.
struct Steady {
  double difference = 0;
  std::size_t aside = 0;
};
Steady steadyApart(const Tensor& a, const Tensor& b, const std::vector<double>& moved,
                   double most) {
  double apart = 0, norm = 0;
  for (std::size_t i = 0; i < b.count(); ++i) norm += b.at(i) * b.at(i);
  Steady out;
  for (std::size_t i = 0; i < b.count(); ++i) {
    if (moved[i] > most * std::sqrt(norm))
      ++out.aside;
    else
      apart += (a.at(i) - b.at(i)) * (a.at(i) - b.at(i));
  }
  out.difference = relative(std::sqrt(apart), std::sqrt(norm));
  return out;
}

// Weights of fp64 are nearly equal but where an optimizer makes much of rounding: of a gradient
// that is 0 but for rounding, as that of a key's bias, adagrad with weight decay makes steps as
// long as any. Where tensors differ, what rounding alone moves is left out. The evaluation depends
// on these weights too: running statistics lag behind them.
Status compareEnds(const RunResult& mine, const RunResult& theirs, const plan::Plan& several,
                   const Limits& limits, const Experiment& experiment, std::vector<Finding>& out,
                   const std::atomic<bool>& stop) {
  const Tolerance& tolerance = limits.gradients;
  Worst weights("weights at the end"), evaluation("evaluation");
  std::optional<Moved> moved;
  const auto measure = [&]() -> Status {
    if (moved) return {};
    LOCKSTEP_ASSIGN(moved, movedByRounding(several, experiment, stop));
    return {};
  };
  std::size_t aside = 0, tensors = 0;
  for (const auto& [name, difference] : apartness(mine.end, theirs.end).tensors) {
    const auto a = mine.end.find(name), b = theirs.end.find(name);
    if (difference <= tolerance.least || a == mine.end.end() || b == theirs.end.end() ||
        a->second.count() != b->second.count()) {
      weights.add(difference, tolerance, 0, name, name);
      ++tensors;
      continue;
    }
    LOCKSTEP_TRY(measure());
    const Steady steady =
        steadyApart(a->second, b->second, moved->weights.at(name), kSteady * tolerance.least);
    aside += steady.aside;
    if (steady.aside == b->second.count()) continue;
    weights.add(steady.difference, tolerance, 0, name, name);
    ++tensors;
  }
  if (tensors == 0) weights.add(0, tolerance, 1, "", "");  // nothing is left that could decide
  out.push_back(weights.take());
  if (aside > 0)
    out.back().where += fmt::format("; without {} elements that rounding alone moves", aside);

  const double apart = worstRelative({mine.evaluation}, {theirs.evaluation});
  double noise = 0;
  if (apart > limits.losses.least && aside > 0) {
    LOCKSTEP_TRY(measure());
    noise = moved->evaluation;
  }
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

// Of plans that are to be equal to one rank.
Status compareEqual(const Reference& one, const RunResult& mine, const PlanPair& several,
                    const Experiment& experiment, std::vector<Finding>& out,
                    const std::atomic<bool>& stop) {
  const RunResult& theirs = one.result;
  const Limits limits = limitsOf(several.train.precision);
  Worst gradients("gradients");
  RareNoise rare(several.probe, experiment);
  std::vector<Reference::Noise> along;
  for (std::size_t batch = 0; batch < one.gradients.size(); ++batch) {
    const auto probed = [&](const Experiment& as) {
      return gradient(several.probe, as, static_cast<int>(batch), stop);
    };
    LOCKSTEP_ASSIGN(const Tensors stepped, probed(experiment));
    Apart apart = apartness(stepped, one.gradients[batch], kLeastShare);
    for (const auto& [name, difference] : apart.tensors) {
      const auto& noise = one.gradientNoise[batch];
      const auto known = noise.find(name);
      LOCKSTEP_ASSIGN(const double moved,
                      rare.of(name, difference, known == noise.end() ? 0 : known->second,
                              limits.gradients, probed));
      gradients.add(
          difference, limits.gradients, moved, name,
          one.gradients.size() == 1 ? name : fmt::format("{} in batch {}", name, batch + 1));
    }
    along.push_back(std::move(apart.along));
  }
  out.push_back(gradients.take());
  Worst scales("gradient scale");
  scales.add(scaleOf(along, one.gradientNoise, limits.gradients.least), limits.scale,
             one.scaleNoise, "", "");
  out.push_back(scales.take());

  const auto updated = [&](const Experiment& as) {
    return probe(several.probe, as, one.updateRate, 0, kUpdateSteps, stop);
  };
  LOCKSTEP_ASSIGN(const Tensors moved, updated(experiment));
  Worst updates("updates");
  for (const auto& [name, difference] : apartness(moved, one.updates, kLeastShare).tensors) {
    const auto known = one.updateNoise.find(name);
    LOCKSTEP_ASSIGN(const double noise,
                    rare.of(name, difference, known == one.updateNoise.end() ? 0 : known->second,
                            limits.updates, updated));
    updates.add(difference, limits.updates, noise, name, name);
  }
  out.push_back(updates.take());

  Worst losses("losses");
  std::size_t at = 0;
  const double apart = worstRelative(mine.losses, theirs.losses, &at);
  losses.add(apart, limits.losses, one.lossNoise, "", stepText(at));
  out.push_back(losses.take());
  if (several.train.precision != "fp64") return {};
  return compareEnds(mine, theirs, several.train, limits, experiment, out, stop);
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

Result<KeptBatches> KeptBatches::make(const data::Dataset& from, const Options& options) {
  KeptBatches out;
  out.fields_ = from.fields();
  out.bytes_.resize(out.fields_.size());
  out.size_ = options.batch * options.steps - (options.steps > 1 ? options.batch / 2 : 0);
  data::Loader::Options load;
  load.globalBatch = load.end = options.batch;
  load.seed = options.seed;
  load.shuffle = options.shuffle;
  load.augment = options.augment;
  load.lastStep = options.steps;
  LOCKSTEP_ASSIGN(const auto loader, data::Loader::make(from, load));
  std::int64_t bytes = 0;
  for (const data::Field& field : out.fields_)
    bytes += options.batch * options.steps * field.bytes();
  LOCKSTEP_TRY(withMemoryFor(
      fmt::format("{} batches to verify with", options.steps), bytes, [&]() -> Status {
        while (const data::Batch* batch = loader->next())
          for (std::size_t f = 0; f < out.fields_.size(); ++f)
            out.bytes_[f].insert(out.bytes_[f].end(), batch->fields[f].begin(),
                                 batch->fields[f].end());
        return {};
      }));
  return out;
}

void KeptBatches::read(std::int64_t index, std::size_t field, std::byte* out) const {
  const auto bytes = static_cast<std::size_t>(fields_[field].bytes());
  std::memcpy(out, bytes_[field].data() + static_cast<std::size_t>(index) * bytes, bytes);
}

Result<RunResult> runPlans(const PlanPair& plans, const Experiment& experiment,
                           const std::atomic<bool>& stop) {
  RunResult out;
  LOCKSTEP_ASSIGN(Training trained, trainOnce(plans.train, experiment, experiment.batches,
                                              experiment.schedule, experiment.steps, true, stop));
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
  LOCKSTEP_ASSIGN(const Training trained,
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
  if (experiment.equal) {
    LOCKSTEP_TRY(compareEqual(one, mine, several, experiment, out, stop));
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
  LOCKSTEP_ASSIGN(const Training again,
                  trainOnce(several.train, experiment, experiment.batches, experiment.schedule,
                            experiment.steps, false, stop));
  std::size_t at = 0;
  Finding bits{"two runs", worstRelative(again.losses, mine.losses, &at), 0, "", false};
  bits.holds = bits.difference == 0 && again.summary.weightsSha256 == mine.weightsSha256;
  if (!bits.holds) bits.where = bits.difference > 0 ? stepText(at) : "weights at the end";
  out.push_back(std::move(bits));
  return Verified{std::move(out), mine.losses};
}

}  // namespace lockstep::runtime
