// The end of a run whose checkpoints are copied. Node n1 is real and coordinates; n2 is played
// here. Both are trained to their end at once, or stop when they are asked to, and n2 is asked to
// copy the last checkpoint.
#include <QTemporaryDir>
#include <QTest>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agent/base/event_loop.h"
#include "agent/supervisor/peers.h"
#include "agent/supervisor/run_control.h"
#include "agent/supervisor/spool.h"
#include "engine/base/file.h"
#include "engine/weights/checkpoint_files.h"
#include "tests/agent/agent_node.h"
#include "tests/agent/played_run.h"
#include "tests/agent/run_keys.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

constexpr Nanoseconds kMs = 1'000'000, kSecond = 1'000'000'000;
constexpr Nanoseconds kLimit = 50 * kSecond;  // of a test
constexpr std::int64_t kLastStep = 50;

struct Story {
  Nanoseconds answersAfter = 0;      // n2 has copied after so long; 0: never
  Nanoseconds limit = 60 * kSecond;  // RunLimits::lastCopies
  bool stops = false;                // the run is stopped when it trains, not trained to its end
  Nanoseconds stopAfter = 0;         // a person stops it (again) after so long; 0: nobody does
  bool isRepeated = false;           // that is the same request once more
  bool isLost = false;               // n2 is, once it has been asked
  bool hasModel = false;             // n2 copies it at once
  bool isShared = false;             // training.checkpoint.path is set
  bool joinsAgain = false;           // n2 loses its connection as it is asked for that
  bool isLostThen = false;           // n2 is lost as it is asked for that
};

class End {
 public:
  explicit End(Story story) : story_(story) {
    options_ = {.run = newRunId(), .nodes = {"n1", "n2"}, .ranks = 1, .comm = "gloo"};
    options_.maxSteps = kLastStep;
    folder_.path = home_.filePath("run").toStdString();
    folder_.runtime = home_.path().toStdString();
    must(agent::makeFolders(folder_.logs()));
    must(writeFileAtomically(folder_.plan(), request(0).plan(), 0600));
    const auto checkpoint = weights::checkpointAt(folder_.checkpoints(), kLastStep);
    std::filesystem::create_directories(checkpoint);
    must(writeFileAtomically(checkpoint / weights::kManifestFile, weights::textOf({}), 0600));
    if (story_.hasModel) must(writeFileAtomically(folder_.model(), "weights", 0600));
    spool_ = must(agent::Spool::open(folder_.spool(), {}));
    agent::RunLimits limits;
    limits.lastCopies = story_.limit;
    control_ = std::make_unique<agent::RunControl>(loop_, folder_, request(0), *spool_, "test",
                                                   limits, [this] {
                                                     over_ = monotonicNow();
                                                     loop_.quit();
                                                   });
    coordinator_ = must(control_->start());
    joinN1();
    loop_.every(100 * kMs, [this] {
      node::v1::FromPeer ping;
      ping.mutable_ping()->set_sent_ns(monotonicNow());
      if (n2_) n2_->send(ping);
    });
  }
  void run() {
    loop_.after(kLimit, [this] { loop_.quit(); });
    loop_.run();
  }
  std::vector<run::v1::Record> records() const { return recordsOf(*spool_); }
  // What the run has said that it waits for, one after the other, and the last record.
  std::vector<std::string> story() const {
    std::vector<std::string> out;
    const auto all = records();
    for (const run::v1::Record& record : all)
      if (record.has_awaited()) out.push_back(record.awaited().text());
    if (over_ == 0) out.emplace_back("not over");
    if (!all.empty() && all.back().has_finished()) out.emplace_back("finished");
    return out;
  }
  std::string warning() const {
    for (const run::v1::Record& record : records())
      if (record.has_warning()) return record.warning().what().text();
    return {};
  }
  run::v1::RunState state() const { return control_->state(); }
  bool wasHurried() const { return hurried_; }
  // From the request to copy until the run is over.
  Nanoseconds waited() const { return over_ == 0 ? -1 : over_ - asked_; }

