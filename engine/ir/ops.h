// The op table: everything about an op that is not a kernel, one row each. A new op is one
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

// Where an op has the attributes axis and stride, its `first` (or `offset`) is larger by stride for
// each step of the rank's coordinate on that mesh axis: ranks that differ in it alone share a body.
//
// B batch, N rows, I in, O out, C channels; Σ over samples. `f` is a float type, the same for all
// float operands and outputs of a node unless said otherwise. Attributes marked ? may be absent,
// with the default given; all others must be there. Numbers are of type double, the rest int64.
// Products, kMatmul and the three of kConv2d, may have two factors in bf16 or two in f16: their
// sums, bias and result are then f32.
enum class Op : std::uint8_t {
  // Sources and sinks.
  // () {name, dtype, shape} -> any. Fed by the trainer before every play: x, label, weight, lr, t,
  // stop
  kInput,
  kState,   // () {state, dtype, shape} -> any. The named state as it was before this play
  kStore,   // (any) {state} -> (). The named state after this play
  kResult,  // (f) {name} -> (). Read by the trainer after the play: "metrics", …
  // Initial values (rule: keyed by parameter name and seed).
  kFill,  // () {dtype, shape, value number} -> f
  // () {dtype, shape, key, kind, scale number, block?, pitch?, first? 0, axis?, stride?} -> f.
  // Element i, row-major, is number e = i of stream `key` (bits of a uint64); of a part of a
  // tensor e = ⌊i / block⌋·pitch + first + i mod block. "uniform":
  // scale·(2·randomUniform(key, e) − 1); "normal": scale·randomNormal(key, e); computed in
  // double, then rounded
  kRandom,
  // Shape only: no kernel, the Plan makes them views.
  kReshape,  // (any) {shape} -> any, same count
  // (f[N]) {offset, shape, axis?, stride?} -> f[shape]: a view into a flat group, from element
  // offset, plus stride for each step of the rank's coordinate on mesh axis {axis}
  kSlice1,
  kPack,  // (f …) -> f[Σ counts]: members laid one after another in one flat group
  // Elementwise.
  // (any) {dtype, scale number} -> dtype, a float: x·scale, computed in the output's type; bf16 as
  // kBf16
  // rounds; f16 the nearest, ties to even, which from 65520 on is infinity
  kCast,
  kAdd,    // (f, f) same shape
  kScale,  // (f) {factor number}
  // (f): the operand. Of a sum over ranks each one's own part, taken for the whole: from here on
  // the ranks' values differ (local SGD)
  kOwn,
  // (x, own f[1], total f[1]): x·own/total, 0 where total is 0. Where own is each rank's part of
  // total, the sum over ranks is the weighted mean of their x
  kWeigh,
  // (x, before, norm f[1]) -> f: x, or before where norm is below 0: a state that a step which
  // updates nothing leaves as it was
  kUnlessSkipped,
  // (sum f[N], x f[R·N]): sum + x₀ + x₁ + …, parts of N added one after another. Before partition x
  // is
  // f[N], of which each rank has its part of a sum
  kAddRanks,
  kRelu,      // (f): max(x, 0)
  kReluGrad,  // (dy, y) -> dx: dy where y > 0, else 0
  kGelu,      // (f), tanh form as in GPT-2
  kGeluGrad,  // (dy, x)
  kTanh,      // (f)
  kTanhGrad,  // (dy, y): dy·(1 − y²)
  // (x[…], key i32[B]) {salt, rate number, columns?, first? 0, axis?, stride?} -> f: x/(1 − rate)
  // or, with probability `rate`, 0: by randomUniform of stream (key of the sample, salt) at the
  // element's index in its sample. The first dimension is B samples of equal parts; of a part of
  // the last dimension `columns` is the whole and first its first column
  kDropout,
  // Dense.
  // (a, b [, bias[O]]) {ta? 0, tb? 0, act? ""|"relu", tf32? 0} -> f[N×O]: act(op(a)·op(b) + bias),
  // where
  // op transposes: a is [N×K], [K×N] with ta; b is [K×O], [O×K] with tb. With tf32 a GPU may round
  // factors of f32 to 10 bits of fraction
  kMatmul,
  // (x[…×C], b[C] or b[P×C]): row i of x, counted over all but its last dimension, and row
  // i mod P of b; P divides the rows
  kBiasAdd,
  kConcat,   // (x1[N×C1], x2[N×C2], …) -> f[N×ΣC]: side by side
  kColumns,  // (x[N×C]) {first, count} -> f[N×count]: columns first … first+count−1
  // (x[…×C]) {period? 1} -> f[C], or f[period×C] where period > 1: the sums of the rows
  // that are equal mod period, the gradient of kBiasAdd
  kReduceRows,
  // Images, NHWC. `pad` zeros on each of the four sides; H' = ⌊(H + 2·pad − kh) / stride⌋ + 1.
  // (x[B×H×W×C], w[kh×kw×C×O] [, bias[O]]) {stride, pad, act? ""|"relu", tf32? 0} -> [B×H'×W'×O]:
  // cross-correlation (no flip), act(conv + bias). tf32 as of kMatmul
  kConv2d,
  kConv2dInputGrad,   // (dy, w) {stride, pad, shape of dx, tf32? 0} -> dx
  kConv2dWeightGrad,  // (x, dy) {stride, pad, shape of dw, tf32? 0} -> dw
  kMaxPool2d,         // (x) {size, stride} -> y; no padding, H' = ⌊(H − size) / stride⌋ + 1
  // (x, y, dy) {size, stride, act} -> dx; the first maximum in row-major order takes all; act
  // "relu": where it is above 0, x being what relu made
  kMaxPool2dGrad,
  kMeanPool2d,      // (x[B×H×W×C]) -> f[B×C]: the mean of each channel's pixels
  kMeanPool2dGrad,  // (dy[B×C]) {shape of dx} -> dx
  // Batch norm (Ioffe and Szegedy 2015) of x[B×…×C]. The B samples are G groups of B/G in a row,
  // each
  // with statistics of its own over its samples and their pixels, weighted by w[B]; padding, w = 0,
  // counts nothing. G is the first extent of moments, means and variances. A group's moments are a
  // row of n = Σw·pixels, Σw(x − shift), Σw(x − shift)²: sums, so that those of ranks add up; they
  // lose no digits where `shift`, the same on all ranks, is near the mean.
  kBatchMoments,  // (x, w[B], shift[C]) {shape [G×(1+2C)]} -> moments
  // (moments, shift) -> mean f[G×C], variance f[G×C] (biased), sums f[1+2C]: over groups
  // Σn, Σn·mean, Σn·variance (unbiased). Of a group without samples: shift, 1, 0
  kBatchStatistics,
  // (x, gain[C], bias[C], mean, variance [, w, moments]) {eps number} ->
  // y = x̂·gain + bias, x̂ = (x − mean)/√(variance + eps). With w and moments the
  // statistics are x's own, and gradients go through them; without there are none
  kBatchNorm,
  // (dy, x, mean, variance) {eps number} -> dgain[C], dbias[C], sums f[G×2C]: of each
  // group Σdy·x̂, Σdy
  kBatchNormWeightGrad,
  kBatchNormGrad,      // (dy, x, w, gain, moments, mean, variance, sums) {eps number} ->
                       // dx = gain/√(variance + eps)·(dy − w/n·(Σdy + x̂·Σdy·x̂))
  kRunningStatistics,  // (mean[C], variance[C], sums[1+2C]) {momentum number} -> mean', variance':
                       // momentum·old + (1 − momentum)·sums/Σn; unchanged where Σn is 0
  // Sequences: N = B·T rows of C channels, the T tokens of a sample one after another.
  // (table f[V×C], ids i32[N]) {first? 0, local? 0, axis?, stride?} -> f[N×C]: row id − first,
  // zeros where there is none. Ids are in [0, V) of the whole table; with `local` 1 table and
  // ids are split among the same ranks, and the ids of a part count the rows of that part
  kEmbedding,
  // (ids, dy) {shape of the table, first?, local?, axis?, stride?} -> dtable: the sums of dy's
  // rows by id
  kEmbeddingGrad,
  // (ids i32[N]) {cuts: P+1 ascending ids from 0, shape [M], M ≥ N} -> each i32[M], counts i32[P],
  // places i32[N]: every id once, counts[0] of them in [cuts[0], cuts[1]) first, and so on,
  // within a part in the order of their first places; then −1. ids[i] is each[places[i]].
  // Of parts of the ids however large each has an equal part of `each`
  kDistinct,
  // (rows f[…], ids i32[N]) -> sums f[count], ids' i32[N], scratch i32[rowTable(N)]: rows of C
  // elements; the first of an id has the sum of all of that id's, in their order; of the
  // others, and of id −1, the sum is unspecified and the id −1
  kCombineRows,
  // (x[N×C], gain[C], bias[C]) {eps number} -> y, mean f[N], rstd f[N]: over the channels,
  // the biased variance (Ba et al. 2016)
  kLayerNorm,
  kLayerNormGrad,        // (dy, x, gain, mean, rstd) -> dx
  kLayerNormWeightGrad,  // (dy, x, mean, rstd) -> dgain[C], dbias[C]
  // (qkv[N×3·H·D]) {tokens, head (D), causal 0|1} -> y[N×H·D], lse f[N×H]: softmax(q·kᵀ/√D)·v
  // in each sample and head. The channels of qkv are q, k, v of head 0, then of head 1, …
  // lse is log Σ exp of a row's scores: no score matrix is kept (Dao et al. 2022).
  // {factors? ""|"bf16"|"f16"}: a GPU may round the factors of its products to that type: q, k, v
  // and
  // p = exp(q·kᵀ/√D − the largest of a row so far). Sums are f32: y is Σ p·v, divided by Σ p of p
  // before it is rounded; lse is of that Σ p. What is beyond the largest of f16 becomes infinite
  kAttention,
  // (dy, qkv, y, lse) {as kAttention} -> dqkv. With p = exp(q·kᵀ/√D − lse) and
  // ds = p·(dy·vᵀ − Σ dy·y): dq = ds·k/√D, dk = dsᵀ·q/√D, dv = pᵀ·dy, where factors may be rounded
  // as
  // above, dy, p and ds too, ds made of p before it is and divided by √D after: in f16 the loss's
  // scale
  // keeps ds from being too small, and where it is too large the step updates nothing
  kAttentionGrad,
  // (x[B]) {times} -> f[B·times]: each element `times` times. Of data only: no gradient
  kRepeatRows,
  // Losses and metrics: sums over samples, weighted. Labels are in [0, K), also in rows with w = 0.
  // (logits[B×K], label i32[B], w[B]) -> loss f[1], probs f[B×K]: Σ w·−log p_label
  kSoftmaxXent,
  kSoftmaxXentGrad,  // (probs, label, w, dloss f[1]) -> dlogits: dloss·w·(p − [k = label])
  // The same where ranks hold different classes (Shoeybi et al.: "Megatron-LM", 2019); k counts
  // from the
  // first of all classes. `m` only shifts: no gradient goes through it.
  kRowMax,  // (x[B×K]) -> f[B]: the largest of each row
  // (logits[B×K], label i32[B], m f[B]) {first? 0, axis?, stride?} -> s f[B]: Σ exp(x − m),
  // t f[B]: x_label − m, 0 where the label is none of these classes
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
  // (logits[B×1], target[B×1], w[B]) {bins} -> f[2·bins]: Σ w·t in bin ⌊bins/(1 + e^−z)⌋, the
  // last for 1, and bins further Σ w·(1 − t)
  kScoreHistogram,
  kCountCorrect,  // (logits, label, w) -> f[1]: Σ w·[argmax = label]; the first maximum counts
  kSumAll,        // (f) -> f[1]
  // (x f[…] [, ids i32[N]]) -> f[1]: Σ x²; of N rows those whose id is not −1 alone
  kSumSquares,
  // (norm f[1], squares f[1] [, scale f[1]]) -> f[1]: norm·scale, what a sum of gradients of a
  // scaled loss is divided by; −1 where squares, Σ of theirs, is no finite number
  kFiniteNorm,
  // (norm f[1], squares f[1]) {limit number} -> f[1]: norm · max(1, √squares / (norm·limit)),
  // norm where that is not above 0: what the sum of gradients is divided by so that their mean
  // is at most `limit` long (Pascanu et al. 2013)
  kClipNorm,
  // (scale, good, skipped, norm: each f[1]) {interval, factor, least, most: numbers} -> scale',
  // good',
  // skipped': how many steps have updated since the scale changed, and how many ever have not.
  // Norm below 0: max(scale/factor, least), 0, skipped + 1. Else good + 1, and where that is
  // `interval` min(scale·factor, most), 0 (Micikevicius et al.: "Mixed precision training", 2018)
  kLossScale,
  // Optimizers, elementwise over any shape; `norm` f[1] is Σ w: the gradient used is ĝ = g / norm,
  // 0 where norm is 0. Where norm is below 0 nothing changes.
  // (p, g, v, norm, lr f[1]) {momentum, weight_decay: numbers} -> p', v': v' = μv + ĝ + λp; p' = p
  // − lr·v'
  kSgd,
  // (p, g, s, norm, lr f[1]) {eps, weight_decay: numbers} -> p', s': with ĝ + λp for ĝ
  // s' = s + ĝ²; p' = p − lr·ĝ/(√s' + ε) (Duchi et al. 2011)
  kAdagrad,
  // (p f[M], s f[M], sums f[N·C], ids i32[N], norm, lr f[1]) {eps number, first? 0, axis?, stride?}
  // -> p', s': kAdagrad of a table of rows of C elements, of which p is a part from element
  // `first`, where the gradient has rows `sums` of these ids, none for id −1, and is zero else
  kAdagradRows,
  // (p f[M], v f[M], sums, ids, norm, lr) {first? 0, axis?, stride?} -> p', v': kSgd without
  // momentum
  // and decay, by rows as kAdagradRows; v', which is the last gradient, of these rows alone
  kSgdRows,
  // (p, g, m, v, norm, lr f[1], t f[1]) {beta1, beta2, eps, weight_decay: numbers} -> p', m', v'; t
  // counts from 1.
  // m' = β₁m + (1−β₁)ĝ; v' = β₂v + (1−β₂)ĝ²; the decay is decoupled (AdamW):
  // p' = p − lr·((m'/(1−β₁ᵗ)) / (√(v'/(1−β₂ᵗ)) + ε) + λp)
  kAdam,
  // Gradient compression: inserted by the pass of that name. t = x + residual; what a reader
  // decodes of
  // the payload is near t, and residual' = t − that, so that nothing is lost but time (error
  // feedback:
  // Karimireddy et al. 2019, Lin et al. 2018). A payload is made of t rounded to f32, whatever f
  // is.
  // (x f[N], residual f[N]) {coding: a codingName, kept?, parts? 1} -> residual' f[N], payload
  // u8[P]:
  // of each of the equal parts one after another, P = parts·payloadBytes(coding, N/parts, kept)
  kEncode,
  // (payloads u8[R·P]) {coding, kept?, dtype, shape [N]} -> f[N]: the sum of R payloads in order
  kDecodeSum,
  // Collectives: inserted by partition only, along mesh axis {axis}. They share the axis's order.
  // (f) {axis, op: "sum"|"max", algorithm?: an algorithmName, hosts?} -> f. The planner
  // chooses; with "hierarchical", `hosts` are the cut-points of the axis into hosts
  kAllReduce,
  // (f[N]) {axis, cuts, size} -> f[size]: the sum's slice of this rank's coordinate
  kReduceScatter,
  // (any[local]) {axis, cuts} -> any[cuts.back()]; before localisation local is all of it
  kAllGather,
  // (any[N]) {axis, ranks} -> any[N]: part r of N/ranks elements goes to the rank at coordinate
  // r, and what that one has for this rank comes in its place
  kAllToAll,
  kBroadcast,  // (f) {axis, root} -> f: from the rank at coordinate root
  // (f) {axis, peer} -> (): to the rank at coordinate peer, or in a conversation kPartner: to
  // the rank the play is with
  kSend,
  // () {axis, peer, dtype, shape} -> f: from it; between two ranks in the order of sends
  kRecv,
  kSendAll,  // (f) {axis, count} -> (): to each of the ranks at coordinates 0 … count−1
  // () {axis, count, dtype, shape} -> sum f, scratch f: Σ of what each of them sends, in
  // this order
  kCollect,
  // Rows of tables that servers hold in parts, by rows (Li et al.: "Parameter server", 2014): as
  // many as a
  // play happens to need, at most as many as there is memory for. In a graph of all ranks kPush is
  // on the
  // server that has the part, kPull on the workers; cut, each is a kSendRows on one side and a
  // kRecvRows on
  // the other.
  // (x any[N×…], counts i32[P]) {part, count, rows} -> y any[rows×…], counts' i32[count]: of x of
  // each of `count` workers the rows of this part, one worker's after another's
  kPush,
  // (each i32[N], counts i32[P], y0 f[M×C], counts0 i32[W], …) -> f[N×C]: a row for each of a
  // worker's distinct ids, those of all parts one after another
  kPull,
  // (x any[N×…], counts i32[P]) {axis, peer, count, part? 0, parts? 1} -> (): of x, which is P
  // parts of counts[i] rows one after another, parts part, part+1, … to the ranks at
  // coordinates peer … peer+count−1, or to kPartner. Planned bytes are those of all N rows
  // where `parts` is 1, and of N / parts where so many ranks have equal parts of them
  kSendRows,
  // () {axis, peer, count, parts? 1, dtype, shape} -> x, counts i32[count]: what each of these
  // sends, one after another, and how many rows; behind them −1 where x is i32
  kRecvRows,
  kCount_,
};
inline constexpr int kPartner = -1;
inline constexpr std::size_t kOpCount = static_cast<std::size_t>(Op::kCount_);

