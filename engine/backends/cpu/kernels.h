// Vectorized f32 kernels on plain layouts, compiled once per instruction set and selected once at
// run time. Operands need no alignment. Results depend on shapes only, never on addresses.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::backends::cpu {

// Per-thread buffers for packed operand blocks of a matmul, kPackDepth of k at a time.
inline constexpr std::int64_t kPackDepth = 384, kPackRows = 48, kPackColumns = 384;
inline constexpr std::int64_t kPackSlack = 16;  // padding after each tile's rows
struct Packs {
  alignas(64) float a[(kPackDepth + kPackSlack) * kPackRows];
  alignas(64) float b[kPackDepth * kPackColumns];
};
Packs& packsOfThread();  // created on a thread's first call

// c[rows×cols] = a·b (+ bias, or + c if accumulate), then ReLU. Element (i, k) of `a` is
// a[i·rowStride + k·kStride], where one stride is 1; or, for image patches, a[rowOffset[i] +
// kOffset[k]]. `b` is k×cols with leading dimension ldb, or cols×k if `transposed`.
struct Gemm {
  std::int64_t rows = 0, k = 0, cols = 0;
  const float* a = nullptr;
  std::int64_t rowStride = 0, kStride = 0;
  const std::int64_t *rowOffset = nullptr, *kOffset = nullptr;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  bool transposed = false;
  float* c = nullptr;
  std::int64_t ldc = 0;
  const float* bias = nullptr;
  bool relu = false;
  bool accumulate = false;
};
// c[rows×cols] = a·b (+ bias), then ReLU, with bf16 operands and f32 accumulation: element (i, k)
// of `a` is a[i·aRow + k·aK], (k, j) of `b` is b[k·bK + j·bColumn].
struct Gemm16 {
  std::int64_t rows = 0, k = 0, cols = 0;
  const std::uint16_t* a = nullptr;
  std::int64_t aRow = 0, aK = 0;
  const std::uint16_t* b = nullptr;
  std::int64_t bK = 0, bColumn = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;
  const float* bias = nullptr;
  bool relu = false;
};
inline constexpr std::int64_t kPackDepth16 = 256, kPackRows16 = 96, kPackColumns16 = 1024;
struct Packs16 {
  alignas(64) std::uint32_t a[kPackDepth16 / 2 * kPackRows16];
  alignas(64) std::uint32_t b[kPackDepth16 / 2 * kPackColumns16];
};
Packs16& packs16OfThread();
inline constexpr std::int64_t kTilesDepth = 1024, kTilesColumns = 512;
struct PacksTiles {
  alignas(64) std::uint32_t a[kTilesDepth / 2 * 32];
  alignas(64) std::uint32_t b[kTilesDepth / 2 * kTilesColumns];
};
PacksTiles& packsTilesOfThread();

inline constexpr std::int64_t kScaledTogether = 256;  // ir::kScaledTogether

struct Pool {
  std::int64_t b, h, w, c, oh, ow, size, stride;
  bool relu;
};

