#include "app/runs/recorder.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

#include "app/cluster/run_cleanup.h"
#include "app/core/idle_timeout.h"
#include "app/core/rpc.h"
#include "app/runs/artifacts.h"
#include "app/runs/energy.h"
#include "app/runs/live_preview.h"
#include "app/runs/load_parts.h"
#include "app/runs/node_records.h"
#include "app/runs/rank_costs.h"
#include "app/runs/refill.h"
#include "app/runs/run_aggregator.h"
#include "app/runs/run_nodes.h"
#include "app/runs/stored_run.h"
#include "app/sinks/run_sinks.h"
#include "app/specs/spec_text.h"
#include "engine/base/clock.h"
#include "engine/plan/plan.h"
#include "engine/specs/workload.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::app {
namespace {

using namespace std::chrono_literals;

constexpr auto kTick = 33ms;
// Time limits for nodes whose last record is missing when the run has ended: without a record; for
// a first answer; while they send nothing but samples and logs.
constexpr auto kGrace = 5s, kFirstWord = 30s, kMostGrace = 60s;
// Records before the cursor, see RunAggregator: steps of some seconds, which one node may have told
// before the others.
constexpr std::uint64_t kReplayWindow = 512;
constexpr std::size_t kMostQueued = 4096;
constexpr std::size_t kMostUnkept = 2'000'000;  // points and lines the history could not take yet
constexpr auto kKept = 250ms;                   // at least between two writes to the history
constexpr auto kAgain = 500ms;                  // after one that failed
constexpr auto kCallLimit = 10s;                // of a stop or kill
constexpr auto kAskLimit = 2500ms;              // of one try of it
constexpr auto kAway = 3s;                      // without the coordinator until the history says so
constexpr auto kNews = 10s;                     // a change that is older is of the past
constexpr auto kProfilePause = 5s;  // between two requests; a straggler may come and go faster
constexpr auto kGivenUp = 1s;       // between looks whether a run out of reach was given up

std::size_t sizeOf(const RunBatch& batch) {
  std::size_t out =
      batch.logs.size() + batch.epochs.size() + batch.errors.size() + 100 * batch.events.size();
  for (const auto& series : batch.series) out += series.points.size();
  return out;
}

// Appends a later batch; a series may appear twice, in order.
void append(RunBatch& to, RunBatch&& from) {
  const auto move = [](auto& into, auto& out) {
    into.insert(into.end(), std::make_move_iterator(out.begin()),
                std::make_move_iterator(out.end()));
  };
  move(to.series, from.series);
  move(to.logs, from.logs);
  move(to.epochs, from.epochs);
  move(to.errors, from.errors);
  move(to.events, from.events);
  move(to.stragglers, from.stragglers);
  move(to.restarts, from.restarts);
  move(to.facts, from.facts);
  move(to.cursors, from.cursors);
}

std::vector<NodeAccess*> accessOf(const std::vector<RunNode>& nodes) {
  std::vector<NodeAccess*> out;
  for (const RunNode& node : nodes) out.push_back(node.access);
  return out;
}

}  // namespace

struct Recorder::State {
  State(std::string run, ClusterSession& session, const Home& home, Inbox& inbox,
        RunObserver observer)
      : run(std::move(run)),
        session(session),
        home(home),
        inbox(inbox),
        observer(std::move(observer)) {}

  const std::string run;
  ClusterSession& session;
  const Home home;
  Inbox& inbox;
  RunObserver observer;
  std::shared_ptr<void> alive = std::make_shared<int>(0);
  const std::weak_ptr<void> owner = alive;  // for the threads
  std::vector<RunNode> nodes;               // of the writer

  // Between followers and the writer.
  std::mutex mutex;
  std::condition_variable_any filled, emptied;
  std::vector<std::pair<std::string, run::v1::Record>> queue;
  std::vector<RunUpdate::Node> nodeStates;
  std::map<std::string, Error> gone;  // nodes that have no records of the run
  std::string coordinator;            // "": the first node

  std::jthread writer;              // ends the followers with itself
  std::vector<std::jthread> calls;  // requests to the run

