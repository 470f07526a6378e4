// lockstep_kernel_bench [BACKEND [SECONDS]]: the kernels of one training step of the two examples,
// each timed alone with what it reads as cold as in a step, and their sum. CPU time of the calling
// thread, so that other work on the machine disturbs less.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "engine/backends/backend.h"
#include "engine/base/clock.h"
#include "engine/base/random.h"

using namespace lockstep;
using backends::Operand;
using ir::Op;

namespace {

// Named buffers and the kernels of one step, in order.
class Step {
 public:
  Step(backends::Backend& backend, std::string title, std::int64_t batch)
      : backend_(backend), title_(std::move(title)), batch_(batch) {}

  void add(Op op, const std::string& name, const std::vector<std::string>& inputs,
           const std::vector<std::string>& outputs, ir::Attrs attrs = {}) {
    backends::KernelSpec spec{op, name, &attrs};
    std::vector<ir::TensorType> types;
    for (const std::string& input : inputs) {
      spec.inputs.push_back(buffers_.at(input));
      types.push_back(spec.inputs.back().type);
    }
    const auto inferred = ir::info(op).infer(types, attrs);
    LOCKSTEP_CHECK(inferred.ok(), "{}", inferred.error().text());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!buffers_.contains(outputs[i])) make(outputs[i], (*inferred)[i]);
      spec.outputs.push_back({buffers_.at(outputs[i]).data, (*inferred)[i]});
    }
    auto kernel = backend_.bind(spec);
    LOCKSTEP_CHECK(kernel.ok(), "{}", kernel.error().text());
    names_.push_back(name);
    kernels_.push_back(std::move(*kernel));
  }

  void make(const std::string& name, ir::TensorType type) {
    void* data = ::operator new (static_cast<std::size_t>(type.bytes()) + 64, std::align_val_t{64});
    std::memset(data, 0, static_cast<std::size_t>(type.bytes()));
    const std::int64_t n = type.count();
    for (std::int64_t i = 0; i < n; ++i) {
      const auto index = static_cast<std::uint64_t>(i);
      if (type.dtype == DType::kF32)
        static_cast<float*>(data)[i] =
            static_cast<float>(0.1 * randomUniform(stableKey(name), index));
      if (type.dtype == DType::kU8)
        static_cast<std::uint8_t*>(data)[i] = randomBits(3, index) & 255;
      if (type.dtype == DType::kI32)
        static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(randomBits(4, index) % 10);
    }
    buffers_[name] = {data, std::move(type)};
  }
  void set(const std::string& name, float value) {
    *static_cast<float*>(buffers_.at(name).data) = value;
  }

  // Runs whole steps; each kernel's least and median time.
  void measure(double seconds) {
    std::vector<std::vector<Nanoseconds>> times(kernels_.size());
    std::vector<Nanoseconds> totals;
    const Nanoseconds end = monotonicNow() + static_cast<Nanoseconds>(seconds * 1e9);
    for (int step = 0; step < 20 || monotonicNow() < end; ++step) {
      Nanoseconds at = threadCpuNow();
      const Nanoseconds begin = at;
      for (std::size_t i = 0; i < kernels_.size(); ++i) {
        kernels_[i]->run();
        const Nanoseconds now = threadCpuNow();
        times[i].push_back(now - at);
        at = now;
      }
      totals.push_back(at - begin);
    }
    auto at = [](std::vector<Nanoseconds>& v, double part) {
      std::sort(v.begin(), v.end());
      return static_cast<double>(
                 v[static_cast<std::size_t>(part * static_cast<double>(v.size() - 1))]) /
             1e3;
    };
    fmt::print("{}, batch {}\n", title_, batch_);
    for (std::size_t i = 0; i < kernels_.size(); ++i)
      fmt::print("  {:<18} {:9.1f} µs   least {:9.1f}\n", names_[i], at(times[i], 0.5),
                 at(times[i], 0.0));
    const double median = at(totals, 0.5), least = at(totals, 0.0);
    fmt::print("  {:<18} {:9.1f} µs   least {:9.1f}   {:.0f} samples/s, at best {:.0f}\n", "step",
               median, least, static_cast<double>(batch_) / median * 1e6,
               static_cast<double>(batch_) / least * 1e6);
  }

  void addDataAndOptimizerState(std::int64_t parameters, Shape image) {
    make("bytes", {DType::kU8, std::move(image)});
    make("label", {DType::kI32, {batch_}});
    make("weight", {DType::kF32, {batch_}});
    for (const char* name : {"p", "g", "m", "v"}) make(name, {DType::kF32, {parameters}});
    for (const char* name : {"dloss", "norm", "lr", "t"}) make(name, {DType::kF32, {1}});
    set("dloss", 1);
    set("norm", static_cast<float>(batch_));
    set("lr", 1e-3f);
    set("t", 10);
  }
  // A parameter and its gradient as views into the flat groups.
  void view(const std::string& name, Shape shape, std::int64_t offset) {
    for (const char* group : {"p", "g"}) {
      const Operand flat = buffers_.at(group);
      buffers_[(group[0] == 'p' ? "" : "d") + name] = {static_cast<float*>(flat.data) + offset,
                                                       {DType::kF32, shape}};
    }
  }
  void reshape(const std::string& from, const std::string& to, Shape shape) {
    buffers_[to] = {buffers_.at(from).data, {DType::kF32, std::move(shape)}};
  }

  void addCast() {
    add(Op::kCast, "cast", {"bytes"}, {"x"}, {{"dtype", std::string("f32")}, {"scale", 1.0 / 255}});
  }
  void addLoss() {
    add(Op::kSoftmaxXent, "softmax-xent", {"logits", "label", "weight"}, {"loss", "lse"});
    add(Op::kCountCorrect, "count-correct", {"logits", "label", "weight"}, {"correct"});
    add(Op::kSoftmaxXentGrad, "softmax-xent-grad", {"logits", "label", "weight", "lse", "dloss"},
        {"logits"});
    reshape("logits", "dlogits", {batch_, 10});
  }
  void addAdam() {
    add(Op::kAdam, "adam", {"p", "g", "m", "v", "norm", "lr", "t"}, {"p", "m", "v"},
        {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.0}});
  }

 private:
  static std::uint64_t stableKey(const std::string& name) {
    return name.empty() ? 0 : static_cast<std::uint64_t>(name[0]);
  }
  backends::Backend& backend_;
  std::string title_;
  std::int64_t batch_;
  std::map<std::string, Operand> buffers_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<backends::Kernel>> kernels_;
};

