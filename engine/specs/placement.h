// The nodes of a cluster that a scheduler provides (ClusterSpec.placement).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/base/status.h"
#include "lockstep/spec/v1/cluster.pb.h"

namespace lockstep::specs {

// Checks the placement. Errors: kInvalidArgument with `field`.
Status checkPlacement(const spec::v1::ClusterSpec& spec);

bool isKubernetes(const spec::v1::PlacementSpec& placement);
// Returns "Slurm" or "Kubernetes".
const char* schedulerName(const spec::v1::PlacementSpec& placement);

// Returns the seconds of MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, or DAYS-HOURS, which may
// have minutes and seconds; nullopt for other text.
std::optional<std::int64_t> timeLimitSeconds(std::string_view text);

// Returns how the login node is reached, of "[USER@]HOST[:PORT]". An empty host: this machine.
spec::v1::SshSpec loginOf(const spec::v1::PlacementSpec& placement);

// Returns whether the scheduler has yet to allocate the nodes.
bool awaitsAllocation(const spec::v1::ClusterSpec& spec);

// Returns the cluster with all its nodes: those that a range of names stands for, and stand-ins,
// named slurm1 … or pod1 …, for those that are not allocated yet, so that a run on it can be
// planned. Errors: as checkPlacement() and withExpandedNodes().
Result<spec::v1::ClusterSpec> withExpectedNodes(const spec::v1::ClusterSpec& spec);

// Returns the cluster as it was before its nodes were allocated: without them and their job.
spec::v1::ClusterSpec withoutAllocation(spec::v1::ClusterSpec spec);

// Returns the devices that a node brings: those of the placement, else its GPUs, else one CPU
// device with a thread for each of `cpus`.
google::protobuf::RepeatedPtrField<spec::v1::DeviceSpec> placedDevices(
    const spec::v1::PlacementSpec& placement, int cpus);

}  // namespace lockstep::specs
