// history check.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/history/history.h"
#include "app/history/integrity.h"
#include "app/runs/recorder.h"

namespace lockstep::app::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSilent =
    std::chrono::seconds(20);  // time without records after which nodes are given up

Error cancelled() { return makeError(Code::kCancelled, "the check was cancelled"); }

// Reads a run again from its nodes, without prompts.
Status refill(const Globals& globals, History& history, const std::string& run) {
  LOCKSTEP_ASSIGN(const RunRow row, history.row(run));
  if (!isFinal(row.phase)) {
    Error goesOn = makeError(Code::kUnavailable, "run {} is under way", run);
    goesOn.next = message("run `lockstep attach {}`: it records the run again from its start", run);
    return goesOn;
  }
  LOCKSTEP_ASSIGN(auto cluster, clusterOfRun(history, run));
  Inbox inbox;
  ClusterSessionOptions options = sessionOptions(globals, 0);
  options.ask = false;
  ClusterSession session(std::move(cluster), options, inbox);
  bool over = false;
  std::optional<Error> error;
  auto last = Clock::now();
  {
    const Recorder recorder(run, session, globals.home, inbox, [&](const RunUpdate& update) {
      const bool away = !update.nodes.empty() &&
                        std::none_of(update.nodes.begin(), update.nodes.end(),
                                     [](const RunUpdate::Node& node) { return node.reachable; });
      if (!away) last = Clock::now();
      over = over || update.finished;
      if (!update.errors.empty() && update.finished) error = update.errors.front();
    });
    if (!drainUntil(inbox, [&] { return over || Clock::now() - last > kSilent; }))
      return cancelled();
  }
  if (error) return *error;
  LOCKSTEP_ASSIGN(const auto store, history.openRun(run));
  if (store->about(kAboutRefill).empty()) return {};
  Error missing = makeError(Code::kUnavailable, "run {} could not be restored", run);
  missing.why = "the nodes cannot be reached";
  missing.next = message("run `lockstep history check {}` to try again", run);
  return missing;
}

struct Checked {
  std::int64_t runs = 0, damaged = 0;
  std::int64_t missing = 0;  // of the damaged, those that were not restored
};

void tell(const std::string& run, const std::string& file, const Status& filled, bool json) {
  if (json) {
    JsonLine line("damaged");
    line.add("run", run).add("file", file).add("restored", filled.ok());
    line.add("error", filled.ok() ? std::string() : filled.error().text());
    line.print();
    return;
  }
  if (!file.empty())
    put(stdout,
        fmt::format("run {}: the history file was damaged and is now named {}\n", run, file));
  put(stdout, filled.ok() ? fmt::format("run {}: restored from its nodes\n", run)
                          : filled.error().text() + "\n");
}

// Whether the file that replaces a damaged one is still to be filled.
Result<bool> awaitsRefill(const History& history, const std::string& run) {
  LOCKSTEP_ASSIGN(const auto store, history.openRun(run));
  return !store->about(kAboutRefill).empty();
}

// What cannot be checked or restored is told; the other runs are checked all the same. Errors:
// kCancelled.
Status check(const Globals& globals, History& history, const std::string& run, bool json,
             Checked& checked) {
  ++checked.runs;
  const auto aside = history.checkRun(run);
  if (!aside.ok() && aside.error().code == Code::kFailedPrecondition) {
    put(stderr, fmt::format("note: {}\n", aside.error().text()));
    return {};
  }
  const Result<bool> awaits = aside.ok() && !*aside ? awaitsRefill(history, run) : true;
  if (awaits.ok() && !*awaits) return {};
  ++checked.damaged;
  const Status filled = !aside.ok()    ? aside.status()
                        : !awaits.ok() ? awaits.status()
                                       : refill(globals, history, run);
  if (filled.code() == Code::kCancelled) return filled;
  checked.missing += !filled.ok();
  tell(run, aside.ok() ? aside->value_or("") : "", filled, json);
  return {};
}

}  // namespace

int historyCheckCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  Checked checked;
  const Status status = [&]() -> Status {
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder(), true));
    if (!arguments.words().empty()) {
      LOCKSTEP_ASSIGN(const RunRow row, history->find(arguments.words()[0]));
      return check(globals, *history, row.run, json, checked);
    }
    LOCKSTEP_ASSIGN(const auto rows, history->list());
    for (const RunRow& row : rows) {
      if (interrupts() > 0) return cancelled();
      LOCKSTEP_TRY(check(globals, *history, row.run, json, checked));
    }
    return {};
  }();
  if (!status.ok()) {
    report(status.error(), json);
    return exitCodeOf(status.error());
  }
  const std::vector<std::string> aside = filesSetAside(globals.home.historyFolder());
  if (json) {
    JsonLine line("checked");
    line.add("runs", checked.runs).add("damaged", checked.damaged);
    line.add("not_restored", checked.missing).print();
  } else {
    const std::string missing =
        checked.missing > 0 ? fmt::format(", {} not restored", checked.missing) : "";
    put(stdout, fmt::format("{} run{} checked, {} damaged{}\n", checked.runs,
                            checked.runs == 1 ? "" : "s", checked.damaged, missing));
    for (const std::string& file : aside)
      put(stdout, fmt::format("damaged file: {} (delete it when you no longer need it)\n", file));
  }
  return checked.missing == 0 ? kSucceeded : kNode;
}

}  // namespace lockstep::app::cli
