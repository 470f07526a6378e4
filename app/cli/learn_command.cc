// learn.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/step_text.h"
#include "app/cli/terminal.h"
#include "app/history/history.h"
#include "app/learn/scene.h"
#include "engine/base/file.h"

namespace lockstep::app::cli {
namespace {

// What is shown: a lesson in a state.
struct Shown {
  Lesson lesson;
  LessonState state;
  LessonState moved;     // of it, what --state and --set move
  std::size_t page = 0;  // from 1; 0: all
  std::string language;
  // `lockstep learn …` that prints the run spec of lesson.real.
  std::string specCommand = {};
};

std::string languageOf(const Arguments& arguments) {
  for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0')
      return arguments.text("language", value);
  return arguments.text("language");
}

std::size_t numberOf(const std::string& id) {
  std::size_t number = 0;
  std::from_chars(id.data(), id.data() + id.size(), number);
  return number;
}

Result<Lesson> lessonOf(const std::string& word, const std::vector<Lesson>& lessons) {
  std::error_code failed;
  if (word.ends_with(".yaml") && std::filesystem::exists(word, failed)) {
    LOCKSTEP_ASSIGN(const std::string text, readFile(word, std::size_t{1} << 20));
    return parseLesson(text, word);
  }
  std::vector<std::string> names;
  for (const Lesson& lesson : lessons) {
    names.push_back(lesson.id);
    if (lesson.id == word || lesson.id.substr(lesson.id.find('-') + 1) == word) return lesson;
    if (numberOf(word) > 0 && std::to_string(numberOf(word)) == word &&
        numberOf(word) == numberOf(lesson.id))
      return lesson;
  }
  Error error = invalidArgument("there is no lesson {}", word);
  error.next = message("one of {}, or a file", fmt::join(names, ", "));
  return error;
}

Result<Shown> shownOf(const Arguments& arguments, const std::vector<Lesson>& lessons) {
  Shown out;
  out.language = languageOf(arguments);
  std::optional<SharedState> shared;
  if (arguments.has("state")) {
    const std::string file = arguments.text("state");
    LOCKSTEP_ASSIGN(const std::string text, readFile(file, std::size_t{1} << 20));
    LOCKSTEP_ASSIGN(shared, parseLessonState(text, file, lessons));
  }
  LOCKSTEP_ASSIGN(
      out.lesson,
      lessonOf(arguments.words().empty() ? shared->lesson : arguments.words()[0], lessons));
  out.state = shared ? shared->state : out.lesson.start();
  LOCKSTEP_ASSIGN(
      const std::int64_t page,
      arguments.integer("page", 0, 1, static_cast<std::int64_t>(out.lesson.pages.size())));
  out.page = static_cast<std::size_t>(page);
  for (const auto& [name, value] : out.state) {
    const Slider* slider = out.lesson.slider(name);
    if (slider == nullptr || value != slider->values[slider->start]) out.moved[name] = value;
  }
  for (std::size_t i = 0; i < out.page; ++i)
    for (const auto& [name, value] : out.lesson.pages[i].state) {
      out.state[name] = value;
      out.moved.erase(name);
    }
  for (const std::string& set : arguments.all("set")) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos)
      return invalidArgument("--set {}: SLIDER=VALUE was expected", set);
    const std::string name = set.substr(0, equals), value = set.substr(equals + 1);
    out.state[name] = out.moved[name] = value;
  }
  return out;
}

void printList(const std::vector<Lesson>& lessons, const std::string& language, bool json) {
  Table table{{"lesson", "minutes", "title", "about"}, {false, true, false, false}, {}};
  for (const Lesson& lesson : lessons) {
    if (json)
      JsonLine("lesson")
          .add("id", lesson.id)
          .add("title", lesson.title.in(language))
          .add("summary", lesson.summary.in(language))
          .add("question", lesson.question.in(language))
          .add("minutes", lesson.minutes)
          .add("pages", static_cast<int>(lesson.pages.size()))
          .print();
    table.rows.push_back({lesson.id, std::to_string(lesson.minutes), lesson.title.in(language),
                          lesson.summary.in(language)});
  }
  if (!json) put(stdout, table.text());
}

std::string figuresText(const Scene& scene, const std::string& language) {
  Table table{{"figure", "", "", ""}, {false, false, true, false}, {}};
  for (const SceneFigure& figure : scene.figures)
    table.rows.push_back(
        {figure.name, figure.label.in(language), numberText(figure.value), figure.unit});
  return table.text();
}

