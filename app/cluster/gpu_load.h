// GpuLoad: the state of a GPU as its driver reports it, and its problems.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/message.h"

namespace lockstep::run::v1 {
class GpuSample;
}

namespace lockstep::app {

// Values that the driver does not report are absent.
struct GpuLoad {
  int index = 0;  // as the driver numbers them
  std::string name;
  Message problem;                                       // why it does not answer; "" where it does
  std::optional<double> utilisation, memoryUtilisation;  // 0…1
  std::optional<double> memoryUsed, memoryTotal;         // bytes
  std::optional<double> power, powerLimit;               // W
  std::optional<double> temperature;                     // °C
  std::optional<double> smClock, smClockMax, memoryClock, memoryClockMax;  // MHz
  std::optional<int> performanceState;                                     // 0 the fastest … 15
  // see telemetry.proto; empty: not throttled
  std::optional<std::vector<std::string>> throttle;
  std::optional<double> pcieIn, pcieOut, nvlinkIn, nvlinkOut;  // bytes/s
  std::optional<int> pcieGeneration, pcieGenerationMax, pcieWidth, pcieWidthMax, nvlinks,
      nvlinksActive;
  std::optional<std::uint64_t> eccCorrected, eccUncorrected, xids;
  int lastXid = 0;

  bool throttledFor(const char* word) const;
  bool isSlowed() const;  // throttled, other than by its limit of power
};
GpuLoad gpuLoad(const run::v1::GpuSample& sample);

enum class GpuTrouble : std::uint8_t {
  kSilent,       // it does not answer
  kXid,          // the driver told of a critical error
  kUncorrected,  // memory errors that were not corrected, since the driver started
  kHeat,         // slowed down
  kPowerBrake,
  kSlowdown,    // by hardware that does not say why
  kPower,       // held at its limit of power, as under heavy load
  kNarrowLink,  // fewer lanes than it and its slot have
  kLinksDown,   // some of its NVLinks are
};
// Whether a person must act (errors), as opposed to transient conditions.
bool isBad(GpuTrouble trouble);
// Problems, the most severe first.
std::vector<GpuTrouble> troublesOf(const GpuLoad& gpu);
// Returns the problem: "slowed down for heat", "8 of 16 PCIe lanes".
Message troubleText(const GpuLoad& gpu, GpuTrouble trouble);

}  // namespace lockstep::app
