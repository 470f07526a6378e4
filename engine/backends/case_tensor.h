// Operands of test cases: what they are filled with, and tensors that show writes beyond their
// ends. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backends/backend.h"

namespace lockstep::backends {

enum class Fill : std::uint8_t {
  kNormal,
  kFewValues,
  kPositive,
  kLabels,
  kIds,
  kManyIds,
  kOwnIds,
  kBytes,
  kBound,
  kBelow,
  kInfinite,
  kBf16,
  kF16,
  kShort,   // f32 values with 8 significant bits, as many as bf16 has
  kPooled,  // result of the forward op on the preceding operand: the maxima of its windows
  kCoded,   // encoded gradients of several ranks, concatenated
};

// Returns number `i` of stream `key`, exactly representable in f32, so that all precisions see the
// same values.
double draw(Fill fill, std::uint64_t key, std::uint64_t i);

// Rounds to bf16 or f16 (nearest, ties to even), and converts back.
std::uint16_t toBits16(DType type, float x);
float fromBits16(DType type, std::uint16_t bits);

// A tensor with guard elements on both sides. Data start so many elements past a 16-byte boundary.
class CaseTensor {
 public:
  explicit CaseTensor(ir::TensorType type, std::int64_t past = 1);
  double at(std::int64_t i) const;
  void set(std::int64_t i, double value);
  void fill(double value);
  void setFilled(Fill fill, std::uint64_t key);
  std::span<std::byte> bytes() { return {address(0), static_cast<std::size_t>(type_.bytes())}; }
  bool fenced() const;
  Operand operand() { return {address(0), type_}; }
  const ir::TensorType& type() const { return type_; }

 private:
  std::byte* address(std::int64_t i) {
    return bytes_.data() + before_ + i * static_cast<std::int64_t>(sizeOf(type_.dtype));
  }
  const std::byte* address(std::int64_t i) const {
    return bytes_.data() + before_ + i * static_cast<std::int64_t>(sizeOf(type_.dtype));
  }
  ir::TensorType type_;
  std::int64_t before_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace lockstep::backends
