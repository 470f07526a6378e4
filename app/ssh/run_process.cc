#include "app/ssh/run_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "app/ssh/wake.h"
#include "engine/base/unique_fd.h"

extern char** environ;

namespace lockstep::app {
namespace {

using Clock = std::chrono::steady_clock;

// Appends what can be read now, at most what a pipe holds, and drops what is beyond `most`. Returns
// false at the end of the stream.
bool drain(int fd, std::size_t most, std::string* text) {
  constexpr int kMostReads = 64;
  char bytes[16384];
  for (int reads = 0; reads < kMostReads; ++reads) {
    const ssize_t n = ::read(fd, bytes, sizeof bytes);
    if (n > 0) {
      text->append(bytes, std::min(static_cast<std::size_t>(n), most - text->size()));
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else {
      return n < 0 && errno == EAGAIN;
    }
  }
  return true;
}

// Returns a file without a name that has the text, to be read from its start.
Result<UniqueFd> inputFile(std::string_view text) {
  UniqueFd file(::memfd_create("input", MFD_CLOEXEC));
  if (!file ||
      ::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return systemError(errno, "cannot pass on the input");
  return file;
}

Result<pid_t> spawn(const std::vector<std::string>& argv, int in, int out, int err, bool ownGroup) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (ownGroup) posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> args;
  for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  pid_t pid = -1;
  const int spawned = ::posix_spawnp(&pid, args[0], &actions, &attributes, args.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (spawned == 0) return pid;
  Error error = systemError(spawned, message("cannot run {}", argv[0]));
  if (spawned == ENOENT) error.code = Code::kNotFound;
  return error;
}

}  // namespace

Result<ProcessResult> runProcess(const std::vector<std::string>& argv,
                                 std::chrono::milliseconds timeout, std::stop_token stop,
                                 const ProcessOptions& options) {
  int outPipe[2], errPipe[2];
  if (::pipe2(outPipe, O_CLOEXEC) != 0) return systemError(errno, "cannot create a pipe");
  UniqueFd outRead(outPipe[0]), outWrite(outPipe[1]);
  if (::pipe2(errPipe, O_CLOEXEC) != 0) return systemError(errno, "cannot create a pipe");
  UniqueFd errRead(errPipe[0]), errWrite(errPipe[1]);
  for (int fd : {outRead.get(), errRead.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);

  LOCKSTEP_ASSIGN(const UniqueFd input, inputFile(options.input));
  LOCKSTEP_ASSIGN(const pid_t pid,
                  spawn(argv, input.get(), outWrite.get(), errWrite.get(), options.ownGroup));
  outWrite.reset();
  errWrite.reset();

  Wake wake;
  std::stop_callback onStop(stop, [&] { wake.notify(); });
  UniqueFd exited(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const auto deadline = Clock::now() + timeout;
  ProcessResult result;
  std::optional<Error> failure;
  bool outOpen = true, errOpen = true;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (stop.stop_requested()) {
      failure = makeError(Code::kCancelled, "{} was cancelled", argv[0]);
    } else if (left.count() <= 0) {
      failure = makeError(Code::kDeadlineExceeded, "{} did not end within {} ms", argv[0],
                          timeout.count());
    }
    if (failure) {
      ::kill(options.ownGroup ? -pid : pid, SIGKILL);
      break;
    }
    pollfd fds[] = {{exited.get(), POLLIN, 0},
                    {outOpen ? outRead.get() : -1, POLLIN, 0},
                    {errOpen ? errRead.get() : -1, POLLIN, 0},
                    {wake.fd(), POLLIN, 0}};
    ::poll(fds, 4, static_cast<int>(std::min<long long>(left.count() + 1, 60000)));
    if (fds[1].revents) outOpen = drain(outRead.get(), options.kept, &result.output);
    if (fds[2].revents) errOpen = drain(errRead.get(), options.kept, &result.errorOutput);
    if (fds[0].revents) break;
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (failure) return *failure;
  if (outOpen) drain(outRead.get(), options.kept, &result.output);
  if (errOpen) drain(errRead.get(), options.kept, &result.errorOutput);
  result.exitStatus = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace lockstep::app
