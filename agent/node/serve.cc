// serve: the front door of a node. Runs belong to their supervisors; this process may end and be
// replaced at any time.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "agent/base/commands.h"
#include "agent/base/open_files.h"
#include "agent/base/run_folder.h"
#include "agent/base/unix_server.h"
#include "agent/host/version_lease.h"
#include "agent/node/agent_service.h"
#include "agent/node/serving_agents.h"
#include "agent/node/stop_runs.h"
#include "agent/node/sweep.h"
#include "engine/base/file.h"
#include "engine/base/log.h"

namespace lockstep::agent {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", c);
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string announcement(const std::string& socket, const std::string& version, int pid) {
  return fmt::format("{{\"socket\":\"{}\",\"version\":\"{}\",\"pid\":{}}}\n", escaped(socket),
                     escaped(version), pid);
}

int fail(const Error& error) {
  std::fprintf(stderr, "lockstep-agent: %s\n", error.text().c_str());
  return 3;
}

// Waits until the lock is free: whoever holds it and does not serve is leaving. Negative: it did
// not.
int takeLock(const Workdir& workdir, const std::string& version) {
  for (int tries = 0; tries < 1000; ++tries) {
    if (const int fd = tryLock(workdir.agentLock(version)); fd >= 0) return fd;
    poll(nullptr, 0, 10);
  }
  return -1;
}

constexpr int kNoneServes = 4;  // exit status

struct ServeOptions {
  // seconds without a client or run after which it leaves; 0: never
  double idleExit = 0;
  double supersededExit = 60;  // seconds without a client, once another version was started
  double prepareSeconds = 30;
  // In a scheduler's job: the file that tells of its notice; "": in none.
  std::string noticeFile;
};

// How long clients may read the last records after a scheduler's notice has stopped all runs.
constexpr Nanoseconds kLastReading = 15 * kSecond;

constexpr std::chrono::seconds kAskAgain{2};

// Takes the signals that a scheduler sends before it ends a job: stops the runs, and leaves once
// they have ended and no client is connected any more.
class BatchSignals {
 public:
  BatchSignals(EventLoop& loop, const Workdir& workdir, AgentService& service, std::string file)
      : loop_(loop), workdir_(workdir), service_(service), file_(std::move(file)) {}

  void take(int number, const UnixServer& server) {
    if (number == SIGURG)
      tell(file_);
    else if (!stopping_.joinable() && service_.hasRuns())
      tell(file_ + ".term");
    if (stopping_.joinable()) return;
    logInfo("the scheduler ends the job: stopping all runs");
    stopping_ = std::jthread([this](const std::stop_token& stop) { stopAll(stop); });
    loop_.every(kSecond / 5, [this, &server] {
      if (!asked_ || service_.hasRuns()) return;
      if (ended_ == 0) ended_ = monotonicNow();
      if (server.connections() == 0 || monotonicNow() - ended_ > kLastReading) loop_.quit();
    });
  }

 private:
  // Again and again: a run may start, or come under this node's coordination, after the notice.
  void stopAll(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    std::set<std::string> asked;
    do {
      stopRuns(workdir_, asked);
      asked_ = true;
    } while (!never.wait_for(lock, stop, kAskAgain, [&] { return stop.stop_requested(); }));
  }
  static void tell(const std::string& file) {
    if (const Status kept = writeFileAtomically(file, "", 0600); !kept.ok())
      logWarning("{}", kept.error().text());
  }

  EventLoop& loop_;
  const Workdir& workdir_;
  AgentService& service_;
  const std::string file_;
  std::atomic<bool> asked_ = false;
  Nanoseconds ended_ = 0;  // when all runs had
  std::jthread stopping_;
};

int serve(const Workdir& workdir, const std::string& version, int lock, const ServeOptions& options,
          int readyFd) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (!options.noticeFile.empty()) sigaddset(&signals, SIGURG);
  sigprocmask(SIG_BLOCK, &signals, nullptr);  // before any thread is made
  umask(077);
  raiseOpenFiles();

  EventLoop loop;
  const VersionLease lease(loop);
  AgentService service(loop, workdir, version, options.prepareSeconds);
  const std::string socket = workdir.agentSocket(version);
  auto server = UnixServer::start(socket, service.service());
  if (!server.ok()) return fail(server.error());
  const std::string line = announcement(socket, version, getpid());
  [[maybe_unused]] const ssize_t written = write(readyFd, line.data(), line.size());
  if (readyFd != STDOUT_FILENO) close(readyFd);
  logInfo("agent {} serves {} for {}", version, socket, workdir.path);

  const int signalFd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  BatchSignals batch(loop, workdir, service, options.noticeFile);
  loop.watch(signalFd, POLLIN, [&](short) {
    signalfd_siginfo got{};
    while (read(signalFd, &got, sizeof got) == sizeof got)
      if (!options.noticeFile.empty() && got.ssi_signo != SIGINT)
        batch.take(static_cast<int>(got.ssi_signo), **server);
    if (!options.noticeFile.empty() && got.ssi_signo != SIGINT) return;
    logInfo("agent leaves: asked by a signal");
    loop.quit();
  });
  const std::jthread sweeper([&](const std::stop_token& stop) { keepSwept(workdir, stop); });
  Nanoseconds lastSeen = monotonicNow();
  const double shortest = options.idleExit > 0 ? std::min(options.idleExit, options.supersededExit)
                                               : options.supersededExit;
  const Nanoseconds interval =
      std::clamp(static_cast<Nanoseconds>(shortest * 0.2e9), kSecond / 5, 5 * kSecond);
  loop.every(interval, [&] {
    service.reapSupervisors();
    // Its runs are their supervisors', which the agent of another version finds as well.
    const auto newest = readFile(workdir.newestAgent(), 4096);
    const bool superseded = newest.ok() && *newest != version;
    const double limit = superseded ? shortest : options.idleExit;
    if (limit <= 0) return;
    if ((*server)->connections() > 0 || (!superseded && service.hasRuns()))
      lastSeen = monotonicNow();
    if (monotonicNow() - lastSeen > static_cast<Nanoseconds>(limit * 1e9)) {
      logInfo("agent leaves: {}", superseded ? "another version was started" : "idle");
      loop.quit();
    }
  });
  loop.run();
  service.leave();
  server->reset();
  close(lock);
  // Ended runs are in their spools, for the agent that comes next.
  if (servingAgents(workdir).empty())
    for (const RunFolder& folder : findRuns(workdir, ""))
      if (isFinal(folder.readState()))
        if (const auto supervisor = findSupervisor(folder)) kill(supervisor->pid, SIGTERM);
  return 0;
}

