#include "app/runs/verification.h"

#include <algorithm>
#include <numeric>

#include "app/runs/preview.h"
#include "engine/cluster/strategies.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using spec::v1::ClusterSpec;
using spec::v1::RunSpec;

Result<std::string> planText(const RunSpec& spec, const ClusterSpec& cluster) {
  LaunchRequest request;
  request.spec = std::make_shared<RunSpec>(spec);
  request.cluster = std::make_shared<ClusterSpec>(cluster);
  LOCKSTEP_ASSIGN(Preview preview, makePreview(request, {}));
  return std::move(preview.planText);
}

ClusterSpec oneRank() {
  ClusterSpec out;
  out.set_version(1);
  out.set_name("one");
  auto* node = out.add_nodes();
  node->set_name("one");
  node->add_devices()->set_kind("cpu");
  return out;
}

// The same training on one rank.
RunSpec alone(const RunSpec& spec) {
  RunSpec out = spec;
  out.clear_strategy();
  specs::fillDefaults(*out.mutable_strategy());
  return out;
}

void setBatch(RunSpec& spec, std::int64_t batch) {
  spec.mutable_training()->set_batch(batch);
  spec.mutable_training()->set_evaluate_batch(batch);
}

// The plan of `spec`, which has fewer samples than `batch` where these can be planned, else as
// many.
Result<std::string> planOfFewer(RunSpec& spec, std::int64_t batch, const ClusterSpec& cluster) {
  Result<std::string> out = planText(spec, cluster);
  if (out.ok() || spec.training().batch() == batch) return out;
  setBatch(spec, batch);
  return planText(spec, cluster);
}

constexpr double kProbeLossScale = 256;  // at most

// Few samples have seldom one that makes a gradient jump.
RunSpec probe(const RunSpec& spec, int dataRanks) {
  RunSpec out = spec;
  setBatch(out, specs::smallBatch(spec, dataRanks));
  auto& training = *out.mutable_training();
  training.clear_optimizer();
  training.mutable_optimizer()->set_kind("sgd");
  training.mutable_optimizer()->set_learning_rate(1);
  if (training.has_loss_scale())  // its one step is to update
    training.mutable_loss_scale()->set_initial(
        std::min(training.loss_scale().initial(), kProbeLossScale));
  return out;
}

// A whole training of so many steps, with the rate for its batch instead of one of `batch` samples:
// while the rate is high, how good a model is changes from step to step.
void shorten(spec::v1::TrainingSpec& training, std::int64_t batch, std::int64_t steps) {
  if (auto& optimizer = *training.mutable_optimizer();
      optimizer.kind() == "sgd" && optimizer.for_batch() == 0)
    optimizer.set_for_batch(batch);
  auto& schedule = *training.mutable_schedule();
  const std::int64_t before =
      schedule.kind() == "cosine" || schedule.kind() == "linear" ? schedule.steps() : 0;
  if (before <= steps) return;
  schedule.set_warmup_steps(schedule.warmup_steps() * steps / before);
  schedule.set_steps(steps);
}

}  // namespace

std::string unequalByDesign(const RunSpec& spec) {
  if (const auto* kind = cluster::findStrategy(spec.strategy().kind());
      kind != nullptr && kind->local)
    return "ranks update by themselves between averages";
  if (const std::string& kind = spec.strategy().compression(); !kind.empty() && kind != "none")
    return "gradients travel as " + kind;
  if (spec.strategy().staleness() != 0) return "workers use parameters of earlier steps";
  return {};
}

Result<VerifyCase> verifyCase(const RunSpec& given, const ClusterSpec& cluster, Precision precision,
                              std::int64_t steps) {
  LOCKSTEP_ASSIGN(const cluster::Cluster ranks, specs::toCluster(cluster, {}, given.strategy()));
  const cluster::Mesh& mesh = ranks.mesh;
  VerifyCase out;
  RunSpec spec = given;
  if (precision != Precision::kSingle) {
    specs::SmallRun small = specs::smallVariant(given, mesh.axisSize(cluster::kDataAxis),
                                                mesh.axisSize(cluster::kModelAxis));
    spec = std::move(small.spec);
    out.changes = std::move(small.changes);
  }
  const bool isDouble = precision == Precision::kSmallDouble;
  if (isDouble) {
    spec.mutable_training()->set_precision("fp64");
    spec.mutable_training()->clear_loss_scale();
    spec.mutable_training()->set_backend("reference");
  } else {
    if (spec.training().precision() == "fp64") spec.mutable_training()->set_precision("fp32");
    if (spec.training().backend() != "reference" && spec.training().backend() != "cuda")
      spec.mutable_training()->set_backend("onednn");
  }
  setBatch(spec, spec.training().batch());
  const std::int64_t batch = given.training().batch(), fewer = spec.training().batch();
  auto request = std::make_shared<node::v1::VerifyRequest>();
  LOCKSTEP_ASSIGN(*request->mutable_several(), planOfFewer(spec, batch, cluster));
  if (spec.training().batch() != fewer)
    std::erase_if(out.changes,
                  [](const std::string& change) { return change.starts_with("batch "); });
  *request->mutable_spec() = spec;
  const bool unequal = !unequalByDesign(spec).empty();
  request->set_steps(steps > 0 ? steps : unequal ? kQualitySteps : kEqualSteps);
  request->set_unequal(unequal);
  if (unequal)
    shorten(*request->mutable_spec()->mutable_training(), given.training().batch(),
            request->steps());
  request->set_any_order(spec.strategy().staleness() != 0);
  const ClusterSpec one = oneRank();
  RunSpec probing = probe(spec, mesh.axisSize("data"));
  LOCKSTEP_ASSIGN(*request->mutable_several_probe(),
                  planOfFewer(probing, spec.training().batch(), cluster));
  LOCKSTEP_ASSIGN(*request->mutable_one(), planText(alone(spec), one));
  LOCKSTEP_ASSIGN(*request->mutable_one_probe(), planText(alone(probing), one));
  out.request = std::move(request);
  return out;
}

}  // namespace lockstep::app
