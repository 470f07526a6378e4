// Parity: distribution changes nothing but speed; several ranks compared with one.
#include <pthread.h>

#include <QElapsedTimer>
#include <QTemporaryDir>
#include <QTest>
#include <chrono>
#include <cmath>
#include <thread>

#include "engine/base/random.h"
#include "engine/cluster/strategies.h"
#include "tests/support/engine_run.h"
#include "tests/support/sanitizers.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// The strategies that divide only the batch and update together, each with its own placement.
std::vector<const char*> dataStrategies() {
  std::vector<const char*> names;
  for (const cluster::Strategy& s : cluster::strategies())
    if (s.axis == cluster::kDataAxis && !s.oneNode && !s.servers && !s.local)
      names.push_back(s.name.data());
  return names;
}

// Text or images with a short last step per epoch, warm-up, and a mean gradient that is clipped at
// first.
RunSettings clippedSteps(models::Model model) {
  RunSettings settings;
  settings.model = std::move(model);
  settings.batch = 16;
  settings.samples = 200;  // 12 full steps and one of 8 samples per epoch
  settings.bucketBytes = 8192;
  settings.trainer.epochs = 2;
  settings.trainer.maxSteps = 20;
  settings.trainer.schedule.peak = 3e-3;
  settings.trainer.schedule.warmup = 5;
  settings.optimizer.clipNorm = 0.3;
  settings.optimizer.weightDecay = 0.1;
  settings.optimizer.decayMatricesOnly = true;
  return settings;
}

}  // namespace

class ParityTest : public QObject {
  Q_OBJECT

  // What one rank computed, by model, backend, precision, optimizer and batch.
  std::map<std::tuple<QString, QString, bool, QString, int>, RunOutcome> one_;

