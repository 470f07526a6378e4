// Memory: offsets of a body's inputs and temporaries in one arena.
#pragma once

#include "engine/plan/plan.h"

namespace lockstep::planner {

// Inputs lie apart from all else: the trainer writes them at any time between runs. Temporaries
// that the body's order sets apart (plan/order.h) share memory: the largest are placed first, each
// in the lowest gap that is free for it (greedy by size: Pisarchyk, Lee: "Efficient memory
// management for deep neural net inference", 2020). Offsets are multiples of 64 bytes. Sets
// Buffer::offset of buffers without a base, and Body::arenaBytes.
void layOutArena(plan::Body& body);

}  // namespace lockstep::planner
