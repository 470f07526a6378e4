#include "engine/runtime/divergence.h"

#include <algorithm>

#include "engine/runtime/finite.h"

namespace lockstep::runtime {

FoundMessage messageOf(int rank, const std::optional<Found>& found) {
  FoundMessage out;
  out.rank = rank;
  if (!found) return out;
  out.step = found->step;
  out.order = found->tensor.order;
  const std::string& text = found->tensor.text;
  std::copy_n(text.begin(), std::min(text.size(), out.text.size() - 1), out.text.begin());
  return out;
}

Result<FoundMessage> firstFound(const FoundMessage& mine, const Groups& groups) {
  FoundMessage first = mine;
  for (const auto& [axis, group] : groups.all()) {
    std::vector<FoundMessage> all(static_cast<std::size_t>(group->size()));
    std::vector<std::int64_t> cuts;
    for (std::int64_t part = 0; part <= group->size(); ++part) cuts.push_back(part * kFoundWords);
    LOCKSTEP_TRY(group->allGather(&first, all.data(), cuts, DType::kI64));
    for (const FoundMessage& one : all) first = std::min(first, one);
  }
  return first;
}

std::optional<Found> stateNotFinite(const plan::Plan& plan, int rank, StateArena& state,
                                    std::int64_t step) {
  for (std::size_t s = 0; s < plan.state.size(); ++s) {
    const plan::StateSlot& slot = plan.state[s];
    if (slot.stage != plan.stageOf(rank)) continue;
    const std::int64_t held =
        slot.axis.empty() ? 0 : plan.mesh.coordinate(rank, slot.axis) * slot.type.count();
    const auto size = static_cast<std::int64_t>(sizeOf(slot.type.dtype));
    for (const auto& member : slot.members) {
      const std::int64_t begin = std::max(member.element, held);
      const std::int64_t end =
          std::min(member.element + plan.memberCount(member), held + slot.type.count());
      if (begin >= end) continue;
      const std::span bytes(state.data() + slot.offset + (begin - held) * size,
                            static_cast<std::size_t>((end - begin) * size));
      if (firstNonFinite(bytes, slot.type.dtype) >= 0)
        return Found{step, {static_cast<std::int64_t>(s), stateTensorText(slot, member.name)}};
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::runtime
