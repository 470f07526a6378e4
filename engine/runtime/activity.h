// Activity: the plan step that each thread of a rank is in, for a watcher that tells a hang from
// work.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "engine/plan/plan.h"

namespace lockstep::runtime {

// Threads: each slot is written by one thread and read by any. Nothing blocks.
class Activity {
 public:
  enum Thread : std::uint8_t { kTraining, kCommunication };

  struct Position {
    std::uint64_t changes = 0;  // grows with each enter() and leave(): equal ones are the same stay
    const plan::Step* step = nullptr;  // of the plan, which outlives this; null: in none
    std::int64_t trainingStep = 0;
  };

  void enter(Thread thread, const plan::Step& step, std::int64_t trainingStep) {
    set(thread, &step, trainingStep);
  }
  void leave(Thread thread) { set(thread, nullptr, 0); }

  // Consistent once `changes` stays the same.
  Position at(Thread thread) const {
    const Slot& slot = slots_[thread];
    return {slot.changes.load(std::memory_order_relaxed), slot.step.load(std::memory_order_relaxed),
            slot.trainingStep.load(std::memory_order_relaxed)};
  }
  void beginCollective() { collectives_.fetch_add(1, std::memory_order_relaxed); }
  // Returns how many collectives and messages this rank has begun.
  std::uint64_t collectives() const { return collectives_.load(std::memory_order_relaxed); }

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
    slot.changes.store(slot.changes.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  std::array<Slot, 2> slots_;
  std::atomic<std::uint64_t> collectives_{0};
};

}  // namespace lockstep::runtime