// What an all-reduce is made of: the communicator's own, or messages (plan/all_reduce.h).
enum class Algorithm : std::uint8_t { kDirect, kRing, kHalvingDoubling, kTree, kHierarchical };
inline constexpr std::array kAlgorithms{Algorithm::kDirect, Algorithm::kRing,
                                        Algorithm::kHalvingDoubling, Algorithm::kTree,
                                        Algorithm::kHierarchical};
std::string_view algorithmName(Algorithm algorithm);  // "direct", "ring", "halving-doubling", …
std::optional<Algorithm> algorithmFromName(std::string_view name);

// How gradients are coded. A finite number beyond the largest of 16 bits becomes that one; what is
// not finite stays so.
enum class Coding : std::uint8_t {
  kFp16,
  kBf16,  // rounded to nearest, ties to even
  // an f32 scale for each kScaledTogether elements, all scales first; then q = −127 … 127
  // each, for q·scale, scale = largest/127
  kInt8,
  // `kept` values f32 of largest magnitude, of equal ones the first; then their indices u32,
  // ascending. The others are 0
  kTopK,
};
inline constexpr std::int64_t kScaledTogether = 256;
inline constexpr std::int64_t kMaxKeptFrom = std::int64_t{1} << 32;
std::string_view codingName(Coding coding);  // "fp16", "bf16", "int8", "top-k"
std::optional<Coding> codingFromName(std::string_view name);
std::int64_t payloadBytes(Coding coding, std::int64_t count, std::int64_t kept);

