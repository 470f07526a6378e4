#include "agent/host/debugger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <vector>

#include "agent/base/unix_server.h"
#include "agent/host/processes.h"
#include "engine/base/file.h"
#include "engine/base/find_program.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/unique_fd.h"
#include "engine/base/utf8.h"

extern char** environ;

namespace lockstep::agent {
namespace {

constexpr int kLookMs = 50;
constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kStopLimit = 3000 * kMillisecond;    // until the program has stopped
constexpr Nanoseconds kAnswerLimit = 1000 * kMillisecond;  // of gdbserver
constexpr Nanoseconds kEndLimit = 2000 * kMillisecond;
constexpr std::size_t kMostBody = 256, kMostSaid = 4096, kMostRelayed = std::size_t{1} << 16;

// A process, which is not another one that got its number later.
struct Traced {
  int pid = 0;
  std::uint64_t start = 0;  // see ProcessStat

  bool hasEnded() const {
    const auto stat = statOf(pid);
    return !stat || stat->start != start || stat->state == 'Z' || stat->state == 'X';
  }
  static std::optional<ProcessStat> statOf(int pid) {
    const auto text = readFile(fmt::format("/proc/{}/stat", pid), 4096);
    return text.ok() ? parseProcessStat(*text) : std::nullopt;
  }
};

// The process that traces another one; 0: none.
int tracerOf(int pid) {
  constexpr std::string_view kKey = "\nTracerPid:\t";
  const auto status = readFile(fmt::format("/proc/{}/status", pid), std::size_t{1} << 16);
  const std::size_t at = status.ok() ? status->find(kKey) : std::string::npos;
  int tracer = 0;
  if (at != std::string::npos)
    std::from_chars(status->data() + at + kKey.size(), status->data() + status->size(), tracer);
  return tracer;
}

bool sendAll(int fd, std::string_view bytes, Nanoseconds limit) {
  const Nanoseconds end = monotonicNow() + limit;
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (monotonicNow() > end) return false;
    pollfd ready{fd, POLLOUT, 0};
    poll(&ready, 1, kLookMs);
  }
  return true;
}

std::string packet(std::string_view body) {
  unsigned sum = 0;
  for (const char c : body) sum += static_cast<unsigned char>(c);
  return fmt::format("${}#{:02x}", body, sum & 0xFFU);
}

// A gdbserver that is attached to a process, and its end of the conversation.
class Server {
 public:
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() { end(); }

  Status start(const std::string& program, int pid);
  int fd() const { return socket_.get(); }
  int complaints() const { return errors_.get(); }
  int pid() const { return child_; }
  bool hasExited();
  void readComplaints();
  const std::string& said() const { return said_; }
  // Undoes what the debugger has left, and detaches.
  void detach(DebuggerWatch& watch, int pid);
  void end();

 private:
  // Waits until `holds`, reading what the server says.
  bool await(DebuggerWatch& watch, Nanoseconds limit, const std::function<bool()>& holds);
  bool ask(DebuggerWatch& watch, const std::string& body);
  bool awaitExit(Nanoseconds limit);

