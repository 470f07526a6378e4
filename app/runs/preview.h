// Preview: what a spec would do on a cluster, before anything runs: the plan, its predicted step
// time and memory, and who does what. Pure and quick (milliseconds), on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/plan/plan.h"
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

struct LaunchRequest {
  std::shared_ptr<const spec::v1::RunSpec> spec;  // complete (loadRunSpec)
  std::shared_ptr<const spec::v1::ClusterSpec> cluster;
  std::string specYaml, clusterYaml;  // as written, kept in the history
  std::string comm;                   // forced; "": as the cluster says
  bool measure = true;                // calibrate the prediction on the nodes
  std::int64_t eventsEvery = 50;      // full events of every n-th step; 0: none
  std::string resumeFrom;             // folder on the nodes; "": from the start
  std::string resumedRun;
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
  double hidden = 0;  // of transfers, while it computes: in none of those
};

// The node of role evaluator, which evaluates after each epoch in place of the ranks.
struct EvaluatorPreview {
  std::string node;
  std::int64_t totalBytes = 0;
  std::string planText;
};

struct Preview {
  plan::Plan plan;
  std::string planText, planHash;
  cluster::Cluster cluster;
  planner::CostModel cost;
  planner::Simulation simulation;  // of some steps, with events
  // "gloo"; "nccl" where it was asked for: else of what GPUs cannot exchange
  std::string comm;
  double stepSeconds = 0;
  double samplesPerSecond = 0;
  bool measured = false;              // cost model from the nodes, else the built-in one
  planner::EncodedGradients encoded;  // of a rank
  planner::ServedTables tables;       // of the first worker
  std::vector<RankPreview> ranks;
  std::optional<EvaluatorPreview> evaluator;
  std::vector<std::string> remarks;  // what a person should know: uneven shares, shared cores
  // Why devices or hosts cannot hold what their ranks need, kResourceExhausted, with remedies that
  // were tried; none where all fit, or nothing is known of their memory. Everything else holds all
  // the same.
  std::optional<Error> misfit;
};

// Bytes of each, of what an inventory says: "NVIDIA H200, 143771 MiB". 0 where it does not.
std::vector<std::int64_t> gpuMemory(const std::vector<std::string>& gpus);
int usableCores();  // of this machine, for this process
// What is known without asking anybody: the nodes of the cluster on this machine share it.
std::vector<HostFacts> hostsHere(const spec::v1::ClusterSpec& cluster);

// `trace`, which may be null, is told of the passes that made the plan.
// Errors: kInvalidArgument, `why` a path in the spec where one is at fault.
Result<Preview> makePreview(const LaunchRequest& request, const std::vector<HostFacts>& hosts,
                            const planner::CostModel* measured = nullptr,
                            passes::PassTrace* trace = nullptr);
// JSON kept with the run: step_seconds, samples_per_second, measured, comm, ranks[…].
std::string predictionJson(const Preview& preview);
// What predictionJson wrote, back; plan and simulation stay empty.
Result<Preview> parsePrediction(const std::string& json);
// For people: first whether it fits; ranks, shares, memory, predicted breakdown.
std::string previewText(const Preview& preview);

}  // namespace lockstep::app
