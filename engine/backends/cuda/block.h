// Cooperation of a block's threads, and the range of an array per thread.
#pragma once

#include "engine/backends/cuda/arguments.h"
#include "engine/backends/cuda/intrinsics.h"

namespace lockstep::backends::cuda {

// Grid-stride loop: for (Index i = firstOf(); i < n; i += strideOf()).
LOCKSTEP_DEVICE Index firstOf() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}
LOCKSTEP_DEVICE Index strideOf() { return static_cast<Index>(gridDim.x) * blockDim.x; }

// Sum over four adjacent threads.
LOCKSTEP_DEVICE float quarterSum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
LOCKSTEP_DEVICE float quarterMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

// Returns the larger; NaN if either is NaN.
LOCKSTEP_DEVICE float maximum(float x, float y) { return x > y || x != x ? x : y; }

// Returns the sum over the block's threads, in a fixed order, to all of them.
LOCKSTEP_DEVICE float blockSum(float x) {
  LOCKSTEP_SHARED float parts[kWarp];
  for (int lane = kWarp / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(~0u, x, lane);
  __syncthreads();  // what an earlier call left has been read
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = threadIdx.x % kWarp < blockDim.x / kWarp ? parts[threadIdx.x % kWarp] : 0.0f;
  for (int lane = kWarp / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(~0u, x, lane);
  return x;
}

LOCKSTEP_DEVICE float blockMax(float x) {
  LOCKSTEP_SHARED float parts[kWarp];
  for (int lane = kWarp / 2; lane > 0; lane /= 2) x = maximum(x, __shfl_xor_sync(~0u, x, lane));
  __syncthreads();
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = parts[threadIdx.x % kWarp < blockDim.x / kWarp ? threadIdx.x % kWarp : 0];
  for (int lane = kWarp / 2; lane > 0; lane /= 2) x = maximum(x, __shfl_xor_sync(~0u, x, lane));
  return x;
}

// Sums over threads of the same lane in all of the block's rows of `lanes` threads (a power of
// two); valid in the first row.
template <int N>
LOCKSTEP_DEVICE void laneSums(float (&x)[N], unsigned lanes = kWarp) {
  LOCKSTEP_SHARED float parts[N][kThreads];
  __syncthreads();  // what an earlier call left has been read
  for (int n = 0; n < N; ++n) parts[n][threadIdx.x] = x[n];
  for (unsigned half = kThreads / 2; half >= lanes; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      for (int n = 0; n < N; ++n) parts[n][threadIdx.x] = x[n] += parts[n][threadIdx.x + half];
  }
}

// A vector load or store; four elements where operands are 16-byte aligned.
template <int N, typename T = float>
struct alignas(sizeof(T) * N) Few {
  T x[N];
};
using Four = Few<4>;
template <int N>
LOCKSTEP_DEVICE Few<N> fewAt(const float* x) {
  return *reinterpret_cast<const Few<N>*>(x);
}

// bf16, rounded to nearest, ties to even.
struct Bf16 {
  std::uint16_t bits;
};
// Fp16; below 2⁻¹⁴ the step is 2⁻²⁴.
struct F16 {
  std::uint16_t bits;
};
LOCKSTEP_DEVICE float valueOf(float x) { return x; }
LOCKSTEP_DEVICE float valueOf(F16 x) {
  const unsigned sign = (x.bits & 0x8000u) << 16, exponent = x.bits & 0x7c00u,
                 fraction = x.bits & 0x3ffu;
  unsigned size = ((x.bits & 0x7fffu) << 13) + 0x38000000u;
  if (exponent == 0) size = __float_as_uint(static_cast<float>(fraction) * 0x1p-24f);
  if (exponent == 0x7c00u) size = 0x7f800000u | fraction << 13;
  return __uint_as_float(sign | size);
}
LOCKSTEP_DEVICE float valueOf(Bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

// Rounds to nearest. NaN stays NaN; a finite number beyond the largest becomes the largest in bf16,
// and infinite in f16.
LOCKSTEP_DEVICE F16 toF16(float x) {
  const unsigned bits = __float_as_uint(x), size = bits & 0x7fffffffu;
  unsigned near = (size + 0xfffu + (size >> 13 & 1u) - 0x38000000u) >> 13;
  if (near > 0x7c00u) near = 0x7c00u;
  // Below 2⁻¹⁴: added to ½, a float has steps of 2⁻²⁴ like a subnormal f16.
  if (size < 0x38800000u) near = __float_as_uint(__uint_as_float(size) + 0.5f) - 0x3f000000u;
  if (size > 0x7f800000u) near = 0x7e00u;
  return {static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | near)};
}
LOCKSTEP_DEVICE Bf16 toBf16(float x) {
  const unsigned bits = __float_as_uint(x);
  unsigned rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  if ((bits & 0x7f800000) == 0x7f800000)
    rounded = (bits & 0x7fffff) != 0 ? 0x7fc0 : bits >> 16;
  else if ((rounded & 0x7f80) == 0x7f80)
    --rounded;
  return {static_cast<std::uint16_t>(rounded)};
}

}  // namespace lockstep::backends::cuda
