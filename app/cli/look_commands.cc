// The commands logs and runs: what the history and the nodes know of runs.
#include <algorithm>
#include <cstdio>

#include "app/cli/commands.h"
#include "app/cli/connecting.h"
#include "app/cli/json_line.h"
#include "app/cli/run_view.h"
#include "app/cli/terminal.h"
#include "app/history/history.h"
#include "app/runs/log_line.h"
#include "app/runs/recorder.h"
#include "engine/base/clock.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The time of a line is the one it says itself, where it does: the record's is when it was
// collected.
void printLog(const LogRow& row, const LogLine& line, bool json) {
  if (json) {
    JsonLine("log")
        .add("time", isoTime(row.wallNs))
        .add("node", row.node)
        .add("rank", row.rank)
        .add("level", kLogLevels[static_cast<std::size_t>(levelOf(line))])
        .add("text", row.text)
        .print();
    return;
  }
  const std::string node = printable(row.node);
  const std::string who = row.rank >= 0 ? fmt::format("{}/{}", node, row.rank) : node;
  const std::string level = line.level != 0 ? fmt::format("{} ", line.level) : std::string();
  put(stdout, fmt::format("{} {} {}{}\n", isoTime(line.wallNs > 0 ? line.wallNs : row.wallNs),
                          padded(who, 12), level, printable(line.text)));
}

// The lines that a command asks for.
struct LogRequest {
  RunStore::LogFilter filter;
  LogLevel least = LogLevel::kDebug;
  bool first = false;  // the first of them alone
};
Result<LogRequest> logRequestOf(const Arguments& arguments) {
  LogRequest out;
  out.filter.contains = arguments.text("contains");
  out.filter.node = arguments.text("node");
  LOCKSTEP_ASSIGN(const std::int64_t rank, arguments.integer("rank", -2, 0, 1'000'000));
  out.filter.rank = static_cast<int>(rank);
  out.first = arguments.has("first-error");
  if (out.first && arguments.has("level"))
    return invalidArgument("--first-error and --level exclude each other");
  const std::string level = arguments.text("level", out.first ? "error" : "debug");
  const auto found = std::ranges::find(kLogLevels, level);
  if (found == kLogLevels.end())
    return invalidArgument("--level {}: expected {}", level, fmt::join(kLogLevels, ", "));
  out.least = static_cast<LogLevel>(found - kLogLevels.begin());
  out.filter.oldestFirst = true;
  return out;
}

// Prints the lines that have come since the last call. Returns whether no more are wanted.
Result<bool> printNewLogs(const RunStore& store, LogRequest& request, bool json) {
  constexpr int kAtOnce = 10'000;
  while (true) {
    LOCKSTEP_ASSIGN(const auto rows, store.logs(request.filter, 0, kAtOnce));
    for (const LogRow& row : rows) {
      if (takeInterrupt()) return makeError(Code::kCancelled, "no longer following the logs");
      request.filter.after = row.id;
      const LogLine line = parseLogLine(row.text);
      if (levelOf(line) < request.least) continue;
      printLog(row, line, json);
      if (request.first) return true;
    }
    if (std::ssize(rows) < kAtOnce) return false;
  }
}

// Nothing is known of a run that has not been planned.
Status checkRank(const RunRow& row, int rank) {
  if (row.world <= 0 || rank < row.world) return {};
  if (row.world == 1) return invalidArgument("--rank {}: run {} has rank 0 alone", rank, row.run);
  return invalidArgument("--rank {}: run {} has the ranks 0 to {}", rank, row.run, row.world - 1);
}

// "": any node. Of a run whose cluster is not known, or has no nodes yet, any may be meant.
Status checkNode(const History& history, const std::string& run, const std::string& node) {
  const auto cluster = clusterOfRun(history, run);
  if (node.empty() || !cluster.ok() || (*cluster)->nodes().empty()) return {};
  std::vector<std::string> names;
  for (const auto& one : (*cluster)->nodes()) names.push_back(one.name());
  if (std::ranges::find(names, node) != names.end()) return {};
  Error error = invalidArgument("--node {}: run {} has no such node", node, run);
  error.next = message("its nodes are {}", fmt::join(names, ", "));
  return error;
}

}  // namespace

int logsCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const Status status = [&]() -> Status {
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    LOCKSTEP_ASSIGN(const RunRow row, history->find(arguments.words()[0]));
    LOCKSTEP_ASSIGN(const auto store, history->openRun(row.run));
    LOCKSTEP_ASSIGN(LogRequest request, logRequestOf(arguments));
    LOCKSTEP_TRY(checkRank(row, request.filter.rank));
    LOCKSTEP_TRY(checkNode(*history, row.run, request.filter.node));
    bool enough = false;
    const auto printNew = [&]() -> Status {
      if (enough) return {};
      LOCKSTEP_ASSIGN(enough, printNewLogs(*store, request, json));
      return {};
    };
    LOCKSTEP_TRY(printNew());
    if (enough || isFinal(row.phase)) return {};

    // What has not been recorded yet is fetched from the nodes; without --follow until they fall
    // silent.
    LOCKSTEP_ASSIGN(const auto cluster, clusterOfRun(*history, row.run));
    Inbox inbox;
    AskingSession asking(cluster, globals, inbox);
    bool over = false, heard = false;
    auto last = Clock::now();
    std::optional<Error> error;
    Recorder recorder(row.run, asking.session, globals.home, inbox, [&](const RunUpdate& update) {
      for (const auto& node : update.nodes) heard = heard || node.live;
      if (!update.logs.empty()) last = Clock::now();
      if (!update.errors.empty() && !isFinal(row.phase)) error = update.errors.front();
      over = over || update.finished;
    });
    const bool toTheEnd = arguments.has("follow");
    const auto limit = Clock::now() + std::chrono::seconds(10);
    Status printed;
    const bool ended = drainUntil(
        inbox,
        [&] {
          if (over || enough || !printed.ok()) return true;
          if (toTheEnd) return false;
          const auto now = Clock::now();
          return now > limit || (heard && now - last > std::chrono::milliseconds(700));
        },
        [&] { printed = printNew(); });
    LOCKSTEP_TRY(printed);
    LOCKSTEP_TRY(printNew());
    if (!ended) return makeError(Code::kCancelled, "no longer following the logs");
    // of a version that this program cannot talk to
    if (error && error->code == Code::kFailedPrecondition) return *error;
    return {};
  }();
  if (status.ok()) return kSucceeded;
  if (status.code() != Code::kCancelled) report(status.error(), json);
  return exitCodeOf(status.error());
}

namespace {

// How long `runs` waits for the nodes of all runs together.
constexpr auto kAskLimit = std::chrono::seconds(5);

bool isRecorded(const History& history, const std::string& run) {
  const auto store = history.openRun(run);
  return store.ok() && (*store)->lockForRecording().code() == Code::kAlreadyExists;
}

// Records what the nodes of unfinished runs report, up to the end of the run or up to now. Skips
// runs that another process records.
void askNodes(const Globals& globals, const History& history, const std::vector<RunRow>& rows) {
  struct Asked {
    std::unique_ptr<ClusterSession> session;
    std::unique_ptr<Recorder> recorder;
    bool settled = false;
  };
  Inbox inbox;
  std::vector<std::unique_ptr<Asked>> all;
  ClusterSessionOptions options = sessionOptions(globals, 0);
  options.ask = false;
  options.copy = false;
  const double now = static_cast<double>(wallNow()) * 1e-9;
  for (const RunRow& row : rows) {
    const auto cluster = clusterOfRun(history, row.run);
    if (!cluster.ok() || isRecorded(history, row.run)) continue;
    Asked& asked = *all.emplace_back(std::make_unique<Asked>());
    asked.session = std::make_unique<ClusterSession>(*cluster, options, inbox);
    const auto take = [&asked, now](const RunUpdate& update) {
      // nodes are looked at every second
      const auto isOfNow = [&](const RunBatch::Series& series) {
        return series.name.starts_with("node/") && !series.points.empty() &&
               series.points.back().x > now - 2;
      };
      asked.settled =
          asked.settled || update.finished || (update.row && update.row->unreachableNs != 0) ||
          (!update.ending && std::any_of(update.series.begin(), update.series.end(), isOfNow));
    };
    asked.recorder = std::make_unique<Recorder>(row.run, *asked.session, globals.home, inbox, take);
  }
  const auto end = Clock::now() + kAskLimit;
  (void)drainUntil(inbox, [&] {
    return Clock::now() > end ||
           std::all_of(all.begin(), all.end(), [](const auto& asked) { return asked->settled; });
  });
}

}  // namespace

int runsCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const Status status = [&]() -> Status {
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    LOCKSTEP_TRY(history->expireAbandoned());
    const auto underWay = [&]() -> Result<std::vector<RunRow>> {
      LOCKSTEP_ASSIGN(auto rows, history->list());
      std::erase_if(rows, [](const RunRow& row) { return isFinal(row.phase); });
      return rows;
    };
    LOCKSTEP_ASSIGN(auto running, underWay());
    askNodes(globals, *history, running);
    LOCKSTEP_ASSIGN(running, underWay());
    printRuns(running, json);
    if (running.empty() && !json) std::fprintf(stderr, "no run is under way\n");
    return {};
  }();
  if (status.ok()) return kSucceeded;
  report(status.error(), json);
  return exitCodeOf(status.error());
}

}  // namespace lockstep::app::cli
