// Parity: distribution changes nothing but speed; several ranks compared with one.
#include <QTest>
#include <cmath>

#include "engine/cluster/strategies.h"
#include "tests/engine/runtime/clipped_run.h"
#include "tests/support/engine_run.h"

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
};

QTEST_GUILESS_MAIN(ParityTest)
#include "parity_test.moc"
