// What `lockstep verify` runs: that it finds what is wrong, and names it.
#include <QTemporaryDir>
#include <QTest>

#include <array>
#include <barrier>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <set>

#include "agent/worker/worker_verify.h"
#include "app/runs/preview.h"
#include "app/runs/verification.h"
#include "app/specs/spec_text.h"
#include "engine/base/random.h"
#include "engine/plan/plan.h"
#include "engine/runtime/executor.h"
#include "engine/specs/specs.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/made_up_data.h"
#include "tests/support/paths.h"

using namespace lockstep;

namespace {

const std::string kMlp = test::sourcePath("resources/examples/fashion-mlp.yaml");

const std::string kGpt = test::sourcePath("resources/examples/gpt-tiny.yaml");
const std::string kCnn = test::sourcePath("resources/examples/fashion-cnn.yaml");
const std::string kResnet = test::sourcePath("resources/examples/fashion-resnet.yaml");

Result<app::VerifyCase> caseOf(int ranks, const std::vector<std::string>& sets,
                               app::Precision precision = app::Precision::kSmallDouble,
                               const std::string& model = kMlp, std::int64_t steps = 4) {
  LOCKSTEP_ASSIGN(const app::RunSpecFile spec, app::loadRunSpec(model, sets));
  return app::verifyCase(*spec.spec, *app::localCluster(ranks, "", "shm").spec, precision, steps);
}

std::string text(const node::v1::VerifyReply& reply) {
  std::string out;
  for (const auto& finding : reply.findings())
    out += fmt::format("{}{}{}: {:.1e} of {:.1e} {}\n", finding.holds() ? "" : "! ",
                       finding.undecided() ? "? " : "", finding.check(), finding.difference(),
                       finding.limit(), finding.where());
  return out;
}
bool holds(const node::v1::VerifyReply& reply) {
  return std::all_of(reply.findings().begin(), reply.findings().end(),
                     [](const auto& finding) { return finding.holds(); });
}

// What is wrong with a kernel of a rank: called with its spec and the kernel in the place of run().
using Fault = std::function<void(const backends::KernelSpec& spec, backends::Kernel& kernel)>;

class Faulty final : public backends::Backend {
 public:
  Faulty(std::unique_ptr<backends::Backend> inner,
         std::function<Fault(const backends::KernelSpec&)> faultOf)
      : inner_(std::move(inner)), faultOf_(std::move(faultOf)) {}
  std::string_view name() const override { return inner_->name(); }
  bool supports(ir::Op op, DType dtype) const override { return inner_->supports(op, dtype); }
  device::Device* device() override { return inner_->device(); }
  Result<std::unique_ptr<backends::Kernel>> bind(const backends::KernelSpec& spec) override {
    struct Wrong final : backends::Kernel {
      std::unique_ptr<backends::Kernel> inner;
      backends::KernelSpec spec;
      Fault fault;
      void run() override { fault(spec, *inner); }
      std::int64_t workspaceBytes() const override { return inner->workspaceBytes(); }
    };
    LOCKSTEP_ASSIGN(std::unique_ptr<backends::Kernel> kernel, inner_->bind(spec));
    Fault fault = faultOf_(spec);
    if (!fault) return kernel;
    auto wrong = std::make_unique<Wrong>();
    wrong->inner = std::move(kernel);
    wrong->spec = spec;
    wrong->fault = std::move(fault);
    return std::unique_ptr<backends::Kernel>(std::move(wrong));
  }

 private:
  std::unique_ptr<backends::Backend> inner_;
  std::function<Fault(const backends::KernelSpec&)> faultOf_;
};

void scale(const backends::Operand& x, std::int64_t first, std::int64_t count, double factor) {
  for (std::int64_t i = first; i < first + count; ++i) {
    if (x.type.dtype == DType::kF64)
      static_cast<double*>(x.data)[i] *= factor;
    else
      static_cast<float*>(x.data)[i] *= static_cast<float>(factor);
  }
}

// Of kernels of one op on one rank (-1: on all), every run of it.
agent::WrapBackend fault(ir::Op op, int rank, const std::function<Fault()>& make) {
  return [=](int mine,
             std::unique_ptr<backends::Backend> inner) -> std::unique_ptr<backends::Backend> {
    if (rank >= 0 && mine != rank) return inner;
    auto first = std::make_shared<bool>(true);
    return std::make_unique<Faulty>(std::move(inner), [=](const backends::KernelSpec& spec) {
      if (spec.op != op || !*first) return Fault();
      if (op == ir::Op::kAdam) *first = false;  // one bucket's
      return make();
    });
  };
}

// An all-reduce over two ranks, threads of this process, in the place of a plan's.
class SharedSum {
 public:
  void add(int rank, const backends::Operand& mine) {
    operands_[static_cast<std::size_t>(rank)] = mine;
    barrier_.arrive_and_wait();
    std::vector<double> sum(static_cast<std::size_t>(mine.type.count()));
    for (const backends::Operand& one : operands_)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += runtime::readFloat(one, i);
    barrier_.arrive_and_wait();
    for (std::size_t i = 0; i < sum.size(); ++i) runtime::writeFloat(mine, i, sum[i]);
  }