 private:
  node::v1::PrepareRequest request(int node) const {
    auto out = keyedRequest(options_, authority_, node);
    if (story_.stops) out.mutable_spec()->mutable_training()->clear_max_steps();  // endless
    if (story_.isShared)
      out.mutable_spec()->mutable_training()->mutable_checkpoint()->set_path(
          home_.filePath("shared").toStdString());
    return out;
  }
  // As n2.
  void joinN1() {
    agent::PeerClient::Handlers handlers;
    handlers.onJoin = [this] {
      node::v1::CommitRequest commit;
      commit.set_run(options_.run);
      commit.set_generation(1);
      must(control_->commit(commit));
    };
    handlers.onLost = [](const std::string&) {};
    handlers.onRefused = [](const Error&) {};
    handlers.onMessage = [this](const node::v1::ToPeer& message) { onMessage(message); };
    n2_ = std::make_unique<agent::PeerClient>(loop_, "n1", coordinator_, "127.0.0.1:1", request(1),
                                              1, std::move(handlers));
  }
  void onMessage(const node::v1::ToPeer& message) {
    node::v1::FromPeer answer;
    const bool stops =
        message.decisions().stops() && message.decisions().end() == run::v1::RUN_STATE_UNSPECIFIED;
    if (message.has_committed()) {
      answer.mutable_ready();
      n2_->send(answer);
    } else if (message.has_go() && story_.stops) {
      loop_.post([this] { stop(); });
    } else if (message.has_go() || stops) {
      answer.mutable_done()->set_status(message.has_go() ? "succeeded" : "stopped");
      n2_->send(answer);
    } else if (message.has_copy_checkpoint() && message.copy_checkpoint().model()) {
      onModelAsked();
    } else if (message.has_copy_checkpoint()) {
      hurried_ = message.copy_checkpoint().at_once();
      if (asked_ == 0) onAsked(message.copy_checkpoint().step());
    }
  }
  void onModelAsked() {
    if (++modelAsked_ == 1 && (story_.joinsAgain || story_.isLostThen)) {
      loop_.post([this] { n2_.reset(); });
      if (story_.joinsAgain) loop_.after(300 * kMs, [this] { joinN1(); });
      return;
    }
    node::v1::FromPeer answer;
    answer.mutable_copied()->set_model(true);
    n2_->send(answer);
  }
  void onAsked(std::int64_t step) {
    asked_ = monotonicNow();
    if (story_.answersAfter > 0)
      loop_.after(story_.answersAfter, [this, step] {
        node::v1::FromPeer answer;
        answer.mutable_copied()->set_step(step);
        n2_->send(answer);
      });
    // Its `done` may be on the way yet.
    if (story_.isLost) loop_.after(100 * kMs, [this] { n2_.reset(); });
    if (story_.stopAfter > 0) loop_.after(story_.stopAfter, [this] { stop(); });
  }
  void stop() {
    node::v1::StopRequest request;
    request.set_run(options_.run);
    request.set_generation(1);
    request.set_repeated(story_.isRepeated);
    must(control_->stop(request));
  }

  const Story story_;
  RunOptions options_;
  RunAuthority authority_;
  QTemporaryDir home_;
  agent::RunFolder folder_;
  agent::EventLoop loop_;
  std::unique_ptr<agent::Spool> spool_;
  std::unique_ptr<agent::RunControl> control_;
  std::unique_ptr<agent::PeerClient> n2_;
  std::string coordinator_;  // the address of n1
  bool hurried_ = false;
  int modelAsked_ = 0;
  Nanoseconds asked_ = 0, over_ = 0;
};

constexpr const char* kWaits =
    "waits for copies of the checkpoint at step 50 on other nodes, for {} s at most";

}  // namespace

class RunEndTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void theLastCopiesAreAwaited() {
    End end({.answersAfter = kSecond});
    end.run();
    QCOMPARE(end.story(),
             (std::vector<std::string>{fmt::format(fmt::runtime(kWaits), 60), "", "finished"}));
    QCOMPARE(end.state(), run::v1::SUCCEEDED);
    QCOMPARE(end.warning(), std::string());
    QVERIFY(end.wasHurried());
    QVERIFY(end.waited() >= kSecond);
  }

  // After the checkpoint.
  void theModelIsCopied() {
    End end({.answersAfter = kSecond / 4, .hasModel = true});
    end.run();
    QCOMPARE(end.story(),
             (std::vector<std::string>{
                 fmt::format(fmt::runtime(kWaits), 60),
                 "waits for a copy of the trained model on another node, for 60 s at most", "",
                 "finished"}));
    QCOMPARE(end.state(), run::v1::SUCCEEDED);
    QCOMPARE(end.warning(), std::string());
  }

  // Checkpoints on storage that all nodes share need no copies; the model is on one node alone.
  void theModelIsCopiedBesideSharedCheckpoints() {
    End end({.hasModel = true, .isShared = true});
    end.run();
    QCOMPARE(end.story(),
             (std::vector<std::string>{
                 "waits for a copy of the trained model on another node, for 60 s at most", "",
                 "finished"}));
    QCOMPARE(end.state(), run::v1::SUCCEEDED);
    QCOMPARE(end.warning(), std::string());
  }

  // A node that loses its connection meanwhile is asked again, and one that is lost is not awaited.
  void aNodeThatCopiesTheModelIsGone_data() {
    QTest::addColumn<bool>("isBack");
    QTest::newRow("for a moment") << true;
    QTest::newRow("for good") << false;
  }
  void aNodeThatCopiesTheModelIsGone() {
    QFETCH(bool, isBack);
    End end({.answersAfter = kSecond / 4,
             .hasModel = true,
             .joinsAgain = isBack,
             .isLostThen = !isBack});
    end.run();
    QCOMPARE(end.state(), run::v1::SUCCEEDED);
    QCOMPARE(end.warning(), std::string(isBack ? "" : "the trained model is not copied"));
    QCOMPARE(end.story().back(), std::string("finished"));
    QVERIFY(end.waited() > 0 && end.waited() < kLimit / 2);
  }

  // A slow link does not hold the end up.
  void noLongerThanTheLimit() {
    End end({.limit = kSecond});
    end.run();
    QCOMPARE(end.story(),
             (std::vector<std::string>{fmt::format(fmt::runtime(kWaits), 1), "", "finished"}));
    QCOMPARE(end.state(), run::v1::SUCCEEDED);
    QCOMPARE(end.warning(), std::string("the checkpoint at step 50 is not copied"));
    QVERIFY(end.waited() > kSecond / 2 && end.waited() < kLimit / 2);
  }

  // Nor does a node that is lost.
  void aLostNodeIsNotAwaited() {
    End end({.isLost = true});
    end.run();
    QCOMPARE(end.state(), run::v1::SUCCEEDED);
    QCOMPARE(end.warning(), std::string("the checkpoint at step 50 is not copied"));
    QCOMPARE(end.story().back(), std::string("finished"));
    QVERIFY(end.waited() > 0 && end.waited() < kLimit / 2);
  }

  // A second stop, where the first is why the run ends.
  void aStopEndsTheWait_data() {
    QTest::addColumn<bool>("stops");
    QTest::newRow("of a run that is trained to its end") << false;
    QTest::newRow("of a run that was stopped") << true;
  }
  void aStopEndsTheWait() {
    QFETCH(bool, stops);
    End end({.stops = stops, .stopAfter = kSecond});
    end.run();
    QCOMPARE(end.state(), run::v1::STOPPED);
    QCOMPARE(end.warning(), std::string());
    QCOMPARE(end.story().back(), std::string("finished"));
    QVERIFY(end.waited() >= kSecond && end.waited() < kLimit / 2);
  }

  void aStoppedRunAwaitsItsCopies_data() {
    QTest::addColumn<Nanoseconds>("again");
    QTest::newRow("stopped once") << Nanoseconds{0};
    QTest::newRow("its answer was lost, and it is asked again") << kSecond / 4;
  }
  void aStoppedRunAwaitsItsCopies() {
    QFETCH(Nanoseconds, again);
    End end({.answersAfter = kSecond, .stops = true, .stopAfter = again, .isRepeated = true});
    end.run();
    QCOMPARE(end.story(),
             (std::vector<std::string>{fmt::format(fmt::runtime(kWaits), 60), "", "finished"}));
    QCOMPARE(end.state(), run::v1::STOPPED);
    QCOMPARE(end.warning(), std::string());
    QVERIFY(end.wasHurried());
    QVERIFY(end.waited() >= kSecond);
  }

  void aStoppedRunWaitsNoLongerThanTheLimit() {
    End end({.limit = kSecond, .stops = true});
    end.run();
    QCOMPARE(end.story(),
             (std::vector<std::string>{fmt::format(fmt::runtime(kWaits), 1), "", "finished"}));
    QCOMPARE(end.state(), run::v1::STOPPED);
    QCOMPARE(end.warning(), std::string("the checkpoint at step 50 is not copied"));
    QVERIFY(end.waited() > kSecond / 2 && end.waited() < kLimit / 2);
  }
};

// The worker of n1 is this program too. It takes the last checkpoint as soon as it may begin, or,
// where there is no last step, when it is to stop.
int runWorker() {
  PlayedWorker worker;
  worker.sendReady();
  while (const auto message = worker.receive()) {
    const bool isEndless = worker.maxSteps() == 0;
    if (isEndless ? !message->has_stop() : !message->has_go()) continue;
    worker.sendCheckpoint(kLastStep);
    worker.sendFinished(isEndless ? run::v1::STOPPED : run::v1::SUCCEEDED, kLastStep);
    return 0;
  }
  return 1;
}

int main(int argc, char** argv) { return runTestOrWorker<RunEndTest>(argc, argv, runWorker); }
#include "run_end_test.moc"
