// What would have been otherwise in a run, as a person states it.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

struct LinkRate {
  std::string a, b;  // nodes; both directions
  double bytesPerSecond = 0;
};

struct WhatIfChanges {
  std::vector<int> without;  // ranks that are as fast as their peers
  std::vector<LinkRate> links;
  bool idealNetwork = false;  // nothing takes time to travel
  bool noBubble = false;      // the stages of a pipeline do not wait for each other

  bool empty() const { return without.empty() && links.empty() && !idealNetwork && !noBubble; }
};

// Parses "n1-n2=10Gbit/s"; names of nodes may contain dashes. Units are bit/s and B/s with K, M, G
// or T; "/s" is optional. Errors: kInvalidArgument.
Result<LinkRate> parseLinkRate(const std::string& text, const std::vector<std::string>& nodes);

}  // namespace lockstep::app
