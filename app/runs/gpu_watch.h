// GpuWatch: the GPUs of a run's nodes: their curves, new problems, and recent throttling. No
// threads, no I/O.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::run::v1 {
class GpuSample;
}

namespace lockstep::app {

struct GpuLoad;

class GpuWatch {
 public:
  // Averages over the last samples.
  struct Figures {
    double heat = 0, power = 0;   // share of them in which it was slowed down for it
    int lanes = 0, lanesMax = 0;  // of its PCIe link; 0: not known
    double clock = 0;             // MHz, of its processors while they work; 0: not known
    double clockMax = 0;          // that they can have; 0: not known
  };

  // Calls point(series, value) for each value of a GPU's sample; run_update.h lists the names.
  // Counters are reported when they change.
  void take(const std::string& node, const run::v1::GpuSample& sample,
            const std::function<void(const std::string&, double)>& point);
  // Returns new problems since the last call.
  std::vector<Error> warnings() { return std::exchange(warnings_, {}); }
  std::optional<Figures> figures(const std::string& node, int gpu) const;
  // Returns the clock in the last sample, in MHz; nothing unless the GPU worked.
  std::optional<double> workingClock(const std::string& node, int gpu) const;

 private:
  struct Gpu {
    double seen = 0, heat = 0, power = 0;  // fading sums over samples
    double worked = 0, clock = 0;          // likewise, of those in which it worked
    double clockMax = 0;
    std::optional<double> workingClock;
    int slowInRow = 0;  // samples, of heat, brake or hardware
    bool toldSlow = false, toldSilent = false, toldLink = false;
    int lanes = 0, lanesMax = 0;
    std::map<std::string, double> counters;
  };
  void judge(const std::string& node, const GpuLoad& load, Gpu& gpu);

  std::map<std::pair<std::string, int>, Gpu> gpus_;
  std::vector<Error> warnings_;
};

}  // namespace lockstep::app