std::string memoryText(const Preview& preview) {
  Table table{{"rank", "parameters", "gradients", "optimizer", "activations", "workspace", "all"},
              {true, true, true, true, true, true, true},
              {}};
  for (const RankPreview& rank : preview.ranks)
    table.rows.push_back({std::to_string(rank.rank),
                          bytesText(static_cast<double>(rank.parameterBytes)),
                          bytesText(static_cast<double>(rank.gradientBytes)),
                          bytesText(static_cast<double>(rank.optimizerBytes)),
                          bytesText(static_cast<double>(rank.activationBytes)),
                          bytesText(static_cast<double>(rank.workspaceBytes)),
                          bytesText(static_cast<double>(rank.totalBytes()))});
  return table.text();
}

std::string messagesText(const MessagesScene& scene) {
  Table table{{"round", "from", "to", "elements", ""}, {true, true, true, false, false}, {}};
  for (const SceneMessage& message : scene.messages)
    table.rows.push_back({std::to_string(message.round + 1), std::to_string(message.from),
                          std::to_string(message.to),
                          fmt::format("{}…{}", message.begin, message.end),
                          message.reduces ? "added" : "copied"});
  return table.text();
}

std::string chartText(const ChartScene& chart, const std::string& language) {
  Table table{{chart.x.in(language)}, {true}, {}};
  for (const ChartScene::Curve& curve : chart.curves) {
    table.header.push_back(curve.name.in(language));
    table.right.push_back(true);
  }
  std::map<double, std::vector<std::string>> rows;  // by x; curves need not have the same
  for (std::size_t c = 0; c < chart.curves.size(); ++c) {
    const ChartScene::Curve& curve = chart.curves[c];
    for (std::size_t i = 0; i < curve.x.size();
         i += std::max<std::size_t>(1, curve.x.size() / 16)) {
      std::vector<std::string>& row = rows[curve.x[i]];
      row.resize(chart.curves.size() + 1);
      row[0] = numberText(curve.x[i]);
      row[c + 1] = numberText(curve.y[i]);
    }
  }
  for (auto& [x, row] : rows) table.rows.push_back(std::move(row));
  return chart.title.in(language) + "\n" + table.text();
}

std::string viewText(LessonView view, const Scene& scene, const std::string& language) {
  std::string out;
  switch (view) {
    case LessonView::kTimeline:
      if (scene.preview)
        out = timelineText(simulatedStep(*scene.preview), rankNodes(*scene.preview),
                           Style(wantsColour(STDOUT_FILENO)), terminalSize(STDOUT_FILENO).columns);
      break;
    case LessonView::kHeatMap:
      if (scene.matrix) out = matrixText(*scene.matrix);
      break;
    case LessonView::kTraffic:
      if (scene.preview) out = trafficText(plan::stepTraffic(scene.preview->plan));
      break;
    case LessonView::kMemory:
      if (scene.preview) out = memoryText(*scene.preview);
      break;
    case LessonView::kMessages:
      if (scene.messages) out = messagesText(*scene.messages);
      break;
    case LessonView::kChart:
      for (const ChartScene& chart : scene.charts)
        if (!chart.curves.empty()) out += chartText(chart, language);
  }
  return out.empty() ? out : "\n" + out;
}

std::string valueText(const Slider& slider, const std::string& value, const std::string& language) {
  if (const auto name = slider.names.find(value); name != slider.names.end())
    return fmt::format("{} ({})", value, name->second.in(language));
  return slider.unit.empty() ? value : value + " " + slider.unit;
}

std::string slidersText(const Shown& shown) {
  Table table{{"slider", "", "now", "values"}, {false, false, true, false}, {}};
  for (const Slider& slider : shown.lesson.sliders)
    table.rows.push_back({slider.name, slider.label.in(shown.language),
                          valueText(slider, shown.state.at(slider.name), shown.language),
                          fmt::format("{}", fmt::join(slider.values, " "))});
  return table.text();
}

std::string exercisesText(const Shown& shown, const Scene& scene, const Scene& start) {
  std::string out;
  for (std::size_t i = 0; i < shown.lesson.exercises.size(); ++i) {
    const Exercise& exercise = shown.lesson.exercises[i];
    const bool reached = isReached(exercise, shown.lesson, shown.state, scene, start);
    out += fmt::format("\n{} {}. {}\n  {}\n", reached ? "[x]" : "[ ]", i + 1,
                       exercise.task.in(shown.language),
                       (reached ? exercise.done : exercise.hint).in(shown.language));
  }
  return out;
}

