// Clocks. Events carry the node's monotonic clock and its boot id; wall-clock time is for display
// only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

using Nanoseconds = std::int64_t;

Nanoseconds monotonicNow();   // CLOCK_MONOTONIC: common to all processes of one booted host
Nanoseconds wallNow();        // since 1970-01-01 UTC
Nanoseconds threadCpuNow();   // CPU time of the calling thread
const std::string& bootId();  // /proc/sys/kernel/random/boot_id; "" where absent
std::string isoTime(Nanoseconds wall);  // "2024-05-01T12:00:00.123Z"

// What a thread's time went into so far.
struct ThreadTime {
  Nanoseconds wall = 0, cpu = 0;
  Nanoseconds queued = -1;  // ready, without a core; -1: the kernel does not count it
  static ThreadTime now();  // of the calling thread
  // Of the text of a schedstat. -1: the kernel counts nothing, and writes zeros or no file.
  static Nanoseconds queuedOf(std::string_view schedstat);
  // Returns the time in which the thread waited for something other than a core, such as a disk; 0
  // if that is not known. Includes what a hypervisor gave to others, and delays by limits of
  // memory.
  Nanoseconds blockedSince(const ThreadTime& begin) const;
};

}  // namespace lockstep
