#include "engine/runtime/executor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/subnormals.h"
#include "engine/comm/reduce.h"
#include "engine/plan/inputs.h"
#include "engine/plan/message_order.h"
#include "engine/runtime/all_reduce.h"
#include "engine/runtime/device_run.h"
#include "engine/runtime/finite.h"

namespace lockstep::runtime {
namespace {

// The messages issued before each step of a device run, resolved to addresses.
struct MessageGroupOf {
  plan::StepId before = 0;
  bool awaited = false;
  std::vector<device::Group::Message> messages;
  bool operator==(const MessageGroupOf&) const = default;
};
using MessagesOf = std::vector<MessageGroupOf>;

// A bound step: everything resolved to addresses.
struct BoundStep {
  backends::Kernel* kernel = nullptr;  // null: a collective
  comm::Communicator* group = nullptr;
  device::Group* devices = nullptr;  // device group that runs it instead
  ir::Op op{};
  ir::Phase phase{};
  void* in = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;
  std::int64_t bytes = 0;  // as in the plan
  std::int64_t messageBytes = 0;
  DType dtype{};
  comm::ReduceOp reduce{};
  int root = 0;
  bool drains = false;  // no other traffic may share a group with messages: drain first
  int peers = 1;        // multicast, recv-sum: number of peers, from coordinate 0
  // send: index of its first message; messages of rows are two each, count and data
  std::size_t message = 0;
  // messages of rows: number of rows per part, of which `part` is the first to be sent
  std::int32_t* counts = nullptr;
  int part = 0;
  std::size_t head = 0;                 // send: its first
  std::int64_t rows = 0, rowBytes = 0;  // maximum
  std::vector<std::int64_t> cuts;
  std::vector<plan::Exchange> exchanges;  // of an all-reduce built from messages
  int async = -1;    // index of an asynchronous collective among `asyncCollectives`
  int awaited = -1;  // the last asynchronous collective to wait for first
  std::vector<std::byte>* staging = nullptr;
  double Breakdown::*account = nullptr;
};

double Breakdown::*accountOf(const plan::Step& step) {
  if (step.kind == plan::StepKind::kCollective) return &Breakdown::communication;
  switch (step.phase) {
    case ir::Phase::kBackward:
      return &Breakdown::backward;
    case ir::Phase::kOptimizer:
      return &Breakdown::optimizer;
    default:
      return &Breakdown::forward;
  }
}

}  // namespace

double readFloat(const backends::Operand& operand, std::size_t index) {
  if (operand.type.dtype == DType::kF64) return static_cast<const double*>(operand.data)[index];
  return static_cast<double>(static_cast<const float*>(operand.data)[index]);
}

void writeFloat(const backends::Operand& operand, std::size_t index, double value) {
  if (operand.data == nullptr) return;
  if (operand.type.dtype == DType::kF64)
    static_cast<double*>(operand.data)[index] = value;
  else
    static_cast<float*>(operand.data)[index] = static_cast<float>(value);
}

struct Executor::Impl {
  const plan::Plan* plan = nullptr;
  const plan::Body* body = nullptr;
  int rank = 0;
  Groups groups;
  std::optional<Arena> ownArena;
  std::byte* arena = nullptr;
  StateArena* state = nullptr;
  int copy = 0;
  std::deque<Sender::Message> messages;
  std::deque<std::int32_t> heads;  // row counts of messages of rows
  std::int64_t moved = 0;          // bytes of the last message
  std::vector<std::unique_ptr<backends::Kernel>> kernels;
  std::vector<BoundStep> steps;
  Breakdown last;
  std::int64_t workspaceBytes = 0;
  std::array<std::vector<std::byte>, plan::kStreams>
      staging;  // shared by the all-reduces of a stream
  std::deque<AsyncCollectives::Collective> asyncCollectives;
  device::Device* device = nullptr;  // null: host memory
  // Device runs by their messages; schedule entries with the same messages share a run.
  struct ScheduledRuns {
    std::vector<MessagesOf> messages;
    std::vector<std::unique_ptr<DeviceRun>> runs;
    // index into `runs` for each entry of Plan::entriesOf() and of uncompressedSchedule()
    std::array<std::vector<std::size_t>, 2> runOf;
    std::size_t alone = 0;  // the run outside of any schedule
  };
  ScheduledRuns scheduled;
  std::optional<DeviceMirrors> mirrors;
  // on a device: the host's buffers
  std::map<std::string, backends::Operand, std::less<>> inputs, results;
  std::vector<DeviceRun::Span> spans;

