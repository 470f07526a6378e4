// Refusals of a request, and remedies that several checks have.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/cluster/strategies.h"
#include "engine/planner/planner.h"

namespace lockstep::planner {

inline Error refusal(Message what, Message why, std::vector<Remedy> remedies) {
  Error error = invalidArgument("{}", what);
  error.why = std::move(why);
  return withRemedies(std::move(error), std::move(remedies));
}

// One remedy of one setting.
inline std::vector<Remedy> set(std::string field, std::string value) {
  return {{{std::move(field), std::move(value)}}};
}
inline std::vector<Remedy> setNumber(std::string field, std::int64_t value) {
  return set(std::move(field), fmt::format("{}", value));
}

// Plain data parallelism, without the options that only the request's strategy has.
inline Remedy toMirrored(const PlanRequest& request, const cluster::Strategy& strategy) {
  Remedy out{{"strategy.kind", "multi-worker-mirrored"}};
  if (strategy.local) out.push_back({"strategy.local_steps", ""});
  if (strategy.servers) out.push_back({"strategy.servers", "0"});
  if (request.isAsynchronous()) out.push_back({"strategy.staleness", "0"});
  if (request.dense != "servers") out.push_back({"strategy.dense", "servers"});
  return out;
}

}  // namespace lockstep::planner
