#include "app/report/run_axis.h"

#include <algorithm>
#include <array>

#include "app/sinks/step_times.h"
#include "app/specs/spec_text.h"
#include "engine/base/suggest.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr std::array<std::string_view, 4> kNames{"step", "time", "samples", "tokens"};

// Seconds since the first step began, by step.
Result<std::vector<Point>> secondsOf(const RunStore& store) {
  LOCKSTEP_ASSIGN(std::vector<Point> began, stepsBegan(store, 0, 0));
  const double first = began.empty() ? 0 : began.front().y;
  double last = 0;
  for (Point& point : began) {
    last = std::max(last, point.y - first);  // a clock may have been set back
    point.y = last;
  }
  return began;
}

std::vector<Point> placedByTime(const std::vector<Point>& seconds, std::vector<Point> curve) {
  std::vector<Point> out;
  auto at = seconds.begin();
  for (const Point& point : curve) {
    while (at != seconds.end() && at->x < point.x) ++at;
    if (at == seconds.end()) break;
    if (at->x == point.x) out.push_back({at->y, point.y});
  }
  return out;
}

// By what had been trained on at some steps: linear between them, and from nothing to the first.
std::vector<Point> placedBySeen(const std::vector<Point>& seen, std::vector<Point> curve) {
  std::size_t next = 0;
  Point before{0, 0};
  for (Point& point : curve) {
    while (next < seen.size() && seen[next].x < point.x) before = seen[next++];
    const Point after = next < seen.size() ? seen[next] : Point{2 * before.x, 2 * before.y};
    const double part = after.x > before.x ? (point.x - before.x) / (after.x - before.x) : 0;
    point.x = before.y + part * (after.y - before.y);
  }
  return curve;
}

// Samples, or tokens, of a step; 0: not known.
Result<double> sizeOfStep(RunAxis axis, const History& history, const std::string& run) {
  LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(run));
  const std::string& yaml = documents.specAsRun();
  const auto file = completeRunSpec(yaml, "run " + run);
  if (!file.ok()) return 0.0;
  const spec::v1::RunSpec& spec = *file->spec;
  const auto batch = static_cast<double>(spec.training().batch());
  if (axis == RunAxis::kSamples) return batch;
  return spec.model().input().vocabulary() > 0 && spec.model().input().shape_size() > 0
             ? batch * static_cast<double>(spec.model().input().shape(0))
             : 0.0;
}

Error cannotPlace(RunAxis axis, const std::string& run) {
  Error error;
  error.code = Code::kFailedPrecondition;
  const auto say = [&](Message what, Message why) {
    error.what = std::move(what);
    error.why = std::move(why);
    return error;
  };
  switch (axis) {
    case RunAxis::kTime:
      return say(message("run {} cannot be shown over time", run),
                 message("the times of its steps are not recorded"));
    case RunAxis::kTokens:
      return say(message("run {} cannot be shown over tokens", run),
                 message("its data is not text"));
    default:
      return say(message("run {} cannot be shown over samples", run),
                 message("its batch is not known"));
  }
}

}  // namespace

std::string_view axisName(RunAxis axis) { return kNames[static_cast<std::size_t>(axis)]; }

Result<RunAxis> axisFromName(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found != kNames.end()) return static_cast<RunAxis>(found - kNames.begin());
  Error error = invalidArgument("there is no axis \"{}\"", name);
  error.next = message("an axis is {}", expectedOneOf(name, kNames));
  return error;
}

Result<std::vector<Point>> placedOn(RunAxis axis, const History& history, const RunStore& store,
                                    const std::string& run, std::vector<Point> curve) {
  if (axis == RunAxis::kStep || curve.empty()) return curve;
  if (axis == RunAxis::kTime) {
    LOCKSTEP_ASSIGN(const std::vector<Point> seconds, secondsOf(store));
    if (seconds.empty()) return cannotPlace(axis, run);
    return placedByTime(seconds, std::move(curve));
  }
  LOCKSTEP_ASSIGN(const std::vector<Point> seen, store.readAll(std::string(axisName(axis))));
  if (!seen.empty()) return placedBySeen(seen, std::move(curve));
  LOCKSTEP_ASSIGN(const double size, sizeOfStep(axis, history, run));
  if (size <= 0) return cannotPlace(axis, run);
  for (Point& point : curve) point.x *= size;
  return curve;
}

}  // namespace lockstep::app
