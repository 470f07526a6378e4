// Planner: model × training × strategy × cluster → Plan with its prediction.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/ir/model_graph.h"
#include "engine/passes/pass_manager.h"
#include "engine/passes/train_graph.h"
#include "engine/plan/plan.h"

namespace lockstep::planner {

// Cost model of devices and links. Entries without a measurement fall back to the roofline
// max(flops/flopsPerSecond, bytes/bytesPerSecond) + launch of the device's kind
// (cluster::assumedRates).
struct CostModel {
  std::map<std::string, double> stepSeconds;  // by signature(step): one rank alone on its core
  // kind: costKind
  struct CollectiveCost {
    std::string kind;
    int ranks;
    std::int64_t bytes;
    double seconds;
  };
  std::vector<CollectiveCost> collectives;  // measured; interpolated linearly in bytes
  double flopsPerSecond = 0;                // in the place of the assumed one; 0: none
  double stepOverheadSeconds = 5e-6;        // trainer and data hand-over a training step
};
// Op, types and attributes, so that equal work has equal text: "matmul f32[22x784] f32[784x128] …".
std::string signature(const plan::Body& body, const plan::Step& step);
// The name a collective's costs are kept under: "gloo" of an all-reduce that is the communicator's
// own, "gloo ring" of another, "gloo all-gather"; "nccl send" of a message, sent or received,
// between 2 ranks.
std::string costKind(std::string_view link, const plan::Step& step);

struct PlanRequest {
  // Matmul operands are cast to this type, bf16 or f16 (kF32: no cast); accumulation, parameters
  // and all else use `step.compute`.
  DType matmulDtype = DType::kF32;
  // How activations and their gradients are stored then: "f32"; "operands": in matmulDtype; "auto":
  // in matmulDtype where every rank is on a GPU.
  std::string activations = "auto";
  // products of f32 may round their factors to 10 bits of fraction
  bool tf32 = false;
  ir::ModelGraph step;  // of the global batch, or of one of its micro-batches
  // gradient accumulation steps per update; with local SGD, local updates per averaging
  int microBatches = 1;
  // Gradients are summed in a fixed order: bitwise equal whenever ranks × micro-batches is the
  // same, if devices use equal thread counts.
  bool inOrder = false;
  ir::ModelGraph evaluate;  // of the global evaluation batch; same parameters
  passes::TrainOptions training;
  std::string strategy;          // a name of cluster::strategies()
  std::vector<double> shares;    // of the batch, for each coordinate on axis data; none: even
  std::int64_t bucketBytes = 0;  // 0: chosen by the cost model
  // Layers and the stage each is on, instead of stages that are balanced by cost.
  std::vector<std::pair<std::string, int>> pins;
  // Gradient compression between ranks with the same parameters: "none" or a codingName; topKRatio
  // is the fraction kept by top-k.
  std::string compression = "none";
  double topKRatio = 0.01;
  std::int64_t topKAfter = 0;      // steps; until then gradients travel whole
  std::string allReduce = "auto";  // between these ranks: the cheapest, or an algorithmName
  // Which collectives overlap with compute: "auto" those between hosts that enough compute can
  // hide, "always" all that can, "never" none.
  std::string overlap = "auto";
  // limit on gathered bytes of sharded parameters and gradients, unless one step needs more. 0:
  // twice that without overlap
  std::int64_t gatherBytes = 0;
  // which activations are made again: "none", "selective", "full"
  std::string recompute = "none";
  int staleness = 0;  // of parameter servers: see Plan::staleness
  bool isAsynchronous() const { return staleness != 0; }
  // where parameters other than row-sharded tables are: on the servers too, or "all-reduce":
  // replicated on workers
  std::string dense = "servers";
  // one of pipelineSchedules(); where axis "stage" has several ranks
  std::string schedule = "1f1b";
};
// Layers are divided among stages so that they take equal time by the cost model's roofline.
// Errors: kInvalidArgument saying which number to change.
Result<plan::Plan> makePlan(const PlanRequest& request, const cluster::Cluster& cluster,
                            const CostModel& cost, passes::PassTrace* trace = nullptr);
// Plans evaluation by one rank on `device`: only program "evaluate", with parameters and running
// statistics as state.
Result<plan::Plan> makeEvaluationPlan(const PlanRequest& request, const cluster::Device& device,
                                      const CostModel& cost);
// Writes Step::seconds of every body from the cost model. A collective costs what was measured for
// its kind and number of ranks, linear in bytes between measurements; else its share of what was
// measured of all-reduces; else what pricing.h says of its link.
void predict(plan::Plan& plan, const cluster::Cluster& cluster, const CostModel& cost);

// Adjusts collective costs so that the simulated step takes `stepSeconds`, as measured with all
// ranks: a collective measured alone shows no arrival skew, wake-ups or waiting for cores. Without
// collectives, adjusts the step overhead. If even a tenth is too much, all measured costs are
// scaled down.
void calibrate(CostModel& cost, const plan::Plan& plan, const cluster::Cluster& cluster,
               double stepSeconds);

// In bytes. Parameters include running statistics, gradients the sums of micro-batches.
// Activations: the shared arena without gradients but with inputs, plus tensors stashed for later
// programs. Workspace: the kernels', known only once they are bound.
struct RankMemory {
  std::int64_t parameters = 0, optimizer = 0, gradients = 0, activations = 0, workspace = 0;
  std::int64_t total() const {
    return parameters + optimizer + gradients + activations + workspace;
  }
};
// On a device samples wait for their turn in memory of their own, which is counted among the
// activations.
RankMemory memory(const plan::Plan& plan, int rank, bool onDevice = false);
// Returns the peak bytes of gathered parameters and unscattered gradients (zero-2, zero-3), a part
// of the activations; 0 if none are sharded.
std::int64_t gatheredWindow(const plan::Plan& plan, int rank);

// Gradient compression of a rank in a training step.
struct EncodedGradients {
  std::string coding;        // "none" where it codes nothing
  std::int64_t bytes = 0;    // of the gradients
  std::int64_t payload = 0;  // of what they become
  std::int64_t moved = 0;    // of what a rank receives of the others' for that
  std::int64_t plain = 0;    // of what it would receive without coding
  double seconds = 0;        // for coding its own and decoding all ranks'
  double ratio() const {
    return payload > 0 ? static_cast<double>(bytes) / static_cast<double>(payload) : 1;
  }
};
EncodedGradients encodedGradients(const plan::Plan& plan, int rank);

// Runs a program in virtual time: ranks on one host share its cores (processor sharing), a
// collective starts when its last rank arrives and a waiting rank needs no core. Emits events in
// each rank's plan order: data, then for each step a compute event, or of a collective waiting
// (where there was any) and transfer. Steps are numbered from 1. Durations are the plan's predicted
// seconds; steps without one are priced by the cost model.
struct Simulation {
  std::vector<plan::Event> events;  // sorted by (rank, step, planStep order)
  double stepSeconds = 0;           // steady state: mean distance of step ends
  struct Breakdown {
    double data = 0, forward = 0, backward = 0, waiting = 0, transfer = 0, optimizer = 0;
    // of asynchronous transfers, while the rank computed; in none of the others
    double hidden = 0;
  };
  std::vector<Breakdown> ranks;  // seconds a step
};
struct SimulateOptions {
  std::string program = "step";
  int steps = 4;
  std::vector<double> slowdown;  // per rank factor on compute; empty: none
  bool events = true;            // false: Simulation::events stays empty
};
Simulation simulate(const plan::Plan& plan, const cluster::Cluster& cluster, const CostModel& cost,
                    const SimulateOptions& options = {});

}  // namespace lockstep::planner
