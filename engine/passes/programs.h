// The programs of a run as graphs of the whole batch, before placement over the data axis.
//
// State "params.K" is the flat group K; optimizer state has one flat group beside each, but none
// beside those of frozen parameters, which follow the others and which no step replaces; "stats.S"
// holds running statistics, of a stage each, which a step replaces and no gradient reaches;
// "scaling.0" is loss_scale.h's. Every program that computes a loss has the result
// "metrics.<metric>" f[3+K], "metrics" where the model has none: Σ w·loss, Σ w, the K sums of the
// metric and the number of ranks asked to stop.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/ir/model_graph.h"
#include "engine/passes/group.h"
#include "engine/passes/loss_scale.h"
#include "engine/passes/train_graph.h"

namespace lockstep::passes {

// Prefixes of the optimizer's state groups: "adam.m", "adam.v"; "sgd.v".
// Errors: kInvalidArgument for an unknown optimizer, listing the known.
Result<std::vector<std::string>> optimizerStates(const Optimizer& optimizer);

// The programs of a model before grouping. Values are found by the names of their sinks, which
// survive the passes between: gradients are the states "grad/<parameter>", Σ w·loss and Σ w are the
// results "loss" and "weight", the sums of the metric a result of the metric's name; running
// statistics, and the initial values of these and of parameters, are states of their names.
inline constexpr std::string_view kGradient = "grad/";
Result<ir::Graph> trainGraph(const ir::ModelGraph& model);
Result<ir::Graph> evaluateGraph(const ir::ModelGraph& model);
// Each element depends only on seed, parameter name and index: equal under any sharding.
Result<ir::Graph> initGraph(const ir::ModelGraph& model, std::uint64_t seed);

// Adds a node that marks a rank's own value as a partial sum over ranks.
inline constexpr std::string_view kLocalShare = "summed.share";

// How a training step applies gradients.
enum class UpdateKind {
  kSynchronous,   // every step, from gradients summed over ranks
  kAccumulating,  // once for several micro-batches; program "update" follows the last
  // Each rank updates its own copy from its own samples; program "average" then takes the mean
  // (McMahan et al.: "Federated averaging", 2017; of momentum: Yu et al., 2019).
  kLocal,
  // Workers do not wait for each other: each sends servers the mean gradient of its own samples
  // and reads a snapshot of the parameters. "metrics", and the first server's "pushed", then cover
  // only the worker's samples. Result "control" f[2] of workers, and "control.S" of any other
  // server S, is the first server's input "control".
  kAsynchronous,
};

struct StepLayout {
  UpdateKind update = UpdateKind::kSynchronous;
  std::int64_t bucketBytes = 0;
  int parts = 1;  // each group can be divided into so many equal parts
  // Accumulated gradients are summed in the order of ranks (op ordered-sum): equal bits for every
  // number of ranks. With kAccumulating.
  bool orderedSums = false;
  // Axes whose ranks have the same gradients: a stop request of any of these ranks counts.
  std::vector<std::string> syncAxes;
  // Tensor parallelism: the axis, and the parameters of which each rank along it holds a part.
  std::string dividedAlong;
  std::set<std::string, std::less<>> divided;
  // Stage of nodes that belong to none: 0, or kEveryStage if there are several.
  int everywhere = 0;
  // Parameter servers hold parameters and optimizer state on stages 1 … servers, group by group,
  // balanced by size. 0: kept with the gradients.
  int servers = 0;
  // Tables that serveTables has sharded by rows over servers. Nothing else is on servers where
  // `servers` is 0.
  std::set<std::string, std::less<>> rowSharded;
  std::optional<Scaling> scaling;
  Watch watch;
  // Gradients are unscaled, then compressed for communication.
  bool compressed = false;

  bool onlyTablesOnServers() const { return !rowSharded.empty() && servers == 0; }
  // Whether metrics are appended to a gradient bucket, which saves a collective: not if gradients
  // are reduce-scattered, compressed or not summed over ranks.
  bool metricsInGroup() const {
    return parts == 1 && !compressed &&
           (update == UpdateKind::kSynchronous || update == UpdateKind::kAccumulating);
  }
};
// Names of the nodes that are groups' gradients, and of their buffers, begin so: "grads.K".
inline constexpr std::string_view kGroupGradients = "grads.";
// Group indices by the names of these nodes.
using GradientNodes = std::map<std::string, std::size_t, std::less<>>;

// A table with a sparse gradient, whose optimizer leaves other rows unchanged, is its own group:
// ranks exchange ids and rows and update only these rows. Not with gradient accumulation, local
// SGD, sharded updates or servers that hold whole tables. State "sums.K" accumulates group K;
// "sums.metrics" the metrics, if in their own group or with local SGD; "sums.stats.S" the moments
// for running statistics.
struct StepProgram {
  ir::Graph graph;  // inputs of the model; "lr", "t" where it updates; "stop"
  // What follows: program "update", where gradients are added up; or "average". Input "stop", and
  // "lr" and "t" where it updates.
  std::optional<ir::Graph> last;
  std::vector<Group> groups;  // in the order their gradients are filled
  std::vector<Group> frozen;  // parameters without a gradient, in the order of the graph
  // Nodes of `graph` and `last` with a group's full gradient, to be all-reduced.
  GradientNodes gradients;
  std::vector<Group> statistics;  // one a stage that has running statistics
  // a layer's, updated from sums that ranks and micro-batches add up
  struct Running {
    std::string name, mean, variance;  // of the node and of the states
    ir::Attrs attrs;
    std::size_t group = 0;  // of `statistics`
    Shape sums;
    bool whole = false;  // one group of samples: all ranks have its sums
    ir::ValueId meanBefore = -1, varianceBefore = -1, made = -1;  // of the training graph
  };
  std::vector<Running> running;
  struct Sum {
    std::string state;
    std::int64_t count = 0;  // elements
    int stage = 0;
    bool whole = false;  // every rank has the sum over all ranks
  };
  // of groups, of the metrics, then of what statistics are made of
  std::vector<Sum> sums;
  // the group that the metrics are the tail of; groups.size() for one of their own
  std::size_t metricsPack = 0;
  std::string metric;  // of the model
  std::int64_t metricSums = 0;
  std::optional<Scaling> scaling;
};
Result<StepProgram> stepProgram(const ir::Graph& train, const TrainOptions& options,
                                const StepLayout& layout);
std::vector<const ir::Graph*> graphsIn(const StepProgram& program);
Result<ir::Graph> evaluateProgram(const ir::Graph& evaluate, const StepProgram& step,
                                  int everywhere);
Result<ir::Graph> initProgram(const ir::Graph& init, const StepProgram& step,
                              const TrainOptions& options);

}  // namespace lockstep::passes
