// Gradients that travel coded: how many bytes, that ranks stay equal and nothing is lost.
#include <QTest>

#include <cmath>
#include <cstring>

#include "engine/cluster/strategies.h"
#include "tests/support/counting_communicator.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

struct Rank {
  std::unique_ptr<backends::Backend> backend;
  std::unique_ptr<tests::CountingCommunicator> group;
  std::unique_ptr<runtime::StateArena> state;
  std::unique_ptr<runtime::Executor> init, step, update;
  Status status;

  const void* of(const plan::StateSlot& slot) const { return state->data() + slot.offset; }
};

RunSettings settingsFor(const char* coding, int ranks) {
  RunSettings settings;
  settings.ranks = ranks;
  settings.compression = coding;
  settings.backend = "onednn";
  settings.compute = DType::kF32;
  settings.optimizer.kind = "adam";
  return settings;
}

// Ranks whose steps run by hand, on made-up images.
class Ranks {
 public:
  Ranks(const plan::Plan& plan, const RunSettings& settings)
      : plan_(plan), images_(100'000), ranks_(static_cast<std::size_t>(settings.ranks)) {
    auto groups = comm::makeInProcessGroup(settings.ranks, 30'000'000'000).value();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].backend = backends::makeBackend(settings.backend, {}).value();
      ranks_[r].group = std::make_unique<tests::CountingCommunicator>(std::move(groups[r]));
      ranks_[r].state = runtime::StateArena::make(plan, static_cast<int>(r)).value();
      bind("init", r, ranks_[r].init);
      bind("step", r, ranks_[r].step);
      if (plan.find("update") != nullptr) bind("update", r, ranks_[r].update);
    }
  }

  // Runs `steps` steps on all ranks; what went wrong.
  std::string train(int steps) {
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      threads.emplace_back([&, r] {
        Rank& rank = ranks_[r];
        if (stepsDone_ == 0) rank.status = rank.init->run(0, nullptr);
        for (int step = 0; step < steps && rank.status.ok(); ++step) {
          for (int micro = 0; micro < plan_.microBatches && rank.status.ok(); ++micro) {
            feed(*rank.step, static_cast<int>(r), (stepsDone_ + step) * plan_.microBatches + micro);
            rank.status = rank.step->run(step, nullptr);
          }
          if (rank.update == nullptr || !rank.status.ok()) continue;
          feed(*rank.update, static_cast<int>(r), 0);
          rank.status = rank.update->run(step, nullptr);
        }
        if (!rank.status.ok()) rank.group->abort();
      });
    for (std::thread& thread : threads) thread.join();
    stepsDone_ += steps;
    for (const Rank& rank : ranks_)
      if (!rank.status.ok()) return rank.status.error().text();
    return {};
  }
  const Rank& operator[](std::size_t r) const { return ranks_[r]; }

 private:
  void bind(const char* program, std::size_t r, std::unique_ptr<runtime::Executor>& into) {
    auto bound = runtime::Executor::bind(plan_, program, static_cast<int>(r), *ranks_[r].backend,
                                         {ranks_[r].group.get()}, *ranks_[r].state);
    LOCKSTEP_CHECK(bound.ok(), "{}", bound.error().text());
    into = std::move(*bound);
  }
  void feed(runtime::Executor& executor, int rank, int batch) const {
    for (std::size_t field = 0; field < images_.fields().size(); ++field) {
      const backends::Operand to = executor.input(images_.fields()[field].name);
      if (to.data == nullptr) continue;
      const std::int64_t bytes = images_.fields()[field].bytes();
      const std::int64_t first = plan_.batchCuts[static_cast<std::size_t>(rank)];
      const std::int64_t count = plan_.batchCuts[static_cast<std::size_t>(rank) + 1] - first;
      for (std::int64_t i = 0; i < count; ++i) {
        std::byte sample[784] = {};
        images_.read(batch * plan_.batchCuts.back() + first + i, field, sample);
        if (to.type.dtype == DType::kI32) {
          static_cast<std::int32_t*>(to.data)[i] = static_cast<std::int32_t>(sample[0]);
        } else {
          std::memcpy(static_cast<std::byte*>(to.data) + i * bytes, sample,
                      static_cast<std::size_t>(bytes));
        }
      }
    }
    for (const auto& [name, value] :
         {std::pair{"weight", 1.0}, {"lr", 1e-3}, {"t", 1.0}, {"stop", 0.0}}) {
      const backends::Operand to = executor.input(name);
      for (std::int64_t i = 0; to.data != nullptr && i < to.type.count(); ++i)
        if (to.type.dtype == DType::kF64)
          static_cast<double*>(to.data)[i] = value;
        else
          static_cast<float*>(to.data)[i] = static_cast<float>(value);
    }
  }

