// The calls of a launch to the nodes that take part. Errors have the node.
#pragma once

#include <stop_token>
#include <string>

#include "app/runs/data_calls.h"
#include "app/runs/participant.h"
#include "app/runs/setup_output.h"
#include "engine/base/status.h"

namespace lockstep::node::v1 {
class PrepareReply;
class SetUpRequest;
}  // namespace lockstep::node::v1
namespace lockstep::spec::v1 {
class RunSpec;
}  // namespace lockstep::spec::v1

namespace lockstep::app {

// Checks that the agents can run what is asked for. Error kFailedPrecondition: names the node, and
// what its agent lacks.
Status checkAble(const Participants& participants, const spec::v1::RunSpec& spec);

// Runs workload.setup on the node; `tell` gets what it prints. Errors: those of the commands;
// kDeadlineExceeded after 20 s without a sign of life; kCancelled by `stop`, which ends them there.
Status setProgramUp(const Participant& participant, const node::v1::SetUpRequest& request,
                    const TellSetup& tell, const std::stop_token& stop);

// Checks whether the node can run its part, and fills in the hashes of its data.
Status checkRun(Participant& participant, const node::v1::PrepareRequest& request,
                const TellData& tell, const std::stop_token& stop);

// Fills in what the reply tells of the node's files and programs.
void takeFound(const node::v1::PrepareReply& reply, Participant& participant);

// Fills in what is known once prepared. Returns the address at which others join the node, if it
// coordinates.
Result<std::string> prepareRun(Participant& participant, const node::v1::PrepareRequest& request,
                               const TellData& tell, const std::stop_token& stop);

// Starts the run that all nodes have prepared.
Status commitRun(const Participant& coordinator, const std::string& run, std::stop_token stop);

// Ends a run that may have started, since the answer to commitRun() was lost. Ok once it was killed
// or is over.
Status endCommittedRun(const Participant& coordinator, const std::string& run);

// Best effort, everywhere at once; what cannot be reached expires by itself.
void removePrepared(const Participants& participants, const std::string& run);

}  // namespace lockstep::app
