// Plan: what every rank will do, in order, on which memory. Device-neutral and portable: the
// studio makes and simulates it, every worker binds and plays the same one, and its text is what
// travels (plan_hash is the SHA-256 of that text).
//
// A run is several programs over the same named state: "init"; what a training step plays, "step"
// or the "forward", "backward" and "weights" of a pipeline, and "update" where there are
// micro-batches; "evaluate". A program has one body per role; ranks whose bodies would be equal
// share one.
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
  kState,  // lives as long as the run; common to all programs, by name
  kInput,  // written by the trainer before a play
  kTemp,   // within one play
};

struct Buffer {
  std::string name;
  ir::TensorType type;  // local shape on this role
  BufferKind kind = BufferKind::kTemp;
  BufferId base = -1;  // a view into another buffer, never of a view; else -1
  // bytes: in the base for a view; in the arena else (state: state arena)
  std::int64_t offset = 0;
  // A view may lie elsewhere on each rank: stride bytes further for each step of the rank's
  // coordinate on the axis. "" everywhere else.
  std::string axis;
  std::int64_t stride = 0;
  bool operator==(const Buffer&) const = default;
};

enum class StepKind : std::uint8_t { kCompute, kCollective };

// Steps of the compute stream are played one after another, in the body's order. Collectives of the
// other are in flight meanwhile: each begins when the body's order has come to it and those in
// flight before it are done.
inline constexpr int kComputeStream = 0, kFlightStream = 1, kStreams = 2;

struct Step {
  std::string name;  // of the node it came from
  StepKind kind = StepKind::kCompute;
  ir::Op op{};
  ir::Attrs attrs;
  ir::Phase phase = ir::Phase::kForward;
  int stream = kComputeStream;
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  std::vector<StepId> after;  // happens-before besides the order within a stream
  std::string axis;           // kCollective: the group is the ranks along this mesh axis
  double flops = 0;
  std::int64_t bytes = 0;  // compute: memory moved; collective: payload of this rank
  double seconds = 0;      // predicted by the cost model; 0 before it has run
  bool operator==(const Step&) const = default;
};

// Of a step that is a message: the coordinates along its axis that it goes to or comes from, those
// of `first` and the `count`-1 after it; count is 0 for any other step. `partner` is Play::copy,
// the peer where the message is one of a conversation (ir::kPartner).
struct Peers {
  int first = 0, count = 0;
};
Peers peersOf(const Step& step, int partner = ir::kPartner);
bool isSend(const Step& step);
bool isMessage(const Step& step);  // sent or received

// A named value the trainer reads after a play.
struct ResultSlot {
  std::string name;
  BufferId buffer = -1;
  bool operator==(const ResultSlot&) const = default;
};

struct Body {
  std::string role;  // "worker", "worker.21": unique within the program
  std::vector<Buffer> buffers;
  std::vector<Step> steps;  // in the order in which a rank comes to them
  std::vector<ResultSlot> results;
  std::int64_t arenaBytes = 0;  // inputs and temporaries, after reuse
  bool operator==(const Body&) const = default;
};

// Of a collective what it carries, of rows of tables (ir::Op::kSendRows) the most.
const ir::TensorType& payload(const Body& body, const Step& step);

struct Program {
  std::string name;  // "init", "step", "update", "evaluate", …
  std::vector<Body> bodies;
  std::vector<int> bodyOfRank;  // world size entries
  bool operator==(const Program&) const = default;
};

// One program of a training step, the micro-batch it works on, and which copy of each state that
// has several: `copy` modulo how many it has; in a conversation the coordinate of the rank it is
// with.
struct Play {
  std::string program;
  int micro = 0;
  int copy = 0;
  bool operator==(const Play&) const = default;
};

struct StateSlot {
  // A flat group, "KIND.K": "params.0" holds model parameters, "stats.0" running statistics,
  // "sums.0" gradients of the step so far, "carry.step.0.5" what one program of a pipeline leaves
  // for another, any other kind is optimizer state, "adam.m.0". Members have the parameters' names
  // in all of them, statistics their own, unique within a kind.
  std::string name;
  ir::TensorType type;      // local
  std::int64_t offset = 0;  // in the state arena
  int stage = 0;            // the ranks of this stage of the mesh have it
  int copies = 1;           // one after another, each on 64 bytes: see Play::copy
  // Where not "", each rank along the axis holds its part of the group: the rank at coordinate c
  // elements [c·n, (c+1)·n), n = type.count(). Else every rank holds all of it.
  std::string axis;
  // How the logical tensors lie in the group: checkpoints and exported models hold these.
  struct Member {
    std::string name;          // "dense1.weight"
    Shape shape;               // of the whole tensor
    std::int64_t element = 0;  // first element in the group
    // Where not "", each rank along the axis has an equal part of dimension `dim`.
    std::string axis;
    int dim = 0;
    // Where `rows` is not 0 only these of dimension 0; other slots of the kind have the others.
    std::int64_t firstRow = 0, rows = 0;
    bool operator==(const Member&) const = default;
  };
  std::vector<Member> members;
  bool operator==(const StateSlot&) const = default;
};

