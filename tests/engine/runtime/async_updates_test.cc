// Ranks that do not update together: local updates, and workers of parameter servers that train by
// themselves.
#include <pthread.h>

#include <QElapsedTimer>
#include <QTemporaryDir>
#include <QTest>
#include <chrono>
#include <cmath>
#include <thread>

#include "tests/engine/runtime/clipped_run.h"
#include "tests/support/engine_run.h"
#include "tests/support/sanitizers.h"

using namespace lockstep;
using namespace lockstep::test;

class AsyncUpdatesTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // With one update per step, local updates are data parallelism: the mean of the ranks' updates is
  // the update by the mean gradient.
  void localUpdateAgainstOne_data() {
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("modelRanks");
    QTest::newRow("1 rank") << 1 << 1;
    QTest::newRow("3 ranks, uneven shares") << 3 << 1;
    QTest::newRow("4 ranks, tensor 2") << 4 << 2;
  }
  void localUpdateAgainstOne() {
    QFETCH(int, ranks);
    QFETCH(int, modelRanks);
    RunSettings settings = clippedSteps(smallGpt());
    settings.optimizer = {};  // clipping would be per rank
    settings.optimizer.kind = "sgd";
    settings.optimizer.momentum = 0.9;
    settings.optimizer.weightDecay = 0.01;
    settings.trainer.schedule.peak = 0.05;
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.strategy = "local-sgd";
    settings.ranks = ranks;
    settings.modelRanks = modelRanks;
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    const double worst = worstRelative(several, one);
    qInfo("worst relative difference of the loss over %zu steps: %.2e", one.steps.size(), worst);
    QVERIFY(worst <= 1e-9);
    QVERIFY(one.steps.back().loss < one.steps.front().loss);
    QVERIFY(std::abs(several.epochs.back().evalLoss - one.epochs.back().evalLoss) <= 1e-9);
  }

  // One rank's local updates are steps with a smaller batch.
  void localUpdatesAreSteps() {
    RunSettings settings;
    settings.batch = 8;
    settings.samples = 192;
    settings.trainer.epochs = 2;
    const RunOutcome small = trained(settings);
    QVERIFY2(small.ok(), small.error().c_str());
    settings.strategy = "local-sgd";
    settings.batch = 32;
    settings.microBatches = 4;
    const RunOutcome local = trained(settings);
    QVERIFY2(local.ok(), local.error().c_str());
    QCOMPARE(local.steps.size() * 4, small.steps.size());
    for (std::size_t epoch = 0; epoch < 2; ++epoch) {
      QVERIFY(std::abs(local.epochs[epoch].evalLoss - small.epochs[epoch].evalLoss) <= 1e-12);
      QVERIFY(std::abs(local.epochs[epoch].trainLoss - small.epochs[epoch].trainLoss) <= 1e-12);
    }
  }

  // Ranks with local updates learn as well as one rank, and reproducibly to the bit.
  void localUpdatesOfSeveralRanks() {
    RunSettings settings;
    settings.batch = 48;
    settings.trainer.epochs = 4;
    settings.trainer.schedule.peak = 1e-3;
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.strategy = "local-sgd";
    settings.ranks = 3;
    settings.batch = 192;
    settings.microBatches = 4;
    const RunOutcome several = trained(settings), again = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    QCOMPARE(again.ranks[0]->weightsSha256, several.ranks[0]->weightsSha256);
    const runtime::EpochRecord& single = one.epochs.back();
    const runtime::EpochRecord& averaged = several.epochs.back();
    qInfo("one rank: loss %.4f, accuracy %.3f; local updates of three: %.4f, %.3f", single.evalLoss,
          single.evalMetric, averaged.evalLoss, averaged.evalMetric);
    QVERIFY(averaged.evalMetric >= single.evalMetric - 0.01);
  }

  // A single asynchronous worker waits for nobody.
  void workerByItselfAgainstOne_data() {
    QTest::addColumn<int>("servers");
    QTest::newRow("1 server") << 1;
    QTest::newRow("3 servers") << 3;
    QTest::newRow("4 servers for 3 groups") << 4;
  }
  void workerByItselfAgainstOne() {
    QFETCH(int, servers);
    RunSettings settings = clippedSteps(servers == 4 ? fashionMlp() : smallGpt());
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.strategy = "parameter-server";
    settings.ranks = 1 + servers;
    settings.servers = servers;
    settings.staleness = plan::Plan::kAnyStaleness;
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    const double worst = worstRelative(several, one);
    qInfo("worst relative difference of the loss over %zu steps: %.2e", one.steps.size(), worst);
    QVERIFY(worst <= 1e-9);
    QCOMPARE(several.steps.back().staleness, 0.0f);
    QVERIFY(std::abs(several.epochs.back().evalLoss - one.epochs.back().evalLoss) <= 1e-9);
  }

  // Asynchronous workers learn as well; none exceeds the staleness bound although one is slow.
  void workersByThemselves_data() {
    QTest::addColumn<int>("servers");
    QTest::addColumn<int>("staleness");
    QTest::newRow("1 server, any staleness") << 1 << -1;
    QTest::newRow("2 servers, any staleness") << 2 << -1;
    QTest::newRow("1 server, 1 step") << 1 << 1;
    QTest::newRow("2 servers, 3 steps") << 2 << 3;
  }
  void workersByThemselves() {
    QFETCH(int, servers);
    QFETCH(int, staleness);
    RunSettings settings;
    settings.batch = 48;
    settings.bucketBytes = 65536;
    settings.trainer.epochs = 4;
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.strategy = "parameter-server";
    settings.ranks = 3 + servers;
    settings.servers = servers;
    settings.staleness = staleness;
    settings.slowRank = 2;
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    float worst = 0;
    for (const runtime::StepRecord& step : several.steps) worst = std::max(worst, step.staleness);
    qInfo("accuracy: one rank %.3f, workers %.3f; at most %lld steps ahead, %.0f updates stale",
          one.epochs.back().evalMetric, several.epochs.back().evalMetric,
          static_cast<long long>(several.spread), static_cast<double>(worst));
    QCOMPARE(several.steps.size(), one.steps.size());
    QVERIFY(several.epochs.back().evalMetric >= one.epochs.back().evalMetric - 0.01);
    QVERIFY(several.epochs.back().trainLoss < several.epochs.front().trainLoss);
    if (staleness < 0) {
      QVERIFY(several.spread > 5);
    } else {
      // A step ends one further ahead than it began, and the observation lags a little.
      QVERIFY(several.spread <= staleness + 2);
      QVERIFY(worst <= 2 * (2 * staleness + 1));
    }
  }

  // Asynchronous workers stop after the same step, the furthest that one of them has begun, and can
  // resume from there.
  void workersByThemselvesStop() {
    const QTemporaryDir folder;
    RunSettings settings;
    settings.batch = 48;
    settings.trainer.epochs = 3;
    settings.strategy = "parameter-server";
    settings.ranks = 5;
    settings.servers = 2;
    settings.staleness = plan::Plan::kAnyStaleness;
    settings.slowRank = 2;
    settings.stopAt = 25;
    settings.trainer.checkpointFolder = folder.path().toStdString();
    const RunOutcome stopped = trained(settings);
    QVERIFY2(stopped.ok(), stopped.error().c_str());
    const std::int64_t at = stopped.ranks[0]->steps;
    QVERIFY2(at >= settings.stopAt && at < 60, std::to_string(at).c_str());
    for (const auto& rank : stopped.ranks) {
      QCOMPARE(rank->status, std::string("stopped"));
      QCOMPARE(rank->steps, at);
    }
    settings.stopAt = 0;
    settings.trainer.resumeFrom = stopped.checkpoints.back();
    const RunOutcome resumed = trained(settings);
    QVERIFY2(resumed.ok(), resumed.error().c_str());
    QCOMPARE(resumed.steps.front().step, at + 1);
    QCOMPARE(resumed.ranks[0]->steps, std::int64_t{60});
    QCOMPARE(resumed.epochs.back().evalMetric, 1.0);
  }

  // Whichever message fails, of a worker or of a server: every rank soon ends with an error.
  void serversAndWorkersFail_data() {
    QTest::addColumn<int>("staleness");
    QTest::newRow("together") << 0;
    QTest::newRow("apart") << 1;
  }
  void serversAndWorkersFail() {
    QFETCH(int, staleness);
    RunSettings settings;
    settings.batch = 48;
    settings.bucketBytes = 65536;
    settings.strategy = "parameter-server";
    settings.ranks = 5;
    settings.servers = 2;
    settings.staleness = staleness;
    for (const int rank : {1, 3})
      for (const int call : {0, 1, 2, 7, 30}) {
        settings.failingRank = rank;
        settings.failingCall = call;
        QElapsedTimer timer;
        timer.start();
        const RunOutcome out = trained(settings);
        QVERIFY2(timer.elapsed() < 20'000, std::to_string(timer.elapsed()).c_str());
        for (const auto& result : out.ranks)
          QVERIFY2(!result.ok(), qPrintable(QString("rank %1, call %2").arg(rank).arg(call)));
        QVERIFY(out.ranks[static_cast<std::size_t>(rank)].error().code == Code::kAborted);
      }
  }

  // A server without memory for a thread per worker ends the run with an error.
  void aServerWithoutThreads() {
    if (test::kSanitized) QSKIP("sanitizers make threads' stacks themselves");
    RunSettings settings;
    settings.strategy = "parameter-server";
    settings.ranks = 4;
    settings.servers = 1;
    settings.staleness = -1;
    settings.trainer.evaluate = false;
    const auto plan = planOf(settings);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    struct Observer : runtime::TrainerObserver {
      std::atomic<int>* ready = nullptr;
      bool serves = false;
      void onReady(std::int64_t) override {
        if (!serves) {
          ++*ready;
          return;
        }
        // All threads but the server's exist by then.
        for (int i = 0; i < 6000 && *ready < 3; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, std::size_t{1} << 47);
        QCOMPARE(pthread_setattr_default_np(&attributes), 0);
        pthread_attr_destroy(&attributes);
      }
      void onStep(const runtime::StepRecord&) override {}
      void onEvents(const std::vector<plan::Event>&) override {}
      void onEpoch(const runtime::EpochRecord&) override {}
      void onCheckpoint(std::int64_t, const std::string&) override {}
    };
    std::atomic<int> ready{0};
    std::vector<Observer> observers(4);
    for (Observer& one : observers) one.ready = &ready;
    observers[3].serves = true;
    const std::atomic<bool> stop{false};
    const SyntheticImages train(960), evaluate(200);
    auto groups = runtime::LocalGroups::make(plan->mesh, 30'000'000'000).value();
    pthread_attr_t before;
    QCOMPARE(pthread_getattr_default_np(&before), 0);
    const auto ranks =
        runtime::trainLocally({*plan, settings.trainer, train, evaluate, "reference", {}}, groups,
                              stop, [&](int rank) -> runtime::TrainerObserver& {
                                return observers[static_cast<std::size_t>(rank)];
                              });
    QCOMPARE(pthread_setattr_default_np(&before), 0);
    pthread_attr_destroy(&before);
    for (const auto& rank : ranks) QVERIFY(!rank.ok());
    QVERIFY2(ranks[3].error().what.text().starts_with(
                 "out of memory for the threads of 3 workers' sessions"),
             ranks[3].error().what.text().c_str());
  }
};

QTEST_GUILESS_MAIN(AsyncUpdatesTest)
#include "async_updates_test.moc"
