// Staging: uploads the files of a run, its data or its code, from this machine to nodes that lack
// them. Files are identified by SHA-256, from the spec or computed here once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"
#include "app/runs/data_calls.h"
#include "engine/base/status.h"
#include "engine/specs/specs.h"

namespace lockstep::app {

struct StagingNode {
  NodeAccess* access = nullptr;
  // "train.images" → candidate path on the node, then the actual path
  std::map<std::string, std::string> paths;
};

// Called concurrently.
struct StagingObserver {
  std::function<void(const std::string& node)> came;                 // it has all files
  std::function<void(std::int64_t done, std::int64_t total)> moved;  // bytes, of all nodes together
  TellData data;  // files that are hashed, here and on the nodes
};

// Fills in `paths` of all nodes concurrently. Returns the files' SHA-256 by name.
// On failure complete files stay on their nodes, partial ones do not. kCancelled: by `stop`.
Result<std::map<std::string, std::string>> stageData(const std::vector<specs::DataFile>& files,
                                                     std::vector<StagingNode>& nodes,
                                                     const StagingObserver& observer,
                                                     std::stop_token stop);

}  // namespace lockstep::app
