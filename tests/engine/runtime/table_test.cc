// Embedding tables: row-sparse updates on any number of ranks, and AUC. Dropout: identical masks
// for every division of the work.
#include <QTemporaryDir>
#include <QTest>
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
    QTest::addRow("%s %d ranks, tensor %d, %d stages, %d servers, %d micro-batches", strategy,
                  ranks, modelRanks, stages, servers, microBatches)
        << QString(strategy) << ranks << modelRanks << stages << servers << microBatches;
  };
  for (const int ranks : {2, 3, 4}) row("multi-worker-mirrored", ranks);
  row("multi-worker-mirrored", 2, 1, 1, 0, 2);
  row("zero-1", 2);
  row("zero-3", 2);
  row("tensor-parallel", 2, 2);
  row("tensor-parallel", 4, 2);
  row("pipeline", 2, 1, 2, 0, 2);
  for (const int servers : {1, 2, 3})
    for (const int workers : {1, 2, 3}) row("parameter-server", workers + servers, 1, 1, servers);
  row("parameter-server", 4, 1, 1, 2, 2);
  row("central-storage", 3, 1, 1, 1);
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

// Parameter-server configurations: synchronous and asynchronous workers, and optimizers.
void servings() {
  QTest::addColumn<int>("workers");
  QTest::addColumn<int>("servers");
  QTest::addColumn<QString>("dense");
  QTest::addColumn<int>("staleness");
  QTest::addColumn<QString>("optimizer");
  QTest::addColumn<int>("microBatches");
  QTest::addColumn<double>("clip");
  const auto row = [](int workers, int servers, const char* dense, int staleness = 0,
                      const char* optimizer = "adagrad", int microBatches = 1, double clip = 0) {
    QTest::addRow("%d workers, %d servers, %s, staleness %d, %s, %d micro-batches, clip %g",
                  workers, servers, dense, staleness, optimizer, microBatches, clip)
        << workers << servers << QString(dense) << staleness << QString(optimizer) << microBatches
        << clip;
  };
  for (const int workers : {1, 2, 3})
    for (const int servers : {1, 2, 3}) row(workers, servers, "all-reduce");
  for (const char* optimizer : {"sgd", "momentum", "adam", "decay"})
    for (const char* dense : {"servers", "all-reduce"}) row(2, 2, dense, 0, optimizer);
  for (const char* dense : {"servers", "all-reduce"}) row(2, 2, dense, 0, "adagrad", 2);
  row(3, 2, "servers", 0, "adagrad", 1, 0.05);
  for (const int servers : {1, 2}) row(1, servers, "servers", -1);
  for (const char* optimizer : {"sgd", "adam"}) row(1, 2, "servers", -1, optimizer);
  row(1, 2, "servers", 1, "adagrad", 1, 0.05);
}

RunSettings served(RunSettings settings) {
  QFETCH(int, workers);
  QFETCH(int, servers);
  QFETCH(QString, dense);
  QFETCH(int, staleness);
  QFETCH(int, microBatches);
  settings.strategy = "parameter-server";
  settings.ranks = workers + servers;
  settings.servers = servers;
  settings.dense = dense.toStdString();
  settings.staleness = staleness;
  settings.microBatches = microBatches;
  return settings;
}

RunSettings optimized(RunSettings settings) {
  QFETCH(QString, optimizer);
  QFETCH(double, clip);
  auto& own = settings.optimizer;
  own.kind = optimizer == "momentum" ? "sgd"
             : optimizer == "decay"  ? "adagrad"
                                     : optimizer.toStdString();
  own.momentum = optimizer == "momentum" ? 0.9 : 0;
  own.weightDecay = optimizer == "decay" ? 1e-3 : 0;
  own.clipNorm = clip;
  if (own.kind == "adam") {
    own.epsilon = 1e-8;
    settings.trainer.schedule.peak = 0.01;
  }
  return settings;
}

