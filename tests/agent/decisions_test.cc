// What a coordinator has decided holds once other nodes know it, and a node whose stream ends may
// join again. Node n1 is real and coordinates; the others are played here. They confirm what they
// are told, or do not.
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/event_loop.h"
#include "agent/base/grpc_status.h"
#include "agent/supervisor/peers.h"
#include "agent/supervisor/run_control.h"
#include "agent/supervisor/spool.h"
#include "engine/base/file.h"
#include "tests/agent/agent_node.h"
#include "tests/agent/played_run.h"
#include "tests/agent/run_keys.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

constexpr Nanoseconds kMs = 1'000'000;
constexpr Nanoseconds kKept = 2'000 * kMs;  // RunLimits::kept
constexpr Nanoseconds kLimit = 50'000 * kMs;
constexpr int kHeartbeatMs = 200;  // the run's end is awaited for 20 of them
constexpr Nanoseconds kLostPeer = 20 * kHeartbeatMs * kMs;
// Of stories in which a stream ends: the machine may be slow, and a node is silent after four.
constexpr int kBrokenHeartbeatMs = 500;
constexpr Nanoseconds kBroken = kBrokenHeartbeatMs * kMs;

struct Story {
  int nodes = 3;
  std::vector<std::string> confirm = {};  // these nodes do, after a while
  Nanoseconds after = 0;
  bool isOlder = false;   // they confirm the revision before
  bool stops = false;     // the request is to stop the run; else to exclude a node
  bool ends = false;      // the ranks do, instead of a request
  bool kills = false;     // … or to kill it
  bool isKilled = false;  // the run is, right after the request
  bool isApart = false;   // the coordinator reaches no node any more once the run trains
  bool breaks = false;    // the stream of n3 ends once the run trains,
  bool returns = false;   // is there again before n3 is silent,
  bool flaps = false;     // and ends each time,
  bool fails = false;     // and a rank of n2 fails meanwhile
  // A rank of n2 fails, and again long after that, before the run trains again; n1 reaches nobody
  // from then on.
  bool failsTwice = false;
  // n3 is lost once the run trains, and n2 once it trains without n3.
  bool shrinks = false;
  // A rank of n2 fails after step 100; steps are profiled, and n3 is excluded, after step 20.
  bool loses = false;
  // A rank of n2 fails twice, and a checkpoint is asked for in the pause after that.
  bool saves = false;
  bool spareFails = false;  // n3, a spare, tells that it has failed
};