  std::byte* address(plan::BufferId id) const { return address(*body, copy, id); }
  std::byte* address(const plan::Body& of, int ofCopy, plan::BufferId id) const {
    const plan::Buffer& buffer = of.buffers[static_cast<std::size_t>(id)];
    if (buffer.base >= 0) {
      const int coordinate = buffer.axis.empty() ? 0 : plan->mesh.coordinate(rank, buffer.axis);
      return address(of, ofCopy, buffer.base) + buffer.offset + coordinate * buffer.stride;
    }
    if (buffer.kind == plan::BufferKind::kState)
      return state->operands() + buffer.offset + offsetOf(buffer, ofCopy);
    return arena + buffer.offset;
  }
  std::int64_t offsetOf(const plan::Buffer& state, int ofCopy) const {
    if (ofCopy == 0) return 0;
    const auto slot = std::find_if(plan->state.begin(), plan->state.end(),
                                   [&](const plan::StateSlot& s) { return s.name == state.name; });
    return ofCopy % slot->copies * plan::Plan::copyBytes(*slot);
  }
  backends::Operand operand(plan::BufferId id) const {
    return {address(id), body->buffers[static_cast<std::size_t>(id)].type};
  }
  // Ensures that nothing accesses the memory any more, also after a failure.
  ~Impl() {
    for (const Sender::Message& message : messages) groups.sender()->giveUp(message);
    for (const AsyncCollectives::Collective& one : asyncCollectives)
      groups.asyncCollectives().giveUp(one);
  }
  Status bindCompute(const plan::Step& step, backends::Backend& backend);
  Status bindCollective(const plan::Step& step);
  Status bindDevice(std::string_view program);
  Status bindMessages(std::string_view program);
  std::size_t deviceRunOf(MessagesOf messages);  // index into scheduled.runs
  Result<std::unique_ptr<DeviceRun>> bindDeviceRun(const MessagesOf& messages);
  static void giveToDevices(const BoundStep& step);
  Status runOnDevice(std::int64_t step, std::vector<plan::Event>* events, ScheduleIndex index,
                     const std::function<Status()>& meanwhile);
  void bindOrder();
  Status collective(const BoundStep& step);
  Status named(Status status, std::int64_t step) const;
  Status sendRows(const BoundStep& step);
  Status recvRows(const BoundStep& step);
  void bindLoss();
  plan::BufferId rootOf(plan::BufferId id) const {
    const plan::BufferId base = body->buffers[static_cast<std::size_t>(id)].base;
    return base < 0 ? id : base;
  }
  const plan::Buffer& buffer(plan::BufferId id) const {
    return body->buffers[static_cast<std::size_t>(id)];
  }
  std::span<const std::byte> bytesOf(plan::BufferId id) const {
    return {address(id), static_cast<std::size_t>(buffer(id).type.bytes())};
  }
  std::int64_t orderOf(std::size_t step) const {
    return (std::int64_t{plan->stageOf(rank)} << 32) + static_cast<std::int64_t>(step);
  }
  std::optional<NonFiniteTensor> lookAt(plan::BufferId id, std::size_t step) const;
  bool isThere(plan::BufferId id, std::size_t step, std::size_t last) const;
  bool isStash(const std::string& state) const {
    return std::any_of(plan->state.begin(), plan->state.end(), [&](const plan::StateSlot& slot) {
      return slot.name == state && slot.role == plan::StateRole::kStash;
    });
  }
  std::optional<NonFiniteTensor> firstNonFinite(std::size_t last) const;

