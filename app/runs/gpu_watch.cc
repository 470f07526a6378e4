#include "app/runs/gpu_watch.h"

#include "app/cluster/gpu_load.h"
#include "engine/specs/node_figures.h"

namespace lockstep::app {
namespace {

constexpr double kFade = 0.85, kClockFade = 0.7;
constexpr double kWorks = 0.5;   // utilisation
constexpr double kKnown = 0.1;   // of Gpu::worked: it has worked lately
constexpr int kSlowSamples = 6;  // in a row; less passes by itself

}  // namespace

void GpuWatch::take(const std::string& node, const run::v1::GpuSample& sample,
                    const std::function<void(const std::string&, double)>& point) {
  const GpuLoad load = gpuLoad(sample);
  Gpu& gpu = gpus_[{node, load.index}];
  const bool hot = load.throttledFor("heat"), slow = specs::isSlowed(sample);
  const bool atLimit = load.throttledFor("power");

  gpu.seen = gpu.seen * kFade + 1;
  gpu.heat = gpu.heat * kFade + (hot ? 1 : 0);
  gpu.power = gpu.power * kFade + (atLimit || load.throttledFor("power-brake") ? 1 : 0);
  gpu.worked *= kClockFade;
  gpu.clock *= kClockFade;
  gpu.workingClock.reset();
  if (load.smClock && load.utilisation.value_or(1) >= kWorks) {  // an idle one saves power
    gpu.worked += 1;
    gpu.clock += *load.smClock;
    gpu.workingClock = load.smClock;
  }
  gpu.clockMax = load.smClockMax.value_or(0);
  gpu.slowInRow = slow ? gpu.slowInRow + 1 : 0;
  gpu.lanes = load.pcieWidth.value_or(0);
  gpu.lanesMax = load.pcieWidthMax.value_or(0);
  judge(node, load, gpu);

  for (const specs::NodeFigure& figure : specs::figuresOf(sample)) {
    if (figure.counter) {
      const auto [known, isNew] = gpu.counters.try_emplace(std::string(figure.name), figure.value);
      if (!isNew && known->second == figure.value) continue;
      known->second = figure.value;
    }
    point(fmt::format("node/{}/gpu/{}/{}", node, load.index, figure.name), figure.value);
  }
}

void GpuWatch::judge(const std::string& node, const GpuLoad& load, Gpu& gpu) {
  const auto warn = [&](Message what, Message why, Message next) {
    Error error = makeError(Code::kUnavailable, "{}", what);
    error.why = std::move(why);
    error.next = std::move(next);
    error.node = node;
    warnings_.push_back(std::move(error));
  };
  // More than was known; what was there when the run began is not the run's, unless it began with
  // it.
  const auto grew = [&](const char* name, const std::optional<std::uint64_t>& value) {
    const auto known = gpu.counters.find(name);
    return value && known != gpu.counters.end() && static_cast<double>(*value) > known->second;
  };
  if (const bool silent = !load.problem.empty(); silent != gpu.toldSilent) {
    gpu.toldSilent = silent;
    if (silent)
      warn(message("GPU {} does not answer", load.index), load.problem,
           "see the node's kernel messages; it may have to be restarted");
  }
  if (grew("xids", load.xids))
    warn(message("the driver reports an error of GPU {}: Xid {}", load.index, load.lastXid), {},
         "see the node's kernel messages, and NVIDIA's list of Xid errors");
  if (grew("ecc_uncorrected", load.eccUncorrected))
    warn(message("GPU {} has uncorrected memory errors: {}", load.index, *load.eccUncorrected), {},
         "take the node out of the cluster and restart it; where it stays so, the GPU is broken");
  if (gpu.slowInRow >= kSlowSamples && !gpu.toldSlow) {
    gpu.toldSlow = true;
    const char* const reason = load.throttledFor("heat")          ? "for heat"
                               : load.throttledFor("power-brake") ? "by the power supply"
                                                                  : "by its hardware";
    warn(message("GPU {} is slowed down {}", load.index, reason),
         load.temperature ? message("it has {:.0f} °C", *load.temperature) : "",
         "check its cooling and power");
  } else if (gpu.slowInRow == 0 && gpu.heat / gpu.seen < 0.05) {
    gpu.toldSlow = false;
  }
  if (gpu.lanes > 0 && gpu.lanes < gpu.lanesMax && !gpu.toldLink) {
    gpu.toldLink = true;
    warn(message("the PCIe link of GPU {} has {} of {} lanes", load.index, gpu.lanes, gpu.lanesMax),
         {}, "reseat the GPU, or look at its slot and riser");
  }
}

std::optional<GpuWatch::Figures> GpuWatch::figures(const std::string& node, int gpu) const {
  const auto found = gpus_.find({node, gpu});
  if (found == gpus_.end() || found->second.seen <= 0) return std::nullopt;
  const Gpu& known = found->second;
  return Figures{known.heat / known.seen,
                 known.power / known.seen,
                 known.lanes,
                 known.lanesMax,
                 known.worked > kKnown ? known.clock / known.worked : 0,
                 known.clockMax};
}

std::optional<double> GpuWatch::workingClock(const std::string& node, int gpu) const {
  const auto found = gpus_.find({node, gpu});
  return found == gpus_.end() ? std::nullopt : found->second.workingClock;
}

}  // namespace lockstep::app
