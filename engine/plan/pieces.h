// The shards of a run's state that each rank holds and writes to checkpoints, by tensor and index
// range, so that any number of ranks with any placement can read them.
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

// Elements [begin, end), in row-major order, of part `part` of a tensor that is split into `parts`
// equal parts along dimension `dim`.
struct Piece {
  TensorInfo tensor;  // the full tensor, with its name in checkpoints: "adam.m/dense1.weight"
  int dim = 0, part = 0, parts = 1;
  std::int64_t begin = 0, end = 0;

  bool isWhole() const { return parts == 1 && begin == 0 && end == elementCount(tensor.shape); }
  std::int64_t bytes() const { return (end - begin) * std::int64_t(sizeOf(tensor.dtype)); }
  // Returns the stored form: a full tensor with its name and shape, any other piece as a flat
  // range: "params/dense1.weight[part 1 of 2 of dimension 0, elements 128 to 256]".
  TensorInfo stored() const;
};

struct HeldPiece {
  Piece piece;
  const StateSlot* slot = nullptr;
  const StateSlot::Member* member = nullptr;
  std::int64_t number = 0;  // of the member among those of the plan
  std::int64_t offset = 0;  // bytes from the beginning of the rank's state arena
};

// Returns the name of a slot's member in checkpoints, which does not depend on its group.
std::string tensorName(const StateSlot& slot, const StateSlot::Member& member);

// In plan order; empty for ranks that hold no state.
std::vector<HeldPiece> piecesHeldBy(const Plan& plan, int rank);
// Returns what the rank writes. `folders[r]` is the first rank that writes to the same folder as
// rank r; ranks that share a folder divide what they all hold. Precondition: ranks that hold the
// same piece hold the same bytes; asynchronous workers hold no state.
std::vector<HeldPiece> piecesWrittenBy(const Plan& plan, int rank, std::span<const int> folders);
// Returns its size in bytes.
std::int64_t bytesWrittenBy(const Plan& plan, int rank, std::span<const int> folders);

// Returns the indices of the pieces that make up `needed`; earlier pieces are preferred. All pieces
// are of one tensor and split alike; if `needed` is split differently, returns those of the full
// tensor. nullopt: they do not cover it.
std::optional<std::vector<std::size_t>> coverOf(std::span<const Piece> pieces, const Piece& needed);
// Returns the row-major index in the full tensor of an element of a piece's part.
std::int64_t elementInWhole(const Piece& piece, std::int64_t element);
// Copies the overlap of two pieces of one tensor. `in` and `out` are the bytes of the pieces.
void copyCommon(const Piece& from, const std::byte* in, const Piece& to, std::byte* out);

}  // namespace lockstep::plan
