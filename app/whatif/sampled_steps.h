// SampledSteps: how long each step of a plan takes, and each of its exchanges, by the events of
// whole training steps.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/whatif/measured_run.h"

namespace lockstep::app {

class SampledSteps {
 public:
  // Makes the scripts of the ranks of `out`, which has a plan, and finds their exchanges.
  explicit SampledSteps(MeasuredRun& out);

  // Adds nothing where the events are not those of all ranks. `weight`: of the step in the means.
  void add(std::int64_t step, double weight, const std::vector<plan::Event>& events);
  void average();  // once all are added

 private:
  struct Interval {
    std::int64_t begin = 0, end = 0;
    bool isKnown = false;
    double seconds() const { return static_cast<double>(end - begin) * 1e-9; }
  };
  using Intervals = std::vector<std::vector<Interval>>;  // by rank and step of the plan
  struct Receive {
    int rank = 0;
    plan::StepId at = 0;
    std::vector<int> exchanges;  // that it receives
  };

  void makeScripts();
  const std::vector<int>& groupOf(int rank, const std::string& axis);
  std::vector<int> peersOf(int rank, std::size_t at);
  void findExchanges();
  void findReceives(std::map<std::pair<int, int>, std::vector<int>> sent);
  std::optional<Intervals> intervalsOf(const std::vector<plan::Event>& events) const;
  void addCollectives(const Intervals& intervals);
  void addMessages(const Intervals& intervals);

  MeasuredRun& out_;
  std::map<std::pair<int, std::string>, std::vector<int>> groups_;
  std::vector<Receive> receives_;
  std::vector<double> weights_;  // of the sampled steps
};

}  // namespace lockstep::app
