#include "app/runs/run_nodes.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/core/idle_timeout.h"
#include "app/core/rpc.h"
#include "app/core/shallow_json.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::app {
namespace {

constexpr const char* kSupervisor = "the run's supervisor";

Error ofOtherVersion(Error error, const RunNode& node) {
  error.node = node.name;
  error.next = "use the version of Lockstep that launched the run";
  return error;
}

Result<std::string> fetchModel(const std::string& run, const RunNode& node, const Home& home,
                               IdleTimeout& timeout) {
  LOCKSTEP_ASSIGN(const auto supervisor, supervisorOf(run, node, timeout.stop()));
  LOCKSTEP_TRY(supervisor.checkProtocol(node));
  timeout.moved();
  std::error_code error;
  std::filesystem::create_directories(home.modelsFolder(), error);
  if (error) return systemError(error.value(), message("cannot create {}", home.modelsFolder()));
  const auto receive = [&](const Append& append) -> Status {
    const auto stub = node::v1::Supervisor::NewStub(supervisor.channel);
    grpc::ClientContext context;
    setLimit(context, std::chrono::minutes(30));
    const CancelOnStop cancel(context, timeout.stop());
    node::v1::FetchRequest request;
    request.set_name("model.safetensors");
    const auto reader = stub->Fetch(&context, request);
    Sha256 hash;
    std::string expected;
    Status kept;
    for (node::v1::FetchChunk chunk; kept.ok() && reader->Read(&chunk);) {
      timeout.moved();
      hash.update(std::string_view(chunk.data()));
      if (!chunk.sha256().empty()) expected = chunk.sha256();
      kept = append(chunk.data());
    }
    if (!kept.ok()) context.TryCancel();
    const grpc::Status ended = reader->Finish();
    LOCKSTEP_TRY(std::move(kept));
    LOCKSTEP_TRY(rpcStatus(ended, "cannot fetch the trained model", node.name));
    if (hash.hex() == expected) return {};
    Error damaged =
        makeError(Code::kDataLoss, "the trained model was damaged on its way from {}", node.name);
    damaged.next = "it is still on the node, in the run's folder";
    return damaged;
  };
  const std::string path = fmt::format("{}/{}.safetensors", home.modelsFolder(), run);
  LOCKSTEP_TRY(writeFileAtomically(path, receive));
  return path;
}

}  // namespace

Result<std::vector<RunNode>> runNodes(const std::string& text, const ClusterSession& session) {
  const auto json = parseShallow(text);
  std::vector<RunNode> out;
  if (json.is_array())
    for (const auto& item : json) {
      if (!item.is_object() || !item.contains("node") || !item["node"].is_string()) continue;
      RunNode node;
      node.name = item["node"].get<std::string>();
      node.access = session.access(node.name);
      if (node.access == nullptr) {
        Error error = makeError(Code::kNotFound,
                                "the cluster has no node \"{}\", where the run was", node.name);
        error.next = "use the cluster the run was launched on";
        return error;
      }
      out.push_back(std::move(node));
    }
  if (out.empty()) {
    Error error = makeError(Code::kNotFound, "it is not known on which nodes the run was");
    error.next = "its launch was not completed: launch it again";
    return error;
  }
  return out;
}

std::string nodesFrom(const std::string& text, const std::string& first) {
  auto json = parseShallow(text);
  if (!json.is_array()) return text;
  const auto at = std::find_if(json.begin(), json.end(), [&](const nlohmann::json& item) {
    return item.is_object() && item.value("node", nlohmann::json()) == first;
  });
  if (at != json.end()) std::rotate(json.begin(), at, std::next(at));
  return json.dump();
}

Status RunSupervisor::checkProtocol(const RunNode& node) const {
  auto common = specs::commonProtocol(kSupervisor, speaks, specs::ownProtocols());
  return common.ok() ? Status() : ofOtherVersion(std::move(common.error()), node);
}

Result<RunSupervisor> supervisorOf(const std::string& run, const RunNode& node,
                                   std::stop_token stop) {
  LOCKSTEP_TRY(node.access->waitConnected(stop).status());
  LOCKSTEP_ASSIGN(const auto agent, node.access->agent());
  const auto stub = node::v1::Agent::NewStub(agent);
  grpc::ClientContext context;
  setLimit(context, std::chrono::seconds(10));
  const CancelOnStop cancel(context, stop);
  node::v1::FindRunRequest request;
  request.set_run(run);
  request.set_node(node.name);
  node::v1::RunOnNode found;
  LOCKSTEP_TRY(
      rpcStatus(stub->FindRun(&context, request, &found), "cannot ask for the run", node.name));
  if (found.socket().empty()) {
    Error error =
        makeError(Code::kUnavailable, "no supervisor on node {} answers for the run", node.name);
    error.next = "look at agent.log in the workdir of that node";
    return error;
  }
  RunSupervisor out;
  LOCKSTEP_ASSIGN(out.channel, node.access->supervisor(found.socket()));
  out.speaks = specs::fromProto(found.speaks());
  return out;
}

