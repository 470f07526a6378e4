// A run's curves as comma-separated values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "app/history/run_store.h"

namespace lockstep::app {

class History;

// Whether a series is over steps, epochs or the wall clock.
enum class SeriesAxis : std::uint8_t { kStep, kEpoch, kTime };
SeriesAxis seriesAxis(std::string_view series);

// As many digits as the number has: nine for those that were measured as floats. "": not a number.
std::string csvNumber(double value);
std::string csvText(std::string_view text);  // in quotes where it needs them

// Steps as rows and series as columns ("step", then series over steps). Series over epochs and over
// time follow in tables of their own, each after an empty line.
Result<std::string> csvOf(const RunStore& store);

// To be called after an export of any kind. kDataLoss if it lacks points, since they cannot be
// read.
Status checkExported(const History& history, const std::string& run);

}  // namespace lockstep::app
