#include "engine/base/clock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <fstream>
#include <system_error>

#include "engine/base/unique_fd.h"

namespace lockstep {
namespace {
Nanoseconds read(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * Nanoseconds{1'000'000'000} + now.tv_nsec;
}

// The file stays open: opening costs more than reading.
Nanoseconds threadQueued() {
  thread_local const UniqueFd file(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  std::array<char, 96> text{};
  const ssize_t size = file ? pread(file.get(), text.data(), text.size(), 0) : -1;
  return size <= 0 ? -1 : ThreadTime::queuedOf({text.data(), static_cast<std::size_t>(size)});
}
}  // namespace

Nanoseconds monotonicNow() { return read(CLOCK_MONOTONIC); }
Nanoseconds wallNow() { return read(CLOCK_REALTIME); }
Nanoseconds threadCpuNow() { return read(CLOCK_THREAD_CPUTIME_ID); }

ThreadTime ThreadTime::now() { return {monotonicNow(), threadCpuNow(), threadQueued()}; }

// The file has the time on a core, the time in the queue, and the number of turns, of which a
// thread that reads its own has had one.
Nanoseconds ThreadTime::queuedOf(std::string_view schedstat) {
  Nanoseconds running = 0, queued = 0, turns = 0;
  const char* at = schedstat.data();
  const char* const end = at + schedstat.size();
  for (Nanoseconds* number : {&running, &queued, &turns}) {
    while (at != end && *at == ' ') ++at;
    const auto [next, problem] = std::from_chars(at, end, *number);
    if (problem != std::errc()) return -1;
    at = next;
  }
  return turns > 0 ? queued : -1;
}

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
