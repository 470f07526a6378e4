#include "app/ssh/ssh_connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "app/ssh/ssh_session.h"
#include "app/ssh/wake.h"

namespace lockstep::app {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kConnectTimeout{10000};
constexpr int kMostLateAnswers = 2;  // attempts anew because a person took longer than the server
constexpr std::size_t kLongestSocketPath = 100;
constexpr int kMostLosses = 5;  // links one connection may outlive before its channel is open

struct Forward {
  std::string path;
  UniqueFd listener;
  StreamRequest request;
};

// A connection made to a forward that has no channel yet.
struct Caller {
  std::string path;  // of the forward
  UniqueFd local;
  int losses = 0;  // of links while its channel was being opened
};

// Time alone does not mend these.
bool needsPerson(Code code) {
  return code == Code::kPermissionDenied || code == Code::kInvalidArgument ||
         code == Code::kFailedPrecondition;
}

Result<std::pair<UniqueFd, UniqueFd>> streamPair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return systemError(errno, "cannot make a pair of sockets");
  return std::pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

}  // namespace

class SshConnection::Impl {
 public:
  Impl(SshTarget target, SshConnectionOptions options)
      : target_(std::move(target)),
        options_(std::move(options)),
        secrets_(std::make_shared<SecretStore>()),
        random_(std::random_device{}()) {
    thread_ = std::thread([this] { run(); });
  }
  ~Impl() { close(); }

  void start() {
    const std::lock_guard lock(mutex_);
    if (closing_ || status_.state == LinkState::kConnected ||
        status_.state == LinkState::kConnecting)
      return;
    wanted_ = true;
    if (status_.state != LinkState::kReconnecting) status_ = {LinkState::kConnecting, {}, {}, 1};
    wake_.notify();
  }

  Status waitConnected(Clock::time_point deadline, std::stop_token stop) {
    std::stop_callback onStop(stop, [this] {
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    const bool decided = changed_.wait_until(lock, deadline, [&] {
      return stop.stop_requested() || status_.state == LinkState::kConnected ||
             status_.state == LinkState::kFailed || status_.state == LinkState::kClosed ||
             status_.state == LinkState::kIdle;
    });
    if (status_.state == LinkState::kConnected) return {};
    if (status_.state == LinkState::kFailed) return *status_.reason;
    Error error;
    if (stop.stop_requested()) {
      error = makeError(Code::kCancelled, "connecting to {} was cancelled", target_.host);
    } else if (decided) {
      error = makeError(Code::kUnavailable, "{} is not connected", target_.host);
      error.why = linkStateName(status_.state);
    } else {
      error = makeError(Code::kDeadlineExceeded, "{} is not connected in time", target_.host);
      if (status_.reason) error.why = status_.reason->text();
    }
    error.node = options_.node;
    return error;
  }

  void abandonAttempt() {
    const std::lock_guard lock(mutex_);
    if (status_.state == LinkState::kConnecting || status_.state == LinkState::kReconnecting) {
      abandoned_ = true;
      attemptStop_.request_stop();
      wake_.notify();
    }
  }

  LinkStatus status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }

  Result<std::shared_ptr<StreamOutcome>> attach(StreamRequest request, UniqueFd local,
                                                UniqueFd localError) {
    std::shared_ptr<SshSession> session;
    {
      const std::lock_guard lock(mutex_);
      session = session_;
    }
    if (!session) {
      Error error = makeError(Code::kUnavailable, "{} is not connected", target_.host);
      error.node = options_.node;
      return error;
    }
    return session->attach(std::move(request), std::move(local), std::move(localError));
  }

  Result<std::string> forward(const std::string& remote, const std::string& bridge) {
    std::string folder = options_.runtimeFolder;
    if (folder.empty()) {
      LOCKSTEP_ASSIGN(folder, runtimeFolder());
    }
    std::random_device device;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = fmt::format("{}/{:08x}{:08x}.sock", folder, device(), device());
    if (path.size() > kLongestSocketPath)
      return invalidArgument("the socket path {} is longer than {} bytes", path,
                             kLongestSocketPath);
    path.copy(address.sun_path, path.size());
    UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    // The folder lets nobody else in; the mode of the socket says so a second time.
    if (!listener ||
        ::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::chmod(path.c_str(), 0600) != 0 || ::listen(listener.get(), 128) != 0)
      return systemError(errno, message("cannot listen on {}", path));
    StreamRequest request;
    request.kind = StreamRequest::Kind::kUnix;
    request.what = remote;
    request.bridge = bridge;
    const std::lock_guard lock(mutex_);
    if (closing_) {
      ::unlink(path.c_str());
      return makeError(Code::kCancelled, "the connection to {} is closed", target_.host);
    }
    forwards_.push_back({path, std::move(listener), std::move(request)});
    wake_.notify();
    return path;
  }

  void stopForward(const std::string& path) {
    const std::lock_guard lock(mutex_);
    std::erase_if(forwards_, [&](const Forward& forward) {
      if (forward.path != path) return false;
      ::unlink(path.c_str());
      return true;
    });
    std::erase_if(callers_, [&](const Caller& caller) { return caller.path == path; });
    wake_.notify();
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      attemptStop_.request_stop();
      wake_.notify();
    }
    const std::lock_guard joining(joinMutex_);
    if (thread_.joinable()) thread_.join();
  }