  void post(RunUpdate&& update) {
    update.run = run;
    inbox.post(owner, [this, update = std::move(update)] { observer(update); });
  }
  // Posts an update for each part. What else an update says is copied from `like`.
  void postParts(std::vector<std::vector<RunBatch::Series>> parts, const RunUpdate& like) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      RunUpdate update;
      update.preview = like.preview;
      update.ending = like.ending;
      update.series = std::move(parts[i]);
      update.more = i + 1 < parts.size();
      post(std::move(update));
    }
  }
  // Posts the row first, which says when the run began, then the loads in parts, then the rest.
  void postInParts(RunUpdate update) {
    LoadParts loads;
    loads.collect(update.series);
    if (update.row && !update.finished) {
      RunUpdate first;
      first.row = std::exchange(update.row, std::nullopt);
      post(std::move(first));
    }
    postParts(loads.take(LoadParts::Clock::now(), true), update);
    if (!update.preview || !update.series.empty()) post(std::move(update));
  }
  void tellNode(const std::string& name, bool reachable, bool live, Message detail) {
    std::lock_guard lock(mutex);
    nodeStates.push_back({name, reachable, live, std::move(detail)});
    filled.notify_one();
  }
  Result<std::vector<RunNode>> findNodes(const History& history) const;
  void follow(const RunNode& node, std::uint64_t after, const std::stop_token& stop);
  class Recording;
  void read(History& history, RunStore& store, const std::stop_token& stop);
  void write(std::stop_token stop);
  // `missing`: why the file of an ended run could not be filled again.
  void finish(History& history, RunRow row, bool kept, const RunNode& coordinator,
              const std::stop_token& stop, std::vector<Error> missing = {});
  void fetchFiles(const History& history, const RunRow& row, const std::stop_token& stop);
  // Of the run's nodes, the one that coordinates it.
  const RunNode& coordinatorOf(const std::vector<RunNode>& all);
  Result<RunAnswer> ask(RunRequest what, const std::stop_token& stop);
  void call(const RunRequest& what, std::function<void(Result<RunAnswer>)> done);
};

// One node's records into the queue, until its last one.
void Recorder::State::follow(const RunNode& node, std::uint64_t after,
                             const std::stop_token& stop) {
  RecordSink sink;
  sink.record = [&](run::v1::Record&& record) {
    std::unique_lock lock(mutex);
    emptied.wait(lock, stop, [&] { return queue.size() < kMostQueued; });
    queue.emplace_back(node.name, std::move(record));
    filled.notify_one();
    return true;
  };
  sink.reach = [&](bool answers, Message why) {
    tellNode(node.name, answers, answers, std::move(why));
  };
  const Status ended = readRecords(run, node, after, sink, stop);
  if (ended.ok()) return;
  std::lock_guard lock(mutex);
  gone[node.name] = ended.error();
  filled.notify_one();
}

namespace {
// If it is known whole.
bool addEnergy(const History& history, RunRow& row) {
  const auto documents = history.documents(row.run);
  const auto store = history.openRun(row.run);
  if (!documents.ok() || !store.ok()) return false;
  const auto energy = measuredEnergy(**store, *documents);
  return energy.ok() && setEnergy(*energy, row.figures);
}
}  // namespace

// Those of a program, which are told as they come.
void Recorder::State::fetchFiles(const History& history, const RunRow& row,
                                 const std::stop_token& stop) {
  const auto store = history.openRun(run);
  if (!store.ok() || !lacksArtifacts(**store, row)) return;
  const auto tell = [this](ArtifactsUpdate what) {
    RunUpdate update;
    update.ending = true;
    update.artifacts.emplace(std::move(what));
    post(std::move(update));
  };
  ArtifactsObserver observer;
  observer.onBytes = [&](std::int64_t done, std::int64_t total) {
    tell({.bytesDone = done, .bytesTotal = total});
  };
  observer.onFile = [&](const ArtifactFile& file) { tell({.files = {file}}); };
  tell({});  // it begins: nodes list their files first
  const auto fetched = fetchWanted(run, history, **store, nodes, home, observer, stop);
  ArtifactsUpdate last;
  if (fetched.ok())
    last.found = *fetched;
  else
    last.error = fetched.error();
  if (!stop.stop_requested()) tell(std::move(last));
}

