// Plan: what every rank runs, in which order, on which memory. Device-neutral and portable: the
// studio makes and simulates it, and every worker binds and runs the same plan. Its text is the
// wire format; plan_hash is the SHA-256 of the text without predicted seconds.
//
// A training run consists of several programs over the same named state: "init"; the programs of a
// training step, "step" or the "forward", "backward" and "weights" of a pipeline, and "update"
// after the last micro-batch; "evaluate". A program has one body for each role; ranks with equal
// bodies share one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/ir/graph.h"
#include "engine/ir/ops.h"

namespace lockstep::plan {

using BufferId = std::int32_t;
using StepId = std::int32_t;

enum class BufferKind : std::uint8_t {
  kState,  // lives as long as the training run; shared by all programs, by name
  kInput,  // written by the trainer before a program runs
  kTemp,   // within one program run
};

struct Buffer {
  std::string name;
  ir::TensorType type;  // local shape on this role
  BufferKind kind = BufferKind::kTemp;
  BufferId base = -1;  // a view into another buffer, never of a view; else -1
  // bytes, in the base for a view, else in the arena (state: in the state arena)
  std::int64_t offset = 0;
  // Where not "", the view's offset depends on the rank: it grows by `stride` bytes for each
  // coordinate along the axis.
  std::string axis;
  std::int64_t stride = 0;
  bool operator==(const Buffer&) const = default;
};

enum class StepKind : std::uint8_t { kCompute, kCollective };

// Steps of the compute stream run one after another, in the body's order. Collectives of the
// communication stream run asynchronously: each starts once the compute stream has reached it and
// the earlier ones have completed.
inline constexpr int kComputeStream = 0, kCommunicationStream = 1, kStreams = 2;

struct Step {
  std::string name;  // of the graph node
  StepKind kind = StepKind::kCompute;
  ir::Op op{};
  ir::Attrs attrs;
  ir::Phase phase = ir::Phase::kForward;
  int stream = kComputeStream;
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  std::vector<StepId> after;  // dependencies besides the order within a stream
  std::string axis;           // kCollective: the group is the ranks along this mesh axis
  double flops = 0;
  std::int64_t bytes = 0;  // compute: memory moved; collective: payload of this rank
  double seconds = 0;      // predicted by the cost model; 0: not yet predicted
  bool operator==(const Step&) const = default;
};

// The peers of a message step: coordinates `first` … `first`+`count`-1 along its axis; count is 0
// for any other step. In a parameter-server session `partner` (ScheduleEntry::copy) replaces
// ir::kPartner.
struct Peers {
  int first = 0, count = 0;
};
Peers peersOf(const Step& step, int partner = ir::kPartner);
bool isSend(const Step& step);
bool isMessage(const Step& step);  // a send or a receive

// A named value the trainer reads after a program ran.
struct ResultSlot {
  std::string name;
  BufferId buffer = -1;
  bool operator==(const ResultSlot&) const = default;
};

struct Body {
  std::string role;  // "worker", "worker.21": unique within the program
  std::vector<Buffer> buffers;
  std::vector<Step> steps;  // in issue order
  std::vector<ResultSlot> results;
  std::int64_t arenaBytes = 0;  // of inputs and temporaries, with memory reuse
  bool operator==(const Body&) const = default;
};

// Returns the payload of a collective; for rows of tables (ir::Op::kSendRows) the largest one.
const ir::TensorType& payload(const Body& body, const Step& step);

struct Program {
  std::string name;  // "init", "step", "update", "evaluate", …
  std::vector<Body> bodies;
  std::vector<int> bodyOfRank;  // by rank
  bool operator==(const Program&) const = default;
};

// One program run of a training step: the micro-batch it works on and, of each state that has
// several copies, the copy it uses, `copy` modulo their number. In a parameter-server session
// `copy` is the coordinate of the peer.
struct ScheduleEntry {
  std::string program;
  int micro = 0;
  int copy = 0;
  bool operator==(const ScheduleEntry&) const = default;
};

enum class StateRole : std::uint8_t {
  kParameters,
  kOptimizer,
  kStatistics,   // running statistics of batch norm
  kLossScale,    // dynamic loss scaling
  kResidual,     // error feedback of gradient compression
  kGradientSum,  // gradients accumulated over micro-batches; zero between steps
  kStash,        // a tensor that one program of a step saves for a later one
};
inline constexpr std::array<std::string_view, 7> kStateRoleNames{
    "parameters", "optimizer", "statistics", "loss-scale", "residual", "gradient-sum", "stash"};
inline std::string_view stateRoleName(StateRole role) {
  return kStateRoleNames[static_cast<std::size_t>(role)];
}

struct StateSlot {
  // Unique: a kind and the group's number, "params.0", "adam.m.0". Members are named after
  // parameters (statistics have their own names); names are unique within a kind.
  std::string name;
  std::string_view kind() const { return std::string_view(name).substr(0, name.rfind('.')); }
  StateRole role{};
  ir::TensorType type;      // local
  std::int64_t offset = 0;  // in the state arena
  int stage = 0;            // ranks of this mesh stage hold it
  int copies = 1;           // consecutive, each 64-byte aligned; see ScheduleEntry::copy
  // Where not "", the group is sharded along the axis: the rank at coordinate c holds elements
  // [c·n, (c+1)·n), n = type.count(). Else it is replicated.
  std::string axis;
  // Layout of the logical tensors in the group; checkpoints and exported models store these.
  struct Member {
    std::string name;          // "dense1.weight"
    Shape shape;               // of the whole tensor
    std::int64_t element = 0;  // first element in the group
    // Where not "", the tensor is sharded along the axis in equal parts of dimension `dim`.
    std::string axis;
    int dim = 0;
    // Where `rows` is not 0, only rows [firstRow, firstRow+rows); other slots hold the rest.
    std::int64_t firstRow = 0, rows = 0;
    bool operator==(const Member&) const = default;
  };
  std::vector<Member> members;
  bool operator==(const StateSlot&) const = default;
};

// The programs of an asynchronous parameter-server session with one worker, for one step: receive
// the ids of the table rows to pull; snapshot the parameters the worker reads; send them; receive
// the worker's gradients; apply them to the state.
inline constexpr std::array<std::string_view, 5> kServerSession{
    "pull-request", "snapshot", "send-parameters", "receive-gradients", "apply"};

struct Plan {
  static constexpr int kVersion = 2;
  std::string name;      // of the model
  std::string strategy;  // "multi-worker-mirrored"
  cluster::Mesh mesh;
  // "fp32", "fp64"; "tf32", "bf16", "fp16": fp32 with matmul operands of that type
  std::string precision = "fp32";
  std::int64_t globalBatch = 0;
  // equal micro-batches of a step's batch, run one after another
  int microBatches = 1;
  // Gradients are not compressed in the first steps of a training run: a program for which there is
  // a variant named with the suffix kUncompressed is replaced by it.
  std::int64_t uncompressedWarmupSteps = 0;
  static constexpr std::string_view kUncompressed = ".uncompressed";
  std::vector<std::vector<ScheduleEntry>> uncompressedSchedule() const;  // of these steps
  // Steps of phase watch run in training step 1 and in every watchEvery-th after it; 0: there are
  // none. All ranks skip the same ones, and nothing that trains reads what they write, so that a
  // run has the same bits whether it is watched or not.
  std::int64_t watchEvery = 0;
  // `step` counts from 1; 0 and below: a run outside of any training step, which runs all of it.
  bool isWatched(std::int64_t step) const {
    return step <= 0 || (watchEvery > 0 && (step - 1) % watchEvery == 0);
  }
  // With parameter servers: how many steps a worker may be ahead of the slowest (stale synchronous
  // parallel: Ho et al., 2013), or kAnyStaleness. Workers then run asynchronously, in a session
  // with each server, and messages arrive in any order; the schedule is one legal order. 0:
  // synchronous training.
  static constexpr int kAnyStaleness = -1;
  int staleness = 0;
  bool isAsynchronous() const { return staleness != 0; }
  // Cut-points of a micro-batch over the data axis: the rank at coordinate c gets samples
  // [cuts[c], cuts[c+1]).
  std::vector<std::int64_t> batchCuts;
  std::vector<std::int64_t> evaluateCuts;  // the same for program "evaluate"
  std::vector<StateSlot> state;
  std::int64_t stateBytes = 0;  // of the rank with the most
  std::vector<Program> programs;
  // The ordered entries of one training step, by mesh stage.
  std::vector<std::vector<ScheduleEntry>> schedule;

