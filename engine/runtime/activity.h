// Activity: where the training of a rank stands, for a watcher that tells a hang from work.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/runtime/device_progress.h"

namespace lockstep::runtime {

// The stops of a device run (see DeviceProgress), and what is computed between them.
struct DeviceCourse {
  struct Stop {
    const plan::Step* step = nullptr;  // of messages issued together: the first receive, else send
    std::vector<int> peers;            // coordinates along the step's axis; empty: all
    std::uint64_t collectives = 0;     // number of the device's collectives and messages up to it
    // what is computed next: the first and the last step before another stop; null: nothing
    const plan::Step *next = nullptr, *last = nullptr;
  };
  std::vector<Stop> stops = std::vector<Stop>(1);  // 0: the run's begin
};

// Threads: each slot is written by one thread and read by any. A device run takes a lock when it
// begins and when it ends, as does a reader; nothing else blocks.
class Activity {
 public:
  enum Thread : std::uint8_t { kTraining, kCommunication };

  void enter(Thread thread, const plan::Step& step, std::int64_t trainingStep) {
    set(thread, &step, trainingStep);
  }
  void leave(Thread thread) { set(thread, nullptr, 0); }
  void beginCollective() { collectives_.fetch_add(1, std::memory_order_relaxed); }

  // While it lives, the training thread runs `course` on a device, from its begin. All are
  // borrowed.
  class OnDevice {
   public:
    OnDevice(Activity& activity, const DeviceCourse& course, DeviceProgress& progress,
             std::int64_t trainingStep);
    ~OnDevice();
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;
    // Whether the training thread does something else than to wait for the device.
    void setBusy(bool busy);

   private:
    friend class Activity;
    Activity& activity_;
    const DeviceCourse& course_;
    DeviceProgress& progress_;
    const std::int64_t trainingStep_;
    std::atomic<bool> busy_{false};
  };

  struct Position {
    std::uint64_t changes = 0;         // grows with each change: equal ones are the same stay
    const plan::Step* step = nullptr;  // of the plan, which outlives this; null: in none
    // On a device: the last of the steps that may be computed; else null.
    const plan::Step* last = nullptr;
    std::int64_t trainingStep = 0;
    bool waits = false;             // for the peers of `step`, in a collective or a message
    std::vector<int> peers;         // coordinates along the step's axis; empty: all
    std::uint64_t collectives = 0;  // number of collectives and messages begun
  };
  // Consistent once `changes` stays the same.
  Position position() const;

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> changes{0};
    std::atomic<const plan::Step*> step{nullptr};
    std::atomic<std::int64_t> trainingStep{0};
  };
  void set(Thread thread, const plan::Step* step, std::int64_t trainingStep) {
    Slot& slot = slots_[thread];
    slot.step.store(step, std::memory_order_relaxed);
    slot.trainingStep.store(trainingStep, std::memory_order_relaxed);
    change(thread, 1);
  }
  void change(Thread thread, std::uint64_t times) {
    std::atomic<std::uint64_t>& changes = slots_[thread].changes;
    changes.store(changes.load(std::memory_order_relaxed) + times, std::memory_order_relaxed);
  }
  void placeOnHost(const plan::Step& step, Position& out) const;
  void placeOnDevice(std::uint64_t count, Position& out) const;

  std::array<Slot, 2> slots_;
  std::atomic<std::uint64_t> collectives_{0};
  mutable std::mutex mutex_;            // of what follows
  const OnDevice* onDevice_ = nullptr;  // null: the training is on the host
};

// Returns the coordinates of a message's peers; none for another collective.
std::vector<int> coordinatesOf(const plan::Peers& peers);

}  // namespace lockstep::runtime
