// checkpoint, exclude, rebalance, restart, profile: what a run that goes on is asked for.
#include <charconv>
#include <cmath>
#include <cstdio>

#include "app/cli/commands.h"
#include "app/cli/connecting.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/history/history.h"
#include "app/runs/preview.h"
#include "app/runs/rebalance.h"
#include "app/runs/recorder.h"
#include "app/runs/relaunch.h"
#include "engine/base/utf8.h"
#include "engine/specs/workload.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

// Asks a run that goes on.
Result<RunAnswer> ask(const Globals& globals, const History& history, const RunRow& row,
                      const RunRequest& what) {
  watchInterrupts();
  if (isFinal(row.phase)) return makeError(Code::kFailedPrecondition, "run {} has ended", row.run);
  LOCKSTEP_ASSIGN(const auto cluster, clusterOfRun(history, row.run));
  Inbox inbox;
  AskingSession asking(cluster, globals, inbox);
  std::optional<Result<RunAnswer>> answer;
  Recorder recorder(row.run, asking.session, globals.home, inbox, [](const RunUpdate&) {});
  recorder.ask(what, [&](Result<RunAnswer> one) { answer = std::move(one); });
  if (!drainUntil(inbox, [&] { return answer.has_value(); }))
    return makeError(Code::kCancelled, "no longer waiting for run {}", row.run);
  return *std::move(answer);
}

int exitCodeFor(const Status& status, bool json) {
  if (status.ok()) return kSucceeded;
  report(status.error(), json);
  return exitCodeOf(status.error());
}

// Likewise, and tells `done` if the request arrived.
using Done = std::function<std::string(const RunRow&, const RunAnswer&)>;
int askCommand(const Globals& globals, const Arguments& arguments, const RunRequest& what,
               const Done& done) {
  const bool json = arguments.has("json");
  const Status asked = [&]() -> Status {
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    LOCKSTEP_ASSIGN(const RunRow row, history->find(arguments.words()[0]));
    LOCKSTEP_ASSIGN(const RunAnswer answer, ask(globals, *history, row, what));
    const std::string text = done(row, answer);
    if (!json)
      put(stdout, fmt::format("run {} {}\n", row.run, text));
    else if (what.kind == RunRequest::kProfile)
      JsonLine("profiled")
          .add("run", row.run)
          .add("first_step", answer.firstStep)
          .add("steps", answer.steps)
          .print();
    return {};
  }();
  return exitCodeFor(asked, json);
}

// "3,1"; none were given: empty.
Result<std::vector<double>> sharesOf(const Arguments& arguments) {
  std::vector<double> out;
  if (!arguments.has("shares")) return out;
  const std::string text = arguments.text("shares");
  for (const std::string& part : splitList(text)) {
    double share = 0;
    const char* end = part.data() + part.size();
    const auto [at, error] = std::from_chars(part.data(), end, share);
    if (error != std::errc() || at != end || !std::isfinite(share) || share <= 0)
      return invalidArgument("--shares {}: numbers above 0 were expected, as in 3,1", text);
    out.push_back(share);
  }
  return out;
}

constexpr std::int64_t kMostSteps = 1'000'000;

Result<Rebalance> proposalOf(const History& history, const RunRow& row,
                             const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const std::int64_t last,
                  arguments.integer("last", kRebalanceSteps, 5, kMostSteps));
  LOCKSTEP_ASSIGN(const std::vector<double> asked, sharesOf(arguments));
  LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(row.run));
  LOCKSTEP_ASSIGN(const auto store, history.openRun(row.run));
  const std::int64_t window = std::max(last, kRebalanceWindow);
  LOCKSTEP_ASSIGN(const StepMatrix matrix, storedSteps(*store, window));
  const PlanFacts plan = planFactsOf(documents, *store);
  std::vector<std::string> nodes;
  if (const auto prediction = parsePrediction(documents.prediction);
      prediction.ok() && !regrouped(*store))
    for (const RankPreview& rank : prediction->ranks) nodes.push_back(rank.node);
  const StepTimes times(matrix, std::max(matrix.steps() - window + 1, plan.sharesFrom),
                        matrix.steps());
  return rebalanceOf(times, row.world, nodes, plan, last, asked);
}

