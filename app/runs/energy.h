// Energy and cost of runs: predicted for a plan, or of what the nodes told while a run trained.
//
// A host's power is that of the model below; where the cluster spec has no powers and the host has
// counters of its processors and memory (node/<n>/package_power), what these measure. The model: an
// idle host draws `energy.idle_watts`, one with all cores busy `energy.busy_watts`, and others
// between them by the share of busy cores. Without a spec these are 0.74 W and 3.5 W a core, the
// means that Cloud Carbon Footprint gives for AWS:
// https://www.cloudcarbonfootprint.org/docs/methodology. GPUs are measured by their driver; in
// predictions each has `energy.gpu_watts`. A host counts once, also with several nodes, and whole,
// also where it does other work; of its GPUs, those of the run. No threads.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class ClusterSpec;
}  // namespace lockstep::spec::v1

namespace lockstep::app {

class History;
class RunStore;
struct Preview;
struct RunDocuments;
struct RunFigures;
struct RunRow;

// Of a cluster spec; 0: not known.
struct PowerAndPrices {
  double idleWatts = 0, busyWatts = 0;  // of a host without GPUs; 0: by its cores
  double gpuWatts = 0;                  // at work
  double overhead = 1;
  double perKwh = 0, perNodeHour = 0;
  std::string currency = "EUR";
  double carbonPerKwh = 0;  // grams of CO2 equivalent
};
PowerAndPrices powerAndPrices(const spec::v1::ClusterSpec& cluster);

struct HostEnergy {
  std::string host;       // name of its first node
  double seconds = 0;     // in which it told of its load
  double hostJoules = 0;  // without GPUs
  double gpuJoules = 0;
  bool isKnown = false;      // hostJoules
  bool isMeasured = false;   // hostJoules: by counters of its processors and memory
  int gpus = 0, silent = 0;  // that the run uses; those of them whose power is not known
  double joules() const { return hostJoules + gpuJoules; }
};

struct Energy {
  double seconds = 0;
  std::vector<HostEnergy> hosts;  // in predictions those with ranks
  double overhead = 1;            // of the building, as a factor
  double joules() const;          // with the overhead
  double watts() const { return seconds > 0 ? joules() / seconds : 0; }
  bool isComplete() const;  // nothing is left out
  bool isMeasured() const;

  std::optional<double> cost;  // of energy and machine-hours; none: no price is known
  std::string currency;
  std::optional<double> carbonGrams;  // CO2 equivalent; none: not known
};

// Joules by what ranks do, in proportion to the time that those of a host spend on it. They add up
// to Energy::joules().
struct EnergyPhases {
  double compute = 0, transfer = 0, waiting = 0, other = 0;
  double joules() const { return compute + transfer + waiting + other; }
};

// Of one step.
Energy predictedEnergy(const Preview& preview);
Result<Energy> predictedEnergy(const RunDocuments& documents);
// Of a run, or of what the history has of it so far, at powers and prices of the cluster spec that
// it was launched with. Errors: kFailedPrecondition if no node has told of its load; those of the
// store and of documents that are damaged.
Result<Energy> measuredEnergy(const RunStore& store, const RunDocuments& documents);

EnergyPhases predictedPhases(const Preview& preview, const Energy& energy);
// Reads the times of all steps of all ranks. Errors: kCancelled soon after `stop` is requested.
Result<EnergyPhases> measuredPhases(const RunStore& store, const RunDocuments& documents,
                                    const Energy& energy, const std::stop_token& stop = {});
// How many steps the history has of the run; one that was resumed has no earlier ones.
std::int64_t recordedSteps(const RunStore& store);

// What a run drew, beside the prediction.
struct RunEnergy {
  Energy energy;
  EnergyPhases phases;                    // all zero: not read
  std::int64_t steps = 0;                 // that the history has
  std::int64_t epochSteps = 0;            // of a whole epoch; 0: not known
  std::optional<double> predictedJoules;  // of as many steps

  double stepJoules() const;   // 0: not known
  double epochJoules() const;  // 0: not known
};
// Of a run under way, what it drew by now; without the phases, which take long to read. Errors:
// those of measuredEnergy() and of the history.
Result<RunEnergy> readEnergySoFar(const History& history, const std::string& run);
// Errors: the same, and those of measuredPhases().
Result<RunEnergy> readRunEnergy(const History& history, const std::string& run,
                                const std::stop_token& stop = {});

// Sets joules and prices, if nothing is left out. Returns whether it did.
bool setEnergy(const Energy& energy, RunFigures& figures);

// Joules of an ended run for each point of its accuracy; 0: not known, as of a resumed run: those
// before it have drawn for it too.
double pointJoules(const RunRow& row, double joules);

// "12.3 kJ", "1.24 kWh"; "0.42 EUR"; "310 g".
std::string joulesText(double joules);
std::string costText(double cost, const std::string& currency);
std::string carbonText(double grams);
// "12.3 kJ (41 W, modelled), 0.42 EUR, 310 g CO2e"; what is left out is named.
std::string energyText(const Energy& energy);
// "1.2 J a step (41 W, modelled); an hour costs 0.42 EUR, 310 g CO2e".
std::string energyOfStepText(const Energy& step);
// Phases that were not read are null.
std::string energyJson(const Energy& energy, const EnergyPhases& phases);
// "12.3 kJ, 0.42 EUR, 310 g CO2e"; "" where it is not known.
std::string energyText(const RunFigures& figures);

}  // namespace lockstep::app
