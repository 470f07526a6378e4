// A device that is none: it plays the CUDA backend's kernels on the host, and writes down what it
// was asked for. What it is given is done only when it is synchronized, and its memory cannot be
// touched by anything but its work, so that what leaves out a copy or a wait is found out. Of its
// queues now the one goes as far ahead as waits let it, now another. Messages are meetings: a group
// of them ends when all are received. It proves nothing about a GPU but what is computed from what,
// where.
#pragma once

#include <condition_variable>
#include <deque>
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

// Where emulated devices of this process become groups. Threads: any.
class EmulatedMeeting {
 public:
  // A group's communicator of rank `rank`; whoever comes first makes the group.
  std::unique_ptr<comm::Communicator> join(const std::string& id, int rank, int size,
                                           Nanoseconds limit);
  // Messages of rank `rank` of a group, until all have been received.
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
  EmulatedMeeting* meeting = nullptr;  // null: it forms no groups
  std::string version = "1";           // of what groups are formed by
  // Where calls are written down, one a line: "launch relu 4×1×256", "product 2×3×4", "product
  // 2×3×4 added tf32", "copy 64", "record", "synchronize", "begin capture", "end capture",
  // "replay", "all-reduce 64", "send 64 to 1", "mark compute", "wait exchange", "copy 64 ahead",
  // "await"; in a capture they are indented. Messages given together are one line: "send 64 to 1,
  // receive 64 from 1".
  std::vector<std::string>* calls = nullptr;  // null: nowhere
  // From the n-th launch on (1: the next) that is done the device fails.
  virtual void failAt(int launches) = 0;
  virtual void setId(std::string id) = 0;
  // else 9.0; below 8.0 no tensor cores are used
  virtual void setComputeCapability(int major, int minor) = 0;
};
std::unique_ptr<EmulatedDevice> makeEmulatedDevice();

}  // namespace lockstep::testing
