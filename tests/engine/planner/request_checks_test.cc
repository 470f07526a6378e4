// Requests at the limits of what the planner takes: refused just beyond, with settings that help.
#include <cmath>
#include <random>

#include "engine/ir/ops.h"
#include "tests/engine/planner/requests.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

std::int64_t elementsOf(const planner::PlanRequest& asked) {
  std::int64_t count = 0;
  for (const ir::Parameter& parameter : asked.step.parameters)
    count += elementCount(parameter.shape);
  return count;
}

// What rank 0 receives in a step's all-gathers.
std::int64_t gatheredBytes(const plan::Plan& plan) {
  std::int64_t bytes = 0;
  for (const plan::ScheduleEntry& entry : plan.entriesOf(0)) {
    const plan::Body& body = *plan.find(entry.program, 0);
    const auto bytesOf = [&](plan::BufferId id) {
      return body.buffers[static_cast<std::size_t>(id)].type.bytes();
    };
    for (const plan::Step& step : body.steps)
      if (step.op == ir::Op::kAllGather)
        bytes += bytesOf(step.outputs[0]) - bytesOf(step.inputs[0]);
  }
  return bytes;
}

}  // namespace

class RequestChecksTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // Of R ranks each receives R − 1 payloads of the model's P bytes, where an all-reduce of B bytes
  // moves 2 (R − 1) / R · B: refused where R · P > 2 · B, with a remedy that is taken.
  void compressionThatMovesMore_data() {
    QTest::addColumn<int>("ranks");
    QTest::addColumn<QString>("coding");
    QTest::addColumn<double>("ratio");
    for (const int ranks : {2, 4, 5, 7, 8, 16}) {
      for (const char* coding : {"fp16", "bf16", "int8"})
        QTest::addRow("%s, %d ranks", coding, ranks) << ranks << coding << 0.01;
    }
    QTest::newRow("top-k of all, 2 ranks") << 2 << "top-k" << 1.0;
    std::mt19937 random(22);
    for (int i = 0; i < 24; ++i) {  // on both sides of the limit, which is at 1 / ranks
      const int ranks = std::uniform_int_distribution<>(2, 64)(random);
      const double of = std::uniform_real_distribution<>(0.8, 1.2)(random);
      QTest::addRow("top-k %d, %d ranks", i, ranks) << ranks << "top-k" << of / ranks;
    }
  }
  void compressionThatMovesMore() {
    QFETCH(int, ranks);
    QFETCH(QString, coding);
    QFETCH(double, ratio);
    planner::PlanRequest asked = request(fashionMlp(), ranks, ranks);
    asked.compression = coding.toStdString();
    asked.topKRatio = ratio;
    const std::int64_t count = elementsOf(asked);
    // In f32: of top-k a value and an index each; of int8 a byte each, and a scale for 256
    // together.
    const std::int64_t payload = coding == "top-k"
                                     ? 8 * std::llround(static_cast<double>(count) * ratio)
                                 : coding == "int8" ? (count + 255) / 256 * 4 + (count + 3) / 4 * 4
                                                    : 2 * count;
    const auto made = planner::makePlan(asked, clusterOf(ranks), {});
    QCOMPARE(made.ok(), ranks * payload <= 2 * 4 * count);
    if (made.ok()) {
      const auto encoded = planner::encodedGradients(*made, 0);
      const auto moved = static_cast<double>(encoded.moved);
      QCOMPARE(gatheredBytes(*made), encoded.moved);
      QVERIFY2(moved <= 1.01 * static_cast<double>(encoded.plain),  // groups are padded
               fmt::format("{} and {}", encoded.moved, encoded.plain).c_str());
      return;
    }
    const Error& error = made.error();
    const bool savesInParts = payload <= 4 * count;  // exchanged once, as without compression
    std::vector<Remedy> remedies{{{"strategy.compression", "none"}}};
    if (savesInParts) remedies.push_back({{"strategy.kind", "zero-1"}});
    QVERIFY2(error.code == Code::kInvalidArgument && error.remedies == remedies,
             error.text().c_str());
    for (const char* strategy : {"zero-1", "zero-2", "zero-3"}) {
      asked.strategy = strategy;
      const auto sharded = planner::makePlan(asked, clusterOf(ranks), {});
      QCOMPARE(sharded.ok(), savesInParts);
      if (!sharded.ok()) continue;
      const auto encoded = planner::encodedGradients(*sharded, 0);
      QVERIFY(encoded.payload > 0);
      QVERIFY2(static_cast<double>(encoded.moved) <= 1.01 * static_cast<double>(encoded.plain),
               fmt::format("{} and {}", encoded.moved, encoded.plain).c_str());
    }
    asked.strategy = "multi-worker-mirrored";
    asked.compression = "none";
    QVERIFY(planner::makePlan(asked, clusterOf(ranks), {}).ok());
  }

  // Ordered sums gather (R − 1) · M gradients in M micro-batches on R ranks, where an all-reduce
  // moves 2 (R − 1) / R of them: M · R / 2 times as much, and 64 times at most.
  void orderedSumsOfFewParts() {
    std::mt19937 random(23);
    int taken = 0;
    constexpr int kRounds = 24;
    for (int round = 0; round < kRounds; ++round) {
      const int ranks = std::uniform_int_distribution<>(2, 16)(random);
      planner::PlanRequest asked = request(fashionMlp(), ranks, ranks);
      asked.inOrder = true;
      asked.microBatches = 128 / ranks + std::uniform_int_distribution<>(0, 1)(random);
      const int parts = asked.microBatches * ranks;
      const auto made = planner::makePlan(asked, clusterOf(ranks), {});
      QCOMPARE(made.ok(), parts <= 128);
      if (made.ok()) {
        ++taken;
        std::int64_t sums = 0;
        for (const plan::StateSlot& slot : made->state)
          if (slot.role == plan::StateRole::kGradientSum) sums += slot.type.bytes();
        const double plain = 2.0 * (ranks - 1) / ranks * static_cast<double>(sums);
        QVERIFY(sums > 0);
        QVERIFY2(static_cast<double>(gatheredBytes(*made)) <= 64 * 1.001 * plain,
                 fmt::format("{} ranks: {} of {}", ranks, gatheredBytes(*made), plain).c_str());
        continue;
      }
      const Error& error = made.error();
      QVERIFY(error.code == Code::kInvalidArgument && error.remedies.size() == 2);
      const Setting fewer = error.remedies[0].at(0);
      QCOMPARE(fewer.field, std::string("strategy.deterministic_parts"));
      const int then = std::stoi(fewer.value);
      QVERIFY(then > 0 && then <= 128 && then % ranks == 0 && parts % then == 0);
      QCOMPARE(error.remedies[1], (Remedy{{"strategy.deterministic_parts", "0"}}));
      asked.microBatches = then / ranks;
      QVERIFY(planner::makePlan(asked, clusterOf(ranks), {}).ok());
    }
    QVERIFY(taken > 0 && taken < kRounds);
    // One rank gathers nothing. More than 128 ranks cannot have as few parts.
    planner::PlanRequest alone = request(fashionMlp(), 1, 1);
    alone.inOrder = true;
    alone.microBatches = 1000;
    QVERIFY(planner::makePlan(alone, clusterOf(1), {}).ok());
    planner::PlanRequest many = request(fashionMlp(), 129, 129);
    many.inOrder = true;
    const auto made = planner::makePlan(many, clusterOf(129), {});
    QVERIFY(!made.ok());
    QCOMPARE(made.error().remedies, (std::vector<Remedy>{{{"strategy.deterministic_parts", "0"}}}));
  }
};

QTEST_GUILESS_MAIN(RequestChecksTest)
#include "request_checks_test.moc"
