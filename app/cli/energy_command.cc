// `lockstep energy`: what a run drew, what that cost, beside the prediction.
#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/runs/energy.h"
#include "app/runs/preview.h"

namespace lockstep::app::cli {
namespace {

struct Shown {
  RunRow row;
  Energy energy;
  double predictedJoules = 0;  // of as many steps; 0: not known
};

Result<Shown> readEnergy(const Globals& globals, const Arguments& arguments) {
  Shown out;
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(out.row, history->find(arguments.words()[0]));
  LOCKSTEP_ASSIGN(const RunDocuments documents, history->documents(out.row.run));
  LOCKSTEP_ASSIGN(const auto store, history->openRun(out.row.run));
  LOCKSTEP_ASSIGN(out.energy, measuredEnergy(*store, out.row, documents));
  out.predictedJoules =
      predictedStepJoules(documents.prediction) * static_cast<double>(out.row.figures.steps);
  return out;
}

void printText(const Shown& shown) {
  const Energy& energy = shown.energy;
  put(stdout,
      fmt::format("run {}: {} in {:.1f} s\n", shown.row.run, energyText(energy), energy.seconds));
  const auto line = [](const std::string& name, const std::string& value) {
    put(stdout, fmt::format("  {:<18} {}\n", name, value));
  };
  const double all = energy.joules();
  const auto part = [&](const char* name, double joules) {
    line(name, fmt::format("{} ({:.0f} %)", joulesText(joules), all > 0 ? 100 * joules / all : 0));
  };
  part("compute", energy.phases.compute);
  part("communication", energy.phases.transfer);
  part("waiting", energy.phases.waiting);
  part("other", energy.phases.other);
  const RunFigures& figures = shown.row.figures;
  if (figures.steps > 0) line("a step", joulesText(all / static_cast<double>(figures.steps)));
  if (figures.epochs > 0) line("an epoch", joulesText(all / static_cast<double>(figures.epochs)));
  if (figures.metric == "accuracy" && figures.evalMetric > 0)
    line("a point of accuracy", joulesText(all / (100 * figures.evalMetric)));
  if (shown.predictedJoules > 0) line("predicted steps", joulesText(shown.predictedJoules));
  put(stdout, "\n");
  Table table{{"host", "without GPUs", "GPUs", "of GPUs"}, {false, true, true, true}, {}};
  for (const HostEnergy& host : energy.hosts)
    table.rows.push_back({host.host,
                          joulesText(host.hostJoules) + (host.isMeasured ? "" : " (modelled)"),
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
  JsonLine("energy")
      .add("run", shown->row.run)
      .add("steps", shown->row.figures.steps)
      .addRaw("energy", energyJson(shown->energy))
      .add("predicted_joules", shown->predictedJoules)
      .print();
  return kSucceeded;
}

}  // namespace lockstep::app::cli