 private:
  std::barrier<> barrier_{2};
  std::array<backends::Operand, 2> operands_;
};

// The step that leaveOneOut() has put in the place of an all-reduce adds up gradients after all,
// but not in those steps of those runs of the plan that are faulty.
using Pattern = std::function<bool(int run, int step)>;
agent::WrapBackend onlySometimesReduced(const std::string& name, const Pattern& isFaulty) {
  auto sum = std::make_shared<SharedSum>();
  auto runs = std::make_shared<std::array<int, 2>>();
  return [=](int rank,
             std::unique_ptr<backends::Backend> inner) -> std::unique_ptr<backends::Backend> {
    const int run = (*runs)[static_cast<std::size_t>(rank)]++;
    return std::make_unique<Faulty>(std::move(inner), [=](const backends::KernelSpec& spec) {
      if (spec.op != ir::Op::kPartialToLocal || spec.name != name) return Fault();
      return Fault([=, step = 0](const backends::KernelSpec& of, backends::Kernel& kernel) mutable {
        kernel.run();
        if (!isFaulty(run, step++)) sum->add(rank, of.outputs[0]);
      });
    });
  };
}

// The kernel's second run of all leaves everything as it was: the next step has parameters of the
// step before.
Fault stale() {
  return [runs = 0](const backends::KernelSpec& spec, backends::Kernel& kernel) mutable {
    if (++runs != 2) return kernel.run();
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
      const backends::Operand& from = spec.inputs[i == 0 ? 0 : i + 1];
      if (spec.outputs[i].data != from.data)
        std::memcpy(spec.outputs[i].data, from.data, static_cast<std::size_t>(from.type.bytes()));
    }
  };
}

