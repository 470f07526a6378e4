// The lessons' YAML.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "app/learn/circumstances.h"
#include "app/specs/spec_text.h"
#include "app/specs/yaml_tree.h"
#include "engine/base/suggest.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 18, kMostText = 8000;
constexpr std::size_t kMostItems = 64, kMostValues = 64;

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  Error error(const YamlNode& node, const std::string& field, const Message& what) const {
    Error out = invalidArgument("{}: {}", place(node), what);
    out.field = field;
    return out;
  }
  std::string place(const YamlNode& node) const {
    return fmt::format("{}:{}:{}", file_, std::max(1, node.line), std::max(1, node.column));
  }

  Result<YamlNode> root(std::string_view text) const {
    YamlNode out;
    YamlFailure failure;
    if (text.size() > kMostBytes)
      return error(out, "lesson", message("longer than {} bytes", kMostBytes));
    if (parseYaml(std::string(text), out, failure)) return out;
    out.line = failure.line;
    out.column = failure.column;
    return error(out, "lesson",
                 failure.expected.empty() ? failure.what
                                          : message("{}, {}", failure.what, failure.expected));
  }

  // Checks that the node is a map of these fields, of which those without '?' must be there.
  Status fields(const YamlNode& node, const std::string& at,
                std::initializer_list<std::string_view> known) const {
    if (node.kind != YamlNode::Kind::kMap) return error(node, at, "no map, expected 'name: value'");
    std::vector<std::string_view> names;
    for (std::string_view name : known)
      names.push_back(name.ends_with('?') ? name.substr(0, name.size() - 1) : name);
    for (const auto& [key, value] : node.entries)
      if (std::find(names.begin(), names.end(), key.value) == names.end())
        return error(key, at,
                     message("there is no field '{}', expected {}", key.value,
                             expectedOneOf(key.value, names)));
    for (std::string_view name : known)
      if (!name.ends_with('?') && node.find(name) == nullptr)
        return error(node, at, message("field '{}' is missing", name));
    return {};
  }

  Result<std::string> text(const YamlNode& node, const std::string& at) const {
    if (node.kind != YamlNode::Kind::kScalar || node.value.empty())
      return error(node, at, "expected a text");
    if (node.value.size() > kMostText)
      return error(node, at, message("longer than {} bytes", kMostText));
    return node.value;
  }
  Result<double> number(const YamlNode& node, const std::string& at, double low,
                        double high) const {
    double out = 0;
    const std::string& from = node.value;
    const auto [end, failed] = std::from_chars(from.data(), from.data() + from.size(), out);
    if (failed != std::errc() || end != from.data() + from.size() || !(out >= low && out <= high))
      return error(node, at, message("expected a number from {} to {}", low, high));
    return out;
  }
  Result<int> whole(const YamlNode& node, const std::string& at, int low, int high) const {
    LOCKSTEP_ASSIGN(const double out, number(node, at, low, high));
    if (out != std::floor(out)) return error(node, at, "expected a whole number");
    return static_cast<int>(out);
  }
  Result<Words> words(const YamlNode& node, const std::string& at) const {
    LOCKSTEP_TRY(fields(node, at, {"en", "zh"}));
    Words out;
    LOCKSTEP_ASSIGN(out.en, text(node.find("en")->node, at + ".en"));
    LOCKSTEP_ASSIGN(out.zh, text(node.find("zh")->node, at + ".zh"));
    return out;
  }
  // The items of a list.
  Result<std::vector<YamlNode>> items(const YamlNode* node, const std::string& at,
                                      std::size_t least, std::size_t most) const {
    if (node == nullptr) return std::vector<YamlNode>();
    if (node->kind != YamlNode::Kind::kList) return error(*node, at, "expected a list");
    if (node->items.size() < least || node->items.size() > most)
      return error(*node, at, message("expected {} to {} items", least, most));
    return node->items;
  }
  Result<std::vector<std::string>> texts(const YamlNode* node, const std::string& at,
                                         std::size_t least, std::size_t most) const {
    LOCKSTEP_ASSIGN(const std::vector<YamlNode> list, items(node, at, least, most));
    std::vector<std::string> out;
    for (const YamlNode& item : list) {
      LOCKSTEP_ASSIGN(std::string one, text(item, at));
      out.push_back(std::move(one));
    }
    return out;
  }
  Result<std::map<std::string, std::string>> map(const YamlNode* node,
                                                 const std::string& at) const {
    std::map<std::string, std::string> out;
    if (node == nullptr) return out;
    if (node->kind != YamlNode::Kind::kMap || node->entries.size() > kMostItems)
      return error(*node, at, "no map, expected 'name: value'");
    for (const auto& [key, value] : node->entries) {
      LOCKSTEP_ASSIGN(out[key.value], text(value, at + "." + key.value));
    }
    return out;
  }
  // Every value is one that the slider has.
  Result<LessonState> state(const YamlNode* node, const std::string& at,
                            const Lesson& lesson) const {
    LOCKSTEP_ASSIGN(const LessonState out, map(node, at));
    if (const auto known = Circumstances::of(lesson, out); !known.ok())
      return error(*node, at, known.error().what);
    return out;
  }

 private:
  std::string file_;
};

