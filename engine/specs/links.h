// The links of a cluster's spec: which entry is of two nodes, and what that makes of the links
// along the axes of a mesh.
//
// Of entries that match two nodes in their direction the first applies; where there is none, the
// first that matches them in the opposite one. Inside a node the first applies whose `inside`
// matches it.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/cluster/mesh.h"
#include "lockstep/spec/v1/cluster.pb.h"

namespace lockstep::specs {

// Checks the links of a cluster with its expanded nodes: names and patterns that match none of
// them, and entries that never apply. Errors: kInvalidArgument with `field`.
Status checkLinks(const spec::v1::ClusterSpec& spec);

// Writes the links along the axes of the cluster's mesh, and of them the slowest as its link, with
// NCCL and where the spec says something of links. Precondition: its devices, hosts, mesh and
// assumed link are there.
//
// Between nodes, groups along an axis share what a node's adapters carry: each has the adapters'
// bandwidth over the number of such groups on the node, and at most an adapter for each of its
// ranks there, which is what each has where nothing is said. A group is as fast as its slowest
// link, and an axis as its slowest group.
void resolveLinks(const spec::v1::ClusterSpec& spec, cluster::Cluster& out);

// Returns bytes per second of one adapter or device; 0: the entry does not tell.
double bandwidthOf(const spec::v1::LinkSpec& link);
// Returns what the spec says of the link from one of its nodes to another: bytes per second of one
// adapter; 0: nothing.
double bandwidthBetween(const spec::v1::ClusterSpec& spec, const std::string& from,
                        const std::string& to);

}  // namespace lockstep::specs
