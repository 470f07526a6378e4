// Subnormal numbers (in f32, below 1.2e-38 in magnitude) slow processors down many times. Decaying
// sums, such as a momentum without gradients, end up subnormal.
#pragma once

#include <cstdint>

namespace lockstep {

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
