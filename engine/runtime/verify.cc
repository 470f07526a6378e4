#include "engine/runtime/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/comm/memory_store.h"

namespace lockstep::runtime {
namespace {

constexpr Nanoseconds kPeerLimit = 120'000'000'000;
// So great that what is left of a parameter after a step is its gradient; a power of two, so that the
// product is exact.
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

// One batch of kept ones.
class OneBatch final : public data::Dataset {
 public:
  OneBatch(const data::Dataset& from, std::int64_t batch, std::int64_t number)
      : from_(from), first_(batch * number), size_(std::min(batch, from.size() - first_)) {}
  std::int64_t size() const override { return size_; }
  const std::vector<data::Field>& fields() const override { return from_.fields(); }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    from_.read(first_ + index, field, out);
  }

 private:
  const data::Dataset& from_;
  std::int64_t first_, size_;
};

// Samples change places within blocks of a batch: `way` 0 reverses them, 1 turns them by half a block, 2
// takes every other one first.
class Permuted final : public data::Dataset {
 public:
  Permuted(const data::Dataset& from, std::int64_t batch, std::int64_t block, int way)
      : from_(from), batch_(batch), block_(block), way_(way) {}
  std::int64_t size() const override { return from_.size(); }
  const std::vector<data::Field>& fields() const override { return from_.fields(); }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    const std::int64_t inBatch = index % batch_;
    const std::int64_t begin = index - inBatch + inBatch / block_ * block_;
    const std::int64_t batchEnd = std::min(index - inBatch + batch_, size());
    const std::int64_t count = std::min(block_, batchEnd - begin), at = index - begin;
    std::int64_t place = at;
    if (way_ == 0) place = count - 1 - at;
    if (way_ == 1) place = (at + count / 2) % count;
    if (way_ == 2) place = at < (count + 1) / 2 ? 2 * at : 2 * (at - (count + 1) / 2) + 1;
    from_.read(begin + place, field, out);
  }

 private:
  const data::Dataset& from_;
  std::int64_t batch_, block_;
  int way_;
};
constexpr int kWays = 3;

