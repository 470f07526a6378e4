#include "engine/base/subnormals.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lockstep {
namespace {

#if defined(__x86_64__)
constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
std::uint64_t mode() { return _mm_getcsr(); }
void setMode(std::uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
constexpr std::uint64_t kFlushing = kFlushToZero | kDenormalsAreZero;
#elif defined(__aarch64__)
std::uint64_t mode() {
  std::uint64_t out = 0;
  asm volatile("mrs %0, fpcr" : "=r"(out));
  return out;
}
void setMode(std::uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
constexpr std::uint64_t kFlushing = std::uint64_t{1} << 24;
#else
std::uint64_t mode() { return 0; }
void setMode(std::uint64_t) {}
constexpr std::uint64_t kFlushing = 0;
#endif

}  // namespace

FlushSubnormals::FlushSubnormals() : before_(mode()) { setMode(before_ | kFlushing); }
FlushSubnormals::~FlushSubnormals() { setMode(before_); }

}  // namespace lockstep
