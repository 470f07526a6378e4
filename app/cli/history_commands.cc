// history list, show, export, delete.
#include <cstdio>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/run_report.h"
#include "app/cli/run_view.h"
#include "app/cli/terminal.h"
#include "app/cluster/run_cleanup.h"
#include "app/history/history.h"
#include "app/runs/recorder.h"
#include "app/specs/spec_text.h"
#include "engine/base/clock.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

// Runs `work` on the opened history; its error is what the command ends with.
template <typename Work>
int onHistory(const Globals& globals, const Arguments& arguments, Work work) {
  const Status status = [&]() -> Status {
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    return work(*history);
  }();
  if (status.ok()) return kSucceeded;
  report(status.error(), arguments.has("json"));
  return exitCodeOf(status.error());
}

void field(std::string_view name, const std::string& value) {
  if (!value.empty()) put(stdout, padded(name, 16) + value + "\n");
}

void showText(const RunRow& row, const RunDocuments& documents,
              const std::vector<EpochRow>& epochs) {
  field("run", row.run);
  field("model", printable(row.name));
  field("state", stateText(row));
  field("created", localTime(row.createdNs));
  if (row.startedNs > 0 && row.finishedNs > row.startedNs)
    field("took", durationText(static_cast<double>(row.finishedNs - row.startedNs) * 1e-9));
  field("cluster", row.clusterName);
  field("ranks", fmt::format("{}", row.world));
  field("strategy", row.strategy);
  field("communicator", row.comm);
  field("plan", row.planHash);
  field("version", row.version);
  field("resumed from", row.resumedFrom);
  if (row.predictedStepSeconds > 0)
    field("predicted step", millisecondsText(row.predictedStepSeconds) + " ms");
  if (row.measuredStepSeconds > 0)
    field("measured step", millisecondsText(row.measuredStepSeconds) + " ms");
  if (isFinal(row.phase)) field("result", resultText(resultOf(row)));
  field("weights", row.figures.weightsSha256);
  field("model file", row.modelFile);
  field("error", row.error);
  field("notes", row.notes);
  if (!epochs.empty()) {
    Table table;
    table.header = {"epoch", "step", "train loss", "test loss", "test"};
    table.right = {true, true, true, true, true};
    for (const EpochRow& epoch : epochs)
      table.rows.push_back(
          {fmt::format("{}", epoch.epoch), fmt::format("{}", epoch.step),
           lossText(epoch.trainLoss, 6), lossText(epoch.evalLoss, 6),
           epoch.evaluated() ? metricText(row.figures.metric, epoch.evalMetric) : "–"});
    put(stdout, "\n" + table.text());
  }
  // As it ran: what --set changed included.
  put(stdout,
      "\n" + (documents.specResolved.empty() ? documents.specYaml : documents.specResolved));
}

void showJson(const RunRow& row, const RunDocuments& documents, const std::vector<EpochRow>& epochs,
              const std::vector<SeriesInfo>& series) {
  JsonLine line("run");
  line.add("run", row.run).add("name", row.name).add("state", stateName(row.phase));
  if (row.unreachableNs != 0) line.add("unreachable_since", isoTime(row.unreachableNs));
  line.add("created", isoTime(row.createdNs));
  line.add("started", row.startedNs > 0 ? isoTime(row.startedNs) : std::string());
  line.add("finished", row.finishedNs > 0 ? isoTime(row.finishedNs) : std::string());
  line.add("cluster", row.clusterName).add("world", row.world).add("strategy", row.strategy);
  line.add("comm", row.comm).add("plan_hash", row.planHash).add("version", row.version);
  line.add("resumed_from", row.resumedFrom);
  line.add("predicted_step_seconds", row.predictedStepSeconds);
  line.add("measured_step_seconds", row.measuredStepSeconds);
  line.add(row.figures).add("model_file", row.modelFile);
  const std::string metric = row.figures.metric.empty() ? "" : "eval_" + row.figures.metric;
  line.add("error", row.error).add("notes", row.notes);
  line.add("spec", documents.specYaml).add("spec_resolved", documents.specResolved);
  line.add("cluster_spec", documents.clusterYaml);
  if (!documents.prediction.empty()) line.addRaw("prediction", documents.prediction);
  std::string rows, names;
  for (const EpochRow& epoch : epochs) {
    JsonLine one;
    one.add("epoch", epoch.epoch).add("step", epoch.step).add("train_loss", epoch.trainLoss);
    one.add("eval_loss", epoch.evalLoss);
    if (!metric.empty()) one.add(metric, epoch.evalMetric);
    rows += (rows.empty() ? "" : ",") + one.text();
  }
  for (const SeriesInfo& info : series) {
    JsonLine one;
    one.add("name", info.name).add("points", info.points);
    names += (names.empty() ? "" : ",") + one.text();
  }
  line.addRaw("epoch_rows", "[" + rows + "]").addRaw("series", "[" + names + "]");
  line.print();
}