 private Q_SLOTS:
  void severalRanksAgainstOne_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<QString>("model");
    QTest::addColumn<QString>("backend");
    QTest::addColumn<bool>("f64");
    QTest::addColumn<QString>("optimizer");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("batch");
    QTest::addColumn<int>("bucket");
    QTest::addColumn<double>("tolerance");
    const char* mirrored = "multi-worker-mirrored";
    QTest::newRow("mlp f64 sgd 3 ranks") << mirrored << "mlp"
                                         << "reference" << true << "sgd" << 3 << 96 << 0 << 1e-9;
    QTest::newRow("mlp f64 adam 3 ranks") << mirrored << "mlp"
                                          << "reference" << true << "adam" << 3 << 96 << 0 << 1e-9;
    QTest::newRow("mlp f64 adam, remainder")
        << mirrored << "mlp"
        << "reference" << true << "adam" << 3 << 64 << 0 << 1e-9;
    QTest::newRow("mlp f64 adam, many buckets")
        << mirrored << "mlp"
        << "reference" << true << "adam" << 2 << 96 << 4096 << 1e-9;
    QTest::newRow("cnn f64 sgd 3 ranks") << mirrored << "cnn"
                                         << "reference" << true << "sgd" << 3 << 48 << 0 << 1e-9;
    QTest::newRow("cnn f64 adam 3 ranks") << mirrored << "cnn"
                                          << "reference" << true << "adam" << 3 << 48 << 0 << 1e-9;
    QTest::newRow("mlp fp32 sgd 3 ranks") << mirrored << "mlp"
                                          << "onednn" << false << "sgd" << 3 << 96 << 0 << 1e-5;
    QTest::newRow("mlp fp32 adam 3 ranks") << mirrored << "mlp"
                                           << "onednn" << false << "adam" << 3 << 96 << 0 << 1e-4;
    QTest::newRow("cnn fp32 sgd 3 ranks") << mirrored << "cnn"
                                          << "onednn" << false << "sgd" << 3 << 96 << 0 << 1e-5;
    QTest::newRow("cnn fp32 adam 3 ranks") << mirrored << "cnn"
                                           << "onednn" << false << "adam" << 3 << 96 << 0 << 1e-4;
    QTest::newRow("cnn fp32 adam 4 ranks, remainder")
        << mirrored << "cnn"
        << "onednn" << false << "adam" << 4 << 50 << 65536 << 1e-4;
    for (const char* strategy : dataStrategies()) {
      if (std::string_view(strategy) == mirrored) continue;
      for (const int ranks : {2, 3, 4})
        QTest::addRow("mlp f64 adam %s %d ranks", strategy, ranks)
            << strategy << "mlp"
            << "reference" << true << "adam" << ranks << 96 << 4096 << 1e-9;
      QTest::addRow("mlp f64 sgd %s", strategy)
          << strategy << "mlp"
          << "reference" << true << "sgd" << 3 << 64 << 0 << 1e-9;
      QTest::addRow("cnn fp32 adam %s", strategy)
          << strategy << "cnn"
          << "onednn" << false << "adam" << 2 << 96 << 0 << 1e-4;
    }
  }
  void severalRanksAgainstOne() {
    QFETCH(QString, strategy);
    QFETCH(QString, model);
    QFETCH(QString, backend);
    QFETCH(bool, f64);
    QFETCH(QString, optimizer);
    QFETCH(int, ranks);
    QFETCH(int, batch);
    QFETCH(int, bucket);
    QFETCH(double, tolerance);
    RunSettings settings;
    settings.model = model == "mlp" ? fashionMlp() : fashionCnn();
    settings.backend = backend.toStdString();
    settings.compute = f64 ? DType::kF64 : DType::kF32;
    settings.optimizer.kind = optimizer.toStdString();
    settings.optimizer.momentum = optimizer == "sgd" ? 0.9 : 0;
    settings.batch = batch;
    settings.train = fashionMnist();
    if (settings.train == nullptr) QSKIP("the data set is not installed (dataset-fashion-mnist)");
    settings.trainer.maxSteps = 100;
    settings.trainer.schedule.peak = optimizer == "sgd" ? 0.01 : 1e-3;
    const auto key = std::tuple(model, backend, f64, optimizer, batch);
    if (!one_.contains(key)) one_.emplace(key, trained(settings));
    const RunOutcome& one = one_.at(key);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.ranks = ranks;
    settings.strategy = strategy.toStdString();
    settings.bucketBytes = bucket;
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    QCOMPARE(static_cast<std::int64_t>(one.steps.size()), settings.trainer.maxSteps);
    const double worst = worstRelative(several, one);
    qInfo("worst relative difference of the loss over %zu steps: %.2e", one.steps.size(), worst);
    QVERIFY(worst <= tolerance);
    QVERIFY(one.steps.back().loss < one.steps.front().loss);
    QVERIFY(std::abs(several.epochs.back().evalLoss - one.epochs.back().evalLoss) <=
            10 * tolerance * one.epochs.back().evalLoss);
  }

  // Independent of the number of ranks, in fp32, where the order of sums shows.
  void oneOrderOnAnyNumberOfRanks_data() {
    QTest::addColumn<bool>("text");
    QTest::addColumn<QString>("backend");
    QTest::newRow("mlp onednn") << false << "onednn";
    QTest::newRow("gpt onednn") << true << "onednn";
    QTest::newRow("gpt reference") << true << "reference";
  }
  void oneOrderOnAnyNumberOfRanks() {
    QFETCH(bool, text);
    QFETCH(QString, backend);
    RunSettings settings;
    settings.model = text ? smallGpt(12) : fashionMlp();
    settings.backend = backend.toStdString();
    settings.compute = DType::kF32;
    settings.batch = 48;
    settings.evaluateBatch = 48;
    settings.samples = 200;  // the last batch of an epoch is short
    settings.bucketBytes = 8192;
    settings.optimizer.clipNorm = 0.3;
    settings.trainer.epochs = 3;
    const auto with = [&](int ranks, int microBatches, bool inOrder) {
      settings.ranks = ranks;
      settings.microBatches = microBatches;
      settings.inOrder = inOrder;
      return trained(settings);
    };
    const RunOutcome one = with(1, 12, true);
    QVERIFY2(one.ok(), one.error().c_str());
    bool otherwise = false;
    for (const int ranks : {2, 3, 4, 6, 12}) {
      const RunOutcome several = with(ranks, 12 / ranks, true);
      QVERIFY2(several.ok(), several.error().c_str());
      QCOMPARE(several.steps.size(), one.steps.size());
      for (std::size_t i = 0; i < one.steps.size(); ++i)
        QCOMPARE(several.steps[i].loss, one.steps[i].loss);
      QCOMPARE(several.ranks[0]->weightsSha256, one.ranks[0]->weightsSha256);
      const RunOutcome asItGoes = with(ranks, 12 / ranks, false);
      otherwise = otherwise || asItGoes.ranks[0]->weightsSha256 != one.ranks[0]->weightsSha256;
    }
    QVERIFY(otherwise);  // otherwise the test is vacuous
  }
  void whatHasNoOrderIsRefused() {
    RunSettings settings;
    settings.inOrder = true;
    settings.ranks = 2;
    QVERIFY(planOf(settings).ok());
    settings.batch = 95;
    QVERIFY(planOf(settings).error().text().find("set training.batch to 96") != std::string::npos);
    settings.batch = 96;
    for (const char* strategy : {"zero-1", "local-sgd"}) {
      settings.strategy = strategy;
      QVERIFY(planOf(settings).error().text().find("strategy.deterministic_parts to 0") !=
              std::string::npos);
    }
  }

  // Independent of the ranks' shares.
  void unevenSharesAgainstOne_data() {
    QTest::addColumn<QString>("strategy");
    for (const char* strategy :
         {"multi-worker-mirrored", "zero-1", "zero-3", "parameter-server", "local-sgd"})
      QTest::addRow("%s", strategy) << strategy;
  }
  void unevenSharesAgainstOne() {
    QFETCH(QString, strategy);
    RunSettings settings;
    settings.optimizer.kind = "sgd";
    settings.trainer.maxSteps = 20;  // the tenth is the last of an epoch
    settings.trainer.epochs = 2;
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.strategy = strategy.toStdString();
    settings.shares = {1, 4, 2.5};
    settings.servers = strategy == "parameter-server" ? 1 : 0;
    settings.ranks = 3 + settings.servers;
    const auto plan = planOf(settings);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    QCOMPARE(plan->batchCuts, (std::vector<std::int64_t>{0, 13, 64, 96}));
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    QCOMPARE(several.steps.size(), std::size_t{20});
    QVERIFY(worstRelative(several, one) <= 1e-9);
    QVERIFY(std::abs(several.epochs.back().evalLoss - one.epochs.back().evalLoss) <= 1e-9);
  }
  void sharesThatMakeNoneAreRefused() {
    RunSettings settings;
    settings.ranks = 3;
    settings.shares = {1, 2};
    QVERIFY(planOf(settings).error().text().find("divided over 3 ranks") != std::string::npos);
    settings.shares = {1, 1e4, 1e4};
    QVERIFY(planOf(settings).error().text().find("leaves rank 0 no sample") != std::string::npos);
    settings.shares = {1, 2};
    settings.ranks = 4;
    settings.stages = 2;
    settings.strategy = "pipeline";
    QVERIFY(planOf(settings).error().text().find("leave strategy.shares out") != std::string::npos);
  }

  // Independent of the all-reduce algorithm.
  void everyAllReduceAgainstOne_data() {
    QTest::addColumn<QString>("algorithm");
    QTest::addColumn<int>("ranks");
    for (const ir::Algorithm how : ir::kAlgorithms)
      for (const int ranks : {4, 5}) {
        const std::string name(ir::algorithmName(how));
        QTest::addRow("%s %d ranks", name.c_str(), ranks) << QString::fromStdString(name) << ranks;
      }
  }
  void everyAllReduceAgainstOne() {
    QFETCH(QString, algorithm);
    QFETCH(int, ranks);
    RunSettings settings;
    settings.trainer.maxSteps = 10;
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.ranks = ranks;
    settings.hosts = 2;
    settings.allReduce = algorithm.toStdString();
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    QVERIFY(worstRelative(several, one) <= 1e-9);
    QCOMPARE(trained(settings).ranks[0]->weightsSha256, several.ranks[0]->weightsSha256);
  }

  // Meshes of several axes, and every strategy on transformer blocks, in f64 on the reference
  // backend.
  void meshesAgainstOne_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<bool>("text");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("modelRanks");
    QTest::addColumn<int>("microBatches");
    QTest::addColumn<int>("stages");
    QTest::addColumn<QString>("schedule");
    QTest::addColumn<int>("servers");
    const auto row = [](bool text, const char* strategy, int ranks, int modelRanks,
                        int microBatches, int stages = 1, const char* schedule = "1f1b",
                        int servers = 0) {
      std::string name = fmt::format("{} {}, {} ranks", text ? "gpt" : "mlp", strategy, ranks);
      if (modelRanks > 1) name += fmt::format(", tensor {}", modelRanks);
      if (stages > 1) name += fmt::format(", {} stages {}", stages, schedule);
      if (servers > 0) name += fmt::format(", {} servers", servers);
      if (microBatches > 1) name += fmt::format(", {} micro-batches", microBatches);
      QTest::newRow(name.c_str()) << QString(strategy) << text << ranks << modelRanks
                                  << microBatches << stages << QString(schedule) << servers;
    };
    for (const bool text : {false, true}) {
      row(text, "tensor-parallel", 2, 2, 1);
      row(text, "tensor-parallel", 4, 4, 1);
      row(text, "tensor-parallel", 4, 2, 1);
      row(text, "tensor-parallel", 6, 2, 1);
      row(text, "mirrored", 1, 1, 4);
      for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
        row(text, "pipeline", 2, 1, 4, 2, schedule);
      row(text, "pipeline", 4, 1, 2, 2);
      row(text, "parameter-server", 2, 1, 1, 1, "", 1);
      row(text, "parameter-server", 5, 1, 1, 1, "", 2);
      row(text, "parameter-server", 5, 1, 2, 1, "", 2);
      row(text, "central-storage", 3, 1, 1, 1, "", 1);
    }
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
      row(true, "pipeline", 4, 1, 8, 4, schedule);
    row(true, "pipeline", 2, 1, 1, 2);
    row(true, "pipeline", 3, 1, 2, 3);
    for (const char* strategy : dataStrategies()) {
      row(true, strategy, 3, 1, 1);
      row(true, strategy, 4, 2, 1);
      row(true, strategy, 3, 1, 2);
      row(true, strategy, 4, 2, 4);
      row(true, strategy, 8, 2, 4, 2);  // data x tensor x pipeline
    }
    row(true, "zero-1", 8, 2, 4, 2, "zb-h1");
  }
  void meshesAgainstOne() {
    QFETCH(QString, strategy);
    QFETCH(bool, text);
    QFETCH(int, ranks);
    QFETCH(int, modelRanks);
    QFETCH(int, microBatches);
    QFETCH(int, stages);
    QFETCH(QString, schedule);
    QFETCH(int, servers);
    RunSettings settings = clippedSteps(text ? smallGpt() : fashionMlp());
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.modelRanks = modelRanks;
    settings.microBatches = microBatches;
    settings.stages = stages;
    settings.schedule = schedule.toStdString();
    settings.servers = servers;
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    const double worst = worstRelative(several, one);
    qInfo("worst relative difference of the loss over %zu steps: %.2e", one.steps.size(), worst);
    QCOMPARE(one.steps.size(), std::size_t{20});
    QVERIFY(worst <= 1e-9);
    QVERIFY(one.steps.back().loss < one.steps.front().loss);
    QVERIFY(std::abs(several.epochs.back().evalLoss - one.epochs.back().evalLoss) <= 1e-9);
  }

  // Vocabulary parallelism: each rank has a part of the tied table, and none a full softmax.
  void vocabularyAgainstOne_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("modelRanks");
    QTest::addColumn<int>("stages");
    QTest::newRow("tensor 2") << "tensor-parallel" << 2 << 2 << 1;
    QTest::newRow("tensor 4") << "tensor-parallel" << 4 << 4 << 1;
    QTest::newRow("data x tensor") << "tensor-parallel" << 6 << 2 << 1;
    QTest::newRow("zero-3 x tensor") << "zero-3" << 4 << 2 << 1;
    QTest::newRow("tensor x pipeline") << "pipeline" << 4 << 2 << 2;
    QTest::newRow("data x tensor x pipeline") << "zero-1" << 8 << 2 << 2;
  }
  void vocabularyAgainstOne() {
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(int, modelRanks);
    QFETCH(int, stages);
    RunSettings settings = clippedSteps(smallGpt(12));
    settings.batch = 24;
    settings.evaluateBatch = 240;
    settings.trainer.epochs = 3;
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.modelRanks = modelRanks;
    settings.stages = stages;
    settings.microBatches = stages > 1 ? 2 : 1;
    const auto plan = planOf(settings);
    QVERIFY(plan.ok());
    const std::string text = plan::text(*plan);
    QVERIFY(text.find("xent-terms") != std::string::npos);
    QVERIFY(text.find("softmax-xent") == std::string::npos);
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    const double worst = worstRelative(several, one);
    qInfo("worst relative difference of the loss over %zu steps: %.2e", one.steps.size(), worst);
    QVERIFY(worst <= 1e-9);
    QVERIFY(one.steps.back().loss < one.steps.front().loss);
    QVERIFY(std::abs(several.epochs.back().evalLoss - one.epochs.back().evalLoss) <= 1e-9);
    for (std::size_t i = 0; i < one.steps.size(); ++i) {
      QVERIFY(std::abs(several.steps[i].metric - one.steps[i].metric) <= 1e-12);
    }
  }

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
  }
  void workerByItselfAgainstOne() {
    QFETCH(int, servers);
    RunSettings settings = clippedSteps(smallGpt());
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

  // Batch norm with equal statistics groups: sums over ranks for a single group, none where groups
  // lie within ranks. The last batch of an epoch is partly padding.
  void batchNormAgainstOne_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("groups");
    QTest::addColumn<int>("micros");
    QTest::addColumn<int>("stages");
    QTest::addColumn<QString>("schedule");
    const auto row = [](const char* name, const char* strategy, int ranks, int groups,
                        int micros = 1, int stages = 1, const char* schedule = "1f1b") {
      QTest::newRow(name) << strategy << ranks << groups << micros << stages << schedule;
    };
    row("2 ranks, one group", "multi-worker-mirrored", 2, 1);
    row("3 ranks, one group", "multi-worker-mirrored", 3, 1);
    row("2 ranks, 4 groups", "multi-worker-mirrored", 2, 4);
    row("zero-1, one group", "zero-1", 3, 1);
    row("zero-3, one group", "zero-3", 3, 1);
    row("zero-3, 4 groups", "zero-3", 4, 4);
    row("1 rank, 2 micro-batches", "multi-worker-mirrored", 1, 4, 2);
    row("2 ranks, 4 micro-batches of one group", "multi-worker-mirrored", 2, 4, 4);
    row("2 ranks, 2 micro-batches of 2 groups", "multi-worker-mirrored", 2, 4, 2);
    row("zero-3, 2 micro-batches", "zero-3", 2, 2, 2);
    row("1 server, 2 micro-batches", "parameter-server", 3, 2, 2);
    row("2 stages, whole batch", "pipeline", 2, 1, 1, 2);
    row("3 stages, 1f1b", "pipeline", 3, 4, 4, 3);
    row("3 stages, gpipe", "pipeline", 3, 4, 4, 3, "gpipe");
    row("2 stages, zb-h1", "pipeline", 2, 4, 4, 2, "zb-h1");
    row("2 stages x 2 ranks of one group", "pipeline", 4, 2, 2, 2);
    row("2 stages x 2 ranks of 2 groups", "pipeline", 4, 4, 2, 2);
  }
  void batchNormAgainstOne() {
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(int, groups);
    QFETCH(int, micros);
    QFETCH(int, stages);
    QFETCH(QString, schedule);
    RunSettings settings;
    settings.model = smallResnet(groups);
    settings.batch = 16;
    // 12 full steps and one of 8 samples per epoch: of 4 groups 2 are empty
    settings.samples = 200;
    settings.bucketBytes = 2048;
    settings.optimizer.kind = "sgd";
    settings.optimizer.momentum = 0.9;
    settings.trainer.epochs = 2;
    settings.trainer.maxSteps = 20;
    settings.trainer.schedule.peak = 0.1;
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.microBatches = micros;
    settings.stages = stages;
    settings.schedule = schedule.toStdString();
    if (strategy == "parameter-server") settings.servers = 1;
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    const double worst = worstRelative(several, one);
    qInfo("worst relative difference of the loss over %zu steps: %.2e", one.steps.size(), worst);
    QCOMPARE(one.steps.size(), std::size_t{20});
    QVERIFY(worst <= 1e-9);
    QVERIFY(one.steps.back().loss < one.steps.front().loss);
    // Evaluation uses the running statistics.
    QVERIFY(std::isfinite(one.epochs.back().evalLoss));
    QVERIFY(std::abs(several.epochs.back().evalLoss - one.epochs.back().evalLoss) <=
            1e-9 * one.epochs.back().evalLoss);
  }

  void statisticsGroupsThatAreCutAreRefused() {
    RunSettings settings;
    settings.model = smallResnet(4);
    settings.batch = 16;
    settings.ranks = 3;
    const auto cut = planOf(settings);
    QVERIFY(!cut.ok());
    QCOMPARE(
        QString::fromStdString(cut.error().what),
        QString("batch norm stem-norm has 4 statistics groups of 4 samples, and 3 ranks cut the "
                "batch of 16 within one, at 6"));
    settings.ranks = 1;
    settings.microBatches = 8;
    const auto micro = planOf(settings);
    QVERIFY(!micro.ok());
    QVERIFY2(
        micro.error().text().find(
            "each of 8 micro-batches has statistics of its own: expected 8") != std::string::npos,
        micro.error().text().c_str());
    settings.microBatches = 4;
    settings.strategy = "local-sgd";
    const auto local = planOf(settings);
    QVERIFY(!local.ok());
    QVERIFY2(local.error().what.text().find("update independently") != std::string::npos,
             local.error().text().c_str());
  }

  // Layers pinned to any stages, including back and forth.
  void pinnedLayersAgainstOne() {
    RunSettings settings = clippedSteps(smallGpt());
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.strategy = "placement";
    settings.ranks = settings.stages = 3;
    settings.pins = {{"block1", 2}, {"block2", 0}, {"norm", 1}};
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    QVERIFY(worstRelative(several, one) <= 1e-9);
    const auto refused = [&](std::vector<std::pair<std::string, int>> pins, int micros,
                             const char* words) {
      RunSettings wrong = settings;
      wrong.pins = std::move(pins);
      wrong.microBatches = micros;
      const auto plan = planOf(wrong);
      return !plan.ok() && plan.error().text().find(words) != std::string::npos;
    };
    QVERIFY(refused({}, 1, "strategy.pins"));
    RunSettings onOne = settings;
    onOne.stages = 1;
    const auto oneStage = planOf(onOne);
    QVERIFY(!oneStage.ok());
    QVERIFY2(oneStage.error().what.text().find("there is one stage") != std::string::npos,
             oneStage.error().text().c_str());
    QVERIFY(refused({{"block3", 1}}, 1, "its layers are embedding, block1, block2, norm, head"));
    QVERIFY(refused({{"block1", 3}}, 1, "numbered from 0 to 2"));
    QVERIFY(refused({{"block1", 2}}, 1, "no layer on stage 1"));
    QVERIFY(refused(settings.pins, 2, "back and forth"));
    // The head's weights are the embedding's: the last stage has the loss and no parameters.
    settings.pins = {{"block1", 1}, {"head", 2}};
    settings.microBatches = 2;
    const RunOutcome headAlone = trained(settings);
    QVERIFY2(headAlone.ok(), headAlone.error().c_str());
    QVERIFY(worstRelative(headAlone, one) <= 1e-9);
  }

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

  // Metrics are sums, not means: loss and metric are independent of the evaluation batch size,
  // including a short last batch.
  void evaluationIsTheSameInAnyParts_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("stages");
    for (const char* strategy : {"multi-worker-mirrored", "zero-3"})
      QTest::newRow(strategy) << strategy << 1;
    QTest::newRow("pipeline") << "pipeline" << 2;
  }
  void evaluationIsTheSameInAnyParts() {
    QFETCH(QString, strategy);
    QFETCH(int, stages);
    std::vector<runtime::EpochRecord> evaluated;
    for (const std::int64_t at : {8, 2, 14, 38, 200, 1000}) {
      RunSettings settings;
      settings.model = smallResnet(2);
      settings.strategy = strategy.toStdString();
      settings.ranks = 2;
      settings.stages = stages;
      settings.batch = 16;
      settings.microBatches = 2;
      settings.samples = 77;
      settings.evaluateBatch = at;
      const RunOutcome out = trained(settings);
      QVERIFY2(out.ok(), out.error().c_str());
      evaluated.push_back(out.epochs.back());
      QVERIFY(evaluated[0].evalLoss > 0 && evaluated[0].evalMetric > 0);
      QVERIFY(std::abs(evaluated.back().evalLoss / evaluated[0].evalLoss - 1) < 1e-12);
      QCOMPARE(evaluated.back().evalMetric, evaluated[0].evalMetric);
    }
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

QTEST_GUILESS_MAIN(ParityTest)
#include "parity_test.moc"