  const SshTarget& target() const { return target_; }
  const SshConnectionOptions& options() const { return options_; }

 private:
  // The thread: one attempt after another, and the accepting of forwards in between.
  void run() {
    bool everConnected = false;
    int attempt = 0;
    for (;;) {
      bool personal = false;  // a person began this attempt
      {
        std::unique_lock lock(mutex_);
        if (closing_) break;
        personal = std::exchange(wanted_, false);
        abandoned_ = false;
        attemptStop_ = std::stop_source();
        stop_ = attemptStop_.get_token();
      }
      if (!personal && !everConnected) {
        idle(Clock::time_point::max());
        continue;
      }
      if (!everConnected) lastReason_.reset();
      set({everConnected ? LinkState::kReconnecting : LinkState::kConnecting, lastReason_,
           milliseconds(0), ++attempt});
      Status status = connect(personal);
      if (status.ok()) {
        attempt = 0;
        everConnected = true;
        set({LinkState::kConnected, {}, {}, 0});
        status = serve();
        lastReason_ = status.error();
        drop();
        if (!isClosing()) {
          pauseFor(0, &attempt);
        }
        continue;
      }
      drop();
      if (isClosing()) break;
      lastReason_ = status.error();
      if (!everConnected || needsPerson(status.code()) || status.code() == Code::kCancelled) {
        everConnected = false;
        set({LinkState::kFailed, lastReason_, {}, attempt});
        attempt = 0;
        continue;
      }
      pauseFor(attempt, &attempt);
    }
    drop();
    {
      const std::lock_guard lock(mutex_);
      for (const Forward& forward : forwards_) ::unlink(forward.path.c_str());
      forwards_.clear();
      callers_.clear();
    }
    set({LinkState::kClosed, {}, {}, 0});
  }

  bool isClosing() const {
    const std::lock_guard lock(mutex_);
    return closing_;
  }
  bool interrupted() const {
    const std::lock_guard lock(mutex_);
    return closing_ || abandoned_;
  }

  void set(LinkStatus status) {
    {
      const std::lock_guard lock(mutex_);
      // start() may have asked for the next attempt already: a wait must not see the old failure.
      if (status.state == LinkState::kFailed && wanted_) return;
      status_ = status;
      changed_.notify_all();
    }
    if (options_.onState) options_.onState(status);
  }

  // Full jitter between half the pause and the whole, so that many nodes do not come at once.
  void pauseFor(int failures, int* attempt) {
    const auto pause = std::min<milliseconds>(
        options_.longestPause, options_.firstPause * (1LL << std::min(failures, 12)));
    std::uniform_int_distribution<long long> spread(pause.count() / 2, pause.count());
    const milliseconds wait(spread(random_));
    set({LinkState::kReconnecting, lastReason_, wait, *attempt + 1});
    idle(Clock::now() + wait);
  }

