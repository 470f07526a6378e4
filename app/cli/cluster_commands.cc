// cluster check, cluster deploy.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/cli/commands.h"
#include "app/cli/connecting.h"
#include "app/cli/gpu_text.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/cluster/allocation.h"
#include "app/cluster/peer_addresses.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

constexpr double kSampleHertz = 1;

void printNode(const NodeStatus& node, const std::string& address) {
  JsonLine line("node");
  line.add("node", node.name).add("target", node.target).add("state", stateOf(node));
  line.add("address", address).add("ranks", node.ranks).add("hostname", node.inventory.hostname);
  line.add("cpu", node.inventory.cpu).add("cores", node.inventory.cores);
  line.add("memory_bytes", node.inventory.memoryBytes);
  line.add("disk_free_bytes", node.inventory.diskFreeBytes);
  line.add("kernel", node.inventory.kernel).add("os", node.inventory.os);
  line.addRaw("gpus", nlohmann::json(node.inventory.gpus)
                          .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  if (!node.inventory.gpuDriver.empty()) line.add("gpu_driver", node.inventory.gpuDriver);
  line.add("workdir", node.inventory.workdir).add("agent_version", node.inventory.agentVersion);
  if (node.inventory.hasCurl) line.add("curl", *node.inventory.hasCurl);
  line.print();
}

template <typename AddressOf>
void printTable(const ClusterSession& session, AddressOf addressOf) {
  const Style style(wantsColour(STDOUT_FILENO));
  Table table;
  table.header = {"node",   "target",    "state", "address", "ranks", "cores",
                  "memory", "disk free", "gpus",  "agent",   "host",  "cpu"};
  table.right = {false, false, false, false, true, true, true, true, true, false, false, false};
  for (int i = 0; i < session.size(); ++i) {
    const NodeStatus& node = session.status(i);
    const NodeInventory& has = node.inventory;
    const bool connected = node.phase == NodeState::CONNECTED;
    const std::string state = stateOf(node);
    table.rows.push_back({node.name, node.target,
                          connected      ? style.green(state)
                          : isBare(node) ? style.yellow(state)
                                         : style.red(state),
                          addressOf(node).empty() ? "–" : addressOf(node),
                          fmt::format("{}", node.ranks),
                          connected ? fmt::format("{}", has.cores) : "–",
                          connected ? bytesText(static_cast<double>(has.memoryBytes)) : "–",
                          connected ? bytesText(static_cast<double>(has.diskFreeBytes)) : "–",
                          connected ? fmt::format("{}", has.gpus.size()) : "–",
                          has.agentVersion.substr(0, 12), has.hostname, has.cpu});
  }
  const std::string text = table.text();
  put(stdout, text);
}

using Addresses = std::map<std::string, std::string>;  // by node

// The addresses at which several connected nodes reach each other.
Result<Addresses> provePeers(const ClusterSession& session, Inbox& inbox) {
  std::vector<PeerNode> nodes;
  for (int i = 0; i < session.size(); ++i) {
    const NodeStatus& node = session.status(i);
    const auto& spec = session.cluster()->nodes(i);
    const bool evaluates =
        std::find(spec.roles().begin(), spec.roles().end(), "evaluator") != spec.roles().end();
    if (node.phase == NodeState::CONNECTED)
      nodes.push_back({&spec, &session.access(i), node.inventory, evaluates});
  }
  // The first is joined by the others.
  std::stable_partition(nodes.begin(), nodes.end(),
                        [](const PeerNode& node) { return !node.joinsFirstOnly; });
  if (nodes.size() < 2 || nodes.front().joinsFirstOnly) return Addresses();
  Result<std::vector<std::string>> proven = std::vector<std::string>();
  std::atomic<bool> done = false;
  std::jthread thread([&](std::stop_token stop) {
    proven = provePeerAddresses(nodes, std::move(stop));
    done = true;
  });
  if (!drainUntil(inbox, [&] { return done.load(); })) {
    thread.request_stop();
    thread.join();
    return makeError(Code::kCancelled, "interrupted");
  }
  thread.join();
  if (!proven.ok()) return proven.error();
  Addresses out;
  std::vector<std::string> told;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if ((*proven)[i].empty()) continue;
    out[nodes[i].spec->name()] = (*proven)[i];
    told.push_back(fmt::format("{} at {}", nodes[i].spec->name(), (*proven)[i]));
  }
  put(stderr, fmt::format("nodes reach each other: {}\n", fmt::join(told, ", ")));
  return out;
}

