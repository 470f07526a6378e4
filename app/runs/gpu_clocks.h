// GpuClocks: the clock of a rank's GPU in each of its steps, from samples over time. No threads, no
// I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace lockstep::app {

class GpuClocks {
 public:
  // Steps are often shorter than the time between two samples: the last one holds so long.
  static constexpr std::int64_t kHoldNs = 1'000'000'000;

  // A sample in MHz. Samples and steps come in the order of the node's clock; those of a step come
  // before it. Of samples without steps, the last kMost are kept. An earlier time than the last
  // one's is of a clock that began anew: what came before is forgotten.
  void add(std::int64_t ns, double clock);
  // Returns the mean of the samples in a step, [begin, end), in whole MHz, which take fewer bytes
  // in the history; without any, the last one before it that still holds. Drops samples that no
  // later step can use.
  std::optional<double> take(std::int64_t begin, std::int64_t end);

 private:
  static constexpr std::size_t kMost = 1000;  // some minutes; 16 KB
  struct Sample {
    std::int64_t ns = 0;
    double clock = 0;
  };
  std::deque<Sample> samples_;
};

}  // namespace lockstep::app