const YamlNode* child(const YamlNode& node, std::string_view name) {
  const YamlNode::Entry* entry = node.find(name);
  return entry == nullptr ? nullptr : &entry->node;
}

Result<LessonView> viewOf(const Reader& in, const YamlNode& node, const std::string& at) {
  static const std::vector<std::string_view> kNames{
      lessonViewName(LessonView::kTimeline), lessonViewName(LessonView::kHeatMap),
      lessonViewName(LessonView::kTraffic),  lessonViewName(LessonView::kMemory),
      lessonViewName(LessonView::kMessages), lessonViewName(LessonView::kChart)};
  const auto found = std::find(kNames.begin(), kNames.end(), node.value);
  if (found == kNames.end())
    return in.error(
        node, at,
        message("no view '{}', expected {}", node.value, expectedOneOf(node.value, kNames)));
  return static_cast<LessonView>(found - kNames.begin());
}

Status readSlider(const Reader& in, const YamlNode& node, const std::string& at, Lesson& lesson) {
  LOCKSTEP_TRY(
      in.fields(node, at, {"name", "label", "unit?", "values", "names?", "start", "sets"}));
  Slider out;
  LOCKSTEP_ASSIGN(out.name, in.text(*child(node, "name"), at + ".name"));
  if (lesson.slider(out.name) != nullptr)
    return in.error(*child(node, "name"), at + ".name",
                    message("another slider is named {}", out.name));
  LOCKSTEP_ASSIGN(out.label, in.words(*child(node, "label"), at + ".label"));
  if (const YamlNode* unit = child(node, "unit")) out.unit = unit->value;
  LOCKSTEP_ASSIGN(out.values, in.texts(child(node, "values"), at + ".values", 2, kMostValues));
  if (const YamlNode* names = child(node, "names")) {
    if (names->kind != YamlNode::Kind::kMap)
      return in.error(*names, at + ".names", "no map, expected 'value: words'");
    for (const auto& [value, words] : names->entries) {
      if (std::find(out.values.begin(), out.values.end(), value.value) == out.values.end())
        return in.error(value, at + ".names", message("'{}' is not a value", value.value));
      LOCKSTEP_ASSIGN(out.names[value.value], in.words(words, at + ".names." + value.value));
    }
  }
  LOCKSTEP_ASSIGN(const std::string start, in.text(*child(node, "start"), at + ".start"));
  const auto found = std::find(out.values.begin(), out.values.end(), start);
  if (found == out.values.end())
    return in.error(*child(node, "start"), at + ".start", message("'{}' is not a value", start));
  out.start = static_cast<std::size_t>(found - out.values.begin());
  LOCKSTEP_ASSIGN(out.sets, in.text(*child(node, "sets"), at + ".sets"));
  for (const std::string& value : out.values)
    if (const Status fine = checkSetting(out.sets, value); !fine.ok())
      return in.error(*child(node, "sets"), at + ".sets", fine.error().what);
  lesson.sliders.push_back(std::move(out));
  return {};
}