void noteSharedCores(const ClusterSession& session) {
  struct Host {
    std::string name;
    int ranks = 0, cores = 0;
  };
  std::map<std::string, Host> hosts;  // by boot id
  for (int i = 0; i < session.size(); ++i) {
    const NodeStatus& node = session.status(i);
    if (node.phase != NodeState::CONNECTED) continue;
    Host& host = hosts[node.inventory.bootId];
    host = {node.inventory.hostname, host.ranks + node.ranks, node.inventory.cores};
  }
  for (const auto& [id, host] : hosts)
    if (host.ranks > host.cores)
      put(stderr, fmt::format("note: {} ranks share the {} cores of {}\n", host.ranks, host.cores,
                              host.name));
}

void noteMissingCurl(const ClusterSession& session) {
  std::vector<std::string> without;
  for (int i = 0; i < session.size(); ++i)
    if (!session.status(i).inventory.hasCurl.value_or(true))
      without.push_back(session.status(i).name);
  if (!without.empty())
    put(stderr, fmt::format("note: there is no curl on {}; nodes need it for data files that are a "
                            "URL\n",
                            fmt::join(without, ", ")));
}

int connectAll(const Globals& globals, const Arguments& arguments, bool copy) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto file = loadClusterSpec(arguments.words()[0]);
  if (!file.ok()) {
    report(file.error(), json);
    return exitCodeOf(file.error());
  }
  ClusterSessionOptions options = sessionOptions(globals, kSampleHertz);
  options.copy = copy;
  if (copy && arguments.has("start")) {
    const auto start = parseAgentStart(arguments.text("start"));
    if (!start.ok()) {
      report(start.error(), json);
      return exitCodeOf(start.error());
    }
    options.start = *start;
  }
  Connecting connecting(file->spec, options);
  if (!connecting.connect() || !connecting.awaitGpus()) return kStoppedByUser;
  ClusterSession& session = connecting.session();
  const auto proven = provePeers(session, connecting.inbox());
  if (!proven.ok() && proven.error().code == Code::kCancelled) return kStoppedByUser;
  const auto addressOf = [&](const NodeStatus& node) {
    const bool known = proven.ok() && proven->count(node.name) > 0;
    return known ? proven->at(node.name) : node.address;
  };
  if (json) {
    for (int i = 0; i < session.size(); ++i) {
      const NodeStatus& node = session.status(i);
      printNode(node, addressOf(node));
      for (const GpuLoad& gpu : node.load.gpus) printGpu(node.name, gpu);
    }
  } else {
    printTable(session, addressOf);
    printGpus(session);
  }
  const bool well = reportFailures(session, json);
  noteSharedCores(session);
  noteMissingCurl(session);
  if (!proven.ok()) report(proven.error(), json);
  return well && proven.ok() ? kSucceeded : kNode;
}

}  // namespace

int clusterCheckCommand(const Globals& globals, const Arguments& arguments) {
  return connectAll(globals, arguments, false);
}

int clusterDeployCommand(const Globals& globals, const Arguments& arguments) {
  return connectAll(globals, arguments, true);
}

int clusterScriptCommand(const Globals&, const Arguments& arguments) {
  const auto file = loadClusterSpec(arguments.words()[0]);
  const Result<std::string> script =
      file.ok() ? submissionOf(*file->spec) : Result<std::string>(file.error());
  if (!script.ok()) {
    report(script.error(), false);
    return exitCodeOf(script.error());
  }
  putDocument(*script);
  return kSucceeded;
}

}  // namespace lockstep::app::cli
