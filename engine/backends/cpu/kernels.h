// Vectorised f32 kernels for plain layouts, compiled once per instruction set and chosen once at
// run time. No operand needs alignment. Results depend on shapes alone, never on addresses.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::backends::cpu {

// c[rows×cols] = a·b (+ bias) (+ c where accumulate), then relu. Element (i, k) of `a` is
// a[rowOffset[i] + kOffset[k]]: a matrix in either order, and equally the patches of an image.
// `b` is k×cols with leading dimension ldb, or cols×k where `transposed`.
struct Gemm {
  std::int64_t rows = 0, k = 0, cols = 0;
  const float* a = nullptr;
  const std::int64_t* rowOffset = nullptr;
  const std::int64_t* kOffset = nullptr;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  bool transposed = false;
  float* c = nullptr;
  std::int64_t ldc = 0;
  const float* bias = nullptr;
  bool relu = false;
  bool accumulate = false;
};
// Where products pack a panel of b: kPackFloats floats of the calling thread, aligned to 64 bytes.
inline constexpr std::int64_t kPackFloats = 256 * 64;
float* packOfThread();

inline constexpr std::int64_t kScaledTogether = 256;  // ir::kScaledTogether

struct Pool {
  std::int64_t b, h, w, c, oh, ow, size, stride;
};

struct Adam {
  const float *p, *g, *m, *v;
  float *pOut, *mOut, *vOut;
  std::int64_t n;
  float scale;                // of the gradient
  float beta1, beta2;
  float rate, epsilon, keep;  // p' = keep·p − rate·m' / (√v' + epsilon)
};

struct Sgd {
  const float *p, *g, *v;
  float *pOut, *vOut;
  std::int64_t n;
  float scale, momentum, decay, lr;
};

struct Adagrad {
  const float *p, *g, *s;
  float *pOut, *sOut;
  std::int64_t n;
  float scale, decay, epsilon, lr;
};

// rows × channels each, but gain and bias of a row and mean and rstd of a column.
struct LayerNorm {
  std::int64_t rows, channels;
  float epsilon;
  const float *x, *gain, *bias, *dy;
  float *y, *mean, *rstd, *dx, *dgain, *dbias;
};

// One group of batch norm: `samples` of `pixels` × channels. Coefficients are a channel's, and a
// sample's weight where given.
struct BatchNorm {
  std::int64_t samples, pixels, channels;
  const float *x, *dy, *w;
  const float *mean;
  const float *scale, *offset, *slope;
  float *y, *first, *second;
};

struct Kernels {
  const char* isa;
  void (*gemm)(const Gemm&);
  void (*maxPool)(const Pool&, const float* x, float* y);
  // dx is written whole.
  void (*maxPoolGrad)(const Pool&, const float* x, const float* y, const float* dy, float* dx);
  void (*reduceRows)(std::int64_t rows, std::int64_t cols, const float* x, float* y);
  void (*biasAdd)(std::int64_t rows, std::int64_t cols, const float* x, const float* b, float* y);
  void (*relu)(std::int64_t n, const float* x, float* y);
  void (*reluGrad)(std::int64_t n, const float* dy, const float* y, float* dx);
  void (*tanhGrad)(std::int64_t n, const float* dy, const float* y, float* dx);
  void (*add)(std::int64_t n, const float* a, const float* b, float* y);
  void (*scale)(std::int64_t n, const float* x, float factor, float* y);
  void (*gelu)(std::int64_t n, const float* x, float* y);
  void (*geluGrad)(std::int64_t n, const float* dy, const float* x, float* dx);
  float (*largest)(std::int64_t n, const float* x);
  // y = e^(scale·x − top); the sum of y.
  float (*expRow)(std::int64_t n, const float* x, float scale, float top, float* y);
  // y = p·(y − offset)·scale
  void (*softmaxGradRow)(std::int64_t n, const float* p, float offset, float scale, float* y);
  void (*layerNorm)(const LayerNorm&);        // y, mean, rstd
  void (*layerNormGrad)(const LayerNorm&);    // dx of dy, x, gain, mean, rstd
  void (*layerNormWeights)(const LayerNorm&); // dgain, dbias of dy, x, mean, rstd
  void (*batchMoments)(const BatchNorm&);     // first = Σw(x − mean), second = Σw(x − mean)²
  void (*batchNorm)(const BatchNorm&);        // y = (x − mean)·scale + offset
  void (*batchNormSums)(const BatchNorm&);    // first = Σdy·(x − mean), second = Σdy
  // y = dy·scale + w·(offset + (x − mean)·slope)
  void (*batchNormGrad)(const BatchNorm&);
  void (*meanPool)(std::int64_t samples, std::int64_t pixels, std::int64_t c, const float* x, float* y);
  void (*meanPoolGrad)(std::int64_t samples, std::int64_t pixels, std::int64_t c, const float* dy,
                       float* dx);
  void (*castU8)(std::int64_t n, const std::uint8_t* x, float factor, float* y);
  // By ir::Coding, all but kTopK: n elements, the first of them a multiple of kScaledTogether.
  void (*encode[3])(std::int64_t n, const float* x, std::byte* scales, std::byte* values);
  void (*decode[3])(std::int64_t n, const std::byte* scales, const std::byte* values, float* y);
  void (*subtract)(std::int64_t n, const float* a, const float* b, float* y);
  void (*adam)(const Adam&);
  void (*sgd)(const Sgd&);
  void (*adagrad)(const Adagrad&);
};

extern const Kernels kBase;    // any x86-64
extern const Kernels kAvx2;    // AVX2 and FMA
extern const Kernels kAvx512;  // AVX-512 F, BW, DQ, VL

bool runnable(const Kernels& kernels);  // on this machine
const Kernels& best();                  // of this machine

}  // namespace lockstep::backends::cpu
