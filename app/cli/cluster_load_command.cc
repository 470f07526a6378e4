// cluster load: the load of a cluster's nodes, as the studio's page of a cluster shows it.
#include <unistd.h>

#include <chrono>

#include "app/cli/commands.h"
#include "app/cli/connecting.h"
#include "app/cli/gpu_text.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"

namespace lockstep::app::cli {
namespace {

constexpr double kSampleHertz = 2;
constexpr std::chrono::seconds kFirstLimit{5};  // until nodes have told of their load

void printJson(const ClusterSession& session) {
  for (int i = 0; i < session.size(); ++i) {
    const NodeStatus& node = session.status(i);
    const NodeLoad& load = node.load;
    if (node.phase != NodeState::CONNECTED || load.receivedNs == 0) continue;
    JsonLine line("load");
    line.add("node", node.name).add("cpu", load.cpu).add("load1", load.load1);
    line.add("memory_used_bytes", load.memoryUsed).add("memory_total_bytes", load.memoryTotal);
    line.add("network_in", load.networkIn).add("network_out", load.networkOut);
    line.add("loopback", load.loopback);
    line.add("disk_read", load.diskRead).add("disk_write", load.diskWrite);
    if (load.diskBusy) line.add("disk_busy", *load.diskBusy);
    line.add("disk_free_bytes", load.diskFree).print();
    for (const GpuLoad& gpu : load.gpus) printGpu(node.name, gpu);
  }
}

void printText(const ClusterSession& session) {
  Table table{
      {"node", "CPU", "memory", "network in", "out", "disk read", "write", "busy", "disk free"},
      {false, true, true, true, true, true, true, true, true},
      {}};
  for (int i = 0; i < session.size(); ++i) {
    const NodeStatus& node = session.status(i);
    const NodeLoad& load = node.load;
    if (node.phase != NodeState::CONNECTED || load.receivedNs == 0) {
      table.rows.push_back({node.name, stateOf(node), "–", "–", "–", "–", "–", "–", "–"});
      continue;
    }
    table.rows.push_back({node.name, fmt::format("{:.0f} %", 100 * load.cpu),
                          bytesText(load.memoryUsed) + " of " + bytesText(load.memoryTotal),
                          rateText(load.networkIn), rateText(load.networkOut),
                          rateText(load.diskRead), rateText(load.diskWrite),
                          load.diskBusy ? fmt::format("{:.0f} %", 100 * *load.diskBusy) : "–",
                          bytesText(load.diskFree)});
  }
  put(stdout, table.text());
  printGpus(session);
}

// Of each connected node, or not in time.
bool awaitLoads(Connecting& connecting) {
  const auto end = std::chrono::steady_clock::now() + kFirstLimit;
  const ClusterSession& session = connecting.session();
  return drainUntil(connecting.inbox(), [&] {
    bool all = true;
    for (int i = 0; i < session.size(); ++i)
      all = all && (session.status(i).phase != NodeState::CONNECTED ||
                    session.status(i).load.receivedNs != 0);
    return all || std::chrono::steady_clock::now() > end;
  });
}

bool pause(Connecting& connecting, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  return drainUntil(connecting.inbox(), [&] { return std::chrono::steady_clock::now() > end; });
}

Result<ClusterSpecFile> clusterIn(const Globals& globals, const Arguments& arguments) {
  const bool local = arguments.has("local");
  if (local != arguments.words().empty())
    return local ? invalidArgument("FILE and --local exclude each other")
                 : invalidArgument("expected the file of a cluster, or --local N");
  return local ? clusterOf(globals, arguments) : loadClusterSpec(arguments.words()[0]);
}

}  // namespace

int clusterLoadCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto refuse = [&](const Error& error) {
    report(error, json);
    return exitCodeOf(error);
  };
  const auto every = arguments.number("every", 0, 0.5, 3600);
  if (!every.ok()) return refuse(every.error());
  const auto cluster = clusterIn(globals, arguments);
  if (!cluster.ok()) return refuse(cluster.error());
  Connecting connecting(cluster->spec, sessionOptions(globals, kSampleHertz));
  if (!connecting.connect() || !awaitLoads(connecting) || !connecting.awaitGpus())
    return kStoppedByUser;
  const bool well = reportFailures(connecting.session(), json);
  while (true) {
    if (json)
      printJson(connecting.session());
    else
      printText(connecting.session());
    if (*every == 0) return well ? kSucceeded : kNode;
    if (!pause(connecting, *every)) return kSucceeded;
    if (!json) put(stdout, "\n");
  }
}

}  // namespace lockstep::app::cli