struct Adam {
  const float *p, *g, *m, *v;
  float *pOut, *mOut, *vOut;
  std::int64_t n;
  float scale;  // of the gradient
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

// One sample and head: matrices of tokens × head with the given row strides.
struct Attention {
  std::int64_t tokens, head;
  bool causal;
  float scale;  // of the scores
  std::int64_t qkvStride, yStride, lseStride;
  const float *q, *k, *v, *dy, *y, *lse;
  float *yOut, *lseOut, *dq, *dk, *dv;  // outputs of attention, and of its gradient
  float* work;                          // attentionFloats() floats, aligned to 64 bytes
};
// Number of rows whose probabilities and gradients are held at a time: a share of the second-level
// cache.
static constexpr inline std::int64_t attentionBlock(std::int64_t tokens) {
  const std::int64_t fit = 36864 / tokens / 12 * 12, most = fit < 12 ? 12 : fit > 144 ? 144 : fit;
  const std::int64_t blocks = (tokens + most - 1) / most;
  return ((tokens + blocks - 1) / blocks + 11) / 12 * 12;
}
static constexpr inline std::int64_t attentionFloats(std::int64_t tokens, std::int64_t head,
                                                     bool grad) {
  const std::int64_t width = (tokens + 31) / 32 * 32, wide = (head + 31) / 32 * 32;
  return grad ? 2 * width * head + tokens * wide + 2 * attentionBlock(tokens) * (width + wide)
              : width * head + tokens * wide + 14 * width;
}

// Matrices of rows × channels, with rows `stride` apart where channels are summed; gain and bias
// per channel, mean and rstd per row.
struct LayerNorm {
  std::int64_t rows, channels, stride;
  float epsilon;
  const float *x, *gain, *bias, *dy;
  float *y, *mean, *rstd, *dx, *dgain, *dbias;
};

// One group of batch norm: `samples` of `pixels` × channels, rows `stride` apart where they are
// summed. Coefficients are per channel; sample weights are optional.
struct BatchNorm {
  std::int64_t samples, pixels, channels, stride;
  const float *x, *dy, *w;
  const float* mean;
  const float *scale, *offset, *slope;
  float *y, *first, *second;
};

// y[i] = scale·randomNormal(key, first + i), or, unless normal, scale·(2·randomUniform(key, first +
// i) − 1); computed in f64 and bit-identical on every instruction set.
struct Random {
  std::uint64_t key, first;
  std::int64_t n;
  bool normal;
  double scale;
  float* y;
};
void randomBase(const Random&);
void randomAvx2(const Random&);
void randomAvx512(const Random&);

struct Kernels {
  const char* isa;
  void (*random)(const Random&);
  void (*gemm)(const Gemm&);
  void (*gemm16)(const Gemm16&);
  bool adds16;  // gemm16 is faster than widening followed by gemm
  void (*maxPool)(const Pool&, const float* x, float* y);
  // Writes all of dx.
  void (*maxPoolGrad)(const Pool&, const float* x, const float* y, const float* dy, float* dx);
  // Rows are `stride` apart.
  void (*reduceRows)(std::int64_t rows, std::int64_t cols, std::int64_t stride, const float* x,
                     float* y);
  void (*biasAdd)(std::int64_t rows, std::int64_t cols, const float* x, const float* b, float* y);
  void (*relu)(std::int64_t n, const float* x, float* y);
  void (*reluGrad)(std::int64_t n, const float* dy, const float* y, float* dx);
  void (*tanhGrad)(std::int64_t n, const float* dy, const float* y, float* dx);
  void (*add)(std::int64_t n, const float* a, const float* b, float* y);
  void (*scale)(std::int64_t n, const float* x, float factor, float* y);
  void (*gelu)(std::int64_t n, const float* x, float* y);
  void (*geluGrad)(std::int64_t n, const float* dy, const float* x, float* dx);
  // Returns the weighted sum of the rows' losses; see ops kSoftmaxXent and kSoftmaxXentGrad.
  double (*softmaxXent)(std::int64_t rows, std::int64_t k, const float* logits,
                        const std::int32_t* label, const float* w, float* lse);
  void (*softmaxXentGrad)(std::int64_t rows, std::int64_t k, const float* logits,
                          const std::int32_t* label, const float* w, const float* lse, float dloss,
                          float* dx);
  double (*sumSquares)(std::int64_t n, const float* x);
  void (*attention)(const Attention&);
  void (*attentionGrad)(const Attention&);
  void (*layerNorm)(const LayerNorm&);         // y, mean, rstd
  void (*layerNormGrad)(const LayerNorm&);     // dx of dy, x, gain, mean, rstd
  void (*layerNormWeights)(const LayerNorm&);  // dgain, dbias of dy, x, mean, rstd
  void (*batchMoments)(const BatchNorm&);   // first = Σw(x − mean), second = Σw(x − mean)²
  void (*batchNorm)(const BatchNorm&);      // y = (x − mean)·scale + offset
  void (*batchNormSums)(const BatchNorm&);  // first = Σdy·(x − mean), second = Σdy
  // y = dy·scale + w·(offset + (x − mean)·slope)
  void (*batchNormGrad)(const BatchNorm&);
  void (*meanPool)(std::int64_t samples, std::int64_t pixels, std::int64_t c, const float* x,
                   float* y);
  void (*meanPoolGrad)(std::int64_t samples, std::int64_t pixels, std::int64_t c, const float* dy,
                       float* dx);
  void (*castU8)(std::int64_t n, const std::uint8_t* x, float factor, float* y);
  // Indexed by ir::Coding, except kTopK: n elements, starting at a multiple of kScaledTogether.
  void (*encode[3])(std::int64_t n, const float* x, std::byte* scales, std::byte* values);
  void (*decode[3])(std::int64_t n, const std::byte* scales, const std::byte* values, float* y);
  // Indexed by ir::Coding, fp16 and bf16: rounds n elements to nearest. fp16 overflows to infinity
  // from 65520 on, whereas encoding saturates at 65504.
  void (*castTo16Bits[2])(std::int64_t n, const float* x, std::byte* y);
  void (*subtract)(std::int64_t n, const float* a, const float* b, float* y);
  void (*adam)(const Adam&);
  void (*sgd)(const Sgd&);
  void (*adagrad)(const Adagrad&);
};

extern const Kernels kBase;        // any x86-64
extern const Kernels kAvx2;        // AVX2, FMA and F16C
extern const Kernels kAvx512;      // AVX-512 F, BW, DQ, VL
extern const Kernels kAvx512Bf16;  // kAvx512 and AVX-512-bf16
extern const Kernels kAmx;         // kAvx512 with gemm16 on AMX tiles
inline constexpr const Kernels* kAll[] = {&kBase, &kAvx2, &kAvx512, &kAvx512Bf16, &kAmx};

// Implemented in gemm16_amx.cc: requests permission from the kernel to use AMX tiles; and the
// matmul on them.
bool allowTiles();
void gemm16Tiles(const Gemm16& product);

bool runnable(const Kernels& kernels);  // on this machine
const Kernels& best();                  // of this machine

}  // namespace lockstep::backends::cpu