// With its model where that can be had; without it the run has ended all the same.
void Recorder::State::finish(History& history, RunRow row, bool kept, const RunNode& coordinator,
                             const std::stop_token& stop, std::vector<Error> missing) {
  if (lacksModel(row)) {
    std::vector<RunNode> holders{coordinator};  // others may have a copy
    for (const RunNode& node : nodes)
      if (node.name != coordinator.name) holders.push_back(node);
    auto model = downloadModel(run, holders, home, stop);
    if (model.ok()) {
      row.modelFile = *model;
    } else if (!stop.stop_requested()) {
      RunUpdate update;
      update.errors.push_back(model.error());
      post(std::move(update));
    }
  }
  // A run whose end stands in the history is not asked for again, but for its model.
  if (kept) (void)history.update(row);
  if (kept && row.figures.joules == 0 && missing.empty() && addEnergy(history, row))
    (void)history.update(row);
  if (kept) fetchFiles(history, row, stop);
  RunUpdate update;
  update.row = std::move(row);
  update.errors = std::move(missing);
  update.finished = true;
  post(std::move(update));
}

// Writes what the followers bring to the history and posts it, until the run's end.
class Recorder::State::Recording {
 public:
  Recording(State& state, History& history, RunStore& store, RunRow row,
            const std::stop_token& stop)
      : state_(state), history_(history), store_(store), stop_(stop) {
    if (!store.about(kAboutRefill).empty()) before_ = row;
    std::vector<RunAggregator::NodeCursor> cursors;
    for (const RunNode& node : state.nodes) cursors.push_back({node.name, store.cursor(node.name)});
    // Another recorder may have begun to fill the file, and the row with it.
    const bool begins = std::all_of(cursors.begin(), cursors.end(),
                                    [](const auto& cursor) { return cursor.sequence == 0; });
    if (before_ && (begins || isFinal(row.phase))) row = unbegun(std::move(row));
    preview_.emplace(state.run, state.nodes, row,
                     [&state](RunUpdate update) { state.postInParts(std::move(update)); });
    book_.emplace(std::move(row), cursors, sharesOf(history), store.facts());
    beginSinks();
    for (std::size_t i = 0; i < state.nodes.size(); ++i)
      followers_.emplace_back([&state, &node = state.nodes[i],
                               cursor = cursors[i].sequence](const std::stop_token& own) {
        state.follow(node, cursor > kReplayWindow ? cursor - kReplayWindow : 0, own);
      });
  }
  ~Recording() {
    for (auto& follower : followers_) follower.request_stop();
  }

  plan::BatchShares sharesOf(const History& history) const {
    const auto documents = history.documents(state_.run);
    const auto plan = plan::parse(documents.ok() ? documents->plan : "");
    return plan.ok() ? plan::BatchShares(*plan) : plan::BatchShares();
  }

  // A run whose file is filled again after its end has been handed on before.
  void beginSinks() {
    const auto documents = history_.documents(state_.run);
    if (!documents.ok() || readAgain()) return;
    const auto spec = completeRunSpec(documents->specResolved, {});
    if (spec.ok() && spec->spec->has_sinks())
      sinks_.emplace(history_.folder(), state_.run, spec->spec->sinks());
  }

  void tellSinks() {
    if (!sinks_) return;
    for (Error& warning : sinks_->warnings()) book_->warn(std::move(warning));
  }

  void endSinks() {
    if (!sinks_) return;
    sinks_->finish(stop_);
    tellSinks();
    if (!book_->empty()) publish({});
  }