const ir::Attrs kRelu{{"act", std::string("relu")}};
const ir::Attrs kTa{{"ta", std::int64_t{1}}}, kTb{{"tb", std::int64_t{1}}};

void mlp(backends::Backend& backend, std::int64_t batch, double seconds) {
  Step s(backend, "fashion-mlp", batch);
  s.addDataAndOptimizerState(101770, {batch, 784});
  s.view("w1", {784, 128}, 0);
  s.view("b1", {128}, 100352);
  s.view("w2", {128, 10}, 100480);
  s.view("b2", {10}, 101760);
  s.addCast();
  s.add(Op::kMatmul, "dense1", {"x", "w1", "b1"}, {"h"}, kRelu);
  s.add(Op::kMatmul, "dense2", {"h", "w2", "b2"}, {"logits"});
  s.addLoss();
  s.add(Op::kMatmul, "dense2.w", {"h", "dlogits"}, {"dw2"}, kTa);
  s.add(Op::kReduceRows, "dense2.b", {"dlogits"}, {"db2"});
  s.add(Op::kMatmul, "dense2.x", {"dlogits", "w2"}, {"dh"}, kTb);
  s.add(Op::kReluGrad, "relu-grad", {"dh", "h"}, {"dh"});
  s.add(Op::kMatmul, "dense1.w", {"x", "dh"}, {"dw1"}, kTa);
  s.add(Op::kReduceRows, "dense1.b", {"dh"}, {"db1"});
  s.addAdam();
  s.measure(seconds);
}

void cnn(backends::Backend& backend, std::int64_t batch, double seconds) {
  Step s(backend, "fashion-cnn", batch);
  s.addDataAndOptimizerState(54410, {batch, 28, 28, 1});
  s.view("w1", {3, 3, 1, 32}, 0);
  s.view("b1", {32}, 288);
  s.view("w2", {5408, 10}, 320);
  s.view("b2", {10}, 54400);
  s.addCast();
  ir::Attrs conv{{"stride", std::int64_t{1}}, {"pad", std::int64_t{0}}};
  const ir::Attrs pool{{"size", std::int64_t{2}}, {"stride", std::int64_t{2}}};
  ir::Attrs convRelu = conv, convGrad = conv;
  convRelu["act"] = std::string("relu");
  convGrad["shape"] = Shape{3, 3, 1, 32};
  s.add(Op::kConv2d, "conv", {"x", "w1", "b1"}, {"c"}, convRelu);
  s.add(Op::kMaxPool2d, "pool", {"c"}, {"q"}, pool);
  s.reshape("q", "flat", {batch, 5408});
  s.add(Op::kMatmul, "dense", {"flat", "w2", "b2"}, {"logits"});
  s.addLoss();
  s.add(Op::kMatmul, "dense.w", {"flat", "dlogits"}, {"dw2"}, kTa);
  s.add(Op::kReduceRows, "dense.b", {"dlogits"}, {"db2"});
  s.add(Op::kMatmul, "dense.x", {"dlogits", "w2"}, {"dflat"}, kTb);
  s.reshape("dflat", "dq", {batch, 13, 13, 32});
  s.add(Op::kMaxPool2dGrad, "pool-grad", {"c", "q", "dq"}, {"dc"}, pool);
  s.add(Op::kReluGrad, "relu-grad", {"dc", "c"}, {"dc"});
  s.add(Op::kConv2dWeightGrad, "conv.w", {"x", "dc"}, {"dw1"}, convGrad);
  s.add(Op::kReduceRows, "conv.b", {"dc"}, {"db1"});
  s.addAdam();
  s.measure(seconds);
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 2;
  if (argc > 2) std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), seconds);
  auto backend = backends::makeBackend(argc > 1 ? argv[1] : "onednn", {});
  if (!backend.ok()) {
    fmt::print(stderr, "{}\n", backend.error().text());
    return 2;
  }
  mlp(**backend, 32, seconds);
  mlp(**backend, 256, seconds);
  cnn(**backend, 64, seconds);
  return 0;
}
