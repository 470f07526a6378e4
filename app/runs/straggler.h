// Straggler: the rank that makes the others wait, and the evidence of the cause.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::app {

enum class SlowCause : std::uint8_t {
  kUnknown,    // cores: what it had
  kStopped,    // share of the time its process was stopped
  kThrottled,  // share of the time a quota held it back
  kCrowded,    // share of the time it was ready and other work had its cores
  kFrozen,     // share of the time its process did not run
  kGpuHeat,    // share of the time its GPU was slowed down for heat
  kGpuPower,   // … for its limit of power
  kGpuLink,    // its GPU's link has fewer lanes than it could
};

struct SlowEvidence {
  SlowCause cause = SlowCause::kUnknown;
  double share = 0;  // 0…1
  double cores = 0;  // 0: not known
  int gpu = -1;      // where the cause is of it
  int lanes = 0, lanesMax = 0;
};

struct Straggler {
  int rank = 0;
  std::string node;
  double factor = 1;          // its work against the median rank's
  double stepSeconds = 0;     // what a step takes
  double withoutSeconds = 0;  // predicted step time without it
  std::int64_t sinceStep = 0;
  std::string phase;  // "backward"
  SlowEvidence evidence;
  bool halted = false;  // stopped, and no step has ended since; no figures then
};

// Returns the evidence in English: "its process was stopped 40 % of the time"; empty if there is
// none.
std::string evidenceText(const SlowEvidence& evidence);
// "rank 2 (n3) is slow: 1.8 times the others' time in backward since step 40; …".
std::string stragglerText(const Straggler& slow);

}  // namespace lockstep::app
