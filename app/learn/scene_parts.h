// The scenes by kind. See scene.h.
#pragma once

#include <map>

#include "app/learn/circumstances.h"

namespace lockstep::app {

// What the scenes of one lesson's chart have in common, so that it is computed once.
using SceneMemo = std::map<std::string, double>;

// `whole`: with the timeline, the heat map and texts; else figures alone.
Result<Scene> makeStepScene(const Lesson& lesson, const Circumstances& at, bool whole,
                            SceneMemo& memo);
Result<Scene> makeAllReduceScene(const Circumstances& at);
Result<Scene> makeFailuresScene(const Lesson& lesson, const Circumstances& at);
Result<Scene> makeTrainingScene(const Lesson& lesson, const Circumstances& at,
                                const std::atomic<bool>* stop);

// The lesson's spec and cluster as the circumstances say; every node is a host of its own.
struct ScenePlan {
  LaunchRequest request;
  std::vector<HostFacts> hosts;
  std::vector<double> slowdown;  // by rank; empty: none
};
Result<ScenePlan> scenePlanOf(const Lesson& lesson, const Circumstances& at);
// Errors: kInvalidArgument where the ranks per node do not divide the ranks.
Result<int> nodesOf(const Circumstances& at);

void addFigure(Scene& scene, std::string name, Words label, std::string unit, double value);

}  // namespace lockstep::app
