// Checkpoints whose tensors have several blocks with checksums, read by another number of ranks:
// each reads its ranges, and a damaged block is seen by those that need it.
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>

#include "engine/base/file.h"
#include "engine/base/random.h"
#include "engine/weights/safetensors.h"
#include "tests/support/checkpoint_content.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;

class CheckpointRangesTest : public QObject {
  Q_OBJECT

  static constexpr std::size_t kBlock = 1 << 20;

  struct Largest {
    std::string path, name;
    std::size_t at = 0, size = 0;  // in the file
  };
  static Largest largestIn(const std::string& checkpoint, std::size_t shard) {
    Largest out;
    std::vector<std::string> files = filesIn(checkpoint);
    std::erase_if(files, [](const std::string& file) { return file.ends_with(".json"); });
    out.path = files[shard % files.size()];
    const auto reader = weights::TensorReader::open(out.path).value();
    for (const auto& [name, entry] : reader.entries())
      if (entry.size > out.size)
        out.name = name, out.at = reader.dataOffset() + entry.offset, out.size = entry.size;
    return out;
  }

 private Q_SLOTS:
  void otherRanksReadThem() {
    QTemporaryDir dir;
    RunSettings settings;
    settings.backend = "onednn";
    settings.compute = DType::kF32;
    settings.model.layers[1].units = 1400;
    settings.ranks = 2;
    settings.batch = 64;
    settings.samples = 192;  // 3 steps an epoch
    settings.trainer.epochs = 2;
    settings.trainer.keepCheckpoints = 2;
    settings.trainer.checkpointFolder = dir.path().toStdString();
    settings.strategy = "zero-1";
    settings.optimizer.kind = "adam";
    const RunOutcome whole = trained(settings);
    QVERIFY2(whole.ok(), whole.error().c_str());
    QCOMPARE(whole.checkpoints.size(), std::size_t{2});

    std::vector<std::string> warnings;
    settings.trainer.checkpointFolder.clear();
    settings.trainer.resumeFrom = dir.path().toStdString();
    settings.trainer.warn = [&](const Error& warning) { warnings.push_back(warning.text()); };
    const auto onRanks = [&](int ranks) {
      settings.ranks = ranks;
      settings.strategy = ranks == 1 ? "multi-worker-mirrored" : ranks == 3 ? "zero-3" : "zero-1";
    };
    for (int ranks = 1; ranks <= 4; ++ranks) {
      onRanks(ranks);
      const RunOutcome rest = trained(settings);
      QVERIFY2(rest.ok() && rest.steps.empty(), rest.error().c_str());
      QCOMPARE(rest.ranks[0]->weightsSha256, whole.ranks[0]->weightsSha256);
      QCOMPARE(warnings.size(), std::size_t{0});
    }
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const Largest hit = largestIn(whole.checkpoints.back(), seed);
      QVERIFY(hit.size > kBlock);
      const std::size_t at = randomBits(seed, 1) % hit.size;
      const std::string good = *readFile(hit.path);
      std::string bad = good;
      char& byte = bad[hit.at + at];
      byte = static_cast<char>(byte ^ 1 << randomBits(seed, 2) % 8);
      QVERIFY(writeFileAtomically(hit.path, bad).ok());
      onRanks(1 + static_cast<int>(seed % 4));
      warnings.clear();
      const RunOutcome rest = trained(settings);
      QVERIFY2(rest.ok(), rest.error().c_str());
      QCOMPARE(rest.steps.front().step, std::int64_t{4});
      QCOMPARE(warnings.size(), std::size_t{1});
      const std::string words = fmt::format("the checksum of tensor {} does not match in block {},",
                                            hit.name, at / kBlock);
      QVERIFY2(warnings[0].find(hit.path) != std::string::npos &&
                   warnings[0].find(words) != std::string::npos,
               warnings[0].c_str());
      QVERIFY(writeFileAtomically(hit.path, good).ok());
    }
  }
};

QTEST_GUILESS_MAIN(CheckpointRangesTest)
#include "checkpoint_ranges_test.moc"
