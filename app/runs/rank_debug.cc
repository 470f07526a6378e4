#include "app/runs/rank_debug.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/core/idle_timeout.h"
#include "app/core/rpc.h"
#include "engine/base/shell_text.h"
#include "engine/specs/protocol.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::seconds kConnectLimit{15}, kStacksLimit{15};

// The supervisor on a node, which can do this.
Result<std::shared_ptr<grpc::Channel>> supervisorFor(const RankPlace& place, const RunNode& node,
                                                     const std::stop_token& stop) {
  const IdleTimeout limit(stop, kConnectLimit);
  auto found = supervisorOf(place.run, node, limit.stop());
  if (!found.ok()) {
    if (!limit.ended() || stop.stop_requested()) return found.error();
    Error error = makeError(Code::kUnavailable, "the node is not connected");
    error.node = node.name;
    return error;
  }
  LOCKSTEP_TRY(found->checkProtocol(node));
  if (Status able =
          specs::checkFeature("the run's supervisor", found->speaks, specs::kRankDebugging);
      !able.ok()) {
    able.error().node = node.name;
    able.error().next = "it can be done in runs that this version launches";
    return able.error();
  }
  return found->channel;
}

// Asks the nodes one after another until one has the rank.
Status onItsNode(const RankPlace& place, const std::stop_token& stop,
                 const std::function<Status(const RunNode&, node::v1::Supervisor::Stub&)>& ask) {
  std::optional<Error> trouble;
  for (const RunNode& node : place.nodes) {
    const auto channel = supervisorFor(place, node, stop);
    Status asked = channel.ok() ? ask(node, *node::v1::Supervisor::NewStub(*channel))
                                : Status(channel.error());
    if (asked.ok() || asked.code() == Code::kCancelled || stop.stop_requested()) return asked;
    const bool isElsewhere = channel.ok() && asked.code() == Code::kNotFound;
    if (channel.ok() && !isElsewhere) return asked;
    if (!isElsewhere && !trouble) trouble = asked.error();
  }
  if (trouble) return *trouble;
  Error error = makeError(Code::kNotFound, "rank {} does not run on any node now", place.rank);
  error.why = "the run starts, restarts or has ended";
  error.next = "try again in a moment";
  error.rank = place.rank;
  return error;
}

DebuggerNews::State stateOf(node::v1::DebugRankReply::State state) {
  if (state == node::v1::DebugRankReply::ATTACHED) return DebuggerNews::State::kAttached;
  return state == node::v1::DebugRankReply::LEFT ? DebuggerNews::State::kLeft
                                                 : DebuggerNews::State::kWaiting;
}

// A socket here that leads to one on the node.
class Forward {
 public:
  explicit Forward(NodeAccess& node) : node_(node) {}
  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;
  ~Forward() {
    if (!onNode_.empty()) node_.unforward(onNode_);
  }
  Result<std::string> to(const std::string& socketOnNode) {
    if (socketOnNode == onNode_) return here_;
    LOCKSTEP_ASSIGN(here_, node_.forward(socketOnNode));
    onNode_ = socketOnNode;
    return here_;
  }

 private:
  NodeAccess& node_;
  std::string onNode_, here_;
};

Status debugOn(const RankPlace& place, const RunNode& node, double seconds,
               node::v1::Supervisor::Stub& supervisor,
               const std::function<bool(const DebuggerNews&)>& tell, const std::stop_token& stop) {
  Forward forward(*node.access);  // ends after the call
  grpc::ClientContext context;    // no limit: as long as the debugger stays
  const CancelOnStop cancel(context, stop);
  node::v1::DebugRankRequest request;
  request.set_rank(place.rank);
  request.set_seconds(seconds);
  const auto reader = supervisor.DebugRank(&context, request);
  node::v1::DebugRankReply reply;
  Status failed;
  bool wanted = true;
  while (wanted && reader->Read(&reply)) {
    const auto socket = forward.to(reply.socket());
    if (!socket.ok()) {
      failed = socket.error();
      break;
    }
    DebuggerNews news = newsOf(reply);
    news.node = node.name;
    news.socket = *socket;
    wanted = tell(news);
  }
  if (!wanted || !failed.ok()) context.TryCancel();
  const grpc::Status end = reader->Finish();
  if (!wanted || !failed.ok()) return failed;
  if (stop.stop_requested()) return makeError(Code::kCancelled, "debugging was cancelled");
  return rpcStatus(end, "the rank cannot be debugged", node.name);
}

}  // namespace

