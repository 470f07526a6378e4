#include "engine/specs/node_figures.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace lockstep::specs {
namespace {

bool isThrottledFor(const run::v1::GpuSample& sample,
                    std::initializer_list<std::string_view> reasons) {
  return sample.throttle_known() &&
         std::any_of(sample.throttle().begin(), sample.throttle().end(),
                     [&](const std::string& one) {
                       return std::find(reasons.begin(), reasons.end(), one) != reasons.end();
                     });
}

}  // namespace

bool isSlowed(const run::v1::GpuSample& sample) {
  return isThrottledFor(sample, {"heat", "power-brake", "slowdown"});
}

std::vector<NodeFigure> figuresOf(const run::v1::NodeSample& sample) {
  std::vector<NodeFigure> out{{"cpu", sample.cpu()},
                              {"memory", sample.memory_used()},
                              {"memory_total", sample.memory_total()},
                              {"net_in", sample.network_in()},
                              {"net_out", sample.network_out()},
                              {"loopback", sample.loopback()},
                              {"disk_read", sample.disk_read()},
                              {"disk_write", sample.disk_write()}};
  if (sample.disk_free() >= 0) out.push_back({"disk_free", sample.disk_free()});  // -1: unknown
  if (sample.has_disk_busy()) out.push_back({"disk_busy", sample.disk_busy()});
  if (sample.has_package_w()) out.push_back({"package_power", sample.package_w()});
  return out;
}

std::vector<NodeFigure> figuresOf(const run::v1::GpuSample& sample) {
  std::vector<NodeFigure> out;
  const auto add = [&out](std::string_view name, bool known, double value, bool counter = false) {
    if (known) out.push_back({name, value, counter});
  };
  const auto count = [&add](std::string_view name, bool known, std::uint64_t value) {
    add(name, known, static_cast<double>(value), true);
  };
  add("utilisation", sample.has_utilisation(), sample.utilisation());
  add("memory_utilisation", sample.has_memory_utilisation(), sample.memory_utilisation());
  add("memory", sample.has_memory_used(), sample.memory_used());
  add("temperature", sample.has_temperature_c(), sample.temperature_c());
  add("power", sample.has_power_w(), sample.power_w());
  add("sm_clock", sample.has_sm_clock_mhz(), sample.sm_clock_mhz());
  add("memory_clock", sample.has_memory_clock_mhz(), sample.memory_clock_mhz());
  add("pcie_in", sample.has_pcie_in(), sample.pcie_in());
  add("pcie_out", sample.has_pcie_out(), sample.pcie_out());
  add("nvlink_in", sample.has_nvlink_in(), sample.nvlink_in());
  add("nvlink_out", sample.has_nvlink_out(), sample.nvlink_out());
  const bool slowed = isSlowed(sample);
  add("throttled", sample.throttle_known(), slowed || isThrottledFor(sample, {"power"}) ? 1 : 0);
  add("slowed", sample.throttle_known(), slowed ? 1 : 0);
  count("ecc_corrected", sample.has_ecc_corrected(), sample.ecc_corrected());
  count("ecc_uncorrected", sample.has_ecc_uncorrected(), sample.ecc_uncorrected());
  count("xids", sample.has_xids(), sample.xids());
  return out;
}

}  // namespace lockstep::specs
