// Binding of a program: every step's operands, groups and messages are resolved before it runs.
#include <algorithm>

#include "engine/comm/reduce.h"
#include "engine/plan/inputs.h"
#include "engine/plan/message_order.h"
#include "engine/runtime/all_reduce.h"
#include "engine/runtime/executor_impl.h"

namespace lockstep::runtime {
namespace {

double Breakdown::*accountOf(const plan::Step& step) {
  if (step.kind == plan::StepKind::kCollective) return &Breakdown::communication;
  switch (step.phase) {
    case ir::Phase::kBackward:
      return &Breakdown::backward;
    case ir::Phase::kOptimizer:
    case ir::Phase::kWatch:
      return &Breakdown::optimizer;
    default:
      return &Breakdown::forward;
  }
}

}  // namespace

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

// The messages to a step's peers.
void Executor::Impl::bindSends(const backends::Operand& in, BoundStep& bound) {
  const std::size_t first = messages.size();
  for (int peer = 0; peer < bound.peers; ++peer) {
    if (peer == 0) {
      bound.message = messages.size();
      bound.head = heads.size();
    }
    if (bound.counts != nullptr) {
      heads.push_back(0);
      messages.push_back({&heads.back(), sizeof heads.back(), bound.root + peer});
      groups.sender()->prepare(messages.back());
    }
    messages.push_back({in.data, bound.messageBytes, bound.root + peer});
    groups.sender()->prepare(messages.back());
  }
  messageSteps.insert(messageSteps.end(), messages.size() - first, steps.size());
}

void Executor::Impl::bindAllReduce(const plan::Step& step, BoundStep& bound) {
  const auto algorithm = ir::algorithmFromName(ir::textAttr(step.attrs, "algorithm", "direct"));
  bound.exchanges = plan::exchanges(*algorithm, bound.group->rank(), bound.group->size(),
                                    bound.count, ir::listAttr(step.attrs, "hosts"));
  const auto bytes = static_cast<std::size_t>(stagingBytes(bound.exchanges, bound.dtype));
  bound.staging = &staging[static_cast<std::size_t>(step.stream)];
  if (bytes > bound.staging->size()) {
    workspaceBytes += static_cast<std::int64_t>(bytes - bound.staging->size());
    bound.staging->resize(bytes);
  }
}

Status Executor::Impl::checkCollective(const plan::Step& step, const backends::Operand& in,
                                       const backends::Operand& out, const BoundStep& bound) {
  if ((step.op == ir::Op::kAllReduce || step.op == ir::Op::kBroadcast) && in.data != out.data)
    return makeError(Code::kInternal, "step {}: {} is not in place", step.name,
                     ir::info(step.op).name);
  const bool needsCuts = step.op == ir::Op::kReduceScatter || step.op == ir::Op::kAllGather;
  if (needsCuts && bound.cuts.size() != static_cast<std::size_t>(bound.group->size()) + 1)
    return makeError(Code::kFailedPrecondition, "step {} has {} cut-points for a group of {} ranks",
                     step.name, bound.cuts.size(), bound.group->size());
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
  if (toPeers && bound.devices == nullptr) bindSends(in, bound);
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
  if (step.op == ir::Op::kAllReduce && bound.devices == nullptr) bindAllReduce(step, bound);
  bound.account = accountOf(step);
  LOCKSTEP_TRY(checkCollective(step, in, out, bound));
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
    asyncSteps.push_back(i);
    asyncCollectives.push_back({bound.group, [this, &bound, &planned = body->steps[i]] {
                                  const Activity::Thread thread = Activity::kCommunication;
                                  groups.activity().enter(thread, planned, 0);
                                  Status done = collective(bound);
                                  groups.activity().leave(thread);
                                  return done;
                                }});
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
    scheduled.courses.push_back(courseOf(messages));
    LOCKSTEP_CHECK(run->stops() + 1 == scheduled.courses.back().stops.size());
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
            messages.emplace_back(MessageGroupOf{group.before, group.awaited, {}, nullptr});
        for (const auto& [of, at] : group.messages) {
          const plan::ScheduleEntry& from = entries[static_cast<std::size_t>(of)];
          const plan::Body& its = *plan->find(from.program, rank);
          const plan::Step& step = its.steps[static_cast<std::size_t>(at)];
          const plan::BufferId buffer = plan::isSend(step) ? step.inputs[0] : step.outputs[0];
          if (one.step == nullptr || (plan::isSend(*one.step) && !plan::isSend(step)))
            one.step = &step;
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

}  // namespace lockstep::runtime
