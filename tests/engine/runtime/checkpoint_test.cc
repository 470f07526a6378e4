// Checkpoints: what is written and kept, who reads it, and runs that go on from one.
#include <sys/stat.h>

#include <QScopeGuard>
#include <QTest>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <tuple>

#include "engine/base/file.h"
#include "engine/base/list_folder.h"
#include "engine/runtime/checkpoint.h"
#include "engine/runtime/evaluate.h"
#include "engine/weights/files.h"
#include "engine/weights/safetensors.h"
#include "tests/engine/runtime/small_run.h"
#include "tests/support/checkpoint_content.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;
namespace fs = std::filesystem;

class CheckpointTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // What the ranks find after the last epoch, one rank finds of its checkpoint with a plan for
  // nothing else.
  void aCheckpointIsEvaluatedApart_data() {
    QTest::addColumn<QString>("model");
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("modelRanks");
    QTest::addColumn<int>("stages");
    QTest::addColumn<int>("servers");
    QTest::newRow("one rank") << "mlp"
                              << "mirrored" << 1 << 1 << 1 << 0;
    QTest::newRow("zero-3") << "mlp"
                            << "zero-3" << 3 << 1 << 1 << 0;
    QTest::newRow("batch norm") << "resnet"
                                << "mirrored" << 2 << 1 << 1 << 0;
    QTest::newRow("tensor x pipeline") << "gpt"
                                       << "pipeline" << 4 << 2 << 2 << 0;
    QTest::newRow("tables on servers") << "ctr"
                                       << "parameter-server" << 3 << 1 << 1 << 1;
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
    const auto found =
        runtime::evaluateCheckpoint(*plan, without.checkpoints.back(), data, **backend);
    QVERIFY2(found.ok(), found.ok() ? "" : found.error().text().c_str());
    const auto& expected = with.epochs.back();
    QVERIFY(expected.evalLoss > 0);
    const double limit = ranks == 1 ? 0 : 1e-12;
    QVERIFY2(std::abs(found->loss - expected.evalLoss) <= limit * expected.evalLoss,
             fmt::format("{} and {}", found->loss, expected.evalLoss).c_str());
    QVERIFY2(std::abs(found->metric - expected.evalMetric) <= 1e-9,
             fmt::format("{} and {}", found->metric, expected.evalMetric).c_str());
    whatIsDamagedIsNotEvaluated(*plan, without.checkpoints.back(), data, **backend);
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
    QTest::newRow("central storage") << "central-storage" << 3 << 1 << 1 << 1 << 1 << "none";
    QTest::newRow("int8") << "multi-worker-mirrored" << 3 << 1 << 1 << 1 << 0 << "int8";
    QTest::newRow("top-k, micro-batches")
        << "multi-worker-mirrored" << 3 << 1 << 2 << 1 << 0 << "top-k";
    QTest::newRow("int8, zero-2, micro-batches") << "zero-2" << 3 << 1 << 2 << 1 << 0 << "int8";
    QTest::newRow("fp16, data x tensor x pipeline")
        << "pipeline" << 8 << 2 << 2 << 2 << 0 << "fp16";
  }
  void resumeGivesTheSameBits() {
    QFETCH(QString, strategy);
    QTemporaryDir dir;
    RunSettings settings = smallRun();
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

  // The mean loss of the next epoch is its own, also after a stop in an epoch's last step.
  void aStopAtAnEpochsEnd() {
    const QTemporaryDir dir;
    RunSettings settings = smallRun();
    const RunOutcome whole = trained(settings);
    QVERIFY2(whole.ok(), whole.error().c_str());
    RunSettings first = settings;
    first.trainer.checkpointFolder = dir.path().toStdString();
    first.stopAt = 15;  // all ranks agree on it in the next step, the last of the first epoch
    const RunOutcome stopped = trained(first);
    QVERIFY2(stopped.ok(), stopped.error().c_str());
    QCOMPARE(stopped.ranks[0]->status, std::string("stopped"));
    QCOMPARE(stopped.ranks[0]->steps, std::int64_t{16});
    settings.trainer.resumeFrom = first.trainer.checkpointFolder;
    const RunOutcome rest = trained(settings);
    QVERIFY2(rest.ok(), rest.error().c_str());
    QCOMPARE(rest.epochs.size(), std::size_t{2});
    QCOMPARE(rest.epochs[0].trainLoss, whole.epochs[1].trainLoss);
    QCOMPARE(rest.epochs[1].trainLoss, whole.epochs[2].trainLoss);
  }

  // Within an epoch, by steps or by time; a disk that is too slow for all leaves some out.
  void checkpointsAreTakenWhileItTrains_data() { resumeGivesTheSameBits_data(); }
  void checkpointsAreTakenWhileItTrains() {
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(int, modelRanks);
    QFETCH(int, microBatches);
    QFETCH(int, stages);
    QFETCH(int, servers);
    QFETCH(QString, compression);
    RunSettings settings = smallRun();
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.modelRanks = modelRanks;
    settings.microBatches = microBatches;
    settings.stages = stages;
    settings.servers = servers;
    settings.compression = compression.toStdString();
    settings.topKAfter = 25;
    settings.trainer.epochs = 2;
    const RunOutcome without = trained(settings);
    QVERIFY2(without.ok(), without.error().c_str());
    for (const bool bySteps : {true, false}) {
      QTemporaryDir dir;
      RunSettings with = settings;
      with.trainer.checkpointFolder = dir.path().toStdString();
      with.trainer.keepCheckpoints = 100;
      if (bySteps)
        with.trainer.checkpointSteps = 5;
      else
        with.trainer.checkpointSeconds = 1e-9;  // after each step, the first as well
      const RunOutcome whole = trained(with);
      QVERIFY2(whole.ok(), whole.error().c_str());
      QCOMPARE(whole.ranks[0]->weightsSha256, without.ranks[0]->weightsSha256);
      QCOMPARE(whole.epochs.back().trainLoss, without.epochs.back().trainLoss);
      std::vector<std::int64_t> taken;
      for (const std::string& folder : whole.checkpoints)
        taken.push_back(std::stoll(folder.substr(folder.rfind('-') + 1)));
      QVERIFY(std::is_sorted(taken.begin(), taken.end()));
      QCOMPARE(taken.front(), bySteps ? 5 : 1);
      QCOMPARE(taken.back(), whole.steps.back().step);
      for (const std::int64_t step : taken) QVERIFY(!bySteps || step % 5 == 0 || step % 16 == 0);
      for (const std::size_t at : {std::size_t{0}, taken.size() / 2}) {
        RunSettings again = settings;
        again.trainer.resumeFrom = whole.checkpoints[at];
        const RunOutcome rest = trained(again);
        QVERIFY2(rest.ok(), rest.error().c_str());
        QCOMPARE(rest.ranks[0]->weightsSha256, without.ranks[0]->weightsSha256);
        QCOMPARE(rest.epochs.back().trainLoss, without.epochs.back().trainLoss);
      }
    }
  }

  // Ranks on several hosts keep their parts on disks of their own. Other ranks on other hosts go on
  // from there, and with what several hosts hold one may be lost.
  void eachHostHasItsDisk_data() {
    resumeGivesTheSameBits_data();
    QTest::newRow("mirrored, 4 ranks")
        << "multi-worker-mirrored" << 4 << 1 << 1 << 1 << 0 << "none";
    QTest::newRow("zero-3, 4 ranks") << "zero-3" << 4 << 1 << 1 << 1 << 0 << "none";
  }
  void eachHostHasItsDisk() {
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(int, modelRanks);
    QFETCH(int, microBatches);
    QFETCH(int, stages);
    QFETCH(int, servers);
    QFETCH(QString, compression);
    QTemporaryDir dir;
    RunSettings settings = smallRun();
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.modelRanks = modelRanks;
    settings.microBatches = microBatches;
    settings.stages = stages;
    settings.servers = servers;
    settings.compression = compression.toStdString();
    settings.topKAfter = 25;
    settings.trainer.epochs = 2;
    const RunOutcome whole = trained(settings);
    QVERIFY2(whole.ok(), whole.error().c_str());
    const auto diskOf = [&](int host) {
      return dir.filePath(QString("host%1").arg(host)).toStdString();
    };
    for (const int perHost : {1, 2}) {
      fs::remove_all(dir.path().toStdString() + "/host0");
      for (int host = 0; host < ranks; ++host) fs::remove_all(diskOf(host));
      RunSettings first = settings;
      first.trainer.maxSteps = 21;
      first.trainer.checkpointSteps = 7;
      first.adapt = [&](int rank, runtime::TrainerOptions& options) {
        options.checkpointFolder = diskOf(rank / perHost);
      };
      const RunOutcome half = trained(first);
      QVERIFY2(half.ok(), half.error().c_str());
      for (int host = 0; host * perHost < ranks; ++host)
        QVERIFY(fs::exists(diskOf(host) + "/step-000000021/manifest.json"));
      const auto resumed = [&](int shift) {
        RunSettings second = settings;
        second.adapt = [&, shift](int rank, runtime::TrainerOptions& options) {
          options.resumeFrom = diskOf((rank + shift) % ranks / perHost);
        };
        return trained(second);
      };
      // By the same ranks, and by ranks that find the parts of others.
      for (const int shift : {0, 1}) {
        const RunOutcome rest = resumed(shift);
        QVERIFY2(rest.ok(), fmt::format("{}: {}", shift, rest.error()).c_str());
        QCOMPARE(rest.steps.front().step, 22);
        QCOMPARE(rest.ranks[0]->weightsSha256, whole.ranks[0]->weightsSha256);
        QCOMPARE(rest.epochs.back().trainLoss, whole.epochs.back().trainLoss);
      }
      // A host is lost, with its disk.
      if (ranks <= perHost) continue;
      fs::remove_all(diskOf(1));
      const bool isHeldTwice = strategy == "multi-worker-mirrored" && compression == "none";
      const RunOutcome without = resumed(0);
      if (isHeldTwice) {
        QVERIFY2(without.ok(), without.error().c_str());
        QCOMPARE(without.ranks[0]->weightsSha256, whole.ranks[0]->weightsSha256);
      } else if (!without.ok()) {
        QVERIFY2(without.error().find("no rank can read") != std::string::npos,
                 without.error().c_str());
      } else {
        QCOMPARE(without.ranks[0]->weightsSha256, whole.ranks[0]->weightsSha256);
      }
    }
  }

  // Also asynchronous ones. Other strategies and numbers of ranks go on from there, and servers go
  // on from the one file of a single rank.
  void serversWriteWhatTheyHold_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("servers");
    QTest::addColumn<int>("staleness");
    QTest::newRow("one of each") << "parameter-server" << 2 << 1 << 0;
    QTest::newRow("two servers") << "parameter-server" << 4 << 2 << 0;
    QTest::newRow("central storage") << "central-storage" << 3 << 1 << 0;
    QTest::newRow("asynchronous") << "parameter-server" << 3 << 1 << plan::Plan::kAnyStaleness;
    QTest::newRow("asynchronous, two servers") << "parameter-server" << 4 << 2 << 2;
  }
  void serversWriteWhatTheyHold() {
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(int, servers);
    QFETCH(int, staleness);
    RunSettings settings = smallRun();
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.servers = servers;
    settings.staleness = staleness;
    settings.optimizer.kind = "adam";
    settings.trainer.maxSteps = 21;
    for (const bool isShared : {true, false}) {
      QTemporaryDir dir;
      const auto folderOf = [&](int rank) {
        return dir.filePath(isShared ? QString("shared") : QString("host%1").arg(rank))
            .toStdString();
      };
      RunSettings writing = settings;
      writing.adapt = [&](int rank, runtime::TrainerOptions& options) {
        options.checkpointFolder = folderOf(rank);
      };
      const RunOutcome written = trained(writing);
      QVERIFY2(written.ok(), written.error().c_str());
      checkParts(folderOf, ranks, servers);
      std::vector<std::tuple<const char*, int, int>> readers{{"zero-3", ranks, 0},
                                                             {"parameter-server", ranks, 1}};
      if (isShared)
        readers.insert(readers.end(),
                       {{"mirrored", 1, 0}, {"zero-1", 3, 0}, {"parameter-server", 5, 3}});
      for (const auto& [kind, world, theirs] : readers)
        QCOMPARE(weightsReadBy(kind, world, theirs, folderOf), written.ranks[0]->weightsSha256);
    }
    QTemporaryDir dir;
    RunSettings alone = settings;
    alone.strategy = "mirrored";
    alone.ranks = 1;
    alone.servers = alone.staleness = 0;
    alone.trainer.checkpointFolder = dir.path().toStdString();
    const RunOutcome written = trained(alone);
    QVERIFY2(written.ok(), written.error().c_str());
    QVERIFY(fs::exists(written.checkpoints.back() + "/state.safetensors"));
    QCOMPARE(weightsReadBy(settings.strategy, ranks, servers,
                           [&](int) { return dir.path().toStdString(); }),
             written.ranks[0]->weightsSha256);
  }

  void otherAccountsCannotReadFiles() {
    const auto before = umask(0);
    const auto restore = qScopeGuard([&] { umask(before); });
    QTemporaryDir dir;
    const std::string root = dir.path().toStdString();
    RunSettings settings = smallRun();
    settings.strategy = "zero-3";
    settings.ranks = 2;
    settings.trainer.maxSteps = 3;
    for (const bool isShared : {true, false}) {
      settings.adapt = [&](int rank, runtime::TrainerOptions& options) {
        options.checkpointFolder = root + (isShared ? "/shared" : fmt::format("/host{}", rank));
        if (rank == 0) options.modelFile = root + "/model.safetensors";
      };
      const RunOutcome out = trained(settings);
      QVERIFY2(out.ok(), out.error().c_str());
    }
    std::set<std::string> names;
    for (const auto& file : fs::recursive_directory_iterator(root)) {
      if (!file.is_regular_file()) continue;
      names.insert(file.path().filename().string());
      QVERIFY2(file.status().permissions() == (fs::perms::owner_read | fs::perms::owner_write),
               file.path().c_str());
    }
    for (const char* name : {"model.safetensors", "manifest.json", "shard-00000.safetensors"})
      QVERIFY2(names.contains(name), name);
  }

  // A process that was killed in the middle leaves half a checkpoint, or one half removed.
  void whatAKilledProcessLeftIsRemoved() {
    QTemporaryDir dir;
    for (const char* name : {".step-7.tmp", ".step-000000003.old"}) {
      QVERIFY(QDir(dir.path()).mkdir(name));
      QVERIFY(writeFileAtomically(dir.filePath(name).toStdString() + "/part", "part").ok());
    }
    RunSettings settings = smallRun();
    settings.trainer.maxSteps = 5;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    QCOMPARE(QDir(dir.path()).entryList(QDir::AllEntries | QDir::Hidden | QDir::NoDotAndDotDot),
             QStringList{"step-000000005"});
  }

  // As by a rank 0 that was stopped while it published, and goes on after another took its place.
  void anEarlierGenerationDamagesNothing() {
    const QTemporaryDir folder;
    const std::filesystem::path root = folder.path().toStdString();
    const auto checkpoint = weights::checkpointAt(root, 40);
    const auto make = [](const std::filesystem::path& at, const std::string& text) {
      std::filesystem::create_directories(at);
      QVERIFY(writeFileAtomically(at / "state.safetensors", text).ok());
    };
    make(root / ".step-40-a.tmp", "first");
    QVERIFY(weights::publishCheckpoint(root / ".step-40-a.tmp", checkpoint).ok());
    make(root / ".step-40-b.tmp", "second");
    QVERIFY(weights::publishCheckpoint(root / ".step-40-b.tmp", checkpoint).ok());
    QCOMPARE(*readFile(checkpoint / "state.safetensors"), std::string("second"));
    const Status late = weights::publishCheckpoint(root / ".step-40-a.tmp", checkpoint);
    QCOMPARE(late.code(), Code::kNotFound);
    QCOMPARE(*readFile(checkpoint / "state.safetensors"), std::string("second"));
    QCOMPARE(listFolder(root).size(), std::size_t{1});
  }

  // Of more or fewer ranks, with or without: nothing that has not been sent is lost.
  void residualsOfOtherRanks() {
    QTemporaryDir dir;
    RunSettings settings = smallRun();
    settings.compression = "top-k";
    settings.trainer.maxSteps = 5;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    QVERIFY(trained(settings).ok());
    const auto tensors = tensorsIn(dir.filePath("step-000000005").toStdString());
    for (const int ranks : {2, 4}) {
      settings.ranks = ranks;
      const auto plan = planOf(settings);
      QVERIFY(plan.ok());
      const auto groups = runtime::LocalGroups::make(plan->mesh, 30'000'000'000).value();
      std::vector<std::unique_ptr<runtime::StateArena>> states;
      std::vector<std::thread> threads;
      std::atomic<int> read{0};
      for (int rank = 0; rank < ranks; ++rank)
        states.push_back(runtime::StateArena::make(*plan, rank).value());
      for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
          read += runtime::readCheckpoint(
                      dir.path().toStdString(), {},
                      {*plan, rank, *states[static_cast<std::size_t>(rank)], groups.of(rank)})
                      .ok();
        });
      for (std::thread& thread : threads) thread.join();
      QCOMPARE(read.load(), ranks);
      double largest = 0;
      for (const plan::StateSlot& slot : plan->state) {
        if (!slot.name.starts_with("residual.")) continue;
        const auto& content = tensors.at("residual/" + slot.members[0].name).bytes;
        const std::int64_t count = slot.type.count();
        std::vector<float> before(static_cast<std::size_t>(3 * count));
        QCOMPARE(content.size(), before.size() * sizeof(float));
        std::memcpy(before.data(), content.data(), content.size());
        for (std::int64_t i = 0; i < count; ++i) {
          float whole = 0, now = 0;
          for (int rank = 0; rank < 3; ++rank)
            whole += before[static_cast<std::size_t>(rank * count + i)];
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
    RunSettings settings = smallRun();
    settings.compression = "int8";
    // by the residual's tensor
    std::map<std::string, std::vector<plan::StateSlot::Member>> contents;
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
    RunSettings settings = smallRun();
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
    auto model = weights::readTensors(settings.trainer.modelFile);
    QVERIFY(model.ok());
    QCOMPARE(model->entries.at("stem-norm.mean").shape, (Shape{3}));
    const std::span<const std::byte> bytes = model->bytes(model->entries.at("stem-norm.variance"));
    const auto* variance = reinterpret_cast<const float*>(bytes.data());
    for (int c = 0; c < 3; ++c) QVERIFY(variance[c] > 0 && std::abs(variance[c] - 1) > 1e-3f);
  }

  void onlyTheNewestAreKept() {
    QTemporaryDir dir;
    RunSettings settings = smallRun();
    settings.trainer.checkpointFolder = dir.path().toStdString();
    settings.trainer.modelFile = dir.filePath("model.safetensors").toStdString();
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir.path().toStdString()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    QCOMPARE(names,
             (std::vector<std::string>{"model.safetensors", "step-000000032", "step-000000048"}));
    auto model = weights::readTensors(settings.trainer.modelFile);
    QVERIFY(model.ok());
    QCOMPARE(model->entries.size(), std::size_t{4});
    QCOMPARE(model->entries.at("dense1.weight").shape, (Shape{784, 128}));
    QCOMPARE(model->metadata.at("layout"), std::string(weights::kWeightLayout));
  }

 private:
  using FolderOf = std::function<std::string(int rank)>;

  // Of step 21, by ranks of which the last are servers.
  static void checkParts(const FolderOf& folderOf, int ranks, int servers) {
    const auto at = [&](int rank, const std::string& file) {
      return fmt::format("{}/step-000000021/{}", folderOf(rank), file);
    };
    const auto manifest =
        weights::parseManifest(*readFile(at(0, "manifest.json")), "manifest.json");
    QVERIFY(manifest.ok());
    QCOMPARE(manifest->metadata.at("weight_sum"), std::string("320"));  // of five steps of 64
    const auto files = weights::filesOfWeights(*manifest);
    for (int rank = 0; rank < ranks; ++rank) {
      QCOMPARE(*readFile(at(rank, "manifest.json")), *readFile(at(0, "manifest.json")));
      QVERIFY(!fs::exists(at(rank, "state.safetensors")));
      const std::string own = weights::shardFile(rank);
      QCOMPARE(fs::exists(at(rank, own)), manifest->contents.contains(own));
      QVERIFY(rank >= ranks - servers || std::ranges::find(files, own) == files.end());
    }
  }

  // Ranks that have no step left to train.
  static std::string weightsReadBy(const std::string& strategy, int ranks, int servers,
                                   const FolderOf& folderOf) {
    RunSettings settings = smallRun();
    settings.strategy = strategy;
    settings.ranks = ranks;
    settings.servers = servers;
    settings.optimizer.kind = "adam";
    settings.trainer.maxSteps = 21;
    settings.adapt = [&](int rank, runtime::TrainerOptions& options) {
      options.resumeFrom = folderOf(rank);
    };
    const RunOutcome out = trained(settings);
    return out.ok() && out.steps.empty() ? out.ranks[0]->weightsSha256 : out.error();
  }

  static void whatIsDamagedIsNotEvaluated(const plan::Plan& plan, const std::string& checkpoint,
                                          const data::Dataset& data, backends::Backend& backend) {
    const std::string path =
        checkpoint + "/" + weights::filesOfWeights(manifestIn(checkpoint)).front();
    std::string content = *readFile(path);
    const auto tensors = weights::readTensors(path);
    QVERIFY(tensors.ok());
    const auto weight = tensors->entries.lower_bound("params/");  // state that it does not need may
    QVERIFY(weight != tensors->entries.end());                    // be damaged
    const std::size_t at = tensors->dataOffset + weight->second.offset;
    content[at] = static_cast<char>(content[at] ^ 0x40);
    QVERIFY(writeFileAtomically(path, content).ok());
    const auto damaged = runtime::evaluateCheckpoint(plan, checkpoint, data, backend);
    QVERIFY(!damaged.ok());
    QCOMPARE(damaged.error().code, Code::kDataLoss);
    QVERIFY2(damaged.error().text().find(": the checksum of tensor ") != std::string::npos,
             damaged.error().text().c_str());
  }
};

QTEST_GUILESS_MAIN(CheckpointTest)
#include "checkpoint_test.moc"
