#include "agent/workload/python_hooks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "agent/base/paths.h"
#include "agent/host/processes.h"
#include "agent/workload/python_files.h"
#include "engine/base/file.h"
#include "engine/base/utf8.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kLongestLine = 8192;
constexpr std::size_t kMostStackBytes = std::size_t{256} << 10;
constexpr std::size_t kMostProcesses = 1024;
constexpr std::size_t kMostTags = 10000, kLongestTag = 1024;
constexpr std::int64_t kLastStep = std::int64_t{1} << 62;
constexpr std::size_t kMostSources = 100, kLongestText = 300;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 48;    // of a process
constexpr std::int64_t kLongestStep = 1'000'000'000'000'000;  // ns
constexpr std::string_view kFrame = "  File \"";              // of a stack
constexpr int kRoundsAtOnce = 64;                             // of a program that tells without end

// As resources/python/lockstep says.
int stacksSignal() { return SIGRTMIN + 6; }

// Whether the process is there and handles the signal: it would die of it otherwise.
bool handles(int pid, int number) {
  const auto status = readFile(fmt::format("/proc/{}/status", pid), 1 << 16);
  if (!status.ok()) return false;
  const std::size_t at = status->find("\nSigCgt:\t");
  if (at == std::string::npos) return false;
  const unsigned long long caught = std::strtoull(status->c_str() + at + 9, nullptr, 16);
  return (caught >> (number - 1) & 1) != 0;
}

// Whether the line is a frame of a stack, of a file in this folder.
bool isBelow(std::string_view line, const std::string& folder) {
  return !folder.empty() && line.starts_with(kFrame) &&
         line.substr(kFrame.size()).starts_with(folder + "/");
}

// Makes the path of a frame relative to this folder, if it is in there. Of `python ./main.py` it is
// "/folder/./main.py".
void makeRelative(const std::string& folder, std::string& line) {
  if (!isBelow(line, folder)) return;
  line.erase(kFrame.size(), folder.size() + 1);
  if (std::string_view(line).substr(kFrame.size()).starts_with("./")) line.erase(kFrame.size(), 2);
}

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

Result<std::unique_ptr<PythonHooks>> PythonHooks::make(const std::string& folder, int index,
                                                       bool hooked) {
  LOCKSTEP_TRY(makeFolders(folder + "/lockstep"));
  for (const auto& [path, text] : kPythonFiles)
    if (hooked || std::string_view(path) != "sitecustomize.py")
      LOCKSTEP_TRY(writeFileAtomically(fmt::format("{}/{}", folder, path), text, 0600));
  std::string pipe = fmt::format("{}/local-{}", folder, index);
  unlink(pipe.c_str());  // of the start before
  if (mkfifo(pipe.c_str(), 0600) != 0)
    return systemError(errno, message("cannot make the pipe {}", pipe));
  // With an end of its own to write to, it does not end when the last process of the program does.
  UniqueFd fd(open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (fd.get() < 0) return systemError(errno, message("cannot open the pipe {}", pipe));
  return std::unique_ptr<PythonHooks>(new PythonHooks(folder, std::move(pipe), std::move(fd)));
}

PythonHooks::~PythonHooks() { unlink(pipe_.c_str()); }

PythonHooks::Told PythonHooks::read() {
  Told out;
  std::array<char, 1 << 16> buffer;
  for (int rounds = 0; rounds < kRoundsAtOnce; ++rounds) {
    const ssize_t count = ::read(fd_.get(), buffer.data(), buffer.size());
    if (count <= 0) break;
    for (const char c : std::string_view(buffer.data(), static_cast<std::size_t>(count))) {
      if (c == '\n')
        takeLine(std::exchange(rest_, {}), out);
      else if (rest_.size() < kLongestLine)
        rest_ += c;
    }
  }
  return out;
}

// A message is a JSON object. All other lines are of stacks.
void PythonHooks::takeLine(const std::string& line, Told& told) {
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
  } else if (json.contains("source") && !json.contains("tag")) {
    takeSource(json, told);
  } else {
    takeValue(json, told);
  }
}

void PythonHooks::takeHello(const nlohmann::json& json) {
  const auto says = [&](const char* name) {
    const auto member = json.find(name);
    return member != json.end() && *member == true;
  };
  if (!json["hello"].is_number_integer()) return;
  const int pid = json["hello"].get<int>();
  if (says("stacks") && pids_.size() < kMostProcesses) pids_.insert(pid);
  if (says("launched") && launched_.size() < kMostProcesses) launched_.push_back(pid);
}

void PythonHooks::takeValue(const nlohmann::json& json, Told& told) {
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

void PythonHooks::takeSource(const nlohmann::json& json, Told& told) {
  run::v1::ProgramSource source;
  source.set_name(textOf(json, "source"));
  source.set_version(textOf(json, "version"));
  source.set_problem(textOf(json, "problem"));
  if (source.name().empty() || sources_.size() >= kMostSources) return;
  if (sources_.insert(source.SerializeAsString()).second) told.sources.push_back(source);
}

// Forgets those that have ended: another process may get the number.
int PythonHooks::launchedRank() {
  std::erase_if(launched_, [](int pid) { return !processRuns(pid); });
  return launched_.empty() ? 0 : launched_.front();
}

bool PythonHooks::askStacks(int program) {
  (void)takeStacks({});
  const auto ask = [](int pid) {
    return handles(pid, stacksSignal()) && kill(pid, stacksSignal()) == 0;
  };
  if (pids_.contains(program)) return ask(program);
  bool asked = false;
  for (const int pid : pids_) asked |= ask(pid);
  return asked;
}

std::vector<std::string> PythonHooks::takeStacks(const std::string& code) {
  stackBytes_ = 0;
  std::error_code failed;
  // Python has resolved the links of the current folder, but not those of its path.
  const std::string resolved = std::filesystem::weakly_canonical(code, failed);
  std::vector<std::string> out;
  for (std::string& line : std::exchange(stacks_, {})) {
    if (isBelow(line, folder_)) continue;
    makeRelative(code, line);
    makeRelative(resolved, line);
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace lockstep::agent
