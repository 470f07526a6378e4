#include "engine/backends/cuda/block.h"
#include "engine/base/random.h"

namespace lockstep::backends::cuda {

namespace {

constexpr float kGeluScale = 0.79788456080286535588f;  // √(2/π)
constexpr float kGeluCubic = 0.044715f;

LOCKSTEP_DEVICE float halfOfTanh(float x) {
  return 1 / (1 + expf(-2 * kGeluScale * (x + kGeluCubic * x * x * x)));
}

LOCKSTEP_DEVICE float apply(const ElementwiseArguments& a, float weight, float x, float y) {
  switch (a.function) {
    case Function::kFill:
      return a.factor;
    case Function::kCopy:
      return x;
    case Function::kAdd:
      return x + y;
    case Function::kScale:
      return x * a.factor;
    case Function::kScaleByRatio:
      return x * weight;
    // Propagates NaN; where the output is NaN its gradient passes through.
    case Function::kRelu:
      return x <= 0 ? 0.0f : x;
    case Function::kReluGrad:
      return y <= 0 ? 0.0f : x;
    // ½(1 + tanh u) = 1/(1 + e^−2u), which is accurate for small results.
    case Function::kGelu:
      return x * halfOfTanh(x);
    case Function::kGeluGrad: {
      const float s = halfOfTanh(y);
      return x * s * (1 + y * (1 - s) * 2 * kGeluScale * (1 + 3 * kGeluCubic * y * y));
    }
    case Function::kTanh:
      return tanhf(x);
    case Function::kTanhGrad:
      return x * (1 - y * y);
  }
  return 0;
}

LOCKSTEP_DEVICE float weightOf(const ElementwiseArguments& a) {
  if (a.function != Function::kScaleByRatio) return 0;
  return *a.total <= 0 ? 0.0f : *a.part / *a.total;
}

using cuda::valueOf;
LOCKSTEP_DEVICE float valueOf(std::int32_t x) { return static_cast<float>(x); }
LOCKSTEP_DEVICE float valueOf(std::uint8_t x) { return static_cast<float>(x); }

// Each block has kCastFours fours per thread.
template <typename From, typename To>
LOCKSTEP_DEVICE void castAll(const CastArguments& a) {
  const auto* x = static_cast<const From*>(a.x);
  auto* y = static_cast<To*>(a.y);
  const Fours fours(a.n, x, y);
  const Index first = static_cast<Index>(blockIdx.x) * kThreads * kCastFours + threadIdx.x;
  const auto* from = x + fours.four(first);
  auto* to = y + fours.four(first);
  Few<4, From> loaded[kCastFours];
  LOCKSTEP_UNROLL
  for (unsigned h = 0; h < kCastFours; ++h)
    if (first + h * kThreads < fours.count()) loaded[h] = fewAt<4>(from + 4 * h * kThreads);
  LOCKSTEP_UNROLL
  for (unsigned h = 0; h < kCastFours; ++h) {
    Few<4, To> cast;
    LOCKSTEP_UNROLL
    for (int k = 0; k < 4; ++k) store(valueOf(loaded[h].x[k]) * a.scale, cast.x[k]);
    if (first + h * kThreads < fours.count()) putFew(to + 4 * h * kThreads, cast);
  }
  for (Index i = firstOf(); i < fours.singles(); i += strideOf())
    store(valueOf(x[fours.single(i)]) * a.scale, y[fours.single(i)]);
}

template <typename From>
LOCKSTEP_DEVICE void castFrom(const CastArguments& a) {
  if (a.to == Element::kF32)
    castAll<From, float>(a);
  else if (a.to == Element::kF16)
    castAll<From, F16>(a);
  else
    castAll<From, Bf16>(a);
}

// Groups of N elements. A thread loads two groups before it computes: of 16 bits they are small.
template <int N, typename A, typename B, typename Y>
LOCKSTEP_DEVICE void mapAll(const ElementwiseArguments& a) {
  const float weight = weightOf(a);
  const auto* first = static_cast<const A*>(a.a);
  const auto* second = static_cast<const B*>(a.b);
  auto* out = static_cast<Y*>(a.y);
  const Index groups = a.n / N;
  for (Index i = firstOf(); i < groups; i += 2 * strideOf()) {
    Few<N> x[2] = {}, y[2] = {};
    LOCKSTEP_UNROLL
    for (int g = 0; g < 2; ++g) {
      const Index at = i + g * strideOf();
      if (first != nullptr && at < groups) x[g] = valuesAt<N>(first + at * N);
      if (second != nullptr && at < groups) y[g] = valuesAt<N>(second + at * N);
    }
    LOCKSTEP_UNROLL
    for (int g = 0; g < 2; ++g) {
      const Index at = i + g * strideOf();
      Few<N> few;
      LOCKSTEP_UNROLL
      for (int k = 0; k < N; ++k) few.x[k] = apply(a, weight, x[g].x[k], y[g].x[k]);
      if (at < groups) putValues(out + at * N, few);
    }
  }
}

// 16-bit arrays of one op are of one type, T.
template <int N, typename T>
LOCKSTEP_DEVICE void mapStored(const ElementwiseArguments& a) {
  const bool narrowA = a.aType != Element::kF32, narrowB = a.bType != Element::kF32;
  if (a.yType == Element::kF32) {
    if (narrowA && narrowB) return mapAll<N, T, T, float>(a);
    return narrowA ? mapAll<N, T, float, float>(a) : mapAll<N, float, T, float>(a);
  }
  if (narrowA && narrowB) return mapAll<N, T, T, T>(a);
  if (narrowA) return mapAll<N, T, float, T>(a);
  return narrowB ? mapAll<N, float, T, T>(a) : mapAll<N, float, float, T>(a);
}
template <int N>
LOCKSTEP_DEVICE void mapElements(const ElementwiseArguments& a) {
  if (a.aType == Element::kBf16 || a.bType == Element::kBf16 || a.yType == Element::kBf16)
    return mapStored<N, Bf16>(a);
  if (a.aType == Element::kF16 || a.bType == Element::kF16 || a.yType == Element::kF16)
    return mapStored<N, F16>(a);
  mapAll<N, float, float, float>(a);
}

}  // namespace

LOCKSTEP_KERNEL(elementwise, ElementwiseArguments) { mapElements<1>(a); }

LOCKSTEP_KERNEL(elementwise4, ElementwiseArguments) { mapElements<4>(a); }

LOCKSTEP_KERNEL(castElements, CastArguments) {
  switch (a.from) {
    case Element::kF32:
      return castFrom<float>(a);
    case Element::kBf16:
      return castFrom<Bf16>(a);
    case Element::kF16:
      return castFrom<F16>(a);
    case Element::kI32:
      return castFrom<std::int32_t>(a);
    case Element::kU8:
      return castFrom<std::uint8_t>(a);
  }
}

LOCKSTEP_KERNEL(selectIfFinite, SelectIfFiniteArguments) {
  const float* const from = *a.norm < 0 ? a.before : a.x;
  for (Index i = firstOf(); i < a.n; i += strideOf()) a.y[i] = from[i];
}

LOCKSTEP_KERNEL(biasAdd, BiasAddArguments) {
  for (Index i = firstOf(); i < a.n; i += strideOf()) a.y[i] = a.x[i] + a.b[i % a.period];
}

LOCKSTEP_KERNEL(orderedSum, OrderedSumArguments) {
  for (Index i = firstOf(); i < a.n; i += strideOf()) {
    float sum = a.sum[i];
    for (Index r = 0; r < a.ranks; ++r) sum += a.x[r * a.n + i];
    a.y[i] = sum;
  }
}

LOCKSTEP_KERNEL(copyColumns, ColumnsArguments) {
  for (Index i = firstOf(); i < a.rows * a.count; i += strideOf())
    a.y[i / a.count * a.yPitch + i % a.count] = a.x[i / a.count * a.xPitch + i % a.count];
}

LOCKSTEP_KERNEL(repeatRows, RepeatArguments) {
  for (Index i = firstOf(); i < a.n * a.times; i += strideOf()) a.y[i] = a.x[i / a.times];
}

LOCKSTEP_KERNEL(dropout, DropoutArguments) {
  const auto kept = static_cast<float>(1 / (1 - a.rate));
  for (Index i = firstOf(); i < a.n; i += strideOf()) {
    const Index at = i % a.sampleElements;
    const auto element =
        static_cast<std::uint64_t>(at / a.part * a.columns + a.first + at % a.part);
    const std::uint64_t key =
        randomKey(static_cast<std::uint64_t>(a.keys[i / a.sampleElements]), a.salt);
    a.y[i] = randomUniform(key, element) < a.rate ? 0.0f : a.x[i] * kept;
  }
}

}  // namespace lockstep::backends::cuda
