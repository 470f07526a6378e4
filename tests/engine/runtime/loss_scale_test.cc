// Dynamic loss scaling: a step with non-finite gradients changes nothing on any rank under any
// strategy, the scale adapts, and training continues as on one rank.
#include <QDir>
#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <cstring>
#include <mutex>
#include <set>
#include <span>

#include "engine/base/file.h"
#include "engine/runtime/checkpoint.h"
#include "engine/runtime/finite.h"
#include "tests/support/checkpoint_content.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Row {
  const char* name;
  void (*set)(RunSettings&);
};

void gpt(RunSettings& s) {
  s.model = smallGpt();
  s.batch = 24;
}
void ctr(RunSettings& s) {
  s.model = smallCtr();
  s.optimizer = {.kind = "adagrad", .epsilon = 1e-10};
  s.trainer.schedule.peak = 0.1;
}
void resnet(RunSettings& s, std::int64_t groups = 1) {
  s.model = smallResnet(groups);
  s.trainer.schedule.peak = 0.01;
}

// Each row, without `ranks`, `strategy` and what belongs to it, equals training on one rank.
constexpr Row kRows[] = {
    {"mirrored", [](RunSettings& s) { s.ranks = 2; }},
    {"uneven shares",
     [](RunSettings& s) {
       s.ranks = 3, s.shares = {2, 1, 1};
     }},
    {"clipped", [](RunSettings& s) { s.ranks = 2, s.optimizer.clipNorm = 0.5; }},
    {"sgd",
     [](RunSettings& s) {
       s.ranks = 2, s.optimizer = {.kind = "sgd", .momentum = 0.9, .weightDecay = 1e-3};
     }},
    {"micro-batches", [](RunSettings& s) { s.ranks = 2, s.microBatches = 4; }},
    {"deterministic parts",
     [](RunSettings& s) { s.ranks = 2, s.microBatches = 2, s.inOrder = true; }},
    {"zero-1", [](RunSettings& s) { s.ranks = 3, s.strategy = "zero-1"; }},
    {"zero-2, micro-batches, clipped",
     [](RunSettings& s) {
       s.ranks = 2, s.strategy = "zero-2", s.microBatches = 2, s.optimizer.clipNorm = 0.5;
     }},
    {"zero-3", [](RunSettings& s) { s.ranks = 3, s.strategy = "zero-3"; }},
    {"zero-3 asynchronous",
     [](RunSettings& s) { s.ranks = 2, s.hosts = 2, s.strategy = "zero-3", s.overlap = "always"; }},
    {"tensor",
     [](RunSettings& s) { gpt(s), s.ranks = s.modelRanks = 2, s.strategy = "tensor-parallel"; }},
    {"tensor, clipped",
     [](RunSettings& s) {
       gpt(s), s.ranks = 4, s.modelRanks = 2, s.strategy = "zero-1", s.optimizer.clipNorm = 0.5;
     }},
    {"divided vocabulary",
     [](RunSettings& s) {
       gpt(s), s.model = smallGpt(12), s.ranks = s.modelRanks = 2, s.strategy = "tensor-parallel";
     }},
    {"pipeline",
     [](RunSettings& s) {
       gpt(s), s.ranks = s.stages = 2, s.strategy = "pipeline", s.microBatches = 4;
     }},
    {"pipeline zb-h1",
     [](RunSettings& s) {
       gpt(s), s.ranks = 4, s.stages = 2, s.strategy = "pipeline", s.microBatches = 4,
               s.schedule = "zb-h1";
     }},
    {"data, tensor, pipeline",
     [](RunSettings& s) {
       gpt(s), s.ranks = 8, s.modelRanks = s.stages = 2, s.strategy = "zero-2", s.microBatches = 2;
     }},
    {"parameter server",
     [](RunSettings& s) { s.ranks = 3, s.servers = 1, s.strategy = "parameter-server"; }},
    {"two servers, micro-batches, clipped",
     [](RunSettings& s) {
       s.ranks = 4, s.servers = 2, s.strategy = "parameter-server", s.microBatches = 2,
       s.optimizer.clipNorm = 0.5;
     }},
    {"four servers, more than groups",
     [](RunSettings& s) { s.ranks = 6, s.servers = 4, s.strategy = "parameter-server"; }},
    {"four servers, micro-batches",
     [](RunSettings& s) {
       s.ranks = 6, s.servers = 4, s.strategy = "parameter-server", s.microBatches = 2;
     }},
    {"central storage",
     [](RunSettings& s) { s.ranks = 3, s.servers = 1, s.strategy = "central-storage"; }},
    {"rows of tables", [](RunSettings& s) { ctr(s), s.ranks = 2; }},
    {"rows of tables, sgd",
     [](RunSettings& s) {
       ctr(s), s.optimizer = {.kind = "sgd"}, s.trainer.schedule.peak = 1, s.ranks = 2;
     }},
    {"rows on servers",
     [](RunSettings& s) { ctr(s), s.ranks = 4, s.servers = 2, s.strategy = "parameter-server"; }},
    {"tables on servers, adam",
     [](RunSettings& s) {
       ctr(s), s.optimizer = {}, s.trainer.schedule.peak = 0.02, s.ranks = 4, s.servers = 2,
               s.strategy = "parameter-server";
     }},
    {"batch norm", [](RunSettings& s) { resnet(s), s.ranks = 2; }},
    {"batch norm, micro-batches",
     [](RunSettings& s) { resnet(s, 2), s.ranks = 2, s.microBatches = 2; }},
    {"recomputed", [](RunSettings& s) { gpt(s), s.ranks = 2, s.recompute = "full"; }},
};
// Not required to equal one rank.
constexpr Row kOthers[] = {
    {"local-sgd",
     [](RunSettings& s) { s.ranks = 2, s.strategy = "local-sgd", s.microBatches = 4; }},
    {"local-sgd, tensor",
     [](RunSettings& s) {
       gpt(s), s.ranks = 4, s.modelRanks = 2, s.strategy = "local-sgd", s.microBatches = 2,
               s.optimizer.clipNorm = 0.5;
     }},
    {"fp16 on the wire", [](RunSettings& s) { s.ranks = 2, s.compression = "fp16"; }},
    {"int8 on the wire, micro-batches",
     [](RunSettings& s) { s.ranks = 2, s.compression = "int8", s.microBatches = 2; }},
    {"top-k on the wire, zero-2",
     [](RunSettings& s) {
       s.ranks = 3, s.compression = "top-k", s.topKRatio = 0.1, s.strategy = "zero-2";
     }},
    {"top-k after a while",
     [](RunSettings& s) { s.ranks = 2, s.compression = "top-k", s.topKAfter = 2; }},
    {"coded gradients, rows of tables",
     [](RunSettings& s) { ctr(s), s.ranks = 2, s.compression = "bf16"; }},
};

