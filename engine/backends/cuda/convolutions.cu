#include "engine/backends/cuda/block.h"

// Index arithmetic uses 32 bits, in which GPUs divide several times faster than in 64; hence at
// most 2³¹ elements.
namespace lockstep::backends::cuda {
namespace {

LOCKSTEP_DEVICE unsigned firstShort() { return static_cast<unsigned>(firstOf()); }
LOCKSTEP_DEVICE unsigned strideShort() { return static_cast<unsigned>(strideOf()); }

struct Pixel {
  unsigned b, y, x;
};
// Pixel of index i in images of h × w.
LOCKSTEP_DEVICE Pixel pixelOf(unsigned i, unsigned h, unsigned w) {
  return {i / w / h, i / w % h, i % w};
}

// im2col. A window's taps of one line are contiguous in both the image and the columns: a thread
// copies one element of each of a window's lines.
template <typename T>
LOCKSTEP_DEVICE void gather(const ImageArguments& a) {
  const unsigned run = a.kw * a.c, line = a.w * a.c, n = a.b * a.oh * a.ow * run;
  for (unsigned i = firstShort(); i < n; i += strideShort()) {
    const unsigned at = i / run, u = i % run;
    const Pixel p = pixelOf(at, a.oh, a.ow);
    const T* image = static_cast<const T*>(a.x) + static_cast<Index>(p.b) * a.h * line;
    T* row = static_cast<T*>(a.y) + static_cast<Index>(at) * a.pitch;
    // negative values wrap beyond 2³¹
    const unsigned top = p.y * a.stride - a.pad, left = (p.x * a.stride - a.pad) * a.c + u;
    for (unsigned ky = 0; ky < a.kh; ++ky)
      row[ky * run + u] =
          top + ky < a.h && left < line ? image[static_cast<Index>(top + ky) * line + left] : T{};
    for (unsigned k = a.kh * run + u; k < a.pitch; k += run) row[k] = T{};
  }
}

// col2im: a pixel is the sum of the column elements that it was copied to, in the order of the
// taps.
template <int N>
LOCKSTEP_DEVICE void addUp(const ImageArguments& a) {
  const auto* columns = static_cast<const Few<N>*>(a.x);
  auto* image = static_cast<Few<N>*>(a.y);
  for (unsigned i = firstShort(); i < a.b * a.h * a.w * a.c; i += strideShort()) {
    const unsigned c = i % a.c;
    const Pixel p = pixelOf(i / a.c, a.h, a.w);
    const unsigned bottom = p.y + a.pad, right = p.x + a.pad;
    Few<N> sum{};
    unsigned oy = bottom / a.stride;
    for (unsigned ky = bottom % a.stride; ky < a.kh && ky <= bottom; ky += a.stride, --oy) {
      if (oy >= a.oh) continue;
      unsigned ox = right / a.stride;
      for (unsigned kx = right % a.stride; kx < a.kw && kx <= right; kx += a.stride, --ox) {
        if (ox >= a.ow) continue;
        const Few<N> x = columns[static_cast<Index>((p.b * a.oh + oy) * a.ow + ox) * a.pitch +
                                 (ky * a.kw + kx) * a.c + c];
        for (int j = 0; j < N; ++j) sum.x[j] += x.x[j];
      }
    }
    image[i] = sum;
  }
}

// Maxima of a window, and the tap at which each occurs first; the first NaN counts as the maximum.
template <int N>
struct Maximum {
  Few<N> value;
  Few<N, std::int32_t> place;
};
template <int N>
LOCKSTEP_DEVICE Maximum<N> maximumOf(const PoolArguments& a, const Pixel& window, unsigned c) {
  const auto* x =
      reinterpret_cast<const Few<N>*>(a.x) +
      (static_cast<Index>(window.b * a.h + window.y * a.stride) * a.w + window.x * a.stride) * a.c +
      c;
  Maximum<N> best{x[0], {}};
  for (unsigned ky = 0; ky < a.size; ++ky)
    for (unsigned kx = 0; kx < a.size; ++kx) {
      const Few<N> one = x[static_cast<Index>(ky * a.w + kx) * a.c];
      for (int j = 0; j < N; ++j)
        if (one.x[j] > best.value.x[j] ||
            (one.x[j] != one.x[j] && best.value.x[j] == best.value.x[j])) {
          best.value.x[j] = one.x[j];
          best.place.x[j] = static_cast<int>(ky * a.size + kx);
        }
    }
  for (int j = 0; j < N; ++j)
    if (a.relu && best.value.x[j] <= 0) best.place.x[j] = -1;
  return best;
}

template <int N>
LOCKSTEP_DEVICE void pool(const PoolArguments& a) {
  for (unsigned i = firstShort(); i < a.b * a.oh * a.ow * a.c; i += strideShort()) {
    const Maximum<N> best = maximumOf<N>(a, pixelOf(i / a.c, a.oh, a.ow), i % a.c);
    if (a.places == nullptr)
      reinterpret_cast<Few<N>*>(a.y)[i] = best.value;
    else
      reinterpret_cast<Few<N, std::int32_t>*>(a.places)[i] = best.place;
  }
}

// Non-overlapping windows: the image consists of squares of `stride`, each with a window in its
// corner, except at the edge.
template <int N>
LOCKSTEP_DEVICE void poolGradApart(const PoolArguments& a) {
  const unsigned down = (a.h + a.stride - 1) / a.stride, across = (a.w + a.stride - 1) / a.stride;
  for (unsigned i = firstShort(); i < a.b * down * across * a.c; i += strideShort()) {
    const unsigned c = i % a.c;
    const Pixel p = pixelOf(i / a.c, down, across);
    Maximum<N> best{};
    Few<N> dy{};
    if (p.y < a.oh && p.x < a.ow) {
      best = maximumOf<N>(a, p, c);
      dy = reinterpret_cast<const Few<N>*>(
          a.dy)[static_cast<Index>((p.b * a.oh + p.y) * a.ow + p.x) * a.c + c];
    }
    const unsigned top = p.y * a.stride, left = p.x * a.stride;
    auto* dx = reinterpret_cast<Few<N>*>(a.y) +
               (static_cast<Index>(p.b * a.h + top) * a.w + left) * a.c + c;
    for (unsigned ky = 0; ky < a.stride && top + ky < a.h; ++ky)
      for (unsigned kx = 0; kx < a.stride && left + kx < a.w; ++kx) {
        const int tap = ky < a.size && kx < a.size ? static_cast<int>(ky * a.size + kx) : -2;
        Few<N> one{};
        for (int j = 0; j < N; ++j)
          if (best.place.x[j] == tap) one.x[j] = dy.x[j];
        dx[static_cast<Index>(ky * a.w + kx) * a.c] = one;
      }
  }
}

// Overlapping windows: a pixel receives the gradients of the windows whose first maximum it is.
template <int N>
LOCKSTEP_DEVICE void poolGrad(const PoolArguments& a) {
  for (unsigned i = firstShort(); i < a.b * a.h * a.w * a.c; i += strideShort()) {
    const unsigned c = i % a.c;
    const Pixel p = pixelOf(i / a.c, a.h, a.w);
    const unsigned top = p.y < a.size ? 0 : (p.y - a.size) / a.stride + 1;
    const unsigned left = p.x < a.size ? 0 : (p.x - a.size) / a.stride + 1;
    Few<N> sum{};
    for (unsigned oy = top; oy < a.oh && oy * a.stride <= p.y; ++oy)
      for (unsigned ox = left; ox < a.ow && ox * a.stride <= p.x; ++ox) {
        const Index window = static_cast<Index>((p.b * a.oh + oy) * a.ow + ox) * a.c + c;
        const int tap = static_cast<int>((p.y - oy * a.stride) * a.size + p.x - ox * a.stride);
        const Few<N> dy = reinterpret_cast<const Few<N>*>(a.dy)[window];
        const auto place = reinterpret_cast<const Few<N, std::int32_t>*>(a.places)[window];
        for (int j = 0; j < N; ++j)
          if (place.x[j] == tap) sum.x[j] += dy.x[j];
      }
    reinterpret_cast<Few<N>*>(a.y)[i] = sum;
  }
}

template <int N>
LOCKSTEP_DEVICE void spread(const MeanPoolArguments& a) {
  const auto pixels = static_cast<unsigned>(a.pixels), channels = static_cast<unsigned>(a.channels);
  for (unsigned i = firstShort(); i < static_cast<unsigned>(a.samples) * pixels * channels;
       i += strideShort()) {
    Few<N> dy =
        reinterpret_cast<const Few<N>*>(a.x)[i / channels / pixels * channels + i % channels];
    for (int j = 0; j < N; ++j) dy.x[j] /= static_cast<float>(a.pixels);
    reinterpret_cast<Few<N>*>(a.y)[i] = dy;
  }
}

}  // namespace

LOCKSTEP_KERNEL(imageToColumns, ImageArguments) {
  if (a.unit == 16)
    gather<Four>(a);
  else if (a.unit == 8)
    gather<Few<2>>(a);
  else if (a.unit == 4)
    gather<float>(a);
  else
    gather<std::uint16_t>(a);
}
LOCKSTEP_KERNEL(columnsToImage, ImageArguments) {
  if (a.unit == 16)
    addUp<4>(a);
  else if (a.unit == 8)
    addUp<2>(a);
  else
    addUp<1>(a);
}

// Writes the maxima or, for the gradient of overlapping windows, their taps.
LOCKSTEP_KERNEL(maxPool2d, PoolArguments) { a.four ? pool<4>(a) : pool<1>(a); }
LOCKSTEP_KERNEL(maxPool2dGradApart, PoolArguments) {
  a.four ? poolGradApart<4>(a) : poolGradApart<1>(a);
}
LOCKSTEP_KERNEL(maxPool2dGrad, PoolArguments) { a.four ? poolGrad<4>(a) : poolGrad<1>(a); }

LOCKSTEP_KERNEL(meanPool2d, MeanPoolArguments) {
  for (Index i = firstOf(); i < a.samples * a.channels; i += strideOf()) {
    const float* x = a.x + i / a.channels * a.pixels * a.channels + i % a.channels;
    float sum = 0;
    for (Index p = 0; p < a.pixels; ++p) sum += x[p * a.channels];
    a.y[i] = sum / static_cast<float>(a.pixels);
  }
}
LOCKSTEP_KERNEL(meanPool2dGrad, MeanPoolArguments) { a.four ? spread<4>(a) : spread<1>(a); }

}  // namespace lockstep::backends::cuda
