#include "app/cli/gpu_text.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "app/cli/json_line.h"
#include "app/cli/terminal.h"

namespace lockstep::app::cli {

void printGpu(const std::string& node, const GpuLoad& gpu) {
  JsonLine line("gpu");
  line.add("node", node).add("gpu", gpu.index).add("name", gpu.name);
  const auto add = [&line](const char* key, const auto& value) {
    if (!value) return;
    if constexpr (std::is_floating_point_v<std::decay_t<decltype(*value)>>)
      line.add(key, *value);
    else
      line.add(key, static_cast<std::int64_t>(*value));
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
                                .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
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

void printGpus(const ClusterSession& session) {
  const Style style(wantsColour(STDOUT_FILENO));
  Table table;
  table.header = {"node",  "gpu",      "name", "use",     "memory", "°C",
                  "power", "SM clock", "PCIe", "NVLinks", "notes"};
  table.right = {false, true, false, true, true, true, true, true, true, true, false};
  for (int i = 0; i < session.size(); ++i)
    for (const GpuLoad& gpu : session.status(i).load.gpus) {
      const auto cell = [](const auto& value, auto text) {
        return value ? text(*value) : std::string("–");
      };
      const auto number = [](double value) { return fmt::format("{:.0f}", value); };
      std::string notes;
      bool bad = false;
      for (const GpuTrouble trouble : troublesOf(gpu)) {
        notes += (notes.empty() ? "" : ", ") + troubleText(gpu, trouble).text();
        bad = bad || isBad(trouble);
      }
      std::string memory = cell(gpu.memoryUsed, bytesText);
      if (gpu.memoryUsed && gpu.memoryTotal) memory += " of " + bytesText(*gpu.memoryTotal);
      std::string power =
          cell(gpu.power, [](double watts) { return fmt::format("{:.0f} W", watts); });
      if (gpu.power && gpu.powerLimit)
        power = fmt::format("{:.0f} of {:.0f} W", *gpu.power, *gpu.powerLimit);
      std::string link = cell(gpu.pcieWidth, [](int lanes) { return fmt::format("x{}", lanes); });
      if (gpu.pcieWidth && gpu.pcieGenerationMax)
        link = fmt::format("{} x{}", *gpu.pcieGenerationMax, *gpu.pcieWidth);
      table.rows.push_back(
          {session.status(i).name, fmt::format("{}", gpu.index), gpu.name,
           cell(gpu.utilisation, [](double share) { return fmt::format("{:.0f} %", 100 * share); }),
           memory, cell(gpu.temperature, number), power,
           cell(gpu.smClock, [](double clock) { return fmt::format("{:.0f} MHz", clock); }), link,
           gpu.nvlinks ? fmt::format("{} of {}", gpu.nvlinksActive.value_or(0), *gpu.nvlinks) : "–",
           notes.empty() ? ""
           : bad         ? style.red(notes)
                         : style.yellow(notes)});
    }
  if (table.rows.empty()) return;
  const std::string text = "\n" + table.text();
  put(stdout, text);
}

}  // namespace lockstep::app::cli
