// Channel: length-prefixed protobuf messages (u32, little endian) between a supervisor and its
// worker over a socketpair.
#pragma once

#include <google/protobuf/message_lite.h>
#include <poll.h>

#include <functional>
#include <mutex>
#include <string>

#include "agent/base/event_loop.h"
#include "engine/base/status.h"

namespace lockstep::agent {

inline constexpr std::size_t kMaxFrame = std::size_t{64} << 20;

// The supervisor's end, on its loop. Never blocks; unsent bytes are buffered.
class Channel {
 public:
  // `onFrame` receives the bytes of each message. `onEnd` is called once, at the end of the stream
  // or after a malformed frame. Both may destroy the channel.
  Channel(EventLoop& loop, int fd, std::function<void(std::string_view)> onFrame,
          std::function<void()> onEnd);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void send(const google::protobuf::MessageLite& message);  // nothing after the end

 private:
  void handle(short revents);
  void readMore();
  void flush();

  EventLoop& loop_;
  int fd_;
  std::function<void(std::string_view)> onFrame_;
  std::function<void()> onEnd_;
  std::string in_, out_;
  bool ended_ = false;
  short events_ = POLLIN;  // watched
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// The worker's end; blocking. Any thread may send, one receives.
class BlockingChannel {
 public:
  explicit BlockingChannel(int fd) : fd_(fd) {}
  bool send(const google::protobuf::MessageLite& message);  // false at the stream's end
  bool receive(std::string& frame);                         // false at the stream's end
 private:
  int fd_;
  std::mutex mutex_;
};

}  // namespace lockstep::agent
