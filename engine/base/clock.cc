#include "engine/base/clock.h"

#include <fmt/format.h>

#include <ctime>
#include <fstream>

namespace lockstep {
namespace {
Nanoseconds read(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * Nanoseconds{1'000'000'000} + now.tv_nsec;
}
}  // namespace

Nanoseconds monotonicNow() { return read(CLOCK_MONOTONIC); }
Nanoseconds wallNow() { return read(CLOCK_REALTIME); }
Nanoseconds threadCpuNow() { return read(CLOCK_THREAD_CPUTIME_ID); }

const std::string& bootId() {
  static const std::string id = [] {
    std::string line;
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::getline(file, line);
    return line;
  }();
  return id;
}

std::string isoTime(Nanoseconds wall) {
  const std::time_t seconds = wall / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     wall / 1'000'000 % 1000);
}

}  // namespace lockstep
