// run, rerun, resume, attach, stop, kill.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <future>
#include <stop_token>
#include <utility>

#include "app/cli/commands.h"
#include "app/cli/connecting.h"
#include "app/cli/json_line.h"
#include "app/cli/launch_request.h"
#include "app/cli/run_alerts.h"
#include "app/cli/run_report.h"
#include "app/cli/run_view.h"
#include "app/cli/terminal.h"
#include "app/cluster/allocation.h"
#include "app/cluster/run_cleanup.h"
#include "app/history/history.h"
#include "app/runs/allocated_launch.h"
#include "app/runs/artifacts.h"
#include "app/runs/launcher.h"
#include "app/runs/recorder.h"
#include "app/runs/relaunch.h"
#include "engine/base/clock.h"
#include "engine/base/utf8.h"
#include "engine/specs/placement.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

using Clock = std::chrono::steady_clock;

int exitCodeFor(const RunResult& result) {
  if (result.status == "succeeded") return result.missing.empty() ? kSucceeded : kNode;
  return result.status == "stopped" ? kStoppedByUser : kRunFailed;
}

// How long a request to kill may go unanswered before a client that is to end leaves the run. A
// coordinator waits 2 s for a majority to confirm it.
constexpr auto kKillPatience = std::chrono::milliseconds(3000);
// A run that is stopped may wait a minute for copies of its checkpoint.
constexpr std::chrono::seconds kKillLimit{60}, kStopLimit{150};

std::string givingUp(const std::string& run) {
  return fmt::format(
      "`lockstep kill {} --give-up` ends it in the history and on the nodes that answer", run);
}

// `refused`: what its coordinator has answered, if it has.
Error notKilled(const std::string& run, bool isOutOfReach, const std::optional<Error>& refused) {
  Error error = makeError(Code::kUnavailable, "run {} could not be killed", run);
  error.why = isOutOfReach ? message("the node that coordinates it is out of reach")
              : refused    ? refused->message()
                           : message("the node that coordinates it has not answered yet");
  error.next = message("`lockstep attach {}` follows it again; {}", run, givingUp(run));
  return error;
}

// What a person is told where the coordinator has answered, but cannot promise that the run ends.
Error notPromised(const Error& answer, const std::string& run, bool kill) {
  Error error = kill ? makeError(answer.code, "it is not known whether run {} ends", run)
                     : makeError(answer.code, "it is not known whether run {} stops", run);
  error.node = answer.node;
  error.why = answer.why.empty() ? answer.what : answer.why;
  error.next =
      kill ? message("`lockstep attach {}` shows what it does, `lockstep kill {}` asks again", run,
                     run)
           : message(
                 "`lockstep attach {}` shows what it does, `lockstep stop {}` asks again, and "
                 "`lockstep kill {}` ends it at once",
                 run, run, run);
  return error;
}

// Whether a run's end stands in the history, asked of the files as they are now. `refused` is what
// the history said when it took no more.
Status keptInHistory(const Globals& globals, const RunRow& row,
                     const std::optional<Error>& refused) {
  const std::string& run = row.run;
  const auto entry = [&]() -> Result<RunRow> {
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    LOCKSTEP_TRY(history->openRun(run).status());
    return history->row(run);
  }();
  if (entry.ok() && entry->phase == row.phase) return {};
  Error error = makeError(Code::kDataLoss, "the history has not kept run {}", run);
  const Error* full = refused ? &*refused : entry.ok() ? nullptr : &entry.error();
  if (full != nullptr && full->code != Code::kResourceExhausted) full = nullptr;
  if (full != nullptr) {
    error.code = full->code;
    error.why = full->why.empty() ? full->what : message("{}: {}", full->what, full->why);
    error.next = message("free space on the disk of {}, then `lockstep attach {}`",
                         globals.home.historyFolder(), run);
    return error;
  }
  error.why = "files of the history were removed or damaged while it was under way";
  if (!entry.ok()) error.why = message("{}: {}", error.why, entry.error().message());
  error.next = row.modelFile.empty() ? message("look at {}", globals.home.historyFolder())
                                     : message("look at {}; the trained model is {}",
                                               globals.home.historyFolder(), row.modelFile);
  return error;
}

