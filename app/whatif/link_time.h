// How long the exchanges of a run would take over links of other rates.
#pragma once

#include <vector>

#include "app/whatif/changes.h"
#include "app/whatif/measured_run.h"
#include "engine/base/status.h"

namespace lockstep::app {

// An exchange is carried by the links between nodes at once, so that its busiest link takes a part
// of its time; the rest is latency and reduction. The rate of a link is the greatest with which any
// exchange was carried, or, where that is more, what its node saw while data were under way.
struct ExchangeLinks {
  double part = 0;     // seconds of the busiest link, at the rates that there were
  double changed = 0;  // at the others
};
// Returns them by MeasuredRun::exchanges. Errors: kInvalidArgument for a link that carries nothing.
Result<std::vector<ExchangeLinks>> exchangeLinks(const MeasuredRun& run,
                                                 const std::vector<LinkRate>& rates);

}  // namespace lockstep::app
