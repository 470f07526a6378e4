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

// Sum over the warp's threads, in a fixed order, for all of them.
LOCKSTEP_DEVICE float warpSum(float x) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(~0u, x, lane);
  return x;
}

// Returns the larger; NaN if either is NaN.
LOCKSTEP_DEVICE float maximum(float x, float y) { return x > y || x != x ? x : y; }

// Returns the sum over the block's threads, in a fixed order, to all of them.
LOCKSTEP_DEVICE float blockSum(float x) {
  LOCKSTEP_SHARED float parts[kWarp];
  x = warpSum(x);
  __syncthreads();  // what an earlier call left has been read
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  return warpSum(threadIdx.x % kWarp < blockDim.x / kWarp ? parts[threadIdx.x % kWarp] : 0.0f);
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
template <int N, typename T>
LOCKSTEP_DEVICE Few<N, T> fewAt(const T* x) {
  return *reinterpret_cast<const Few<N, T>*>(x);
}
template <int N, typename T>
LOCKSTEP_DEVICE void putFew(T* y, const Few<N, T>& few) {
  *reinterpret_cast<Few<N, T>*>(y) = few;
}

// Divides n elements for vector access: fours that are aligned in all arrays, and single elements
// before and after them. Arrays that are never aligned together have single elements only.
class Fours {
 public:
  template <typename... T>
  LOCKSTEP_DEVICE explicit Fours(Index n, const T*... arrays) : singles_(n) {
    for (Index head = 0; head < 4 && head < n; ++head) {
      const bool aligned =
          (... && (reinterpret_cast<std::uintptr_t>(arrays + head) % alignof(Few<4, T>) == 0));
      if (!aligned) continue;
      head_ = head;
      count_ = (n - head) / 4;
      singles_ = n - 4 * count_;
      return;
    }
  }
  LOCKSTEP_DEVICE Index count() const { return count_; }
  LOCKSTEP_DEVICE Index singles() const { return singles_; }
  // The first element of a four; a single element.
  LOCKSTEP_DEVICE Index four(Index i) const { return head_ + 4 * i; }
  LOCKSTEP_DEVICE Index single(Index i) const { return i < head_ ? i : i + 4 * count_; }

 private:
  Index head_ = 0, count_ = 0, singles_;
};

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

// Storage as another type than f32, in which all is computed.
LOCKSTEP_DEVICE void store(float x, float& y) { y = x; }
LOCKSTEP_DEVICE void store(float x, Bf16& y) { y = toBf16(x); }
LOCKSTEP_DEVICE void store(float x, F16& y) { y = toF16(x); }
template <int N, typename T>
LOCKSTEP_DEVICE Few<N> valuesAt(const T* x) {
  const Few<N, T> few = fewAt<N>(x);
  Few<N> out;
  LOCKSTEP_UNROLL
  for (int k = 0; k < N; ++k) out.x[k] = valueOf(few.x[k]);
  return out;
}
template <int N, typename T>
LOCKSTEP_DEVICE void putValues(T* y, const Few<N>& few) {
  Few<N, T> out;
  LOCKSTEP_UNROLL
  for (int k = 0; k < N; ++k) store(few.x[k], out.x[k]);
  putFew(y, out);
}
// Calls f with a number of the type that a float array is stored in.
template <typename F>
LOCKSTEP_DEVICE void forStored(Element type, F f) {
  if (type == Element::kBf16)
    f(Bf16{});
  else if (type == Element::kF16)
    f(F16{});
  else
    f(0.0f);
}

// Rows of fewer than 2³¹ elements, one of each of two arrays (or of one, given twice), shared by
// `threads` threads that pass over their elements several times. A thread loads kHeld fours of each
// array together and keeps the last ones for the next pass, which goes the other way.
template <int kArrays, int kHeld, typename A = float, typename B = A>
class HeldRows {
 public:
  // `others` are accessed at the same places.
  template <typename... T>
  LOCKSTEP_DEVICE HeldRows(Index n, unsigned thread, unsigned threads, const A* first,
                           const B* second, const T*... others)
      : fours_(n, first, second, others...),
        thread_(thread),
        threads_(threads),
        first_(first),
        second_(second) {
    static_assert(kArrays <= 2);
  }
  // Calls each(few, at) with elements [at, at + N) of every array, in Few<N>[kArrays], N 1 or 4.
  template <typename Each>
  LOCKSTEP_DEVICE void pass(Each each) {
    for (unsigned i = thread_; i < singles(); i += threads_) {
      const auto at = static_cast<unsigned>(fours_.single(i));
      Few<1> one[kArrays];
      read(one, at);
      each(one, at);
    }
    const unsigned tile = kHeld * threads_, tiles = (count() + tile - 1) / tile;
    for (unsigned t = 0; t < tiles; ++t) {
      const unsigned first = (forward_ ? t : tiles - 1 - t) * tile + thread_;
      if (first != loaded_) load(first);
      LOCKSTEP_UNROLL
      for (int h = 0; h < kHeld; ++h)
        if (first + h * threads_ < count()) each(held_[h], four(first + h * threads_));
    }
    forward_ = !forward_;
  }

 private:
  LOCKSTEP_DEVICE unsigned count() const { return static_cast<unsigned>(fours_.count()); }
  LOCKSTEP_DEVICE unsigned singles() const { return static_cast<unsigned>(fours_.singles()); }
  LOCKSTEP_DEVICE unsigned four(unsigned i) const { return static_cast<unsigned>(fours_.four(i)); }
  template <int N>
  LOCKSTEP_DEVICE void read(Few<N> (&few)[kArrays], unsigned at) const {
    few[0] = valuesAt<N>(first_ + at);
    if constexpr (kArrays > 1) few[1] = valuesAt<N>(second_ + at);
  }
  LOCKSTEP_DEVICE void load(unsigned first) {
    LOCKSTEP_UNROLL
    for (int h = 0; h < kHeld; ++h)
      if (first + h * threads_ < count()) read(held_[h], four(first + h * threads_));
    loaded_ = first;
  }
  const Fours fours_;
  const unsigned thread_, threads_;
  const A* first_;
  const B* second_;
  Four held_[kHeld][kArrays];
  unsigned loaded_ = ~0u;
  bool forward_ = false;
};

}  // namespace lockstep::backends::cuda
