// history list, tag, note, filter, show, diff, delete.
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "app/cli/commands.h"
#include "app/cli/energy_text.h"
#include "app/cli/history_json.h"
#include "app/cli/json_line.h"
#include "app/cli/run_report.h"
#include "app/cli/run_view.h"
#include "app/cli/terminal.h"
#include "app/cluster/run_cleanup.h"
#include "app/history/history.h"
#include "app/runs/energy.h"
#include "app/runs/preview.h"
#include "app/runs/recorder.h"
#include "app/runs/run_environment.h"
#include "app/specs/spec_text.h"
#include "engine/base/clock.h"
#include "engine/base/suggest.h"
#include "engine/specs/placement.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"
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

void showIncidents(const Recorded& recorded) {
  std::string text;
  for (const StragglerRow& row : recorded.stragglers) {
    text += fmt::format("  {}  {}", localTime(row.wallNs), printable(row.text));
    const bool told = row.cause.empty() || row.text.find(row.cause) != std::string::npos;
    text += told ? "\n" : fmt::format("; {}\n", printable(row.cause));
  }
  if (!text.empty()) put(stdout, "\nstragglers\n" + text);
  text.clear();
  for (const RestartRow& row : recorded.restarts) {
    text += fmt::format("  {}  {}\n", localTime(row.wallNs > 0 ? row.wallNs : row.endNs),
                        row.cause ? printable(row.cause->text()) : "a failure");
    if (row.endNs > 0)
      text += fmt::format("  {}  trained again after {}; {} steps lost\n", localTime(row.endNs),
                          durationText(row.seconds), row.lostSteps);
  }
  if (!text.empty()) put(stdout, "\nrestarts\n" + text);
}

void showArtifacts(const RunRow& row, const KnownArtifacts& artifacts) {
  if (!artifacts.wanted || !isFinal(row.phase)) return;
  if (!artifacts.found)
    return field("files", fmt::format("not fetched: lockstep artifacts {}", row.run));
  field("files", printable(artifactsText(*artifacts.found)));
  for (const Message& one : artifacts.found->problems)
    field("", "not fetched: " + printable(one.text()));
}

void showEnvironment(const RunDocuments& documents) {
  std::string text;
  for (const EnvironmentField& one : environmentFields(nodeEnvironments(documents.nodes)))
    text += "  " + padded(one.name, 18) + printable(one.value) + "\n";
  if (!text.empty()) put(stdout, "\nenvironment\n" + text);
}

void showEnergy(const RunRow& row, const RunEnergy& drawn) {
  const std::string parts = energyPartsText(row, drawn);
  if (!parts.empty()) put(stdout, "\nenergy\n" + parts);
  if (drawn.energy.joules() > 0 && drawn.phases.joules() <= 0)
    put(stdout, fmt::format("  by what ranks did: lockstep energy {}\n", row.run));
}

// Remarks that were made at the launch, such as why auto chose the strategy.
void showRemarks(const RunDocuments& documents) {
  const auto prediction = parsePrediction(documents.prediction);
  if (!prediction.ok() || prediction->remarks.empty()) return;
  put(stdout, "\nremarks at the launch\n");
  for (const Message& remark : prediction->remarks)
    put(stdout, "  " + printable(remark.text()) + "\n");
}

void showText(const RunRow& row, const RunDocuments& documents, const Recorded& recorded) {
  field("run", row.run);
  field(row.strategy == specs::kProgramStrategy ? "program" : "model", printable(row.name));
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
  if (row.figures.lostSeconds > 0)
    field("lost", durationText(row.figures.lostSeconds) + " to failures");
  if (const double share = effectiveTime(row); std::isfinite(share))
    field("effective time", fmt::format("{:.1f} %", 100 * share));
  field("energy", energyText(row.figures));
  field("weights", row.figures.weightsSha256);
  field("model file", row.modelFile);
  showArtifacts(row, recorded.artifacts);
  field("error", row.error);
  field("tags", fmt::format("{}", fmt::join(row.tags, " ")));
  field("notes", row.notes);
  if (recorded.energy) showEnergy(row, *recorded.energy);
  showRemarks(documents);
  showIncidents(recorded);
  if (!recorded.epochs.empty()) {
    Table table;
    table.header = {"epoch", "step", "train loss", "test loss", "test"};
    table.right = {true, true, true, true, true};
    for (const EpochRow& epoch : recorded.epochs)
      table.rows.push_back(
          {fmt::format("{}", epoch.epoch), fmt::format("{}", epoch.step),
           lossText(epoch.trainLoss, 6), lossText(epoch.evalLoss, 6),
           epoch.evaluated() ? metricText(row.figures.metric, epoch.evalMetric) : "–"});
    put(stdout, "\n" + table.text());
  }
  showEnvironment(documents);
  put(stdout, "\n" + documents.specAsRun());
  if (!documents.codePatch.empty())
    put(stdout, "\nthe code's differences from its commit\n" + documents.codePatch);
}

