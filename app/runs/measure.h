// What a plan costs on the nodes at hand, measured there once and kept in the home.
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

// Steps are measured on the first node. Collectives are measured on it too where all ranks of the
// group are on its host; between hosts the cluster's link stays what the prediction goes by.
// `paths` says where the first node has the data: a table there is what runs.
// Blocking, at most some seconds; at once where the same plan was measured before with the same
// agent on the same host. With Costs::kEarlier nothing is measured: kNotFound where it was not
// before.
enum class Costs { kBenchmark, kEarlier };
Result<planner::CostModel> measureCosts(const Preview& preview, const LaunchRequest& request,
                                        NodeAccess& first, const NodeInventory& inventory,
                                        const std::map<std::string, std::string>& paths,
                                        const Home& home, Costs costs, std::stop_token stop);

}  // namespace lockstep::app
