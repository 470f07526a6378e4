#include "app/ssh/proxy_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "engine/base/text.h"

extern char** environ;

namespace lockstep::app {
namespace {

constexpr std::size_t kLongestTail = 2000;
constexpr int kExitWaitMs = 300;  // a command that closed its stdout is about to exit
constexpr int kHangUpWaitMs = 500, kKillWaitMs = 2000;
constexpr std::chrono::milliseconds kLastWords{100};

Result<pid_t> spawnShell(const std::string& command, int stream, int errors) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, stream, 0);
  posix_spawn_file_actions_adddup2(&actions, stream, 1);
  posix_spawn_file_actions_adddup2(&actions, errors, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  ::sigemptyset(&none);
  ::sigemptyset(&defaults);
  ::sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const char* shell = ::getenv("SHELL");
  std::string program = shell && *shell ? shell : "/bin/sh", option = "-c";
  std::string text = "exec " + command;
  char* argv[] = {program.data(), option.data(), text.data(), nullptr};
  pid_t pid = -1;
  const int fault = ::posix_spawn(&pid, argv[0], &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (fault != 0) return systemError(fault, message("cannot run {}", program));
  return pid;
}

}  // namespace

Result<std::unique_ptr<ProxyCommand>> ProxyCommand::start(const std::string& command) {
  int sockets[2], pipe[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return systemError(errno, "cannot create a socket");
  UniqueFd ours(sockets[0]), theirs(sockets[1]);
  if (::pipe2(pipe, O_CLOEXEC) != 0) return systemError(errno, "cannot create a pipe");
  UniqueFd errors(pipe[0]), errorsIn(pipe[1]);
  for (const int fd : {ours.get(), errors.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  LOCKSTEP_ASSIGN(const pid_t pid, spawnShell(command, theirs.get(), errorsIn.get()));
  return std::unique_ptr<ProxyCommand>(new ProxyCommand(pid, std::move(ours), std::move(errors)));
}

ProxyCommand::ProxyCommand(pid_t pid, UniqueFd transport, UniqueFd errors)
    : pid_(pid),
      exited_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))),
      transport_(std::move(transport)),
      errors_(std::move(errors)) {
  thread_ = std::thread([this] { drain(); });
}

ProxyCommand::~ProxyCommand() {
  transport_.reset();
  ::kill(-pid_, SIGHUP);
  pollfd exited{exited_.get(), POLLIN, 0};
  ::poll(&exited, 1, kHangUpWaitMs);
  ::kill(-pid_, SIGKILL);  // not reaped yet: the group cannot be another's
  const auto reap = [pid = pid_] {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  };
  if (::poll(&exited, 1, kKillWaitMs) != 0)
    reap();
  else
    std::thread(reap).detach();  // of another account, or in the middle of a disk's call
  ending_.notify();
  thread_.join();
}

void ProxyCommand::drain() {
  char bytes[4096];
  for (;;) {
    pollfd fds[] = {{errors_.get(), POLLIN, 0}, {ending_.fd(), POLLIN, 0}};
    ::poll(fds, 2, -1);
    if (fds[1].revents) return;
    const ssize_t n = ::read(errors_.get(), bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    const std::lock_guard lock(mutex_);
    if (n <= 0) {
      drained_ = true;
      changed_.notify_all();
      return;
    }
    tail_.append(bytes, static_cast<std::size_t>(n));
    if (tail_.size() > kLongestTail) tail_.erase(0, tail_.size() - kLongestTail);
  }
}

Message ProxyCommand::why() {
  pollfd exited{exited_.get(), POLLIN, 0};
  ::poll(&exited, 1, kExitWaitMs);
  siginfo_t end{};
  const bool ended =
      ::waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      end.si_pid == pid_;
  std::unique_lock lock(mutex_);
  // A process that the command left behind may hold stderr open.
  if (ended) changed_.wait_for(lock, kLastWords, [this] { return drained_; });
  const std::string said = withoutLineEnds(tail_);
  if (!ended) return said.empty() ? Message() : message("its ProxyCommand says: {}", said);
  const Message how = end.si_code == CLD_EXITED
                          ? message("its ProxyCommand ended with status {}", end.si_status)
                          : message("its ProxyCommand was ended by signal {}", end.si_status);
  return said.empty() ? how : message("{}: {}", how, said);
}

}  // namespace lockstep::app
