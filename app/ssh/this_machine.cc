#include "app/ssh/this_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "app/ssh/run_process.h"
#include "app/ssh/runtime_folder.h"
#include "app/ssh/ssh_forwards.h"

extern char** environ;

namespace lockstep::app {
namespace {

constexpr std::chrono::milliseconds kToLeave{2000};  // after SIGTERM

struct Bridge {
  pid_t pid;
  UniqueFd exited;  // a pidfd
};

// Runs a command whose stdin and stdout are `stream`.
std::optional<Bridge> startBridge(const std::string& command, const UniqueFd& stream) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, stream.get(), 0);
  posix_spawn_file_actions_adddup2(&actions, stream.get(), 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> words{"/bin/sh", "-c", command};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return std::nullopt;
  UniqueFd exited(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!exited) {  // its end could not be waited for
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return std::nullopt;
  }
  return Bridge{pid, std::move(exited)};
}

}  // namespace

// The local sockets, and the processes that their connections are wired to.
class ThisMachine::Forwarding {
 public:
  explicit Forwarding(const std::string& node)
      : forwards_(node, wake_), thread_([this](const std::stop_token& stop) { run(stop); }) {}
  ~Forwarding() { close(); }

  Result<std::string> listen(const std::string& command) {
    LOCKSTEP_ASSIGN(const std::string folder, runtimeFolder());
    StreamRequest request;
    request.what = command;
    return forwards_.listen(folder, std::move(request));
  }
  void stop(const std::string& path) { forwards_.stop(path); }
  void close() {
    forwards_.refuse();
    thread_.request_stop();
    wake_.notify();
    const std::lock_guard joining(joinMutex_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      forwards_.attachCallers([this](const StreamRequest& request, const UniqueFd& stream) {
        if (auto bridge = startBridge(request.what, stream)) bridges_.push_back(std::move(*bridge));
      });
      std::vector<pollfd> fds{{wake_.fd(), POLLIN, 0}};
      for (const Bridge& bridge : bridges_) fds.push_back({bridge.exited.get(), POLLIN, 0});
      forwards_.addListeners(fds);
      ::poll(fds.data(), fds.size(), -1);
      if (fds[0].revents) wake_.clear();
      reap();
    }
    forwards_.clear();
    end();
  }

  void reap() {
    std::erase_if(bridges_, [](const Bridge& bridge) {
      return ::waitpid(bridge.pid, nullptr, WNOHANG) != 0;
    });
  }

  void end() {
    for (const Bridge& bridge : bridges_) ::kill(-bridge.pid, SIGTERM);
    const auto until = std::chrono::steady_clock::now() + kToLeave;
    while (!bridges_.empty()) {
      if (std::chrono::steady_clock::now() > until)
        for (const Bridge& bridge : bridges_) ::kill(-bridge.pid, SIGKILL);
      pollfd first{bridges_.front().exited.get(), POLLIN, 0};
      ::poll(&first, 1, 100);
      reap();
    }
  }

  const Wake wake_;
  SshForwards forwards_;
  std::vector<Bridge> bridges_;  // used by the thread alone
  std::mutex joinMutex_;
  std::jthread thread_;
};

ThisMachine::ThisMachine(std::string node)
    : node_(std::move(node)), forwarding_(std::make_unique<Forwarding>(node_)) {}
ThisMachine::~ThisMachine() = default;

Status ThisMachine::connect(std::stop_token) { return {}; }
Status ThisMachine::waitConnected(std::chrono::milliseconds, std::stop_token) { return {}; }
LinkStatus ThisMachine::status() const { return {LinkState::kConnected, {}, {}, 0}; }

Result<ExecResult> ThisMachine::exec(const std::string& command, ExecOptions options,
                                     std::stop_token stop) {
  ProcessOptions process;
  process.input = options.input;
  process.ownGroup = true;
  process.kept = options.outputLimit + 1;
  auto ran = runProcess({"/bin/sh", "-c", command}, options.timeout, std::move(stop), process);
  if (!ran.ok()) {
    Error error = makeError(ran.error().code, "`{}` failed", command);
    error.why = ran.error().message();
    error.node = node_;
    return error;
  }
  if (std::max(ran->output.size(), ran->errorOutput.size()) > options.outputLimit) {
    Error error = makeError(Code::kResourceExhausted, "`{}` printed more than the limit", command);
    error.node = node_;
    return error;
  }
  return ExecResult{ran->exitStatus, {}, std::move(ran->output), std::move(ran->errorOutput)};
}

Result<UniqueFd> ThisMachine::openSubsystem(const std::string& name, std::stop_token) {
  return makeError(Code::kFailedPrecondition, "this machine has no subsystem {} of SSH", name);
}

Result<std::string> ThisMachine::forward(const std::string& remoteSocket,
                                         const std::string& bridgeCommand) {
  if (!remoteSocket.empty()) return remoteSocket;
  return forwarding_->listen(bridgeCommand);
}
void ThisMachine::stopForward(const std::string& localSocket) { forwarding_->stop(localSocket); }
void ThisMachine::close() { forwarding_->close(); }

}  // namespace lockstep::app
