// The figures of a plan, for a comparison with another plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/runs/preview.h"

namespace lockstep::app {

struct PlanFigure {
  enum class Unit : std::uint8_t { kCount, kSeconds, kBytes, kFlops, kPerSecond, kJoules };
  std::string name;  // unique: "step", "memory/activations", "sent/all-reduce data"
  Unit unit = Unit::kCount;
  double value = 0;
};
// Of a training step. Times are means of the ranks that compute ("time/waiting"), memory is that of
// the rank that needs most; exchanges ("sent/…" where something is, "exchanges/…", by operation and
// mesh axis) and computation are sums over all ranks.
std::vector<PlanFigure> planFigures(const Preview& preview);

// The figures of two plans side by side, in the order of the first; of one that a plan lacks the
// value is 0.
struct FigurePair {
  std::string name;
  PlanFigure::Unit unit{};
  double first = 0, second = 0;
};
std::vector<FigurePair> sideBySide(const std::vector<PlanFigure>& first,
                                   const std::vector<PlanFigure>& second);

}  // namespace lockstep::app
