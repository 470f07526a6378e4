// Rendezvous: makes the TCP connections between the ranks of a group when they are first needed.
// Each rank listens on a port, which it publishes in the store with a one-time key; both ends of a
// connection prove that they know the key of the one that accepted it. Connections that do not are
// closed: the store is private to the group, the port is not.
//
// A thread accepts and greets, so that a rank that computes can be connected to. It ends, and the
// port closes, once there is a connection with every other rank. Of two ranks the lower one
// connects, or else, after a while, the higher one; if both do, the lower one's connection counts.
// All connections are watched, so that a rank learns of peers that have ended. Thread-safe.
#pragma once

#include <poll.h>

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/comm/communicator.h"
#include "engine/comm/greeting.h"

namespace lockstep::comm {

// Sends `words` on a connection, and shuts down sending.
void sendLast(int fd, const std::string& words);

// The ranks before and after `rank` around the ring, without repetition and without itself.
std::vector<int> ringNeighbours(int rank, int size);

class Rendezvous {
 public:
  // Publishes this rank's address and connects to both neighbours on the ring of ranks. `store`
  // must outlive the rendezvous. Errors: kUnavailable naming a neighbour, or those of ownAddress().
  static Result<std::unique_ptr<Rendezvous>> join(const GlooOptions& options, Store& store);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Requests a connection with `peer`, waits for it at most `wait`, and returns whether there is
  // one; where the address is not yet known, it first waits for the store, up to 4 s. A lower peer
  // is given `patience`, from the first request on, to connect itself. Errors: kUnavailable if the
  // peer cannot be connected to; kAborted after close().
  Result<bool> connect(int peer, Nanoseconds wait, Nanoseconds patience);
  // Returns the connection with a peer: a non-blocking socket with nothing read or written beyond
  // the greeting. Empty if there is none, or it was taken before.
  UniqueFd take(int peer);

  // Polls readable when a peer has ended sending on a connection, taken or not, whether or not all
  // that it sent is read. endedPeer() returns such a peer, each once.
  int watch() const { return watch_.get(); }
  std::optional<int> endedPeer();

  // Returns "host:port" of a peer; empty before its address was needed.
  std::string placeOf(int peer);

  // Sends `words` on all connections that are not taken, also on later ones, and shuts down
  // sending.
  void sayFarewell(std::string words);
  // Closes the port and all connections that are not taken, and wakes callers of connect().
  void close();

 private:
  struct Peer {
    std::optional<Announcement> announced;
    Nanoseconds storeWait = 0;  // for that, at the last attempt
    Nanoseconds since = 0;      // the first request; 0: none
    bool wanted = false;        // this rank is to connect
    bool dialling = false;      // a greeting of an outgoing connection is under way
    Nanoseconds notBefore = 0;  // the next attempt
    std::string last;           // why the previous attempt ended
    std::optional<Error> failure;
    bool met = false;
    bool dialled = false;  // by this rank
    UniqueFd connection;   // after `met`: empty once taken
  };
  // A connection during the greeting. Nothing here blocks.
  struct Handshake {
    UniqueFd connection;
    Greeting greeting;
    bool connecting = false;  // TCP has not connected yet
    Nanoseconds since = 0;
  };

  Rendezvous(const GlooOptions& options, Store& store);
  Peer& at(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  // On the caller's thread.
  Status announce();
  Status joinRing();
  Result<bool> find(int peer, Nanoseconds wait);  // its address in the store
  Error late(int peer);
  void wake() const;

  // On the rendezvous' thread, with mutex_ except while it polls.
  void run();
  bool isToDial(const Peer& peer) const;
  void dialAll();
  Status dial(int peer);
  void endDial(Peer& peer);
  std::vector<pollfd> events() const;
  int pollMilliseconds() const;
  void advanceAll(const std::vector<pollfd>& events);
  bool isOver(const Handshake& one, Nanoseconds now);
  bool advance(Handshake& one);  // as far as the socket permits; false when it is over, either way
  bool isConnected(Handshake& one);
  bool write(Handshake& one);
  void accept(Nanoseconds now);
  bool admits(const Greeting& greeting);
  void add(Handshake& one);
  void fail(int peer, Error error);
  void hungUp(const Greeting& greeting);
  Message connectingTo(int peer);

  const GlooOptions options_;
  Store& store_;
  std::string key_;
  UniqueFd wake_;
  UniqueFd watch_;  // an epoll of the ends of sending

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Peer> peers_;  // by rank
  UniqueFd listener_;
  Nanoseconds acceptFrom_ = 0;
  std::list<Handshake> handshakes_;
  int met_ = 0;
  int dialling_ = 0;
  bool closed_ = false;
  std::string farewell_;

  std::thread thread_;
};

}  // namespace lockstep::comm
