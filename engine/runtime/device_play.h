// Plays a program's steps on a device. Kernels and what devices exchange among themselves are captured once, as one piece
// of work. A collective that the host plays cuts the work in two: it finds its operands in pinned memory. What the trainer
// writes and reads is in pinned memory too: it is copied to the device before the first step, and from it after the last.
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

  // The steps, in their order.
  void addKernel(backends::Kernel& kernel, double Breakdown::*account);
  // A collective of the host. `operands` are what it reads and writes: each is copied to the host before it, if `in` says
  // so, and back after it, if `out` does. The result is where it finds them there.
  struct Staged {
    backends::Operand operand;
    bool in = false, out = false;
  };
  Result<std::vector<void*>> addCollective(const std::vector<Staged>& operands);
  // One of devices, which `give` gives to queue kExchange after all steps before it. In flight, the steps after it do not
  // wait for it.
  void addExchange(std::function<void()> give, bool inFlight);
  // The step that is added next waits for that one, if it is in flight.
  void await(std::size_t step);

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
  // What is given to the device, in this order.
  struct Item {
    enum class Kind : std::uint8_t { kKernel, kExchange, kWait, kCopy };
    Kind kind = Kind::kKernel;
    double Breakdown::*account = nullptr;
    backends::Kernel* kernel = nullptr;
    std::function<void()> give;            // of an exchange
    std::size_t awaited = 0;               // of a wait: which item's exchange
    void *to = nullptr, *from = nullptr;   // of a copy
    std::int64_t bytes = 0;
    // The moment at which it begins in queue kCompute. Of an exchange also when all before it is done and when it is
    // itself, and its own begin and end in its queue.
    std::unique_ptr<device::Event> moment, ready, done, began, ended;
  };
  // Items one after another, and the host's collective after them.
  struct Section {
    std::size_t first = 0, end = 0;        // items
    std::unique_ptr<device::Work> work;
    std::unique_ptr<device::Event> over;
    std::vector<std::size_t> marks;        // items at which another account begins, and exchanges
    bool collective = false;
    std::size_t step = 0;                  // that is it
  };

  Result<backends::Operand> mirror(const backends::Operand& operand, std::vector<Copy>& copies);
  void give(const Section& section, bool each);
  Section& openSection();  // to which items are added
  Item& add(Item::Kind kind, double Breakdown::*account);  // null: that of what is before it
  void addCopy(void* to, void* from, std::int64_t bytes);
  void awaitItem(std::size_t item);
  const device::Event& momentAfter(const Section& section, std::size_t item) const;

  device::Device& device_;
  std::vector<Copy> inputs_, results_;
  std::vector<Item> items_;
  std::vector<std::size_t> steps_;         // the item of each; of the host's collectives none
  std::vector<std::size_t> inFlight_;      // exchanges that nothing has waited for yet, as items
  std::vector<Section> sections_ = std::vector<Section>(1);
  struct Back {                            // what the host's last collective wrote
    void *to = nullptr, *from = nullptr;
    std::int64_t bytes = 0;
  };
  std::vector<Back> back_;
  std::vector<device::Memory> staged_;
};

}  // namespace lockstep::runtime
