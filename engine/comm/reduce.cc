#include "engine/comm/reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace lockstep::comm {
namespace {

template <typename T>
void addInto(T* out, const T* a, const T* b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

template <typename T>
void maxInto(T* out, const T* a, const T* b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = b[i] > a[i] || b[i] != b[i] ? b[i] : a[i];
}

// Integer sums wrap around, hence are unsigned.
template <typename T>
void sumArray(T* out, const T* a, const T* b, std::int64_t count) {
  if constexpr (std::is_same_v<T, std::int32_t>) {
    addInto(reinterpret_cast<std::uint32_t*>(out), reinterpret_cast<const std::uint32_t*>(a),
            reinterpret_cast<const std::uint32_t*>(b), count);
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    addInto(reinterpret_cast<std::uint64_t*>(out), reinterpret_cast<const std::uint64_t*>(a),
            reinterpret_cast<const std::uint64_t*>(b), count);
  } else {
    addInto(out, a, b, count);
  }
}

// Reduces block by block, so that the accumulator stays in the first-level cache; an output block
// is written after every input's block was read, so the output may alias any input.
template <typename T>
void reduceTyped(std::byte* out, std::span<const std::byte* const> inputs, std::int64_t count,
                 ReduceOp op) {
  constexpr std::int64_t kBlock = 4096 / static_cast<std::int64_t>(sizeof(T));
  const auto apply = op == ReduceOp::kSum ? &sumArray<T> : &maxInto<T>;
  alignas(64) T block[kBlock];
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t length = std::min(kBlock, count - first);
    const auto at = [&](std::size_t k) { return reinterpret_cast<const T*>(inputs[k]) + first; };
    T* to = reinterpret_cast<T*>(out) + first;
    if (inputs.size() == 1) {
      std::memmove(to, at(0), static_cast<std::size_t>(length) * sizeof(T));
    } else if (inputs.size() == 2) {
      apply(to, at(0), at(1), length);
    } else {
      apply(block, at(0), at(1), length);
      for (std::size_t k = 2; k + 1 < inputs.size(); ++k) apply(block, block, at(k), length);
      apply(to, block, at(inputs.size() - 1), length);
    }
  }
}

}  // namespace

void reduceArrays(std::byte* out, std::span<const std::byte* const> inputs, std::int64_t count,
                  DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::kF32:
      return reduceTyped<float>(out, inputs, count, op);
    case DType::kF64:
      return reduceTyped<double>(out, inputs, count, op);
    case DType::kI32:
      return reduceTyped<std::int32_t>(out, inputs, count, op);
    case DType::kI64:
      return reduceTyped<std::int64_t>(out, inputs, count, op);
    default:
      LOCKSTEP_CHECK(false, "{} is not reducible", dtypeName(dtype));
  }
}

Status checkReducible(std::int64_t count, DType dtype) {
  if (count < 0) return invalidArgument("a reduction of {} elements", count);
  if (dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI32 || dtype == DType::kI64)
    return {};
  Error error = invalidArgument("a reduction of {}", dtypeName(dtype));
  error.why = "communicators reduce f32, f64, i32 and i64";
  return error;
}

Status checkCuts(std::span<const std::int64_t> cuts, int size) {
  if (cuts.size() != static_cast<std::size_t>(size) + 1)
    return invalidArgument("{} cut-points for {} ranks; expected {}", cuts.size(), size, size + 1);
  if (cuts[0] < 0 || !std::is_sorted(cuts.begin(), cuts.end()))
    return invalidArgument("cut-points that descend or start below 0");
  return {};
}

Status checkPeer(int peer, int size, int self) {
  if (peer < 0 || peer >= size) return invalidArgument("rank {} of a group of {}", peer, size);
  if (peer == self) return invalidArgument("a message of rank {} to itself", peer);
  return {};
}

Status checkBytes(std::int64_t bytes) {
  if (bytes < 0) return invalidArgument("a message of {} bytes", bytes);
  return {};
}

Status checkMessage(std::int64_t bytes, int peer, int size, int self) {
  LOCKSTEP_TRY(checkBytes(bytes));
  return checkPeer(peer, size, self);
}

}  // namespace lockstep::comm
