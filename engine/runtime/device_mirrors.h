// The host's places, in pinned memory, for what the trainer writes to and reads from a program on a
// device.
//
// What is known before a play's turn, its samples, is copied ahead: by queue kAhead into memory of
// the device where it waits, while the play before is under way. The play's first work moves it to
// where kernels read it, so that captured work has one address. What is known only then, and
// results, are copied by the play itself.
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

  // The place of an operand on the device; one for each.
  Result<backends::Operand> addInput(const backends::Operand& operand) {
    return add(operand, inputs_);
  }
  Result<backends::Operand> addAhead(const backends::Operand& operand);
  Result<backends::Operand> addResult(const backends::Operand& operand) {
    return add(operand, results_);
  }
  Status prepare();                   // once, when all are there
  std::int64_t waitingBytes() const;  // of the device's memory, besides the operands

  // The host: until what was sent has left its places, and they may be written. What no play has
  // expected is forgotten.
  void awaitPlaces();
  // What is written in the places is that of the play after the one whose work was given last.
  void send();
  // Given before a play's work: it waits for what was sent, which is sent now where it has not
  // been.
  void expect();

  // Of a play's work, which is captured: the first and the last.
  void giveInputs();
  void giveResults();

 private:
  struct Copy {
    backends::Operand there;
    device::Memory host, waiting;  // the second of what is copied ahead
  };
  Result<backends::Operand> add(const backends::Operand& operand, std::vector<Copy>& copies);

  device::Device& device_;
  std::vector<Copy> inputs_, ahead_, results_;
  std::unique_ptr<device::Event> sent_, taken_;
  bool isSent_ = false;  // and not yet expected
  bool everSent_ = false, everTaken_ = false;
};

}  // namespace lockstep::runtime
