// `lockstep energy`: what a run drew, what that cost, beside the prediction.
#include "app/cli/commands.h"
#include "app/cli/energy_text.h"
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
  put(stdout, energyPartsText(shown.row, shown.drawn) + "\n");
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
  JsonLine line("energy");
  line.add("run", shown->row.run).add("steps", shown->drawn.steps);
  addEnergy(line, shown->row, shown->drawn);
  line.print();
  return kSucceeded;
}

}  // namespace lockstep::app::cli
