#include "app/ssh/ssh_session.h"

#include <errno.h>
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <libssh/server.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <thread>
#include <vector>

#include "app/ssh/answer_box.h"
#include "app/ssh/dial.h"
#include "app/ssh/host_key.h"
#include "app/ssh/kerberos.h"
#include "app/ssh/proxy_command.h"
#include "app/ssh/question_turn.h"
#include "app/ssh/ssh_auth.h"
#include "app/ssh/ssh_stream.h"

namespace lockstep::app {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTicketLimit{5000};
constexpr int kLongestSleepMs = 500;
constexpr int kProbeSleepMs = 50;     // while streams wait for a channel
constexpr int kPacketsPerTurn = 256;  // reads of the transport between two turns of the streams

// Says goodbye where the link still lives; waits for nothing.
void endSession(ssh_session session) {
  // Disconnecting forgets a descriptor that was given to it, without closing it.
  const int none = -1;
  ssh_options_set(session, SSH_OPTIONS_FD, &none);
  if (ssh_is_connected(session)) ssh_disconnect(session);
  ssh_free(session);
}

std::string hostKeyName(const HostKeyQuestion& question) {
  return fmt::format("host key {} {}", question.host, question.fingerprint);
}

// OpenSSH's default list has no preference for what is fastest; among the allowed, AES-GCM is.
std::string cipherList(const std::vector<std::string>& allowed) {
  std::string list;
  for (const char* cipher :
       {"aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com",
        "aes256-ctr", "aes192-ctr", "aes128-ctr"}) {
    if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), cipher) == allowed.end())
      continue;
    list += (list.empty() ? "" : ",") + std::string(cipher);
  }
  return list;
}

}  // namespace

class SshSession::Impl {
 public:
  explicit Impl(SshSessionParams params) : params_(std::move(params)), config_(params_.config) {
    thread_ = std::thread([this] { run(); });
  }
  ~Impl() {
    closing_ = true;
    wake_.notify();
    thread_.join();
  }

  std::shared_ptr<StreamOutcome> attach(StreamRequest request, UniqueFd local, UniqueFd error) {
    auto outcome = std::make_shared<StreamOutcome>();
    auto stream = std::make_unique<SshStream>(std::move(request), std::move(local),
                                              std::move(error), outcome);
    {
      const std::lock_guard lock(mutex_);
      if (!ended_) {
        arrivals_.push_back(std::move(stream));
        wake_.notify();
        return outcome;
      }
    }
    stream->lose(*ended_);
    return outcome;
  }
  void watch(std::shared_ptr<const Wake> wake) {
    const std::lock_guard lock(mutex_);
    std::erase_if(watchers_, [&](const std::weak_ptr<const Wake>& one) {
      const auto watcher = one.lock();
      return !watcher || watcher == wake;
    });
    watchers_.push_back(std::move(wake));
  }
  bool hasPrompter() const { return params_.prompter != nullptr; }
  bool opened() const {
    const std::lock_guard lock(mutex_);
    return opened_ && !ended_;
  }
  std::optional<Error> ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  bool asked() const { return asked_; }
  bool hungUpInLine() const { return hungUpInLine_; }
  void cancelOpening() {
    const std::lock_guard lock(mutex_);
    if (opened_ || ended_) return;
    closing_ = true;
    wake_.notify();
  }
  bool abandoned() const { return closing_ || unanswered_; }

 private:
  void run() {
    Status status = establish();
    if (status.ok()) {
      {
        const std::lock_guard lock(mutex_);
        opened_ = !closing_;
        notifyWatchers();
      }
      status = serve();
    } else if (const auto refused = refusedByGate()) {
      status = *refused;
    }
    Error error = status.error();
    error.node = params_.node;
    std::deque<std::unique_ptr<SshStream>> late;
    {
      const std::lock_guard lock(mutex_);
      ended_ = error;
      late.swap(arrivals_);
    }
    for (auto& stream : late) stream->lose(error);
    for (auto& stream : streams_) stream->lose(error);
    streams_.clear();
    if (event_) {
      ssh_event_remove_session(event_, session_.get());
      ssh_event_free(event_);
      event_ = nullptr;
    }
    shared_.session.reset();
    session_.reset();
    proxy_.reset();
    const std::lock_guard lock(mutex_);
    notifyWatchers();
  }

