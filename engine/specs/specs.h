// Spec doors: protobuf spec messages → what the engine works on. Defaults are filled in here, once.
// Errors: kInvalidArgument with `why` = the field's path ("model.layers[2].conv2d.kernel"), and
// remedies.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/models/model.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::specs {

// Shapes are checked through models::describe. Layers without a name are numbered by kind:
// "dense1", "conv1", "pool1", "flatten1", "activation1", "add1".
Result<models::Model> toModel(const spec::v1::ModelSpec& spec);

// The nodes that have ranks, in rank order: those of role worker or chief, in the order of the
// spec, and, where the strategy has servers, those of role ps after them. The first coordinates a
// run.
std::vector<const spec::v1::NodeSpec*> nodesWithRanks(const spec::v1::ClusterSpec& spec,
                                                      const spec::v1::StrategySpec& strategy);
int deviceCount(const spec::v1::NodeSpec& node);

// What a rank computes on, and with: decided here alone. By the backend that training.backend
// names, whatever the node's devices are, else by the kind of the device: onednn on cpu (in fp64
// reference), cuda on cuda.
struct RankDevice {
  std::string backend;  // as in backendKinds()
  std::string kind;     // what it computes on, as in deviceKinds()
  int number = 0;       // among the node's of this kind: which GPU, perhaps not of this rank alone
  int threads = 1;
};
// A node's, in the order of its ranks.
std::vector<RankDevice> rankDevices(const spec::v1::NodeSpec& node,
                                    const spec::v1::TrainingSpec& training);
std::string backendOn(std::string_view deviceKind, const spec::v1::TrainingSpec& training);
// Whether each rank of the run computes on a GPU.
bool allOnGpus(const spec::v1::ClusterSpec& cluster, const spec::v1::RunSpec& run);
// Whether those of all nodes can do what the training asks for.
Status checkDevices(const spec::v1::ClusterSpec& cluster, const spec::v1::TrainingSpec& training);
// The node that evaluates in place of the ranks, after each epoch: that of role evaluator; null
// where there is none.
const spec::v1::NodeSpec* evaluatorNode(const spec::v1::ClusterSpec& spec);

// One rank a device of the nodes with ranks, on the axes the strategy divides work over (toMesh).
// `hosts` says on which physical host each node is and its cores (from the agents'
// inventories); where a node is missing it is a host of its own with as many cores as its ranks
// have threads. What ranks compute on is as rankDevices() says. The communicator kind is spec.comm
// or, chosen: "nccl" where each rank has a GPU of its own and there are no servers, so that GPUs
// exchange among themselves all that ranks do; "shm" on one node; else "gloo". Paths start at the
// cluster ("nodes[1].devices[0].kind"), or are the strategy's ("strategy.servers").
struct NodeHost {
  std::string node;
  std::string host;
  int cores = 1;
};
Result<cluster::Cluster> toCluster(const spec::v1::ClusterSpec& spec,
                                   const std::vector<NodeHost>& hosts,
                                   const spec::v1::StrategySpec& strategy,
                                   const spec::v1::TrainingSpec& training = {});

// The kinds a strategy can be, the default first.
std::span<const std::string_view> strategyKinds();
// What a device's kind, the default first, a cluster's communicator and a training's backend can
// be.
std::span<const std::string_view> deviceKinds();
std::span<const std::string_view> commKinds();
std::span<const std::string_view> backendKinds();
// The ranks on the axes the strategy divides work over: "stage" where layers are divided among
// ranks, "data", and "model" where several ranks share layers. The last axis varies fastest, so
// that ranks that share layers are neighbours. Parameter servers are the last ranks: all those of
// nodes of role ps, `servers`, where there are such; else as many as the strategy says.
Result<cluster::Mesh> toMesh(const spec::v1::StrategySpec& strategy, int ranks, int servers = 0);
bool hasServers(const spec::v1::StrategySpec& strategy);

// The data files a run names, in order: "train.images" or "train.text", … as `name`.
struct DataFile {
  std::string name;
  std::string path;
  std::string sha256;  // "" is not checked
};
std::vector<DataFile> dataFiles(const spec::v1::DataSpec& data);

// The micro-batches of a step, or of local-sgd its local steps, where the batch is divided over so
// many ranks. Local steps that the spec leaves out are chosen: the largest divisor of the batch up
// to kLocalSteps that leaves each rank a sample of each. Errors: kInvalidArgument where the ranks
// do not divide the deterministic parts.
inline constexpr int kLocalSteps = 8;
Result<int> microBatches(const spec::v1::RunSpec& spec, int dataRanks);

// What training.precision says: of parameters and most else, and of the factors of products.
struct Precision {
  DType compute = DType::kF32, products = DType::kF32;
  bool tf32 = false;  // products of f32 may round their factors to 10 bits of fraction
};
Precision precisionOf(const spec::v1::TrainingSpec& training);
// What training.precision can be.
std::span<const std::string_view> precisions();

// What learning rates are multiplied by: linear in the global batch where the optimizer says which
// one they are for (Goyal et al.: "Accurate, Large Minibatch SGD", 2017).
double rateScale(const spec::v1::TrainingSpec& training);

// The whole run: model (as toModel), data, ranges, kinds and combinations of training and strategy;
// fills every default in place. Whether files exist is not asked.
Status checkAndFill(spec::v1::RunSpec& spec);

// The same run made small enough to be played with plain loops in an instant: every layer and
// whatever divides something are kept; batch, tokens, channels, filters and categories are fewer.
// `spec` is complete.
struct SmallRun {
  spec::v1::RunSpec spec;
  std::vector<std::string> changes;  // "batch 64 → 8"
};
// The fewest samples, 8 at least where the batch has so many, that micro-batches, local steps,
// statistics groups and ranks, by their shares, can divide as they do the spec's batch.
std::int64_t smallBatch(const spec::v1::RunSpec& spec, int dataRanks);
SmallRun smallVariant(const spec::v1::RunSpec& spec, int dataRanks);

}  // namespace lockstep::specs