// What a step would have taken without each rank that was slow.
struct StragglerCosts {
  std::vector<StragglerRow> slow;
  StepsWithout steps;
};
Result<StragglerCosts> stragglerCosts(const Globals& globals, const RunRow& row,
                                      std::stop_token stop) {
  constexpr std::size_t kMost = 4;  // a replay of a large plan takes about a second
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(const auto store, history->openRun(row.run));
  std::vector<StragglerRow> slow;
  for (const StragglerRow& one : store->stragglers()) {
    if (one.rank < 0 || one.halted) continue;
    const auto same = std::find_if(slow.begin(), slow.end(),
                                   [&](const StragglerRow& it) { return it.rank == one.rank; });
    if (same == slow.end())
      slow.push_back(one);
    else
      same->lostSeconds += one.lostSeconds;
  }
  std::sort(slow.begin(), slow.end(), [](const StragglerRow& a, const StragglerRow& b) {
    return a.lostSeconds > b.lostSeconds;
  });
  slow.resize(std::min(slow.size(), kMost));
  std::vector<SlowRanks> ranks;
  std::int64_t since = row.figures.steps;
  for (const StragglerRow& one : slow) {
    ranks.push_back({one.rank});
    since = std::min(since, one.sinceStep);
  }
  if (ranks.empty()) return StragglerCosts{};
  LOCKSTEP_ASSIGN(StepsWithout steps,
                  stepsWithout(*history, row, ranks, row.figures.steps - since + 1, stop));
  return StragglerCosts{std::move(slow), std::move(steps)};
}

