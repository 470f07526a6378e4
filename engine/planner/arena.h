// Memory: offsets of a body's inputs and temporaries in one arena.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/plan/plan.h"

namespace lockstep::planner {

// Inputs lie apart from all else: the trainer writes them at any time between plays. Temporaries
// whose lives do not meet share memory: the largest are placed first, each in the lowest gap that
// is free for its life (greedy by size: Pisarchyk, Lee: "Efficient memory management for deep
// neural net inference", 2020). Offsets are multiples of 64 bytes. Sets Buffer::offset of buffers
// without a base, and Body::arenaBytes. `heldUntil`: see putInFlight.
void layOutArena(plan::Body& body, const std::vector<std::size_t>& heldUntil);

}  // namespace lockstep::planner
