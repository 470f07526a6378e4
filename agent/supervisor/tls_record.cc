#include "agent/supervisor/tls_record.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>

namespace lockstep::agent {
namespace {

// From now on, poll() reports the connection when this many bytes have come, or the peer has left.
// Where the kernel is short of memory, it may report it earlier.
bool awaitBytes(int fd, int count) {
  return setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &count, sizeof count) == 0;
}

}  // namespace

bool FirstRecord::await(int fd) { return awaitBytes(fd, kHeader); }

FirstRecord::State FirstRecord::look(int fd, bool hasLeft) {
  int waiting = 0;
  if (ioctl(fd, FIONREAD, &waiting) != 0) return State::kNone;
  if (waiting < expected_) return hasLeft ? State::kNone : State::kComing;
  const int size = sizeOf(fd);
  if (size == 0) return State::kNone;
  if (size == expected_) return awaitBytes(fd, 1) ? State::kCame : State::kNone;
  expected_ = size;
  return awaitBytes(fd, size) ? State::kComing : State::kNone;
}

// The bytes of the record with its header; 0 if it is not that of a handshake (RFC 8446, 5.1).
// Precondition: its header has come.
int FirstRecord::sizeOf(int fd) {
  constexpr unsigned char kHandshake = 0x16, kVersion = 0x03;
  constexpr int kMost = 1 << 14;
  std::array<unsigned char, kHeader> header{};
  if (recv(fd, header.data(), header.size(), MSG_PEEK | MSG_DONTWAIT) != kHeader) return 0;
  const int length = header[3] << 8 | header[4];
  const bool isHandshake =
      header[0] == kHandshake && header[1] == kVersion && length > 0 && length <= kMost;
  return isHandshake ? kHeader + length : 0;
}

}  // namespace lockstep::agent
