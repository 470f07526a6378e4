#include "engine/runtime/device_progress.h"

#include <atomic>
#include <numeric>

namespace lockstep::runtime {
namespace {

using Word = std::uint64_t;
constexpr auto kWordBytes = static_cast<std::int64_t>(sizeof(Word));

Word* wordsOf(const device::Memory& memory) { return reinterpret_cast<Word*>(memory.data()); }

}  // namespace

Result<DeviceProgress> DeviceProgress::make(device::Device& device, std::size_t stops) {
  DeviceProgress out;
  if (stops == 0) return out;
  const std::size_t counts = 2 * stops;
  const std::int64_t bytes = static_cast<std::int64_t>(counts) * kWordBytes;
  LOCKSTEP_ASSIGN(out.count_,
                  device::Memory::allocate(device, kWordBytes + bytes, device::Where::kPinned));
  LOCKSTEP_ASSIGN(out.table_, device::Memory::allocate(device, bytes, device::Where::kDevice));
  Word* const words = wordsOf(out.count_);
  std::iota(words, words + 1 + counts, Word{0});
  device.copy(out.table_.data(), words + 1, bytes);
  return out;
}

void DeviceProgress::enqueue(device::Device& device, std::uint64_t count) const {
  device.copy(count_.data(), wordsOf(table_) + (count - 1), kWordBytes, device::Queue::kExchange);
}

void DeviceProgress::set(std::uint64_t count) {
  if (count_.data() == nullptr) return;
  std::atomic_ref<Word>(*wordsOf(count_)).store(count, std::memory_order_relaxed);
}

std::uint64_t DeviceProgress::count() const {
  if (count_.data() == nullptr) return 0;
  return std::atomic_ref<Word>(*wordsOf(count_)).load(std::memory_order_relaxed);
}

}  // namespace lockstep::runtime
