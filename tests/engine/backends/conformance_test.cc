// Every op with a kernel, on several shapes, on every backend, against the reference backend in
// f64. Operands are aligned to their elements only, outputs are poisoned before the run and fenced
// on both sides, and outputs that may lie on an input's memory are also tried there.
#include <QTest>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "engine/backends/backend.h"
#include "engine/backends/cpu/kernels.h"
#include "engine/backends/cuda.h"
#include "engine/backends/hosted.h"
#include "engine/backends/onednn.h"
#include "engine/base/clock.h"
#include "engine/base/random.h"
#include "tests/engine/backends/allocations.h"
#include "tests/support/emulated_device.h"
#include "tests/support/sanitizers.h"

using namespace lockstep;
using backends::Backend;
using ir::Op;

namespace {

// The largest error allowed in f32, relative to the largest magnitude of the output; sums over
// tens of thousands of elements are among the cases.
constexpr double kTolerance = 2e-5;
constexpr double kFence = 12345.0;

enum class Fill { kNormal, kFewValues, kPositive, kLabels, kIds, kBytes, kBound, kBelow, kInfinite, kBf16, kF16 };

struct Input {
  Shape shape;
  Fill fill = Fill::kNormal;
};

struct Case {
  std::string name;
  Op op;
  ir::Attrs attrs;
  std::vector<Input> inputs;
};

// The nearest number of 8 bits of fraction, ties to even.
std::uint16_t bf16Bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return 0x7fc0;
  if (std::isinf(x)) return static_cast<std::uint16_t>(bits >> 16);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<std::uint16_t>((rounded & 0x7f80) == 0x7f80 ? rounded - 1 : rounded);  // the largest
}
float ofBf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
// Of 11, with exponents from −14 to 15; what would need a larger one is infinite.
std::uint16_t f16Bits(float x) {
  const int sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return 0x7e00;
  const double size = std::abs(static_cast<double>(x));
  if (size >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  const int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));  // 1024 of them are the exponent's
  return static_cast<std::uint16_t>(sign | (size < 0x1p-14 ? steps : ((exponent + 14) << 10) + steps));
}
float ofF16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                    : std::ldexp(static_cast<float>(exponent > 0 ? 1024 + fraction : fraction),
                                                 std::max(exponent, 1) - 25);
  return std::copysign(size, (bits & 0x8000) != 0 ? -1.0f : 1.0f);
}
std::uint16_t narrowBits(DType type, float x) { return type == DType::kF16 ? f16Bits(x) : bf16Bits(x); }
float ofNarrow(DType type, std::uint16_t bits) { return type == DType::kF16 ? ofF16(bits) : ofBf16(bits); }

DType dtypeOf(Fill fill, DType compute) {
  if (fill == Fill::kBf16 && compute == DType::kF32) return DType::kBf16;
  if (fill == Fill::kF16 && compute == DType::kF32) return DType::kF16;
  return fill == Fill::kLabels || fill == Fill::kIds ? DType::kI32 : fill == Fill::kBytes ? DType::kU8 : compute;
}

// Values that f32 holds exactly, so that both precisions see the same.
double draw(Fill fill, std::uint64_t key, std::uint64_t i) {
  switch (fill) {
    case Fill::kNormal:
      return static_cast<float>(randomNormal(key, i));
    case Fill::kBf16:
      return ofBf16(bf16Bits(static_cast<float>(randomNormal(key, i))));
    case Fill::kF16:
      return ofF16(f16Bits(static_cast<float>(randomNormal(key, i))));
    case Fill::kFewValues:
      return std::floor(randomUniform(key, i) * 5) - 2;
    case Fill::kPositive:
      return static_cast<float>(0.5 + randomUniform(key, i));
    case Fill::kLabels:
      return std::floor(randomUniform(key, i) * 3);
    case Fill::kIds:
      return std::floor(randomUniform(key, i) * 3) - 1;
    case Fill::kBytes:
      return std::floor(randomUniform(key, i) * 256);
    case Fill::kBelow:
      return -1;
    case Fill::kInfinite:
      return INFINITY;
    case Fill::kBound:  // of the scores of positive operands
      return 16;
  }
  return 0;
}

// The first `count`, at least. Many tensors are filled with the same numbers.
const std::vector<double>& drawn(Fill fill, std::uint64_t key, std::int64_t count) {
  static std::map<std::pair<Fill, std::uint64_t>, std::vector<double>> all;
  std::vector<double>& numbers = all[{fill, key}];
  for (std::size_t i = numbers.size(); i < static_cast<std::size_t>(count); ++i) numbers.push_back(draw(fill, key, i));
  return numbers;
}

// `count` elements with a fence element on each side; the data start one element past an aligned
// address.
class Tensor {
 public:
  explicit Tensor(ir::TensorType type) : type_(std::move(type)) {
    bytes_.resize((static_cast<std::size_t>(type_.count()) + 2) * sizeOf(type_.dtype));
    set(-1, kFence);
    set(type_.count(), kFence);
  }
  double at(std::int64_t i) const {
    const std::byte* p = address(i);
    switch (type_.dtype) {
      case DType::kF32:
        return *reinterpret_cast<const float*>(p);
      case DType::kF64:
        return *reinterpret_cast<const double*>(p);
      case DType::kI32:
        return *reinterpret_cast<const std::int32_t*>(p);
      case DType::kBf16:
      case DType::kF16:
        return ofNarrow(type_.dtype, *reinterpret_cast<const std::uint16_t*>(p));
      default:
        return *reinterpret_cast<const std::uint8_t*>(p);
    }
  }
  void set(std::int64_t i, double value) {
    std::byte* p = const_cast<std::byte*>(address(i));
    switch (type_.dtype) {
      case DType::kF32:
        *reinterpret_cast<float*>(p) = static_cast<float>(value);
        break;
      case DType::kF64:
        *reinterpret_cast<double*>(p) = value;
        break;
      case DType::kI32:
        *reinterpret_cast<std::int32_t*>(p) = static_cast<std::int32_t>(value);
        break;
      case DType::kBf16:
      case DType::kF16:
        *reinterpret_cast<std::uint16_t*>(p) = narrowBits(type_.dtype, static_cast<float>(value));
        break;
      default:
        *reinterpret_cast<std::uint8_t*>(p) =
            static_cast<std::uint8_t>(static_cast<int>(value) & 255);
    }
  }
  bool fenced() const {
    const double fence = sizeOf(type_.dtype) == 2 ? ofNarrow(type_.dtype, narrowBits(type_.dtype, kFence)) : kFence;
    return !isFloat(type_.dtype) || (at(-1) == fence && at(type_.count()) == fence);
  }
  backends::Operand operand() { return {const_cast<std::byte*>(address(0)), type_}; }
  const ir::TensorType& type() const { return type_; }

 private:
  const std::byte* address(std::int64_t i) const {
    return bytes_.data() + (i + 1) * static_cast<std::int64_t>(sizeOf(type_.dtype));
  }
  ir::TensorType type_;
  std::vector<std::byte> bytes_;
};

struct Outcome {
  std::vector<Tensor> outputs;
  std::string problem;
  std::int64_t allocations = 0;  // of the last run
};

