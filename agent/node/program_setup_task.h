// Sets a program up for a client of the agent: workload.setup in a process of its own.
#pragma once

#include <functional>
#include <string>

#include "agent/base/event_loop.h"
#include "agent/workload/program_setup.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// A client that waits for it.
struct SetupClient {
  // Called at least every half second, with what is new. Returns false if the client is gone.
  std::function<bool(const node::v1::SetUpReply&)> tell;
  std::function<bool()> gone;  // called more often
};

// Runs the commands in `folder`, unless that was done. Returns when all processes have ended: those
// of a client that is gone are killed. Not on the loop's thread. Errors: those of runSetup(),
// kCancelled.
Status setProgramUp(EventLoop& loop, const node::v1::SetUpRequest& request,
                    const SetupFolder& folder, const SetupClient& client);

}  // namespace lockstep::agent
