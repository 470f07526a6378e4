#include <nlohmann/json.hpp>
#include <random>

#include "app/cluster/scheduler.h"
#include "app/kubernetes/kubectl.h"
#include "app/kubernetes/manifest.h"
#include "app/ssh/this_machine.h"
#include "engine/specs/placement.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

// Nobody counts jobs: a name that is taken is refused, and nothing is created then.
std::int64_t anyJob() {
  std::random_device device;
  return std::uniform_int_distribution<std::int64_t>(100'000'000, 999'999'999)(device);
}

class KubernetesScheduler final : public Scheduler {
 public:
  explicit KubernetesScheduler(const spec::v1::ClusterSpec& cluster)
      : cluster_(cluster), kubectl_(here_, cluster.placement()) {}

  Status connect(std::stop_token stop) override { return here_.connect(std::move(stop)); }
  void awaitLink(std::stop_token) override {}
  void close() override { here_.close(); }

  Result<std::int64_t> submit(const std::string& name, const std::function<void(Message)>& doing,
                              std::stop_token stop) override {
    doing(message("submitting the job"));
    if (stop.stop_requested()) return makeError(Code::kCancelled, "the allocation was cancelled");
    const std::int64_t job = anyJob();
    LOCKSTEP_TRY(kubectl_.create(job, name, {}));
    return job;
  }

  Result<JobState> job(std::int64_t job, std::stop_token stop) override {
    LOCKSTEP_ASSIGN(KubernetesJob state, kubectl_.job(job, std::move(stop)));
    return JobState(std::move(state));
  }
  std::optional<int> position(std::int64_t, std::stop_token) override { return std::nullopt; }
  std::string lastOutput(std::int64_t job, std::stop_token stop) override {
    const auto state = kubectl_.job(job, stop);
    if (!state.ok()) return {};
    for (const Pod& pod : state->pods)
      if (pod.phase == "Failed") return kubectl_.log(pod.name, stop);
    return {};
  }

  Status addNodes(std::int64_t job, const JobState&, spec::v1::ClusterSpec& cluster,
                  std::stop_token stop) override {
    LOCKSTEP_ASSIGN(const KubernetesJob state, kubectl_.job(job, std::move(stop)));
    spec::v1::PlacementSpec& placement = *cluster.mutable_placement();
    if (state.phase != JobState::Phase::kRunning)
      return makeError(Code::kUnavailable, "{} job {} is not running",
                       specs::schedulerName(placement), job);
    placement.set_job(job);
    for (const Pod& pod : state.pods) {
      spec::v1::NodeSpec& added = *cluster.add_nodes();
      added.set_name(pod.name);
      added.set_address(pod.address);
      added.set_workdir(podFolder(placement, job, pod.index));
      *added.mutable_devices() = specs::placedDevices(placement, placement.cpus_per_task());
    }
    return {};
  }

  Status cancel(std::int64_t job, std::stop_token stop) override {
    return kubectl_.remove(job, std::move(stop));
  }
  bool stoppedRuns(std::int64_t job, std::stop_token stop) override {
    const auto state = kubectl_.job(job, std::move(stop));
    return state.ok() && state->stopped;
  }

  bool queuesJobsAgain() const override { return false; }
  Message howToCancel(std::int64_t job) const override { return kubectl_.howToRemove(job); }
  std::string place() const override { return {}; }

 private:
  const spec::v1::ClusterSpec& cluster_;
  ThisMachine here_{""};
  Kubectl kubectl_;
};

}  // namespace

std::unique_ptr<Scheduler> kubernetesScheduler(const spec::v1::ClusterSpec& cluster) {
  return std::make_unique<KubernetesScheduler>(cluster);
}

std::string kubernetesManifest(const spec::v1::ClusterSpec& cluster) {
  using nlohmann::json;
  const json list{{"apiVersion", "v1"},
                  {"kind", "List"},
                  {"items", json::array({jobManifest(cluster.placement(), 0, cluster.name()),
                                         serviceManifest(0, "")})}};
  return list.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::app
