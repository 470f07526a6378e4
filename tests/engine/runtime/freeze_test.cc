// Frozen parameters: by every strategy the others are trained as one rank trains them, and these
// keep their initial bits, without gradient, optimizer state or bytes on the wire.
#include <QTemporaryDir>
#include <QTest>
#include <random>

#include "engine/cluster/strategies.h"
#include "engine/weights/files.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

models::Model modelOf(const QString& name) {
  return name == "mlp"      ? fashionMlp()
         : name == "resnet" ? smallResnet()
         : name == "ctr"    ? smallCtr()
                            : smallGpt();
}

std::map<std::string, std::string> tensorsIn(const std::string& path) {
  const auto model = weights::ModelWeights::open(path);
  if (!model.ok()) qFatal("%s", model.error().text().c_str());
  std::map<std::string, std::string> out;
  for (const auto& [name, info] : model->tensors()) {
    std::string bytes(static_cast<std::size_t>(elementCount(info.shape)) * sizeOf(info.dtype),
                      '\0');
    const Status read = model->read(name, std::as_writable_bytes(std::span(bytes)));
    if (!read.ok()) qFatal("%s", read.error().text().c_str());
    out.emplace(name, std::move(bytes));
  }
  return out;
}

// Elements of the buffers that hold groups of gradients.
std::int64_t gradientElements(const plan::Plan& plan) {
  std::int64_t out = 0;
  for (const plan::Program& program : plan.programs)
    for (const plan::Body& body : program.bodies)
      for (const plan::Buffer& buffer : body.buffers)
        if (buffer.name.starts_with("grads.") && buffer.base < 0) out += buffer.type.count();
  return out;
}

}  // namespace

class FreezeTest : public QObject {
  Q_OBJECT
  QTemporaryDir dir_;

  RunSettings settingsOf(const QString& model) const {
    RunSettings out;
    out.model = modelOf(model);
    out.batch = 16;
    out.samples = 200;
    out.bucketBytes = 4096;
    out.trainer.epochs = 2;
    out.trainer.maxSteps = 20;
    out.trainer.schedule.peak = 3e-3;
    out.optimizer.weightDecay = 0.1;
    out.trainer.modelFile = dir_.filePath("model.safetensors").toStdString();
    return out;
  }
  // Some parameters, neither none nor all.
  static std::vector<std::string> someOf(const models::Model& model, int seed) {
    const auto graph = models::build(model, 16, DType::kF64, models::Use::kTraining);
    std::mt19937 random(static_cast<unsigned>(seed));
    std::vector<std::string> out, all;
    for (const ir::Parameter& one : graph->parameters) all.push_back(one.name);
    while (out.empty() || out.size() == all.size()) {
      out.clear();
      for (std::size_t i = 0; i < all.size(); ++i) {
        // At random, or all before a place, as in fine-tuning the last layers.
        const bool taken = seed % 2 == 0
                               ? random() % 2 == 0
                               : i < all.size() * (static_cast<unsigned>(seed) % 3 + 1) / 4;
        if (taken) out.push_back(all[i]);
      }
    }
    return out;
  }
  std::map<std::string, std::string> initial(const RunSettings& like) const {
    RunSettings settings = like;
    settings.frozen.clear();
    settings.optimizer = {};
    settings.optimizer.kind = "sgd";
    settings.trainer.maxSteps = 1;
    settings.trainer.schedule.peak = 0;
    if (const RunOutcome out = trained(settings); !out.ok()) qFatal("%s", out.error().c_str());
    return tensorsIn(settings.trainer.modelFile);
  }
  static void keepsWhatIsFrozen(const RunSettings& settings,
                                const std::map<std::string, std::string>& before) {
    const auto after = tensorsIn(settings.trainer.modelFile);
    QCOMPARE(after.size(), before.size());
    for (const auto& [name, bytes] : before) {
      const bool frozen = std::ranges::find(settings.frozen, name) != settings.frozen.end();
      const bool statistic = name.ends_with(".mean") || name.ends_with(".variance");
      QVERIFY2((after.at(name) == bytes) == frozen || statistic, name.c_str());
    }
  }

