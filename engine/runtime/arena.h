// Memory that operands lie in: the host's, or that of the backend's device.
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
  // Errors: what the device says where it has not as much.
  static Result<Arena> make(backends::Backend& backend, std::int64_t bytes) {
    Arena out;
    if (device::Device* const device = backend.device()) {
      LOCKSTEP_ASSIGN(out.device_, device::Memory::allocate(*device, bytes, device::Where::kDevice));
    } else {
      out.host_ = allocateAligned(bytes);
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
  StateArena(const plan::Plan& plan, int rank)  // the host's
      : bytes_(plan.stateBytesOf(rank)), memory_(allocateAligned(bytes_)) {}
  static Result<std::unique_ptr<StateArena>> make(const plan::Plan& plan, int rank, backends::Backend& backend) {
    auto out = std::make_unique<StateArena>(plan, rank);
    out->device_ = backend.device();
    if (out->device_ == nullptr) return out;
    LOCKSTEP_ASSIGN(out->operands_, device::Memory::allocate(*out->device_, out->bytes_, device::Where::kDevice));
    LOCKSTEP_ASSIGN(out->pinned_, device::Memory::allocate(*out->device_, out->bytes_, device::Where::kPinned));
    out->memory_.reset();
    return out;
  }
  // Where kernels have it.
  std::byte* operands() { return device_ != nullptr ? operands_.data() : memory_.get(); }
  // Where the host reads and writes it: the same, or a copy of what is on the device, which fetch() brings here and
  // put() back.
  std::byte* data() { return device_ != nullptr ? pinned_.data() : memory_.get(); }
  Status fetch() { return copy(data(), operands()); }
  Status put() { return copy(operands(), data()); }
  std::int64_t bytes() const { return bytes_; }

 private:
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
