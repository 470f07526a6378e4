// The op table: one row describes everything about an op except its kernel. A new op is one
// enumerator, one row in the list of its family (ops_elementwise.cc, …) and a kernel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/ir/graph.h"

namespace lockstep::ir {

// Where an op has the attributes axis and stride, its `first` (or `offset`) grows by stride × the
// rank's coordinate along that mesh axis, so that ranks that differ only in it share a body.
//
// B batch, N rows, I in, O out, C channels; Σ over samples. `f` is a float type, the same for all
// float operands and outputs of a node unless said otherwise. Attributes marked ? are optional with
// the given default, all others required. Numbers are of type double, the rest int64. kMatmul and
// the three of kConv2d accept two operands in bf16 or two in f16; they accumulate, add the bias and
// return f32. Inputs named in OpInfo::narrowInputs may be stored in bf16 or f16, whatever f is;
// with {stored? "bf16"|"f16"} output 0 is, if OpInfo::narrowOutput: rounded as by kCast. The
// arithmetic is that of f.
enum class Op : std::uint8_t {
  // Sources and sinks.
  // () {name, dtype, shape} -> any. Written by the trainer before every program run: x, label,
  // weight, lr, t, stop
  kInput,
  kState,   // () {state, dtype, shape} -> any. The named state before this program run
  kStore,   // (any) {state} -> (). The named state after this program run
  kResult,  // (f) {name} -> (). Read by the trainer after the program ran: "metrics", …
  // Initial values (rule: keyed by parameter name and seed).
  kFill,  // () {dtype, shape, value number} -> f
  // () {dtype, shape, key, kind, scale number, block?, pitch?, first? 0, axis?, stride?} -> f.
  // Element i, row-major, is number e = i of stream `key` (bits of a uint64); for a part of a
  // tensor e = ⌊i / block⌋·pitch + first + i mod block. "uniform":
  // scale·(2·randomUniform(key, e) − 1); "normal": scale·randomNormal(key, e). Computed in double,
  // then rounded
  kRandom,
  // Shape only: views in the plan, without kernels.
  kReshape,  // (any) {shape} -> any, same count
  // (f[N]) {offset, shape, axis?, stride?} -> f[shape]: a view into a flat group from element
  // offset, plus stride for each step of the rank's coordinate along mesh axis {axis}
  kFlatView,
  kFlatten,  // (f …) -> f[Σ counts]: the members concatenated into a flat group
  // Elementwise.
  // (any) {dtype, scale number} -> dtype, a float: x·scale, computed in the output's type and
  // rounded to nearest, ties to even; in f16, values from 65520 on become infinity
  kCast,
  kAdd,    // (f, f) same shape
  kScale,  // (f) {factor number}
  // (f): the operand. Reinterprets a partial sum as a rank-local value: from here on the ranks'
  // values differ (local SGD)
  kPartialToLocal,
  // (x, own f[1], total f[1]): x·own/total, 0 where total is 0. Where own is each rank's share of
  // total, the sum over ranks is the weighted mean of their x
  kScaleByRatio,
  // (x, before, norm f[1]) -> f: x, or before where norm is below 0, so that a skipped step leaves
  // a state unchanged
  kSelectIfFinite,
  // (sum f[N], x f[R·N]): sum + x₀ + x₁ + …, the parts of N added in order. Before partition x is
  // f[N], a partial sum of the ranks
  kOrderedSum,
  kRelu,      // (f): max(x, 0)
  kReluGrad,  // (dy, y) -> dx: dy where y > 0, else 0
  kGelu,      // (f), tanh form as in GPT-2
  kGeluGrad,  // (dy, x)
  kTanh,      // (f)
  kTanhGrad,  // (dy, y): dy·(1 − y²)
  // (x[…], key i32[B]) {salt, rate number, columns?, first? 0, axis?, stride?} -> f: x/(1 − rate)
  // or, with probability `rate`, 0: by randomUniform of stream (key of the sample, salt) at the
  // element's index in its sample. The first dimension is B samples of equal parts; for a part of
  // the last dimension `columns` is its full extent and first the first column
  kDropout,
  // Dense.
  // (a, b [, bias[O]]) {ta? 0, tb? 0, act? ""|"relu", tf32? 0} -> f[N×O]: act(op(a)·op(b) + bias);
  // op transposes: a is [N×K], [K×N] with ta; b is [K×O], [O×K] with tb. With tf32 a GPU may round
  // f32 operands to 10 fraction bits
  kMatmul,
  // (x[…×C], b[C] or b[P×C]): adds row i mod P of b to row i of x, counted over all dimensions but
  // the last; P divides the number of rows
  kBiasAdd,
  kConcat,   // (x1[N×C1], x2[N×C2], …) -> f[N×ΣC]: concatenated columns
  kColumns,  // (x[N×C]) {first, count} -> f[N×count]: columns first … first+count−1
  // (x[…×C]) {period? 1} -> f[C], or f[period×C] where period > 1: sums of the rows with equal
  // index mod period, the gradient of kBiasAdd
  kReduceRows,
  // Images, NHWC. `pad` zeros on each of the four sides; H' = ⌊(H + 2·pad − kh) / stride⌋ + 1.
  // (x[B×H×W×C], w[kh×kw×C×O] [, bias[O]]) {stride, pad, act? ""|"relu", tf32? 0} -> [B×H'×W'×O]:
  // cross-correlation (no flip), act(conv + bias). tf32 as in kMatmul
  kConv2d,
  kConv2dInputGrad,   // (dy, w) {stride, pad, shape of dx, tf32? 0} -> dx
  kConv2dWeightGrad,  // (x, dy) {stride, pad, shape of dw, tf32? 0} -> dw
  kMaxPool2d,         // (x) {size, stride} -> y; no padding, H' = ⌊(H − size) / stride⌋ + 1
  // (x, y, dy) {size, stride, act} -> dx; the first maximum in row-major order gets the gradient;
  // act "relu": only where it is above 0, for x after a relu
  kMaxPool2dGrad,
  kMeanPool2d,      // (x[B×H×W×C]) -> f[B×C]: the mean of each channel's pixels
  kMeanPool2dGrad,  // (dy[B×C]) {shape of dx} -> dx
  // Batch norm (Ioffe and Szegedy 2015) of x[B×…×C]. The B samples are G consecutive groups of B/G,
  // each with its own statistics over its samples and their pixels, weighted by w[B]; padding,
  // w = 0, does not count. G is the first extent of moments, means and variances. The moments of a
  // group are a row of n = Σw·pixels, Σw(x − shift), Σw(x − shift)²: sums, so that ranks add them;
  // they lose no precision where `shift`, equal on all ranks, is near the mean.
  kBatchMoments,  // (x, w[B], shift[C]) {shape [G×(1+2C)]} -> moments
  // (moments, shift) -> mean f[G×C], variance f[G×C] (biased), sums f[1+2C]: over groups
  // Σn, Σn·mean, Σn·variance (unbiased). For a group without samples: shift, 1, 0
  kBatchStatistics,
  // (x, gain[C], bias[C], mean, variance [, w, moments]) {eps number} ->
  // y = x̂·gain + bias, x̂ = (x − mean)/√(variance + eps). With w and moments the statistics are
  // those of x and gradients flow through them; without, they are constants
  kBatchNorm,
  // (dy, x, mean, variance) {eps number} -> dgain[C], dbias[C], sums f[G×2C]: for each group
  // Σdy·x̂, Σdy
  kBatchNormWeightGrad,
  kBatchNormGrad,      // (dy, x, w, gain, moments, mean, variance, sums) {eps number} ->
                       // dx = gain/√(variance + eps)·(dy − w/n·(Σdy + x̂·Σdy·x̂))
  kRunningStatistics,  // (mean[C], variance[C], sums[1+2C]) {momentum number} -> mean', variance':
                       // momentum·old + (1 − momentum)·sums/Σn; unchanged where Σn is 0
  // Sequences: N = B·T rows of C channels; the T tokens of a sample are consecutive.
  // (table f[V×C], ids i32[N]) {first? 0, local? 0, axis?, stride?} -> f[N×C]: row id − first, or
  // zeros where the table has no such row. Ids are in [0, V) of the whole table; with `local` 1
  // table and ids are split among the same ranks, and ids index the rows of that part
  kEmbedding,
  // (ids, dy) {shape of the table, first?, local?, axis?, stride?} -> dtable: the sums of dy's
  // rows by id
  kEmbeddingGrad,
  // (ids i32[N]) {cuts: P+1 ascending ids from 0, shape [M], M ≥ N} -> each i32[M], counts i32[P],
  // places i32[N]: distinct ids: counts[0] in [cuts[0], cuts[1]), and so on, in each part by first
  // occurrence; padded with −1. ids[i] is each[places[i]]. If the ids are split among ranks,
  // each part has an equal part of `each`
  kUnique,
  // (rows f[…], ids i32[N]) -> sums f[count], ids' i32[N], scratch i32[rowTable(N)]: rows of C
  // elements; the first row of an id has the sum of all rows of that id, in order; other rows, and
  // rows of id −1, get id −1 and an unspecified sum
  kCombineRows,
  // (x[N×C], gain[C], bias[C]) {eps number} -> y, mean f[N], rstd f[N]: over the channels,
  // with the biased variance (Ba et al. 2016)
  kLayerNorm,
  kLayerNormGrad,        // (dy, x, gain, mean, rstd) -> dx
  kLayerNormWeightGrad,  // (dy, x, mean, rstd) -> dgain[C], dbias[C]
  // (qkv[N×3·H·D]) {tokens, head (D), causal 0|1} -> y[N×H·D], lse f[N×H]: softmax(q·kᵀ/√D)·v
  // in each sample and head. The channels of qkv are q, k, v of head 0, then of head 1, …
  // lse is log Σ exp of a row's scores; no score matrix is stored (Dao et al. 2022).
  // {operand_dtype? ""|"bf16"|"f16"}: a GPU may round matmul operands to that type: q, k, v and
  // p = exp(q·kᵀ/√D − the running maximum of the row). Accumulation is f32: y is Σ p·v divided by
  // Σ p of the unrounded p; lse is of that Σ p. f16 overflow becomes infinity
  kAttention,
  // (dy, qkv, y, lse) {as kAttention} -> dqkv. With p = exp(q·kᵀ/√D − lse) and
  // ds = p·(dy·vᵀ − Σ dy·y): dq = ds·k/√D, dk = dsᵀ·q/√D, dv = pᵀ·dy. Operands may be rounded as
  // above, including dy, p and ds; ds is computed from the unrounded p and divided by √D
  // afterwards.
  // In f16 loss scaling keeps ds from underflow; on overflow the step is skipped
  kAttentionGrad,
  // (x[B]) {times} -> f[B·times]: each element `times` times. For data only: no gradient
  kRepeatRows,
  // Losses and metrics: weighted sums over samples. Labels are in [0, K), also in rows with w = 0.
  // (logits[B×K], label i32[B], w[B]) -> loss f[1], lse f[B]: Σ w·−log p_label, and of each row
  // log Σ exp: p = exp(logits − lse) is not stored
  kSoftmaxXent,
  // (logits, label, w, lse, dloss f[1]) -> dlogits: dloss·w·(p − [k = label])
  kSoftmaxXentGrad,
  // Vocabulary-parallel cross-entropy, where ranks hold different classes (Shoeybi et al.:
  // "Megatron-LM", 2019); k counts from the first of all classes. `m` only shifts: no gradient
  // flows
  // through it.
  kRowMax,  // (x[B×K]) -> f[B]: the largest of each row
  // (logits[B×K], label i32[B], m f[B]) {first? 0, axis?, stride?} -> s f[B]: Σ exp(x − m),
  // t f[B]: x_label − m, 0 where the label is not among these classes
  kXentTerms,
  kXentTermsGrad,  // (ds f[B], dt f[B], logits, label, m) {as kXentTerms} -> dlogits:
                   // ds·exp(x − m) + dt·[k = label]
  kXentLoss,       // (s f[B], t f[B], w[B]) -> f[1]: Σ w·(log s − t)
  kXentLossGrad,   // (s, w, dloss f[1]) -> ds: dloss·w/s, dt: −dloss·w
  kMseLoss,        // (y[B×K], target[B×K], w[B]) -> f[1]: Σ w·½‖y−t‖²
  kMseLossGrad,    // (y, target, w, dloss f[1]) -> dy: dloss·w·(y − t)
  // (logits[B×K], target[B×K] in [0, 1], w[B]) -> f[1]: Σ w·(log(1 + e^z) − t·z)
  kBinaryXent,
  kBinaryXentGrad,  // (logits, target, w, dloss f[1]) -> dlogits: dloss·w·(1/(1 + e^−z) − t)
  // (logits[B×1], target[B×1], w[B]) {bins} -> f[2·bins]: Σ w·t in bin ⌊bins/(1 + e^−z)⌋, 1 in the
  // last one; then Σ w·(1 − t) in `bins` more
  kScoreHistogram,
  kCountCorrect,  // (logits, label, w) -> f[1]: Σ w·[argmax = label]; the first maximum counts
  kSumAll,        // (f) -> f[1]
  // (x f[…] [, ids i32[N]]) -> f[1]: Σ x²; with ids, over the rows whose id is not −1
  kSumSquares,
  // (norm f[1], squares f[1] [, scale f[1]]) -> f[1]: norm·scale, the divisor of gradients summed
  // with a scaled loss; −1 where squares, their Σ x², is not finite
  kFiniteNorm,
  // (norm f[1], squares f[1]) {limit number} -> f[1]: norm · max(1, √squares / (norm·limit)), or
  // norm where it is not above 0: the divisor of summed gradients that limits the length of their
  // mean to `limit` (Pascanu et al. 2013)
  kClipNorm,
  // (scale, good, skipped, norm: each f[1]) {interval, factor, least, most: numbers} -> scale',
  // good', skipped': good counts the steps since the last change of the scale, skipped all skipped
  // steps. Norm below 0: max(scale/factor, least), 0, skipped + 1. Else good + 1, and where that is
  // `interval` min(scale·factor, most), 0 (Micikevicius et al.: "Mixed precision training", 2018)
  kLossScale,
  // Optimizers, elementwise over any shape; `norm` f[1] is Σ w: the gradient is ĝ = g / norm, 0
  // where norm is 0. Where norm is below 0 nothing changes.
  // (p, g, v, norm, lr f[1]) {momentum, weight_decay: numbers} -> p', v': v' = μv + ĝ + λp;
  // p' = p − lr·v'
  kSgd,
  // (p, g, s, norm, lr f[1]) {eps, weight_decay: numbers} -> p', s': with ĝ + λp as ĝ,
  // s' = s + ĝ²; p' = p − lr·ĝ/(√s' + ε) (Duchi et al. 2011)
  kAdagrad,
  // (p f[M], s f[M], sums f[N·C], ids i32[N], norm, lr f[1]) {eps number, first? 0, axis?, stride?}
  // -> p', s': sparse kAdagrad of a table with rows of C elements, of which p is the part from
  // element `first`: the gradient has rows `sums` of these ids, none for id −1, and is zero
  // elsewhere
  kAdagradRows,
  // (p f[M], v f[M], sums, ids, norm, lr) {first? 0, axis?, stride?} -> p', v': sparse kSgd without
  // momentum and decay, by rows as kAdagradRows; v' is the last gradient, of these rows only
  kSgdRows,
  // (p, g, m, v, norm, lr f[1], t f[1]) {beta1, beta2, eps, weight_decay: numbers} -> p', m', v'; t
  // counts from 1. m' = β₁m + (1−β₁)ĝ; v' = β₂v + (1−β₂)ĝ²; the decay is decoupled (AdamW):
  // p' = p − lr·((m'/(1−β₁ᵗ)) / (√(v'/(1−β₂ᵗ)) + ε) + λp)
  kAdam,
  // Gradient compression, inserted by the pass of that name. t = x + residual; a reader decodes an
  // approximation of t, and residual' = t − that (error feedback: Karimireddy et al. 2019, Lin et
  // al. 2018). A payload encodes t rounded to f32, whatever f is.
  // (x f[N], residual f[N]) {coding: a codingName, kept?, parts? 1} -> residual' f[N], payload
  // u8[P]: the equal parts in order, P = parts·payloadBytes(coding, N/parts, kept)
  kEncode,
  // (payloads u8[R·P]) {coding, kept?, dtype, shape [N]} -> f[N]: the sum of R payloads in order
  kDecodeSum,
  // Collectives, inserted only by partition, along mesh axis {axis}. They share the axis's order.
  // (f) {axis, op: "sum"|"max", algorithm?: an algorithmName, hosts?} -> f. The planner chooses
  // the algorithm; with "hierarchical", `hosts` are the cut-points of the axis into hosts
  kAllReduce,
  // (f[N]) {axis, cuts, size} -> f[size]: the slice of the sum at this rank's coordinate
  kReduceScatter,
  // (any[local]) {axis, cuts} -> any[cuts.back()]; before sharding, local is the full size
  kAllGather,
  // (any[N]) {axis, ranks} -> any[N]: exchanges part r of N/ranks elements with the rank at
  // coordinate r
  kAllToAll,
  kBroadcast,  // (f) {axis, root} -> f: from the rank at coordinate root
  // (f) {axis, peer} -> (): to the rank at coordinate peer; kPartner in a parameter-server session:
  // to the session's worker or server
  kSend,
  // () {axis, peer, dtype, shape} -> f: from that rank; between two ranks in send order
  kRecv,
  kMulticast,  // (f) {axis, count} -> (): to the ranks at coordinates 0 … count−1
  // () {axis, count, dtype, shape} -> sum f, scratch f: Σ of what these ranks send, in order
  kRecvSum,
  // Rows of tables that are row-sharded over servers (Li et al.: "Parameter server", 2014): their
  // number varies between runs up to a limit that memory is planned for. Before the graph is split
  // by stage, kPush is on the server with the part and kPull on the workers; then each becomes a
  // kSendRows and a kRecvRows.
  // (x any[N×…], counts i32[P]) {part, count, rows} -> y any[rows×…], counts' i32[count]: the rows
  // of this part from x of each of `count` workers, concatenated by worker
  kPush,
  // (each i32[N], counts i32[P], y0 f[M×C], counts0 i32[W], …) -> f[N×C]: a row for each of a
  // worker's unique ids, concatenated by part
  kPull,
  // (x any[N×…], counts i32[P]) {axis, peer, count, part? 0, parts? 1} -> (): x is P parts of
  // counts[i] rows each, concatenated; sends parts part, part+1, … to the ranks at coordinates
  // peer … peer+count−1, or to kPartner. Planned bytes are those of N rows if `parts` is 1, else of
  // N / parts, assuming equal parts
  kSendRows,
  // () {axis, peer, count, parts? 1, dtype, shape} -> x, counts i32[count]: the concatenated rows
  // from each of these ranks and their numbers; padded with −1 where x is i32
  kRecvRows,
  kCount_,  // NOLINT(readability-identifier-naming): no op
};
inline constexpr int kPartner = -1;
inline constexpr std::size_t kOpCount = static_cast<std::size_t>(Op::kCount_);

// All-reduce algorithms: the communicator's (kDirect), or composed of messages
// (plan/all_reduce.h).
enum class Algorithm : std::uint8_t { kDirect, kRing, kHalvingDoubling, kTree, kHierarchical };
inline constexpr std::array kAlgorithms{Algorithm::kDirect, Algorithm::kRing,
                                        Algorithm::kHalvingDoubling, Algorithm::kTree,
                                        Algorithm::kHierarchical};
std::string_view algorithmName(Algorithm algorithm);  // "direct", "ring", "halving-doubling", …
std::optional<Algorithm> algorithmFromName(std::string_view name);

// Codings of gradients. Finite values saturate at the largest 16-bit value; non-finite values stay
// non-finite.
enum class Coding : std::uint8_t {
  kFp16,
  kBf16,  // rounded to nearest, ties to even
  // all f32 scales first, one for each kScaledTogether elements, scale = largest/127; then
  // q = −127 … 127 for each element, which decodes to q·scale
  kInt8,
  // the `kept` f32 values of largest magnitude, ties by lowest index; then their u32 indices,
  // ascending. Other values decode to 0
  kTopK,
};
inline constexpr std::int64_t kScaledTogether = 256;
inline constexpr std::int64_t kMaxKeptFrom = std::int64_t{1} << 32;
std::string_view codingName(Coding coding);  // "fp16", "bf16", "int8", "top-k"
std::optional<Coding> codingFromName(std::string_view name);
std::int64_t payloadBytes(Coding coding, std::int64_t count, std::int64_t kept);

// The cost of one execution, before calibration.
struct OpCost {
  double flops = 0;        // multiply and add count as two
  std::int64_t bytes = 0;  // memory traffic: each operand read or written once
};

// Passed by autodiff to a gradient rule: emits nodes into the graph under construction.
class GradBuilder {
 public:
  virtual ~GradBuilder() = default;
  // Emits a node on the stage of the differentiated node, or of the producer of `beside`.
  virtual Result<ValueId> emit(Op op, std::string_view suffix, std::vector<ValueId> inputs,
                               Attrs attrs, ValueId beside = -1) = 0;
  // Returns whether the gradient of this input is needed; a rule emits nothing for others.
  virtual bool wants(ValueId value) const = 0;
  virtual const TensorType& type(ValueId value) const = 0;
};

enum class AttrKind : std::uint8_t { kInt, kNumber, kText, kList, kShape, kDType };
struct AttrInfo {
  std::string_view name;
  AttrKind kind;
  bool required = true;
};

// The result of a placement rule: the placements of the outputs; or, if `input` >= 0, the input
// that must be placed as `wanted` first.
struct Placing {
  std::vector<AxisPlacement> outputs;
  int input = -1;
  AxisPlacement wanted;
};

// For a sharded op: how attributes {axis, stride, …} tell the kernel where the rank's shard begins.
// The offset is linear in the rank's coordinate, so shards are equal.
struct PartOffset {
  enum class Unit : std::uint8_t {
    kNone,      // results do not depend on it
    kIndices,   // {stride}: indices of the split dimension
    kElements,  // {stride, block, pitch}: elements of the whole tensor, row-major
    kColumns,   // {stride, columns}: columns, of how many
    kView,      // {stride}: elements of a flat group
  };
  static constexpr int kAnyDim = -1, kLastDim = -2;
  Unit unit = Unit::kNone;
  int input = -1;     // the value whose split decides; -1: output 0
  int dim = kAnyDim;  // only a split of this dimension counts; kLastDim: unless it is the first
};

struct OpInfo {
  Op op;
  std::string_view name;     // as in text: "matmul"
  int minInputs, maxInputs;  // maxInputs < 0: any number
  int outputs = 1;
  // no kernel: the output shares the memory of input 0 (kFlatten: of the group)
  bool isView = false;
  bool isCollective = false;
  std::vector<AttrInfo> attrs{};  // others are rejected
  // Output i may share the memory of input inPlace[i]; -1, the default: none.
  std::vector<int> inPlace{};
  // Shape rule. Errors say what was expected.
  Result<std::vector<TensorType>> (*infer)(std::span<const TensorType> inputs, const Attrs& attrs);
  // Gradient rule: returns the gradient of each input, or -1 where it has none or is not wanted.
  // `outputGrads` are -1 for outputs that do not influence the loss. Input and weight gradients are
  // separate nodes, the weight's first. Null: not differentiable.
  Result<std::vector<ValueId>> (*gradient)(GradBuilder& build, const Node& node,
                                           std::span<const ValueId> outputGrads) = nullptr;
  // Placement rule along one axis, given the inputs' placements. Total: it accepts all inputs
  // replicated. Sources are replicated here; strategies place them. Collectives along one axis keep
  // the placements along the others.
  Placing (*place)(const Node& node, std::span<const AxisPlacement> inputs,
                   std::span<const TensorType> inputTypes, std::span<const TensorType> outputTypes);
  OpCost (*cost)(const Node& node, std::span<const TensorType> inputs,
                 std::span<const TensorType> outputs);
  // Leading inputs that are operands of a matrix product: autocast casts them, tf32 rounds them.
  int matmulOperands = 0;
  // Mixed precision. Bit i: input i may be stored in 16 bits.
  std::uint32_t narrowInputs = 0;
  bool narrowOutput = false;  // output 0 may be: attribute kStored
  // Autocast stores output 0 in the operands' type: an activation, or the gradient of one.
  enum class Stored : std::uint8_t {
    kWide,      // what is summed over many, or normalised: only a reader's cast is narrow
    kNarrow,    // linear layers, attention and what is computed element by element from these
    kAsInputs,  // narrow where all inputs are, as a sum of f32 and bf16 is f32
  };
  Stored stored = Stored::kWide;
  // Selective recomputation keeps the result instead of computing it again.
  bool costlyToRecompute = false;
  // Lays out, adds or exchanges values and computes nothing else.
  bool movesOnly = false;
  PartOffset partOffset{};
};

// Returns the entries of the hash table of kCombineRows: a power of two, at least twice the number
// of rows.
constexpr std::int64_t rowTable(std::int64_t rows) {
  std::int64_t entries = 2;
  while (entries < 2 * rows) entries *= 2;
  return entries;
}

const OpInfo& info(Op op);
// The attribute of an op whose output 0 is stored in 16 bits: "bf16" or "f16".
inline constexpr std::string_view kStored = "stored";
inline bool isNarrow(DType dtype) { return dtype == DType::kBf16 || dtype == DType::kF16; }
// Returns whether an input may be stored in 16 bits while the op computes in f32.
inline bool readsNarrow(Op op, std::size_t input) {
  return input < 32 && (info(op).narrowInputs >> input & 1u) != 0;
}
// Returns the types that the op computes with: inputs it may read in 16 bits are f32, or f64 where
// another is.
std::vector<TensorType> widened(Op op, std::span<const TensorType> inputs);
// Returns whether the output is a view of input 0: no copy is made.
inline bool viewsInput(Op op) { return info(op).isView && info(op).maxInputs == 1; }
// Returns the output types for these operands. Checks attributes against the op's row and converts
// integers to numbers where numbers are expected. Errors: kInvalidArgument.
Result<std::vector<TensorType>> inferTypes(Op op, std::span<const TensorType> inputs, Attrs& attrs);
// Returns whether a backend computes it: not for sources, sinks, views and collectives.
bool hasKernel(Op op);
std::optional<Op> opFromName(std::string_view name);

// Return an attribute, or the default. Precondition: the attribute has this type (verify).
std::int64_t intAttr(const Attrs& attrs, std::string_view key, std::int64_t fallback = 0);
double floatAttr(const Attrs& attrs, std::string_view key, double fallback = 0);
std::string_view textAttr(const Attrs& attrs, std::string_view key, std::string_view fallback = "");
std::vector<std::int64_t> listAttr(const Attrs& attrs, std::string_view key);

}  // namespace lockstep::ir