  std::size_t lossStep = 0;  // the step that computes the loss; steps.size() if none
  backends::Operand loss;
};

Status Executor::Impl::bindCompute(const plan::Step& step, backends::Backend& backend) {
  backends::KernelSpec spec;
  spec.op = step.op;
  spec.name = step.name;
  ir::Attrs attrs = step.attrs;
  if (const std::string_view axis = ir::textAttr(attrs, "axis"); !axis.empty())
    attrs["first"] = ir::intAttr(attrs, "first") +
                     plan->mesh.coordinate(rank, axis) * ir::intAttr(attrs, "stride");
  spec.attrs = &attrs;
  for (plan::BufferId id : step.inputs) spec.inputs.push_back(operand(id));
  for (plan::BufferId id : step.outputs) spec.outputs.push_back(operand(id));
  spec.predictedSeconds = step.seconds;
  LOCKSTEP_ASSIGN(auto kernel, backend.bind(spec));
  workspaceBytes += kernel->workspaceBytes();
  BoundStep bound;
  bound.kernel = kernel.get();
  bound.op = step.op;
  bound.phase = step.phase;
  bound.account = accountOf(step);
  kernels.push_back(std::move(kernel));
  steps.push_back(std::move(bound));
  return {};
}

Status Executor::Impl::bindCollective(const plan::Step& step) {
  comm::Communicator* const group = groups.along(step.axis);
  const int size = plan->mesh.axisSize(step.axis);
  if (group == nullptr || group->size() != size)
    return makeError(Code::kFailedPrecondition,
                     "step {} is for a group of {} ranks along axis {}, and this rank's has {}",
                     step.name, size, step.axis, group == nullptr ? 1 : group->size());
  const bool ofRows = step.op == ir::Op::kSendRows || step.op == ir::Op::kRecvRows;
  LOCKSTEP_CHECK(step.inputs.size() <= (ofRows ? 2 : 1) &&
                 step.inputs.size() + step.outputs.size() > 0);
  const backends::Operand out = operand(step.outputs.empty() ? step.inputs[0] : step.outputs[0]);
  const backends::Operand in = step.inputs.empty() ? out : operand(step.inputs[0]);
  BoundStep bound;
  bound.group = group;
  bound.op = step.op;
  bound.phase = step.phase;
  bound.in = in.data;
  bound.out = out.data;
  bound.count = in.type.count();
  bound.bytes = step.bytes;
  bound.dtype = in.type.dtype;
  bound.reduce =
      ir::textAttr(step.attrs, "op", "sum") == "max" ? comm::ReduceOp::kMax : comm::ReduceOp::kSum;
  const bool toPeers = plan::isSend(step), fromPeers = plan::isMessage(step) && !toPeers;
  bound.messageBytes = in.type.bytes();
  const plan::Peers peers = plan::peersOf(step, copy);
  bound.root = peers.count > 0 ? peers.first : static_cast<int>(ir::intAttr(step.attrs, "root"));
  bound.peers = peers.count;
  if (ofRows) {
    bound.rows = in.type.shape[0];
    bound.rowBytes = bound.messageBytes / bound.rows;
    bound.counts =
        static_cast<std::int32_t*>(operand((toPeers ? step.inputs : step.outputs)[1]).data);
    bound.part = static_cast<int>(ir::intAttr(step.attrs, "part"));
  }
  const bool isOfTwo = step.op == ir::Op::kSend || step.op == ir::Op::kRecv;
  if (isOfTwo && device != nullptr) bound.devices = groups.devicesAlong(step.axis);
  for (int peer = 0; toPeers && bound.devices == nullptr && peer < bound.peers; ++peer) {
    if (peer == 0) {
      bound.message = messages.size();
      bound.head = heads.size();
    }
    if (ofRows) {
      heads.push_back(0);
      messages.push_back({&heads.back(), sizeof heads.back(), bound.root + peer});
      groups.sender()->prepare(messages.back());
    }
    messages.push_back({in.data, bound.messageBytes, bound.root + peer});
    groups.sender()->prepare(messages.back());
  }
  if (step.op == ir::Op::kRecvSum) {
    const backends::Operand scratch = operand(step.outputs[1]);
    if (scratch.type != out.type || scratch.data == out.data)
      return makeError(Code::kInternal, "step {} adds up in memory of another type", step.name);
    bound.in = scratch.data;
  }
  bound.drains = !toPeers && !fromPeers && step.axis == plan->mesh.messageAxis();
  bound.cuts = ir::listAttr(step.attrs, "cuts");
  const bool byDevices = step.op == ir::Op::kAllReduce || step.op == ir::Op::kReduceScatter ||
                         step.op == ir::Op::kAllGather || step.op == ir::Op::kAllToAll ||
                         step.op == ir::Op::kBroadcast;
  if (byDevices && device != nullptr) bound.devices = groups.devicesAlong(step.axis);
  if (step.op == ir::Op::kAllReduce && bound.devices == nullptr) {
    const auto algorithm = ir::algorithmFromName(ir::textAttr(step.attrs, "algorithm", "direct"));
    bound.exchanges = plan::exchanges(*algorithm, group->rank(), size, bound.count,
                                      ir::listAttr(step.attrs, "hosts"));
    const auto bytes = static_cast<std::size_t>(stagingBytes(bound.exchanges, bound.dtype));
    bound.staging = &staging[static_cast<std::size_t>(step.stream)];
    if (bytes > bound.staging->size()) {
      workspaceBytes += static_cast<std::int64_t>(bytes - bound.staging->size());
      bound.staging->resize(bytes);
    }
  }
  bound.account = accountOf(step);
  if ((step.op == ir::Op::kAllReduce || step.op == ir::Op::kBroadcast) && in.data != out.data)
    return makeError(Code::kInternal, "step {}: {} is not in place", step.name,
                     ir::info(step.op).name);
  const bool needsCuts = step.op == ir::Op::kReduceScatter || step.op == ir::Op::kAllGather;
  if (needsCuts && bound.cuts.size() != static_cast<std::size_t>(group->size()) + 1)
    return makeError(Code::kFailedPrecondition, "step {} has {} cut-points for a group of {} ranks",
                     step.name, bound.cuts.size(), group->size());
  steps.push_back(std::move(bound));
  return {};
}

// Binds the asynchronous collectives and what each step waits for. They run in step order, so the
// last one that a step names covers all.
void Executor::Impl::bindOrder() {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    BoundStep& bound = steps[i];
    if (body->steps[i].stream == plan::kComputeStream) {
      for (const plan::StepId before : body->steps[i].after)
        bound.awaited = std::max(bound.awaited, steps[static_cast<std::size_t>(before)].async);
      continue;
    }
    bound.async = static_cast<int>(asyncCollectives.size());
    asyncCollectives.push_back({bound.group, [this, &bound] { return collective(bound); }});
    groups.asyncCollectives().prepare();
  }
}

