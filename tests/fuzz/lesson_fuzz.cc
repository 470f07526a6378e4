// A lesson's file, and a shared state of it.
#include "app/learn/lesson.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  return {R"(title: {en: a, zh: b}
summary: {en: a, zh: b}
question: {en: a, zh: b}
minutes: 5
scene: step
spec: |
  version: 1
  model: {name: m, input: {shape: [2, 2, 1]}, layers: [{flatten: {}}, {dense: {units: 2}}], loss: cross-entropy, classes: 2}
  data: {format: idx, train: {images: a, labels: b}, evaluate: {images: a, labels: b}}
  training: {batch: 8, max_steps: 1, optimizer: {kind: sgd, learning_rate: 0.1}}
sliders:
  - {name: ranks, label: {en: a, zh: b}, values: [1, 2], start: 1, sets: cluster.ranks}
views: [timeline]
charts: [{title: {en: a, zh: b}, slider: ranks, figures: [step_ms]}]
pages: [{text: {en: a, zh: b}, state: {ranks: 2}, view: timeline}]
terms: []
exercises:
  - {task: {en: a, zh: b}, hint: {en: a, zh: b}, done: {en: a, zh: b}, when: ["step_ms < 1 * start.step_ms"], solution: {ranks: 2}}
real: {text: {en: a, zh: b}, ranks: 2, settings: {training.batch: 8}}
)",
          "lesson: f\nstate: {ranks: 2}\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  static const auto known = app::parseLesson(fuzz::seeds()[0], "f.yaml");
  LOCKSTEP_CHECK(known.ok(), "{}", known.error().text());
  const std::string_view text = fuzz::textOf(bytes, size);
  if (const auto given = app::parseLessonState(text, "s.yaml", {*known}); given.ok())
    LOCKSTEP_CHECK(
        app::parseLessonState(app::lessonStateText(*known, given->state), "s.yaml", {*known})
                ->state == given->state,
        "{}", text);
  const auto lesson = app::parseLesson(text, "f.yaml");
  if (!lesson.ok()) return 0;
  const std::string state = app::lessonStateText(*lesson, lesson->start());
  const auto read = app::parseLessonState(state, "s.yaml", {*lesson});
  LOCKSTEP_CHECK(read.ok() && read->state == lesson->start(), "{}", state);
  return 0;
}
