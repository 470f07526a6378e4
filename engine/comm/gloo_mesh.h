// The connections of a Gloo group: one TCP pair per peer in synchronous mode, so that the calling
// thread reads and writes the sockets itself, without Gloo's device thread. Gloo headers are
// confined to the .cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/comm/communicator.h"

namespace lockstep::comm {

// Maximum payload of a message. Four fit the default socket send buffer, so that a socket that
// polls writable accepts one without blocking.
inline constexpr std::int64_t kChunkBytes = 64 << 10;

// Precedes every message. `call` must be equal on both sides of a transfer; otherwise ranks have
// issued different calls.
struct MessageHeader {
  struct Call {
    std::uint8_t operation = 0;
    std::uint8_t dtype = 0;
    std::uint8_t op = 0;
    std::uint8_t reserved = 0;
    std::int32_t tag = 0;    // tag of a message, or root of a collective
    std::int64_t total = 0;  // bytes of the whole transfer
    bool operator==(const Call&) const = default;
  } call;
  std::uint32_t sequence = 0;  // number of messages so far on this pair in this direction
  std::uint32_t length = 0;    // bytes of payload
};
static_assert(sizeof(MessageHeader) == 24);

// The last message of a failing rank: which rank it suspects, and of what.
struct Farewell {
  std::uint64_t magic = 0;
  std::int32_t culprit = -1;
  std::uint32_t code = 0;
};

class GlooMesh {
 public:
  static Result<std::unique_ptr<GlooMesh>> connect(const GlooOptions& options, Store& store);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  // Duplicate of the pair's socket, for poll() and shutdown() only.
  int descriptor(int peer) const;
  // Message buffers of a peer: a header followed by up to kChunkBytes.
  std::byte* outbox(int peer);
  const std::byte* inbox(int peer) const;
  // Call when the socket polls writable or readable. Errors: those of Gloo or the socket.
  Status sendMessage(int peer, std::int64_t payload);
  Status receiveMessage(int peer);

  // Sends the farewell to every reachable peer and shuts down sending: peers read what was sent,
  // then end-of-stream.
  void sayFarewell(int culprit, Code code);
  // After an error: reads the peer's farewell, which may follow unread messages. Waits for it or
  // for end-of-stream, at most `limit`.
  enum class Last { kFarewell, kEnd, kSilence };
  Last lastOf(int peer, Nanoseconds limit, Farewell* farewell);
  // Thread-safe. Shuts down all connections, which wakes pollers and readers.
  void cut();

 private:
  struct State;
  explicit GlooMesh(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::comm