Status Executor::Impl::bindDevice(std::string_view program) {
  mirrors.emplace(*device);
  for (std::size_t i = 0; i < body->buffers.size(); ++i) {
    const plan::Buffer& buffer = body->buffers[i];
    if (buffer.kind != plan::BufferKind::kInput || buffer.base >= 0) continue;
    const backends::Operand there = operand(static_cast<plan::BufferId>(i));
    LOCKSTEP_ASSIGN(inputs[buffer.name], plan::isOfSamples(buffer) ? mirrors->addAhead(there)
                                                                   : mirrors->addInput(there));
  }
  for (const plan::ResultSlot& slot : body->results) {
    LOCKSTEP_ASSIGN(results[slot.name], mirrors->addResult(operand(slot.buffer)));
  }
  LOCKSTEP_TRY(mirrors->prepare());
  workspaceBytes += mirrors->waitingBytes();
  LOCKSTEP_TRY(bindMessages(program));
  for (const MessagesOf& messages : scheduled.messages) {
    LOCKSTEP_ASSIGN(auto run, bindDeviceRun(messages));
    scheduled.runs.push_back(std::move(run));
  }
  spans.reserve(steps.size());
  return {};
}

std::size_t Executor::Impl::deviceRunOf(MessagesOf messages) {
  const auto known = std::find(scheduled.messages.begin(), scheduled.messages.end(), messages);
  if (known != scheduled.messages.end())
    return static_cast<std::size_t>(known - scheduled.messages.begin());
  scheduled.messages.push_back(std::move(messages));
  return scheduled.messages.size() - 1;
}

Status Executor::Impl::bindMessages(std::string_view program) {
  if (groups.devicesAlong(plan->mesh.messageAxis()) == nullptr) {
    scheduled.alone = deviceRunOf({});
    return {};
  }
  const auto stages = static_cast<std::size_t>(plan->mesh.stages());
  const auto stage = static_cast<std::size_t>(plan->stageOf(rank));
  // Entries of this program and copy.
  const auto bindSchedule = [&](const std::vector<std::vector<plan::ScheduleEntry>>& schedule,
                                std::vector<std::size_t>& runOf) -> Status {
    LOCKSTEP_ASSIGN(const auto order, plan::messageOrder(*plan, schedule, rank));
    const std::vector<plan::ScheduleEntry>& entries = schedule[stage];
    runOf.resize(entries.size());
    for (std::size_t p = 0; p < entries.size(); ++p) {
      if (entries[p].program != program || entries[p].copy != copy) continue;
      MessagesOf messages;
      for (const plan::MessageGroup& group : order[p]) {
        MessageGroupOf& one =
            messages.emplace_back(MessageGroupOf{group.before, group.awaited, {}});
        for (const auto& [of, at] : group.messages) {
          const plan::ScheduleEntry& from = entries[static_cast<std::size_t>(of)];
          const plan::Body& its = *plan->find(from.program, rank);
          const plan::Step& step = its.steps[static_cast<std::size_t>(at)];
          const plan::BufferId buffer = plan::isSend(step) ? step.inputs[0] : step.outputs[0];
          one.messages.push_back({plan::isSend(step), address(its, from.copy, buffer),
                                  its.buffers[static_cast<std::size_t>(buffer)].type.bytes(),
                                  plan::peersOf(step, from.copy).first});
        }
      }
      runOf[p] = deviceRunOf(std::move(messages));
    }
    return {};
  };
  const auto isOf = [&](const plan::ScheduleEntry& entry) {
    return entry.program == program && entry.copy == copy;
  };
  if (const auto& entries = plan->schedule[stage];
      std::any_of(entries.begin(), entries.end(), isOf))
    LOCKSTEP_TRY(bindSchedule(plan->schedule, scheduled.runOf[0]));
  if (plan->uncompressedWarmupSteps > 0) {
    const auto uncompressed = plan->uncompressedSchedule();
    if (std::any_of(uncompressed[stage].begin(), uncompressed[stage].end(), isOf))
      LOCKSTEP_TRY(bindSchedule(uncompressed, scheduled.runOf[1]));
  }
  if (!scheduled.runOf[0].empty() || !scheduled.runOf[1].empty()) return {};
  std::vector<std::size_t> only;
  LOCKSTEP_TRY(bindSchedule(
      std::vector(stages, std::vector<plan::ScheduleEntry>{{std::string(program), 0, copy}}),
      only));
  scheduled.alone = only.front();
  return {};
}

