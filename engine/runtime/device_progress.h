// DeviceProgress: how far a device has come in a run. Collectives, on the device or on the host,
// and groups of messages are the run's stops, numbered from 1; the count is 2n−1 while stop n is
// under way and 2n once it is done.
//
// The device raises the count by copying 8 bytes from a table in its memory to pinned host memory,
// as part of the captured work: two copies on kExchange for each collective or group of messages.
// Their cost has not been measured: it takes several GPUs.
// Threads: any thread may read the count while the device is at work.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/device/device.h"

namespace lockstep::runtime {

class DeviceProgress {
 public:
  DeviceProgress() = default;  // of a run without stops: the count stays 0
  // Enqueues a copy on kCompute.
  static Result<DeviceProgress> make(device::Device& device, std::size_t stops);

  static std::uint64_t begun(std::size_t stop) { return 2 * stop - 1; }
  static std::uint64_t done(std::size_t stop) { return 2 * stop; }

  // Enqueues on kExchange: the count becomes `count`.
  void enqueue(device::Device& device, std::uint64_t count) const;
  // Sets the count, while the device is idle.
  void set(std::uint64_t count);
  std::uint64_t count() const;

 private:
  device::Memory count_;  // pinned: the count, and the table to copy to the device
  device::Memory table_;  // 1, 2, …
};

}  // namespace lockstep::runtime
