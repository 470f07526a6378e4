#include "app/runs/removal.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "app/core/rpc.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::seconds kLimit{5};

std::vector<std::string> nodeNames(const std::string& nodesJson) {
  std::vector<std::string> out;
  const auto json = nlohmann::json::parse(nodesJson, nullptr, false);
  if (!json.is_array()) return out;
  for (const auto& node : json)
    if (node.is_object() && node.contains("node") && node["node"].is_string()) out.push_back(node["node"]);
  return out;
}

using Part = std::pair<std::string, std::string>;  // run, node

// Removes those of `parts` that the agent has; the ones that are gone.
std::set<Part> removeAt(NodeAccess& access, const std::set<Part>& parts, const std::stop_token& stop) {
  std::set<Part> gone;
  const auto channel = access.agent();
  if (!channel.ok()) return gone;
  const auto stub = node::v1::Agent::NewStub(*channel);
  node::v1::ListRunsReply listed;
  {
    grpc::ClientContext context;
    setLimit(context, kLimit);
    const CancelOnStop cancel(context, stop);
    if (!stub->ListRuns(&context, {}, &listed).ok()) return gone;
  }
  for (const auto& found : listed.runs()) {
    const Part part{found.run(), found.node()};
    if (!parts.contains(part)) continue;
    grpc::ClientContext context;
    setLimit(context, kLimit);
    const CancelOnStop cancel(context, stop);
    node::v1::RemoveRunRequest request;
    request.set_run(part.first);
    request.set_node(part.second);
    node::v1::RemoveRunReply reply;
    if (stub->RemoveRun(&context, request, &reply).ok()) gone.insert(part);
  }
  return gone;
}

}  // namespace

void removeDeletedRuns(History& history, const std::vector<NodeAccess*>& nodes, const std::stop_token& stop) {
  std::set<Part> parts;
  const std::vector<DeletedRun> deleted = history.deleted();
  for (const DeletedRun& run : deleted)
    for (const std::string& node : nodeNames(run.nodes)) parts.emplace(run.run, node);
  if (parts.empty()) return;
  // A node's name says nothing of the machine, the run's id does: every node is asked for all of them.
  std::set<Part> gone;
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (NodeAccess* access : nodes)
      threads.emplace_back([&, access] {
        const std::set<Part> some = removeAt(*access, parts, stop);
        const std::lock_guard lock(mutex);
        gone.insert(some.begin(), some.end());
      });
  }
  for (const DeletedRun& run : deleted) {
    nlohmann::json left = nlohmann::json::array();
    const auto names = nodeNames(run.nodes);
    for (const std::string& node : names)
      if (!gone.contains({run.run, node})) left.push_back({{"node", node}});
    if (left.size() < names.size()) (void)history.setDeleted(run.run, left.empty() ? "" : left.dump());
  }
}

std::vector<std::string> nodesKeeping(const History& history, const std::string& run) {
  for (const DeletedRun& one : history.deleted())
    if (one.run == run) return nodeNames(one.nodes);
  return {};
}

}  // namespace lockstep::app