// The log of a detached agent: the newest, and once what came before.
int openLog(const Workdir& workdir) {
  const std::string path = workdir.path + "/agent.log";
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && info.st_size > (1 << 20))
    rename(path.c_str(), (path + ".1").c_str());
  return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

// Starts the server in a session of its own and passes on the line it announces itself with.
template <typename Serve>
int detach(const Workdir& workdir, Serve serveIn) {
  std::array<int, 2> ready{-1, -1};
  if (pipe2(ready.data(), O_CLOEXEC) != 0) return fail(systemError(errno, "cannot create a pipe"));
  const pid_t child = fork();
  if (child < 0) return fail(systemError(errno, "cannot start the agent"));
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    const int readyFd = fcntl(ready[1], F_DUPFD_CLOEXEC, 32);
    const int log = openLog(workdir);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(log >= 0 ? log : null, STDOUT_FILENO);
    dup2(log >= 0 ? log : null, STDERR_FILENO);
    // Inherited descriptors, above all the pipes of an SSH session, must not be held open.
    for (int fd = 3; fd < 1024; ++fd)
      if (fd != readyFd) close(fd);
    if (chdir("/") != 0) _exit(1);
    _exit(serveIn(readyFd));
  }
  close(ready[1]);
  waitpid(child, nullptr, 0);
  std::string line;
  const Nanoseconds end = monotonicNow() + 20 * kSecond;
  while (line.empty() || line.back() != '\n') {
    pollfd one{ready[0], POLLIN, 0};
    const Nanoseconds left = end - monotonicNow();
    if (left <= 0 || poll(&one, 1, static_cast<int>(left / 1'000'000) + 1) == 0) break;
    std::array<char, 512> buffer{};
    const ssize_t count = read(ready[0], buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    line.append(buffer.data(), static_cast<std::size_t>(count));
  }
  close(ready[0]);
  if (line.empty() || line.back() != '\n') {
    Error error = makeError(Code::kUnavailable, "the agent did not start");
    const std::string path = workdir.path + "/agent.log";
    error.why = message("its log is {}", path);
    if (auto log = readFile(path); log.ok())
      error.why =
          message("{}:\n{}", error.why, log->substr(log->size() > 1000 ? log->size() - 1000 : 0));
    return fail(error);
  }
  std::fputs(line.c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

Result<int> serveCommand(const Arguments& arguments) {
  ServeOptions options;
  LOCKSTEP_ASSIGN(options.idleExit, seconds(arguments, "idle-exit", options.idleExit));
  LOCKSTEP_ASSIGN(options.supersededExit,
                  seconds(arguments, "superseded-exit", options.supersededExit));
  options.noticeFile = arguments.text("batch");
  LOCKSTEP_ASSIGN(options.prepareSeconds,
                  seconds(arguments, "prepare-seconds", options.prepareSeconds));
  if (geteuid() == 0 && !arguments.has("allow-root")) {
    Error error = makeError(Code::kPermissionDenied, "the agent does not run as root");
    error.why = "a run's processes would have root's rights";
    error.next =
        "connect as another user, or set the node's SSH user to root in the cluster; from a "
        "terminal, pass --allow-root";
    return fail(error);
  }
  auto workdir = openWorkdir(arguments.text("workdir"));
  if (!workdir.ok()) return fail(workdir.error());
  const std::string version = bundleVersion(workdir->runtime);
  if (arguments.has("find")) {
    const auto serving = findAgent(*workdir, version);
    if (!serving) return kNoneServes;
    std::fputs(announcement(serving->socket, version, serving->pid).c_str(), stdout);
    return 0;
  }
  // If two start at once, one serves and the other finds it.
  int starting = -1;
  for (int tries = 0; starting < 0 && tries < 2500; ++tries) {
    starting = tryLock(workdir->agentFile(version, "start"));
    if (starting < 0) poll(nullptr, 0, 10);
  }
  // An agent that serves is found on a full disk, too.
  if (const auto newest = readFile(workdir->newestAgent(), 4096);
      !newest.ok() || *newest != version) {
    const Status told = writeFileAtomically(workdir->newestAgent(), version, 0600);
    if (!told.ok()) return fail(told.error());
  }
  if (const auto other = findAgent(*workdir, version)) {
    std::fputs(announcement(other->socket, version, other->pid).c_str(), stdout);
    return 0;
  }
  auto begin = [&](int readyFd) {
    const int lock = takeLock(*workdir, version);
    if (lock < 0) {
      return fail(makeError(Code::kAlreadyExists,
                            "another agent holds {} and does not leave; nodes that share a folder "
                            "need a workdir each",
                            workdir->path));
    }
    return serve(*workdir, version, lock, options, readyFd);
  };
  if (arguments.has("detach")) return detach(*workdir, begin);
  if (starting >= 0) close(starting);
  return begin(STDOUT_FILENO);
}

}  // namespace lockstep::agent