// Asynchronous workers, which have no loss scale.
constexpr Row kApart[] = {
    {"stale by one",
     [](RunSettings& s) {
       s.ranks = 3, s.servers = 1, s.strategy = "parameter-server", s.staleness = 1;
     }},
    {"stale, two servers",
     [](RunSettings& s) {
       s.ranks = 5, s.servers = 2, s.strategy = "parameter-server", s.staleness = -1;
     }},
    {"stale, rows on servers",
     [](RunSettings& s) {
       ctr(s), s.ranks = 4, s.servers = 2, s.strategy = "parameter-server", s.staleness = 2;
     }},
};

// f64 is lossless, except that squares of 2^512 overflow; in fp16 operands overflow.
RunSettings settingsOf(bool half, double initial) {
  RunSettings s;
  s.optimizer.kind = "adam";
  s.lossScale = passes::LossScale{.initial = initial};
  s.trainer.schedule.peak = 1e-3;
  s.trainer.hashReplica = true;
  s.trainer.epochs = 0;
  if (half) {
    s.backend = "onednn";
    s.compute = DType::kF32;
    s.matmulDtype = DType::kF16;
  }
  return s;
}
// f32 without a loss scale.
RunSettings plainOf(const Row& row) {
  RunSettings s = settingsOf(true, 65536);
  s.lossScale.reset();
  s.matmulDtype = DType::kF32;
  row.set(s);
  return s;
}

// Four dense layers without ops that map NaN to zero, on inputs large enough to overflow with large
// weights.
models::Model tower() {
  models::Model model = fashionMlp();
  model.inputScale = 1;
  model.layers.resize(1);
  for (int i = 1; i <= 4; ++i) {
    models::Layer dense;
    dense.name = fmt::format("layer{}", i);
    dense.units = i < 4 ? 16 : 10;
    model.layers.push_back(dense);
  }
  return model;
}

// Whether all ranks have the same error.
bool endsAlike(const RunOutcome& out) {
  for (const auto& rank : out.ranks) {
    const bool alike = !rank.ok() && rank.error().what == out.ranks[0].error().what &&
                       rank.error().why == out.ranks[0].error().why &&
                       rank.error().step == out.ranks[0].error().step &&
                       rank.error().code == Code::kInvalidArgument;
    if (alike) continue;
    qWarning("%s", out.ok() ? "no rank failed" : out.error().c_str());
    return false;
  }
  return true;
}

double tooLarge(bool half) { return half ? 0x1p60 : 0x1p700; }
// A scale with which some steps are skipped and others not.
double ratherLarge(bool half) { return half ? 0x1p22 : 0x1p516; }

RunSettings alone(const RunSettings& several) {
  RunSettings one = several;
  one.ranks = one.modelRanks = one.stages = one.hosts = 1;
  one.servers = 0;
  one.shares.clear();
  one.strategy = "multi-worker-mirrored";
  one.compression = "none";
  if (!several.inOrder && several.model.name != "small-resnet") one.microBatches = 1;
  if (several.inOrder) one.microBatches = several.microBatches * several.ranks;
  return one;
}