// Steps have numbers that can be added to.
RunAnswer answerOf(const node::v1::ProfileReply& reply) {
  constexpr std::int64_t kLastStep = std::int64_t{1} << 53;
  constexpr int kMostSteps = 200;
  return {std::clamp<std::int64_t>(reply.profiled().first(), 0, kLastStep),
          std::clamp(reply.profiled().count(), 0, kMostSteps)};
}

const char* refusalOf(RunRequest::Kind kind) {
  switch (kind) {
    case RunRequest::kCheckpoint:
      return "the run could not be asked for a checkpoint";
    case RunRequest::kStop:
      return "the run could not be stopped";
    case RunRequest::kExclude:
      return "the node could not be excluded";
    case RunRequest::kRestart:
      return "the ranks could not be restarted";
    case RunRequest::kProfile:
      return "no steps could be recorded";
    case RunRequest::kRebalance:
      return "the batch could not be divided anew";
    case RunRequest::kKill:
      break;
  }
  return "the run could not be killed";
}

namespace {

// "": all supervisors can be asked for it.
std::string_view featureOf(RunRequest::Kind kind) {
  switch (kind) {
    case RunRequest::kCheckpoint:
      return specs::kCheckpointOnRequest;
    case RunRequest::kExclude:
      return specs::kExcludeNode;
    case RunRequest::kRestart:
      return specs::kRestartRanks;
    case RunRequest::kProfile:
      return specs::kProfileSteps;
    case RunRequest::kRebalance:
      return specs::kRebalance;
    case RunRequest::kStop:
    case RunRequest::kKill:
      break;
  }
  return {};
}

}  // namespace

Result<RunAnswer> askRun(const RunRequest& what, const std::string& run, const RunNode& coordinator,
                         const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(const auto found, supervisorOf(run, coordinator, stop));
  LOCKSTEP_TRY(found.checkProtocol(coordinator));
  if (const std::string_view feature = featureOf(what.kind); !feature.empty()) {
    Status able = specs::checkFeature(kSupervisor, found.speaks, feature);
    if (!able.ok()) return ofOtherVersion(std::move(able.error()), coordinator);
  }
  const auto supervisor = node::v1::Supervisor::NewStub(found.channel);
  grpc::ClientContext context;
  setLimit(context, std::chrono::seconds(10));
  const CancelOnStop cancel(context, stop);
  const auto send = [&](auto request, auto reply, auto call) -> Result<RunAnswer> {
    request.set_run(run);
    request.set_generation(1);
    const grpc::Status called = (*supervisor.*call)(&context, request, &reply);
    Status asked = rpcStatus(called, refusalOf(what.kind), coordinator.name);
    if (asked.code() == Code::kUnavailable && isAnswer(called)) asked.error().code = Code::kAborted;
    LOCKSTEP_TRY(std::move(asked));
    if constexpr (requires { reply.profiled(); }) return answerOf(reply);
    return RunAnswer();
  };
  using Stub = node::v1::Supervisor::Stub;
  switch (what.kind) {
    case RunRequest::kCheckpoint:
      return send(node::v1::CheckpointRequest(), node::v1::CheckpointReply(), &Stub::Checkpoint);
    case RunRequest::kStop: {
      node::v1::StopRequest request;
      request.set_repeated(what.repeated);
      return send(std::move(request), node::v1::StopReply(), &Stub::Stop);
    }
    case RunRequest::kExclude: {
      node::v1::ExcludeRequest request;
      request.set_node(what.node);
      return send(std::move(request), node::v1::ExcludeReply(), &Stub::Exclude);
    }
    case RunRequest::kRestart:
      return send(node::v1::RestartRequest(), node::v1::RestartReply(), &Stub::Restart);
    case RunRequest::kProfile: {
      node::v1::ProfileRequest request;
      request.set_steps(what.steps);
      return send(std::move(request), node::v1::ProfileReply(), &Stub::Profile);
    }
    case RunRequest::kRebalance: {
      node::v1::RebalanceRequest request;
      request.mutable_shares()->Assign(what.shares.begin(), what.shares.end());
      return send(std::move(request), node::v1::RebalanceReply(), &Stub::Rebalance);
    }
    case RunRequest::kKill:
      break;
  }
  return send(node::v1::KillRequest(), node::v1::KillReply(), &Stub::Kill);
}

Result<std::string> downloadModel(const std::string& run, const std::vector<RunNode>& nodes,
                                  const Home& home, const std::stop_token& stop,
                                  std::chrono::milliseconds limit) {
  std::optional<Error> first;
  for (const RunNode& node : nodes) {
    if (first && !node.access->agent().ok()) continue;
    IdleTimeout timeout(stop, limit);
    auto model = fetchModel(run, node, home, timeout);
    if (model.ok() || stop.stop_requested()) return model;
    if (first) continue;
    first = timeout.ended() ? rpcError({grpc::StatusCode::DEADLINE_EXCEEDED, {}},
                                       "cannot fetch the trained model", node.name)
                            : model.error();
  }
  if (first) return *first;
  return makeError(Code::kNotFound, "it is not known on which nodes the run was");
}

}  // namespace lockstep::app
