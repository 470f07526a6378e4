// Lesson: a text file in YAML that teaches one thing about distributed training: a question, a
// picture that the simulator draws, sliders, pages to go through, exercises that are checked by the
// state reached, and the same thing run for real. resources/lessons/README.md describes the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

// A text in the studio's languages.
struct Words {
  std::string en, zh;
  const std::string& in(std::string_view language) const {  // "zh", "zh_CN": Chinese; else English
    return language.starts_with("zh") ? zh : en;
  }
};

// Something the student changes. `sets` is an option of the run spec by its path
// ("training.batch"), or a circumstance that makeScene() lists ("cluster.ranks").
struct Slider {
  std::string name;  // unique in the lesson
  Words label;
  std::string unit;                    // "Gbit/s"; may be empty
  std::vector<std::string> values;     // at least two, in order
  std::map<std::string, Words> names;  // of values that are shown by words instead
  std::size_t start = 0;               // index of the value that the lesson begins with
  std::string sets;
};

// The value of every slider, by its name.
using LessonState = std::map<std::string, std::string>;

// What a lesson shows of a scene, in order: the first is open at the start.
enum class LessonView : std::uint8_t {
  kTimeline,  // of a simulated step, all ranks
  kHeatMap,   // rank × step
  kTraffic,   // bytes between ranks
  kMemory,    // of each rank, by kind
  kMessages,  // an all-reduce, message by message
  kChart,     // curves: loss, scaling, checkpoint intervals
};
std::string_view lessonViewName(LessonView view);  // "timeline", …

// A page of the lesson's text. `state` has the sliders that change when it is turned to.
struct LessonPage {
  Words text;
  LessonState state;
  LessonView view = LessonView::kTimeline;
  std::string place;  // "FILE:LINE:COLUMN: pages[0]", for messages
};

struct Term {  // a word that is explained where it stands in a text
  Words name, meaning;
};

// Reached when its conditions hold for the scene's figures, and the sliders in `keep` are as the
// lesson began.
struct Exercise {
  Words task, hint, done;
  std::vector<std::string> keep;
  struct Condition {  // figure <op> number × (reference: 1, or a figure of the start)
    std::string figure;
    std::string op;  // <, <=, >, >=, ==
    double number = 0;
    std::string reference;
  };
  std::vector<Condition> conditions;
  LessonState solution;  // values with which it is reached; checkLesson() tries them
  std::string place;     // as LessonPage::place
};

struct Lesson {
  std::string id;  // the file's name without ".yaml"
  Words title, summary, question;
  int minutes = 5;
  std::string place;     // as LessonPage::place, of the scene
  std::string scene;     // what makeScene() makes: "step", "all-reduce", "training", …
  std::string specYaml;  // the run spec that sliders change
  std::map<std::string, std::string> fixed;  // what else is set, as Slider::sets: value
  std::vector<Slider> sliders;
  std::vector<LessonView> views;
  // Figures over the values of a slider, all else as the state says. Those that end with "_formula"
  // are drawn dashed.
  struct Chart {
    Words title;
    std::string slider;
    std::vector<std::string> figures;
    bool logX = false, logY = false;
    std::string place;  // as LessonPage::place
  };
  std::vector<Chart> charts;
  std::vector<LessonPage> pages;
  std::vector<Term> terms;
  std::vector<Exercise> exercises;
  // The same thing for real: `lockstep run` of the lesson's spec on local agents.
  struct RealRun {
    Words text;  // what to compare
    int ranks = 2;
    std::map<std::string, std::string> settings;  // as --set
    std::string place;                            // as LessonPage::place
  } real;

  const Slider* slider(std::string_view name) const;  // null: none
  LessonState start() const;
};

// Errors: kInvalidArgument naming file, line and field.
Result<Lesson> parseLesson(std::string_view text, const std::string& file);
// Returns the lessons of a folder in the order of their files' names. Errors: the first file's.
Result<std::vector<Lesson>> readLessons(const std::string& folder);
std::string lessonFolder();  // the installed lessons, or those of the source tree

// A state as a file that can be shared: the lesson's id and the value of every slider.
std::string lessonStateText(const Lesson& lesson, const LessonState& state);
struct SharedState {
  std::string lesson;
  LessonState state;
};
// Errors: kInvalidArgument naming file, line and field, also for a value that no slider has.
Result<SharedState> parseLessonState(std::string_view text, const std::string& file,
                                     const std::vector<Lesson>& lessons);

}  // namespace lockstep::app
