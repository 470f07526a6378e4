#include "engine/runtime/device_groups.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "engine/base/hex.h"

namespace lockstep::runtime {
namespace {

// The capability report of a rank, and the decision of rank 0: a word and a text.
constexpr std::string_view kCan = "can ", kCannot = "cannot ";

std::string factsOf(device::Device& device) {
  const auto grouping = device.grouping();
  if (!grouping.ok()) return fmt::format("{}{}", kCannot, grouping.error().text());
  return fmt::format("{}{} {}", kCan, device.properties().id, (*grouping)->version());
}

// Returns why ranks with these reports cannot form groups; "" if they can.
std::string reasonAgainst(const std::vector<std::string>& facts) {
  std::map<std::string, std::size_t, std::less<>> devices;
  std::string_view version;
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    std::string_view said = facts[rank];
    if (!said.starts_with(kCan)) {
      said.remove_prefix(std::min(said.size(), kCannot.size()));
      return fmt::format("of rank {}: {}", rank, said);
    }
    said.remove_prefix(kCan.size());
    const auto [known, isNew] = devices.emplace(said.substr(0, said.find(' ')), rank);
    if (!isNew) return fmt::format("ranks {} and {} are on one device", known->second, rank);
    const std::string_view mine = said.substr(said.rfind(' ') + 1);
    if (rank == 0) version = mine;
    if (mine != version)
      return fmt::format("rank 0 has version {}, rank {} has {}", version, rank, mine);
  }
  return {};
}

// Runs every kind of collective once. Devices connect on the first exchange of a kind, which
// involves the whole group and allocates; this must not happen while a rank captures a step by
// itself.
Status connect(device::Device& device, device::Group& group) {
  using device::Memory;
  using device::Queue;
  using device::Reduce;
  const std::int64_t size = group.size();
  const auto bytes = (size + 1) * static_cast<std::int64_t>(sizeof(float));
  LOCKSTEP_ASSIGN(const Memory in, Memory::allocate(device, bytes, device::Where::kDevice));
  LOCKSTEP_ASSIGN(const Memory out, Memory::allocate(device, bytes, device::Where::kDevice));
  LOCKSTEP_ASSIGN(const auto done, device.makeEvent());
  std::vector<std::int64_t> even(static_cast<std::size_t>(size) + 1);
  std::iota(even.begin(), even.end(), 0);
  std::vector<std::int64_t> uneven = even;  // uneven parts take another path
  ++uneven.back();
  group.allReduce(in.data(), size, DType::kF32, Reduce::kSum);
  for (const auto& cuts : {even, uneven}) {
    group.reduceScatter(in.data(), out.data(), cuts, DType::kF32, Reduce::kSum);
    group.allGather(in.data(), out.data(), cuts, DType::kF32);
  }
  group.broadcast(in.data(), 1, 0);
  group.allToAll(in.data(), out.data(), 1);
  device.mark(*done, Queue::kExchange);
  device.wait(*done, Queue::kCompute);
  return device.synchronize();
}

}  // namespace

Result<DeviceGroups> DeviceGroups::form(const cluster::Mesh& mesh, device::Device& device,
                                        comm::Store& store, const Member& as) {
  DeviceGroups out;
  const int size = mesh.size();
  std::vector<cluster::Axis> axes = mesh.groupAxes();
  std::erase_if(axes, [&](const cluster::Axis& axis) {
    return axis.size < 2 || axis.name == cluster::kServerAxis;
  });
  if (axes.empty()) {
    out.whyNot_ = "no collective of the run is among devices";
    return out;
  }
  const auto key = [&](std::string_view of) { return fmt::format("{}/devices/{}", as.prefix, of); };
  const std::string mine = factsOf(device);
  std::string decided;
  if (as.rank == 0) {
    std::vector<std::string> facts{mine};
    for (int rank = 1; rank < size; ++rank) {
      LOCKSTEP_ASSIGN(std::string said, store.get(key(std::to_string(rank)), as.limit));
      facts.push_back(std::move(said));
    }
    decided = fmt::format("{}{}", kCannot, reasonAgainst(facts));
    if (decided.size() == kCannot.size()) {
      LOCKSTEP_ASSIGN(device::Grouping* const grouping, device.grouping());
      auto id = grouping->makeId();
      if (id.ok())
        decided = fmt::format("{}{}", kCan, toHex(*id));
      else
        decided += fmt::format("of rank 0: {}", id.error().text());
    }
    LOCKSTEP_TRY(store.set(key("all"), decided));
  } else {
    LOCKSTEP_TRY(store.set(key(std::to_string(as.rank)), mine));
    LOCKSTEP_ASSIGN(decided, store.get(key("all"), as.limit));
  }
  if (!decided.starts_with(kCan)) {
    out.whyNot_ = decided.substr(kCannot.size());
    return out;
  }
  LOCKSTEP_ASSIGN(device::Grouping* const grouping, device.grouping());
  out.version_ = grouping->version();
  const auto id = fromHex(std::string_view(decided).substr(kCan.size()));
  if (!id)
    return makeError(Code::kInternal, "the ranks' store holds no identity of a group: {}", decided);
  LOCKSTEP_ASSIGN(out.all_, grouping->join({*id, as.rank, size, as.limit}));
  // All ranks split along the same axes in the same order, including those whose group has a single
  // rank.
  for (const cluster::Axis& axis : axes) {
    const int coordinate = mesh.coordinate(as.rank, axis.name);
    const bool isIn = coordinate >= 0;
    LOCKSTEP_ASSIGN(auto group, out.all_->split(isIn ? mesh.group(as.rank, axis.name).front() : -1,
                                                isIn ? coordinate : 0, axis.size));
    if (isIn) LOCKSTEP_TRY(connect(device, *group));
    if (isIn) out.alongAxes_.emplace_back(axis.name, std::move(group));
  }
  return out;
}

void DeviceGroups::addTo(Groups& groups) const {
  for (const auto& [axis, group] : alongAxes_) groups.setDevices(axis, group.get());
}

}  // namespace lockstep::runtime
