// Energy and cost of runs: predicted for a plan, or from what the nodes measured while a run
// trained.
//
// Processors and memory of a node are measured by their own counters (node/<n>/package_power); else
// they are modelled: the power of an idle node, and in proportion to its busy cores up to that of a
// busy one. Unless the cluster spec tells them, these are 0.74 W and 3.5 W a core, the means that
// Cloud Carbon Footprint gives for AWS: https://www.cloudcarbonfootprint.org/docs/methodology. GPUs
// are measured by their driver; in predictions each has `energy.gpu_watts` at work. A host counts
// whole, and once, also where it does other work or has several nodes. No threads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class ClusterSpec;
}  // namespace lockstep::spec::v1

namespace lockstep::app {

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
  double hostJoules = 0;  // without GPUs
  double gpuJoules = 0;
  bool isMeasured = false;  // hostJoules
  int gpus = 0;             // that gpuJoules counts
  double joules() const { return hostJoules + gpuJoules; }
};

// Joules by what ranks do, in proportion to the time that those of a host spend on it.
struct EnergyPhases {
  double compute = 0, transfer = 0, waiting = 0, other = 0;
};

struct Energy {
  double seconds = 0;
  std::vector<HostEnergy> hosts;
  double overhead = 1;    // of the building, as a factor
  EnergyPhases phases;    // with the overhead
  int uncountedGpus = 0;  // whose power is not known
  double joules() const;  // with the overhead
  double watts() const { return seconds > 0 ? joules() / seconds : 0; }
  bool isMeasured() const;  // all of it

  std::optional<double> cost;  // of energy and node-hours; none: no price is known
  std::string currency;
  std::optional<double> carbonGrams;  // CO2 equivalent; none: not known
};

Energy predictedEnergy(const Preview& preview);  // of one step
// From the start of the run to its end, or to what the history has of it so far, at powers and
// prices of the cluster spec that it was launched with. Errors: kFailedPrecondition if no node has
// reported its load; those of the store.
Result<Energy> measuredEnergy(const RunStore& store, const RunRow& row,
                              const RunDocuments& documents);

// Of a step, as RunDocuments::prediction has it; 0: not known.
double predictedStepJoules(const std::string& prediction);

// "12.3 kJ", "1.24 kWh"; "0.42 EUR"; "310 g".
std::string joulesText(double joules);
std::string costText(double cost, const std::string& currency);
std::string carbonText(double grams);
// "12.3 kJ (41 W, modelled), 0.42 EUR, 310 g CO2e, without 8 GPUs of unknown power".
std::string energyText(const Energy& energy);
// "1.2 J a step (41 W, modelled); an hour costs 0.42 EUR, 310 g CO2e".
std::string energyOfStepText(const Energy& step);
std::string energyJson(const Energy& energy);
// "12.3 kJ, 0.42 EUR, 310 g CO2e"; "" where it is not known.
std::string energyText(const RunFigures& figures);

}  // namespace lockstep::app
