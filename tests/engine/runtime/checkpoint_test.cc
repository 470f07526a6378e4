#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <QScopeGuard>
#include <QTest>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <tuple>

#include "engine/base/file.h"
#include "engine/base/list_folder.h"
#include "engine/base/random.h"
#include "engine/runtime/checkpoint.h"
#include "engine/runtime/evaluate.h"
#include "engine/weights/files.h"
#include "engine/weights/safetensors.h"
#include "tests/support/checkpoint_content.h"
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

namespace {
// Of few parameters, so that many runs take little.
models::Model small4() {
  models::Model model = fashionMlp();
  model.layers[1].units = 4;
  return model;
}
}  // namespace

// Damages the content of a checkpoint's file; returns the tensor whose checksum tells it, where one
// is known. 10 kinds.
std::string damaged(std::string& content, const weights::TensorFile& data, std::uint64_t damage,
                    std::uint64_t at, const std::string& wrongShapes) {
  const auto hit = [&](std::size_t begin, std::size_t end) {
    char& byte = content[begin + at % (end - begin)];
    byte = static_cast<char>(byte ^ static_cast<char>(1 << (at >> 40) % 8));
  };
  switch (damage) {
    case 0:
      hit(0, 8);
      break;  // the header's length
    case 1:
      hit(8, data.dataOffset);
      break;  // the header
    case 2:
      hit(data.dataOffset, content.size());
      break;  // the data
    case 3:
      content.resize(at % content.size());
      break;
    case 4:
      content.clear();
      break;
    case 5:
      content.append(1 + at % 100, static_cast<char>(at));
      break;
    case 6:
      content = wrongShapes;
      break;
    case 7:
      content.replace(8, data.dataOffset - 8, data.dataOffset - 8, '[');
      break;
    case 8:
      std::fill(content.begin() + static_cast<std::ptrdiff_t>(content.size() / 2), content.end(),
                '\0');
      break;
    default: {  // an exponent bit of forty weights
      const auto& [name, entry] =
          *std::next(data.entries.begin(), static_cast<std::ptrdiff_t>(at % data.entries.size()));
      for (std::size_t k = 0; k < std::min<std::size_t>(40, entry.size / 4); ++k) {
        char& byte = content[data.dataOffset + entry.offset + 4 * k + 3];
        byte = static_cast<char>(byte ^ 0x10);
      }
      return name;
    }
  }
  return {};
}

// The files of a run's checkpoints, each a manifest and two files of tensors.
struct CheckpointFiles {
  static constexpr std::uint64_t kDamages = 11;
  struct Damage {
    std::vector<std::string> files;  // the newest checkpoint's first; "": any of its files
    std::string tensor;              // the newest's that is damaged; "": none alone
  };

  CheckpointFiles(const std::vector<std::string>& checkpoints, std::string scratchPath)
      : scratch(std::move(scratchPath)) {
    for (const std::string& checkpoint : checkpoints) {
      files.push_back(filesIn(checkpoint));
      for (const std::string& path : files.back()) good[path] = *readFile(path);
    }
  }

