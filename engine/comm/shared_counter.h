// Counters in shared memory that ranks wait on.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/base/clock.h"

namespace lockstep::comm {

// A counter that ranks wait on (futex). A waiter raises `sleepers` before it re-reads the counter
// and sleeps, so a writer that sees no sleepers cannot miss one.
struct SharedCounter {
  std::atomic<std::uint32_t> value;
  std::atomic<std::uint32_t> sleepers;
};

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// Sleeps while the counter equals `seen`, at most `limit`; may wake spuriously.
void sleepOn(SharedCounter& counter, std::uint32_t seen, Nanoseconds limit);
void wakeAll(SharedCounter& counter);
// Stores the value and wakes all sleepers.
void publish(SharedCounter& counter, std::uint32_t value);
inline bool reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

}  // namespace lockstep::comm
