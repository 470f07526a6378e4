// Memory and processor time of this process, for benchmarks.
#pragma once

#include <time.h>
#include <unistd.h>

#include <fstream>

namespace lockstep::test {

// Its resident memory.
inline double residentMegabytes() {
  std::ifstream file("/proc/self/statm");
  long pages = 0;
  file >> pages >> pages;
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

// Seconds of a processor that the calling thread has had.
inline double threadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace lockstep::test
