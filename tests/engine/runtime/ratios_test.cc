// Ratios that hold on every machine: one fused kernel beats the kernels it stands for, and ranks
// that exchange gradients lose little to ranks that only meet. Both sides run in turn and
// their least times compared, until the ratio is there or the rounds are over.
#include <QTest>

#include <array>
#include <functional>
#include <map>

#include "engine/comm/stand_ins.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using ir::Op;

namespace {

constexpr int kLeastRounds = 5, kMostRounds = 200;

double since(Nanoseconds begin) { return static_cast<double>(monotonicNow() - begin) * 1e-9; }

// Kernels that run one after another, on named memory that others may share.
class Kernels {
 public:
  using Memory = std::map<std::string, std::pair<runtime::AlignedMemory, ir::TensorType>>;
  Kernels(backends::Backend& backend, Memory& memory) : backend_(backend), memory_(memory) {}

  static void make(Memory& memory, const std::string& name, ir::TensorType type) {
    auto data = runtime::allocateAligned(type.bytes(), name).value();
    if (type.dtype == DType::kF32)
      for (std::int64_t i = 0; i < type.count(); ++i)
        reinterpret_cast<float*>(data.get())[i] =
            static_cast<float>(randomNormal(memory.size(), static_cast<std::uint64_t>(i)));
    memory[name] = {std::move(data), std::move(type)};
  }
  void add(Op op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
           ir::Attrs attrs = {}) {
    backends::KernelSpec spec{op, "part", &attrs};
    std::vector<ir::TensorType> types;
    for (const std::string& input : inputs) {
      spec.inputs.push_back(operand(input));
      types.push_back(spec.inputs.back().type);
    }
    const auto inferred = ir::info(op).infer(types, attrs);
    LOCKSTEP_CHECK(inferred.ok(), "{}", inferred.error().text());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!memory_.contains(outputs[i])) make(memory_, outputs[i], (*inferred)[i]);
      spec.outputs.push_back(operand(outputs[i]));
    }
    auto kernel = backend_.bind(spec);
    LOCKSTEP_CHECK(kernel.ok(), "{}", kernel.error().text());
    kernels_.push_back(std::move(*kernel));
  }
  double run() {
    const Nanoseconds begin = monotonicNow();
    for (const auto& kernel : kernels_) kernel->run();
    return since(begin);
  }

 private:
  backends::Operand operand(const std::string& name) const {
    const auto& [data, type] = memory_.at(name);
    return {data.get(), type};
  }
  backends::Backend& backend_;
  Memory& memory_;
  std::vector<std::unique_ptr<backends::Kernel>> kernels_;
};

// Time of the parts relative to the fused kernel.
double gain(Kernels& fused, Kernels& parts, double enough) {
  double one = 1e9, many = 1e9;
  for (int round = 0; round < kMostRounds && (round < kLeastRounds || many / one < enough);
       ++round) {
    one = std::min(one, fused.run());
    many = std::min(many, parts.run());
  }
  return many / one;
}

// Zero images, which take no time to read.
class Blank final : public data::Dataset {
 public:
  explicit Blank(std::int64_t size)
      : size_(size), fields_{{"x", DType::kU8, {28, 28, 1}}, {"label", DType::kU8, {}}} {}
  std::int64_t size() const override { return size_; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t, std::size_t field, std::byte* out) const override {
    std::fill_n(out, fields_[field].bytes(), std::byte{0});
  }

 private:
  std::int64_t size_;
  std::vector<data::Field> fields_;
};

// Alternates blocks of steps with all-reduces and with barriers instead; a block's first step,
// where ranks synchronize, is not counted.
class Blocks final : public runtime::TrainerObserver {
 public:
  static constexpr std::int64_t kBlock = 6;
  Blocks(comm::SwitchedCommunicator& group, std::atomic<bool>& stop, double enough)
      : group_(group), stop_(stop), enough_(enough) {}
  void onReady(std::int64_t) override {}
  void onStep(const runtime::StepRecord& record) override {
    const std::int64_t place = (record.step - 1) % kBlock, block = (record.step - 1) / kBlock;
    if (place == 0) begin_ = record.end;
    if (place != kBlock - 1) return;
    double& least = block % 2 == 0 ? real_ : barrier_;
    least = std::min(least, static_cast<double>(record.end - begin_));
    group_.setCommunication(block % 2 == 0 ? comm::Communication::kBarrier
                                           : comm::Communication::kReal);
    // The next step is a real one, in which all agree to stop.
    if (block % 2 == 1 && block > 2 * kLeastRounds && share() >= enough_) stop_ = true;
  }
  void onEvents(const std::vector<plan::Event>&) override {}
  void onEpoch(const runtime::EpochRecord&) override {}
  void onCheckpoint(std::int64_t, const std::string&) override {}
  double share() const { return barrier_ / real_; }

