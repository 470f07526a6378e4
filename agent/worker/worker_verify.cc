#include "agent/worker/worker_verify.h"

#include <algorithm>

#include "agent/worker/prepare.h"
#include "agent/worker/worker_link.h"
#include "engine/base/hash.h"
#include "engine/device/module.h"
#include "engine/runtime/kept_batches.h"

namespace lockstep::agent {
namespace {

Result<plan::Plan> parsePlan(const std::string& text, const char* name) {
  LOCKSTEP_ASSIGN(plan::Plan plan, plan::parse(text, name));
  LOCKSTEP_TRY(plan::verify(plan));
  return plan;
}

constexpr int kGradientBatches = 8;  // kinks are in some, and not in others
constexpr std::int64_t kGradientBytes = std::int64_t{512} << 20;

bool hasKinks(const spec::v1::ModelSpec& spec) {
  const auto model = specs::toModel(spec);
  return model.ok() && std::any_of(model->layers.begin(), model->layers.end(), [](const auto& l) {
           return l.kind == models::Layer::Kind::kMaxPool2d || l.activation == "relu";
         });
}

std::string keyOf(const node::v1::VerifyRequest& request) {
  node::v1::VerifyRequest reference = request;
  reference.clear_several();
  reference.clear_several_probe();
  reference.clear_any_order();
  reference.mutable_spec()->clear_strategy();
  return sha256Hex(reference.SerializeAsString());
}

// Ranks on GPUs: each on another, as far as there are.
std::function<Result<std::unique_ptr<backends::Backend>>(int rank)> openers(
    const std::string& backend) {
  if (backend != "cuda") return nullptr;
  const int gpus = std::max(1, static_cast<int>(device::survey().devices.size()));
  return
      [backend, gpus](int rank) { return backends::makeBackend(backend, {.device = rank % gpus}); };
}

struct VerifiedPlans {
  plan::Plan one, oneProbe, several, severalProbe;
};

Result<VerifiedPlans> plansOf(const node::v1::VerifyRequest& request) {
  VerifiedPlans plans;
  LOCKSTEP_ASSIGN(plans.one, parsePlan(request.one(), "one"));
  LOCKSTEP_ASSIGN(plans.oneProbe, parsePlan(request.one_probe(), "one_probe"));
  LOCKSTEP_ASSIGN(plans.several, parsePlan(request.several(), "several"));
  LOCKSTEP_ASSIGN(plans.severalProbe, parsePlan(request.several_probe(), "several_probe"));
  for (const auto& [plan, batch] : {std::pair{&plans.one, request.spec().training().batch()},
                                    {&plans.several, request.spec().training().batch()},
                                    {&plans.severalProbe, plans.oneProbe.globalBatch}})
    if (plan->globalBatch != batch)
      return invalidArgument("a plan is for a batch of {}, expected {}", plan->globalBatch, batch);
  if (plans.several.mesh.size() > comm::kMaxSharedRanks ||
      plans.severalProbe.mesh.size() > comm::kMaxSharedRanks)
    return invalidArgument("{} ranks cannot be verified in one process; at most {} can",
                           std::max(plans.several.mesh.size(), plans.severalProbe.mesh.size()),
                           comm::kMaxSharedRanks);
  if (request.steps() < 1) return invalidArgument("{} steps verify nothing", request.steps());
  return plans;
}

// How many batches gradients are compared on: several where a small step can cross a kink of the
// model, as far as there is memory for one rank's gradients of all of them.
int probesOf(const node::v1::VerifyRequest& request, const plan::Plan& oneProbe) {
  if (request.spec().training().precision() == "fp64" || !hasKinks(request.spec().model()))
    return 1;
  const std::int64_t room =
      kGradientBytes / std::max<std::int64_t>(1, oneProbe.logicalStateBytes());
  return static_cast<int>(std::clamp<std::int64_t>(room, 1, kGradientBatches));
}

node::v1::VerifyReply replyOf(const runtime::Reference& reference,
                              const runtime::Verified& verified) {
  node::v1::VerifyReply reply;
  reply.set_rounding(reference.lossNoise);
  for (const double loss : verified.losses) reply.add_losses(loss);
  for (const runtime::Finding& finding : verified.findings) {
    auto* out = reply.add_findings();
    out->set_check(finding.check);
    out->set_difference(finding.difference);
    out->set_limit(finding.limit);
    out->set_where(finding.where);
    out->set_holds(finding.holds);
    out->set_undecided(finding.undecided);
  }
  return reply;
}

}  // namespace

Result<node::v1::VerifyReply> verifyPlans(const node::v1::VerifyRequest& request,
                                          std::map<std::string, runtime::Reference>* known,
                                          const WrapBackend& wrapSeveral) {
  const auto plans = plansOf(request);
  if (!plans.ok()) return plans.error();
  const auto& training = request.spec().training();
  node::v1::WorkerStart start;  // what data sets are opened by
  *start.mutable_spec() = request.spec();
  for (const auto& [name, path] : dataPaths(request.spec(), request.data_paths()))
    (*start.mutable_data_paths())[name] = path;
  LOCKSTEP_ASSIGN(const auto data, openData(start, true));
  const int probeCount = probesOf(request, plans->oneProbe);
  const auto kept = [&](std::int64_t batch, std::int64_t steps) {
    return runtime::KeptBatches::make(*data, {.batch = batch,
                                              .steps = steps,
                                              .seed = training.seed(),
                                              .shuffle = !training.no_shuffle(),
                                              .augment = augmentOf(request.spec().data())});
  };
  LOCKSTEP_ASSIGN(const runtime::KeptBatches batches, kept(training.batch(), request.steps()));
  // The last kept one is half a batch, and only updates read it.
  LOCKSTEP_ASSIGN(const runtime::KeptBatches probes,
                  kept(plans->oneProbe.globalBatch,
                       std::max<std::int64_t>(probeCount + 1, runtime::kUpdateSteps)));
  runtime::Experiment experiment{.batches = batches,
                                 .steps = request.steps(),
                                 .probes = probes,
                                 .probeCount = probeCount,
                                 .equal = !request.unequal(),
                                 .fixedOrder = !request.any_order(),
                                 .schedule = scheduleOf(training),
                                 .backend = training.backend(),
                                 .backendOptions = {},
                                 .openBackend = openers(training.backend()),
                                 .wrapBackend = nullptr};
  const std::atomic<bool> stop{false};
  std::map<std::string, runtime::Reference> here;
  if (known == nullptr) known = &here;
  const std::string key = keyOf(request);
  if (!known->contains(key)) {
    LOCKSTEP_ASSIGN(runtime::Reference reference,
                    runtime::runReference({plans->oneProbe, plans->one}, experiment, stop));
    known->emplace(key, std::move(reference));
  }
  const runtime::Reference& reference = known->at(key);
  experiment.wrapBackend = wrapSeveral;
  LOCKSTEP_ASSIGN(
      const runtime::Verified verified,
      runtime::verifyAgainst(reference, {plans->severalProbe, plans->several}, experiment, stop));

  return replyOf(reference, verified);
}

Status runVerify(const node::v1::WorkerStart& start, WorkerLink& link) {
  node::v1::FromWorker message;
  LOCKSTEP_ASSIGN(*message.mutable_verified(), verifyPlans(start.verify()));
  link.channel().send(message);
  return {};
}

}  // namespace lockstep::agent