  // Writes all of them as they were, but one file in each of the newest `bad`: the newest's has
  // the damage whose turn it is by `seed`, the others' are drawn.
  Damage damageNewest(std::size_t bad, std::uint64_t seed) {
    Damage out;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const bool isNewest = i + 1 == files.size(), isDamaged = i >= files.size() - bad;
      const std::size_t which = randomBits(seed, 30 + i) % 3;
      const std::uint64_t damage = (isNewest ? seed : randomBits(seed, 10 + i)) % kDamages;
      for (std::size_t f = 0; f < 3; ++f) {
        const std::string& path = files[i][f];
        fs::remove_all(path);
        if (!isDamaged || f != which) {
          std::ofstream(path, std::ios::binary | std::ios::trunc) << good[path];
          continue;
        }
        out.files.insert(out.files.begin(), damage == 6 ? "" : path);
        const std::string tensor = damageFile(path, f, damage, randomBits(seed, 20 + i));
        if (isNewest) out.tensor = tensor;
      }
    }
    return out;
  }

  // Returns the tensor that is damaged, if it is one alone.
  std::string damageFile(const std::string& path, std::size_t f, std::uint64_t damage,
                         std::uint64_t at) {
    std::string content = good[path];
    if (damage == 10) {  // torn: without the file, or with something else of its name
      if (at % 2 == 0) fs::create_directory(path);
      return {};
    }
    weights::TensorFile data;  // of a manifest, as if half of it were header
    data.dataOffset = content.size() / 2;
    data.entries["x"] = {DType::kF32, {1}, 0, 4, 0};
    if (f > 0) {
      std::ofstream(scratch, std::ios::binary | std::ios::trunc) << content;
      data = weights::readTensors(scratch).value();
    }
    const std::string tensor = damaged(content, data, damage, at, *readFile(ofOtherShapes[f]));
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    return f > 0 ? tensor : std::string();
  }

  std::vector<std::vector<std::string>> files;  // by checkpoint
  std::map<std::string, std::string> good;      // by path
  std::vector<std::string> ofOtherShapes;       // of a checkpoint of another model
  std::string scratch;
};

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
    RunSettings settings = small();
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
    RunSettings settings = small();
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
    RunSettings settings = small();
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
    RunSettings settings = small();
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
    RunSettings settings = small();
    settings.trainer.maxSteps = 5;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    QCOMPARE(QDir(dir.path()).entryList(QDir::AllEntries | QDir::Hidden | QDir::NoDotAndDotDot),
             QStringList{"step-000000005"});
  }

  // Of more or fewer ranks, with or without: nothing that has not been sent is lost.
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

  void residualsOfOtherRanks() {
    QTemporaryDir dir;
    RunSettings settings = small();
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
    RunSettings settings = small();
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
    auto model = weights::readTensors(settings.trainer.modelFile);
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
    QCOMPARE(names,
             (std::vector<std::string>{"model.safetensors", "step-000000032", "step-000000048"}));
    auto model = weights::readTensors(settings.trainer.modelFile);
    QVERIFY(model.ok());
    QCOMPARE(model->entries.size(), std::size_t{4});
    QCOMPARE(model->entries.at("dense1.weight").shape, (Shape{784, 128}));
    QCOMPARE(model->metadata.at("layout"), std::string(weights::kWeightLayout));
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
    const auto state = runtime::StateArena::make(*plan, 0).value();
    QVERIFY(
        runtime::readCheckpoint(dir.filePath("nothing").toStdString(), {}, {*plan, 0, *state, {}})
            .error()
            .code == Code::kNotFound);
  }

  // No flipped bit, no cut and nothing appended goes unseen where there are checksums.
  void checksumsSeeAnyDamage() {
    QTemporaryDir dir;
    const std::string path = dir.filePath("t.safetensors").toStdString();
    std::vector<float> values(12);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 5.5f;
    const auto bytes = [&](std::size_t i) -> Result<std::span<const std::byte>> {
      return std::as_bytes(std::span(values)).first(i == 0 ? 48 : 20);
    };
    QVERIFY(weights::writeTensors(
                path,
                {{"params/a.weight", DType::kF32, {3, 4}}, {"params/b.bias", DType::kF32, {5}}},
                {{"step", "17"}}, bytes, weights::Checksums::kCrc32c)
                .ok());
    const std::string good = *readFile(path);
    const auto read = [&](const std::string& content) {
      std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
      return weights::readTensors(path);
    };
    const auto whole = read(good);
    QVERIFY2(whole.ok(), whole.ok() ? "" : whole.error().text().c_str());
    QVERIFY(whole->verified && whole->entries.size() == 2 && whole->metadata.at("step") == "17");
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
      const auto found = read(bad);
      QVERIFY2(!found.ok() && found.error().code == Code::kDataLoss,
               fmt::format("bit {}", bit).c_str());
      QVERIFY(found.error().what.text().find(path) != std::string::npos);
      const std::size_t data = whole->dataOffset;
      if (bit / 8 >= data && bit / 8 < data + 48)
        QCOMPARE(found.error().why, "the checksum of tensor params/a.weight does not match");
      else if (bit / 8 >= data + 48 && bit / 8 < data + 68)
        QCOMPARE(found.error().why, "the checksum of tensor params/b.bias does not match");
    }
    for (std::size_t size = 0; size < good.size(); ++size)
      QVERIFY(!read(good.substr(0, size)).ok());
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      std::string more = good;
      for (std::uint64_t i = 0; i <= seed % 40; ++i)
        more += seed % 3 == 0 ? '\0' : static_cast<char>(randomBits(seed, i));
      QVERIFY(!read(more).ok());
      // A run of bytes, or two places exchanged.
      std::string bad = good;
      const std::size_t at = randomBits(seed, 50) % (good.size() - 16),
                        count = 1 + randomBits(seed, 51) % 16;
      for (std::size_t i = 0; i < count; ++i)
        bad[at + i] = static_cast<char>(randomBits(seed, 60 + i));
      if (seed % 2 == 0) {
        bad = good;
        std::swap_ranges(bad.begin(), bad.begin() + 8,
                         bad.begin() + 8 + static_cast<std::ptrdiff_t>(at % (good.size() - 16)));
      }
      if (bad != good) QVERIFY2(!read(bad).ok(), fmt::format("seed {}", seed).c_str());
    }
  }

  // Whatever became of the newest checkpoints, the newest whole one is used, and those passed over
  // are named, with their file and what is wrong with it.
  void theNewestWholeOneIsUsed() {
    QTemporaryDir dir;
    RunSettings settings = small();
    settings.model = small4();
    settings.ranks = 2;
    settings.samples = 192;
    settings.trainer.epochs = 4;
    settings.trainer.keepCheckpoints = 4;
    const std::string folder = dir.filePath("checkpoints").toStdString();
    settings.trainer.checkpointFolder = folder;
    const RunOutcome whole = trained(settings);
    QVERIFY2(whole.ok(), whole.error().c_str());
    QCOMPARE(whole.checkpoints.size(), std::size_t{4});  // after steps 3, 6, 9 and 12
    CheckpointFiles kept(whole.checkpoints, dir.filePath("copy").toStdString());
    for (const auto& files : kept.files) QCOMPARE(files.size(), std::size_t{3});
    RunSettings other = settings;  // whose tensors have other shapes
    other.model.layers[1].units = 9;
    other.trainer.checkpointFolder = dir.filePath("other").toStdString();
    other.trainer.maxSteps = 1;
    const RunOutcome others = trained(other);
    QVERIFY2(others.ok(), others.error().c_str());
    kept.ofOtherShapes = filesIn(others.checkpoints.back());

    settings.trainer.checkpointFolder.clear();
    settings.trainer.resumeFrom = folder;
    std::vector<std::string> warnings;
    settings.trainer.warn = [&](const Error& warning) { warnings.push_back(warning.text()); };
    for (std::uint64_t seed = 0; seed < 12 * CheckpointFiles::kDamages; ++seed) {
      const std::size_t bad = 1 + randomBits(seed, 0) % 3;  // so many of the newest
      const CheckpointFiles::Damage damage = kept.damageNewest(bad, seed);
      warnings.clear();
      const RunOutcome rest = trained(settings);
      QVERIFY2(rest.ok(), fmt::format("seed {}: {}", seed, rest.error()).c_str());
      const auto from = static_cast<std::int64_t>(3 * (whole.checkpoints.size() - bad));
      QCOMPARE(rest.steps.front().step, from + 1);
      QCOMPARE(rest.ranks[0]->weightsSha256, whole.ranks[0]->weightsSha256);
      QCOMPARE(warnings.size(), bad);
      const std::string to = fmt::format("step-{:09}", from);
      for (std::size_t i = 0; i < bad; ++i) {
        const std::string& checkpoint = whole.checkpoints[whole.checkpoints.size() - 1 - i];
        const std::string& file = damage.files[i].empty() ? checkpoint : damage.files[i];
        QVERIFY2(warnings[i].find(file) != std::string::npos &&
                     warnings[i].find(to) != std::string::npos,
                 fmt::format("seed {}: {}", seed, warnings[i]).c_str());
      }
      if (!damage.tensor.empty()) {
        const std::string words = "the checksum of tensor " + damage.tensor + " does not match";
        QVERIFY2(warnings[0].find(words) != std::string::npos, warnings[0].c_str());
      }
    }
    // None is whole; one that is asked for by its own name has no other in its place.
    for (const auto& [file, content] : kept.good)
      std::ofstream(file, std::ios::binary | std::ios::trunc) << "torn";
    const RunOutcome none = trained(settings);
    QVERIFY(!none.ok());
    QCOMPARE(none.ranks[0].error().code, Code::kDataLoss);
    QVERIFY2(none.ranks[0].error().what.text().find(whole.checkpoints.back()) != std::string::npos,
             none.error().c_str());
    QVERIFY2(none.ranks[0].error().next.text().starts_with("none of the 4 checkpoints there"),
             none.error().c_str());
    for (const std::string& file : kept.files[0])
      std::ofstream(file, std::ios::binary | std::ios::trunc) << kept.good[file];
    settings.trainer.resumeFrom = whole.checkpoints.back();
    QVERIFY(!trained(settings).ok());
  }

  // What an earlier version wrote has no checksums: it is read, and said to have none.
  void checkpointsWithoutChecksums() {
    QTemporaryDir dir;
    RunSettings settings = small();
    settings.ranks = 1;
    settings.trainer.maxSteps = 2;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    const RunOutcome before = trained(settings);
    QVERIFY2(before.ok(), before.error().c_str());
    const std::string path = before.checkpoints.back() + "/state.safetensors";
    auto file = weights::readTensors(path);
    QVERIFY(file.ok());
    std::vector<TensorInfo> tensors;
    std::vector<weights::TensorFile::Entry> entries;
    for (const auto& [name, entry] : file->entries) {
      tensors.push_back({name, entry.dtype, entry.shape});
      entries.push_back(entry);
    }
    file->metadata.erase("checksums");
    QVERIFY(weights::writeTensors(path, tensors, file->metadata,
                                  [&](std::size_t i) -> Result<std::span<const std::byte>> {
                                    return file->bytes(entries[i]);
                                  })
                .ok());
    std::vector<std::string> warnings;
    settings.trainer.warn = [&](const Error& warning) { warnings.push_back(warning.what); };
    settings.trainer.resumeFrom = settings.trainer.checkpointFolder;
    settings.trainer.maxSteps = 4;
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    QCOMPARE(warnings.size(), std::size_t{1});
    QVERIFY2(warnings[0].ends_with("has no checksums, so damage to it would go unnoticed"),
             warnings[0].c_str());
  }

  // Where an address space is too small for a run, at whatever place, the run ends with an error
  // that says so.
  void withoutMemoryRunsEndWithErrors_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 0; seed < 9; ++seed) QTest::addRow("%d", seed) << seed;
  }
  void withoutMemoryRunsEndWithErrors() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    QSKIP("a sanitizer's own memory is part of the address space");
