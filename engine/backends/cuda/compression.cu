// Gradient compression, byte-identical with the host's; compiled without contraction of products
// and sums.
#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {
namespace {

// Reads 2 or 4 bytes at any alignment.
template <typename T>
LOCKSTEP_DEVICE void put(std::uint8_t* to, T bits) {
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(T) == 0) {
    *reinterpret_cast<T*>(to) = bits;
    return;
  }
  for (unsigned i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::uint8_t>(bits >> 8 * i);
}
template <typename T>
LOCKSTEP_DEVICE T get(const std::uint8_t* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof(T) == 0)
    return *reinterpret_cast<const T*>(from);
  T bits = 0;
  for (unsigned i = 0; i < sizeof(T); ++i)
    bits = static_cast<T>(bits | static_cast<T>(from[i]) << 8 * i);
  return bits;
}

// Rounds to 16 bits, saturating at the largest finite number.
LOCKSTEP_DEVICE std::uint16_t bitsOf(Coding coding, float x) {
  if (coding == Coding::kBf16) return toBf16(x).bits;
  return toF16(fabsf(x) < INFINITY ? fminf(fmaxf(x, -65504.0f), 65504.0f) : x).bits;
}
LOCKSTEP_DEVICE float numberOf(Coding coding, std::uint16_t bits) {
  return coding == Coding::kBf16 ? valueOf(Bf16{bits}) : valueOf(F16{bits});
}

LOCKSTEP_DEVICE bool onSixteen(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}
struct alignas(8) FourCodes {
  std::uint16_t x[4];
};

LOCKSTEP_DEVICE std::uint32_t magnitudeOf(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// Returns the number of threads before this one in the block that pass `one`; `total`: of all.
LOCKSTEP_DEVICE unsigned countBefore(bool one, unsigned& total) {
  LOCKSTEP_SHARED unsigned counts[kThreads / kWarp];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp,
                 ones = __ballot_sync(~0u, one);
  __syncthreads();  // what an earlier call left has been read
  if (lane == 0) counts[warp] = static_cast<unsigned>(__popc(ones));
  __syncthreads();
  auto before = static_cast<unsigned>(__popc(ones & ((1u << lane) - 1)));
  total = 0;
  for (unsigned w = 0; w < kThreads / kWarp; ++w) {
    if (w < warp) before += counts[w];
    total += counts[w];
  }
  return before;
}

}  // namespace

// 16 bits per element: payloads are contiguous like their elements.
LOCKSTEP_KERNEL(encode16, CodingArguments) {
  const Index n = a.count * a.parts;
  const bool wide =
      onSixteen(a.x) && onSixteen(a.residual) && onSixteen(a.y) && onSixteen(a.payloads);
  const Index fours = wide ? n / 4 : 0;
  for (Index i = firstOf(); i < fours; i += strideOf()) {
    const Four x = reinterpret_cast<const Four*>(a.x)[i],
               before = reinterpret_cast<const Four*>(a.residual)[i];
    Four rest;
    FourCodes codes;
    LOCKSTEP_UNROLL
    for (int k = 0; k < 4; ++k) {
      const float t = x.x[k] + before.x[k];
      codes.x[k] = bitsOf(a.coding, t);
      rest.x[k] = t - numberOf(a.coding, codes.x[k]);
    }
    reinterpret_cast<Four*>(a.y)[i] = rest;
    reinterpret_cast<FourCodes*>(a.payloads)[i] = codes;
  }
  for (Index i = 4 * fours + firstOf(); i < n; i += strideOf()) {
    const float t = a.x[i] + a.residual[i];
    const std::uint16_t bits = bitsOf(a.coding, t);
    put(a.payloads + 2 * i, bits);
    a.y[i] = t - numberOf(a.coding, bits);
  }
}