class Coordination {
 public:
  explicit Coordination(Story story) : story_(std::move(story)) {
    options_ = {.run = newRunId(), .nodes = {}, .ranks = 1, .comm = "gloo", .recovery = "shrink"};
    for (int i = 1; i <= story_.nodes; ++i) options_.nodes.push_back(fmt::format("n{}", i));
    options_.batch = 120;  // of as many ranks as there are, and of one less
    if (story_.ends) options_.maxSteps = kEndsAtOnce;
    if (story_.loses) options_.maxSteps = kLosesSteps;
    if (story_.saves) options_.maxSteps = kSaves;
    folder_.path = home_.filePath("run").toStdString();
    folder_.runtime = home_.path().toStdString();
    must(agent::makeFolders(folder_.logs()));
    must(writeFileAtomically(folder_.plan(), request(0).plan(), 0600));
    spool_ = must(agent::Spool::open(folder_.spool(), {}));
    agent::RunLimits limits;
    limits.kept = kKept;
    limits.lostPeer = kKept;
    control_ = std::make_unique<agent::RunControl>(loop_, folder_, request(0), *spool_, "test",
                                                   limits, [this] { overAt_ = monotonicNow(); });
    address_ = must(control_->start());
    for (int i = 1; i < story_.nodes; ++i) play(i);
    loop_.every(50 * kMs, [this] {
      node::v1::FromPeer ping;
      ping.mutable_ping()->set_sent_ns(monotonicNow());
      for (const auto& [name, peer] : peers_) peer->send(ping);
      if (story_.loses) loseSteps();
      if (story_.saves && restarts().size() == 2 && !std::exchange(asked_, true))
        must(control_->checkpoint(options_.run, 1));
      const bool isOver = story_.breaks ? brokenAt_ != 0 && monotonicNow() > brokenAt_ + 8 * kBroken
                          : story_.isApart || story_.failsTwice ? overAt_ != 0
                          : story_.shrinks || story_.loses  ? overAt_ != 0 || restarts().size() > 1
                          : story_.spareFails               ? overAt_ != 0 || !warning().empty()
                          : story_.saves                    ? overAt_ != 0 || hasCheckpoint()
                          : story_.ends                     ? overAt_ != 0 && endsTold_ == 2
                          : story_.kills || story_.isKilled ? answer_ && overAt_ != 0
                                                            : answer_.has_value();
      if (isOver) loop_.quit();
    });
  }
  void run() {
    loop_.after(kLimit, [this] { loop_.quit(); });
    loop_.run();
  }
  // To the request; nothing: it has none.
  const std::optional<Status>& answer() const { return answer_; }
  Status askAgain() {
    node::v1::StopRequest stop;
    stop.set_run(options_.run);
    stop.set_generation(1);
    stop.set_repeated(true);
    if (story_.kills) return control_->kill(options_.run, 1, "on request");
    return story_.stops ? control_->stop(stop) : exclude(options_.nodes.back());
  }
  Status exclude(const std::string& node) { return control_->exclude(options_.run, 1, node); }
  run::v1::RunState state() const { return control_->state(); }
  // What the run has said that it waits for.
  std::string awaited() const {
    for (const run::v1::Record& record : recordsOf(*spool_))
      if (record.has_awaited()) return record.awaited().text();
    return {};
  }
  bool isAgreed() const { return finished().agreed(); }
  bool isAlone() const { return finished().alone(); }
  Nanoseconds waitedAlone() const {  // until n1 has ended; 0: it had ended before
    return aloneAt_ == 0 ? 0 : overAt_ - aloneAt_;
  }
  bool hasRestarted() const { return !restarts().empty(); }
  std::string warning() const {  // the first
    for (const run::v1::Record& record : recordsOf(*spool_))
      if (record.has_warning()) return record.warning().what().text();
    return {};
  }
  bool hasCheckpoint() const {
    const auto all = recordsOf(*spool_);
    return std::any_of(all.begin(), all.end(),
                       [](const auto& one) { return one.has_checkpoint(); });
  }
  std::vector<run::v1::Recovering> restarts() const {
    std::vector<run::v1::Recovering> out;
    for (const run::v1::Record& record : recordsOf(*spool_))
      if (record.has_recovering()) out.push_back(record.recovering());
    return out;
  }
  const Result<node::v1::ProfiledSteps>& profiled() const { return profiled_; }
  // Since the nodes were told what was decided, until the answer, or until they were told to end.
  Nanoseconds waited() const { return doneAt_ - toldAt_; }

