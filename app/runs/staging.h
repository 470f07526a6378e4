// Staging: the data files of a run, brought from this machine to the nodes that lack them. A file
// is known by its SHA-256: from the spec, else computed here once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"
#include "engine/base/status.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {

struct StagingNode {
  NodeAccess* access = nullptr;
  // "train.images" → where it may be there; then where it is
  std::map<std::string, std::string> paths;
};

// Threads: any of several.
struct StagingObserver {
  std::function<void(const std::string& node)> came;                 // it has all files
  std::function<void(std::int64_t done, std::int64_t total)> moved;  // bytes, of all nodes together
};

// Fills in `paths`, nodes at once. Returns the files' SHA-256 by name.
// Failure: what has come stays on its nodes, nothing half-written does. kCancelled: by `stop`.
Result<std::map<std::string, std::string>> stageData(const spec::v1::DataSpec& data,
                                                     std::vector<StagingNode>& nodes,
                                                     const StagingObserver& observer,
                                                     std::stop_token stop);

}  // namespace lockstep::app
