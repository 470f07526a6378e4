// Plays a program's steps on a device. Kernels without a collective between them are captured once, as one piece of
// work; collectives are played by the host, on copies in pinned memory. What the trainer writes and reads is in pinned
// memory too: it is copied to the device before the first step, and from it after the last.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/base/clock.h"
#include "engine/device/device.h"

namespace lockstep::runtime {

struct Breakdown;

class DevicePlay {
 public:
  explicit DevicePlay(device::Device& device) : device_(device) {}

  // The host's place for what the trainer writes to, or reads from, an operand on the device; one for each operand.
  Result<backends::Operand> mirrorInput(const backends::Operand& operand) { return mirror(operand, inputs_); }
  Result<backends::Operand> mirrorResult(const backends::Operand& operand) { return mirror(operand, results_); }

  // The steps, in their order. `operands` of a collective are what it reads and writes: each is copied to the host
  // before it, if `in` says so, and back after it, if `out` does. The result is where it finds them there.
  struct Staged {
    backends::Operand operand;
    bool in = false, out = false;
  };
  void addKernel(backends::Kernel& kernel, double Breakdown::*account);
  Result<std::vector<void*>> addCollective(const std::vector<Staged>& operands);

  // Once, after all steps.
  Status capture();

  // When each step began and ended, by the host's clock; as many as there are steps.
  struct Span {
    Nanoseconds begin = 0, end = 0;
  };
  // Plays once; `collective` plays that step. `spans` may be null; else kernels are given one by one, with a moment
  // noted between them. Allocates nothing.
  Status play(const std::function<Status(std::size_t step)>& collective, Breakdown& spent, std::vector<Span>* spans);

 private:
  struct Copy {
    backends::Operand there;
    device::Memory host;
  };
  // Kernels one after another, and the collective after them.
  struct Section {
    std::size_t first = 0, end = 0;         // steps: kernels
    std::unique_ptr<device::Work> work;
    struct Mark {
      double Breakdown::*account = nullptr;
      std::size_t step = 0;                 // from this one on
    };
    std::vector<Mark> marks;
    bool collective = false;                // step `end` is one
    struct StagedCopy {
      Copy copy;
      bool in = false, out = false;
    };
    std::vector<StagedCopy> staged;         // its operands
  };

  Result<backends::Operand> mirror(const backends::Operand& operand, std::vector<Copy>& copies);
  void give(const Section& section, bool each);
  Section& openSection();  // to which steps are added

  device::Device& device_;
  std::vector<Copy> inputs_, results_;
  std::vector<backends::Kernel*> kernels_;          // by step; null: a collective
  std::vector<Section> sections_ = std::vector<Section>(1);
  std::vector<std::unique_ptr<device::Event>> moments_;  // moments_[i]: when step i begins; one more at the end
};

}  // namespace lockstep::runtime
