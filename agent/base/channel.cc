#include "agent/base/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::agent {
namespace {

std::string frameOf(const google::protobuf::MessageLite& message) {
  std::string frame(4, '\0');
  message.AppendToString(&frame);
  const auto size = static_cast<std::uint32_t>(frame.size() - 4);
  for (std::size_t i = 0; i < 4; ++i) frame[i] = static_cast<char>(size >> (8 * i));
  return frame;
}

std::uint32_t sizeAt(const char* bytes) {
  std::uint32_t size = 0;
  for (std::size_t i = 0; i < 4; ++i)
    size |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return size;
}

}  // namespace

Channel::Channel(EventLoop& loop, int fd, std::function<void(std::string_view)> onFrame,
                 std::function<void()> onEnd)
    : loop_(loop), fd_(fd), onFrame_(std::move(onFrame)), onEnd_(std::move(onEnd)) {
  loop_.watch(fd_, events_, [this](short revents) { handle(revents); });
}

Channel::~Channel() {
  *alive_ = false;
  loop_.unwatch(fd_);
  close(fd_);
}

void Channel::handle(short revents) {
  const std::shared_ptr<bool> alive = alive_;
  if ((revents & POLLOUT) != 0) flush();
  if (*alive && (revents & (POLLIN | POLLHUP | POLLERR)) != 0) readMore();
}

void Channel::send(const google::protobuf::MessageLite& message) {
  if (ended_) return;
  const bool idle = out_.empty();
  out_ += frameOf(message);
  if (idle) flush();
}

void Channel::flush() {
  while (!out_.empty()) {
    const ssize_t count = ::send(fd_, out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      if (errno != EAGAIN) out_.clear();  // the end is seen by the reader
      break;
    }
    out_.erase(0, static_cast<std::size_t>(count));
  }
  const auto events = static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT);
  if (std::exchange(events_, events) == events) return;
  loop_.watch(fd_, events, [this](short revents) { handle(revents); });
}

void Channel::readMore() {
  const std::shared_ptr<bool> alive = alive_;
  bool ended = false;
  std::array<char, 1 << 16> buffer;
  for (int rounds = 0; rounds < 16; ++rounds) {
    const ssize_t count = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      ended = true;
      break;
    }
    in_.append(buffer.data(), static_cast<std::size_t>(count));
  }
  std::string frames;
  frames.swap(in_);
  std::size_t at = 0;
  while (frames.size() - at >= 4) {
    const std::size_t size = sizeAt(frames.data() + at);
    if (size > kMaxFrame) {
      ended = true;
      break;
    }
    if (frames.size() - at - 4 < size) break;
    onFrame_(std::string_view(frames).substr(at + 4, size));
    if (!*alive) return;
    at += 4 + size;
  }
  frames.erase(0, at);
  in_ = std::move(frames);
  if (ended) {
    ended_ = true;
    loop_.unwatch(fd_);
    onEnd_();
  }
}

bool BlockingChannel::send(const google::protobuf::MessageLite& message) {
  const std::string frame = frameOf(message);
  std::string_view rest = frame;
  std::lock_guard lock(mutex_);
  while (!rest.empty()) {
    const ssize_t count = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool BlockingChannel::receive(std::string& frame) {
  auto fill = [this](char* to, std::size_t size) {
    while (size > 0) {
      const ssize_t count = recv(fd_, to, size, 0);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      to += count;
      size -= static_cast<std::size_t>(count);
    }
    return true;
  };
  std::array<char, 4> header{};
  if (!fill(header.data(), header.size())) return false;
  const std::size_t size = sizeAt(header.data());
  if (size > kMaxFrame) return false;
  frame.resize(size);
  return fill(frame.data(), size);
}

}  // namespace lockstep::agent
