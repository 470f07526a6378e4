// Converts protobuf specs to engine types and fills in defaults. Errors: kInvalidArgument with
// `why` = the field's path ("model.layers[2].conv2d.kernel"), and remedies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/models/model.h"
#include "engine/weights/layout.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::specs {

// Checks shapes with models::describe. Names unnamed layers by kind and number: "dense1", "conv1",
// "pool1", "flatten1", "activation1", "add1".
Result<models::Model> toModel(const spec::v1::ModelSpec& spec);

// Returns the nodes with ranks, in rank order: those of role worker or chief, in spec order, then,
// if the strategy has servers, those of role ps. The first node coordinates the run.
std::vector<const spec::v1::NodeSpec*> nodesWithRanks(const spec::v1::ClusterSpec& spec,
                                                      const spec::v1::StrategySpec& strategy);
int deviceCount(const spec::v1::NodeSpec& node);
inline constexpr int kMaxRanks = 4096;  // of a cluster

// The device and backend of a rank; decided only here. The backend is training.backend if set, else
// by device kind: onednn on cpu (reference in fp64), cuda on cuda.
struct RankDevice {
  std::string backend;  // as in training.backend
  std::string kind;     // as in DeviceSpec.kind
  int number = 0;       // among the node's devices of this kind; several ranks may share a GPU
  int threads = 1;
  cluster::DeviceFigures figures{};
};
// Returns the devices of a node's ranks, in rank order. Precondition: deviceCount() is at most
// kMaxRanks.
std::vector<RankDevice> rankDevices(const spec::v1::NodeSpec& node,
                                    const spec::v1::TrainingSpec& training);
std::string backendOn(std::string_view deviceKind, const spec::v1::TrainingSpec& training);
// Returns whether all ranks of the run compute on GPUs.
bool allOnGpus(const spec::v1::ClusterSpec& cluster, const spec::v1::RunSpec& run);
// Checks that the devices of all nodes support the training settings.
Status checkDevices(const spec::v1::ClusterSpec& cluster, const spec::v1::TrainingSpec& training);
// Returns the nodes of role spare, which have no ranks until they replace a lost node.
std::vector<const spec::v1::NodeSpec*> spareNodes(const spec::v1::ClusterSpec& spec);
// Returns the cluster with as many spares as recovery.spares asks for: the nodes of role spare,
// then the last of those with role worker or chief. Errors: kInvalidArgument if no node would be
// left to train.
Result<spec::v1::ClusterSpec> withSpares(const spec::v1::RecoverySpec& recovery,
                                         const spec::v1::ClusterSpec& cluster);
// Returns the node of role evaluator, which evaluates after each epoch instead of the ranks; null
// if there is none.
const spec::v1::NodeSpec* evaluatorNode(const spec::v1::ClusterSpec& spec);

// Returns the folder of a run's checkpoints on a node: a subfolder of training.checkpoint.path, or
// `own` if that is not set.
std::string checkpointFolder(const spec::v1::RunSpec& spec, const std::string& run,
                             const std::string& own);
// Returns whether all nodes share that folder: training.checkpoint.path is storage that they have
// in common, unless copies are made.
bool sharesCheckpoints(const spec::v1::RunSpec& spec);

// Returns the cluster: one rank for each device of the nodes with ranks, on the strategy's mesh
// (toMesh). `hosts` gives the physical host and the cores of nodes (from the agents' inventories);
// a missing node is its own host with as many cores as its ranks have threads. Devices are those of
// rankDevices(). The communicator kind is spec.comm, or by default "nccl" where each rank has its
// own GPU and there are no servers, "shm" on one node, else "gloo". Error paths start at the
// cluster
// ("nodes[1].devices[0].kind"), or are the strategy's ("strategy.servers").
struct NodeHost {
  std::string node;
  std::string host;
  int cores = 1;
};
Result<cluster::Cluster> toCluster(const spec::v1::ClusterSpec& spec,
                                   const std::vector<NodeHost>& hosts,
                                   const spec::v1::StrategySpec& strategy,
                                   const spec::v1::TrainingSpec& training = {});

// Returns the mesh of a strategy: axis "stage" if layers are divided among ranks, "data", and
// "model" if several ranks share layers. The last axis varies fastest, so that ranks that share
// layers are neighbours. Parameter servers are the last ranks: `servers`, the ranks of nodes of
// role ps, if not 0; else as many as the strategy says.
Result<cluster::Mesh> toMesh(const spec::v1::StrategySpec& strategy, int ranks, int servers = 0);
bool hasServers(const spec::v1::StrategySpec& strategy);
// Returns whether the strategy is to be searched (kind auto). checkAndFill leaves what such a
// strategy leaves out: it is chosen too.
bool isOpen(const spec::v1::StrategySpec& strategy);
// Returns the plainest kind of those that can have what an open strategy sets.
std::string_view plainestKind(const spec::v1::StrategySpec& strategy);

// A file that a run reads; `name` is "train.images", "train.text", …, or kInitFile.
inline constexpr std::string_view kInitFile = "init_from";  // that training starts from
struct DataFile {
  std::string name;
  std::string path;
  std::string sha256;  // "": not checked
};
std::vector<DataFile> dataFiles(const spec::v1::RunSpec& run);
// Returns the field of a file: "data.train.images".
std::string fieldOf(std::string_view file);

// Returns the names of the model's weights by the values of model.init_from.names.
Result<weights::Names> weightNames(const spec::v1::ModelSpec& model, std::string_view names);

// Returns the number of micro-batches of a step, or of local steps with local-sgd, for a batch
// divided over `dataRanks`. The default number of local steps is the largest divisor of the batch
// up to kLocalSteps that leaves each rank a sample in each. Errors: kInvalidArgument if the ranks
// do not divide the deterministic parts.
inline constexpr int kLocalSteps = 8;
Result<int> microBatches(const spec::v1::RunSpec& spec, int dataRanks);

// The dtypes of training.precision: of parameters and most values, and of matmul operands.
struct Precision {
  DType compute = DType::kF32, matmulDtype = DType::kF32;
  bool tf32 = false;  // f32 matmuls may round their operands to 10 fraction bits
};
Precision precisionOf(const spec::v1::TrainingSpec& training);

// Returns the learning rate multiplier: linear in the global batch if the optimizer has a base
// batch (Goyal et al.: "Accurate, Large Minibatch SGD", 2017).
double rateScale(const spec::v1::TrainingSpec& training);

// Fills in all defaults of a run spec and checks it: each option by the option table (options.h),
// then the relations between them, and the model as toModel does, or the program (workload.h). Does
// not check that files exist.
Status checkAndFill(spec::v1::RunSpec& spec);

// A variant of a run that is small enough to run with plain loops in an instant. It keeps all
// layers and all ways in which the run is divided, with smaller batch, tokens, channels, units,
// filters and categories. Precondition: the spec is complete.
struct SmallRun {
  spec::v1::RunSpec spec;
  std::vector<std::string> changes;  // "batch 64 → 8"
};
// Returns the smallest batch, at least 8 if the spec's is, that micro-batches, local steps,
// statistics groups and ranks, by their shares, divide as they divide the spec's batch.
std::int64_t smallBatch(const spec::v1::RunSpec& spec, int dataRanks);
SmallRun smallVariant(const spec::v1::RunSpec& spec, int dataRanks, int tensorRanks);

}  // namespace lockstep::specs
