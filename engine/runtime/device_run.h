// Runs a program's steps on a device. Kernels and device collectives are captured once as one piece
// of work (a graph). A collective that runs on the host splits the work; its operands are staged in
// pinned memory. Inputs and results of the trainer pass through pinned memory too (DeviceMirrors),
// as the first and last work. Notes on the device how far it has come (DeviceProgress).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/base/clock.h"
#include "engine/device/device.h"
#include "engine/runtime/device_mirrors.h"
#include "engine/runtime/device_progress.h"

namespace lockstep::runtime {

struct Breakdown;

class DeviceRun {
 public:
  // `mirrors` are borrowed; null: no inputs and results are copied.
  explicit DeviceRun(device::Device& device, DeviceMirrors* mirrors = nullptr)
      : device_(device), mirrors_(mirrors) {}

  // Adds the steps, in order.
  void addKernel(backends::Kernel& kernel, double Breakdown::*account);
  // A collective on the host. Each operand is copied to the host before it if `in`, and back after
  // it if `out`. Returns the operands' addresses on the host.
  struct Staged {
    backends::Operand operand;
    bool in = false, out = false;
  };
  Result<std::vector<void*>> addCollective(const std::vector<Staged>& operands);
  // A device collective: `enqueue` enqueues it on kExchange after all preceding steps. If
  // asynchronous, later steps do not wait for it.
  void addExchange(std::function<void()> enqueue, bool asynchronous);
  // Messages, enqueued likewise; not a step by themselves (see addReceived() and addPosted()). If
  // `awaited`, later steps wait for them; the end of the run always does.
  void addMessages(std::function<void()> enqueue, bool awaited);
  void addReceived();  // a step: the receives among the messages added last
  // a step: a send that is issued with messages added later, or with another run's
  void addPosted();
  // The next step added waits for `step` if that is asynchronous.
  void await(std::size_t step);

  // Captures the work; call once, after adding all steps.
  Status capture();
  // Its stops are the collectives and messages, in the order in which they were added. Set it to 0
  // before a run.
  DeviceProgress& progress() { return progress_; }
  std::size_t stops() const { return stops_; }

  // Begin and end of each step on the host's clock; one entry per step.
  struct Span {
    Nanoseconds begin = 0, end = 0;
  };
  // Runs once. `collective` runs the given host step; `meanwhile`, if not null, is called once
  // after the first work was enqueued. With `spans`, kernels are enqueued one by one with a
  // timestamp between them. Allocates nothing.
  // Clocks: each piece of work is mapped to the host's clock anew, so that it ends when the host
  // observed its end; drift is limited to its duration. The host observes an end up to 0.1 ms late,
  // and that of a result's copy later, by the same amount for all of a rank's timestamps.
  Status run(const std::function<Status(std::size_t step)>& collective,
             const std::function<Status()>& meanwhile, Breakdown& spent, std::vector<Span>* spans);

 private:
  // An item enqueued on the device, in this order.
  struct Item {
    enum class Kind : std::uint8_t { kKernel, kExchange, kWait, kCopy, kPosted };
    Kind kind = Kind::kKernel;
    double Breakdown::*account = nullptr;
    backends::Kernel* kernel = nullptr;
    std::function<void()> enqueue;        // of a device collective or messages
    std::size_t stop = 0;                 // of an exchange
    std::size_t awaited = 0;              // of a wait: the item it waits for
    void *to = nullptr, *from = nullptr;  // of a copy
    std::int64_t bytes = 0;
    // `timestamp`: when the item begins on kCompute. For an exchange also: `ready`, when all before
    // it is done; `done`, when it is; and its own begin and end on its queue.
    std::unique_ptr<device::Event> timestamp, ready, done, began, ended;
  };
  // A sequence of items, followed by a host collective.
  struct Section {
    std::size_t first = 0, end = 0;  // items
    std::unique_ptr<device::Work> work;
    std::unique_ptr<device::Event> over;
    std::vector<std::size_t> marks;  // items at which the account changes, and exchanges
    bool collective = false;
    std::size_t step = 0, stop = 0;  // the collective's index, and stop
  };

  void enqueue(const Section& section, bool each);
  Section& openSection();                                  // the one that items are added to
  Item& add(Item::Kind kind, double Breakdown::*account);  // null: that of the preceding item
  void addCopy(void* to, void* from, std::int64_t bytes);
  void awaitItem(std::size_t item);
  const device::Event& timestampAfter(const Section& section, std::size_t item) const;

  device::Device& device_;
  DeviceMirrors* const mirrors_;
  std::vector<Item> items_;
  std::vector<std::size_t> steps_;    // item of each step; host collectives have none
  std::vector<std::size_t> pending_;  // items of exchanges that no item has waited for yet
  std::vector<Section> sections_ = std::vector<Section>(1);
  struct Back {  // written by the last host collective
    void *to = nullptr, *from = nullptr;
    std::int64_t bytes = 0;
  };
  std::vector<Back> back_;
  std::vector<device::Memory> staged_;
  std::size_t messages_ = 0;  // item of the exchange added last
  std::size_t stops_ = 0;
  DeviceProgress progress_;
};

}  // namespace lockstep::runtime
