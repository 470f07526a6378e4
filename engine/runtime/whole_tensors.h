// Whole logical tensors of a training's state, out of and into what the ranks hold of them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/runtime/checkpoint.h"

namespace lockstep::runtime {

using Member = plan::StateSlot::Member;

// A tensor of a checkpoint: a member of a slot, or the members of several that have its rows, in
// order.
struct Place {
  const plan::StateSlot* slot = nullptr;
  std::vector<std::pair<const plan::StateSlot*, const Member*>> parts;
  const Member& member() const { return *parts.front().second; }
};
// In the order of the plan's state, of slots of these kinds.
std::vector<Place> placesOf(const plan::Plan& plan,
                            const std::function<bool(std::string_view kind)>& wanted);
// The tensor's name in a checkpoint.
std::string tensorName(const plan::StateSlot& slot, const Member& member);

// All ranks ask for the same tensors in the same order.
class WholeTensors {
 public:
  explicit WholeTensors(const RankState& state) : state_(state) {}

  // Valid until the next call.
  Result<std::span<const std::byte>> of(const Place& place);
  // Rank 0 gives the tensors of a slot by `read`; every rank's state receives its part.
  using Read = std::function<std::span<const std::byte>(const Member& member)>;
  Status fill(const plan::StateSlot& slot, const Read& read);

 private:
  // Copies (offset in the whole tensor, offset in the part, bytes).
  using Copy = std::function<void(std::size_t inWhole, std::size_t inPart, std::size_t bytes)>;

  Result<std::span<const std::byte>> of(const plan::StateSlot& slot, const Member& member);
  // As the ranks of the slot's stage find it.
  Result<std::span<const std::byte>> onStage(const plan::StateSlot& slot, const Member& member);
  // As this rank's axes other than the slot's have it.
  Result<std::span<std::byte>> wholeGroup(const plan::StateSlot& slot);
  std::span<std::byte> within(std::span<std::byte> group, const plan::StateSlot& slot,
                              const Member& member) const;
  // Calls `copy` for the runs of one part of a tensor that is divided along a dimension.
  void forRows(const plan::StateSlot& slot, const Member& member, int part, const Copy& copy) const;
  std::int64_t count(const Member& member) const;  // elements on all ranks of its axis

  const RankState& state_;
  const plan::StateSlot* gathered_ = nullptr;
  std::vector<std::byte> group_, parts_, whole_, joined_;
};

}  // namespace lockstep::runtime
