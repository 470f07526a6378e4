// Memory of operands, on the host or on the backend's device.
#pragma once

#include <memory>
#include <mutex>

#include "engine/backends/backend.h"
#include "engine/plan/plan.h"
#include "engine/runtime/aligned_memory.h"

namespace lockstep::runtime {

// Zero-filled, aligned to 64 bytes.
class Arena {
 public:
  Arena() = default;
  // Errors: kResourceExhausted, or those of the device.
  static Result<Arena> make(backends::Backend& backend, std::int64_t bytes) {
    Arena out;
    if (device::Device* const device = backend.device()) {
      LOCKSTEP_ASSIGN(out.device_,
                      device::Memory::allocate(*device, bytes, device::Where::kDevice));
    } else {
      LOCKSTEP_ASSIGN(out.host_, allocateAligned(bytes, "activations and gradients"));
    }
    return out;
  }
  std::byte* data() const { return host_ ? host_.get() : device_.data(); }

 private:
  AlignedMemory host_;
  device::Memory device_;
};

// Memory of the state slots, shared by all programs of a rank. Zero-filled, 64-byte aligned.
class StateArena {
 public:
  // Errors: as for Arena. In host memory without a backend, or with one that has no device.
  static Result<std::unique_ptr<StateArena>> make(const plan::Plan& plan, int rank,
                                                  backends::Backend* backend = nullptr) {
    auto out = std::unique_ptr<StateArena>(new StateArena(plan.stateBytesOf(rank)));
    if (backend != nullptr) out->device_ = backend->device();
    if (out->device_ == nullptr) {
      LOCKSTEP_ASSIGN(out->memory_, allocateAligned(out->bytes_, "parameters and optimizer state"));
      return out;
    }
    LOCKSTEP_ASSIGN(out->operands_,
                    device::Memory::allocate(*out->device_, out->bytes_, device::Where::kDevice));
    LOCKSTEP_ASSIGN(out->pinned_,
                    device::Memory::allocate(*out->device_, out->bytes_, device::Where::kPinned));
    return out;
  }
  // The copy that kernels access.
  std::byte* operands() { return device_ != nullptr ? operands_.data() : memory_.get(); }
  // The copy that the host accesses: the same memory, or a pinned mirror, which fetch() fills from
  // the device and put() writes back.
  std::byte* data() { return device_ != nullptr ? pinned_.data() : memory_.get(); }
  bool isMirrored() const { return device_ != nullptr; }
  Status fetch() { return copy(data(), operands()); }
  Status put() { return copy(operands(), data()); }
  std::int64_t bytes() const { return bytes_; }

 private:
  explicit StateArena(std::int64_t bytes) : bytes_(bytes) {}
  Status copy(void* to, const void* from) {
    if (device_ == nullptr) return {};
    const std::lock_guard lock(device_->inUse());
    device_->copy(to, from, bytes_);
    return device_->synchronize();
  }
  std::int64_t bytes_;
  AlignedMemory memory_;
  device::Device* device_ = nullptr;
  device::Memory operands_, pinned_;
};

}  // namespace lockstep::runtime