void printJson(const RunRow& row, const Rebalance& rebalance) {
  JsonLine("rebalance")
      .add("run", row.run)
      .add("first_step", rebalance.first)
      .add("last_step", rebalance.last)
      .add("step_seconds", rebalance.stepSeconds)
      .add("proposed_step_seconds", rebalance.proposedSeconds)
      .addRaw("shares", fmt::format("[{}]", fmt::join(rebalance.shares, ",")))
      .add("changes", rebalance.changes())
      .print();
  for (const RankSpeed& rank : rebalance.ranks)
    JsonLine("speed")
        .add("rank", rank.rank)
        .add("node", rank.node)
        .add("samples", rank.samples)
        .add("proposed_samples", rank.proposed)
        .add("sample_seconds", rank.sampleSeconds)
        .add("seconds", rank.seconds())
        .add("proposed_seconds", rank.proposedSeconds())
        .print();
}

// `offers`: --apply can still be given.
void printText(const RunRow& row, const Rebalance& rebalance, bool offers) {
  Table table{{"rank", "node", "a sample", "samples", "computes", "would have", "would compute"},
              {true, false, true, true, true, true, true},
              {}};
  for (const RankSpeed& rank : rebalance.ranks)
    table.rows.push_back({fmt::format("{}", rank.rank), printable(rank.node),
                          millisecondsText(rank.sampleSeconds) + " ms",
                          fmt::format("{}", rank.samples), millisecondsText(rank.seconds()) + " ms",
                          fmt::format("{}", rank.proposed),
                          millisecondsText(rank.proposedSeconds()) + " ms"});
  put(stdout, fmt::format("by steps {} to {} of run {}\n\n{}\n", rebalance.first, rebalance.last,
                          row.run, table.text()));
  if (!rebalance.changes())
    return put(stdout, "the batch is divided well: the ranks compute about equally long\n");
  put(stdout,
      fmt::format("a step takes {} ms, and would take about {} ms{}\n",
                  millisecondsText(rebalance.stepSeconds),
                  millisecondsText(rebalance.proposedSeconds),
                  offers ? "; --apply divides the batch so after the next checkpoint" : ""));
}

Status rebalance(const Globals& globals, const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(const RunRow row, history->find(arguments.words()[0]));
  LOCKSTEP_ASSIGN(const Rebalance proposal, proposalOf(*history, row, arguments));
  const bool applies = arguments.has("apply") && proposal.changes();
  if (arguments.has("json"))
    printJson(row, proposal);
  else
    printText(row, proposal, !applies && !isFinal(row.phase));
  if (!applies) return {};
  RunRequest what = RunRequest::kRebalance;
  what.shares = proposal.shares;
  LOCKSTEP_TRY(ask(globals, *history, row, what).status());
  if (!arguments.has("json"))
    put(stdout, fmt::format("run {} takes a checkpoint, and divides its batch so\n", row.run));
  return {};
}

}  // namespace

int checkpointCommand(const Globals& globals, const Arguments& arguments) {
  return askCommand(globals, arguments, RunRequest::kCheckpoint,
                    [](const RunRow&, const RunAnswer&) { return "takes a checkpoint"; });
}
int excludeCommand(const Globals& globals, const Arguments& arguments) {
  const std::string& node = arguments.words()[1];
  if (node.empty() || node.size() > 255 || firstNotUtf8(node) != std::string_view::npos) {
    const Error error = invalidArgument("NODE is not the name of a node");
    report(error, arguments.has("json"));
    return exitCodeOf(error);
  }
  return askCommand(globals, arguments, {RunRequest::kExclude, node},
                    [&](const RunRow& row, const RunAnswer&) {
                      return (row.strategy == specs::kProgramStrategy
                                  ? "starts its program again without node "
                                  : "takes a checkpoint, and continues from it without node ") +
                             node;
                    });
}
int restartCommand(const Globals& globals, const Arguments& arguments) {
  return askCommand(globals, arguments, RunRequest::kRestart,
                    [](const RunRow& row, const RunAnswer&) {
                      return row.strategy == specs::kProgramStrategy
                                 ? "starts its program again on all ranks"
                                 : "takes a checkpoint, and restarts all ranks from it";
                    });
}
int profileCommand(const Globals& globals, const Arguments& arguments) {
  RunRequest what = RunRequest::kProfile;
  const auto steps = arguments.integer("steps", what.steps, 1, 200);
  if (!steps.ok()) {
    report(steps.error(), arguments.has("json"));
    return exitCodeOf(steps.error());
  }
  what.steps = static_cast<int>(*steps);
  return askCommand(globals, arguments, what, [](const RunRow&, const RunAnswer& answer) {
    return fmt::format("records all events of steps {} to {}", answer.firstStep,
                       answer.firstStep + answer.steps - 1);
  });
}
int rebalanceCommand(const Globals& globals, const Arguments& arguments) {
  return exitCodeFor(rebalance(globals, arguments), arguments.has("json"));
}

}  // namespace lockstep::app::cli
