// Runs requests on a local agent, for commands that need the engine's runtime.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>

#include "app/cli/command.h"
#include "app/cluster/node_access.h"

namespace lockstep::app::cli {

// Connects to the first node of a local cluster and calls `ask` on a thread; Ctrl-C cancels it.
// Messages name `what`: "the benchmark".
Status onLocalAgent(const Globals& globals, std::shared_ptr<const spec::v1::ClusterSpec> cluster,
                    std::string_view what,
                    const std::function<Status(NodeAccess&, std::stop_token)>& ask,
                    const std::function<void()>& idle = {});

// Reports the result's error, if any, and returns the exit code.
int conclude(const Status& status, bool json);

}  // namespace lockstep::app::cli