 private:
  comm::SwitchedCommunicator& group_;
  std::atomic<bool>& stop_;
  const double enough_;
  Nanoseconds begin_ = 0;
  double real_ = 1e18, barrier_ = 1e18;
};

}  // namespace

class RatiosTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void denseLayerInOneKernel() {
    constexpr double kEnough = 1.05;
    auto backend = backends::makeBackend("onednn", {1});
    Kernels::Memory memory;
    Kernels::make(memory, "x", {DType::kF32, {512, 64}});
    Kernels::make(memory, "w", {DType::kF32, {64, 512}});
    Kernels::make(memory, "b", {DType::kF32, {512}});
    Kernels fused(**backend, memory), parts(**backend, memory);
    fused.add(Op::kMatmul, {"x", "w", "b"}, {"y"}, {{"act", std::string("relu")}});
    parts.add(Op::kMatmul, {"x", "w"}, {"product"});
    parts.add(Op::kBiasAdd, {"product", "b"}, {"sum"});
    parts.add(Op::kRelu, {"sum"}, {"z"});
    const double found = gain(fused, parts, kEnough);
    qInfo("the parts take %.2f times as long", found);
    QVERIFY(found >= kEnough);
  }

  // Compared with full scores, masked or not, and their softmax.
  void attentionInOneKernel() {
    constexpr double kEnough = 1.3;
    constexpr std::int64_t kTokens = 256, kHead = 64, kHeads = 4;
    auto backend = backends::makeBackend("onednn", {1});
    Kernels::Memory memory;
    Kernels::make(memory, "qkv", {DType::kF32, {kTokens, 3 * kHeads * kHead}});
    Kernels::make(memory, "label", {DType::kI32, {kTokens}});
    Kernels::make(memory, "weight", {DType::kF32, {kTokens}});
    Kernels::make(memory, "one", {DType::kF32, {1}});
    Kernels fused(**backend, memory), parts(**backend, memory);
    fused.add(Op::kAttention, {"qkv"}, {"y", "lse"},
              {{"tokens", kTokens}, {"head", kHead}, {"causal", std::int64_t{1}}});
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const auto named = [&](const char* what) { return fmt::format("{}{}", what, head); };
      for (const char* what : {"q", "k", "v"})
        Kernels::make(memory, named(what), {DType::kF32, {kTokens, kHead}});
      parts.add(Op::kMatmul, {named("q"), named("k")}, {named("scores")},
                {{"tb", std::int64_t{1}}});
      parts.add(Op::kSoftmaxXent, {named("scores"), "label", "weight"},
                {named("loss"), named("sums")});
      parts.add(Op::kSoftmaxXentGrad, {named("scores"), "label", "weight", named("sums"), "one"},
                {named("p")});
      parts.add(Op::kMatmul, {named("p"), named("v")}, {named("y")});
    }
    const double found = gain(fused, parts, kEnough);
    qInfo("the parts take %.2f times as long", found);
    QVERIFY(found >= kEnough);
  }

  void exchangedGradientsCostLittle() {
    constexpr double kEnough = 0.8;
    test::RunSettings settings;
    settings.model = test::fashionCnn();
    settings.compute = DType::kF32;
    settings.ranks = 2;
    settings.batch = 128;
    const auto plan = test::planOf(settings);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    const Blank images(settings.batch * Blocks::kBlock * 2 * kMostRounds);
    runtime::TrainerOptions options;
    options.evaluate = false;
    std::vector<std::unique_ptr<comm::Communicator>> owned;
    std::vector<comm::SwitchedCommunicator*> switched;
    auto groups = runtime::LocalGroups::make(plan->mesh, 30'000'000'000,
                                             [&](int, std::unique_ptr<comm::Communicator> group) {
                                               owned.push_back(std::move(group));
                                               auto out = comm::makeSwitched(*owned.back());
                                               switched.push_back(out.get());
                                               return out;
                                             })
                      .value();
    std::atomic<bool> stop{false};
    std::array observers{Blocks(*switched[0], stop, kEnough), Blocks(*switched[1], stop, kEnough)};
    const auto ranks = runtime::trainLocally({*plan, options, images, images, "onednn", {}}, groups,
                                             stop, [&](int rank) -> runtime::TrainerObserver& {
                                               return observers[static_cast<std::size_t>(rank)];
                                             });
    for (const auto& rank : ranks)
      QVERIFY2(rank.ok(), rank.ok() ? "" : rank.error().text().c_str());
    qInfo("with barriers alone a step takes %.1f %% of one with all-reduces",
          100 * observers[0].share());
    QVERIFY(observers[0].share() >= kEnough);
  }
};

QTEST_GUILESS_MAIN(RatiosTest)
#include "ratios_test.moc"
