// Host definitions of the intrinsics that kernels use (engine/backends/cuda/intrinsics.h). The
// threads of a block run one after another, each on its own stack. A warp runs up to the next
// barrier, in alternating order; its threads switch at shuffles, ballots, and fragment loads and
// multiplications.
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

// Barrier of the block; a thread that ends while another waits here is an error.
void blockBarrier();
// Synchronizes the warp.
float shuffleXor(float x, int lane);
unsigned ballot(bool one);
enum class HalfFormat { kBf16, kF16 };
unsigned pack(HalfFormat as, float first, float second);
void multiplyFragments(HalfFormat as, float* d, const unsigned* a, unsigned b0, unsigned b1);
void loadMatrices(unsigned* to, const void* row, bool transposed);
// Copies take effect when the thread waits for them, not before.
void cpAsync(void* to, const void* from, unsigned bytes, bool there);
void cpAsyncWait();

using Body = void (*)(const void* arguments);
bool addKernel(const char* name, Body body);

}  // namespace lockstep::testing

#define LOCKSTEP_KERNEL(name, Arguments)                                            \
  void name##Body(const Arguments& a);                                              \
  [[maybe_unused]] const bool name##Added = lockstep::testing::addKernel(           \
      #name, [](const void* a) { name##Body(*static_cast<const Arguments*>(a)); }); \
  void name##Body(const Arguments& a)
#define LOCKSTEP_BOUNDED_KERNEL(name, Arguments, threads, blocks) LOCKSTEP_KERNEL(name, Arguments)
#define LOCKSTEP_TENSOR_KERNEL LOCKSTEP_BOUNDED_KERNEL
#define LOCKSTEP_DEVICE inline
#define LOCKSTEP_SHARED static  // blocks run one after another
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
inline unsigned atomicAdd(unsigned* to, unsigned x) {  // threads run one after another
  *to += x;
  return *to - x;
}
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }

namespace lockstep::backends::cuda {

inline float powerOfTwo(float x) { return x < -126 ? 0.0f : std::exp2(x); }
inline unsigned packBf16(float first, float second) {
  return testing::pack(testing::HalfFormat::kBf16, first, second);
}
inline unsigned packF16(float first, float second) {
  return testing::pack(testing::HalfFormat::kF16, first, second);
}
inline void multiplyBf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  testing::multiplyFragments(testing::HalfFormat::kBf16, d, a, b0, b1);
}
inline void multiplyF16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  testing::multiplyFragments(testing::HalfFormat::kF16, d, a, b0, b1);
}
inline void loadMatrices(unsigned (&to)[4], const void* row) {
  testing::loadMatrices(to, row, false);
}
inline void loadTransposed(unsigned (&to)[4], const void* row) {
  testing::loadMatrices(to, row, true);
}
template <int kBytes>
void cpAsync(void* shared, const void* from, bool there) {
  testing::cpAsync(shared, from, kBytes, there);
}
inline void cpAsyncWait() { testing::cpAsyncWait(); }

}  // namespace lockstep::backends::cuda