 private:
  run::v1::Finished finished() const {
    const auto all = recordsOf(*spool_);
    return all.empty() ? run::v1::Finished() : all.back().finished();
  }
  node::v1::PrepareRequest request(int node) const {
    auto out = keyedRequest(options_, authority_, node);
    out.mutable_spec()->mutable_recovery()->set_heartbeat_ms(story_.breaks ? kBrokenHeartbeatMs
                                                                           : kHeartbeatMs);
    out.mutable_spec()->mutable_training()->mutable_checkpoint()->set_copies(0);
    if (story_.spareFails) out.mutable_cluster()->mutable_nodes(2)->add_roles("spare");
    return out;
  }
  void play(int node) {
    const std::string& name = options_.nodes[static_cast<std::size_t>(node)];
    agent::PeerClient::Handlers handlers;
    handlers.onJoin = [this, node] {
      if (brokenAt_ != 0) {
        if (story_.flaps) loop_.after(kBroken / 10, [this, node] { reconnect(node); });
        return;
      }
      if (++joined_ + 1 < story_.nodes) return;
      node::v1::CommitRequest commit;
      commit.set_run(options_.run);
      commit.set_generation(1);
      must(control_->commit(commit));
    };
    handlers.onLost = [](const std::string&) {};
    handlers.onRefused = [](const Error&) {};
    handlers.onMessage = [this, name](const node::v1::ToPeer& message) {
      onMessage(name, message);
    };
    peers_[name] = std::make_unique<agent::PeerClient>(loop_, "n1", address_, "127.0.0.1:1",
                                                       request(node), 1, std::move(handlers));
  }
  void onMessage(const std::string& name, const node::v1::ToPeer& message) {
    node::v1::FromPeer answer;
    const bool recovers = message.has_recover() &&
                          (story_.failsTwice || story_.shrinks || story_.loses || story_.saves);
    if (recovers) peers_.at(name)->setGeneration(message.generation());
    if (message.has_committed() || recovers) {
      answer.mutable_ready();
      peers_.at(name)->send(answer);
    } else if (message.has_go() && story_.spareFails) {
      if (name == "n3") loop_.post([this] { fail("n3", Code::kNotFound, "its disk is gone"); });
    } else if (message.has_go() && story_.saves) {
      if (name == "n2" && message.generation() < 3) loop_.post([this] { failN2(); });
    } else if (message.has_go() && story_.failsTwice) {
      if (name == "n2") loop_.post([this] { failAgain(); });
    } else if (message.has_go() && story_.shrinks) {
      if (message.generation() > 1)
        loop_.after(500 * kMs, [this] { peers_.clear(); });
      else if (name == "n3")
        loop_.post([this] { peers_.erase("n3"); });
    } else if (message.has_go() && story_.isApart) {
      loop_.post([this] { peers_.clear(); });
    } else if (message.has_go() && story_.breaks) {
      if (brokenAt_ == 0) loop_.post([this] { breakStream(); });
    } else if (message.has_go() && story_.ends) {
      answer.mutable_done()->set_status("succeeded");
      peers_.at(name)->send(answer);
    } else if (message.has_go() && !story_.loses && !std::exchange(asked_, true)) {
      loop_.post([this] { ask(); });
    } else if (message.has_decisions()) {
      const node::v1::Decisions& told = message.decisions();
      const bool isRequest = !told.excluding().empty() || told.stops() || told.killed() ||
                             told.end() == run::v1::SUCCEEDED;
      const bool changes = story_.shrinks && told.electorates_size() > 1;
      if (!isRequest && !changes) return;
      if (toldAt_ == 0) toldAt_ = monotonicNow();
      confirm(name, told.revision());
    } else if (message.has_all_done()) {
      if (doneAt_ == 0) doneAt_ = monotonicNow();
      ++endsTold_;
    }
  }
  std::int64_t lastStep() const {
    std::int64_t out = 0;
    for (const run::v1::Record& record : recordsOf(*spool_))
      if (record.has_steps()) out = record.steps().first_step() + record.steps().loss_size() - 1;
    return out;
  }
  void loseSteps() {
    if (lastStep() == 100 && !std::exchange(failed_, true)) failN2();
    if (lastStep() != 20 || std::exchange(asked_, true)) return;
    profiled_ = control_->profile(options_.run, 1, 5);
    must(exclude("n3"));
  }
  void fail(const std::string& node, Code code, const char* what) {
    node::v1::FromPeer failed;
    *failed.mutable_failed() = agent::toInfo(makeError(code, "{}", what));
    peers_.at(node)->send(failed);
  }
  void failN2() { fail("n2", Code::kInternal, "rank 1 has failed"); }
  void failAgain() {
    if (!std::exchange(failed_, true)) return failN2();
    loop_.after(kLostPeer + kMs * 500, [this] {
      aloneAt_ = monotonicNow();
      peers_.erase("n3");
      loop_.after(50 * kMs, [this] { failN2(); });
      loop_.after(150 * kMs, [this] { peers_.clear(); });
    });
  }
  void breakStream() {
    if (brokenAt_ != 0) return;
    brokenAt_ = monotonicNow();
    if (story_.returns)
      reconnect(2);
    else
      peers_.erase("n3");
    if (!story_.fails) return;
    loop_.after(kBroken, [this] { failN2(); });
  }
  void reconnect(int node) {
    peers_.erase(options_.nodes[static_cast<std::size_t>(node)]);
    loop_.after(3 * kBroken / 2, [this, node] { play(node); });
  }
  void confirm(const std::string& name, std::int64_t revision) {
    const auto& all = story_.confirm;
    if (std::find(all.begin(), all.end(), name) == all.end()) return;
    loop_.after(story_.after, [this, name, revision] {
      node::v1::FromPeer kept;
      kept.mutable_decisions_kept()->set_revision(revision - (story_.isOlder ? 1 : 0));
      peers_.at(name)->send(kept);
    });
  }
  void ask() {
    must(askAgain());
    control_->whenKept([this](const Status& answer) {
      answer_ = answer;
      doneAt_ = monotonicNow();
    });
    if (story_.isKilled) must(control_->kill(options_.run, 1, "on request"));
  }

