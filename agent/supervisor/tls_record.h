// The first record of a TLS connection: what a supervisor's port looks at before gRPC does.
#pragma once

#include <cstdint>

namespace lockstep::agent {

class FirstRecord {
 public:
  enum class State : std::uint8_t {
    kComing,
    kCame,  // the whole record, of a handshake
    kNone,  // it is of something else, or will not come
  };

  // Asks that poll() reports the new connection once the record's header has come. Returns false if
  // the connection is not usable.
  static bool await(int fd);
  // Looks at what has come, and reads nothing. To be called when poll() reports the connection;
  // `hasLeft`: the peer sends no more. After kComing, poll() reports when more of the record has
  // come, after kCame when anything has.
  State look(int fd, bool hasLeft);

 private:
  static constexpr int kHeader = 5;  // bytes: type, version, length
  static int sizeOf(int fd);

  int expected_ = kHeader;  // bytes
};

}  // namespace lockstep::agent