// A block (x) handles the elements of one scale, of one part (y).
LOCKSTEP_KERNEL(encodeInt8, CodingArguments) {
  std::uint8_t* const payload = a.payloads + blockIdx.y * a.payload;
  const Index i = static_cast<Index>(blockIdx.x) * kScaleGroup + threadIdx.x,
              at = blockIdx.y * a.count + i;
  const bool mine = i < a.count;
  const float t = mine ? a.x[at] + a.residual[at] : 0.0f;
  const float largest = blockMax(fabsf(t) < INFINITY ? fabsf(t) : INFINITY);
  const float scale = largest < INFINITY ? largest / 127.0f : NAN;
  if (threadIdx.x == 0) put(payload + 4 * static_cast<Index>(blockIdx.x), __float_as_uint(scale));
  const float q = scale > 0 ? fminf(fmaxf(rintf(t / scale), -127.0f), 127.0f) : 0.0f;
  // Zero-fills the payload beyond the last element.
  if (i < a.payload - a.values)
    payload[a.values + i] = static_cast<std::uint8_t>(static_cast<int>(q));
  if (mine) a.y[at] = t - q * scale;
}

// All encodings but top-k.
LOCKSTEP_KERNEL(decodeSum, CodingArguments) {
  const bool wide =
      a.coding != Coding::kInt8 && onSixteen(a.y) && onSixteen(a.payloads) && a.payload % 8 == 0;
  const Index fours = wide ? a.count / 4 : 0;
  for (Index i = firstOf(); i < fours; i += strideOf()) {
    Four sum{};
    for (Index r = 0; r < a.parts; ++r) {
      const FourCodes codes = reinterpret_cast<const FourCodes*>(a.payloads + r * a.payload)[i];
      LOCKSTEP_UNROLL
      for (int k = 0; k < 4; ++k) sum.x[k] += numberOf(a.coding, codes.x[k]);
    }
    reinterpret_cast<Four*>(a.y)[i] = sum;
  }
  for (Index i = 4 * fours + firstOf(); i < a.count; i += strideOf()) {
    float sum = 0;
    for (Index r = 0; r < a.parts; ++r) {
      const std::uint8_t* payload = a.payloads + r * a.payload;
      if (a.coding == Coding::kInt8) {
        const float scale = __uint_as_float(get<std::uint32_t>(payload + i / kScaleGroup * 4));
        sum += static_cast<float>(static_cast<std::int8_t>(payload[a.values + i])) * scale;
      } else {
        sum += numberOf(a.coding, get<std::uint16_t>(payload + 2 * i));
      }
    }
    a.y[i] = sum;
  }
}

// Histogram of the current digit over elements with the prefix found so far.
LOCKSTEP_KERNEL(topKCounts, TopKArguments) {
  LOCKSTEP_SHARED unsigned counts[kTopKDigits];
  const float* t = a.t + blockIdx.y * a.count;
  const unsigned mask = a.shift == 20 ? 0x7ff : 0x3ff, above = a.shift == 20 ? 31 : a.shift + 10;
  const std::uint32_t found = a.shift == 20 ? 0 : a.state[blockIdx.y].found;
  const Index first = blockIdx.x * a.range,
              end = first + a.range < a.count ? first + a.range : a.count;
  for (unsigned i = threadIdx.x; i < kTopKDigits; i += kThreads) counts[i] = 0;
  __syncthreads();
  for (Index i = first + threadIdx.x; i < end; i += kThreads) {
    const std::uint32_t bits = magnitudeOf(t[i]);
    if (bits >> above == found >> above) atomicAdd(&counts[bits >> a.shift & mask], 1u);
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < kTopKDigits; i += kThreads)
    if (counts[i] > 0) atomicAdd(a.counts + blockIdx.y * kTopKDigits + i, counts[i]);
}

// One block per part: finds the digit of the last element kept. Each thread has a few digits, from
// the top.
LOCKSTEP_KERNEL(topKDigit, TopKArguments) {
  constexpr unsigned kEach = kTopKDigits / kThreads;
  LOCKSTEP_SHARED unsigned sums[kThreads];
  std::uint32_t* const counts = a.counts + blockIdx.x * kTopKDigits;
  const unsigned top = kTopKDigits - threadIdx.x * kEach;
  unsigned sum = 0;
  for (unsigned k = 1; k <= kEach; ++k) sum += counts[top - k];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    const bool begins = a.shift == 20;
    Index wanted = begins ? a.kept : a.state[blockIdx.x].wanted;
    unsigned thread = 0;
    while (static_cast<Index>(sums[thread]) < wanted) wanted -= sums[thread++];
    unsigned digit = kTopKDigits - thread * kEach - 1;
    while (static_cast<Index>(counts[digit]) < wanted) wanted -= counts[digit--];
    a.state[blockIdx.x] = {wanted, (begins ? 0 : a.state[blockIdx.x].found) | digit << a.shift};
  }
  __syncthreads();
  for (unsigned k = 1; k <= kEach; ++k) counts[top - k] = 0;
}