#endif
    QFETCH(int, seed);
    QTemporaryDir dir;
    RunSettings settings = small();
    settings.backend = seed % 3 == 2 ? "onednn" : "reference";
    settings.ranks = 1 + seed % 2;
    settings.model.layers[1].units = 8'000;  // parameters and their two moments: 76 MB
    settings.batch = 8;
    settings.trainer.maxSteps = 1;
    settings.trainer.evaluate = false;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    const auto plan = planOf(settings);
    QVERIFY(plan.ok());
    // From hardly anything to nearly enough.
    const std::int64_t more =
        (std::int64_t{1} << 20) *
        (4 + static_cast<std::int64_t>(randomBits(7, static_cast<std::uint64_t>(seed)) % 160));
    int ends[2];
    QCOMPARE(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      std::int64_t pages = 0;
      std::ifstream("/proc/self/statm") >> pages;
      const rlimit limit{static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + more),
                         static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + more)};
      setrlimit(RLIMIT_AS, &limit);
      const RunOutcome out = run(settings, *plan);
      const std::string said = out.ok() ? "succeeded" : out.error();
      if (write(ends[1], said.data(), said.size()) < 0) _exit(3);
      _exit(0);
    }
    ::close(ends[1]);
    std::string said(4096, '\0');
    std::size_t size = 0;
    for (ssize_t count = 0; (count = ::read(ends[0], said.data() + size, said.size() - size)) > 0;)
      size += static_cast<std::size_t>(count);
    ::close(ends[0]);
    said.resize(size);
    int status = 0;
    QCOMPARE(waitpid(child, &status, 0), child);
    QVERIFY2(WIFEXITED(status) && WEXITSTATUS(status) == 0,
             fmt::format("{} MiB, {}: status {}, said \"{}\"", more >> 20, settings.backend, status,
                         said)
                 .c_str());
    qInfo("%ld MiB more, %d ranks: %s", static_cast<long>(more >> 20), settings.ranks,
          said.substr(0, 200).c_str());
    QVERIFY2(said == "succeeded" || said.find("out of memory") != std::string::npos, said.c_str());
    if (said != "succeeded") QVERIFY2(said.find("rank ") != std::string::npos, said.c_str());
  }

  // No input makes the reader crash: truncations and seeded mutations of a real file.
  void damagedFilesAreErrors() {
    QTemporaryDir dir;
    const std::string path = dir.filePath("t.safetensors").toStdString();
    const std::vector<float> values(12, 1.5f);
    const auto bytes = [&](std::size_t) -> Result<std::span<const std::byte>> {
      return std::as_bytes(std::span(values));
    };
    QVERIFY(weights::writeTensors(path, {{"a", DType::kF32, {3, 4}}}, {{"step", "1"}}, bytes).ok());
    const std::string good = *readFile(path);
    auto file = weights::readTensors(path);
    QVERIFY(file.ok() && file->metadata.at("step") == "1");
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      std::string bad = good;
      if (seed < good.size()) {
        bad.resize(seed);
      } else {
        for (std::uint64_t k = 0; k < 1 + seed % 4; ++k)
          bad[randomBits(seed, 2 * k) % bad.size()] =
              static_cast<char>(randomBits(seed, 2 * k + 1));
      }
      std::ofstream(path, std::ios::binary | std::ios::trunc) << bad;
      auto read = weights::readTensors(path);
      if (read.ok())
        for (const auto& [name, entry] : read->entries)
          QVERIFY(read->bytes(entry).size() == entry.size);
    }
  }

  // A disk that cannot be written for a while: one warning, the training goes on, later checkpoints
  // are written, nothing half-written stays, and the weights are the same.
  void aDiskThatCannotBeWrittenIsWarnedOf_data() {
    QTest::addColumn<QString>("what");
    QTest::addColumn<int>("ranks");
    for (const int ranks : {1, 3})
      for (const QString what : {"full", "not mounted"})
        QTest::addRow("%s, %d ranks", qPrintable(what), ranks) << what << ranks;
  }
  void aDiskThatCannotBeWrittenIsWarnedOf() {
    QFETCH(QString, what);
    QFETCH(int, ranks);
    QTemporaryDir dir;
    const std::string mount = dir.filePath("disk").toStdString();
    fs::create_directory(mount);
    RunSettings settings = small();
    settings.ranks = ranks;
    settings.model = small4();
    settings.trainer.epochs = 4;
    const std::string expected = trained(settings).ranks[0]->weightsSha256;
    const bool isFull = what == "full";
    if (isFull) {
      if (geteuid() != 0) QSKIP("needs root to mount a small file system");
      if (system(fmt::format("mount -t tmpfs -o size=2m tmpfs {} 2>/dev/null", mount).c_str()) != 0)
        QSKIP("this machine lets no tmpfs be mounted");
    }
    const auto unmount = qScopeGuard([&] {
      if (isFull) (void)!system(fmt::format("umount -l {}", mount).c_str());
    });
    const std::string folder = mount + "/run/checkpoints", filler = mount + "/filler";
    settings.trainer.checkpointFolder = folder;
    std::vector<Error> warnings;
    std::atomic<bool> away{false};
    settings.trainer.onFirstTensor = [&](const TensorInfo&, std::span<const std::byte>) {
      if (away.exchange(true)) return;
      if (!isFull) return fs::rename(mount + "/run", mount + "/away");
      std::ofstream file(filler, std::ios::binary);
      const std::string block(4096, 'x');
      while (file.write(block.data(), std::ssize(block)).flush()) {
      }
    };
    settings.trainer.warn = [&](const Error& warning) {
      warnings.push_back(warning);
      if (isFull)
        fs::remove(filler);
      else
        fs::rename(mount + "/away", mount + "/run");
    };
    const RunOutcome out = trained(settings);
    std::vector<std::string> left;
    for (const auto& entry : fs::directory_iterator(folder))
      left.push_back(entry.path().filename());
    std::sort(left.begin(), left.end());
    QVERIFY2(out.ok(), out.error().c_str());
    QCOMPARE(out.ranks[0]->weightsSha256, expected);
    QCOMPARE(warnings.size(), std::size_t{1});
    const std::string why = warnings[0].why.text();
    QVERIFY2(why.find(isFull ? "No space left" : "No such file") != std::string::npos, why.c_str());
    QCOMPARE(out.checkpoints.size(), std::size_t{3});
    QCOMPARE(left, (std::vector<std::string>{"step-000000048", "step-000000064"}));
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
    int full = 0;
    for (const auto& rank : out.ranks) {
      QVERIFY(!rank.ok());
      QVERIFY2(rank.error().code == Code::kResourceExhausted || rank.error().code == Code::kAborted,
               rank.error().text().c_str());
      if (rank.error().code != Code::kResourceExhausted) continue;
      ++full;
      QCOMPARE(rank.error().next.text(),
               "free space on the disk of " + settings.trainer.checkpointFolder + ", then resume");
    }
    QVERIFY(full > 0);
    QVERIFY(empty);
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
    RunSettings settings = small();
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