// Runs the case twice, so that a kernel that leaves something behind is found out.
Outcome play(Backend& backend, const Case& test, DType compute, bool inPlace) {
  Outcome outcome;
  ir::Attrs attrs = test.attrs;
  if (attrs.contains("dtype")) attrs["dtype"] = std::string(dtypeName(compute));
  std::vector<Tensor> inputs;
  std::vector<ir::TensorType> types;
  for (const Input& input : test.inputs) {
    types.push_back({dtypeOf(input.fill, compute), input.shape});
    inputs.emplace_back(types.back());
  }
  const ir::OpInfo& info = ir::info(test.op);
  auto inferred = info.infer(types, attrs);
  if (!inferred.ok()) return {{}, inferred.error().text()};
  for (const ir::TensorType& type : *inferred) outcome.outputs.emplace_back(type);

  backends::KernelSpec spec;
  spec.op = test.op;
  spec.name = test.name;
  spec.attrs = &attrs;
  for (Tensor& input : inputs) spec.inputs.push_back(input.operand());
  auto shared = [&](std::size_t i) { return inPlace ? info.inPlace[i] : -1; };
  for (std::size_t i = 0; i < outcome.outputs.size(); ++i)
    spec.outputs.push_back(shared(i) < 0 ? outcome.outputs[i].operand()
                                         : inputs[static_cast<std::size_t>(shared(i))].operand());
  auto kernel = backend.bind(spec);
  if (!kernel.ok()) return {{}, kernel.error().text()};
  for (int run = 0; run < 2; ++run) {
    for (Tensor& output : outcome.outputs)
      for (std::int64_t i = 0, count = output.type().count(); i < count; ++i)
        output.set(i, std::numeric_limits<double>::quiet_NaN());
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const std::int64_t count = inputs[k].type().count();
      const std::vector<double>& numbers = drawn(test.inputs[k].fill, 100 + k, count);
      for (std::int64_t i = 0; i < count; ++i) inputs[k].set(i, numbers[static_cast<std::size_t>(i)]);
    }
    const std::int64_t before = testing::allocations();
    (*kernel)->run();
    outcome.allocations = testing::allocations() - before;
  }
  for (std::size_t i = 0; i < outcome.outputs.size(); ++i)
    if (shared(i) >= 0) outcome.outputs[i] = inputs[static_cast<std::size_t>(shared(i))];
  for (const Tensor& output : outcome.outputs)
    if (!output.fenced()) outcome.problem = "wrote outside its output";
  for (const Tensor& input : inputs)
    if (!input.fenced()) outcome.problem = "wrote outside its output";
  return outcome;
}

std::string difference(const Outcome& want, const Outcome& got, double tolerance) {
  for (std::size_t k = 0; k < want.outputs.size(); ++k) {
    const Tensor &a = want.outputs[k], &b = got.outputs[k];
    double largest = 1e-30;
    for (std::int64_t i = 0; i < a.type().count(); ++i)
      largest = std::max(largest, std::abs(a.at(i)));
    for (std::int64_t i = 0; i < a.type().count(); ++i)
      if (!(std::abs(a.at(i) - b.at(i)) <= tolerance * largest))
        return fmt::format("output {} element {}: {} instead of {}, of at most {}", k, i, b.at(i),
                           a.at(i), largest);
  }
  return {};
}

ir::Attrs conv(std::int64_t stride, std::int64_t pad) {
  return {{"stride", stride}, {"pad", pad}};
}

void addConv(std::vector<Case>& cases, const std::string& name, Shape x, Shape w,
             std::int64_t stride, std::int64_t pad) {
  const Shape y{x[0], (x[1] + 2 * pad - w[0]) / stride + 1, (x[2] + 2 * pad - w[1]) / stride + 1,
                w[3]};
  ir::Attrs attrs = conv(stride, pad);
  cases.push_back({name, Op::kConv2d, attrs, {{x}, {w}}});
  ir::Attrs relu = attrs;
  relu["act"] = std::string("relu");
  cases.push_back({name + " bias relu", Op::kConv2d, relu, {{x}, {w}, {{w[3]}}}});
  cases.push_back({name + " bias", Op::kConv2d, attrs, {{x}, {w}, {{w[3]}}}});
  attrs["shape"] = x;
  cases.push_back({name, Op::kConv2dInputGrad, attrs, {{y}, {w}}});
  attrs["shape"] = w;
  cases.push_back({name, Op::kConv2dWeightGrad, attrs, {{x}, {y}}});
}

void addPool(std::vector<Case>& cases, const std::string& name, Shape x, std::int64_t size,
             std::int64_t stride) {
  const ir::Attrs attrs{{"size", size}, {"stride", stride}};
  for (Fill fill : {Fill::kNormal, Fill::kFewValues})
    cases.push_back({name, Op::kMaxPool2d, attrs, {{x, fill}}});
}

void addBatchNorm(std::vector<Case>& cases, const Shape& x, std::int64_t groups) {
  const std::string name = fmt::format("{} in {} groups", shapeText(x), groups);
  const std::int64_t c = x.back();
  const ir::Attrs eps{{"eps", 1e-3}};
  const Input samples{x}, w{{x[0]}, Fill::kPositive}, channels{{c}}, positive{{c}, Fill::kPositive};
  const Input mean{{groups, c}}, variance{{groups, c}, Fill::kPositive}, sums{{groups, 2 * c}};
  const Input moments{{groups, 1 + 2 * c}, Fill::kPositive};
  const Input total{{1 + 2 * c}, Fill::kPositive};
  cases.push_back({name, Op::kBatchMoments, {{"shape", moments.shape}}, {samples, w, channels}});
  cases.push_back({name, Op::kBatchStatistics, {}, {moments, channels}});
  cases.push_back({name, Op::kBatchNorm, eps, {samples, channels, channels, mean, variance}});
  cases.push_back(
      {name, Op::kBatchNorm, eps, {samples, channels, channels, mean, variance, w, moments}});
  cases.push_back({name, Op::kBatchNormWeightGrad, eps, {samples, samples, mean, variance}});
  cases.push_back({name, Op::kBatchNormGrad, eps,
                   {samples, samples, w, channels, moments, mean, variance, sums}});
  cases.push_back({name, Op::kRunningStatistics, {{"momentum", 0.9}}, {channels, positive, total}});
}

void addMatmul(std::vector<Case>& cases, std::int64_t n, std::int64_t k, std::int64_t o) {
  for (int form = 0; form < 6; ++form) {
    ir::Attrs attrs;
    const bool ta = form == 1 || form == 3, tb = form == 2 || form == 3;
    if (ta) attrs["ta"] = std::int64_t{1};
    if (tb) attrs["tb"] = std::int64_t{1};
    if (form == 5) attrs["act"] = std::string("relu");
    std::vector<Input> inputs{{ta ? Shape{k, n} : Shape{n, k}}, {tb ? Shape{o, k} : Shape{k, o}}};
    if (form >= 4) inputs.push_back({{o}});
    cases.push_back({fmt::format("{}x{}x{} form {}", n, k, o, form), Op::kMatmul, attrs, inputs});
  }
}

bool isProduct(Op op) {
  return op == Op::kMatmul || op == Op::kConv2d || op == Op::kConv2dInputGrad || op == Op::kConv2dWeightGrad;
}

