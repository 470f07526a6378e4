#include "engine/planner/pipeline.h"

#include <algorithm>
#include <array>

namespace lockstep::planner {

std::span<const std::string_view> pipelineSchedules() {
  static constexpr std::array<std::string_view, 3> kSchedules{"1f1b", "gpipe", "zb-h1"};
  return kSchedules;
}

PipelineSchedule pipelineSchedule(std::string_view kind, int stages, int microBatches) {
  PipelineSchedule schedule;
  schedule.splitWeightGrad = kind == "zb-h1";
  for (int stage = 0; stage < stages; ++stage) {
    // So many micro-batches are ahead of the first backward pass; a stage's gradients of parameters
    // are `lag` micro-batches late, so that the stages before it get theirs sooner.
    const int ahead = kind == "gpipe" ? microBatches : std::min(stages - 1 - stage, microBatches);
    const int lag = stage;
    const int onTheWay = kind == "gpipe"            ? microBatches
                         : schedule.splitWeightGrad ? stages
                                                    : stages - stage;
    const int copies = std::min(onTheWay, microBatches);
    std::vector<plan::ScheduleEntry> entries;
    const auto add = [&](const char* program, int micro) {
      entries.push_back({program, micro, micro % copies});
    };
    int next = 0;
    while (next < ahead) add("forward", next++);
    for (int micro = 0; micro < microBatches; ++micro) {
      if (next < microBatches) add("forward", next++);
      add("backward", micro);
      if (schedule.splitWeightGrad && micro >= lag) add("weights", micro - lag);
    }
    for (int micro = std::max(0, microBatches - lag);
         schedule.splitWeightGrad && micro < microBatches; ++micro) {
      add("weights", micro);
    }
    entries.push_back({"update", 0, 0});
    schedule.entries.push_back(std::move(entries));
    schedule.copies.push_back(copies);
  }
  return schedule;
}

int copiesBetween(const PipelineSchedule& schedule, int stage, int from, int to) {
  constexpr std::array<std::string_view, 3> kPrograms{"forward", "backward", "weights"};
  const int copies = schedule.copies[static_cast<std::size_t>(stage)];
  int now = 0, most = 1;
  for (const plan::ScheduleEntry& entry : schedule.entries[static_cast<std::size_t>(stage)]) {
    if (entry.program == kPrograms[static_cast<std::size_t>(from)]) most = std::max(most, ++now);
    if (entry.program == kPrograms[static_cast<std::size_t>(to)]) --now;
  }
  while (copies % most != 0) ++most;
  return most;
}

}  // namespace lockstep::planner
