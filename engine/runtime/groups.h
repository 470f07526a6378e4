// The communicators of one rank, by mesh axis, and the threads that run along them.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/comm/communicator.h"
#include "engine/device/device.h"
#include "engine/runtime/activity.h"
#include "engine/runtime/async_collectives.h"
#include "engine/runtime/sender.h"

namespace lockstep::runtime {

// Communicators by axis; an axis of one rank has none. Communicators are borrowed; ranks are
// numbered by their coordinate.
class Groups {
 public:
  Groups() = default;
  Groups(comm::Communicator* data) { set("data", data); }  // null: a run of one rank
  void set(std::string axis, comm::Communicator* group) {
    if (group == nullptr) return;
    if (axis == cluster::kStageAxis || axis == cluster::kServerAxis)
      sender_ = std::make_shared<Sender>(*group);
    groups_[std::move(axis)] = group;
  }
  comm::Communicator* along(std::string_view axis) const {
    const auto found = groups_.find(axis);
    return found == groups_.end() ? nullptr : found->second;
  }
  // The device group of an axis, which runs the collectives it can; null: the host runs them.
  // Borrowed.
  void setDevices(std::string axis, device::Group* group) { devices_[std::move(axis)] = group; }
  device::Group* devicesAlong(std::string_view axis) const {
    const auto found = devices_.find(axis);
    return found == devices_.end() ? nullptr : found->second;
  }
  // The sender of the axis whose ranks exchange messages; null if there is none. Copies of these
  // groups share it.
  Sender* sender() const { return sender_.get(); }
  AsyncCollectives& asyncCollectives() const { return *asyncCollectives_; }  // shared likewise
  // What this rank's threads are doing; shared likewise.
  Activity& activity() const { return *activity_; }
  const std::map<std::string, comm::Communicator*, std::less<>>& all() const { return groups_; }
  // Broadcasts from rank 0 of the mesh to all its ranks, along one axis after another.
  Status broadcast(void* data, std::int64_t bytes) const {
    for (const auto& [axis, group] : groups_) LOCKSTEP_TRY(group->broadcast(data, bytes, 0));
    return {};
  }
  // Broadcasts from any rank of `mesh`. Groups without the sender exchange other values, which the
  // broadcast along a later axis overwrites.
  Status broadcast(void* data, std::int64_t bytes, const cluster::Mesh& mesh, int from) const {
    for (const auto& [axis, group] : groups_)
      LOCKSTEP_TRY(group->broadcast(data, bytes, std::max(0, mesh.coordinate(from, axis))));
    return {};
  }

 private:
  std::map<std::string, comm::Communicator*, std::less<>> groups_;
  std::map<std::string, device::Group*, std::less<>> devices_;
  std::shared_ptr<Sender> sender_;
  std::shared_ptr<Activity> activity_ = std::make_shared<Activity>();
  std::shared_ptr<AsyncCollectives> asyncCollectives_ = std::make_shared<AsyncCollectives>();
};

}  // namespace lockstep::runtime
