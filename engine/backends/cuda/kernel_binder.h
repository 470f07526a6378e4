// Binds ops of the CUDA backend to sequences of kernel launches and matmuls. Internal to the
// backend: cuda.cc, and cuda_rows.cc for row-sparse values and gradient compression.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/backends/compression.h"
#include "engine/backends/cuda.h"
#include "engine/backends/cuda/arguments.h"
#include "engine/backends/kernel.h"

namespace lockstep::backends::cuda {

inline constexpr unsigned kMostDown = 65535;

// Scratch memory on the device, shared by all kernels, which run one at a time. Where it is too
// small for a kernel being bound, a block of at least twice the size is added; kernels bound
// earlier keep theirs. Threads: as the device.
class Scratch {
 public:
  explicit Scratch(device::Device& device) : device_(device) {}
  void begin() { used_ = 0; }  // call when binding another kernel
  Result<std::byte*> take(Index bytes) {
    constexpr Index kAlignment = 256;
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (blocks_.empty() || used_ + bytes > blocks_.back().bytes()) {
      const Index size = std::max(bytes, blocks_.empty() ? 0 : 2 * blocks_.back().bytes());
      LOCKSTEP_ASSIGN(auto block, device::Memory::allocate(device_, size, device::Where::kDevice));
      blocks_.push_back(std::move(block));
      bytes_ += size;
      used_ = 0;
    }
    return blocks_.back().data() + std::exchange(used_, used_ + bytes);
  }
  Index bytes() const { return bytes_; }  // total over all blocks

 private:
  device::Device& device_;
  std::vector<device::Memory> blocks_;
  Index used_ = 0, bytes_ = 0;
};

// A kernel of this backend: a sequence of launches and matmuls.
class CudaKernel final : public Kernel {
 public:
  CudaKernel(device::Device& device, Scratch& scratch) : device_(device), scratch_(scratch) {
    scratch.begin();
  }

  // Adds a launch. Errors: those of the device, for a kernel that its program does not have.
  template <typename Arguments>
  Status add(std::string_view name, unsigned blocks, const Arguments& arguments,
             unsigned blocksDown = 1, unsigned threads = kThreads) {
    static_assert(sizeof(Arguments) <= sizeof(Step::arguments) &&
                  std::is_trivially_copyable_v<Arguments>);
    if (blocks == 0 || blocksDown == 0) return {};  // nothing to do
    if (blocksDown > kMostDown)
      return makeError(Code::kFailedPrecondition,
                       "kernel {} would need {} blocks in y; a GPU's limit is {}", name, blocksDown,
                       kMostDown);
    LOCKSTEP_ASSIGN(const device::Function function, device_.function(name));
    Step& step = steps_.emplace_back();
    step.launch = {function, blocks, blocksDown, threads, nullptr, sizeof arguments};
    std::memcpy(step.arguments.data(), &arguments, sizeof arguments);
    return {};
  }
  Status add(const device::Matmul& matmul) {
    LOCKSTEP_ASSIGN(steps_.emplace_back().matmul, device_.bind(matmul));
    bytes_ += steps_.back().matmul->workspaceBytes();
    return {};
  }
  // Allocates scratch memory, whose contents do not survive the run.
  template <typename T = float>
  Result<T*> workspace(Index count) {
    const Index before = scratch_.bytes();
    LOCKSTEP_ASSIGN(std::byte* const memory, scratch_.take(count * static_cast<Index>(sizeof(T))));
    bytes_ += scratch_.bytes() - before;
    return reinterpret_cast<T*>(memory);
  }
  // Allocates memory owned by the kernel: initially zero, and persistent between runs.
  template <typename T>
  Result<T*> kept(Index count) {
    const auto bytes = count * static_cast<Index>(sizeof(T));
    LOCKSTEP_ASSIGN(auto memory, device::Memory::allocate(device_, bytes, device::Where::kDevice));
    bytes_ += bytes;
    memory_.push_back(std::move(memory));
    return reinterpret_cast<T*>(memory_.back().data());
  }
  // Uploads constants to the device.
  template <typename T>
  Result<const T*> constants(const std::vector<T>& values) {
    const auto count = static_cast<Index>(values.size()),
               bytes = count * static_cast<Index>(sizeof(T));
    LOCKSTEP_ASSIGN(T* const there, kept<T>(count));
    LOCKSTEP_ASSIGN(const auto pinned,
                    device::Memory::allocate(device_, bytes, device::Where::kPinned));
    std::memcpy(pinned.data(), values.data(), static_cast<std::size_t>(bytes));
    device_.copy(there, pinned.data(), bytes);
    LOCKSTEP_TRY(device_.synchronize());
    return static_cast<const T*>(there);
  }

  void run() override {
    for (Step& step : steps_) {
      if (step.matmul) {
        step.matmul->enqueue();
        continue;
      }
      step.launch.arguments = step.arguments.data();
      device_.launch(step.launch);
    }
  }
  std::int64_t workspaceBytes() const override { return bytes_; }
  const device::Device& device() const { return device_; }

