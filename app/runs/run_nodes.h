// The nodes of a recorded run, and calls to their supervisors.
#pragma once

#include <grpcpp/channel.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"
#include "app/core/home.h"
#include "engine/base/status.h"
#include "engine/specs/protocol.h"

namespace lockstep::node::v1 {
class ProfileReply;
}

namespace lockstep::app {

struct RunNode {
  std::string name;
  NodeAccess* access = nullptr;
};
// Parses RunDocuments::nodes (JSON); the coordinator first. kNotFound if a node is not in the
// session.
Result<std::vector<RunNode>> runNodes(const std::string& json, const ClusterSession& session);

// The same nodes (JSON) with this one first.
std::string nodesFrom(const std::string& json, const std::string& first);

// A run's supervisor on a node, which may be of another version than this program and the agent.
struct RunSupervisor {
  std::shared_ptr<grpc::Channel> channel;
  specs::Protocols speaks;
  // kFailedPrecondition if it cannot be talked to.
  Status checkProtocol(const RunNode& node) const;
};
// The agent starts one for an ended run. kNotFound if the node does not know the run.
Result<RunSupervisor> supervisorOf(const std::string& run, const RunNode& node,
                                   std::stop_token stop);

struct RunRequest {
  enum Kind : std::uint8_t {
    kCheckpoint,  // all ranks take one after a step that they agree on
    kStop,        // likewise, and exit
    kKill,
    kExclude,    // takes a checkpoint, and continues without `node`
    kRestart,    // takes a checkpoint, and restarts all ranks from it
    kProfile,    // records all events of `steps` steps of all ranks
    kRebalance,  // takes a checkpoint, and divides the batch by `shares`
  };
  RunRequest(Kind k, std::string of = {}) : kind(k), node(std::move(of)) {}
  Kind kind;
  std::string node;
  int steps = 20;
  std::vector<double> shares{};
  // The same request may have come before. Another stop, without this, ends the wait for copies.
  bool repeated = false;
};
struct RunAnswer {
  std::int64_t firstStep = 0;  // of kProfile: those that are recorded
  int steps = 0;
};
RunAnswer answerOf(const node::v1::ProfileReply& reply);
const char* refusalOf(RunRequest::Kind kind);  // "the run could not be stopped"
// Asks the supervisor on the coordinator, as supervisorOf(). Errors: kUnavailable,
// kDeadlineExceeded if it has not answered; kAborted if it has, and cannot promise yet what was
// asked; its refusals.
Result<RunAnswer> askRun(const RunRequest& what, const std::string& run, const RunNode& coordinator,
                         const std::stop_token& stop);

// Downloads the trained model into the home's models folder and returns its path. Nodes are asked
// one after another, each until `timeout` without progress, and after the first only those that are
// connected; the error is that of the first.
Result<std::string> downloadModel(const std::string& run, const std::vector<RunNode>& nodes,
                                  const Home& home, const std::stop_token& stop,
                                  std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace lockstep::app
