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
LOCKSTEP_DEVICE void store(float x, float& y) { y = x; }
LOCKSTEP_DEVICE void store(float x, Bf16& y) { y = toBf16(x); }
LOCKSTEP_DEVICE void store(float x, F16& y) { y = toF16(x); }

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

}  // namespace

LOCKSTEP_KERNEL(elementwise, ElementwiseArguments) {
  const float weight = weightOf(a);
  for (Index i = firstOf(); i < a.n; i += strideOf())
    a.y[i] = apply(a, weight, a.a != nullptr ? a.a[i] : 0, a.b != nullptr ? a.b[i] : 0);
}

LOCKSTEP_KERNEL(elementwise4, ElementwiseArguments) {
  const float weight = weightOf(a);
  const auto* first = reinterpret_cast<const Four*>(a.a);
  const auto* second = reinterpret_cast<const Four*>(a.b);
  for (Index i = firstOf(); i < a.n / 4; i += strideOf()) {
    const Four x = first != nullptr ? first[i] : Four{}, y = second != nullptr ? second[i] : Four{};
    Four out;
    LOCKSTEP_UNROLL
    for (int k = 0; k < 4; ++k) out.x[k] = apply(a, weight, x.x[k], y.x[k]);
    reinterpret_cast<Four*>(a.y)[i] = out;
  }
}

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
