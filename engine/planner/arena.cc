#include "engine/planner/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

namespace lockstep::planner {
namespace {

constexpr std::int64_t kAlignment = 64;
std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct Life {
  std::size_t buffer = 0;
  std::int64_t bytes = 0;
  std::size_t first = std::numeric_limits<std::size_t>::max(), last = 0;
  std::int64_t offset = -1;
};

std::vector<Life> livesOf(const plan::Body& body, const std::vector<std::size_t>& heldUntil) {
  std::vector<Life> lives(body.buffers.size());
  for (std::size_t i = 0; i < lives.size(); ++i) {
    lives[i].buffer = i;
    lives[i].bytes = aligned(body.buffers[i].type.bytes());
  }
  const auto use = [&](plan::BufferId id, std::size_t when) {
    const plan::Buffer& buffer = body.buffers[static_cast<std::size_t>(id)];
    Life& life = lives[static_cast<std::size_t>(buffer.base >= 0 ? buffer.base : id)];
    life.first = std::min(life.first, when);
    life.last = std::max(life.last, when);
  };
  for (std::size_t i = 0; i < body.steps.size(); ++i) {
    const plan::Step& step = body.steps[i];
    for (const auto* list : {&step.inputs, &step.outputs}) {
      for (const plan::BufferId id : *list) use(id, i);
    }
  }
  for (const plan::ResultSlot& slot : body.results) use(slot.buffer, body.steps.size());
  for (Life& life : lives) {
    if (life.last < body.steps.size() && life.first <= life.last) life.last = heldUntil[life.last];
  }
  return lives;
}

}  // namespace

void layOutArena(plan::Body& body, const std::vector<std::size_t>& heldUntil) {
  std::int64_t inputs = 0;
  std::vector<Life> pending;
  for (const Life& life : livesOf(body, heldUntil)) {
    plan::Buffer& buffer = body.buffers[life.buffer];
    if (buffer.base >= 0 || buffer.kind == plan::BufferKind::kState) continue;
    if (buffer.kind == plan::BufferKind::kInput) {
      buffer.offset = inputs;
      inputs += life.bytes;
    } else {
      pending.push_back(life);
    }
  }
  std::stable_sort(pending.begin(), pending.end(),
                   [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  body.arenaBytes = inputs;
  std::vector<Life> placed;  // by offset
  for (Life& life : pending) {
    std::int64_t offset = inputs;
    for (const Life& other : placed) {
      if (other.last < life.first || life.last < other.first) continue;
      if (other.offset - offset >= life.bytes) break;
      offset = std::max(offset, other.offset + other.bytes);
    }
    life.offset = offset;
    body.buffers[life.buffer].offset = offset;
    body.arenaBytes = std::max(body.arenaBytes, offset + life.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), life,
                                   [](const Life& a, const Life& b) { return a.offset < b.offset; }),
                  life);
  }
}

}  // namespace lockstep::planner
