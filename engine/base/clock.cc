#include "engine/base/clock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <fstream>

#include "engine/base/unique_fd.h"

namespace lockstep {
namespace {
Nanoseconds read(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * Nanoseconds{1'000'000'000} + now.tv_nsec;
}

// The second number of schedstat, whose file stays open: opening costs more than reading.
Nanoseconds threadQueued() {
  thread_local const UniqueFd file(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  std::array<char, 96> text{};
  const ssize_t size = file ? pread(file.get(), text.data(), text.size(), 0) : -1;
  if (size <= 0) return -1;
  const char* const end = text.data() + size;
  const char* const space = std::find<const char*>(text.data(), end, ' ');
  Nanoseconds queued = -1;
  if (space != end) std::from_chars(space + 1, end, queued);
  return queued;
}
}  // namespace

Nanoseconds monotonicNow() { return read(CLOCK_MONOTONIC); }
Nanoseconds wallNow() { return read(CLOCK_REALTIME); }
Nanoseconds threadCpuNow() { return read(CLOCK_THREAD_CPUTIME_ID); }

ThreadTime ThreadTime::now() { return {monotonicNow(), threadCpuNow(), threadQueued()}; }

Nanoseconds ThreadTime::blockedSince(const ThreadTime& begin) const {
  if (queued < 0 || begin.queued < 0) return 0;
  return std::max<Nanoseconds>(wall - begin.wall - (cpu - begin.cpu) - (queued - begin.queued), 0);
}

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
