#include "app/ssh/ssh_connection.h"

#include <poll.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "app/ssh/runtime_folder.h"
#include "app/ssh/ssh_forwards.h"
#include "app/ssh/ssh_gates.h"
#include "app/ssh/ssh_session.h"
#include "app/ssh/wake.h"

namespace lockstep::app {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kConnectTimeout{10000};
// Attempts anew because a person took longer than the server, or a gate in use had been lost.
constexpr int kMostRepeats = 2;

// Time alone does not mend these.
bool needsPerson(Code code) {
  return code == Code::kPermissionDenied || code == Code::kInvalidArgument ||
         code == Code::kFailedPrecondition;
}

}  // namespace

class SshConnection::Impl {
 public:
  Impl(SshTarget target, SshConnectionOptions options)
      : target_(std::move(target)),
        options_(std::move(options)),
        shared_(options_.shared ? options_.shared : std::make_shared<SshShared>()),
        forwards_(target_.host, *wake_),
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
    wantedAbandoned_ = false;
    if (status_.state != LinkState::kReconnecting) status_ = {LinkState::kConnecting, {}, {}, 1};
    wake_->notify();
  }

  Status waitConnected(Clock::time_point deadline, std::stop_token stop) {
    std::stop_callback onStop(stop, [this] {
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    const bool decided = changed_.wait_until(lock, deadline, [&] {
      return stop.stop_requested() || connected() || status_.state == LinkState::kFailed ||
             status_.state == LinkState::kClosed || status_.state == LinkState::kIdle;
    });
    if (connected()) return {};
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
      wantedAbandoned_ = wanted_;
      attemptStop_.request_stop();
      wake_->notify();
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
    StreamRequest request;
    if (remote.empty()) {
      request.what = bridge;  // a command
    } else {
      request.kind = StreamRequest::Kind::kUnix;
      request.what = remote;
      request.bridge = bridge;
    }
    return forwards_.listen(folder, std::move(request));
  }

  void stopForward(const std::string& path) { forwards_.stop(path); }

  void close() {
    forwards_.refuse();
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      attemptStop_.request_stop();
      wake_->notify();
    }
    const std::lock_guard joining(joinMutex_);
    if (thread_.joinable()) thread_.join();
  }

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
        abandoned_ = std::exchange(wantedAbandoned_, false);
        attemptStop_ = std::stop_source();
        if (abandoned_) attemptStop_.request_stop();
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
        leaveHost();
        if (!isClosing()) pauseFor(0, &attempt);
        continue;
      }
      leaveHost();
      if (isClosing()) break;
      lastReason_ = status.error();
      if (!everConnected || needsPerson(status.code()) || status.code() == Code::kCancelled) {
        everConnected = false;
        drop();
        set({LinkState::kFailed, lastReason_, {}, attempt});
        attempt = 0;
        continue;
      }
      pauseFor(attempt, &attempt);
    }
    drop();
    forwards_.clear();
    set({LinkState::kClosed, {}, {}, 0});
  }

  // Whether there is a session to attach to. The state says kConnected for a moment longer than
  // the session lives: until the thread has seen that it ended. Needs mutex_.
  bool connected() const {
    return status_.state == LinkState::kConnected && session_ && !session_->ended();
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
      // What start() asked for is there; at the next loss, nobody is asked.
      if (status.state == LinkState::kConnected) wanted_ = wantedAbandoned_ = false;
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

  // Until the time, or until start or closing. A failed link turns away whoever connects to its
  // forwards.
  void idle(Clock::time_point until) {
    for (;;) {
      bool failed = false;
      {
        const std::lock_guard lock(mutex_);
        if (closing_ || wanted_) return;
        failed = status_.state == LinkState::kFailed;
      }
      std::vector<pollfd> fds{{wake_->fd(), POLLIN, 0}};
      if (failed) {
        forwards_.turnAway();
        forwards_.addListeners(fds);
      }
      int limit = -1;
      if (until != Clock::time_point::max()) {
        const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now()).count();
        if (left <= 0) return;
        limit = static_cast<int>(left) + 1;
      }
      ::poll(fds.data(), fds.size(), limit);
      if (fds[0].revents) wake_->clear();
    }
  }

  Status connect(bool personal) {
    for (int repeats = 0;;) {
      Status status = connectOnce(personal);
      if (status.ok()) return status;
      status.error().node = options_.node;
      if (hops_.empty() || interrupted()) return status;
      // The server hung up while a person thought: what they answered is known by now. Another
      // connection may ask for as long as it likes.
      const SshSession& last = *hops_.back().session;
      const bool late = last.asked() && status.code() == Code::kUnavailable;
      if (!late && !lostGate()) return status;
      if (!last.hungUpInLine() && ++repeats > kMostRepeats) return status;
      leaveHost();
    }
  }

  // Whether a gate that was open before the attempt has ended meanwhile.
  bool lostGate() const {
    return std::any_of(hops_.begin(), hops_.end(),
                       [](const SshHop& hop) { return hop.wasOpen && hop.session->ended(); });
  }

  Status connectOnce(bool personal) {
    const std::vector<SshHop> before = std::exchange(hops_, {});  // keeps its gates for this one
    if (personal || route_.empty()) {
      LOCKSTEP_ASSIGN(route_, effectiveRoute(target_, options_.configFile, stop_));
    }
    while (hops_.size() < route_.size()) {
      LOCKSTEP_TRY(openHop(personal));
    }
    const std::lock_guard lock(mutex_);
    session_ = hops_.back().session;
    return {};
  }

  // Opens the session to the next hop; to a gate, uses the one that other connections have.
  Status openHop(bool personal) {
    for (;;) {
      const SshHop hop = nextHop(personal);
      hops_.push_back(hop);
      hop.session->watch(wake_);
      while (!hop.session->opened() && !hop.session->ended() && !interrupted()) {
        pollfd wake{wake_->fd(), POLLIN, 0};
        ::poll(&wake, 1, -1);
        wake_->clear();
      }
      if (interrupted()) {
        if (hop.own) hop.session->cancelOpening();
        return makeError(Code::kCancelled, "connecting to {} was cancelled", target_.host);
      }
      const auto ended = hop.session->ended();
      if (!ended) return {};
      if (hop.own || !isWorthOpening(*hop.session, personal)) return *ended;
      hops_.pop_back();
    }
  }

  // Whether to try again what another connection did not open: it has left, or was reconnecting,
  // when nobody is asked and the wait for an address is short.
  bool isWorthOpening(const SshSession& gate, bool personal) const {
    return gate.abandoned() || (personal && options_.prompter && !gate.hasPrompter());
  }

  SshHop nextHop(bool personal) {
    const auto open = [&] { return std::make_shared<SshSession>(paramsOfNextHop(personal)); };
    const std::span route(route_.data(), hops_.size() + 1);
    if (route.size() == route_.size()) return {open(), true, false};
    return shared_->gates.join(route, open);
  }

  SshSessionParams paramsOfNextHop(bool personal) const {
    const SshConfig& config = route_[hops_.size()];
    SshSessionParams params;
    params.config = config;
    params.node = options_.node;
    if (personal) params.prompter = options_.prompter;
    params.answers = {shared_, &shared_->answers};
    // Behind different gates, one address may be two hosts.
    for (std::size_t i = 0; i <= hops_.size(); ++i) {
      const SshConfig& hop = route_[i];
      params.route +=
          fmt::format("{}@{}:{} {} ", hop.user, hop.hostname, hop.port, hop.proxyCommand);
    }
    if (!hops_.empty()) params.gate = hops_.back().session;
    params.connectTimeout = options_.connectTimeout;
    if (params.connectTimeout.count() == 0)
      params.connectTimeout = config.connectTimeoutSeconds > 0
                                  ? std::chrono::seconds(config.connectTimeoutSeconds)
                                  : kConnectTimeout;
    params.dialTimeout = params.connectTimeout;
    if (!personal) params.dialTimeout = std::min(params.dialTimeout, options_.dialTimeout);
    params.keepaliveInterval = options_.keepaliveInterval;
    params.keepaliveLimit = options_.keepaliveLimit;
    return params;
  }

  // Attaches connections to the forwards until the link is lost; returns why.
  Status serve() {
    const std::shared_ptr<SshSession> session = hops_.back().session;
    for (;;) {
      for (const SshHop& hop : hops_) {
        if (auto ended = hop.session->ended()) {
          ended->node = options_.node;  // a gate's may be that of another
          return *ended;
        }
      }
      forwards_.attachCallers([&](StreamRequest request, UniqueFd local) {
        session->attach(std::move(request), std::move(local));
      });
      if (isClosing()) return makeError(Code::kCancelled, "closed");
      std::vector<pollfd> fds{{wake_->fd(), POLLIN, 0}};
      forwards_.addListeners(fds);
      ::poll(fds.data(), fds.size(), -1);
      if (fds[0].revents) wake_->clear();
    }
  }

  // Ends the session to the host. Its gates stay for the next attempt.
  void leaveHost() {
    {
      const std::lock_guard lock(mutex_);
      session_.reset();
    }
    if (!hops_.empty()) hops_.pop_back();
  }
  void drop() {
    leaveHost();
    hops_.clear();
  }

  const SshTarget target_;
  const SshConnectionOptions options_;
  const std::shared_ptr<SshShared> shared_;
  const std::shared_ptr<const Wake> wake_ = std::make_shared<Wake>();
  SshForwards forwards_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  LinkStatus status_;
  bool wanted_ = false;           // start() was called
  bool abandoned_ = false;        // the attempt under way is to end
  bool wantedAbandoned_ = false;  // likewise the one that start() wants, before it has begun
  bool closing_ = false;
  std::stop_source attemptStop_;
  std::shared_ptr<SshSession> session_;  // while connected
  std::mutex joinMutex_;
  // Used by the thread alone:
  std::mt19937_64 random_;
  std::stop_token stop_;  // of the attempt under way
  std::vector<SshConfig> route_;
  std::vector<SshHop> hops_;  // the host itself is the last
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

Result<ExecResult> SshConnection::exec(const std::string& command, ExecOptions options,
                                       std::stop_token stop) {
  const auto attach = [this](StreamRequest request, UniqueFd local, UniqueFd localError) {
    return impl_->attach(std::move(request), std::move(local), std::move(localError));
  };
  return runRemoteCommand(attach, command, options, impl_->options().node, stop);
}

}  // namespace lockstep::app
