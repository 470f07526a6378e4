// The protocol between a client and a node (proto/lockstep/node/v1/node.proto), and what versions
// of Lockstep agree on. Studios of several versions may share an account, and supervisors of an
// older version outlive its agent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::node::v1 {
class Protocols;
}

namespace lockstep::specs {

// What this program speaks. A number grows when a call or message changes its meaning; what is
// added is a feature.
inline constexpr int kOldestProtocol = 2, kNewestProtocol = 2;

// What a peer can be asked for beyond the protocol.
struct Feature {
  std::string_view name;
  Message what;  // "the agent cannot …"
};
const std::vector<Feature>& features();
inline constexpr std::string_view kCheckData = "check-data";
inline constexpr std::string_view kWorkdirItems = "workdir-items";
inline constexpr std::string_view kCheckpointOnRequest = "checkpoint-on-request";
inline constexpr std::string_view kExcludeNode = "exclude-node";
inline constexpr std::string_view kRestartRanks = "restart-ranks";
inline constexpr std::string_view kRebalance = "rebalance";
inline constexpr std::string_view kProfileSteps = "profile-steps";
inline constexpr std::string_view kNodeDebugging = "node-debugging";
inline constexpr std::string_view kRankDebugging = "rank-debugging";
inline constexpr std::string_view kPrograms = "programs";
inline constexpr std::string_view kInitFrom = "init-from";
inline constexpr std::string_view kSecretVariables = "secret-variables";
inline constexpr std::string_view kTokens = "tokens";
inline constexpr std::string_view kProgramSetup = "program-setup";
inline constexpr std::string_view kArtifacts = "artifacts";
inline constexpr std::string_view kPythonTools = "python-tools";
inline constexpr std::string_view kProgramRestarts = "program-restarts";
inline constexpr std::string_view kFetchFiles = "fetch-files";
inline constexpr std::string_view kClusterBenchmarks = "cluster-benchmarks";

struct Protocols {
  int oldest = 1, newest = 1;  // those before this was told
  std::vector<std::string> features;
  std::string version;  // content hash of its bundle; "": unknown
  bool has(std::string_view feature) const;
};
Protocols ownProtocols(std::string version = {});
node::v1::Protocols toProto(const Protocols& protocols);
Protocols fromProto(const node::v1::Protocols& protocols);  // absent: Protocols()

// Returns the newest protocol that both speak. kFailedPrecondition with both ranges; `peer` is as
// in "the agent".
Result<int> commonProtocol(const Message& peer, const Protocols& node, const Protocols& client);

// Returns kFailedPrecondition, with the version of `node`, if it lacks the feature; `peer` is how
// messages call it.
Status checkFeature(const Message& peer, const Protocols& node, std::string_view feature);

}  // namespace lockstep::specs
