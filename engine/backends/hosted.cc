#include "engine/backends/hosted.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace lockstep::backends {
namespace {

using device::Memory;
using device::Where;

// Device memory has this alignment; an operand has the same offset within it as on the host.
constexpr std::size_t kAlignment = 256;

// Failure of the last run; permanent once the device is lost.
struct Failure {
  Status status;
  bool isLost = false;
};

// An operand between guard areas, at the same offset from the alignment as on the host.
struct Mirror {
  static constexpr std::size_t kMargin = kAlignment;
  static constexpr std::byte kUnwritten{0xa5};
  Operand host;
  Memory pinned, memory;
  std::size_t before = 0;  // offset of the operand
  std::byte* address() const { return memory.data() + before; }
  std::size_t bytes() const { return static_cast<std::size_t>(host.type.bytes()); }

  void fill() {
    std::byte* const from = pinned.data();
    std::fill(from, from + before, kUnwritten);
    std::memcpy(from + before, host.data, bytes());
    std::fill(from + before + bytes(), from + pinned.bytes(), kUnwritten);
  }
  // Copies the operand back. Errors: kInternal where the guard areas were modified.
  Status take() {
    const std::byte* const from = pinned.data();
    const auto isUnwritten = [](std::byte one) { return one == kUnwritten; };
    if (!std::all_of(from, from + before, isUnwritten) ||
        !std::all_of(from + before + bytes(), from + pinned.bytes(), isUnwritten))
      return makeError(Code::kInternal, "wrote outside its operands");
    std::memcpy(host.data, from + before, bytes());
    return {};
  }
};

class HostedKernel final : public Kernel {
 public:
  HostedKernel(device::Device& device, Failure& failure) : device_(device), failure_(failure) {}

  // Returns the device address of an operand; operands at one host address share one.
  Result<void*> mirror(const Operand& host) {
    const auto known = mirrors_.find(host.data);
    if (known != mirrors_.end()) return static_cast<void*>(known->second.address());
    Mirror mirror;
    mirror.host = host;
    mirror.before = Mirror::kMargin + reinterpret_cast<std::uintptr_t>(host.data) % kAlignment;
    const auto bytes = static_cast<std::int64_t>(mirror.before + mirror.bytes() + Mirror::kMargin);
    LOCKSTEP_ASSIGN(mirror.pinned, Memory::allocate(device_, bytes, Where::kPinned));
    LOCKSTEP_ASSIGN(mirror.memory, Memory::allocate(device_, bytes, Where::kDevice));
    return static_cast<void*>(
        mirrors_.emplace(host.data, std::move(mirror)).first->second.address());
  }
  void setKernel(std::unique_ptr<Kernel> kernel) { kernel_ = std::move(kernel); }

  void run() override {
    if (failure_.isLost) return;
    for (auto& [data, mirror] : mirrors_) {
      mirror.fill();
      device_.copy(mirror.memory.data(), mirror.pinned.data(), mirror.pinned.bytes());
    }
    kernel_->run();
    for (auto& [data, mirror] : mirrors_)
      device_.copy(mirror.pinned.data(), mirror.memory.data(), mirror.pinned.bytes());
    failure_.status = device_.synchronize();
    failure_.isLost = !failure_.status.ok();
    for (auto& [data, mirror] : mirrors_)
      if (failure_.status.ok()) failure_.status = mirror.take();
  }
  std::int64_t workspaceBytes() const override { return kernel_->workspaceBytes(); }

 private:
  device::Device& device_;
  Failure& failure_;  // the backend's
  std::map<void*, Mirror> mirrors_;
  std::unique_ptr<Kernel> kernel_;
};

class Hosted final : public Backend {
 public:
  explicit Hosted(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}
  std::string_view name() const override { return backend_->name(); }
  bool supports(ir::Op op, DType dtype) const override { return backend_->supports(op, dtype); }
  Result<std::unique_ptr<Kernel>> bind(const KernelSpec& spec) override {
    auto out = std::make_unique<HostedKernel>(*backend_->device(), failure_);
    KernelSpec there = spec;
    for (auto* operands : {&there.inputs, &there.outputs})
      for (Operand& operand : *operands) {
        LOCKSTEP_ASSIGN(operand.data, out->mirror(operand));
      }
    LOCKSTEP_ASSIGN(auto kernel, backend_->bind(there));
    out->setKernel(std::move(kernel));
    return std::unique_ptr<Kernel>(std::move(out));
  }
  device::Device* device() override { return nullptr; }
  const Failure& failure() const { return failure_; }

 private:
  std::unique_ptr<Backend> backend_;
  Failure failure_;
};

const Hosted* hostedOf(const Backend& backend) { return dynamic_cast<const Hosted*>(&backend); }

}  // namespace

std::unique_ptr<Backend> hosted(std::unique_ptr<Backend> backend) {
  if (backend->device() == nullptr) return backend;
  return std::make_unique<Hosted>(std::move(backend));
}

Status failureOf(const Backend& backend) {
  const Hosted* const onDevice = hostedOf(backend);
  return onDevice == nullptr ? Status() : onDevice->failure().status;
}

bool isLost(const Backend& backend) {
  const Hosted* const onDevice = hostedOf(backend);
  return onDevice != nullptr && onDevice->failure().isLost;
}

}  // namespace lockstep::backends