// What one execution costs, before calibration.
struct OpCost {
  double flops = 0;        // multiply and add count as two
  std::int64_t bytes = 0;  // read plus written, each operand once
};

// Given by autodiff to a gradient rule: emits nodes into the graph under construction.
class GradBuilder {
 public:
  virtual ~GradBuilder() = default;
  // On the stage of the node whose gradient it is, or of what makes `beside`.
  virtual Result<ValueId> emit(Op op, std::string_view suffix, std::vector<ValueId> inputs,
                               Attrs attrs, ValueId beside = -1) = 0;
  // Whether the gradient of this input is needed: a rule emits nothing for others.
  virtual bool wants(ValueId value) const = 0;
  virtual const TensorType& type(ValueId value) const = 0;
};

enum class AttrKind : std::uint8_t { kInt, kNumber, kText, kList, kShape, kDType };
struct AttrInfo {
  std::string_view name;
  AttrKind kind;
  bool required = true;
};

// A placement rule's answer: where the outputs live; or, where `input` is not negative, which input
// must live elsewhere first.
struct Placing {
  std::vector<AxisPlacement> outputs;
  int input = -1;
  AxisPlacement wanted;
};

struct OpInfo {
  Op op;
  std::string_view name;     // as in text: "matmul"
  int minInputs, maxInputs;  // maxInputs < 0: any number
  int outputs;
  // no kernel: the output is the memory of input 0 (kPack: of the group)
  bool isView;
  bool isCollective;
  std::vector<AttrInfo> attrs;  // all there are; others are refused
  // In-place: output i may share the memory of input inPlace[i]; -1 none.
  std::vector<int> inPlace;
  // Shape rule. Errors say what was expected.
  Result<std::vector<TensorType>> (*infer)(std::span<const TensorType> inputs, const Attrs& attrs);
  // Gradient rule: for each input the value of its gradient or -1 where it has none or is not
  // wanted. Of `outputGrads` those without influence on the loss are -1. Input and weight
  // gradients are separate nodes, the weight's first. Null: not differentiable.
  Result<std::vector<ValueId>> (*gradient)(GradBuilder& build, const Node& node,
                                           std::span<const ValueId> outputGrads);
  // Placement rule on one axis, given the inputs' placements there. Total: every input replicated
  // is always taken. Sources are replicated here: strategies place them. Collectives along one axis
  // work on each other axis's values as they lie there.
  Placing (*place)(const Node& node, std::span<const AxisPlacement> inputs,
                   std::span<const TensorType> inputTypes, std::span<const TensorType> outputTypes);
  OpCost (*cost)(const Node& node, std::span<const TensorType> inputs,
                 std::span<const TensorType> outputs);
};

// Entries of the hash table in which kCombineRows finds the rows of an id: a power of two, at least
// twice as many as there are rows.
constexpr std::int64_t rowTable(std::int64_t rows) {
  std::int64_t entries = 2;
  while (entries < 2 * rows) entries *= 2;
  return entries;
}

const OpInfo& info(Op op);
// The types of what an operation makes of such operands. Attributes are checked against its row,
// and integers given for numbers become numbers. Errors: kInvalidArgument.
Result<std::vector<TensorType>> inferTypes(Op op, std::span<const TensorType> inputs, Attrs& attrs);
// Whether a backend computes it: sources, sinks, views and collectives have no kernel.
bool hasKernel(Op op);
std::optional<Op> opFromName(std::string_view name);

// Attribute access with defaults; a wrong type is a broken invariant (verify has passed).
std::int64_t intAttr(const Attrs& attrs, std::string_view key, std::int64_t fallback = 0);
double floatAttr(const Attrs& attrs, std::string_view key, double fallback = 0);
std::string_view textAttr(const Attrs& attrs, std::string_view key, std::string_view fallback = "");
std::vector<std::int64_t> listAttr(const Attrs& attrs, std::string_view key);

}  // namespace lockstep::ir
