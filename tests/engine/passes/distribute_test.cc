// Groups, placement and partition: text → pass → text.
#include <QTest>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/cluster/cuts.h"
#include "engine/ir/ops.h"
#include "engine/passes/distribute.h"
#include "engine/passes/group.h"
#include "engine/passes/programs.h"
#include "engine/passes/train_graph.h"
#include "tests/support/example_models.h"
#include "tests/support/golden.h"

using namespace lockstep;
using namespace lockstep::testing;
using ir::AxisPlacement;
using ir::Op;
using Kind = AxisPlacement::Kind;

namespace {

const std::vector<std::int64_t> kCuts{0, 22, 43, 64};

ir::Graph stepGraph(const models::Model& model, std::int64_t bucketBytes) {
  const auto built = models::build(model, 64, DType::kF32, models::Use::kTraining);
  if (!built.ok()) qFatal("%s", built.error().text().c_str());
  const auto program =
      passes::stepProgram(*passes::trainGraph(*built), {}, {.bucketBytes = bucketBytes});
  if (!program.ok()) qFatal("%s", program.error().text().c_str());
  return *passes::removeDead(*passes::fuseEpilogues(program->graph));
}

passes::Sources mirrored() {
  passes::Sources sources;
  for (const char* name : {"x", "label", "weight"}) sources[name] = {Kind::kSplit, 0, kCuts};
  sources["stop"] = {Kind::kPartialSum, 0, {}};
  return sources;
}

int countOf(const ir::Graph& graph, Op op) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                        [&](const ir::Node& node) { return node.op == op; }));
}

}  // namespace

class DistributeTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void cutsAreEvenAndLargerFirst() {
    QCOMPARE(cluster::evenCuts(64, 3), kCuts);
    QCOMPARE(cluster::evenCuts(2, 3), (std::vector<std::int64_t>{0, 1, 2, 2}));
    QCOMPARE(cluster::evenCuts(5, 1), (std::vector<std::int64_t>{0, 5}));
  }

  void groupsBeginOnWholeLines() {
    std::vector<ir::Parameter> parameters(4);
    const Shape shapes[] = {{10}, {16}, {3, 7}, {}};
    for (std::size_t i = 0; i < 4; ++i) {
      parameters[i].name = fmt::format("p{}", i);
      parameters[i].shape = shapes[i];
    }
    auto groups = passes::formGroups(parameters, DType::kF32, 1 << 20);
    QCOMPARE(groups.size(), std::size_t{1});
    QCOMPARE(groups[0].count, 16 + 16 + 32 + 16);
    QCOMPARE(groups[0].members[2].element, 32);
    QCOMPARE(groups[0].members[2].padding, 11);
    groups = passes::formGroups(parameters, DType::kF64, 129);
    QCOMPARE(groups.size(), std::size_t{3});  // p0 and p1 make 256 bytes, p2 192
    QCOMPARE(groups[0].members[1].element, 16);
    QCOMPARE(groups[1].members[0].name, std::string("p2"));
    QCOMPARE(groups[2].members[0].padding, 7);
    QVERIFY(passes::formGroups({}, DType::kF32, 1).empty());
  }

  void bucketsFollowTheLink() {
    constexpr std::int64_t kMiB = 1 << 20, kLarge = 4096 * kMiB;
    QCOMPARE(passes::chooseBucketBytes(1e-6, 1e9, kLarge), kMiB);
    QCOMPARE(passes::chooseBucketBytes(1e-3, 1e9, kLarge), 32 * kMiB);
    QCOMPARE(passes::chooseBucketBytes(5e-6, 5e9, kLarge), 1'600'000);
    QCOMPARE(passes::chooseBucketBytes(2e-5, 2e10, kLarge), 25'600'000);  // InfiniBand
    QCOMPARE(passes::chooseBucketBytes(2e-5, 2e10, 512 * kMiB), 16 * kMiB);
    QCOMPARE(passes::chooseBucketBytes(2e-5, 2e10, kMiB), 4 * kMiB);
  }

  // With the latency and with the bandwidth, and with the gradients, between limits; on slow links
  // they do not depend on the gradients.
  void bucketsGrow() {
    constexpr std::int64_t kMiB = 1 << 20;
    std::mt19937 random(47);
    const auto power = [&](double low, double high) {
      return std::pow(10, std::uniform_real_distribution<>(low, high)(random));
    };
    int least = 0, most = 0, between = 0;
    for (int round = 0; round < 400; ++round) {
      const double latency = power(-6, -3), bandwidth = power(7, 11.5), more = power(0, 1);
      const auto gradients = static_cast<std::int64_t>(power(5, 10));
      const std::int64_t bytes = passes::chooseBucketBytes(latency, bandwidth, gradients);
      QVERIFY(bytes >= kMiB && bytes <= 32 * kMiB);
      QVERIFY(bytes <= 4 * kMiB || 32 * bytes <= gradients);
      QVERIFY(passes::chooseBucketBytes(more * latency, bandwidth, gradients) >= bytes);
      QVERIFY(passes::chooseBucketBytes(latency, more * bandwidth, gradients) >= bytes);
      const std::int64_t ofLarge = passes::chooseBucketBytes(latency, bandwidth, 1 << 30);
      QVERIFY(passes::chooseBucketBytes(latency, bandwidth, 2 * gradients) >= bytes);
      if (64 * latency * bandwidth <= 4 * kMiB) QCOMPARE(bytes, ofLarge);
      ++(ofLarge == kMiB ? least : ofLarge == 32 * kMiB ? most : between);
    }
    QVERIFY2(least > 20 && most > 20 && between > 20,
             fmt::format("{} {} {}", least, most, between).c_str());
  }

  void goldens() {
    const auto placed = passes::place(stepGraph(fashionMlp(), 4096), "data", mirrored());
    QVERIFY2(placed.ok(), placed.ok() ? "" : placed.error().text().c_str());
    QVERIFY(ir::verify(*placed).ok());
    QCOMPARE(differsFromGolden("fashion-mlp.placed.txt", ir::text(*placed)), std::string());
    const auto local = passes::localise(*placed, cluster::Mesh({{"data", 3}}), 2);
    QVERIFY2(local.ok(), local.ok() ? "" : local.error().text().c_str());
    QVERIFY(ir::verify(*local).ok());
    QCOMPARE(differsFromGolden("fashion-mlp.local.txt", ir::text(*local)), std::string());
  }

  // One collective a group, and none for the metrics.
  void groupsAreReducedOnceAndWhole() {
    for (const std::int64_t bucket : {1, 4096, 1 << 22}) {
      const ir::Graph graph = stepGraph(fashionCnn(), bucket);
      const auto placed = passes::place(graph, "data", mirrored());
      QVERIFY2(placed.ok(), placed.ok() ? "" : placed.error().text().c_str());
      QCOMPARE(countOf(*placed, Op::kAllReduce), countOf(graph, Op::kFlatten));
      for (const ir::Node& node : placed->nodes()) {
        if (node.op != Op::kAllReduce) continue;
        QCOMPARE(placed->node(placed->value(node.inputs[0]).producer).op, Op::kFlatten);
        QCOMPARE(node.phase, ir::Phase::kBackward);
      }
    }
  }

  void nothingIsInsertedWhereAllIsReplicated() {
    const ir::Graph graph = stepGraph(fashionMlp(), 4096);
    const auto placed = passes::place(graph, "data", {});
    QVERIFY(placed.ok());
    QCOMPARE(countOf(*placed, Op::kAllReduce), 0);
    QCOMPARE(placed->nodes().size(), graph.nodes().size());
  }

  void classesAreByLocalShape() {
    const auto placed = passes::place(stepGraph(fashionMlp(), 4096), "data", mirrored());
    QVERIFY(placed.ok());
    QCOMPARE(passes::localClasses(*placed, cluster::Mesh({{"data", 3}})),
             (std::vector<int>{0, 1, 1}));
    // Along an axis it is not divided over, ranks are of one class.
    QCOMPARE(passes::localClasses(*placed, cluster::Mesh({{"model", 2}, {"data", 3}})),
             (std::vector<int>{0, 1, 1, 0, 1, 1}));
  }

  // Only flat groups are gathered; where nothing helps, the node is named.
  void whatCannotBeReducedIsRefused() {
    ir::Graph graph("refused");
    const auto input = graph.add(
        Op::kInput, "x", {},
        {{"name", std::string("x")}, {"dtype", std::string("f32")}, {"shape", Shape{64, 2}}});
    QVERIFY(input.ok());
    QVERIFY(
        graph.add(Op::kResult, "out", {graph.output(*input)}, {{"name", std::string("out")}}).ok());
    const auto placed = passes::place(graph, "data", mirrored());
    QVERIFY(!placed.ok());
    QCOMPARE(placed.error().code, Code::kInvalidArgument);
    QVERIFY(placed.error().what.text().find("out") != std::string::npos);
  }

  void unknownInitializersAreNamed() {
    auto model = *models::build(fashionMlp(), 8, DType::kF32, models::Use::kTraining);
    model.parameters[0].initializer = "gloriot";
    const auto init = passes::initGraph(model, 1);
    QVERIFY(!init.ok());
    QVERIFY(init.error().what.text().find("gloriot") != std::string::npos);
  }
};

QTEST_GUILESS_MAIN(DistributeTest)
#include "distribute_test.moc"
