#include "agent/node/metrics_page.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "agent/base/run_folder.h"
#include "engine/metrics/prometheus_page.h"
#include "engine/specs/states.h"

namespace lockstep::agent {
namespace {

using metrics::Labels;
using metrics::PrometheusPage;

struct Value {
  std::string_view figure;
  std::optional<double> value;
};

void add(PrometheusPage& page, std::span<const metrics::Figure> names, const Labels& labels,
         std::initializer_list<Value> values) {
  for (const Value& one : values)
    if (const auto* figure = metrics::figureOf(names, one.figure); figure != nullptr && one.value)
      page.add(figure->metric, labels, *one.value * figure->scale);
}

void addNode(PrometheusPage& page, const Labels& labels, const run::v1::NodeSample& sample) {
  std::optional<double> diskBusy;
  if (sample.has_disk_busy()) diskBusy = sample.disk_busy();
  add(page, metrics::kOfNode, labels,
      {{"cpu", sample.cpu()},
       {"memory", sample.memory_used()},
       {"memory_total", sample.memory_total()},
       {"disk_free", sample.disk_free()},
       {"net_in", sample.network_in()},
       {"net_out", sample.network_out()},
       {"loopback", sample.loopback()},
       {"disk_read", sample.disk_read()},
       {"disk_write", sample.disk_write()},
       {"disk_busy", diskBusy}});
}

void addGpu(PrometheusPage& page, const Labels& labels, const run::v1::GpuSample& gpu) {
  const auto ifKnown = [](bool has, double value) {
    return has ? std::optional<double>(value) : std::nullopt;
  };
  const auto isThrottled = [&](std::initializer_list<std::string_view> reasons) {
    return std::any_of(gpu.throttle().begin(), gpu.throttle().end(), [&](const std::string& one) {
      return std::find(reasons.begin(), reasons.end(), one) != reasons.end();
    });
  };
  const bool slowed = isThrottled({"heat", "power-brake", "slowdown"});
  add(page, metrics::kOfGpu, labels,
      {{"utilisation", ifKnown(gpu.has_utilisation(), gpu.utilisation())},
       {"memory_utilisation", ifKnown(gpu.has_memory_utilisation(), gpu.memory_utilisation())},
       {"memory", ifKnown(gpu.has_memory_used(), gpu.memory_used())},
       {"temperature", ifKnown(gpu.has_temperature_c(), gpu.temperature_c())},
       {"power", ifKnown(gpu.has_power_w(), gpu.power_w())},
       {"sm_clock", ifKnown(gpu.has_sm_clock_mhz(), gpu.sm_clock_mhz())},
       {"memory_clock", ifKnown(gpu.has_memory_clock_mhz(), gpu.memory_clock_mhz())},
       {"pcie_in", ifKnown(gpu.has_pcie_in(), gpu.pcie_in())},
       {"pcie_out", ifKnown(gpu.has_pcie_out(), gpu.pcie_out())},
       {"nvlink_in", ifKnown(gpu.has_nvlink_in(), gpu.nvlink_in())},
       {"nvlink_out", ifKnown(gpu.has_nvlink_out(), gpu.nvlink_out())},
       {"throttled", ifKnown(gpu.throttle_known(), slowed || isThrottled({"power"}) ? 1 : 0)},
       {"slowed", ifKnown(gpu.throttle_known(), slowed ? 1 : 0)},
       {"ecc_corrected",
        ifKnown(gpu.has_ecc_corrected(), static_cast<double>(gpu.ecc_corrected()))},
       {"ecc_uncorrected",
        ifKnown(gpu.has_ecc_uncorrected(), static_cast<double>(gpu.ecc_uncorrected()))},
       {"xids", ifKnown(gpu.has_xids(), static_cast<double>(gpu.xids()))}});
}

}  // namespace

std::string metricsPage(const std::string& node, const run::v1::NodeSample& sample,
                        const Workdir& workdir) {
  PrometheusPage page;
  addNode(page, {{"node", node}}, sample);
  for (const auto& gpu : sample.gpu())
    addGpu(page, {{"node", node}, {"gpu", fmt::format("{}", gpu.index())}}, gpu);
  for (const RunFolder& folder : findRuns(workdir, "")) {
    const run::v1::RunState state = folder.readState();
    if (isFinal(state) || !isLocked(folder.lock())) continue;
    page.add(metrics::kRunState,
             {{"run", std::filesystem::path(folder.path).parent_path().filename().string()},
              {"node", std::filesystem::path(folder.path).filename().string()},
              {"state", std::string(specs::stateName(state))}},
             1);
  }
  return page.text();
}

}  // namespace lockstep::agent
