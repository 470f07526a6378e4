// Preview: the plan of a spec on a cluster, its predicted step time and memory, and the placement,
// before anything runs. Takes milliseconds. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/runs/energy.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/plan/plan.h"
#include "engine/plan/traffic.h"
#include "engine/planner/planner.h"

namespace lockstep::spec::v1 {
class RunSpec;
class ClusterSpec;
}  // namespace lockstep::spec::v1

namespace lockstep::app {

struct HostFacts {  // of a node, from its agent's inventory
  std::string node;
  std::string host;  // boot id: nodes with one boot id are one host
  int cores = 1;
  std::int64_t memoryAvailable = 0;          // bytes; 0 unknown
  std::vector<std::int64_t> gpuMemory = {};  // bytes, by number; none: unknown
};

// The checkpoint folder on each node of a cluster.
struct CheckpointFolders {
  std::string first;                          // on the first node, and the default
  std::map<std::string, std::string> ofNode;  // by name
  bool empty() const { return first.empty(); }
  const std::string& on(const std::string& node) const {
    const auto found = ofNode.find(node);
    return found == ofNode.end() ? first : found->second;
  }
};

struct LaunchRequest {
  std::shared_ptr<const spec::v1::RunSpec> spec;  // complete (loadRunSpec)
  std::shared_ptr<const spec::v1::ClusterSpec> cluster;
  std::string specYaml, clusterYaml;  // as written, kept in the history
  std::string comm;                   // forced; "": as the cluster says
  bool measure = true;                // calibrate the prediction on the nodes
  std::int64_t eventsEvery = 50;      // full events of every n-th step; 0: none
  CheckpointFolders resumeFrom;       // empty: start from the beginning
  std::string resumedRun;
  Message chosen;  // what strategy.kind auto chose, and why; empty: the spec names the strategy
};

struct RankPreview {
  int rank = 0;
  std::string node, device;  // "cpu 0"
  int threads = 1;
  std::int64_t samples = 0;  // of the global batch; none of a server's
  bool isServer() const { return samples == 0; }
  bool inHostMemory() const { return device.starts_with("cpu"); }
  std::int64_t parameterBytes = 0, optimizerBytes = 0, gradientBytes = 0, activationBytes = 0,
               workspaceBytes = 0;
  std::int64_t totalBytes() const;
  double data = 0, forward = 0, backward = 0, waiting = 0, transfer = 0, optimizer = 0;  // s a step
  double hidden = 0;  // overlapped transfers; not counted above
};

// The evaluator node, which evaluates after each epoch in place of the ranks.
struct EvaluatorPreview {
  std::string node;
  std::int64_t totalBytes = 0;
  std::string planText;
};

struct Preview {
  plan::Plan plan;
  // Of a program of the user's own nothing but the placement is known.
  bool ofProgram() const;
  std::string planText, planHash;
  cluster::Cluster cluster;
  planner::CostModel cost;
  PowerAndPrices power;
  planner::Simulation simulation;  // of some steps, with events
  // "gloo", or "nccl" if requested
  std::string comm;
  double stepSeconds = 0;
  double samplesPerSecond = 0;
  bool measured = false;              // cost model from the nodes, else the built-in one
  std::optional<Error> unmeasured;    // why it is not, where the nodes were asked
  planner::EncodedGradients encoded;  // of a rank
  plan::ServedTables tables;          // of the first worker
  std::vector<RankPreview> ranks;
  std::optional<EvaluatorPreview> evaluator;
  std::vector<std::string> spares;  // spare nodes
  std::vector<Message> remarks;     // what a person should know: uneven shares, shared cores
  // kResourceExhausted if devices or hosts lack memory for their ranks, with remedies that were
  // planned and fit; none if all fit or their memory is unknown. All other members are valid either
  // way.
  std::optional<Error> misfit;
};

// Returns the memory in bytes of each GPU named by an inventory: "NVIDIA H200, 143771 MiB". 0:
// unknown.
std::vector<std::int64_t> gpuMemory(const std::vector<std::string>& gpus);
int usableCores();  // of this machine, for this process
// Returns the hosts known without a connection: local nodes of the cluster share this machine.
std::vector<HostFacts> hostsHere(const spec::v1::ClusterSpec& cluster);

// `trace`, if not null, receives the passes that made the plan. Without `events`, of which a large
// plan has gigabytes, the simulation has none. Errors: kInvalidArgument, with `field` if one is at
// fault.
Result<Preview> makePreview(const LaunchRequest& request, const std::vector<HostFacts>& hosts,
                            const planner::CostModel* measured = nullptr,
                            passes::PassTrace* trace = nullptr, bool events = true);
// For a search among many plans: figures alone. The plan has no text and no hash, the simulation
// no events; there are no remarks, and no remedies of a misfit.
Result<Preview> makeBriefPreview(const LaunchRequest& request, const std::vector<HostFacts>& hosts,
                                 const planner::CostModel* measured = nullptr);
// Simulates the plan again, in other circumstances.
void simulate(Preview& preview, const planner::SimulateOptions& options);
// Returns the seconds of a step that the ranks which compute spend, their mean.
RankPreview meanOfWorkers(const Preview& preview);
// Returns the part of a step that they wait for each other, their mean.
double bubbleShare(const Preview& preview);
// Returns by rank the first rank that writes checkpoints to the same folder: those of a node to its
// folder of the run, or all of them to one on common storage.
std::vector<int> checkpointFolders(const cluster::Cluster& cluster, bool isShared);
// Returns the bytes that rank 0 sends and receives per training step.
std::int64_t wireBytes(const plan::Plan& plan);
// Returns the bytes that the busiest link between two nodes carries per training step, both ways.
// 0: nothing goes between nodes, or there are more ranks, whose pairs are too many.
inline constexpr int kMostLinkedRanks = 256;
std::int64_t linkBytes(const Preview& preview);
std::int64_t peakMemory(const Preview& preview);  // of the rank that needs most
// Returns how long a collective waits for a rank that makes no progress.
Nanoseconds collectiveLimit(const Preview& preview);
// Returns the prediction as JSON, stored with the run: step_seconds, samples_per_second, measured,
// comm, ranks[…].
std::string predictionJson(const Preview& preview);
// Parses predictionJson's result. Plan and simulation stay empty; cluster and cost have only what a
// simulation of the plan needs.
Result<Preview> parsePrediction(const std::string& json);
// Returns the preview as text: whether it fits, ranks, shares, memory, predicted breakdown.
std::string previewText(const Preview& preview);

}  // namespace lockstep::app
