#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string_view>

#include "agent/selftest.h"
#include "engine/backends/cases.h"
#include "engine/base/clock.h"
#include "engine/device/device.h"

namespace lockstep::agent {
namespace {

using backends::Operand;
using device::Device;
using device::Memory;
using device::Where;

struct NamedPeaks {
  std::string_view name;  // what the driver's name has in it; the first that fits
  DevicePeaks peaks;
};
// From NVIDIA's data sheets of these products.
constexpr double kTera = 1e12, kGiga = 1e9;
constexpr NamedPeaks kPeaks[] = {
    {"B200", {2250 * kTera, 2250 * kTera, 75 * kTera, 8000 * kGiga}},
    {"GH200 144G", {989.4 * kTera, 989.4 * kTera, 66.9 * kTera, 4900 * kGiga}},
    {"GH200", {989.4 * kTera, 989.4 * kTera, 66.9 * kTera, 4000 * kGiga}},
    {"H200 NVL", {835.5 * kTera, 835.5 * kTera, 60 * kTera, 4800 * kGiga}},
    {"H200", {989.4 * kTera, 989.4 * kTera, 66.9 * kTera, 4800 * kGiga}},
    {"H100 NVL", {835.5 * kTera, 835.5 * kTera, 60 * kTera, 3900 * kGiga}},
    {"H100 PCIe", {756 * kTera, 756 * kTera, 51.2 * kTera, 2000 * kGiga}},
    {"H100 80GB HBM3", {989.4 * kTera, 989.4 * kTera, 66.9 * kTera, 3350 * kGiga}},
    {"A100-SXM4-40GB", {312 * kTera, 312 * kTera, 19.5 * kTera, 1555 * kGiga}},
    {"A100-SXM4-80GB", {312 * kTera, 312 * kTera, 19.5 * kTera, 2039 * kGiga}},
    {"A100-PCIE-40GB", {312 * kTera, 312 * kTera, 19.5 * kTera, 1555 * kGiga}},
    {"A100 80GB PCIe", {312 * kTera, 312 * kTera, 19.5 * kTera, 1935 * kGiga}},
    {"A30", {165 * kTera, 165 * kTera, 10.3 * kTera, 933 * kGiga}},
    {"A40", {149.7 * kTera, 149.7 * kTera, 37.4 * kTera, 696 * kGiga}},
    {"A10G", {0, 0, 0, 600 * kGiga}},
    {"A10", {125 * kTera, 125 * kTera, 31.2 * kTera, 600 * kGiga}},
    {"L40S", {362 * kTera, 362 * kTera, 91.6 * kTera, 864 * kGiga}},
    {"L40", {181 * kTera, 181 * kTera, 90.5 * kTera, 864 * kGiga}},
    {"L4", {121 * kTera, 121 * kTera, 30.3 * kTera, 300 * kGiga}},
    {"Tesla T4", {0, 65 * kTera, 8.1 * kTera, 320 * kGiga}},
    {"RTX 4090", {165.2 * kTera, 165.2 * kTera, 82.6 * kTera, 1008 * kGiga}},
    {"RTX 3090 Ti", {80 * kTera, 80 * kTera, 40 * kTera, 1008 * kGiga}},
    {"RTX 3090", {71 * kTera, 71 * kTera, 35.6 * kTera, 936 * kGiga}},
};

// Where operands lie, and how long work takes there.
class Bench {
 public:
  virtual ~Bench() = default;
  virtual Result<void*> allocate(std::int64_t bytes) = 0;  // until the bench ends
  virtual Status fill(void* to, const void* from, std::int64_t bytes) = 0;
  // Seconds of `times` runs.
  virtual Result<double> seconds(const std::function<void()>& run, int times) = 0;
};

class HostBench final : public Bench {
 public:
  Result<void*> allocate(std::int64_t bytes) override {
    const std::size_t size = (static_cast<std::size_t>(bytes) + 127) / 64 * 64;
    void* const memory = std::aligned_alloc(64, size);
    if (memory == nullptr) return makeError(Code::kResourceExhausted, "{} MiB cannot be had", size >> 20);
    std::memset(memory, 1, size);
    memory_.emplace_back(memory, std::free);
    return memory;
  }
  Status fill(void* to, const void* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return {};
  }
  Result<double> seconds(const std::function<void()>& run, int times) override {
    const Nanoseconds begin = monotonicNow();
    for (int i = 0; i < times; ++i) run();
    return static_cast<double>(monotonicNow() - begin) * 1e-9;
  }

