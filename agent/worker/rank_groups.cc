#include "agent/worker/rank_groups.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "agent/host/metrics.h"
#include "engine/base/log.h"
#include "engine/comm/network_address.h"

namespace lockstep::agent {
namespace {

// Calls visit(axis, ranks of the group, offset of the group's memory) for all groups of the mesh,
// in an order that every process agrees on. Returns the end of the memory.
template <typename Visit>
std::int64_t forGroups(const cluster::Mesh& mesh, Visit visit) {
  std::int64_t offset = 0;
  for (const cluster::Axis& axis : mesh.groupAxes()) {
    if (axis.size < 2) continue;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      if (mesh.coordinate(rank, axis.name) != 0) continue;
      visit(axis, mesh.group(rank, axis.name), offset);
      offset += comm::sharedMemoryBytes(axis.size);
    }
  }
  return offset;
}

}  // namespace

Result<std::int64_t> sharedMemoryBytes(const cluster::Mesh& mesh) {
  for (const cluster::Axis& axis : mesh.groupAxes()) {
    if (axis.size <= comm::kMaxSharedRanks) continue;
    return invalidArgument("axis {} has {} ranks in one node; shared memory takes at most {}",
                           axis.name, axis.size, comm::kMaxSharedRanks);
  }
  return forGroups(mesh, [](const auto&, const auto&, std::int64_t) {});
}

cluster::Mesh meshFor(const plan::Plan& plan, int ranks) {
  return plan.mesh.size() == ranks ? plan.mesh : cluster::Mesh({{"data", ranks}});
}

Result<RankGroups> RankGroups::form(const node::v1::WorkerStart& start, const cluster::Mesh& mesh,
                                    WorkerLink& link, Nanoseconds limit) {
  RankGroups out;
  Status status;
  forGroups(mesh, [&](const cluster::Axis& axis, const std::vector<int>& ranks,
                      std::int64_t offset) {
    const auto mine = std::find(ranks.begin(), ranks.end(), start.rank());
    if (!status.ok() || mine == ranks.end()) return;
    const int rank = static_cast<int>(mine - ranks.begin());
    const comm::RankNames names(ranks);
    // Messages leave on a thread of their own, which needs a core while their receivers wait for
    // them.
    const bool crowded =
        start.oversubscribed() ||
        (axis.name == mesh.messageAxis() && mesh.size() * (start.threads() + 1) > usableCores());
    const auto connect = [&]() -> Result<std::unique_ptr<comm::Communicator>> {
      if (start.comm() == "shm" || (start.comm() == "nccl" && start.shared_memory_fd() >= 0))
        return comm::openSharedMemory(start.shared_memory_fd(), offset, rank, axis.size, crowded,
                                      limit, names);
      comm::GlooOptions options;
      options.rank = rank;
      options.size = axis.size;
      options.address = start.address();
      options.interface = start.interface();
      options.prefix =
          fmt::format("{}/{}/{}/{}", start.run(), start.generation(), axis.name, ranks.front());
      options.timeout = limit;
      options.names = names;
      return comm::connectGloo(options, link);
    };
    auto communicator = connect();
    status = communicator.status();
    if (!status.ok()) return;
    out.groups_.set(axis.name, communicator->get());
    out.owned_.push_back(std::move(*communicator));
  });
  LOCKSTEP_TRY(status);
  return out;
}

Status confineNccl(const std::string& givenAddress, const std::string& givenInterface) {
  LOCKSTEP_ASSIGN(const std::string address, comm::ownAddress(givenAddress, givenInterface));
  const std::string interface =
      givenInterface.empty() ? comm::interfaceOf(address) : givenInterface;
  if (interface.empty()) {
    Error error =
        makeError(Code::kFailedPrecondition, "no network interface has the address {}", address);
    error.why = "NCCL must be bound to one interface; otherwise it listens on all interfaces";
    error.next = "set the node's `interface` in the cluster instead of its `address`";
    return error;
  }
  // "=": exactly this interface, not a prefix.
  setenv("NCCL_SOCKET_IFNAME", ("=" + interface).c_str(), 1);
  setenv("NCCL_SOCKET_FAMILY", address.find(':') == std::string::npos ? "AF_INET" : "AF_INET6", 1);
  // Disables NCCL's diagnostic port, which is open to everyone on the node.
  setenv("NCCL_RAS_ENABLE", "0", 1);
  return {};
}

Result<runtime::DeviceGroups> joinDevices(const node::v1::WorkerStart& start,
                                          const plan::Plan& plan, backends::Backend& backend,
                                          WorkerLink& link, runtime::Groups& groups) {
  // Workers that go ahead of each other do not give the same at the same time.
  if (!start.all_on_gpus() || backend.device() == nullptr || plan.mesh.size() < 2 ||
      plan.isAsynchronous())
    return runtime::DeviceGroups();
  const bool alone = start.world() == plan.mesh.size();  // no other node has ranks
  LOCKSTEP_TRY(alone ? confineNccl("", "") : confineNccl(start.address(), start.interface()));
  LOCKSTEP_ASSIGN(
      runtime::DeviceGroups devices,
      runtime::DeviceGroups::form(plan.mesh, *backend.device(), link,
                                  {.rank = start.rank(),
                                   .prefix = fmt::format("{}/{}", start.run(), start.generation()),
                                   .limit = deviceLimit(plan)}));
  if (!devices.whyNot().empty() && start.comm() == "nccl") {
    Error error = makeError(Code::kFailedPrecondition,
                            "comm is nccl, and the ranks' GPUs cannot exchange among themselves");
    error.why = devices.whyNot();
    error.next = "leave comm out of the cluster: what GPUs cannot exchange goes through the host";
    return error;
  }
  if (devices.whyNot().empty())
    logInfo("the GPUs exchange among themselves, by NCCL {}", devices.version());
  else
    logInfo("collectives go through the host: {}", devices.whyNot());
  devices.addTo(groups);
  return devices;
}

}  // namespace lockstep::agent
