// Activation recomputation takes less memory and changes no bit.
#include <QTest>

#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;

class RecomputeTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void sameBitsLessMemory_data() {
    QTest::addColumn<QString>("model");
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("modelRanks");
    QTest::addColumn<int>("stages");
    QTest::addColumn<QString>("schedule");
    const auto row = [](const char* model, const char* strategy, int ranks, int modelRanks = 1,
                        int stages = 1, const char* schedule = "1f1b") {
      QTest::addRow("%s %s %d ranks, tensor %d, %d stages %s", model, strategy, ranks, modelRanks,
                    stages, schedule)
          << model << strategy << ranks << modelRanks << stages << schedule;
    };
    for (const char* model : {"gpt", "resnet"}) {
      row(model, "mirrored", 1);
      row(model, "multi-worker-mirrored", 3);
      row(model, "zero-3", 2);
    }
    row("gpt", "parameter-server", 3);
    row("gpt", "tensor-parallel", 2, 2);
    for (const char* schedule : {"1f1b", "gpipe"}) row("gpt", "pipeline", 2, 1, 2, schedule);
    row("gpt", "zero-1", 8, 2, 2);
  }
  void sameBitsLessMemory() {
    QFETCH(QString, model);
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(int, modelRanks);
    QFETCH(int, stages);
    QFETCH(QString, schedule);
    RunSettings settings;
    settings.model = model == "gpt" ? smallGpt(12) : smallResnet();
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.modelRanks = modelRanks;
    settings.stages = stages;
    settings.servers = strategy == "parameter-server" ? 1 : 0;
    settings.schedule = schedule.toStdString();
    settings.microBatches = stages > 1 ? 4 : 1;
    settings.batch = 48;
    settings.evaluateBatch = 48;
    settings.samples = 200;
    settings.trainer.maxSteps = 6;
    const auto all = planOf(settings);
    QVERIFY2(all.ok(), all.ok() ? "" : all.error().text().c_str());
    const RunOutcome kept = run(settings, *all);
    QVERIFY2(kept.ok(), kept.error().c_str());
    for (const char* what : {"selective", "full"}) {
      settings.recompute = what;
      const auto plan = planOf(settings);
      QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
      const RunOutcome again = run(settings, *plan);
      QVERIFY2(again.ok(), again.error().c_str());
      QCOMPARE(again.ranks[0]->weightsSha256, kept.ranks[0]->weightsSha256);
      QCOMPARE(again.steps.back().loss, kept.steps.back().loss);
      const auto bytes = [](const plan::Plan& one) {
        return std::max(planner::memory(one, 0).activations, std::int64_t{1});
      };
      qInfo("%s: %.2f of the activations", what,
            static_cast<double>(bytes(*plan)) / static_cast<double>(bytes(*all)));
      QVERIFY(bytes(*plan) < bytes(*all));
    }
  }

  void whatMakesNoneIsRefused() {
    RunSettings settings;
    settings.recompute = "half";
    const auto unknown = planOf(settings);
    QVERIFY(!unknown.ok());
    QVERIFY(unknown.error().text().find("none, selective, full") != std::string::npos);
    settings.model = smallGpt();
    settings.strategy = "pipeline";
    settings.ranks = settings.stages = 2;
    settings.microBatches = 4;
    settings.recompute = "full";
    QVERIFY(planOf(settings).ok());
    settings.schedule = "zb-h1";
    const auto waiting = planOf(settings);
    QVERIFY(!waiting.ok());
    QVERIFY(waiting.error().text().find("strategy.schedule to 1f1b") != std::string::npos);
  }
};

QTEST_GUILESS_MAIN(RecomputeTest)
#include "recompute_test.moc"
