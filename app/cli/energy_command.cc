// `lockstep energy`: what a run drew, what that cost, beside the prediction.
#include <cmath>
#include <optional>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/runs/energy.h"
#include "app/runs/preview.h"

namespace lockstep::app::cli {
namespace {

struct Shown {
  RunRow row;
  RunEnergy drawn;
};

Result<Shown> readEnergy(const Globals& globals, const Arguments& arguments) {
  Shown out;
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(out.row, history->find(arguments.words()[0]));
  LOCKSTEP_ASSIGN(out.drawn, readRunEnergy(*history, out.row.run));
  return out;
}

void printText(const Shown& shown) {
  const Energy& energy = shown.drawn.energy;
  put(stdout,
      fmt::format("run {}: {} in {:.1f} s\n", shown.row.run, energyText(energy), energy.seconds));
  const auto line = [](const std::string& name, const std::string& value) {
    put(stdout, fmt::format("  {:<20} {}\n", name, value));
  };
  const double all = energy.joules();
  const auto part = [&](const char* name, double joules) {
    line(name, fmt::format("{} ({:.0f} %)", joulesText(joules), all > 0 ? 100 * joules / all : 0));
  };
  part("compute", shown.drawn.phases.compute);
  part("communication", shown.drawn.phases.transfer);
  part("waiting", shown.drawn.phases.waiting);
  part("other", shown.drawn.phases.other);
  const auto share = [&](const char* name, double joules) {
    if (joules > 0) line(name, joulesText(joules));
  };
  share("a step", shown.drawn.stepJoules());
  share("an epoch", shown.drawn.epochJoules());
  share("a point of accuracy", pointJoules(shown.row, all));
  if (shown.drawn.predictedJoules)
    line("predicted, of steps", joulesText(*shown.drawn.predictedJoules));
  put(stdout, "\n");
  Table table{{"host", "time", "without GPUs", "", "GPUs", "of GPUs"},
              {false, true, true, false, true, true},
              {}};
  for (const HostEnergy& host : energy.hosts)
    table.rows.push_back({host.host, fmt::format("{:.1f} s", host.seconds),
                          joulesText(host.hostJoules),
                          !host.isKnown     ? "not known"
                          : host.isMeasured ? "measured: processors, memory"
                                            : "modelled",
                          std::to_string(host.gpus), joulesText(host.gpuJoules)});
  put(stdout, table.text());
}

}  // namespace

int energyCommand(const Globals& globals, const Arguments& arguments) {
  const bool json = arguments.has("json");
  const auto shown = readEnergy(globals, arguments);
  if (!shown.ok()) {
    report(shown.error(), json);
    return exitCodeOf(shown.error());
  }
  if (!json) {
    printText(*shown);
    return kSucceeded;
  }
  const auto known = [](double joules) { return joules > 0 ? joules : std::nan(""); };
  JsonLine("energy")
      .add("run", shown->row.run)
      .add("steps", shown->drawn.steps)
      .addRaw("energy", energyJson(shown->drawn.energy, shown->drawn.phases))
      .add("epoch_joules", known(shown->drawn.epochJoules()))
      .add("point_joules", known(pointJoules(shown->row, shown->drawn.energy.joules())))
      .add("predicted_joules", shown->drawn.predictedJoules.value_or(std::nan("")))
      .print();
  return kSucceeded;
}

}  // namespace lockstep::app::cli
