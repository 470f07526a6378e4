// The groups of ranks' devices along each axis of a mesh. Where all devices can form them,
// collectives, and messages between the stages of a pipeline, are given to the devices as part of a
// step's work; else the host plays them on copies (DevicePlay). Along axis "servers" there are
// none: a server adds up what it receives, and speaks to each worker.
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
    std::string prefix;  // a name used once: run and generation
    Nanoseconds limit = 0;
  };
  // All ranks of the mesh at once, each with a device. Rank 0 decides, by what all say of
  // themselves, so that all do the same: without groups where one of them cannot, where they have
  // different versions of what groups are made by, or where two ranks are on one device. Errors:
  // what a device says of a group that does not form, and of the store.
  static Result<DeviceGroups> form(const cluster::Mesh& mesh, device::Device& device,
                                   comm::Store& store, const Member& as);
  // Into what a rank's executors are bound with; the groups stay these.
  void addTo(Groups& groups) const;
  const std::string& whyNot() const { return whyNot_; }  // "" where there are groups
  const std::string& version() const { return version_; }

 private:
  std::unique_ptr<device::Group> all_;
  std::vector<std::pair<std::string, std::unique_ptr<device::Group>>> alongAxes_;
  std::string whyNot_, version_;
};

}  // namespace lockstep::runtime
