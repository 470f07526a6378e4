// `lockstep stragglers`: the ranks and nodes of a run by the time that the others waited for them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/history/history.h"
#include "app/runs/preview.h"
#include "app/runs/rank_costs.h"
#include "app/whatif/steps_without.h"

namespace lockstep::app::cli {
namespace {

constexpr std::int64_t kMostSteps = std::numeric_limits<std::int64_t>::max();

struct Shown {
  std::unique_ptr<History> history;
  RunRow row;
  std::unique_ptr<RunStore> store;
  RankCosts costs;
  std::vector<PeerFigure> figures;       // of the first rank
  std::optional<StepsWithout> replayed;  // none: the run cannot be replayed, or no rank was late
};

// What a step takes without the rank or node, by the replay; NaN: not known.
double replayedSeconds(const Shown& run, const RankCost& cost) {
  return run.replayed ? run.replayed->without(ranksOf(run.costs, cost)) : std::nan("");
}

Result<Shown> readCosts(const Globals& globals, const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const std::int64_t last, arguments.integer("last", 0, 1, kMostSteps));
  Shown out;
  LOCKSTEP_ASSIGN(out.history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(out.row, out.history->find(arguments.words()[0]));
  LOCKSTEP_ASSIGN(const RunDocuments documents, out.history->documents(out.row.run));
  LOCKSTEP_ASSIGN(out.store, out.history->openRun(out.row.run));
  LOCKSTEP_ASSIGN(const StepMatrix matrix, storedSteps(*out.store, last));
  const PlanFacts plan = planFactsOf(documents, *out.store);
  if (plan.isAsynchronous) {
    Error error =
        makeError(Code::kFailedPrecondition, "no rank of run {} can be compared", out.row.run);
    error.why = "its training is asynchronous: its ranks do not wait for each other";
    return error;
  }
  std::vector<std::string> nodes;  // of the ranks
  if (const auto prediction = parsePrediction(documents.prediction);
      prediction.ok() && !regrouped(*out.store))
    for (const RankPreview& rank : prediction->ranks) nodes.push_back(rank.node);
  const std::int64_t first = last > 0 ? matrix.steps() - last + 1 : 1;
  const StepTimes times(matrix, std::max(first, plan.sharesFrom), matrix.steps());
  out.costs = rankCosts(times, out.row.world, nodes, plan.shares);
  if (out.costs.steps > 0) {
    out.figures =
        peerFigures(times, out.costs.ranks.front().rank, nodes, storedMeans(*out.store, times));
    return out;
  }
  Error error = makeError(Code::kNotFound, "no rank of run {} can be compared", out.row.run);
  error.why = matrix.ranks() < 2 ? "it has one rank, or the history has no steps of it yet"
                                 : "no step after the first five has been reported by all ranks";
  return error;
}

std::string figureText(const std::string& name, double value) {
  const std::string leaf = name.substr(name.rfind('/') + 1);
  if (leaf == "memory") return bytesText(value);
  if (leaf == "disk_busy") return fmt::format("{:.0f} %", 100 * value);
  if (leaf.starts_with("disk_") || leaf.starts_with("net_")) return rateText(value);
  if (leaf == "sm_clock") return fmt::format("{:.0f} MHz", value);
  if (leaf == "temperature") return fmt::format("{:.0f} °C", value);
  if (name == "cpu") return fmt::format("{:.2f} cores", value);
  if (leaf == "cpu" || leaf == "utilisation" || leaf == "throttled")
    return fmt::format("{:.0f} %", 100 * value);
  return millisecondsText(value) + " ms";
}

std::string_view phaseOf(const RankCost& cost) {
  static constexpr std::array<std::string_view, 5> kNames{"data", "forward", "backward", "transfer",
                                                          "optimizer"};
  return cost.seconds > 0 ? kNames[cost.mainPhase()] : "";
}

void printJson(const Shown& run, const std::vector<RankCost>& costs) {
  JsonLine("costs")
      .add("run", run.row.run)
      .add("first_step", run.costs.first)
      .add("last_step", run.costs.last)
      .add("steps", run.costs.steps)
      .add("step_seconds", run.costs.stepSeconds)
      .add("at_most", run.costs.atMost)
      .print();
  if (run.replayed)
    JsonLine("replay")
        .add("run", run.row.run)
        .add("first_step", run.replayed->first)
        .add("last_step", run.replayed->last)
        .add("measured_seconds", run.replayed->measuredSeconds)
        .add("error", run.replayed->error)
        .add("spread", run.replayed->spread)
        .print();
  for (const RankCost& cost : costs) {
    const double replayed = replayedSeconds(run, cost);
    JsonLine line("cost");
    if (cost.rank >= 0) line.add("rank", cost.rank);
    line.add("node", cost.node)
        .add("seconds", cost.seconds)
        .add("share", cost.share)
        .add("phase", phaseOf(cost))
        .add("late_steps", cost.lateSteps)
        .add("first_late", cost.firstLate)
        .add("last_late", cost.lastLate)
        .add("without_seconds", std::isnan(replayed) ? cost.withoutSeconds : replayed)
        .add("replayed", !std::isnan(replayed))
        .print();
  }
  for (const PeerFigure& figure : run.figures)
    JsonLine("figure")
        .add("rank", run.costs.ranks.front().rank)
        .add("name", figure.name)
        .add("value", figure.own)
        .add("peers", figure.peers)
        .print();
}

void printText(const Shown& run, const std::vector<RankCost>& costs) {
  put(stdout, fmt::format("steps {} to {} of run {}: a step takes {}{} ms\n\n", run.costs.first,
                          run.costs.last, run.row.run, run.costs.atMost ? "at most " : "",
                          millisecondsText(run.costs.stepSeconds)));
  const bool byNode = costs.front().rank < 0;
  Table table;
  table.header = {byNode ? "node" : "rank",
                  byNode ? "" : "node",
                  "costs",
                  "of the time",
                  "mostly in",
                  "late in",
                  "steps",
                  "a step without it"};
  table.right = {!byNode, false, true, true, false, true, false, true};
  for (const RankCost& cost : costs) {
    const double replayed = replayedSeconds(run, cost);
    const bool isReplayed = !std::isnan(replayed);
    table.rows.push_back(
        {byNode ? printable(cost.node) : fmt::format("{}", cost.rank),
         byNode ? "" : printable(cost.node), durationText(cost.seconds),
         fmt::format("{:.1f} %", 100 * cost.share), std::string(phaseOf(cost)),
         fmt::format("{}", cost.lateSteps),
         cost.lateSteps > 0 ? fmt::format("{} to {}", cost.firstLate, cost.lastLate) : "",
         fmt::format("{}{} ms", run.replayed && !isReplayed ? "≈ " : "",
                     millisecondsText(isReplayed ? replayed : cost.withoutSeconds))});
  }
  put(stdout, table.text());
  if (run.replayed)
    put(stdout,
        fmt::format("\na step without it: by a replay of steps {} to {}, {} ms each, with an error "
                    "of {:+.1f} %; ≈ by the time that the others waited\n",
                    run.replayed->first, run.replayed->last,
                    millisecondsText(run.replayed->measuredSeconds), 100 * run.replayed->error));
  Table peers;
  peers.header = {"", fmt::format("rank {}", run.costs.ranks.front().rank), "median of the others"};
  peers.right = {false, true, true};
  for (const PeerFigure& figure : run.figures)
    peers.rows.push_back(
        {figure.name, figureText(figure.name, figure.own), figureText(figure.name, figure.peers)});
  put(stdout, "\n" + peers.text());
  std::string told;
  for (const StragglerRow& row : run.store->stragglers())
    told += fmt::format("  {}  {}\n", localTime(row.wallNs), printable(row.text));
  if (!told.empty()) put(stdout, "\nnamed while the run went on\n" + told);
}

}  // namespace

int stragglersCommand(const Globals& globals, const Arguments& arguments) {
  const bool json = arguments.has("json");
  auto run = readCosts(globals, arguments);
  if (!run.ok()) {
    report(run.error(), json);
    return exitCodeOf(run.error());
  }
  const bool byNode = arguments.has("nodes") && !run->costs.nodes.empty();
  const std::vector<RankCost>& costs = byNode ? run->costs.nodes : run->costs.ranks;
  if (const std::vector<SlowRanks> late = lateRanks(run->costs, costs); !late.empty()) {
    auto replayed =
        stepsWithout(*run->history, run->row, late, *arguments.integer("last", 0, 1, kMostSteps));
    if (replayed.ok()) run->replayed = std::move(*replayed);
  }
  (json ? printJson : printText)(*run, costs);
  return 0;
}

}  // namespace lockstep::app::cli
