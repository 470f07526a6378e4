#include "engine/plan/wait_limit.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace lockstep::plan {
namespace {

Nanoseconds limitOf(const Plan& plan, Nanoseconds least) {
  std::map<const Body*, double> known;
  const auto seconds = [&](std::string_view program, int rank) {
    const Body* const body = plan.find(program, rank);
    if (body == nullptr) return 0.0;
    const auto [entry, isNew] = known.try_emplace(body, 0);
    if (isNew)
      for (const Step& step : body->steps) entry->second += std::max(0.0, step.seconds);
    return entry->second;
  };
  double predicted = 0;
  for (int rank = 0; rank < plan.mesh.size(); ++rank) {
    double step = 0;
    for (const ScheduleEntry& entry : plan.entriesOf(rank)) step += seconds(entry.program, rank);
    predicted = std::max(predicted, step * plan.mesh.stages());
    for (const Program& program : plan.programs)
      predicted = std::max(predicted, seconds(program.name, rank));
  }
  // 2^61 ns are 73 years: slow links may predict more than a Nanoseconds holds.
  return std::max(least,
                  static_cast<Nanoseconds>(std::min(kTimesPredicted * predicted * 1e9, 0x1p61)));
}

}  // namespace

Nanoseconds collectiveLimit(const Plan& plan) { return limitOf(plan, kCollectiveLimit); }
Nanoseconds deviceLimit(const Plan& plan) { return limitOf(plan, kDeviceLimit); }

}  // namespace lockstep::plan
