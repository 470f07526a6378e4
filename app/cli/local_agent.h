// What a command asks of an agent on this machine: its worker runs what needs the runtime.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>

#include "app/cli/command.h"
#include "app/cluster/node_access.h"

namespace lockstep::app::cli {

// Connects the first node of a local cluster and calls `ask` on a thread while Ctrl-C is watched.
// `what` is what is cancelled by it: "the benchmark".
Status onLocalAgent(const Globals& globals, std::shared_ptr<const spec::v1::ClusterSpec> cluster,
                    std::string_view what,
                    const std::function<Status(NodeAccess&, std::stop_token)>& ask,
                    const std::function<void()>& idle = {});

// The exit code of a command that ends so; an error is told.
int conclude(const Status& status, bool json);

}  // namespace lockstep::app::cli
