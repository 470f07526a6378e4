// GpuWatch: the GPUs of a run's nodes: their curves, what is to be told of them once, and what they
// were held back by lately. Pure bookkeeping.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/cluster/gpu_load.h"
#include "engine/base/status.h"

namespace lockstep::app {

class GpuWatch {
 public:
  // Over the last samples.
  struct Figures {
    double heat = 0, power = 0;   // share of them in which it was slowed down for it
    int lanes = 0, lanesMax = 0;  // of its PCIe link; 0: not known
  };

  // Calls point(series, value) with what the GPU's sample says; the names are in run_update.h.
  // Counters are told where they change.
  void take(const std::string& node, const GpuLoad& gpu,
            const std::function<void(const std::string&, double)>& point);
  // What has become wrong since the last call, once.
  std::vector<Error> warnings() { return std::exchange(warnings_, {}); }
  std::optional<Figures> figures(const std::string& node, int gpu) const;

 private:
  struct Gpu {
    double seen = 0, heat = 0, power = 0;  // fading sums over samples
    int slowInRow = 0;                     // samples, of heat, brake or hardware
    bool toldSlow = false, toldSilent = false, toldLink = false;
    int lanes = 0, lanesMax = 0;
    std::map<std::string, std::uint64_t> counters;
  };
  void judge(const std::string& node, const GpuLoad& load, Gpu& gpu);

  std::map<std::pair<std::string, int>, Gpu> gpus_;
  std::vector<Error> warnings_;
};

}  // namespace lockstep::app
