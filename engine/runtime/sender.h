// Sends messages to the ranks of one group, with a thread per peer, so that sending overlaps
// computation, and neither mutual sends nor messages to different ranks block each other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "engine/base/status.h"
#include "engine/comm/communicator.h"
#include "engine/runtime/lane.h"

namespace lockstep::runtime {

// Order: messages to one rank are sent as posted. Threads: one thread posts and waits for the
// messages to one rank. Failure: every later call returns the first error of any message.
class Sender {
 public:
  // A buffer that is sent repeatedly, to one rank.
  struct Message {
    const void* data = nullptr;
    std::int64_t bytes = 0;
    int peer = 0;
    std::uint64_t ticket = 0;  // of the last post; 0: never posted
  };

  // The group is borrowed; nothing else sends in it.
  explicit Sender(comm::Communicator& group) : group_(group) {}
  // Abandons unsent messages, which aborts the group.
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // Call once per message before posting it; post() allocates nothing.
  void prepare(const Message& message);
  // The buffer must not be written until it has been sent. Precondition: waited for since the last
  // post.
  void post(Message& message);
  bool isSent(const Message& message) const;
  Status wait(const Message& message);
  Status drain();  // waits until all is sent
  // Aborts the group if the message is still being sent; afterwards its memory is no longer
  // accessed.
  void giveUp(const Message& message);

 private:
  comm::Communicator& group_;
  FirstError failed_;
  std::map<int, std::unique_ptr<Lane<Message>>> lanes_;  // by peer
};

}  // namespace lockstep::runtime