  // Needs mutex_.
  void notifyWatchers() const {
    for (const auto& one : watchers_)
      if (const auto watcher = one.lock()) watcher->notify();
  }

  Error lost(Code code, Message what) {
    Error error = makeError(code, "{}", what);
    if (session_) error.why = ssh_get_error(session_.get());
    if (const Message why = proxy_ ? proxy_->why() : Message(); !why.empty()) error.why = why;
    return error;
  }

  // Repeats a call of libssh until it answers anything but `again`; the limit counts only the
  // time spent in here. Afterwards limit_ says why it gave up, if it did.
  int drive(const std::function<int()>& call, int again, int failed) {
    const auto deadline = Clock::now() + params_.connectTimeout;
    for (;;) {
      const int answer = call();
      if (answer != again) return answer;
      // Some calls of libssh ask to be repeated for ever after the server has hung up.
      if (keyExchanged_ && !ssh_is_connected(session_.get())) return failed;
      if (closing_)
        gaveUp_ = Code::kCancelled;
      else if (Clock::now() >= deadline)
        gaveUp_ = Code::kDeadlineExceeded;
      if (gaveUp_ != Code::kOk) return failed;
      const int flags = ssh_get_poll_flags(session_.get());
      pollfd fds[] = {{ssh_get_fd(session_.get()),
                       static_cast<short>(POLLIN | (flags & SSH_WRITE_PENDING ? POLLOUT : 0)), 0},
                      {wake_.fd(), POLLIN, 0}};
      ::poll(fds, 2, 100);
      if (fds[1].revents) wake_.clear();
    }
  }

