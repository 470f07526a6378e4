#include "app/cluster/gpu_load.h"

#include <fmt/format.h>

#include <algorithm>

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
  GpuLoad out;
  out.index = sample.index();
  out.name = sample.name();
  out.problem =
      sample.has_problem() ? specs::fromText(sample.problem()) : Message(sample.plain_problem());
  if (sample.has_utilisation()) out.utilisation = sample.utilisation();
  if (sample.has_memory_utilisation()) out.memoryUtilisation = sample.memory_utilisation();
  if (sample.has_memory_used()) out.memoryUsed = sample.memory_used();
  if (sample.has_memory_total()) out.memoryTotal = sample.memory_total();
  if (sample.has_power_w()) out.power = sample.power_w();
  if (sample.has_power_limit_w()) out.powerLimit = sample.power_limit_w();
  if (sample.has_temperature_c()) out.temperature = sample.temperature_c();
  if (sample.has_sm_clock_mhz()) out.smClock = sample.sm_clock_mhz();
  if (sample.has_sm_clock_max_mhz()) out.smClockMax = sample.sm_clock_max_mhz();
  if (sample.has_memory_clock_mhz()) out.memoryClock = sample.memory_clock_mhz();
  if (sample.has_memory_clock_max_mhz()) out.memoryClockMax = sample.memory_clock_max_mhz();
  if (sample.has_performance_state()) out.performanceState = sample.performance_state();
  if (sample.throttle_known())
    out.throttle.emplace(sample.throttle().begin(), sample.throttle().end());
  if (sample.has_pcie_in()) out.pcieIn = sample.pcie_in();
  if (sample.has_pcie_out()) out.pcieOut = sample.pcie_out();
  if (sample.has_pcie_generation()) out.pcieGeneration = sample.pcie_generation();
  if (sample.has_pcie_generation_max()) out.pcieGenerationMax = sample.pcie_generation_max();
  if (sample.has_pcie_width()) out.pcieWidth = sample.pcie_width();
  if (sample.has_pcie_width_max()) out.pcieWidthMax = sample.pcie_width_max();
  if (sample.has_nvlinks()) out.nvlinks = sample.nvlinks();
  if (sample.has_nvlinks_active()) out.nvlinksActive = sample.nvlinks_active();
  if (sample.has_nvlink_in()) out.nvlinkIn = sample.nvlink_in();
  if (sample.has_nvlink_out()) out.nvlinkOut = sample.nvlink_out();
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