void addColumns() {
  QTest::addColumn<const Row*>("row");
  QTest::addColumn<bool>("half");
}
void addRows(std::span<const Row> rows, bool half) {
  for (const Row& row : rows)
    QTest::addRow("%s, %s", row.name, half ? "fp16" : "f64") << &row << half;
}
void addAll() {
  addColumns();
  for (const bool half : {false, true}) addRows(kRows, half);
}

using Tensors = std::map<std::string, CheckpointTensor>;
Tensors checkpointOf(const QTemporaryDir& folder) {
  return tensorsIn(weights::newestCheckpoint(folder.path().toStdString()).value());
}
double number(const Tensors& tensors, const std::string& name) {
  const auto& [info, bytes] = tensors.at(name);
  double wide = 0;
  float narrow = 0;
  if (info.dtype == DType::kF64) {
    std::memcpy(&wide, bytes.data(), sizeof wide);
    return wide;
  }
  std::memcpy(&narrow, bytes.data(), sizeof narrow);
  return static_cast<double>(narrow);
}

}  // namespace
Q_DECLARE_METATYPE(const Row*)

class LossScaleTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // Every step overflows: all ranks keep their initial parameters and statistics bit by bit,
  // optimizer and compression state stay zero, and the scale is halved each time.
  void whatOverflowsChangesNothing_data() {
    addAll();
    addRows(kOthers, true);
  }
  void whatOverflowsChangesNothing() {
    QFETCH(const Row*, row);
    QFETCH(bool, half);
    RunSettings settings = settingsOf(half, tooLarge(half));
    row->set(settings);
    settings.trainer.maxSteps = 3;
    QTemporaryDir folder;
    settings.trainer.checkpointFolder = folder.path().toStdString();
    std::mutex mutex;
    std::multiset<std::string> before, after;
    settings.trainer.beforeFirst = [&](const std::string& replica) {
      const std::lock_guard lock(mutex);
      before.insert(replica);
      return Status();
    };
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    for (const auto& rank : out.ranks) after.insert(rank->replicaSha256);
    QVERIFY(before == after);
    const bool local = settings.strategy == "local-sgd";
    const int updates = local ? settings.microBatches : 1;
    for (std::size_t i = 0; i < 3; ++i) {
      QCOMPARE(out.steps[i].skipped, updates);
      const int halvings = static_cast<int>(i + 1) * updates - 1;
      QCOMPARE(static_cast<double>(out.steps[i].lossScale),
               // records store f32
               half ? std::ldexp(settings.lossScale->initial, -halvings) : INFINITY);
      QVERIFY(std::isfinite(out.steps[i].loss));
    }
    const Tensors file = checkpointOf(folder);
    QCOMPARE(number(file, "scaling/scale"), std::ldexp(settings.lossScale->initial, -3 * updates));
    QCOMPARE(number(file, "scaling/good_steps"), 0.0);
    QCOMPARE(number(file, "scaling/skipped"), 3.0 * updates);
    std::int64_t others = 0;
    for (const auto& [name, tensor] : file) {
      if (name.starts_with("params/") || name.starts_with("stats/") || name.starts_with("scaling/"))
        continue;
      ++others;
      for (const std::byte byte : tensor.bytes) QVERIFY2(byte == std::byte{0}, name.c_str());
    }
    QVERIFY(others > 0);
    // Sharded parameters too: a rate of zero changes nothing.
    RunSettings untouched = settings;
    untouched.trainer.checkpointFolder.clear();
    untouched.trainer.beforeFirst = {};
    untouched.trainer.schedule.peak = 0;
    untouched.lossScale.reset();
    untouched.matmulDtype = DType::kF32;
    untouched.trainer.maxSteps = 1;
    const RunOutcome same = trained(untouched);
    QVERIFY2(same.ok(), same.error().c_str());
    if (!settings.model.name.starts_with("small-resnet"))  // its running statistics changed
      QCOMPARE(out.ranks[0]->weightsSha256, same.ranks[0]->weightsSha256);
  }

  // Some steps are skipped and the scale grows again: losses, scales and skipped steps equal those
  // of one rank, and, without rounding of operands, those of a training without loss scale over the
  // other steps only.
  void severalRanksAgainstOne_data() { addAll(); }
  void severalRanksAgainstOne() {
    QFETCH(const Row*, row);
    QFETCH(bool, half);
    RunSettings settings = settingsOf(half, ratherLarge(half));
    row->set(settings);
    settings.lossScale->growthInterval = 4;
    settings.trainer.maxSteps = 24;
    const RunOutcome one = trained(alone(settings));
    QVERIFY2(one.ok(), one.error().c_str());
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    const double worst = worstRelative(several, one);
    std::int64_t skipped = 0;
    bool grew = false;
    for (std::size_t i = 0; i < one.steps.size(); ++i) {
      QCOMPARE(several.steps[i].skipped, one.steps[i].skipped);
      QCOMPARE(several.steps[i].lossScale, one.steps[i].lossScale);
      skipped += one.steps[i].skipped;
      grew |= i > 0 && one.steps[i - 1].skipped == 0 && one.steps[i].skipped > 0;
    }
    qInfo("%lld of 24 steps left out, losses differ by %.2e", static_cast<long long>(skipped),
          worst);
    QVERIFY(skipped > 0 && skipped < 20);
    QVERIFY(grew);
    QVERIFY(worst <= (half ? 1.0 / 2048 : 1e-9));
    QVERIFY(one.steps.back().loss < one.steps.front().loss);
    const RunOutcome again = trained(settings);
    QVERIFY(again.ok());
    for (std::size_t r = 0; r < again.ranks.size(); ++r) {
      QCOMPARE(again.ranks[r]->weightsSha256, several.ranks[r]->weightsSha256);
      QCOMPARE(again.ranks[r]->replicaSha256, several.ranks[r]->replicaSha256);
    }
  }

  // Activations stored in bf16: several ranks round what one rank does, and track its losses as
  // those of f32.
  void activationsAsOperands_data() {
    QTest::addColumn<const Row*>("row");
    static constexpr Row kGpts[] = {
        {"mirrored", [](RunSettings& s) { gpt(s), s.ranks = 2; }},
        {"zero-3", [](RunSettings& s) { gpt(s), s.ranks = 2, s.strategy = "zero-3"; }},
        {"recomputed", [](RunSettings& s) { gpt(s), s.ranks = 2, s.recompute = "selective"; }},
    };
    for (const Row& row : kGpts) QTest::addRow("%s", row.name) << &row;
    for (const Row& row : kRows)
      for (const char* name : {"micro-batches", "tensor", "divided vocabulary", "pipeline",
                               "pipeline zb-h1", "data, tensor, pipeline", "recomputed"})
        if (row.name == std::string_view(name)) QTest::addRow("%s", row.name) << &row;
  }
  void activationsAsOperands() {
    QFETCH(const Row*, row);
    RunSettings settings = settingsOf(true, 65536);
    settings.lossScale.reset();
    settings.matmulDtype = DType::kBf16;
    settings.activations = "operands";
    row->set(settings);
    settings.trainer.maxSteps = 24;
    const RunOutcome one = trained(alone(settings));
    QVERIFY2(one.ok(), one.error().c_str());
    const RunOutcome several = trained(settings);
    QVERIFY2(several.ok(), several.error().c_str());
    settings.activations = "f32";
    const RunOutcome wide = trained(alone(settings));
    QVERIFY2(wide.ok(), wide.error().c_str());
    const double worst = worstRelative(several, one), rounded = worstRelative(one, wide);
    qInfo("losses differ by %.2e, and by %.2e from those of f32 activations", worst, rounded);
    QVERIFY(worst <= 1.0 / 256);
    QVERIFY(rounded > 0 && rounded <= 1.0 / 256);
    QVERIFY(one.steps.back().loss < one.steps.front().loss);
  }

  void othersTrainToo_data() {
    addColumns();
    addRows(kOthers, true);
  }
  void othersTrainToo() {
    QFETCH(const Row*, row);
    QFETCH(bool, half);
    RunSettings settings = settingsOf(half, 0x1p30);
    row->set(settings);
    settings.trainer.maxSteps = 24;
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    QVERIFY(out.steps.front().skipped > 0);
    QCOMPARE(out.steps.back().skipped, 0);
    QVERIFY(out.steps.back().loss < out.steps.front().loss);
    for (const auto& step : out.steps) QVERIFY(std::isfinite(step.loss));
    for (const auto& rank : out.ranks)
      if (settings.modelRanks == 1) QCOMPARE(rank->replicaSha256, out.ranks[0]->replicaSha256);
    const RunOutcome again = trained(settings);
    QVERIFY(again.ok());
    QCOMPARE(again.ranks[0]->weightsSha256, out.ranks[0]->weightsSha256);
  }

  // A power-of-two scale changes no bit, and skipped steps leave no trace: equals a training
  // without loss scale on the batches of the remaining steps.
  void aScaleChangesNoBit() {
    RunSettings settings = settingsOf(false, 65536);
    settings.compute = DType::kF32;
    settings.backend = "onednn";
    settings.ranks = 2;
    settings.optimizer.clipNorm = 0.5;
    settings.trainer.maxSteps = 10;
    const RunOutcome scaled = trained(settings);
    QVERIFY2(scaled.ok(), scaled.error().c_str());
    settings.lossScale.reset();
    const RunOutcome plain = trained(settings);
    QVERIFY2(plain.ok(), plain.error().c_str());
    QCOMPARE(scaled.ranks[0]->weightsSha256, plain.ranks[0]->weightsSha256);
    QCOMPARE(scaled.steps[0].lossScale, 65536.0f);
    QCOMPARE(plain.steps[0].lossScale, 0.0f);
  }

  void resumedInTheMiddle_data() {
    addColumns();
    addRows(kRows, true);
    addRows(kOthers, true);
  }
  void resumedInTheMiddle() {
    QFETCH(const Row*, row);
    QFETCH(bool, half);
    RunSettings settings = settingsOf(half, ratherLarge(half));
    row->set(settings);
    settings.lossScale->growthInterval = 4;
    settings.trainer.maxSteps = 14;
    const RunOutcome whole = trained(settings);
    QVERIFY2(whole.ok(), whole.error().c_str());
    QTemporaryDir folder;
    RunSettings part = settings;
    part.trainer.checkpointFolder = folder.path().toStdString();
    part.trainer.maxSteps = 7;
    QVERIFY(trained(part).ok());
    part.trainer.resumeFrom = part.trainer.checkpointFolder;
    part.trainer.maxSteps = 14;
    const RunOutcome rest = trained(part);
    QVERIFY2(rest.ok(), rest.error().c_str());
    QCOMPARE(rest.steps.size(), std::size_t{7});
    for (std::size_t i = 0; i < 7; ++i) {
      QCOMPARE(rest.steps[i].loss, whole.steps[7 + i].loss);
      QCOMPARE(rest.steps[i].lossScale, whole.steps[7 + i].lossScale);
      QCOMPARE(rest.steps[i].skipped, whole.steps[7 + i].skipped);
    }
    QCOMPARE(rest.ranks[0]->weightsSha256, whole.ranks[0]->weightsSha256);
  }

  void aFixedScaleStays() {
    RunSettings settings = settingsOf(true, 0x1p60);
    settings.ranks = 2;
    settings.lossScale->fixed = true;
    settings.trainer.maxSteps = 4;
    const RunOutcome out = trained(settings);
    QVERIFY2(out.ok(), out.error().c_str());
    for (const auto& step : out.steps) {
      QCOMPARE(step.skipped, 1);
      QCOMPARE(step.lossScale, 0x1p60f);
    }
  }

  // What is non-finite at any scale: the scale stays at 1, and after many consecutive skipped
  // updates the run ends on all ranks.
  void aScaleHasAnEnd() {
    RunSettings settings = settingsOf(true, 4);
    settings.model.inputScale = 1e6;  // the operands of the first matmul are infinite
    settings.trainer.maxSteps = 6;
    const RunOutcome out = trained(settings);
    QCOMPARE(out.steps.back().lossScale, 1.0f);
    QCOMPARE(out.steps.back().skipped, 1);
    // A run without any update has trained nothing.
    QVERIFY(!out.ok());
    QVERIFY2(
        out.error().find("the last 6 updates, up to step 6, were all skipped") != std::string::npos,
        out.error().c_str());
    settings.trainer.nonFinite = runtime::NonFinite::kTaken;
    const RunOutcome taken = trained(settings);
    QVERIFY2(taken.ok(), taken.error().c_str());
    settings.trainer.nonFinite = runtime::NonFinite::kRefused;
    settings.ranks = 2;
    settings.trainer.maxSteps = 120;
    // The first evaluation detects it too.
    const RunOutcome evaluated = trained(settings);
    QVERIFY(!evaluated.ok());
    QVERIFY2(evaluated.error().find("the loss of the evaluation is not finite in step 10: the "
                                    "first tensor that is not finite is "
                                    "activation flatten.flatten.f16") != std::string::npos,
             evaluated.error().c_str());
    settings.trainer.evaluate = false;
    const RunOutcome hopeless = trained(settings);
    QVERIFY(!hopeless.ok());
    QVERIFY2(hopeless.error().find("the last 100 updates, up to step 100, were all skipped") !=
                 std::string::npos,
             hopeless.error().c_str());
  }

  // Without loss scaling, a non-finite loss ends the run on all ranks with the same error: the step
  // and the first non-finite tensor. On request the run continues.
  void divergedRunsEnd_data() {
    QTest::addColumn<const Row*>("row");
    for (const auto rows :
         {std::span<const Row>(kRows), std::span<const Row>(kOthers), std::span<const Row>(kApart)})
      for (const Row& row : rows) QTest::addRow("%s", row.name) << &row;
  }
  void divergedRunsEnd() {
    QFETCH(const Row*, row);
    QTemporaryDir folder;
    RunSettings settings = plainOf(*row);
    settings.trainer.schedule.peak = 1e30;
    settings.trainer.maxSteps = 40;
    settings.trainer.checkpointFolder = folder.path().toStdString();
    const RunOutcome out = trained(settings);
    QVERIFY(endsAlike(out));
    const Error& error = out.ranks[0].error();
    QVERIFY(error.step >= 1 && error.step <= 40);
    static const QRegularExpression kWhat(
        "^the training diverged: the (loss|loss of the evaluation) is not finite in step [0-9]+$");
    static const QRegularExpression kNamed(
        "^the first tensor that is not finite is (parameter|activation|running statistic) [^ ]+"
        "(, on rank [0-9])?$");
    static const QRegularExpression kState(
        "^the training diverged: the (parameter|optimizer state|running statistic) [^ ].* is not "
        "finite after step [0-9]+$");  // detected while checkpointing
    const QString what = QString::fromStdString(error.what);
    QVERIFY2((kWhat.match(what).hasMatch() &&
              kNamed.match(QString::fromStdString(error.why)).hasMatch()) ||
                 kState.match(what).hasMatch(),
             error.text().c_str());
    // No checkpoint of it is kept.
    for (const std::string& checkpoint : out.checkpoints) {
      for (const auto& [name, tensor] : tensorsIn(checkpoint))
        QVERIFY2(runtime::firstNonFinite(tensor.bytes, tensor.info.dtype) < 0, name.c_str());
    }
    settings.trainer.nonFinite = runtime::NonFinite::kTaken;
    settings.trainer.maxSteps = std::min<std::int64_t>(error.step + 2, 10);
    settings.trainer.checkpointFolder = folder.filePath("taken").toStdString();
    const RunOutcome taken = trained(settings);
    QVERIFY2(taken.ok(), taken.error().c_str());
    settings.trainer.resumeFrom = settings.trainer.checkpointFolder;
    settings.trainer.maxSteps += 2;
    const RunOutcome further = trained(settings);
    QVERIFY2(further.ok(), further.error().c_str());
  }

  // Names the layer that overflows first, wherever it is.
  void theFirstTensorIsNamed_data() {
    QTest::addColumn<const Row*>("row");
    QTest::addColumn<int>("layer");
    static constexpr Row kWhere[] = {
        {"one rank", [](RunSettings&) {}},
        {"mirrored", [](RunSettings& s) { s.ranks = 3; }},
        {"micro-batches", [](RunSettings& s) { s.ranks = 2, s.microBatches = 4; }},
        {"zero-2", [](RunSettings& s) { s.ranks = 2, s.strategy = "zero-2"; }},
        {"zero-3", [](RunSettings& s) { s.ranks = 3, s.strategy = "zero-3"; }},
        {"zero-3 asynchronous",
         [](RunSettings& s) {
           s.ranks = s.hosts = 2, s.strategy = "zero-3", s.overlap = "always";
         }},
        {"tensor",
         [](RunSettings& s) { s.ranks = s.modelRanks = 2, s.strategy = "tensor-parallel"; }},
        {"pipeline",
         [](RunSettings& s) {
           s.ranks = s.stages = 2, s.strategy = "pipeline", s.microBatches = 4;
         }},
        {"pipeline zb-h1, data",
         [](RunSettings& s) {
           s.ranks = 4, s.stages = 2, s.strategy = "pipeline", s.microBatches = 4,
           s.schedule = "zb-h1";
         }},
        {"parameter server",
         [](RunSettings& s) { s.ranks = 3, s.servers = 1, s.strategy = "parameter-server"; }},
        {"central storage",
         [](RunSettings& s) { s.ranks = 3, s.servers = 1, s.strategy = "central-storage"; }},
        {"stale",
         [](RunSettings& s) {
           s.ranks = 3, s.servers = 1, s.strategy = "parameter-server", s.staleness = 2;
         }},
        {"local-sgd",
         [](RunSettings& s) { s.ranks = 2, s.strategy = "local-sgd", s.microBatches = 2; }},
        {"recomputed", [](RunSettings& s) { s.recompute = "full"; }},
    };
    for (const Row& row : kWhere)
      for (const int layer : {1, 2, 3, 4})
        QTest::addRow("%s, layer %d", row.name, layer) << &row << layer;
  }
  void theFirstTensorIsNamed() {
    QFETCH(const Row*, row);
    QFETCH(int, layer);
    QTemporaryDir folder;
    RunSettings settings = plainOf({"", [](RunSettings&) {}});
    settings.model = tower();
    row->set(settings);
    settings.trainer.maxSteps = 2;
    settings.trainer.checkpointFolder = folder.path().toStdString();
    const RunOutcome before = trained(settings);
    QVERIFY2(before.ok(), before.error().c_str());
    const std::string name = fmt::format("layer{}", layer);
    changeTensor(before.checkpoints.back(), "params/" + name + ".weight",
                 [](std::span<float> values) { std::fill(values.begin(), values.end(), 3e38f); });
    settings.trainer.maxSteps = 6;
    settings.trainer.resumeFrom = settings.trainer.checkpointFolder;
    const RunOutcome out = trained(settings);
    QVERIFY(endsAlike(out));
    const Error& error = out.ranks[0].error();
    QVERIFY2(error.what == "the training diverged: the loss is not finite in step 3",
             error.text().c_str());
    QCOMPARE(error.step, 3);
    // The loss may alias the logits.
    const bool isLoss = layer == 4 && error.why.text().starts_with(
                                          "the first tensor that is not finite is activation loss");
    // A worker that continues may read what another's gradient has corrupted.
    const bool isApart =
        settings.staleness != 0 &&
        error.why.text().starts_with("the first tensor that is not finite is parameter layer");
    QVERIFY2(isLoss || isApart ||
                 error.why.text().starts_with(
                     fmt::format("the first tensor that is not finite is activation {}.", name)),
             error.text().c_str());
  }

  // Non-finite input data is attributed to the input.
  void dataThatIsNotFinite() {
    struct Spoilt : data::Dataset {
      SyntheticTable table{96, 4, 3, 400};
      std::int64_t size() const override { return table.size(); }
      const std::vector<data::Field>& fields() const override { return table.fields(); }
      void read(std::int64_t index, std::size_t field, std::byte* out) const override {
        table.read(index, field, out);
        if (field == 0 && index == 77) reinterpret_cast<float*>(out)[2] = INFINITY;
      }
    } spoilt;
    RunSettings settings = plainOf({"", [](RunSettings& s) { ctr(s); }});
    settings.ranks = 2;
    settings.batch = 24;
    settings.train = &spoilt;
    settings.trainer.maxSteps = 8;
    const RunOutcome out = trained(settings);
    QVERIFY(endsAlike(out));
    QVERIFY2(out.ranks[1].error().why.text().starts_with(
                 "the first tensor that is not finite is input x, on rank "),
             out.error().c_str());
    QVERIFY(out.ranks[0].error().step >= 1 && out.ranks[0].error().step <= 4);
  }

  // Errors of the last update are detected too: by the evaluation, the checkpoint or the export.
  void theLastUpdateCounts_data() {
    QTest::addColumn<const Row*>("row");
    QTest::addColumn<QString>("finds");
    static constexpr Row kWhere[] = {
        {"one rank", [](RunSettings&) {}},
        {"zero-3", [](RunSettings& s) { s.ranks = 3, s.strategy = "zero-3"; }},
        {"parameter server",
         [](RunSettings& s) { s.ranks = 3, s.servers = 1, s.strategy = "parameter-server"; }},
        {"pipeline",
         [](RunSettings& s) {
           s.ranks = s.stages = 2, s.strategy = "pipeline", s.microBatches = 2;
         }},
    };
    for (const Row& row : kWhere)
      for (const char* finds : {"evaluation", "checkpoint", "export"})
        QTest::addRow("%s, %s", row.name, finds) << &row << finds;
  }
  void theLastUpdateCounts() {
    QFETCH(const Row*, row);
    QFETCH(QString, finds);
    QTemporaryDir folder;
    RunSettings settings = plainOf({"", [](RunSettings&) {}});
    settings.model = tower();
    row->set(settings);
    settings.optimizer = {.kind = "sgd"};
    settings.trainer.schedule.peak = 3e38;
    settings.trainer.maxSteps = 1;
    settings.trainer.evaluate = finds == "evaluation";
    if (finds == "checkpoint")
      settings.trainer.checkpointFolder = folder.filePath("all").toStdString();
    const RunOutcome out = trained(settings);
    QVERIFY(endsAlike(out));
    const std::string what = out.ranks[0].error().what;
    if (finds == "evaluation") {
      QCOMPARE(what, "the training diverged: the loss of the evaluation is not finite in step 1");
    } else {
      QVERIFY2(what.starts_with("the training diverged: the parameter layer") &&
                   what.ends_with(" is not finite after step 1"),
               what.c_str());
    }
    QVERIFY(out.checkpoints.empty());
    QVERIFY(!QDir(folder.filePath("all")).exists("step-000000001"));
  }

  // Non-finite state is rejected when read, by the tensor's name; on request a run continues from
  // it.
  void stateThatIsNotFiniteIsRefused() {
    QTemporaryDir folder;
    RunSettings settings = plainOf({"", [](RunSettings&) {}});
    settings.ranks = 2;
    settings.trainer.maxSteps = 2;
    settings.trainer.checkpointFolder = folder.path().toStdString();
    const RunOutcome before = trained(settings);
    QVERIFY2(before.ok(), before.error().c_str());
    const std::string checkpoint = before.checkpoints.back();
    std::map<std::string, std::string> good;  // by path
    for (const std::string& path : filesIn(checkpoint)) good[path] = readFile(path).value();
    settings.trainer.maxSteps = 4;
    settings.trainer.resumeFrom = settings.trainer.checkpointFolder;
    settings.trainer.checkpointFolder.clear();
    const std::pair<const char*, const char*> tensors[] = {
        {"params/dense1.weight", "parameter dense1.weight"},
        {"params/dense2.bias", "parameter dense2.bias"},
        {"adam.v/dense1.bias", "optimizer state adam.v of dense1.bias"}};
    for (const auto& [tensor, text] : tensors)
      for (const float value : {std::nanf(""), INFINITY, -INFINITY}) {
        for (const auto& [path, content] : good) QVERIFY(writeFileAtomically(path, content).ok());
        changeTensor(checkpoint, tensor,
                     [&](std::span<float> values) { values[values.size() / 2] = value; });
        settings.trainer.nonFinite = runtime::NonFinite::kRefused;
        const RunOutcome refused = trained(settings);
        QVERIFY(!refused.ok());
        const Error& error = refused.ranks[0].error();
        QVERIFY2(
            error.why.text().starts_with(fmt::format("the {} is not finite from element ", text)),
            error.text().c_str());
        QVERIFY(refused.steps.empty());
        settings.trainer.nonFinite = runtime::NonFinite::kTaken;
        const RunOutcome taken = trained(settings);
        QVERIFY2(taken.ok(), taken.error().c_str());
      }
  }

  // Losses track those of fp32.
  void lossesOfFp32_data() {
    QTest::addColumn<bool>("text");
    QTest::addRow("cnn") << false;
    QTest::addRow("gpt") << true;
  }
  void lossesOfFp32() {
    QFETCH(bool, text);
    RunSettings settings = settingsOf(true, 65536);
    settings.model = text ? smallGpt() : fashionCnn();
    settings.ranks = 2;
    settings.batch = 48;
    settings.trainer.maxSteps = 100;
    const RunOutcome half = trained(settings);
    QVERIFY2(half.ok(), half.error().c_str());
    settings.matmulDtype = DType::kF32;
    settings.lossScale.reset();
    const RunOutcome single = trained(settings);
    QVERIFY2(single.ok(), single.error().c_str());
    const double worst = worstRelative(half, single);
    qInfo("worst relative difference of the loss over %zu steps: %.2e", half.steps.size(), worst);
    QVERIFY(worst <= 5e-3);
    QVERIFY(half.steps.back().loss < 0.8 * half.steps.front().loss);
  }

  void refusals_data() {
    QTest::addColumn<const Row*>("row");
    QTest::addColumn<QString>("next");
    static constexpr Row kRefused[] = {
        {"workers apart",
         [](RunSettings& s) {
           s.ranks = 3, s.servers = 1, s.strategy = "parameter-server", s.staleness = 2;
         }},
        {"two places of parameters",
         [](RunSettings& s) {
           ctr(s), s.ranks = 3, s.servers = 1, s.strategy = "parameter-server",
                   s.dense = "all-reduce";
         }},
        {"coded micro-batches",
         [](RunSettings& s) {
           s.ranks = 2, s.strategy = "zero-2", s.compression = "fp16", s.microBatches = 2;
         }},
    };
    QTest::addRow("%s", kRefused[0].name) << &kRefused[0] << "strategy.staleness";
    QTest::addRow("%s", kRefused[1].name) << &kRefused[1] << "strategy.dense";
    QTest::addRow("%s", kRefused[2].name) << &kRefused[2] << "strategy.compression";
  }
  void refusals() {
    QFETCH(const Row*, row);
    QFETCH(QString, next);
    RunSettings settings = settingsOf(true, 65536);
    row->set(settings);
    const auto refused = planOf(settings);
    QVERIFY(!refused.ok());
    QCOMPARE(refused.error().code, Code::kInvalidArgument);
    QVERIFY2(refused.error().next.text().find(next.toStdString()) != std::string::npos,
             refused.error().text().c_str());
    settings.lossScale.reset();
    settings.matmulDtype = DType::kBf16;
    const auto taken = planOf(settings);
    QVERIFY2(taken.ok(), taken.ok() ? "" : taken.error().text().c_str());
  }

  // At most one additional collective of one number, and none where every rank has all gradients.
  void oneCollectiveMore_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("more");
    QTest::addRow("mirrored") << "multi-worker-mirrored" << 0;
    for (const char* strategy : {"zero-1", "zero-2", "zero-3"})
      QTest::addRow("%s", strategy) << strategy << 1;
  }
  void oneCollectiveMore() {
    QFETCH(QString, strategy);
    QFETCH(int, more);
    const auto collectives = [](const plan::Plan& plan) {
      int count = 0;
      for (const plan::Step& step : plan.find("step", 0)->steps)
        count += step.kind == plan::StepKind::kCollective;
      return count;
    };
    RunSettings settings = settingsOf(true, 65536);
    settings.ranks = 2;
    settings.strategy = strategy.toStdString();
    const auto with = planOf(settings);
    settings.optimizer.clipNorm = 1;
    const auto both = planOf(settings);
    settings.lossScale.reset();
    const auto clipped = planOf(settings);
    settings.optimizer.clipNorm = 0;
    const auto without = planOf(settings);
    QVERIFY(with.ok() && both.ok() && clipped.ok() && without.ok());
    QCOMPARE(collectives(*with) - collectives(*without), more);
    QCOMPARE(collectives(*both), collectives(*clipped));
  }
};

QTEST_GUILESS_MAIN(LossScaleTest)
#include "loss_scale_test.moc"
