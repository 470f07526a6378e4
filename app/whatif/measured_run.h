// MeasuredRun: what the steps of a run took, for a replay. Sampled steps tell by their events how
// long each step of the plan takes, and each exchange once all its ranks are there; the records of
// all steps tell how long each rank computed in each phase.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "app/history/history.h"
#include "engine/base/status.h"
#include "engine/plan/plan.h"

namespace lockstep::app {

// The parts of a rank's own time in a step; kOther is what is neither computed nor exchanged: data,
// metrics.
enum class OwnPart : std::uint8_t { kOther, kForward, kBackward, kOptimizer };
inline constexpr std::size_t kOwnParts = 4;
using PartSeconds = std::array<double, kOwnParts>;
OwnPart ownPartOf(ir::Phase phase);  // of a compute step

struct MeasuredRun {
  MeasuredRun() = default;
  MeasuredRun(MeasuredRun&&) = default;
  MeasuredRun& operator=(MeasuredRun&&) = default;
  MeasuredRun(const MeasuredRun&) = delete;  // ranks point into the plan
  MeasuredRun& operator=(const MeasuredRun&) = delete;

  plan::Plan plan;
  std::string run;
  std::vector<std::string> nodes;     // of the ranks; empty: not known
  std::vector<std::int64_t> steps;    // replayed, ascending
  std::vector<std::int64_t> sampled;  // whose events are read

  // A collective of a group of ranks, or the messages that a rank sends in one step of its plan.
  struct Exchange {
    // Of the plans: of a collective one a rank, of messages the sender's. As plan::Event::planStep.
    std::vector<std::pair<int, plan::StepId>> places;
    std::vector<int> receivers;  // of messages
    std::vector<int> alongside;  // ranks whose messages were received in one step with this one
    double seconds = 0;          // the mean of `sampled`
    std::vector<double> inStep;  // by sampled step
  };
  std::vector<Exchange> exchanges;
  // How long messages keep their ranks (planner::ReplayOptions::busy): what was sampled, by a
  // message's bytes. Of receives those that began once their messages should have been there.
  struct Busy {
    std::vector<double> sending, receiving;
  };
  std::map<std::int64_t, Busy> busy;
  // Bytes/s from node to node while data were under way, as far as the nodes tell.
  std::map<std::pair<std::string, std::string>, double> linkRates;
  // Whether the steps' records tell how long exchanges took in each of them: where all ranks wait
  // for all collectives.
  bool scalesExchanges = false;
  std::vector<double> exchangeScale;       // by replayed step, of Exchange::seconds
  std::vector<std::size_t> nearestSample;  // by replayed step, in `sampled`

  struct Rank {
    std::vector<const plan::Step*> script;  // of all entries, one after another
    std::vector<std::size_t> entryOf;       // by step of the script: of the schedule
    std::vector<int> exchange;              // by step of the script; -1: it computes, or receives
    std::vector<int> messages;              // by step of the script: that it sends or receives
    std::vector<double> seconds;            // of what computes, the mean of `sampled`
    PartSeconds usual{};                    // their sums
    std::array<std::vector<double>, kOwnParts> parts;  // by replayed step
    std::vector<double> length;                        // by replayed step
    // By replayed step: how long its process did not run within its exchanges, while the others
    // waited in them, and after they had left them. 0 where exchanges are not scaled: it is part of
    // kOther then.
    std::vector<double> stalled, stalledAfter;
  };
  std::vector<Rank> ranks;

  // The mean of the ranks.
  double length(std::size_t step) const;
  // Of each of those that the rank sends or receives in a step of its script.
  std::int64_t bytesOfMessage(int rank, plan::StepId id) const;
  // Of the exchanges that a rank takes part in, and of the messages that it sends.
  double exchangeSeconds(const Rank& rank) const;
};

// Errors: kCancelled where `stop` was requested.
Status unlessStopped(const std::stop_token& stop);

// Of many steps, evenly distributed ones are replayed, so that a replay takes about a second; the
// first of a run, which warm up, are not. `last`: so many last steps alone, with the events of
// those that were sampled, or of the last sampled step before them; 0: all. Errors:
// kFailedPrecondition for what cannot be replayed, saying why; kCancelled where `stop` was
// requested.
Result<MeasuredRun> readMeasuredRun(const History& history, const RunRow& row,
                                    std::int64_t last = 0, std::stop_token stop = {});

}  // namespace lockstep::app
