// The arguments of kernels, as binders fill and kernels read them. Tensors are f32, row-major,
// unless said otherwise.
#pragma once

#include <cstdint>

namespace lockstep::backends::cuda {

using Index = std::int64_t;

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kThreads = 256;  // of a block, where a kernel does not say otherwise

// A type that elements are read or written in.
enum class Element : int { kF32, kBf16, kF16, kI32, kU8 };

// y[i] = function(a[i], b[i]); b is null of functions of one operand. The second kernel takes four
// at a time.
enum class Function : int {
  kFill,
  kCopy,
  kAdd,
  kScale,
  kWeigh,
  kRelu,
  kReluGrad,
  kGelu,
  kGeluGrad,
  kTanh,
  kTanhGrad
};
struct ElementwiseArguments {
  Function function;
  Index n;
  const float *a, *b;
  const float *part, *total;  // of kWeigh: a·part/total
  float* y;
  float factor;  // of kFill and kScale
};
struct CastArguments {
  Element from, to;
  Index n;
  const void* x;
  void* y;
  float scale;
};
struct BiasAddArguments {  // y[i] = x[i] + b[i mod period]
  Index n, period;
  const float *x, *b;
  float* y;
};
struct AddRanksArguments {  // y[i] = sum[i] + x[i] + x[n + i] + …
  Index n, ranks;
  const float *sum, *x;
  float* y;
};
struct ColumnsArguments {  // y[r·yPitch + c] = x[r·xPitch + c]
  Index rows, count, xPitch, yPitch;
  const float* x;
  float* y;
};
struct RepeatArguments {
  Index n, times;
  const float* x;
  float* y;
};
struct RandomArguments {
  Index n, block, pitch, first;
  std::uint64_t key;
  bool normal;
  double scale;
  float* y;
};
struct DropoutArguments {
  Index n, sampleElements, columns, part, first;
  std::uint64_t salt;
  double rate;
  const float* x;
  const std::int32_t* keys;
  float* y;
};

// y[block] = Σ over its share of x, or of their squares; blocks share out n alike whatever the GPU.
// With ids x is rows of `columns`, of which those of id −1 count nothing.
struct SumArguments {
  Index n;
  bool squares;
  const float* x;
  float* y;
  const std::int32_t* ids = nullptr;
  Index columns = 1;
};
struct FiniteNormArguments {  // as kFiniteNorm; scale may be null
  const float *norm, *squares, *scale;
  float* y;
};
struct LossScaleArguments {  // as kLossScale
  float interval, factor, least, most;
  const float *scale, *good, *skipped, *norm;
  float *newScale, *newGood, *newSkipped;
};
struct UnlessSkippedArguments {  // y[i] = norm < 0 ? before[i] : x[i]
  Index n;
  const float *x, *before, *norm;
  float* y;
};
struct ClipNormArguments {
  float limit;
  const float *norm, *squares;
  float* y;
};
// y[part·columns + c] = Σ over the part's rows of x[r·columns + c]. A block is kWarp columns by
// kThreads / kWarp.
struct ColumnSumArguments {
  Index rows, columns, parts;
  const float* x;
  float* y;
};

// An image beside its columns: row (b·oh + oy)·ow + ox of these is what the window there has of the
// image, tap after tap, and zeros beyond its edges and behind the last tap, up to `pitch`. c and
// pitch count elements of `unit` bytes.
struct ImageArguments {
  unsigned b, h, w, c, kh, kw, oh, ow, stride, pad, pitch, unit;
  const void* x;
  void* y;
};
struct PoolArguments {  // as PoolShape; with `four` c counts fours
  unsigned b, h, w, c, oh, ow, size, stride;
  bool relu, four;
  const float *x, *dy;
  float* y;
  // of overlapping windows: which tap is the first maximum, −1 where none has a gradient
  std::int32_t* places;
};
struct MeanPoolArguments {  // with `four` channels counts fours
  Index samples, pixels, channels;
  bool four;
  const float* x;
  float* y;
};

struct LayerNormArguments {
  Index rows, channels;
  float epsilon;
  const float *x, *gain, *bias;
  float *y, *mean, *rstd;
};
struct LayerNormGradArguments {
  Index rows, channels;
  const float *dy, *x, *gain, *mean, *rstd;
  float* dx;
};
// As ColumnSumArguments: of each part the sums of dy·x̂ and of dy.
struct LayerNormWeightGradArguments {
  Index rows, channels, parts;
  const float *dy, *x, *mean, *rstd;
  float *dgain, *dbias;
};

// As BatchNormShape; which are used says the op. A block is `lanes` columns, of four channels with
// `four`, by kThreads / lanes rows; blocks down are the parts of each group's rows.
struct BatchNormArguments {
  Index samples, pixels, channels, groups;
  unsigned lanes, parts;
  bool four;
  float epsilon;
  const float *dy, *x, *w, *shift, *gain, *bias, *moments, *mean, *variance, *sums;
  float *y, *second, *third;
};
struct RunningArguments {
  Index channels;
  float momentum;
  const float *mean, *variance, *sums;
  float *newMean, *newVariance;
};

struct XentArguments {
  Index rows, classes;
  const float *x, *w, *dloss;
  const std::int32_t* label;
  float *y, *losses;  // losses: of each row
};
// Of classes from `first` on, those of other ranks beside them: as kRowMax, kXentTerms, kXentLoss
// and their gradients.
struct DividedXentArguments {
  Index rows, classes, first;
  const float *x, *m, *s, *t, *ds, *dt, *w, *dloss;
  const std::int32_t* label;
  float *y, *second;
};
struct HistogramArguments {  // bin: of each row
  Index rows, bins;
  const float *x, *target, *w;
  std::int32_t* bin;
  float* y;
};
struct PairLossArguments {  // of each element: squared error, or binary cross-entropy
  Index n, columns;
  bool binary;
  const float *x, *target, *w, *dloss;
  float* y;
};

struct EmbeddingArguments {
  Index rows, channels, vocabulary, first;
  const std::int32_t* ids;
  const float* x;
  float* y;
};

// One pass of a sort by keys, which keeps the order of equal ones: by the kSortDigits-valued digit
// from bit `shift` on. Blocks have a tile of keys each. What moves with a key is its place; places
// null: 0, 1, 2, …
inline constexpr unsigned kSortBits = 8, kSortDigits = 1u << kSortBits;
struct SortArguments {
  Index n, tile;
  unsigned tiles, shift;
  const std::uint32_t *keys, *places;
  std::uint32_t *keysOut, *placesOut;
  std::uint32_t* counts;  // of each digit those of each tile; then where the first of them goes
};
// As kCombineRows; keys: ids sorted, which those below 0 are the last of.
struct CombineArguments {
  Index n, channels;
  const std::uint32_t *keys, *places;
  const float* rows;
  float* sums;
  std::int32_t* ids;
};
// As kDistinct. keys, places: of what was sorted last, ids or parts.
struct DistinctArguments {
  Index n, most, parts;
  const std::uint32_t *keys, *places;
  const std::int32_t* ids;
  const std::int32_t* cuts;  // where each part begins
  // of each place: its part, or `parts`; the id's first place; that one's number
  std::uint32_t *part, *first, *number;
  std::int32_t *each, *counts, *out;
};
struct EmbeddingGradArguments {  // keys: ids sorted; y is zero before
  Index n, channels, vocabulary, first;
  const std::uint32_t *keys, *places;
  const float* dy;
  float* y;
};
struct RowsUpdateArguments {  // as kAdagradRows or, without, kSgdRows; in place
  Index n, channels, first, elements;
  bool adagrad;
  float epsilon;
  const float *sums, *norm, *lr;
  const std::int32_t* ids;
  float *p, *s;
};

// As ir::Coding.
enum class Coding : int { kFp16, kBf16, kInt8, kTopK };
// As CodingShape; x and residual of all parts one after another. Of a sum the payloads are R, of an
// encoding one a part.
struct CodingArguments {
  Coding coding;
  Index count, parts, payload, values;  // values: where a payload's begin
  const float *x, *residual;
  float* y;  // what is left, or the sum
  std::uint8_t* payloads;
};
inline constexpr unsigned kScaleGroup = 256;  // elements of one scale: a block
// The `kept` of t of largest magnitude: their bits are found from the top. A block has `range`
// elements of a part (y).
inline constexpr unsigned kTopKDigits = 2048;
struct TopKState {
  Index wanted;  // of those that have the bits found so far
  std::uint32_t found;
};
struct TopKArguments {
  Index count, kept, payload, range;
  unsigned shift;
  float* t;
  std::uint8_t* payloads;
  TopKState* state;       // of each part
  std::uint32_t* counts;  // of each part kTopKDigits, zero between plays
  // of each block of each part: how many are larger than the last, and equal
  std::uint32_t* above;
};
struct AddKeptArguments {  // y[index] += value
  Index count, kept;
  const std::uint8_t* payload;
  float* y;
};

// As AttentionShape.
struct AttentionArguments {
  Index samples, tokens, heads, head;
  bool causal;
  float scale;
  const float *qkv, *dy, *y, *lse, *offsets;
  float *out, *lseOut;
};
inline constexpr int kQueryTile = 32;
inline constexpr unsigned kAttentionThreads = 128;
// kernels for heads up to the first, and up to the second
inline constexpr int kNarrowHead = 64, kLargestHead = 128;

// The same by tensor cores (attention_tensor.cu). Factors are of 16 bits: of each sample and head
// its tokens one after another, each of kNarrowHead or kLargestHead numbers, those beyond the
// head's channels 0.
struct alignas(8) RowTerms {  // of a row of scores: log2 of Σ exp, and Σ dy·y
  float sum, offset;
};
struct TensorAttentionArguments {
  Index samples, tokens, heads, head;
  bool causal;
  // two neighbouring elements of out, of which the first's place is even, lie on 8 bytes
  bool paired;
  float scale;
  const std::uint16_t *q, *k, *v, *dy;
  const RowTerms* terms;  // in the order of the factors' tokens
  float *out, *lseOut;
};
// A row of qkv, or of dy, a block.
struct NarrowHeadsArguments {
  Index samples, tokens, heads, head;
  int pitch;  // numbers of a token
  // eight neighbouring elements of x, the first's place a multiple of eight, lie on 16 bytes
  bool onSixteen;
  const float *x, *y, *lse;  // y, lse: with dy
  std::uint16_t* to;
  RowTerms* terms;
};
inline constexpr unsigned kTensorThreads = 128;
inline constexpr int kTensorRows = 128, kTensorRowsWide = 64;  // queries or keys of a block

struct OptimizerArguments {
  Index n;
  const float *p, *g, *first, *second, *norm, *lr, *t;
  float *pOut, *firstOut, *secondOut;
  float momentum, decay, epsilon;
  double beta1, beta2;
};

}  // namespace lockstep::backends::cuda
