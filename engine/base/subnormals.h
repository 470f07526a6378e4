// Numbers smaller than the smallest normal one (1.2e-38 in f32): processors take many times as long
// over them. Sums that fade, as a momentum without gradients, end among them.
#pragma once

#include <cstdint>

namespace lockstep {

// While it lives, this thread, and those it starts, compute with zero in their place. Where the
// processor offers no such mode nothing changes.
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