Result<Exercise::Condition> conditionOf(const Reader& in, const YamlNode& node,
                                        const std::string& at) {
  Exercise::Condition out;
  std::vector<std::string> words;
  for (std::size_t from = 0; from < node.value.size();) {
    const std::size_t end = std::min(node.value.find(' ', from), node.value.size());
    if (end > from) words.push_back(node.value.substr(from, end - from));
    from = end + 1;
  }
  constexpr std::array<std::string_view, 5> kOps{"<", "<=", ">", ">=", "=="};
  const bool relative = words.size() == 5 && words[3] == "*" && words[4].starts_with("start.");
  if ((words.size() != 3 && !relative) ||
      std::find(kOps.begin(), kOps.end(), words[1]) == kOps.end())
    return in.error(node, at, "expected 'figure < number' or 'figure < number * start.figure'");
  out.figure = words[0];
  out.op = words[1];
  YamlNode number = node;
  number.value = words[2];
  LOCKSTEP_ASSIGN(out.number, in.number(number, at, -1e12, 1e12));
  if (relative) out.reference = words[4].substr(6);
  return out;
}

Status readExercise(const Reader& in, const YamlNode& node, const std::string& at, Lesson& lesson) {
  LOCKSTEP_TRY(in.fields(node, at, {"task", "hint", "done", "keep?", "when", "solution"}));
  Exercise out;
  LOCKSTEP_ASSIGN(out.task, in.words(*child(node, "task"), at + ".task"));
  LOCKSTEP_ASSIGN(out.hint, in.words(*child(node, "hint"), at + ".hint"));
  LOCKSTEP_ASSIGN(out.done, in.words(*child(node, "done"), at + ".done"));
  LOCKSTEP_ASSIGN(out.keep, in.texts(child(node, "keep"), at + ".keep", 0, kMostItems));
  for (const std::string& name : out.keep)
    if (lesson.slider(name) == nullptr)
      return in.error(*child(node, "keep"), at + ".keep",
                      message("the lesson has no slider '{}'", name));
  LOCKSTEP_ASSIGN(const std::vector<YamlNode> when,
                  in.items(child(node, "when"), at + ".when", 1, kMostItems));
  for (const YamlNode& one : when) {
    LOCKSTEP_ASSIGN(Exercise::Condition condition, conditionOf(in, one, at + ".when"));
    out.conditions.push_back(std::move(condition));
  }
  LOCKSTEP_ASSIGN(out.solution, in.state(child(node, "solution"), at + ".solution", lesson));
  out.place = in.place(node) + ": " + at;
  lesson.exercises.push_back(std::move(out));
  return {};
}

Status readPage(const Reader& in, const YamlNode& node, const std::string& at, Lesson& lesson) {
  LOCKSTEP_TRY(in.fields(node, at, {"text", "state?", "view?"}));
  LessonPage out;
  LOCKSTEP_ASSIGN(out.text, in.words(*child(node, "text"), at + ".text"));
  LOCKSTEP_ASSIGN(out.state, in.state(child(node, "state"), at + ".state", lesson));
  out.view = lesson.views.front();
  if (const YamlNode* view = child(node, "view")) {
    LOCKSTEP_ASSIGN(out.view, viewOf(in, *view, at + ".view"));
    if (std::find(lesson.views.begin(), lesson.views.end(), out.view) == lesson.views.end())
      return in.error(*view, at + ".view", message("'{}' is not among views", view->value));
  }
  out.place = in.place(node) + ": " + at;
  lesson.pages.push_back(std::move(out));
  return {};
}

