#include "engine/plan/inputs.h"

#include <set>
#include <utility>

namespace lockstep::plan {

std::int64_t waitingSampleBytes(const Plan& plan, int rank) {
  std::set<std::pair<std::string_view, int>> known;  // program and copy, each bound once
  std::int64_t bytes = 0;
  const auto add = [&](std::string_view program, int copy) {
    const Body* const body = plan.find(program, rank);
    if (body == nullptr || !known.emplace(program, copy).second) return;
    for (const Buffer& buffer : body->buffers)
      if (buffer.kind == BufferKind::kInput && buffer.base < 0 && isOfSamples(buffer))
        bytes += buffer.type.bytes();
  };
  for (const ScheduleEntry& entry : plan.entriesOf(rank)) add(entry.program, entry.copy);
  add("evaluate", 0);
  return bytes;
}

}  // namespace lockstep::plan