 private:
  struct Step {
    device::Launch launch;
    alignas(16) std::array<std::byte, 192> arguments{};
    std::unique_ptr<device::Work> matmul;
  };
  device::Device& device_;
  Scratch& scratch_;
  std::vector<Step> steps_;
  std::vector<device::Memory> memory_;
  Index bytes_ = 0;
};

inline const float* in(const KernelSpec& spec, std::size_t i) {
  return static_cast<const float*>(spec.inputs[i].data);
}
inline const std::int32_t* ids(const KernelSpec& spec, std::size_t i) {
  return static_cast<const std::int32_t*>(spec.inputs[i].data);
}
inline std::int32_t* idsOut(const KernelSpec& spec, std::size_t i) {
  return static_cast<std::int32_t*>(spec.outputs[i].data);
}
inline float* out(const KernelSpec& spec, std::size_t i = 0) {
  return static_cast<float*>(spec.outputs[i].data);
}
inline bool onSixteen(std::initializer_list<const void*> operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; });
}
inline unsigned ceilDivide(Index n, Index d) { return static_cast<unsigned>((n + d - 1) / d); }

// Binds one op: adds its launches to `kernel`. One method per op or group of similar ops.
class KernelBinder {
 public:
  KernelBinder(device::Device& device, const CudaOptions& options, const KernelSpec& spec,
               CudaKernel& kernel)
      : device_(device),
        options_(options),
        spec_(spec),
        attrs_(*spec.attrs),
        kernel_(kernel),
        mostBlocks_(static_cast<Index>(std::max(1, device.properties().multiprocessors)) * 8) {}

  using Bind = Status (*)(KernelBinder&);
  Status inF32(Bind bind);
  Status elementwise(Function function);
  Status random();
  Status cast();
  Status orderedSum();
  Status dropout();
  Status matmul();
  Status biasAdd();
  Status concat();
  Status columns();
  Status reduceRows();
  Status convolution();
  Status pooling();
  Status meanPooling();
  Status batchNorm();
  Status runningStatistics();
  Status embedding();
  Status embeddingGrad();
  Status layerNorm();
  Status layerNormGrad();
  Status layerNormWeightGrad();
  Status attention();
  Status attentionByTensors();
  Status repeatRows();
  Status xent();
  Status dividedXent();
  Status scoreHistogram();
  Status pairLoss();
  Status unique();
  Status combineRows();
  Status updateRows();
  Status encode();
  Status decodeSum();
  Status sumAll();
  Status finiteNorm();
  Status clipNorm();
  Status lossScale();
  Status selectIfFinite();
  Status optimizer();

 private:
  // Grid size of a kernel whose threads together iterate over n.
  unsigned blocksOf(Index n) const {
    return static_cast<unsigned>(std::clamp<Index>((n + kThreads - 1) / kThreads, 1, mostBlocks_));
  }
  Index count(std::size_t output = 0) const { return spec_.outputs[output].type.count(); }
  Index countIn(std::size_t input) const { return spec_.inputs[input].type.count(); }
  const Shape& shapeIn(std::size_t input) const { return spec_.inputs[input].type.shape; }
  Index attr(std::string_view name, Index fallback = 0) const {
    return ir::intAttr(attrs_, name, fallback);
  }
  float number(std::string_view name) const {
    return static_cast<float>(ir::floatAttr(attrs_, name));
  }

  // How an array is stored that may be in 16 bits.
  static Element stored(const Operand& operand);
  Element storedIn(std::size_t input) const { return stored(spec_.inputs[input]); }
  Element storedOut() const { return stored(spec_.outputs[0]); }

  // The same for a kernel that counts to n in 32 bits, with which GPUs divide faster.
  Result<unsigned> blocksOfShort(Index n) const {
    if (n <= std::numeric_limits<std::int32_t>::max()) return blocksOf(n);
    Error error = makeError(Code::kFailedPrecondition,
                            "{}: its GPU kernel would have {} elements; the limit is {}",
                            spec_.name, n, std::numeric_limits<std::int32_t>::max());
    error.next = "train with a smaller batch, or more micro-batches";
    return error;
  }

  // Block size for one row per block, of which each thread takes an item at a time.
  static unsigned threadsOf(Index items, Index most = kThreads) {
    return static_cast<unsigned>(
        std::clamp<Index>((items + kWarp - 1) / kWarp * kWarp, kWarp, most));
  }
  Status sum(SumArguments whole);
  Status copy(Index n, const float* x, float* y);
  Status addBoth(Index n, const float* a, const float* b, float* y);
  Status map(const ElementwiseArguments& a);
  Status rectify(Index n, void* x, Element type);
  Status castAll(const Operand& from, const Operand& to);
  // Sorted keys below 2^bits, each with its original position.
  struct Sorted {
    const std::uint32_t *keys, *places;
  };
  Result<Sorted> sort(Index n, const std::uint32_t* keys, unsigned bits);
  Status topK(const CodingShape& s, std::uint8_t* payloads, float* t);
  Status columnSums(Index rows, Index columns, const void* x, Element type, float* y);
  Status addParts(Index rows, Index parts, Index columns, const void* x, float* y,
                  Element type = Element::kF32);

  device::Device& device_;
  const CudaOptions& options_;
  const KernelSpec& spec_;
  const ir::Attrs& attrs_;
  CudaKernel& kernel_;
  const Index mostBlocks_;
};

}  // namespace lockstep::backends::cuda
