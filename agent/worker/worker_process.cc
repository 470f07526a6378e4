#include "agent/worker/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "agent/base/open_files.h"
#include "agent/base/paths.h"
#include "agent/host/metrics.h"
#include "agent/host/processes.h"
#include "engine/base/file.h"
#include "engine/runtime/heartbeat.h"

extern char** environ;

namespace lockstep::agent {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr std::int64_t kLogBytes = std::int64_t{8} << 20;

std::vector<std::string> childEnvironment(const WorkerOptions& options) {
  std::vector<std::string> out;
  constexpr std::array<std::string_view, 9> kSet = {
      "LOCKSTEP_RUN=",         "LOCKSTEP_RANK=",   "OMP_NUM_THREADS=",
      "OPENBLAS_NUM_THREADS=", "MKL_NUM_THREADS=", "OMP_DYNAMIC=",
      "OMP_PROC_BIND=",        "OMP_WAIT_POLICY=", "GOMP_SPINCOUNT="};
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view entry(*at);
    bool ours = false;
    for (std::string_view name : kSet) ours = ours || entry.starts_with(name);
    if (!ours) out.emplace_back(entry);
  }
  out.push_back("LOCKSTEP_RUN=" + options.run);
  out.push_back(fmt::format("LOCKSTEP_RANK={}", options.rank));
  for (std::string_view name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"})
    out.push_back(fmt::format("{}={}", name, options.threads));
  out.emplace_back("OMP_DYNAMIC=false");
  out.emplace_back("OMP_PROC_BIND=false");
  out.emplace_back("OMP_WAIT_POLICY=passive");
  // A sleeping thread wakes in as much as 90 µs, a small kernel takes ten: the team waits awake for
  // some tenths of a millisecond, between the kernels of a step, and sleeps while a rank waits for
  // others.
  out.emplace_back(options.ownCores ? "GOMP_SPINCOUNT=10000" : "GOMP_SPINCOUNT=0");
  return out;
}

// Between fork and exec: async-signal-safe calls only.
[[noreturn]] void becomeWorker(pid_t parent, int channel, int output, int shared,
                               const char* folder, const char* path, char* const* arguments,
                               char* const* environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  // A process group of its own, and a session: the kernel shares cores out among sessions first, so
  // that ranks share them alike however many supervisors they have.
  setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number : {SIGPIPE, SIGHUP, SIGTERM, SIGINT, SIGCHLD}) ::signal(number, SIG_DFL);
  // Out of the way of the numbers they get.
  channel = fcntl(channel, F_DUPFD_CLOEXEC, 16);
  output = fcntl(output, F_DUPFD_CLOEXEC, 16);
  if (shared >= 0) shared = fcntl(shared, F_DUPFD_CLOEXEC, 16);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  dup2(channel, kWorkerChannelFd);
  if (shared >= 0) dup2(shared, kWorkerSharedFd);
  const int first = shared >= 0 ? kWorkerSharedFd + 1 : kWorkerChannelFd + 1;
  if (syscall(SYS_close_range, first, ~0U, 0) != 0)
    for (int fd = first; fd < 1024; ++fd) close(fd);
  if (chdir(folder) != 0) _exit(127);
  restoreOpenFiles();
  execve(path, arguments, environment);
  _exit(127);
}

std::string_view signalName(int number) {
  switch (number) {
    case SIGKILL:
      return "SIGKILL";
    case SIGTERM:
      return "SIGTERM";
    case SIGSEGV:
      return "SIGSEGV, an invalid memory access";
    case SIGABRT:
      return "SIGABRT, a broken invariant or an uncaught exception";
    case SIGBUS:
      return "SIGBUS, memory that could not be provided";
    case SIGILL:
      return "SIGILL, an instruction this processor does not have";
    case SIGFPE:
      return "SIGFPE, an arithmetic error";
    case SIGINT:
      return "SIGINT";
    case SIGXCPU:
      return "SIGXCPU, the limit of CPU time";
    default:
      return "";
  }
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::spawn(EventLoop& loop,
                                                            const WorkerOptions& options,
                                                            Handlers handlers) {
  std::array<int, 2> control{-1, -1};
  std::array<int, 2> output{-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control.data()) != 0)
    return systemError(errno, "cannot create a control channel");
  if (pipe2(output.data(), O_CLOEXEC) != 0) {
    Error error = systemError(errno, "cannot create a pipe");
    for (int fd : control) close(fd);
    return error;
  }
  const std::string path = executablePath();
  std::vector<std::string> words = {path, "worker", "--fd", std::to_string(kWorkerChannelFd)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<std::string> entries = childEnvironment(options);
  std::vector<char*> environment;
  for (std::string& entry : entries) environment.push_back(entry.data());
  environment.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0)
    becomeWorker(parent, control[1], output[1], options.sharedMemoryFd, options.folder.c_str(),
                 path.c_str(), arguments.data(), environment.data());
  const int failure = errno;
  close(control[1]);
  close(output[1]);
  if (pid < 0) {
    close(control[0]);
    close(output[0]);
    return systemError(failure, message("cannot start the worker of rank {}", options.rank));
  }

  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(loop, std::move(handlers)));
  WorkerProcess* raw = worker.get();
  raw->pid_ = pid;
  raw->run_ = options.run;
  raw->rank_ = options.rank;
  raw->output_ = output[0];
  fcntl(raw->output_, F_SETFL, O_NONBLOCK);
  if (!options.logPath.empty())
    raw->log_ = std::make_unique<BoundedFile>(options.logPath, kLogBytes);
  raw->channel_ = std::make_unique<Channel>(
      loop, control[0],
      [raw](std::string_view frame) {
        node::v1::FromWorker message;
        if (message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) {
          raw->hasProgram_ = raw->hasProgram_ || message.has_program() || message.has_setting_up();
          raw->handlers_.onMessage(message);
        }
      },
      [raw] { raw->reap(0); });
  loop.watch(raw->output_, POLLIN, [raw](short) { raw->readOutput(); });
  return worker;
}

