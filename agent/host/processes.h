// The processes of a node, with the CPU time that they used in an interval, from /proc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/base/process_stat.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// Blocks for the request's interval, at most 10 s, or until `cancelled`. A process that began in
// the interval is listed, one that ended is not. Errors: kInvalidArgument, kCancelled.
Result<node::v1::ListProcessesReply> listProcesses(const node::v1::ListProcessesRequest& request,
                                                   const std::function<bool()>& cancelled);

// Returns the processes that have the run and the rank in their environment, as far as this account
// may read that: a worker and what it has started, also what has left its session since.
std::vector<int> processesOfRank(const std::string& run, int rank);

// Reaps processes that have ended and that others have left to this one, a subreaper: children of
// its first thread in other sessions. `isOwn`: those that this process has started.
void reapOrphans(const std::function<bool(int pid)>& isOwn);

}  // namespace lockstep::agent