 private Q_SLOTS:
  void everyStrategyAgainstOne_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<QString>("model");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("modelRanks");
    QTest::addColumn<int>("microBatches");
    QTest::addColumn<int>("stages");
    QTest::addColumn<QString>("schedule");
    QTest::addColumn<int>("servers");
    QTest::addColumn<int>("staleness");
    QTest::addColumn<int>("first");
    int seed = 0;
    const auto row = [&](const char* strategy, const char* model, int ranks, int modelRanks = 1,
                         int microBatches = 1, int stages = 1, const char* schedule = "1f1b",
                         int servers = 0, int staleness = 0) {
      QTest::addRow("%s %s, %d ranks, tensor %d, %d micro-batches, %d stages %s, %d servers%s",
                    strategy, model, ranks, modelRanks, microBatches, stages, schedule, servers,
                    staleness != 0 ? " without waiting" : "")
          << strategy << model << ranks << modelRanks << microBatches << stages << schedule
          << servers << staleness << seed;
      seed += 2;
    };
    for (const char* model : {"mlp", "gpt"}) {
      for (const char* strategy : {"multi-worker-mirrored", "zero-1", "zero-2", "zero-3"}) {
        row(strategy, model, 3);
        row(strategy, model, 2, 1, 2);
      }
      row("tensor-parallel", model, 2, 2);
      row("zero-3", model, 4, 2);
      for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
        row("pipeline", model, 2, 1, 4, 2, schedule);
      row("zero-1", model, 4, 1, 2, 2);
      row("parameter-server", model, 3, 1, 1, 1, "", 1);
      row("parameter-server", model, 5, 1, 2, 1, "", 2);
      row("parameter-server", model, 3, 1, 1, 1, "", 2, plan::Plan::kAnyStaleness);
      row("central-storage", model, 3, 1, 1, 1, "", 1);
      row("local-sgd", model, 3);
    }
    row("multi-worker-mirrored", "ctr", 3);
    row("parameter-server", "ctr", 4, 1, 1, 1, "", 2);
    row("zero-2", "resnet", 4);
  }
  void everyStrategyAgainstOne() {
    QFETCH(QString, strategy);
    QFETCH(QString, model);
    QFETCH(int, ranks);
    QFETCH(int, modelRanks);
    QFETCH(int, microBatches);
    QFETCH(int, stages);
    QFETCH(QString, schedule);
    QFETCH(int, servers);
    QFETCH(int, staleness);
    QFETCH(int, first);
    for (const int seed : {first, first + 1}) {
      RunSettings settings = settingsOf(model);
      if (strategy == "local-sgd") {  // after each update the mean of Adam's state is another's
        settings.optimizer.kind = "sgd";
        settings.optimizer.momentum = 0.9;
      } else if (staleness == 0) {
        settings.optimizer.clipNorm = 0.3;
      }
      const auto before = initial(settings);
      settings.frozen = someOf(settings.model, seed);
      const RunOutcome one = trained(settings);
      QVERIFY2(one.ok(), one.error().c_str());
      keepsWhatIsFrozen(settings, before);
      settings.strategy = strategy.toStdString();
      settings.ranks = ranks;
      settings.modelRanks = modelRanks;
      settings.microBatches = microBatches;
      settings.stages = stages;
      settings.schedule = schedule.toStdString();
      settings.servers = servers;
      settings.staleness = staleness;
      const RunOutcome several = trained(settings);
      QVERIFY2(several.ok(), several.error().c_str());
      const double worst = worstRelative(several, one);
      qInfo("worst relative difference of the loss: %.2e; %zu frozen", worst,
            settings.frozen.size());
      QCOMPARE(one.steps.size(), std::size_t{20});
      QVERIFY(worst <= 1e-9);
      keepsWhatIsFrozen(settings, before);
    }
  }

  // Where all but a table is frozen, servers have nothing but its rows.
  void aTableIsTrainedAlone_data() {
    QTest::addColumn<int>("servers");
    QTest::addColumn<int>("microBatches");
    QTest::newRow("1 server") << 1 << 1;
    QTest::newRow("2 servers") << 2 << 1;
    QTest::newRow("2 servers, micro-batches") << 2 << 2;
  }
  void aTableIsTrainedAlone() {
    QFETCH(int, servers);
    QFETCH(int, microBatches);
    RunSettings settings = settingsOf("ctr");
    settings.optimizer.clipNorm = 0.3;
    const auto before = initial(settings);
    for (const auto& [name, bytes] : before)
      if (name != "tables.weight") settings.frozen.push_back(name);
    const RunOutcome one = trained(settings);
    QVERIFY2(one.ok(), one.error().c_str());
    settings.strategy = "parameter-server";
    settings.ranks = 2 + servers;
    settings.servers = servers;
    settings.microBatches = microBatches;
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    QCOMPARE(several.steps.size(), one.steps.size());
    QVERIFY(worstRelative(several, one) <= 1e-9);
    keepsWhatIsFrozen(settings, before);
  }

  // Frozen parameters have no optimizer state and no gradients: both are smaller by their elements.
  void nothingIsHeldForThem_data() {
    QTest::addColumn<QString>("strategy");
    for (const char* strategy : {"multi-worker-mirrored", "zero-1", "zero-2", "zero-3"})
      QTest::newRow(strategy) << strategy;
  }
  void nothingIsHeldForThem() {
    QFETCH(QString, strategy);
    RunSettings settings = settingsOf("gpt");
    settings.strategy = strategy.toStdString();
    settings.ranks = 2;
    settings.bucketBytes = 1;  // a group each
    const auto full = planOf(settings);
    settings.frozen = someOf(settings.model, 2);
    const auto part = planOf(settings);
    QVERIFY(full.ok() && part.ok());
    std::int64_t frozen = 0;
    for (const plan::StateSlot& slot : part->state)
      for (const plan::StateSlot::Member& member : slot.members) {
        const bool is = std::ranges::find(settings.frozen, member.name) != settings.frozen.end();
        QVERIFY(!is || slot.role == plan::StateRole::kParameters);
        if (is) frozen += elementCount(member.shape);
      }
    QVERIFY(frozen > 0);
    QVERIFY(gradientElements(*part) > 0 &&
            gradientElements(*full) - gradientElements(*part) >= frozen);
  }

  // A run resumes, also by another strategy, as if it had not been interrupted.
  void checkpointsHold() {
    RunSettings settings = settingsOf("gpt");
    const auto before = initial(settings);
    settings.frozen = someOf(settings.model, 4);
    const RunOutcome whole = trained(settings);
    QVERIFY2(whole.ok(), whole.error().c_str());
    RunSettings first = settings;
    first.strategy = "zero-3";
    first.ranks = 2;
    first.trainer.maxSteps = 12;
    first.trainer.checkpointFolder = dir_.filePath("checkpoints").toStdString();
    const RunOutcome half = trained(first);
    QVERIFY2(half.ok(), half.error().c_str());
    RunSettings second = settings;
    second.ranks = 3;
    second.trainer.resumeFrom = first.trainer.checkpointFolder;
    const RunOutcome rest = trained(second);
    QVERIFY2(rest.ok(), rest.error().c_str());
    QCOMPARE(rest.steps.size(), std::size_t{8});
    for (std::size_t i = 0; i < 8; ++i)
      QVERIFY(std::abs(rest.steps[i].loss / whole.steps[12 + i].loss - 1) <= 1e-9);
    keepsWhatIsFrozen(second, before);
  }

  void somethingIsToBeTrained() {
    RunSettings settings = settingsOf("mlp");
    settings.frozen = {"dense1.weight", "dense1.bias", "dense2.weight", "dense2.bias"};
    const auto plan = planOf(settings);
    QVERIFY(!plan.ok() && plan.error().text().find("frozen") != std::string::npos);
  }
};

QTEST_GUILESS_MAIN(FreezeTest)
#include "freeze_test.moc"
