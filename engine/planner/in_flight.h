// Which collectives a rank plays in flight, while it computes, and how far ahead parameters are
// gathered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/plan.h"

namespace lockstep::planner {

// Of one program. What is decided of a collective by one body holds for all bodies that have one of
// its name: its ranks come to it alike.
struct FlightRules {
  // whether collectives along the axis may be in flight
  std::function<bool(std::string_view axis)> may;
  double flopsPerSecond = 0, bytesPerSecond = 0;  // of what is computed meanwhile
  // of computing between a collective and the first step that needs it, for it to be
  // worth another thread's waking
  double leastSeconds = 0;
  // parameters and gradients that ranks have in parts, whole at once; 0: twice what
  // there is where nothing is in flight
  std::int64_t wholeBytes = 0;
  std::map<std::string, bool> decided;  // by the collective's name
};

// Before memory is laid out, which goes by the order that is made here. Gathers of parameters that
// are in parts (zero-3) move ahead of the steps before them as far as wholeBytes lets them, in
// their order; the streams of collectives are set; and a step waits for the latest in flight that
// it needs: what it reads or writes the other wrote or read, they are along one axis, or there is
// too much whole before the other is done.
void putInFlight(plan::Body& body, FlightRules& rules);

// Buffers of parameters and gradients that ranks have in parts, while they are whole: gathered, or
// not yet scattered.
std::vector<bool> wholeForATime(const plan::Body& body);
std::int64_t mostWhole(const plan::Body& body);  // bytes of them at once

}  // namespace lockstep::planner