Status readChart(const Reader& in, const YamlNode& node, const std::string& at, Lesson& lesson) {
  LOCKSTEP_TRY(in.fields(node, at, {"title", "slider", "figures", "log_x?", "log_y?"}));
  Lesson::Chart out;
  LOCKSTEP_ASSIGN(out.title, in.words(*child(node, "title"), at + ".title"));
  LOCKSTEP_ASSIGN(out.slider, in.text(*child(node, "slider"), at + ".slider"));
  const Slider* slider = lesson.slider(out.slider);
  if (slider == nullptr)
    return in.error(*child(node, "slider"), at + ".slider",
                    message("the lesson has no slider '{}'", out.slider));
  for (const std::string& value : slider->values) {
    YamlNode one = *child(node, "slider");
    one.value = value;
    LOCKSTEP_TRY(in.number(one, at + ".slider", -1e15, 1e15).status());
  }
  LOCKSTEP_ASSIGN(out.figures, in.texts(child(node, "figures"), at + ".figures", 1, 8));
  out.logX = child(node, "log_x") != nullptr && child(node, "log_x")->value == "true";
  out.logY = child(node, "log_y") != nullptr && child(node, "log_y")->value == "true";
  out.place = in.place(node) + ": " + at;
  lesson.charts.push_back(std::move(out));
  return {};
}

Status readTerm(const Reader& in, const YamlNode& node, const std::string& at, Lesson& lesson) {
  LOCKSTEP_TRY(in.fields(node, at, {"name", "meaning"}));
  Term out;
  LOCKSTEP_ASSIGN(out.name, in.words(*child(node, "name"), at + ".name"));
  LOCKSTEP_ASSIGN(out.meaning, in.words(*child(node, "meaning"), at + ".meaning"));
  lesson.terms.push_back(std::move(out));
  return {};
}

using ReadItem = Status(const Reader&, const YamlNode&, const std::string&, Lesson&);
Status readList(const Reader& in, const YamlNode& root, const char* name, std::size_t least,
                ReadItem& read, Lesson& lesson) {
  LOCKSTEP_ASSIGN(const std::vector<YamlNode> list,
                  in.items(child(root, name), name, least, kMostItems));
  for (std::size_t i = 0; i < list.size(); ++i)
    LOCKSTEP_TRY(read(in, list[i], fmt::format("{}[{}]", name, i), lesson));
  return {};
}

Status readReal(const Reader& in, const YamlNode& node, Lesson& lesson) {
  LOCKSTEP_TRY(in.fields(node, "real", {"text", "ranks", "settings?"}));
  LOCKSTEP_ASSIGN(lesson.real.text, in.words(*child(node, "text"), "real.text"));
  LOCKSTEP_ASSIGN(lesson.real.ranks, in.whole(*child(node, "ranks"), "real.ranks", 1, 64));
  lesson.real.place = in.place(node) + ": real";
  LOCKSTEP_ASSIGN(lesson.real.settings, in.map(child(node, "settings"), "real.settings"));
  for (const auto& [path, value] : lesson.real.settings)
    if (!SpecText::field(SpecKind::kRun, path))
      return in.error(*child(node, "settings"), "real.settings",
                      message("there is no option '{}' of a run spec", path));
  return {};
}

// The run spec, whose mistakes stand in the lesson's own lines: a block ("|") begins a line below.
Status checkSpec(const Reader& in, const YamlNode& node, const std::string& file,
                 const Lesson& lesson) {
  const SpecText spec = SpecText::parse(lesson.specYaml, file, SpecKind::kRun);
  if (spec.ok()) return {};
  YamlNode at = node;
  at.line += spec.problems().front().line;
  at.column = 1;
  return in.error(at, "spec", spec.problems().front().message());
}

