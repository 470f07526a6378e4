// Gathers full tensors of a run's state from the ranks' shards.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/plan/pieces.h"
#include "engine/runtime/checkpoint.h"

namespace lockstep::runtime {

using plan::tensorName;
using Member = plan::StateSlot::Member;

// A checkpoint tensor: one slot's member, or the members of several slots that hold its rows, in
// order.
struct Place {
  const plan::StateSlot* slot = nullptr;
  std::vector<std::pair<const plan::StateSlot*, const Member*>> parts;
  const Member& member() const { return *parts.front().second; }
};
// Returns the places of wanted slots, in plan order.
std::vector<Place> placesOf(const plan::Plan& plan,
                            const std::function<bool(const plan::StateSlot&)>& wanted);

// All ranks ask for the same tensors in the same order.
class WholeTensors {
 public:
  explicit WholeTensors(const RankState& state) : state_(state) {}

  // Valid until the next call.
  Result<std::span<const std::byte>> of(const Place& place);

 private:
  // Copies (offset in the whole tensor, offset in the part, bytes).
  using Copy = std::function<void(std::size_t inWhole, std::size_t inPart, std::size_t bytes)>;

  Result<std::span<const std::byte>> of(const plan::StateSlot& slot, const Member& member);
  // Gathered by the ranks of the slot's stage.
  Result<std::span<const std::byte>> onStage(const plan::StateSlot& slot, const Member& member);
  // The group, gathered along the slot's axis.
  Result<std::span<std::byte>> wholeGroup(const plan::StateSlot& slot);
  std::span<std::byte> within(std::span<std::byte> group, const plan::StateSlot& slot,
                              const Member& member) const;
  // Calls `copy` for each contiguous range of one shard of a tensor.
  void forRows(const plan::StateSlot& slot, const Member& member, int part, const Copy& copy) const;
  std::int64_t count(const Member& member) const;  // elements on all ranks of its axis

  const RankState& state_;
  const plan::StateSlot* gathered_ = nullptr;
  std::vector<std::byte> group_, parts_, whole_, joined_;
};

}  // namespace lockstep::runtime
