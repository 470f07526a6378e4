// Advice: the strategies with which a training step of a run takes the least time on a cluster.
//
// Every strategy is judged by an estimate (estimate.h). They are planned and simulated in the order
// of their estimates until no better one is to be expected, or the time is used up. The best ones
// are then varied in what changes little.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "app/advice/choice.h"
#include "app/runs/preview.h"

namespace lockstep::app {

struct AdvisedStrategy {
  Choice choice;
  Remedy settings;  // to make in the spec; none: it is the spec's own
  int ranks = 0;
  double stepSeconds = 0;                       // simulated
  std::int64_t memoryBytes = 0, wireBytes = 0;  // of the rank that needs most; of rank 0, a step
  std::int64_t linkBytes = 0;  // a step, of the busiest link between two nodes; 0: not counted
  double bubbleShare = 0;      // of the step, as of a preview
  double joules = 0;           // of a step; 0: GPUs have no known power
  double cost = 0, carbonGrams = 0;  // of a step, as in Energy; 0: not known
  std::string currency;              // of the cost
  // Seconds of a step, the mean of the ranks that compute. Exchanges that computation hides are in
  // `hidden` alone.
  double computing = 0, waiting = 0, exchanging = 0, hidden = 0;
  Message why;
};

struct AdviceOptions {
  std::vector<Setting> pinned;          // options that keep a value: see pin()
  std::set<std::string> kept;           // options that no setting may change, by path
  std::vector<std::string> precisions;  // to try besides the spec's own
  std::chrono::nanoseconds time = std::chrono::seconds(8);
  std::size_t mostPlans = 0;  // besides variants; 0: no limit but the time
  bool all = false;           // plans all, however long it takes
  std::size_t top = 10;
  std::size_t threads = 1;
  std::stop_token stop = {};                                 // ends the search with what was found
  std::function<void(std::size_t planned)> onProgress = {};  // from any thread
};

struct Advice {
  std::vector<AdvisedStrategy> best;       // the best first
  std::optional<AdvisedStrategy> current;  // the spec's own; none: it cannot run here
  std::optional<Error> currentRefusal;     // why
  std::size_t judged = 0;                  // strategies that were estimated, and variants
  std::size_t planned = 0;                 // of these, planned and simulated
  std::size_t refused = 0;                 // of these, the cluster or the model cannot have them
  std::size_t misfits = 0;                 // of these, they do not fit in memory
  bool complete = false;                   // nothing better was left to plan
  bool timeWasUp = false;                  // before the search was at its end
  std::size_t unknownMemory = 0;           // nodes: what does not fit there is not known
  // Where it is for what a run measured: of its own step, planned anew; 0.1: 10 % too long.
  std::optional<double> error;
  std::optional<Error> unmeasured;  // why what a run measured, which was asked for, is not used
};

// Errors: kInvalidArgument for what is pinned, and for a precision; kCancelled where nothing was
// found before; kResourceExhausted or the planner's own error where no strategy can run.
Result<Advice> advise(const LaunchRequest& request, const SpecWith& specWith,
                      const std::vector<HostFacts>& hosts, const AdviceOptions& options);

// "the memory of 2 nodes is not known until they are connected".
Message unknownMemoryText(std::size_t nodes);
// Plans the best ones again for their `linkBytes`, which a search among many does without.
void noteLinks(Advice& advice, const LaunchRequest& request, const SpecWith& specWith,
               const std::vector<HostFacts>& hosts, const AdviceOptions& options);
// For who plans one of them again, with measured costs:
void noteFigures(AdvisedStrategy& one, const Preview& preview);
// Sorts them, the best first, and says why.
void rankStrategies(std::vector<AdvisedStrategy>& rows);
// Says what decides about one that may be none of these rows, beside the best of them.
void sayWhy(AdvisedStrategy& one, const AdvisedStrategy& best);

}  // namespace lockstep::app
