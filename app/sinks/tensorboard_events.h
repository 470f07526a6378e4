// Events of TensorBoard (engine/base/tf_record.h) from the curves of a run.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "app/history/run_data.h"
#include "app/sinks/step_times.h"

namespace lockstep::app {

// Where TensorBoard shows a series: the folder below that of the run, and the tag.
struct TensorBoardPlace {
  std::string folder, tag;
};
TensorBoardPlace tensorBoardPlace(const std::string& series);

// Begins a file. Readers skip no events after a restart where the first one has this version.
std::string tensorBoardHeader(double time);
// The name of a file that begins then.
std::string tensorBoardFile(double time);
// `first` is the number of the first of the points in their series.
std::string tensorBoardEvents(const std::string& series, const std::string& tag, std::int64_t first,
                              std::span<const Point> points, const StepTimes& times);

}  // namespace lockstep::app
