// How the ranks of a run agree on whether their devices form groups. Each reports whether its own
// can; rank 0 decides for all. Reports and decisions are texts in the ranks' store.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::runtime {

struct DeviceReport {
  std::string whyNot;           // "": the device can form groups
  std::string device, version;  // identifier, and version of the group library; without spaces

  std::string text() const;
  static DeviceReport parse(std::string_view text);
};

// Returns why ranks with these reports cannot form groups; "" if they can.
std::string reasonAgainst(const std::vector<DeviceReport>& byRank);

struct DeviceDecision {
  std::string whyNot;  // "": there are groups
  std::string id;      // of the group of all ranks: Grouping::makeId()

  std::string text() const;
  // Errors: kInternal for what no rank 0 of this version has decided.
  static Result<DeviceDecision> parse(std::string_view text);
};

}  // namespace lockstep::runtime
