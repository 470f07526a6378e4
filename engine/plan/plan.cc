#include "engine/plan/plan.h"

#include <algorithm>

namespace lockstep::plan {

Peers peersOf(const Step& step, int partner) {
  switch (step.op) {
    case ir::Op::kSend:
    case ir::Op::kRecv: {
      const auto peer = static_cast<int>(ir::intAttr(step.attrs, "peer"));
      return {peer == ir::kPartner ? partner : peer, 1};
    }
    case ir::Op::kMulticast:
    case ir::Op::kRecvSum:
      return {0, static_cast<int>(ir::intAttr(step.attrs, "count", -1))};
    case ir::Op::kSendRows:
    case ir::Op::kRecvRows: {
      const auto peer = static_cast<int>(ir::intAttr(step.attrs, "peer"));
      return {peer == ir::kPartner ? partner : peer,
              static_cast<int>(ir::intAttr(step.attrs, "count", -1))};
    }
    default:
      return {};
  }
}

bool isSend(const Step& step) {
  return step.op == ir::Op::kSend || step.op == ir::Op::kMulticast || step.op == ir::Op::kSendRows;
}
bool isMessage(const Step& step) {
  return isSend(step) || step.op == ir::Op::kRecv || step.op == ir::Op::kRecvSum ||
         step.op == ir::Op::kRecvRows;
}
const ir::TensorType& payload(const Body& body, const Step& step) {
  return body
      .buffers[static_cast<std::size_t>(step.inputs.empty() ? step.outputs[0] : step.inputs[0])]
      .type;
}

const Program* Plan::find(std::string_view program) const {
  for (const Program& candidate : programs) {
    if (candidate.name == program) return &candidate;
  }
  return nullptr;
}

const Body* Plan::find(std::string_view program, int rank) const {
  const Program* found = find(program);
  if (found == nullptr || rank < 0 || static_cast<std::size_t>(rank) >= found->bodyOfRank.size()) {
    return nullptr;
  }
  return &found
              ->bodies[static_cast<std::size_t>(found->bodyOfRank[static_cast<std::size_t>(rank)])];
}

std::vector<std::vector<ScheduleEntry>> Plan::uncompressedSchedule() const {
  std::vector<std::vector<ScheduleEntry>> out = schedule;
  for (std::vector<ScheduleEntry>& entries : out)
    for (ScheduleEntry& entry : entries)
      if (const std::string other = entry.program + std::string(kUncompressed);
          find(other) != nullptr)
        entry.program = other;
  return out;
}

std::string_view Plan::metric() const {
  constexpr std::string_view kPrefix = "metrics.";
  for (const Program& program : programs)
    for (const Body& body : program.bodies)
      for (const ResultSlot& result : body.results)
        if (result.name.starts_with(kPrefix))
          return std::string_view(result.name).substr(kPrefix.size());
  return {};
}

std::int64_t Plan::stateBytesOf(int rank) const {
  std::int64_t bytes = 0;
  for (const StateSlot& slot : state) {
    if (slot.stage != stageOf(rank)) continue;
    bytes = std::max(bytes, slot.offset + copyBytes(slot) * slot.copies);
  }
  return bytes;
}

std::int64_t Plan::arenaBytesOf(int rank) const {
  std::int64_t bytes = 0;
  for (const Program& program : programs) {
    if (std::find(kServerSession.begin(), kServerSession.end(), program.name) !=
        kServerSession.end())
      continue;
    const Body* body = find(program.name, rank);
    if (body != nullptr) bytes = std::max(bytes, body->arenaBytes);
  }
  return bytes;
}

const Body* Plan::reader(std::string_view input, int rank) const {
  for (const ScheduleEntry& entry : entriesOf(rank)) {
    const Body* body = find(entry.program, rank);
    if (body == nullptr) continue;
    for (const Buffer& buffer : body->buffers) {
      if (buffer.kind == BufferKind::kInput && buffer.name == input) return body;
    }
  }
  return nullptr;
}

std::int64_t Plan::groupCount(const StateSlot& slot) const {
  return slot.type.count() * mesh.axisSize(slot.axis);
}

std::int64_t Plan::memberCount(const StateSlot::Member& member) const {
  if (member.rows > 0) return elementCount(member.shape) / member.shape[0] * member.rows;
  return elementCount(member.shape) / mesh.axisSize(member.axis);
}

std::int64_t Plan::logicalStateBytes() const {
  std::int64_t bytes = 0;
  for (const StateSlot& slot : state) {
    for (const StateSlot::Member& member : slot.members) {
      const std::int64_t count = member.rows > 0 ? memberCount(member) : elementCount(member.shape);
      bytes += count * static_cast<std::int64_t>(sizeOf(slot.type.dtype));
    }
  }
  return bytes;
}

bool Plan::operator==(const Plan& other) const {
  return name == other.name && strategy == other.strategy && mesh.text() == other.mesh.text() &&
         precision == other.precision && globalBatch == other.globalBatch &&
         microBatches == other.microBatches &&
         uncompressedWarmupSteps == other.uncompressedWarmupSteps &&
         watchEvery == other.watchEvery && staleness == other.staleness &&
         batchCuts == other.batchCuts && evaluateCuts == other.evaluateCuts &&
         state == other.state && stateBytes == other.stateBytes && programs == other.programs &&
         schedule == other.schedule;
}

std::string_view eventKindName(EventKind kind) {
  switch (kind) {
    case EventKind::kCompute:
      return "compute";
    case EventKind::kWaiting:
      return "waiting";
    case EventKind::kTransfer:
      return "transfer";
    case EventKind::kData:
      return "data";
  }
  return "unknown";
}

}  // namespace lockstep::plan
