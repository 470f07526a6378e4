// steps, timeline, traffic: the steps of a run, as the studio's tabs of a run show them.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/step_text.h"
#include "app/cli/terminal.h"
#include "app/runs/node_traffic.h"
#include "app/runs/rank_costs.h"

namespace lockstep::app::cli {
namespace {

constexpr std::int64_t kMostSteps = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kLastSamples = 600;  // that a measured rate is the mean of

struct OpenRun {
  std::unique_ptr<History> history;
  RunRow row;
  RunDocuments documents;
  std::unique_ptr<RunStore> store;
  std::vector<std::string> nodes;  // of the ranks, as far as they are known
};

Result<OpenRun> openRun(const Globals& globals, const Arguments& arguments) {
  OpenRun out;
  LOCKSTEP_ASSIGN(out.history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(out.row, out.history->find(arguments.words()[0]));
  LOCKSTEP_ASSIGN(out.documents, out.history->documents(out.row.run));
  LOCKSTEP_ASSIGN(out.store, out.history->openRun(out.row.run));
  if (const auto prediction = parsePrediction(out.documents.prediction);
      prediction.ok() && !regrouped(*out.store))
    out.nodes = rankNodes(*prediction);
  return out;
}

Result<plan::Plan> planOf(const OpenRun& run) {
  const bool program = ofProgram(run.row);  // whose plan names its ranks alone
  if (!program && !run.documents.plan.empty()) return storedPlan(run.documents.plan);
  Error error = makeError(Code::kFailedPrecondition, "run {} has no plan", run.row.run);
  error.why =
      program ? message("it is a program of your own") : message("its launch has not come so far");
  return error;
}

// Opens the run and does the work; its error is what the command ends with.
template <typename Work>
int onRun(const Globals& globals, const Arguments& arguments, Work work) {
  const Status status = [&]() -> Status {
    LOCKSTEP_ASSIGN(const OpenRun run, openRun(globals, arguments));
    return work(run);
  }();
  if (status.ok()) return kSucceeded;
  report(status.error(), arguments.has("json"));
  return exitCodeOf(status.error());
}

std::string nodeOf(const OpenRun& run, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  return at < run.nodes.size() ? run.nodes[at] : std::string();
}

void printSteps(const OpenRun& run, const StepMatrix& matrix, std::int64_t first) {
  constexpr std::array<std::string_view, 7> kNames{"step",    "data",     "forward",  "backward",
                                                   "waiting", "transfer", "optimizer"};
  for (int rank = 0; rank < matrix.ranks(); ++rank) {
    JsonLine line("steps");
    line.add("run", run.row.run).add("rank", rank).add("node", nodeOf(run, rank));
    line.add("first_step", first).add("stride", matrix.stride());
    const auto addValues = [&](std::string_view key, StepMeasure measure) {
      std::vector<std::string> values;
      for (std::int64_t step = first; step <= matrix.steps(); step += matrix.stride()) {
        const float value = matrix.value(measure, rank, step);
        values.push_back(std::isfinite(value) ? fmt::format("{:.6g}", value) : "null");
      }
      line.addRaw(key, fmt::format("[{}]", fmt::join(values, ",")));
    };
    for (std::size_t measure = 0; measure < kNames.size(); ++measure)
      addValues(fmt::format("{}_seconds", kNames[measure]), static_cast<StepMeasure>(measure));
    if (matrix.has(StepMeasure::kGpuClock)) addValues("gpu_clock_mhz", StepMeasure::kGpuClock);
    line.print();
  }
}

void printSpans(const StepTimeline& step, int rank, const std::vector<TimelineSpan>& spans,
                bool asynchronous) {
  for (const TimelineSpan& span : spans) {
    JsonLine line("span");
    line.add("rank", rank).add("kind", phaseText(span.kind));
    line.add("name", span.name < 0 ? "" : step.names[static_cast<std::size_t>(span.name)]);
    line.add("begin_ns", span.begin).add("end_ns", span.end).add("asynchronous", asynchronous);
    if (span.waitsFor >= 0) line.add("waits_for", span.waitsFor);
    if (const std::int64_t bytes = step.bytesOf(span); bytes > 0) line.add("bytes", bytes);
    line.print();
  }
}

void printTimeline(const OpenRun& run, const StepTimeline& step, bool predicted) {
  JsonLine("timeline")
      .add("run", run.row.run)
      .add("step", step.step)
      .add("predicted", predicted)
      .add("slow", step.slow)
      .add("seconds", static_cast<double>(step.length) * 1e-9)
      .print();
  for (std::size_t rank = 0; rank < step.lanes.size(); ++rank) {
    printSpans(step, static_cast<int>(rank), step.lanes[rank].spans, false);
    printSpans(step, static_cast<int>(rank), step.lanes[rank].communication, true);
  }
}

Result<StepTimeline> recordedStep(const OpenRun& run, const plan::Plan& plan, std::int64_t wanted) {
  const std::int64_t step = stepToShow(run.store->eventSteps(), wanted);
  if (step > 0) return readTimeline(*run.store, plan, step);
  Error error = makeError(Code::kNotFound, "no step of run {} has been recorded", run.row.run);
  error.next = message("lockstep profile {} records the next ones of a run under way", run.row.run);
  return error;
}

// Bytes a step, from one node to another; none: not measured.
std::optional<double> measuredBytes(const OpenRun& run, const std::string& from,
                                    const std::string& to) {
  const auto rates = run.store->readAll(fmt::format("node/{}/to/{}/sent", from, to));
  if (!rates.ok() || rates->empty() || run.row.measuredStepSeconds <= 0) return std::nullopt;
  const std::size_t count = std::min(rates->size(), kLastSamples);
  double sum = 0;
  for (std::size_t i = rates->size() - count; i < rates->size(); ++i) sum += (*rates)[i].y;
  return sum / static_cast<double>(count) * run.row.measuredStepSeconds;
}

void showNodeTraffic(const OpenRun& run, const std::vector<plan::Traffic>& ranks, bool json) {
  std::vector<std::string> nodes;
  for (const std::string& node : run.nodes)
    if (std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
  Table table{{"from node", "to node", "planned a step", "measured a step"},
              {false, false, true, true},
              {}};
  for (const plan::Traffic& link : nodeTraffic(ranks, run.nodes, nodes)) {
    const std::string &from = nodes[static_cast<std::size_t>(link.from)],
                      &to = nodes[static_cast<std::size_t>(link.to)];
    const auto measured = measuredBytes(run, from, to);
    if (json)
      JsonLine("node_traffic")
          .add("from", from)
          .add("to", to)
          .add("planned_bytes", link.bytes)
          .add("measured_bytes", measured.value_or(std::nan("")))
          .print();
    table.rows.push_back({printable(from), printable(to),
                          bytesText(static_cast<double>(link.bytes)),
                          measured ? bytesText(*measured) : "–"});
  }
  if (!json && !table.rows.empty()) put(stdout, "\n" + table.text());
}

}  // namespace

int stepsCommand(const Globals& globals, const Arguments& arguments) {
  return onRun(globals, arguments, [&](const OpenRun& run) -> Status {
    LOCKSTEP_ASSIGN(const std::int64_t last, arguments.integer("last", 0, 1, kMostSteps));
    LOCKSTEP_ASSIGN(const StepMatrix matrix, storedSteps(*run.store, last));
    if (matrix.ranks() == 0)
      return makeError(Code::kNotFound, "no step of run {} has been reported", run.row.run);
    const std::int64_t wanted = std::max<std::int64_t>(1, matrix.steps() - last + 1),
                       first = last > 0 ? matrix.stepsOf(wanted).first : 1;
    if (arguments.has("json"))
      printSteps(run, matrix, first);
    else
      put(stdout, matrixText(matrix, first));
    return {};
  });
}

int timelineCommand(const Globals& globals, const Arguments& arguments) {
  return onRun(globals, arguments, [&](const OpenRun& run) -> Status {
    const bool predicted = arguments.has("predicted");
    LOCKSTEP_ASSIGN(const std::int64_t wanted, arguments.integer("step", 0, 1, kMostSteps));
    if (predicted && wanted > 0)
      return invalidArgument("--step and --predicted exclude each other");
    LOCKSTEP_ASSIGN(const plan::Plan plan, planOf(run));
    StepTimeline step;
    if (predicted) {
      LOCKSTEP_ASSIGN(const Preview prediction, parsePrediction(run.documents.prediction));
      LOCKSTEP_ASSIGN(step, predictTimeline(plan, prediction));
    } else {
      LOCKSTEP_ASSIGN(step, recordedStep(run, plan, wanted));
    }
    if (arguments.has("json")) {
      printTimeline(run, step, predicted);
      return {};
    }
    const std::string which =
        predicted ? std::string("as predicted")
                  : fmt::format("step {}{}", step.step, step.slow ? ", a slow one" : "");
    put(stdout, fmt::format("run {}, {}\n", run.row.run, which) +
                    timelineText(step, run.nodes, Style(wantsColour(STDOUT_FILENO)),
                                 terminalSize(STDOUT_FILENO).columns));
    return {};
  });
}

int trafficCommand(const Globals& globals, const Arguments& arguments) {
  return onRun(globals, arguments, [&](const OpenRun& run) -> Status {
    const bool json = arguments.has("json");
    LOCKSTEP_ASSIGN(const plan::Plan plan, planOf(run));
    const std::vector<plan::Traffic> ranks = plan::stepTraffic(plan);
    if (json)
      for (const plan::Traffic& link : ranks)
        JsonLine("traffic")
            .add("from", link.from)
            .add("to", link.to)
            .add("bytes", link.bytes)
            .add("at_most", link.atMost)
            .print();
    else if (ranks.empty())
      put(stderr, "its ranks send each other nothing\n");
    else
      put(stdout, trafficText(ranks));
    showNodeTraffic(run, ranks, json);
    return {};
  });
}

}  // namespace lockstep::app::cli
