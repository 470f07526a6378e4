// cluster check, cluster deploy.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"

namespace lockstep::app::cli {
namespace {

constexpr std::chrono::seconds kConnectLimit{300};  // uploads included
constexpr std::chrono::seconds kGpuLimit{3};        // for what GPUs do, where a node has any
constexpr double kSampleHertz = 1;

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

void printGpu(const std::string& node, const GpuLoad& gpu) {
  JsonLine line("gpu");
  line.add("node", node).add("gpu", gpu.index).add("name", gpu.name);
  const auto add = [&line](const char* key, const auto& value) {
    if (!value) return;
    if constexpr (std::is_floating_point_v<std::decay_t<decltype(*value)>>) line.add(key, *value);
    else line.add(key, static_cast<std::int64_t>(*value));
  };
  if (!gpu.problem.empty()) line.add("problem", gpu.problem);
  add("utilisation", gpu.utilisation);
  add("memory_utilisation", gpu.memoryUtilisation);
  add("memory_used_bytes", gpu.memoryUsed);
  add("memory_total_bytes", gpu.memoryTotal);
  add("power_w", gpu.power);
  add("power_limit_w", gpu.powerLimit);
  add("temperature_c", gpu.temperature);
  add("sm_clock_mhz", gpu.smClock);
  add("sm_clock_max_mhz", gpu.smClockMax);
  add("memory_clock_mhz", gpu.memoryClock);
  add("memory_clock_max_mhz", gpu.memoryClockMax);
  add("performance_state", gpu.performanceState);
  if (gpu.throttle)
    line.addRaw("throttle", nlohmann::json(*gpu.throttle)
                                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  add("pcie_in", gpu.pcieIn);
  add("pcie_out", gpu.pcieOut);
  add("pcie_generation", gpu.pcieGeneration);
  add("pcie_generation_max", gpu.pcieGenerationMax);
  add("pcie_width", gpu.pcieWidth);
  add("pcie_width_max", gpu.pcieWidthMax);
  add("nvlinks", gpu.nvlinks);
  add("nvlinks_active", gpu.nvlinksActive);
  add("nvlink_in", gpu.nvlinkIn);
  add("nvlink_out", gpu.nvlinkOut);
  add("ecc_corrected", gpu.eccCorrected);
  add("ecc_uncorrected", gpu.eccUncorrected);
  add("xids", gpu.xids);
  if (gpu.xids.value_or(0) > 0) line.add("last_xid", gpu.lastXid);
  line.print();
}

// Of nodes that have any; nothing where none has.
void printGpus(const ClusterSession& session) {
  const Style style(wantsColour(STDOUT_FILENO));
  Table table;
  table.header = {"node", "gpu", "name", "use", "memory", "°C", "power", "SM clock", "PCIe", "NVLinks", "notes"};
  table.right = {false, true, false, true, true, true, true, true, true, true, false};
  for (int i = 0; i < session.size(); ++i)
    for (const GpuLoad& gpu : session.status(i).load.gpus) {
      const auto cell = [](const auto& value, auto text) { return value ? text(*value) : std::string("–"); };
      const auto number = [](double value) { return fmt::format("{:.0f}", value); };
      std::string notes;
      bool bad = false;
      for (const GpuTrouble trouble : troublesOf(gpu)) {
        notes += (notes.empty() ? "" : ", ") + troubleText(gpu, trouble);
        bad = bad || isBad(trouble);
      }
      std::string memory = cell(gpu.memoryUsed, bytesText);
      if (gpu.memoryUsed && gpu.memoryTotal) memory += " of " + bytesText(*gpu.memoryTotal);
      std::string power = cell(gpu.power, [](double watts) { return fmt::format("{:.0f} W", watts); });
      if (gpu.power && gpu.powerLimit) power = fmt::format("{:.0f} of {:.0f} W", *gpu.power, *gpu.powerLimit);
      std::string link = cell(gpu.pcieWidth, [](int lanes) { return fmt::format("x{}", lanes); });
      if (gpu.pcieWidth && gpu.pcieGenerationMax) link = fmt::format("{} x{}", *gpu.pcieGenerationMax, *gpu.pcieWidth);
      table.rows.push_back({session.status(i).name, fmt::format("{}", gpu.index), gpu.name,
                            cell(gpu.utilisation, [](double share) { return fmt::format("{:.0f} %", 100 * share); }),
                            memory, cell(gpu.temperature, number), power,
                            cell(gpu.smClock, [](double clock) { return fmt::format("{:.0f} MHz", clock); }), link,
                            gpu.nvlinks ? fmt::format("{} of {}", gpu.nvlinksActive.value_or(0), *gpu.nvlinks) : "–",
                            notes.empty() ? "" : bad ? style.red(notes) : style.yellow(notes)});
    }
  if (table.rows.empty()) return;
  const std::string text = "\n" + table.text();
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
  ClusterSession session(file->spec, sessionOptions(globals, kSampleHertz), inbox, observer);
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
  const auto end = std::chrono::steady_clock::now() + kGpuLimit;
  const auto gpusTold = [&] {
    if (std::chrono::steady_clock::now() > end) return true;
    for (int i = 0; i < session.size(); ++i) {
      const NodeStatus& node = session.status(i);
      if (node.phase == NodePhase::kConnected && node.load.gpus.size() < node.inventory.gpus.size()) return false;
    }
    return true;
  };
  if (!drainUntil(inbox, gpusTold, interrupts())) return kStoppedByUser;

  if (!json) {
    printTable(session);
    printGpus(session);
  }
  bool well = true;
  std::map<std::string, int> ranksOfHost, coresOfHost;
  std::map<std::string, std::string> hostNames;
  for (int i = 0; i < session.size(); ++i) {
    const NodeStatus& node = session.status(i);
    if (json) {
      printNode(node);
      for (const GpuLoad& gpu : node.load.gpus) printGpu(node.name, gpu);
    }
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
