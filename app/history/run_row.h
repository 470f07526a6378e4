// RunRow: what the history lists of a run, and RunDocuments: the texts it was launched with.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/specs/states.h"

namespace lockstep::app {

using run::v1::RunState;
using specs::isFinal;
using specs::stateName;

// Quality metric of a model. Lower perplexity is better, otherwise higher.
inline constexpr std::array<std::string_view, 3> kMetrics{"accuracy", "auc", "perplexity"};
bool isMetric(std::string_view series);

struct RunFigures {  // 0 where not known
  std::int64_t steps = 0, epochs = 0;
  double trainLoss = std::numeric_limits<double>::quiet_NaN();  // NaN where not known
  double evalLoss = 0, evalMetric = 0;
  std::string metric;  // which, one of kMetrics; "": none
  double samplesPerSecond = 0;
  // from each failure until the run trained again, and of the steps trained again
  double lostSeconds = 0;
  // Of an ended run, with the building's overhead, see app/runs/energy.h. Cost and carbon are 0
  // also where the cluster spec has no prices.
  double joules = 0, cost = 0, carbonGrams = 0;
  std::string currency;  // of the cost
  std::string weightsSha256;
};

struct RunRow {
  std::string run;   // id
  std::string name;  // of the model
  std::string notes;
  std::vector<std::string> tags;  // sorted; see app/history/run_tags.h
  RunState phase = RunState::LAUNCHING;
  std::int64_t createdNs = 0, startedNs = 0, finishedNs = 0;  // wall clock; 0: not yet
  // When the coordinator made the newest record, by the clock of its node, as the start and the end
  // are; 0: none is known. That clock need not be the one here.
  std::int64_t heardNs = 0;
  // Of a running run: when its coordinator became unreachable; 0: it is reachable.
  std::int64_t unreachableNs = 0;
  int generation = 1;
  int world = 0;
  std::string strategy, comm, planHash, version;
  double predictedStepSeconds = 0;
  double measuredStepSeconds = 0;
  RunFigures figures;
  std::string clusterName;
  Message error;            // of a failed run, in one line
  std::string modelFile;    // safetensors in the home's models folder; "" while there is none
  std::string resumedFrom;  // run
};
// Whether its nodes have workers: it has begun and has not ended.
inline bool isUnderWay(RunState state) {
  return state == RunState::RUNNING || state == RunState::RECOVERING || state == RunState::STOPPING;
}
// Whether it ran a program of the user's own in place of a model.
bool ofProgram(const RunRow& row);
// Returns whether an ended run has a model to download from its node; its recorder downloads it and
// reports only the end.
bool lacksModel(const RunRow& row);
// Effective training time: the part of the time from a run's start to its end, or to its newest
// record, that was not lost to failures. NaN before it begins.
double effectiveTime(const RunRow& row);
// Changes the state of a run; refuses a transition that is not allowed (specs::checkTransition).
Status setState(RunRow& row, RunState state);

struct RunDocuments {
  std::string specYaml;      // as written
  std::string specResolved;  // as run: defaults filled in, --set applied
  std::string clusterYaml;
  std::string plan;        // its text
  std::string prediction;  // JSON: per rank breakdown and memory, see app/runs/preview.h
  // JSON: per node its host's name, the supervisor's socket, folder, ranks, and what
  // app/runs/run_environment.h reads
  std::string nodes;
  std::string codePatch;  // how a program's code differs from its commit; "": not

  // What --set changed included.
  const std::string& specAsRun() const { return specResolved.empty() ? specYaml : specResolved; }
};

// A text of a run for a person, by the name that the command line has for it.
struct RunText {
  std::string_view name;
  std::string RunDocuments::*member;
  std::string_view ending;  // of a file
  const std::string& of(const RunDocuments& documents) const { return documents.*member; }
};
inline constexpr std::array<RunText, 5> kRunTexts{
    {{"spec", &RunDocuments::specYaml, "yaml"},
     {"resolved", &RunDocuments::specResolved, "yaml"},
     {"cluster", &RunDocuments::clusterYaml, "yaml"},
     {"plan", &RunDocuments::plan, "txt"},
     {"code", &RunDocuments::codePatch, "patch"}}};

}  // namespace lockstep::app
