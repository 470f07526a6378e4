#include "app/kubernetes/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/specs/placement.h"
#include "lockstep/spec/v1/cluster.pb.h"

namespace lockstep::app {
namespace {

using nlohmann::json;
using spec::v1::PlacementSpec;

constexpr const char* kJobLabel = "lockstep-job";
constexpr const char* kVolcano = "volcano";
constexpr int kSecondsKept = 24 * 60 * 60;  // after the end of a job that nobody deletes

// The shell stays, as process 1, which inherits what others leave behind. SIGTERM goes to the agent
// alone: it stops the runs with a checkpoint. Such a pod ends as failed; else Kubernetes would take
// its part of the job as done.
constexpr const char* kStart = R"sh(
folder=$1/$JOB_COMPLETION_INDEX
agent= ended=
trap 'ended=143; if [ -n "$agent" ]; then kill -TERM "$agent"; else exit 143; fi' TERM
mkdir -p "$folder" || exit 1
left=600
until [ -x "$folder.agent/lockstep-agent" ]; do
  left=$((left - 1))
  [ $left -gt 0 ] || { echo "no agent of Lockstep was sent in ten minutes" >&2; exit 1; }
  sleep 1 & wait $!
done
"$folder.agent/lockstep-agent" serve --workdir "$folder" --batch "$folder.notice" --idle-exit 300 --allow-root &
agent=$!
while wait "$agent"; status=$?; kill -0 "$agent" 2>/dev/null; do :; done
exit ${ended:-$status}
)sh";

std::string jobFolder(const PlacementSpec& placement, std::int64_t job) {
  return fmt::format("{}/kubernetes/{}", podWorkdir(placement), job);
}

json labels(std::int64_t job) {
  return {{kJobLabel, std::to_string(job)}, {"app.kubernetes.io/managed-by", "lockstep"}};
}

// Volcano makes a group of the job's pods, and places it as a whole.
json annotations(const PlacementSpec& placement, const std::string& name) {
  json out{{"lockstep-run", name}};
  if (placement.scheduler() != kVolcano) return out;
  out["scheduling.volcano.sh/group-min-member"] = std::to_string(std::max(1, placement.nodes()));
  if (!placement.queue().empty()) out["scheduling.volcano.sh/queue-name"] = placement.queue();
  return out;
}

json resources(const PlacementSpec& placement) {
  json out = json::object();
  if (placement.cpus_per_task() > 0) out["cpu"] = std::to_string(placement.cpus_per_task());
  if (!placement.memory().empty()) out["memory"] = placement.memory();
  if (placement.gpus_per_node() > 0)
    out["nvidia.com/gpu"] = std::to_string(placement.gpus_per_node());
  return {{"limits", out}, {"requests", out}};
}

json container(const PlacementSpec& placement, std::int64_t job) {
  return {{"name", "lockstep"},
          {"image", placement.image()},
          {"command", {"/bin/sh", "-c", kStart + 1, "sh", jobFolder(placement, job)}},
          {"resources", resources(placement)},
          {"volumeMounts",
           {{{"name", "work"}, {"mountPath", podWorkdir(placement)}},
            {{"name", "shared-memory"}, {"mountPath", "/dev/shm"}}}}};
}

// Empty folders of a pod are of its node's disk; its /dev/shm would be of 64 MiB.
json volumes(const PlacementSpec& placement) {
  json work{{"name", "work"}};
  if (placement.volume_claim().empty())
    work["emptyDir"] = json::object();
  else
    work["persistentVolumeClaim"] = {{"claimName", placement.volume_claim()}};
  return json::array({work, {{"name", "shared-memory"}, {"emptyDir", {{"medium", "Memory"}}}}});
}

json podSpec(const PlacementSpec& placement, std::int64_t job) {
  json out{{"restartPolicy", "Never"},
           {"subdomain", kubernetesName(job)},
           {"enableServiceLinks", false},
           {"terminationGracePeriodSeconds",
            placement.notice_seconds() > 0 ? placement.notice_seconds() : 60},
           {"containers", json::array({container(placement, job)})},
           {"volumes", volumes(placement)}};
  if (!placement.scheduler().empty()) out["schedulerName"] = placement.scheduler();
  if (placement.service_account().empty())
    out["automountServiceAccountToken"] = false;
  else
    out["serviceAccountName"] = placement.service_account();
  for (const auto& [label, value] : placement.node_selector()) out["nodeSelector"][label] = value;
  return out;
}

}  // namespace

std::string kubernetesName(std::int64_t job) { return fmt::format("lockstep-{}", job); }
std::string kubernetesSelector(std::int64_t job) { return fmt::format("{}={}", kJobLabel, job); }

// A pod that fails does not end the others: the run decides how it goes on.
json jobManifest(const PlacementSpec& placement, std::int64_t job, const std::string& name) {
  const int pods = std::max(1, placement.nodes());
  const json metadata{{"labels", labels(job)}, {"annotations", annotations(placement, name)}};
  json spec{{"completionMode", "Indexed"},
            {"completions", pods},
            {"parallelism", pods},
            {"backoffLimitPerIndex", 0},
            {"ttlSecondsAfterFinished", kSecondsKept},
            {"template", {{"metadata", metadata}, {"spec", podSpec(placement, job)}}}};
  if (const auto seconds = specs::timeLimitSeconds(placement.time()); seconds && *seconds > 0)
    spec["activeDeadlineSeconds"] = *seconds;
  json out{{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"metadata", metadata}, {"spec", spec}};
  out["metadata"]["name"] = kubernetesName(job);
  if (!placement.queue().empty() && placement.scheduler() != kVolcano)
    out["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = placement.queue();
  return out;
}

json serviceManifest(std::int64_t job, const std::string& jobUid) {
  const std::string name = kubernetesName(job);
  json out{{"apiVersion", "v1"},
           {"kind", "Service"},
           {"metadata", {{"name", name}, {"labels", labels(job)}}},
           {"spec",
            {{"clusterIP", "None"},
             {"publishNotReadyAddresses", true},
             {"selector", {{kJobLabel, std::to_string(job)}}}}}};
  if (!jobUid.empty())
    out["metadata"]["ownerReferences"] = json::array(
        {{{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"name", name}, {"uid", jobUid}}});
  return out;
}

std::string podWorkdir(const PlacementSpec& placement) {
  return placement.workdir().empty() ? "/lockstep" : placement.workdir();
}
std::string podFolder(const PlacementSpec& placement, std::int64_t job, int index) {
  return fmt::format("{}/{}", jobFolder(placement, job), index);
}
std::string podCheckpoints(const PlacementSpec& placement, std::int64_t job) {
  return placement.volume_claim().empty() ? "" : jobFolder(placement, job) + "/checkpoints";
}

}  // namespace lockstep::app
