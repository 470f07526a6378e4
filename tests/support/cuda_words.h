// The words kernels are written in (engine/backends/cuda/words.h), for the host: a block's threads are played one
// after another, each on a stack of its own, and change places at barriers.
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

// Where the block's other threads come as well; one that has ended while another waits here is a defect.
void blockBarrier();
float shuffleXor(float x, int lane);
unsigned ballot(bool one);

using Body = void (*)(const void* arguments);
bool addKernel(const char* name, Body body);

}  // namespace lockstep::testing

#define LOCKSTEP_KERNEL(name, Arguments)                                                     \
  void name##Body(const Arguments& a);                                                       \
  [[maybe_unused]] const bool name##Added = lockstep::testing::addKernel(                    \
      #name, [](const void* a) { name##Body(*static_cast<const Arguments*>(a)); });          \
  void name##Body(const Arguments& a)
#define LOCKSTEP_DEVICE inline
#define LOCKSTEP_SHARED static  // blocks are played one after another
#define LOCKSTEP_UNROLL
#define LOCKSTEP_UNROLL_16

using lockstep::testing::blockDim;
using lockstep::testing::blockIdx;
using lockstep::testing::gridDim;
using lockstep::testing::threadIdx;

inline void __syncthreads() { lockstep::testing::blockBarrier(); }
inline float __shfl_xor_sync(unsigned, float x, int lane) { return lockstep::testing::shuffleXor(x, lane); }
inline unsigned __ballot_sync(unsigned, bool one) { return lockstep::testing::ballot(one); }
inline int __ffs(int bits) { return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1; }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline unsigned atomicAdd(unsigned* to, unsigned x) {  // threads are played one after another
  *to += x;
  return *to - x;
}
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