WorkerProcess::~WorkerProcess() {
  channel_.reset();
  if (output_ >= 0) closeOutput();
  loop_.cancel(lineTimer_);
  loop_.cancel(reapTimer_);
  if (!exited_) {
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

void WorkerProcess::send(const node::v1::ToWorker& message) { channel_->send(message); }

void WorkerProcess::signal(int number) {
  if (exited_) return;
  if (kill(-pid_, number) != 0) kill(pid_, number);
}

void WorkerProcess::closeOutput() {
  loop_.unwatch(output_);
  close(output_);
  output_ = -1;
}

void WorkerProcess::readOutput() {
  std::array<char, 1 << 16> buffer;
  // Bounded, so that a flood of output does not keep the loop from its other work.
  for (int rounds = 0; rounds < 8; ++rounds) {
    const ssize_t count = read(output_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      closeOutput();
      lines_.end(monotonicNow());
      break;
    }
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(count));
    if (log_) log_->write(bytes);
    lines_.add(bytes, monotonicNow());
  }
  if (!lines_.empty() && lineTimer_ == 0)
    lineTimer_ = loop_.after(20 * kMillisecond, [this] { flushLines(); });
}

void WorkerProcess::flushLines() {
  lineTimer_ = 0;
  if (lines_.empty()) return;
  std::uint64_t dropped = 0;
  std::vector<std::string> lines = lines_.take(dropped);
  handlers_.onLines(std::move(lines), dropped);
}

// Ends what a worker that has exited leaves behind, as processes that a program has started. Its
// number is its own until it is reaped.
void WorkerProcess::endGroup() const {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid_)
    return;
  kill(-pid_, SIGKILL);
  // Others have a session of their own, as the ranks that torchrun starts. They may start more.
  for (int rounds = 0; hasProgram_ && rounds < 10; ++rounds) {
    std::vector<int> left = processesOfRank(run_, rank_);
    std::erase(left, pid_);
    if (left.empty()) break;
    for (const int pid : left) kill(pid, SIGKILL);
  }
}

// The control channel has ended: the process has exited or is about to.
void WorkerProcess::reap(int tries) {
  if (tries == 0) lastMemory_ = std::max(lastMemory_, processMemory(pid_));
  endGroup();
  int status = 0;
  const pid_t got = waitpid(pid_, &status, WNOHANG);
  if (got == 0) {
    if (tries == 500) signal(SIGKILL);  // it closed its channel and lives on
    reapTimer_ = loop_.after(4 * kMillisecond, [this, tries] { reap(tries + 1); });
    return;
  }
  exited_ = true;
  for (int rounds = 0; output_ >= 0 && rounds < 64; ++rounds) {
    pollfd ready{output_, POLLIN, 0};
    if (poll(&ready, 1, 0) <= 0) break;  // a child of the worker may hold it open
    readOutput();
  }
  if (output_ >= 0) {
    closeOutput();
    lines_.end(monotonicNow());
  }
  loop_.cancel(lineTimer_);
  flushLines();
  handlers_.onExit(got < 0 ? 0 : status);
}

std::chrono::nanoseconds diskLimit() {
  const char* const given = std::getenv("LOCKSTEP_DISK_LIMIT");
  const int seconds = given == nullptr ? 0 : std::atoi(given);
  return seconds > 0 ? std::chrono::seconds(seconds) : runtime::DiskWait().limit;
}

std::int64_t outOfMemoryKills() {
  const auto counters = readFile("/proc/vmstat", 1 << 16);
  if (!counters.ok()) return -1;
  const std::size_t at = counters->find("\noom_kill ");
  return at == std::string::npos ? -1 : std::atoll(counters->c_str() + at + 10);
}

Message WorkerProcess::exitText(int status) const {
  const std::int64_t kills = outOfMemoryKills();
  const auto known =
      killsBefore_ < 0 || kills < 0 ? std::nullopt : std::optional(kills > killsBefore_);
  return agent::exitText(status, lastMemory_, known);
}

Message exitText(int status, std::int64_t residentBytes, std::optional<bool> outOfMemory) {
  if (WIFEXITED(status)) {
    if (WEXITSTATUS(status) == 127) return "could not be started (exit code 127)";
    return message("exited with code {}", WEXITSTATUS(status));
  }
  if (!WIFSIGNALED(status)) return "ended";
  const int number = WTERMSIG(status);
  if (number == SIGKILL && outOfMemory) {
    if (!*outOfMemory)
      return "was killed by signal 9 (SIGKILL), sent by a person or a program; the node was not "
             "out of memory";
    return message(
        "was killed by signal 9 (SIGKILL), most likely by the kernel: the node ran out of memory; "
        "it had {} MiB resident",
        residentBytes >> 20);
  }
  const std::string_view name = signalName(number);
  return name.empty() ? message("was killed by signal {}", number)
                      : message("was killed by signal {} ({})", number, name);
}

}  // namespace lockstep::agent
