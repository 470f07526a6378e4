// A device that is none: it plays the CUDA backend's kernels on the host, and writes down what it was asked for. What
// it is given is done only when it is synchronized, and its memory cannot be touched by anything but its work, so that
// what leaves out a copy or a wait is found out. It proves nothing about a GPU but what is computed from what, where.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/device/device.h"

namespace lockstep::testing {

class EmulatedDevice : public device::Device {
 public:
  // Where calls are written down, one a line: "launch relu 4×1×256", "product 2×3×4", "copy 64", "record", "synchronize", "begin capture",
  // "end capture", "replay"; in a capture they are indented.
  std::vector<std::string>* calls = nullptr;  // null: nowhere
  // From the n-th launch on (1: the next) that is done the device fails.
  virtual void failAt(int launches) = 0;
};
std::unique_ptr<EmulatedDevice> makeEmulatedDevice();

}  // namespace lockstep::testing
