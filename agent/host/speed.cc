#include "agent/host/speed.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "engine/backends/case_tensor.h"
#include "engine/base/clock.h"
#include "engine/base/statistics.h"
#include "engine/base/unique_fd.h"
#include "engine/device/device.h"

namespace lockstep::agent {
namespace {

using backends::Operand;
using device::Device;
using device::Memory;
using device::Where;

constexpr std::int64_t kDiskBlock = 1 << 20;
constexpr std::size_t kMostWrites = 16;  // of the file: a fast disk is not worn by a long benchmark

// Where operands lie, and how long work on them takes.
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
    if (memory == nullptr)
      return makeError(Code::kResourceExhausted, "cannot allocate {} MiB", size >> 20);
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

std::unique_ptr<Bench> benchOf(backends::Backend& backend) {
  if (backend.device() != nullptr) return std::make_unique<DeviceBench>(*backend.device());
  return std::make_unique<HostBench>();
}

// Five windows, each as long as makes them a fifth of the time; of what takes longer than all that
// a run is enough.
Result<RunTime> timeOf(Bench& bench, const std::function<void()>& run, double seconds) {
  constexpr int kWindows = 5, kMost = 10000;
  LOCKSTEP_ASSIGN(const double first, bench.seconds(run, 1));
  if (first > seconds) return RunTime{first, first};
  LOCKSTEP_ASSIGN(const double one, bench.seconds(run, 2));
  const double times = seconds / kWindows / std::max(1e-9, one / 2);
  const int each = static_cast<int>(std::clamp(times, 1.0, static_cast<double>(kMost)));
  std::array<double, kWindows> windows{};
  for (double& window : windows) {
    LOCKSTEP_ASSIGN(const double took, bench.seconds(run, each));
    window = took / each;
  }
  std::sort(windows.begin(), windows.end());
  if (windows[0] <= 0) return makeError(Code::kInternal, "it took no time");
  return RunTime{windows[kWindows / 2], windows[0]};
}

// Numbers as trainings have them: of zeros a product takes less power, and may be faster.
Result<Operand> filled(Bench& bench, const ir::TensorType& type) {
  LOCKSTEP_ASSIGN(void* const data, bench.allocate(type.bytes()));
  backends::CaseTensor some({type.dtype, {std::min<std::int64_t>(type.count(), 1 << 20)}});
  some.setFilled(backends::Fill::kNormal, 1);
  for (std::int64_t at = 0; at < type.bytes(); at += some.type().bytes())
    LOCKSTEP_TRY(bench.fill(static_cast<std::byte*>(data) + at, some.bytes().data(),
                            std::min(some.type().bytes(), type.bytes() - at)));
  return Operand{data, type};
}

}  // namespace

Result<RunTime> timeProduct(backends::Backend& backend, DType operandDtype, std::int64_t side,
                            double seconds, bool tf32) {
  const auto bench = benchOf(backend);
  LOCKSTEP_ASSIGN(const Operand a, filled(*bench, {operandDtype, {side, side}}));
  LOCKSTEP_ASSIGN(const Operand b, filled(*bench, {operandDtype, {side, side}}));
  const ir::TensorType sum{DType::kF32, {side, side}};
  LOCKSTEP_ASSIGN(void* const y, bench->allocate(sum.bytes()));
  ir::Attrs attrs;
  if (tf32) attrs["tf32"] = std::int64_t{1};
  LOCKSTEP_ASSIGN(const auto kernel,
                  backend.bind({ir::Op::kMatmul, "product", &attrs, {a, b}, {{y, sum}}}));
  return timeOf(
      *bench, [&] { kernel->run(); }, seconds);
}

Result<RunTime> timeMemory(backends::Backend& backend, const MemoryRun& run, std::int64_t bytes,
                           double seconds) {
  const auto bench = benchOf(backend);
  const ir::TensorType type{DType::kF32, {std::max<std::int64_t>(1, bytes / 4)}};
  ir::Attrs attrs;
  if (run.op == ir::Op::kScale) attrs["factor"] = 0.5;
  backends::KernelSpec spec{run.op, std::string(run.name), &attrs};
  const bool sums = run.op == ir::Op::kSumSquares;
  for (int i = 0; i < (sums ? 1 : run.arrays - 1); ++i) {
    LOCKSTEP_ASSIGN(spec.inputs.emplace_back(), filled(*bench, type));
  }
  const ir::TensorType out = sums ? ir::TensorType{DType::kF32, {1}} : type;
  LOCKSTEP_ASSIGN(void* const y, bench->allocate(out.bytes()));
  spec.outputs.push_back({y, out});
  LOCKSTEP_ASSIGN(const auto kernel, backend.bind(spec));
  return timeOf(
      *bench, [&] { kernel->run(); }, seconds);
}

Result<RunTime> timeCopy(backends::Backend& backend, Copied way, std::int64_t bytes,
                         double seconds) {
  Device* const device = backend.device();
  if (device == nullptr) {
    if (way != Copied::kWithin)
      return makeError(Code::kFailedPrecondition, "{} has no device", backend.name());
    HostBench here;
    LOCKSTEP_ASSIGN(void* const from, here.allocate(bytes));
    LOCKSTEP_ASSIGN(void* const to, here.allocate(bytes));
    return timeOf(
        here, [&] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); }, seconds);
  }
  DeviceBench there(*device);
  LOCKSTEP_ASSIGN(
      void* const from,
      there.allocate(bytes, way == Copied::kToDevice ? Where::kPinned : Where::kDevice));
  LOCKSTEP_ASSIGN(
      void* const to,
      there.allocate(bytes, way == Copied::kFromDevice ? Where::kPinned : Where::kDevice));
  return timeOf(
      there, [&] { device->copy(to, from, bytes); }, seconds);
}

Result<RunTime> timeDiskWrite(const std::string& folder, std::int64_t bytes, double seconds) {
  std::string path = folder + "/speed-XXXXXX";
  const UniqueFd file(mkostemp(path.data(), O_CLOEXEC));
  if (file.get() < 0) return systemError(errno, message("cannot write in {}", folder));
  unlink(path.c_str());
  // A disk that compresses gains nothing by it.
  std::vector<std::uint64_t> block(kDiskBlock / sizeof(std::uint64_t));
  std::mt19937_64 random(1);
  std::generate(block.begin(), block.end(), std::ref(random));
  std::vector<double> times;
  const Nanoseconds begin = monotonicNow();
  while (times.empty() || (times.size() < kMostWrites &&
                           static_cast<double>(monotonicNow() - begin) * 1e-9 < seconds)) {
    if (ftruncate(file.get(), 0) != 0 || lseek(file.get(), 0, SEEK_SET) != 0)
      return systemError(errno, message("cannot write in {}", folder));
    const Nanoseconds before = monotonicNow();
    for (std::int64_t left = bytes; left > 0;) {
      const ssize_t written =
          write(file.get(), block.data(), static_cast<std::size_t>(std::min(left, kDiskBlock)));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return systemError(errno, message("cannot write in {}", folder));
      left -= written;
    }
    if (fdatasync(file.get()) != 0)
      return systemError(errno, message("cannot write in {}", folder));
    times.push_back(static_cast<double>(monotonicNow() - before) * 1e-9);
  }
  const double least = *std::ranges::min_element(times);
  return RunTime{median(std::move(times)), least};
}

}  // namespace lockstep::agent