// A collective that the host runs in memory of its own is synchronous: asynchronous ones merely
// complete earlier.
Result<std::unique_ptr<DeviceRun>> Executor::Impl::bindDeviceRun(const MessagesOf& messages) {
  auto run = std::make_unique<DeviceRun>(*device, &*mirrors);
  auto next = messages.begin();
  const auto addMessages = [&](std::size_t before) {
    for (; next != messages.end() && static_cast<std::size_t>(next->before) == before; ++next)
      run->addMessages([group = groups.devicesAlong(plan->mesh.messageAxis()),
                        given = next->messages] { group->exchange(given); },
                       next->awaited);
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    BoundStep& bound = steps[i];
    addMessages(i);
    for (const plan::StepId before : body->steps[i].after)
      run->await(static_cast<std::size_t>(before));
    if (bound.devices != nullptr && bound.op == ir::Op::kSend) {
      run->addPosted();
      continue;
    }
    if (bound.devices != nullptr && bound.op == ir::Op::kRecv) {
      run->addReceived();
      continue;
    }
    if (bound.devices != nullptr) {
      run->addExchange([&bound] { giveToDevices(bound); },
                       body->steps[i].stream != plan::kComputeStream);
      continue;
    }
    if (bound.kernel != nullptr) {
      run->addKernel(*bound.kernel, bound.account);
      continue;
    }
    const plan::Step& step = body->steps[i];
    // The step holds the operands' addresses, so only one run may contain it.
    if (scheduled.messages.size() > 1)
      return makeError(Code::kInternal,
                       "{} would run on the host in a program that has runs of several kinds",
                       step.name);
    std::vector<DeviceRun::Staged> staged;
    // counts all rows that fit: the actual number is not known in advance
    if (bound.counts != nullptr) {
      const bool sends = plan::isSend(step);
      for (const plan::BufferId id : sends ? step.inputs : step.outputs)
        staged.push_back({operand(id), sends, !sends});
      LOCKSTEP_ASSIGN(const std::vector<void*> places, run->addCollective(staged));
      bound.in = bound.out = places[0];
      bound.counts = static_cast<std::int32_t*>(places[1]);
      continue;
    }
    // An all-gather's part may alias the beginning of its output; a reduce-scatter's input must not
    // alias its part.
    const bool inPlace = bound.in == bound.out && (step.inputs.empty() || step.outputs.empty() ||
                                                   operand(step.inputs[0]).type.bytes() <=
                                                       operand(step.outputs[0]).type.bytes());
    if (!inPlace || step.outputs.empty())
      staged.push_back({operand(step.inputs.empty() ? step.outputs[1] : step.inputs[0]),
                        !step.inputs.empty(), false});
    if (!step.outputs.empty())
      staged.push_back({operand(step.outputs[0]), inPlace && !step.inputs.empty(), true});
    LOCKSTEP_ASSIGN(const std::vector<void*> places, run->addCollective(staged));
    bound.in = places.front();
    bound.out = places.back();
    for (int peer = 0; plan::isSend(step) && peer < bound.peers; ++peer)
      this->messages[bound.message + static_cast<std::size_t>(peer)].data = bound.in;
  }
  addMessages(steps.size());
  LOCKSTEP_TRY(run->capture());
  return run;
}

void Executor::Impl::giveToDevices(const BoundStep& step) {
  device::Group& group = *step.devices;
  const auto reduce =
      step.reduce == comm::ReduceOp::kMax ? device::Reduce::kMax : device::Reduce::kSum;
  switch (step.op) {
    case ir::Op::kAllReduce:
      return group.allReduce(step.out, step.count, step.dtype, reduce);
    case ir::Op::kReduceScatter:
      return group.reduceScatter(step.in, step.out, step.cuts, step.dtype, reduce);
    case ir::Op::kAllGather:
      return group.allGather(step.in, step.out, step.cuts, step.dtype);
    case ir::Op::kAllToAll:
      return group.allToAll(step.in, step.out, step.messageBytes / group.size());
    case ir::Op::kBroadcast:
      return group.broadcast(step.out, step.messageBytes, step.root);
    default:
      LOCKSTEP_CHECK(false, "{} does not run on devices", ir::info(step.op).name);
  }
}

Status Executor::Impl::runOnDevice(std::int64_t step, std::vector<plan::Event>* events,
                                   ScheduleIndex index, const std::function<Status()>& meanwhile) {
  Breakdown spent;
  spans.clear();
  const std::vector<std::size_t>& runOf = scheduled.runOf[index.uncompressed ? 1 : 0];
  const bool isScheduled = index.entry >= 0 && !runOf.empty();
  DeviceRun& run =
      *scheduled.runs[isScheduled ? runOf[static_cast<std::size_t>(index.entry)] : scheduled.alone];
  const auto collectively = [&](std::size_t i) { return collective(steps[i]); };
  LOCKSTEP_TRY(
      named(run.run(collectively, meanwhile, spent, events == nullptr ? nullptr : &spans), step));
  const std::size_t recorded = events == nullptr ? 0 : events->size();
  for (std::size_t i = 0; events != nullptr && i < steps.size(); ++i) {
    plan::Event event;
    event.rank = rank;
    event.step = step;
    event.planStep = static_cast<plan::StepId>(recorded + i);
    event.kind =
        steps[i].kernel == nullptr ? plan::EventKind::kTransfer : plan::EventKind::kCompute;
    event.phase = steps[i].phase;
    event.asynchronous =
        steps[i].devices != nullptr && body->steps[i].stream != plan::kComputeStream;
    event.begin = spans[i].begin;
    event.end = spans[i].end;
    event.bytes = steps[i].bytes;
    events->push_back(event);
  }
  last = spent;
  return {};
}

Status Executor::Impl::named(Status status, std::int64_t step) const {
  if (!status.ok()) {
    status.error().rank = rank;
    status.error().step = step;
  }
  return status;
}

