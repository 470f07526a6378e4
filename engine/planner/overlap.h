// Decides which collectives run asynchronously, overlapped with computation, and how far ahead
// sharded parameters are gathered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/plan.h"

namespace lockstep::planner {

// The policy for one program. A decision made for a collective in one body holds for the
// collectives of the same name in all other bodies, so that all ranks of a group issue it alike.
struct OverlapPolicy {
  // whether collectives along the axis may run asynchronously
  std::function<bool(std::string_view axis)> mayOverlap;
  double flopsPerSecond = 0, bytesPerSecond = 0;  // of the overlapped computation
  // Least computation between a collective and the first step that depends on it that pays for
  // waking the communication thread.
  double leastSeconds = 0;
  // The prefetch limit of ZeRO-3: gathered bytes of sharded parameters and gradients at any time;
  // 0: twice the peak of the synchronous schedule.
  std::int64_t gatheredBytes = 0;
  std::map<std::string, bool> decided;  // by the collective's name
};

// Sets the streams of collectives and adds dependencies. Gathers of sharded parameters (zero-3)
// move ahead of earlier steps, in their order, as far as gatheredBytes allows. A step waits for the
// latest asynchronous collective that conflicts with it: one with overlapping reads or writes, one
// along the same axis, or one that must complete to stay within gatheredBytes. Runs before memory
// is laid out, since it changes the order of steps.
void overlapCollectives(plan::Body& body, OverlapPolicy& policy);

// Returns by buffer whether it holds sharded parameters or gradients gathered for a part of the
// program: after an all-gather, or before a reduce-scatter.
std::vector<bool> isTransientlyGathered(const plan::Body& body);
std::int64_t peakGatheredBytes(const plan::Body& body);  // of these buffers

}  // namespace lockstep::planner
