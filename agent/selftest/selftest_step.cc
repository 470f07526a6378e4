#include <atomic>

#include "agent/selftest/selftest.h"
#include "engine/base/random.h"
#include "engine/data/dataset.h"
#include "engine/models/model.h"
#include "engine/planner/planner.h"
#include "engine/runtime/kept_batches.h"
#include "engine/runtime/verify.h"

namespace lockstep::agent {
namespace {

constexpr std::int64_t kTokens = 16, kVocabulary = 40, kBatch = 8, kSteps = 3;

// Sequences in which each token follows from the one before, mostly.
class MadeUpText final : public data::Dataset {
 public:
  std::int64_t size() const override { return kBatch * kSteps; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    const auto key = static_cast<std::uint64_t>(index);
    auto* ids = reinterpret_cast<std::int32_t*>(out);
    std::uint64_t token = randomBits(key, 99) % kVocabulary;
    for (std::int64_t t = 0; t <= kTokens; ++t) {
      if (t >= static_cast<std::int64_t>(field) && t - static_cast<std::int64_t>(field) < kTokens)
        ids[t - static_cast<std::int64_t>(field)] = static_cast<std::int32_t>(token);
      token = (3 * token + 1 + (randomBits(key, static_cast<std::uint64_t>(t)) % 5 == 0 ? 1 : 0)) %
              kVocabulary;
    }
  }

 private:
  std::vector<data::Field> fields_{{"x", DType::kI32, {kTokens}},
                                   {"label", DType::kI32, {kTokens}}};
};

models::Model smallGpt() {
  using Kind = models::Layer::Kind;
  models::Model model;
  model.name = "self-test";
  model.input = {kTokens};
  model.vocabulary = model.classes = kVocabulary;
  const auto add = [&](Kind kind, std::string name) -> models::Layer& {
    models::Layer layer;
    layer.kind = kind;
    layer.name = std::move(name);
    model.layers.push_back(std::move(layer));
    return model.layers.back();
  };
  add(Kind::kEmbedding, "embedding").units = 32;
  for (const char* name : {"block1", "block2"}) add(Kind::kTransformer, name).heads = 4;
  add(Kind::kLayerNorm, "norm");
  models::Layer& head = add(Kind::kDense, "head");
  head.units = kVocabulary;
  head.tied = "embedding";
  return model;
}

Result<plan::Plan> planOf(const models::Model& model, int ranks, bool probe) {
  planner::PlanRequest request;
  LOCKSTEP_ASSIGN(request.step, models::build(model, kBatch, DType::kF32, models::Use::kTraining));
  LOCKSTEP_ASSIGN(request.evaluate,
                  models::build(model, kBatch, DType::kF32, models::Use::kEvaluation));
  request.strategy = "mirrored";
  request.training.seed = 1;
  request.training.optimizer.kind = probe ? "sgd" : "adam";
  if (!probe) request.training.optimizer.clipNorm = 1;
  cluster::Cluster cluster;
  cluster.hosts = {{"here", ranks}};
  for (int i = 0; i < ranks; ++i) cluster.devices.push_back({"node", "here", "cpu", i, 1});
  cluster.mesh = cluster::Mesh({{"data", ranks}});
  cluster.link.kind = "in-process";
  return planner::makePlan(request, cluster, {});
}

}  // namespace

StepFinding testTwoRanks(
    const std::function<Result<std::unique_ptr<backends::Backend>>(int rank)>& open) {
  StepFinding out;
  const auto verified = [&]() -> Result<runtime::Verified> {
    const models::Model model = smallGpt();
    LOCKSTEP_ASSIGN(const plan::Plan one, planOf(model, 1, false));
    LOCKSTEP_ASSIGN(const plan::Plan oneProbe, planOf(model, 1, true));
    LOCKSTEP_ASSIGN(const plan::Plan two, planOf(model, 2, false));
    LOCKSTEP_ASSIGN(const plan::Plan twoProbe, planOf(model, 2, true));
    const MadeUpText text;
    const auto kept = [&](std::int64_t steps) {
      return runtime::KeptBatches::make(
          text, {.batch = kBatch, .steps = steps, .seed = 1, .shuffle = false, .augment = {}});
    };
    LOCKSTEP_ASSIGN(const runtime::KeptBatches batches, kept(kSteps));
    LOCKSTEP_ASSIGN(const runtime::KeptBatches probes, kept(runtime::kUpdateSteps));
    runtime::Experiment experiment{.batches = batches,
                                   .steps = kSteps,
                                   .probes = probes,
                                   .schedule = {},
                                   .backendOptions = {}};
    experiment.openBackend = open;
    const std::atomic<bool> stop{false};
    LOCKSTEP_ASSIGN(const runtime::Reference reference,
                    runtime::runReference({oneProbe, one}, experiment, stop));
    return runtime::verifyAgainst(reference, {twoProbe, two}, experiment, stop);
  }();
  if (!verified.ok()) {
    out.why = verified.error().text();
    return out;
  }
  for (const runtime::Finding& finding : verified->findings) {
    out.checks.push_back({finding.check, finding.difference, finding.limit, finding.holds});
    if (!finding.holds && out.why.empty())
      out.why = fmt::format("{} differ: {}", finding.check, finding.where);
  }
  return out;
}

}  // namespace lockstep::agent
