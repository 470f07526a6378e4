// Clocks. Events carry the node's monotonic clock and its boot id; wall-clock time is for display
// only.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

using Nanoseconds = std::int64_t;

Nanoseconds monotonicNow();   // CLOCK_MONOTONIC: common to all processes of one booted host
Nanoseconds wallNow();        // since 1970-01-01 UTC
Nanoseconds threadCpuNow();   // CPU time of the calling thread
const std::string& bootId();  // /proc/sys/kernel/random/boot_id; "" where absent
std::string isoTime(Nanoseconds wall);  // "2024-05-01T12:00:00.123Z"

}  // namespace lockstep
