#include "app/learn/scene.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>

#include "app/learn/scene_parts.h"

namespace lockstep::app {
namespace {

Result<Scene> sceneOf(const Lesson& lesson, const LessonState& state, bool whole, SceneMemo& memo,
                      const std::atomic<bool>* stop) {
  LOCKSTEP_ASSIGN(const Circumstances at, Circumstances::of(lesson, state));
  if (lesson.scene == "all-reduce") return makeAllReduceScene(at);
  if (lesson.scene == "failures") return makeFailuresScene(lesson, at);
  if (lesson.scene == "training") return makeTrainingScene(lesson, at, stop);
  return makeStepScene(lesson, at, whole, memo);
}

// The state with other values on top.
LessonState with(LessonState state, const LessonState& moved) {
  for (const auto& [name, value] : moved) state[name] = value;
  return state;
}

// Figures of states that were computed before, so that a chart is not computed anew for each value
// of its own slider. Thread-safe.
class FigureCache {
 public:
  using Figures = std::vector<SceneFigure>;
  std::optional<Figures> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto known = figures_.find(key);
    return known == figures_.end() ? std::nullopt : std::optional(known->second);
  }
  void add(const std::string& key, const Figures& figures) {
    const std::lock_guard lock(mutex_);
    if (figures_.size() >= kMost) figures_.clear();
    figures_[key] = figures;
  }

 private:
  static constexpr std::size_t kMost = 1024;
  std::mutex mutex_;
  std::map<std::string, Figures> figures_;  // by all that they depend on
};

Result<Scene> figuresOf(const Lesson& lesson, const LessonState& state, SceneMemo& memo,
                        const std::atomic<bool>* stop) {
  static FigureCache cache;
  LOCKSTEP_ASSIGN(const Circumstances at, Circumstances::of(lesson, state));
  std::string key = lesson.scene + "\n" + lesson.specYaml;
  for (const auto& [name, value] : at.values()) key += "\n" + name + "=" + value;
  Scene out;
  if (auto known = cache.find(key)) {
    out.figures = std::move(*known);
    return out;
  }
  LOCKSTEP_ASSIGN(out, sceneOf(lesson, state, false, memo, stop));
  cache.add(key, out.figures);
  return out;
}

ChartScene chartOf(const Lesson& lesson, const Lesson::Chart& chart, const LessonState& state,
                   SceneMemo& memo, const std::atomic<bool>* stop) {
  const Slider& slider = *lesson.slider(chart.slider);
  ChartScene out{chart.title, slider.label, {}, {}, {}, chart.logX, chart.logY};
  const bool ofBytes = slider.unit == "bytes";
  const auto place = [&](const std::string& value) {
    double number = 0;  // whatever the locale; the lesson's reader has checked it
    std::from_chars(value.data(), value.data() + value.size(), number);
    return number / (ofBytes ? 1024 * 1024 : 1);
  };
  if (!slider.unit.empty()) {
    const std::string unit = ofBytes ? "MiB" : slider.unit;
    out.x.en += " (" + unit + ")";
    out.x.zh += "（" + unit + "）";
  }
  out.curves.resize(chart.figures.size());
  LessonState moved = with(lesson.start(), state);
  out.marked = place(moved[slider.name]);
  for (const std::string& value : slider.values) {
    moved[slider.name] = value;
    const auto scene = figuresOf(lesson, moved, memo, stop);
    if (!scene.ok()) continue;  // cannot be planned: no point in the chart
    for (std::size_t i = 0; i < chart.figures.size(); ++i) {
      const SceneFigure* figure = scene->figure(chart.figures[i]);
      if (figure == nullptr) continue;
      ChartScene::Curve& curve = out.curves[i];
      curve.name = figure->label;
      curve.dashed = figure->name.find("formula") != std::string::npos;
      curve.x.push_back(place(value));
      curve.y.push_back(figure->value);
      if (out.y.en.empty()) out.y = {figure->unit, figure->unit};
    }
  }
  std::erase_if(out.curves, [](const auto& curve) { return curve.x.empty(); });
  return out;
}

Status checkFigures(const Scene& scene) {
  for (const SceneFigure& figure : scene.figures)
    if (!std::isfinite(figure.value)) return invalidArgument("figure {} is no number", figure.name);
  return {};
}

// What does not hold, at its place in the file.
Status at(const std::string& place, const Status& status) {
  return status.ok() ? status : Status(invalidArgument("{}: {}", place, status.error().message()));
}

// Makes the scene of every page. None may reach an exercise: the student would have done nothing.
Status checkPages(const Lesson& lesson, const Scene& start) {
  LessonState state = lesson.start();
  for (std::size_t i = 0; i < lesson.pages.size(); ++i) {
    state = with(std::move(state), lesson.pages[i].state);
    const auto scene = makeScene(lesson, state);
    LOCKSTEP_TRY(at(lesson.pages[i].place, scene.ok() ? checkFigures(*scene) : scene.status()));
    for (const Exercise& exercise : lesson.exercises)
      if (isReached(exercise, lesson, state, *scene, start))
        return at(exercise.place, invalidArgument("page {} reaches it", i + 1));
  }
  return {};
}

Status checkExercise(const Lesson& lesson, const Exercise& exercise, const Scene& start) {
  for (const auto& condition : exercise.conditions)
    for (const std::string& name : {condition.figure, condition.reference})
      if (!name.empty() && start.figure(name) == nullptr)
        return invalidArgument("there is no figure '{}'", name);
  if (isReached(exercise, lesson, lesson.start(), start, start))
    return invalidArgument("it is reached at the start");
  const LessonState solved = with(lesson.start(), exercise.solution);
  LOCKSTEP_ASSIGN(const Scene scene, makeScene(lesson, solved));
  if (!isReached(exercise, lesson, solved, scene, start))
    return invalidArgument("its solution does not reach it");
  return {};
}

}  // namespace

