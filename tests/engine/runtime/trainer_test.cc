// How the trainer runs a plan: its seed, how long it trains, when it stops, and what its events
// say.
#include <QTest>
#include <atomic>
#include <thread>

#include "engine/planner/planner.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;

class TrainerTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void sameSpecSameBits_data() {
    QTest::addColumn<bool>("resnet");
    QTest::newRow("cnn") << false;
    QTest::newRow("resnet") << true;
  }
  void sameSpecSameBits() {
    QFETCH(bool, resnet);
    RunSettings settings;
    settings.model = resnet ? smallResnet() : fashionCnn();
    settings.backend = "onednn";
    settings.compute = DType::kF32;
    settings.ranks = 3;
    settings.batch = 64;
    settings.trainer.epochs = 2;
    const RunOutcome a = trained(settings), b = trained(settings);
    QVERIFY2(a.ok() && b.ok(), (a.error() + b.error()).c_str());
    QCOMPARE(a.ranks[0]->weightsSha256, b.ranks[0]->weightsSha256);
    QCOMPARE(a.ranks[0]->weightsSha256.size(), std::size_t{64});
    settings.trainer.seed = 2;
    const RunOutcome c = trained(settings);
    QVERIFY2(c.ok(), c.error().c_str());
    QVERIFY(a.ranks[0]->weightsSha256 != c.ranks[0]->weightsSha256);
  }

  // The executor and the simulator say the same things in the same order: per rank, the same plan
  // steps of the same kinds. (Waiting is told by the simulator, which knows all ranks; readers
  // derive it for real runs.)
  void executorAndSimulatorTellTheSameOrder_data() {
    QTest::addColumn<bool>("cnn");
    QTest::addColumn<QString>("schedule");
    QTest::newRow("mlp") << false << "";
    QTest::newRow("cnn") << true << "";
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
      QTest::newRow(schedule) << true << schedule;
  }
  void executorAndSimulatorTellTheSameOrder() {
    QFETCH(bool, cnn);
    QFETCH(QString, schedule);
    RunSettings settings;
    settings.model = cnn ? fashionCnn() : fashionMlp();
    settings.ranks = 3;
    settings.batch = 64;
    if (!schedule.isEmpty()) {
      settings.strategy = "pipeline";
      settings.stages = 3;
      settings.microBatches = 4;
      settings.schedule = schedule.toStdString();
    }
    settings.backend = "onednn";
    settings.compute = DType::kF32;
    settings.bucketBytes = 8192;
    settings.trainer.maxSteps = 2;
    settings.trainer.eventsEvery = 1;
    auto plan = planOf(settings);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    const RunOutcome real = run(settings, *plan);
    QVERIFY2(real.ok(), real.error().c_str());
    planner::SimulateOptions simulate;
    simulate.steps = 2;
    const planner::Simulation simulated =
        planner::simulate(*plan, oneHost(3, 2, 1, settings.stages), {}, simulate);
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<std::string> measured, predicted;
      for (const plan::Event& event : real.events[static_cast<std::size_t>(rank)])
        measured.push_back(fmt::format("{}/{}", event.planStep, plan::eventKindName(event.kind)));
      for (const plan::Event& event : simulated.events)
        if (event.rank == rank && event.planStep >= 0 && event.kind != plan::EventKind::kWaiting)
          predicted.push_back(
              fmt::format("{}/{}", event.planStep, plan::eventKindName(event.kind)));
      QVERIFY(!measured.empty());
      QCOMPARE(measured, predicted);
    }
  }

  void zeroIsASeedOfItsOwn() {
    RunSettings settings;
    settings.samples = 200;
    settings.trainer.seed = 0;
    const RunOutcome zero = trained(settings), again = trained(settings);
    settings.trainer.seed = 1;
    const RunOutcome one = trained(settings);
    QVERIFY2(zero.ok() && again.ok() && one.ok(), (zero.error() + one.error()).c_str());
    QCOMPARE(zero.ranks[0]->weightsSha256, again.ranks[0]->weightsSha256);
    QVERIFY(zero.ranks[0]->weightsSha256 != one.ranks[0]->weightsSha256);
  }

  // Without a number of epochs, training continues over as many as its steps need.
  void stepsAloneSayHowLong() {
    RunSettings settings;
    settings.samples = 960;  // ten steps per epoch
    settings.trainer.epochs = 0;
    settings.trainer.maxSteps = 25;
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    QCOMPARE(out.ranks[0]->steps, std::int64_t{25});
    QCOMPARE(out.steps.size(), std::size_t{25});
    QCOMPARE(out.steps.back().epoch, std::int64_t{3});
    QCOMPARE(out.epochs.size(), std::size_t{3});
    QCOMPARE(out.epochs.back().step, std::int64_t{25});
    settings.trainer.epochs = 2;
    const RunOutcome bounded = trained(settings);
    QVERIFY2(bounded.ok(), bounded.error().c_str());
    QCOMPARE(bounded.ranks[0]->steps, std::int64_t{20});
    settings.trainer.epochs = std::int64_t{1} << 62;  // their steps are beyond 64 bits
    const RunOutcome endless = trained(settings);
    QVERIFY2(endless.ok(), endless.error().c_str());
    QCOMPARE(endless.ranks[0]->steps, std::int64_t{25});
  }

  void stopIsAgreed() {
    RunSettings settings;
    settings.ranks = 3;
    settings.trainer.epochs = 3;
    auto plan = planOf(settings);
    QVERIFY(plan.ok());
    // The stop input of a single rank stops all after the same step.
    const plan::Program* step = plan->find("step");
    QVERIFY(step != nullptr);
    struct Stopper : runtime::TrainerObserver {
      std::atomic<bool>* stop;
      void onReady(std::int64_t) override {}
      void onStep(const runtime::StepRecord& record) override {
        if (record.step == 7) *stop = true;
      }
      void onEvents(const std::vector<plan::Event>&) override {}
      void onEpoch(const runtime::EpochRecord&) override {}
      void onCheckpoint(std::int64_t, const std::string&) override {}
    };
    auto group = comm::makeInProcessGroup(3, 30'000'000'000).value();
    const SyntheticImages train(960), evaluate(200);
    std::vector<std::thread> threads;
    std::vector<std::int64_t> ended(3, -1);
    std::vector<std::string> status(3);
    for (int rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank] {
        auto backend = backends::makeBackend("reference", {});
        std::atomic<bool> stop{false}, never{false};
        Stopper stopper;
        stopper.stop = rank == 1 ? &stop : &never;
        auto summary = runtime::train(*plan, rank, settings.trainer, train, evaluate, **backend,
                                      group[static_cast<std::size_t>(rank)].get(),
                                      rank == 1 ? stop : never, stopper);
        if (summary.ok()) {
          ended[static_cast<std::size_t>(rank)] = summary->steps;
          status[static_cast<std::size_t>(rank)] = summary->status;
        }
      });
    for (std::thread& thread : threads) thread.join();
    QCOMPARE(ended, (std::vector<std::int64_t>{8, 8, 8}));
    QCOMPARE(status, (std::vector<std::string>(3, "stopped")));
  }
};

QTEST_GUILESS_MAIN(TrainerTest)
#include "trainer_test.moc"
