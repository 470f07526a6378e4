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

}  // namespace lockstep::app
