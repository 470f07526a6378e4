// Sends messages to the ranks of one group, on a thread for each of them, so that a rank computes
// while what it made travels, and neither ranks that send to each other nor messages to different
// ranks wait for each other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "engine/base/status.h"
#include "engine/comm/communicator.h"
#include "engine/runtime/lane.h"

namespace lockstep::runtime {

// Order: to one rank as posted. Threads: messages to one rank are posted and waited for by one.
// Failure: the first error of any message is told by every later call.
class Sender {
 public:
  // Memory that is sent again and again, to one rank.
  struct Message {
    const void* data = nullptr;
    std::int64_t bytes = 0;
    int peer = 0;
    std::uint64_t ticket = 0;  // of the last posting; 0: never posted
  };

  // The group is borrowed; nobody else sends in it.
  explicit Sender(comm::Communicator& group) : group_(group) {}
  // What has not been sent yet is given up, and the group with it.
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // Once for each message before it is posted; posting allocates nothing afterwards.
  void prepare(const Message& message);
  // The memory is not written until it has been sent. Precondition: waited for since the last time.
  void post(Message& message);
  Status wait(const Message& message);
  Status drain();  // until all is sent
  // Ends the group where the message is still being sent; afterwards its memory is nobody's.
  void giveUp(const Message& message);

 private:
  comm::Communicator& group_;
  FirstError failed_;
  std::map<int, std::unique_ptr<Lane<Message>>> lanes_;  // by peer
};

}  // namespace lockstep::runtime
