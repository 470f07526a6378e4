#include "app/cluster/kept_items.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "app/cluster/run_cleanup.h"
#include "app/core/rpc.h"
#include "app/history/history.h"
#include "engine/specs/error_info.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::app {
namespace {

using node::v1::WorkdirItem;

constexpr double kMeasureSeconds = 60;
constexpr std::chrono::seconds kListLimit{120};
constexpr std::chrono::minutes kRemoveLimit{30};
constexpr std::int64_t kDay = 24 * 3600;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;  // of an item, so that there are sums

KeptKind kindOf(WorkdirItem::Kind kind) {
  switch (kind) {
    case WorkdirItem::RUN:
      return KeptKind::kRun;
    case WorkdirItem::DATA:
      return KeptKind::kData;
    case WorkdirItem::DECODED:
      return KeptKind::kDecoded;
    case WorkdirItem::VERSION:
      return KeptKind::kVersion;
    case WorkdirItem::PROGRAM:
      return KeptKind::kProgram;
    default:
      return KeptKind::kRemains;
  }
}

// What the history knows of the runs on nodes.
class KnownRuns {
 public:
  // An absent history knows none, and is not created.
  static Result<KnownRuns> read(const Home& home) {
    KnownRuns out;
    std::error_code none;
    if (!std::filesystem::exists(home.historyFolder() + "/history.db", none)) return out;
    LOCKSTEP_ASSIGN(out.history_, History::open(home.historyFolder()));
    for (LeftRun& run : out.history_->leftOnNodes())
      if (run.deleted) out.deleted_[run.run] = nodesOf(run);
    return out;
  }
  KnownHere find(const KeptItem& item) const {
    if (item.kind != KeptKind::kRun) return KnownHere::kNoRun;
    // A row that cannot be read counts as listed, so that the run stays.
    if (history_ && history_->row(item.run).status().code() != Code::kNotFound)
      return KnownHere::kListed;
    const auto deleted = deleted_.find(item.run);
    const bool isDeleted =
        deleted != deleted_.end() && std::ranges::count(deleted->second, item.node) > 0;
    return isDeleted ? KnownHere::kDeleted : KnownHere::kUnknown;
  }
  // What the history lacks of what a node has of a run; empty: nothing.
  Message lacks(const std::string& run, const std::string& node) const {
    const auto row = history_->row(run);
    if (!row.ok() || !isFinal(row->phase) || lacksModel(*row))
      return message("the history lacks its end or model: run lockstep attach {} first", run);
    const auto store = history_->openRun(run);
    if (row->startedNs != 0 && store.ok() && lacksFiles(**store, node))
      return message("files of its program are not here: run lockstep artifacts {} first", run);
    return {};
  }

 private:
  std::unique_ptr<History> history_;
  std::map<std::string, std::vector<std::string>> deleted_;  // run → its nodes
};

// Why an item stays; empty: it is garbage.
Message whyItStays(const KeptItem& item, const Message& inUse, const KnownRuns& known,
                   const GarbageOptions& options) {
  if (item.known == KnownHere::kDeleted) return {};
  if (!inUse.empty()) return inUse;
  if (item.kind == KeptKind::kVersion) return "old versions are removed by the next deployment";
  if (!options.olderThanDays) return "no age limit was given";
  if (item.idleSeconds < *options.olderThanDays * kDay)
    return item.kind == KeptKind::kRun ? "it ended more recently" : "it was used more recently";
  return item.known == KnownHere::kListed ? known.lacks(item.run, item.node) : Message();
}

KeptItem toItem(const WorkdirItem& from, const KnownRuns& known, const GarbageOptions& options) {
  KeptItem out = keptItem(from);
  out.known = known.find(out);
  out.why = whyItStays(out, specs::fromText(from.in_use()), known, options);
  out.removed = out.why.empty();
  return out;
}

class Collection {
 public:
  Collection(const Home& home, NodeAccess& node, const GarbageOptions& options,
             std::stop_token stop)
      : home_(home), node_(node), options_(options), stop_(std::move(stop)) {}

