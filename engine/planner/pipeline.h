// Schedules of pipelines (1F1B, GPipe, ZB-H1): the ordered programs of a training step that each
// stage runs. The planner makes them, not a pass over graphs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/plan.h"

namespace lockstep::planner {

// "1f1b": as few micro-batches on the way as keep all stages at work (Narayanan et al.:
// "PipeDream", 2019); "gpipe": all forward, then all backward (Huang et al.: "GPipe", 2019);
// "zb-h1": as 1f1b, with the gradients of parameters where a stage would wait (Qi et al.: "Zero
// Bubble Pipeline Parallelism", 2023). The first is the default.
std::span<const std::string_view> pipelineSchedules();

struct PipelineSchedule {
  std::vector<std::vector<plan::ScheduleEntry>> entries;  // by stage; "update" is the last
  // by stage: micro-batches on the way at once, or more
  std::vector<int> copies;
  bool splitWeightGrad = false;  // whether program "weights" runs
};
// Precondition: `kind` is one of pipelineSchedules().
PipelineSchedule pipelineSchedule(std::string_view kind, int stages, int microBatches);

// The copies that a stage needs of what one of its programs "forward", "backward", "weights" (0, 1,
// 2) makes and another reads last: for the micro-batches between the two at once, in a number that
// divides its `copies`, so that ScheduleEntry::copy says which.
int copiesBetween(const PipelineSchedule& schedule, int stage, int from, int to);

}  // namespace lockstep::planner
