#include "engine/planner/arena.h"

#include <algorithm>
#include <vector>

#include "engine/plan/order.h"

namespace lockstep::planner {
namespace {

constexpr std::int64_t kAlignment = 64;
std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct Piece {
  plan::BufferId buffer = 0;
  std::int64_t bytes = 0, offset = -1;
};

}  // namespace

void layOutArena(plan::Body& body) {
  const plan::Order order(body);
  std::int64_t inputs = 0;
  std::vector<Piece> pending;
  for (std::size_t i = 0; i < body.buffers.size(); ++i) {
    plan::Buffer& buffer = body.buffers[i];
    if (buffer.base >= 0 || buffer.kind == plan::BufferKind::kState) continue;
    const std::int64_t bytes = aligned(buffer.type.bytes());
    if (buffer.kind == plan::BufferKind::kInput) {
      buffer.offset = inputs;
      inputs += bytes;
    } else {
      pending.push_back({static_cast<plan::BufferId>(i), bytes});
    }
  }
  std::stable_sort(pending.begin(), pending.end(),
                   [](const Piece& a, const Piece& b) { return a.bytes > b.bytes; });
  body.arenaBytes = inputs;
  std::vector<Piece> placed;  // by offset
  for (Piece& piece : pending) {
    std::int64_t offset = inputs;
    for (const Piece& other : placed) {
      if (order.apart(piece.buffer, other.buffer)) continue;
      if (other.offset - offset >= piece.bytes) break;
      offset = std::max(offset, other.offset + other.bytes);
    }
    piece.offset = offset;
    body.buffers[static_cast<std::size_t>(piece.buffer)].offset = offset;
    body.arenaBytes = std::max(body.arenaBytes, offset + piece.bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), piece,
                         [](const Piece& a, const Piece& b) { return a.offset < b.offset; }),
        piece);
  }
}

}  // namespace lockstep::planner