  Status list(std::vector<KeptItem>& items) {
    LOCKSTEP_TRY(connect());
    LOCKSTEP_ASSIGN(const KnownRuns known, KnownRuns::read(home_));
    grpc::ClientContext context;
    setLimit(context, kListLimit);
    const CancelOnStop cancel(context, stop_);
    node::v1::ListWorkdirRequest request;
    request.set_seconds(kMeasureSeconds);
    const auto stream = agent_->ListWorkdir(&context, request);
    for (WorkdirItem item; stream->Read(&item);) items.push_back(toItem(item, known, options_));
    const Status listed =
        rpcStatus(stream->Finish(), "the node does not list what it keeps", node_.name());
    if (!listed.ok())
      for (KeptItem& item : items) item.removed = false;
    return listed;
  }
  Status remove(std::vector<KeptItem>& items) {
    std::vector<KeptItem*> deleted, old;
    for (KeptItem& item : items) {
      if (!item.removed) continue;
      (item.known == KnownHere::kDeleted ? deleted : old).push_back(&item);
      item.removed = false;
      item.why = "it was not reached";
    }
    LOCKSTEP_TRY(connect());
    LOCKSTEP_TRY(removeDeleted(deleted));
    return removeOld(old);
  }

 private:
  Status connect() {
    LOCKSTEP_ASSIGN(const NodeInventory has, node_.waitConnected(stop_));
    if (Status able = specs::checkFeature("the agent", has.agentSpeaks, specs::kWorkdirItems);
        !able.ok()) {
      able.error().node = node_.name();
      able.error().next = "deploy this version to the node: lockstep cluster deploy";
      return able;
    }
    LOCKSTEP_ASSIGN(const auto channel, node_.agent());
    agent_ = node::v1::Agent::NewStub(channel);
    return {};
  }

  // Also ends runs that were given up. The history notes which deleted runs are left.
  Status removeDeleted(const std::vector<KeptItem*>& items) {
    cleanUpNode(home_, node_, stop_);
    if (items.empty()) return {};
    LOCKSTEP_ASSIGN(const KnownRuns left, KnownRuns::read(home_));
    for (KeptItem* item : items) {
      item->removed = left.find(*item) != KnownHere::kDeleted;
      item->why = item->removed ? Message()
                                : "it could not be removed yet; the next connection tries again";
    }
    return {};
  }

  Status removeOld(const std::vector<KeptItem*>& items) {
    if (items.empty()) return {};
    std::map<std::string, KeptItem*> old;
    node::v1::RemoveFromWorkdirRequest request;
    for (KeptItem* item : items) {
      old[item->name] = item;
      request.add_names(item->name);
    }
    request.set_idle_seconds(*options_.olderThanDays * kDay);
    grpc::ClientContext context;
    setLimit(context, kRemoveLimit);
    const CancelOnStop cancel(context, stop_);
    const auto stream = agent_->RemoveFromWorkdir(&context, request);
    for (node::v1::WorkdirRemoval removal; stream->Read(&removal);) {
      const auto item = old.find(removal.name());
      if (item == old.end()) continue;
      item->second->why = specs::fromText(removal.kept());
      item->second->removed = item->second->why.empty();
    }
    return rpcStatus(stream->Finish(), "the node does not remove what is old", node_.name());
  }

  const Home& home_;
  NodeAccess& node_;
  const GarbageOptions options_;
  const std::stop_token stop_;
  std::unique_ptr<node::v1::Agent::Stub> agent_;
};

}  // namespace

KeptItem keptItem(const WorkdirItem& item) {
  KeptItem out;
  out.kind = kindOf(item.kind());
  out.name = item.name();
  out.run = item.run();
  out.node = item.node();
  out.state = item.state();
  out.bytes = std::clamp<std::int64_t>(item.bytes(), 0, kMostBytes);
  out.partlyMeasured = item.partly_measured();
  out.idleSeconds = std::max<std::int64_t>(0, item.idle_seconds());
  out.problem = specs::fromText(item.problem());
  return out;
}

CollectedGarbage findGarbage(const Home& home, NodeAccess& node, const GarbageOptions& options,
                             const std::stop_token& stop) {
  CollectedGarbage out;
  const Status status = Collection(home, node, options, stop).list(out.items);
  if (!status.ok()) out.error = status.error();
  return out;
}

void keepRunsUnderWay(const std::vector<CollectedGarbage*>& nodes) {
  std::set<std::string> underWay;
  for (const CollectedGarbage* node : nodes)
    for (const KeptItem& item : node->items)
      if (item.kind == KeptKind::kRun && !specs::isFinal(item.state)) underWay.insert(item.run);
  for (CollectedGarbage* node : nodes)
    for (KeptItem& item : node->items) {
      if (!item.removed || item.known == KnownHere::kDeleted || !underWay.contains(item.run))
        continue;
      item.removed = false;
      item.why = "the run is under way on another node";
    }
}

void removeGarbage(const Home& home, NodeAccess& node, const GarbageOptions& options,
                   CollectedGarbage& garbage, const std::stop_token& stop) {
  if (options.dryRun || garbage.error) return;
  const Status status = Collection(home, node, options, stop).remove(garbage.items);
  if (!status.ok()) garbage.error = status.error();
}

}  // namespace lockstep::app