Status checkLesson(const Lesson& lesson) {
  const auto made = makeScene(lesson, lesson.start());
  if (!made.ok()) return at(lesson.place, made.status());
  const Scene& start = *made;
  LOCKSTEP_TRY(at(lesson.place, checkFigures(start)));
  LOCKSTEP_TRY(checkPages(lesson, start));
  for (const Lesson::Chart& chart : lesson.charts)
    for (const std::string& name : chart.figures)
      if (start.figure(name) == nullptr)
        return at(chart.place, invalidArgument("there is no figure '{}'", name));
  for (const Exercise& exercise : lesson.exercises)
    LOCKSTEP_TRY(at(exercise.place, checkExercise(lesson, exercise, start)));
  const auto real = realRunOf(lesson, "/nowhere");
  return at(lesson.real.place, real.ok() ? makeBriefPreview(*real, {}).status() : real.status());
}

void addFigure(Scene& scene, std::string name, Words label, std::string unit, double value) {
  scene.figures.push_back({std::move(name), std::move(label), std::move(unit), value});
}

const SceneFigure* Scene::figure(std::string_view name) const {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [&](const SceneFigure& one) { return one.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

Result<Scene> makeScene(const Lesson& lesson, const LessonState& state,
                        const std::atomic<bool>* stop) {
  SceneMemo memo;
  LOCKSTEP_ASSIGN(Scene out, sceneOf(lesson, state, true, memo, stop));
  for (const Lesson::Chart& chart : lesson.charts)
    out.charts.push_back(chartOf(lesson, chart, state, memo, stop));
  return out;
}

bool isReached(const Exercise& exercise, const Lesson& lesson, const LessonState& state,
               const Scene& scene, const Scene& start) {
  const LessonState begin = lesson.start();
  for (const std::string& name : exercise.keep) {
    const auto now = state.find(name);
    if (now != state.end() && now->second != begin.at(name)) return false;
  }
  return std::all_of(exercise.conditions.begin(), exercise.conditions.end(),
                     [&](const auto& condition) {
                       const SceneFigure* figure = scene.figure(condition.figure);
                       double bound = condition.number;
                       if (!condition.reference.empty()) {
                         const SceneFigure* reference = start.figure(condition.reference);
                         if (reference == nullptr) return false;
                         bound *= reference->value;
                       }
                       if (figure == nullptr) return false;
                       const double value = figure->value;
                       if (condition.op == "<") return value < bound;
                       if (condition.op == "<=") return value <= bound;
                       if (condition.op == ">") return value > bound;
                       if (condition.op == ">=") return value >= bound;
                       return std::abs(value - bound) <= 1e-9 * std::max(1.0, std::abs(bound));
                     });
}

}  // namespace lockstep::app
