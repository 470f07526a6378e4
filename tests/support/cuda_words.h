// The words kernels are written in (engine/backends/cuda/words.h), for the host: a block's threads
// are played one after another, each on a stack of its own. A warp goes as far as the next barrier,
// now the first ahead of the others, now the last; its threads change places at shuffles, ballots,
// and loads and products of fragments.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace lockstep::testing {

struct GridIndex {
  unsigned x = 0, y = 0;
};
extern GridIndex threadIdx, blockIdx, blockDim, gridDim;

// Where the block's other threads come as well; one that has ended while another waits here is a
// defect.
void blockBarrier();
// Where the warp's others do.
float shuffleXor(float x, int lane);
unsigned ballot(bool one);
enum class Narrow { kBf16, kF16 };
unsigned pack(Narrow as, float first, float second);
void multiplyFragments(Narrow as, float* d, const unsigned* a, unsigned b0, unsigned b1);
void loadMatrices(unsigned* to, const void* row, bool transposed);
// Done when the thread waits for its copies, and not before.
void copyAhead(void* to, const void* from, unsigned bytes, bool there);
void waitForCopies();

using Body = void (*)(const void* arguments);
bool addKernel(const char* name, Body body);

}  // namespace lockstep::testing

#define LOCKSTEP_KERNEL(name, Arguments)                                            \
  void name##Body(const Arguments& a);                                              \
  [[maybe_unused]] const bool name##Added = lockstep::testing::addKernel(           \
      #name, [](const void* a) { name##Body(*static_cast<const Arguments*>(a)); }); \
  void name##Body(const Arguments& a)
#define LOCKSTEP_TENSOR_KERNEL(name, Arguments, threads, blocks) LOCKSTEP_KERNEL(name, Arguments)
#define LOCKSTEP_DEVICE inline
#define LOCKSTEP_SHARED static  // blocks are played one after another
#define LOCKSTEP_UNROLL
#define LOCKSTEP_UNROLL_16

using lockstep::testing::blockDim;
using lockstep::testing::blockIdx;
using lockstep::testing::gridDim;
using lockstep::testing::threadIdx;

inline void __syncthreads() { lockstep::testing::blockBarrier(); }
inline float __shfl_xor_sync(unsigned, float x, int lane) {
  return lockstep::testing::shuffleXor(x, lane);
}
inline unsigned __ballot_sync(unsigned, bool one) { return lockstep::testing::ballot(one); }
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline unsigned atomicAdd(unsigned* to, unsigned x) {  // threads are played one after another
  *to += x;
  return *to - x;
}
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }

namespace lockstep::backends::cuda {

inline float powerOfTwo(float x) { return x < -126 ? 0.0f : std::exp2(x); }
inline unsigned packBf16(float first, float second) {
  return testing::pack(testing::Narrow::kBf16, first, second);
}
inline unsigned packF16(float first, float second) {
  return testing::pack(testing::Narrow::kF16, first, second);
}
inline void multiplyBf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  testing::multiplyFragments(testing::Narrow::kBf16, d, a, b0, b1);
}
inline void multiplyF16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  testing::multiplyFragments(testing::Narrow::kF16, d, a, b0, b1);
}
inline void loadMatrices(unsigned (&to)[4], const void* row) {
  testing::loadMatrices(to, row, false);
}
inline void loadTransposed(unsigned (&to)[4], const void* row) {
  testing::loadMatrices(to, row, true);
}
template <int kBytes>
void copyAhead(void* shared, const void* from, bool there) {
  testing::copyAhead(shared, from, kBytes, there);
}
inline void waitForCopies() { testing::waitForCopies(); }

}  // namespace lockstep::backends::cuda