Status Executor::Impl::collective(const BoundStep& step) {
  Sender* const sender = groups.sender();
  switch (step.op) {
    case ir::Op::kSend:
    case ir::Op::kMulticast:
      for (int peer = 0; peer < step.peers; ++peer)
        sender->post(messages[step.message + static_cast<std::size_t>(peer)]);
      return {};
    case ir::Op::kSendRows:
      return sendRows(step);
    case ir::Op::kRecvRows:
      return recvRows(step);
    case ir::Op::kRecv:
      return step.group->recv(step.out, step.messageBytes, step.root, 0);
    case ir::Op::kRecvSum:
      LOCKSTEP_TRY(step.group->recv(step.out, step.messageBytes, step.root, 0));
      for (int peer = 1; peer < step.peers; ++peer) {
        LOCKSTEP_TRY(step.group->recv(step.in, step.messageBytes, step.root + peer, 0));
        const std::array inputs{static_cast<const std::byte*>(step.out),
                                static_cast<const std::byte*>(step.in)};
        comm::reduceArrays(static_cast<std::byte*>(step.out), inputs, step.count, step.dtype,
                           comm::ReduceOp::kSum);
      }
      return {};
    default:
      break;
  }
  if (step.drains) LOCKSTEP_TRY(sender->drain());
  switch (step.op) {
    case ir::Op::kAllReduce:
      if (!step.exchanges.empty())
        return allReduce(*step.group, step.exchanges, step.out, step.dtype, step.reduce,
                         *step.staging);
      return step.group->allReduce(step.out, step.count, step.dtype, step.reduce);
    case ir::Op::kReduceScatter:
      return step.group->reduceScatter(step.in, step.out, step.cuts, step.dtype, step.reduce);
    case ir::Op::kAllGather:
      return step.group->allGather(step.in, step.out, step.cuts, step.dtype);
    case ir::Op::kAllToAll:
      return step.group->allToAll(step.in, step.out, step.messageBytes / step.group->size());
    case ir::Op::kBroadcast:
      return step.group->broadcast(
          step.out, step.count * static_cast<std::int64_t>(sizeOf(step.dtype)), step.root);
    default:
      LOCKSTEP_CHECK(false, "{} is no collective", ir::info(step.op).name);
  }
}

Status Executor::Impl::sendRows(const BoundStep& step) {
  std::int64_t row = 0;
  for (int part = 0; part < step.part; ++part) row += step.counts[part];
  moved = 0;
  for (int peer = 0; peer < step.peers; ++peer) {
    const std::int64_t count = step.counts[step.part + peer];
    if (count < 0 || row + count > step.rows)
      return makeError(Code::kInternal, "rows {} to {} of {}", row, row + count, step.rows);
    const auto index = static_cast<std::size_t>(peer);
    heads[step.head + index] = static_cast<std::int32_t>(count);
    Sender::Message &head = messages[step.message + 2 * index],
                    &rows = messages[step.message + 2 * index + 1];
    groups.sender()->post(head);
    rows.data = static_cast<const std::byte*>(step.in) + row * step.rowBytes;
    rows.bytes = count * step.rowBytes;
    if (count > 0) groups.sender()->post(rows);
    moved += head.bytes + rows.bytes;
    row += count;
  }
  return {};
}

Status Executor::Impl::recvRows(const BoundStep& step) {
  std::int64_t row = 0;
  moved = 0;
  for (int peer = 0; peer < step.peers; ++peer) {
    std::int32_t count = 0;
    LOCKSTEP_TRY(step.group->recv(&count, sizeof count, step.root + peer, 0));
    if (count < 0 || row + count > step.rows)
      return makeError(Code::kDataLoss, "{} rows come from coordinate {}, where {} more have room",
                       count, step.root + peer, step.rows - row);
    if (count > 0)
      LOCKSTEP_TRY(step.group->recv(static_cast<std::byte*>(step.out) + row * step.rowBytes,
                                    count * step.rowBytes, step.root + peer, 0));
    step.counts[peer] = count;
    row += count;
    moved += static_cast<std::int64_t>(sizeof count) + count * step.rowBytes;
  }
  if (step.dtype == DType::kI32)
    std::fill(static_cast<std::int32_t*>(step.out) + row * step.rowBytes / 4,
              static_cast<std::int32_t*>(step.out) + step.count, -1);
  return {};
}

// Binds the value named "loss": this rank's contribution to it.
void Executor::Impl::bindLoss() {
  lossStep = steps.size();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kernel == nullptr || body->steps[i].phase != ir::Phase::kForward) continue;
    for (const plan::BufferId id : body->steps[i].outputs)
      if (buffer(id).name == "loss" && buffer(id).type.count() == 1) {
        lossStep = i;
        loss = operand(id);
      }
  }
}

