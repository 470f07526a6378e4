// Estimates of strategies, good enough to tell which are worth planning.
//
// Small plans of a single tensor-parallel group ("probes") give the time and the memory of a
// micro-batch. Where many equal layers follow each other, a probe is planned with two and with
// three of them, and the difference is the cost of each further one. Formulas add the rest: the
// bubble of a pipeline of s stages and m micro-batches, (s-1) / m of the computation with 1F1B and
// GPipe (Narayanan et al.: "Efficient Large-Scale Language Model Training on GPU Clusters", 2021)
// and a third of it with ZB-H1 (Qi et al.: "Zero Bubble Pipeline Parallelism", 2024); what the
// fullest stage computes more than the others; and the exchange of gradients and parameters, of
// which ZeRO-2 repeats half and ZeRO-3 all in every micro-batch.
#pragma once

#include <array>
#include <compare>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/advice/choice.h"
#include "app/runs/preview.h"

namespace lockstep::app {

struct Estimate {
  double seconds = 0;            // of a step
  std::int64_t memoryBytes = 0;  // of the rank that needs most
};

// Borrows the request, which outlives it.
class Estimator {
 public:
  // `cluster` has the ranks that compute where none is a server.
  Estimator(const LaunchRequest& request, const std::vector<HostFacts>& hosts,
            const cluster::Cluster& cluster, const SearchSpace& space);

  struct Probe {               // what is planned
    int tensor = 1;            // ranks
    std::int64_t samples = 1;  // of its micro-batch
    bool accumulates = false;  // it is one of several
    std::string recompute, precision;
    auto operator<=>(const Probe&) const = default;
  };
  // Returns the probes that estimates of these choices need.
  std::vector<Probe> probesFor(const std::vector<Choice>& choices) const;
  // Thread-safe.
  void plan(const Probe& probe);

  // Returns none for what has servers, and for what no probe could be planned of.
  std::optional<Estimate> of(const Choice& choice) const;

 private:
  struct Costs {           // of a rank; seconds, bytes
    double computing = 0;  // forward and backward
    double repeated = 0;   // of this, one of the layers that repeat
    double optimizer = 0, data = 0;
    double parameters = 0, gradients = 0, optimizerState = 0, activations = 0;
    static constexpr std::array<double Costs::*, 7> kAll{
        &Costs::computing, &Costs::optimizer,      &Costs::data,       &Costs::parameters,
        &Costs::gradients, &Costs::optimizerState, &Costs::activations};
  };
  std::optional<Costs> planned(const Probe& probe, int keptLayers) const;
  double samplesOf(const Choice& choice) const;
  Probe probeFor(const Choice& choice, std::int64_t samples) const;
  std::optional<Costs> costsOf(const Choice& choice) const;
  double fullestStage(const Choice& choice, const Costs& costs) const;
  cluster::Link exchangeLink(const Choice& choice) const;
  double exchangeSeconds(const Choice& choice, double parameterBytes, double computing) const;

  const LaunchRequest& request_;
  const std::vector<HostFacts> hosts_;
  const cluster::Cluster cluster_;
  const cluster::Link between_, within_;  // hosts
  const int repeated_;                    // layers in a row that are equal
  const SearchSpace space_;
  int perHost_ = 1;
  std::mutex mutex_;
  std::map<Probe, Costs> costs_;  // of the probes that could be planned
  mutable std::map<std::pair<int, int>, cluster::Link> exchangeLinks_;  // by tensor and stages
};

}  // namespace lockstep::app
