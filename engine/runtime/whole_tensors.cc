#include "engine/runtime/whole_tensors.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace lockstep::runtime {
namespace {

std::vector<std::int64_t> equalCuts(int parts, std::int64_t count) {
  std::vector<std::int64_t> cuts;
  for (int part = 0; part <= parts; ++part) cuts.push_back(part * count);
  return cuts;
}

}  // namespace

std::vector<Place> placesOf(const plan::Plan& plan,
                            const std::function<bool(const plan::StateSlot&)>& wanted) {
  std::vector<Place> places;
  std::map<std::string, std::size_t> known;  // of what is in parts
  for (const plan::StateSlot& slot : plan.state)
    for (const Member& member : slot.members) {
      if (!wanted(slot)) continue;
      std::size_t at = places.size();
      if (member.rows > 0) at = known.emplace(tensorName(slot, member), at).first->second;
      if (at == places.size()) places.push_back({&slot, {}});
      places[at].parts.emplace_back(&slot, &member);
    }
  for (Place& place : places)
    std::sort(place.parts.begin(), place.parts.end(),
              [](const auto& a, const auto& b) { return a.second->firstRow < b.second->firstRow; });
  return places;
}

Result<std::span<const std::byte>> WholeTensors::of(const Place& place) {
  if (place.parts.size() == 1) return of(*place.slot, place.member());
  joined_.clear();
  for (const auto& [slot, member] : place.parts) {
    LOCKSTEP_ASSIGN(const auto rows, of(*slot, *member));
    if (state_.rank == 0) joined_.insert(joined_.end(), rows.begin(), rows.end());
  }
  return std::span<const std::byte>(joined_);
}

Result<std::span<const std::byte>> WholeTensors::of(const plan::StateSlot& slot,
                                                    const Member& member) {
  const cluster::Mesh& mesh = state_.plan.mesh;
  comm::Communicator* const stages = state_.groups.along(mesh.messageAxis());
  if (stages == nullptr) return onStage(slot, member);
  if (state_.plan.stageOf(state_.rank) == slot.stage) {
    LOCKSTEP_ASSIGN(const auto tensor, onStage(slot, member));
    if (tensor.data() != whole_.data()) whole_.assign(tensor.begin(), tensor.end());
  } else {
    whole_.resize(static_cast<std::size_t>(count(member)) * sizeOf(slot.type.dtype));
  }
  LOCKSTEP_TRY(
      stages->broadcast(whole_.data(), std::ssize(whole_), mesh.messageCoordinate(slot.stage)));
  return std::span<const std::byte>(whole_);
}

Result<std::span<const std::byte>> WholeTensors::onStage(const plan::StateSlot& slot,
                                                         const Member& member) {
  LOCKSTEP_ASSIGN(const std::span<std::byte> group, wholeGroup(slot));
  const std::span<std::byte> mine = within(group, slot, member);
  if (member.axis.empty()) return std::span<const std::byte>(mine);
  const int parts = state_.plan.mesh.axisSize(member.axis);
  parts_.resize(mine.size() * static_cast<std::size_t>(parts));
  LOCKSTEP_TRY(state_.groups.along(member.axis)
                   ->allGather(mine.data(), parts_.data(),
                               equalCuts(parts, state_.plan.memberCount(member)), slot.type.dtype));
  whole_.resize(parts_.size());
  for (int part = 0; part < parts; ++part)
    forRows(slot, member, part, [&](std::size_t inWhole, std::size_t inPart, std::size_t bytes) {
      std::memcpy(whole_.data() + inWhole,
                  parts_.data() + static_cast<std::size_t>(part) * mine.size() + inPart, bytes);
    });
  return std::span<const std::byte>(whole_);
}

Result<std::span<std::byte>> WholeTensors::wholeGroup(const plan::StateSlot& slot) {
  std::byte* mine = state_.arena.data() + slot.offset;
  const std::int64_t bytes = slot.type.bytes();
  if (slot.axis.empty()) return std::span(mine, static_cast<std::size_t>(bytes));
  if (gathered_ != &slot) {
    gathered_ = nullptr;
    const int parts = state_.plan.mesh.axisSize(slot.axis);
    group_.resize(static_cast<std::size_t>(bytes * parts));
    LOCKSTEP_TRY(state_.groups.along(slot.axis)->allGather(
        mine, group_.data(), equalCuts(parts, slot.type.count()), slot.type.dtype));
    gathered_ = &slot;
  }
  return std::span(group_);
}

std::span<std::byte> WholeTensors::within(std::span<std::byte> group, const plan::StateSlot& slot,
                                          const Member& member) const {
  const std::size_t size = sizeOf(slot.type.dtype);
  return group.subspan(static_cast<std::size_t>(member.element) * size,
                       static_cast<std::size_t>(state_.plan.memberCount(member)) * size);
}

void WholeTensors::forRows(const plan::StateSlot& slot, const Member& member, int part,
                           const Copy& copy) const {
  const std::size_t size = sizeOf(slot.type.dtype);
  const auto parts = static_cast<std::size_t>(state_.plan.mesh.axisSize(member.axis));
  std::size_t outer = 1, row = size;
  for (std::size_t d = 0; d < member.shape.size(); ++d)
    (static_cast<int>(d) < member.dim ? outer : row) *= static_cast<std::size_t>(member.shape[d]);
  const std::size_t run = row / parts;
  for (std::size_t i = 0; i < outer; ++i)
    copy(i * row + static_cast<std::size_t>(part) * run, i * run, run);
}

std::int64_t WholeTensors::count(const Member& member) const {
  return state_.plan.memberCount(member) * state_.plan.mesh.axisSize(member.axis);
}

}  // namespace lockstep::runtime
