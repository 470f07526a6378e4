// What `lockstep verify` plays: that it finds what is wrong, and names it.
#include <QTest>

#include "agent/worker_verify.h"
#include "app/runs/verification.h"
#include "app/specs/spec_text.h"
#include "engine/plan/plan.h"
#include "engine/specs/specs.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

using namespace lockstep;

namespace {

constexpr const char* kMlp = LOCKSTEP_SOURCE_DIR "/resources/examples/fashion-mlp.yaml";

Result<app::VerifyCase> caseOf(int ranks, const std::vector<std::string>& sets,
                               app::Precision precision = app::Precision::kSmallDouble) {
  LOCKSTEP_ASSIGN(const app::RunSpecFile spec, app::loadRunSpec(kMlp, sets));
  return app::verifyCase(*spec.spec, *app::localCluster(ranks, "", "shm").spec, precision, 4);
}

const node::v1::VerifyReply::Finding* find(const node::v1::VerifyReply& reply, const char* check) {
  for (const auto& finding : reply.findings())
    if (finding.check() == check) return &finding;
  return nullptr;
}

}  // namespace

class VerifyTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"))
      QSKIP("the data set is not installed (dataset-fashion-mnist)");
  }

  void everyCheckHolds() {
    const auto one = caseOf(3, {"strategy.kind=zero-3"});
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    const auto reply = agent::verifyPlans(*one->request);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    for (const char* check : {"initial weights", "gradients", "losses", "weights at the end", "evaluation",
                              "all ranks", "two plays"}) {
      QVERIFY2(find(*reply, check) != nullptr, check);
      QVERIFY2(find(*reply, check)->holds(), check);
    }
    QVERIFY(find(*reply, "gradients")->difference() < 1e-12);
    QVERIFY(!find(*reply, "gradients")->where().empty());
  }

  // A plan whose gradients of one bucket are not added up over the ranks.
  void aMissingAllReduceIsFound() {
    const auto one = caseOf(2, {});
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    node::v1::VerifyRequest request = *one->request;
    for (std::string* text : {request.mutable_several(), request.mutable_several_probe()}) {
      auto plan = plan::parse(*text);
      QVERIFY(plan.ok());
      int removed = 0;
      for (plan::Program& program : plan->programs)
        for (plan::Body& body : program.bodies)
          if (program.name == "step")
            for (plan::Step& step : body.steps)
              if (step.op == ir::Op::kAllReduce) {
                // The same bytes, of this rank alone.
                step.kind = plan::StepKind::kCompute;
                step.op = ir::Op::kOwn;
                step.attrs = {};
                step.axis.clear();
                step.stream = 0;
                ++removed;
              }
      QVERIFY(removed > 0);
      *text = plan::text(*plan);
    }
    const auto reply = agent::verifyPlans(request);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    QVERIFY(find(*reply, "initial weights")->holds());
    QVERIFY(!find(*reply, "gradients")->holds());
    QVERIFY2(QString::fromStdString(find(*reply, "gradients")->where()).startsWith("dense"),
             find(*reply, "gradients")->where().c_str());
    QVERIFY(!find(*reply, "losses")->holds());
    QVERIFY(!find(*reply, "all ranks")->holds());
    QCOMPARE(find(*reply, "all ranks")->where(), std::string("rank 1 differs from rank 0"));
  }

  void otherInitialWeightsAreFound() {
    const auto one = caseOf(2, {}), other = caseOf(2, {"training.seed=2"});
    QVERIFY(one.ok() && other.ok());
    node::v1::VerifyRequest request = *one->request;
    request.set_several(other->request->several());
    request.set_several_probe(other->request->several_probe());
    const auto reply = agent::verifyPlans(request);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    QVERIFY(!find(*reply, "initial weights")->holds());
    QVERIFY2(QString::fromStdString(find(*reply, "initial weights")->where()).startsWith("dense"),
             find(*reply, "initial weights")->where().c_str());
  }

  void singlePrecisionIsHeldAgainstAnotherOrder() {
    const auto one = caseOf(4, {"strategy.kind=pipeline", "strategy.stages=2", "strategy.micro_batches=4"},
                            app::Precision::kSingle);
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    const auto reply = agent::verifyPlans(*one->request);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    QVERIFY(reply->reordering() > 0 && reply->reordering() < 1e-3);
    for (const auto& finding : reply->findings()) QVERIFY2(finding.holds(), finding.check().c_str());
  }

  void narrowFactorsHoldWithinTheirOwnLimit_data() {
    QTest::addColumn<QString>("precision");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<QStringList>("sets");
    for (const char* precision : {"bf16", "fp16"}) {
      const auto row = [&](const char* name, int ranks, const QStringList& sets) {
        QTest::addRow("%s, %s", precision, name) << precision << ranks << sets;
      };
      row("zero-3", 2, {"strategy.kind=zero-3"});
      row("tensor-parallel", 2, {"strategy.kind=tensor-parallel"});
      row("pipeline", 2, {"strategy.kind=pipeline", "strategy.micro_batches=4", "strategy.schedule=zb-h1"});
      row("zero-3, stages", 4, {"strategy.kind=zero-3", "strategy.stages=2", "strategy.micro_batches=4"});
      row("parameter-server", 2, {"strategy.kind=parameter-server"});
      row("recompute", 2, {"strategy.recompute=full"});
    }
    QTest::addRow("fp16, steps left out") << "fp16" << 2 << QStringList{"training.loss_scale.initial=4294967296"};
  }
  void narrowFactorsHoldWithinTheirOwnLimit() {
    QFETCH(QString, precision);
    QFETCH(int, ranks);
    QFETCH(QStringList, sets);
    std::vector<std::string> all{"training.precision=" + precision.toStdString()};
    for (const QString& one : sets) all.push_back(one.toStdString());
    const auto one = caseOf(ranks, all, app::Precision::kSingle);
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    QCOMPARE(one->request->spec().training().precision(), precision.toStdString());
    const auto reply = agent::verifyPlans(*one->request);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    for (const auto& finding : reply->findings()) {
      qInfo("%s: %.1e of %.1e %s", finding.check().c_str(), finding.difference(), finding.limit(), finding.where().c_str());
      QVERIFY2(finding.holds(), finding.check().c_str());
    }
  }

  void whatIsUnequalByDesignIsSaid() {
    const auto one = caseOf(2, {"strategy.kind=local-sgd", "strategy.local_steps=2"});
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    QVERIFY(!app::unequalByDesign(one->request->spec()).empty());
    const auto reply = agent::verifyPlans(*one->request);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    QVERIFY(find(*reply, "gradients") == nullptr);
    for (const char* check : {"initial weights", "all ranks", "quality", "two plays"}) {
      QVERIFY2(find(*reply, check) != nullptr, check);
      QVERIFY2(find(*reply, check)->holds(), check);
    }
  }

  void whatCannotBeDividedIsRefused() {
    const auto one = caseOf(4, {"strategy.kind=tensor-parallel", "strategy.tensor=3"});
    QVERIFY(!one.ok());
    QVERIFY2(one.error().what.find("tensor is 3; expected a divisor of the 4 ranks") != std::string::npos,
             one.error().text().c_str());
  }

  // Ranks are threads of one process there.
  void tooManyRanksAreRefused() {
    const auto one = caseOf(65, {"training.batch=650"});
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    const auto reply = agent::verifyPlans(*one->request);
    QVERIFY(!reply.ok());
    QVERIFY2(reply.error().what.find("at most 64") != std::string::npos, reply.error().text().c_str());
  }

  void smallVariantsKeepWhatDivides() {
    const auto spec = app::loadRunSpec(LOCKSTEP_SOURCE_DIR "/resources/examples/gpt-tiny.yaml",
                                       {"training.batch=96", "strategy.micro_batches=4"});
    QVERIFY2(spec.ok(), spec.ok() ? "" : spec.error().text().c_str());
    const specs::SmallRun small = specs::smallVariant(*spec->spec, 3);
    QCOMPARE(small.spec.training().batch(), std::int64_t{12});
    QCOMPARE(small.spec.model().layers_size(), spec->spec->model().layers_size());
    QCOMPARE(small.spec.model().layers(1).transformer().heads(), std::int64_t{4});
    QCOMPARE(small.spec.model().layers(0).embedding().units(), std::int64_t{32});
    QVERIFY(specs::toModel(small.spec.model()).ok());
    QVERIFY(std::find(small.changes.begin(), small.changes.end(), "batch 96 → 12") != small.changes.end());
  }
};

QTEST_GUILESS_MAIN(VerifyTest)
#include "verify_test.moc"
