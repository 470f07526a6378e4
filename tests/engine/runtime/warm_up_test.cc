// The warm-up step leaves nothing behind: runs with and without it are bit-identical.
#include <QTemporaryDir>
#include <QTest>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "engine/base/hash.h"
#include "engine/runtime/feed.h"
#include "tests/support/checkpoint_content.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Left {
  std::vector<double> numbers;  // of every step and epoch
  std::vector<std::string> replicas;
  std::string weights;
  std::map<std::string, std::string> checkpoints;  // tensors and metadata
  bool operator==(const Left&) const = default;
};

// nullopt: it failed, which is reported
std::optional<Left> leftBy(RunSettings settings, double warmUpSeconds) {
  const QTemporaryDir folder;
  settings.trainer.warmUpSeconds = warmUpSeconds;
  settings.trainer.hashReplica = true;
  settings.trainer.checkpointFolder = folder.path().toStdString();
  settings.trainer.eventsEvery = 2;
  const RunOutcome outcome = trained(settings);
  if (!outcome.ok()) {
    qWarning("%s", outcome.error().c_str());
    return std::nullopt;
  }
  Left left;
  for (const runtime::StepRecord& step : outcome.steps)
    left.numbers.insert(left.numbers.end(), {step.loss, step.metric});
  for (const runtime::EpochRecord& epoch : outcome.epochs)
    left.numbers.insert(left.numbers.end(), {epoch.trainLoss, epoch.evalLoss, epoch.evalMetric});
  for (const auto& rank : outcome.ranks) left.replicas.push_back(rank->replicaSha256);
  left.weights = outcome.ranks.front()->weightsSha256;
  for (const std::string& checkpoint : outcome.checkpoints) {
    const std::string name = std::filesystem::path(checkpoint).filename();
    for (const auto& [key, value] : manifestIn(checkpoint).metadata)
      left.checkpoints[name + " " + key] = value;
    for (const auto& [tensor, content] : tensorsIn(checkpoint))
      left.checkpoints[name + " " + tensor] =
          sha256Hex({reinterpret_cast<const char*>(content.bytes.data()), content.bytes.size()});
  }
  return left;
}

struct Variant {
  const char* name;
  void (*change)(RunSettings& s);
};
const Variant kVariants[] = {
    {"perceptron", [](RunSettings&) {}},
    {"2 ranks", [](RunSettings& s) { s.ranks = 2; }},
    {"f64, plain loops",
     [](RunSettings& s) {
       s.backend = "reference";
       s.compute = DType::kF64;
       s.ranks = 2;
     }},
    // Leftovers of the first micro-batch are no valid labels of the second.
    {"micro-batches",
     [](RunSettings& s) {
       s.ranks = 2;
       s.microBatches = 4;
     }},
    {"batch norm",
     [](RunSettings& s) {
       s.model = smallResnet();
       s.ranks = 2;
       s.optimizer.kind = "sgd";
       s.optimizer.momentum = 0.9;
     }},
    {"GPT, micro-batches",
     [](RunSettings& s) {
       s.model = smallGpt();
       s.microBatches = 2;
       s.ranks = 2;
     }},
    {"GPT, tensors divided",
     [](RunSettings& s) {
       s.model = smallGpt();
       s.strategy = "tensor-parallel";
       s.ranks = s.modelRanks = 2;
     }},
    {"table",
     [](RunSettings& s) {
       s.model = smallCtr();
       s.ranks = 2;
       s.optimizer.kind = "adagrad";
     }},
    {"all divided",
     [](RunSettings& s) {
       s.ranks = 4;
       s.strategy = "zero-3";
     }},
    {"average now and then",
     [](RunSettings& s) {
       s.ranks = 2;
       s.strategy = "local-sgd";
       s.microBatches = 2;
     }},
    {"coded",
     [](RunSettings& s) {
       s.ranks = 2;
       s.compression = "int8";
     }},
    {"coded after some steps",
     [](RunSettings& s) {
       s.ranks = 2;
       s.compression = "top-k";
       s.topKAfter = 2;
     }},
    {"fp16, scaled",
     [](RunSettings& s) {
       s.ranks = 2;
       s.matmulDtype = DType::kF16;
       s.lossScale = passes::LossScale{};
     }},
    {"asynchronous",
     [](RunSettings& s) {
       s.ranks = 2;
       s.overlap = "always";
     }},
    // Requested but not run: no effect.
    {"stages",
     [](RunSettings& s) {
       s.ranks = s.stages = 2;
       s.strategy = "pipeline";
       s.microBatches = 2;
     }},
    {"servers",
     [](RunSettings& s) {
       s.ranks = 3;
       s.servers = 1;
       s.strategy = "parameter-server";
     }},
};

}  // namespace

