// Finds the step of a program that made the first non-finite number.
#include <algorithm>

#include "engine/runtime/executor_impl.h"
#include "engine/runtime/finite.h"

namespace lockstep::runtime {

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

}  // namespace lockstep::runtime
