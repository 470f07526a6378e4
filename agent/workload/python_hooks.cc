#include "agent/workload/python_hooks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "agent/base/paths.h"
#include "agent/base/process_stat.h"
#include "agent/workload/collective_counts.h"
#include "agent/workload/counts_file.h"
#include "agent/workload/python_files.h"
#include "engine/base/file.h"

namespace lockstep::agent {
namespace {

constexpr std::string_view kFrame = "  File \"";  // of a stack
constexpr std::string_view kThread = "(most recent call first):";
// They follow the pipe's name, as _counts.py and _recorder.py say.
constexpr const char *kCounts = ".counts", *kAsk = ".ask";
constexpr int kRoundsAtOnce = 64;  // of a program that tells without end
// Thousands of values that a program tells at once; the usual 64 KiB take about a thousand.
constexpr int kPipeBytes = 256 << 10;

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

// In memory: a program that counts there never waits for a disk.
Result<UniqueFd> makeCounts(const std::string& link) {
  UniqueFd counts(memfd_create("lockstep-counts", MFD_CLOEXEC));
  if (!counts || ftruncate(counts.get(), sizeof(CountsFile)) != 0)
    return systemError(errno, "cannot make the file of collectives");
  unlink(link.c_str());  // of the start before
  if (symlink(fmt::format("/proc/{}/fd/{}", getpid(), counts.get()).c_str(), link.c_str()) != 0)
    return systemError(errno, message("cannot make the link {}", link));
  return counts;
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
  (void)fcntl(fd.get(), F_SETPIPE_SZ, kPipeBytes);
  const std::string ask = pipe + kAsk;
  unlink(ask.c_str());
  if (mkfifo(ask.c_str(), 0600) != 0)
    return systemError(errno, message("cannot make the pipe {}", ask));
  LOCKSTEP_ASSIGN(UniqueFd counts, makeCounts(pipe + kCounts));
  return std::unique_ptr<PythonHooks>(
      new PythonHooks(folder, std::move(pipe), std::move(fd), std::move(counts)));
}

PythonHooks::~PythonHooks() {
  unlink(pipe_.c_str());
  for (const char* beside : {kCounts, kAsk}) unlink((pipe_ + beside).c_str());
}

PythonHooks::Told PythonHooks::read() {
  Told out;
  std::array<char, 1 << 16> buffer;
  for (int rounds = 0; rounds < kRoundsAtOnce; ++rounds) {
    const ssize_t count = ::read(fd_.get(), buffer.data(), buffer.size());
    if (count <= 0) break;
    messages_.take({buffer.data(), static_cast<std::size_t>(count)}, out);
  }
  return out;
}

bool PythonHooks::tellLine(int index, std::string_view line) const {
  const std::string text = HookMessages::messageOf(line);
  if (text.size() > PIPE_BUF) return false;  // others write there too
  const UniqueFd to(
      open((localPipes() + std::to_string(index)).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  return to && ::write(to.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Forgets those that have ended: another process may get the number.
int PythonHooks::launchedRank() {
  std::vector<int>& launched = messages_.launched();
  std::erase_if(launched, [](int pid) { return !processRuns(pid); });
  return launched.empty() ? 0 : launched.front();
}

// By a byte. Returns false if no thread waits for one.
bool PythonHooks::askRecorder() const {
  const UniqueFd ask(open((pipe_ + kAsk).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  return ask && ::write(ask.get(), "?", 1) == 1;
}

bool PythonHooks::askStacks(int program) {
  (void)messages_.takeStacks();
  (void)messages_.takeRecorded();
  bool asked = askRecorder();
  const auto ask = [](int pid) {
    return handles(pid, stacksSignal()) && kill(pid, stacksSignal()) == 0;
  };
  const std::set<int>& processes = messages_.processes();
  if (processes.contains(program)) return ask(program) || asked;
  for (const int pid : processes) asked |= ask(pid);
  return asked;
}

// The collectives that Python calls are the last of those that are counted.
std::vector<std::string> PythonHooks::takeEvidence() {
  std::vector<std::string> out;
  std::string counts(sizeof(CountsFile), '\0');
  if (pread(counts_.get(), counts.data(), counts.size(), 0) < 0) counts.assign(counts.size(), '\0');
  for (const std::size_t at : {offsetof(CountsFile, nccl), offsetof(CountsFile, python)}) {
    const auto table = std::string_view(counts).substr(at, sizeof(CountsTable));
    if (!processRuns(countingProcess(table))) continue;
    for (const CollectiveCount& count : countsIn(table)) out.push_back(countLine(count));
  }
  for (const RecordedCollective& recorded : messages_.takeRecorded())
    out.push_back(recordedLine(recorded));
  return out;
}

std::vector<std::string> PythonHooks::takeStacks(const std::string& code) {
  std::error_code failed;
  // Python has resolved the links of the current folder, but not those of its path.
  const std::string resolved = std::filesystem::weakly_canonical(code, failed);
  std::vector<std::string> out = takeEvidence();
  bool hidden = false;  // a frame since the last of these lines
  const auto endThread = [&] {
    if (std::exchange(hidden, false) && !out.empty() && out.back().ends_with(kThread))
      out.pop_back();
  };
  for (std::string& line : messages_.takeStacks()) {
    if (isBelow(line, folder_)) {
      hidden = true;
      continue;
    }
    if (!line.starts_with(' ')) endThread();  // this is of the next one
    hidden = false;
    makeRelative(code, line);
    makeRelative(resolved, line);
    out.push_back(std::move(line));
  }
  endThread();
  return out;
}

}  // namespace lockstep::agent