  const Story story_;
  RunOptions options_;
  RunAuthority authority_;
  QTemporaryDir home_;
  agent::RunFolder folder_;
  std::string address_;  // of n1
  agent::EventLoop loop_;
  std::unique_ptr<agent::Spool> spool_;
  std::unique_ptr<agent::RunControl> control_;
  std::map<std::string, std::unique_ptr<agent::PeerClient>> peers_;
  int joined_ = 0, endsTold_ = 0;
  bool asked_ = false, failed_ = false;
  std::optional<Status> answer_;
  Result<node::v1::ProfiledSteps> profiled_ = makeError(Code::kNotFound, "not asked for");
  Nanoseconds toldAt_ = 0, doneAt_ = 0, overAt_ = 0, brokenAt_ = 0, aloneAt_ = 0;
};

}  // namespace

class DecisionsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // Of a majority with the coordinator, any majority without it has one.
  void aRequestIsAnsweredOnceItIsKept_data() {
    using Names = std::vector<std::string>;
    QTest::addColumn<int>("nodes");
    QTest::addColumn<Names>("confirm");
    QTest::addColumn<bool>("isOlder");
    QTest::addColumn<bool>("kept");
    QTest::addColumn<bool>("stops");
    QTest::newRow("all confirm") << 3 << Names{"n2", "n3"} << false << true << false;
    QTest::newRow("one of two confirms") << 3 << Names{"n2"} << false << true << false;
    QTest::newRow("nobody confirms") << 3 << Names{} << false << false << false;
    QTest::newRow("an older revision is confirmed")
        << 3 << Names{"n2", "n3"} << true << false << false;
    QTest::newRow("one of four confirms") << 5 << Names{"n4"} << false << false << false;
    QTest::newRow("two of four confirm") << 5 << Names{"n2", "n4"} << false << true << false;
    QTest::newRow("of two, none can take over") << 2 << Names{} << false << true << false;
    QTest::newRow("a stop, and one confirms") << 3 << Names{"n2"} << false << true << true;
    QTest::newRow("a stop, and nobody confirms") << 3 << Names{} << false << false << true;
    QTest::newRow("a stop of two") << 2 << Names{} << false << true << true;
  }
  void aRequestIsAnsweredOnceItIsKept() {
    QFETCH(int, nodes);
    QFETCH(std::vector<std::string>, confirm);
    QFETCH(bool, isOlder);
    QFETCH(bool, kept);
    QFETCH(bool, stops);
    const Nanoseconds after = 200 * kMs;
    Coordination run(
        {.nodes = nodes, .confirm = confirm, .after = after, .isOlder = isOlder, .stops = stops});
    run.run();
    QVERIFY(run.answer());
    QCOMPARE(run.answer()->ok(), kept);
    QVERIFY(run.askAgain().ok());  // a client that has no answer does
    if (nodes == 2) return;
    QVERIFY(run.waited() >= (kept ? after : kKept / 2));
    if (kept) return;
    QCOMPARE(run.answer()->code(), Code::kUnavailable);
    QCOMPARE(run.answer()->error().what.text(),
             std::string("it is not known whether the run does what was asked"));
  }

  // The nodes that it reaches end at once; of the others it is not known.
  void aKillIsAnsweredOnceItIsKept_data() {
    QTest::addColumn<std::vector<std::string>>("confirm");
    QTest::newRow("one of two confirms") << std::vector<std::string>{"n3"};
    QTest::newRow("nobody confirms") << std::vector<std::string>{};
  }
  void aKillIsAnsweredOnceItIsKept() {
    QFETCH(std::vector<std::string>, confirm);
    const Nanoseconds after = 200 * kMs;
    const bool kept = !confirm.empty();
    Coordination run({.confirm = confirm, .after = after, .kills = true});
    run.run();
    QVERIFY(run.answer());
    QCOMPARE(run.state(), run::v1::STOPPED);
    QCOMPARE(run.answer()->ok(), kept);
    QCOMPARE(run.isAgreed(), kept);
    QCOMPARE(run.isAlone(), !kept);
    QVERIFY(run.waited() >= (kept ? after : kKept / 2));
    if (kept) return;
    QCOMPARE(run.answer()->code(), Code::kUnavailable);
    QCOMPARE(run.answer()->error().why.text(),
             std::string("fewer than half of its nodes have confirmed it within 2 s: the others "
                         "may go on without node n1"));
  }

  // Nodes that are excluded confirm nothing any more.
  void aMajorityIsNotExcludedAtOnce() {
    Coordination run({.confirm = {"n2", "n3"}});
    run.run();
    QVERIFY(run.answer() && run.answer()->ok());  // n3 is to be excluded
    const Status second = run.exclude("n2");
    QVERIFY(!second.ok());
    QCOMPARE(second.error().why.text(),
             std::string("fewer than half of the run's nodes would remain"));
  }

  // If n2 knows that n3 is left out, n1 may go on alone; else n2 and n3 may, as two of three.
  void anElectorateCountsOnceItIsKept_data() {
    QTest::addColumn<std::vector<std::string>>("confirm");
    QTest::newRow("n2 confirms") << std::vector<std::string>{"n2"};
    QTest::newRow("n2 does not") << std::vector<std::string>{};
  }
  void anElectorateCountsOnceItIsKept() {
    QFETCH(std::vector<std::string>, confirm);
    Coordination run({.confirm = confirm, .shrinks = true});
    run.run();
    const std::vector<run::v1::Recovering> restarts = run.restarts();
    QCOMPARE(restarts.size(), confirm.empty() ? std::size_t{1} : std::size_t{2});
    QCOMPARE(restarts[0].world(), 2);
    if (!confirm.empty()) {
      QCOMPARE(restarts[1].world(), 1);
      return;
    }
    QCOMPARE(run.state(), run::v1::FAILED);
    QVERIFY(run.isAlone());
  }

  // A restart has gone back from step 100: what is asked for refers to the steps of now.
  void requestsDoNotWaitForStepsThatWereLost() {
    Coordination run({.loses = true});
    run.run();
    QVERIFY(run.profiled().ok());
    QCOMPARE(run.profiled()->first(), std::int64_t{20 + 2 + 50});  // half a second later
    const std::vector<run::v1::Recovering> restarts = run.restarts();
    QCOMPARE(restarts.size(), std::size_t{2});
    QCOMPARE(restarts[1].cause().what().text(), std::string("node n3 was excluded on request"));
  }

  void aSpareThatFailsEndsNothing() {
    Coordination run({.spareFails = true});
    run.run();
    QCOMPARE(run.warning(), std::string("its disk is gone"));
    QCOMPARE(run.state(), run::v1::RUNNING);
  }

  // There is no worker in that moment that could take it.
  void aCheckpointIsTakenOnceTheRunTrainsAgain() {
    Coordination run({.saves = true});
    run.run();
    QCOMPARE(run.restarts().size(), std::size_t{2});
    QVERIFY(run.hasCheckpoint());
  }

  void aRequestIsAnsweredWhenTheRunEnds() {
    Coordination run({.isKilled = true});
    run.run();
    QVERIFY(run.answer() && !run.answer()->ok());
    QCOMPARE(run.answer()->error().why.text(), std::string("the run has ended meanwhile"));
    QCOMPARE(run.state(), run::v1::STOPPED);
  }

  // A connection can end while its node trains on.
  void aStreamThatIsThereAgainCostsNothing() {
    Coordination run({.breaks = true, .returns = true});
    run.run();
    QCOMPARE(run.state(), run::v1::RUNNING);
    QVERIFY(!run.hasRestarted());
  }

  // What fails while a node may be lost waits until that is known: the run restarts once.
  void aFailureWaitsForANodeWhoseStreamHasEnded_data() {
    QTest::addColumn<bool>("returns");
    QTest::addColumn<bool>("flaps");
    QTest::newRow("it joins again") << true << false;
    QTest::newRow("it comes and goes") << true << true;
    QTest::newRow("it is lost") << false << false;
  }
  void aFailureWaitsForANodeWhoseStreamHasEnded() {
    QFETCH(bool, returns);
    QFETCH(bool, flaps);
    Coordination run({.breaks = true, .returns = returns, .flaps = flaps, .fails = true});
    run.run();
    const std::vector<run::v1::Recovering> restarts = run.restarts();
    QCOMPARE(restarts.size(), std::size_t{1});
    const std::vector<std::string> nodes(restarts[0].nodes().begin(), restarts[0].nodes().end());
    QCOMPARE(nodes, returns ? std::vector<std::string>() : std::vector<std::string>({"n1", "n2"}));
  }

  // Where it does not reach the others any more, they may go on without it.
  void aCoordinatorThatIsAloneEnds() {
    Coordination run({.isApart = true});
    run.run();
    QCOMPARE(run.state(), run::v1::FAILED);
    QVERIFY(run.isAlone());
    QVERIFY(!run.hasRestarted());
  }

  // As long as after a first failure, though the run has not trained since one long ago.
  void aCoordinatorThatIsAloneWhileItRecoversWaits() {
    Coordination run({.failsTwice = true});
    run.run();
    QCOMPARE(run.state(), run::v1::FAILED);
    QVERIFY(run.hasRestarted());
    QVERIFY(run.waitedAlone() > kLostPeer - 500 * kMs);
  }

  // Nobody ends before a node that takes over would know that the run has ended.
  void theRunEndsOnceThatIsKept_data() {
    using Names = std::vector<std::string>;
    QTest::addColumn<Names>("confirm");
    QTest::newRow("one of two confirms") << Names{"n3"};
    QTest::newRow("nobody confirms") << Names{};
  }
  void theRunEndsOnceThatIsKept() {
    QFETCH(std::vector<std::string>, confirm);
    const Nanoseconds after = 200 * kMs;
    Coordination run({.confirm = confirm, .after = after, .ends = true});
    run.run();
    QCOMPARE(run.state(), run::v1::SUCCEEDED);
    QCOMPARE(run.isAgreed(), !confirm.empty());  // without a majority, another may take over
    QVERIFY(run.waited() >= (confirm.empty() ? kKept : after));
    QCOMPARE(run.awaited(), std::string(confirm.empty() ? "waits until half of the nodes have "
                                                          "confirmed the run's end, for 4 s at most"
                                                        : ""));
    QVERIFY(run.waited() < kLimit / 2);
  }
};

// The worker of n1 is this program too. It trains until it is killed, or ends when it may begin, or
// tells steps.
int runWorker() {
  PlayedWorker worker;
  worker.sendReady();
  while (const auto message = worker.receive()) {
    const bool loses = worker.maxSteps() == kLosesSteps, isFirst = worker.generation() == 1;
    if (loses && message->has_go()) worker.sendSteps(isFirst ? 1 : 11, isFirst ? 100 : 20);
    if ((loses || worker.maxSteps() == kSaves) && message->has_checkpoint())
      worker.sendCheckpoint(20);
    if (worker.maxSteps() != kEndsAtOnce || !message->has_go()) continue;
    worker.sendFinished(run::v1::SUCCEEDED);
    break;
  }
  return 0;
}

int main(int argc, char** argv) { return runTestOrWorker<DecisionsTest>(argc, argv, runWorker); }
#include "decisions_test.moc"
