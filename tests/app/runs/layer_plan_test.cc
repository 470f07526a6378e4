// Where plans place layers: held against the plans' own state and stages.
#include "app/runs/layer_plan.h"

#include <QTest>
#include <algorithm>
#include <set>

#include "app/specs/spec_text.h"
#include "engine/plan/pieces.h"
#include "engine/specs/planned.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

std::shared_ptr<const spec::v1::RunSpec> specOf(const std::string& example,
                                                const std::vector<std::string>& sets) {
  const auto spec =
      loadRunSpec(lockstep::test::sourcePath("resources/examples/") + example + ".yaml", sets);
  if (!spec.ok()) qFatal("%s", spec.error().text().c_str());
  return spec->spec;
}

}  // namespace

class LayerPlanTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void layersHoldTheState_data() {
    QTest::addColumn<QString>("example");
    QTest::addColumn<QStringList>("sets");
    QTest::addColumn<int>("ranks");
    const auto row = [](const char* name, const char* example, const QStringList& sets, int ranks) {
      QTest::newRow(name) << QString(example) << sets << ranks;
    };
    row("one rank", "fashion-cnn", {}, 1);
    row("mirrored", "fashion-resnet", {}, 2);
    row("zero-1", "fashion-mlp", {"strategy.kind=zero-1"}, 4);
    row("zero-3", "gpt-tiny", {"strategy.kind=zero-3"}, 3);
    row("tensor", "gpt-tiny", {"strategy.kind=tensor-parallel"}, 4);
    row("pipeline", "fashion-resnet", {"strategy.kind=pipeline"}, 3);
    row("hybrid", "gpt-tiny",
        {"strategy.kind=pipeline", "strategy.stages=2", "strategy.tensor=2",
         "strategy.micro_batches=3", "model.layers[6].dense.tied="},
        4);
    row("servers", "ctr", {"strategy.kind=parameter-server"}, 3);
    row("adam fp64", "fashion-mlp", {"training.precision=fp64"}, 2);
  }
  void layersHoldTheState() {
    QFETCH(QString, example);
    QFETCH(QStringList, sets);
    QFETCH(int, ranks);
    std::vector<std::string> assignments;
    for (const QString& one : sets) assignments.push_back(one.toStdString());
    const auto spec = specOf(example.toStdString(), assignments);
    const auto made = planLayers(*spec, ranks);
    QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
    const auto planned = specs::makePlanned(*spec, *localCluster(ranks, {}, "shm").spec, {}, {});
    QVERIFY(planned.ok());
    QCOMPARE(std::ssize(made->layers), std::ssize(planned->request.step.layers));
    // All state is of layers: what a rank holds is at most the sum of what one holds of each.
    std::int64_t sum = 0, most = 0, all = 0;
    for (const PlannedLayer& layer : made->layers) sum += layer.stateBytes;
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t held = 0;
      for (const auto& one : plan::piecesHeldBy(planned->plan, rank)) held += one.piece.bytes();
      most = std::max(most, held);
      all += held;
    }
    QVERIFY2(most <= sum && sum <= all,
             qPrintable(QString("%1 %2 %3").arg(most).arg(sum).arg(all)));
    if (ranks == 1) QCOMPARE(sum, most);
    if (planned->plan.mesh.servers() == 0 && planned->plan.mesh.stages() > 1) {
      QCOMPARE(made->stages, planned->plan.mesh.stages());
      std::set<int> stages;
      for (const PlannedLayer& layer : made->layers) stages.insert(layer.stage);
      QCOMPARE(std::ssize(stages), std::ptrdiff_t{made->stages});
      QVERIFY(*stages.rbegin() == made->stages - 1 && *stages.begin() == 0);
      // A layer's parameters are held by ranks of its stage.
      for (const plan::StateSlot& slot : planned->plan.state)
        for (const auto& member : slot.members)
          for (std::size_t i = 0; i < made->layers.size(); ++i)
            if (member.name.starts_with(planned->request.step.layers[i].name + "."))
              QCOMPARE(slot.stage, made->layers[i].stage);
    } else {
      QCOMPARE(made->stages, 1);
    }
  }

  void pinsAreKept() {
    const auto spec = specOf("fashion-cnn", {"strategy.kind=placement",
                                             "strategy.pins=[{layer: conv1, stage: 0}, "
                                             "{layer: flatten1, stage: 1}]"});
    QCOMPARE(leastRanks(*spec), 2);
    const auto made = planLayers(*spec, leastRanks(*spec));
    QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
    std::vector<int> stages;
    for (const PlannedLayer& layer : made->layers) stages.push_back(layer.stage);
    QVERIFY(stages == (std::vector<int>{0, 0, 1, 1}));
  }

  // Whatever the strategy, the least number of ranks is one that it takes.
  void leastRanksAreEnough() {
    for (const char* kind :
         {"multi-worker-mirrored", "mirrored", "zero-2", "pipeline", "tensor-parallel",
          "parameter-server", "central-storage", "local-sgd"}) {
      const auto spec =
          specOf("gpt-tiny", {std::string("strategy.kind=") + kind, "model.layers[6].dense.tied="});
      const auto made = planLayers(*spec, leastRanks(*spec));
      QVERIFY2(made.ok(), made.ok() ? "" : (kind + (": " + made.error().text())).c_str());
    }
    const auto both = specOf("gpt-tiny", {"strategy.kind=pipeline", "strategy.stages=3",
                                          "strategy.tensor=2", "model.layers[6].dense.tied="});
    QCOMPARE(leastRanks(*both), 6);
  }

  // A refusal names the field, so that it can be shown at the layer.
  void refusalsNameTheField() {
    const auto spec = specOf("fashion-mlp", {"strategy.kind=pipeline", "strategy.stages=7"});
    const auto made = planLayers(*spec, 7);
    QVERIFY(!made.ok());
    QVERIFY(!made.error().field.empty() || !made.error().remedies.empty());
  }
};

QTEST_GUILESS_MAIN(LayerPlanTest)
#include "layer_plan_test.moc"
