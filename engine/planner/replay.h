// Replay: training steps run again in the simulator, with measured durations in the place of
// predicted ones.
#pragma once

#include <functional>
#include <stop_token>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/planner/planner.h"

namespace lockstep::planner {

// Returns the seconds of a step of a rank's plan (numbered as plan::Event::planStep; -1: data) in a
// training step, from 0: how long it computes, or a transfer takes once all ranks of a collective
// have arrived or a message has been sent. Equal for all ranks of a collective. A message takes as
// long as it takes its sender.
using MeasuredSeconds = std::function<double(int rank, int step, plan::StepId planStep)>;

struct ReplayOptions {
  int steps = 1;
  bool waitForStages = true;  // false: messages between the stages of a pipeline are always there
  bool events = false;
  // Of a message, how long sending it keeps its sender, and how long receiving it keeps its
  // receiver though it was sent long before: a large one is copied when it is received. Empty: no
  // time.
  MeasuredSeconds busy = {};
  std::stop_token stop = {};  // ends it early
};

struct Replay {
  // By training step: the time since a rank's previous one ended, its mean over ranks.
  std::vector<double> stepSeconds;
  double slowestSeconds = 0;  // of a step, the mean of the slowest rank: others may not wait for it
  // Seconds a step, without the first one where there are others.
  std::vector<Simulation::Breakdown> ranks;
  std::vector<plan::Event> events;  // where wanted, as Simulation::events
};

// Runs the plan's step. Ranks share no cores: what they shared is part of the measured durations.
// Empty for a plan without a schedule, and where `stop` was requested.
Replay replay(const plan::Plan& plan, const MeasuredSeconds& seconds, const ReplayOptions& options);

}  // namespace lockstep::planner
