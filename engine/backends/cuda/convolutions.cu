#include "engine/backends/cuda/block.h"

namespace lockstep::backends::cuda {
namespace {

// y[b,oy,ox,o]: a thread an output, o fastest, so that neighbours read neighbouring weights and one pixel.
template <typename X>
LOCKSTEP_DEVICE void convolve(const ConvArguments& a) {
  const auto* x = static_cast<const X*>(a.x);
  const auto* weights = static_cast<const X*>(a.weights);
  for (Index i = firstOf(); i < a.b * a.oh * a.ow * a.o; i += strideOf()) {
    const Index o = i % a.o, ox = i / a.o % a.ow, oy = i / (a.o * a.ow) % a.oh, b = i / (a.o * a.ow * a.oh);
    float sum = a.bias != nullptr ? a.bias[o] : 0.0f;
    for (Index ky = 0; ky < a.kh; ++ky)
      for (Index kx = 0; kx < a.kw; ++kx) {
        const Index iy = oy * a.stride - a.pad + ky, ix = ox * a.stride - a.pad + kx;
        if (iy < 0 || iy >= a.h || ix < 0 || ix >= a.w) continue;
        const X* pixel = x + ((b * a.h + iy) * a.w + ix) * a.c;
        const X* taps = weights + (ky * a.kw + kx) * a.c * a.o + o;
        for (Index c = 0; c < a.c; ++c) sum += valueOf(pixel[c]) * valueOf(taps[c * a.o]);
      }
    a.y[i] = a.relu && !(sum > 0) ? 0.0f : sum;
  }
}

// dx[b,iy,ix,c] from the outputs that its pixel took part in.
template <typename X>
LOCKSTEP_DEVICE void convolveInputGrad(const ConvArguments& a) {
  const auto* dy = static_cast<const X*>(a.x);
  const auto* weights = static_cast<const X*>(a.weights);
  for (Index i = firstOf(); i < a.b * a.h * a.w * a.c; i += strideOf()) {
    const Index c = i % a.c, ix = i / a.c % a.w, iy = i / (a.c * a.w) % a.h, b = i / (a.c * a.w * a.h);
    float sum = 0;
    for (Index ky = 0; ky < a.kh; ++ky)
      for (Index kx = 0; kx < a.kw; ++kx) {
        const Index top = iy + a.pad - ky, left = ix + a.pad - kx;
        if (top < 0 || left < 0 || top % a.stride != 0 || left % a.stride != 0) continue;
        const Index oy = top / a.stride, ox = left / a.stride;
        if (oy >= a.oh || ox >= a.ow) continue;
        const X* gradient = dy + ((b * a.oh + oy) * a.ow + ox) * a.o;
        const X* taps = weights + ((ky * a.kw + kx) * a.c + c) * a.o;
        for (Index o = 0; o < a.o; ++o) sum += valueOf(gradient[o]) * valueOf(taps[o]);
      }
    a.y[i] = sum;
  }
}

// dw[ky,kx,c,o]: a block a tap and channel (x) and kWarp of o (y); its warps share out the pixels of the output.
template <typename X>
LOCKSTEP_DEVICE void convolveWeightGrad(const ConvArguments& a) {
  const auto* x = static_cast<const X*>(a.x);
  const auto* dy = static_cast<const X*>(a.weights);
  const Index tap = static_cast<Index>(blockIdx.x) / a.c, c = static_cast<Index>(blockIdx.x) % a.c;
  const Index ky = tap / a.kw, kx = tap % a.kw;
  const Index o = static_cast<Index>(blockIdx.y) * kWarp + threadIdx.x % kWarp;
  float sum = 0;
  for (Index i = threadIdx.x / kWarp; o < a.o && i < a.b * a.oh * a.ow; i += kThreads / kWarp) {
    const Index ox = i % a.ow, oy = i / a.ow % a.oh, b = i / (a.ow * a.oh);
    const Index iy = oy * a.stride - a.pad + ky, ix = ox * a.stride - a.pad + kx;
    if (iy < 0 || iy >= a.h || ix < 0 || ix >= a.w) continue;
    sum += valueOf(x[((b * a.h + iy) * a.w + ix) * a.c + c]) * valueOf(dy[i * a.o + o]);
  }
  sum = laneSum(sum);
  if (threadIdx.x < kWarp && o < a.o) a.y[static_cast<Index>(blockIdx.x) * a.o + o] = sum;
}

// Where the first maximum of output (b, oy, ox, c) is in x.
LOCKSTEP_DEVICE Index maximumOf(const PoolArguments& a, Index b, Index oy, Index ox, Index c) {
  Index best = -1;
  for (Index ky = 0; ky < a.size; ++ky)
    for (Index kx = 0; kx < a.size; ++kx) {
      const Index at = ((b * a.h + oy * a.stride + ky) * a.w + ox * a.stride + kx) * a.c + c;
      if (best < 0 || a.x[at] > a.x[best]) best = at;
    }
  return best;
}

}  // namespace

LOCKSTEP_KERNEL(conv2d, ConvArguments) {
  if (a.factors == Element::kBf16) convolve<Bf16>(a);
  else if (a.factors == Element::kF16) convolve<F16>(a);
  else convolve<float>(a);
}
LOCKSTEP_KERNEL(conv2dInputGrad, ConvArguments) {
  if (a.factors == Element::kBf16) convolveInputGrad<Bf16>(a);
  else if (a.factors == Element::kF16) convolveInputGrad<F16>(a);
  else convolveInputGrad<float>(a);
}
LOCKSTEP_KERNEL(conv2dWeightGrad, ConvArguments) {
  if (a.factors == Element::kBf16) convolveWeightGrad<Bf16>(a);
  else if (a.factors == Element::kF16) convolveWeightGrad<F16>(a);
  else convolveWeightGrad<float>(a);
}

LOCKSTEP_KERNEL(maxPool2d, PoolArguments) {
  for (Index i = firstOf(); i < a.b * a.oh * a.ow * a.c; i += strideOf()) {
    const Index c = i % a.c, ox = i / a.c % a.ow, oy = i / (a.c * a.ow) % a.oh, b = i / (a.c * a.ow * a.oh);
    a.y[i] = a.x[maximumOf(a, b, oy, ox, c)];
  }
}

// An input asks each window it lies in whether it is its first maximum: no two threads write one element.
LOCKSTEP_KERNEL(maxPool2dGrad, PoolArguments) {
  for (Index i = firstOf(); i < a.b * a.h * a.w * a.c; i += strideOf()) {
    const Index c = i % a.c, ix = i / a.c % a.w, iy = i / (a.c * a.w) % a.h, b = i / (a.c * a.w * a.h);
    const Index top = iy < a.size ? 0 : (iy - a.size) / a.stride + 1, left = ix < a.size ? 0 : (ix - a.size) / a.stride + 1;
    float sum = 0;
    for (Index oy = top; oy < a.oh && oy * a.stride <= iy; ++oy)
      for (Index ox = left; ox < a.ow && ox * a.stride <= ix; ++ox)
        if (maximumOf(a, b, oy, ox, c) == i && (!a.relu || a.x[i] > 0)) sum += a.dy[((b * a.oh + oy) * a.ow + ox) * a.c + c];
    a.y[i] = sum;
  }
}

LOCKSTEP_KERNEL(meanPool2d, MeanPoolArguments) {
  for (Index i = firstOf(); i < a.samples * a.channels; i += strideOf()) {
    const float* x = a.x + i / a.channels * a.pixels * a.channels + i % a.channels;
    float sum = 0;
    for (Index p = 0; p < a.pixels; ++p) sum += x[p * a.channels];
    a.y[i] = sum / static_cast<float>(a.pixels);
  }
}

LOCKSTEP_KERNEL(meanPool2dGrad, MeanPoolArguments) {
  for (Index i = firstOf(); i < a.samples * a.pixels * a.channels; i += strideOf())
    a.y[i] = a.x[i / (a.pixels * a.channels) * a.channels + i % a.channels] / static_cast<float>(a.pixels);
}

}  // namespace lockstep::backends::cuda
