#include "app/cli/energy_text.h"

#include <fmt/format.h>

#include <cmath>

namespace lockstep::app::cli {

std::string energyPartsText(const RunRow& row, const RunEnergy& drawn) {
  std::string out;
  const auto line = [&](const char* name, const std::string& value) {
    out += fmt::format("  {:<20} {}\n", name, value);
  };
  const double all = drawn.energy.joules();
  const auto part = [&](const char* name, double joules) {
    if (drawn.phases.joules() > 0)  // they were read
      line(name, fmt::format("{} ({:.0f} %)", joulesText(joules), 100 * joules / all));
  };
  part("compute", drawn.phases.compute);
  part("communication", drawn.phases.transfer);
  part("waiting", drawn.phases.waiting);
  part("other", drawn.phases.other);
  const auto share = [&](const char* name, double joules) {
    if (joules > 0) line(name, joulesText(joules));
  };
  share("a step", drawn.stepJoules());
  share("an epoch", drawn.epochJoules());
  share("a point of accuracy", pointJoules(row, all));
  if (drawn.predictedJoules) line("predicted, of steps", joulesText(*drawn.predictedJoules));
  return out;
}

void addEnergy(JsonLine& line, const RunRow& row, const RunEnergy& drawn) {
  const auto known = [](double joules) { return joules > 0 ? joules : std::nan(""); };
  line.addRaw("energy", energyJson(drawn.energy, drawn.phases))
      .add("epoch_joules", known(drawn.epochJoules()))
      .add("point_joules", known(pointJoules(row, drawn.energy.joules())))
      .add("predicted_joules", drawn.predictedJoules.value_or(std::nan("")));
}

}  // namespace lockstep::app::cli
