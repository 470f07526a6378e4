// Sends messages to other ranks of one axis on a thread of its own, so that a rank computes while what
// it made travels, and ranks that send to each other do not wait for each other.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "engine/base/status.h"
#include "engine/comm/communicator.h"

namespace lockstep::runtime {

// Order: as posted. Threads: one posts and waits. Failure: the group's first error is told by every
// later call. Nothing is allocated after construction.
class Sender {
 public:
  struct Message {
    const void* data = nullptr;
    std::int64_t bytes = 0;
    int peer = 0;
    std::uint32_t ticket = 0;  // of the last posting; 0: never posted
  };

  // The group is borrowed; nobody else sends in it.
  explicit Sender(comm::Communicator& group);
  // What has not been sent yet is given up, and the group with it.
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // The message's memory is not written until it has been sent. Precondition: waited for since it
  // was last posted.
  Status post(Message& message);
  Status wait(const Message& message);
  Status drain();  // until all is sent

 private:
  static constexpr std::uint32_t kCapacity = 256;
  void run();
  Status waitFor(std::uint32_t ticket);

  comm::Communicator& group_;
  std::array<const Message*, kCapacity> queue_{};
  std::atomic<std::uint32_t> posted_{0}, sent_{0};
  std::atomic<bool> ending_{false}, failed_{false};
  std::mutex mutex_;  // of error_
  Status error_;
  std::thread thread_;
};

}  // namespace lockstep::runtime