// Tells them where the run's steps can be replayed, and Ctrl-C is not pressed meanwhile.
void tellStragglerCosts(const Globals& globals, const RunRow& row, Inbox& inbox,
                        RunReport& report) {
  std::stop_source stop;
  auto costs = std::async(std::launch::async, [&] {
    auto out = stragglerCosts(globals, row, stop.get_token());
    inbox.post([] {});  // wakes the loop below
    return out;
  });
  const auto isDone = [&] {
    return costs.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  if (!drainUntil(inbox, isDone, [&] { report.idle(); })) stop.request_stop();
  const Result<StragglerCosts> known = costs.get();
  if (!known.ok()) return;
  for (const StragglerRow& one : known->slow)
    if (!std::isnan(known->steps.without({one.rank}))) report.without(one, known->steps);
}

// With how far it is, now and then.
void tellFiles(const ArtifactsUpdate& update, RunReport& report, Clock::time_point& told) {
  constexpr auto kPause = std::chrono::seconds(1);
  if (update.bytesTotal > 0 && Clock::now() - told > kPause) {
    told = Clock::now();
    report.progress(fmt::format("fetching the program's files: {} of {} MB",
                                update.bytesDone / 1000000, update.bytesTotal / 1000000));
  }
  report.files(update);
}

// The result of an ended run whose files are no longer waited for.
Result<RunResult> leftFiles(const Globals& globals, const std::string& run, RunReport& report) {
  report.progress(
      fmt::format("the program's files are not all here: lockstep artifacts {} fetches them", run));
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(const RunRow row, history->row(run));
  return resultOf(row);
}

// Follows a run to its end. The first Ctrl-C stops it, the second kills it, or leaves it where it
// is out of reach, the third leaves it. `pressed`: the first has come already.
Result<RunResult> follow(const std::string& run, AskingSession& asking, const Globals& globals,
                         Inbox& inbox, RunReport& report, bool pressed) {
  std::optional<RunRow> row;
  std::optional<Error> error, full, refused;  // `refused`: to kill it
  bool over = false, fetching = false;
  Clock::time_point filesTold;
  RunAlerts alerts(globals, inbox, report);
  RunObserver observer = [&](const RunUpdate& update) {
    if (!update.preview) report.update(update);  // lines come in their order
    if (update.artifacts) tellFiles(*update.artifacts, report, filesTold);
    if (update.artifacts) fetching = !update.artifacts->over();
    alerts.take(update);
    if (update.preview) return;
    if (update.row) row = *update.row;
    if (!update.errors.empty() && !error) error = update.errors.front();
    for (const Error& one : update.errors)  // those of the run name a node
      if (one.code == Code::kResourceExhausted && one.node.empty()) full = one;
    over = over || update.finished;
  };
  Recorder recorder(run, asking.session, globals.home, inbox, observer);
  const auto answered = [&report](const Result<RunAnswer>& answer) {
    if (!answer.ok()) report.progress(answer.error().text());
  };
  const auto outOfReach = [&] { return row && row->unreachableNs != 0; };
  std::optional<Clock::time_point> killing;  // a kill that has not been answered
  const auto leaves = [&] {
    return killing && (outOfReach() || Clock::now() - *killing > kKillPatience);
  };
  const auto isPressed = [&] {
    return std::exchange(pressed, false) || !drainUntil(
                                                inbox, [&] { return over || leaves(); },
                                                [&] {
                                                  report.idle();
                                                  alerts.tick();
                                                });
  };
  for (int times = 1; isPressed(); ++times) {
    if (fetching) return leftFiles(globals, run, report);
    if (times == 1) {
      report.progress(outOfReach() ? "the run is out of reach and cannot be stopped (Ctrl-C again "
                                     "leaves it)"
                                   : "stopping: all ranks finish a step and write a checkpoint "
                                     "(Ctrl-C again kills)");
      recorder.ask(RunRequest::kStop, answered);
    } else if (times == 2) {
      report.progress("killing the run");
      killing = Clock::now();
      recorder.ask(RunRequest::kKill, [&](const Result<RunAnswer>& answer) {
        if (answer.ok())
          killing.reset();
        else
          refused = answer.error();
      });
    } else {
      Error left = makeError(Code::kCancelled, "no longer following run {}", run);
      left.next = message("lockstep attach {} follows it again", run);
      return left;
    }
  }
  alerts.finish();
  if (row && isFinal(row->phase)) {
    RunResult result = resultOf(*row);
    if (const Status kept = keptInHistory(globals, *row, full); !kept.ok()) {
      report.failed(kept.error());
      result.missing = "the history has not kept it";
    }
    tellStragglerCosts(globals, *row, inbox, report);
    return result;
  }
  if (!over) {
    const Error left = notKilled(run, outOfReach(), refused);
    report.failed(left);
    return left;
  }
  if (error) return *error;
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(const RunRow stored, history->row(run));
  return resultOf(stored);
}

// Ends a command that tells a run: the error, where there is one, and always "finished".
int conclude(RunReport& report, const Result<RunResult>& result, bool told) {
  if (result.ok()) {
    report.finished(*result);
    return exitCodeFor(*result);
  }
  const Error& error = result.error();
  if (!told) report.failed(error);
  RunResult known;  // what it had come to, as far as this program was told
  known.status = error.code == Code::kCancelled ? "stopped" : "failed";
  known.figures = report.model().figures();
  report.finished(known);
  return exitCodeOf(error);
}

struct Resume {
  CheckpointFolders folders;
  std::string run;
};

// Resolves --resume RUN or DIR to the checkpoint folders on the nodes.
Result<Resume> resumeOf(const Globals& globals, const std::string& text) {
  if (text.find('/') != std::string::npos) return Resume{{absolutePath(text, {}), {}}, {}};
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  Result<RunRow> row = history->find(text);
  if (std::error_code ignored; !row.ok() && std::filesystem::is_directory(text, ignored))
    row.error().next = message("the folder of this name is ./{}", text);
  LOCKSTEP_TRY(row.status());
  LOCKSTEP_ASSIGN(const RunDocuments documents, history->documents(row->run));
  LOCKSTEP_ASSIGN(CheckpointFolders folders, checkpointFoldersOf(row->run, documents));
  return Resume{std::move(folders), row->run};
}

// The cluster with what --requeue or --no-requeue says.
Result<ClusterSpecFile> withRequeueOf(ClusterSpecFile cluster, const Arguments& arguments) {
  const bool on = arguments.has("requeue"), off = arguments.has("no-requeue");
  if (on && off) return invalidArgument("--requeue and --no-requeue exclude each other");
  if (!on && !off) return cluster;
  return withRequeue(std::move(cluster), on);
}

struct Prepared {
  LaunchRequest request;
  RunSpecFile spec;
  std::string clusterFile, clusterWritten;
};
Result<Prepared> prepare(const Globals& globals, const Arguments& arguments) {
  Prepared out;
  LOCKSTEP_ASSIGN(const RunSpecFile spec,
                  loadRunSpec(modelFile(arguments.words()[0]), arguments.all("set")));
  LOCKSTEP_ASSIGN(ClusterSpecFile asked, clusterOf(globals, arguments));
  LOCKSTEP_ASSIGN(const ClusterSpecFile cluster, withRequeueOf(std::move(asked), arguments));
  Resume resume;
  if (arguments.has("resume")) {
    LOCKSTEP_ASSIGN(resume, resumeOf(globals, arguments.text("resume")));
  }
  out.request = requestOf(spec, cluster, arguments);
  out.request.measure = !arguments.has("no-benchmark");
  out.request.resumeFrom = resume.folders;
  out.request.resumedRun = resume.run;
  out.spec = spec;
  out.clusterFile = cluster.file;
  out.clusterWritten = cluster.written;
  return out;
}

// The same for a run of the history, as it ran and where it ran.
Result<Prepared> prepareAgain(const Globals& globals, const Arguments& arguments,
                              RelaunchKind kind) {
  LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
  LOCKSTEP_ASSIGN(const RunRow row, history->find(arguments.words()[0]));
  LOCKSTEP_ASSIGN(const Relaunch again, relaunchOf(*history, row.run, kind));
  Prepared out;
  out.clusterFile = "cluster of run " + row.run;
  LOCKSTEP_ASSIGN(const RunSpecFile spec,
                  completeRunSpec(again.specYaml, "run " + row.run, arguments.all("set")));
  out.spec = spec;
  LOCKSTEP_ASSIGN(ClusterSpecFile written, completeClusterSpec(again.clusterYaml, out.clusterFile));
  LOCKSTEP_ASSIGN(written, withRanks(std::move(written), arguments.all("ranks")));
  LOCKSTEP_ASSIGN(const ClusterSpecFile cluster, withRequeueOf(std::move(written), arguments));
  out.request = requestOf(spec, cluster, arguments);
  out.request.measure = !arguments.has("no-benchmark");
  out.request.resumeFrom = again.checkpoints;
  if (kind == RelaunchKind::kResume) out.request.resumedRun = row.run;
  out.clusterWritten = cluster.written;
  return out;
}

// Ends the job of a run that has ended.
void endJobOf(const spec::v1::ClusterSpec& cluster, const Globals& globals) {
  if (cluster.placement().job() == 0) return;
  const Status ended = endJob(cluster, sessionOptions(globals, 0), {});
  if (!ended.ok()) put(stderr, fmt::format("note: {}\n", ended.error().text()));
}

// Has the scheduler of the cluster, if it has one, allocate its nodes. Ctrl-C cancels the job.
Status allocate(Prepared& prepared, const Globals& globals, Inbox& inbox, RunReport& report) {
  std::optional<Result<std::shared_ptr<const spec::v1::ClusterSpec>>> done;
  AllocationObserver observer;
  observer.onState = [&](const QueueState& state) { report.queued(state); };
  observer.onDone = [&](const auto& result) { done.emplace(result); };
  LaunchRequest& request = prepared.request;
  Allocation allocation(request.cluster, specs::nameOf(*request.spec), sessionOptions(globals, 0),
                        inbox, observer);
  const auto over = [&] { return done.has_value(); };
  if (!drainUntil(inbox, over, [&] { report.idle(); })) {
    report.progress("cancelling the job");
    allocation.cancel();
    (void)drainUntil(inbox, over, [&] { report.idle(); });
    // The job was allocated before it could be cancelled.
    if (done && done->ok()) endJobOf(***done, globals);
    if (!done || done->ok()) return makeError(Code::kCancelled, "the launch was cancelled");
  }
  if (!done->ok()) return done->error();
  request = onAllocated(std::move(request), **done);
  report.allocated(*request.cluster);
  return {};
}

RunResult endedOn(const spec::v1::ClusterSpec& cluster, const RunRow& row, const Globals& globals) {
  endJobOf(cluster, globals);
  return resultOf(row);
}

struct Launched {
  std::string run;
  bool isCancelled = false;  // by Ctrl-C, too late: the run is under way
};
Result<Launched> launch(const Prepared& prepared, AskingSession& asking, const Globals& globals,
                        Inbox& inbox, RunReport& report) {
  std::optional<Result<std::string>> done;
  LaunchObserver observer;
  observer.onProgress = [&](const LaunchProgress& progress) { report.launching(progress); };
  observer.onAddresses = [&](const std::string& text) {
    report.progress("nodes reach each other: " + text);
  };
  observer.onSetup = [&](const SetupOutput& output) { report.settingUp(output); };
  observer.onDone = [&](Result<std::string> result) { done.emplace(std::move(result)); };
  Launch launch(prepared.request, asking.session, globals.home, inbox, observer);
  const auto over = [&] { return done.has_value(); };
  bool isCancelled = false;
  // Pressed again too: what has become of the run is known once the launch is over.
  while (!drainUntil(inbox, over, [&] { report.idle(); })) {
    isCancelled = true;
    report.progress("cancelling the launch");
    launch.cancel();
  }
  if (!done->ok() && isCancelled && done->error().code == Code::kCancelled)
    return makeError(Code::kCancelled, "the launch was cancelled");
  if (!done->ok())
    return withSourceLocation(done->error(), prepared.spec, prepared.clusterWritten,
                              prepared.clusterFile);
  return Launched{**done, isCancelled};
}

// For a run that was given up, since the node that coordinates it is unreachable.
void endOnNodes(const Globals& globals, const History& history, const std::string& run) {
  const std::vector<std::string> nodes = nodesKeeping(history, run);
  const auto cluster = clusterOfRun(history, run);
  if (nodes.empty() || !cluster.ok()) return;
  for (const std::string& node : cleanUpNodesOf(globals, history, run, *cluster, nodes.front()))
    put(stderr,
        fmt::format("note: node {} may go on with the run until it is connected again\n", node));
}

// Returns the error of a recorder that ended early; says that the request has arrived.
Error toldToEnd(Error error, const std::string& run, bool told) {
  if (told) put(stderr, fmt::format("note: run {} was told to end\n", run));
  return error;
}

Error notEnded(const std::string& run, std::chrono::seconds limit, bool kill) {
  Error error =
      makeError(Code::kDeadlineExceeded, "run {} has not ended within {} s", run, limit.count());
  error.next = kill ? "see whether its nodes can be reached: lockstep cluster check FILE"
                    : message("lockstep kill {}", run);
  return error;
}

int stopOrKill(const Globals& globals, const Arguments& arguments, bool kill) {
  const bool json = arguments.has("json"), giveUp = arguments.has("give-up");
  watchInterrupts();
  std::string run, ended;  // what is said of a run that never began
  bool outOfReach = false;
  auto result = [&]() -> Result<RunResult> {
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    LOCKSTEP_ASSIGN(const RunRow row, history->find(arguments.words()[0]));
    if (row.phase == RunState::EXPIRED) ended = stateName(row.phase);
    if (isFinal(row.phase)) return resultOf(row);
    run = row.run;
    if (giveUp && row.unreachableNs != 0) {
      outOfReach = true;
      return notKilled(run, true, {});
    }
    LOCKSTEP_ASSIGN(const auto cluster, clusterOfRun(*history, row.run));
    Inbox inbox;
    AskingSession asking(cluster, globals, inbox);
    std::optional<RunRow> last;
    std::optional<Error> error, asked;
    bool over = false, told = false;
    const auto limit = kill ? kKillLimit : kStopLimit;
    auto end = Clock::now() + limit;
    Recorder recorder(row.run, asking.session, globals.home, inbox, [&](const RunUpdate& update) {
      if (update.row) last = *update.row;
      if (!update.errors.empty()) error = update.errors.front();
      if (update.artifacts) end = Clock::now() + limit;  // it ends after them
      over = over || update.finished;
    });
    const auto answered = [&](const Result<RunAnswer>& answer) {
      told = answer.ok();
      if (!answer.ok()) asked = answer.error();
    };
    recorder.ask(kill ? RunRequest::kKill : RunRequest::kStop, answered);
    // A recorder that cannot read the run's history ends at once; the request still has to arrive.
    const auto isOver = [&] { return over && (told || !error); };
    const bool interrupted =
        !drainUntil(inbox, [&] { return isOver() || asked || Clock::now() > end; });
    if (interrupted) return makeError(Code::kCancelled, "no longer waiting for run {}", row.run);
    if (last && isFinal(last->phase)) return endedOn(*cluster, *last, globals);
    if (asked) {
      const bool isOpen = asked->code == Code::kAborted;
      // Also one that has ended without the other nodes, which may go on, answers.
      outOfReach = asked->code == Code::kUnavailable || asked->code == Code::kDeadlineExceeded ||
                   (isOpen && last && last->unreachableNs != 0);
      return isOpen && !outOfReach ? notPromised(*asked, row.run, kill) : *asked;
    }
    if (over && error) return toldToEnd(*error, row.run, told);
    return notEnded(row.run, limit, kill);
  }();
  if (outOfReach) {
    result = [&, asked = result.error()]() -> Result<RunResult> {
      LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
      LOCKSTEP_ASSIGN(RunRow row, history->row(run));
      if (isFinal(row.phase)) return resultOf(row);
      if (row.unreachableNs == 0) {
        row.unreachableNs = wallNow();
        LOCKSTEP_TRY(history->update(row));
      }
      if (giveUp) {
        LOCKSTEP_TRY(history->giveUp(run));
        endOnNodes(globals, *history, run);
        LOCKSTEP_ASSIGN(const RunRow left, history->row(run));
        return resultOf(left);
      }
      Error error = asked;
      error.next = givingUp(run);
      return error;
    }();
  }
  if (!result.ok()) {
    report(result.error(), json);
    return exitCodeOf(result.error());
  }
  if (json)
    makeReport({true, 0})->finished(*result);
  else
    put(stdout, (ended.empty() ? resultText(*result) : ended) + "\n");
  return kSucceeded;
}

// How the scheduler's job of a run stands that did not end well; nothing of other runs.
std::optional<JobOutlook> outlookAfter(const spec::v1::ClusterSpec& cluster,
                                       const RunResult& result, const Globals& globals) {
  if (cluster.placement().job() == 0 || result.status == "succeeded") return {};
  auto job = outlookOf(cluster, sessionOptions(globals, 0), {});
  return job.ok() ? std::optional(std::move(*job)) : std::nullopt;
}

Error endedByScheduler(const LaunchRequest& request, const std::string& run,
                       const JobOutlook& job) {
  const spec::v1::ClusterSpec& cluster = *request.cluster;
  Error error =
      makeError(Code::kAborted, "{} ended job {} while run {} was under way",
                specs::schedulerName(cluster.placement()), cluster.placement().job(), run);
  error.why = message("its state is {}", job.state);
  error.next = request.spec->has_workload()
                   ? message("`lockstep rerun {}` starts the program again", run)
                   : message("`lockstep resume {}` continues from its checkpoint", run);
  return error;
}

// A launch, with the run that it led to.
struct Ran {
  int code = kRunFailed;
  std::optional<LaunchRequest> next = {};  // that continues it
  std::string run = {};
  RunResult result = {};  // where it may be continued
};

// Where the strategy is open, finds one for what the nodes have.
Status findOpenStrategy(Prepared& prepared, AskingSession& asking, const Arguments& arguments,
                        Inbox& inbox, RunReport& report) {
  if (!specs::isOpen(prepared.request.spec->strategy())) return {};
  LOCKSTEP_ASSIGN(const std::vector<HostFacts> hosts,
                  connectedHosts(asking.session, inbox, [&] { report.idle(); }));
  auto chosen = withStrategy(prepared.request, prepared.spec, hosts, arguments);
  if (!chosen.ok())
    return withSourceLocation(chosen.error(), prepared.spec, prepared.clusterWritten,
                              prepared.clusterFile);
  prepared.request = *std::move(chosen);
  const auto cluster = prepared.request.cluster;
  if (cluster->placement().job() != 0)  // its settings go with the spec that is replaced
    prepared.request = onAllocated(std::move(prepared.request), cluster);
  report.progress(prepared.request.chosen.text());
  return {};
}

Ran launchOnce(Prepared& prepared, const Globals& globals, const Arguments& arguments, Inbox& inbox,
               RunReport& report) {
  const bool json = arguments.has("json");
  const auto failed = [&](const Error& error) {
    endJobOf(*prepared.request.cluster, globals);
    return Ran{conclude(report, error, false)};
  };
  AskingSession asking(prepared.request.cluster, globals, inbox);
  const Status found = findOpenStrategy(prepared, asking, arguments, inbox, report);
  if (!found.ok()) return failed(found.error());
  const auto launched = launch(prepared, asking, globals, inbox, report);
  if (!launched.ok()) return failed(launched.error());
  const std::string& run = launched->run;
  // A run that has begun while its launch was cancelled is followed until it has stopped.
  const bool detach = arguments.has("detach") && !launched->isCancelled;
  const auto context = [&]() -> Result<RunContext> {
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    return contextOf(*history, run);
  }();
  if (!context.ok()) return {conclude(report, context.error(), false), {}, run};
  if (detach && !json) {
    put(stdout, run + "\n");
    return {kSucceeded, {}, run};
  }
  report.started(*context);
  if (detach) return {kSucceeded, {}, run};
  const auto result = follow(run, asking, globals, inbox, report, launched->isCancelled);
  const bool left = !result.ok() && result.error().code == Code::kCancelled;
  const auto& cluster = *prepared.request.cluster;
  std::optional<JobOutlook> job;
  if (result.ok() && interrupts() == 0) job = outlookAfter(cluster, *result, globals);
  const bool ended = job && job->stoppedRuns && !cluster.placement().requeue();
  if (ended) report.failed(endedByScheduler(prepared.request, run, *job));
  const int code = conclude(report, result, !result.ok() && !left);
  if (!result.ok()) return {code, {}, run};
  if (job)
    if (auto next = continuationOf(prepared.request, run, *job, globals.home.historyFolder()))
      return {code, std::move(next), run, *result};
  endJobOf(cluster, globals);
  return {ended ? kNode : code, {}, run};
}

template <typename Prepare>
LaunchedRun launchAndFollow(const Globals& globals, const Arguments& arguments, Prepare prepare) {
  watchInterrupts();
  const bool json = arguments.has("json");
  auto every = arguments.integer("every", 0, 1, 1'000'000'000);
  auto reporter = makeReport({json, every.ok() ? *every : 0});
  if (!every.ok()) return {conclude(*reporter, every.error(), false), {}};
  Result<Prepared> prepared = prepare();
  if (!prepared.ok()) return {conclude(*reporter, prepared.error(), false), {}};

  Inbox inbox;
  if (awaitsAllocation(prepared->request))
    if (const Status got = allocate(*prepared, globals, inbox, *reporter); !got.ok())
      return {conclude(*reporter, got.error(), false), {}};
  for (;;) {
    Ran ran = launchOnce(*prepared, globals, arguments, inbox, *reporter);
    if (!ran.next) return {ran.code, ran.run};
    // The job may have been cancelled meanwhile, by whoever stopped the run.
    reporter = makeReport({json, *every});
    reporter->progress(fmt::format("waiting until {} starts the job again",
                                   specs::schedulerName(ran.next->cluster->placement())));
    prepared->request = *std::move(ran.next);
    const Status got = allocate(*prepared, globals, inbox, *reporter);
    if (!got.ok()) {
      reporter->progress(got.error().text());
      reporter->finished(ran.result);  // again, behind what was told of the job
      return {ran.code, ran.run};
    }
  }
}

}  // namespace

LaunchedRun launchRun(const Globals& globals, const Arguments& arguments) {
  return launchAndFollow(globals, arguments, [&] { return prepare(globals, arguments); });
}
int runCommand(const Globals& globals, const Arguments& arguments) {
  return launchRun(globals, arguments).exit;
}
int rerunCommand(const Globals& globals, const Arguments& arguments) {
  return launchAndFollow(globals, arguments,
                         [&] { return prepareAgain(globals, arguments, RelaunchKind::kRerun); })
      .exit;
}
int resumeCommand(const Globals& globals, const Arguments& arguments) {
  return launchAndFollow(globals, arguments,
                         [&] { return prepareAgain(globals, arguments, RelaunchKind::kResume); })
      .exit;
}

int attachCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  auto every = arguments.integer("every", 0, 1, 1'000'000'000);
  const auto reporter = makeReport({json, every.ok() ? *every : 0});
  if (!every.ok()) return conclude(*reporter, every.error(), false);
  RunRow row;
  std::shared_ptr<const spec::v1::ClusterSpec> cluster;
  const Status found = [&]() -> Status {
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    LOCKSTEP_ASSIGN(row, history->find(arguments.words()[0]));
    LOCKSTEP_ASSIGN(const RunContext context, contextOf(*history, row.run));
    const auto store = history->openRun(row.run);
    const bool lacksFiles = store.ok() && lacksArtifacts(**store, row);
    if (!isFinal(row.phase) || lacksModel(row) || lacksFiles) {
      LOCKSTEP_ASSIGN(cluster, clusterOfRun(*history, row.run));
    }
    reporter->started(context);
    if (auto stored = storedUpdate(*history, row.run); stored.ok())
      reporter->update(*stored);
    else
      put(stderr, fmt::format("note: {}\n", stored.error().text()));
    return {};
  }();
  if (!found.ok()) return conclude(*reporter, found.error(), false);
  if (cluster == nullptr) return conclude(*reporter, resultOf(row), true);
  Inbox inbox;
  AskingSession asking(cluster, globals, inbox);
  const auto result = follow(row.run, asking, globals, inbox, *reporter, false);
  // Whoever launched it waits for the start of a job that is queued again.
  if (result.ok() && (!mayBeQueuedAgain(*cluster) || result->status == "succeeded"))
    endJobOf(*cluster, globals);
  return conclude(*reporter, result, !result.ok() && result.error().code != Code::kCancelled);
}

int stopCommand(const Globals& globals, const Arguments& arguments) {
  return stopOrKill(globals, arguments, false);
}
int killCommand(const Globals& globals, const Arguments& arguments) {
  return stopOrKill(globals, arguments, true);
}

}  // namespace lockstep::app::cli
