#include "engine/runtime/executor.h"

#include <cmath>

#include "engine/base/subnormals.h"
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

Status Executor::Impl::runOnDevice(std::int64_t step, std::vector<plan::Event>* events,
                                   ScheduleIndex index, const std::function<Status()>& meanwhile) {
  Breakdown spent;
  spans.clear();
  const std::vector<std::size_t>& runOf = scheduled.runOf[index.uncompressed ? 1 : 0];
  const bool isScheduled = index.entry >= 0 && !runOf.empty();
  const std::size_t which =
      isScheduled ? runOf[static_cast<std::size_t>(index.entry)] : scheduled.alone;
  DeviceRun& run = *scheduled.runs[which];
  Activity::OnDevice watched(groups.activity(), scheduled.courses[which], run.progress(), step);
  const bool isWatched = plan->isWatched(step);
  const auto collectively = [&](std::size_t i) {
    const bool skips = steps[i].phase == ir::Phase::kWatch && !isWatched;
    return skips ? Status() : collective(steps[i]);
  };
  const auto busily = [&]() -> Status {
    watched.setBusy(true);
    LOCKSTEP_TRY(meanwhile());
    watched.setBusy(false);
    return {};
  };
  LOCKSTEP_TRY(named(run.run(collectively, meanwhile ? busily : std::function<Status()>(), spent,
                             events == nullptr ? nullptr : &spans),
                     step));
  const std::size_t recorded = events == nullptr ? 0 : events->size();
  for (std::size_t i = 0; events != nullptr && i < steps.size(); ++i) {
    plan::Event event = eventOf(i, step, recorded, spans[i].begin);
    event.asynchronous =
        steps[i].devices != nullptr && body->steps[i].stream != plan::kComputeStream;
    event.end = spans[i].end;
    event.bytes = steps[i].bytes;
    events->push_back(event);
  }
  last = spent;
  return {};
}

plan::Event Executor::Impl::eventOf(std::size_t i, std::int64_t step, std::size_t recorded,
                                    Nanoseconds at) const {
  plan::Event event;
  event.rank = rank;
  event.step = step;
  event.planStep = static_cast<plan::StepId>(recorded + i);
  event.kind = steps[i].kernel == nullptr ? plan::EventKind::kTransfer : plan::EventKind::kCompute;
  event.phase = steps[i].phase;
  event.begin = event.end = at;
  return event;
}

Status Executor::Impl::named(Status status, std::int64_t step) const {
  if (!status.ok()) {
    status.error().rank = rank;
    status.error().step = step;
  }
  return status;
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
  for (std::size_t i = 0; i < impl_->messages.size(); ++i) {
    const Sender::Message& message = impl_->messages[i];
    if (!impl_->groups.sender()->isSent(message))
      impl_->groups.activity().enter(Activity::kTraining,
                                     impl_->body->steps[impl_->messageSteps[i]], step);
    LOCKSTEP_TRY(impl_->named(impl_->groups.sender()->wait(message), step));
  }
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
  Activity& activity = self.groups.activity();
  // Waits for the collective and all asynchronous ones before it.
  const auto await = [&](int async) {
    const AsyncCollectives::Collective& collective =
        self.asyncCollectives[static_cast<std::size_t>(async)];
    if (!self.groups.asyncCollectives().isDone(collective)) {
      charge(&Breakdown::communication);
      activity.enter(Activity::kTraining,
                     self.body->steps[self.asyncSteps[static_cast<std::size_t>(async)]], step);
    }
    return self.named(self.groups.asyncCollectives().wait(collective), step);
  };
  const std::size_t recorded = events == nullptr ? 0 : events->size();
  const bool isWatched = self.plan->isWatched(step);
  for (std::size_t i = 0; i < self.steps.size(); ++i) {
    const BoundStep& bound = self.steps[i];
    const bool isCollective = bound.kernel == nullptr;
    // Also for a step that is skipped: later ones count on it.
    if (bound.awaited >= 0) LOCKSTEP_TRY(await(bound.awaited));
    if (bound.phase == ir::Phase::kWatch && !isWatched) {
      if (events != nullptr) events->push_back(self.eventOf(i, step, recorded, since));
      continue;
    }
    activity.enter(Activity::kTraining, self.body->steps[i], step);
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
      plan::Event event = self.eventOf(i, step, recorded, since);
      event.end = monotonicNow();
      event.asynchronous = bound.async >= 0;
      event.bytes = bound.counts != nullptr ? self.moved : bound.bytes;
      events->push_back(event);
    }
  }
  if (!self.asyncCollectives.empty())
    LOCKSTEP_TRY(await(static_cast<int>(self.asyncCollectives.size()) - 1));
  activity.leave(Activity::kTraining);
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
