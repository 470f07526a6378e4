#include "app/cluster/run_cleanup.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/core/idle_timeout.h"
#include "app/core/rpc.h"
#include "app/core/shallow_json.h"
#include "engine/specs/protocol.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::seconds kLimit{10};  // of all that is to be done on a node
constexpr std::chrono::seconds kCallLimit{5};
constexpr std::chrono::milliseconds kPause{100};

struct Part {
  std::string node, host, folder;  // host and folder: "" in what earlier versions wrote
};

std::vector<Part> partsOf(const std::string& nodesJson) {
  std::vector<Part> out;
  const auto json = nlohmann::json::parse(nodesJson, nullptr, false);
  if (!json.is_array()) return out;
  for (const auto& node : json)
    if (!textOf(node, "node").empty())
      out.push_back({textOf(node, "node"), textOf(node, "host"), textOf(node, "folder")});
  return out;
}

class Cleanup {
 public:
  Cleanup(NodeAccess& node, const std::shared_ptr<grpc::Channel>& channel, std::stop_token stop)
      : node_(node), agent_(node::v1::Agent::NewStub(channel)), stop_(std::move(stop)) {}

  Result<node::v1::ListRunsReply> runs() {
    node::v1::ListRunsReply reply;
    LOCKSTEP_TRY(call([&](auto* context) { return agent_->ListRuns(context, {}, &reply); }));
    return reply;
  }
  // The coordinator need not be there: each node ends its own part.
  Status end(const node::v1::RunOnNode& part) {
    const auto common = specs::commonProtocol(
        "the run's supervisor", specs::fromProto(part.speaks()), specs::ownProtocols());
    LOCKSTEP_TRY(common.status());
    LOCKSTEP_ASSIGN(const auto channel, node_.supervisor(part.socket()));
    const auto supervisor = node::v1::Supervisor::NewStub(channel);
    node::v1::KillRequest request;
    request.set_run(part.run());
    request.set_generation(1);
    node::v1::KillReply reply;
    return call([&](auto* context) { return supervisor->Kill(context, request, &reply); });
  }
  Status awaitEnd(const node::v1::RunOnNode& part) {
    node::v1::FindRunRequest request;
    request.set_run(part.run());
    request.set_node(part.node());
    for (;;) {
      node::v1::RunOnNode found;
      const Status asked =
          call([&](auto* context) { return agent_->FindRun(context, request, &found); });
      if (asked.code() == Code::kNotFound || (asked.ok() && isFinal(found.state()))) return {};
      LOCKSTEP_TRY(asked);
      if (stop_.stop_requested()) return makeError(Code::kCancelled, "the run has not ended yet");
      std::this_thread::sleep_for(kPause);
    }
  }
  Status remove(const node::v1::RunOnNode& part) {
    node::v1::RemoveRunRequest request;
    request.set_run(part.run());
    request.set_node(part.node());
    node::v1::RemoveRunReply reply;
    return call([&](auto* context) { return agent_->RemoveRun(context, request, &reply); });
  }

 private:
  template <typename Call>
  Status call(Call make) {
    grpc::ClientContext context;
    setLimit(context, kCallLimit);
    const CancelOnStop cancel(context, stop_);
    return rpcStatus(make(&context), "the run could not be cleaned up", node_.name());
  }

  NodeAccess& node_;
  const std::unique_ptr<node::v1::Agent::Stub> agent_;
  const std::stop_token stop_;
};

}  // namespace

void cleanUpNode(const Home& home, NodeAccess& node, const std::stop_token& stop) {
  std::error_code none;
  if (!std::filesystem::exists(home.historyFolder() + "/history.db", none)) return;
  const auto history = History::open(home.historyFolder());
  if (!history.ok()) return;
  const std::vector<LeftRun> left = (*history)->leftOnNodes();
  if (left.empty()) return;
  const IdleTimeout timeout(stop, kLimit);
  const auto inventory = node.waitConnected(timeout.stop());
  const auto channel = node.agent();
  if (!inventory.ok() || !channel.ok()) return;
  Cleanup cleanup(node, *channel, timeout.stop());
  const auto listed = cleanup.runs();
  if (!listed.ok()) return;
  for (const LeftRun& run : left)
    for (const Part& part : partsOf(run.nodes)) {
      // A run's id is its own: whatever the cluster calls the node, this is the part that is noted.
      const auto found = std::find_if(
          listed->runs().begin(), listed->runs().end(),
          [&](const auto& one) { return one.run() == run.run && one.node() == part.node; });
      if (found == listed->runs().end()) {
        const bool wasHere = part.node == node.name() && part.host == inventory->hostname &&
                             part.folder.starts_with(inventory->workdir + "/");
        if (wasHere) (void)(*history)->forgetPart(run.run, part.node);
        continue;
      }
      Status done;
      if (!isFinal(found->state())) done = cleanup.end(*found);
      // A node without its peers ends its part too, but answers that the others may go on.
      if (done.code() == Code::kUnavailable || (done.ok() && run.deleted))
        done = cleanup.awaitEnd(*found);
      if (done.ok() && run.deleted) done = cleanup.remove(*found);
      if (done.ok()) (void)(*history)->forgetPart(run.run, part.node);
    }
}

void cleanUpNodes(const Home& home, const std::vector<NodeAccess*>& nodes,
                  const std::stop_token& stop) {
  std::vector<std::jthread> threads;
  for (NodeAccess* node : nodes)
    threads.emplace_back([&home, node, stop] { cleanUpNode(home, *node, stop); });
}

std::vector<std::string> nodesOf(const LeftRun& run) {
  std::vector<std::string> out;
  for (const Part& part : partsOf(run.nodes)) out.push_back(part.node);
  return out;
}

std::vector<std::string> nodesKeeping(const History& history, const std::string& run) {
  for (const LeftRun& one : history.leftOnNodes())
    if (one.run == run) return nodesOf(one);
  return {};
}

}  // namespace lockstep::app
