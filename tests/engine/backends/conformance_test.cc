// Compares every op that has a kernel, on several shapes and on every backend, with the reference
// backend in f64. Operands are aligned to their elements only; outputs are poisoned before the run
// and guarded on both sides; in-place execution is tested where permitted.
#include <QTest>
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "engine/backends/backend.h"
#include "engine/backends/case_run.h"
#include "engine/backends/cuda.h"
#include "engine/backends/hosted.h"
#include "engine/base/clock.h"
#include "engine/base/random.h"
#include "tests/engine/backends/allocations.h"
#include "tests/engine/backends/computing.h"
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
using testing::computing;
using testing::Named;
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
    const std::string why = testing::whyNoGpu();
    if (!why.empty()) QSKIP(why.c_str());
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
  // top-k sends NaN whole (kernels_test, codedTrouble).
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
