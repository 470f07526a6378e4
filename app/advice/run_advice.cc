#include "app/advice/run_advice.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep::app {
namespace {

// With the costs that the run measured.
Status planAnew(const MeasuredCosts& costs, const Launched& launched, const SearchStart& start,
                AdvisedStrategy& one) {
  Launched other = launched;
  LOCKSTEP_ASSIGN(other.request.spec, specWith(start.spec)(one.settings));
  LOCKSTEP_ASSIGN(const PlannedAnew anew, costs.plan(other));
  const double share = one.stepSeconds > 0 ? anew.stepSeconds / one.stepSeconds : 1;
  for (double* figure : {&one.stepSeconds, &one.computing, &one.waiting, &one.exchanging,
                         &one.hidden, &one.joules, &one.cost, &one.carbonGrams})
    *figure *= share;
  return {};
}

}  // namespace

Result<Advice> adviseAsMeasured(const WhatIfSubject& subject, const Launched& launched,
                                const SearchStart& start, AdviceOptions options) {
  LOCKSTEP_ASSIGN(const MeasuredCosts costs,
                  MeasuredCosts::of(launched, subject.steps, subject.replayed, options.stop));
  LOCKSTEP_ASSIGN(Advice out, advise(launched.request, start, launched.hosts, std::move(options)));
  std::vector<AdvisedStrategy> planned;
  Status failure;
  for (AdvisedStrategy& one : out.best) {
    const Status status = planAnew(costs, launched, start, one);
    if (status.ok())
      planned.push_back(std::move(one));
    else
      failure = status;
  }
  if (planned.empty()) return failure.error();
  if (out.current && !planAnew(costs, launched, start, *out.current).ok()) out.current.reset();
  out.error = costs.error();
  rankStrategies(planned);
  if (out.current) sayWhy(*out.current, planned.front());
  out.best = std::move(planned);
  return out;
}

}  // namespace lockstep::app
