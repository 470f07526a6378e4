// gc: what nodes keep, and what of it they forget.
#include <atomic>
#include <cstdio>
#include <map>
#include <thread>
#include <tuple>

#include "app/cli/commands.h"
#include "app/cli/connecting.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/cluster/kept_items.h"
#include "app/cluster/node_access.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

constexpr std::int64_t kMostDays = 100 * 365;

struct NodeGarbage {
  std::string node;
  NodeAccess* access = nullptr;
  CollectedGarbage collected;
};

struct Sum {
  std::int64_t items = 0, bytes = 0, removedItems = 0, removedBytes = 0;
  void add(const KeptItem& item) {
    ++items;
    bytes += item.bytes;
    if (!item.removed) return;
    ++removedItems;
    removedBytes += item.bytes;
  }
};

// The cluster with the nodes of --node only.
Result<std::shared_ptr<const spec::v1::ClusterSpec>> chosenNodes(const Globals& globals,
                                                                 const Arguments& arguments) {
  if (arguments.words().empty() == !arguments.has("local"))
    return invalidArgument("lockstep gc needs either a cluster file or --local N");
  LOCKSTEP_ASSIGN(const ClusterSpecFile file, arguments.words().empty()
                                                  ? clusterOf(globals, arguments)
                                                  : loadClusterSpec(arguments.words()[0]));
  const std::vector<std::string> names = arguments.all("node");
  if (names.empty()) return file.spec;
  auto chosen = std::make_shared<spec::v1::ClusterSpec>(*file.spec);
  chosen->clear_nodes();
  for (const std::string& name : names) {
    const auto& nodes = file.spec->nodes();
    const auto node = std::ranges::find_if(nodes, [&](const auto& n) { return n.name() == name; });
    if (node == nodes.end()) return invalidArgument("the cluster has no node {}", name);
    const auto& before = chosen->nodes();
    if (std::ranges::none_of(before, [&](const auto& n) { return n.name() == name; }))
      *chosen->add_nodes() = *node;
  }
  return std::shared_ptr<const spec::v1::ClusterSpec>(std::move(chosen));
}

// The connected nodes; of nodes that share a workdir the first.
std::vector<NodeGarbage> connectedNodes(ClusterSession& session) {
  std::map<std::tuple<std::string, std::string, std::string, int>, std::string> seen;
  std::vector<NodeGarbage> out;
  for (int i = 0; i < session.size(); ++i) {
    const NodeStatus& node = session.status(i);
    if (node.phase != NodeState::CONNECTED) continue;
    const NodeInventory& has = node.inventory;
    const auto [first, isNew] =
        seen.emplace(std::tuple(has.hostname, has.bootId, has.workdir, has.agentPid), node.name);
    if (isNew)
      out.push_back({node.name, &session.access(i), {}});
    else
      put(stderr,
          fmt::format("note: node {} has the workdir of node {}\n", node.name, first->second));
  }
  return out;
}

// Calls `work` for all nodes concurrently. Returns false if it was interrupted.
template <typename Work>
bool onAll(std::vector<NodeGarbage>& nodes, Inbox& inbox, Work work) {
  std::atomic<std::size_t> done = 0;
  std::vector<std::jthread> threads;
  for (NodeGarbage& node : nodes)
    threads.emplace_back([&, &node = node](const std::stop_token& stop) {
      work(node, stop);
      ++done;
    });
  const bool whole = drainUntil(inbox, [&] { return done == nodes.size(); });
  for (std::jthread& thread : threads) thread.request_stop();
  return whole;  // once the threads have ended
}

// Returns false if interrupted.
bool collect(const Globals& globals, const GarbageOptions& options, Inbox& inbox,
             std::vector<NodeGarbage>& nodes) {
  const auto find = [&](NodeGarbage& node, const std::stop_token& stop) {
    node.collected = findGarbage(globals.home, *node.access, options, stop);
  };
  if (!onAll(nodes, inbox, find)) {
    for (NodeGarbage& node : nodes)  // nothing was removed
      for (KeptItem& item : node.collected.items) item.removed = false;
    return false;
  }
  std::vector<CollectedGarbage*> all;
  for (NodeGarbage& node : nodes) all.push_back(&node.collected);
  keepRunsUnderWay(all);
  return onAll(nodes, inbox, [&](NodeGarbage& node, const std::stop_token& stop) {
    removeGarbage(globals.home, *node.access, options, node.collected, stop);
  });
}

std::string kindText(KeptKind kind) {
  switch (kind) {
    case KeptKind::kRun:
      return "run";
    case KeptKind::kData:
      return "data file";
    case KeptKind::kDecoded:
      return "decoded data";
    case KeptKind::kVersion:
      return "version";
    case KeptKind::kRemains:
      return "remains";
    case KeptKind::kProgram:
      return "program";
  }
  return {};
}

std::string knownText(KnownHere known) {
  switch (known) {
    case KnownHere::kNoRun:
      return "–";
    case KnownHere::kListed:
      return "listed";
    case KnownHere::kDeleted:
      return "deleted";
    case KnownHere::kUnknown:
      return "not listed";
  }
  return {};
}

std::string ageText(std::int64_t seconds) {
  constexpr std::int64_t kMinute = 60, kHour = 3600, kDay = 24 * kHour;
  if (seconds >= kDay) return fmt::format("{} d", seconds / kDay);
  if (seconds >= kHour) return fmt::format("{} h", seconds / kHour);
  return fmt::format("{} min", seconds / kMinute);
}

