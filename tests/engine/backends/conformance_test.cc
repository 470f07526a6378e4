// Compares every op that has a kernel, on several shapes and on every backend, with the reference
// backend in f64. Operands are aligned to their elements only; outputs are poisoned before the run
// and guarded on both sides; in-place execution is tested where permitted.
#include <QTest>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <set>

#include "engine/backends/backend.h"
#include "engine/backends/case_run.h"
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

using backends::Case;
using backends::Fill;
using backends::fromBits16;
using backends::toBits16;
using Outcome = backends::CaseOutcome;
using Alignment = backends::CaseAlignment;

Outcome runCase(Backend& backend, const Case& one, DType compute, bool inPlace,
                Alignment alignment = Alignment::kOnePast) {
  return backends::runCase(backend, one, {compute, inPlace, alignment, testing::allocations});
}

std::string wrong(const Outcome& want, const Outcome& got, bool sameBits = false) {
  const backends::CaseDifference found = backends::difference(want, got);
  return found.share <= (sameBits ? 0 : 1) ? "" : found.where;
}

bool isFloatType(const backends::CaseTensor& tensor) { return isFloat(tensor.type().dtype); }

struct Named {
  std::string name;
  std::unique_ptr<Backend> backend;
  bool emulated = false;
  // Whether results may depend on alignment; an emulated device's matmul does not.
  bool looksAtAddresses(Op op) const { return emulated ? op != Op::kMatmul : name == "cuda"; }
};

// Backends that support these ops in f32 and whose device is present: "onednn" once per instruction
// set of this machine, and with two threads; "cuda" also emulated on the host.
std::vector<Named> computing(std::initializer_list<Op> ops = {}) {
  std::vector<Named> all;
  for (const std::string& name : backends::backendNames()) {
    auto backend = backends::makeBackend(name, {});
    if (name == "timed" || (name == "cuda" && !backend.ok())) continue;
    all.push_back({name, backends::hosted(std::move(backend).value())});
  }
  if (!test::kSanitized)  // emulated threads switch stacks, which sanitizers do not follow
    all.push_back({"cuda on the host",
                   backends::hosted(backends::makeCuda(testing::makeEmulatedDevice())), true});
  for (const auto* kernels : backends::cpu::kAll)
    if (backends::cpu::runnable(*kernels))
      all.push_back(
          {fmt::format("onednn {}", kernels->isa), backends::makeOneDnn({}, *kernels).value()});
  all.push_back({"onednn 2 threads",
                 backends::makeBackend("onednn", {.threads = 2, .barrierCost = 1}).value()});
  all.push_back({"onednn 4 threads",
                 backends::makeBackend("onednn", {.threads = 4, .barrierCost = 1}).value()});
  for (const Op op : ops)
    std::erase_if(all, [op](const Named& one) { return !one.backend->supports(op, DType::kF32); });
  return all;
}

struct Coded {
  std::vector<std::uint8_t> payloads;
  std::vector<float> sum;
  std::string problem;
};

// Ranks 0, 1 and 2 encode the gradients of two steps; returns the payloads and the sum of the
// second.
Coded codeAndAdd(Backend& backend, const char* coding, std::int64_t n) {
  constexpr int kRanks = 3;
  const auto size = static_cast<std::size_t>(n);
  const ir::TensorType type{DType::kF32, {n}};
  ir::Attrs attrs{{"coding", std::string(coding)}};
  const std::int64_t kept = std::max<std::int64_t>(1, n / 50);
  if (coding == std::string_view("top-k")) attrs["kept"] = kept;
  const std::int64_t bytes = ir::payloadBytes(*ir::codingFromName(coding), n, kept);
  Coded coded{std::vector<std::uint8_t>(static_cast<std::size_t>(kRanks * bytes)),
              std::vector<float>(size), ""};
  std::vector<double> whole(size, 0), left(size, 0), magnitude(size, 1e-30);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<float> x(size), residual(size, 0.0f);
    const ir::TensorType payload{DType::kU8, {bytes}};
    auto kernel =
        backend.bind({Op::kEncode,
                      "encode",
                      &attrs,
                      {{x.data(), type}, {residual.data(), type}},
                      {{residual.data(), type}, {coded.payloads.data() + rank * bytes, payload}}});
    if (!kernel.ok()) return {{}, {}, kernel.error().text()};
    for (int step = 0; step < 2; ++step) {
      for (std::size_t i = 0; i < size; ++i) {
        // All magnitudes, some beyond the range of 16 bits.
        const double scale = std::ldexp(1.0, static_cast<int>(i % 61) - 40);
        x[i] = static_cast<float>(randomNormal(static_cast<std::uint64_t>(5 * rank + step), i) *
                                  scale);
      }
      if (step == 1)
        for (std::size_t i = 0; i < size; ++i) whole[i] += static_cast<double>(x[i] + residual[i]);
      (*kernel)->run();
    }
    for (std::size_t i = 0; i < size; ++i) {
      left[i] += static_cast<double>(residual[i]);
      // May exceed the input: small numbers share a scale with large ones.
      magnitude[i] +=
          std::abs(static_cast<double>(x[i])) + 2 * std::abs(static_cast<double>(residual[i]));
    }
  }
  ir::Attrs decode = attrs;
  decode["dtype"] = std::string("f32");
  decode["shape"] = Shape{n};
  auto kernel = backend.bind({Op::kDecodeSum,
                              "decode",
                              &decode,
                              {{coded.payloads.data(), {DType::kU8, {kRanks * bytes}}}},
                              {{coded.sum.data(), type}}});
  if (!kernel.ok()) return {{}, {}, kernel.error().text()};
  (*kernel)->run();
  for (std::size_t i = 0; i < size; ++i) {
    const double error = std::abs(static_cast<double>(coded.sum[i]) + left[i] - whole[i]);
    if (error > 1e-6 * magnitude[i])
      coded.problem =
          fmt::format("at {}: {} sent and {} left of {}", i, coded.sum[i], left[i], whole[i]);
  }
  return coded;
}

