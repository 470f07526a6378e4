#include "app/ssh/ssh_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "engine/base/log.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kChunk = 64 * 1024;
constexpr int kFairRounds = 8;  // chunks one stream may move before the others' turn
constexpr std::size_t kErrorTail = 2048;
// Between tries beyond the known limit: while none of the session's channels is open, and else.
constexpr std::chrono::milliseconds kProbePause{100}, kRareProbePause{1000};
// How long a server may need to free the slots of channels that have ended.
constexpr std::chrono::seconds kSlotPatience{8};

void setNonblocking(int fd) {
  if (fd >= 0) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace

SshChannel::SshChannel(SharedSession session, ssh_channel_callbacks callbacks)
    : session_(std::move(session)),
      callbacks_(callbacks),
      channel_(ssh_channel_new(session_.get())) {
  LOCKSTEP_CHECK(channel_ != nullptr, "no memory for a channel");
  ssh_add_channel_callbacks(channel_, callbacks_);
}
SshChannel::~SshChannel() {
  ssh_remove_channel_callbacks(channel_, callbacks_);
  ssh_channel_free(channel_);
}

SshStream::SshStream(StreamRequest request, UniqueFd local, UniqueFd localError,
                     std::shared_ptr<StreamOutcome> outcome)
    : request_(std::move(request)),
      local_(std::move(local)),
      localError_(std::move(localError)),
      outcome_(std::move(outcome)) {
  setNonblocking(local_.get());
  setNonblocking(localError_.get());
  errorGone_ = !localError_;
  callbacks_.userdata = this;
  callbacks_.channel_data_function = [](ssh_session, ssh_channel, void*, uint32_t, int,
                                        void* self) {
    static_cast<SshStream*>(self)->readable_ = true;
    return 0;  // left in the channel's own buffer, so that its window closes when we do not read
  };
  callbacks_.channel_eof_function = [](ssh_session, ssh_channel, void* self) {
    static_cast<SshStream*>(self)->readable_ = true;
  };
  callbacks_.channel_close_function = callbacks_.channel_eof_function;
  callbacks_.channel_exit_status_function = [](ssh_session, ssh_channel, int status, void* self) {
    static_cast<SshStream*>(self)->exitStatus_ = status;
  };
  callbacks_.channel_exit_signal_function = [](ssh_session, ssh_channel, const char* signal, int,
                                               const char*, const char*, void* self) {
    static_cast<SshStream*>(self)->signalName_ = signal ? signal : "";
  };
  ssh_callbacks_init(&callbacks_);
}

bool SshStream::usesSessionChannel() const {
  return bridging_ || request_.kind == StreamRequest::Kind::kExec ||
         request_.kind == StreamRequest::Kind::kSubsystem;
}

void SshStream::releaseChannel(Shared& shared) {
  if (counted_) --shared.sessionChannels;
  counted_ = false;
  channel_.reset();
}

void SshStream::fail(const Error& error) {
  StreamOutcome::End end;
  end.status = error;
  outcome_->setEnd(std::move(end));
  local_.reset();
  localError_.reset();
  phase_ = Phase::kDone;
}

void SshStream::lose(const Error& error) {
  // Nothing is read from the local side before the channel is open.
  const bool untouched = phase_ != Phase::kOpen && phase_ != Phase::kDone;
  if (untouched && request_.giveBack && local_) request_.giveBack(std::move(local_));
  fail(error);
}

void SshStream::advance(Shared& shared, short localEvents, short errorEvents) {
  again_ = false;
  if (phase_ == Phase::kWaiting) {
    if (request_.kind == StreamRequest::Kind::kUnix && shared.preferBridge &&
        !request_.bridge.empty())
      bridging_ = true;
    if (usesSessionChannel()) {
      if (shared.sessionChannels >= shared.sessionLimit) {
        const auto now = std::chrono::steady_clock::now();
        if (now < shared.probeAt) return;
        shared.probeAt = now + (shared.sessionChannels > 0 ? kRareProbePause : kProbePause);
      }
      ++shared.sessionChannels;
      counted_ = true;
    }
    channel_.emplace(shared.session, &callbacks_);
    phase_ = Phase::kOpening;
  }
  if (phase_ == Phase::kOpening) open(shared);
  if (phase_ == Phase::kRequesting) request(shared);
  if (phase_ != Phase::kOpen) return;

  if (localEvents & POLLOUT) flush(toLocal_, local_.get(), &localGone_);
  if (errorEvents & (POLLHUP | POLLERR)) errorGone_ = true;
  if (errorEvents & POLLOUT) flush(toError_, localError_.get(), &errorGone_);
  if (readable_) {
    readable_ = false;
    remoteToLocal(true);
    remoteToLocal(false);
  } else if (localEvents & POLLOUT) {
    remoteToLocal(false);
  } else if (errorEvents & POLLOUT) {
    remoteToLocal(true);
  }
  if (bridging_ && answered_) shared.preferBridge = true;
  localToRemote(shared, localEvents);
  finish(shared);
}

void SshStream::open(Shared& shared) {
  int answer = SSH_ERROR;
  if (usesSessionChannel()) {
    answer = ssh_channel_open_session(channel_->get());
  } else if (request_.kind == StreamRequest::Kind::kTcp) {
    answer = ssh_channel_open_forward(channel_->get(), request_.what.c_str(), request_.port,
                                      "127.0.0.1", 0);
  } else {
    answer = ssh_channel_open_forward_unix(channel_->get(), request_.what.c_str(), "", 0);
  }
  if (answer == SSH_AGAIN) return;
  if (answer != SSH_OK) return openFailed(shared);
  if (counted_) shared.sessionLimit = std::max(shared.sessionLimit, shared.sessionChannels);
  phase_ = usesSessionChannel() ? Phase::kRequesting : Phase::kOpen;
  if (phase_ == Phase::kOpen) {
    outcome_->setOpened();
    again_ = true;
  }
}

void SshStream::openFailed(Shared& shared) {
  const std::string words = ssh_get_error(shared.session.get());
  const bool linkLost = !ssh_is_connected(shared.session.get());
  const bool session = usesSessionChannel();
  releaseChannel(shared);
  if (linkLost) {
    phase_ = Phase::kWaiting;  // the session is about to notice, and ends all its streams
    return;
  }
  if (session) {
    // The server's MaxSessions: the rest wait for one of those open to close, or for the server to
    // free one that has closed.
    const auto now = std::chrono::steady_clock::now();
    shared.sessionLimit = shared.sessionChannels;
    shared.probeAt = now + (shared.sessionChannels > 0 ? kRareProbePause : kProbePause);
    if (shared.sessionChannels > 0)
      refusedSince_.reset();
    else if (!refusedSince_)
      refusedSince_ = now;
    if (!refusedSince_ || now - *refusedSince_ < kSlotPatience) {
      phase_ = Phase::kWaiting;
      return;
    }
  }
  if (request_.kind == StreamRequest::Kind::kUnix && !bridging_ && !request_.bridge.empty()) {
    // A refusal and an absent socket look alike in the answer; the bridge tells them apart.
    bridging_ = true;
    phase_ = Phase::kWaiting;
    again_ = true;
    return;
  }
  Error error =
      makeError(Code::kUnavailable, "the server does not open a channel to {}", request_.what);
  error.why = words;
  if (session)
    error.next = "raise MaxSessions of that server's sshd, or end what else uses the connection";
  fail(error);
}

void SshStream::request(Shared& shared) {
  const int answer =
      request_.kind == StreamRequest::Kind::kSubsystem
          ? ssh_channel_request_subsystem(channel_->get(), request_.what.c_str())
          : ssh_channel_request_exec(channel_->get(),
                                     bridging_ ? request_.bridge.c_str() : request_.what.c_str());
  if (answer == SSH_AGAIN) return;
  if (answer != SSH_OK && !ssh_is_connected(shared.session.get())) {
    releaseChannel(shared);
    phase_ = Phase::kWaiting;  // as above
    return;
  }
  if (answer != SSH_OK) {
    Error error = makeError(Code::kFailedPrecondition, "the server refuses {}",
                            bridging_ ? request_.bridge : request_.what);
    error.why = ssh_get_error(shared.session.get());
    releaseChannel(shared);
    fail(error);
    return;
  }
  phase_ = Phase::kOpen;
  outcome_->setOpened();
  again_ = true;
}

void SshStream::flush(Pending& pending, int fd, bool* gone) {
  while (!pending.empty() && !*gone) {
    const ssize_t n = ::send(fd, pending.bytes.data() + pending.at,
                             pending.bytes.size() - pending.at, MSG_NOSIGNAL);
    if (n > 0) {
      pending.at += static_cast<std::size_t>(n);
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && errno == EAGAIN) {
      return;
    } else {
      *gone = true;
    }
  }
  pending.clear();
}

void SshStream::remoteToLocal(bool isError) {
  Pending& pending = isError ? toError_ : toLocal_;
  bool& gone = isError ? errorGone_ : localGone_;
  const int fd = isError ? localError_.get() : local_.get();
  char bytes[kChunk];
  for (int round = 0; pending.empty(); ++round) {
    if (round == kFairRounds) {
      again_ = readable_ = true;
      return;
    }
    const int n =
        ssh_channel_read_nonblocking(channel_->get(), bytes, sizeof bytes, isError ? 1 : 0);
    if (n <= 0) return;
    if (!isError) answered_ = true;
    if (isError && bridging_ && errorTail_.size() < kErrorTail)
      errorTail_.append(bytes, static_cast<std::size_t>(n));
    if (gone) continue;
    pending.bytes.assign(bytes, static_cast<std::size_t>(n));
    pending.at = 0;
    flush(pending, fd, &gone);
  }
  readable_ = true;  // the rest, once the local side has taken what is pending
}

void SshStream::localToRemote(Shared& shared, short events) {
  const auto writable = [&] {
    return ssh_channel_window_size(channel_->get()) > 0 &&
           (ssh_get_poll_flags(shared.session.get()) & SSH_WRITE_PENDING) == 0;
  };
  const auto send = [&] {
    while (!toRemote_.empty() && ssh_channel_window_size(channel_->get()) > 0) {
      const int n = ssh_channel_write(channel_->get(), toRemote_.bytes.data() + toRemote_.at,
                                      static_cast<uint32_t>(toRemote_.bytes.size() - toRemote_.at));
      if (n <= 0) return;  // closed ends are seen in finish
      toRemote_.at += static_cast<std::size_t>(n);
    }
    if (toRemote_.empty()) toRemote_.clear();
  };
  send();
  char bytes[kChunk];
  const bool isJump = request_.kind == StreamRequest::Kind::kTcp;
  const bool hungUp = events & (POLLHUP | POLLERR);
  const bool readable = (events & POLLIN) || hungUp || localGone_;
  if (readable && !localEnded_ && toRemote_.empty() && writable()) {
    const std::size_t room =
        std::min<std::size_t>(kChunk, ssh_channel_window_size(channel_->get()));
    const ssize_t n = ::read(local_.get(), bytes, room);
    if (n > 0) {
      toRemote_.bytes.assign(bytes, static_cast<std::size_t>(n));
      toRemote_.at = 0;
      send();
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      localEnded_ = true;
    }
  } else if (hungUp && (isJump || (localEnded_ && !remoteEnded_))) {
    localGone_ = true;
    if (isJump) {  // a session that has ended: nobody needs the rest, which may never be taken
      localEnded_ = true;
      toRemote_.clear();
    }
  }
  if (localEnded_ && toRemote_.empty() && !endSent_) {
    ssh_channel_send_eof(channel_->get());
    endSent_ = true;
  }
}

void SshStream::finish(Shared& shared) {
  if (!remoteEnded_ && toLocal_.empty() && ssh_channel_is_eof(channel_->get())) {
    remoteEnded_ = true;
    if (!localGone_) ::shutdown(local_.get(), SHUT_WR);
  }
  const bool closed = ssh_channel_is_closed(channel_->get());
  const bool unread =
      (!toLocal_.empty() && !localGone_) || (!toError_.empty() && !errorGone_) || again_;
  const bool left = localGone_ || (localDone() && errorGone_ && localError_);
  const bool gone = left && (endSent_ || closed);
  const bool ours = request_.kind != StreamRequest::Kind::kExec && !bridging_ && remoteEnded_ &&
                    endSent_;  // a command's exit status comes after its output
  if (!(closed && !unread) && !ours && !gone) return;
  if (closed && !localGone_ &&
      (ssh_channel_poll(channel_->get(), 0) > 0 || ssh_channel_poll(channel_->get(), 1) > 0)) {
    again_ = readable_ = true;
    return;
  }
  StreamOutcome::End end;
  end.exitStatus = exitStatus_;
  end.signalName = signalName_;
  if (bridging_ && exitStatus_ > 0) {
    end.status = makeError(Code::kUnavailable, "the bridge to {} ended with status {}",
                           request_.what, exitStatus_);
    end.status.error().why = errorTail_;
    logWarning("{}", end.status.error().text());
  }
  outcome_->setEnd(std::move(end));
  releaseChannel(shared);
  local_.reset();
  localError_.reset();
  phase_ = Phase::kDone;
}

short SshStream::errorEvents() const {
  return phase_ == Phase::kOpen && !toError_.empty() ? POLLOUT : 0;
}

short SshStream::localEvents(const Shared& shared) const {
  if (phase_ != Phase::kOpen) return 0;
  short events = 0;
  if (!toLocal_.empty()) events |= POLLOUT;
  if (!localEnded_ && toRemote_.empty() && ssh_channel_window_size(channel_->get()) > 0 &&
      (ssh_get_poll_flags(shared.session.get()) & SSH_WRITE_PENDING) == 0)
    events |= POLLIN;
  return events;
}

}  // namespace lockstep::app
