// RunAxis: what curves over the steps of a run may be laid over instead: time, samples or tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "app/history/history.h"
#include "engine/base/status.h"

namespace lockstep::app {

enum class RunAxis : std::uint8_t {
  kStep,
  kTime,     // seconds since the run's first step began
  kSamples,  // of all ranks, steps of the runs it was resumed from included
  kTokens    // likewise; of models of text
};
std::string_view axisName(RunAxis axis);  // "step", "time", "samples", "tokens"
Result<RunAxis> axisFromName(std::string_view name);

// Replaces the steps of a curve of `run` by their place on `axis`: samples and tokens as they were
// recorded; of a run of an earlier version as if each step had a whole batch. Steps whose place is
// not known are left out. Errors: those of the history; kFailedPrecondition if the run has nothing
// to place its steps by.
Result<std::vector<Point>> placedOn(RunAxis axis, const History& history, const RunStore& store,
                                    const std::string& run, std::vector<Point> curve);

}  // namespace lockstep::app
