#include "app/advice/run_advice.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep::app {
namespace {

// With the costs that the run measured. Returns their error.
Result<double> planAnew(const WhatIfSubject& subject, const Launched& launched,
                        const SearchStart& start, AdvisedStrategy& one) {
  OtherSettings settings{.sets = start.spec.sets};
  for (const auto& [path, value] : one.settings)
    settings.sets.push_back(fmt::format("{}={}", path, value));
  LOCKSTEP_ASSIGN(const PlannedAnew anew,
                  plannedAnew(launched, subject.steps, subject.replayed, settings));
  const double share = one.stepSeconds > 0 ? anew.stepSeconds / one.stepSeconds : 1;
  for (double* figure :
       {&one.stepSeconds, &one.computing, &one.waiting, &one.exchanging, &one.hidden, &one.joules})
    *figure *= share;
  return anew.error;
}

}  // namespace

Result<Advice> adviseAsMeasured(const WhatIfSubject& subject, const Launched& launched,
                                const SearchStart& start, AdviceOptions options) {
  LOCKSTEP_ASSIGN(Advice out, advise(launched.request, start, launched.hosts, std::move(options)));
  std::vector<AdvisedStrategy> planned;
  Status failure;
  for (AdvisedStrategy& one : out.best) {
    const Result<double> error = planAnew(subject, launched, start, one);
    if (!error.ok()) {
      failure = error.error();
      continue;
    }
    out.error = *error;
    planned.push_back(std::move(one));
  }
  if (planned.empty()) return failure.error();
  if (out.current && !planAnew(subject, launched, start, *out.current).ok()) out.current.reset();
  rankStrategies(planned);
  out.best = std::move(planned);
  return out;
}

}  // namespace lockstep::app
