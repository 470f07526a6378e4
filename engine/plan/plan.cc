#include "engine/plan/plan.h"

namespace lockstep::plan {

const Program* Plan::find(std::string_view program) const {
  for (const Program& candidate : programs) {
    if (candidate.name == program) return &candidate;
  }
  return nullptr;
}

std::vector<Play> Plan::plays() const {
  std::vector<Play> plays;
  for (int micro = 0; micro < microBatches; ++micro) plays.push_back({find("step"), micro});
  if (microBatches > 1) plays.push_back({find("update"), 0});
  std::erase_if(plays, [](const Play& play) { return play.program == nullptr; });
  return plays;
}

std::int64_t Plan::groupCount(const StateSlot& slot) const {
  return slot.type.count() * mesh.axisSize(slot.axis);
}

std::int64_t Plan::memberCount(const StateSlot::Member& member) const {
  return elementCount(member.shape) / mesh.axisSize(member.axis);
}

std::int64_t Plan::logicalStateBytes() const {
  std::int64_t bytes = 0;
  for (const StateSlot& slot : state) {
    for (const StateSlot::Member& member : slot.members) {
      bytes += elementCount(member.shape) * static_cast<std::int64_t>(sizeOf(slot.type.dtype));
    }
  }
  return bytes;
}

bool Plan::operator==(const Plan& other) const {
  return name == other.name && strategy == other.strategy && mesh.text() == other.mesh.text() &&
         precision == other.precision && globalBatch == other.globalBatch &&
         microBatches == other.microBatches &&
         batchCuts == other.batchCuts && evaluateCuts == other.evaluateCuts &&
         state == other.state && stateBytes == other.stateBytes && programs == other.programs;
}

std::string_view eventKindName(EventKind kind) {
  switch (kind) {
    case EventKind::kCompute: return "compute";
    case EventKind::kWaiting: return "waiting";
    case EventKind::kTransfer: return "transfer";
    case EventKind::kData: return "data";
  }
  return "unknown";
}

}  // namespace lockstep::plan