// The run's folder in training.checkpoint.path, which is outside of the nodes' workdirs; "": none.
std::string sharedCheckpoints(const History& history, const std::string& run) {
  const auto documents = history.documents(run);
  if (!documents.ok() || documents->specResolved.empty()) return {};
  const auto spec = completeRunSpec(documents->specResolved, {});
  return spec.ok() ? specs::checkpointFolder(*spec->spec, run, {}) : std::string();
}

// Tells what of a deleted run its nodes may keep. Pods do not come back: what they have ends with
// them, unless it is on a volume.
Status tellOfKept(History& history, const std::string& run, const spec::v1::ClusterSpec* cluster,
                  const std::vector<std::string>& keeping) {
  const bool pods = cluster != nullptr && specs::isKubernetes(cluster->placement());
  for (const std::string& node : keeping) {
    if (pods) {
      LOCKSTEP_TRY(history.forgetPart(run, node));
    } else {
      put(stderr,
          fmt::format("note: node {} may keep its part of the run until it is connected again\n",
                      node));
    }
  }
  const bool onVolume = pods && !cluster->placement().volume_claim().empty();
  if (!onVolume || keeping.empty() || cluster->nodes().empty()) return {};
  const std::filesystem::path folder(cluster->nodes(0).workdir());
  put(stderr, fmt::format("note: files of the run stay in {}, on the volume of {}\n",
                          folder.parent_path().string(), cluster->placement().volume_claim()));
  return {};
}

Status printTagsInUse(const History& history, bool json) {
  LOCKSTEP_ASSIGN(const std::vector<TagUse> uses, history.tags());
  Table table;
  table.header = {"tag", "runs"};
  table.right = {false, true};
  for (const TagUse& use : uses) {
    if (json) JsonLine("tag").add("tag", use.tag).add("runs", use.runs).print();
    table.rows.push_back({printable(use.tag), fmt::format("{}", use.runs)});
  }
  if (!json && !uses.empty()) put(stdout, table.text());
  return {};
}

void printFilters(const std::vector<SavedFilter>& filters, bool json) {
  Table table;
  table.header = {"name", "filter"};
  table.right = {false, false};
  for (const SavedFilter& filter : filters) {
    if (json) JsonLine("filter").add("name", filter.name).add("filter", filter.text).print();
    table.rows.push_back({printable(filter.name), printable(filter.text)});
  }
  if (!json && !filters.empty()) put(stdout, table.text());
}

// The words of the command, the saved filter and --contains together.
Result<RunFilter> filterOf(const History& history, const Arguments& arguments) {
  std::string text = fmt::format("{}", fmt::join(arguments.words(), " "));
  if (arguments.has("filter")) {
    LOCKSTEP_ASSIGN(const SavedFilter saved, history.savedFilter(arguments.text("filter")));
    text += " " + saved.text;
  }
  LOCKSTEP_ASSIGN(RunFilter filter, RunFilter::parse(text, wallNow()));
  if (arguments.has("contains"))
    filter = RunFilter::both(std::move(filter), RunFilter::containing(arguments.text("contains")));
  return filter;
}

}  // namespace

int historyListCommand(const Globals& globals, const Arguments& arguments) {
  return onHistory(globals, arguments, [&](History& history) -> Status {
    LOCKSTEP_ASSIGN(const std::int64_t limit, arguments.integer("limit", 10000, 1, 10'000'000));
    LOCKSTEP_ASSIGN(const RunFilter filter, filterOf(history, arguments));
    LOCKSTEP_ASSIGN(const auto rows, history.list(filter, static_cast<int>(limit)));
    printRuns(rows, arguments.has("json"));
    if (!rows.empty() || arguments.has("json")) return {};
    LOCKSTEP_ASSIGN(const auto any, history.list({}, 1));
    std::fputs(any.empty() ? "the history is empty\n" : "no run matches\n", stderr);
    return {};
  });
}

int historyTagCommand(const Globals& globals, const Arguments& arguments) {
  return onHistory(globals, arguments, [&](History& history) -> Status {
    std::vector<std::string> runs, changes;
    for (const std::string& word : arguments.words()) {
      if (word.starts_with('+') || word.starts_with('-')) {
        changes.push_back(word);
        continue;
      }
      LOCKSTEP_ASSIGN(const RunRow row, history.find(word));
      runs.push_back(row.run);
    }
    LOCKSTEP_ASSIGN(const TagChange change, parseTagChange(changes));
    if (!change.empty() && runs.empty()) return invalidArgument("RUN is missing");
    if (!change.empty()) LOCKSTEP_TRY(history.changeTags(runs, change));
    if (runs.empty()) return printTagsInUse(history, arguments.has("json"));
    for (const std::string& run : runs) {
      LOCKSTEP_ASSIGN(const RunRow row, history.row(run));
      if (arguments.has("json")) {
        JsonLine line("tags");
        line.add("run", run).addRaw("tags", jsonTexts(row.tags)).print();
      } else {
        put(stdout, fmt::format("{}  {}\n", run, fmt::join(row.tags, " ")));
      }
    }
    return {};
  });
}