std::vector<Case> allCases() {
  std::vector<Case> cases;
  const ir::Attrs floats{{"dtype", std::string("f32")}, {"scale", 1.0 / 255}};
  for (const std::int64_t n : {1, 7, 16, 33, 1000, 70001}) {
    const Shape s{n};
    cases.push_back({"bytes", Op::kCast, floats, {{s, Fill::kBytes}}});
    cases.push_back({"integers", Op::kCast, floats, {{s, Fill::kLabels}}});
    cases.push_back({"floats", Op::kCast, floats, {{s}}});
    cases.push_back({"scale", Op::kScale, {{"factor", -0.3}}, {{s}}});
    for (Op op : {Op::kRelu, Op::kGelu, Op::kTanh, Op::kSumAll, Op::kSumSquares})
      cases.push_back({fmt::format("{}", n), op, {}, {{s}}});
    for (Op op : {Op::kAdd, Op::kReluGrad, Op::kGeluGrad, Op::kTanhGrad})
      cases.push_back({fmt::format("{}", n), op, {}, {{s}, {s}}});
    cases.push_back({fmt::format("{}", n), Op::kOwn, {}, {{s}}});
    for (const std::int64_t ranks : {1, 3})
      cases.push_back({fmt::format("{} of {} ranks", n, ranks), Op::kAddRanks, {}, {{s}, {{ranks * n}}}});
    cases.push_back({fmt::format("{}", n), Op::kWeigh, {},
                     {{s}, {{1}, Fill::kPositive}, {{1}, Fill::kPositive}}});
    for (const Fill norm : {Fill::kPositive, Fill::kBelow})
      cases.push_back({fmt::format("{} norm {}", n, draw(norm, 0, 0)), Op::kUnlessSkipped, {},
                       {{s}, {s}, {{1}, norm}}});
    for (double momentum : {0.0, 0.9})
      cases.push_back({fmt::format("{} momentum {}", n, momentum),
                       Op::kSgd,
                       {{"momentum", momentum}, {"weight_decay", 0.01}},
                       {{s}, {s}, {s}, {{1}, Fill::kPositive}, {{1}, Fill::kPositive}}});
    for (double decay : {0.0, 0.1})
      cases.push_back({fmt::format("{} decay {}", n, decay),
                       Op::kAdagrad,
                       {{"eps", 1e-10}, {"weight_decay", decay}},
                       {{s}, {s}, {s, Fill::kPositive}, {{1}, Fill::kPositive},
                        {{1}, Fill::kPositive}}});
    for (double decay : {0.0, 0.1})
      cases.push_back({fmt::format("{} decay {}", n, decay),
                       Op::kAdam,
                       {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", decay}},
                       {{s},
                        {s},
                        {s},
                        {s, Fill::kPositive},
                        {{1}, Fill::kPositive},
                        {{1}, Fill::kPositive},
                        {{1}, Fill::kPositive}}});
    const ir::Attrs made{{"dtype", std::string("f32")}, {"shape", s}};
    ir::Attrs fill = made, uniform = made, normal = made;
    fill["value"] = 0.25;
    uniform["key"] = normal["key"] = std::int64_t{-77};
    uniform["scale"] = normal["scale"] = 0.05;
    uniform["kind"] = std::string("uniform");
    normal["kind"] = std::string("normal");
    cases.push_back({"fill", Op::kFill, fill, {}});
    cases.push_back({"uniform", Op::kRandom, uniform, {}});
    cases.push_back({"normal", Op::kRandom, normal, {}});
  }
  for (const std::int64_t batch : {1, 2, 21, 22, 32}) {
    addMatmul(cases, batch, 784, 128);
    addMatmul(cases, batch, 128, 10);
    addMatmul(cases, batch, 5, 1);
  }
  addMatmul(cases, 784, 21, 128);  // a weight gradient
  addMatmul(cases, 3, 700, 67);
  addMatmul(cases, 130, 515, 70);
  addMatmul(cases, 256, 300, 256);
  addMatmul(cases, 101, 803, 500);
  for (const Shape& x :
       {Shape{1, 1}, Shape{3, 10}, Shape{21, 32}, Shape{1000, 33}, Shape{1200, 100}, Shape{2, 5, 7, 32}}) {
    const Shape row{x.back()};
    cases.push_back({shapeText(x), Op::kBiasAdd, {}, {{x}, {row}}});
    cases.push_back({shapeText(x), Op::kReduceRows, {}, {{x}}});
  }
  cases.push_back({"periodic", Op::kBiasAdd, {}, {{{12, 33}}, {{4, 33}}}});
  cases.push_back({"periodic", Op::kReduceRows, {{"period", std::int64_t{4}}}, {{{12, 33}}}});
  for (const std::int64_t first : {0, 1}) {
    ir::Attrs attrs{{"first", first}};
    cases.push_back({fmt::format("from {}", first), Op::kEmbedding, attrs,
                     {{{3, 17}}, {{9}, Fill::kLabels}}});
    attrs["shape"] = Shape{3, 17};
    cases.push_back({fmt::format("from {}", first), Op::kEmbeddingGrad, attrs,
                     {{{9}, Fill::kLabels}, {{9, 17}}}});
  }
  cases.push_back({"side by side", Op::kConcat, {}, {{{5, 3}}, {{5, 1}}, {{5, 17}}}});
  cases.push_back({"in the middle", Op::kColumns,
                   {{"first", std::int64_t{2}}, {"count", std::int64_t{18}}}, {{{7, 33}}}});
  for (const double rate : {0.0, 0.1, 0.75}) {
    ir::Attrs attrs{{"salt", std::int64_t{-5}}, {"rate", rate}};
    cases.push_back({fmt::format("rate {}", rate), Op::kDropout, attrs,
                     {{{12, 7}}, {{4}, Fill::kLabels}}});
    attrs["columns"] = std::int64_t{20};
    attrs["first"] = std::int64_t{7};
    cases.push_back({fmt::format("part, rate {}", rate), Op::kDropout, attrs,
                     {{{12, 7}}, {{4}, Fill::kLabels}}});
  }
  for (const auto& [rows, channels] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {9, 17}, {40, 16}}) {
    const std::string name = fmt::format("{} rows of {}", rows, channels);
    const Input ids{{rows}, Fill::kLabels}, number{{1}, Fill::kPositive};
    cases.push_back({name, Op::kSumSquares, {}, {{{rows, channels}}, {{rows}, Fill::kIds}}});
    cases.push_back({name, Op::kCombineRows, {}, {{{rows, channels}}, ids}});
    for (const std::vector<std::int64_t>& cuts : {std::vector<std::int64_t>{0, 3}, {0, 1, 2, 3}})
      cases.push_back({fmt::format("{} ids of {} parts", rows, cuts.size() - 1), Op::kDistinct,
                       {{"cuts", cuts}, {"shape", Shape{rows + std::ssize(cuts) % 3}}}, {ids}});
    for (const std::int64_t first : {std::int64_t{0}, channels / 2}) {
      const Input table{{2 * channels}}, sums{{2 * channels}, Fill::kPositive};
      cases.push_back({fmt::format("{} from {}", name, first), Op::kAdagradRows,
                       {{"eps", 1e-10}, {"first", first}},
                       {table, sums, {{rows * channels}}, ids, number, number}});
      cases.push_back({fmt::format("{} from {}", name, first), Op::kSgdRows, {{"first", first}},
                       {table, sums, {{rows * channels}}, ids, number, number}});
    }
  }
  for (const double limit : {0.1, 1000.0})
    for (const Fill norm : {Fill::kPositive, Fill::kBelow})
      cases.push_back({fmt::format("limit {} norm {}", limit, draw(norm, 0, 0)), Op::kClipNorm, {{"limit", limit}},
                       {{{1}, norm}, {{1}, Fill::kPositive}}});
  const Input number{{1}, Fill::kPositive};
  for (const Fill squares : {Fill::kPositive, Fill::kInfinite}) {
    cases.push_back({fmt::format("squares {}", draw(squares, 0, 0)), Op::kFiniteNorm, {}, {number, {{1}, squares}}});
    cases.push_back({fmt::format("scaled, squares {}", draw(squares, 0, 0)), Op::kFiniteNorm, {},
                     {number, {{1}, squares}, number}});
  }
  for (const Fill norm : {Fill::kPositive, Fill::kBelow})
    for (const double interval : {1.0, 4.0})
      for (const double limit : {0.0, 1.0})
        cases.push_back({fmt::format("norm {} interval {} limit {}", draw(norm, 0, 0), interval, limit), Op::kLossScale,
                         {{"interval", interval}, {"factor", 2.0}, {"least", limit}, {"most", limit > 0 ? limit : 8.0}},
                         {number, number, number, {{1}, norm}}});
  cases.push_back({"text", Op::kRepeatRows, {{"times", std::int64_t{5}}}, {{{7}}}});
  for (const Shape& x : {Shape{1, 1}, Shape{6, 33}, Shape{70, 128}, Shape{501, 138}}) {
    const Input rows{{x[0]}, Fill::kPositive}, channels{{x[1]}};
    cases.push_back({shapeText(x), Op::kLayerNorm, {{"eps", 1e-5}}, {{x}, channels, channels}});
    cases.push_back({shapeText(x), Op::kLayerNormGrad, {}, {{x}, {x}, channels, rows, rows}});
    cases.push_back({shapeText(x), Op::kLayerNormWeightGrad, {}, {{x}, {x}, rows, rows}});
  }
  for (const std::int64_t causal : {0, 1})
    for (const auto& [tokens, heads, head] :
         {std::array<std::int64_t, 3>{1, 1, 1}, {7, 3, 5}, {64, 2, 32}, {299, 1, 20}}) {
      const ir::Attrs attrs{{"tokens", tokens}, {"head", head}, {"causal", causal}};
      const std::int64_t rows = 2 * tokens, width = heads * head;
      const std::string name = fmt::format("{} tokens causal {}", tokens, causal);
      cases.push_back({name, Op::kAttention, attrs, {{{rows, 3 * width}}}});
      // lse above every score, as softmax makes it: exp(score − lse) stays below 1.
      cases.push_back({name, Op::kAttentionGrad, attrs,
                       {{{rows, width}}, {{rows, 3 * width}, Fill::kPositive}, {{rows, width}},
                        {{rows, heads}, Fill::kBound}}});
    }
  cases.push_back({"many rows", Op::kReduceRows, {}, {{{20000, 32}}}});
  const Input many{{20000, 33}}, each{{20000}, Fill::kPositive};
  cases.push_back({"many rows", Op::kLayerNormWeightGrad, {}, {many, many, each, each}});
  for (const std::int64_t batch : {1, 21, 22})
    addConv(cases, fmt::format("fashion {}", batch), {batch, 28, 28, 1}, {3, 3, 1, 32}, 1, 0);
  addConv(cases, "channels", {5, 14, 13, 16}, {3, 3, 16, 144}, 1, 1);
  addConv(cases, "same", {2, 9, 7, 1}, {3, 3, 1, 20}, 1, 1);
  addConv(cases, "stride", {3, 11, 8, 3}, {3, 2, 3, 5}, 2, 0);
  addConv(cases, "stride and pad", {2, 10, 12, 4}, {5, 5, 4, 16}, 3, 2);
  addConv(cases, "one tap", {2, 6, 6, 3}, {1, 1, 3, 40}, 1, 0);
  addConv(cases, "deep", {2, 8, 9, 16}, {3, 3, 16, 32}, 1, 1);
  addConv(cases, "deep without padding", {2, 7, 9, 16}, {3, 3, 16, 20}, 1, 0);
  addConv(cases, "one deep tap", {2, 5, 5, 24}, {1, 1, 24, 16}, 1, 0);
  addConv(cases, "one deep tap in a stride", {2, 6, 7, 16}, {1, 1, 16, 32}, 2, 0);
  addConv(cases, "deep stride", {2, 9, 9, 32}, {3, 3, 32, 17}, 2, 1);
  addPool(cases, "fashion", {6, 26, 26, 32}, 2, 2);
  addPool(cases, "uneven", {2, 7, 9, 5}, 2, 2);
  addPool(cases, "overlapping", {2, 9, 8, 20}, 3, 2);
  addPool(cases, "gaps", {1, 9, 9, 33}, 2, 3);
  for (const Shape& x : {Shape{1, 1, 1, 1}, Shape{3, 5, 4, 33}, Shape{32, 7, 7, 16}, Shape{32, 14, 14, 33}}) {
    const Shape pooled{x[0], x[3]};
    cases.push_back({shapeText(x), Op::kMeanPool2d, {}, {{x}}});
    cases.push_back({shapeText(x), Op::kMeanPool2dGrad, {{"shape", x}}, {{pooled}}});
  }
  addBatchNorm(cases, {1, 1}, 1);
  addBatchNorm(cases, {32, 14, 14, 40}, 1);
  addBatchNorm(cases, {6, 5, 3, 33}, 1);
  addBatchNorm(cases, {6, 5, 3, 33}, 3);
  addBatchNorm(cases, {64, 14, 14, 16}, 1);
  addBatchNorm(cases, {8, 7}, 2);
  for (const auto& [batch, classes] :
       {std::pair<std::int64_t, std::int64_t>{1, 10}, {21, 10}, {22, 3}, {64, 257}}) {
    const Shape s{batch, classes}, column{batch};
    const std::string name = shapeText(s);
    for (Fill fill : {Fill::kNormal, Fill::kFewValues}) {
      cases.push_back({name,
                       Op::kSoftmaxXent,
                       {},
                       {{s, fill}, {column, Fill::kLabels}, {column, Fill::kPositive}}});
      cases.push_back({name,
                       Op::kCountCorrect,
                       {},
                       {{s, fill}, {column, Fill::kLabels}, {column, Fill::kPositive}}});
    }
    cases.push_back({name,
                     Op::kSoftmaxXentGrad,
                     {},
                     {{s, Fill::kPositive},
                      {column, Fill::kLabels},
                      {column, Fill::kPositive},
                      {{1}, Fill::kPositive}}});
    const Input weights{column, Fill::kPositive}, one{{1}, Fill::kPositive};
    const Input numbers{column};
    const Input labels{column, Fill::kLabels};
    const Input positive{column, Fill::kPositive};
    cases.push_back({name, Op::kRowMax, {}, {{s}}});
    cases.push_back({name, Op::kXentLoss, {}, {positive, numbers, positive}});
    cases.push_back({name, Op::kXentLossGrad, {}, {positive, positive, {{1}, Fill::kPositive}}});
    for (const std::int64_t first : {0, 1}) {
      const ir::Attrs from{{"first", first}};
      cases.push_back({name, Op::kXentTerms, from, {{s}, labels, numbers}});
      cases.push_back({name, Op::kXentTermsGrad, from, {numbers, numbers, {s}, labels, numbers}});
    }
    cases.push_back({name, Op::kBinaryXent, {}, {{s}, {s, Fill::kFewValues}, weights}});
    cases.push_back({name, Op::kBinaryXentGrad, {}, {{s}, {s, Fill::kFewValues}, weights, one}});
    cases.push_back({name, Op::kScoreHistogram, {{"bins", std::int64_t{20}}},
                     {{{batch, 1}}, {{batch, 1}, Fill::kFewValues}, weights}});
    cases.push_back({name, Op::kMseLoss, {}, {{s}, {s}, {column, Fill::kPositive}}});
    cases.push_back({name,
                     Op::kMseLossGrad,
                     {},
                     {{s}, {s}, {column, Fill::kPositive}, {{1}, Fill::kPositive}}});
  }
  for (const char* coding : {"fp16", "bf16", "int8", "top-k"})
    for (const std::int64_t n : {1, 255, 600, 5000}) {
      ir::Attrs attrs{{"coding", std::string(coding)}};
      if (coding == std::string_view("top-k")) attrs["kept"] = (n + 29) / 30;
      if (n % 3 == 0) attrs["parts"] = std::int64_t{3};
      cases.push_back({fmt::format("{} of {}", coding, n), Op::kEncode, std::move(attrs),
                       {{{n}, Fill::kFewValues}, {{n}, Fill::kFewValues}}});
    }
  for (std::size_t i = 0, all = cases.size(); i < all; ++i) {
    if (!isProduct(cases[i].op)) continue;
    for (const auto& [name, fill] : {std::pair{" of bf16", Fill::kBf16}, {" of f16", Fill::kF16}}) {
      Case narrow = cases[i];
      narrow.name += name;
      narrow.inputs[0].fill = narrow.inputs[1].fill = fill;
      cases.push_back(std::move(narrow));
    }
  }
  for (std::size_t i = 0, all = cases.size(); i < all; ++i) {
    const Op op = cases[i].op;
    const bool rows = op == Op::kAdagradRows || op == Op::kSgdRows;
    if (!rows && op != Op::kSgd && op != Op::kAdagrad && op != Op::kAdam) continue;
    Case skipped = cases[i];
    skipped.name += ", skipped";
    skipped.inputs[rows || op == Op::kAdam ? 4 : 3].fill = Fill::kBelow;
    cases.push_back(std::move(skipped));
  }
  return cases;
}

