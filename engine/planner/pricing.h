// Prices of steps: shared by the choice of algorithms, prediction and simulation.
#pragma once

#include "engine/cluster/mesh.h"
#include "engine/plan/plan.h"
#include "engine/planner/planner.h"

namespace lockstep::planner {

double priceOf(const plan::Plan& plan, const plan::Body& body, const plan::Step& step,
               const cluster::Cluster& cluster, const CostModel& cost);

// Cut-points of an axis into hosts: the ranks between two are on one. Empty where groups along the axis
// differ in them.
std::vector<std::int64_t> hostCuts(const cluster::Mesh& mesh, const cluster::Cluster& cluster,
                                   std::string_view axis);

// Whether ranks of one group along the axis talk over links between hosts.
bool crossesHosts(const cluster::Mesh& mesh, const cluster::Cluster& cluster, std::string_view axis);

// What an all-reduce costs that has not been measured: latencies of its rounds, bytes over the busiest
// host's link.
double allReduceSeconds(ir::Algorithm how, int ranks, std::int64_t bytes,
                        const std::vector<std::int64_t>& hosts, const cluster::Link& link);

// Writes each all-reduce's algorithm into its step: the cheapest, or along the axis of replicas the one
// that is asked for. Errors: kInvalidArgument for an unknown one, or one that the cluster cannot play.
Status chooseAllReduces(plan::Plan& plan, const cluster::Cluster& cluster, std::string_view forced);

}  // namespace lockstep::planner
