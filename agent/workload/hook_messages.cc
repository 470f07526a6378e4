#include "agent/workload/hook_messages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "engine/base/utf8.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kLongestLine = 8192;
constexpr std::size_t kMostStackBytes = std::size_t{256} << 10;
constexpr std::size_t kMostProcesses = 1024;
constexpr std::size_t kMostTags = 10000, kLongestTag = 1024;
constexpr std::int64_t kLastStep = std::int64_t{1} << 62;
constexpr std::size_t kMostRecorded = 64;  // process groups
constexpr std::size_t kMostSources = 100, kLongestText = 300;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 48;    // of a process
constexpr std::int64_t kLongestStep = 1'000'000'000'000'000;  // ns

// JSON has no text for numbers that are not finite.
std::optional<double> numberOf(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::nan("");
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

// Returns the member's text; "" if it has none.
std::string textOf(const nlohmann::json& json, const char* name) {
  const auto member = json.find(name);
  if (member == json.end() || !member->is_string()) return "";
  return validUtf8(member->get<std::string>().substr(0, kLongestText));
}

// Returns the step that a list of nanoseconds, and of elements, tells; nullopt if it is none.
std::optional<ProgramStep> stepOf(int process, std::int64_t number, const nlohmann::json& list) {
  std::array<std::int64_t, 7> parts{};
  if (!list.is_array() || list.size() != parts.size()) return std::nullopt;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!list[i].is_number_integer()) return std::nullopt;
    parts[i] = list[i].get<std::int64_t>();
    if (parts[i] < 0 || parts[i] > (i == 0 ? kLastStep : kLongestStep)) return std::nullopt;
  }
  const auto seconds = [](std::int64_t part) { return static_cast<double>(part) * 1e-9; };
  return ProgramStep{process,
                     number,
                     parts[0],
                     parts[1],
                     seconds(std::min(parts[2], parts[1])),
                     seconds(parts[3]),
                     seconds(parts[4]),
                     seconds(parts[5]),
                     static_cast<double>(parts[6])};
}

// Returns the steps of a message, as many as are steps.
std::vector<ProgramStep> stepsOf(const nlohmann::json& json) {
  std::vector<ProgramStep> out;
  const auto first = json.find("first"), process = json.find("pid");
  if (first == json.end() || !first->is_number_integer() || process == json.end() ||
      !process->is_number_integer() || !json["steps"].is_array())
    return out;
  std::int64_t number = first->get<std::int64_t>();
  if (number < 1 || number > kMostSteps) return out;
  for (const nlohmann::json& list : json["steps"]) {
    const auto step = stepOf(process->get<int>(), number++, list);
    if (!step) break;
    out.push_back(*step);
  }
  return out;
}

}  // namespace

std::string HookMessages::messageOf(std::string_view line) {
  return nlohmann::json({{"line", validUtf8(std::string(line))}}).dump() + "\n";
}

void HookMessages::take(std::string_view bytes, Told& told) {
  for (const char c : bytes) {
    if (c == '\n')
      takeLine(std::exchange(rest_, {}), told);
    else if (rest_.size() < kLongestLine)
      rest_ += c;
  }
}

// A message is a JSON object. All other lines are of stacks.
void HookMessages::takeLine(const std::string& line, Told& told) {
  if (line.empty()) return;
  const auto json = line[0] == '{' ? nlohmann::json::parse(line, nullptr, false)
                                   : nlohmann::json(nlohmann::json::value_t::discarded);
  if (!json.is_object()) {
    if (line[0] == '{' || stackBytes_ + line.size() > kMostStackBytes) return;
    stackBytes_ += line.size();
    stacks_.push_back(validUtf8(line));
  } else if (json.contains("hello")) {
    takeHello(json);
  } else if (json.contains("steps")) {
    for (const ProgramStep& step : stepsOf(json)) told.steps.push_back(step);
  } else if (const auto printed = json.find("line"); printed != json.end()) {
    if (printed->is_string()) told.lines.push_back(validUtf8(printed->get<std::string>()));
  } else if (json.contains("recorded")) {
    auto recorded = recordedIn(json);
    if (recorded && recorded_.size() < kMostRecorded) recorded_.push_back(*std::move(recorded));
  } else if (json.contains("source") && !json.contains("tag")) {
    takeSource(json, told);
  } else {
    takeValue(json, told);
  }
}

void HookMessages::takeHello(const nlohmann::json& json) {
  const auto says = [&](const char* name) {
    const auto member = json.find(name);
    return member != json.end() && *member == true;
  };
  if (!json["hello"].is_number_integer()) return;
  const int pid = json["hello"].get<int>();
  if (says("stacks") && pids_.size() < kMostProcesses) pids_.insert(pid);
  if (says("launched") && launched_.size() < kMostProcesses) launched_.push_back(pid);
}

void HookMessages::takeValue(const nlohmann::json& json, Told& told) {
  const auto tag = json.find("tag"), value = json.find("value"), step = json.find("step");
  const std::optional<double> number = value == json.end() ? std::nullopt : numberOf(*value);
  if (tag == json.end() || !tag->is_string() || !number) return;
  const std::string name = validUtf8(tag->get<std::string>());
  if (name.empty() || name.size() > kLongestTag) return;
  if (!steps_.contains(name) && steps_.size() >= kMostTags) return;
  std::int64_t& last = steps_[name];
  const bool hasStep = step != json.end() && step->is_number_integer();
  last = std::clamp<std::int64_t>(hasStep ? step->get<std::int64_t>() : last + 1, 0, kLastStep);
  std::string source = textOf(json, "source");
  if (source.empty()) source = "log";
  if (told.values.empty() || told.values.back().source() != source)
    told.values.emplace_back().set_source(source);
  run::v1::Scalar& scalar = *told.values.back().add_scalars();
  scalar.set_tag(name);
  scalar.set_step(last);
  scalar.set_value(*number);
}

void HookMessages::takeSource(const nlohmann::json& json, Told& told) {
  run::v1::ProgramSource source;
  source.set_name(textOf(json, "source"));
  source.set_version(textOf(json, "version"));
  source.set_problem(textOf(json, "problem"));
  if (source.name().empty() || sources_.size() >= kMostSources) return;
  if (sources_.insert(source.SerializeAsString()).second) told.sources.push_back(source);
}

std::vector<std::string> HookMessages::takeStacks() {
  stackBytes_ = 0;
  return std::exchange(stacks_, {});
}

}  // namespace lockstep::agent