// Returns the differences from the reference in f64, one per line; "" if there are none.
std::string disagreements(const std::vector<Case>& cases,
                          const std::function<void(const Case&, const Outcome&)>& see = {}) {
  std::string out;
  int found = 0;
  auto reference = backends::makeBackend("reference", {}).value();
  const std::vector<Named> others = computing();
  // The threads of a GPU's driver allocate as they like, and cannot be told from others.
  const bool countsAllocations = std::none_of(others.begin(), others.end(),
                                              [](const Named& one) { return one.name == "cuda"; });
  for (const Case& test : cases) {
    const Outcome want = backends::expected(test);
    const std::string label = fmt::format("{} ({})", ir::info(test.op).name, test.name);
    const auto blame = [&](const std::string& what, const std::string& text) {
      if (!text.empty() && ++found <= 20) out += fmt::format("{}{}: {}\n", label, what, text);
    };
    if (!want.problem.empty()) {
      blame("", want.problem);
      continue;
    }
    if (see) see(test, want);
    const bool canShare = backends::canBeInPlace(test.op);
    if (canShare)
      blame(" in place, f64", wrong(want, runCase(*reference, test, DType::kF64, true), true));
    for (const Named& other : others) {
      if (!other.backend->supports(test.op, DType::kF32)) continue;
      for (const auto& [inPlace, alignment] : {std::pair{false, Alignment::kOnePast},
                                               {true, Alignment::kOnePast},
                                               {false, Alignment::kSixteen},
                                               {true, Alignment::kSixteen},
                                               {false, Alignment::kDifferent}}) {
        if ((inPlace && !canShare) ||
            (alignment != Alignment::kOnePast && !other.looksAtAddresses(test.op)))
          continue;
        const Outcome got = runCase(*other.backend, test, DType::kF32, inPlace, alignment);
        std::string text = got.problem.empty() ? wrong(want, got) : got.problem;
        if (text.empty() && got.allocations > 0 && countsAllocations && !other.emulated)
          text = fmt::format("{} allocations in a run", got.allocations);
        blame(fmt::format(" on {}{}{}", other.name, inPlace ? " in place" : "",
                          alignment == Alignment::kSixteen     ? " aligned"
                          : alignment == Alignment::kDifferent ? " aligned differently"
                                                               : ""),
              text);
      }
    }
  }
  if (found > 20) out += fmt::format("and {} more", found - 20);
  return out;
}

struct AttentionResult {
  std::vector<float> y, lse, dqkv;
};

// Attention of one head and sample, and its gradients.
template <typename Number>
AttentionResult runAttention(Backend& on, const std::string& operandDtype, std::int64_t tokens,
                             std::int64_t head, std::vector<Number> qkv, std::vector<Number> dy) {
  const DType in = sizeof(Number) == 8 ? DType::kF64 : DType::kF32;
  ir::Attrs attrs{{"tokens", tokens}, {"head", head}, {"causal", std::int64_t{1}}};
  if (!operandDtype.empty()) attrs["operand_dtype"] = operandDtype;
  const ir::TensorType wide{in, {tokens, 3 * head}}, narrow{in, {tokens, head}},
      sums{in, {tokens, 1}};
  std::vector<Number> y(dy.size()), lse(static_cast<std::size_t>(tokens)), dqkv(qkv.size());
  auto forward = on.bind({Op::kAttention,
                          "forward",
                          &attrs,
                          {{qkv.data(), wide}},
                          {{y.data(), narrow}, {lse.data(), sums}}});
  forward.value()->run();
  auto backward =
      on.bind({Op::kAttentionGrad,
               "backward",
               &attrs,
               {{dy.data(), narrow}, {qkv.data(), wide}, {y.data(), narrow}, {lse.data(), sums}},
               {{dqkv.data(), wide}}});
  backward.value()->run();
  return AttentionResult{
      {y.begin(), y.end()}, {lse.begin(), lse.end()}, {dqkv.begin(), dqkv.end()}};
}

// The greatest difference, as a share of the largest of `b`.
double apartBy(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, static_cast<double>(std::abs(a[i] - b[i])));
    largest = std::max(largest, static_cast<double>(std::abs(b[i])));
  }
  return most / largest;
}

}  // namespace

class ConformanceTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // Every op of the CPU backend has a CUDA kernel.
  void cudaHasAKernelOfEveryOp() {
    const auto reference = backends::makeBackend("reference", {}).value();
    const auto cuda = backends::makeCuda(testing::makeEmulatedDevice());
    for (std::size_t i = 0; i < ir::kOpCount; ++i) {
      const Op op = static_cast<Op>(i);
      QVERIFY2(cuda->supports(op, DType::kF32) == reference->supports(op, DType::kF32),
               std::string(ir::info(op).name).c_str());
    }
  }

  void everyOpHasACase() {
    std::set<Op> covered;
    for (const Case& test : backends::allCases()) covered.insert(test.op);
    auto reference = backends::makeBackend("reference", {}).value();
    for (std::size_t i = 0; i < ir::kOpCount; ++i) {
      const Op op = static_cast<Op>(i);
      if (reference->supports(op, DType::kF64))
        QVERIFY2(covered.contains(op), std::string(ir::info(op).name).c_str());
    }
  }

  // Reports why the row "cuda" is missing from the tests here.
  void hasAGpu() {
    const auto cuda = backends::makeBackend("cuda", {});
    if (!cuda.ok()) QSKIP(("not on a GPU: " + cuda.error().text()).c_str());
  }

  void agreesWithReference() {
    const std::string failed =
        disagreements(backends::allCases(), [this](const Case& test, const Outcome& want) {
          for (std::size_t k = 0; k < want.outputs.size(); ++k) lookFar(test, want, k);
        });
    QVERIFY2(failed.empty(), failed.c_str());
  }

  // Random shapes.
  void drawnShapesAgreeWithReference() {
    std::vector<Case> cases;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      std::uint64_t drawn = 0;
      const auto upTo = [&](std::int64_t most) {
        return 1 +
               static_cast<std::int64_t>(randomUniform(seed, ++drawn) * static_cast<double>(most));
      };
      const auto either = [&] { return upTo(2) == 1; };
      const std::string name = fmt::format("drawn {}", seed);
      const std::int64_t n = upTo(70), k = upTo(300), o = upTo(90);
      const bool ta = either(), tb = either();
      ir::Attrs product;
      if (ta) product["ta"] = std::int64_t{1};
      if (tb) product["tb"] = std::int64_t{1};
      if (either()) product["act"] = std::string("relu");
      cases.push_back(
          {name,
           Op::kMatmul,
           product,
           {{ta ? Shape{k, n} : Shape{n, k}}, {tb ? Shape{o, k} : Shape{k, o}}, {{o}}}});
      const std::int64_t pad = upTo(3) - 1, stride = upTo(3), kh = upTo(4), kw = upTo(4),
                         in = upTo(20), out = upTo(40);
      const Shape x{upTo(4), kh + upTo(9), kw + upTo(9), in}, w{kh, kw, in, out};
      const Shape y{x[0], (x[1] + 2 * pad - kh) / stride + 1, (x[2] + 2 * pad - kw) / stride + 1,
                    out};
      ir::Attrs conv{{"stride", stride}, {"pad", pad}}, inputs = conv, weights = conv;
      inputs["shape"] = x;
      weights["shape"] = w;
      cases.push_back({name, Op::kConv2d, conv, {{x}, {w}, {{out}}}});
      cases.push_back({name, Op::kConv2dInputGrad, inputs, {{y}, {w}}});
      cases.push_back({name, Op::kConv2dWeightGrad, weights, {{x}, {y}}});
      const std::int64_t size = upTo(3), step = upTo(3);
      const Shape image{upTo(4), size + upTo(8), size + upTo(8), upTo(40)};
      const Shape pooled{image[0], (image[1] - size) / step + 1, (image[2] - size) / step + 1,
                         image[3]};
      const Fill fill = either() ? Fill::kNormal : Fill::kFewValues;
      const ir::Attrs pool{{"size", size}, {"stride", step}};
      cases.push_back({name, Op::kMaxPool2d, pool, {{image, fill}}});
      cases.push_back(
          {name, Op::kMaxPool2dGrad, pool, {{image, fill}, {pooled, Fill::kPooled}, {pooled}}});
      const Shape rows{upTo(300), upTo(130)};
      cases.push_back({name, Op::kReduceRows, {}, {{rows}}});
      cases.push_back({name,
                       Op::kLayerNorm,
                       {{"eps", 1e-5}},
                       {{rows}, {{rows[1]}, Fill::kPositive}, {{rows[1]}}}});
      cases.push_back(
          {name,
           Op::kSoftmaxXent,
           {},
           {{{rows[0], rows[1] + 2}}, {{rows[0]}, Fill::kLabels}, {{rows[0]}, Fill::kPositive}}});
      for (const Op op : {Op::kGelu, Op::kTanh, Op::kRelu, Op::kSumAll})
        cases.push_back({name, op, {}, {{{upTo(5000)}}}});
      const std::int64_t tokens = upTo(40), heads = upTo(3), head = upTo(40), samples = upTo(2);
      cases.push_back({name,
                       Op::kAttention,
                       {{"tokens", tokens}, {"head", head}, {"causal", std::int64_t{either()}}},
                       {{{samples * tokens, 3 * heads * head}}}});
    }
    const std::string failed = disagreements(cases);
    QVERIFY2(failed.empty(), failed.c_str());
  }

  // Without cancellation, elements far below the largest of their output are checked at their own
  // magnitude: none may be missing or wrong.
  void smallElementsAreHeldToo() {
    if (far_.empty()) agreesWithReference();
    for (const Op op : {Op::kScale, Op::kCast, Op::kRelu, Op::kGelu, Op::kTanh, Op::kTanhGrad,
                        Op::kScaleByRatio, Op::kMaxPool2dGrad, Op::kXentTermsGrad}) {
      const std::string name(ir::info(op).name);
      QVERIFY2(far_.contains(op) && far_[op].all > 0, name.c_str());
      QVERIFY2(far_[op].held == far_[op].all,
               fmt::format("{}: {} of {}", name, far_[op].held, far_[op].all).c_str());
    }
  }

  // A matmul's tolerance follows from the magnitudes of its terms.
  void conditioningIsTheSumOfMagnitudes() {
    for (const Case& test : backends::allCases()) {
      if (test.op != Op::kMatmul || test.name != "130x515x70 form 0") continue;
      const Outcome want = backends::expected(test);
      backends::CaseTensor a({DType::kF64, test.inputs[0].shape}),
          b({DType::kF64, test.inputs[1].shape});
      a.setFilled(test.inputs[0].fill, 100);
      b.setFilled(test.inputs[1].fill, 101);
      std::vector<double> ratios;
      for (std::int64_t i = 0; i < 130; ++i)
        for (std::int64_t j = 0; j < 70; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < 515; ++k)
            sum += std::abs(a.at(i * 515 + k) * b.at(k * 70 + j));
          ratios.push_back(want.conditioning[0][static_cast<std::size_t>(i * 70 + j)] /
                           (0x1p-24 * sum));
        }
      const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
      QVERIFY2(*least > 1 - 1e-9 && *most < 1 + 1e-9, fmt::format("{} {}", *least, *most).c_str());
      return;
    }
    QFAIL("the case is no more");
  }

  // Detects an element that is off by 2⁻²⁰ of the sum of its terms' magnitudes.
  void slightlyWrongMatmulsAreFound() {
    int all = 0, found = 0;
    for (const Case& test : backends::allCases()) {
      if (!backends::isMatmulOrConv(test.op) || test.attrs.contains("act")) continue;
      const Outcome want = backends::expected(test);
      const std::int64_t count = want.outputs[0].type().count();
      for (const std::int64_t i : {std::int64_t{0}, count / 2, count - 1}) {
        const double sum = 0x1p24 * want.conditioning[0][static_cast<std::size_t>(i)];
        if (sum == 0) continue;  // no terms: pixels skipped by strides
        Outcome got = want;
        got.outputs[0].set(i, want.outputs[0].at(i) + 0x1p-20 * sum);
        ++all;
        found += !wrong(want, got).empty();
      }
    }
    qInfo("%d of %d", found, all);
    QVERIFY(all > 300 && found == all);
  }

  // Workspaces for the columns of one sample, and of a few.
  void convolutionsInPartsOfABatch() {
    if (test::kSanitized)
      QSKIP("the emulated device's threads have stacks that sanitizers do not follow");
    for (const std::int64_t bytes : {1, 1 << 14}) {
      const auto cuda = backends::hosted(
          backends::makeCuda(testing::makeEmulatedDevice(), {.columnsBytes = bytes}));
      for (const Case& test : backends::allCases()) {
        if (test.op != Op::kConv2d && test.op != Op::kConv2dInputGrad &&
            test.op != Op::kConv2dWeightGrad)
          continue;
        if (test.inputs[0].shape[0] > 5) continue;
        const Outcome want = backends::expected(test),
                      got = runCase(*cuda, test, DType::kF32, false, Alignment::kSixteen);
        const std::string text = got.problem.empty() ? wrong(want, got) : got.problem;
        QVERIFY2(text.empty(), fmt::format("{} ({}) in {} bytes: {}", ir::info(test.op).name,
                                           test.name, bytes, text)
                                   .c_str());
      }
    }
  }

  // Convolutions run as matmuls on columns of at most two of five samples, in scratch memory shared
  // by all kernels.
  void convolutionsAreMatmuls() {
    if (test::kSanitized)
      QSKIP("the emulated device's threads have stacks that sanitizers do not follow");
    std::vector<std::string> calls;
    auto device = testing::makeEmulatedDevice();
    device->calls = &calls;
    const auto cuda =
        backends::hosted(backends::makeCuda(std::move(device), {.columnsBytes = 14'000}));
    const Shape x{5, 6, 5, 8}, w{2, 3, 8, 12}, y{5, 7, 5, 12}, one{1, 1, 8, 12}, thin{5, 6, 5, 12};
    std::vector<float> memory(7'500);
    const auto asked = [&](Op op, std::int64_t pad, const Shape& a, const Shape& b,
                           const Shape& c) {
      ir::Attrs attrs{{"stride", std::int64_t{1}}, {"pad", pad}, {"tf32", std::int64_t{1}}};
      if (op != Op::kConv2d) attrs["shape"] = c;
      const auto operand = [&](std::size_t i, const Shape& shape) {
        return backends::Operand{memory.data() + 2500 * i, {DType::kF32, shape}};
      };
      const backends::KernelSpec spec{
          op, "conv", &attrs, {operand(0, a), operand(1, b)}, {operand(2, c)}};
      const auto kernel = cuda->bind(spec).value(), again = cuda->bind(spec).value();
      if (again->workspaceBytes() != 0) return std::vector<std::string>{"memory of its own"};
      calls.clear();
      kernel->run();
      std::erase_if(calls, [](const std::string& call) {
        return !call.starts_with("launch") && !call.starts_with("product");
      });
      return calls;
    };
    using Calls = std::vector<std::string>;
    const std::string gather = "launch imageToColumns 2×1×256",
                      back = "launch columnsToImage 2×1×256";
    QCOMPARE(asked(Op::kConv2d, 1, x, w, y),
             (Calls{gather, "product 35×48×12 tf32", gather, "product 70×48×12 tf32", gather,
                    "product 70×48×12 tf32"}));
    QCOMPARE(asked(Op::kConv2dInputGrad, 1, y, w, x),
             (Calls{"product 35×12×48 tf32", back, "product 70×12×48 tf32", back,
                    "product 70×12×48 tf32", back}));
    QCOMPARE(asked(Op::kConv2dWeightGrad, 1, x, y, w),
             (Calls{gather, "product 48×35×12 tf32", gather, "product 48×70×12 added tf32", gather,
                    "product 48×70×12 added tf32"}));
    QCOMPARE(asked(Op::kConv2d, 0, x, one, thin), Calls{"product 150×8×12 tf32"});
    QCOMPARE(asked(Op::kConv2dInputGrad, 0, thin, one, x), Calls{"product 150×12×8 tf32"});
    QCOMPARE(asked(Op::kConv2dWeightGrad, 0, x, thin, one), Calls{"product 8×150×12 tf32"});
  }

  void sameBitsOnAnyThreads() {
    auto one = backends::makeBackend("onednn", {1}).value(),
         three = backends::makeBackend("onednn", {.threads = 3, .barrierCost = 1}).value();
    for (const Case& test : backends::allCases()) {
      const Outcome want = runCase(*one, test, DType::kF32, false),
                    got = runCase(*three, test, DType::kF32, false);
      const std::string text = got.problem.empty() ? wrong(want, got, true) : got.problem;
      QVERIFY2(text.empty(),
               fmt::format("{} ({}): {}", ir::info(test.op).name, test.name, text).c_str());
    }
  }

  // With native instructions, and emulated.
  void packedBf16Matmuls() {
    for (const auto* kernels : backends::cpu::kAll) {
      if (!backends::cpu::runnable(*kernels)) continue;
      for (const auto& [n, k, o] : {std::array<std::int64_t, 3>{1, 1, 1},
                                    {3, 7, 5},
                                    {13, 257, 33},
                                    {97, 64, 70},
                                    {5, 511, 1025},
                                    {193, 300, 31},
                                    {12, 512, 32},
                                    {35, 2065, 530},
                                    {17, 1025, 16}})
        for (const bool ta : {false, true})
          for (const bool tb : {false, true})
            for (const bool rectified : {false, true}) {
              std::vector<std::uint16_t> a(static_cast<std::size_t>(n * k)),
                  b(static_cast<std::size_t>(k * o));
              std::vector<float> bias(static_cast<std::size_t>(o)),
                  c(static_cast<std::size_t>(n * (o + 1)), 7.0f);
              for (std::size_t i = 0; i < a.size(); ++i)
                a[i] = toBits16(DType::kBf16, static_cast<float>(randomNormal(1, i)));
              for (std::size_t i = 0; i < b.size(); ++i)
                b[i] = toBits16(DType::kBf16, static_cast<float>(randomNormal(2, i)));
              for (std::size_t i = 0; i < bias.size(); ++i)
                bias[i] = static_cast<float>(randomNormal(3, i));
              const backends::cpu::Gemm16 g{n,        k,          o,
                                            a.data(), ta ? 1 : k, ta ? n : 1,
                                            b.data(), tb ? 1 : o, tb ? k : 1,
                                            c.data(), o + 1,      rectified ? bias.data() : nullptr,
                                            rectified};
              kernels->gemm16(g);
              for (std::int64_t i = 0; i < n; ++i) {
                for (std::int64_t j = 0; j < o; ++j) {
                  double sum =
                             rectified ? static_cast<double>(bias[static_cast<std::size_t>(j)]) : 0,
                         size = 1;
                  for (std::int64_t at = 0; at < k; ++at) {
                    const double product =
                        static_cast<double>(fromBits16(
                            DType::kBf16, a[static_cast<std::size_t>(i * g.aRow + at * g.aK)])) *
                        static_cast<double>(fromBits16(
                            DType::kBf16, b[static_cast<std::size_t>(at * g.bK + j * g.bColumn)]));
                    sum += product;
                    size += std::abs(product);
                  }
                  const double got =
                      static_cast<double>(c[static_cast<std::size_t>(i * (o + 1) + j)]);
                  QVERIFY2(std::abs((rectified ? std::max(sum, 0.0) : sum) - got) <= 1e-5 * size,
                           fmt::format("{} {}x{}x{} ({}, {}): {} instead of {}", kernels->isa, n, k,
                                       o, i, j, got, sum)
                               .c_str());
                }
                QCOMPARE(c[static_cast<std::size_t>(i * (o + 1) + o)], 7.0f);
              }
            }
    }
  }

  // Bit-identical on every instruction set, on any number of threads, and in plain loops: ranks
  // that generate their own initial weights agree.
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
            each.backend
                ->bind({Op::kRandom, "random", &attrs, {}, {{y.data(), {DType::kF32, {n}}}}})
                .value()
                ->run();
            QCOMPARE(y.back(), 7.0f);
            for (std::int64_t i = 0; i < n; ++i) {
              const auto at =
                  static_cast<std::uint64_t>(block != n ? i / block * 12 + 3 + i % block : i);
              const auto key = static_cast<std::uint64_t>(-77);
              const double number = kind == std::string_view("normal")
                                        ? randomNormal(key, at)
                                        : 2 * randomUniform(key, at) - 1;
              QVERIFY2(std::bit_cast<std::uint32_t>(y[static_cast<std::size_t>(i)]) ==
                           std::bit_cast<std::uint32_t>(static_cast<float>(number * 0.05)),
                       fmt::format("{} {} of {} on {}", kind, i, n, each.name).c_str());
            }
          }
        }
  }

  void castsTo16BitsRoundToNearest() {
    std::vector<float> values{
        0.0f,   -0.0f,         1.0f,    1.00390625f, 1.01171875f, 1.0039063f, -2.5e-39f,
        1e-45f, 3.3895314e38f, 3.4e38f, -3.4e38f,    INFINITY,    -INFINITY,  NAN};
    for (const float half : {1.00048828125f, 1.00146484375f, 1.0004884f, 65504.0f, 65519.99f,
                             65520.0f, -65520.0f, 65536.0f, 6.1035156e-5f, 6.1005354e-5f,
                             5.9604645e-8f, 2.9802322e-8f, 2.9802326e-8f, -8.940697e-8f, 1e-8f})
      values.push_back(half);
    for (std::uint64_t i = 0; values.size() < 79; ++i)
      values.push_back(static_cast<float>(randomNormal(7, i)));
    const auto n = static_cast<std::int64_t>(values.size());
    // 16-byte aligned, and one element past that
    for (const auto& [type, past] : {std::pair{DType::kBf16, std::size_t{0}},
                                     {DType::kF16, 0},
                                     {DType::kBf16, 1},
                                     {DType::kF16, 1}})
      for (const Named& each : computing()) {
        const ir::Attrs to{{"dtype", std::string(dtypeName(type))}, {"scale", 1.0}},
            back{{"dtype", std::string("f32")}, {"scale", 1.0}};
        std::vector<std::uint16_t> narrowed(values.size() + past), copied(narrowed);
        std::vector<float> widened(values.size() + past);
        auto *const narrow = narrowed.data() + past, *const copy = copied.data() + past;
        float* const wide = widened.data() + past;
        backends::KernelSpec spec{.op = Op::kCast,
                                  .name = "narrow",
                                  .attrs = &to,
                                  .inputs = {{values.data(), {DType::kF32, {n}}}},
                                  .outputs = {{narrow, {type, {n}}}}};
        each.backend->bind(spec).value()->run();
        spec = {.op = Op::kCast,
                .name = "copy",
                .attrs = &to,
                .inputs = {{narrow, {type, {n}}}},
                .outputs = {{copy, {type, {n}}}}};
        each.backend->bind(spec).value()->run();
        spec = {.op = Op::kCast,
                .name = "wide",
                .attrs = &back,
                .inputs = {{copy, {type, {n}}}},
                .outputs = {{wide, {DType::kF32, {n}}}}};
        each.backend->bind(spec).value()->run();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::string label =
              fmt::format("{} as {} on {}: {:x}", values[i], dtypeName(type), each.name, narrow[i]);
          if (std::isnan(values[i])) {
            QVERIFY2(std::isnan(wide[i]), label.c_str());
            continue;
          }
          QVERIFY2(narrow[i] == toBits16(type, values[i]), label.c_str());
          QVERIFY2(std::bit_cast<std::uint32_t>(wide[i]) ==
                       std::bit_cast<std::uint32_t>(fromBits16(type, narrow[i])),
                   label.c_str());
        }
      }
  }

  // A mean far from zero costs no precision if the shift (the running mean) is close to it.
  void varianceBesideALargeMean() {
    constexpr std::int64_t kSamples = 64, kPixels = 196, kChannels = 16;
    constexpr float kMean = 300, kDeviation = 0.5f;
    std::vector<float> x(kSamples * kPixels * kChannels), w(kSamples, 1.0f), shift(kChannels);
    std::vector<double> expected(kChannels);
    for (std::int64_t c = 0; c < kChannels; ++c) {
      double sum = 0, squares = 0;
      for (std::int64_t i = 0; i < kSamples * kPixels; ++i) {
        float& value = x[static_cast<std::size_t>(i * kChannels + c)];
        value =
            kMean + kDeviation * static_cast<float>(randomNormal(static_cast<std::uint64_t>(c),
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
      auto gather = other.backend->bind({Op::kBatchMoments,
                                         "moments",
                                         &shape,
                                         {operand(x, {kSamples, kPixels, kChannels}),
                                          operand(w, {kSamples}), operand(shift, {kChannels})},
                                         {all}});
      auto finish =
          other.backend->bind({Op::kBatchStatistics,
                               "statistics",
                               &none,
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

  // Gradients of three ranks are encoded and summed: every backend sends the same bytes and
  // computes the same sum, and payload plus residual equal the input.
  void codedGradients() {
    const std::vector<Named> backends = computing({Op::kEncode, Op::kDecodeSum});
    for (const char* coding : {"fp16", "bf16", "int8", "top-k"})
      for (const std::int64_t n : {1, 256, 257, 9001, 20'001}) {
        std::vector<std::vector<std::uint8_t>> payloads;
        std::vector<std::vector<float>> sums;
        for (const Named& one : backends) {
          auto coded = codeAndAdd(*one.backend, coding, n);
          const std::string label =
              fmt::format("{} of {} on {}: {}", coding, n, one.name, coded.problem);
          QVERIFY2(coded.problem.empty(), label.c_str());
          payloads.push_back(std::move(coded.payloads));
          sums.push_back(std::move(coded.sum));
          QVERIFY2(payloads.back() == payloads.front(), label.c_str());
          QVERIFY2(sums.back() == sums.front(), label.c_str());
        }
      }
  }

  // Non-finite numbers survive encoding.
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
          auto encode = one.backend->bind({Op::kEncode,
                                           "encode",
                                           &attrs,
                                           {{x.data(), type}, {residual.data(), type}},
                                           {{residual.data(), type}, {payload.data(), bytes}}});
          auto decode = one.backend->bind(
              {Op::kDecodeSum, "decode", &attrs, {{payload.data(), bytes}}, {{sum.data(), type}}});
          QVERIFY(encode.ok() && decode.ok());
          (*encode)->run();
          (*decode)->run();
          QVERIFY2(!std::isfinite(sum[7]), fmt::format("{} on {}", coding, one.name).c_str());
        }
  }

  // A logit of −∞ has no probability, and the others are as without it.
  void excludedClasses() {
    constexpr std::int64_t kClasses = 301;
    for (const Named& one : computing({Op::kSoftmaxXent})) {
      std::vector<float> x(kClasses, -INFINITY), weight(1, 1.0f), loss(1), lse(1), dx(kClasses);
      std::vector<std::int32_t> label(1, 7);
      x[7] = x[300] = -2.5f;
      const ir::Attrs none;
      const ir::TensorType row{DType::kF32, {1, kClasses}}, number{DType::kF32, {1}};
      one.backend
          ->bind({Op::kSoftmaxXent,
                  "loss",
                  &none,
                  {{x.data(), row}, {label.data(), {DType::kI32, {1}}}, {weight.data(), number}},
                  {{loss.data(), number}, {lse.data(), number}}})
          .value()
          ->run();
      one.backend
          ->bind({Op::kSoftmaxXentGrad,
                  "gradient",
                  &none,
                  {{x.data(), row},
                   {label.data(), {DType::kI32, {1}}},
                   {weight.data(), number},
                   {lse.data(), number},
                   {weight.data(), number}},
                  {{dx.data(), row}}})
          .value()
          ->run();
      QVERIFY2(std::abs(loss[0] - std::numbers::ln2_v<float>) < 1e-6f, one.name.c_str());
      for (std::size_t i = 0; i < dx.size(); ++i)
        QVERIFY2(std::abs(dx[i] - (i == 7     ? -0.5f
                                   : i == 300 ? 0.5f
                                              : 0.0f)) < 1e-6f,
                 one.name.c_str());
    }
  }

  // NaN and infinity among logits or scores show in the results.
  void troubleInExponents() {
    for (const Named& one : computing({Op::kSoftmaxXent, Op::kAttention, Op::kGelu}))
      for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
        const std::string label = fmt::format("{} on {}", value, one.name);
        const ir::Attrs none;
        std::vector<float> x(3 * 37, 0.5f), weight(3, 1.0f), loss(1), lse(3), y(3 * 37);
        std::vector<std::int32_t> classes(3, 3);
        x[37 + 5] = value;
        const ir::TensorType rows{DType::kF32, {3, 37}};
        auto softmax = one.backend->bind(
            {Op::kSoftmaxXent,
             "loss",
             &none,
             {{x.data(), rows},
              {classes.data(), {DType::kI32, {3}}},
              {weight.data(), {DType::kF32, {3}}}},
             {{loss.data(), {DType::kF32, {1}}}, {lse.data(), {DType::kF32, {3}}}}});
        QVERIFY(softmax.ok());
        (*softmax)->run();
        QVERIFY2(!std::isfinite(loss[0]), label.c_str());

        auto gelu =
            one.backend->bind({Op::kGelu, "gelu", &none, {{x.data(), rows}}, {{y.data(), rows}}});
        QVERIFY(gelu.ok());
        (*gelu)->run();
        QVERIFY2(!std::isfinite(y[37 + 5]), label.c_str());

        constexpr std::int64_t kTokens = 9, kHead = 8;
        ir::Attrs attrs{{"tokens", kTokens}, {"head", kHead}, {"causal", std::int64_t{1}}};
        for (const std::int64_t part : {0, 1, 2, 3, 4, 5}) {
          if (part == 3) attrs["operand_dtype"] = std::string("f16");
          // an infinite score may be the minimum
          if (std::isinf(value) && part % 3 < 2) continue;
          std::vector<float> qkv(kTokens * 3 * kHead, 0.25f), out(kTokens * kHead), sums(kTokens);
          qkv[static_cast<std::size_t>(4 * 3 * kHead + part % 3 * kHead)] = value;
          auto attention = one.backend->bind({Op::kAttention,
                                              "attention",
                                              &attrs,
                                              {{qkv.data(), {DType::kF32, {kTokens, 3 * kHead}}}},
                                              {{out.data(), {DType::kF32, {kTokens, kHead}}},
                                               {sums.data(), {DType::kF32, {kTokens, 1}}}}});
          QVERIFY(attention.ok());
          (*attention)->run();
          QVERIFY2(!std::isfinite(out[4 * kHead]),
                   fmt::format("{} in part {}", label, part).c_str());
        }
      }
  }

  // A result stored in 16 bits is the cast of what the op computes otherwise, bit by bit; so a pass
  // may let an op write what a cast would.
  void resultsAreStoredAsCastsRoundThem() {
    std::set<Op> seen;
    const std::vector<Named> all = computing();
    for (const Case& narrow : backends::allCases()) {
      const auto stored = narrow.attrs.find(ir::kStored);
      if (stored == narrow.attrs.end()) continue;
      const DType dtype = *dtypeFromName(std::get<std::string>(stored->second));
      Case wide = narrow;
      wide.attrs.erase(std::string(ir::kStored));
      for (const Named& one : all) {
        if (!one.backend->supports(narrow.op, DType::kF32)) continue;
        if (one.name == "reference") continue;  // it computes in f64 what has no f32 operand
        // A GPU's library rounds the bias too, and chooses other algorithms for other types.
        const bool isCuda = one.backend->name() == "cuda";
        if (isCuda && (narrow.rounding > 0 || (narrow.op == Op::kMatmul && !one.emulated)))
          continue;
        const Outcome a = runCase(*one.backend, narrow, DType::kF32, false),
                      b = runCase(*one.backend, wide, DType::kF32, false);
        const std::string label =
            fmt::format("{} ({}) on {}", ir::info(narrow.op).name, narrow.name, one.name);
        QVERIFY2(a.problem.empty() && b.problem.empty(),
                 fmt::format("{}: {}{}", label, a.problem, b.problem).c_str());
        for (std::int64_t i = 0; i < a.outputs[0].type().count(); ++i) {
          const auto rounded = static_cast<double>(
              fromBits16(dtype, toBits16(dtype, static_cast<float>(b.outputs[0].at(i)))));
          QVERIFY2(a.outputs[0].at(i) == rounded,
                   fmt::format("{}: {} at {} instead of {}", label, a.outputs[0].at(i), i, rounded)
                       .c_str());
        }
        for (std::size_t k = 1; k < a.outputs.size(); ++k)
          for (std::int64_t i = 0; i < a.outputs[k].type().count(); ++i)
            QVERIFY2(a.outputs[k].at(i) == b.outputs[k].at(i), label.c_str());
      }
      seen.insert(narrow.op);
    }
    for (std::size_t i = 0; i < ir::kOpCount; ++i)
      QVERIFY(ir::info(static_cast<Op>(i)).narrowOutput == seen.contains(static_cast<Op>(i)));
  }

  // NaN in an operand reaches every output that depends on it, for every op on every backend, as in
  // PyTorch. Dependence is determined in f64, by changing the element. Exempt: operands that are
  // only compared, what finite-norm is computed from, and what an encoding keeps of an element;
  // top-k sends NaN whole (codedTrouble).
  void nanReachesWhatDependsOnIt() {
    constexpr std::int64_t kMostElements = 4'000;
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    const auto reference = backends::makeBackend("reference", {}).value();
    const std::vector<Named> others = computing();
    std::set<Op> seen;
    std::string failed;
    int found = 0, reached = 0;
    std::uint64_t drawn = 0;
    for (const Case& test : backends::allCases()) {
      std::int64_t elements = 0;
      for (const backends::CaseInput& input : test.inputs)
        elements += ir::TensorType{DType::kF32, input.shape}.count();
      if (elements > kMostElements || test.op == Op::kEncode) continue;
      for (std::size_t k = 0; k < test.inputs.size(); ++k) {
        const Fill fill = test.inputs[k].fill;
        const bool isFloat = fill != Fill::kLabels && fill != Fill::kIds &&
                             fill != Fill::kManyIds && fill != Fill::kOwnIds &&
                             fill != Fill::kBytes && fill != Fill::kCoded && fill != Fill::kPooled;
        const bool isCompared = (test.op == Op::kFiniteNorm && k == 1) ||
                                (test.op == Op::kSelectIfFinite && k == 2) ||
                                (test.op == Op::kLossScale && (k == 1 || k == 3));
        if (!isFloat || isCompared || backends::chooses(test.op, k)) continue;
        const std::int64_t count = ir::TensorType{DType::kF32, test.inputs[k].shape}.count();
        backends::CaseOptions options{.compute = DType::kF64};
        const Outcome base = backends::runCase(*reference, test, options);
        options.planted = {
            k, static_cast<std::int64_t>(randomUniform(77, ++drawn) * static_cast<double>(count)),
            0};
        std::vector<std::pair<std::size_t, std::int64_t>> dependent;
        for (const double value : {-1e3, 1e3, 1e12}) {
          options.planted->value = value;
          const Outcome moved = backends::runCase(*reference, test, options);
          for (std::size_t o = 0; o < moved.outputs.size(); ++o)
            for (std::int64_t i = 0; i < moved.outputs[o].type().count(); ++i)
              if (moved.outputs[o].at(i) != base.outputs[o].at(i)) dependent.emplace_back(o, i);
        }
        seen.insert(test.op);
        options.planted->value = kNaN;
        const auto hold = [&](Backend& backend, const std::string& name) {
          const Outcome got = backends::runCase(backend, test, options);
          std::string text = got.problem;
          for (const auto& [o, i] : dependent) {
            if (!text.empty()) break;
            if (!isFloatType(got.outputs[o]) || std::isnan(got.outputs[o].at(i))) continue;
            text = fmt::format("output {} element {} is {}", o, i, got.outputs[o].at(i));
          }
          reached += text.empty() && !dependent.empty();
          if (!text.empty() && ++found <= 40)
            failed += fmt::format("{} ({}) on {}, NaN in element {} of operand {}: {}\n",
                                  ir::info(test.op).name, test.name, name, options.planted->element,
                                  k, text);
        };
        hold(*reference, "reference in f64");
        options.compute = DType::kF32;
        for (const Named& other : others)
          if (other.backend->supports(test.op, DType::kF32)) hold(*other.backend, other.name);
      }
    }
    QVERIFY2(found == 0, fmt::format("{}{} in all", failed, found).c_str());
    for (const Op op : {Op::kRelu, Op::kMatmul, Op::kConv2d, Op::kMaxPool2d, Op::kRowMax,
                        Op::kSoftmaxXent, Op::kClipNorm, Op::kAdam})
      QVERIFY2(seen.contains(op), std::string(ir::info(op).name).c_str());
    QVERIFY(reached > 1000);
  }

  // Matmuls large enough for another library's kernels, on two threads.
  void nanPassesLargeMatmuls() {
    constexpr std::int64_t kSide = 512;
    const ir::Attrs attrs{{"act", std::string("relu")}};
    const ir::TensorType type{DType::kF32, {kSide, kSide}}, row{DType::kF32, {kSide}};
    for (const Named& one : computing({Op::kMatmul})) {
      if (!one.name.starts_with("onednn")) continue;
      std::vector<float> a(kSide * kSide, 0.5f), b(kSide * kSide, -1.0f), bias(kSide, 3.0f),
          y(kSide * kSide);
      a[7 * kSide + 5] = std::nanf("");
      auto kernel = one.backend->bind({Op::kMatmul,
                                       "product",
                                       &attrs,
                                       {{a.data(), type}, {b.data(), type}, {bias.data(), row}},
                                       {{y.data(), type}}});
      QVERIFY(kernel.ok());
      (*kernel)->run();
      for (std::size_t i = 0; i < y.size(); ++i)
        QVERIFY2(i / kSide == 7 ? std::isnan(y[i]) : y[i] == 0,
                 fmt::format("{} on {}: {}", i, one.name, y[i]).c_str());
    }
  }

  // Where ReLU's output is NaN its gradient passes; in a pooling window with NaN the first NaN
  // receives the gradient.
  void gradientsPassNan() {
    constexpr std::int64_t kChannels = 5;
    const float nan = std::nanf("");
    for (const Named& one : computing({Op::kReluGrad, Op::kMaxPool2dGrad, Op::kMaxPool2d})) {
      std::vector<float> dy{1, 2, 3, 4}, y{nan, 1, 0, -1}, dx(4);
      const ir::Attrs none;
      const ir::TensorType four{DType::kF32, {4}};
      auto relu = one.backend->bind({Op::kReluGrad,
                                     "relu",
                                     &none,
                                     {{dy.data(), four}, {y.data(), four}},
                                     {{dx.data(), four}}});
      QVERIFY(relu.ok());
      (*relu)->run();
      QVERIFY2((dx == std::vector<float>{1, 2, 0, 0}), one.name.c_str());
      for (const std::int64_t stride : {1, 2})
        for (const bool rectifies : {false, true}) {
          ir::Attrs attrs{{"size", std::int64_t{2}}, {"stride", stride}};
          if (rectifies) attrs["act"] = std::string("relu");
          const std::int64_t side = 4, out = (side - 2) / stride + 1;
          const ir::TensorType image{DType::kF32, {1, side, side, kChannels}},
              windows{DType::kF32, {1, out, out, kChannels}};
          std::vector<float> x(static_cast<std::size_t>(image.count()), 1.0f),
              top(static_cast<std::size_t>(windows.count()));
          std::vector<float> given(top.size(), 1.0f), got(x.size());
          for (const std::size_t pixel : {3u, 6u, 7u, 15u})
            x[pixel * kChannels + pixel % kChannels] = nan;
          auto forward = one.backend->bind(
              {Op::kMaxPool2d, "pool", &attrs, {{x.data(), image}}, {{top.data(), windows}}});
          auto back = one.backend->bind(
              {Op::kMaxPool2dGrad,
               "pool",
               &attrs,
               {{x.data(), image}, {top.data(), windows}, {given.data(), windows}},
               {{got.data(), image}}});
          QVERIFY(forward.ok() && back.ok());
          (*forward)->run();
          (*back)->run();
          float sum = 0;
          for (const float each : got) sum += each;
          QVERIFY2(
              sum == static_cast<float>(windows.count()),
              fmt::format("{} of {} with stride {} on {}", sum, windows.count(), stride, one.name)
                  .c_str());
          QVERIFY2(got[3 * kChannels + 3] == 1 && got[15 * kChannels] == 1, one.name.c_str());
        }
    }
  }

  // On tensor cores, where available: for one token, y is the rounded v, and dv the rounded dy. For
  // many tokens: bit-identical whatever the order of warps, and equal to the f64 reference on
  // rounded operands up to the rounding of p and ds.
  void attentionOf16BitOperands_data() {
    QTest::addColumn<int>("major");
    QTest::addColumn<int>("minor");
    QTest::addColumn<QString>("operandDtype");
    for (const char* operandDtype : {"bf16", "f16"})
      for (const auto& [major, minor] : {std::pair{9, 0}, {8, 0}, {7, 5}})
        QTest::addRow("%s, %d.%d", operandDtype, major, minor) << major << minor << operandDtype;
    QTest::addRow("f32, 9.0") << 9 << 0 << "";
  }
  void attentionOf16BitOperands() {
    if (test::kSanitized) QSKIP("sanitizers do not follow the emulated device's stacks");
    QFETCH(int, major);
    QFETCH(int, minor);
    QFETCH(QString, operandDtype);
    const bool byTensors = major >= 8 && !operandDtype.isEmpty();
    const DType type = operandDtype == "f16" ? DType::kF16 : DType::kBf16;
    const auto asOperand = [&](float x) {
      return byTensors ? fromBits16(type, toBits16(type, x)) : x;
    };
    auto device = testing::makeEmulatedDevice();
    device->setComputeCapability(major, minor);
    std::vector<std::string> calls;
    device->calls = &calls;
    const auto cuda = backends::hosted(backends::makeCuda(std::move(device)));
    const auto runCase = [&](Backend& on, std::int64_t tokens, std::int64_t head, auto qkv,
                             auto dy) {
      return runAttention(on, operandDtype.toStdString(), tokens, head, qkv, dy);
    };
    // Midpoints that round to the even neighbour; in f16 also subnormal and overflowing numbers.
    const std::vector<float> odd{1.00390625f, 1.01171875f, 1.00048828125f, 1.00146484375f,
                                 -2.0009f,    3e-7f,       65520.0f,       -1.0f};
    std::vector<float> one(24, 0.5f);
    std::copy(odd.begin(), odd.end(), one.begin() + 16);
    const AttentionResult single = runCase(*cuda, 1, 8, one, odd);
    for (std::size_t i = 0; i < 8; ++i) {
      QCOMPARE(single.y[i], asOperand(odd[i]));
      QCOMPARE(single.dqkv[16 + i], asOperand(odd[i]));
    }
    const auto launched = [&](const std::string& kernel) {
      return std::any_of(calls.begin(), calls.end(), [&](const std::string& call) {
        return call.starts_with("launch " + kernel + " ");
      });
    };
    const std::string form = !byTensors ? "" : type == DType::kF16 ? "F16" : "Bf16";
    for (const char* kernel : {"attention", "attentionQueryGrad", "attentionKeyGrad"})
      QVERIFY(launched(kernel + form));

    constexpr std::int64_t kTokens = 139, kHead = 24;
    std::vector<float> qkv(kTokens * 3 * kHead), dy(kTokens * kHead);
    for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = static_cast<float>(randomNormal(1, i));
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(randomNormal(2, i));
    const AttentionResult got = runCase(*cuda, kTokens, kHead, qkv, dy),
                          again = runCase(*cuda, kTokens, kHead, qkv, dy);
    QVERIFY(got.y == again.y && got.lse == again.lse && got.dqkv == again.dqkv);
    std::vector<double> qkvRounded(qkv.size()), dyRounded(dy.size());
    std::transform(qkv.begin(), qkv.end(), qkvRounded.begin(), asOperand);
    std::transform(dy.begin(), dy.end(), dyRounded.begin(), asOperand);
    const AttentionResult want = runCase(*backends::makeBackend("reference", {}).value(), kTokens,
                                         kHead, qkvRounded, dyRounded);
    const double unit = !byTensors ? 0 : type == DType::kF16 ? 0x1p-11 : 0x1p-8;
    const double y = apartBy(got.y, want.y), lse = apartBy(got.lse, want.lse),
                 dqkv = apartBy(got.dqkv, want.dqkv);
    QVERIFY2(y <= unit + backends::kCaseTolerance && dqkv <= unit + backends::kCaseTolerance &&
                 lse < backends::kCaseTolerance,
             fmt::format("y {}, lse {}, dqkv {} of {}", y, lse, dqkv, unit).c_str());
    QVERIFY2(!byTensors || (y > unit / 64 && dqkv > unit / 64),
             fmt::format("y {}, dqkv {} of {}", y, dqkv, unit).c_str());
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
    QVERIFY(unknown.error().next.text().find("onednn") != std::string::npos);
    QVERIFY(!backends::makeBackend("onednn", {0}).ok());
    auto onednn = backends::makeBackend("onednn", {}).value();
    QVERIFY(!onednn->supports(Op::kMatmul, DType::kF64));
    QVERIFY(!onednn->supports(Op::kAllReduce, DType::kF32));
    // GPU kernels write floats.
    const auto cuda = backends::makeCuda(testing::makeEmulatedDevice());
    const ir::Attrs attrs;
    float from = 0;
    std::uint8_t to = 0;
    const auto cast = cuda->bind(
        {Op::kCast, "to bytes", &attrs, {{&from, {DType::kF32, {1}}}}, {{&to, {DType::kU8, {1}}}}});
    QCOMPARE(cast.error().what,
             std::string("to bytes: the cuda backend has no kernel for cast in u8"));
    const ir::Attrs heads{
        {"tokens", std::int64_t{2}}, {"head", std::int64_t{129}}, {"causal", std::int64_t{1}}};
    const ir::TensorType qkv{DType::kF32, {2, 3 * 129}}, y{DType::kF32, {2, 129}},
        lse{DType::kF32, {2, 1}};
    const auto attention = cuda->bind(
        {Op::kAttention, "attention", &heads, {{&from, qkv}}, {{&from, y}, {&from, lse}}});
    QCOMPARE(attention.error().why,
             std::string("a head has 129 channels, and its kernels take at most 128"));
  }

  // Errors of failed device work are reported, and outputs stay unchanged.
  void aDeviceThatFails() {
    if (test::kSanitized) QSKIP("sanitizers do not follow the emulated device's stacks");
    auto device = testing::makeEmulatedDevice();
    device->failAt(2);
    const auto backend = backends::hosted(backends::makeCuda(std::move(device)));
    const ir::Attrs attrs;
    const ir::TensorType type{DType::kF32, {2}};
    std::vector<float> x{1, -1}, y(2);
    const auto relu =
        backend->bind({Op::kRelu, "relu", &attrs, {{x.data(), type}}, {{y.data(), type}}}).value();
    relu->run();
    QVERIFY(backends::failureOf(*backend).ok());
    QVERIFY((y == std::vector<float>{1, 0}));
    for (int run = 0; run < 2; ++run) {
      y = {7, 7};
      relu->run();
      const Status failed = backends::failureOf(*backend);
      QVERIFY(!failed.ok() && backends::isLost(*backend));
      QCOMPARE(failed.error().what, std::string("the device fell off the bus"));
      QVERIFY((y == std::vector<float>{7, 7}));
    }
    QVERIFY(backends::failureOf(*backends::makeBackend("reference", {}).value()).ok());
  }

 private:
  // Corrupts elements that are small relative to their output; counts how many are detected.
  struct Far {
    int all = 0, held = 0;
  };
  void lookFar(const Case& test, const Outcome& want, std::size_t k) {
    const backends::CaseTensor& a = want.outputs[k];
    double largest = 0;
    std::int64_t smallest = -1;
    for (std::int64_t i = 0; i < a.type().count(); ++i) {
      const double size = std::abs(a.at(i));
      largest = std::max(largest, size);
      if (size > 0 && (smallest < 0 || size < std::abs(a.at(smallest)))) smallest = i;
    }
    if (smallest < 0 || std::abs(a.at(smallest)) > backends::kCaseTolerance * largest) return;
    for (const double factor : {0.0, 1.01, -1.0}) {
      Outcome got = want;
      got.outputs[k].set(smallest, factor * a.at(smallest));
      ++far_[test.op].all;
      if (!wrong(want, got).empty()) ++far_[test.op].held;
    }
  }
  std::map<Op, Far> far_;
};

QTEST_GUILESS_MAIN(ConformanceTest)
#include "conformance_test.moc"
