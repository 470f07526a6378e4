// strategy.kind auto: the best strategy found for a run's cluster takes its place before the run is
// planned. What the spec sets in `strategy` is kept.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "app/advice/advice.h"
#include "app/specs/spec_text.h"

namespace lockstep::app {

// Completes the spec with settings besides its own. Borrows nothing.
SpecWith specWith(RunSpecFile spec);

// Where a search begins.
struct SearchStart {
  RunSpecFile spec;             // names a strategy
  bool open = false;            // which was not written: strategy.kind is auto
  std::vector<Setting> pinned;  // as AdviceOptions has them
  std::set<std::string> kept;
};
// Returns the spec itself, with nothing pinned; of a spec whose strategy is open, with the plainest
// strategy that can have what it sets.
Result<SearchStart> searchStart(const RunSpecFile& spec);
// Pins "PATH=VALUE", or "PATH" at the value that the spec has. Errors: kInvalidArgument for what is
// left open.
Status pin(SearchStart& start, const std::vector<std::string>& pins);

// Advice for a person, who makes the settings in the spec as it was written, where auto chooses
// by itself. `options` has what else is asked; what `start` pins and keeps is added. Errors: those
// of advise().
Result<Advice> advise(LaunchRequest request, const SearchStart& start,
                      const std::vector<HostFacts>& hosts, AdviceOptions options);

// Returns the request with the strategy chosen, and with `chosen`; as it is where its spec, which
// was read as `spec`, names one. `options` has nothing pinned. Errors: those of advise().
Result<LaunchRequest> withStrategyChosen(LaunchRequest request, const RunSpecFile& spec,
                                         const std::vector<HostFacts>& hosts,
                                         AdviceOptions options);

}  // namespace lockstep::app