double RankStacks::longestStop() const {
  double out = 0;
  for (const ThreadStack& thread : threads) out = std::max(out, thread.stoppedSeconds);
  return out;
}

RankStacks stacksOf(const node::v1::ReadRankStacksReply& reply) {
  RankStacks out;
  out.pid = reply.pid();
  out.incomplete = reply.incomplete();
  for (const auto& thread : reply.threads())
    out.threads.push_back({thread.tid(),
                           thread.name(),
                           thread.state(),
                           {thread.frames().begin(), thread.frames().end()},
                           static_cast<double>(thread.stopped_ns()) * 1e-9});
  return out;
}

std::string stacksText(const RankStacks& stacks) {
  std::string out;
  for (const ThreadStack& thread : stacks.threads) {
    out += fmt::format("thread {} {}, {}\n", thread.tid, thread.name, thread.state);
    for (const std::string& frame : thread.frames) out += "  " + frame + "\n";
  }
  return out;
}

Status checkRank(const RunRow& row, std::int64_t rank) {
  if (isFinal(row.phase)) {
    Error error = makeError(Code::kFailedPrecondition, "run {} has ended", row.run);
    error.why = "it has no processes";
    error.next = "look at its log";
    return error;
  }
  if (rank >= 0 && (row.world <= 0 || rank < row.world)) return {};
  return invalidArgument("run {} has no rank {}, but ranks 0 to {}", row.run, rank,
                         std::max(row.world - 1, 0));
}

std::vector<NodeRanks> launchedRanks(const std::string& nodesJson) {
  const auto json = nlohmann::json::parse(nodesJson, nullptr, false);
  std::vector<NodeRanks> out;
  if (!json.is_array()) return out;
  for (const auto& item : json) {
    if (!item.is_object() || !item.contains("node") || !item["node"].is_string()) continue;
    NodeRanks node;
    node.node = item["node"].get<std::string>();
    if (item.contains("ranks") && item["ranks"].is_array())
      for (const auto& rank : item["ranks"])
        if (rank.is_number_integer()) node.ranks.push_back(rank.get<int>());
    out.push_back(std::move(node));
  }
  return out;
}

Result<RankPlace> placeOf(const std::string& run, int rank, const std::string& nodesJson,
                          const ClusterSession& session) {
  RankPlace place{run, rank, {}};
  LOCKSTEP_ASSIGN(place.nodes, runNodes(nodesJson, session));
  for (const NodeRanks& node : launchedRanks(nodesJson)) {
    if (std::find(node.ranks.begin(), node.ranks.end(), rank) == node.ranks.end()) continue;
    std::stable_partition(place.nodes.begin(), place.nodes.end(),
                          [&](const RunNode& one) { return one.name == node.node; });
  }
  return place;
}

Result<RankStacks> readStacks(const RankPlace& place, const std::stop_token& stop) {
  RankStacks out;
  LOCKSTEP_TRY(onItsNode(
      place, stop, [&](const RunNode& node, node::v1::Supervisor::Stub& supervisor) -> Status {
        grpc::ClientContext context;
        setLimit(context, kStacksLimit);
        const CancelOnStop cancel(context, stop);
        node::v1::ReadRankStacksRequest request;
        request.set_rank(place.rank);
        node::v1::ReadRankStacksReply reply;
        LOCKSTEP_TRY(rpcStatus(supervisor.ReadRankStacks(&context, request, &reply),
                               "the stacks cannot be read", node.name));
        out = stacksOf(reply);
        out.node = node.name;
        out.rank = place.rank;
        return {};
      }));
  return out;
}

DebuggerNews newsOf(const node::v1::DebugRankReply& reply) {
  DebuggerNews out;
  out.state = stateOf(reply.state());
  out.pid = reply.pid();
  out.program = reply.program();
  const double patience = reply.patience_seconds();
  out.patienceSeconds = std::isfinite(patience) ? std::max(patience, 0.0) : 0;
  return out;
}

std::string debuggerCommand(const DebuggerNews& news) {
  return shellLine({"gdb", "-ex", "target remote " + news.socket});
}

Status debugRank(const RankPlace& place, double seconds,
                 const std::function<bool(const DebuggerNews&)>& tell,
                 const std::stop_token& stop) {
  return onItsNode(place, stop, [&](const RunNode& node, node::v1::Supervisor::Stub& supervisor) {
    return debugOn(place, node, seconds, supervisor, tell, stop);
  });
}

}  // namespace lockstep::app
