// The connections of a Gloo group: one TCP pair a peer, in synchronous mode, so that the calling
// thread reads and writes the sockets itself and Gloo's device thread stays out of the way.
// Gloo headers stay in the .cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/comm/communicator.h"

namespace lockstep::comm {

// Payload of one message. Four of them fit the default limit of a socket's send buffer, so a socket
// that polls writable takes one without blocking.
inline constexpr std::int64_t kChunkBytes = 64 << 10;

// In front of every message. `call` is the same on both sides of a transfer, or ranks have issued
// different calls.
struct MessageHeader {
  struct Call {
    std::uint8_t operation = 0;
    std::uint8_t dtype = 0;
    std::uint8_t op = 0;
    std::uint8_t reserved = 0;
    std::int32_t tag = 0;    // of a message, or the root
    std::int64_t total = 0;  // bytes of the whole transfer
    bool operator==(const Call&) const = default;
  } call;
  std::uint32_t sequence = 0;  // messages so far on this pair and direction
  std::uint32_t length = 0;    // bytes of payload
};
static_assert(sizeof(MessageHeader) == 24);

// The last thing a failing rank says: which rank it suspects, and of what.
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

  // A duplicate of the pair's socket: to poll and to shut down, never to read or write.
  int descriptor(int peer) const;
  // Where a message to `peer` is put together, and where its last message lies: a header, then up
  // to kChunkBytes.
  std::byte* outbox(int peer);
  const std::byte* inbox(int peer) const;
  // Call when the socket polls writable, or readable. Failure: what Gloo or the socket says.
  Status sendMessage(int peer, std::int64_t payload);
  Status receiveMessage(int peer);

  // Tells every peer that can be told, and ends this rank's sending: peers read what was sent, then
  // the end.
  void sayFarewell(int culprit, Code code);
  // After an error: what the peer said before its end, which may lie behind unread messages. Waits
  // for it or for the end of the connection, at most `limit`.
  enum class Last { kFarewell, kEnd, kSilence };
  Last lastOf(int peer, Nanoseconds limit, Farewell* farewell);
  // From any thread: ends all connections, waking who polls or reads.
  void cut();

 private:
  struct State;
  explicit GlooMesh(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::comm
