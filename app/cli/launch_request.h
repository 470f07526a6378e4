// The launch that a command's options ask for.
#pragma once

#include <atomic>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/advice/advice.h"
#include "app/cli/command.h"
#include "engine/base/clock.h"

namespace lockstep::app::cli {

// Returns spec, cluster and --comm as a request.
LaunchRequest requestOf(const RunSpecFile& spec, const ClusterSpecFile& cluster,
                        const Arguments& arguments);
// Returns the request, whose spec was read as `spec`, with a strategy: where that is open
// (strategy.kind auto), the best one is searched for what is known of the nodes. Ctrl-C cancels the
// search, after the plans at hand.
Result<LaunchRequest> withStrategy(LaunchRequest request, const RunSpecFile& spec,
                                   const std::vector<HostFacts>& hosts, const Arguments& arguments);

// A launch, and its plan.
struct PlannedLaunch {
  LaunchRequest request;
  std::vector<HostFacts> hosts;
  Preview preview;
};
struct SpecWords {
  std::string file;               // or the name of an example
  std::vector<std::string> sets;  // as --set
};
// Plans the launch of a spec that the command's options ask for: with --measure on the nodes, which
// are benchmarked. `events` and `trace` as of makePreview().
Result<PlannedLaunch> plannedLaunch(const Globals& globals, const Arguments& arguments,
                                    const SpecWords& words, bool events,
                                    passes::PassTrace* trace = nullptr);

// Has a search use all cores, tell on stderr how far it is, and end with Ctrl-C. Used while the
// search runs.
class SearchProgress {
 public:
  explicit SearchProgress(const Arguments& arguments);
  ~SearchProgress();  // clears the line
  SearchProgress(const SearchProgress&) = delete;
  SearchProgress& operator=(const SearchProgress&) = delete;
  void watch(AdviceOptions& options);
  bool isInterrupted() const { return stop_.stop_requested() || cli::isInterrupted(); }

 private:
  void tell(std::size_t planned);

  std::stop_source stop_;
  const bool shows_;
  std::atomic<Nanoseconds> shown_{monotonicNow()};
};

}  // namespace lockstep::app::cli
