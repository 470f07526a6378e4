// Tables of categories: updated by the rows a batch touches, on any number of ranks, and measured by
// their AUC. Dropout: the same masks for every division of the work.
#include <QtTest>
#include <algorithm>
#include <cmath>

#include "engine/runtime/metric.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

RunSettings tables() {
  RunSettings settings;
  settings.model = smallCtr();
  settings.batch = 48;
  settings.evaluateBatch = 100;
  settings.optimizer.kind = "adagrad";
  settings.optimizer.epsilon = 1e-10;
  settings.trainer.maxSteps = 30;
  settings.trainer.schedule.peak = 0.1;
  return settings;
}

bool updatesRows(const plan::Plan& plan) {
  for (const plan::Body& body : plan.find("step")->bodies)
    for (const plan::Step& step : body.steps)
      if (step.op == ir::Op::kAdagradRows) return true;
  return false;
}

void divisions() {
  QTest::addColumn<QString>("strategy");
  QTest::addColumn<int>("ranks");
  QTest::addColumn<int>("modelRanks");
  QTest::addColumn<int>("stages");
  QTest::addColumn<int>("servers");
  QTest::addColumn<int>("microBatches");
  const auto row = [](const char* strategy, int ranks, int modelRanks = 1, int stages = 1,
                      int servers = 0, int microBatches = 1) {
    QTest::addRow("%s %d ranks, tensor %d, %d stages, %d servers, %d micro-batches", strategy, ranks,
                  modelRanks, stages, servers, microBatches)
        << QString(strategy) << ranks << modelRanks << stages << servers << microBatches;
  };
  for (const int ranks : {2, 3, 4}) row("multi-worker-mirrored", ranks);
  row("multi-worker-mirrored", 2, 1, 1, 0, 2);
  row("zero-1", 2);
  row("zero-3", 2);
  row("tensor-parallel", 2, 2);
  row("tensor-parallel", 4, 2);
  row("pipeline", 2, 1, 2, 0, 2);
  row("parameter-server", 3, 1, 1, 1);
  row("pipeline", 4, 2, 2, 0, 2);
}

RunSettings divided(RunSettings settings) {
  QFETCH(QString, strategy);
  QFETCH(int, ranks);
  QFETCH(int, modelRanks);
  QFETCH(int, stages);
  QFETCH(int, servers);
  QFETCH(int, microBatches);
  settings.strategy = strategy.toStdString();
  settings.ranks = ranks;
  settings.modelRanks = modelRanks;
  settings.stages = stages;
  settings.servers = servers;
  settings.microBatches = microBatches;
  return settings;
}

models::Layer dropout(const char* name, double rate) {
  models::Layer layer;
  layer.kind = models::Layer::Kind::kDropout;
  layer.name = name;
  layer.dropout = rate;
  return layer;
}

}  // namespace

class TableTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // Rows that a batch does not touch stay as a dense update leaves them: the same bits.
  void byRowsAsByTheWholeTable() {
    RunSettings settings = tables();
    const plan::Plan rows = planOf(settings).value();
    QVERIFY(updatesRows(rows));
    settings.optimizer.weightDecay = 1e-300;  // moves every row, by nothing
    const plan::Plan whole = planOf(settings).value();
    QVERIFY(!updatesRows(whole));
    QVERIFY(rows.find("step")->bodies[0].arenaBytes < whole.find("step")->bodies[0].arenaBytes);
    const RunOutcome a = run(settings, rows), b = run(settings, whole);
    QVERIFY2(a.ok() && b.ok(), (a.error() + b.error()).c_str());
    QCOMPARE(worstRelative(a, b), 0.0);
    QCOMPARE(a.ranks[0]->weightsSha256, b.ranks[0]->weightsSha256);
  }

  // What ranks exchange of a table grows with the batch, not with the table.
  void exchangeIsOfRows() {
    RunSettings settings = tables();
    settings.ranks = 2;
    const plan::Plan plan = planOf(settings).value();
    QVERIFY(updatesRows(plan));
    const std::int64_t table = 3 * 400 * 4 * 8;
    std::int64_t bytes = 0;
    for (const plan::Step& step : plan.find("step")->bodies[0].steps)
      if (step.kind == plan::StepKind::kCollective) bytes += step.bytes;
    const std::int64_t rows = 48 * 3;
    const std::int64_t metrics = 8 * (2 * 1024 + 3);
    QVERIFY(bytes > rows * (4 * 8 + 4) / 2);
    QVERIFY2(bytes < rows * (4 * 8 + 4) + metrics + 8 * 512 && bytes < table,
             std::to_string(bytes).c_str());
  }

  void severalRanksAgainstOne_data() { divisions(); }
  void severalRanksAgainstOne() {
    const RunOutcome one = trained(tables());
    QVERIFY2(one.ok(), one.error().c_str());
    const RunOutcome several = trained(divided(tables()));
    QVERIFY2(several.ok(), several.error().c_str());
    QVERIFY2(worstRelative(several, one) <= 1e-9, std::to_string(worstRelative(several, one)).c_str());
    QVERIFY(one.steps.back().loss < one.steps.front().loss);
    const double auc = one.epochs.back().evalMetric;
    QVERIFY2(auc > 0.6 && auc < 1, std::to_string(auc).c_str());
    QVERIFY(std::abs(several.epochs.back().evalMetric - auc) <= 1e-9);
  }

  void onednnFollowsTheReference() {
    RunSettings settings = tables();
    const RunOutcome reference = trained(settings);
    settings.compute = DType::kF32;
    settings.backend = "onednn";
    settings.ranks = 2;
    const RunOutcome single = trained(settings);
    QVERIFY2(single.ok(), single.error().c_str());
    QVERIFY(worstRelative(single, reference) <= 1e-5);
  }

  // Masks are a function of seed, step, layer and place in the batch.
  void dropoutIsTheSameForEveryDivision_data() { divisions(); }
  void dropoutIsTheSameForEveryDivision() {
    RunSettings settings;
    settings.model = smallGpt();
    settings.batch = 12;
    settings.evaluateBatch = 20;
    settings.optimizer.kind = "sgd";
    settings.trainer.maxSteps = 8;
    settings.trainer.schedule.peak = 0.1;
    const RunOutcome without = trained(settings);
    for (models::Layer& layer : settings.model.layers)
      if (layer.kind == models::Layer::Kind::kTransformer) layer.dropout = 0.2;
    settings.model.layers.insert(settings.model.layers.begin() + 1, dropout("dropout", 0.1));
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok() && without.ok(), one.error().c_str());
    QVERIFY(worstRelative(one, without) > 1e-3);
    const RunOutcome several = trained(divided(settings));
    QVERIFY2(several.ok(), several.error().c_str());
    QVERIFY2(worstRelative(several, one) <= 1e-9, std::to_string(worstRelative(several, one)).c_str());
    QVERIFY(std::abs(several.epochs.back().evalLoss - one.epochs.back().evalLoss) < 1e-9);
  }

  // Between two dense layers that ranks share, a rank masks its own columns.
  void dropoutOfSharedColumns() {
    RunSettings settings;
    settings.model.layers.insert(settings.model.layers.begin() + 2, dropout("dropout", 0.5));
    settings.optimizer.kind = "sgd";
    settings.trainer.maxSteps = 4;
    settings.trainer.schedule.peak = 0.01;
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.strategy = "tensor-parallel";
    settings.ranks = settings.modelRanks = 2;
    const RunOutcome two = trained(settings);
    QVERIFY2(two.ok(), two.error().c_str());
    QVERIFY(worstRelative(two, one) <= 1e-9);
  }

  // The histogram's AUC against that of all pairs, within its own bound.
  void aucOfAHistogram() {
    constexpr std::size_t kSamples = 500, kBins = 64;
    std::vector<double> scores, sums(2 * kBins, 0.0);
    std::vector<bool> ones;
    for (std::uint64_t i = 0; i < kSamples; ++i) {
      ones.push_back(randomUniform(1, i) < 0.3);
      scores.push_back(std::clamp(randomUniform(2, i) * 0.7 + (ones.back() ? 0.25 : 0.0), 0.0, 0.999));
      const auto bin = static_cast<std::size_t>(scores.back() * kBins);
      sums[(ones.back() ? 0 : kBins) + bin] += 1;
    }
    double ordered = 0, pairs = 0, together = 0;
    for (std::size_t i = 0; i < kSamples; ++i)
      for (std::size_t j = 0; j < kSamples; ++j)
        if (ones[i] && !ones[j]) {
          ordered += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
          pairs += 1;
        }
    for (std::size_t b = 0; b < kBins; ++b) together += sums[b] * sums[kBins + b];
    const double auc = runtime::metricValue("auc", sums, kSamples);
    QVERIFY(std::abs(auc - ordered / pairs) <= 0.5 * together / pairs);
    QVERIFY(std::abs(auc - ordered / pairs) < 0.002);
    QVERIFY(std::isnan(runtime::metricValue("auc", std::vector<double>(8, 0.0), 0)));
    QCOMPARE(runtime::metricValue("accuracy", std::vector<double>{3}, 4), 0.75);
  }
};

QTEST_GUILESS_MAIN(TableTest)
#include "table_test.moc"
