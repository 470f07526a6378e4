// A program bound to one rank's memory: private to the executor's sources.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/all_reduce.h"
#include "engine/runtime/device_run.h"
#include "engine/runtime/executor.h"

namespace lockstep::runtime {

// The messages issued before each step of a device run, resolved to addresses.
struct MessageGroupOf {
  plan::StepId before = 0;
  bool awaited = false;
  std::vector<device::Group::Message> messages;
  const plan::Step* step = nullptr;  // that names them: the first receive, else the first send
  bool operator==(const MessageGroupOf& other) const {
    return before == other.before && awaited == other.awaited && messages == other.messages;
  }
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
  std::vector<std::size_t> messageSteps;  // by message: the step that sends it
  std::deque<std::int32_t> heads;         // row counts of messages of rows
  std::int64_t moved = 0;                 // bytes of the last message
  std::vector<std::unique_ptr<backends::Kernel>> kernels;
  std::vector<BoundStep> steps;
  Breakdown last;
  std::int64_t workspaceBytes = 0;
  std::array<std::vector<std::byte>, plan::kStreams>
      staging;  // shared by the all-reduces of a stream
  std::deque<AsyncCollectives::Collective> asyncCollectives;
  std::vector<std::size_t> asyncSteps;  // index among `steps` of each
  device::Device* device = nullptr;     // null: host memory
  // Device runs by their messages; schedule entries with the same messages share a run.
  struct ScheduledRuns {
    std::vector<MessagesOf> messages;
    std::vector<std::unique_ptr<DeviceRun>> runs;
    std::vector<DeviceCourse> courses;  // of each
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
  void bindSends(const backends::Operand& in, BoundStep& bound);
  void bindAllReduce(const plan::Step& step, BoundStep& bound);
  static Status checkCollective(const plan::Step& step, const backends::Operand& in,
                                const backends::Operand& out, const BoundStep& bound);
  Status bindDevice(std::string_view program);
  Status bindMessages(std::string_view program);
  std::size_t deviceRunOf(MessagesOf messages);  // index into scheduled.runs
  Result<std::unique_ptr<DeviceRun>> bindDeviceRun(const MessagesOf& messages);
  DeviceCourse courseOf(const MessagesOf& messages) const;
  static void giveToDevices(const BoundStep& step);
  Status runOnDevice(std::int64_t step, std::vector<plan::Event>* events, ScheduleIndex index,
                     const std::function<Status()>& meanwhile);
  void bindOrder();
  Status collective(const BoundStep& step);
  Status named(Status status, std::int64_t step) const;
  // The event of a step that has begun: nothing has been transferred yet.
  plan::Event eventOf(std::size_t i, std::int64_t step, std::size_t recorded, Nanoseconds at) const;
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

}  // namespace lockstep::runtime
