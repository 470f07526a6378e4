// Subnormal numbers (in f32, below 1.2e-38 in magnitude) slow processors down many times. Decaying
// sums, such as a momentum without gradients, end up subnormal.
#pragma once

#include <cstdint>

namespace lockstep {

// How the calling thread treats subnormals. A thread begins with the mode of the one that starts it
// and keeps it, whatever that one does later: a pool's threads are told before each task.
std::uint64_t subnormalMode();
void setSubnormalMode(std::uint64_t mode);

// RAII: while alive, the calling thread and the threads it starts flush subnormals to zero. No
// effect where the processor offers no such mode.
class FlushSubnormals {
 public:
  FlushSubnormals();
  ~FlushSubnormals();
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  std::uint64_t before_;
};

}  // namespace lockstep