int historyNoteCommand(const Globals& globals, const Arguments& arguments) {
  return onHistory(globals, arguments, [&](History& history) -> Status {
    LOCKSTEP_ASSIGN(RunRow row, history.find(arguments.words()[0]));
    if (arguments.words().size() > 1) {
      row.notes = arguments.words()[1];
      LOCKSTEP_TRY(history.setNotes(row.run, row.notes));
    }
    if (arguments.has("json")) {
      JsonLine line("notes");
      line.add("run", row.run).add("notes", row.notes).print();
    } else if (arguments.words().size() == 1 && !row.notes.empty()) {
      put(stdout, row.notes + "\n");
    }
    return {};
  });
}

int historyFilterCommand(const Globals& globals, const Arguments& arguments) {
  return onHistory(globals, arguments, [&](History& history) -> Status {
    const std::vector<std::string>& words = arguments.words();
    if (arguments.has("delete")) {
      if (words.size() != 1) return invalidArgument("--delete needs the name of one filter");
      return history.removeFilter(words[0]);
    }
    if (words.size() > 1) {
      const std::vector<std::string> rest(words.begin() + 1, words.end());
      return history.saveFilter({words[0], fmt::format("{}", fmt::join(rest, " "))});
    }
    std::vector<SavedFilter> filters;
    if (words.empty()) {
      LOCKSTEP_ASSIGN(filters, history.savedFilters());
    } else {
      LOCKSTEP_ASSIGN(SavedFilter one, history.savedFilter(words[0]));
      filters.push_back(std::move(one));
    }
    printFilters(filters, arguments.has("json"));
    return {};
  });
}

namespace {

Status printDocument(const RunRow& row, const RunDocuments& documents, const std::string& name,
                     bool json) {
  std::vector<std::string_view> names;
  for (const RunText& one : kRunTexts) {
    names.push_back(one.name);
    if (one.name != name) continue;
    const std::string& text = one.of(documents);
    if (text.empty())
      return makeError(Code::kNotFound, "run {} has no document \"{}\"", row.run, name);
    if (json)
      JsonLine("document").add("run", row.run).add("document", name).add("text", text).print();
    else
      putDocument(text);
    return {};
  }
  Error error = invalidArgument("there is no document \"{}\"", name);
  error.next = message("a document is {}", expectedOneOf(name, names));
  return error;
}

}  // namespace

int historyShowCommand(const Globals& globals, const Arguments& arguments) {
  return onHistory(globals, arguments, [&](History& history) -> Status {
    LOCKSTEP_ASSIGN(const RunRow row, history.find(arguments.words()[0]));
    LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(row.run));
    if (arguments.has("document"))
      return printDocument(row, documents, arguments.text("document"), arguments.has("json"));
    const auto store = history.openRun(row.run);  // the rest is shown without it too
    const Recorded recorded = store.ok() ? recordedIn(history, row.run, **store) : Recorded();
    if (arguments.has("json"))
      jsonLineOf(row, documents, recorded).print();
    else
      showText(row, documents, recorded);
    return store.status();
  });
}

int historyDiffCommand(const Globals& globals, const Arguments& arguments) {
  return onHistory(globals, arguments, [&](History& history) -> Status {
    Table table{{"option"}, {false}, {}};
    std::vector<SpecFields> specs;
    for (const std::string& word : arguments.words()) {
      LOCKSTEP_ASSIGN(const RunRow row, history.find(word));
      LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(row.run));
      specs.push_back(comparedFields(documents));
      table.header.push_back(row.run);
      table.right.push_back(false);
    }
    for (const SpecDifference& one : specDifferences(specs)) {
      if (arguments.has("json"))
        JsonLine("option").add("option", one.field).addRaw("values", jsonTexts(one.values)).print();
      table.rows.push_back({printable(one.field)});
      for (const std::string& value : one.values)
        table.rows.back().push_back(value.empty() ? "–" : printable(value));
    }
    if (arguments.has("json")) return {};
    if (table.rows.empty())
      put(stderr, "the specs and environments are equal\n");
    else
      put(stdout, table.text());
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
    LOCKSTEP_TRY(tellOfKept(history, row.run, cluster.ok() ? cluster->get() : nullptr, keeping));
    if (!checkpoints.empty())
      put(stderr, fmt::format("note: the checkpoints in {} stay\n", checkpoints));
    if (!row.modelFile.empty())
      put(stderr, fmt::format("note: the model file {} stays\n", row.modelFile));
    const std::string files = globals.home.artifactsFolder(row.run);
    if (std::error_code ignored; std::filesystem::exists(files, ignored))
      put(stderr, fmt::format("note: the files in {} stay\n", files));
    std::fprintf(stderr, "deleted run %s\n", row.run.c_str());
    return {};
  });
}

}  // namespace lockstep::app::cli
