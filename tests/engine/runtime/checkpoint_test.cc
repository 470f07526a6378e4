#include <QTest>

#include <filesystem>
#include <fstream>

#include "engine/base/file.h"
#include "engine/base/random.h"
#include "engine/runtime/checkpoint.h"
#include "engine/runtime/evaluate.h"
#include "engine/runtime/safetensors.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;
namespace fs = std::filesystem;

namespace {
RunSettings small() {
  RunSettings settings;
  settings.backend = "onednn";
  settings.compute = DType::kF32;
  settings.ranks = 3;
  settings.batch = 64;
  settings.samples = 1000;  // 15 full steps and one of 40 samples an epoch
  settings.trainer.epochs = 3;
  return settings;
}
}  // namespace

class CheckpointTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // What the ranks find after the last epoch, one rank finds of its checkpoint with a plan for nothing else.
  void aCheckpointIsEvaluatedApart_data() {
    QTest::addColumn<QString>("model");
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("modelRanks");
    QTest::addColumn<int>("stages");
    QTest::addColumn<int>("servers");
    QTest::newRow("one rank") << "mlp" << "mirrored" << 1 << 1 << 1 << 0;
    QTest::newRow("zero-3") << "mlp" << "zero-3" << 3 << 1 << 1 << 0;
    QTest::newRow("batch norm") << "resnet" << "mirrored" << 2 << 1 << 1 << 0;
    QTest::newRow("tensor x pipeline") << "gpt" << "pipeline" << 4 << 2 << 2 << 0;
    QTest::newRow("tables on servers") << "ctr" << "parameter-server" << 3 << 1 << 1 << 1;
  }
  void aCheckpointIsEvaluatedApart() {
    QFETCH(QString, model);
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(int, modelRanks);
    QFETCH(int, stages);
    QFETCH(int, servers);
    QTemporaryDir dir;
    RunSettings settings;
    settings.model = model == "mlp"      ? fashionMlp()
                     : model == "resnet" ? smallResnet()
                     : model == "gpt"    ? smallGpt()
                                         : smallCtr();
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.modelRanks = modelRanks;
    settings.stages = stages;
    settings.servers = servers;
    settings.microBatches = stages;
    settings.optimizer.kind = "adam";
    settings.samples = 192;
    settings.trainer.epochs = 2;
    settings.trainer.schedule.peak = 0.01;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    const RunOutcome with = trained(settings);
    QVERIFY2(with.ok(), with.error().c_str());
    RunSettings apart = settings;
    apart.trainer.checkpointFolder = dir.filePath("apart").toStdString();
    apart.trainer.evaluate = false;
    const RunOutcome without = trained(apart);
    QVERIFY2(without.ok(), without.error().c_str());
    QCOMPARE(without.ranks[0]->weightsSha256, with.ranks[0]->weightsSha256);
    QCOMPARE(without.epochs.back().evalLoss, 0.0);

    const auto request = planRequestOf(settings);
    QVERIFY(request.ok());
    const auto made = planner::makeEvaluationPlan(*request, {"node", "host", "cpu", 0, 1}, {});
    QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
    const auto plan = plan::parse(plan::text(*made));
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    QCOMPARE(planner::memory(*plan, 0).optimizer, std::int64_t{0});
    const SyntheticImages images(200);
    const SyntheticText text(200, 6, 11);
    const SyntheticTable table(200, 4, 3, 400);
    const data::Dataset& data = model == "gpt"   ? static_cast<const data::Dataset&>(text)
                                : model == "ctr" ? static_cast<const data::Dataset&>(table)
                                                 : images;
    const auto backend = backends::makeBackend("reference", {});
    QVERIFY(backend.ok());
    const auto found = runtime::evaluateCheckpoint(*plan, without.checkpoints.back(), data, **backend);
    QVERIFY2(found.ok(), found.ok() ? "" : found.error().text().c_str());
    const auto& expected = with.epochs.back();
    QVERIFY(expected.evalLoss > 0);
    const double limit = ranks == 1 ? 0 : 1e-12;
    QVERIFY2(std::abs(found->loss - expected.evalLoss) <= limit * expected.evalLoss,
             fmt::format("{} and {}", found->loss, expected.evalLoss).c_str());
    QVERIFY2(std::abs(found->metric - expected.evalMetric) <= 1e-9,
             fmt::format("{} and {}", found->metric, expected.evalMetric).c_str());
  }

  void resumeGivesTheSameBits_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("modelRanks");
    QTest::addColumn<int>("microBatches");
    QTest::addColumn<int>("stages");
    QTest::addColumn<int>("servers");
    QTest::addColumn<QString>("compression");
    for (const char* strategy : {"multi-worker-mirrored", "zero-1", "zero-3"})
      QTest::newRow(strategy) << strategy << 3 << 1 << 1 << 1 << 0 << "none";
    QTest::newRow("data x tensor") << "tensor-parallel" << 4 << 2 << 1 << 1 << 0 << "none";
    QTest::newRow("zero-2, micro-batches") << "zero-2" << 3 << 1 << 2 << 1 << 0 << "none";
    QTest::newRow("zero-1 x tensor x pipeline") << "zero-1" << 8 << 2 << 2 << 2 << 0 << "none";
    QTest::newRow("servers") << "parameter-server" << 4 << 1 << 1 << 1 << 2 << "none";
    QTest::newRow("int8") << "multi-worker-mirrored" << 3 << 1 << 1 << 1 << 0 << "int8";
    QTest::newRow("top-k, micro-batches") << "multi-worker-mirrored" << 3 << 1 << 2 << 1 << 0 << "top-k";
    QTest::newRow("int8, zero-2, micro-batches") << "zero-2" << 3 << 1 << 2 << 1 << 0 << "int8";
    QTest::newRow("fp16, data x tensor x pipeline") << "pipeline" << 8 << 2 << 2 << 2 << 0 << "fp16";
  }
  void resumeGivesTheSameBits() {
    QFETCH(QString, strategy);
    QTemporaryDir dir;
    RunSettings settings = small();
    QFETCH(int, ranks);
    QFETCH(int, modelRanks);
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.modelRanks = modelRanks;
    QFETCH(int, microBatches);
    settings.microBatches = microBatches;
    QFETCH(int, stages);
    settings.stages = stages;
    QFETCH(int, servers);
    settings.servers = servers;
    QFETCH(QString, compression);
    settings.compression = compression.toStdString();
    settings.topKAfter = 25;
    const RunOutcome whole = trained(settings);
    QVERIFY2(whole.ok(), whole.error().c_str());
    // Cut in the middle of the second epoch, then at an epoch's end.
    for (const std::int64_t cut : {21, 32}) {
      RunSettings first = settings;
      first.trainer.maxSteps = cut;
      first.trainer.checkpointFolder = dir.filePath(QString::number(cut)).toStdString();
      const RunOutcome half = trained(first);
      QVERIFY2(half.ok(), half.error().c_str());
      QVERIFY(!half.checkpoints.empty());
      RunSettings second = settings;
      second.trainer.resumeFrom = first.trainer.checkpointFolder;
      const RunOutcome rest = trained(second);
      QVERIFY2(rest.ok(), rest.error().c_str());
      QCOMPARE(rest.steps.front().step, cut + 1);
      QCOMPARE(rest.ranks[0]->weightsSha256, whole.ranks[0]->weightsSha256);
      QCOMPARE(rest.epochs.back().trainLoss, whole.epochs.back().trainLoss);
    }
  }

  // Of more or fewer ranks, with or without: nothing that has not been sent is lost.
  void residualsOfOtherRanks() {
    QTemporaryDir dir;
    RunSettings settings = small();
    settings.compression = "top-k";
    settings.trainer.maxSteps = 5;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    QVERIFY(trained(settings).ok());
    auto file = runtime::readTensors(dir.filePath("step-000000005/state.safetensors").toStdString());
    QVERIFY(file.ok());
    for (const int ranks : {2, 4}) {
      settings.ranks = ranks;
      const auto plan = planOf(settings);
      QVERIFY(plan.ok());
      runtime::LocalGroups groups(plan->mesh, 30'000'000'000);
      std::vector<std::unique_ptr<runtime::StateArena>> states;
      std::vector<std::thread> threads;
      std::atomic<int> read{0};
      for (int rank = 0; rank < ranks; ++rank)
        states.push_back(std::make_unique<runtime::StateArena>(*plan, rank));
      for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
          read += runtime::readCheckpoint(dir.path().toStdString(), 1,
                                          {*plan, rank, *states[static_cast<std::size_t>(rank)], groups.of(rank)})
                      .ok();
        });
      for (std::thread& thread : threads) thread.join();
      QCOMPARE(read.load(), ranks);
      double largest = 0;
      for (const plan::StateSlot& slot : plan->state) {
        if (!slot.name.starts_with("residual.")) continue;
        const auto& entry = file->entries.at("residual/" + slot.members[0].name);
        const std::int64_t count = slot.type.count();
        std::vector<float> before(static_cast<std::size_t>(3 * count));
        std::memcpy(before.data(), file->bytes(entry).data(), before.size() * sizeof(float));
        for (std::int64_t i = 0; i < count; ++i) {
          float whole = 0, now = 0;
          for (int rank = 0; rank < 3; ++rank) whole += before[static_cast<std::size_t>(rank * count + i)];
          for (const auto& state : states)
            now += reinterpret_cast<const float*>(state->data() + slot.offset)[i];
          QCOMPARE(now, whole);
          largest = std::max(largest, std::abs(static_cast<double>(whole)));
        }
      }
      QVERIFY(largest > 0);
    }
    // A run that sends all of its gradients, and one that begins to send parts of them.
    for (const char* compression : {"none", "int8"}) {
      RunSettings other = settings;
      other.compression = compression;
      other.trainer.maxSteps = 8;
      other.trainer.resumeFrom = settings.trainer.checkpointFolder;
      other.trainer.checkpointFolder.clear();
      const RunOutcome out = trained(other);
      QVERIFY2(out.ok(), out.error().c_str());
    }
  }

  // With other groups what has not been sent of one is not taken for another's.
  void residualsOfOtherGroups() {
    RunSettings settings = small();
    settings.compression = "int8";
    std::map<std::string, std::vector<plan::StateSlot::Member>> contents;  // by the residual's tensor
    for (const std::int64_t bucket : {0, 4096, 500'000}) {
      settings.bucketBytes = bucket;
      const auto plan = planOf(settings);
      QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
      for (const plan::StateSlot& slot : plan->state) {
        if (!slot.name.starts_with("residual.")) continue;
        const std::string name = "params" + slot.name.substr(slot.name.find('.'));
        const auto parameters = std::find_if(plan->state.begin(), plan->state.end(),
                                             [&](const auto& other) { return other.name == name; });
        const auto [known, isNew] = contents.emplace(slot.members[0].name, parameters->members);
        QVERIFY2(isNew || known->second == parameters->members, slot.members[0].name.c_str());
      }
    }
    QVERIFY(contents.size() > 1);
  }

  // They are state beside the parameters: resumed, exported, and part of what the hash is of.
  void runningStatisticsAreKept() {
    QTemporaryDir dir;
    RunSettings settings = small();
    settings.model = smallResnet();
    settings.trainer.augment = {2, true};
    settings.trainer.modelFile = dir.filePath("model.safetensors").toStdString();
    const RunOutcome whole = trained(settings);
    QVERIFY2(whole.ok(), whole.error().c_str());
    RunSettings first = settings;
    first.trainer.maxSteps = 21;
    first.trainer.checkpointFolder = dir.filePath("checkpoints").toStdString();
    const RunOutcome half = trained(first);
    QVERIFY2(half.ok(), half.error().c_str());
    RunSettings second = settings;
    second.trainer.resumeFrom = first.trainer.checkpointFolder;
    const RunOutcome rest = trained(second);
    QVERIFY2(rest.ok(), rest.error().c_str());
    QCOMPARE(rest.ranks[0]->weightsSha256, whole.ranks[0]->weightsSha256);
    QCOMPARE(rest.epochs.back().evalLoss, whole.epochs.back().evalLoss);
    auto model = runtime::readTensors(settings.trainer.modelFile);
    QVERIFY(model.ok());
    QCOMPARE(model->entries.at("stem-norm.mean").shape, (Shape{3}));
    const std::span<const std::byte> bytes = model->bytes(model->entries.at("stem-norm.variance"));
    const auto* variance = reinterpret_cast<const float*>(bytes.data());
    for (int c = 0; c < 3; ++c) QVERIFY(variance[c] > 0 && std::abs(variance[c] - 1) > 1e-3f);
  }

  void onlyTheNewestAreKept() {
    QTemporaryDir dir;
    RunSettings settings = small();
    settings.trainer.checkpointFolder = dir.path().toStdString();
    settings.trainer.modelFile = dir.filePath("model.safetensors").toStdString();
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir.path().toStdString()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    QCOMPARE(names, (std::vector<std::string>{"model.safetensors", "step-000000032", "step-000000048"}));
    auto model = runtime::readTensors(settings.trainer.modelFile);
    QVERIFY(model.ok());
    QCOMPARE(model->entries.size(), std::size_t{4});
    QCOMPARE(model->entries.at("dense1.weight").shape, (Shape{784, 128}));
  }

  void wrongCheckpointsAreRefused() {
    QTemporaryDir dir;
    RunSettings settings = small();
    settings.trainer.maxSteps = 2;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    QVERIFY(trained(settings).ok());
    RunSettings other = settings;
    other.model = fashionCnn();
    other.trainer.resumeFrom = settings.trainer.checkpointFolder;
    other.trainer.checkpointFolder.clear();
    const RunOutcome refused = trained(other);
    QVERIFY(!refused.ok());
    QVERIFY(refused.ranks[0].error().code == Code::kInvalidArgument);
    QVERIFY(refused.ranks[1].error().code == Code::kAborted);
    auto plan = planOf(settings);
    runtime::StateArena state(*plan, 0);
    QVERIFY(runtime::readCheckpoint(dir.filePath("nothing").toStdString(), 1, {*plan, 0, state, {}})
                .error().code == Code::kNotFound);
  }

  // No input makes the reader crash: truncations and seeded mutations of a real file.
  void damagedFilesAreErrors() {
    QTemporaryDir dir;
    const std::string path = dir.filePath("t.safetensors").toStdString();
    const std::vector<float> values(12, 1.5f);
    const auto bytes = [&](std::size_t) -> Result<std::span<const std::byte>> {
      return std::as_bytes(std::span(values));
    };
    QVERIFY(runtime::writeTensors(path, {{"a", DType::kF32, {3, 4}}}, {{"step", "1"}}, bytes).ok());
    const std::string good = *readFile(path);
    auto file = runtime::readTensors(path);
    QVERIFY(file.ok() && file->metadata.at("step") == "1");
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      std::string bad = good;
      if (seed < good.size()) {
        bad.resize(seed);
      } else {
        for (std::uint64_t k = 0; k < 1 + seed % 4; ++k)
          bad[randomBits(seed, 2 * k) % bad.size()] = static_cast<char>(randomBits(seed, 2 * k + 1));
      }
      std::ofstream(path, std::ios::binary | std::ios::trunc) << bad;
      auto read = runtime::readTensors(path);
      if (read.ok())
        for (const auto& [name, entry] : read->entries)
          QVERIFY(read->bytes(entry).size() == entry.size);
    }
  }

  // A full disk: a clear error, and nothing half-written stays.
  void noSpaceIsAnError() {
    QTemporaryDir dir;
    if (geteuid() != 0) QSKIP("needs root to mount a small file system");
    const std::string mount = dir.filePath("small").toStdString();
    fs::create_directory(mount);
    if (system(fmt::format("mount -t tmpfs -o size=64k tmpfs {} 2>/dev/null", mount).c_str()) != 0)
      QSKIP("this machine lets no tmpfs be mounted");
    RunSettings settings = small();
    settings.trainer.maxSteps = 2;
    settings.trainer.checkpointFolder = mount + "/checkpoints";
    const RunOutcome out = trained(settings);
    std::error_code ignored;
    const bool empty = fs::is_empty(settings.trainer.checkpointFolder, ignored);
    QCOMPARE(system(fmt::format("umount {}", mount).c_str()), 0);
    QVERIFY(!out.ranks[0].ok());
    QVERIFY(out.ranks[0].error().code == Code::kResourceExhausted);
    QVERIFY(empty);
  }
};

QTEST_GUILESS_MAIN(CheckpointTest)
#include "checkpoint_test.moc"
