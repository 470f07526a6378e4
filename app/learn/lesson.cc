#include "app/learn/lesson.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "app/learn/circumstances.h"
#include "app/specs/spec_text.h"
#include "engine/base/file.h"
#include "engine/base/list_folder.h"
#include "engine/base/shell_text.h"

namespace lockstep::app {
namespace {
constexpr std::size_t kMostBytes = std::size_t{1} << 18;  // of a lesson

bool isSimulated(const Slider& slider) {
  return slider.sets != "cluster.ranks" && circumstance(slider.sets) != nullptr;
}

}  // namespace

std::string_view lessonViewName(LessonView view) {
  constexpr std::array<std::string_view, 6> kNames{"timeline", "heat-map", "traffic",
                                                   "memory",   "messages", "chart"};
  return kNames[static_cast<std::size_t>(view)];
}

const Slider* Lesson::slider(std::string_view name) const {
  const auto found = std::find_if(sliders.begin(), sliders.end(),
                                  [&](const Slider& one) { return one.name == name; });
  return found == sliders.end() ? nullptr : &*found;
}

LessonState Lesson::start() const {
  LessonState out;
  for (const Slider& slider : sliders) out[slider.name] = slider.values[slider.start];
  return out;
}

Result<std::vector<Lesson>> readLessons(const std::string& folder) {
  std::vector<std::string> files;
  for (const std::filesystem::path& path : listFolder(folder))
    if (path.extension() == ".yaml") files.push_back(path.string());
  std::sort(files.begin(), files.end());
  std::vector<Lesson> out;
  for (const std::string& file : files) {
    LOCKSTEP_ASSIGN(const std::string text, readFile(file, kMostBytes));
    LOCKSTEP_ASSIGN(Lesson lesson, parseLesson(text, file));
    out.push_back(std::move(lesson));
  }
  return out;
}

std::string lessonFolder() {
  if (const char* given = std::getenv("LOCKSTEP_LESSONS"); given != nullptr && *given != '\0')
    return given;
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  const std::string source = self / "../../../resources/lessons";  // build/<preset>/bin
  if (std::filesystem::exists(source, failed)) return source;
  return self / "../share/lockstep/lessons";
}

LessonState withoutSimulated(const Lesson& lesson, const LessonState& moved) {
  LessonState out = moved;
  for (const Slider& slider : lesson.sliders)
    if (isSimulated(slider)) out.erase(slider.name);
  return out;
}

std::string learnLine(const Lesson& lesson, const std::string& option, const LessonState& moved) {
  std::vector<std::string> words{"lockstep", "learn", lesson.id, option};
  for (const auto& [name, value] : moved) {
    words.emplace_back("--set");
    words.push_back(name + "=" + value);
  }
  return shellLine(words);
}

Result<Lesson::RealRun> realRunIn(const Lesson& lesson, const LessonState& moved) {
  LOCKSTEP_TRY(Circumstances::of(lesson, moved).status());
  Lesson::RealRun out = lesson.real;
  for (const auto& [name, value] : moved) {
    const Slider& slider = *lesson.slider(name);
    if (slider.sets == "cluster.ranks")
      out.ranks = std::atoi(value.c_str());
    else if (!isSimulated(slider))
      out.settings[slider.sets] = value;
    else if (value != slider.values[slider.start])
      return invalidArgument("slider {} is of the simulation: a real run cannot set it",
                             slider.name);
  }
  return out;
}

Result<std::string> realSpecText(const Lesson& lesson) {
  SpecText text = SpecText::parse(lesson.specYaml, lesson.id + ".yaml", SpecKind::kRun);
  for (const auto& [path, value] : lesson.real.settings) {
    LOCKSTEP_ASSIGN(const TextEdit edit, text.edit(path, value));
    text = SpecText::parse(edit.applied(text.text()), text.file(), SpecKind::kRun);
  }
  return text.text();
}

Result<LaunchRequest> realRunOf(const Lesson& lesson, const std::string& localFolder) {
  LOCKSTEP_ASSIGN(const std::string spec, realSpecText(lesson));
  LOCKSTEP_ASSIGN(const RunSpecFile run, completeRunSpec(spec, lesson.id));
  const ClusterSpecFile cluster = localCluster(lesson.real.ranks, localFolder, {});
  LaunchRequest out;
  out.spec = run.spec;
  out.cluster = cluster.spec;
  out.specYaml = run.yaml;
  out.clusterYaml = cluster.yaml;
  return out;
}

std::string realRunCommand(const Lesson& lesson, const std::string& file) {
  return fmt::format("lockstep run {} --local {}", file, lesson.real.ranks);
}

}  // namespace lockstep::app
