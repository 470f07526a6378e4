// Straggler: the rank or link that makes the others wait, and the evidence of the cause.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/analysis/analysis.h"

namespace lockstep::app {

enum class SlowCause : std::uint8_t {
  kUnknown,    // cores: what it had
  kStopped,    // share of the time its process was stopped
  kThrottled,  // share of the time a quota held it back
  kCrowded,    // share of the time it was ready and other work had its cores
  kFrozen,     // share of the time its process did not run
  kPaging,     // reads pages from a disk: swap or mapped files
  kDisk,       // waits for its data files, or its node's disk is busier than the others'
  kMoreData,   // its batches are larger than the others'
  kGpuHeat,    // share of the time its GPU was slowed down for heat
  kGpuPower,   // … for its limit of power
  kGpuClock,   // its GPU has a lower clock than the others'
  kGpuLink,    // its GPU's link has fewer lanes than it could
};

struct SlowEvidence {
  SlowCause cause = SlowCause::kUnknown;
  double share = 0;       // 0…1
  double cores = 0;       // 0: not known
  double diskFaults = 0;  // per second
  int gpu = -1;           // where the cause is of it
  int lanes = 0, lanesMax = 0;
  // Of kDisk, one of these.
  analysis::BesideOthers reading{};                  // seconds a step, of its data files
  std::optional<analysis::BesideOthers> diskBusy{};  // 0…1, of nodes
  analysis::BesideOthers elements{};                 // of a batch
  analysis::BesideOthers clock{};                    // MHz, of GPUs; 0: not known
};

struct SlowLink {
  std::string from, to;                 // nodes
  std::string common;                   // the node of all slow links, where there are several
  double rate = 0, usualRate = 0;       // bytes/s while data is under way
  double roundTrip = 0, usualTrip = 0;  // seconds
  double resent = 0;                    // fraction of its packets
  double lostShare = 0;                 // fraction of the time lost to it
};

struct Straggler {
  int rank = 0;  // -1: a link
  std::string node;
  double factor = 1;          // its work against the median rank's; the usual rate against its own
  double stepSeconds = 0;     // what a step takes
  double withoutSeconds = 0;  // predicted step time without the slow ranks, or the link
  std::int64_t sinceStep = 0;
  std::string phase;  // "backward"
  SlowEvidence evidence;
  // Stopped, and no step has ended since; no figures then, but how long it has lasted.
  bool halted = false;
  double haltedSeconds = 0;
  std::optional<SlowLink> link;
  // To this rank since `sinceStep`, also while another one was the worst.
  double lostSeconds = 0;
  int slowRanks = 1;  // it, and those that are slow besides
};
// Whether so many of its packets are sent again that a fault of the link is likely.
inline bool losesPackets(const SlowLink& link) { return link.resent >= 0.005; }
// Whether both are the same rank or link.
bool isSame(const Straggler& a, const Straggler& b);

// Returns the evidence in English: "its process was stopped 40 % of the time"; empty if there is
// none.
std::string evidenceText(const SlowEvidence& evidence);
// "rank 2 (n3)", "link n1 → n3".
std::string stragglerName(const Straggler& slow);
// "rank 2 (n3) is slow: 1.8 times the others' time in backward since step 40; …; a step takes
// 68.2 ms, 31.0 without it", or "as long without it", "31.0 without the 2 slow ranks".
std::string stragglerText(const Straggler& slow);

}  // namespace lockstep::app