 private:
  std::vector<std::unique_ptr<void, void (*)(void*)>> memory_;
};

class DeviceBench final : public Bench {
 public:
  explicit DeviceBench(Device& device) : device_(device) {}
  Result<void*> allocate(std::int64_t bytes) override { return allocate(bytes, Where::kDevice); }
  Result<void*> allocate(std::int64_t bytes, Where where) {
    LOCKSTEP_ASSIGN(Memory memory, Memory::allocate(device_, bytes, where));
    memory_.push_back(std::move(memory));
    return static_cast<void*>(memory_.back().data());
  }
  Status fill(void* to, const void* from, std::int64_t bytes) override {
    LOCKSTEP_ASSIGN(const Memory pinned, Memory::allocate(device_, bytes, Where::kPinned));
    std::memcpy(pinned.data(), from, static_cast<std::size_t>(bytes));
    device_.copy(to, pinned.data(), bytes);
    return device_.synchronize();
  }
  Result<double> seconds(const std::function<void()>& run, int times) override {
    LOCKSTEP_ASSIGN(const auto begin, device_.makeEvent());
    LOCKSTEP_ASSIGN(const auto end, device_.makeEvent());
    device_.record(*begin, device::Queue::kCompute);
    for (int i = 0; i < times; ++i) run();
    device_.record(*end, device::Queue::kCompute);
    LOCKSTEP_TRY(device_.synchronize());
    return device_.seconds(*begin, *end);
  }