// Returns the first non-finite element of a buffer that a step reads or writes, by its display
// name; for a group, the member.
std::optional<NonFiniteTensor> Executor::Impl::lookAt(plan::BufferId id, std::size_t step) const {
  const std::int64_t at = runtime::firstNonFinite(bytesOf(id), buffer(id).type.dtype);
  if (at < 0) return std::nullopt;
  const std::byte* const place =
      address(id) + at * static_cast<std::int64_t>(sizeOf(buffer(id).type.dtype));
  plan::BufferId named = id;
  for (std::size_t i = 0; i < body->buffers.size(); ++i) {
    const auto view = static_cast<plan::BufferId>(i);
    if (rootOf(view) != rootOf(id) || buffer(view).type.bytes() >= buffer(named).type.bytes())
      continue;
    if (place >= address(view) && place < address(view) + buffer(view).type.bytes()) named = view;
  }
  const std::string& name = buffer(named).name;
  const auto isMemberOf = [&](const plan::StateSlot& slot, plan::StateRole role) {
    return slot.role == role &&
           std::any_of(slot.members.begin(), slot.members.end(),
                       [&](const auto& member) { return member.name == name; });
  };
  for (const plan::StateSlot& slot : plan->state)
    if (isMemberOf(slot, plan::StateRole::kParameters) ||
        isMemberOf(slot, plan::StateRole::kStatistics))
      return NonFiniteTensor{orderOf(step), stateTensorText(slot, name)};
  const bool isInput = buffer(rootOf(id)).kind == plan::BufferKind::kInput ||
                       body->steps[step].phase == ir::Phase::kData;
  return NonFiniteTensor{orderOf(step),
                         fmt::format("{} {}", isInput ? "input" : "activation", name)};
}

// Whether the buffer still holds the output of `step` after `last` has run.
bool Executor::Impl::isThere(plan::BufferId id, std::size_t step, std::size_t last) const {
  if (steps[step].async >= 0 && !groups.asyncCollectives().isDone(
                                    asyncCollectives[static_cast<std::size_t>(steps[step].async)]))
    return false;
  const std::byte* const begin = address(id);
  const std::byte* const end = begin + buffer(id).type.bytes();
  for (std::size_t i = step + 1; i <= last; ++i)
    for (const plan::BufferId later : body->steps[i].outputs)
      if (address(later) < end && begin < address(later) + buffer(later).type.bytes()) return false;
  return true;
}

std::optional<NonFiniteTensor> Executor::Impl::firstNonFinite(std::size_t last) const {
  for (std::size_t i = 0; i <= last; ++i) {
    const plan::Step& step = body->steps[i];
    for (const plan::BufferId id : step.inputs)
      if (buffer(rootOf(id)).kind != plan::BufferKind::kTemp)
        if (auto found = lookAt(id, i)) return found;
    if (step.op == ir::Op::kRecvRows) continue;  // the buffer may be larger than what was received
    for (const plan::BufferId id : step.outputs)
      if (isThere(id, i, last))
        if (auto found = lookAt(id, i)) return found;
  }
  return std::nullopt;
}

std::optional<NonFiniteTensor> Executor::firstNonFiniteKept() const {
  const Impl& self = *impl_;
  if (self.device != nullptr) return std::nullopt;
  for (std::size_t i = 0; i < self.steps.size(); ++i) {
    const plan::Step& step = self.body->steps[i];
    if (step.phase != ir::Phase::kForward) continue;
    for (const plan::BufferId id : step.outputs)
      if (self.isStash(self.buffer(self.rootOf(id)).name))
        if (auto found = self.lookAt(id, i)) {
          found->text = fmt::format("activation {}", step.name);
          return found;
        }
  }
  return std::nullopt;
}

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::bind(const plan::Plan& plan, std::string_view program,
                                                 int rank, backends::Backend& backend,
                                                 const Groups& groups, StateArena& state, int copy,
                                                 std::byte* arena) {
  const plan::Program* found = plan.find(program);
  if (found == nullptr) return invalidArgument("the plan has no program \"{}\"", program);
  if (rank < 0 || rank >= static_cast<int>(found->bodyOfRank.size()))
    return invalidArgument("rank {} is not in a plan for {} ranks", rank, found->bodyOfRank.size());
  auto impl = std::make_unique<Impl>();
  impl->body =
      &found->bodies[static_cast<std::size_t>(found->bodyOfRank[static_cast<std::size_t>(rank)])];
  impl->plan = &plan;
  impl->rank = rank;
  impl->groups = groups;
  if (arena == nullptr) {
    LOCKSTEP_ASSIGN(impl->ownArena, Arena::make(backend, impl->body->arenaBytes));
  }
  impl->arena = arena != nullptr ? arena : impl->ownArena->data();
  impl->device = backend.device();
  impl->state = &state;
  impl->copy = copy;
  impl->steps.reserve(impl->body->steps.size());
  for (const plan::Step& step : impl->body->steps) {
    Status bound = step.kind == plan::StepKind::kCollective ? impl->bindCollective(step)
                                                            : impl->bindCompute(step, backend);
    if (!bound.ok()) {
      bound.error().rank = rank;
      return bound.error();
    }
  }
  if (impl->device != nullptr) {
    LOCKSTEP_TRY(impl->named(impl->bindDevice(program), -1));
  } else {
    impl->bindOrder();
    impl->bindLoss();
  }
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

backends::Operand Executor::input(std::string_view name) {
  if (impl_->device != nullptr) {
    const auto at = impl_->inputs.find(name);
    return at == impl_->inputs.end() ? backends::Operand{} : at->second;
  }
  const auto& buffers = impl_->body->buffers;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].kind == plan::BufferKind::kInput && buffers[i].name == name)
      return impl_->operand(static_cast<plan::BufferId>(i));
  return {};
}

