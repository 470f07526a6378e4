#include "agent/workload/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <utility>

namespace lockstep::agent {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
// Between two looks for the end of a process that prints nothing.
constexpr Nanoseconds kTick = 20 * kMillisecond;
// What a child of the ended program may still print is waited for as long.
constexpr Nanoseconds kOpenOutput = 500 * kMillisecond;

// Between fork and exec: async-signal-safe calls only.
[[noreturn]] void becomeProgram(pid_t parent, int output, const char* folder, const char* path,
                                char* const* words, char* const* environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  for (int number : {SIGPIPE, SIGHUP, SIGTERM, SIGINT, SIGCHLD}) ::signal(number, SIG_DFL);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (syscall(SYS_close_range, 3, ~0U, 0) != 0)
    for (int fd = 3; fd < 1024; ++fd) close(fd);
  if (chdir(folder) != 0) _exit(127);
  execve(path, words, environment);
  _exit(127);
}

std::vector<char*> pointersOf(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

bool isExecutable(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

}  // namespace

Result<std::string> findProgram(const std::string& name, const std::string& path,
                                const std::string& folder) {
  if (name.find('/') != std::string::npos) {
    const std::string file = name.front() == '/' ? name : folder + "/" + name;
    if (isExecutable(file)) return file;
    Error error = systemError(errno, message("cannot run {}", file));
    if (error.code != Code::kNotFound) error.code = Code::kFailedPrecondition;
    error.next = message("make it executable, or name its interpreter: [python3, {}]", name);
    return error;
  }
  std::istringstream folders(path);
  for (std::string one; std::getline(folders, one, ':');)
    if (!one.empty() && isExecutable(one + "/" + name)) return one + "/" + name;
  if (name == "python") {
    if (auto found = findProgram("python3", path, folder); found.ok()) return found;
  }
  Error error = makeError(Code::kNotFound, "there is no program {} on this node", name);
  error.why = message("it was looked for in {}", path);
  error.next = "install it there, give its whole path, or set workload.python";
  return error;
}

Result<Program> Program::start(const Options& options) {
  std::array<int, 2> output{-1, -1};
  if (pipe2(output.data(), O_CLOEXEC) != 0) return systemError(errno, "cannot create a pipe");
  std::vector<std::string> words = options.words, environment = options.environment;
  const std::vector<char*> arguments = pointersOf(words), variables = pointersOf(environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0)
    becomeProgram(parent, output[1], options.folder.c_str(), options.path.c_str(),
                  arguments.data(), variables.data());
  const int failure = errno;
  close(output[1]);
  if (pid < 0) {
    close(output[0]);
    return systemError(failure, message("cannot start {}", options.path));
  }
  fcntl(output[0], F_SETFL, O_NONBLOCK);
  return Program(pid, output[0]);
}

Program::Program(Program&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::exchange(other.output_, -1)),
      status_(other.status_),
      exited_(other.exited_),
      exitedAt_(other.exitedAt_) {}

Program::~Program() {
  if (output_ >= 0) close(output_);
  if (pid_ < 0 || exited_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Program::signal(int number) const {
  if (!exited_) kill(pid_, number);
}

bool Program::wait(Nanoseconds limit, const std::function<void(std::string_view)>& onOutput) {
  const Nanoseconds end = monotonicNow() + limit;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    if (!exited_ && waitpid(pid_, &status_, WNOHANG) == pid_) {
      exited_ = true;
      exitedAt_ = monotonicNow();
    }
    if (output_ >= 0) {
      const ssize_t count = read(output_, buffer.data(), buffer.size());
      if (count > 0) {
        onOutput({buffer.data(), static_cast<std::size_t>(count)});
        return true;
      }
      if (count == 0 || (errno != EAGAIN && errno != EINTR)) close(std::exchange(output_, -1));
    }
    const Nanoseconds now = monotonicNow();
    if (exited_ && (output_ < 0 || now - exitedAt_ > kOpenOutput)) return false;
    if (now >= end) return true;
    pollfd ready{output_, POLLIN, 0};
    poll(&ready, output_ >= 0 ? 1 : 0,
         static_cast<int>(std::min(kTick, end - now) / kMillisecond) + 1);
  }
}

}  // namespace lockstep::agent
