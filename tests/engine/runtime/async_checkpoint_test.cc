// Checkpoints of asynchronous training within an epoch: the workers meet for each.
#include <QTemporaryDir>
#include <QTest>

#include "tests/support/checkpoint_content.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

RunSettings asynchronous(int workers, int servers, int staleness) {
  RunSettings settings;
  settings.backend = "onednn";
  settings.compute = DType::kF32;
  settings.strategy = "parameter-server";
  settings.ranks = workers + servers;
  settings.servers = servers;
  settings.staleness = staleness;
  settings.batch = 60;
  settings.samples = 900;  // 15 steps an epoch
  settings.trainer.epochs = 2;
  settings.trainer.keepCheckpoints = 100;
  return settings;
}

std::vector<std::int64_t> stepsOf(const std::vector<std::string>& checkpoints) {
  std::vector<std::int64_t> out;
  for (const std::string& folder : checkpoints)
    out.push_back(std::stoll(folder.substr(folder.rfind('-') + 1)));
  return out;
}

// Of the sums of its epoch's loss.
double samplesIn(const std::string& checkpoint) {
  return std::stod(manifestIn(checkpoint).metadata.at("weight_sum"));
}

}  // namespace

class AsyncCheckpointTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void ranksMeet_data() {
    QTest::addColumn<int>("workers");
    QTest::addColumn<int>("servers");
    QTest::addColumn<int>("staleness");
    QTest::newRow("one worker") << 1 << 1 << plan::Plan::kAnyStaleness;
    QTest::newRow("two servers") << 1 << 2 << 3;
    QTest::newRow("three workers") << 3 << 1 << plan::Plan::kAnyStaleness;
    QTest::newRow("three workers, two servers") << 3 << 2 << 2;
  }
  void ranksMeet() {
    QFETCH(int, workers);
    QFETCH(int, servers);
    QFETCH(int, staleness);
    const RunSettings settings = asynchronous(workers, servers, staleness);
    const RunOutcome without = trained(settings);
    QVERIFY2(without.ok(), without.error().c_str());
    const bool sameBits = workers == 1;
    for (const bool bySteps : {true, false}) {
      QTemporaryDir dir;
      RunSettings with = settings;
      with.trainer.checkpointFolder = dir.path().toStdString();
      if (bySteps)
        with.trainer.checkpointSteps = 4;
      else
        with.trainer.checkpointSeconds = 1e-9;
      const RunOutcome whole = trained(with);
      QVERIFY2(whole.ok(), whole.error().c_str());
      // Each step once, and the sums of all workers.
      QCOMPARE(whole.steps.size(), without.steps.size());
      for (std::size_t i = 0; i < whole.steps.size(); ++i)
        QCOMPARE(whole.steps[i].step, static_cast<std::int64_t>(i) + 1);
      QCOMPARE(whole.epochs.size(), std::size_t{2});
      if (sameBits) {
        QCOMPARE(whole.ranks[0]->weightsSha256, without.ranks[0]->weightsSha256);
        QCOMPARE(whole.epochs.back().trainLoss, without.epochs.back().trainLoss);
      }
      const std::vector<std::int64_t> taken = stepsOf(whole.checkpoints);
      QVERIFY(!taken.empty() && std::is_sorted(taken.begin(), taken.end()));
      QVERIFY2(taken.front() < 15, "none within the first epoch");
      QCOMPARE(taken.back(), 30);
      for (const std::int64_t step : taken) QVERIFY(!bySteps || step % 4 == 0 || step % 15 == 0);
      // Each has the samples of all workers since the epoch's begin, once.
      for (std::size_t i = 0; i < taken.size(); ++i)
        QCOMPARE(samplesIn(whole.checkpoints[i]), taken[i] % 15 * 60);
      for (const std::size_t at : {std::size_t{0}, taken.size() / 2}) {
        RunSettings again = settings;
        again.trainer.resumeFrom = whole.checkpoints[at];
        const RunOutcome rest = trained(again);
        QVERIFY2(rest.ok(), rest.error().c_str());
        QVERIFY(taken[at] == 30 || !rest.steps.empty());
        if (rest.steps.empty()) continue;
        QCOMPARE(rest.steps.front().step, taken[at] + 1);
        QCOMPARE(rest.steps.back().step, 30);
        if (!sameBits) continue;
        QCOMPARE(rest.ranks[0]->weightsSha256, without.ranks[0]->weightsSha256);
        QCOMPARE(rest.epochs.back().trainLoss, whole.epochs.back().trainLoss);
      }
    }
  }

  // Of a worker that asks, whichever it is; and a stop between the meetings.
  void onRequest() {
    for (int asking = 0; asking < 3; ++asking) {
      QTemporaryDir dir;
      RunSettings settings = asynchronous(3, 1, 1);  // none is far ahead
      settings.trainer.epochs = 4;
      settings.trainer.checkpointFolder = dir.path().toStdString();
      settings.stopAt = 22;
      std::vector<std::atomic<bool>> asked(4);
      asked[static_cast<std::size_t>(asking)] = true;
      settings.adapt = [&](int rank, runtime::TrainerOptions& options) {
        options.checkpointAsked = &asked[static_cast<std::size_t>(rank)];
      };
      const RunOutcome outcome = trained(settings);
      QVERIFY2(outcome.ok(), outcome.error().c_str());
      const std::vector<std::int64_t> taken = stepsOf(outcome.checkpoints);
      QVERIFY(!taken.empty() && taken.front() < 15);
      for (const auto& one : asked) QVERIFY(!one);
      for (const auto& rank : outcome.ranks) {
        QCOMPARE(rank->status, std::string("stopped"));
        QCOMPARE(rank->steps, outcome.ranks[0]->steps);
      }
      QVERIFY(outcome.ranks[0]->steps >= 22 && outcome.ranks[0]->steps < 30);
      QCOMPARE(taken.back(), outcome.ranks[0]->steps);
    }
  }

  // A training that goes on from a checkpoint stops as soon as a new one.
  void aStopBeforeTheFirstStep() {
    QTemporaryDir dir;
    RunSettings settings = asynchronous(2, 2, plan::Plan::kAnyStaleness);
    settings.trainer.checkpointFolder = dir.path().toStdString();
    settings.trainer.checkpointSteps = 4;
    const RunOutcome whole = trained(settings);
    QVERIFY2(whole.ok(), whole.error().c_str());
    for (const bool resumes : {false, true}) {
      QTemporaryDir other;
      RunSettings again = settings;
      again.trainer.checkpointFolder = other.path().toStdString();
      again.trainer.checkpointSteps = 0;
      again.stopAt = -1;
      if (resumes) again.trainer.resumeFrom = whole.checkpoints[1];
      const RunOutcome rest = trained(again);
      QVERIFY2(rest.ok(), rest.error().c_str());
      QCOMPARE(rest.ranks[0]->status, std::string("stopped"));
      QCOMPARE(rest.steps.size(), std::size_t{1});
      QCOMPARE(rest.steps.front().step, resumes ? stepsOf(whole.checkpoints)[1] + 1 : 1);
    }
  }
};

QTEST_GUILESS_MAIN(AsyncCheckpointTest)
#include "async_checkpoint_test.moc"