// Gradients of the first bucket, or of all, of a plan of several ranks are not added up over the
// ranks. Returns the names of these steps.
std::set<std::string> leaveOneOut(std::string* text, bool all) {
  auto plan = plan::parse(*text);
  if (!plan.ok()) return {};
  std::set<std::string> removed;
  for (plan::Program& program : plan->programs)
    for (plan::Body& body : program.bodies) {
      bool found = false;
      if (program.name != "step") continue;
      for (plan::Step& step : body.steps) {
        if (step.op != ir::Op::kAllReduce || (found && !all)) continue;
        // The same bytes, of this rank alone.
        step.kind = plan::StepKind::kCompute;
        step.op = ir::Op::kPartialToLocal;
        step.attrs = {};
        step.axis.clear();
        step.stream = 0;
        found = true;
        removed.insert(step.name);
      }
    }
  *text = plan::text(*plan);
  return removed;
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
    for (const char* check : {"initial weights", "gradients", "losses", "weights at the end",
                              "evaluation", "all ranks", "two runs"}) {
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
      QVERIFY(!leaveOneOut(text, true).empty());
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

  void singlePrecisionIsHeldAgainstRounding() {
    const auto one =
        caseOf(4, {"strategy.kind=pipeline", "strategy.stages=2", "strategy.micro_batches=4"},
               app::Precision::kSingle);
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    const auto reply = agent::verifyPlans(*one->request);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    QVERIFY(reply->rounding() > 0 && reply->rounding() < 1e-4);
    QVERIFY2(holds(*reply), text(*reply).c_str());
  }

  // Limits are stretched by what rounding does to one rank, and end where they are said to.
  void limitsEndSomewhere() {
    for (const char* precision : {"fp32", "tf32", "bf16", "fp16", "fp64"}) {
      const runtime::Limits limits = runtime::limitsOf(precision);
      for (const runtime::Tolerance& each :
           {limits.gradients, limits.scale, limits.updates, limits.losses}) {
        QCOMPARE(each.of(0), each.least);
        QVERIFY(each.decides(0) && each.decides(each.most / 4));
        QVERIFY(!each.decides(each.most / 3.9) && !each.decides(INFINITY));
        QVERIFY(each.least <= each.most && each.most <= 0.125);
      }
    }
  }

  // What is wrong by little is found in every precision.
  void faultsAreFound_data() {
    QTest::addColumn<QString>("precision");
    QTest::addColumn<bool>("cnn");
    QTest::addColumn<QString>("what");
    for (const char* precision : {"fp64", "fp32", "tf32", "bf16", "fp16"})
      for (const bool cnn : {false, true})  // which has kinks
        for (const char* what :
             {"nothing", "a rank's gradients 1.001 times as long", "a sample left out",
              "a bucket not added up", "parameters of the step before",
              "a rank's weight gradient 1.001 times as long"})
          if (cnn || precision == std::string_view("bf16"))
            QTest::addRow("%s, %s: %s", precision, cnn ? "cnn" : "mlp", what)
                << precision << cnn << what;
  }
  void faultsAreFound() {
    QFETCH(QString, precision);
    QFETCH(bool, cnn);
    QFETCH(QString, what);
    std::vector<std::string> sets{"strategy.bucket_bytes=3000"};
    if (precision != "fp64") sets.push_back("training.precision=" + precision.toStdString());
    const auto one = caseOf(
        2, sets, precision == "fp64" ? app::Precision::kSmallDouble : app::Precision::kSmallSingle,
        cnn ? kCnn : kMlp);
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    node::v1::VerifyRequest request = *one->request;
    agent::WrapBackend wrap;
    if (what == "a rank's gradients 1.001 times as long")
      wrap = fault(ir::Op::kSoftmaxXentGrad, 1, [] {
        return [](const backends::KernelSpec& spec, backends::Kernel& kernel) {
          kernel.run();
          scale(spec.outputs[0], 0, spec.outputs[0].type.count(), 1.001);
        };
      });
    if (what == "a rank's weight gradient 1.001 times as long")
      wrap = fault(cnn ? ir::Op::kConv2dWeightGrad : ir::Op::kReduceRows, 1, [] {
        return [](const backends::KernelSpec& spec, backends::Kernel& kernel) {
          kernel.run();
          scale(spec.outputs[0], 0, spec.outputs[0].type.count(), 1.001);
        };
      });
    if (what == "a sample left out")
      wrap = fault(ir::Op::kSoftmaxXentGrad, 1, [] {
        return [](const backends::KernelSpec& spec, backends::Kernel& kernel) {
          kernel.run();
          scale(spec.outputs[0], 0, spec.outputs[0].type.shape[1], 0);
        };
      });
    if (what == "parameters of the step before") wrap = fault(ir::Op::kAdam, -1, stale);
    if (what == "a bucket not added up")
      for (std::string* plan : {request.mutable_several(), request.mutable_several_probe()})
        QVERIFY(!leaveOneOut(plan, false).empty());
    const auto reply = agent::verifyPlans(request, &known_, wrap);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    qInfo("%s", text(*reply).c_str());
    QVERIFY2(holds(*reply) == (what == "nothing"), text(*reply).c_str());
    for (const auto& finding : reply->findings())
      QVERIFY2(!finding.undecided(), text(*reply).c_str());
  }

  // A fault that comes and goes is found: all that excuses a difference is measured on one rank.
  void faultsThatComeAndGoAreFound_data() {
    QTest::addColumn<QString>("precision");
    QTest::addColumn<QString>("when");
    QTest::addColumn<int>("seed");
    for (const char* precision : {"fp64", "fp32", "tf32", "bf16", "fp16"}) {
      QTest::addRow("%s, never", precision) << precision << "never" << 0;
      for (int first = 0; first < 3; ++first)
        QTest::addRow("%s, one of three runs, from run %d", precision, first)
            << precision << "every third run" << first;
      for (int seed = 1; seed <= 3; ++seed)
        for (const char* when : {"runs at random", "steps at random"})
          QTest::addRow("%s, %s, seed %d", precision, when, seed) << precision << when << seed;
    }
  }
  void faultsThatComeAndGoAreFound() {
    QFETCH(QString, precision);
    QFETCH(QString, when);
    QFETCH(int, seed);
    std::vector<std::string> sets{"strategy.bucket_bytes=3000"};
    if (precision != "fp64") sets.push_back("training.precision=" + precision.toStdString());
    const auto one = caseOf(
        2, sets, precision == "fp64" ? app::Precision::kSmallDouble : app::Precision::kSmallSingle,
        kCnn);
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    node::v1::VerifyRequest request = *one->request;
    std::string name;
    for (std::string* plan : {request.mutable_several(), request.mutable_several_probe()}) {
      const std::set<std::string> names = leaveOneOut(plan, false);
      QCOMPARE(names.size(), std::size_t{1});
      name = *names.begin();
    }
    const auto oneOfThree = [seed](int index) {
      return randomBits(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(index)) % 3 ==
             0;
    };
    const auto reply =
        agent::verifyPlans(request, &known_, onlySometimesReduced(name, [=](int run, int step) {
                             return when == "every third run"   ? run % 3 == seed
                                    : when == "runs at random"  ? oneOfThree(run)
                                    : when == "steps at random" ? oneOfThree(1000 * run + step)
                                                                : false;
                           }));
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    qInfo("%s", text(*reply).c_str());
    QVERIFY2(holds(*reply) == (when == "never"), text(*reply).c_str());
  }

  // In a residual network with batch norm one operand that is rounded otherwise moves all
  // gradients by 1 % in bf16: fp64 sums decide, and find what is wrong.
  void batchNormIsDecidedByDoubleSums_data() {
    QTest::addColumn<QString>("precision");
    QTest::addColumn<QString>("what");
    for (const char* precision : {"bf16", "fp16"})
      for (const char* what :
           {"nothing", "a rank's weight gradient 1.001 times as long", "a sample left out",
            "a bucket not added up", "a bucket not added up in one of three runs"})
        QTest::addRow("%s: %s", precision, what) << precision << what;
  }
  void batchNormIsDecidedByDoubleSums() {
    QFETCH(QString, precision);
    QFETCH(QString, what);
    const auto one =
        caseOf(2, {"training.precision=" + precision.toStdString(), "strategy.bucket_bytes=100000"},
               app::Precision::kSmallSingle, kResnet);
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    node::v1::VerifyRequest request = *one->request;
    agent::WrapBackend wrap;
    if (what == "a rank's weight gradient 1.001 times as long")
      wrap = fault(ir::Op::kConv2dWeightGrad, 1, [] {
        return [](const backends::KernelSpec& spec, backends::Kernel& kernel) {
          kernel.run();
          scale(spec.outputs[0], 0, spec.outputs[0].type.count(), 1.001);
        };
      });
    if (what == "a sample left out")
      wrap = fault(ir::Op::kSoftmaxXentGrad, 1, [] {
        return [](const backends::KernelSpec& spec, backends::Kernel& kernel) {
          kernel.run();
          scale(spec.outputs[0], 0, spec.outputs[0].type.shape[1], 0);
        };
      });
    if (what.startsWith("a bucket not added up")) {
      std::string name;
      for (std::string* plan : {request.mutable_several(), request.mutable_several_probe()}) {
        const std::set<std::string> names = leaveOneOut(plan, false);
        QCOMPARE(names.size(), std::size_t{1});
        name = *names.begin();
      }
      if (what.endsWith("in one of three runs"))
        wrap = onlySometimesReduced(name, [](int run, int) { return run % 3 == 1; });
    }
    const auto reply = agent::verifyPlans(request, &known_, wrap);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    qInfo("%s", text(*reply).c_str());
    QVERIFY2(holds(*reply) == (what == "nothing"), text(*reply).c_str());
    const auto* exact = find(*reply, "fp64 sums");
    QVERIFY2(exact != nullptr && exact->holds() == (what == "nothing"), text(*reply).c_str());
    for (const auto& finding : reply->findings())
      QVERIFY2(!finding.undecided(), text(*reply).c_str());
  }

  // Adagrad with weight decay makes steps as long as any of a gradient that is 0 but for rounding,
  // as that of a key's bias: the tensor's other elements decide, and what is wrong with them is
  // found.
  void whatRoundingAloneMovesIsLeftOut() {
    QTemporaryDir folder;
    const std::string text = testing::madeUpText(folder.path().toStdString());
    const auto one =
        caseOf(2,
               {"model.layers[0].embedding.units=16", "model.input.shape[0]=16",
                "data.train.text=" + text, "data.evaluate.text=" + text,
                "training.optimizer.kind=adagrad", "training.optimizer.learning_rate=0.01",
                "training.optimizer.weight_decay=0.01", "training.optimizer.decay_matrices_only=",
                "training.optimizer.beta2=", "training.optimizer.clip_norm=", "training.schedule="},
               app::Precision::kSmallDouble, kGpt);
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    auto reply = agent::verifyPlans(*one->request);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    const auto* weights = find(*reply, "weights at the end");
    QVERIFY2(holds(*reply) && !weights->undecided(), ::text(*reply).c_str());
    QVERIFY2(weights->where().find("elements that rounding alone moves") != std::string::npos,
             ::text(*reply).c_str());
    reply = agent::verifyPlans(*one->request, nullptr, fault(ir::Op::kSoftmaxXentGrad, 1, [] {
      return [](const backends::KernelSpec& spec, backends::Kernel& kernel) {
        kernel.run();
        scale(spec.outputs[0], 0, spec.outputs[0].type.count(), 1.001);
      };
    }));
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    QVERIFY2(!find(*reply, "weights at the end")->holds() && !find(*reply, "gradients")->holds(),
             ::text(*reply).c_str());
  }

  // The gradient of a bias before a batch norm is 0 but for rounding: it is held against what all
  // gradients are, and what is wrong with it is found.
  void aGradientOfZeroSaysNothingOfItself_data() {
    QTest::addColumn<int>("precision");
    QTest::newRow("fp64") << static_cast<int>(app::Precision::kSmallDouble);
    QTest::newRow("fp32") << static_cast<int>(app::Precision::kSmallSingle);
  }
  void aGradientOfZeroSaysNothingOfItself() {
    QFETCH(int, precision);
    const auto one = caseOf(
        2,
        {"model.layers=[{conv2d: {filters: 8, kernel: 3}}, {batch_norm: {activation: relu}}, "
         "{max_pool2d: {size: 2}}, {flatten: {}}, {dense: {units: 10}}]"},
        static_cast<app::Precision>(precision), kCnn);
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    auto reply = agent::verifyPlans(*one->request);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    QVERIFY2(holds(*reply), text(*reply).c_str());
    for (const auto& finding : reply->findings())
      QVERIFY2(!finding.undecided(), text(*reply).c_str());
    reply = agent::verifyPlans(*one->request, nullptr, fault(ir::Op::kReduceRows, 1, [] {
      return [](const backends::KernelSpec& spec, backends::Kernel& kernel) {
        kernel.run();
        const std::int64_t filters = spec.outputs[0].type.count();
        if (filters == 10) return;  // of the classes
        for (std::int64_t i = 0; i < filters; ++i) {
          if (spec.outputs[0].type.dtype == DType::kF64)
            static_cast<double*>(spec.outputs[0].data)[i] += 1e-3;
          else
            static_cast<float*>(spec.outputs[0].data)[i] += 1e-3f;
        }
      };
    }));
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    QVERIFY2(!find(*reply, "gradients")->holds(), text(*reply).c_str());
  }

  // Adagrad makes long steps of the gradient of a bias before a batch norm, which is 0 but for
  // rounding: all of the tensor is set aside, and says nothing.
  void aTensorSetAsideIsUndecided() {
    const auto one = caseOf(
        2,
        {"model.layers=[{conv2d: {filters: 8, kernel: 3}}, {batch_norm: {activation: relu}}, "
         "{max_pool2d: {size: 2}}, {flatten: {}}, {dense: {units: 10}}]",
         "training.optimizer={kind: adagrad, learning_rate: 0.01}"},
        app::Precision::kSmallDouble, kCnn);
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    const auto reply = agent::verifyPlans(*one->request);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    qInfo("%s", text(*reply).c_str());
    QVERIFY2(holds(*reply) && find(*reply, "weights at the end")->undecided(),
             text(*reply).c_str());
    QVERIFY2(!find(*reply, "gradients")->undecided(), text(*reply).c_str());
  }

  void operands16HoldWithinTheirOwnLimit_data() {
    QTest::addColumn<QString>("precision");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<QStringList>("sets");
    for (const char* precision : {"bf16", "fp16"}) {
      const auto row = [&](const char* name, int ranks, const QStringList& sets) {
        QTest::addRow("%s, %s", precision, name) << precision << ranks << sets;
      };
      row("zero-3", 2, {"strategy.kind=zero-3"});
      row("tensor-parallel", 2, {"strategy.kind=tensor-parallel"});
      row("pipeline", 2,
          {"strategy.kind=pipeline", "strategy.micro_batches=4", "strategy.schedule=zb-h1"});
      row("zero-3, stages", 4,
          {"strategy.kind=zero-3", "strategy.stages=2", "strategy.micro_batches=4"});
      row("parameter-server", 2, {"strategy.kind=parameter-server"});
      row("recompute", 2, {"strategy.recompute=full"});
    }
    QTest::addRow("fp16, steps left out")
        << "fp16" << 2 << QStringList{"training.loss_scale.initial=4294967296"};
  }
  void operands16HoldWithinTheirOwnLimit() {
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
    qInfo("%s", text(*reply).c_str());
    QVERIFY2(holds(*reply), text(*reply).c_str());
  }

  void whatIsUnequalByDesignIsSaid() {
    const auto one = caseOf(2, {"strategy.kind=local-sgd", "strategy.local_steps=2"});
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    QVERIFY(!app::unequalByDesign(one->request->spec()).empty());
    const auto reply = agent::verifyPlans(*one->request);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    QVERIFY(find(*reply, "gradients") == nullptr);
    for (const char* check : {"initial weights", "all ranks", "quality", "two runs"}) {
      QVERIFY2(find(*reply, check) != nullptr, check);
      QVERIFY2(find(*reply, check)->holds(), check);
    }
  }

  void whatCannotBeDividedIsRefused() {
    const auto one = caseOf(4, {"strategy.kind=tensor-parallel", "strategy.tensor=3"});
    QVERIFY(!one.ok());
    QVERIFY2(one.error().what.text().find("tensor is 3; expected a divisor of the 4 ranks") !=
                 std::string::npos,
             one.error().text().c_str());
  }

  // Ranks are threads of one process there.
  void tooManyRanksAreRefused() {
    const auto one = caseOf(65, {"training.batch=650"});
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    const auto reply = agent::verifyPlans(*one->request);
    QVERIFY(!reply.ok());
    QVERIFY2(reply.error().what.text().find("at most 64") != std::string::npos,
             reply.error().text().c_str());
  }

  // As many steps as are asked for, whatever is compared.
  void stepsAreThoseAskedFor() {
    for (const char* kind :
         {"strategy.compression=int8", "strategy.kind=local-sgd", "strategy.kind=zero-1"})
      for (const std::int64_t steps : {1, 3, 17}) {
        const auto one = caseOf(2, {kind}, app::Precision::kSmallDouble, kMlp, steps);
        QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
        QCOMPARE(one->request->steps(), steps);
      }
    QCOMPARE(caseOf(2, {"strategy.compression=int8"}, app::Precision::kSmallDouble, kMlp, 0)
                 ->request->steps(),
             app::kQualitySteps);
    QCOMPARE(caseOf(2, {}, app::Precision::kSmallDouble, kMlp, 0)->request->steps(),
             app::kEqualSteps);
  }

  // What can be planned can be verified, with fewer samples where that is possible.
  void whatIsPlannedIsVerified_data() {
    QTest::addColumn<int>("ranks");
    QTest::addColumn<QStringList>("sets");
    QTest::addColumn<int>("batch");
    QTest::addRow("12 ranks") << 12 << QStringList{"training.batch=100"} << 12;
    QTest::addRow("10 micro-batches")
        << 2 << QStringList{"training.batch=30", "strategy.micro_batches=10"} << 20;
    QTest::addRow("shares") << 3 << QStringList{"training.batch=64", "strategy.shares=[20, 1, 1]"}
                            << 17;
    QTest::addRow("shares of micro-batches")
        << 3
        << QStringList{"training.batch=128", "strategy.shares=[20, 1, 1]",
                       "strategy.micro_batches=2"}
        << 34;
    QTest::addRow("stages") << 6
                            << QStringList{"strategy.kind=pipeline", "strategy.stages=2",
                                           "training.batch=36", "strategy.micro_batches=3"}
                            << 9;
    for (const int batch : {100, 37, 7})
      QTest::addRow("local steps of %d", batch)
          << 2 << QStringList{"strategy.kind=local-sgd", QString("training.batch=%1").arg(batch)}
          << -1;
  }
  void whatIsPlannedIsVerified() {
    QFETCH(int, ranks);
    QFETCH(QStringList, sets);
    QFETCH(int, batch);
    std::vector<std::string> all;
    for (const QString& one : sets) all.push_back(one.toStdString());
    const auto one = caseOf(ranks, all, app::Precision::kSmallDouble, kMlp, 3);
    QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
    if (batch > 0) QCOMPARE(one->request->spec().training().batch(), std::int64_t{batch});
    const auto reply = agent::verifyPlans(*one->request);
    QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
    QVERIFY2(holds(*reply), text(*reply).c_str());
  }

  // Sums of weights that are not exactly 1 are no matter of initial weights.
  void initialWeightsOfLocalSgd_data() {
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("batch");
    QTest::addColumn<int>("steps");
    QTest::addRow("7 over 2") << 2 << 7 << 1;
    QTest::addRow("12 over 3 in 3 steps") << 3 << 12 << 3;
    QTest::addRow("chosen") << 5 << 30 << 0;
  }
  void initialWeightsOfLocalSgd() {
    QFETCH(int, ranks);
    QFETCH(int, batch);
    QFETCH(int, steps);
    const QTemporaryDir folder;
    const std::string file = gpt(folder, 3, 192, 3, 100);
    for (const app::Precision precision :
         {app::Precision::kSmallDouble, app::Precision::kSmallSingle}) {
      const auto one = caseOf(ranks,
                              {"strategy.kind=local-sgd", fmt::format("training.batch={}", batch),
                               fmt::format("strategy.local_steps={}", steps)},
                              precision, file.c_str(), 2);
      QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
      const auto reply = agent::verifyPlans(*one->request);
      QVERIFY2(reply.ok(), reply.ok() ? "" : reply.error().text().c_str());
      QVERIFY2(holds(*reply), text(*reply).c_str());
    }
  }

  // Whatever is drawn: what has a plan has a certificate, and what is refused is refused for the
  // same reason.
  void drawnRuns_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 1; seed <= 24; ++seed) QTest::addRow("%d", seed) << seed;
  }
  void drawnRuns() {
    QFETCH(int, seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto among = [&](auto... all) {
      const std::array values{all...};
      return values[random() % values.size()];
    };
    const QTemporaryDir folder;
    const int heads = among(1, 2, 3), ranks = among(2, 3, 4, 5, 6);
    const std::string file =
        random() % 2 == 0
            ? std::string(among(kMlp, kCnn))
            : gpt(folder, among(1, 2, 3), heads * among(8, 12, 16), heads, among(5, 16, 33));
    std::vector<std::string> sets{
        fmt::format("training.batch={}", among(7, 12, 24, 30, 37, 64, 100))};
    const std::string kind =
        among("mirrored", "multi-worker-mirrored", "zero-1", "zero-2", "zero-3", "tensor-parallel",
              "pipeline", "local-sgd", "parameter-server");
    sets.push_back("strategy.kind=" + kind);
    if (kind == "local-sgd")
      sets.push_back(fmt::format("strategy.local_steps={}", among(0, 0, 1, 2, 3)));
    else if (random() % 2 == 0)
      sets.push_back(fmt::format("strategy.micro_batches={}", among(2, 3, 5, 10)));
    if (kind == "parameter-server" && random() % 2 == 0)
      sets.push_back(fmt::format("strategy.staleness={}", among(1, 2, -1)));
    if (kind == "pipeline") sets.push_back(fmt::format("strategy.stages={}", among(2, 3)));
    // On more ranks fp16 and bf16 are refused in fp32, and not in fp64, whose gradients are larger.
    if (random() % 5 == 0)
      sets.push_back(
          fmt::format("strategy.compression={}", ranks <= 4 || kind.starts_with("zero-")
                                                     ? among("fp16", "bf16", "int8", "top-k")
                                                     : among("int8", "top-k")));
    if (random() % 4 == 0) {
      std::string shares;
      for (int rank = 0; rank < ranks; ++rank)
        shares += fmt::format("{}{}", rank > 0 ? ", " : "", among(1, 2, 5, 20));
      sets.push_back("strategy.shares=[" + shares + "]");
    }
    if (random() % 3 == 0)
      sets.push_back(fmt::format("strategy.bucket_bytes={}", among(1000, 20'000)));
    const std::string label = fmt::format("{} ranks, {}: {}", ranks, file, fmt::join(sets, " "));
    qInfo("%s", label.c_str());
    const auto spec = app::loadRunSpec(file, sets);
    if (!spec.ok()) return;  // what does not read is for other tests
    app::LaunchRequest request;
    request.spec = spec->spec;
    request.cluster = app::localCluster(ranks, "", "shm").spec;
    const auto planned = app::makePreview(request, {});
    const app::Precision precision = among(
        app::Precision::kSmallDouble, app::Precision::kSmallDouble, app::Precision::kSmallSingle);
    const std::int64_t steps = among(2, 3, 5);
    const auto one = app::verifyCase(*spec->spec, *request.cluster, precision, steps);
    const std::string why = !one.ok()       ? one.error().text()
                            : !planned.ok() ? planned.error().text()
                                            : "";
    QVERIFY2(planned.ok() == one.ok(), (label + ": " + why).c_str());
    if (!one.ok()) return;
    QCOMPARE(one->request->steps(), steps);
    const auto reply = agent::verifyPlans(*one->request);
    QVERIFY2(reply.ok(), (label + ": " + (reply.ok() ? "" : reply.error().text())).c_str());
    QVERIFY2(holds(*reply), (label + ":\n" + text(*reply)).c_str());
  }

  void smallVariantsKeepWhatDivides() {
    const auto spec =
        app::loadRunSpec(lockstep::test::sourcePath("resources/examples/gpt-tiny.yaml"),
                         {"training.batch=96", "strategy.micro_batches=4"});
    QVERIFY2(spec.ok(), spec.ok() ? "" : spec.error().text().c_str());
    const specs::SmallRun small = specs::smallVariant(*spec->spec, 3, 1);
    QCOMPARE(small.spec.training().batch(), std::int64_t{12});
    QCOMPARE(small.spec.model().layers_size(), spec->spec->model().layers_size());
    QCOMPARE(small.spec.model().layers(1).transformer().heads(), std::int64_t{4});
    QCOMPARE(small.spec.model().layers(0).embedding().units(), std::int64_t{32});
    QVERIFY(specs::toModel(small.spec.model()).ok());
    QVERIFY(std::find(small.changes.begin(), small.changes.end(), "batch 96 → 12") !=
            small.changes.end());
  }

  // A layer with as many units as there are channels is narrowed with them, but not the last: it
  // has the vocabulary.
  void smallVariantsKeepTheVocabulary() {
    QTemporaryDir folder;
    const auto spec = app::loadRunSpec(gpt(folder, 1, 256, 4, 16));
    QVERIFY2(spec.ok(), spec.ok() ? "" : spec.error().text().c_str());
    const specs::SmallRun run = specs::smallVariant(*spec->spec, 1, 1);
    const auto& small = run.spec.model();
    QCOMPARE(small.layers(0).embedding().units(), std::int64_t{32});
    QCOMPARE(small.layers(small.layers_size() - 1).dense().units(), std::int64_t{256});
    QVERIFY(specs::toModel(small).ok());
  }

  // Layers that are added up are as wide as each other in the small variant too, or all stay as
  // they are.
  void smallVariantsFitTogether_data() {
    QTest::addColumn<QString>("model");
    QTest::addColumn<int>("width");  // of the first layer
    const auto text = [](int one, int other) {
      return QString(
                 "  input: {shape: [8], vocabulary: 256}\n  layers:\n"
                 "    - {name: a, embedding: {units: %1}}\n"
                 "    - {name: b, inputs: [input], embedding: {units: %2}}\n"
                 "    - {name: c, inputs: [a, b], concat: {}}\n"
                 "    - {name: d, dense: {units: %3}}\n"
                 "    - {inputs: [c, d], add: {}}\n    - dense: {units: 256}\n"
                 "data:\n  train: {text: a.txt}\n  evaluate: {text: a.txt}\n")
          .arg(one)
          .arg(other)
          .arg(one + other);
    };
    QTest::newRow("joined channels") << text(12, 12) << 8;
    QTest::newRow("joined channels of two widths") << text(12, 6) << 12;
    QTest::newRow("filters and units")
        << "  input: {shape: [8, 8, 1]}\n  layers:\n    - conv2d: {filters: 32, kernel: 3}\n"
           "    - {name: c, global_average_pool: {}}\n"
           "    - {name: d, dense: {units: 32}}\n"
           "    - {inputs: [c, d], add: {}}\n    - dense: {units: 10}\n"
           "data:\n  train: {images: a, labels: b}\n  evaluate: {images: a, labels: b}\n"
        << 32;
  }
  void smallVariantsFitTogether() {
    QFETCH(QString, model);
    QFETCH(int, width);
    QTemporaryDir folder;
    const std::string path = folder.filePath("joined.yaml").toStdString();
    std::ofstream(path) << "version: 1\nmodel:\n  name: joined\n" << model.toStdString();
    const auto spec = app::loadRunSpec(path);
    QVERIFY2(spec.ok(), spec.ok() ? "" : spec.error().text().c_str());
    const specs::SmallRun small = specs::smallVariant(*spec->spec, 2, 1);
    const auto built = specs::toModel(small.spec.model());
    QVERIFY2(built.ok(), built.ok() ? "" : built.error().text().c_str());
    QCOMPARE(built->layers[0].units, std::int64_t{width});
  }

  // Hidden units stay divisible by the ranks that share a layer.
  void smallVariantsOfSharedLayers() {
    const auto shared = caseOf(3, {"model.layers[1].dense.units=1536",
                                   "strategy.kind=tensor-parallel", "strategy.tensor=3"});
    QVERIFY2(shared.ok(), shared.ok() ? "" : shared.error().text().c_str());
    QVERIFY(std::ranges::find(shared->changes, "units 1536 → 510") != shared->changes.end());
  }

  void smallVariantsOfWideNetworks_data() {
    QTest::addColumn<QString>("hidden");
    QTest::addColumn<QList<int>>("units");
    QTest::newRow("wide") << "    - dense: {units: 6000}\n    - dense: {units: 300}\n"
                          << QList<int>{512, 300, 1000};
    QTest::newRow("residual")
        << "    - {name: a, dense: {units: 2000}}\n    - {name: b, dense: {units: 2000}}\n"
           "    - {inputs: [a, b], add: {}}\n"
        << QList<int>{512, 512, 1000};
    // The sum needs as many units as the flattened input has.
    QTest::newRow("as wide as the input")
        << "    - {name: a, dense: {units: 784}}\n    - {inputs: [f, a], add: {}}\n"
        << QList<int>{784, 1000};
  }

  void smallVariantsOfWideNetworks() {
    QFETCH(QString, hidden);
    QFETCH(QList<int>, units);
    QTemporaryDir folder;
    const std::string path = folder.filePath("wide.yaml").toStdString();
    std::ifstream example(lockstep::test::sourcePath("resources/examples/fashion-mlp.yaml"));
    std::ofstream out(path);
    for (std::string line; std::getline(example, line);) {
      if (line.find("flatten") != std::string::npos)
        out << "    - {name: f, flatten: {}}\n"
            << hidden.toStdString() << "    - dense: {units: 1000}\n";
      else if (line.find("classes:") != std::string::npos)
        out << "  classes: 1000\n";
      else if (line.find("dense") == std::string::npos)
        out << line << "\n";
    }
    out.close();
    const auto spec = app::loadRunSpec(path);
    QVERIFY2(spec.ok(), spec.ok() ? "" : spec.error().text().c_str());
    const specs::SmallRun small = specs::smallVariant(*spec->spec, 2, 1);
    QList<int> found;
    for (const auto& layer : small.spec.model().layers())
      if (layer.has_dense()) found << static_cast<int>(layer.dense().units());
    QCOMPARE(found, units);
    QVERIFY(specs::toModel(small.spec.model()).ok());
    // What three tensor ranks divide stays so.
    const specs::SmallRun three = specs::smallVariant(*spec->spec, 1, 3);
    for (int i = 0; i < three.spec.model().layers_size(); ++i) {
      const auto& before = spec->spec->model().layers(i);
      if (before.has_dense() && before.dense().units() % 3 == 0)
        QCOMPARE(three.spec.model().layers(i).dense().units() % 3, std::int64_t{0});
    }
  }

 private:
  // A GPT over made-up words.
  static std::string gpt(const QTemporaryDir& folder, int blocks, int channels, int heads,
                         int tokens) {
    const std::string path = folder.path().toStdString();
    std::mt19937 random(5);
    std::string words;
    while (words.size() < 20'000) {
      for (unsigned letter = 0, all = 2 + random() % 5; letter < all; ++letter)
        words += static_cast<char>('a' + random() % 9);
      words += ' ';
    }
    std::ofstream(path + "/words.txt") << words;
    std::ofstream spec(path + "/gpt.yaml");
    spec << "version: 1\nmodel:\n  name: drawn\n  input: {shape: [" << tokens
         << "], vocabulary: 256}\n  layers:\n"
         << "    - embedding: {units: " << channels << "}\n";
    for (int block = 0; block < blocks; ++block)
      spec << "    - transformer: {heads: " << heads << "}\n";
    spec << "    - layer_norm: {}\n    - dense: {units: 256, tied: embedding1}\n  loss: "
            "cross-entropy\ndata:\n  format: text\n"
         << "  train: {text: words.txt, to: 0.9}\n  evaluate: {text: words.txt, from: "
            "0.9}\ntraining:\n  batch: 12\n"
         << "  max_steps: 100\n  optimizer: {kind: adam, learning_rate: 0.001, clip_norm: 1}\n"
         << "strategy:\n  kind: multi-worker-mirrored\n";
    return path + "/gpt.yaml";
  }

  std::map<std::string, runtime::Reference> known_;  // of faultsAreFound
};

QTEST_GUILESS_MAIN(VerifyTest)
#include "verify_test.moc"
