// Which part of a run's state a rank holds, and which part of it the rank writes: tensor by tensor,
// by index ranges, so that ranks of any number and placement can read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/plan/plan.h"

namespace lockstep::plan {

// Elements [begin, end), in row-major order, of part `part` of a tensor that is cut into `parts`
// equal parts of dimension `dim`.
struct Piece {
  TensorInfo tensor;  // the whole tensor, as it is named in checkpoints: "adam.m/dense1.weight"
  int dim = 0, part = 0, parts = 1;
  std::int64_t begin = 0, end = 0;

  bool isWhole() const { return parts == 1 && begin == 0 && end == elementCount(tensor.shape); }
  std::int64_t bytes() const { return (end - begin) * std::int64_t(sizeOf(tensor.dtype)); }
  // As it is stored: a whole tensor under its name and with its shape, others as a flat range:
  // "params/dense1.weight[part 1 of 2 of dimension 0, elements 128 to 256]".
  TensorInfo stored() const;
};

struct HeldPiece {
  Piece piece;
  const StateSlot* slot = nullptr;
  const StateSlot::Member* member = nullptr;
  std::int64_t number = 0;  // of the member among those of the plan
  std::int64_t offset = 0;  // bytes from the beginning of the rank's state arena
};

// The name of a slot's member in checkpoints. The number of its group is no part of it.
std::string tensorName(const StateSlot& slot, const StateSlot::Member& member);

// In plan order; empty for ranks that hold no state.
std::vector<HeldPiece> piecesHeldBy(const Plan& plan, int rank);
// What the rank writes. `folders[r]` is the first of the ranks that write to the same folder as
// rank r: of what several of them hold, each writes a part.
std::vector<HeldPiece> piecesWrittenBy(const Plan& plan, int rank, std::span<const int> folders);
// Bytes of it.
std::int64_t bytesWrittenBy(const Plan& plan, int rank, std::span<const int> folders);

// Which of the pieces, all of one tensor and one cut, make up `needed`: their indices, in the order
// given where there is a choice. Where `needed` is cut in another way, those of the whole tensor.
// None: they do not.
std::optional<std::vector<std::size_t>> coverOf(std::span<const Piece> pieces, const Piece& needed);
// The number in the whole tensor, in row-major order, of an element of a piece's part.
std::int64_t elementInWhole(const Piece& piece, std::int64_t element);
// Copies what two pieces of one tensor have in common. `in` and `out` are the bytes of the pieces.
void copyCommon(const Piece& from, const std::byte* in, const Piece& to, std::byte* out);

}  // namespace lockstep::plan
