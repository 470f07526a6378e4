// One channel of a session wired to local descriptors, driven by the session's thread.
// Nothing here blocks: each call goes on as far as it can. Backpressure runs through: local bytes
// are read only when the channel can take them, channel bytes only when the local side takes them
// (libssh then stops widening the window).
#pragma once

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "app/ssh/stream_outcome.h"
#include "app/ssh/stream_request.h"
#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {

// libssh's session, shared by the object that drives it and its channels: disconnecting frees all
// channels of a session, so it is disconnected and freed only after the last of them.
using SharedSession = std::shared_ptr<ssh_session_struct>;

// A channel with its callbacks, from its making to its freeing.
class SshChannel {
 public:
  SshChannel(SharedSession session, ssh_channel_callbacks callbacks);
  ~SshChannel();
  SshChannel(const SshChannel&) = delete;
  SshChannel& operator=(const SshChannel&) = delete;
  ssh_channel get() const { return channel_; }

 private:
  const SharedSession session_;
  const ssh_channel_callbacks callbacks_;
  ssh_channel channel_;
};

class SshStream {
 public:
  enum class Phase { kWaiting, kOpening, kRequesting, kOpen, kDone };

  SshStream(StreamRequest request, UniqueFd local, UniqueFd localError,
            std::shared_ptr<StreamOutcome> outcome);
  SshStream(const SshStream&) = delete;
  SshStream& operator=(const SshStream&) = delete;

  // Shared with the session, which owns it.
  struct Shared {
    SharedSession session;
    bool preferBridge = false;  // a bridge worked where a forward did not
    int sessionChannels = 0;    // exec and subsystem channels open or being opened
    // As learned from refusals. The server may free a channel later than it tells of its end, so
    // the limit may lie too low: from `probeAt` one channel beyond it is tried.
    int sessionLimit = 1 << 20;
    std::chrono::steady_clock::time_point probeAt;
  };

  void advance(Shared& shared, short localEvents, short errorEvents);
  void fail(const Error& error);  // ends the outcome; the stream is done
  void lose(const Error& error);  // the session has ended: fails, giving back what never opened
  Phase phase() const { return phase_; }
  bool busy() const { return again_; }  // has more to do without any event
  // What to poll for; descriptor -1: nothing.
  int localFd() const {
    return phase_ != Phase::kOpen || localGone_ || localDone() ? -1 : local_.get();
  }
  short localEvents(const Shared& shared) const;
  int errorFd() const { return phase_ != Phase::kOpen || errorGone_ ? -1 : localError_.get(); }
  short errorEvents() const;

 private:
  struct Pending {
    std::string bytes;
    std::size_t at = 0;
    bool empty() const { return at == bytes.size(); }
    void clear() { bytes.clear(), at = 0; }
  };
  bool usesSessionChannel() const;
  // Shut both ways by now: it would be polled as hung up, though its owner may still be there.
  bool localDone() const { return localEnded_ && remoteEnded_; }
  void open(Shared& shared);
  void openFailed(Shared& shared);
  void request(Shared& shared);
  void remoteToLocal(bool isError);
  void localToRemote(Shared& shared, short events);
  void finish(Shared& shared);
  void releaseChannel(Shared& shared);
  static void flush(Pending& pending, int fd, bool* gone);

  StreamRequest request_;
  UniqueFd local_, localError_;
  std::shared_ptr<StreamOutcome> outcome_;
  Phase phase_ = Phase::kWaiting;
  bool bridging_ = false;
  bool counted_ = false;
  ssh_channel_callbacks_struct callbacks_{};
  std::optional<SshChannel> channel_;
  // The first refusal while the session had no other channel that could take the server's slots.
  std::optional<std::chrono::steady_clock::time_point> refusedSince_;
  bool readable_ = false;  // set by callbacks: bytes, end or close
  bool again_ = false;
  bool answered_ = false;     // the remote side has sent something
  bool remoteEnded_ = false;  // no more bytes will come, and all are passed on
  bool localEnded_ = false;   // read to its end
  bool endSent_ = false;
  bool localGone_ = false;
  bool errorGone_ = false;
  Pending toLocal_, toError_, toRemote_;
  std::string errorTail_;  // of a bridge
  int exitStatus_ = -1;
  std::string signalName_;
};

}  // namespace lockstep::app
