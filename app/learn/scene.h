// Scene: what a lesson shows for a state of its sliders, computed by the planner and the simulator.
// Thread-safe: scenes are made in the background while a slider moves.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/learn/lesson.h"
#include "app/runs/preview.h"
#include "app/runs/step_matrix.h"
#include "app/runs/step_timeline.h"

namespace lockstep::app {

// A number that a lesson shows and its exercises refer to.
struct SceneFigure {
  std::string name;  // "step_ms", "bubble", "memory_mib", "wire_mib", …
  Words label;
  std::string unit;  // "ms", "%", "MiB"; may be empty
  double value = 0;
};

// A message of a collective. Messages of one round travel at once.
struct SceneMessage {
  int round = 0, from = 0, to = 0;
  std::int64_t begin = 0, end = 0;  // elements
  bool reduces = false;             // added to the receiver's, else replaces them
};
// The all-reduce of a vector, which is drawn as `slices` parts.
struct MessagesScene {
  int ranks = 0, rounds = 0, slices = 0;
  std::int64_t elements = 0;
  std::vector<SceneMessage> messages;  // by round
  // For each round (0: before the first), rank and slice: how many ranks' values its sum has.
  std::vector<std::vector<std::vector<int>>> sums;
};

struct ChartScene {
  Words title, x, y;
  struct Curve {
    Words name;
    std::vector<double> x, y;
    bool dashed = false;  // a formula's, beside what was simulated
  };
  std::vector<Curve> curves;
  std::optional<double> marked;  // x of the state
  bool logX = false, logY = false;
  bool overTime = false;  // x is a time: it can be played
};

struct Scene {
  std::vector<SceneFigure> figures;
  std::shared_ptr<const Preview> preview;        // null: the scene has no step
  std::shared_ptr<const StepTimeline> timeline;  // a step in the middle, with the preview
  std::shared_ptr<StepMatrix> matrix;            // of the simulated steps, for a heat map
  std::optional<MessagesScene> messages;
  std::vector<ChartScene> charts;
  const SceneFigure* figure(std::string_view name) const;  // null: none
};

// Makes the scene of a state. A scene of one step takes milliseconds; "training" trains a small
// model on this machine and takes seconds: it ends early with kCancelled once `stop` is set.
// Errors: kInvalidArgument for a state that cannot be planned, with the reason.
Result<Scene> makeScene(const Lesson& lesson, const LessonState& state,
                        const std::atomic<bool>* stop = nullptr);

// Plays a lesson through: its start, every page, every exercise, which must not be reached at the
// start or by a page and must be by its solution, and the plan of the real run. Errors:
// kInvalidArgument naming file, line and field, and what does not hold.
Status checkLesson(const Lesson& lesson);

// What circumstances a slider or `set` can set beside options of the run spec, in English.
struct CircumstanceInfo {
  std::string_view name, help, start;  // "cluster.ranks", …, "1"
  double low = 0, high = 0;            // of a number; equal: one of `choices`
  std::vector<std::string_view> choices = {};
  bool whole = false;  // a whole number
};
const std::vector<CircumstanceInfo>& circumstances();

// Of `moved`, the sliders that a real run has: options of the run spec and the number of ranks.
LessonState withoutSimulated(const Lesson& lesson, const LessonState& moved);
// The real run with the sliders of `moved`: options of the run spec and the number of ranks. The
// other sliders are not looked at: the real run may differ from the lesson's start. Errors:
// kInvalidArgument for a slider or value that the lesson does not have, and for one that only a
// simulation has, where it is not as at the start.
Result<Lesson::RealRun> realRunIn(const Lesson& lesson, const LessonState& moved);
// `lockstep learn …` of the lesson with `option` ("--run", "--spec") and the sliders of `moved`.
std::string learnLine(const Lesson& lesson, const std::string& option, const LessonState& moved);
// The run spec of the lesson's real run, with its settings. Errors: those of SpecText::edit().
Result<std::string> realSpecText(const Lesson& lesson);
// The run at the lesson's end, on agents of this machine that have their work folders below
// `localFolder`. Errors: those of realSpecText() and completeRunSpec().
Result<LaunchRequest> realRunOf(const Lesson& lesson, const std::string& localFolder);
// `lockstep run …` of that spec, which is in `file`.
std::string realRunCommand(const Lesson& lesson, const std::string& file);

// True if the exercise is reached. `start` is the scene of the state that the lesson begins with.
bool isReached(const Exercise& exercise, const Lesson& lesson, const LessonState& state,
               const Scene& scene, const Scene& start);

}  // namespace lockstep::app