void printText(const Shown& shown, const Scene& scene, const Scene& start) {
  const Lesson& lesson = shown.lesson;
  std::string out = fmt::format("{}\n{}\n\n", lesson.title.in(shown.language),
                                lesson.question.in(shown.language));
  for (std::size_t i = 0; i < lesson.pages.size(); ++i)
    if (shown.page == 0 || shown.page == i + 1)
      out += fmt::format("{}/{}  {}\n\n", i + 1, lesson.pages.size(),
                         lesson.pages[i].text.in(shown.language));
  out += slidersText(shown);
  if (shown.page > 0)
    out += viewText(lesson.pages[shown.page - 1].view, scene, shown.language);
  else
    for (const LessonView view : lesson.views) out += viewText(view, scene, shown.language);
  out += "\n" + figuresText(scene, shown.language) + exercisesText(shown, scene, start);
  if (shown.page == 0)
    for (const Term& term : lesson.terms)
      out += fmt::format("\n{}: {}", term.name.in(shown.language), term.meaning.in(shown.language));
  out += fmt::format("\n\n{}\n  {} > lesson.yaml\n  {}\n", lesson.real.text.in(shown.language),
                     shown.specCommand, realRunCommand(lesson, "lesson.yaml"));
  put(stdout, out);
}

void printJson(const Shown& shown, const Scene& scene, const Scene& start) {
  nlohmann::json figures = nlohmann::json::object(), exercises = nlohmann::json::array();
  nlohmann::json pages = nlohmann::json::array(), charts = nlohmann::json::array();
  for (const SceneFigure& figure : scene.figures) figures[figure.name] = figure.value;
  for (const Exercise& exercise : shown.lesson.exercises)
    exercises.push_back(
        {{"task", exercise.task.in(shown.language)},
         {"reached", isReached(exercise, shown.lesson, shown.state, scene, start)}});
  for (const LessonPage& page : shown.lesson.pages) pages.push_back(page.text.in(shown.language));
  for (const ChartScene& chart : scene.charts)
    for (const ChartScene::Curve& curve : chart.curves)
      charts.push_back({{"chart", chart.title.in(shown.language)},
                        {"name", curve.name.in(shown.language)},
                        {"x", curve.x},
                        {"y", curve.y}});
  JsonLine("lesson")
      .add("id", shown.lesson.id)
      .add("title", shown.lesson.title.in(shown.language))
      .addRaw("state", nlohmann::json(shown.state).dump())
      .addRaw("figures", figures.dump())
      .addRaw("exercises", exercises.dump())
      .addRaw("pages", pages.dump())
      .addRaw("curves", charts.dump())
      .add("run", realRunCommand(shown.lesson, "lesson.yaml"))
      .print();
}

// A step of the run as measured beside the prediction.
Status compareWithPrediction(const Globals& globals, const std::string& run, bool json) {
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(const RunRow row, history->row(run));
  const bool isMeasured = row.measuredStepSeconds > 0;
  const std::string predicted = millisecondsText(row.predictedStepSeconds);
  if (json) {
    JsonLine line("compared");
    line.add("run", run);
    if (isMeasured) line.add("step_seconds", row.measuredStepSeconds);
    line.add("predicted_step_seconds", row.predictedStepSeconds).print();
  } else if (isMeasured) {
    put(stdout, fmt::format("a step: {} ms measured, {} ms predicted\n",
                            millisecondsText(row.measuredStepSeconds), predicted));
  } else {
    put(stdout, fmt::format("a step: not measured, {} ms predicted\n", predicted));
  }
  return {};
}

// Runs the lesson's spec on local agents, as a file of the home folder.
Result<int> runReal(const Globals& globals, const Lesson& lesson, bool json) {
  const std::string folder = globals.home.root + "/lessons";
  LOCKSTEP_TRY(makeFolders(folder, 0700));
  const std::string file = folder + "/" + lesson.id + ".yaml";
  LOCKSTEP_ASSIGN(const std::string spec, realSpecText(lesson));
  LOCKSTEP_TRY(writeFileAtomically(file, spec));
  std::vector<std::string> words{file, "--local", std::to_string(lesson.real.ranks)};
  if (json) words.emplace_back("--json");
  put(stderr, realRunCommand(lesson, printable(file)) + "\n");
  LOCKSTEP_ASSIGN(const Arguments asked,
                  Arguments::parse(words, {{"local=", "json"}, 1, 1, "run SPEC"}));
  const LaunchedRun launched = launchRun(globals, asked);
  if (launched.exit == kSucceeded) LOCKSTEP_TRY(compareWithPrediction(globals, launched.run, json));
  return launched.exit;
}

