#include "engine/runtime/finite.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace lockstep::runtime {
namespace {

// A number is finite unless all bits of its exponent are set. `data` may be unaligned.
template <typename Word>
bool isFinite(const std::byte* data, Word exponent) {
  Word word;
  std::memcpy(&word, data, sizeof word);
  return (word & exponent) != exponent;
}

template <typename Word>
std::int64_t firstWith(std::span<const std::byte> data, Word exponent) {
  constexpr std::size_t kAtOnce = 1024;  // a constant, so that the compiler vectorizes the loop
  const std::size_t count = data.size() / sizeof(Word);
  for (std::size_t at = 0; at < count; at += kAtOnce) {
    const std::byte* const block = data.data() + at * sizeof(Word);
    if (count - at >= kAtOnce) {
      Word any = 0;
      for (std::size_t i = 0; i < kAtOnce; ++i)
        any |= static_cast<Word>(isFinite(block + i * sizeof(Word), exponent) ? 0 : 1);
      if (any == 0) continue;
    }
    for (std::size_t i = 0; i < std::min(kAtOnce, count - at); ++i)
      if (!isFinite(block + i * sizeof(Word), exponent)) return static_cast<std::int64_t>(at + i);
  }
  return -1;
}

}  // namespace

std::int64_t firstNonFinite(std::span<const std::byte> data, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return firstWith<std::uint64_t>(data, 0x7ff0000000000000u);
    case DType::kF32:
      return firstWith<std::uint32_t>(data, 0x7f800000u);
    case DType::kBf16:
      return firstWith<std::uint16_t>(data, 0x7f80u);
    case DType::kF16:
      return firstWith<std::uint16_t>(data, 0x7c00u);
    default:
      return -1;
  }
}

std::string stateTensorText(const plan::StateSlot& slot, std::string_view member) {
  if (slot.role == plan::StateRole::kParameters) return fmt::format("parameter {}", member);
  if (slot.role == plan::StateRole::kStatistics) return fmt::format("running statistic {}", member);
  return fmt::format("optimizer state {} of {}", slot.kind(), member);
}

Error diverged(const Message& found, const std::string& where, std::int64_t step) {
  Error error = makeError(Code::kInvalidArgument, "the training diverged: {}", found);
  error.step = step;
  if (!where.empty()) error.why = message("the first tensor that is not finite is {}", where);
  error.next =
      "lower training.optimizer.learning_rate, set training.optimizer.clip_norm, or look for "
      "extreme values in the "
      "data; training.on_nonfinite=continue trains on all the same";
  return error;
}

}  // namespace lockstep::runtime
