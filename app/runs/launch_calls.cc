#include "app/runs/launch_calls.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "app/core/idle_timeout.h"
#include "app/core/rpc.h"
#include "engine/specs/data_url.h"
#include "engine/specs/protocol.h"
#include "engine/specs/states.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr const char* kNotPrepared = "the node could not prepare the run";
constexpr const char* kNotSetUp = "the node could not set the program up";
constexpr std::chrono::seconds kSilence{20};  // of a node that sets a program up
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

// What an agent has to be able to do for the run.
std::vector<std::string_view> featuresOf(const spec::v1::RunSpec& spec,
                                         const Participant& participant) {
  const spec::v1::WorkloadSpec& workload = spec.workload();
  const std::string& python = workload.python().kind();
  const std::pair<std::string_view, bool> all[] = {
      {specs::kPrograms, spec.has_workload()},
      {specs::kSecretVariables, !workload.env_from().empty()},
      {specs::kProgramSetup, !workload.setup().empty()},
      {specs::kArtifacts, !workload.artifacts().collect().empty()},
      {specs::kProgramRestarts, spec.has_workload()},
      {specs::kPythonTools, python == "uv" || python == "apptainer"},
      {specs::kInitFrom, spec.model().has_init_from()},
      {specs::kTokens, spec.data().format() == "tokens"},
      {specs::kFetchFiles,
       std::ranges::any_of(participant.paths,
                           [](const auto& one) { return specs::isUrl(one.second); })},
  };
  std::vector<std::string_view> out;
  for (const auto& [feature, isNeeded] : all)
    if (isNeeded) out.push_back(feature);
  return out;
}

}  // namespace

Status checkAble(const Participants& participants, const spec::v1::RunSpec& spec) {
  for (const Participant& participant : participants)
    for (const std::string_view feature : featuresOf(spec, participant)) {
      Status able = specs::checkFeature("the agent", participant.inventory.agentSpeaks, feature);
      if (able.ok()) continue;
      able.error().node = participant.name;
      able.error().next = "deploy this version to the node: lockstep cluster deploy";
      return able;
    }
  return {};
}

Status setProgramUp(const Participant& participant, const node::v1::SetUpRequest& request,
                    const TellSetup& tell, const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(const auto channel, participant.access->agent());
  const auto stub = node::v1::Agent::NewStub(channel);
  IdleTimeout silence(stop, kSilence);
  grpc::ClientContext context;
  const CancelOnStop cancel(context, silence.stop());
  const auto reader = stub->SetUp(&context, request);
  bool done = false;
  for (node::v1::SetUpReply reply; reader->Read(&reply);) {
    silence.moved();
    done = done || reply.done();
    tell({participant.name,
          reply.command(),
          {reply.lines().begin(), reply.lines().end()},
          reply.dropped()});
  }
  const grpc::Status status = reader->Finish();
  if (stop.stop_requested()) return makeError(Code::kCancelled, "the launch was cancelled");
  if (!status.ok() && silence.ended()) {
    Error error = rpcError({grpc::StatusCode::DEADLINE_EXCEEDED, {}}, kNotSetUp, participant.name);
    error.why = message("the node has been silent for {} s", kSilence.count());
    return error;
  }
  LOCKSTEP_TRY(rpcStatus(status, kNotSetUp, participant.name));
  if (done) return {};
  return rpcError({grpc::StatusCode::UNAVAILABLE, {}}, kNotSetUp, participant.name);
}

Status checkRun(Participant& participant, const node::v1::PrepareRequest& request,
                const TellData& tell, const std::stop_token& stop) {
  node::v1::PrepareRequest check = request;
  check.set_check_only(true);
  LOCKSTEP_ASSIGN(const node::v1::PrepareReply reply,
                  callPrepare(*participant.access, check, kNotPrepared, tell, stop));
  takeFound(reply, participant);
  return {};
}

void takeFound(const node::v1::PrepareReply& reply, Participant& participant) {
  participant.data = {reply.data_hashes().begin(), reply.data_hashes().end()};
  participant.versions = {reply.versions().begin(), reply.versions().end()};
}

Result<std::string> prepareRun(Participant& participant, const node::v1::PrepareRequest& request,
                               const TellData& tell, const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(const node::v1::PrepareReply reply,
                  callPrepare(*participant.access, request, kNotPrepared, tell, stop));
  participant.socket = reply.socket();
  takeFound(reply, participant);
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
