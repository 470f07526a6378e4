#include "engine/base/subnormals.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lockstep {

#if defined(__x86_64__)
constexpr std::uint64_t kFlushing = 0x8000 | 0x0040;  // flush to zero, denormals are zero
std::uint64_t subnormalMode() { return _mm_getcsr(); }
void setSubnormalMode(std::uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
constexpr std::uint64_t kFlushing = std::uint64_t{1} << 24;
std::uint64_t subnormalMode() {
  std::uint64_t out = 0;
  asm volatile("mrs %0, fpcr" : "=r"(out));
  return out;
}
void setSubnormalMode(std::uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
constexpr std::uint64_t kFlushing = 0;
std::uint64_t subnormalMode() { return 0; }
void setSubnormalMode(std::uint64_t) {}
#endif

FlushSubnormals::FlushSubnormals() : before_(subnormalMode()) {
  setSubnormalMode(before_ | kFlushing);
}
FlushSubnormals::~FlushSubnormals() { setSubnormalMode(before_); }

}  // namespace lockstep
