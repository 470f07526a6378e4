#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {
namespace {

LOCKSTEP_DEVICE float inverseNorm(const OptimizerArguments& a) {
  return *a.norm <= 0 ? 0.0f : 1 / *a.norm;
}

// Four elements at a time if operands are 16-byte aligned, then the rest singly. A norm below 0
// skips the update.
LOCKSTEP_DEVICE bool onFour(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

template <typename Update>
LOCKSTEP_DEVICE void forElements(const OptimizerArguments& a, Update update) {
  const bool second = a.second != nullptr, skips = *a.norm < 0;
  const bool wide = onFour(a.p) && onFour(a.g) && onFour(a.first) && onFour(a.pOut) &&
                    onFour(a.firstOut) && onFour(a.second) && onFour(a.secondOut);
  const Index fours = wide ? a.n / 4 : 0;
  for (Index i = firstOf(); i < fours; i += strideOf()) {
    Four p = reinterpret_cast<const Four*>(a.p)[i], m = reinterpret_cast<const Four*>(a.first)[i],
         v{};
    const Four g = reinterpret_cast<const Four*>(a.g)[i];
    if (second) v = reinterpret_cast<const Four*>(a.second)[i];
    LOCKSTEP_UNROLL
    for (int k = 0; k < 4; ++k)
      if (!skips) update(p.x[k], g.x[k], m.x[k], v.x[k]);
    reinterpret_cast<Four*>(a.pOut)[i] = p;
    reinterpret_cast<Four*>(a.firstOut)[i] = m;
    if (second) reinterpret_cast<Four*>(a.secondOut)[i] = v;
  }
  for (Index i = 4 * fours + firstOf(); i < a.n; i += strideOf()) {
    float p = a.p[i], m = a.first[i], v = second ? a.second[i] : 0.0f;
    if (!skips) update(p, a.g[i], m, v);
    a.pOut[i] = p;
    a.firstOut[i] = m;
    if (second) a.secondOut[i] = v;
  }
}

}  // namespace

LOCKSTEP_KERNEL(sgd, OptimizerArguments) {
  const float scale = inverseNorm(a), lr = *a.lr;
  forElements(a, [&](float& p, float g, float& v, float&) {
    v = a.momentum * v + g * scale + a.decay * p;
    p -= lr * v;
  });
}

LOCKSTEP_KERNEL(adagrad, OptimizerArguments) {
  const float scale = inverseNorm(a), lr = *a.lr;
  forElements(a, [&](float& p, float g, float& s, float&) {
    g = g * scale + a.decay * p;
    s += g * g;
    if (g != 0) p -= lr * g / (sqrtf(s) + a.epsilon);
  });
}

// Bias corrections in f64: in the first steps they are differences of nearly equal numbers.
LOCKSTEP_KERNEL(adam, OptimizerArguments) {
  LOCKSTEP_SHARED float corrections[2];
  if (threadIdx.x == 0) {
    corrections[0] = static_cast<float>(1 / (1 - pow(a.beta1, static_cast<double>(*a.t))));
    corrections[1] = static_cast<float>(1 / (1 - pow(a.beta2, static_cast<double>(*a.t))));
  }
  __syncthreads();
  const float scale = inverseNorm(a), lr = *a.lr, correct1 = corrections[0],
              correct2 = corrections[1];
  const auto beta1 = static_cast<float>(a.beta1), beta2 = static_cast<float>(a.beta2);
  const auto rest1 = static_cast<float>(1 - a.beta1), rest2 = static_cast<float>(1 - a.beta2);
  forElements(a, [&](float& p, float g, float& m, float& v) {
    g *= scale;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    p -= lr * (m * correct1 / (sqrtf(v * correct2) + a.epsilon) + a.decay * p);
  });
}

}  // namespace lockstep::backends::cuda
