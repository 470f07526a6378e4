// Kernel arguments, filled by KernelBinder. Tensors are f32, row-major, unless noted; one that may
// be stored in 16 bits is void*, beside an Element of the same name.
#pragma once

#include <cstdint>

namespace lockstep::backends::cuda {

using Index = std::int64_t;

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kThreads = 256;  // default block size
inline constexpr unsigned kMostThreads = 1024;

// Storage type of elements.
enum class Element : int { kF32, kBf16, kF16, kI32, kU8 };

// y[i] = function(a[i], b[i]); b is null for unary functions. The second kernel handles four
// elements at a time.
enum class Function : int {
  kFill,
  kCopy,
  kAdd,
  kScale,
  kScaleByRatio,
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
  const void *a, *b;
  const float *part, *total;  // of kScaleByRatio: a·part/total
  void* y;
  float factor;  // of kFill and kScale
  Element aType = Element::kF32, bType = Element::kF32, yType = Element::kF32;
};
inline constexpr unsigned kCastFours = 4;  // groups of four elements that a thread loads together
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
struct OrderedSumArguments {  // y[i] = sum[i] + x[i] + x[n + i] + …
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

// y[block] = Σ over its share of x, or of the squares; the partition of n is the same on every GPU.
// With ids, x has rows of `columns`, and rows of id −1 are skipped.
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
struct SelectIfFiniteArguments {  // y[i] = norm < 0 ? before[i] : x[i]
  Index n;
  const float *x, *before, *norm;
  float* y;
};
struct ClipNormArguments {
  float limit;
  const float *norm, *squares;
  float* y;
};
// y[part·columns + c] = Σ over the part's rows of x[r·columns + c]. A block has kWarp columns, or
// groups of four with `four`, by kThreads / kWarp rows.
struct ColumnSumArguments {
  Index rows, columns, parts;
  bool four;
  const void* x;
  float* y;
  Element xType = Element::kF32;
};

// im2col: row (b·oh + oy)·ow + ox holds the pixels of that window, tap by tap, with zeros for
// padding and up to `pitch`. c and pitch count elements of `unit` bytes.
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
  // for overlapping windows: the tap of the first maximum, −1 where the gradient is blocked
  std::int32_t* places;
};
struct MeanPoolArguments {  // with `four` channels counts fours
  Index samples, pixels, channels;
  bool four;
  const float* x;
  float* y;
};

// Layer norm and its input's gradient have one warp per row.
inline constexpr unsigned kNormThreads = 128;
struct LayerNormArguments {
  Index rows, channels;
  float epsilon;
  const float *x, *gain, *bias;
  void* y;
  float *mean, *rstd;
  Element yType;
};
struct LayerNormGradArguments {
  Index rows, channels;
  const void* dy;
  const float *x, *gain, *mean, *rstd;
  float* dx;
  Element dyType;
};
// As ColumnSumArguments: for each part the sums of dy·x̂ and of dy.
struct LayerNormWeightGradArguments {
  Index rows, channels, parts;
  bool four;
  const void* dy;
  const float *x, *mean, *rstd;
  float *dgain, *dbias;
  Element dyType;
};

// As BatchNormShape; fields in use depend on the op. A block has `lanes` columns (of four channels
// each with `four`) by kThreads / lanes rows; the grid's y dimension is the parts of each group's
// rows.
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

inline constexpr int kXentFours = 6;  // groups of four logits that a thread holds
struct XentArguments {
  Index rows, classes;
  const void* x;
  const float *w, *lse, *dloss;
  const std::int32_t* label;
  void* y;
  float *losses, *lseOut;  // one per row
  Element xType, yType;
};
// Vocabulary-parallel cross-entropy over the classes from `first` on: kRowMax, kXentTerms,
// kXentLoss and their gradients.
struct DividedXentArguments {
  Index rows, classes, first;
  const void* x;
  const float *m, *s, *t, *ds, *dt, *w, *dloss;
  const std::int32_t* label;
  float *y, *second;
  void* dx;  // of kXentTermsGrad
  Element xType, dxType;
};
struct HistogramArguments {  // bin: one per row
  Index rows, bins;
  const float *x, *target, *w;
  std::int32_t* bin;
  float* y;
};
struct PairLossArguments {  // per element: squared error, or binary cross-entropy
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

// One pass of a stable radix sort by the digit (kSortDigits values) from bit `shift` on. Each block
// handles a tile of keys. The payload of a key is its original position; places null: 0, 1, 2, …
inline constexpr unsigned kSortBits = 8, kSortDigits = 1u << kSortBits;
struct SortArguments {
  Index n, tile;
  unsigned tiles, shift;
  const std::uint32_t *keys, *places;
  std::uint32_t *keysOut, *placesOut;
  std::uint32_t* counts;  // per digit and tile: the count, then the offset of its first key
};
// As kCombineRows; keys: sorted ids, negative ones last.
struct CombineArguments {
  Index n, channels;
  const std::uint32_t *keys, *places;
  const float* rows;
  float* sums;
  std::int32_t* ids;
};
// As kUnique. keys, places: result of the last sort, by id or part.
struct UniqueArguments {
  Index n, most, parts;
  const std::uint32_t *keys, *places;
  const std::int32_t* ids;
  const std::int32_t* cuts;  // first id of each part
  // per position: its part, or `parts`; the first position of its id; the index of that
  std::uint32_t *part, *first, *number;
  std::int32_t *each, *counts, *out;
};
struct EmbeddingGradArguments {  // keys: sorted ids; y is zero-initialized
  Index n, channels, vocabulary, first;
  const std::uint32_t *keys, *places;
  const float* dy;
  float* y;
};
struct RowsUpdateArguments {  // as kAdagradRows or, without accumulator, kSgdRows; in place
  Index n, channels, first, elements;
  bool adagrad;
  float epsilon;
  const float *sums, *norm, *lr;
  const std::int32_t* ids;
  float *p, *s;
};

// As ir::Coding.
enum class Coding : int { kFp16, kBf16, kInt8, kTopK };
// As CodingShape; x and residual hold all parts consecutively. kDecodeSum has R payloads, kEncode
// one per part.
struct CodingArguments {
  Coding coding;
  Index count, parts, payload, values;  // values: their offset in a payload
  const float *x, *residual;
  float* y;  // the new residual, or the sum
  std::uint8_t* payloads;
};
inline constexpr unsigned kScaleGroup = 256;  // elements per scale; one block
// Selects the `kept` elements of t of largest magnitude by radix selection from the top bits. A
// block handles `range` elements of one part (y).
inline constexpr unsigned kTopKDigits = 2048;
struct TopKState {
  Index wanted;  // remaining elements among those with the prefix found so far
  std::uint32_t found;
};
struct TopKArguments {
  Index count, kept, payload, range;
  unsigned shift;
  float* t;
  std::uint8_t* payloads;
  TopKState* state;       // one per part
  std::uint32_t* counts;  // kTopKDigits per part, zero between runs
  // per block and part: the number of elements larger than and equal to the last one
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
// head sizes of the narrow and the wide kernels
inline constexpr int kNarrowHead = 64, kLargestHead = 128;

// The same on tensor cores (attention_tensor.cu). Operands have 16 bits and are stored per sample
// and head, token by token, padded with zeros to kNarrowHead or kLargestHead channels.
struct alignas(8) RowTerms {  // per row of scores: log2 of Σ exp, and Σ dy·y
  float sum, offset;
};
struct TensorAttentionArguments {
  Index samples, tokens, heads, head;
  bool causal;
  // pairs of elements of `out` (the first at an even index) are aligned to their size
  bool paired;
  float scale;
  const std::uint16_t *q, *k, *v, *dy;
  const RowTerms* terms;  // in the order of the operands' tokens
  void* out;
  float* lseOut;
  bool narrow;  // out is of the operands' type
};
// One row of qkv, or of dy, per block.
struct CastHeadsArguments {
  Index samples, tokens, heads, head;
  int pitch;  // elements per token
  // groups of eight elements of x (the first at a multiple of eight) are 16-byte aligned
  bool onSixteen;
  bool narrowX, narrowY;  // these are of the operands' type
  const void *x, *y;      // y, lse: only for dy
  const float* lse;
  std::uint16_t* to;
  RowTerms* terms;
};
inline constexpr unsigned kTensorThreads = 128;
inline constexpr int kTensorRows = 128, kTensorRowsWide = 64;  // queries or keys per block

struct OptimizerArguments {
  Index n;
  const float *p, *g, *first, *second, *norm, *lr, *t;
  float *pOut, *firstOut, *secondOut;
  float momentum, decay, epsilon;
  double beta1, beta2;
};

}  // namespace lockstep::backends::cuda
