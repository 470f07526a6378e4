// What a rank sends in one step of its plan.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/traffic.h"

namespace lockstep::plan {

// Returns the bytes that `rank` sends to each other rank in a collective or message of a body that
// it runs as this entry, counted as in stepTraffic(). Empty for what sends nothing.
std::vector<Traffic> sentIn(const Plan& plan, int rank, const ScheduleEntry& entry,
                            const Body& body, const Step& step);
// Returns their sum.
std::int64_t sentBytesIn(const Plan& plan, int rank, const ScheduleEntry& entry, const Body& body,
                         const Step& step);

}  // namespace lockstep::plan
