// An emulated device: runs the CUDA backend's kernels on the host and records the calls. Work is
// deferred until synchronization, and device memory is accessible to the device's work only, so
// that a missing copy or wait is detected. Queues run ahead of each other in varying order, as far
// as waits permit. Messages are rendezvous: a group of them completes when all are received. Says
// nothing about real GPUs except which data each result is computed from.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/device/device.h"

namespace lockstep::testing {

// Forms groups of emulated devices in this process. Thread-safe.
class EmulatedRendezvous {
 public:
  // Returns the group's communicator of rank `rank`; the first caller creates the group.
  std::unique_ptr<comm::Communicator> join(const std::string& id, int rank, int size,
                                           Nanoseconds limit);
  // Exchanges messages of rank `rank`; returns when all have been received.
  Status exchange(const std::string& id, int rank, std::span<const device::Group::Message> messages,
                  Nanoseconds limit);
  void abort();

 private:
  struct Sent {
    const void* data = nullptr;
    std::int64_t bytes = 0;
    bool received = false;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  bool aborted_ = false;
  std::map<std::string, std::vector<std::unique_ptr<comm::Communicator>>> groups_;
  // group, from, to
  std::map<std::tuple<std::string, int, int>, std::deque<std::shared_ptr<Sent>>> sent_;
};

class EmulatedDevice : public device::Device {
 public:
  EmulatedRendezvous* rendezvous = nullptr;  // null: it forms no groups
  std::string version = "1";                 // version of the group library
  // Records the calls, one per line: "launch relu 4×1×256", "product 2×3×4", "product 2×3×4 added
  // tf32", "copy 64", "record", "synchronize", "begin capture", "end capture", "replay",
  // "all-reduce 64", "send 64 to 1", "mark compute", "wait exchange", "copy 64 ahead", "copy 8
  // exchange", "await"; indented inside a capture. Messages issued together are one line: "send 64
  // to 1, receive 64 from 1".
  std::vector<std::string>* calls = nullptr;  // null: not recorded
  // Called on the device's thread before each call's work, with its line; what is captured comes
  // after "replay". May block. Null: not called.
  std::function<void(const std::string& call)> onWork;
  // The device fails at the n-th launch from now (1: the next).
  virtual void failAt(int launches) = 0;
  virtual void setId(std::string id) = 0;
  // default 9.0; below 8.0 no tensor cores are used
  virtual void setComputeCapability(int major, int minor) = 0;
};
std::unique_ptr<EmulatedDevice> makeEmulatedDevice();

}  // namespace lockstep::testing
