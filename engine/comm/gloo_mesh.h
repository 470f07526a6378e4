// The connections of a Gloo group: one TCP pair per peer in synchronous mode, so that the calling
// thread writes the sockets itself, without Gloo's device thread. What peers send is read here, as
// Gloo would wait for the rest of a message. A pair is made when it is first needed. Gloo headers
// are confined to the .cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/comm/blame.h"
#include "engine/comm/communicator.h"

namespace lockstep::comm {

class GlooMesh {
 public:
  // Opens the connections with the neighbours on the ring. `store` must outlive the mesh.
  static Result<std::unique_ptr<GlooMesh>> join(const GlooOptions& options, Store& store);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  // Thread-safe.
  bool isOpen(int peer) const;
  // Has a connection made, without waiting for it. Thread-safe. Errors: those of
  // Rendezvous::connect().
  Status request(int peer);
  // As request(), without leaving a lower peer time to connect itself.
  Status requestNow(int peer);
  // Waits at most about `wait` for a connection, and returns whether it is open. Thread-safe.
  // Errors: those of Rendezvous::connect(), of Gloo or of the socket.
  Result<bool> open(int peer, Nanoseconds wait);

  // "host:port" where the peer is sought; empty before its address is needed. Thread-safe.
  std::string placeOf(int peer) const;

  // Duplicate of an open pair's socket, for poll() and shutdown() only.
  int descriptor(int peer) const;
  // Message buffers of a peer: a header followed by up to kChunkBytes.
  std::byte* outbox(int peer);
  const std::byte* inbox(int peer) const;
  // Call when the socket polls writable. Errors: those of Gloo or the socket.
  Status sendMessage(int peer, std::int64_t payload);
  // Receives what has come of the next message; never blocks. After kFarewell the peer's farewell
  // follows. Errors: those of the socket; kAborted for a message that does not fit.
  enum class Received { kPart, kMessage, kFarewell };
  Result<Received> receiveMessage(int peer);

  // Polls readable when a peer has ended sending, whether or not all that it sent is read.
  // endedPeer() returns such a peer, each once, with an open connection; thread-safe.
  int watch() const;
  std::optional<int> endedPeer();
  // Whether the peer has ended an open connection.
  bool hasEnded(int peer) const;
  // Returns the farewell of a peer with an open connection if that is the last that it has sent.
  // Reads nothing.
  std::optional<Farewell> farewellOf(int peer) const;

  // Sends the farewell to every peer, also to those that connect later, and shuts down sending:
  // peers read what was sent, then end-of-stream.
  void sayFarewell(const Farewell& words);
  // After an error: reads the peer's farewell, which may follow unread messages. Waits for it or
  // for end-of-stream, at most `limit`; for a peer that goes on sending, twice as long. Opens the
  // connection if there is none.
  Heard lastOf(int peer, Nanoseconds limit);
  // Thread-safe. Shuts down all connections, which wakes pollers and readers, and callers of
  // open().
  void cut();

 private:
  struct State;
  Result<bool> openWithin(int peer, Nanoseconds wait, Nanoseconds patience);
  explicit GlooMesh(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::comm
