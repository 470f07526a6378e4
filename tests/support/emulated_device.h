// A device that is none: it plays the CUDA backend's kernels on the host, and writes down what it was asked for. What
// it is given is done only when it is synchronized, and its memory cannot be touched by anything but its work, so that
// what leaves out a copy or a wait is found out. Of its two queues now the one goes as far ahead as waits let it, now the
// other. It proves nothing about a GPU but what is computed from what, where.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/device/device.h"

namespace lockstep::testing {

// Where emulated devices of this process become groups. Threads: any.
class EmulatedMeeting {
 public:
  // A group's communicator of rank `rank`; whoever comes first makes the group.
  std::unique_ptr<comm::Communicator> join(const std::string& id, int rank, int size, Nanoseconds limit);

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::unique_ptr<comm::Communicator>>> groups_;
};

class EmulatedDevice : public device::Device {
 public:
  EmulatedMeeting* meeting = nullptr;  // null: it forms no groups
  std::string version = "1";           // of what groups are formed by
  // Where calls are written down, one a line: "launch relu 4×1×256", "product 2×3×4", "product 2×3×4 tf32", "copy 64", "record", "synchronize", "begin capture",
  // "end capture", "replay", "all-reduce 64", "mark compute", "wait exchange"; in a capture they are indented.
  std::vector<std::string>* calls = nullptr;  // null: nowhere
  // From the n-th launch on (1: the next) that is done the device fails.
  virtual void failAt(int launches) = 0;
  virtual void setId(std::string id) = 0;
};
std::unique_ptr<EmulatedDevice> makeEmulatedDevice();

}  // namespace lockstep::testing