  // Until the time, or until start, abandoning or closing. A failed link turns away whoever
  // connects to its forwards.
  void idle(Clock::time_point until) {
    for (;;) {
      std::vector<pollfd> fds{{wake_.fd(), POLLIN, 0}};
      {
        const std::lock_guard lock(mutex_);
        if (closing_ || wanted_) return;
        if (status_.state == LinkState::kFailed) {
          callers_.clear();
          for (const Forward& forward : forwards_)
            fds.push_back({forward.listener.get(), POLLIN, 0});
        }
      }
      int limit = -1;
      if (until != Clock::time_point::max()) {
        const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count();
        if (left <= 0) return;
        limit = static_cast<int>(left) + 1;
      }
      ::poll(fds.data(), fds.size(), limit);
      if (fds[0].revents) wake_.clear();
      if (fds.size() > 1) takeCallers();
    }
  }

  // Those given back first, then those in the backlogs, each with what it is to be wired to.
  std::vector<std::pair<Caller, StreamRequest>> takeCallers() {
    const std::lock_guard lock(mutex_);
    for (const Forward& forward : forwards_) {
      for (;;) {
        UniqueFd local(::accept4(forward.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!local) break;
        callers_.push_back({forward.path, std::move(local), 0});
      }
    }
    std::vector<std::pair<Caller, StreamRequest>> taken;
    for (Caller& caller : callers_) {
      const auto forward =
          std::find_if(forwards_.begin(), forwards_.end(),
                       [&](const Forward& one) { return one.path == caller.path; });
      if (forward != forwards_.end()) taken.emplace_back(std::move(caller), forward->request);
    }
    callers_.clear();
    return taken;
  }

  // The link may be lost before it is known to be: a connection whose channel never opened has
  // lost nothing, and waits for the next link like those in the backlog.
  void attachCallers(SshSession& session) {
    for (auto& [caller, request] : takeCallers()) {
      request.giveBack = [this, path = caller.path, losses = caller.losses + 1](UniqueFd local) {
        const std::lock_guard lock(mutex_);
        if (closing_ || losses > kMostLosses) return;
        callers_.push_back({path, std::move(local), losses});
        wake_.notify();
      };
      session.attach(std::move(request), std::move(caller.local));
    }
  }

  Status connect(bool personal) {
    for (int late = 0;; ++late) {
      bool asked = false;
      Status status = connectOnce(personal, &asked);
      if (status.ok()) return status;
      status.error().node = options_.node;
      // The server hung up while a person thought: what they answered is known by now.
      const bool again =
          asked && late < kMostLateAnswers && status.code() == Code::kUnavailable && !interrupted();
      if (!again) return status;
      drop();
    }
  }

  Status connectOnce(bool personal, bool* asked) {
    if (personal || route_.empty()) {
      LOCKSTEP_ASSIGN(route_, effectiveRoute(target_, options_.configFile, stop_));
    }
    std::shared_ptr<SshSession> before;
    for (const SshConfig& hop : route_) {
      SshSessionParams params;
      params.config = hop;
      params.node = options_.node;
      if (personal) params.prompter = options_.prompter;
      params.secrets = secrets_;
      params.connectTimeout = options_.connectTimeout;
      if (params.connectTimeout.count() == 0)
        params.connectTimeout = hop.connectTimeoutSeconds > 0
                                    ? std::chrono::seconds(hop.connectTimeoutSeconds)
                                    : kConnectTimeout;
      params.keepaliveInterval = options_.keepaliveInterval;
      params.keepaliveLimit = options_.keepaliveLimit;
      params.onChange = [this] { wake_.notify(); };
      std::shared_ptr<StreamOutcome> jump;
      if (before) {
        LOCKSTEP_ASSIGN(auto pair, streamPair());
        params.transport = std::move(pair.first);
        StreamRequest request;
        request.kind = StreamRequest::Kind::kTcp;
        request.what = hop.hostname;
        request.port = hop.port;
        jump = before->attach(std::move(request), std::move(pair.second));
      }
      auto session = std::make_shared<SshSession>(std::move(params));
      hops_.push_back(session);
      while (!session->opened() && !session->ended() && !interrupted()) {
        pollfd wake{wake_.fd(), POLLIN, 0};
        ::poll(&wake, 1, -1);
        wake_.clear();
      }
      *asked = *asked || session->asked();
      if (interrupted())
        return makeError(Code::kCancelled, "connecting to {} was cancelled", target_.host);
      if (auto ended = session->ended()) {
        // A jump host that cannot reach the next one knows better why.
        const auto refused = jump ? jump->end() : std::nullopt;
        if (refused && !refused->status.ok()) {
          Error error = makeError(Code::kUnavailable, "{} cannot be reached from jump host {}",
                                  hop.alias, route_[hops_.size() - 2].alias);
          error.why = refused->status.error().why;
          return error;
        }
        return *ended;
      }
      before = session;
    }
    const std::lock_guard lock(mutex_);
    session_ = before;
    return {};
  }

  // Attaches connections to the forwards until the link is lost; returns why.
  Status serve() {
    const std::shared_ptr<SshSession> session = hops_.back();
    for (;;) {
      for (const auto& hop : hops_)
        if (auto ended = hop->ended()) return *ended;
      attachCallers(*session);
      std::vector<pollfd> fds{{wake_.fd(), POLLIN, 0}};
      {
        const std::lock_guard lock(mutex_);
        if (closing_) return makeError(Code::kCancelled, "closed");
        for (const Forward& forward : forwards_) fds.push_back({forward.listener.get(), POLLIN, 0});
      }
      ::poll(fds.data(), fds.size(), -1);
      if (fds[0].revents) wake_.clear();
    }
  }

  // Ends the hops, the last first.
  void drop() {
    {
      const std::lock_guard lock(mutex_);
      session_.reset();
    }
    while (!hops_.empty()) hops_.pop_back();
  }

  const SshTarget target_;
  const SshConnectionOptions options_;
  const std::shared_ptr<SecretStore> secrets_;
  Wake wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  LinkStatus status_;
  bool wanted_ = false;     // start() was called
  bool abandoned_ = false;  // the attempt under way is to end
  bool closing_ = false;
  std::stop_source attemptStop_;
  std::shared_ptr<SshSession> session_;  // while connected
  std::vector<Forward> forwards_;
  std::vector<Caller> callers_;  // given back by a lost session
  std::mutex joinMutex_;
  // Used by the thread alone:
  std::mt19937_64 random_;
  std::stop_token stop_;  // of the attempt under way
  std::vector<SshConfig> route_;
  std::vector<std::shared_ptr<SshSession>> hops_;
  std::optional<Error> lastReason_;
  std::thread thread_;
};

SshConnection::SshConnection(SshTarget target, SshConnectionOptions options)
    : impl_(std::make_unique<Impl>(std::move(target), std::move(options))) {}
SshConnection::~SshConnection() = default;
void SshConnection::start() { impl_->start(); }
Status SshConnection::waitConnected(milliseconds timeout, std::stop_token stop) {
  return impl_->waitConnected(Clock::now() + timeout, stop);
}
Status SshConnection::connect(std::stop_token stop) {
  impl_->start();
  Status status = impl_->waitConnected(Clock::now() + std::chrono::hours(24), stop);
  if (stop.stop_requested()) impl_->abandonAttempt();
  return status;
}
LinkStatus SshConnection::status() const { return impl_->status(); }
Result<std::string> SshConnection::forward(const std::string& remoteSocket,
                                           const std::string& bridgeCommand) {
  return impl_->forward(remoteSocket, bridgeCommand);
}
void SshConnection::stopForward(const std::string& localSocket) { impl_->stopForward(localSocket); }
void SshConnection::close() { impl_->close(); }

Result<UniqueFd> SshConnection::openSubsystem(const std::string& name, std::stop_token) {
  LOCKSTEP_ASSIGN(auto pair, streamPair());
  StreamRequest request;
  request.kind = StreamRequest::Kind::kSubsystem;
  request.what = name;
  LOCKSTEP_TRY(impl_->attach(std::move(request), std::move(pair.second), {}).status());
  return std::move(pair.first);
}

Result<ExecResult> SshConnection::script(const std::string& text, ExecOptions options,
                                         std::stop_token stop) {
  LOCKSTEP_CHECK(options.input.empty(), "a script is the input");
  options.input = text;
  return exec("sh -s", std::move(options), stop);
}

Result<ExecResult> SshConnection::exec(const std::string& command, ExecOptions options,
                                       std::stop_token stop) {
  LOCKSTEP_ASSIGN(auto outPair, streamPair());
  LOCKSTEP_ASSIGN(auto errPair, streamPair());
  StreamRequest request;
  request.kind = StreamRequest::Kind::kExec;
  request.what = command;
  LOCKSTEP_ASSIGN(const auto outcome, impl_->attach(std::move(request), std::move(outPair.second),
                                                    std::move(errPair.second)));
  UniqueFd out = std::move(outPair.first), err = std::move(errPair.first);
  ::shutdown(err.get(), SHUT_WR);
  const auto deadline = Clock::now() + options.timeout;
  Wake wake;
  std::stop_callback onStop(stop, [&] { wake.notify(); });
  const auto failure = [&](Code code, const char* how) {
    Error error = makeError(code, "`{}` {}", command, how);
    error.node = impl_->options().node;
    return error;
  };
  ExecResult result;
  std::size_t sent = 0;
  bool outOpen = true, errOpen = true, inputOpen = true;
  std::vector<char> bytes(64 * 1024);
  while (outOpen || errOpen) {
    if (stop.stop_requested()) return failure(Code::kCancelled, "was cancelled");
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return failure(Code::kDeadlineExceeded, "did not end in time");
    if (inputOpen && sent == options.input.size()) {
      ::shutdown(out.get(), SHUT_WR);
      inputOpen = false;
    }
    pollfd fds[] = {{outOpen || inputOpen ? out.get() : -1,
                     static_cast<short>((outOpen ? POLLIN : 0) | (inputOpen ? POLLOUT : 0)), 0},
                    {errOpen ? err.get() : -1, POLLIN, 0},
                    {wake.fd(), POLLIN, 0}};
    ::poll(fds, 3, static_cast<int>(std::min<long long>(left + 1, 60000)));
    if ((fds[0].revents & POLLOUT) && inputOpen) {
      const ssize_t n = ::send(out.get(), options.input.data() + sent, options.input.size() - sent,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0)
        sent += static_cast<std::size_t>(n);
      else if (n < 0 && errno != EAGAIN && errno != EINTR)
        sent = options.input.size();
    }
    const auto read = [&](int fd, std::string* text) {
      const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n > 0) text->append(bytes.data(), static_cast<std::size_t>(n));
      return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    };
    if (outOpen && (fds[0].revents & (POLLIN | POLLHUP | POLLERR)))
      outOpen = read(out.get(), &result.output);
    if (errOpen && fds[1].revents) errOpen = read(err.get(), &result.errorOutput);
    if (std::max(result.output.size(), result.errorOutput.size()) > options.outputLimit)
      return failure(Code::kResourceExhausted, "printed more than the limit");
  }
  const auto end = outcome->waitEnd(deadline);
  if (!end) return failure(Code::kDeadlineExceeded, "did not end in time");
  if (!end->status.ok()) {
    Error error = failure(Code::kUnavailable, "was cut off");
    error.why = end->status.error().text();
    return error;
  }
  result.exitStatus = end->exitStatus;
  result.signalName = end->signalName;
  return result;
}

}  // namespace lockstep::app
