#include "agent/workload/python_hooks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "agent/base/paths.h"
#include "agent/workload/python_files.h"
#include "engine/base/file.h"

namespace lockstep::agent {
namespace {

constexpr int kRoundsAtOnce = 64;  // of a program that tells without end

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

}  // namespace

Result<std::unique_ptr<PythonHooks>> PythonHooks::make(const std::string& folder, int rank) {
  LOCKSTEP_TRY(makeFolders(folder + "/lockstep"));
  for (const auto& [path, text] : kPythonFiles)
    LOCKSTEP_TRY(writeFileAtomically(fmt::format("{}/{}", folder, path), text, 0600));
  std::string pipe = fmt::format("{}/rank-{}", folder, rank);
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
    messages_.take({buffer.data(), static_cast<std::size_t>(count)}, out);
  }
  return out;
}

bool PythonHooks::askStacks(int program) {
  (void)takeStacks();
  const auto ask = [](int pid) {
    return handles(pid, stacksSignal()) && kill(pid, stacksSignal()) == 0;
  };
  const std::set<int>& processes = messages_.processes();
  if (processes.contains(program)) return ask(program);
  bool asked = false;
  for (const int pid : processes) asked |= ask(pid);
  return asked;
}

std::vector<std::string> PythonHooks::takeStacks() { return messages_.takeStacks(); }

}  // namespace lockstep::agent