 private:
  Device& device_;
  std::vector<Memory> memory_;
};

// The median of five windows' seconds a run, each window as long as makes them a fifth of the time.
Result<double> secondsOf(Bench& bench, const std::function<void()>& run, double seconds) {
  constexpr int kWindows = 5, kMost = 10000;
  LOCKSTEP_TRY(bench.seconds(run, 1).status());
  LOCKSTEP_ASSIGN(const double one, bench.seconds(run, 2));
  const double times = seconds / kWindows / std::max(1e-9, one / 2);
  const int each = static_cast<int>(std::clamp(times, 1.0, static_cast<double>(kMost)));
  std::vector<double> windows;
  for (int i = 0; i < kWindows; ++i) {
    LOCKSTEP_ASSIGN(const double took, bench.seconds(run, each));
    windows.push_back(took / each);
  }
  std::nth_element(windows.begin(), windows.begin() + kWindows / 2, windows.end());
  return windows[kWindows / 2];
}

Result<double> productSeconds(backends::Backend& backend, Bench& bench, DType factors, const SpeedOptions& options) {
  const std::int64_t n = options.side;
  const ir::TensorType factor{factors, {n, n}}, sum{DType::kF32, {n, n}};
  // Numbers as trainings have them: of zeros a product takes less power, and may be faster.
  backends::CaseTensor some({factors, {std::min<std::int64_t>(n * n, 1 << 20)}});
  some.setFilled(backends::Fill::kNormal, 1);
  std::vector<Operand> operands;
  for (const ir::TensorType& type : {factor, factor, sum}) {
    LOCKSTEP_ASSIGN(void* const data, bench.allocate(type.bytes()));
    for (std::int64_t at = 0; operands.size() < 2 && at < type.bytes(); at += some.type().bytes())
      LOCKSTEP_TRY(bench.fill(static_cast<std::byte*>(data) + at, some.bytes().data(),
                              std::min(some.type().bytes(), type.bytes() - at)));
    operands.push_back({data, type});
  }
  const ir::Attrs attrs;
  LOCKSTEP_ASSIGN(const auto kernel,
                  backend.bind({ir::Op::kMatmul, "product", &attrs, {operands[0], operands[1]}, {operands[2]}}));
  return secondsOf(bench, [&] { kernel->run(); }, options.seconds);
}

}  // namespace

DevicePeaks knownPeaks(const std::string& name) {
  for (const NamedPeaks& one : kPeaks) {
    const std::size_t at = name.find(one.name);
    if (at == std::string::npos) continue;
    const std::size_t end = at + one.name.size();  // whole words: an L40 is no L4
    if ((at == 0 || name[at - 1] == ' ') && (end == name.size() || name[end] == ' ' || name[end] == '-')) return one.peaks;
  }
  return {};
}

double pcieBytesPerSecond(int generation, int lanes) {
  // Of a lane, by generation: transfers a second, and what of them is not coding.
  constexpr double kLanes[] = {0, 2.5e9 * 0.8, 5e9 * 0.8, 8e9 * 128 / 130, 16e9 * 128 / 130, 32e9 * 128 / 130, 64e9 * 242 / 256};
  if (generation < 1 || generation >= static_cast<int>(std::size(kLanes)) || lanes < 1) return 0;
  return kLanes[generation] / 8 * lanes;
}

std::vector<SpeedFinding> measureSpeeds(backends::Backend& backend, const SpeedOptions& options) {
  std::vector<SpeedFinding> out;
  const auto add = [&](std::string what, bool isProduct, double work, double peak, const Result<double>& seconds) {
    SpeedFinding finding{std::move(what), isProduct, 0, peak, ""};
    if (!seconds.ok()) finding.why = seconds.error().text();
    else if (*seconds > 0) finding.perSecond = work / *seconds;
    else finding.why = "it took no time";
    out.push_back(std::move(finding));
  };
  Device* const device = backend.device();
  const auto bench = [&]() -> std::unique_ptr<Bench> {
    if (device != nullptr) return std::make_unique<DeviceBench>(*device);
    return std::make_unique<HostBench>();
  };
  const double side = static_cast<double>(options.side);
  for (const auto& [type, peak] : {std::pair{DType::kBf16, options.peaks.bf16}, {DType::kF16, options.peaks.f16},
                                   {DType::kF32, options.peaks.f32}}) {
    const auto here = bench();
    add(fmt::format("product of {}³ in {}", options.side, dtypeName(type)), true, 2 * side * side * side, peak,
        productSeconds(backend, *here, type, options));
  }
  const std::int64_t bytes = options.copyBytes;
  const double size = static_cast<double>(bytes);
  if (device == nullptr) {
    HostBench here;
    const auto seconds = [&]() -> Result<double> {
      LOCKSTEP_ASSIGN(void* const from, here.allocate(bytes));
      LOCKSTEP_ASSIGN(void* const to, here.allocate(bytes));
      return secondsOf(here, [&] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); }, options.seconds);
    };
    add("copy in memory", false, 2 * size, options.peaks.memory, seconds());
    return out;
  }
  const auto copySeconds = [&](Where to, Where from) -> Result<double> {
    DeviceBench here(*device);
    LOCKSTEP_ASSIGN(void* const there, here.allocate(bytes, to));
    LOCKSTEP_ASSIGN(void* const source, here.allocate(bytes, from));
    return secondsOf(here, [&] { device->copy(there, source, bytes); }, options.seconds);
  };
  add("copy in memory", false, 2 * size, options.peaks.memory, copySeconds(Where::kDevice, Where::kDevice));
  add("copy to the device", false, size, options.pcie, copySeconds(Where::kDevice, Where::kPinned));
  add("copy from the device", false, size, options.pcie, copySeconds(Where::kPinned, Where::kDevice));
  return out;
}

}  // namespace lockstep::agent
