// Training on a device: compares losses with the host's, and checks the recorded device calls and
// their order.
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <array>
#include <utility>

#include "engine/backends/cuda.h"
#include "tests/support/communicator_groups.h"
#include "tests/support/emulated_device.h"
#include "tests/support/engine_run.h"

using namespace lockstep;

namespace {

// The calls recorded by a run's devices, by rank; outlives the devices.
struct Devices {
  std::vector<std::vector<std::string>> calls;
  int failingRank = -1, failAt = 0;
  // Their rendezvous; null: no groups.
  std::unique_ptr<testing::EmulatedRendezvous> rendezvous;
  std::string oddVersion;  // group library version of rank 1, if different
  std::unique_ptr<tests::MemoryStore> store;

  void meet() {
    rendezvous = std::make_unique<testing::EmulatedRendezvous>();
    store = std::make_unique<tests::MemoryStore>();
  }
  auto opener(int ranks) {
    calls.assign(static_cast<std::size_t>(ranks), {});
    return [this](int rank) -> Result<std::unique_ptr<backends::Backend>> {
      auto device = testing::makeEmulatedDevice();
      device->calls = &calls[static_cast<std::size_t>(rank)];
      if (rank == failingRank) device->failAt(failAt);
      device->rendezvous = rendezvous.get();
      if (rank == 1 && !oddVersion.empty()) device->version = oddVersion;
      return backends::makeCuda(std::move(device));
    };
  }
};

test::RunSettings settingsOf(models::Model model, std::int64_t batch, std::int64_t steps) {
  test::RunSettings settings;
  settings.model = std::move(model);
  settings.batch = batch;
  settings.evaluateBatch = batch;
  settings.compute = DType::kF32;
  settings.samples = batch * steps;
  settings.trainer.maxSteps = steps;
  settings.trainer.evaluate = false;
  return settings;
}

test::RunOutcome onDevices(test::RunSettings settings, Devices& devices) {
  settings.openBackend = devices.opener(settings.ranks);
  settings.rendezvous = devices.store.get();
  return test::trained(settings);
}

constexpr std::array<std::string_view, 7> kExchanges{
    "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "send", "receive"};

// Whether each piece of work is waited for before the next is issued, except prefetching copies.
bool allAreWaitedForOnce(const std::vector<std::string>& calls) {
  bool isGiven = false;
  for (const std::string& call : calls) {
    if (call == "replay" && std::exchange(isGiven, true)) return false;
    if (call == "synchronize") isGiven = false;
  }
  return !isGiven;
}

std::ptrdiff_t countOf(const std::vector<std::string>& calls, std::string_view beginning) {
  return std::count_if(calls.begin(), calls.end(),
                       [&](const std::string& call) { return call.starts_with(beginning); });
}

// The number of captured collectives and groups of messages; -1 if one of them is not between two
// notes of how far the device has come, or there are other notes.
std::ptrdiff_t notedExchanges(const std::vector<std::string>& calls) {
  constexpr std::string_view kNote = "  copy 8 exchange";
  std::ptrdiff_t exchanges = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const bool isExchange = std::any_of(
        kExchanges.begin(), kExchanges.end(),
        [&](std::string_view kind) { return calls[i].starts_with(fmt::format("  {} ", kind)); });
    if (!isExchange) continue;
    ++exchanges;
    if (calls[i - 1] != kNote || calls[i + 1] != kNote) return -1;
  }
  return countOf(calls, kNote) == 2 * exchanges ? exchanges : -1;
}

// Returns how a run on devices differs from the host's, up to the order of sums; "" if it does not.
std::string difference(const test::RunOutcome& there, const test::RunOutcome& host) {
  if (!host.ok()) return "on the host: " + host.error();
  if (!there.ok()) return "on devices: " + there.error();
  const double worst = test::worstRelative(there, host);
  return worst < 1e-4 ? "" : fmt::format("losses differ by {}", worst);
}

}  // namespace

class DeviceTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void trainsAsOnTheHost_data() {
    QTest::addColumn<QString>("model");
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    for (const char* model : {"mlp", "cnn", "resnet", "gpt"})
      QTest::addRow("%s", model) << model << "mirrored" << 1;
    for (const char* strategy : {"mirrored", "zero-1", "zero-3", "local-sgd"})
      QTest::addRow("mlp, %s", strategy) << "mlp" << strategy << 2;
    QTest::addRow("gpt, pipeline") << "gpt"
                                   << "pipeline" << 2;
    QTest::addRow("mlp, parameter-server") << "mlp"
                                           << "parameter-server" << 3;
  }
  void trainsAsOnTheHost() {
    QFETCH(QString, model);
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    test::RunSettings settings = settingsOf(model == "mlp"   ? test::fashionMlp()
                                            : model == "cnn" ? test::fashionCnn()
                                            : model == "gpt" ? test::smallGpt()
                                                             : test::smallResnet(),
                                            8, 4);
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    if (strategy == "pipeline") {
      settings.stages = 2;
      settings.microBatches = 2;
    }
    if (strategy == "parameter-server") settings.servers = 1;
    if (strategy == "local-sgd") settings.microBatches = 2;
    settings.trainer.evaluate = true;
    settings.trainer.warmUpSeconds = 0.05;
    settings.evaluateBatch = 100;
    const test::RunOutcome host = test::trained(settings);
    Devices devices;
    const test::RunOutcome there = onDevices(settings, devices);
    const std::string wrong = difference(there, host);
    QVERIFY2(wrong.empty(), wrong.c_str());
    QCOMPARE(there.steps.size(), std::size_t{4});
    QVERIFY(std::abs(there.epochs.back().evalLoss - host.epochs.back().evalLoss) < 1e-4);
  }

  // Tables are updated by the rows that a batch touches; their servers exchange ids and rows.
  void trainsTablesAsOnTheHost_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<QString>("dense");
    QTest::addColumn<QString>("optimizer");
    QTest::addColumn<int>("staleness");
    const auto row = [](const char* strategy, int ranks, const char* dense, const char* optimizer,
                        int staleness = 0) {
      QTest::addRow("%s, %d ranks, dense %s, %s, staleness %d", strategy, ranks, dense, optimizer,
                    staleness)
          << strategy << ranks << dense << optimizer << staleness;
    };
    for (const char* optimizer : {"adagrad", "sgd", "adam"})
      row("mirrored", 1, "servers", optimizer);
    row("mirrored", 2, "servers", "adagrad");
    row("zero-1", 2, "servers", "sgd");
    row("parameter-server", 4, "all-reduce", "adagrad");
    row("parameter-server", 3, "servers", "adam");
    row("parameter-server", 2, "servers", "sgd", -1);
  }
  void trainsTablesAsOnTheHost() {
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(QString, dense);
    QFETCH(QString, optimizer);
    QFETCH(int, staleness);
    test::RunSettings settings = settingsOf(test::smallCtr(), 48, 3);
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    if (strategy == "parameter-server") settings.servers = ranks / 2;
    settings.dense = dense.toStdString();
    settings.staleness = staleness;
    settings.optimizer.kind = optimizer.toStdString();
    if (optimizer == "adagrad") settings.optimizer.epsilon = 1e-10;
    settings.trainer.schedule.peak = optimizer == "adam" ? 0.01 : 0.1;
    settings.trainer.evaluate = staleness == 0;
    settings.trainer.warmUpSeconds = 0.05;
    settings.evaluateBatch = 100;
    const test::RunOutcome host = test::trained(settings);
    Devices devices;
    const test::RunOutcome there = onDevices(settings, devices);
    const std::string wrong = difference(there, host);
    QVERIFY2(wrong.empty(), wrong.c_str());
    QCOMPARE(there.steps.size(), std::size_t{3});
    if (staleness == 0)
      QVERIFY(std::abs(there.epochs.back().evalMetric - host.epochs.back().evalMetric) < 1e-3);
    std::ptrdiff_t byRows = 0;
    for (const auto& calls : devices.calls)
      byRows += countOf(calls, "  launch updateRows") + countOf(calls, "  launch uniquePlaces");
    if (strategy != "zero-1")
      QCOMPARE(byRows > 0, optimizer != "adam" || strategy == "parameter-server");
  }

  // Several workers' sessions with one server share a device, each on a thread of its own.
  void aServerTalksToSeveral() {
    test::RunSettings settings = settingsOf(test::smallCtr(), 24, 6);
    settings.strategy = "parameter-server";
    settings.ranks = 4;
    settings.servers = 1;
    settings.staleness = 2;
    Devices devices;
    const test::RunOutcome run = onDevices(settings, devices);
    QVERIFY2(run.ok(), run.error().c_str());
    QCOMPARE(run.steps.size(), std::size_t{6});
    for (const runtime::StepRecord& step : run.steps)
      QVERIFY(std::isfinite(step.loss) && step.loss < 3 * run.steps.front().loss);
  }

  void sharesAVocabularyAsOnTheHost() {
    test::RunSettings settings = settingsOf(test::smallGpt(12), 6, 4);
    settings.strategy = "tensor-parallel";
    settings.ranks = settings.modelRanks = 2;
    settings.trainer.evaluate = true;
    settings.evaluateBatch = 100;
    const test::RunOutcome host = test::trained(settings);
    QVERIFY2(host.ok(), host.error().c_str());
    Devices devices;
    devices.meet();
    const test::RunOutcome there = onDevices(settings, devices);
    QVERIFY2(there.ok(), there.error().c_str());
    QVERIFY(test::worstRelative(there, host) < 1e-4);
    QVERIFY(std::abs(there.epochs.back().evalLoss - host.epochs.back().evalLoss) < 1e-4);
    for (const auto& calls : devices.calls) QVERIFY(countOf(calls, "  launch xentTermsGrad") > 0);
  }

  void compressesAsOnTheHost_data() {
    QTest::addColumn<QString>("coding");
    QTest::addColumn<QString>("strategy");
    for (const char* coding : {"fp16", "bf16", "int8", "top-k"})
      QTest::addRow("%s", coding) << coding << "mirrored";
    QTest::addRow("int8, zero-2") << "int8"
                                  << "zero-2";
    QTest::addRow("top-k, zero-1") << "top-k"
                                   << "zero-1";
  }
  void compressesAsOnTheHost() {
    QFETCH(QString, coding);
    QFETCH(QString, strategy);
    test::RunSettings settings = settingsOf(test::smallGpt(), 6, 4);
    settings.strategy = strategy.toStdString();
    settings.ranks = 2;
    settings.compression = coding.toStdString();
    const test::RunOutcome host = test::trained(settings);
    Devices devices;
    devices.meet();
    const test::RunOutcome there = onDevices(settings, devices);
    const std::string wrong = difference(there, host);
    QVERIFY2(wrong.empty(), wrong.c_str());
    const char* kernel = coding == "top-k"  ? "  launch topKWrite"
                         : coding == "int8" ? "  launch encodeInt8"
                                            : "  launch encode16";
    for (const auto& calls : devices.calls) QVERIFY(countOf(calls, kernel) > 0);
  }

  // On CPUs tf32 is fp32; a GPU rounds the operands of matmuls and convolutions.
  void tf32RoundsOnDevicesAlone_data() {
    QTest::addColumn<bool>("text");
    QTest::addRow("gpt") << true;
    QTest::addRow("resnet") << false;
  }
  void tf32RoundsOnDevicesAlone() {
    QFETCH(bool, text);
    test::RunSettings settings = settingsOf(text ? test::smallGpt() : test::smallResnet(), 6, 3);
    const test::RunOutcome exact = test::trained(settings);
    settings.tf32 = true;
    const test::RunOutcome host = test::trained(settings);
    QVERIFY2(exact.ok() && host.ok(), host.error().c_str());
    QCOMPARE(test::worstRelative(host, exact), 0.0);
    Devices devices;
    const test::RunOutcome there = onDevices(settings, devices);
    QVERIFY2(there.ok(), there.error().c_str());
    const double worst = test::worstRelative(there, host);
    QVERIFY2(worst > 1e-6 && worst < 1.0 / 512, fmt::format("losses differ by {}", worst).c_str());
    for (const std::string& call : devices.calls[0])
      if (call.find("product") != std::string::npos)
        QVERIFY2(call.ends_with(" tf32"), call.c_str());
  }

  // With bf16, losses differ by the rounding of attention's operands, which CPUs do not round.
  void attentionRoundsOnDevicesAlone() {
    test::RunSettings settings = settingsOf(test::smallGpt(), 6, 3);
    settings.matmulDtype = DType::kBf16;
    const test::RunOutcome host = test::trained(settings);
    Devices devices;
    const test::RunOutcome there = onDevices(settings, devices);
    QVERIFY2(there.ok() && host.ok(), there.error().c_str());
    const double worst = test::worstRelative(there, host);
    QVERIFY2(worst > 1e-6 && worst < 1.0 / 256, fmt::format("losses differ by {}", worst).c_str());
    QVERIFY(countOf(devices.calls[0], "  launch attentionBf16") > 0 &&
            countOf(devices.calls[0], "  launch attentionKeyGradBf16") > 0);
  }

  // Activations stored in the operands' type are so on every backend: losses are as near as where
  // they are f32.
  void activationsInBf16AreThoseOfTheHost() {
    test::RunSettings settings = settingsOf(test::smallGpt(), 6, 6);
    settings.matmulDtype = DType::kBf16;
    settings.activations = "operands";
    const test::RunOutcome host = test::trained(settings);
    settings.backend = "reference";
    const test::RunOutcome reference = test::trained(settings);
    settings.backend = "onednn";
    Devices devices;
    const test::RunOutcome there = onDevices(settings, devices);
    QVERIFY2(there.ok() && host.ok() && reference.ok(), there.error().c_str());
    for (const test::RunOutcome* other : {&host, &reference}) {
      const double worst = test::worstRelative(there, *other);
      QVERIFY2(worst < 1.0 / 256, fmt::format("losses differ by {}", worst).c_str());
    }
  }

  // Matmuls of fp16 operands; the same steps are skipped.
  void trainsInFp16AsOnTheHost_data() {
    QTest::addColumn<bool>("text");
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addRow("mlp") << false << "mirrored" << 1;
    QTest::addRow("mlp, zero-1") << false << "zero-1" << 2;
    QTest::addRow("gpt") << true << "mirrored" << 2;
  }
  void trainsInFp16AsOnTheHost() {
    QFETCH(bool, text);
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    test::RunSettings settings = settingsOf(text ? test::smallGpt() : test::fashionMlp(), 8, 8);
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.matmulDtype = DType::kF16;
    settings.lossScale = passes::LossScale{.initial = 0x1p26, .growthInterval = 3};
    const test::RunOutcome host = test::trained(settings);
    QVERIFY2(host.ok(), host.error().c_str());
    Devices devices;
    const test::RunOutcome there = onDevices(settings, devices);
    QVERIFY2(there.ok(), there.error().c_str());
    QCOMPARE(there.steps.size(), std::size_t{8});
    for (std::size_t i = 0; i < 8; ++i) {
      QCOMPARE(there.steps[i].skipped, host.steps[i].skipped);
      QCOMPARE(there.steps[i].lossScale, host.steps[i].lossScale);
    }
    QCOMPARE(there.steps.front().skipped, 1);
    QCOMPARE(there.steps.back().lossScale < 0x1p26f, true);
    const double worst = test::worstRelative(there, host);
    QVERIFY2(worst < 1.0 / 2048, fmt::format("losses differ by {}", worst).c_str());
  }

  // A non-finite loss ends the run identically on all ranks; captured tensors of a device are not
  // inspected, its state is.
  void divergedRunsEnd_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addRow("one rank") << "mirrored" << 1;
    QTest::addRow("mirrored") << "multi-worker-mirrored" << 2;
    QTest::addRow("zero-3") << "zero-3" << 2;
  }
  void divergedRunsEnd() {
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    test::RunSettings settings = settingsOf(test::fashionMlp(), 8, 12);
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.trainer.schedule.peak = 1e30;
    Devices devices;
    const test::RunOutcome out = onDevices(settings, devices);
    for (const auto& rank : out.ranks) {
      QVERIFY(!rank.ok());
      QVERIFY2(rank.error().what.text().starts_with(
                   "the training diverged: the loss is not finite in step "),
               rank.error().text().c_str());
      QVERIFY2(rank.error().why.text().starts_with(
                   "the first tensor that is not finite is parameter dense") ||
                   rank.error().why.text().starts_with(
                       "the first tensor that is not finite is optimizer state adam."),
               rank.error().text().c_str());
      QCOMPARE(rank.error().text(), out.ranks[0].error().text());
    }
    settings.trainer.nonFinite = runtime::NonFinite::kTaken;
    Devices others;
    const test::RunOutcome taken = onDevices(settings, others);
    QVERIFY2(taken.ok(), taken.error().c_str());
  }

  // A single-rank step is one piece of work: inputs are copied first, results last.
  void aStepIsCapturedOnce() {
    Devices devices;
    const test::RunOutcome run = onDevices(settingsOf(test::fashionMlp(), 8, 5), devices);
    QVERIFY2(run.ok(), run.error().c_str());
    const std::vector<std::string>& calls = devices.calls[0];
    QCOMPARE(countOf(calls, "begin capture"), 2);  // step, init
    const auto begin = std::find(calls.begin(), calls.end(), "begin capture") + 1;
    const auto end = std::find(begin, calls.end(), "end capture");
    std::vector<std::string> kinds;
    for (auto call = begin; call != end; ++call) {
      QVERIFY2(call->starts_with("  "), call->c_str());
      const std::string kind = call->starts_with("  copy")     ? "copy"
                               : call->starts_with("  record") ? "record"
                                                               : "work";
      if (kinds.empty() || kinds.back() != kind) kinds.push_back(kind);
    }
    // Copies of samples from their staging area, then of inputs known only at the run. Timestamps
    // lie where the account changes: data and forward, backward, optimizer.
    const std::vector<std::string> expected{"copy", "record", "copy", "record", "work", "record",
                                            "work", "record", "work", "record", "copy"};
    QVERIFY2(kinds == expected, fmt::format("{}", fmt::join(kinds, ", ")).c_str());
    QCOMPARE(countOf(calls, "replay"), 1 + 5);
    QCOMPARE(countOf(calls, "launch"), 0);
    QCOMPARE(countOf(calls, "product"), 0);
    QVERIFY(allAreWaitedForOnce(calls));
  }

  // Device collectives are part of the captured step, whichever queue runs first.
  void exchangesAsTheHostDoes_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("modelRanks");
    QTest::addColumn<QString>("overlap");
    QTest::addColumn<QString>("exchange");
    QTest::addRow("mirrored") << "mirrored" << 2 << 1 << "never"
                              << "all-reduce";
    QTest::addRow("mirrored, asynchronous") << "mirrored" << 3 << 1 << "always"
                                            << "all-reduce";
    QTest::addRow("zero-1") << "zero-1" << 2 << 1 << "never"
                            << "reduce-scatter";
    QTest::addRow("zero-3, asynchronous") << "zero-3" << 2 << 1 << "always"
                                          << "all-gather";
    QTest::addRow("local-sgd") << "local-sgd" << 2 << 1 << "never"
                               << "all-reduce";
    QTest::addRow("tensors and data") << "mirrored" << 4 << 2 << "always"
                                      << "all-reduce";
  }
  void exchangesAsTheHostDoes() {
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(int, modelRanks);
    QFETCH(QString, overlap);
    QFETCH(QString, exchange);
    test::RunSettings settings = settingsOf(test::fashionMlp(), 12, 4);
    settings.strategy = strategy.toStdString();
    settings.ranks = ranks;
    settings.modelRanks = modelRanks;
    settings.overlap = overlap.toStdString();
    settings.bucketBytes = 1 << 12;
    settings.trainer.evaluate = true;
    settings.evaluateBatch = 100;
    settings.trainer.eventsEvery =
        3;  // in that step, kernels and exchanges are enqueued one by one
    if (strategy == "local-sgd") settings.microBatches = 2;
    const test::RunOutcome host = test::trained(settings);
    Devices devices;
    devices.meet();
    const test::RunOutcome there = onDevices(settings, devices);
    const std::string wrong = difference(there, host);
    QVERIFY2(wrong.empty(), wrong.c_str());
    QCOMPARE(there.steps.size(), std::size_t{4});
    QVERIFY(std::abs(there.epochs.back().evalLoss - host.epochs.back().evalLoss) < 1e-4);
    const auto plan = test::planOf(settings);
    std::ptrdiff_t collectives = 0;  // of all programs
    bool asynchronous = false;
    for (const plan::Program& program : plan->programs)
      for (const plan::Step& step : plan->find(program.name, 0)->steps) {
        collectives += step.kind == plan::StepKind::kCollective ? 1 : 0;
        asynchronous = asynchronous || step.stream != plan::kComputeStream;
      }
    QCOMPARE(asynchronous, overlap == "always");
    const auto exchangesOf = [](const std::vector<std::string>& calls) {
      std::vector<std::string> out;
      for (const std::string& call : calls)
        if (call.find("all-") != std::string::npos ||
            call.find("reduce-scatter") != std::string::npos ||
            call.find("broadcast") != std::string::npos)
          out.push_back(call);
      return out;
    };
    for (const auto& calls : devices.calls) {
      QVERIFY(countOf(calls, "  " + exchange.toStdString()) > 0);
      QVERIFY(exchangesOf(calls) == exchangesOf(devices.calls[0]));  // the same order on every rank
      // Each program is captured as a whole and waited for once.
      QVERIFY(allAreWaitedForOnce(calls));
      QCOMPARE(countOf(calls, "begin capture"), static_cast<std::ptrdiff_t>(plan->programs.size()));
      QCOMPARE(countOf(calls, "  mark exchange"), collectives);
      QCOMPARE(notedExchanges(calls), collectives);
      QCOMPARE(countOf(calls, "  wait exchange"), collectives);
    }
    // Communication has times, as computation does.
    for (const runtime::StepRecord& step : there.steps)
      QVERIFY(step.communication > 0 && step.backward > 0);
    const std::vector<plan::Step>& steps = plan->find("step", 0)->steps;
    if (settings.microBatches == 1) {
      QCOMPARE(there.events[0].size(), steps.size());
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const plan::Event& event = there.events[0][i];
        QCOMPARE(event.kind == plan::EventKind::kTransfer,
                 steps[i].kind == plan::StepKind::kCollective);
        QCOMPARE(event.asynchronous, steps[i].stream != plan::kComputeStream);
        QVERIFY(event.begin > 0 && event.begin <= event.end);
      }
    }
  }

  // Stages exchange messages as part of captured work, both directions together, without the host.
  void messagesAreOfTheStep_data() {
    QTest::addColumn<QString>("schedule");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("stages");
    QTest::addColumn<int>("modelRanks");
    QTest::addColumn<int>("micros");
    QTest::addRow("1f1b, 2 stages") << "1f1b" << 2 << 2 << 1 << 4;
    QTest::addRow("1f1b, 3 stages, more micro-batches than are on the way")
        << "1f1b" << 3 << 3 << 1 << 6;
    QTest::addRow("gpipe, 3 stages") << "gpipe" << 3 << 3 << 1 << 3;
    QTest::addRow("zb-h1, 3 stages") << "zb-h1" << 3 << 3 << 1 << 4;
    QTest::addRow("1f1b, one micro-batch") << "1f1b" << 2 << 2 << 1 << 1;
    QTest::addRow("1f1b, stages of two that divide the batch") << "1f1b" << 4 << 2 << 1 << 2;
    QTest::addRow("1f1b, stages of two that share layers") << "1f1b" << 4 << 2 << 2 << 2;
  }
  void messagesAreOfTheStep() {
    QFETCH(QString, schedule);
    QFETCH(int, ranks);
    QFETCH(int, stages);
    QFETCH(int, modelRanks);
    QFETCH(int, micros);
    test::RunSettings settings = settingsOf(test::smallGpt(), 12, 3);
    settings.strategy = "pipeline";
    settings.schedule = schedule.toStdString();
    settings.ranks = ranks;
    settings.stages = stages;
    settings.modelRanks = modelRanks;
    settings.microBatches = micros;
    settings.optimizer.clipNorm = 1;  // all stages send all
    settings.trainer.eventsEvery = 2;
    settings.trainer.evaluate = micros == 4;
    settings.evaluateBatch = 6;
    const test::RunOutcome host = test::trained(settings);
    QVERIFY2(host.ok(), host.error().c_str());
    Devices devices;
    devices.meet();
    const test::RunOutcome there = onDevices(settings, devices);
    QVERIFY2(there.ok(), there.error().c_str());
    QCOMPARE(there.steps.size(), std::size_t{3});
    QVERIFY(test::worstRelative(there, host) < 1e-4);
    QVERIFY(std::abs(there.epochs.back().evalLoss - host.epochs.back().evalLoss) < 1e-4);
    const auto plan = test::planOf(settings);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& calls = devices.calls[static_cast<std::size_t>(rank)];
      const auto has = [&](const char* what) {
        return std::any_of(calls.begin(), calls.end(), [&](const std::string& call) {
          return call.find(what) != std::string::npos;
        });
      };
      QVERIFY(has("send") && has("receive"));
      QVERIFY(notedExchanges(calls) > 0);
      if (schedule == "1f1b" && micros > 2)
        QVERIFY(std::any_of(calls.begin(), calls.end(), [](const std::string& call) {
          return call.find("send") != std::string::npos &&
                 call.find("receive") != std::string::npos;
        }));
      QVERIFY(allAreWaitedForOnce(calls));
      // The events of every run include messages.
      std::size_t steps = 0;
      for (const plan::ScheduleEntry& entry : plan->entriesOf(rank))
        steps += plan->find(entry.program, rank)->steps.size();
      const auto& events = there.events[static_cast<std::size_t>(rank)];
      QCOMPARE(events.size(), steps);
      for (const plan::Event& event : events) QVERIFY(event.begin > 0 && event.begin <= event.end);
    }
  }

  // The next step's samples are copied to their staging area during a step: after the current
  // step's samples have left it, and the host buffer is rewritten only after it was copied.
  void samplesAreCopiedAhead() {
    Devices devices;
    test::RunSettings settings = settingsOf(test::fashionMlp(), 8, 3);
    settings.trainer.evaluate = true;
    settings.evaluateBatch = 12;  // of 24
    const test::RunOutcome run = onDevices(settings, devices);
    QVERIFY2(run.ok(), run.error().c_str());
    std::vector<std::string> calls;  // of the training: each line once where it is repeated
    for (const std::string& call : devices.calls[0])
      if (!call.starts_with("  ") && (calls.empty() || calls.back() != call)) calls.push_back(call);
    const auto begin = std::find(calls.begin(), calls.end(), "copy 6272 ahead");  // 8 images
    QVERIFY(begin != calls.end());
    // labels and weights are as large
    const std::vector<std::string> first{"copy 6272 ahead", "copy 32 ahead", "mark ahead"};
    const std::vector<std::string> step{"wait compute", "replay",          "await",
                                        "wait ahead",   "copy 6272 ahead", "copy 32 ahead",
                                        "mark ahead",   "synchronize"};
    const std::vector<std::string> last{"wait compute", "replay", "synchronize"};
    std::vector<std::string> expected = first;
    for (const auto* part : {&step, &step, &last})
      expected.insert(expected.end(), part->begin(), part->end());
    const std::vector<std::string> asked(
        begin, begin + std::min<std::ptrdiff_t>(std::ssize(expected), calls.end() - begin));
    QVERIFY2(asked == expected, fmt::format("{}", fmt::join(asked, "; ")).c_str());
  }

  // Bit-identical whether prefetched samples are used or discarded, and whichever queue runs first.
  void whatIsAheadChangesNoBits() {
    std::string bits;
    for (const std::int64_t epochSteps : {12, 4, 3}) {  // samples are ahead within an epoch
      Devices devices;
      test::RunSettings settings = settingsOf(test::fashionMlp(), 8, epochSteps);
      settings.samples = 96;
      settings.trainer.maxSteps = 0;
      settings.trainer.epochs = 1;
      settings.trainer.hashReplica = true;
      settings.stopAt = epochSteps;
      const test::RunOutcome run = onDevices(settings, devices);
      QVERIFY2(run.ok(), run.error().c_str());
      const QTemporaryDir folder;
      if (epochSteps == 12) {
        bits = run.ranks[0]->replicaSha256;
        continue;
      }
      // Stopped with samples prefetched, and resumed.
      settings.trainer.checkpointFolder = folder.path().toStdString();
      const test::RunOutcome part = onDevices(settings, devices);
      QVERIFY2(part.ok() && !part.checkpoints.empty(), part.error().c_str());
      QVERIFY(part.steps.size() < 12);
      settings.stopAt = 0;
      settings.trainer.resumeFrom = part.checkpoints.back();
      const test::RunOutcome rest = onDevices(settings, devices);
      QVERIFY2(rest.ok(), rest.error().c_str());
      QCOMPARE(rest.ranks[0]->replicaSha256, bits);
    }
  }

  void otherVersionsGoThroughTheHost() {
    Devices devices;
    devices.meet();
    devices.oddVersion = "2";
    test::RunSettings settings = settingsOf(test::fashionMlp(), 8, 2);
    settings.ranks = 2;
    settings.strategy = "mirrored";
    const test::RunOutcome run = onDevices(settings, devices);
    QVERIFY2(run.ok(), run.error().c_str());
    for (const auto& calls : devices.calls) QCOMPARE(countOf(calls, "  all-reduce"), 0);
  }

  void aFailureEndsTheExchangeOfAll() {
    Devices devices;
    devices.meet();
    devices.failingRank = 1;
    devices.failAt = 200;
    test::RunSettings settings = settingsOf(test::fashionMlp(), 8, 20);
    settings.ranks = 2;
    settings.strategy = "mirrored";
    const Nanoseconds begin = monotonicNow();
    const test::RunOutcome run = onDevices(settings, devices);
    QVERIFY(!run.ranks[0].ok() && !run.ranks[1].ok());
    QCOMPARE(run.ranks[1].error().what, std::string("the device fell off the bus"));
    QVERIFY(run.ranks[0].error().code == Code::kAborted);
    QVERIFY(monotonicNow() - begin < 20'000'000'000);  // the others need not wait for a limit
  }

  // Host collectives split the step: operands are copied to the host in the work before, and back
  // in the work after.
  void collectivesAreBetween() {
    Devices devices;
    test::RunSettings settings = settingsOf(test::fashionMlp(), 8, 2);
    settings.ranks = 2;
    settings.strategy = "mirrored";
    settings.overlap = "never";
    const auto plan = test::planOf(settings);
    QVERIFY(plan.ok());
    std::vector<std::int64_t> reduced;
    const plan::Body& body = *plan->find("step", 0);
    for (const plan::Step& step : body.steps)
      if (step.kind == plan::StepKind::kCollective)
        reduced.push_back(body.buffers[static_cast<std::size_t>(step.inputs[0])].type.bytes());
    QVERIFY(!reduced.empty());
    const test::RunOutcome run = onDevices(settings, devices);
    QVERIFY2(run.ok(), run.error().c_str());
    for (const auto& calls : devices.calls) {
      QCOMPARE(countOf(calls, "begin capture"),
               static_cast<std::ptrdiff_t>(1 + reduced.size() + 1));
      std::size_t at = 0;
      // Each lies between two timestamps: its time is communication.
      for (std::size_t i = 3; i + 1 < calls.size() && at < reduced.size(); ++i) {
        if (calls[i] != "end capture") continue;
        const std::string copy = fmt::format("  copy {}", reduced[at++]);
        QVERIFY(calls[i - 3] == "  record" && calls[i - 2] == copy && calls[i - 1] == "  record");
        QVERIFY(calls[i + 1] == "begin capture" && calls[i + 2] == "  record" &&
                calls[i + 3] == copy && calls[i + 4] == "  record");
      }
      QCOMPARE(at, reduced.size());
    }
  }

  void everyStepHasItsTime() {
    Devices devices;
    test::RunSettings settings = settingsOf(test::fashionMlp(), 8, 4);
    settings.ranks = 2;
    settings.strategy = "mirrored";
    settings.trainer.eventsEvery = 2;
    const test::RunOutcome run = onDevices(settings, devices);
    QVERIFY2(run.ok(), run.error().c_str());
    const auto plan = test::planOf(settings);
    const std::vector<plan::Step>& steps = plan->find("step", 0)->steps;
    QCOMPARE(run.events[0].size(), 2 * steps.size());
    for (std::size_t i = 0; i < run.events[0].size(); ++i) {
      const plan::Event& event = run.events[0][i];
      const bool collective = steps[i % steps.size()].kind == plan::StepKind::kCollective;
      QCOMPARE(event.kind, collective ? plan::EventKind::kTransfer : plan::EventKind::kCompute);
      QVERIFY(event.begin > 0 && event.begin <= event.end);
      if (i % steps.size() > 0) QVERIFY(event.begin >= run.events[0][i - 1].begin);
    }
    for (const runtime::StepRecord& step : run.steps)
      QVERIFY(step.forward > 0 && step.backward > 0 && step.optimizer > 0 &&
              step.communication > 0);
  }

  void aFailureIsTold() {
    Devices devices;
    devices.failingRank = 1;
    devices.failAt = 200;
    test::RunSettings settings = settingsOf(test::fashionMlp(), 8, 20);
    settings.ranks = 2;
    settings.strategy = "mirrored";
    const test::RunOutcome run = onDevices(settings, devices);
    QVERIFY(!run.ranks[0].ok() && !run.ranks[1].ok());
    const Error& error = run.ranks[1].error();
    QCOMPARE(error.what, std::string("the device fell off the bus"));
    QCOMPARE(error.rank, 1);
    QVERIFY(error.step > 0);
  }

  void resumesWithTheSameBits() {
    const QTemporaryDir folder;
    test::RunSettings settings = settingsOf(test::fashionMlp(), 8, 6);
    settings.trainer.hashReplica = true;
    Devices devices;
    const test::RunOutcome whole = onDevices(settings, devices);
    QVERIFY2(whole.ok(), whole.error().c_str());
    settings.trainer.checkpointFolder = folder.path().toStdString();
    settings.stopAt = 3;
    const test::RunOutcome part = onDevices(settings, devices);
    QVERIFY2(part.ok() && !part.checkpoints.empty(), part.error().c_str());
    settings.stopAt = 0;
    settings.trainer.resumeFrom = part.checkpoints.back();
    settings.trainer.checkpointFolder.clear();
    const test::RunOutcome rest = onDevices(settings, devices);
    QVERIFY2(rest.ok(), rest.error().c_str());
    QVERIFY(!whole.ranks[0]->replicaSha256.empty());
    QCOMPARE(rest.ranks[0]->replicaSha256, whole.ranks[0]->replicaSha256);
    QCOMPARE(rest.ranks[0]->weightsSha256, whole.ranks[0]->weightsSha256);
  }

  // The mirror of the state is the snapshot, and training goes on while it is written.
  void checkpointsAreTakenWhileItTrains() {
    for (const int ranks : {1, 2}) {
      const QTemporaryDir folder;
      test::RunSettings settings = settingsOf(test::fashionMlp(), 8, 24);
      settings.ranks = ranks;
      settings.strategy = ranks > 1 ? "zero-1" : "mirrored";
      Devices devices;
      const test::RunOutcome without = onDevices(settings, devices);
      QVERIFY2(without.ok(), without.error().c_str());
      test::RunSettings with = settings;
      with.trainer.checkpointFolder = folder.path().toStdString();
      with.trainer.checkpointSteps = 2;
      with.trainer.keepCheckpoints = 100;
      const test::RunOutcome whole = onDevices(with, devices);
      QVERIFY2(whole.ok() && whole.checkpoints.size() > 1, whole.error().c_str());
      QCOMPARE(whole.ranks[0]->weightsSha256, without.ranks[0]->weightsSha256);
      for (const std::string& checkpoint : whole.checkpoints) {
        settings.trainer.resumeFrom = checkpoint;
        const test::RunOutcome rest = onDevices(settings, devices);
        QVERIFY2(rest.ok(), rest.error().c_str());
        QCOMPARE(rest.ranks[0]->weightsSha256, without.ranks[0]->weightsSha256);
      }
    }
  }

  void refusesByName() {
    Devices devices;
    models::Model model = test::smallGpt();
    model.layers[0].units = 4 * 129;
    const test::RunOutcome run = onDevices(settingsOf(std::move(model), 2, 1), devices);
    QVERIFY(!run.ok());
    QVERIFY2(run.error().find("a head has 129 channels, and its kernels take at most 128") !=
                 std::string::npos,
             run.error().c_str());
  }
};

QTEST_GUILESS_MAIN(DeviceTest)
#include "device_test.moc"
