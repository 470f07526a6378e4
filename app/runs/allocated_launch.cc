#include "app/runs/allocated_launch.h"

#include "app/kubernetes/manifest.h"
#include "app/specs/spec_text.h"
#include "engine/specs/placement.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {

LaunchRequest onAllocated(LaunchRequest request,
                          std::shared_ptr<const spec::v1::ClusterSpec> cluster) {
  request.cluster = std::move(cluster);
  request.clusterYaml = toYaml(*request.cluster);
  if (request.spec->has_workload() || !request.spec->training().checkpoint().path().empty())
    return request;
  const auto& placement = request.cluster->placement();
  const std::string folder =
      specs::isKubernetes(placement)
          ? podCheckpoints(placement, placement.job())
          : fmt::format("{}/slurm/{}/checkpoints", placement.workdir(), placement.job());
  if (folder.empty()) return request;
  auto spec = std::make_shared<spec::v1::RunSpec>(*request.spec);
  spec->mutable_training()->mutable_checkpoint()->set_path(folder);
  request.spec = std::move(spec);
  return request;
}

bool awaitsAllocation(const LaunchRequest& request) {
  return specs::awaitsAllocation(*request.cluster);
}

Status checkRequeue(const LaunchRequest& request) {
  if (!request.cluster->placement().requeue()) return {};
  Error error = makeError(Code::kFailedPrecondition,
                          "the studio does not continue a run in another job of {}",
                          specs::schedulerName(request.cluster->placement()));
  error.next = "leave placement.requeue out, or launch with `lockstep run`";
  return error;
}

}  // namespace lockstep::app