struct Named {
  std::string name;
  std::unique_ptr<Backend> backend;
  bool emulated = false;
};

// Those that have these ops in f32 and whose device is here; "onednn" once for every instruction set of this machine,
// and with two threads; "cuda" also as its kernels are played on the host.
std::vector<Named> computing(std::initializer_list<Op> ops = {}) {
  std::vector<Named> all;
  for (const std::string& name : backends::backendNames()) {
    auto backend = backends::makeBackend(name, {});
    if (name == "timed" || (name == "cuda" && !backend.ok())) continue;
    all.push_back({name, backends::hosted(std::move(backend).value())});
  }
  if (!test::kSanitized)  // its threads have stacks of their own, which sanitizers do not follow
    all.push_back({"cuda on the host", backends::hosted(backends::makeCuda(testing::makeEmulatedDevice())), true});
  for (const auto* kernels : backends::cpu::kAll)
    if (backends::cpu::runnable(*kernels))
      all.push_back(
          {fmt::format("onednn {}", kernels->isa), backends::makeOneDnn({}, *kernels).value()});
  all.push_back({"onednn 2 threads", backends::makeBackend("onednn", {2}).value()});
  all.push_back({"onednn 4 threads", backends::makeBackend("onednn", {4}).value()});
  for (const Op op : ops)
    std::erase_if(all, [op](const Named& one) { return !one.backend->supports(op, DType::kF32); });
  return all;
}

