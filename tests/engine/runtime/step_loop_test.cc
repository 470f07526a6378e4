// The step loop asks for no memory and changes no layout once it is under way: the trainer with its
// loader and backend, as a run has them.
#include <dlfcn.h>
#include <unistd.h>

#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include "tests/engine/backends/allocations.h"
#include "tests/support/engine_run.h"

using namespace lockstep;

namespace {

constexpr std::int64_t kWarmUp = 20, kSteps = 120;

// What oneDNN says of the primitives it runs, to a file in place of the standard output.
class Verbose {
 public:
  explicit Verbose(const QString& path)
      : set_(reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "dnnl_set_verbose"))) {
    std::fflush(stdout);
    kept_ = dup(STDOUT_FILENO);
    QFile file(path);
    if (file.open(QIODevice::WriteOnly)) dup2(file.handle(), STDOUT_FILENO);
    if (set_ != nullptr) set_(1);
  }
  ~Verbose() {
    if (set_ != nullptr) set_(0);
    std::fflush(stdout);
    dup2(kept_, STDOUT_FILENO);
    close(kept_);
  }
  Verbose(const Verbose&) = delete;
  Verbose& operator=(const Verbose&) = delete;

 private:
  int (*set_)(int);
  int kept_ = -1;
};

class Counting final : public runtime::TrainerObserver {
 public:
  void onReady(std::int64_t) override {}
  void onStep(const runtime::StepRecord& record) override {
    if (record.step == kWarmUp) before_ = testing::allocations();
    if (record.step == kSteps) allocations = testing::allocations() - before_;
  }
  void onEvents(const std::vector<plan::Event>&) override {}
  void onEpoch(const runtime::EpochRecord&) override {}
  void onCheckpoint(std::int64_t, const std::string&) override {}
  std::int64_t allocations = -1;

 private:
  std::int64_t before_ = 0;
};

}  // namespace

Q_DECLARE_METATYPE(models::Model)

class StepLoopTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void allocatesAndReordersNothing_data() {
    QTest::addColumn<models::Model>("model");
    QTest::addColumn<int>("threads");
    QTest::addColumn<bool>("primitives");  // run by oneDNN
    for (const int threads : {1, 2}) {
      QTest::addRow("fashion-mlp on %d thread%s", threads, threads > 1 ? "s" : "")
          << test::fashionMlp() << threads << false;
      QTest::addRow("fashion-cnn on %d thread%s", threads, threads > 1 ? "s" : "")
          << test::fashionCnn() << threads << false;
    }
    models::Model deeper = test::fashionCnn();
    models::Layer second = deeper.layers[0];
    second.name = "conv2";
    deeper.layers.insert(deeper.layers.begin() + 1, second);
    QTest::addRow("two-convolutions on 2 threads") << deeper << 2 << false;
  }
  void allocatesAndReordersNothing() {
    QFETCH(models::Model, model);
    QFETCH(int, threads);
    QFETCH(bool, primitives);
    test::RunSettings settings;
    settings.model = model;
    settings.compute = DType::kF32;
    settings.batch = 64;
    settings.optimizer.kind = "adam";
    const auto plan = test::planOf(settings);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    const test::SyntheticImages train(settings.batch * (kSteps + 1)), evaluate(200);
    const auto runStep = [&]() -> std::int64_t {
      auto backend = backends::makeBackend("onednn", {threads});
      runtime::TrainerOptions options;
      options.maxSteps = kSteps + 1;
      options.eventsEvery = 10;
      options.slowSteps = true;
      const std::atomic<bool> stop{false};
      Counting counting;
      const auto done =
          runtime::train(*plan, 0, options, train, evaluate, **backend, nullptr, stop, counting);
      return done.ok() ? counting.allocations : -1;
    };
    const std::int64_t allocations = runStep();
    const QTemporaryDir folder;
    {
      const Verbose verbose(folder.filePath("said"));
      QVERIFY(runStep() >= 0);
    }
    QFile file(folder.filePath("said"));
    QVERIFY(file.open(QIODevice::ReadOnly));
    const QByteArray said = file.readAll();
    const auto reorders = said.count(",reorder,");
    // Silence means nothing where oneDNN runs no primitive.
    QVERIFY(!primitives || said.contains(",exec,"));
    qInfo("%s: %lld allocations and %lld reorders in %lld steps", QTest::currentDataTag(),
          static_cast<long long>(allocations), static_cast<long long>(reorders),
          static_cast<long long>(kSteps - kWarmUp));
    QCOMPARE(reorders, 0);
    // oneDNN puts the arguments of every execution into a table of its own.
    if (!primitives) QCOMPARE(allocations, 0);
    QVERIFY(allocations >= 0);
  }
};

QTEST_GUILESS_MAIN(StepLoopTest)
#include "step_loop_test.moc"
