// Device groups along the axes of a mesh. Where all devices can form them, collectives, and
// messages between pipeline stages, are enqueued on the devices as part of a step's work; otherwise
// the host runs them on copies (DeviceRun). Axis "servers" has none: a server adds up what it
// receives, and talks to each worker separately.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/cluster/mesh.h"
#include "engine/comm/communicator.h"
#include "engine/device/device.h"
#include "engine/runtime/groups.h"

namespace lockstep::runtime {

class DeviceGroups {
 public:
  struct Member {
    int rank = 0;
    std::string prefix;  // unique name: run and generation
    Nanoseconds limit = 0;
  };
  // Collective over all ranks of the mesh, each with a device. Rank 0 decides for all: no groups if
  // one of them cannot form any, if versions of the group library differ, or if two ranks share a
  // device. Errors: those of the device while forming a group, and of the store.
  static Result<DeviceGroups> form(const cluster::Mesh& mesh, device::Device& device,
                                   comm::Store& store, const Member& as);
  // Adds the groups to `groups`, to bind executors with; this object keeps ownership.
  void addTo(Groups& groups) const;
  const std::string& whyNot() const { return whyNot_; }  // "" where there are groups
  const std::string& version() const { return version_; }

 private:
  std::unique_ptr<device::Group> all_;
  std::vector<std::pair<std::string, std::unique_ptr<device::Group>>> alongAxes_;
  std::string whyNot_, version_;
};

}  // namespace lockstep::runtime
