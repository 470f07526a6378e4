// Pinned host buffers for what the trainer writes to and reads from a program on a device.
//
// Inputs known before a run (samples) are prefetched: queue kAhead copies them to a staging area on
// the device during the previous run, and the run's first work moves them to their final place, so
// that captured work uses fixed addresses. Inputs known only at the run, and results, are copied by
// the run itself.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/device/device.h"

namespace lockstep::runtime {

class DeviceMirrors {
 public:
  explicit DeviceMirrors(device::Device& device) : device_(device) {}

  // Adds an operand and returns its place on the device; call once for each.
  Result<backends::Operand> addInput(const backends::Operand& operand) {
    return add(operand, inputs_);
  }
  Result<backends::Operand> addAhead(const backends::Operand& operand);
  Result<backends::Operand> addResult(const backends::Operand& operand) {
    return add(operand, results_);
  }
  Status prepare();                   // call once, after all were added
  std::int64_t waitingBytes() const;  // device memory besides the operands

  // Waits until sent data has left the buffers, so that the host may write them. Forgets what no
  // run has expected.
  void awaitPlaces();
  // Sends the buffers' contents, for the run after the one enqueued last.
  void send();
  // Call before a run's work is enqueued: makes it wait for sent data, and sends now if send() was
  // not called.
  void expect();

  // The first and the last work of a run; captured.
  void giveInputs();
  void giveResults();

 private:
  struct Copy {
    backends::Operand there;
    device::Memory host, waiting;  // `waiting`: the staging area, of prefetched operands
  };
  Result<backends::Operand> add(const backends::Operand& operand, std::vector<Copy>& copies);

  device::Device& device_;
  std::vector<Copy> inputs_, ahead_, results_;
  std::unique_ptr<device::Event> sent_, taken_;
  bool isSent_ = false;  // and not yet expected
  bool everSent_ = false, everTaken_ = false;
};

}  // namespace lockstep::runtime
