// What is asked of single kernels, beside the cases that conformance_test goes through: random
// numbers, rounding, coded gradients, NaN and infinity on every backend, convolutions and attention
// of the CUDA backend, and packed matmuls of the CPU's.
#include <QTest>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <string>
#include <thread>

#include "engine/backends/case_run.h"
#include "engine/base/list_folder.h"
#include "engine/base/random.h"
#include "engine/base/subnormals.h"
#include "tests/engine/backends/computing.h"

using namespace lockstep;
using backends::Backend;
using ir::Op;

namespace {

using backends::fromBits16;
using backends::toBits16;
using testing::computing;
using testing::Named;

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

class KernelsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // Reports why the row "cuda" is missing from the tests here.
  void hasAGpu() {
    const std::string why = testing::whyNoGpu();
    if (!why.empty()) QSKIP(why.c_str());
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

  // Also on threads that were started before, so that no bit depends on how many share the work.
  void subnormalsAreZeroOnAllThreads() {
    constexpr std::int64_t kCount = 1 << 17;
    std::vector<float> x(kCount, std::numeric_limits<float>::min()), y(kCount);
    const ir::Attrs half{{"factor", 0.5}};
    const ir::TensorType type{DType::kF32, {kCount}};
    const auto two = backends::makeBackend("onednn", {.threads = 2, .barrierCost = 1}).value();
    const auto kernel =
        two->bind({Op::kScale, "half", &half, {{x.data(), type}}, {{y.data(), type}}}).value();
    const auto zeros = [&] { return std::count(y.begin(), y.end(), 0.0f); };
    kernel->run();  // starts the second thread
    QCOMPARE(zeros(), 0);
    {
      const FlushSubnormals flushed;
      kernel->run();
    }
    QCOMPARE(zeros(), kCount);
  }

  // A rank's thread is given its cores between the two; a team's threads keep those they begin
  // with.
  void theTeamStartsWithTheFirstKernel() {
    const auto threads = [] {
      std::set<std::string> out;
      for (const auto& one : listFolder("/proc/self/task")) out.insert(one.filename().string());
      return out;
    };
    std::set<std::string> before, made, bound;
    std::thread([&] {
      before = threads();
      const auto two = backends::makeBackend("onednn", {.threads = 2}).value();
      made = threads();
      float x = 1, y = 0;
      const ir::Attrs half{{"factor", 0.5}};
      const ir::TensorType type{DType::kF32, {1}};
      const auto kernel =
          two->bind({Op::kScale, "half", &half, {{&x, type}}, {{&y, type}}}).value();
      bound = threads();
    }).join();
    QVERIFY(std::ranges::includes(before, made));
    QVERIFY(!std::ranges::includes(before, bound));
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
};

QTEST_GUILESS_MAIN(KernelsTest)
#include "kernels_test.moc"
