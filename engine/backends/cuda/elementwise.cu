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

LOCKSTEP_DEVICE float readElement(Element type, const void* x, Index i) {
  switch (type) {
    case Element::kF32:
      return static_cast<const float*>(x)[i];
    case Element::kBf16:
      return valueOf(static_cast<const Bf16*>(x)[i]);
    case Element::kF16:
      return valueOf(static_cast<const F16*>(x)[i]);
    case Element::kI32:
      return static_cast<float>(static_cast<const std::int32_t*>(x)[i]);
    case Element::kU8:
      return static_cast<float>(static_cast<const std::uint8_t*>(x)[i]);
  }
  return 0;
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
  for (Index i = firstOf(); i < a.n; i += strideOf()) {
    const float x = readElement(a.from, a.x, i) * a.scale;
    if (a.to == Element::kF32)
      static_cast<float*>(a.y)[i] = x;
    else if (a.to == Element::kF16)
      static_cast<F16*>(a.y)[i] = toF16(x);
    else
      static_cast<Bf16*>(a.y)[i] = toBf16(x);
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
