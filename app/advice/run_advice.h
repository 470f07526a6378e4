// Advice for a run, under way or ended: for its nodes and links as it measured them.
#pragma once

#include "app/advice/auto_strategy.h"
#include "app/whatif/subject.h"
#include "engine/base/status.h"

namespace lockstep::app {

// Searches on `launched`, of launchAsMeasured(), from `start`, whose spec is the run's with other
// settings or without; then plans the best ones anew with the costs that the run measured. Sets
// Advice::error. Errors: those of advise(); of MeasuredCosts, where none can be planned anew, too.
Result<Advice> adviseAsMeasured(const WhatIfSubject& subject, const Launched& launched,
                                const SearchStart& start, AdviceOptions options);

}  // namespace lockstep::app