  int child_ = 0;
  UniqueFd socket_, errors_;
  std::string said_;
};

Status Server::start(const std::string& program, int pid) {
  std::array<int, 2> ends{-1, -1};
  std::array<int, 2> errors{-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return systemError(errno, "cannot create a socket");
  socket_ = UniqueFd(ends[0]);
  const UniqueFd far(ends[1]);
  if (pipe2(errors.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    return systemError(errno, "cannot create a pipe");
  errors_ = UniqueFd(errors[0]);
  const UniqueFd farErrors(errors[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, far.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, far.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, farErrors.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  for (const int number : {SIGPIPE, SIGHUP, SIGTERM, SIGINT}) sigaddset(&usual, number);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::array<std::string, 5> words{program, "--once", "--attach", "-", std::to_string(pid)};
  std::array<char*, 6> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  const int failed =
      posix_spawn(&child_, program.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) return {};
  child_ = 0;
  return systemError(failed, message("cannot start {}", program));
}

bool Server::hasExited() {
  if (child_ == 0) return true;
  if (waitpid(child_, nullptr, WNOHANG) == 0) return false;
  child_ = 0;
  return true;
}

void Server::readComplaints() {
  std::array<char, 1024> block{};
  for (;;) {
    const ssize_t got = read(errors_.get(), block.data(), block.size());
    if (got == 0) errors_.reset();
    if (got <= 0) return;
    const std::size_t room = kMostSaid - std::min(kMostSaid, said_.size());
    said_.append(block.data(), std::min(room, static_cast<std::size_t>(got)));
  }
}

bool Server::await(DebuggerWatch& watch, Nanoseconds limit, const std::function<bool()>& holds) {
  const Nanoseconds end = monotonicNow() + limit;
  std::array<char, 4096> block{};
  while (!holds()) {
    if (monotonicNow() > end) return false;
    pollfd event{fd(), POLLIN, 0};
    if (poll(&event, 1, kLookMs) <= 0) continue;
    const ssize_t got = recv(fd(), block.data(), block.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return false;
    watch.fromServer({block.data(), static_cast<std::size_t>(got)});
    if (!sendAll(fd(), "+", kAnswerLimit)) return false;  // unless it waits for none
  }
  return true;
}

bool Server::ask(DebuggerWatch& watch, const std::string& body) {
  const std::string request = packet(body);
  watch.fromDebugger(request);
  return sendAll(fd(), request, kAnswerLimit) &&
         await(watch, kAnswerLimit, [&] { return !watch.awaitsReply(); });
}

void Server::detach(DebuggerWatch& watch, int pid) {
  if (hasExited() || watch.isDetached()) return;
  if (!sendAll(fd(), "+", kAnswerLimit)) return;
  if (watch.awaitsReply()) (void)await(watch, kStopLimit, [&] { return !watch.awaitsReply(); });
  if (watch.isRunning()) {
    if (!sendAll(fd(), "\x03", kAnswerLimit) ||
        !await(watch, kStopLimit, [&] { return !watch.isRunning(); }))
      logWarning("process {} does not stop for the debugger that has left", pid);
  }
  const std::set<std::string> breakpoints = watch.breakpoints();
  for (const std::string& breakpoint : breakpoints)
    if (!ask(watch, "z" + breakpoint))
      logWarning("a breakpoint at {} may be left in process {}", breakpoint, pid);
  // The interrupt is not for the program.
  (void)ask(watch, "QProgramSignals:");
  (void)ask(watch, watch.namesProcesses() ? fmt::format("D;{:x}", pid) : "D");
}

bool Server::awaitExit(Nanoseconds limit) {
  const Nanoseconds end = monotonicNow() + limit;
  while (!hasExited()) {
    if (monotonicNow() > end) return false;
    poll(nullptr, 0, 5);
  }
  return true;
}

void Server::end() {
  if (socket_) shutdown(socket_.get(), SHUT_RDWR);
  socket_.reset();
  if (awaitExit(kEndLimit)) return;
  for (const int number : {SIGTERM, SIGKILL}) {
    kill(child_, number);
    if (awaitExit(kEndLimit)) return;
  }
}

// One direction between the debugger and gdbserver.
struct Flow {
  int from, to;
  std::string bytes;
  bool ended = false;

  short wantsRead() const { return !ended && bytes.empty() ? POLLIN : 0; }
  short wantsWrite() const { return bytes.empty() ? 0 : POLLOUT; }
  // Returns what has come.
  std::string_view read() {
    bytes.resize(kMostRelayed);
    const ssize_t got = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  void write() {
    const ssize_t sent = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) bytes.erase(0, static_cast<std::size_t>(sent));
    ended = ended || (sent < 0 && errno != EAGAIN && errno != EINTR);
  }
};

class Session {
 public:
  Session(const Traced& traced, const std::function<bool(DebuggerState)>& tell,
          const std::function<bool()>& cancelled)
      : traced_(traced), tell_(tell), cancelled_(cancelled) {}

  // From a debugger's connection to its end. Returns whether another one may come.
  Result<bool> run(const std::string& program, UniqueFd debugger) {
    LOCKSTEP_TRY(server_.start(program, traced_.pid));
    const bool stays = relay(debugger.get());
    const bool ended = traced_.hasEnded();
    if (!ended) server_.detach(watch_, traced_.pid);
    debugger.reset();
    server_.end();
    server_.readComplaints();
    const bool wasAttached = attached_ || server_.said().find("Attached;") != std::string::npos;
    if (!wasAttached) return notAttached();
    const bool goesOn = tell_(DebuggerState::kLeft) && stays;
    if (ended && isOver_)
      return makeError(Code::kAborted, "the rank's worker ended while it was debugged");
    return goesOn;
  }

 private:
  // Returns false once nobody is interested any more.
  bool relay(int debugger) {
    Flow up{debugger, server_.fd(), {}};
    Flow down{server_.fd(), debugger, {}};
    while (!up.ended && !down.ended) {
      std::array<pollfd, 3> fds{
          {{debugger, static_cast<short>(up.wantsRead() | down.wantsWrite()), 0},
           {server_.fd(), static_cast<short>(down.wantsRead() | up.wantsWrite()), 0},
           {server_.complaints(), POLLIN, 0}}};
      poll(fds.data(), fds.size(), kLookMs);
      if (cancelled_()) return false;
      if (fds[2].revents != 0) server_.readComplaints();
      noteAttached();
      if (up.wantsWrite() != 0) up.write();
      if (down.wantsWrite() != 0) down.write();
      constexpr short kReadable = POLLIN | POLLHUP | POLLERR;
      if ((fds[0].revents & kReadable) != 0 && up.wantsRead() != 0) watch_.fromDebugger(up.read());
      if ((fds[1].revents & kReadable) != 0 && down.wantsRead() != 0)
        watch_.fromServer(down.read());
      if (!interested_ || isOver()) return false;
    }
    return true;
  }

  // Whether the process was killed while the debugger held it, and gdbserver has not said so. The
  // process stays a zombie, and its parent knows nothing of its end, as long as gdbserver lives.
  bool isOver() {
    if (!attached_ || !traced_.hasEnded()) {
      endedAt_ = 0;
      return false;
    }
    const Nanoseconds now = monotonicNow();
    if (endedAt_ == 0) endedAt_ = now;
    isOver_ = now - endedAt_ > kAnswerLimit;
    return isOver_;
  }

  void noteAttached() {
    if (attached_ || server_.pid() == 0 || tracerOf(traced_.pid) != server_.pid()) return;
    attached_ = true;
    interested_ = tell_(DebuggerState::kAttached);
  }

  Error notAttached() const {
    if (traced_.hasEnded()) return makeError(Code::kNotFound, "the rank's worker has ended");
    Error error =
        makeError(Code::kPermissionDenied, "gdbserver could not attach to process {}", traced_.pid);
    error.why = withoutLineEnds(validUtf8(server_.said()));
    error.next = "look at kernel.yama.ptrace_scope on the node: it has to be 0 or 1";
    return error;
  }

  const Traced& traced_;
  const std::function<bool(DebuggerState)>& tell_;
  const std::function<bool()>& cancelled_;
  Server server_;
  DebuggerWatch watch_;
  Nanoseconds endedAt_ = 0;  // when the process was seen to have ended; 0: it has not
  bool isOver_ = false;
  bool attached_ = false, interested_ = true;
};

// Removes a socket at the end.
struct SocketFile {
  explicit SocketFile(std::string at) : path(std::move(at)) {}
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;
  ~SocketFile() { unlink(path.c_str()); }
  const std::string path;
};

Status checkFree(int pid) {
  const int tracer = tracerOf(pid);
  if (tracer == 0) return {};
  Error error = makeError(Code::kFailedPrecondition, "process {} is being debugged already", pid);
  error.why = message("process {} debugs it", tracer);
  error.next = "end that debugger first";
  return error;
}

// Waits for a connection of this user. Invalid: nobody waits any more, or the process has ended.
Result<UniqueFd> awaitDebugger(int listener, const DebuggerOptions& options, const Traced& traced,
                               const std::function<bool()>& cancelled) {
  const Nanoseconds end = monotonicNow() + options.wait;
  while (!cancelled() && !traced.hasEnded()) {
    if (monotonicNow() > end)
      return makeError(Code::kDeadlineExceeded, "no debugger connected within {} s",
                       options.wait / 1'000'000'000);
    pollfd event{listener, POLLIN, 0};
    if (poll(&event, 1, kLookMs) <= 0) continue;
    UniqueFd debugger(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    pid_t peer = 0;
    if (!debugger) continue;
    if (isOwnUser(debugger.get(), &peer)) return debugger;
    logWarning("refused a debugger of another user, process {}", peer);
  }
  return UniqueFd();
}

}  // namespace

void PacketScanner::feed(std::string_view bytes,
                         const std::function<void(std::string_view body)>& packet) {
  for (const char c : bytes) {
    switch (at_) {
      case At::kBetween:
        if (c != '$' && c != '%') break;
        isNotice_ = c == '%';
        body_.clear();
        at_ = At::kBody;
        break;
      case At::kBody:
        if (c == '#')
          at_ = At::kChecksum1;
        else if (body_.size() < kMostBody)
          body_ += c;
        break;
      case At::kChecksum1:
        at_ = At::kChecksum2;
        break;
      case At::kChecksum2:
        at_ = At::kBetween;
        if (!isNotice_) packet(body_);
        break;
    }
  }
}

void DebuggerWatch::fromDebugger(std::string_view bytes) {
  requests_.feed(bytes, [this](std::string_view body) { onRequest(body); });
}

void DebuggerWatch::fromServer(std::string_view bytes) {
  answers_.feed(bytes, [this](std::string_view body) { onAnswer(body); });
}

void DebuggerWatch::onRequest(std::string_view body) {
  const auto begins = [&](std::string_view word) { return body.starts_with(word); };
  if (begins("qSupported:") && body.find("multiprocess+") != std::string_view::npos)
    namesProcesses_ = true;
  const bool resumes =
      (begins("vCont;") || begins("c") || begins("s") || begins("C") || begins("S")) &&
      !begins("vCont?");
  running_ = running_ || resumes;
  if (begins("vKill") || begins("k")) detached_ = true;
  pending_ = resumes || begins("k") ? std::string() : std::string(body);
}

void DebuggerWatch::onAnswer(std::string_view body) {
  if (running_) {
    constexpr std::string_view kStops = "TSWXN";
    if (body.empty() || kStops.find(body[0]) == std::string_view::npos) return;
    running_ = false;
    detached_ = detached_ || body[0] == 'W' || body[0] == 'X';
    return;
  }
  const std::string request = std::exchange(pending_, {});
  if (request.empty() || body != "OK") return;
  if (request[0] == 'D') detached_ = true;
  if (request[0] != 'Z' && request[0] != 'z') return;
  const std::string place = request.substr(1, request.find(';') - 1);
  if (request[0] == 'Z')
    breakpoints_.insert(place);
  else
    breakpoints_.erase(place);
}

Status serveDebugger(const DebuggerOptions& options, const std::function<bool(DebuggerState)>& tell,
                     const std::function<bool()>& cancelled) {
  const std::string program = findProgram("gdbserver", kProgramFolders);
  if (program.empty()) {
    Error error = makeError(Code::kFailedPrecondition, "gdbserver is not installed on the node");
    error.next =
        "install it there: sudo apt install gdbserver (Debian, Ubuntu), sudo dnf install "
        "gdb-gdbserver (Fedora, Red Hat)";
    return error;
  }
  const auto stat = Traced::statOf(options.pid);
  if (!stat) return {};
  const Traced traced{options.pid, stat->start};
  LOCKSTEP_TRY(checkFree(options.pid));
  LOCKSTEP_ASSIGN(const UniqueFd listener, listenUnix(options.socket, 1));
  const SocketFile file(options.socket);
  while (tell(DebuggerState::kWaiting)) {
    LOCKSTEP_ASSIGN(UniqueFd debugger, awaitDebugger(listener.get(), options, traced, cancelled));
    if (!debugger) return {};
    Session session(traced, tell, cancelled);
    LOCKSTEP_ASSIGN(const bool goesOn, session.run(program, std::move(debugger)));
    if (!goesOn) return {};
  }
  return {};
}

}  // namespace lockstep::agent
