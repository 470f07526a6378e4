#include "engine/runtime/device_groups.h"

#include <numeric>

#include "engine/runtime/device_agreement.h"

namespace lockstep::runtime {
namespace {

DeviceReport reportOf(device::Device& device) {
  const auto grouping = device.grouping();
  if (!grouping.ok()) return {.whyNot = grouping.error().text()};
  return {.device = device.properties().id, .version = std::string((*grouping)->version())};
}

// At rank 0, once all reports have come.
Result<DeviceDecision> decide(const std::vector<DeviceReport>& byRank, device::Device& device) {
  DeviceDecision out;
  out.whyNot = reasonAgainst(byRank);
  if (!out.whyNot.empty()) return out;
  LOCKSTEP_ASSIGN(device::Grouping* const grouping, device.grouping());
  auto id = grouping->makeId();
  if (id.ok())
    out.id = std::move(*id);
  else
    out.whyNot = fmt::format("of rank 0: {}", id.error().text());
  return out;
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
  const DeviceReport mine = reportOf(device);
  DeviceDecision decided;
  if (as.rank == 0) {
    std::vector<DeviceReport> reports{mine};
    for (int rank = 1; rank < size; ++rank) {
      LOCKSTEP_ASSIGN(const std::string said, store.get(key(std::to_string(rank)), as.limit));
      reports.push_back(DeviceReport::parse(said));
    }
    LOCKSTEP_ASSIGN(decided, decide(reports, device));
    LOCKSTEP_TRY(store.set(key("all"), decided.text()));
  } else {
    LOCKSTEP_TRY(store.set(key(std::to_string(as.rank)), mine.text()));
    LOCKSTEP_ASSIGN(const std::string said, store.get(key("all"), as.limit));
    LOCKSTEP_ASSIGN(decided, DeviceDecision::parse(said));
  }
  out.whyNot_ = decided.whyNot;
  if (!out.whyNot_.empty()) return out;
  LOCKSTEP_ASSIGN(device::Grouping* const grouping, device.grouping());
  out.version_ = grouping->version();
  LOCKSTEP_ASSIGN(out.all_, grouping->join({decided.id, as.rank, size, as.limit}));
  // All ranks split along the same axes in the same order, including those whose group has a single
  // rank.
  for (const cluster::Axis& axis : axes) {
    const int coordinate = mesh.coordinate(as.rank, axis.name);
    const bool isIn = coordinate >= 0;
    LOCKSTEP_ASSIGN(auto group, out.all_->split(isIn ? mesh.member(as.rank, axis.name, 0) : -1,
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
