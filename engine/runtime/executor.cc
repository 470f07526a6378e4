#include "engine/runtime/executor.h"

#include <algorithm>
#include <cmath>

#include "engine/base/subnormals.h"
#include "engine/comm/reduce.h"
#include "engine/plan/inputs.h"
#include "engine/runtime/all_reduce.h"
#include "engine/runtime/executor_impl.h"

namespace lockstep::runtime {

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
