// The hash by which replicas of one state are compared.
#include <array>
#include <cstring>

#include "engine/base/hash.h"
#include "engine/runtime/checkpoint.h"

namespace lockstep::runtime {
namespace {

// As memory gives it: a SHA-256 of all would be a third of what a worker with large tables takes to
// begin. Words go round the lanes, and a lane's step is one-to-one in what the lane has and in the
// word, so that no change of one word is lost.
void addDigest(Sha256& hash, std::span<const std::byte> bytes) {
  constexpr std::size_t kLanes = 8;
  std::array<std::uint64_t, kLanes> lanes{}, words;
  std::size_t at = 0;
  for (; at + sizeof words <= bytes.size(); at += sizeof words) {
    std::memcpy(words.data(), bytes.data() + at, sizeof words);
    for (std::size_t i = 0; i < kLanes; ++i) {
      lanes[i] = (lanes[i] ^ words[i]) * 0x9e3779b97f4a7c15u;
      lanes[i] ^= lanes[i] >> 32;
    }
  }
  hash.update(std::as_bytes(std::span(lanes)));
  hash.update(bytes.subspan(at));
}

}  // namespace

std::string replicaHash(const plan::Plan& plan, int rank, StateArena& arena) {
  Sha256 hash;
  bool any = false;
  for (const plan::StateSlot& slot : plan.state) {
    if ((slot.role != plan::StateRole::kParameters && slot.role != plan::StateRole::kStatistics) ||
        slot.stage != plan.stageOf(rank) || !slot.axis.empty())
      continue;
    hash.update(slot.name);
    // Bytes between members, and behind the last, belong to no tensor.
    for (const auto& member : slot.members) {
      const std::size_t size = sizeOf(slot.type.dtype);
      addDigest(hash, std::span(arena.data() + slot.offset +
                                    static_cast<std::size_t>(member.element) * size,
                                static_cast<std::size_t>(plan.memberCount(member)) * size));
    }
    any = true;
  }
  return any ? hash.hex() : std::string();
}

}  // namespace lockstep::runtime