struct Coded {
  std::vector<std::uint8_t> payloads;
  std::vector<float> sum;
  std::string problem;
};

// Ranks 0, 1 and 2 code two steps' gradients; the payloads and their sum are those of the second.
Coded codeAndAdd(Backend& backend, const char* coding, std::int64_t n) {
  constexpr int kRanks = 3;
  const auto size = static_cast<std::size_t>(n);
  const ir::TensorType type{DType::kF32, {n}};
  ir::Attrs attrs{{"coding", std::string(coding)}};
  const std::int64_t kept = std::max<std::int64_t>(1, n / 50);
  if (coding == std::string_view("top-k")) attrs["kept"] = kept;
  const std::int64_t bytes = ir::payloadBytes(*ir::codingFromName(coding), n, kept);
  Coded coded{std::vector<std::uint8_t>(static_cast<std::size_t>(kRanks * bytes)), std::vector<float>(size), ""};
  std::vector<double> whole(size, 0), left(size, 0), magnitude(size, 1e-30);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<float> x(size), residual(size, 0.0f);
    const ir::TensorType payload{DType::kU8, {bytes}};
    auto kernel = backend.bind(
        {Op::kEncode, "encode", &attrs, {{x.data(), type}, {residual.data(), type}},
         {{residual.data(), type}, {coded.payloads.data() + rank * bytes, payload}}});
    if (!kernel.ok()) return {{}, {}, kernel.error().text()};
    for (int step = 0; step < 2; ++step) {
      for (std::size_t i = 0; i < size; ++i) {
        // Of all magnitudes, some too large or too small for sixteen bits.
        const double scale = std::ldexp(1.0, static_cast<int>(i % 61) - 40);
        x[i] = static_cast<float>(randomNormal(static_cast<std::uint64_t>(5 * rank + step), i) * scale);
      }
      if (step == 1)
        for (std::size_t i = 0; i < size; ++i) whole[i] += static_cast<double>(x[i] + residual[i]);
      (*kernel)->run();
    }
    for (std::size_t i = 0; i < size; ++i) {
      left[i] += static_cast<double>(residual[i]);
      // What it sent may be more than it had: of small numbers beside large ones with one scale.
      magnitude[i] += std::abs(static_cast<double>(x[i])) + 2 * std::abs(static_cast<double>(residual[i]));
    }
  }
  ir::Attrs decode = attrs;
  decode["dtype"] = std::string("f32");
  decode["shape"] = Shape{n};
  auto kernel = backend.bind({Op::kDecodeSum, "decode", &decode,
                              {{coded.payloads.data(), {DType::kU8, {kRanks * bytes}}}},
                              {{coded.sum.data(), type}}});
  if (!kernel.ok()) return {{}, {}, kernel.error().text()};
  (*kernel)->run();
  for (std::size_t i = 0; i < size; ++i) {
    const double error = std::abs(static_cast<double>(coded.sum[i]) + left[i] - whole[i]);
    if (error > 1e-6 * magnitude[i])
      coded.problem = fmt::format("at {}: {} sent and {} left of {}", i, coded.sum[i], left[i], whole[i]);
  }
  return coded;
}

}  // namespace

class ConformanceTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void everyOpHasACase() {
    std::set<Op> covered{Op::kMaxPool2dGrad, Op::kDecodeSum};
    for (const Case& test : allCases()) covered.insert(test.op);
    auto reference = backends::makeBackend("reference", {}).value();
    for (std::size_t i = 0; i < ir::kOpCount; ++i) {
      const Op op = static_cast<Op>(i);
      if (reference->supports(op, DType::kF64))
        QVERIFY2(covered.contains(op), std::string(ir::info(op).name).c_str());
    }
  }

  // Says why the row of "cuda" is not among those that all tests here go through.
  void hasAGpu() {
    const auto cuda = backends::makeBackend("cuda", {});
    if (!cuda.ok()) QSKIP(("not on a GPU: " + cuda.error().text()).c_str());
  }

  void agreesWithReference() {
    auto reference = backends::makeBackend("reference", {}).value();
    const std::vector<Named> others = computing();
    for (const Case& test : allCases()) {
      const Outcome want = play(*reference, test, DType::kF64, false);
      const std::string label = fmt::format("{} ({})", ir::info(test.op).name, test.name);
      QVERIFY2(want.problem.empty(), (label + ": " + want.problem).c_str());
      const std::vector<int>& places = ir::info(test.op).inPlace;
      const bool canShare = std::any_of(places.begin(), places.end(), [](int i) { return i >= 0; });
      if (canShare) {
        const std::string text = difference(want, play(*reference, test, DType::kF64, true), 0);
        QVERIFY2(text.empty(), (label + " in place, f64: " + text).c_str());
      }
      for (const Named& other : others) {
        if (!other.backend->supports(test.op, DType::kF32)) continue;
        for (bool inPlace : {false, true}) {
          if (inPlace && !canShare) continue;
          const Outcome got = play(*other.backend, test, DType::kF32, inPlace);
          std::string text = got.problem.empty() ? difference(want, got, kTolerance) : got.problem;
          if (text.empty() && got.allocations > 0 && !other.emulated)
            text = fmt::format("{} allocations in a run", got.allocations);
          QVERIFY2(text.empty(), fmt::format("{} on {}{}: {}", label, other.name,
                                             inPlace ? " in place" : "", text)
                                     .c_str());
        }
      }
    }
  }

  void sameBitsOnAnyThreads() {
    auto one = backends::makeBackend("onednn", {1}).value(), three = backends::makeBackend("onednn", {3}).value();
    for (const Case& test : allCases()) {
      const Outcome want = play(*one, test, DType::kF32, false), got = play(*three, test, DType::kF32, false);
      const std::string text = got.problem.empty() ? difference(want, got, 0) : got.problem;
      QVERIFY2(text.empty(), fmt::format("{} ({}): {}", ir::info(test.op).name, test.name, text).c_str());
    }
  }

  // Where there is an instruction for it, and where it is written out.
  void productsOfBf16AsTheyArePacked() {
    for (const auto* kernels : backends::cpu::kAll) {
      if (!backends::cpu::runnable(*kernels)) continue;
      for (const auto& [n, k, o] : {std::array<std::int64_t, 3>{1, 1, 1}, {3, 7, 5}, {13, 257, 33}, {97, 64, 70},
                                    {5, 511, 1025}, {193, 300, 31}, {12, 512, 32}, {35, 2065, 530}, {17, 1025, 16}})
        for (const bool ta : {false, true})
          for (const bool tb : {false, true})
            for (const bool rectified : {false, true}) {
              std::vector<std::uint16_t> a(static_cast<std::size_t>(n * k)), b(static_cast<std::size_t>(k * o));
              std::vector<float> bias(static_cast<std::size_t>(o)), c(static_cast<std::size_t>(n * (o + 1)), 7.0f);
              for (std::size_t i = 0; i < a.size(); ++i) a[i] = bf16Bits(static_cast<float>(randomNormal(1, i)));
              for (std::size_t i = 0; i < b.size(); ++i) b[i] = bf16Bits(static_cast<float>(randomNormal(2, i)));
              for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(randomNormal(3, i));
              const backends::cpu::Gemm16 g{n, k, o, a.data(), ta ? 1 : k, ta ? n : 1, b.data(), tb ? 1 : o, tb ? k : 1,
                                            c.data(), o + 1, rectified ? bias.data() : nullptr, rectified};
              kernels->gemm16(g);
              for (std::int64_t i = 0; i < n; ++i) {
                for (std::int64_t j = 0; j < o; ++j) {
                  double sum = rectified ? static_cast<double>(bias[static_cast<std::size_t>(j)]) : 0, size = 1;
                  for (std::int64_t at = 0; at < k; ++at) {
                    const double product = static_cast<double>(ofBf16(a[static_cast<std::size_t>(i * g.aRow + at * g.aK)])) *
                                           static_cast<double>(ofBf16(b[static_cast<std::size_t>(at * g.bK + j * g.bColumn)]));
                    sum += product;
                    size += std::abs(product);
                  }
                  const double got = static_cast<double>(c[static_cast<std::size_t>(i * (o + 1) + j)]);
                  QVERIFY2(std::abs((rectified ? std::max(sum, 0.0) : sum) - got) <= 1e-5 * size,
                           fmt::format("{} {}x{}x{} ({}, {}): {} instead of {}", kernels->isa, n, k, o, i, j, got, sum).c_str());
                }
                QCOMPARE(c[static_cast<std::size_t>(i * (o + 1) + o)], 7.0f);
              }
            }
    }
  }

  // The same bits by every instruction set, on any number of threads, and by plain loops: ranks that make their own
  // initial weights have the same.
  void randomNumbersAreTheSameEverywhere() {
    for (const char* kind : {"normal", "uniform"})
      for (const std::int64_t n : {1, 7, 8, 1000, 100'003})
        for (const std::int64_t block : {n, std::int64_t{5}}) {
          ir::Attrs attrs{{"kind", std::string(kind)}, {"key", std::int64_t{-77}}, {"scale", 0.05}};
          if (block != n) {
            attrs["block"] = block;
            attrs["pitch"] = std::int64_t{12};
            attrs["first"] = std::int64_t{3};
          }
          for (const Named& each : computing()) {
            std::vector<float> y(static_cast<std::size_t>(n + 1), 7.0f);
            each.backend->bind({Op::kRandom, "random", &attrs, {}, {{y.data(), {DType::kF32, {n}}}}}).value()->run();
            QCOMPARE(y.back(), 7.0f);
            for (std::int64_t i = 0; i < n; ++i) {
              const auto at = static_cast<std::uint64_t>(block != n ? i / block * 12 + 3 + i % block : i);
              const auto key = static_cast<std::uint64_t>(-77);
              const double number = kind == std::string_view("normal") ? randomNormal(key, at) : 2 * randomUniform(key, at) - 1;
              QVERIFY2(std::bit_cast<std::uint32_t>(y[static_cast<std::size_t>(i)]) ==
                           std::bit_cast<std::uint32_t>(static_cast<float>(number * 0.05)),
                       fmt::format("{} {} of {} on {}", kind, i, n, each.name).c_str());
            }
          }
        }
  }

  void castsTo16BitsRoundToNearest() {
    std::vector<float> values{0.0f, -0.0f, 1.0f, 1.00390625f, 1.01171875f, 1.0039063f, -2.5e-39f, 1e-45f, 3.3895314e38f,
                              3.4e38f, -3.4e38f, INFINITY, -INFINITY, NAN};
    for (const float half : {1.00048828125f, 1.00146484375f, 1.0004884f, 65504.0f, 65519.99f, 65520.0f, -65520.0f, 65536.0f,
                             6.1035156e-5f, 6.1005354e-5f, 5.9604645e-8f, 2.9802322e-8f, 2.9802326e-8f, -8.940697e-8f, 1e-8f})
      values.push_back(half);
    for (std::uint64_t i = 0; values.size() < 79; ++i) values.push_back(static_cast<float>(randomNormal(7, i)));
    const auto n = static_cast<std::int64_t>(values.size());
    for (const DType type : {DType::kBf16, DType::kF16})
      for (const Named& each : computing()) {
        const ir::Attrs to{{"dtype", std::string(dtypeName(type))}, {"scale", 1.0}},
            back{{"dtype", std::string("f32")}, {"scale", 1.0}};
        std::vector<std::uint16_t> narrow(values.size()), copy(values.size());
        std::vector<float> wide(values.size());
        backends::KernelSpec spec{.op = Op::kCast, .name = "narrow", .attrs = &to,
                                  .inputs = {{values.data(), {DType::kF32, {n}}}},
                                  .outputs = {{narrow.data(), {type, {n}}}}};
        each.backend->bind(spec).value()->run();
        spec = {.op = Op::kCast, .name = "copy", .attrs = &to, .inputs = {{narrow.data(), {type, {n}}}},
                .outputs = {{copy.data(), {type, {n}}}}};
        each.backend->bind(spec).value()->run();
        spec = {.op = Op::kCast, .name = "wide", .attrs = &back, .inputs = {{copy.data(), {type, {n}}}},
                .outputs = {{wide.data(), {DType::kF32, {n}}}}};
        each.backend->bind(spec).value()->run();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::string label = fmt::format("{} as {} on {}: {:x}", values[i], dtypeName(type), each.name, narrow[i]);
          if (std::isnan(values[i])) {
            QVERIFY2(std::isnan(wide[i]), label.c_str());
            continue;
          }
          QVERIFY2(narrow[i] == narrowBits(type, values[i]), label.c_str());
          QVERIFY2(std::bit_cast<std::uint32_t>(wide[i]) == std::bit_cast<std::uint32_t>(ofNarrow(type, narrow[i])), label.c_str());
        }
      }
  }

  // A mean far from zero costs no digits where the shift, the running mean, is near it.
  void varianceBesideALargeMean() {
    constexpr std::int64_t kSamples = 64, kPixels = 196, kChannels = 16;
    constexpr float kMean = 300, kDeviation = 0.5f;
    std::vector<float> x(kSamples * kPixels * kChannels), w(kSamples, 1.0f), shift(kChannels);
    std::vector<double> expected(kChannels);
    for (std::int64_t c = 0; c < kChannels; ++c) {
      double sum = 0, squares = 0;
      for (std::int64_t i = 0; i < kSamples * kPixels; ++i) {
        float& value = x[static_cast<std::size_t>(i * kChannels + c)];
        value = kMean + kDeviation * static_cast<float>(randomNormal(static_cast<std::uint64_t>(c),
                                                                    static_cast<std::uint64_t>(i)));
        sum += static_cast<double>(value);
        squares += static_cast<double>(value) * static_cast<double>(value);
      }
      const double n = kSamples * kPixels, mean = sum / n;
      expected[static_cast<std::size_t>(c)] = squares / n - mean * mean;
      shift[static_cast<std::size_t>(c)] = kMean - 1;
    }
    for (const Named& other : computing({Op::kBatchMoments, Op::kBatchStatistics})) {
      std::vector<float> moments(1 + 2 * kChannels), mean(kChannels), variance(kChannels),
          sums(1 + 2 * kChannels);
      const auto operand = [](std::vector<float>& data, Shape shape) {
        return backends::Operand{data.data(), {DType::kF32, std::move(shape)}};
      };
      const backends::Operand all = operand(moments, {1, 1 + 2 * kChannels});
      const ir::Attrs shape{{"shape", all.type.shape}}, none;
      auto gather = other.backend->bind({Op::kBatchMoments, "moments", &shape,
                                         {operand(x, {kSamples, kPixels, kChannels}),
                                          operand(w, {kSamples}), operand(shift, {kChannels})},
                                         {all}});
      auto finish = other.backend->bind({Op::kBatchStatistics, "statistics", &none,
                                         {all, operand(shift, {kChannels})},
                                         {operand(mean, {1, kChannels}), operand(variance, {1, kChannels}),
                                          operand(sums, {1 + 2 * kChannels})}});
      QVERIFY2(gather.ok() && finish.ok(), other.name.c_str());
      (*gather)->run();
      (*finish)->run();
      for (std::size_t c = 0; c < kChannels; ++c) {
        const double error = std::abs(static_cast<double>(variance[c]) - expected[c]) / expected[c];
        QVERIFY2(error < 1e-4, fmt::format("{}: {}", other.name, error).c_str());
      }
    }
  }

  // The gradient of max-pool reads y, which must be the maximum of x; ties go to the first.
  void maxPoolGradient() {
    auto reference = backends::makeBackend("reference", {}).value();
    std::vector<Case> pools;
    for (Case& test : allCases())
      if (test.op == Op::kMaxPool2d) {
        pools.push_back(test);
        test.name += ", of what relu made";
        test.attrs.insert_or_assign("act", std::string("relu"));
        pools.push_back(std::move(test));
      }
    auto gradient = [](Backend& backend, const Case& test, DType dtype) {
      Outcome forward = play(backend, test, dtype, false);
      Tensor x({dtype, test.inputs[0].shape}), y = forward.outputs[0], dy(y.type()), dx(x.type());
      for (std::int64_t i = 0; i < x.type().count(); ++i) {
        x.set(i, draw(test.inputs[0].fill, 100, static_cast<std::uint64_t>(i)));
        dx.set(i, std::numeric_limits<double>::quiet_NaN());
      }
      for (std::int64_t i = 0; i < y.type().count(); ++i)
        dy.set(i, draw(Fill::kNormal, 7, static_cast<std::uint64_t>(i)));
      backends::KernelSpec spec{Op::kMaxPool2dGrad,
                                "pool",
                                &test.attrs,
                                {x.operand(), y.operand(), dy.operand()},
                                {dx.operand()}};
      auto kernel = backend.bind(spec);
      if (!kernel.ok()) return Outcome{{}, kernel.error().text()};
      (*kernel)->run();
      Outcome outcome{{}, dx.fenced() ? "" : "wrote outside its output"};
      outcome.outputs.push_back(std::move(dx));
      return outcome;
    };
    for (const Case& test : pools) {
      const Outcome want = gradient(*reference, test, DType::kF64);
      for (const Named& other : computing({Op::kMaxPool2d, Op::kMaxPool2dGrad})) {
        const Outcome got = gradient(*other.backend, test, DType::kF32);
        const std::string text =
            got.problem.empty() ? difference(want, got, kTolerance) : got.problem;
        QVERIFY2(text.empty(), fmt::format("{} on {}: {}", test.name, other.name, text).c_str());
      }
    }
  }

  // Gradients of three ranks are coded and added up: every backend sends the same bits and makes the same
  // sum of them, and what is sent and what is left over are together what there was.
  void codedGradients() {
    const std::vector<Named> backends = computing({Op::kEncode, Op::kDecodeSum});
    for (const char* coding : {"fp16", "bf16", "int8", "top-k"})
      for (const std::int64_t n : {1, 256, 257, 9001}) {
        std::vector<std::vector<std::uint8_t>> payloads;
        std::vector<std::vector<float>> sums;
        for (const Named& one : backends) {
          auto coded = codeAndAdd(*one.backend, coding, n);
          const std::string label = fmt::format("{} of {} on {}: {}", coding, n, one.name, coded.problem);
          QVERIFY2(coded.problem.empty(), label.c_str());
          payloads.push_back(std::move(coded.payloads));
          sums.push_back(std::move(coded.sum));
          QVERIFY2(payloads.back() == payloads.front(), label.c_str());
          QVERIFY2(sums.back() == sums.front(), label.c_str());
        }
      }
  }

  // What is not finite is not lost on the way.
  void codedTrouble() {
    for (const Named& one : computing({Op::kEncode, Op::kDecodeSum}))
      for (const char* coding : {"fp16", "bf16", "int8", "top-k"})
        for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
          std::vector<float> x(300, 1.0f), residual(300), sum(300);
          x[7] = value;
          ir::Attrs attrs{{"coding", std::string(coding)}, {"kept", std::int64_t{1}}};
          const ir::TensorType type{DType::kF32, {300}};
          std::vector<std::uint8_t> payload(
              static_cast<std::size_t>(ir::payloadBytes(*ir::codingFromName(coding), 300, 1)));
          const ir::TensorType bytes{DType::kU8, {std::ssize(payload)}};
          auto encode = one.backend->bind({Op::kEncode, "encode", &attrs,
                                           {{x.data(), type}, {residual.data(), type}},
                                           {{residual.data(), type}, {payload.data(), bytes}}});
          auto decode = one.backend->bind({Op::kDecodeSum, "decode", &attrs, {{payload.data(), bytes}},
                                           {{sum.data(), type}}});
          QVERIFY(encode.ok() && decode.ok());
          (*encode)->run();
          (*decode)->run();
          QVERIFY2(!std::isfinite(sum[7]), fmt::format("{} on {}", coding, one.name).c_str());
        }
  }

  // What is no number or infinite among logits or scores is to be seen in what comes of them.
  void troubleInExponents() {
    for (const Named& one : computing({Op::kSoftmaxXent, Op::kAttention, Op::kGelu}))
      for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
        const std::string label = fmt::format("{} on {}", value, one.name);
        const ir::Attrs none;
        std::vector<float> x(3 * 37, 0.5f), weight(3, 1.0f), loss(1), probs(3 * 37);
        std::vector<std::int32_t> classes(3, 3);
        x[37 + 5] = value;
        const ir::TensorType rows{DType::kF32, {3, 37}};
        auto softmax = one.backend->bind({Op::kSoftmaxXent, "loss", &none,
                                          {{x.data(), rows}, {classes.data(), {DType::kI32, {3}}}, {weight.data(), {DType::kF32, {3}}}},
                                          {{loss.data(), {DType::kF32, {1}}}, {probs.data(), rows}}});
        QVERIFY(softmax.ok());
        (*softmax)->run();
        QVERIFY2(!std::isfinite(loss[0]), label.c_str());

        auto gelu = one.backend->bind({Op::kGelu, "gelu", &none, {{x.data(), rows}}, {{probs.data(), rows}}});
        QVERIFY(gelu.ok());
        (*gelu)->run();
        QVERIFY2(!std::isfinite(probs[37 + 5]), label.c_str());

        constexpr std::int64_t kTokens = 9, kHead = 8;
        const ir::Attrs attrs{{"tokens", kTokens}, {"head", kHead}, {"causal", std::int64_t{1}}};
        for (const std::int64_t part : {0, 1, 2}) {
          if (std::isinf(value) && part < 2) continue;  // of infinite scores one may be the least
          std::vector<float> qkv(kTokens * 3 * kHead, 0.25f), y(kTokens * kHead), lse(kTokens);
          qkv[static_cast<std::size_t>(4 * 3 * kHead + part * kHead)] = value;
          auto attention = one.backend->bind({Op::kAttention, "attention", &attrs,
                                              {{qkv.data(), {DType::kF32, {kTokens, 3 * kHead}}}},
                                              {{y.data(), {DType::kF32, {kTokens, kHead}}}, {lse.data(), {DType::kF32, {kTokens, 1}}}}});
          QVERIFY(attention.ok());
          (*attention)->run();
          QVERIFY2(!std::isfinite(y[4 * kHead]), fmt::format("{} in part {}", label, part).c_str());
        }
      }
  }

  void timedTakesThePredictedTime() {
    auto timed = backends::makeBackend("timed", {}).value();
    const ir::Attrs attrs;
    for (double seconds : {0.0, 50e-6, 3e-3}) {
      auto kernel = timed->bind({Op::kRelu, "relu", &attrs, {}, {}, seconds});
      QVERIFY(kernel.ok());
      const Nanoseconds begin = monotonicNow();
      (*kernel)->run();
      QVERIFY(static_cast<double>(monotonicNow() - begin) >= seconds * 1e9 - 1000);
    }
  }

  void refusals() {
    auto unknown = backends::makeBackend("onedn", {});
    QVERIFY(!unknown.ok());
    QCOMPARE(unknown.error().code, Code::kInvalidArgument);
    QVERIFY(unknown.error().next.find("onednn") != std::string::npos);
    QVERIFY(!backends::makeBackend("onednn", {0}).ok());
    auto onednn = backends::makeBackend("onednn", {}).value();
    QVERIFY(!onednn->supports(Op::kMatmul, DType::kF64));
    QVERIFY(!onednn->supports(Op::kAllReduce, DType::kF32));
    // Kernels of GPUs write floats.
    const auto cuda = backends::makeCuda(testing::makeEmulatedDevice());
    const ir::Attrs attrs;
    float from = 0;
    std::uint8_t to = 0;
    const auto cast = cuda->bind({Op::kCast, "to bytes", &attrs, {{&from, {DType::kF32, {1}}}}, {{&to, {DType::kU8, {1}}}}});
    QCOMPARE(cast.error().what, std::string("to bytes: the cuda backend has no kernel for cast in u8"));
  }
};

QTEST_GUILESS_MAIN(ConformanceTest)
#include "conformance_test.moc"
