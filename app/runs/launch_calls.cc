#include "app/runs/launch_calls.h"

#include <grpcpp/channel.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "app/core/rpc.h"
#include "engine/specs/protocol.h"
#include "engine/specs/states.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr const char* kNotPrepared = "the node could not prepare the run";
constexpr std::chrono::seconds kCommitLimit{20};
constexpr std::chrono::seconds kKillLimit{10};
constexpr std::chrono::seconds kFindLimit{5};
constexpr std::chrono::seconds kCleanUpLimit{3};  // short: a node may be out of reach

// Calls the coordinator's supervisor for the first generation of the run. The limit is set here,
// everything else of the context by the caller.
template <typename Request, typename Reply>
Status callSupervisor(const Participant& coordinator, const std::string& run,
                      grpc::Status (node::v1::Supervisor::Stub::*call)(grpc::ClientContext*,
                                                                       const Request&, Reply*),
                      grpc::ClientContext& context, std::chrono::seconds limit,
                      const Message& what) {
  LOCKSTEP_ASSIGN(const auto channel, coordinator.access->supervisor(coordinator.socket));
  const auto stub = node::v1::Supervisor::NewStub(channel);
  setLimit(context, limit);
  Request request;
  request.set_run(run);
  request.set_generation(1);
  Reply reply;
  return rpcStatus(((*stub).*call)(&context, request, &reply), what, coordinator.name);
}

Result<node::v1::RunOnNode> findRun(node::v1::Agent::Stub& stub, const Participant& participant,
                                    const std::string& run, grpc::ClientContext& context,
                                    const Message& what) {
  setLimit(context, kFindLimit);
  node::v1::FindRunRequest find;
  find.set_run(run);
  find.set_node(participant.name);
  node::v1::RunOnNode found;
  LOCKSTEP_TRY(rpcStatus(stub.FindRun(&context, find, &found), what, participant.name));
  return found;
}

Status killRun(const Participant& coordinator, const std::string& run) {
  grpc::ClientContext context;
  return callSupervisor(coordinator, run, &node::v1::Supervisor::Stub::Kill, context, kKillLimit,
                        message("the run could not be killed"));
}

// The coordinator's agent says so: what was prepared has expired and is gone, or the run has ended.
bool isOver(const Participant& coordinator, const std::string& run) {
  const auto channel = coordinator.access->agent();
  if (!channel.ok()) return false;
  const auto stub = node::v1::Agent::NewStub(*channel);
  grpc::ClientContext context;
  const auto found = findRun(*stub, coordinator, run, context, message("cannot ask for the run"));
  return found.ok() ? specs::isFinal(found->state()) : found.error().code == Code::kNotFound;
}

}  // namespace

Status checkAble(const Participants& participants, const spec::v1::RunSpec& spec) {
  std::vector<std::string_view> needed;
  if (spec.has_workload()) needed.push_back(specs::kPrograms);
  if (!spec.workload().env_from().empty()) needed.push_back(specs::kSecretVariables);
  if (spec.model().has_init_from()) needed.push_back(specs::kInitFrom);
  if (spec.data().format() == "tokens") needed.push_back(specs::kTokens);
  for (const Participant& participant : participants)
    for (const std::string_view feature : needed) {
      Status able = specs::checkFeature("the agent", participant.inventory.agentSpeaks, feature);
      if (able.ok()) continue;
      able.error().node = participant.name;
      able.error().next = "deploy this version to the node: lockstep cluster deploy";
      return able;
    }
  return {};
}

Status checkRun(Participant& participant, const node::v1::PrepareRequest& request,
                const TellData& tell, const std::stop_token& stop) {
  node::v1::PrepareRequest check = request;
  check.set_check_only(true);
  LOCKSTEP_ASSIGN(const node::v1::PrepareReply reply,
                  callPrepare(*participant.access, check, kNotPrepared, tell, stop));
  participant.data = {reply.data_hashes().begin(), reply.data_hashes().end()};
  return {};
}

Result<std::string> prepareRun(Participant& participant, const node::v1::PrepareRequest& request,
                               const TellData& tell, const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(const node::v1::PrepareReply reply,
                  callPrepare(*participant.access, request, kNotPrepared, tell, stop));
  participant.socket = reply.socket();
  participant.data = {reply.data_hashes().begin(), reply.data_hashes().end()};
  participant.versions = {reply.versions().begin(), reply.versions().end()};
  LOCKSTEP_ASSIGN(const auto channel, participant.access->agent());
  const auto stub = node::v1::Agent::NewStub(channel);
  grpc::ClientContext context;
  const CancelOnStop cancel(context, stop);
  LOCKSTEP_ASSIGN(const node::v1::RunOnNode found,
                  findRun(*stub, participant, request.run(), context,
                          message("the node no longer has the run it had prepared")));
  participant.folder = found.folder();
  return reply.peer_address();
}

Status commitRun(const Participant& coordinator, const std::string& run, std::stop_token stop) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  const CancelOnStop cancel(context, std::move(stop));
  return callSupervisor(coordinator, run, &node::v1::Supervisor::Stub::Commit, context,
                        kCommitLimit, message("the coordinator did not start the run"));
}

Status endCommittedRun(const Participant& coordinator, const std::string& run) {
  return retryWhileUnavailable(kKillLimit, {}, [&]() -> Status {
    Status killed = killRun(coordinator, run);
    return killed.ok() || isOver(coordinator, run) ? Status() : killed;
  });
}

void removePrepared(const Participants& participants, const std::string& run) {
  std::vector<std::jthread> threads;
  for (const Participant& participant : participants) {
    if (participant.socket.empty()) continue;
    threads.emplace_back([&run, &participant] {
      const auto channel = participant.access->agent();
      if (!channel.ok()) return;
      const auto stub = node::v1::Agent::NewStub(*channel);
      grpc::ClientContext context;
      setLimit(context, kCleanUpLimit);
      node::v1::RemoveRunRequest remove;
      remove.set_run(run);
      remove.set_node(participant.name);
      node::v1::RemoveRunReply reply;
      (void)stub->RemoveRun(&context, remove, &reply);
    });
  }
}

}  // namespace lockstep::app