backends::Operand Executor::result(std::string_view name) {
  if (impl_->device != nullptr) {
    const auto at = impl_->results.find(name);
    return at == impl_->results.end() ? backends::Operand{} : at->second;
  }
  for (const plan::ResultSlot& slot : impl_->body->results)
    if (slot.name == name) return impl_->operand(slot.buffer);
  return {};
}

void Executor::beginSamples() {
  if (impl_->mirrors) impl_->mirrors->awaitPlaces();
}
void Executor::endSamples() {
  if (impl_->mirrors) impl_->mirrors->send();
}

Status Executor::awaitSent(std::int64_t step) {
  for (const Sender::Message& message : impl_->messages)
    LOCKSTEP_TRY(impl_->named(impl_->groups.sender()->wait(message), step));
  return {};
}

Status Executor::run(std::int64_t step, std::vector<plan::Event>* events, ScheduleIndex index,
                     const std::function<Status()>& meanwhile) {
  Impl& self = *impl_;
  const FlushSubnormals flushed;
  const Nanoseconds begin = monotonicNow();
  LOCKSTEP_TRY(awaitSent(step));
  if (self.device != nullptr) return self.runOnDevice(step, events, index, meanwhile);
  nonFinite_.reset();
  const std::size_t watched = watches_ ? self.lossStep : self.steps.size();
  Breakdown spent;
  // Reads the clock where the account changes, and around every step if events are wanted.
  double Breakdown::*account = nullptr;
  Nanoseconds since = monotonicNow();
  if (!self.messages.empty()) spent.communication += static_cast<double>(since - begin) * 1e-9;
  const auto charge = [&](double Breakdown::*to) {
    const Nanoseconds now = monotonicNow();
    if (account != nullptr) spent.*account += static_cast<double>(now - since) * 1e-9;
    since = now;
    account = to;
  };
  // Waits for the collective and all asynchronous ones before it.
  const auto await = [&](int async) {
    const AsyncCollectives::Collective& collective =
        self.asyncCollectives[static_cast<std::size_t>(async)];
    if (!self.groups.asyncCollectives().isDone(collective)) charge(&Breakdown::communication);
    return self.named(self.groups.asyncCollectives().wait(collective), step);
  };
  const std::size_t recorded = events == nullptr ? 0 : events->size();
  for (std::size_t i = 0; i < self.steps.size(); ++i) {
    const BoundStep& bound = self.steps[i];
    const bool isCollective = bound.kernel == nullptr;
    if (bound.awaited >= 0) LOCKSTEP_TRY(await(bound.awaited));
    if (bound.async < 0 && (bound.account != account || events != nullptr)) charge(bound.account);
    if (isCollective && spent.firstCollective == 0) spent.firstCollective = monotonicNow();
    if (bound.async >= 0)
      self.groups.asyncCollectives().post(
          self.asyncCollectives[static_cast<std::size_t>(bound.async)]);
    else if (isCollective)
      LOCKSTEP_TRY(self.named(self.collective(bound), step));
    else
      bound.kernel->run();
    if (i == watched && !std::isfinite(readFloat(self.loss, 0)))
      nonFinite_ = self.firstNonFinite(i);
    if (events != nullptr) {
      plan::Event event;
      event.rank = self.rank;
      event.step = step;
      event.planStep = static_cast<plan::StepId>(recorded + i);
      event.kind = isCollective ? plan::EventKind::kTransfer : plan::EventKind::kCompute;
      event.phase = bound.phase;
      event.begin = since;
      event.end = monotonicNow();
      event.asynchronous = bound.async >= 0;
      event.bytes = bound.counts != nullptr ? self.moved : bound.bytes;
      events->push_back(event);
    }
  }
  if (!self.asyncCollectives.empty())
    LOCKSTEP_TRY(await(static_cast<int>(self.asyncCollectives.size()) - 1));
  charge(nullptr);
  for (std::size_t i = 0; events != nullptr && i < self.steps.size(); ++i) {
    if (self.steps[i].async < 0) continue;
    const AsyncCollectives::Collective& collective =
        self.asyncCollectives[static_cast<std::size_t>(self.steps[i].async)];
    (*events)[recorded + i].begin = collective.begin;
    (*events)[recorded + i].end = collective.end;
  }
  self.last = spent;
  return {};
}

const Breakdown& Executor::last() const { return impl_->last; }
std::int64_t Executor::boundBytes() const {
  return (impl_->ownArena ? impl_->body->arenaBytes : 0) + impl_->workspaceBytes;
}
std::size_t Executor::steps() const { return impl_->steps.size(); }
const plan::Body& Executor::body() const { return *impl_->body; }

}  // namespace lockstep::runtime