// Refuses options that what is asked for has no use of.
Status checkOptions(const Arguments& arguments) {
  const std::string language = arguments.text("language", "en");
  if (language != "en" && language != "zh")
    return invalidArgument("--language {}: expected en or zh", language);
  static const std::map<std::string_view, std::vector<std::string_view>> kUseless{
      {"list", {"check", "spec", "run", "set", "page", "state", "save"}},
      {"check", {"spec", "run", "set", "page", "state", "save", "language"}},
      {"spec", {"run", "page", "save", "language", "json"}},
      {"run", {"page", "save", "language"}}};
  for (const auto& [asked, useless] : kUseless)
    for (const std::string_view other : useless)
      if (arguments.has(asked) && arguments.has(other))
        return invalidArgument("--{} does not go with --{}", other, asked);
  if (arguments.words().empty() == arguments.has("list") || arguments.has("state")) return {};
  if (arguments.has("list")) return invalidArgument("--list lists all lessons: it takes none");
  for (const std::string_view flag : {"check", "spec", "run", "set", "page", "save"})
    if (arguments.has(flag)) return invalidArgument("--{} is of a lesson: name one", flag);
  return {};
}

// The real run as moved, as far as it has these sliders.
Status moveRealRun(Shown& shown) {
  const LessonState moved = withoutSimulated(shown.lesson, shown.moved);
  LOCKSTEP_ASSIGN(shown.lesson.real, realRunIn(shown.lesson, moved));
  shown.specCommand = learnLine(shown.lesson, "--spec", moved);
  return {};
}

// The real run, with what --set and --state move.
Result<int> learnForReal(const Globals& globals, const Arguments& arguments, Shown shown) {
  LOCKSTEP_ASSIGN(shown.lesson.real, realRunIn(shown.lesson, shown.moved));
  if (arguments.has("run")) return runReal(globals, shown.lesson, arguments.has("json"));
  LOCKSTEP_ASSIGN(const std::string spec, realSpecText(shown.lesson));
  putDocument(spec);
  return static_cast<int>(kSucceeded);
}

Result<int> learn(const Globals& globals, const Arguments& arguments) {
  LOCKSTEP_TRY(checkOptions(arguments));
  const bool json = arguments.has("json");
  LOCKSTEP_ASSIGN(const std::vector<Lesson> lessons, readLessons(lessonFolder()));
  if (arguments.has("list") || (arguments.words().empty() && !arguments.has("state"))) {
    printList(lessons, languageOf(arguments), json);
    return static_cast<int>(kSucceeded);
  }
  LOCKSTEP_ASSIGN(Shown shown, shownOf(arguments, lessons));
  if (arguments.has("spec") || arguments.has("run")) return learnForReal(globals, arguments, shown);
  if (arguments.has("check")) {
    LOCKSTEP_TRY(checkLesson(shown.lesson));
    if (json)
      JsonLine("checked").add("id", shown.lesson.id).print();
    else
      put(stdout, fmt::format("{}: every page and every solution holds\n", shown.lesson.id));
    return static_cast<int>(kSucceeded);
  }
  LOCKSTEP_ASSIGN(const Scene start, makeScene(shown.lesson, shown.lesson.start()));
  LOCKSTEP_ASSIGN(const Scene scene, makeScene(shown.lesson, shown.state));
  if (arguments.has("save"))
    LOCKSTEP_TRY(
        writeFileAtomically(arguments.text("save"), lessonStateText(shown.lesson, shown.state)));
  LOCKSTEP_TRY(moveRealRun(shown));
  if (json)
    printJson(shown, scene, start);
  else
    printText(shown, scene, start);
  return static_cast<int>(kSucceeded);
}

}  // namespace

int learnCommand(const Globals& globals, const Arguments& arguments) {
  const Result<int> done = learn(globals, arguments);
  if (done.ok()) return *done;
  report(done.error(), arguments.has("json"));
  return exitCodeOf(done.error());
}

}  // namespace lockstep::app::cli