Status readHead(const Reader& in, const YamlNode& root, const std::string& file, Lesson& out) {
  LOCKSTEP_ASSIGN(out.title, in.words(*child(root, "title"), "title"));
  LOCKSTEP_ASSIGN(out.summary, in.words(*child(root, "summary"), "summary"));
  LOCKSTEP_ASSIGN(out.question, in.words(*child(root, "question"), "question"));
  LOCKSTEP_ASSIGN(out.minutes, in.whole(*child(root, "minutes"), "minutes", 1, 600));
  LOCKSTEP_ASSIGN(out.scene, in.text(*child(root, "scene"), "scene"));
  constexpr std::array<std::string_view, 4> kScenes{"step", "all-reduce", "training", "failures"};
  if (std::find(kScenes.begin(), kScenes.end(), out.scene) == kScenes.end())
    return in.error(
        *child(root, "scene"), "scene",
        message("no scene '{}', expected {}", out.scene, expectedOneOf(out.scene, kScenes)));
  out.place = in.place(*child(root, "scene")) + ": scene";
  LOCKSTEP_ASSIGN(out.specYaml, in.text(*child(root, "spec"), "spec"));
  LOCKSTEP_TRY(checkSpec(in, *child(root, "spec"), file, out));
  LOCKSTEP_ASSIGN(out.fixed, in.map(child(root, "set"), "set"));
  for (const auto& [name, value] : out.fixed)
    if (const Status fine = checkSetting(name, value); !fine.ok())
      return in.error(*child(root, "set"), "set." + name, fine.error().what);
  LOCKSTEP_ASSIGN(const std::vector<YamlNode> views, in.items(child(root, "views"), "views", 1, 6));
  for (const YamlNode& node : views) {
    LOCKSTEP_ASSIGN(const LessonView view, viewOf(in, node, "views"));
    out.views.push_back(view);
  }
  return {};
}

}  // namespace

Result<Lesson> parseLesson(std::string_view text, const std::string& file) {
  const Reader in(file);
  LOCKSTEP_ASSIGN(const YamlNode root, in.root(text));
  LOCKSTEP_TRY(in.fields(root, "lesson",
                         {"title", "summary", "question", "minutes", "scene", "spec", "set?",
                          "sliders", "views", "charts?", "pages", "terms", "exercises", "real"}));
  Lesson out;
  out.id = std::filesystem::path(file).stem().string();
  LOCKSTEP_TRY(readHead(in, root, file, out));
  LOCKSTEP_TRY(readList(in, root, "sliders", 1, readSlider, out));
  LOCKSTEP_TRY(readList(in, root, "charts", 0, readChart, out));
  LOCKSTEP_TRY(readList(in, root, "pages", 1, readPage, out));
  LOCKSTEP_TRY(readList(in, root, "terms", 0, readTerm, out));
  LOCKSTEP_TRY(readList(in, root, "exercises", 1, readExercise, out));
  LOCKSTEP_TRY(readReal(in, *child(root, "real"), out));
  return out;
}

std::string lessonStateText(const Lesson& lesson, const LessonState& state) {
  std::string out =
      "# A state of a lesson: `lockstep learn --state FILE`, or open it in the studio.\n";
  out += "lesson: " + yamlScalar(lesson.id, true) + "\nstate:\n";
  for (const auto& [name, value] : lesson.start()) {
    const auto given = state.find(name);
    out += fmt::format("  {}: {}\n", yamlScalar(name, true),
                       yamlScalar(given == state.end() ? value : given->second, true));
  }
  return out;
}

Result<SharedState> parseLessonState(std::string_view text, const std::string& file,
                                     const std::vector<Lesson>& lessons) {
  const Reader in(file);
  LOCKSTEP_ASSIGN(const YamlNode root, in.root(text));
  LOCKSTEP_TRY(in.fields(root, "state", {"lesson", "state"}));
  SharedState out;
  LOCKSTEP_ASSIGN(out.lesson, in.text(*child(root, "lesson"), "lesson"));
  const auto lesson = std::find_if(lessons.begin(), lessons.end(),
                                   [&](const Lesson& one) { return one.id == out.lesson; });
  if (lesson == lessons.end())
    return in.error(*child(root, "lesson"), "lesson", message("there is no lesson {}", out.lesson));
  LOCKSTEP_ASSIGN(const LessonState given, in.state(child(root, "state"), "state", *lesson));
  out.state = lesson->start();
  for (const auto& [name, value] : given) out.state[name] = value;
  return out;
}

}  // namespace lockstep::app