  void run() {
    for (;;) {
      const Taken taken = take();
      for (const auto& [name, record] : taken.records) {
        book_->add(name, record);
        refill_.note(name, record);
        if (!tellsOfLater(record)) heard_[name] = Clock::now();  // the run's last records
      }
      noteCoordinator();
      noteReach(taken.states);
      tellSinks();
      if (endedElsewhere(taken.lost))
        return cleanUpNodes(state_.home, accessOf(state_.nodes), stop_);
      if (cannotFollow(taken.lost)) return (void)keep({}, true);
      noteLost(taken.lost);
      if (!book_->empty() || !taken.states.empty()) publish(taken.states);
      postLoads(false);
      if (isOver(taken.lost)) {
        for (auto& follower : followers_) follower.request_stop();
        // The last node may have sent its end just now, where the coordinator cannot tell it.
        if (!writing_ || !pending_.cursors.empty()) (void)keep({}, true);
        endSinks();
        postLoads(true);
        (void)store_.closeStragglers(book_->row().finishedNs);
        noteLeft(taken.lost);
        std::vector<Error> missing = missingOf(taken.lost);
        if (writing_ && before_ && missing.empty()) (void)store_.setAbout({{kAboutRefill, ""}});
        return state_.finish(history_, readAgain() ? *before_ : book_->row(), writing_,
                             state_.coordinatorOf(state_.nodes), stop_, std::move(missing));
      }
      if (stop_.stop_requested()) break;  // not before what has come is taken: it may be the end
      // At most about thirty updates a second, and no later than that.
      if (taken.records.empty()) continue;
      if (!sleepFor(10ms, stop_)) break;
    }
    (void)keep({}, true);
    if (latest_) keepRow(*latest_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Taken {
    std::vector<std::pair<std::string, run::v1::Record>> records;
    std::vector<RunUpdate::Node> states;
    std::map<std::string, Error> lost;  // nodes that have no records of the run
  };
  // Since when the coordinator is out of reach, and from when on that is told.
  struct Away {
    std::int64_t wallNs;
    Clock::time_point told;
  };

  Taken take() {
    Taken out;
    std::unique_lock lock(state_.mutex);
    state_.filled.wait_for(lock, stop_, kTick,
                           [&] { return !state_.queue.empty() || !state_.nodeStates.empty(); });
    out.records.swap(state_.queue);
    out.states.swap(state_.nodeStates);
    out.lost = state_.gone;
    state_.emptied.notify_all();
    return out;
  }

  // Resets the row before its records are read again.
  static RunRow unbegun(RunRow row) {
    row.phase = RunState::LAUNCHING;
    row.startedNs = row.finishedNs = row.heardNs = row.unreachableNs = 0;
    row.generation = 1;
    row.error = {};
    row.figures = {.metric = row.figures.metric};
    return row;
  }

  // Whether the run had ended, and only its file is filled again.
  bool readAgain() const { return before_ && isFinal(before_->phase); }

  // The history already has the row of such a run.
  void keepRow(const RunRow& row) {
    if (!readAgain()) (void)history_.update(row);
  }

  // Why a file that is filled again lacks something of the run; empty if it does not.
  std::vector<Error> missingOf(const std::map<std::string, Error>& lost) const {
    if (!before_) return {};
    std::vector<std::string> unfinished;
    for (const RunNode& node : state_.nodes)
      if (!book_->finished(node.name)) unfinished.push_back(node.name);
    const bool none = before_->figures.steps > 0 && store_.series().empty();
    return refill_.missing(*before_, none, unfinished, lost);
  }

  const std::string& coordinator() const { return book_->coordinator(); }

  // Whoever opens the run later asks the node that took over first.
  void noteCoordinator() {
    if (state_.coordinatorOf(state_.nodes).name == coordinator()) return;
    {
      std::lock_guard lock(state_.mutex);
      state_.coordinator = coordinator();
    }
    away_.reset();
    auto documents = history_.documents(state_.run);
    if (!documents.ok()) return;
    documents->nodes = nodesFrom(documents->nodes, coordinator());
    (void)history_.setDocuments(state_.run, *documents);
  }

  void noteReach(const std::vector<RunUpdate::Node>& states) {
    const auto now = Clock::now();
    for (const auto& node : states) {
      const auto heard = heard_.try_emplace(node.name, now).first;
      if (node.reachable) {
        heard->second = now;
        refill_.reached(node.name);
      } else {
        refill_.unreached(node.name, node.detail);
      }
      if (node.name != coordinator()) continue;
      // One that was never reached has been away for longer than this recorder knows.
      if (!node.reachable && !away_) away_ = Away{wallNow(), reached_ ? now + kAway : now};
      if (node.reachable) away_.reset();
      reached_ = reached_ || node.reachable;
    }
    if (!away_ && reached_) book_->setUnreachable(0);
    if (away_ && now >= away_->told && book_->row().unreachableNs == 0)
      book_->setUnreachable(away_->wallNs);
  }

  // Whether another program has given the run up while it was out of reach.
  bool endedElsewhere(const std::map<std::string, Error>& lost) {
    if (book_->row().unreachableNs == 0 || (Clock::now() < lookDue_ && !latest_)) return false;
    lookDue_ = Clock::now() + kGivenUp;
    auto kept = history_.row(state_.run);
    if (!kept.ok() || !isFinal(kept->phase)) return false;
    for (auto& follower : followers_) follower.request_stop();
    RunUpdate update;
    update.row = std::move(*kept);
    update.errors = missingOf(lost);
    update.finished = true;
    postLoads(true);
    state_.post(std::move(update));
    return true;
  }

  // Whether the coordinator's supervisor is of a version that this program cannot talk to. The run
  // goes on: another version of this program may follow it.
  bool cannotFollow(const std::map<std::string, Error>& lost) {
    const auto found = lost.find(coordinator());
    if (found == lost.end() || found->second.code != Code::kFailedPrecondition || book_->ended())
      return false;
    RunUpdate update;
    update.errors.push_back(found->second);
    update.finished = true;
    postLoads(true);
    state_.post(std::move(update));
    return true;
  }

  void noteLost(const std::map<std::string, Error>& lost) {
    const auto found = lost.find(coordinator());
    if (found == lost.end() || book_->ended() || readAgain()) return;
    Error error = found->second;
    if (error.code == Code::kNotFound)
      error.why = "the run's folder there was removed, or the node has another work folder now";
    error.next =
        "what was recorded until then stays in the history; `lockstep rerun` launches it again";
    book_->fail(error);
  }

  // What the history could not take is kept and comes before what follows it: a cursor never
  // passes over records that were not written. Too much of it is given up, and with it recording:
  // the nodes' spools have it for a recorder that comes later.
  Status keep(RunBatch batch, bool now) {
    if (givenUp_) return {};
    append(pending_, std::move(batch));
    if (!now && Clock::now() < again_) return {};
    Status kept = store_.append(pending_);
    again_ = Clock::now() + (kept.ok() ? kKept : kAgain);
    if (kept.ok()) pending_ = {};
    if (!kept.ok() && sizeOf(pending_) > kMostUnkept) {
      givenUp_ = true;
      pending_ = {};
    }
    const bool fresh = std::exchange(writing_, kept.ok());
    return fresh ? kept : Status();  // told once
  }

  // When a rank or link begins or ceases to be slow, the run records all events of its next steps:
  // few of them differ enough from the others to be recorded as slow ones.
  void profileAt(const std::vector<StragglerChange>& changes,
                 const std::vector<StragglerRow>& rows) {
    constexpr int kSteps = 3;
    const bool isNews = std::ranges::any_of(changes, [](const StragglerChange& change) {
      return change.kind != StragglerChange::Kind::kCauseKnown;
    });
    // Not at what is read of the past.
    if (isNews && wallNow() - rows.back().wallNs < std::chrono::nanoseconds(kNews).count())
      profileWanted_ = true;
    const RunRow& row = book_->row();
    if (row.phase != RunState::RUNNING || row.strategy == specs::kProgramStrategy)
      profileWanted_ = false;
    if (!profileWanted_ || profiling_ || Clock::now() < profileDue_) return;
    profileWanted_ = false;
    profiling_ = true;
    profileDue_ = Clock::now() + kProfilePause;
    profile_ = std::jthread([this](const std::stop_token& stop) {
      RunRequest what = RunRequest::kProfile;
      what.steps = kSteps;
      (void)state_.ask(what, stop);  // a run that cannot be asked now goes on without
      profiling_ = false;
    });
  }

  void publish(std::vector<RunUpdate::Node> states) {
    RunAggregator::Taken taken = book_->take();
    taken.update.nodes = std::move(states);
    const std::vector<RunBatch::Cursor> reached = taken.batch.cursors;
    profileAt(taken.update.stragglers, taken.batch.stragglers);
    if (taken.update.row) latest_ = *taken.update.row;
    // Curves go on on the screen whether or not the history can take them.
    if (Status kept = keep(std::move(taken.batch), book_->ended()); !kept.ok())
      taken.update.errors.push_back(kept.error());
    if (latest_ && (book_->ended() || Clock::now() >= rowDue_)) {
      keepRow(*latest_);
      latest_.reset();
      rowDue_ = Clock::now() + kKept;
    }
    loads_.collect(taken.update.series);
    state_.post(std::move(taken.update));
    for (const auto& [node, sequence] : reached) preview_->reached(node, sequence);
  }

  void postLoads(bool all) {
    RunUpdate like;
    like.ending = book_->ended();
    state_.postParts(loads_.take(Clock::now(), all), like);
  }

  // Whether the run has ended and every node's last record is there, or waited for long enough.
  bool isOver(const std::map<std::string, Error>& lost) {
    if (!book_->ended() && !(readAgain() && lost.contains(coordinator()))) return false;
    const auto now = Clock::now();
    if (!endedAt_) endedAt_ = now;
    return std::all_of(state_.nodes.begin(), state_.nodes.end(), [&](const RunNode& node) {
      if (book_->finished(node.name) || lost.contains(node.name)) return true;
      const auto heard = heard_.find(node.name);
      if (heard == heard_.end()) return now - *endedAt_ > kFirstWord;
      return now - std::max(*endedAt_, heard->second) > kGrace;
    });
  }

  // Whether a record was made after the run's end: its node has told all of the run.
  bool tellsOfLater(const run::v1::Record& record) const {
    const std::int64_t ended = bounded(book_->row().finishedNs);
    if (ended == 0) return false;
    // The node's clock may be behind.
    if (!record.has_steps() && endedAt_ && Clock::now() - *endedAt_ > kMostGrace) return true;
    return bounded(record.wall_ns()) > ended + std::chrono::nanoseconds(kGrace).count();
  }

  // A node that was left out waits to come back, until somebody tells it that the run has ended.
  void noteLeft(const std::map<std::string, Error>& lost) {
    const bool all =
        std::all_of(state_.nodes.begin(), state_.nodes.end(), [&](const RunNode& node) {
          return book_->hasEnded(node.name) || lost.contains(node.name);
        });
    if (!all && book_->hasEnded(coordinator()) && !readAgain()) (void)history_.noteLeft(state_.run);
  }

  State& state_;
  History& history_;
  RunStore& store_;
  const std::stop_token& stop_;
  std::optional<RunRow> before_;  // of a run whose file replaces a damaged one
  std::optional<RunAggregator> book_;
  RunBatch pending_;
  LoadParts loads_;               // not posted yet
  std::optional<RunRow> latest_;  // not written yet
  bool writing_ = true, givenUp_ = false;
  Clock::time_point again_ = Clock::now(), rowDue_ = again_, lookDue_ = again_;
  std::optional<Away> away_;
  Refill refill_;
  bool reached_ = false;
  std::optional<Clock::time_point> endedAt_;
  // When each node last sent a record of the run or answered, or was first found unreachable.
  std::map<std::string, Clock::time_point> heard_;
  std::vector<std::jthread> followers_;
  std::optional<LivePreview> preview_;
  std::optional<RunSinks> sinks_;
  bool profileWanted_ = false;
  Clock::time_point profileDue_ = again_;
  std::atomic<bool> profiling_ = false;  // a request is under way
  std::jthread profile_;                 // last member: joined first
};

// Another process records: what it writes is told here as it appears.
void Recorder::State::read(History& history, RunStore& store, const std::stop_token& stop) {
  StoredRun stored(run, history, store,
                   [this](RunUpdate update) { postInParts(std::move(update)); });
  do {
    if (stored.tell(stop)) return;
    if (!store.lockForRecording().ok()) continue;
    const auto now = history.row(run);
    if (!now.ok() || isFinal(now->phase)) continue;
    return Recording(*this, history, store, *now, stop).run();
  } while (sleepFor(200ms, stop));
}

void Recorder::State::write(std::stop_token stop) {
  const auto failed = [this](const Error& error) {
    RunUpdate update;
    update.errors.push_back(error);
    update.finished = true;
    post(std::move(update));
  };
  auto history = History::open(home.historyFolder());
  if (!history.ok()) return failed(history.error());
  auto found = findNodes(**history);
  if (!found.ok()) return failed(found.error());
  nodes = std::move(*found);
  // A session may have been open since before a run was deleted.
  const std::jthread cleanup(
      [this](const std::stop_token& end) { cleanUpNodes(home, accessOf(nodes), end); });
  auto row = (*history)->row(run);
  if (!row.ok()) return failed(row.error());
  auto store = (*history)->openRun(run);
  if (!store.ok()) return failed(store.error());
  const bool refill = !(*store)->about(kAboutRefill).empty();
  const bool over = isFinal(row->phase) && !refill;
  const Status locked = (*store)->lockForRecording();
  if (locked.ok() && !refill && (lacksModel(*row) || lacksArtifacts(**store, *row)))
    return finish(**history, std::move(*row), true, nodes.front(), stop);
  if (over || !locked.ok()) {
    if (!over && locked.code() != Code::kAlreadyExists) return failed(locked.error());
    return read(**history, **store, stop);
  }
  Recording(*this, **history, **store, *row, stop).run();
}

const RunNode& Recorder::State::coordinatorOf(const std::vector<RunNode>& all) {
  std::lock_guard lock(mutex);
  for (const RunNode& node : all)
    if (node.name == coordinator) return node;
  return all.front();
}

Result<std::vector<RunNode>> Recorder::State::findNodes(const History& history) const {
  LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(run));
  return runNodes(documents.nodes, session);
}

// Until the coordinator has answered, or has not for long enough.
Result<RunAnswer> Recorder::State::ask(RunRequest what, const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(const auto history, History::open(home.historyFolder()));
  LOCKSTEP_ASSIGN(const std::vector<RunNode> found, findNodes(*history));
  // The agent names the supervisor that is there now, and starts one where there is none.
  const IdleTimeout timeout(stop, kCallLimit);
  RunAnswer answer;
  std::optional<Error> failure;  // the last that has come in time
  Status asked = retryWhileUnavailable(kCallLimit, timeout.stop(), [&]() -> Status {
    // Another node may take over from one that is out of reach.
    const IdleTimeout once(timeout.stop(), kAskLimit);
    auto one = askRun(what, run, coordinatorOf(found), once.stop());
    what.repeated = true;
    if (one.ok()) answer = *one;
    if (one.ok() || timeout.ended()) return one.status();
    if (!once.ended()) failure = one.error();
    if (once.ended() || one.error().code == Code::kAborted)
      one.error().code = Code::kUnavailable;  // it is asked again
    return one.status();
  });
  if (asked.ok()) return answer;
  if (stop.stop_requested()) return asked.error();
  if (failure) return *failure;
  if (!timeout.ended()) return asked.error();
  Error error = makeError(Code::kDeadlineExceeded, "{}", refusalOf(what.kind));
  error.node = coordinatorOf(found).name;
  error.why = "the node did not answer in time, and it is not known whether it got the request";
  error.next = "check whether the node and its agent answer: lockstep cluster check FILE";
  return error;
}

void Recorder::State::call(const RunRequest& what, std::function<void(Result<RunAnswer>)> done) {
  calls.emplace_back([this, what = what, done = std::move(done)](const std::stop_token& stop) {
    const Result<RunAnswer> result = ask(what, stop);
    if (done) inbox.post(owner, [done, result] { done(result); });
  });
}

Recorder::Recorder(const std::string& run, ClusterSession& session, const Home& home, Inbox& inbox,
                   RunObserver observer)
    : state_(std::make_unique<State>(run, session, home, inbox, std::move(observer))) {
  session.connect();
  state_->writer =
      std::jthread([state = state_.get()](std::stop_token stop) { state->write(stop); });
}

Recorder::~Recorder() { end(); }

void Recorder::end() {
  state_->alive.reset();
  state_->writer.request_stop();
  for (auto& call : state_->calls) call.request_stop();
  {
    std::lock_guard lock(state_->mutex);
    state_->filled.notify_all();
  }
}

void Recorder::ask(const RunRequest& what, std::function<void(Result<RunAnswer>)> done) {
  state_->call(what, std::move(done));
}

Result<std::shared_ptr<const spec::v1::ClusterSpec>> clusterOfRun(const History& history,
                                                                  const std::string& run) {
  LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(run));
  LOCKSTEP_ASSIGN(ClusterSpecFile file,
                  completeClusterSpec(documents.clusterYaml, "cluster of run " + run));
  return file.spec;
}

}  // namespace lockstep::app
