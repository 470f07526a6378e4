#include "app/runs/allocated_launch.h"

#include "app/history/history.h"
#include "app/kubernetes/manifest.h"
#include "app/runs/relaunch.h"
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

std::optional<LaunchRequest> continuationOf(const LaunchRequest& ran, const std::string& run,
                                            const JobOutlook& job,
                                            const std::string& historyFolder) {
  if (!mayBeQueuedAgain(*ran.cluster)) return {};
  if (!job.stoppedRuns && !job.willRestart) return {};
  LaunchRequest next = ran;
  next.resumedRun = run;
  if (ran.spec->has_workload()) return next;
  const auto checkpoints = [&]() -> Result<CheckpointFolders> {
    LOCKSTEP_ASSIGN(const auto history, History::open(historyFolder));
    LOCKSTEP_ASSIGN(const RunDocuments documents, history->documents(run));
    return checkpointFoldersOf(run, documents);
  }();
  if (!checkpoints.ok()) return {};
  next.resumeFrom = *checkpoints;
  return next;
}

}  // namespace lockstep::app
