// Prices of steps: shared by the choice of algorithms, prediction and simulation.
#pragma once

#include <map>
#include <span>
#include <string>

#include "engine/cluster/assumed.h"
#include "engine/cluster/mesh.h"
#include "engine/plan/plan.h"
#include "engine/planner/planner.h"

namespace lockstep::planner {

// Prices the steps of one plan's bodies. Plan, cluster and cost outlive it.
class Prices {
 public:
  Prices(const plan::Plan& plan, const cluster::Cluster& cluster, const CostModel& cost);
  // Seconds of a step that ranks of these rates run.
  double of(const plan::Body& body, const plan::Step& step,
            const cluster::DeviceRates& rates) const;

 private:
  double collective(const plan::Step& step, const cluster::Link& link) const;

  const plan::Plan& plan_;
  const cluster::Cluster& cluster_;
  const CostModel& cost_;
  std::map<std::string, cluster::Link, std::less<>> links_;  // along each axis
};

// Returns the link of groups along an axis of the mesh.
cluster::Link linkAlong(const cluster::Mesh& mesh, const cluster::Cluster& cluster,
                        std::string_view axis);

// Prices for the slowest device of the ranks: they run the same body and wait for the slowest.
cluster::DeviceRates ratesOf(std::span<const int> ranks, const cluster::Cluster& cluster,
                             std::string_view precision, const CostModel& cost);
cluster::DeviceRates workerRates(const cluster::Cluster& cluster, std::string_view precision,
                                 const CostModel& cost);

// Cut-points of an axis into hosts: the ranks between two are on one. Empty where groups along the
// axis differ in them.
std::vector<std::int64_t> hostCuts(const cluster::Mesh& mesh, const cluster::Cluster& cluster,
                                   std::string_view axis);

// Whether ranks of one group along the axis are on several hosts.
bool spansHosts(const cluster::Mesh& mesh, const cluster::Cluster& cluster, std::string_view axis);
// Whether they talk over links between hosts, by messages of the hosts' own.
bool crossesHosts(const cluster::Mesh& mesh, const cluster::Cluster& cluster,
                  std::string_view axis);

// Returns how much of a collective's payload, the larger of what a rank has before and after, each
// rank sends, and receives as well: of an all-reduce 2 (n - 1) / n, of a reduce-scatter, an
// all-gather and an all-to-all half of that, of all else all of it (nccl-tests, doc/PERFORMANCE.md,
// where it is bus bandwidth over algorithm bandwidth).
double sentShare(ir::Op op, int ranks);

// Return the cost of an unmeasured collective: latencies of its rounds, and what is sent over the
// busiest host's link. A reduce-scatter and an all-gather take together what the communicator's own
// all-reduce takes.
double collectiveSeconds(ir::Op op, int ranks, std::int64_t bytes,
                         const std::vector<std::int64_t>& hosts, const cluster::Link& link);
double allReduceSeconds(ir::Algorithm how, int ranks, std::int64_t bytes,
                        const std::vector<std::int64_t>& hosts, const cluster::Link& link);

// Writes each all-reduce's algorithm into its step: the cheapest, or along the axis of replicas the
// one that is asked for. Errors: kInvalidArgument for an unknown one, or one that the cluster
// cannot run.
Status chooseAllReduces(plan::Plan& plan, const cluster::Cluster& cluster, std::string_view forced);

}  // namespace lockstep::planner
