#include "engine/runtime/verify_runs.h"

#include "engine/comm/memory_store.h"

namespace lockstep::runtime {
namespace {

constexpr Nanoseconds kPeerLimit = 120'000'000'000;

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

}  // namespace

Result<TrainedOnce> trainOnce(const plan::Plan& plan, const Experiment& experiment,
                              const data::Dataset& batches, const Schedule& schedule,
                              std::int64_t steps, bool keepTensors, const std::atomic<bool>& stop,
                              NonFinite nonFinite) {
  TrainedOnce out;
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
  auto openBackend = experiment.openBackend;
  if (experiment.wrapBackend)
    openBackend = [&experiment](int rank) -> Result<std::unique_ptr<backends::Backend>> {
      LOCKSTEP_ASSIGN(std::unique_ptr<backends::Backend> backend,
                      experiment.openBackend
                          ? experiment.openBackend(rank)
                          : backends::makeBackend(experiment.backend, experiment.backendOptions));
      return experiment.wrapBackend(rank, std::move(backend));
    };
  LOCKSTEP_ASSIGN(LocalGroups groups, LocalGroups::make(plan.mesh, kPeerLimit));
  std::vector<std::unique_ptr<Collect>> observers;
  for (int rank = 0; rank < plan.mesh.size(); ++rank)
    observers.push_back(std::make_unique<Collect>(steps));
  comm::MemoryStore store;
  auto ranks = trainLocally(
      {plan, options, batches, evaluate, experiment.backend, experiment.backendOptions, openBackend,
       !plan.isAsynchronous() ? &store : nullptr},
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

Result<Tensors> probe(const plan::Plan& plan, const Experiment& experiment, double rate, int batch,
                      std::int64_t steps, const std::atomic<bool>& stop) {
  Schedule constant;
  constant.peak = rate;
  LOCKSTEP_ASSIGN(
      TrainedOnce probed,
      trainOnce(plan, experiment, SomeBatches(experiment.probes, plan.globalBatch, batch, steps),
                // the rate is no one's to train with
                constant, steps, true, stop, NonFinite::kTaken));
  if (probed.skipped > 0) {
    Error error = makeError(Code::kInvalidArgument,
                            "gradients overflow, so the step is skipped and shows none");
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

}  // namespace lockstep::runtime