// Maximum bytes of rows that a rank's plan sends per step.
std::int64_t rowBytes(const plan::Plan& plan, int rank) {
  std::int64_t bytes = 0;
  for (const plan::ScheduleEntry& entry : plan.entriesOf(rank))
    for (const plan::Step& step : plan.find(entry.program, rank)->steps)
      if (step.op == ir::Op::kSendRows) bytes += step.bytes;
  return bytes;
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
  // Untouched rows are left as by a dense update, bit by bit.
  void byRowsAsByTheWholeTable() {
    RunSettings settings = tables();
    const plan::Plan rows = planOf(settings).value();
    QVERIFY(updatesRows(rows));
    settings.optimizer.weightDecay = 1e-300;  // touches every row without changing it
    const plan::Plan whole = planOf(settings).value();
    QVERIFY(!updatesRows(whole));
    QVERIFY(rows.find("step")->bodies[0].arenaBytes < whole.find("step")->bodies[0].arenaBytes);
    const RunOutcome a = run(settings, rows), b = run(settings, whole);
    QVERIFY2(a.ok() && b.ok(), (a.error() + b.error()).c_str());
    QCOMPARE(worstRelative(a, b), 0.0);
    QCOMPARE(a.ranks[0]->weightsSha256, b.ranks[0]->weightsSha256);
  }

  // Exchanged data grows with the batch, not with the table.
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
    QVERIFY2(worstRelative(several, one) <= 1e-9,
             std::to_string(worstRelative(several, one)).c_str());
    QVERIFY(one.steps.back().loss < one.steps.front().loss);
    const double auc = one.epochs.back().evalMetric;
    QVERIFY2(auc > 0.6 && auc < 1, std::to_string(auc).c_str());
    QVERIFY(std::abs(several.epochs.back().evalMetric - auc) <= 1e-9);
  }

  // Row-sharded tables on servers, with the dense part there or on the workers.
  void serversAgainstOne_data() { servings(); }
  void serversAgainstOne() {
    const RunSettings settings = optimized(tables());
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    const RunOutcome several = trained(served(settings));
    QVERIFY2(several.ok(), several.error().c_str());
    QVERIFY2(worstRelative(several, one) <= 1e-9,
             std::to_string(worstRelative(several, one)).c_str());
    QVERIFY(std::abs(several.epochs.back().evalMetric - one.epochs.back().evalMetric) <= 1e-9);
  }

  // Asynchronous workers learn as well as one rank.
  void serversOfWorkersByThemselves() {
    RunSettings settings = tables();
    settings.trainer.maxSteps = 0;
    settings.trainer.epochs = 12;
    settings.trainer.schedule.peak = 0.03;  // each gradient is of a third of the batch
    const RunOutcome one = trained(settings);
    settings.strategy = "parameter-server";
    settings.ranks = 5;
    settings.servers = 2;
    for (const int staleness : {1, -1}) {
      settings.staleness = staleness;
      const RunOutcome several = trained(settings);
      QVERIFY2(one.ok() && several.ok(), several.error().c_str());
      const double auc = several.epochs.back().evalMetric, alone = one.epochs.back().evalMetric;
      QVERIFY2(auc >= alone - 0.03, fmt::format("AUC {}, of one rank {}", auc, alone).c_str());
    }
  }

  // Exchanged data grows with the batch, not with the table, and is at most what the plan states;
  // no worker holds rows.
  void serversExchangeRows() {
    RunSettings settings = tables();
    settings.strategy = "parameter-server";
    settings.ranks = 4;
    settings.servers = 2;
    settings.trainer.eventsEvery = 1;
    settings.trainer.maxSteps = 3;
    const plan::Plan plan = planOf(settings).value();
    const std::int64_t table = 3 * 400 * 4 * 8, asked = 48 * 3 / 2;
    std::int64_t held = 0, least = table;
    for (const plan::StateSlot& slot : plan.state)
      for (const auto& member : slot.members) {
        if (!slot.name.starts_with("params.") || member.rows == 0) continue;
        QVERIFY(slot.stage > 0);
        held += slot.type.bytes();
        least = std::min(least, slot.type.bytes());
      }
    QCOMPARE(held, table);
    QCOMPARE(least, table / 2);
    const planner::RankMemory memory = planner::memory(plan, 0);
    QCOMPARE(memory.parameters + memory.optimizer, 0);
    QVERIFY2(memory.gradients < table, std::to_string(memory.gradients).c_str());
    QVERIFY(rowBytes(plan, 0) < asked * (4 + 4 * 8) + 64);
    const RunOutcome out = run(settings, plan);
    QVERIFY2(out.ok(), out.error().c_str());
    std::int64_t sent = 0, received = 0, planned = 0;
    for (int rank = 0; rank < settings.ranks; ++rank) {
      std::vector<const plan::Step*> steps;
      for (const plan::ScheduleEntry& entry : plan.entriesOf(rank))
        for (const plan::Step& step : plan.find(entry.program, rank)->steps) steps.push_back(&step);
      std::int64_t mine = 0;
      for (const plan::Event& event : out.events[static_cast<std::size_t>(rank)]) {
        const ir::Op op = steps[static_cast<std::size_t>(event.planStep)]->op;
        if (op == ir::Op::kSendRows) sent += event.bytes, mine += event.bytes;
        if (op == ir::Op::kRecvRows) received += event.bytes;
      }
      planned += 3 * rowBytes(plan, rank);
      if (rank < 2) QVERIFY(mine > 0 && mine <= 3 * rowBytes(plan, rank));
    }
    QCOMPARE(sent, received);
    QVERIFY2(sent <= planned && sent > planned / 4, fmt::format("{} of {}", sent, planned).c_str());
  }

  void denseIsRefusedWhere() {
    const auto refused = [](const RunSettings& settings, const char* text) {
      const auto plan = planOf(settings);
      return !plan.ok() && plan.error().text().find(text) != std::string::npos;
    };
    RunSettings settings = tables();
    settings.dense = "all-reduce";
    settings.ranks = 3;
    QVERIFY(refused(settings, "has no servers for tables"));
    settings.strategy = "parameter-server";
    settings.servers = 1;
    QVERIFY2(planOf(settings).ok(),
             planOf(settings).ok() ? "" : planOf(settings).error().text().c_str());
    settings.dense = "here";
    QVERIFY(refused(settings, "expected servers or all-reduce"));
    settings.dense = "all-reduce";
    settings.staleness = 1;
    QVERIFY(refused(settings, "set strategy.staleness to 0"));
    settings.staleness = 0;
    settings.optimizer.clipNorm = 1;
    QVERIFY(refused(settings, "set training.optimizer.clip_norm to 0"));
    settings.optimizer.clipNorm = 0;
    settings.model = fashionMlp();
    QVERIFY(refused(settings, "no table for servers to hold"));
  }

  // A checkpoint has full tables, whichever server held which rows.
  void tablesFromServersAreWhole() {
    const QTemporaryDir folder;
    RunSettings settings = tables();
    settings.trainer.maxSteps = 10;
    const RunOutcome one = trained(settings);
    settings.trainer.maxSteps = 5;
    settings.trainer.checkpointFolder = folder.path().toStdString();
    settings.strategy = "parameter-server";
    settings.ranks = 5;
    settings.servers = 3;
    const RunOutcome first = trained(settings);
    QVERIFY2(first.ok(), first.error().c_str());
    settings.trainer.resumeFrom = folder.path().toStdString();
    settings.trainer.maxSteps = 10;
    settings.servers = 2;
    settings.dense = "all-reduce";
    const RunOutcome second = trained(settings);
    QVERIFY2(second.ok(), second.error().c_str());
    QVERIFY(std::abs(second.steps.back().loss - one.steps.back().loss) <= 1e-9);
    QVERIFY(std::abs(second.epochs.back().evalLoss - one.epochs.back().evalLoss) <= 1e-9);
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
    settings.strategy = "parameter-server";
    settings.ranks = 4;
    settings.servers = 2;
    for (const char* dense : {"servers", "all-reduce"}) {
      settings.dense = dense;
      const RunOutcome servers = trained(settings);
      QVERIFY2(servers.ok(), servers.error().c_str());
      QVERIFY(worstRelative(servers, reference) <= 1e-5);
    }
  }

  // Masks are a function of seed, step, layer and position in the batch.
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
    QVERIFY2(worstRelative(several, one) <= 1e-9,
             std::to_string(worstRelative(several, one)).c_str());
    QVERIFY(std::abs(several.epochs.back().evalLoss - one.epochs.back().evalLoss) < 1e-9);
  }

  // Between two tensor-parallel dense layers, a rank masks its own columns.
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

  // Compares the histogram's AUC with that over all pairs, within its error bound.
  void aucOfAHistogram() {
    constexpr std::size_t kSamples = 500, kBins = 64;
    std::vector<double> scores, sums(2 * kBins, 0.0);
    std::vector<bool> ones;
    for (std::uint64_t i = 0; i < kSamples; ++i) {
      ones.push_back(randomUniform(1, i) < 0.3);
      scores.push_back(
          std::clamp(randomUniform(2, i) * 0.7 + (ones.back() ? 0.25 : 0.0), 0.0, 0.999));
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
    QCOMPARE(runtime::metricValue("perplexity", std::vector<double>{4 * std::log(7.0)}, 4), 7.0);
  }
};

QTEST_GUILESS_MAIN(TableTest)
#include "table_test.moc"