// The programs of a parameter server's conversation with a worker about one step: to receive which
// rows of tables the worker will read, to copy what it will read, to send it, to receive what the
// worker made of it, and to take that into the state.
inline constexpr std::array<std::string_view, 5> kConversation{"ask", "fetch", "give", "take",
                                                               "apply"};

struct Plan {
  static constexpr int kVersion = 1;
  std::string name;      // of the model
  std::string strategy;  // "multi-worker-mirrored"
  cluster::Mesh mesh;
  // "fp32", "fp64"; "tf32", "bf16", "fp16": fp32 with products of such factors
  std::string precision = "fp32";
  std::int64_t globalBatch = 0;
  // A step's batch is so many equal micro-batches, one after another.
  int microBatches = 1;
  // In so many first steps of a run a program is played as the one of its name with kWhole, where
  // there is such: it sends whole what later travels coded.
  std::int64_t wholeSteps = 0;
  static constexpr std::string_view kWhole = ".whole";
  std::vector<std::vector<Play>> wholeSchedule() const;  // what these steps play
  // Of parameter servers: how many steps a worker may be ahead of the slowest (stale synchronous
  // parallel: Ho et al., 2013), or kAnyStaleness. Each worker then takes its steps by itself, in a
  // conversation with each server, in whatever order messages arrive; the schedule is one of many.
  // 0: all take each step together.
  static constexpr int kAnyStaleness = -1;
  int staleness = 0;
  // Cut-points of a micro-batch over the data axis: rank at coordinate c takes samples
  // [cuts[c], cuts[c+1]) of it.
  std::vector<std::int64_t> batchCuts;
  std::vector<std::int64_t> evaluateCuts;  // the same for program "evaluate"
  std::vector<StateSlot> state;
  std::int64_t stateBytes = 0;  // of the rank that has most
  std::vector<Program> programs;
  // What one training step plays, in order: by stage of the mesh.
  std::vector<std::vector<Play>> schedule;

  const Program* find(std::string_view program) const;
  const Body* find(std::string_view program, int rank) const;  // null where there is none
  // The name of the number that says how good the model is: K in the result "metrics.K" of the
  // programs that compute a loss. "" where their result is "metrics".
  std::string_view metric() const;
  int stageOf(int rank) const { return mesh.stageOf(rank); }
  const std::vector<Play>& plays(int rank) const {
    return schedule[static_cast<std::size_t>(stageOf(rank))];
  }
  // The first body a training step plays that reads the input; null where none does.
  const Body* reader(std::string_view input, int rank) const;
  std::int64_t stateBytesOf(int rank) const;
  // What the rank's programs that are played one at a time need for inputs and temporaries: all but
  // the parts of a server's conversations.
  std::int64_t arenaBytesOf(int rank) const;
  static std::int64_t copyBytes(const StateSlot& slot) {
    return (slot.type.bytes() + 63) / 64 * 64;
  }
  std::int64_t groupCount(const StateSlot& slot) const;             // elements of the whole group
  std::int64_t memberCount(const StateSlot::Member& member) const;  // elements of it in the group
  std::int64_t logicalStateBytes() const;  // of all whole tensors, as a checkpoint holds them
  bool operator==(const Plan& other) const;
};

// Canonical text; parse(text(p)) == p for a plan that verifies, and text(parse(t)) == t for text
// written by text(). parse() takes any bytes: errors are kInvalidArgument "file:line:column: what,
// and what was expected", and nothing larger than the text itself is allocated.
std::string text(const Plan& plan);
Result<Plan> parse(std::string_view text, std::string_view file = "plan");
std::string hash(const Plan& plan);  // SHA-256 of the text with predicted seconds left out

// Buffers in range; every overlap of two buffers in use has a happens-before (inputs overlap
// nothing, results live to the end); what a step reads was written; collectives of all ranks in
// equal order, one after another along each axis, and stages that send each other what they
// receive, so that none waits for ever; views within their base.
Status verify(const Plan& plan);

// ---- Events: what both players, the executor in real time and the simulator in virtual time,
// say of a play. Readers never ask which player it was.
enum class EventKind : std::uint8_t { kCompute, kWaiting, kTransfer, kData };
std::string_view eventKindName(EventKind kind);  // "compute", "waiting", "transfer", "data"

struct Event {
  std::int32_t rank = 0;
  std::int64_t step = 0;  // training step
  StepId planStep = -1;   // among the steps of the rank's plays, one play after another;
                          // -1 for data
  EventKind kind = EventKind::kCompute;
  ir::Phase phase = ir::Phase::kForward;
  std::int64_t begin = 0, end = 0;  // ns: the node's monotonic clock, or virtual time
  std::int64_t bytes = 0;           // of a transfer
  std::int32_t peer = -1;           // kWaiting: the rank waited for, where known
  // of a collective in flight: other events of the rank lie beside it
  bool inFlight = false;
};

}  // namespace lockstep::plan
