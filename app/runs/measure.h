// Measures the costs of a plan on the nodes, cached in the home folder.
#pragma once

#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"
#include "app/core/home.h"
#include "app/runs/preview.h"
#include "engine/base/status.h"

namespace lockstep::node::v1 {
class MeasureReply;
}

namespace lockstep::app {

// Ops are measured on the first node, and so are collectives whose ranks are all on its host.
// Between hosts the prediction uses the cluster's link.
// `paths` are the data files on the first node; tables are read from there.
// Blocks for some seconds, unless the same plan was measured with the same agent on the same host.
// With Costs::kEarlier, returns cached costs or kNotFound.
enum class Costs { kBenchmark, kEarlier };
Result<planner::CostModel> measureCosts(const Preview& preview, const LaunchRequest& request,
                                        NodeAccess& first, const NodeInventory& inventory,
                                        const std::map<std::string, std::string>& paths,
                                        const Home& home, Costs costs, std::stop_token stop);

// Returns the costs that the node tells. kDataLoss where they cannot be.
Result<planner::CostModel> costsOf(const node::v1::MeasureReply& reply, const std::string& node);

}  // namespace lockstep::app
