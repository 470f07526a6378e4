#include "app/kubernetes/pod_node.h"

#include <algorithm>

#include "lockstep/spec/v1/cluster.pb.h"

namespace lockstep::app {

PodNode::PodNode(std::unique_ptr<Host> host,
                 std::shared_ptr<const spec::v1::PlacementSpec> placement, std::string pod)
    : JobHost(std::move(host), podPrefix(*placement, pod), false),
      placement_(std::move(placement)),
      pod_(std::move(pod)) {}

// Other pods may have failed: this one counts, also while it is being ended.
Result<JobState> PodNode::look(std::stop_token stop) {
  using Phase = JobState::Phase;
  auto job = Kubectl(through(), *placement_).job(placement_->job(), std::move(stop));
  if (!job.ok()) {
    job.error().node = pod_;
    return job.error();
  }
  JobState out = *job;
  const auto pod = std::ranges::find(job->pods, pod_, &Pod::name);
  const bool gone = pod == job->pods.end() || pod->phase == "Failed" || pod->phase == "Succeeded";
  if (gone) {
    out.phase = Phase::kOver;
    if (pod != job->pods.end())
      out.state = pod->phase;
    else if (job->phase != Phase::kOver)
      out.state.clear();
  } else {
    out.phase = pod->phase == "Running" ? Phase::kRunning : Phase::kQueued;
    out.state = pod->phase;
  }
  setOver(gone);
  return out;
}

}  // namespace lockstep::app