  const plan::Plan& plan_;
  const SyntheticImages images_;
  std::vector<Rank> ranks_;
  int stepsDone_ = 0;
};

std::int64_t plannedBytes(const plan::Plan& plan, int rank) {
  std::int64_t bytes = 0;
  for (const plan::ScheduleEntry& entry : plan.entriesOf(rank))
    for (const plan::Step& step : plan.find(entry.program, rank)->steps)
      if (step.kind == plan::StepKind::kCollective) bytes += step.bytes;
  return bytes;
}

}  // namespace

class CompressionTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void bytesAndEquality_data() {
    QTest::addColumn<QString>("coding");
    QTest::addColumn<double>("ratio");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("microBatches");
    QTest::addColumn<QString>("strategy");
    for (const auto& [coding, ratio] :
         {std::pair{"fp16", 2.0}, {"bf16", 2.0}, {"int8", 3.9}, {"top-k", 45.0}}) {
      QTest::addRow("%s", coding) << coding << ratio << 3 << 1 << "multi-worker-mirrored";
      QTest::addRow("%s, micro-batches", coding)
          << coding << ratio << 2 << 4 << "multi-worker-mirrored";
      for (const char* strategy : {"zero-1", "zero-2", "zero-3"})
        QTest::addRow("%s, %s", coding, strategy) << coding << ratio << 3 << 2 << strategy;
    }
  }
  // What communicators are given to carry is what the plan says; the payloads are as much smaller
  // as the coding promises; ranks stay equal bit for bit, and each has a residual of its own.
  void bytesAndEquality() {
    QFETCH(QString, coding);
    QFETCH(double, ratio);
    QFETCH(int, ranks);
    QFETCH(int, microBatches);
    QFETCH(QString, strategy);
    RunSettings settings = settingsFor(qPrintable(coding), ranks);
    settings.strategy = strategy.toStdString();
    settings.model = fashionCnn();
    settings.microBatches = microBatches;
    auto plan = planOf(settings);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    const auto parsed = plan::parse(plan::text(*plan));
    QVERIFY(parsed.ok() && *parsed == *plan);
    const planner::EncodedGradients encoded = planner::encodedGradients(*plan, 0);
    QCOMPARE(encoded.coding, coding.toStdString());
    QVERIFY2(encoded.ratio() >= ratio, fmt::format("{}", encoded.ratio()).c_str());

    Ranks all(*plan, settings);
    QCOMPARE(all.train(1), std::string());
    for (int r = 0; r < ranks; ++r)
      QCOMPARE(all[static_cast<std::size_t>(r)].group->bytes(), plannedBytes(*plan, r));
    QCOMPARE(all.train(4), std::string());
    bool residuals = false;
    for (const plan::StateSlot& slot : plan->state) {
      const auto bytes = static_cast<std::size_t>(slot.type.bytes());
      const bool same = std::memcmp(all[0].of(slot), all[1].of(slot), bytes) == 0;
      const bool isResidual = slot.name.starts_with("residual.");
      if (isResidual || slot.axis.empty()) QVERIFY2(same != isResidual, slot.name.c_str());
      residuals |= isResidual;
    }
    QVERIFY(residuals);
  }

  // On the first step, with plain descent and no momentum, parameters tell what gradient they were
  // given: that and all residuals make the gradient that one rank has of the whole batch.
  void nothingIsLost_data() {
    QTest::addColumn<QString>("coding");
    QTest::addColumn<QString>("strategy");
    for (const char* coding : {"fp16", "bf16", "int8", "top-k"})
      for (const char* strategy : {"multi-worker-mirrored", "zero-1"})
        QTest::addRow("%s %s", coding, strategy) << coding << strategy;
  }
  void nothingIsLost() {
    QFETCH(QString, coding);
    QFETCH(QString, strategy);
    RunSettings settings = settingsFor(qPrintable(coding), 3);
    settings.strategy = strategy.toStdString();
    settings.backend = "reference";
    settings.compute = DType::kF64;
    settings.optimizer = {};
    settings.optimizer.kind = "sgd";
    RunSettings exact = settings;
    exact.compression = "none";
    auto plan = planOf(settings), exactPlan = planOf(exact);
    QVERIFY(plan.ok() && exactPlan.ok());
    Ranks coded(*plan, settings), whole(*exactPlan, exact);
    QCOMPARE(coded.train(1), std::string());
    QCOMPARE(whole.train(1), std::string());
    const auto values = [](const Rank& rank, const plan::StateSlot& slot) {
      return std::span(static_cast<const double*>(rank.of(slot)),
                       static_cast<std::size_t>(slot.type.count()));
    };
    const auto slotOf = [](const plan::Plan& of,
                           const std::string& name) -> const plan::StateSlot& {
      return *std::find_if(of.state.begin(), of.state.end(),
                           [&](const auto& s) { return s.name == name; });
    };
    double left = 0;
    for (std::size_t k = 0; k < 100; ++k) {
      const std::string velocity = fmt::format("sgd.v.{}", k);  // after one step: the mean gradient
      const auto isIt = [&](const auto& slot) { return slot.name == velocity; };
      if (std::none_of(plan->state.begin(), plan->state.end(), isIt)) break;
      // Whole on every rank, or each rank's part of it.
      const auto gathered = [&](const Ranks& ranks, const plan::Plan& of) {
        const plan::StateSlot& slot = slotOf(of, velocity);
        std::vector<double> all;
        for (std::size_t r = 0; r < (slot.axis.empty() ? 1u : 3u); ++r) {
          const auto part = values(ranks[r], slot);
          all.insert(all.end(), part.begin(), part.end());
        }
        return all;
      };
      const std::vector<double> sent = gathered(coded, *plan), want = gathered(whole, *exactPlan);
      double largest = 0;
      for (const double one : want) largest = std::max(largest, std::abs(one));
      for (std::size_t i = 0; i < want.size(); ++i) {
        double rest = 0;
        for (std::size_t r = 0; r < 3; ++r)
          rest += values(coded[r], slotOf(*plan, fmt::format("residual.{}", k)))[i];
        left = std::max(left, std::abs(rest));
        QVERIFY(std::abs(sent[i] + rest / 96 - want[i]) <= 1e-14 * largest);
      }
    }
    QVERIFY(left > 0);
  }

  // It learns as it does without: a small network, two epochs, plain and in a pipeline and with
  // ranks that share layers.
  void itLearns_data() {
    QTest::addColumn<QString>("coding");
    QTest::addColumn<QString>("strategy");
    for (const char* coding : {"fp16", "bf16", "int8", "top-k"})
      QTest::newRow(coding) << coding << "multi-worker-mirrored";
    for (const char* strategy : {"zero-1", "zero-2", "zero-3"})
      QTest::addRow("int8 with %s", strategy) << "int8" << strategy;
    QTest::newRow("int8 in a pipeline") << "int8"
                                        << "pipeline";
    QTest::newRow("int8 beside shared layers") << "int8"
                                               << "tensor-parallel";
  }
  void itLearns() {
    QFETCH(QString, coding);
    QFETCH(QString, strategy);
    RunSettings settings = settingsFor("none", 2);
    settings.strategy = strategy.toStdString();
    settings.samples = 4800;
    settings.trainer.epochs = 2;
    settings.trainer.schedule.peak = 1e-3;
    if (strategy == "pipeline" || strategy == "tensor-parallel") settings.ranks = 4;
    settings.stages = strategy == "pipeline" ? 2 : 1;
    settings.microBatches = strategy == "pipeline" || strategy == "zero-2" ? 2 : 1;
    settings.modelRanks = strategy == "tensor-parallel" ? 2 : 1;
    const auto trained = [&] {
      auto plan = planOf(settings);
      LOCKSTEP_CHECK(plan.ok(), "{}", plan.error().text());
      return run(settings, *plan);
    };
    const RunOutcome exact = trained();
    settings.compression = coding.toStdString();
    const RunOutcome coded = trained();
    QVERIFY2(exact.ok() && coded.ok(), coded.error().c_str());
    qInfo("evaluation loss %.5f, coded %.5f; accuracy %.4f, %.4f", exact.epochs.back().evalLoss,
          coded.epochs.back().evalLoss, exact.epochs.back().evalMetric,
          coded.epochs.back().evalMetric);
    QVERIFY(coded.epochs.back().evalMetric >= exact.epochs.back().evalMetric - 0.01);
    QVERIFY(coded.epochs.back().evalLoss < 0.1 * coded.steps.front().loss);
  }

  // The first steps are those of a run without, bit for bit; in any order of programs.
  void topKBeginsLater_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("microBatches");
    QTest::newRow("a step") << "multi-worker-mirrored" << 1;
    QTest::newRow("micro-batches") << "multi-worker-mirrored" << 2;
    QTest::newRow("parts") << "zero-2" << 2;
    QTest::newRow("stages") << "pipeline" << 2;
    QTest::newRow("parts and stages") << "zero-2" << 2;
  }
  void topKBeginsLater() {
    QFETCH(QString, strategy);
    QFETCH(int, microBatches);
    const bool staged =
        strategy == "pipeline" || QByteArray(QTest::currentDataTag()).contains("stages");
    RunSettings settings = settingsFor("none", staged ? 4 : 2);
    settings.strategy = strategy.toStdString();
    settings.stages = staged ? 2 : 1;
    settings.microBatches = microBatches;
    settings.trainer.maxSteps = 12;
    settings.trainer.eventsEvery = 1;
    const auto trained = [&] {
      auto plan = planOf(settings);
      LOCKSTEP_CHECK(plan.ok(), "{}", plan.error().text());
      const auto parsed = plan::parse(plan::text(*plan));
      LOCKSTEP_CHECK(parsed.ok() && *parsed == *plan, "the plan's text is another plan");
      return run(settings, *plan);
    };
    const RunOutcome exact = trained();
    settings.compression = "top-k";
    settings.topKAfter = 5;
    const RunOutcome coded = trained();
    QVERIFY2(exact.ok() && coded.ok(), coded.error().c_str());
    for (std::size_t i = 0; i < exact.steps.size(); ++i)
      // the sixth is the first to send less
      QCOMPARE(coded.steps[i].loss == exact.steps[i].loss, i < 6);
    QVERIFY(!coded.events[0].empty() && coded.events[0].front().step == 6);
    settings.topKAfter = 0;
    QVERIFY(trained().steps[1].loss != exact.steps[1].loss);
  }

  void whereItMakesNoSense() {
    for (const char* strategy : {"local-sgd", "parameter-server", "central-storage"}) {
      RunSettings settings = settingsFor("int8", 3);
      settings.strategy = strategy;
      settings.servers = cluster::findStrategy(strategy)->servers ? 1 : 0;
      const auto plan = planOf(settings);
      QVERIFY2(!plan.ok() && plan.error().code == Code::kInvalidArgument, strategy);
      QVERIFY2(plan.error().text().find("strategy.compression") != std::string::npos, strategy);
    }
    const auto unknown = planOf(settingsFor("zip", 2));
    QVERIFY(!unknown.ok() && unknown.error().why.text().find("top-k") != std::string::npos);
    RunSettings nothing = settingsFor("top-k", 2);
    nothing.topKRatio = 0;
    QVERIFY(!planOf(nothing).ok());
    // One rank sends nothing: its plan is that without.
    RunSettings alone = settingsFor("int8", 1);
    const auto coded = planOf(alone);
    alone.compression = "none";
    QVERIFY(coded.ok() && plan::text(*coded) == plan::text(*planOf(alone)));
  }
};

QTEST_GUILESS_MAIN(CompressionTest)
#include "compression_test.moc"
