// The communicators of one rank, by mesh axis, and the threads that play along them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "engine/comm/communicator.h"
#include "engine/device/device.h"
#include "engine/runtime/in_flight.h"
#include "engine/runtime/sender.h"

namespace lockstep::runtime {

// An axis of one rank has none. Communicators are borrowed; ranks are numbered by the coordinate.
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
  // Of the ranks' devices, which play what collectives they can along it; null: the host does.
  // Borrowed.
  void setDevices(std::string axis, device::Group* group) { devices_[std::move(axis)] = group; }
  device::Group* devicesAlong(std::string_view axis) const {
    const auto found = devices_.find(axis);
    return found == devices_.end() ? nullptr : found->second;
  }
  // Of the axis whose ranks send each other messages; null where none do. Copies of these groups
  // share it.
  Sender* sender() const { return sender_.get(); }
  InFlight& inFlight() const { return *inFlight_; }  // shared likewise
  const std::map<std::string, comm::Communicator*, std::less<>>& all() const { return groups_; }
  // What rank 0 of the mesh has, to all its ranks: along one axis after another.
  Status broadcast(void* data, std::int64_t bytes) const {
    for (const auto& [axis, group] : groups_) LOCKSTEP_TRY(group->broadcast(data, bytes, 0));
    return {};
  }

 private:
  std::map<std::string, comm::Communicator*, std::less<>> groups_;
  std::map<std::string, device::Group*, std::less<>> devices_;
  std::shared_ptr<Sender> sender_;
  std::shared_ptr<InFlight> inFlight_ = std::make_shared<InFlight>();
};

}  // namespace lockstep::runtime