struct Training {
  std::vector<double> losses;
  std::int64_t skipped = 0;  // updates
  TrainerSummary summary;
  Tensors tensors;
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
                           std::int64_t steps, bool keepTensors, const std::atomic<bool>& stop) {
  Training out;
  TrainerOptions options;
  options.epochs = 0;
  options.maxSteps = steps;
  options.shuffle = false;
  options.hashReplica = true;
  options.schedule = schedule;
  if (keepTensors)
    options.onTensor = [&](const TensorInfo& tensor, std::span<const std::byte> bytes) {
      out.tensors[tensor.name] = {tensor.dtype, {bytes.begin(), bytes.end()}};
    };
  const OneBatch batch(batches, plan.globalBatch, 0);
  const data::Dataset& evaluate = experiment.equal ? static_cast<const data::Dataset&>(batch) : batches;
  LocalGroups groups(plan.mesh, kPeerLimit);
  std::vector<std::unique_ptr<Collect>> observers;
  for (int rank = 0; rank < plan.mesh.size(); ++rank)
    observers.push_back(std::make_unique<Collect>(steps));
  comm::MemoryStore store;
  auto ranks = trainLocally({plan, options, batches, evaluate, experiment.backend, experiment.backendOptions,
                             experiment.openBackend, plan.staleness == 0 ? &store : nullptr},
                            groups, stop, [&](int rank) -> TrainerObserver& {
                              return *observers[static_cast<std::size_t>(rank)];
                            });
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

// The parameters after one step on one batch.
Result<Tensors> probe(const plan::Plan& plan, const Experiment& experiment, const data::Dataset& probes, double rate,
                      int batch, const std::atomic<bool>& stop) {
  Schedule constant;
  constant.peak = rate;
  LOCKSTEP_ASSIGN(Training probed,
                  trainOnce(plan, experiment, OneBatch(probes, plan.globalBatch, batch),
                            constant, 1, true, stop));
  if (probed.skipped > 0) {
    Error error = makeError(Code::kInvalidArgument, "gradients overflow, and a step that updates nothing shows none");
    error.next = "set training.loss_scale.initial to a smaller power of two";
    return error;
  }
  for (const plan::StateSlot& slot : plan.state)  // running statistics have no gradients
    if (slot.name.starts_with("stats."))
      for (const auto& member : slot.members) probed.tensors.erase(member.name);
  return std::move(probed.tensors);
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

// By tensors: value(of the tensor in a or b, element).
template <typename Value>
Finding compareTensors(std::string check, const Tensors& a, const Tensors& b, double limit,
                       Value value) {
  Finding out{std::move(check), 0, limit, "", true};
  for (const auto& [name, tensor] : b) {
    const auto other = a.find(name);
    double difference = INFINITY;
    if (other != a.end() && other->second.count() == tensor.count()) {
      double apart = 0, norm = 0;
      for (std::size_t i = 0; i < tensor.count(); ++i) {
        const double mine = value(false, name, i), theirs = value(true, name, i);
        apart += (mine - theirs) * (mine - theirs);
        norm += theirs * theirs;
      }
      difference = relative(std::sqrt(apart), std::sqrt(norm));
    }
    if (difference <= out.difference && !out.where.empty()) continue;
    out.difference = difference;
    out.where = name;
  }
  if (a.size() != b.size()) out = {out.check, INFINITY, limit, "not the same tensors", false};
  out.holds = out.difference <= limit;
  return out;
}

std::string stepText(std::size_t index) { return fmt::format("step {}", index + 1); }

struct Limits {
  double gradients = 0, losses = 0;
  bool exact = false;  // what is left at the end is compared too
  // So many times what reordering does to gradients is allowed: where no batch is without jumps, one rank's sums and
  // several ranks' are each as far from the exact ones. 0: they agree in some.
  double reorderings = 0;
};
// A factor jumps by up to its unit, of bf16 2⁻⁸, where what it is rounded from differs in its last bits. Of fp16, 2⁻¹¹,
// eight times as many do, and losses come as far apart as neighbours are, 2⁻¹⁰; tf32 has as many bits.
Limits limitsOf(const plan::Plan& plan) {
  if (plan.precision == "fp64") return {1e-9, 1e-9, true};
  if (plan.precision == "tf32") return {.gradients = 1.0 / 2048, .losses = 1.0 / 1024, .reorderings = 2};
  if (plan.precision == "bf16") return {1.0 / 256, 1.0 / 256};
  if (plan.precision == "fp16") return {.gradients = 1.0 / 2048, .losses = 1.0 / 1024, .reorderings = 2};
  return {1e-5, 1e-5};
}

// Of what is left of parameters after a step of plain descent.
Finding gradientsApart(const Tensors& start, const Tensors& mine, const Tensors& theirs, double limit) {
  return compareTensors("gradients", mine, theirs, limit, [&](bool of, const std::string& name, std::size_t i) {
    return (start.at(name).at(i) - (of ? theirs : mine).at(name).at(i)) / kProbeRate;
  });
}

Result<Finding> compareGradients(const Reference& one, const plan::Plan& plan,
                                 const Experiment& experiment, const std::atomic<bool>& stop) {
  const Tensors& start = one.played.start;
  double jump = 0;  // the greatest
  for (std::size_t batch = 0;; ++batch) {
    LOCKSTEP_ASSIGN(const Tensors mine,
                    probe(plan, experiment, experiment.probes, kProbeRate, static_cast<int>(batch), stop));
    Finding found = gradientsApart(start, mine, one.stepped[batch], limitsOf(plan).gradients);
    const bool last = batch + 1 == one.stepped.size();
    if (const double reordered = limitsOf(plan).reorderings * one.gradientReordering;
        !found.holds && last && reordered > found.limit) {
      found.limit = reordered;
      found.holds = found.difference <= found.limit;
    }
    if (found.holds || last) {
      if (batch > 0) found.where += fmt::format(" in batch {}, after jumps of {:.0e}", batch + 1, jump);
      return found;
    }
    jump = std::max(jump, found.difference);
  }
}

// Losses, and of fp64 what is left after the last step.
void compareEnds(const Played& mine, const Played& theirs, double reordering, const Limits& limits,
                 std::vector<Finding>& out) {
  std::size_t at = 0;
  Finding losses{"losses", worstRelative(mine.losses, theirs.losses, &at),
                 std::max(limits.losses, limits.exact ? 0 : reordering), "", false};
  losses.where = stepText(at);
  losses.holds = losses.difference <= losses.limit;
  out.push_back(std::move(losses));
  if (!limits.exact) return;
  out.push_back(compareTensors("weights at the end", mine.end, theirs.end, 1e-9,
                               [&](bool of, const std::string& name, std::size_t i) {
                                 return (of ? theirs : mine).end.at(name).at(i);
                               }));
  Finding evaluation{"evaluation", worstRelative({mine.evaluation}, {theirs.evaluation}), 1e-9, "",
                     false};
  evaluation.holds = evaluation.difference <= evaluation.limit;
  out.push_back(std::move(evaluation));
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

KeptBatches::KeptBatches(const data::Dataset& from, const Options& options)
    : fields_(from.fields()), bytes_(fields_.size()),
      size_(options.batch * options.steps - (options.steps > 1 ? options.batch / 2 : 0)) {
  data::Loader::Options load;
  load.globalBatch = load.end = options.batch;
  load.seed = options.seed;
  load.shuffle = options.shuffle;
  load.augment = options.augment;
  load.lastStep = options.steps;
  data::Loader loader(from, load);
  while (const data::Batch* batch = loader.next())
    for (std::size_t f = 0; f < fields_.size(); ++f)
      bytes_[f].insert(bytes_[f].end(), batch->fields[f].begin(), batch->fields[f].end());
}

void KeptBatches::read(std::int64_t index, std::size_t field, std::byte* out) const {
  const auto bytes = static_cast<std::size_t>(fields_[field].bytes());
  std::memcpy(out, bytes_[field].data() + static_cast<std::size_t>(index) * bytes, bytes);
}

Result<Played> play(const PlanPair& plans, const Experiment& experiment,
                    const std::atomic<bool>& stop) {
  Played out;
  LOCKSTEP_ASSIGN(out.start, probe(plans.probe, experiment, experiment.probes, 0, 0, stop));
  LOCKSTEP_ASSIGN(Training trained, trainOnce(plans.train, experiment, experiment.batches,
                                              experiment.schedule, experiment.steps, true, stop));
  out.end = std::move(trained.tensors);
  out.losses = std::move(trained.losses);
  out.evaluation = trained.summary.evalLoss;
  out.differing = std::move(trained.differing);
  out.weightsSha256 = trained.summary.weightsSha256;
  return out;
}

Result<Reference> playReference(const PlanPair& plans, std::span<const plan::Plan> reordered,
                                std::int64_t permuteWithin, const Experiment& experiment,
                                const std::atomic<bool>& stop) {
  Reference out;
  LOCKSTEP_ASSIGN(out.played, play(plans, experiment, stop));
  for (int batch = 0; batch < experiment.probeCount; ++batch) {
    LOCKSTEP_ASSIGN(Tensors stepped, probe(plans.probe, experiment, experiment.probes, kProbeRate, batch, stop));
    out.stepped.push_back(std::move(stepped));
  }
  const std::int64_t block = permuteWithin * plans.probe.globalBatch / plans.train.globalBatch;
  for (int way = 0; way < kWays && block > 1 && limitsOf(plans.probe).reorderings > 0; ++way) {
    LOCKSTEP_ASSIGN(const Tensors other,
                    probe(plans.probe, experiment, Permuted(experiment.probes, plans.probe.globalBatch, block, way),
                          kProbeRate, experiment.probeCount - 1, stop));
    const Finding apart = gradientsApart(out.played.start, other, out.stepped.back(), 0);
    out.gradientReordering = std::max(out.gradientReordering, apart.difference);
  }
  const auto reorder = [&](const plan::Plan& plan, const data::Dataset& batches) -> Status {
    LOCKSTEP_ASSIGN(const Training other, trainOnce(plan, experiment, batches, experiment.schedule,
                                                    experiment.steps, false, stop));
    out.reordering = std::max(out.reordering, worstRelative(other.losses, out.played.losses));
    return {};
  };
  for (const plan::Plan& plan : reordered) LOCKSTEP_TRY(reorder(plan, experiment.batches));
  if (permuteWithin > 1)
    for (int way = 0; way < kWays; ++way)
      LOCKSTEP_TRY(reorder(plans.train, Permuted(experiment.batches, plans.train.globalBatch,
                                                 permuteWithin, way)));
  return out;
}

Result<std::vector<std::pair<std::string, double>>> gradientLengths(const plan::Plan& plan,
                                                                    const data::Dataset& batch,
                                                                    std::string_view backend,
                                                                    const backends::BackendOptions& options) {
  const std::atomic<bool> stop{false};
  const Experiment experiment{.batches = batch, .steps = 1, .probes = batch,
                              .schedule = {}, .backend = std::string(backend), .backendOptions = options};
  Schedule rate;
  rate.peak = kProbeRate;
  LOCKSTEP_ASSIGN(const Training trained, trainOnce(plan, experiment, batch, rate, 1, true, stop));
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
  LOCKSTEP_ASSIGN(const Played mine, play(several, experiment, stop));
  const Played& theirs = one.played;
  std::vector<Finding> out;
  Finding start = compareTensors("initial weights", mine.start, theirs.start, 0,
                                 [&](bool of, const std::string& name, std::size_t i) {
                                   return (of ? theirs : mine).start.at(name).at(i);
                                 });
  if (start.holds) start.where.clear();
  out.push_back(std::move(start));
  if (experiment.equal) {
    LOCKSTEP_ASSIGN(Finding gradients, compareGradients(one, several.probe, experiment, stop));
    out.push_back(std::move(gradients));
    compareEnds(mine, theirs, one.reordering, limitsOf(several.train), out);
  } else {
    const double worse = (mine.evaluation - theirs.evaluation) / std::abs(theirs.evaluation);
    out.push_back({"quality", std::isnan(worse) ? INFINITY : std::max(0.0, worse), 0.1,
                   fmt::format("loss {:.4g}, one rank's {:.4g}", mine.evaluation, theirs.evaluation),
                   worse <= 0.1});
  }
  if (several.train.mesh.workers() > 1 && experiment.fixedOrder)
    out.push_back({"all ranks", mine.differing.empty() ? 0.0 : INFINITY, 0, mine.differing,
                   mine.differing.empty()});
  if (!experiment.fixedOrder) return Verified{std::move(out), mine.losses};
  LOCKSTEP_ASSIGN(const Training again, trainOnce(several.train, experiment, experiment.batches,
                                                  experiment.schedule, experiment.steps, false, stop));
  std::size_t at = 0;
  Finding bits{"two plays", worstRelative(again.losses, mine.losses, &at), 0, "", false};
  bits.holds = bits.difference == 0 && again.summary.weightsSha256 == mine.weightsSha256;
  if (!bits.holds) bits.where = bits.difference > 0 ? stepText(at) : "weights at the end";
  out.push_back(std::move(bits));
  return Verified{std::move(out), mine.losses};
}

}  // namespace lockstep::runtime
