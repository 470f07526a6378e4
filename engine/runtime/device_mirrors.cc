#include "engine/runtime/device_mirrors.h"

#include <algorithm>

namespace lockstep::runtime {

using device::Memory;
using device::Queue;
using device::Where;

Result<backends::Operand> DeviceMirrors::add(const backends::Operand& operand,
                                             std::vector<Copy>& copies) {
  const auto known = std::find_if(copies.begin(), copies.end(), [&](const Copy& copy) {
    return copy.there.data == operand.data && copy.there.type == operand.type;
  });
  if (known != copies.end()) return backends::Operand{known->host.data(), operand.type};
  LOCKSTEP_ASSIGN(auto memory, Memory::allocate(device_, operand.type.bytes(), Where::kPinned));
  copies.push_back({operand, std::move(memory), {}});
  return backends::Operand{copies.back().host.data(), operand.type};
}

Result<backends::Operand> DeviceMirrors::addAhead(const backends::Operand& operand) {
  LOCKSTEP_ASSIGN(const backends::Operand place, add(operand, ahead_));
  if (Copy& last = ahead_.back(); last.waiting.data() == nullptr) {
    LOCKSTEP_ASSIGN(last.waiting, Memory::allocate(device_, operand.type.bytes(), Where::kDevice));
  }
  return place;
}

Status DeviceMirrors::prepare() {
  for (auto* event : {&sent_, &taken_}) {
    LOCKSTEP_ASSIGN(*event, device_.makeEvent());
  }
  return {};
}

std::int64_t DeviceMirrors::waitingBytes() const {
  std::int64_t bytes = 0;
  for (const Copy& copy : ahead_) bytes += copy.there.type.bytes();
  return bytes;
}

void DeviceMirrors::awaitPlaces() {
  if (everSent_) device_.await(*sent_);
  isSent_ = false;
}

void DeviceMirrors::send() {
  if (ahead_.empty()) return;
  if (everTaken_) device_.wait(*taken_, Queue::kAhead);
  for (const Copy& copy : ahead_)
    device_.copy(copy.waiting.data(), copy.host.data(), copy.there.type.bytes(), Queue::kAhead);
  device_.mark(*sent_, Queue::kAhead);
  isSent_ = everSent_ = true;
}

void DeviceMirrors::expect() {
  if (ahead_.empty()) return;
  if (!isSent_) send();
  device_.wait(*sent_, Queue::kCompute);
  isSent_ = false;
  everTaken_ = true;
}

void DeviceMirrors::giveInputs() {
  for (const Copy& copy : ahead_)
    device_.copy(copy.there.data, copy.waiting.data(), copy.there.type.bytes());
  if (!ahead_.empty()) device_.record(*taken_, Queue::kCompute);
  for (const Copy& copy : inputs_)
    device_.copy(copy.there.data, copy.host.data(), copy.there.type.bytes());
}

void DeviceMirrors::giveResults() {
  for (const Copy& copy : results_)
    device_.copy(copy.host.data(), copy.there.data, copy.there.type.bytes());
}

}  // namespace lockstep::runtime