// The hash in the path of a data file or version, shortened.
std::string nameText(const KeptItem& item) {
  constexpr std::size_t kHash = 64, kShown = 12;
  if (item.kind == KeptKind::kRun) return item.run + "/" + item.node;
  std::string out;
  std::size_t digits = 0;
  for (const char c : item.name) {
    const bool isDigit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    digits = isDigit ? digits + 1 : 0;
    out += c;
    if (digits == kHash) out.resize(out.size() - kHash + kShown);
  }
  return out;
}

void printItem(const std::string& node, const KeptItem& item) {
  JsonLine line("item");
  line.add("node", node).add("kind", kindText(item.kind)).add("name", item.name);
  if (item.kind == KeptKind::kRun) {
    line.add("run", item.run).add("run_node", item.node).add("state", stateName(item.state));
    line.add("history", knownText(item.known));
  }
  line.add("bytes", item.bytes).add("partly_measured", item.partlyMeasured);
  line.add("idle_seconds", item.idleSeconds).add("removed", item.removed);
  if (!item.why.empty()) line.add("why", item.why.text());
  if (!item.problem.empty()) line.add("problem", item.problem.text());
  line.print();
}

void printSum(std::string_view event, const std::string& node, const Sum& sum, bool dryRun) {
  JsonLine line(event);
  if (!node.empty()) line.add("node", node);
  line.add("items", sum.items).add("bytes", sum.bytes);
  line.add("removed_items", sum.removedItems).add("removed_bytes", sum.removedBytes);
  line.add("dry_run", dryRun).print();
}

std::string sumText(const Sum& sum, bool dryRun) {
  return fmt::format("{} {} of {} items, {} of {}\n", dryRun ? "would remove" : "removed",
                     sum.removedItems, sum.items, bytesText(static_cast<double>(sum.removedBytes)),
                     bytesText(static_cast<double>(sum.bytes)));
}

std::string resultText(const KeptItem& item, bool dryRun, const Style& style) {
  if (item.removed) return style.yellow(dryRun ? "would be removed" : "removed");
  return item.why.empty() ? "kept" : "kept: " + item.why.text();
}

void printTable(const std::vector<NodeGarbage>& nodes, bool dryRun) {
  const Style style(wantsColour(STDOUT_FILENO));
  Table table;
  table.header = {"node", "what", "name", "state", "size", "age", "history", "result"};
  table.right = {false, false, false, false, true, true, false, false};
  Sum all;
  std::string sums;
  for (const NodeGarbage& node : nodes) {
    Sum own;
    for (const KeptItem& item : node.collected.items) {
      own.add(item);
      all.add(item);
      const bool isRun = item.kind == KeptKind::kRun;
      table.rows.push_back(
          {node.node, kindText(item.kind), nameText(item),
           isRun ? std::string(stateName(item.state)) : "–",
           (item.partlyMeasured ? "≥ " : "") + bytesText(static_cast<double>(item.bytes)),
           ageText(item.idleSeconds), knownText(item.known), resultText(item, dryRun, style)});
    }
    sums += fmt::format("{}: {}", node.node, sumText(own, dryRun));
  }
  if (!table.rows.empty()) put(stdout, table.text() + "\n");
  put(stdout, sums);
  if (nodes.size() > 1) put(stdout, "all: " + sumText(all, dryRun));
}

void printLines(const std::vector<NodeGarbage>& nodes, bool dryRun) {
  Sum all;
  for (const NodeGarbage& node : nodes) {
    Sum own;
    for (const KeptItem& item : node.collected.items) {
      own.add(item);
      all.add(item);
      printItem(node.node, item);
    }
    printSum("node", node.node, own, dryRun);
  }
  printSum("total", {}, all, dryRun);
}

// Errors of nodes, and what they could not read; returns whether there is no error.
bool reportErrors(const std::vector<NodeGarbage>& nodes, bool json) {
  bool well = true;
  for (const NodeGarbage& node : nodes) {
    for (const KeptItem& item : node.collected.items)
      if (!item.problem.empty())
        put(stderr, fmt::format("note: node {}: {}\n", node.node, item.problem.text()));
    if (!node.collected.error) continue;
    report(*node.collected.error, json);
    well = false;
  }
  return well;
}

}  // namespace

int gcCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto refuse = [&](const Error& error) {
    report(error, json);
    return exitCodeOf(error);
  };
  GarbageOptions garbage;
  garbage.dryRun = arguments.has("dry-run");
  const auto days = arguments.integer("older-than", 1, 1, kMostDays);
  if (!days.ok()) return refuse(days.error());
  if (arguments.has("older-than")) garbage.olderThanDays = *days;
  const auto cluster = chosenNodes(globals, arguments);
  if (!cluster.ok()) return refuse(cluster.error());
  ClusterSessionOptions options = sessionOptions(globals, 0);
  options.copy = false;
  options.cleanUp = false;  // what is removed is listed first
  Connecting connecting(*cluster, options);
  if (!connecting.connect()) return kStoppedByUser;
  std::vector<NodeGarbage> nodes = connectedNodes(connecting.session());
  const bool whole = collect(globals, garbage, connecting.inbox(), nodes);
  if (json)
    printLines(nodes, garbage.dryRun);
  else
    printTable(nodes, garbage.dryRun);
  const bool well = reportErrors(nodes, json);
  const bool all = reportFailures(connecting.session(), json);
  if (!whole) return kStoppedByUser;
  return well && all ? kSucceeded : kNode;
}

}  // namespace lockstep::app::cli
