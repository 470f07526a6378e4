#include "agent/workload/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <utility>

#include "agent/base/open_files.h"
#include "engine/base/unique_fd.h"

extern char** environ;

namespace lockstep::agent {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
// Between two looks for the end of a process that prints nothing.
constexpr Nanoseconds kTick = 20 * kMillisecond;
// What a child of the ended program may still print is waited for as long.
constexpr Nanoseconds kOpenOutput = 500 * kMillisecond;

constexpr int kFailedFd = 3;

// Why the child could not become the program.
struct Failure {
  int number = 0;       // errno; 0: it has become it
  bool folder = false;  // of the change of folder
};

// Between fork and exec: async-signal-safe calls only. Tells a failure to `failed`.
[[noreturn]] void becomeProgram(pid_t parent, int output, int failed, const char* folder,
                                const char* path, char* const* words, char* const* environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  for (int number : {SIGPIPE, SIGHUP, SIGTERM, SIGINT, SIGCHLD}) ::signal(number, SIG_DFL);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (failed != kFailedFd) dup3(failed, kFailedFd, O_CLOEXEC);
  if (syscall(SYS_close_range, kFailedFd + 1, ~0U, 0) != 0)
    for (int fd = kFailedFd + 1; fd < 1024; ++fd) close(fd);
  Failure failure;
  restoreOpenFiles();
  failure.folder = chdir(folder) != 0;
  if (!failure.folder) execve(path, words, environment);
  failure.number = errno;
  (void)!write(kFailedFd, &failure, sizeof failure);
  _exit(127);
}

// Waits until the child has become the program or has not.
Failure readFailure(int fd) {
  Failure out;
  ssize_t count = 0;
  while ((count = read(fd, &out, sizeof out)) < 0 && errno == EINTR) {
  }
  return count == sizeof out ? out : Failure();
}

Error errorOf(const Failure& failure, const Program::Options& options) {
  if (failure.folder)
    return systemError(failure.number,
                       message("cannot start the program in the folder {}", options.folder));
  Error error = systemError(failure.number, message("cannot run {}", options.path));
  error.code = Code::kFailedPrecondition;
  if (failure.number == ENOEXEC) {
    error.why =
        "it is neither a program of this machine nor a script whose first line names its "
        "interpreter";
    error.next = message("name its interpreter: [python3, {}]", options.words.front());
  } else if (failure.number == ENOENT) {
    error.why =
        "the interpreter that it names, in its first line where it is a script, is not on "
        "this node";
    error.next = message("name one that is: [python3, {}]", options.words.front());
  }
  return error;
}

std::vector<char*> pointersOf(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// With errno where not.
bool isExecutable(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return false;
  if (S_ISDIR(info.st_mode)) errno = EISDIR;
  return !S_ISDIR(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

Message nextWhereAbsent(bool belowCode) {
  return belowCode ? message(
                         "the path is relative to the node's copy of the code, which lacks what "
                         "git ignores: make it there with workload.setup, or give the absolute "
                         "path of one that all nodes have")
                   : message(
                         "create it on the node, or name one that all nodes have and that this "
                         "user may read");
}

Result<std::string> resolveProgram(const std::string& name, const std::string& path,
                                   const std::string& folder) {
  if (name.find('/') != std::string::npos) {
    const std::string file = name.front() == '/' ? name : folder + "/" + name;
    if (isExecutable(file)) return file;
    Error error = systemError(errno, message("cannot run {}", file));
    if (error.code == Code::kNotFound) {
      error.next = nextWhereAbsent(name.front() != '/');
      return error;
    }
    error.code = Code::kFailedPrecondition;
    error.next = message("make it executable, or name its interpreter: [python3, {}]", name);
    return error;
  }
  std::istringstream folders(path);
  for (std::string one; std::getline(folders, one, ':');) {
    if (one.empty()) continue;
    if (isExecutable(one + "/" + name)) return one + "/" + name;
    if (name == "python" && isExecutable(one + "/python3")) return one + "/python3";
  }
  Error error = makeError(Code::kNotFound, "there is no program {} on this node", name);
  error.why = message("it was looked for in {}", path);
  error.next = "install it there, give its whole path, or set workload.python";
  return error;
}

Message endText(int status) {
  if (WIFEXITED(status)) return message("exited with code {}", WEXITSTATUS(status));
  return message("was killed by signal {}", WTERMSIG(status));
}

std::vector<std::string> inheritedEnvironment() {
  std::vector<std::string> out;
  for (char** at = environ; *at != nullptr; ++at) out.emplace_back(*at);
  return out;
}

Result<Program> Program::start(const Options& options) {
  std::array<int, 2> output{-1, -1};
  std::array<int, 2> failed{-1, -1};
  if (pipe2(output.data(), O_CLOEXEC) != 0) return systemError(errno, "cannot create a pipe");
  UniqueFd reader(output[0]), writer(output[1]);
  if (pipe2(failed.data(), O_CLOEXEC) != 0) return systemError(errno, "cannot create a pipe");
  const UniqueFd failedReader(failed[0]);
  UniqueFd failedWriter(failed[1]);
  std::vector<std::string> words = options.words, environment = options.environment;
  const std::vector<char*> arguments = pointersOf(words), variables = pointersOf(environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0)
    becomeProgram(parent, output[1], failed[1], options.folder.c_str(), options.path.c_str(),
                  arguments.data(), variables.data());
  if (pid < 0) return systemError(errno, message("cannot start {}", options.path));
  writer.reset();
  failedWriter.reset();
  fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  if (const Failure failure = readFailure(failedReader.get()); failure.number != 0) {
    waitpid(pid, nullptr, 0);
    return errorOf(failure, options);
  }
  return Program(pid, reader.release());
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
        // All that it wrote itself fitted in the pipe; its children may write for ever.
        return !exited_ || patient_ || monotonicNow() - exitedAt_ <= kOpenOutput;
      }
      if (count == 0 || (errno != EAGAIN && errno != EINTR)) close(std::exchange(output_, -1));
    }
    const Nanoseconds now = monotonicNow();
    const bool late = !patient_ && now - exitedAt_ > kOpenOutput;
    if (exited_ && (output_ < 0 || late)) return false;
    if (now >= end) return true;
    pollfd ready{output_, POLLIN, 0};
    poll(&ready, output_ >= 0 ? 1 : 0,
         static_cast<int>(std::min(kTick, end - now) / kMillisecond) + 1);
  }
}

}  // namespace lockstep::agent
