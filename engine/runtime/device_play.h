// Plays a program's steps on a device. Kernels and what devices exchange among themselves are
// captured once, as one piece of work. A collective that the host plays cuts the work in two: it
// finds its operands in pinned memory. What the trainer writes and reads is in pinned memory too
// (DeviceMirrors): the first and the last of the work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/base/clock.h"
#include "engine/device/device.h"
#include "engine/runtime/device_mirrors.h"

namespace lockstep::runtime {

struct Breakdown;

class DevicePlay {
 public:
  // `mirrors` are borrowed; null: nothing is written or read.
  explicit DevicePlay(device::Device& device, DeviceMirrors* mirrors = nullptr)
      : device_(device), mirrors_(mirrors) {}

  // The steps, in their order.
  void addKernel(backends::Kernel& kernel, double Breakdown::*account);
  // A collective of the host. `operands` are what it reads and writes: each is copied to the host
  // before it, if `in` says so, and back after it, if `out` does. The result is where it finds them
  // there.
  struct Staged {
    backends::Operand operand;
    bool in = false, out = false;
  };
  Result<std::vector<void*>> addCollective(const std::vector<Staged>& operands);
  // One of devices, which `give` gives to queue kExchange after all steps before it. In flight, the
  // steps after it do not wait for it.
  void addExchange(std::function<void()> give, bool inFlight);
  // Messages, given likewise: no step, but that of what they receive is in them. The steps after
  // them wait for them if they are awaited, the play's end in any case.
  void addMessages(std::function<void()> give, bool awaited);
  void addReceived();  // a step: of the messages added last
  // a step: a message that leaves with messages added later, or with another play's
  void addPosted();
  // The step that is added next waits for that one, if it is in flight.
  void await(std::size_t step);

  // Once, after all steps.
  Status capture();

  // When each step began and ended, by the host's clock; as many as there are steps.
  struct Span {
    Nanoseconds begin = 0, end = 0;
  };
  // Plays once; `collective` plays that step, and `meanwhile`, which may be null, is called once
  // when the first work has been given. `spans` may be null; else kernels are given one by one,
  // with a moment noted between them. Allocates nothing. Clocks: each piece of work is laid on the
  // host's clock anew, to end when the host saw it end, so that the two clocks drift no longer than
  // it takes. The host sees it up to 0.1 ms late, and a result's copy later; all of a rank's
  // moments alike.
  Status play(const std::function<Status(std::size_t step)>& collective,
              const std::function<Status()>& meanwhile, Breakdown& spent, std::vector<Span>* spans);

 private:
  // What is given to the device, in this order.
  struct Item {
    enum class Kind : std::uint8_t { kKernel, kExchange, kWait, kCopy, kPosted };
    Kind kind = Kind::kKernel;
    double Breakdown::*account = nullptr;
    backends::Kernel* kernel = nullptr;
    std::function<void()> give;           // of an exchange
    std::size_t awaited = 0;              // of a wait: which item's exchange
    void *to = nullptr, *from = nullptr;  // of a copy
    std::int64_t bytes = 0;
    // The moment at which it begins in queue kCompute. Of an exchange also when all before it is
    // done and when it is itself, and its own begin and end in its queue.
    std::unique_ptr<device::Event> moment, ready, done, began, ended;
  };
  // Items one after another, and the host's collective after them.
  struct Section {
    std::size_t first = 0, end = 0;  // items
    std::unique_ptr<device::Work> work;
    std::unique_ptr<device::Event> over;
    std::vector<std::size_t> marks;  // items at which another account begins, and exchanges
    bool collective = false;
    std::size_t step = 0;  // that is it
  };

  void give(const Section& section, bool each);
  Section& openSection();                                  // to which items are added
  Item& add(Item::Kind kind, double Breakdown::*account);  // null: that of what is before it
  void addCopy(void* to, void* from, std::int64_t bytes);
  void awaitItem(std::size_t item);
  const device::Event& momentAfter(const Section& section, std::size_t item) const;

  device::Device& device_;
  DeviceMirrors* const mirrors_;
  std::vector<Item> items_;
  std::vector<std::size_t> steps_;     // the item of each; of the host's collectives none
  std::vector<std::size_t> inFlight_;  // exchanges that nothing has waited for yet, as items
  std::vector<Section> sections_ = std::vector<Section>(1);
  struct Back {  // what the host's last collective wrote
    void *to = nullptr, *from = nullptr;
    std::int64_t bytes = 0;
  };
  std::vector<Back> back_;
  std::vector<device::Memory> staged_;
  std::size_t messages_ = 0;  // the item of the exchange added last
};

}  // namespace lockstep::runtime