LOCKSTEP_KERNEL(topKAbove, TopKArguments) {
  LOCKSTEP_SHARED unsigned counts[2];
  const float* t = a.t + blockIdx.y * a.count;
  const std::uint32_t found = a.state[blockIdx.y].found;
  const Index first = blockIdx.x * a.range,
              end = first + a.range < a.count ? first + a.range : a.count;
  unsigned above = 0, equal = 0;
  for (Index i = first + threadIdx.x; i < end; i += kThreads) {
    const std::uint32_t bits = magnitudeOf(t[i]);
    above += bits > found ? 1 : 0;
    equal += bits == found ? 1 : 0;
  }
  if (threadIdx.x < 2) counts[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&counts[0], above);
  atomicAdd(&counts[1], equal);
  __syncthreads();
  if (threadIdx.x < 2)
    a.above[2 * (static_cast<Index>(blockIdx.y) * gridDim.x + blockIdx.x) + threadIdx.x] =
        counts[threadIdx.x];
}

// Writes the elements above and, among equal ones, the first `wanted` by index. An element's
// position is the number of larger ones before it plus that of equal ones before it, at most
// `wanted`.
LOCKSTEP_KERNEL(topKWrite, TopKArguments) {
  LOCKSTEP_SHARED unsigned before[2];
  float* const t = a.t + blockIdx.y * a.count;
  std::uint8_t *const values = a.payloads + blockIdx.y * a.payload, *const indices =
                                                                        values + 4 * a.kept;
  const TopKState state = a.state[blockIdx.y];
  const std::uint32_t* tiles = a.above + 2 * static_cast<Index>(blockIdx.y) * gridDim.x;
  if (threadIdx.x < 2) before[threadIdx.x] = 0;
  __syncthreads();
  for (unsigned i = threadIdx.x; i < 2 * blockIdx.x; i += kThreads)
    atomicAdd(&before[i % 2], tiles[i]);
  __syncthreads();
  Index above = before[0], equal = before[1];
  const Index first = blockIdx.x * a.range,
              end = first + a.range < a.count ? first + a.range : a.count;
  for (Index begin = first; begin < end; begin += kThreads) {
    const Index i = begin + threadIdx.x;
    const float x = i < end ? t[i] : 0.0f;
    const std::uint32_t bits = magnitudeOf(x);
    const bool isAbove = i < end && bits > state.found, isEqual = i < end && bits == state.found;
    unsigned allAbove = 0, allEqual = 0;
    const Index aboveBefore = above + countBefore(isAbove, allAbove),
                equalBefore = equal + countBefore(isEqual, allEqual);
    above += allAbove;
    equal += allEqual;
    if (!isAbove && !(isEqual && equalBefore < state.wanted)) continue;
    const Index at = aboveBefore + (equalBefore < state.wanted ? equalBefore : state.wanted);
    put(values + 4 * at, __float_as_uint(x));
    put(indices + 4 * at, static_cast<std::uint32_t>(i));
    t[i] = x - x;  // a non-finite element leaves no residual
  }
}

// For one payload, whose indices are distinct.
LOCKSTEP_KERNEL(addKept, AddKeptArguments) {
  for (Index k = firstOf(); k < a.kept; k += strideOf()) {
    const std::uint32_t at = get<std::uint32_t>(a.payload + 4 * (a.kept + k));
    // untrusted: received from another rank
    if (at < a.count) a.y[at] += __uint_as_float(get<std::uint32_t>(a.payload + 4 * k));
  }
}

}  // namespace lockstep::backends::cuda
