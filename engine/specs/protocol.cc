#include "engine/specs/protocol.h"

#include <algorithm>

#include "lockstep/node/v1/node.pb.h"

namespace lockstep::specs {
namespace {

std::string rangeText(const Protocols& protocols) {
  return protocols.oldest == protocols.newest
             ? fmt::format("{}", protocols.newest)
             : fmt::format("{} to {}", protocols.oldest, protocols.newest);
}

}  // namespace

const std::vector<Feature>& features() {
  static const std::vector<Feature> all = {
      // PrepareRequest.check_only
      {kCheckData, message("check the data before a run is prepared")},
      // ListWorkdir, RemoveFromWorkdir
      {kWorkdirItems, message("list and remove what its workdir keeps")},
      // Supervisor.Checkpoint
      {kCheckpointOnRequest, message("take a checkpoint on request")},
      // Supervisor.Exclude
      {kExcludeNode, message("exclude a node on request")},
      // Supervisor.Restart
      {kRestartRanks, message("restart a run's ranks on request")},
      // Supervisor.Rebalance
      {kRebalance, message("divide a run's batch anew on request")},
      // Supervisor.Profile
      {kProfileSteps, message("record the events of steps on request")},
      // ListProcesses, ReadKernelLog
      {kNodeDebugging, message("show processes and kernel messages")},
      // Supervisor.ReadRankStacks, Supervisor.DebugRank
      {kRankDebugging, message("read stacks on request and attach a debugger")},
      // RunSpec.workload
      {kPrograms, message("run programs of a person's own")},
      // ModelSpec.init_from
      {kInitFrom, message("start from given weights")},
      // PrepareRequest.secret_env
      {kSecretVariables, message("keep a program's secret variables")},
      // DataSpec.format
      {kTokens, message("read tokens")},
      // Agent.SetUp
      {kProgramSetup, message("run workload.setup")},
      // Supervisor.ListArtifacts, Supervisor.FetchArtifact
      {kArtifacts, message("send a program's files")},
      // PythonSpec.kind
      {kPythonTools, message("run programs by uv or apptainer")},
      // WorkloadSpec.restart, WorkloadMetrics.hooks
      {kProgramRestarts, message("follow workload.restart and workload.metrics.hooks")},
      // Agent.FetchFile
      {kFetchFiles, message("fetch data files from URLs")},
      // Agent.BenchTogether, SpeedBench.devices
      {kClusterBenchmarks, message("measure GPUs and collectives between nodes")},
  };
  return all;
}

bool Protocols::has(std::string_view feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

Protocols ownProtocols(std::string version) {
  Protocols out{kOldestProtocol, kNewestProtocol, {}, std::move(version)};
  for (const Feature& feature : features()) out.features.emplace_back(feature.name);
  return out;
}

node::v1::Protocols toProto(const Protocols& protocols) {
  node::v1::Protocols out;
  out.set_oldest(protocols.oldest);
  out.set_newest(protocols.newest);
  for (const std::string& feature : protocols.features) out.add_features(feature);
  out.set_version(protocols.version);
  return out;
}

Protocols fromProto(const node::v1::Protocols& protocols) {
  if (protocols.newest() == 0) return {};
  return {protocols.oldest(),
          protocols.newest(),
          {protocols.features().begin(), protocols.features().end()},
          protocols.version()};
}

Result<int> commonProtocol(const Message& peer, const Protocols& node, const Protocols& client) {
  const int common = std::min(node.newest, client.newest);
  if (common >= std::max(node.oldest, client.oldest)) return common;
  return makeError(Code::kFailedPrecondition, "{} speaks protocol {}, the client protocol {}", peer,
                   rangeText(node), rangeText(client));
}

Status checkFeature(const Message& peer, const Protocols& node, std::string_view feature) {
  if (node.has(feature)) return {};
  const auto found = std::find_if(features().begin(), features().end(),
                                  [&](const Feature& one) { return one.name == feature; });
  LOCKSTEP_CHECK(found != features().end(), "feature {}", feature);
  Error error = makeError(Code::kFailedPrecondition, "{} cannot {}", peer, found->what);
  error.why = "it is of an older version";
  if (!node.version.empty()) error.why = message("it is of the older version {}", node.version);
  return error;
}

}  // namespace lockstep::specs
