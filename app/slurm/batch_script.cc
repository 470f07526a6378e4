#include "app/slurm/batch_script.h"

#include <algorithm>

#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr int kIdleSeconds = 300;  // without a run or client, after which an agent leaves

// SIGURG goes to every process of the job's steps, and has no effect on those that do not expect
// it: the agents alone take it. SIGTERM would end ranks before their checkpoint. A node that is
// lost does not end the job: the run decides how it goes on.
constexpr const char* kBody = R"sh(
set -u
job=$PWD/$SLURM_JOB_ID
start=$job/${SLURM_RESTART_COUNT:-0}
mkdir -p "$start" && ln -sfn "../../versions/$version" "$job/agent" || exit 1
rm -f "$job/notice" "$job/notice.term"
srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 $cpus --no-kill --kill-on-bad-exit=0 \
  --wait=0 --mpi=none --export=ALL --input=none sh -c '
    if ! [ -x "$1/agent/lockstep-agent" ]; then
      echo "$SLURMD_NODENAME: $1/agent/lockstep-agent is not there: the nodes do not share this folder" >&2
      exit 1
    fi
    exec "$1/agent/lockstep-agent" serve --workdir "$2/$SLURMD_NODENAME" --batch "$1/notice" $3
  ' sh "$job" "$start" "--idle-exit $idle$root"
status=$?
)sh";

constexpr const char* kRequeue = R"sh(
# The runs have taken a checkpoint and stopped, since the time limit was near.
[ -e "$job/notice" ] && scontrol requeue "$SLURM_JOB_ID" && exit $status
)sh";

constexpr const char* kEnd = R"sh(
rm -f "$job/agent/leases/slurm-$SLURM_JOB_ID"
exit $status
)sh";

// Runs in a job have names of letters, digits, '-' and '_' alone: others are left out.
std::string jobName(const std::string& name) {
  std::string out = "lockstep";
  std::string own;
  for (const char c : name)
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
        c == '_')
      own += c;
  return own.empty() ? out : out + "-" + own.substr(0, 40);
}

}  // namespace

std::string batchScript(const spec::v1::PlacementSpec& placement, const BatchScriptFacts& facts) {
  std::string out =
      "#!/bin/sh\n# Starts an agent of Lockstep on each node of the job. Submitted "
      "with `sbatch` in WORKDIR/slurm.\n";
  const auto option = [&out](const std::string& text) { out += "#SBATCH " + text + "\n"; };
  const auto valued = [&](const char* name, const std::string& value) {
    if (!value.empty()) option(std::string(name) + "=" + value);
  };
  option("--job-name=" + jobName(facts.name));
  option("--nodes=" + std::to_string(std::max(1, placement.nodes())));
  option("--ntasks-per-node=1");
  valued("--partition", placement.partition());
  valued("--account", placement.account());
  valued("--qos", placement.qos());
  valued("--time", placement.time());
  if (placement.gpus_per_node() > 0)
    option("--gpus-per-node=" + std::to_string(placement.gpus_per_node()));
  if (placement.cpus_per_task() > 0)
    option("--cpus-per-task=" + std::to_string(placement.cpus_per_task()));
  option("--signal=URG@" +
         std::to_string(placement.notice_seconds() > 0 ? placement.notice_seconds() : 60));
  option(placement.requeue() ? "--requeue" : "--no-requeue");
  option("--no-kill");
  option("--open-mode=append");
  option("--output=job-%j.out");
  for (const std::string& extra : placement.extra()) option(extra);
  out += "version=" + facts.version + "\n";
  // srun does not take it from sbatch since Slurm 22.05
  out += "cpus=" +
         (placement.cpus_per_task() > 0
              ? "--cpus-per-task=" + std::to_string(placement.cpus_per_task())
              : std::string()) +
         "\n";
  out += "idle=" + std::to_string(kIdleSeconds) + "\n";
  out += std::string("root=") + (facts.allowRoot ? "' --allow-root'" : "") + "\n";
  out += kBody + 1;
  if (placement.requeue()) out += kRequeue + 1;
  return out + (kEnd + 1);
}

}  // namespace lockstep::app