// The run's folder in training.checkpoint.path, which is outside of the nodes' workdirs; "": none.
std::string sharedCheckpoints(const History& history, const std::string& run) {
  const auto documents = history.documents(run);
  if (!documents.ok() || documents->specResolved.empty()) return {};
  const auto spec = completeRunSpec(documents->specResolved, {});
  return spec.ok() ? specs::checkpointFolder(*spec->spec, run, {}) : std::string();
}

}  // namespace

int historyListCommand(const Globals& globals, const Arguments& arguments) {
  return onHistory(globals, arguments, [&](History& history) -> Status {
    LOCKSTEP_ASSIGN(const std::int64_t limit, arguments.integer("limit", 10000, 1, 10'000'000));
    LOCKSTEP_ASSIGN(const auto rows,
                    history.list(arguments.text("contains"), static_cast<int>(limit)));
    printRuns(rows, arguments.has("json"));
    if (!rows.empty() || arguments.has("json")) return {};
    LOCKSTEP_ASSIGN(const auto any, history.list({}, 1));
    std::fputs(any.empty() ? "the history is empty\n" : "no run matches\n", stderr);
    return {};
  });
}

int historyShowCommand(const Globals& globals, const Arguments& arguments) {
  return onHistory(globals, arguments, [&](History& history) -> Status {
    LOCKSTEP_ASSIGN(const RunRow row, history.find(arguments.words()[0]));
    LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(row.run));
    const auto store = history.openRun(row.run);  // the rest is shown without it too
    const auto epochs = store.ok() ? (*store)->epochs() : std::vector<EpochRow>();
    if (arguments.has("json"))
      showJson(row, documents, epochs, store.ok() ? (*store)->series() : std::vector<SeriesInfo>());
    else
      showText(row, documents, epochs);
    return store.status();
  });
}

int historyExportCommand(const Globals& globals, const Arguments& arguments) {
  return onHistory(globals, arguments, [&](History& history) -> Status {
    LOCKSTEP_ASSIGN(const RunRow row, history.find(arguments.words()[0]));
    if (arguments.has("out"))
      return history.exportCsv(row.run, absolutePath(arguments.text("out"), {}));
    LOCKSTEP_ASSIGN(const std::string csv, history.csv(row.run));
    put(stdout, csv);
    return {};
  });
}

int historyDeleteCommand(const Globals& globals, const Arguments& arguments) {
  return onHistory(globals, arguments, [&](History& history) -> Status {
    LOCKSTEP_ASSIGN(const RunRow row, history.find(arguments.words()[0]));
    const auto cluster = clusterOfRun(history, row.run);
    const std::string checkpoints = sharedCheckpoints(history, row.run);
    LOCKSTEP_TRY(history.remove(row.run, arguments.has("force")));
    watchInterrupts();
    const std::vector<std::string> keeping =
        cluster.ok() ? cleanUpNodesOf(globals, history, row.run, *cluster)
                     : nodesKeeping(history, row.run);
    for (const std::string& node : keeping)
      put(stderr,
          fmt::format("note: node {} may keep its part of the run until it is connected again\n",
                      node));
    if (!checkpoints.empty())
      put(stderr, fmt::format("note: the checkpoints in {} stay\n", checkpoints));
    if (!row.modelFile.empty())
      put(stderr, fmt::format("note: the model file {} stays\n", row.modelFile));
    std::fprintf(stderr, "deleted run %s\n", row.run.c_str());
    return {};
  });
}

}  // namespace lockstep::app::cli
