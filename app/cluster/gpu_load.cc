#include "app/cluster/gpu_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/specs/error_info.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::app {

bool GpuLoad::throttledFor(const char* word) const {
  return throttle && std::find(throttle->begin(), throttle->end(), word) != throttle->end();
}

bool GpuLoad::isSlowed() const {
  return throttledFor("heat") || throttledFor("power-brake") || throttledFor("slowdown");
}

GpuLoad gpuLoad(const run::v1::GpuSample& sample) {
  const auto number = [](bool isThere, double value) {
    return isThere && std::isfinite(value) ? std::optional(value) : std::nullopt;
  };
  GpuLoad out;
  out.index = sample.index();
  out.name = sample.name();
  out.problem =
      sample.has_problem() ? specs::fromText(sample.problem()) : Message(sample.plain_problem());
  out.utilisation = number(sample.has_utilisation(), sample.utilisation());
  out.memoryUtilisation = number(sample.has_memory_utilisation(), sample.memory_utilisation());
  out.memoryUsed = number(sample.has_memory_used(), sample.memory_used());
  out.memoryTotal = number(sample.has_memory_total(), sample.memory_total());
  out.power = number(sample.has_power_w(), sample.power_w());
  out.powerLimit = number(sample.has_power_limit_w(), sample.power_limit_w());
  out.temperature = number(sample.has_temperature_c(), sample.temperature_c());
  out.smClock = number(sample.has_sm_clock_mhz(), sample.sm_clock_mhz());
  out.smClockMax = number(sample.has_sm_clock_max_mhz(), sample.sm_clock_max_mhz());
  out.memoryClock = number(sample.has_memory_clock_mhz(), sample.memory_clock_mhz());
  out.memoryClockMax = number(sample.has_memory_clock_max_mhz(), sample.memory_clock_max_mhz());
  if (sample.has_performance_state()) out.performanceState = sample.performance_state();
  if (sample.throttle_known())
    out.throttle.emplace(sample.throttle().begin(), sample.throttle().end());
  out.pcieIn = number(sample.has_pcie_in(), sample.pcie_in());
  out.pcieOut = number(sample.has_pcie_out(), sample.pcie_out());
  if (sample.has_pcie_generation()) out.pcieGeneration = sample.pcie_generation();
  if (sample.has_pcie_generation_max()) out.pcieGenerationMax = sample.pcie_generation_max();
  if (sample.has_pcie_width()) out.pcieWidth = sample.pcie_width();
  if (sample.has_pcie_width_max()) out.pcieWidthMax = sample.pcie_width_max();
  if (sample.has_nvlinks()) out.nvlinks = sample.nvlinks();
  if (sample.has_nvlinks_active()) out.nvlinksActive = sample.nvlinks_active();
  out.nvlinkIn = number(sample.has_nvlink_in(), sample.nvlink_in());
  out.nvlinkOut = number(sample.has_nvlink_out(), sample.nvlink_out());
  if (sample.has_ecc_corrected()) out.eccCorrected = sample.ecc_corrected();
  if (sample.has_ecc_uncorrected()) out.eccUncorrected = sample.ecc_uncorrected();
  if (sample.has_xids()) out.xids = sample.xids();
  out.lastXid = sample.last_xid();
  return out;
}

bool isBad(GpuTrouble trouble) {
  return trouble == GpuTrouble::kSilent || trouble == GpuTrouble::kXid ||
         trouble == GpuTrouble::kUncorrected;
}

std::vector<GpuTrouble> troublesOf(const GpuLoad& gpu) {
  std::vector<GpuTrouble> out;
  const auto add = [&out](GpuTrouble trouble, bool there) {
    if (there) out.push_back(trouble);
  };
  add(GpuTrouble::kSilent, !gpu.problem.empty());
  add(GpuTrouble::kXid, gpu.xids.value_or(0) > 0);
  add(GpuTrouble::kUncorrected, gpu.eccUncorrected.value_or(0) > 0);
  add(GpuTrouble::kHeat, gpu.throttledFor("heat"));
  add(GpuTrouble::kPowerBrake, gpu.throttledFor("power-brake"));
  add(GpuTrouble::kSlowdown, gpu.throttledFor("slowdown"));
  add(GpuTrouble::kPower, gpu.throttledFor("power"));
  add(GpuTrouble::kNarrowLink,
      gpu.pcieWidth && gpu.pcieWidthMax && *gpu.pcieWidth < *gpu.pcieWidthMax);
  // None active is a GPU that is not connected by them.
  add(GpuTrouble::kLinksDown,
      gpu.nvlinksActive.value_or(0) > 0 && *gpu.nvlinksActive < gpu.nvlinks.value_or(0));
  return out;
}

Message troubleText(const GpuLoad& gpu, GpuTrouble trouble) {
  switch (trouble) {
    case GpuTrouble::kSilent:
      return message("does not answer: {}", gpu.problem);
    case GpuTrouble::kXid:
      return message("error Xid {}", gpu.lastXid);
    case GpuTrouble::kUncorrected:
      return message("uncorrected memory errors: {}", gpu.eccUncorrected.value_or(0));
    case GpuTrouble::kHeat:
      return "slowed down for heat";
    case GpuTrouble::kPowerBrake:
      return "slowed down by the power supply";
    case GpuTrouble::kSlowdown:
      return "slowed down by its hardware";
    case GpuTrouble::kPower:
      return "held at its power limit";
    case GpuTrouble::kNarrowLink:
      return message("{} of {} PCIe lanes", gpu.pcieWidth.value_or(0),
                     gpu.pcieWidthMax.value_or(0));
    case GpuTrouble::kLinksDown:
      return message("{} of {} NVLinks", gpu.nvlinksActive.value_or(0), gpu.nvlinks.value_or(0));
  }
  return {};
}

}  // namespace lockstep::app