  const Program* find(std::string_view program) const;
  const Body* find(std::string_view program, int rank) const;  // null if there is none
  // Returns the name K of the quality metric, from the result "metrics.K" of the programs that
  // compute a loss; "" where the result is "metrics".
  std::string_view metric() const;
  int stageOf(int rank) const { return mesh.stageOf(rank); }
  const std::vector<ScheduleEntry>& entriesOf(int rank) const {
    return schedule[static_cast<std::size_t>(stageOf(rank))];
  }
  // Returns the first body of a training step that reads the input; null if none does.
  const Body* reader(std::string_view input, int rank) const;
  std::int64_t stateBytesOf(int rank) const;
  // Returns the bytes of the arena shared by the rank's programs, except those of server sessions.
  std::int64_t arenaBytesOf(int rank) const;
  static std::int64_t copyBytes(const StateSlot& slot) {
    return (slot.type.bytes() + 63) / 64 * 64;
  }
  std::int64_t groupCount(const StateSlot& slot) const;             // elements of the whole group
  std::int64_t memberCount(const StateSlot::Member& member) const;  // elements of it in the group
  std::int64_t logicalStateBytes() const;  // of all logical tensors, as in a checkpoint
  bool operator==(const Plan& other) const;
};

// Returns the canonical text. parse(text(p)) == p for a plan that verifies, and text(parse(t)) == t
// for a text written by text(). parse() accepts any bytes and allocates memory in proportion to the
// text. Errors: kInvalidArgument "file:line:column: what, and what was expected".
std::string text(const Plan& plan);
Result<Plan> parse(std::string_view text, std::string_view file = "plan");
std::string hash(const Plan& plan);  // SHA-256 of the text without predicted seconds
// Returns the text for people, without what is like something before it: a body that differs from
// an earlier one of its program, or a slot's members from those of an earlier slot, in nothing but
// numbers in names, as of layers, seeds and the stages it exchanges with. It says which one;
// parse() does not take it.
std::string briefText(const Plan& plan);

// Verifies that views lie in their base and buffers in the arena; that the uses of two overlapping
// buffers are ordered (inputs overlap nothing, results live to the end); that a step reads only
// what was written; and that there is no deadlock: all ranks run the same collectives in the same
// order, one at a time along each axis, and stages receive the messages that are sent to them.
// Errors: kInvalidArgument.
Status verify(const Plan& plan);

// ---- Events: reported alike by the executor in real time and by the simulator in virtual time.
enum class EventKind : std::uint8_t { kCompute, kWaiting, kTransfer, kData };
std::string_view eventKindName(EventKind kind);  // "compute", "waiting", "transfer", "data"

struct Event {
  std::int32_t rank = 0;
  std::int64_t step = 0;  // training step
  StepId planStep = -1;   // index among the steps of all the rank's schedule entries;
                          // -1 for data
  EventKind kind = EventKind::kCompute;
  ir::Phase phase = ir::Phase::kForward;
  std::int64_t begin = 0, end = 0;  // ns: the node's monotonic clock, or virtual time
  std::int64_t bytes = 0;           // of a transfer
  std::int32_t peer = -1;           // kWaiting: the rank it waits for, where known
  // of a collective on the communication stream: it overlaps other events of the rank
  bool asynchronous = false;
};

}  // namespace lockstep::plan
