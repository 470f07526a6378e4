// Traffic between the nodes of ranks.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/traffic.h"

namespace lockstep::app {

// Sums what ranks of different nodes send each other, by index in `nodes`, sorted by sender, then
// receiver. `nodeOfRank` may be shorter: ranks that came later are left out.
std::vector<plan::Traffic> nodeTraffic(const std::vector<plan::Traffic>& ranks,
                                       const std::vector<std::string>& nodeOfRank,
                                       const std::vector<std::string>& nodes);

}  // namespace lockstep::app
