// cluster check, cluster deploy.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"

namespace lockstep::app::cli {
namespace {

constexpr std::chrono::seconds kConnectLimit{300};  // uploads included

void printNode(const NodeStatus& node) {
  JsonLine line("node");
  line.add("node", node.name).add("target", node.target).add("state", nodePhaseName(node.phase));
  line.add("ranks", node.ranks).add("hostname", node.inventory.hostname);
  line.add("cpu", node.inventory.cpu).add("cores", node.inventory.cores);
  line.add("memory_bytes", node.inventory.memoryBytes);
  line.add("disk_free_bytes", node.inventory.diskFreeBytes);
  line.add("kernel", node.inventory.kernel).add("os", node.inventory.os);
  line.addRaw("gpus", nlohmann::json(node.inventory.gpus)
                          .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  line.add("workdir", node.inventory.workdir).add("agent_version", node.inventory.agentVersion);
  line.print();
}

void printTable(const ClusterSession& session) {
  const Style style(wantsColour(STDOUT_FILENO));
  Table table;
  table.header = {"node",   "target",    "state", "ranks", "cores",
                  "memory", "disk free", "gpus",  "agent", "host",  "cpu"};
  table.right = {false, false, false, true, true, true, true, true, false, false, false};
  for (int i = 0; i < session.size(); ++i) {
    const NodeStatus& node = session.status(i);
    const NodeInventory& has = node.inventory;
    const bool connected = node.phase == NodePhase::kConnected;
    const std::string state(nodePhaseName(node.phase));
    table.rows.push_back({node.name, node.target, connected ? style.green(state) : style.red(state),
                          fmt::format("{}", node.ranks),
                          connected ? fmt::format("{}", has.cores) : "–",
                          connected ? bytesText(static_cast<double>(has.memoryBytes)) : "–",
                          connected ? bytesText(static_cast<double>(has.diskFreeBytes)) : "–",
                          connected ? fmt::format("{}", has.gpus.size()) : "–", has.agentVersion.substr(0, 12), has.hostname, has.cpu});
  }
  const std::string text = table.text();
  std::fwrite(text.data(), 1, text.size(), stdout);
}

int connectAll(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto file = loadClusterSpec(arguments.words()[0]);
  if (!file.ok()) {
    report(file.error(), json);
    return exitCodeOf(file.error());
  }
  Inbox inbox;
  ClusterSession* open = nullptr;
  std::map<int, std::string> told;
  auto activity = std::chrono::steady_clock::now();
  ClusterObserver observer;
  observer.onQuestion = [&](const NodeQuestion& question) {
    askAtTerminal(*open, question);
    activity = std::chrono::steady_clock::now();
  };
  observer.onNode = [&](int index) {
    const NodeStatus& node = open->status(index);
    const std::string text =
        fmt::format("{}: {} {}", node.name, nodePhaseName(node.phase), node.detail);
    if (told[index] == text || node.phase == NodePhase::kIdle) return;
    told[index] = text;
    activity = std::chrono::steady_clock::now();
    std::fprintf(stderr, "%s\n", text.c_str());
  };
  ClusterSession session(file->spec, sessionOptions(globals, 0), inbox, observer);
  open = &session;
  session.connect();
  const auto settled = [&] {
    if (std::chrono::steady_clock::now() - activity > kConnectLimit) return true;
    for (int i = 0; i < session.size(); ++i) {
      const NodePhase phase = session.status(i).phase;
      // A node that is tried again has failed once: that is the answer here.
      if (phase != NodePhase::kConnected && phase != NodePhase::kFailed &&
          !(phase == NodePhase::kReconnecting && session.status(i).error))
        return false;
    }
    return true;
  };
  if (!drainUntil(inbox, settled, interrupts())) return kStoppedByUser;

  if (!json) printTable(session);
  bool well = true;
  std::map<std::string, int> ranksOfHost, coresOfHost;
  std::map<std::string, std::string> hostNames;
  for (int i = 0; i < session.size(); ++i) {
    const NodeStatus& node = session.status(i);
    if (json) printNode(node);
    if (node.phase == NodePhase::kConnected) {
      ranksOfHost[node.inventory.bootId] += node.ranks;
      coresOfHost[node.inventory.bootId] = node.inventory.cores;
      hostNames[node.inventory.bootId] = node.inventory.hostname;
      continue;
    }
    well = false;
    Error error = node.error
                      ? *node.error
                      : makeError(Code::kDeadlineExceeded, "the node did not answer in time");
    if (error.node.empty()) error.node = node.name;
    report(error, json);
  }
  for (const auto& [host, ranks] : ranksOfHost)
    if (ranks > coresOfHost[host])
      std::fprintf(stderr, "note: %d ranks share the %d cores of %s\n", ranks, coresOfHost[host],
                   hostNames[host].c_str());
  return well ? kSucceeded : kNode;
}

}  // namespace

int clusterCheckCommand(const Globals& globals, const Arguments& arguments) {
  return connectAll(globals, arguments);
}

// Connecting brings the bundle where it is missing and starts the agent: the same, said otherwise.
int clusterDeployCommand(const Globals& globals, const Arguments& arguments) {
  return connectAll(globals, arguments);
}

}  // namespace lockstep::app::cli