  template <typename T>
  std::optional<T> await(const std::shared_ptr<AnswerBox<T>>& box) {
    asked_ = true;
    for (;;) {
      {
        const std::lock_guard lock(box->mutex);
        if (box->done) return box->value;
      }
      if (closing_) return std::nullopt;
      pollfd fds[] = {{box->wake.fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
      ::poll(fds, 2, -1);
      if (fds[1].revents) wake_.clear();
    }
  }
  bool mayAsk() const { return params_.prompter && !config_.batchMode; }
  std::unique_ptr<QuestionTurn> takeTurn(const std::string& line) {
    auto turn = std::make_unique<QuestionTurn>(line);
    bool waited = false;
    for (int limit = 0;; limit = -1) {
      pollfd fds[] = {{turn->fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
      ::poll(fds, 2, limit);
      if (fds[1].revents) wake_.clear();
      if (closing_) return nullptr;
      if (fds[0].revents) break;
      waited = asked_ = true;  // for a person, too
    }
    pollfd link{ssh_get_fd(session_.get()), POLLRDHUP, 0};
    if (::poll(&link, 1, 0) <= 0) return turn;
    hungUpInLine_ = waited;
    return nullptr;
  }
  // Puts a question to the person; nothing where the answer function is dropped, and on closing.
  template <typename T>
  std::optional<T> ask(const std::function<void(std::function<void(T)>)>& put) {
    const auto box = std::make_shared<AnswerBox<T>>();
    put([responder = std::make_shared<Responder<T>>(box)](T given) {
      responder->box->set(std::optional<T>(std::in_place, std::move(given)));
    });
    std::optional<T> answer = await(box);
    unanswered_ = !answer;
    return answer;
  }
  // A refusal counts for all who wait for the answer; an answer function that is dropped refuses
  // this connection alone.
  std::optional<Secret> askSecret(const SecretQuestion& question, const std::string& name,
                                  const QuestionTurn& turn) {
    if (params_.answers->refusedSince(name, turn.since())) return std::nullopt;
    auto answer = ask<std::optional<Secret>>(
        [&](auto respond) { params_.prompter->askSecret(question, std::move(respond)); });
    if (!answer) return std::nullopt;
    if (!*answer) params_.answers->refuse(name);
    return std::move(*answer);
  }
  // Waits until no other connection asks about the key.
  Status awaitHostKeyTurn(const HostKeyQuestion& question, std::unique_ptr<QuestionTurn>& turn) {
    if (!mayAsk()) return {};
    turn = takeTurn(hostKeyName(question));
    if (turn) return {};
    if (closing_) return makeError(Code::kCancelled, "connecting was cancelled");
    return lost(Code::kUnavailable, message("the connection to {} was lost", config_.alias));
  }
  Result<bool> askHostKey(const HostKeyQuestion& question, const QuestionTurn* turn) {
    const std::string name = hostKeyName(question);
    if (params_.answers->isHostKeyAccepted(name)) return true;
    if (turn == nullptr) return false;
    if (params_.answers->refusedSince(name, turn->since())) return false;
    const auto answer = ask<bool>(
        [&](auto respond) { params_.prompter->askHostKey(question, std::move(respond)); });
    const bool accepted = answer.value_or(false);
    if (accepted)
      params_.answers->acceptHostKey(name);
    else if (answer)
      params_.answers->refuse(name);
    if (!accepted && closing_) return makeError(Code::kCancelled, "connecting was cancelled");
    return accepted;
  }

  // The transport: a gate's channel, a ProxyCommand, or TCP.
  Result<UniqueFd> reach() {
    if (params_.gate) {
      LOCKSTEP_ASSIGN(auto pair, streamPair());
      StreamRequest request;
      request.kind = StreamRequest::Kind::kTcp;
      request.what = config_.hostname;
      request.port = config_.port;
      jump_ = params_.gate->attach(std::move(request), std::move(pair.second));
      return std::move(pair.first);
    }
    if (!config_.proxyCommand.empty()) {
      LOCKSTEP_ASSIGN(proxy_, ProxyCommand::start(config_.proxyCommand));
      return proxy_->takeTransport();
    }
    return dialTcp(config_.hostname, config_.port, Clock::now() + params_.connectTimeout,
                   params_.dialTimeout, wake_, [this] { return closing_.load(); });
  }

  // A gate that cannot reach the host knows better why.
  std::optional<Error> refusedByGate() const {
    const auto end = jump_ ? jump_->end() : std::nullopt;
    if (!end || end->status.ok()) return std::nullopt;
    Error error = makeError(Code::kUnavailable, "{} cannot be reached from jump host {}",
                            config_.alias, params_.gate->impl_->config_.alias);
    error.why = end->status.error().why;
    return error;
  }

  // Why there is no SSH session over the transport.
  Error notReached() {
    const std::string where = fmt::format("{} port {}", config_.hostname, config_.port);
    if (gaveUp_ == Code::kCancelled)
      return makeError(Code::kCancelled, "connecting to {} was cancelled", where);
    if (auto error = certificateOnlyHost(ssh_get_error(session_.get()), config_)) return *error;
    if (proxy_) {
      const bool late = gaveUp_ == Code::kDeadlineExceeded;
      Error error =
          lost(late ? Code::kDeadlineExceeded : Code::kUnavailable,
               late ? message("the ProxyCommand of {} does not reach it in time", config_.alias)
                    : message("the ProxyCommand of {} does not reach it", config_.alias));
      error.next = message("correct ProxyCommand in the SSH configuration; in a terminal: ssh {}",
                           config_.alias);
      return error;
    }
    if (gaveUp_ == Code::kDeadlineExceeded) {
      Error error =
          makeError(Code::kDeadlineExceeded, "{} answers, but not as an SSH server in time", where);
      error.next = "check the port; an sshd that is overloaded answers later";
      return error;
    }
    return lost(Code::kUnavailable, message("no SSH session with {}", where));
  }

  Status establish() {
    LOCKSTEP_ASSIGN(UniqueFd transport, reach());
    const ssh_session made = ssh_new();
    LOCKSTEP_CHECK(made != nullptr, "no memory for a session");
    session_.reset(made, endSession);
    LOCKSTEP_TRY(setOptions());
    const int fd = transport.release();  // libssh closes it from here on
    ssh_options_set(session_.get(), SSH_OPTIONS_FD, &fd);
    ssh_set_blocking(session_.get(), 0);
    ssh_set_counters(session_.get(), &counter_, nullptr);
    if (drive([&] { return ssh_connect(session_.get()); }, SSH_AGAIN, SSH_ERROR) != SSH_OK)
      return notReached();
    keyExchanged_ = true;
    LOCKSTEP_TRY(checkServer());
    const AuthContext context{
        session_.get(),
        config_,
        params_.route,
        *params_.answers,
        [this](const std::function<int()>& call) {
          return drive(call, SSH_AUTH_AGAIN, SSH_AUTH_ERROR);
        },
        mayAsk(),
        [this](const SecretQuestion& question, const std::string& name, const QuestionTurn& turn) {
          return askSecret(question, name, turn);
        },
        [this](const std::string& line) { return takeTurn(line); },
        [this] {
          return fetchHostTicket(config_.hostname, std::min(kTicketLimit, params_.connectTimeout),
                                 wake_, [this] { return closing_.load(); });
        }};
    Status status = authenticate(context);
    if (closing_) return makeError(Code::kCancelled, "connecting was cancelled");
    if (!status.ok() && gaveUp_ == Code::kDeadlineExceeded)
      return makeError(Code::kDeadlineExceeded, "{} does not answer during authentication",
                       config_.account());
    return status;
  }

  Status checkServer() {
    std::unique_ptr<QuestionTurn> turn;  // held until an accepted key is written
    const HostKeyPrompt prompt{
        [&](const HostKeyQuestion& question) { return awaitHostKeyTurn(question, turn); },
        [&](const HostKeyQuestion& question) { return askHostKey(question, turn.get()); }};
    return checkHostKey(session_.get(), config_, prompt);
  }

  Status setOptions() {
    LOCKSTEP_ASSIGN(const std::string hostKeys, hostKeyAlgorithms(config_));
    const std::string ciphers = cipherList(config_.ciphers);
    const bool off = false;
    const auto set = [&](ssh_options_e option, const void* value) {
      return ssh_options_set(session_.get(), option, value) == 0;
    };
    // Everything comes from `ssh -G` and our own reading of known_hosts: libssh reads no file.
    bool ok =
        set(SSH_OPTIONS_PROCESS_CONFIG, &off) && set(SSH_OPTIONS_HOST, config_.hostname.c_str()) &&
        set(SSH_OPTIONS_PORT, &config_.port) && set(SSH_OPTIONS_USER, config_.user.c_str()) &&
        set(SSH_OPTIONS_KNOWNHOSTS, "/dev/null") && set(SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null");
    if (!ciphers.empty())
      ok = ok && set(SSH_OPTIONS_CIPHERS_C_S, ciphers.c_str()) &&
           set(SSH_OPTIONS_CIPHERS_S_C, ciphers.c_str());
    if (!hostKeys.empty()) ok = ok && set(SSH_OPTIONS_HOSTKEYS, hostKeys.c_str());
    const int delegate = config_.gssapiDelegate;
    ok = ok && set(SSH_OPTIONS_GSSAPI_DELEGATE_CREDENTIALS, &delegate);
    if (!config_.identityAgent.empty())
      ok = ok && set(SSH_OPTIONS_IDENTITY_AGENT, config_.identityAgent.c_str());
    if (!ok) return lost(Code::kInvalidArgument, "an SSH option is not accepted");
    return {};
  }

  // Carries the streams until the session ends; always returns an error.
  Status serve() {
    event_ = ssh_event_new();
    LOCKSTEP_CHECK(event_ != nullptr && ssh_event_add_session(event_, session_.get()) == SSH_OK,
                   "no memory for an event loop");
    shared_.session = session_;
    std::uint64_t bytesSeen = counter_.in_bytes;
    auto lastHeard = Clock::now(), lastAsked = lastHeard;
    std::vector<pollfd> fds;
    const auto linkLost = [&] {
      return lost(Code::kUnavailable, message("the connection to {} was lost", config_.alias));
    };
    while (!closing_) {
      accept();
      if (!ssh_is_connected(session_.get())) return linkLost();
      fds.clear();
      const bool writePending = ssh_get_poll_flags(session_.get()) & SSH_WRITE_PENDING;
      fds.push_back({wake_.fd(), POLLIN, 0});
      fds.push_back({ssh_get_fd(session_.get()),
                     static_cast<short>(POLLIN | (writePending ? POLLOUT : 0)), 0});
      bool busy = false;
      int longest = kLongestSleepMs;
      for (const auto& stream : streams_) {
        fds.push_back({stream->localFd(), stream->localEvents(shared_), 0});
        fds.push_back({stream->errorFd(), stream->errorEvents(), 0});
        busy = busy || stream->busy();
        if (stream->phase() == SshStream::Phase::kWaiting) longest = kProbeSleepMs;
      }
      ::poll(fds.data(), fds.size(), busy ? 0 : longest);
      if (fds[0].revents) wake_.clear();

      for (int i = 0; i < kPacketsPerTurn; ++i)
        if (ssh_event_dopoll(event_, 0) != SSH_OK) break;
      if (!ssh_is_connected(session_.get())) return linkLost();
      std::size_t slot = 2;
      for (auto& stream : streams_) {
        stream->advance(shared_, fds[slot].revents, fds[slot + 1].revents);
        slot += 2;
      }
      if (streams_.remove_if(
              [](const auto& stream) { return stream->phase() == SshStream::Phase::kDone; }) > 0)
        wake_.notify();  // those that wait for a channel may go on
      rotateStreams();

      const auto now = Clock::now();
      if (counter_.in_bytes != bytesSeen) {
        bytesSeen = counter_.in_bytes;
        lastHeard = now;
      } else if (now - lastHeard >= params_.keepaliveLimit) {
        Error error =
            makeError(Code::kUnavailable, "the connection to {} does not respond", config_.alias);
        error.why = message("there was no response for {} ms", params_.keepaliveLimit.count());
        return error;
      } else if (now - lastHeard >= params_.keepaliveInterval &&
                 now - lastAsked >= params_.keepaliveInterval) {
        // The first call may only fetch the answer to the request before; the second then asks.
        ssh_send_keepalive(session_.get());
        ssh_send_keepalive(session_.get());
        lastAsked = now;
      }
    }
    return makeError(Code::kCancelled, "the connection to {} was closed", config_.alias);
  }

  // Each open stream is the first in turn: a transport that is full soon has room for few of them.
  void rotateStreams() {
    const auto first = std::find_if(streams_.begin(), streams_.end(), [](const auto& stream) {
      return stream->phase() == SshStream::Phase::kOpen;
    });
    if (first != streams_.end()) streams_.splice(streams_.end(), streams_, first);
  }

  // New streams, and those that waited for a channel, in the order of their coming.
  void accept() {
    const std::lock_guard lock(mutex_);
    while (!arrivals_.empty()) {
      streams_.push_back(std::move(arrivals_.front()));
      arrivals_.pop_front();
      streams_.back()->advance(shared_, 0, 0);
    }
  }

  SshSessionParams params_;
  const SshConfig config_;
  Wake wake_;
  std::atomic<bool> closing_{false};
  std::atomic<bool> asked_{false};
  std::atomic<bool> hungUpInLine_{false};
  std::atomic<bool> unanswered_{false};  // its last question
  mutable std::mutex mutex_;
  bool opened_ = false;
  std::optional<Error> ended_;
  std::deque<std::unique_ptr<SshStream>> arrivals_;
  std::vector<std::weak_ptr<const Wake>> watchers_;
  // Used by the thread alone:
  std::shared_ptr<StreamOutcome> jump_;  // of the gate's channel
  std::unique_ptr<ProxyCommand> proxy_;  // ended after the session
  SharedSession session_;
  ssh_event event_ = nullptr;
  ssh_counter_struct counter_{};
  bool keyExchanged_ = false;
  Code gaveUp_ = Code::kOk;
  SshStream::Shared shared_;
  std::list<std::unique_ptr<SshStream>> streams_;
  std::thread thread_;
};

SshSession::SshSession(SshSessionParams params)
    : impl_(std::make_unique<Impl>(std::move(params))) {}
SshSession::~SshSession() = default;
void SshSession::watch(std::shared_ptr<const Wake> wake) { impl_->watch(std::move(wake)); }
bool SshSession::hasPrompter() const { return impl_->hasPrompter(); }
bool SshSession::opened() const { return impl_->opened(); }
std::optional<Error> SshSession::ended() const { return impl_->ended(); }
bool SshSession::asked() const { return impl_->asked(); }
bool SshSession::hungUpInLine() const { return impl_->hungUpInLine(); }
void SshSession::cancelOpening() { impl_->cancelOpening(); }
bool SshSession::abandoned() const { return impl_->abandoned(); }
std::shared_ptr<StreamOutcome> SshSession::attach(StreamRequest request, UniqueFd local,
                                                  UniqueFd localError) {
  return impl_->attach(std::move(request), std::move(local), std::move(localError));
}

}  // namespace lockstep::app
