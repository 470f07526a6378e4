// Debugging of the ranks of this node on request: their stacks, and gdbserver for a debugger.
// Called on threads of the service.
#pragma once

#include <functional>
#include <mutex>
#include <set>

#include "agent/base/event_loop.h"
#include "agent/base/run_folder.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

class RunControl;

class RankDebugging {
 public:
  // `control` is null once the run has ended.
  RankDebugging(EventLoop& loop, RunFolder folder, RunControl* control)
      : loop_(loop), folder_(std::move(folder)), control_(control) {}

  // Blocks for at most some ten seconds. Errors: kNotFound if the rank is not on this node or does
  // not run; those of StackReader; kCancelled.
  Result<node::v1::ReadRankStacksReply> readStacks(int rank,
                                                   const std::function<bool()>& cancelled);
  // Blocks as serveDebugger() does. Errors: likewise; also kAlreadyExists while another client
  // debugs this rank, kInvalidArgument.
  Status debug(const node::v1::DebugRankRequest& request,
               const std::function<bool(const node::v1::DebugRankReply&)>& tell,
               const std::function<bool()>& cancelled);

 private:
  Result<int> processOf(int rank);
  double patience() const;

  EventLoop& loop_;
  const RunFolder folder_;
  RunControl* const control_;
  std::mutex mutex_;
  std::set<int> debugged_;  // mutex_
};

}  // namespace lockstep::agent