Q_DECLARE_METATYPE(RunSettings)

class WarmUpTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void leavesNothing_data() {
    QTest::addColumn<RunSettings>("settings");
    RunSettings base;
    base.backend = "onednn";
    base.compute = DType::kF32;
    base.optimizer.kind = "adam";
    base.samples = 240;
    base.trainer.epochs = 2;
    for (const Variant& variant : kVariants) {
      RunSettings settings = base;
      variant.change(settings);
      QTest::newRow(variant.name) << settings;
    }
  }
  void leavesNothing() {
    QFETCH(RunSettings, settings);
    const auto without = leftBy(settings, 0), with = leftBy(settings, 1e9);
    QVERIFY(without && with);
    QVERIFY(!without->numbers.empty() && !without->weights.empty() &&
            !without->checkpoints.empty());
    QVERIFY(std::all_of(without->numbers.begin(), without->numbers.end(),
                        [](double x) { return std::isfinite(x); }));
    QCOMPARE(with->numbers, without->numbers);
    QCOMPARE(with->weights, without->weights);
    QVERIFY(with->replicas == without->replicas);
    QVERIFY(with->checkpoints == without->checkpoints);
  }

  // A resumed run continues from the checkpoint, not from the warm-up.
  void leavesNothingOfWhatIsResumed_data() {
    QTest::addColumn<QString>("compression");
    QTest::newRow("plain") << "";
    QTest::newRow("with what was left out, after the whole steps") << "top-k";
  }
  void leavesNothingOfWhatIsResumed() {
    QFETCH(QString, compression);
    const QTemporaryDir folder;
    RunSettings settings;
    if (!compression.isEmpty()) {
      settings.ranks = 2;
      settings.compression = compression.toStdString();
      settings.topKAfter = 2;
    }
    settings.backend = "onednn";
    settings.compute = DType::kF32;
    settings.optimizer.kind = "adam";
    settings.samples = 240;
    settings.trainer.epochs = 1;
    settings.trainer.checkpointFolder = folder.path().toStdString();
    const RunOutcome first = trained(settings);
    QVERIFY2(first.ok() && !first.checkpoints.empty(), first.error().c_str());
    settings.trainer.epochs = 2;
    settings.trainer.resumeFrom = first.checkpoints.back();
    const auto without = leftBy(settings, 0), with = leftBy(settings, 1e9);
    QVERIFY(without && with && !without->numbers.empty());
    QVERIFY(*with == *without);
  }

  // Synthetic inputs are zeros of weight 1 before every run, whatever was in memory.
  void madeUpInputs() {
    RunSettings settings;
    settings.backend = "onednn";
    settings.compute = DType::kF32;
    settings.model = smallGpt();
    const auto plan = planOf(settings);
    QVERIFY(plan.ok());
    const auto backend = backends::makeBackend("onednn", {}).value();
    const auto state = runtime::StateArena::make(*plan, 0).value();
    const auto arena = runtime::allocateAligned(plan->arenaBytesOf(0), "a test").value();
    const SyntheticText text(settings.samples, settings.model.input[0], settings.model.vocabulary);
    const auto feed = runtime::Feed::bind(*plan, "step", 0, plan->batchCuts, text, *backend,
                                          nullptr, *state, arena.get());
    QVERIFY2(feed.ok(), feed.ok() ? "" : feed.error().text().c_str());
    std::memset(arena.get(), 0x7f, static_cast<std::size_t>(plan->arenaBytesOf(0)));
    (*feed)->writeMadeUp();
    int inputs = 0;
    for (const plan::Buffer& buffer : (*feed)->executor().body().buffers) {
      if (buffer.kind != plan::BufferKind::kInput) continue;
      ++inputs;
      const backends::Operand at = (*feed)->executor().input(buffer.name);
      const double expected = buffer.name == "weight" || buffer.name == "t" ? 1 : 0;
      for (std::int64_t i = 0; i < at.type.count(); ++i) {
        const double value = at.type.dtype == DType::kI32
                                 ? static_cast<const std::int32_t*>(at.data)[i]
                                 : runtime::readFloat(at, static_cast<std::size_t>(i));
        QCOMPARE(value, expected);
      }
    }
    QVERIFY(inputs >= 5);
  }
};

QTEST_GUILESS_MAIN(WarmUpTest)
#include "warm_up_test.moc"
