// What is watched of a training: gradient norm and update ratio are those of the weights themselves
// under every strategy, and whether they are measured changes no bit of the result.
#include <QTest>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <span>

#include "engine/plan/plan.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

using Tensors = std::map<std::string, std::vector<double>>;

weights::TensorSink into(Tensors& tensors) {
  return [&tensors](const TensorInfo& tensor, std::span<const std::byte> bytes) {
    std::vector<double>& values = tensors[tensor.name];
    const bool wide = tensor.dtype == DType::kF64;
    values.resize(bytes.size() / (wide ? sizeof(double) : sizeof(float)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      float narrow = 0;
      if (wide)
        std::memcpy(&values[i], bytes.data() + i * sizeof(double), sizeof(double));
      else
        std::memcpy(&narrow, bytes.data() + i * sizeof(float), sizeof(float));
      if (!wide) values[i] = static_cast<double>(narrow);
    }
  };
}

double normOf(const Tensors& a, const Tensors* minus = nullptr) {
  double sum = 0;
  for (const auto& [name, values] : a)
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double x = values[i] - (minus != nullptr ? minus->at(name)[i] : 0);
      sum += x * x;
    }
  return std::sqrt(sum);
}

// A model, optimizer and batch as people combine them; equal seeds draw equal ones.
class Drawing {
 public:
  explicit Drawing(std::uint32_t seed) : random_(seed) {}

  std::int64_t of(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  models::Model mlp() {
    models::Model model = fashionMlp();
    model.layers[1].units = 4 * of(1, 9);
    model.layers[1].activation = of(0, 1) == 0 ? "relu" : "tanh";
    if (of(0, 1) == 0) {
      models::Layer more = model.layers[1];
      more.name = "dense1b";
      more.units = 4 * of(1, 5);
      model.layers.insert(model.layers.begin() + 2, more);
    }
    return model;
  }
  void settings(RunSettings& s) {
    s.batch = 12 * of(1, 4);
    s.samples = s.batch * 3 + of(0, 1) * 5;  // the last batch of an epoch may be short
    s.bucketBytes =
        std::array<std::int64_t, 3>{0, 2048, 20'000}[static_cast<std::size_t>(of(0, 2))];
    s.evaluateBatch = 96;
    s.trainer.epochs = 3;
    s.trainer.maxSteps = of(5, 8);
    s.trainer.seed = static_cast<std::uint64_t>(of(1, 1000));
    s.trainer.schedule.peak = 0.02;
    s.trainer.schedule.warmup = of(0, 3);
  }

 private:
  std::mt19937 random_;
};

void gpt(RunSettings& s) { s.model = smallGpt(12); }
void ctr(RunSettings& s) { s.model = smallCtr(); }

struct Row {
  const char* name;
  void (*set)(RunSettings&);
};
// Each equals training on one rank, without `ranks`, `strategy` and what belongs to it.
constexpr Row kRows[] = {
    {"one rank", [](RunSettings&) {}},
    {"mirrored", [](RunSettings& s) { s.ranks = 3; }},
    {"mirrored, micro-batches", [](RunSettings& s) { s.ranks = 2, s.microBatches = 3; }},
    {"uneven shares",
     [](RunSettings& s) {
       s.ranks = 3, s.shares = {2, 1, 1};
     }},
    {"deterministic parts",
     [](RunSettings& s) { s.ranks = 2, s.microBatches = 2, s.inOrder = true; }},
    {"asynchronous collectives",
     [](RunSettings& s) { s.ranks = 2, s.hosts = 2, s.overlap = "always"; }},
    {"zero-1", [](RunSettings& s) { s.ranks = 3, s.strategy = "zero-1"; }},
    {"zero-2, micro-batches",
     [](RunSettings& s) { s.ranks = 2, s.strategy = "zero-2", s.microBatches = 2; }},
    {"zero-3", [](RunSettings& s) { s.ranks = 3, s.strategy = "zero-3"; }},
    {"zero-3, asynchronous collectives",
     [](RunSettings& s) { s.ranks = 2, s.hosts = 2, s.strategy = "zero-3", s.overlap = "always"; }},
    {"tensor",
     [](RunSettings& s) { gpt(s), s.ranks = s.modelRanks = 2, s.strategy = "tensor-parallel"; }},
    {"tensor and zero-1",
     [](RunSettings& s) { gpt(s), s.ranks = 6, s.modelRanks = 2, s.strategy = "zero-1"; }},
    {"pipeline",
     [](RunSettings& s) {
       gpt(s), s.ranks = s.stages = 2, s.strategy = "pipeline", s.microBatches = 4;
     }},
    {"pipeline zb-h1, two ranks a stage",
     [](RunSettings& s) {
       gpt(s), s.ranks = 4, s.stages = 2, s.strategy = "pipeline", s.microBatches = 3,
               s.schedule = "zb-h1";
     }},
    {"data, tensor, pipeline",
     [](RunSettings& s) {
       gpt(s), s.ranks = 8, s.modelRanks = s.stages = 2, s.strategy = "zero-2", s.microBatches = 2;
     }},
    {"parameter server",
     [](RunSettings& s) { s.ranks = 3, s.servers = 1, s.strategy = "parameter-server"; }},
    {"two servers, micro-batches",
     [](RunSettings& s) {
       s.ranks = 4, s.servers = 2, s.strategy = "parameter-server", s.microBatches = 2;
     }},
    {"central storage",
     [](RunSettings& s) { s.ranks = 3, s.servers = 1, s.strategy = "central-storage"; }},
    {"rows of tables", [](RunSettings& s) { ctr(s), s.ranks = 2; }},
    {"rows on servers",
     [](RunSettings& s) { ctr(s), s.ranks = 4, s.servers = 2, s.strategy = "parameter-server"; }},
    {"rows on servers, dense all-reduced",
     [](RunSettings& s) {
       ctr(s), s.ranks = 3, s.servers = 1, s.strategy = "parameter-server", s.dense = "all-reduce";
     }},
    {"recomputed", [](RunSettings& s) { gpt(s), s.ranks = 2, s.recompute = "full"; }},
    {"batch norm", [](RunSettings& s) { s.model = smallResnet(), s.ranks = 2; }},
};
// Without a gradient of the whole batch.
constexpr Row kUnmeasured[] = {
    {"local-sgd",
     [](RunSettings& s) { s.ranks = 2, s.strategy = "local-sgd", s.microBatches = 2; }},
    {"stale by one",
     [](RunSettings& s) {
       s.ranks = 2, s.servers = 1, s.strategy = "parameter-server", s.staleness = 1;
     }},
};

}  // namespace

class WatchTest : public QObject {
  Q_OBJECT

  static void addRows(int seeds, bool unmeasured = false) {
    QTest::addColumn<int>("row");
    QTest::addColumn<int>("seed");
    const int measured = static_cast<int>(std::size(kRows));
    const int first = unmeasured ? measured : 0;
    const int rows = unmeasured ? measured + static_cast<int>(std::size(kUnmeasured)) : measured;
    for (int row = first; row < rows; ++row)
      for (int seed = 1; seed <= seeds; ++seed)
        QTest::addRow("%s, seed %d",
                      row < measured ? kRows[row].name : kUnmeasured[row - measured].name, seed)
            << row << seed;
  }
  // The strategy of the row, with what the seed draws.
  static RunSettings drawn(int row, int seed) {
    Drawing draw(static_cast<std::uint32_t>(1000 * row + seed));
    RunSettings s;
    s.model = draw.mlp();
    draw.settings(s);
    s.optimizer = {.kind = "sgd"};
    const int measured = static_cast<int>(std::size(kRows));
    (row < measured ? kRows[row] : kUnmeasured[row - measured]).set(s);
    return s;
  }
  // The weights after so many steps, on one rank.
  static Tensors weightsAfter(RunSettings s, std::int64_t steps) {
    s.ranks = s.modelRanks = s.stages = s.hosts = 1;
    s.servers = 0;
    s.strategy = "multi-worker-mirrored";
    s.dense = "servers";
    s.shares.clear();
    s.watch = {};
    s.inOrder = false;
    s.overlap = "auto";
    s.microBatches = 1;
    s.trainer.maxSteps = std::max<std::int64_t>(steps, 1);
    Tensors out;
    (steps == 0 ? s.trainer.onFirstTensor : s.trainer.onTensor) = into(out);
    const RunOutcome done = trained(s);
    if (!done.ok()) qWarning("%s", done.error().c_str());
    // Running statistics are no parameters.
    const auto plan = planOf(s);
    std::erase_if(out, [&](const auto& tensor) {
      for (const plan::StateSlot& slot : plan->state)
        for (const plan::StateSlot::Member& member : slot.members)
          if (slot.role == plan::StateRole::kParameters && member.name == tensor.first)
            return false;
      return true;
    });
    return out;
  }

 private Q_SLOTS:
  // With SGD without momentum w' = w − lr·ĝ: the norm that was reported is that of the weights'
  // difference. In f64 from one rank's weights, whatever the strategy.
  void normIsThatOfTheWeights_data() { addRows(1); }
  void normIsThatOfTheWeights() {
    QFETCH(int, row);
    QFETCH(int, seed);
    RunSettings s = drawn(row, seed);
    s.watch = {1, true};
    const RunOutcome run = trained(s);
    QVERIFY2(run.ok(), run.error().c_str());
    for (const std::int64_t step : {std::int64_t{1}, std::int64_t{2}, s.trainer.maxSteps}) {
      const Tensors before = weightsAfter(s, step - 1), after = weightsAfter(s, step);
      QVERIFY(!before.empty() && before.size() == after.size());
      const double moved = normOf(after, &before), rate = s.trainer.schedule.at(step);
      const runtime::StepRecord& record = run.steps[static_cast<std::size_t>(step - 1)];
      const double norm = moved / rate, ratio = moved / normOf(before);
      QVERIFY(norm > 0);
      const QString text = QString("step %1: norm %2, expected %3; ratio %4, expected %5")
                               .arg(step)
                               .arg(static_cast<double>(record.gradientNorm))
                               .arg(norm)
                               .arg(static_cast<double>(record.updateRatio))
                               .arg(ratio);
      QVERIFY2(std::abs(static_cast<double>(record.gradientNorm) - norm) <= 1e-6 * norm,
               qPrintable(text));
      QVERIFY2(std::abs(static_cast<double>(record.updateRatio) - ratio) <= 1e-6 * ratio,
               qPrintable(text));
    }
  }

  // Clipping changes the update, not what is reported.
  void clippedAfterItIsMeasured() {
    RunSettings s = drawn(1, 7);
    s.trainer.schedule = {};
    s.trainer.schedule.peak = 0.02;
    const RunOutcome free = [&] {
      RunSettings with = s;
      with.watch.every = 1;
      return trained(with);
    }();
    QVERIFY2(free.ok(), free.error().c_str());
    const auto norm = static_cast<double>(free.steps[0].gradientNorm);
    s.optimizer.clipNorm = norm / 3;
    s.watch = {0, false};  // the norm is there anyway
    const RunOutcome run = trained(s);
    QVERIFY2(run.ok(), run.error().c_str());
    QCOMPARE(run.steps[0].gradientNorm, free.steps[0].gradientNorm);
    for (const runtime::StepRecord& step : run.steps) QVERIFY(step.gradientNorm > 0);
    const Tensors before = weightsAfter(s, 0), after = weightsAfter(s, 1);
    QVERIFY(std::abs(normOf(after, &before) / 0.02 - norm / 3) <= 1e-6 * norm);
  }

  // In f32, where the order of sums shows, and with every optimizer.
  void sameBits_data() {
    addRows(qEnvironmentVariable("LOCKSTEP_WATCH_SEEDS", "2").toInt());
    QTest::addRow("local-sgd") << static_cast<int>(std::size(kRows)) << 1;
    QTest::addRow("stale by one") << static_cast<int>(std::size(kRows)) + 1 << 1;
  }
  void sameBits() {
    QFETCH(int, row);
    QFETCH(int, seed);
    RunSettings s = drawn(row, seed);
    Drawing draw(static_cast<std::uint32_t>(seed));
    s.compute = DType::kF32;
    s.backend = "onednn";
    const bool isStale = s.staleness != 0;
    const bool narrow = !isStale && s.dense == "servers" && row % 3 == seed % 3;
    if (narrow) {
      s.matmulDtype = DType::kF16;
      s.lossScale.emplace();
    }
    const char* const kinds[] = {"adam", "sgd", "adagrad"};
    s.optimizer.kind = kinds[(row + seed) % 3];
    if (s.optimizer.kind == "sgd" && s.model.columns == 0) s.optimizer.momentum = 0.9;
    const auto with = [&](passes::Watch watch) {
      s.watch = watch;
      return trained(s);
    };
    const RunOutcome plain = with({0, false});
    QVERIFY2(plain.ok(), plain.error().c_str());
    const bool measured = row < static_cast<int>(std::size(kRows));
    for (const passes::Watch watch : {passes::Watch{1, true}, {3, false}, {2, true}}) {
      const RunOutcome run = with(watch);
      QVERIFY2(run.ok(), run.error().c_str());
      QCOMPARE(run.steps.size(), plain.steps.size());
      for (std::size_t i = 0; i < run.steps.size(); ++i) {
        const runtime::StepRecord& step = run.steps[i];
        const bool due = measured && (step.step - 1) % watch.every == 0 && step.skipped == 0;
        const bool always = measured && narrow && step.skipped == 0;
        QCOMPARE(!std::isnan(step.gradientNorm), due || always);
        QCOMPARE(!std::isnan(step.updateRatio),
                 measured && watch.updateRatio && (step.step - 1) % watch.every == 0);
        if (due) QVERIFY(step.gradientNorm > 0);
        if (isStale) continue;  // which updates come first is chance
        QCOMPARE(step.loss, plain.steps[i].loss);
      }
      if (!isStale) QCOMPARE(run.ranks[0]->weightsSha256, plain.ranks[0]->weightsSha256);
    }
  }

  // What updates were given, as the program had it; and how much was trained on.
  void rateAndSamples_data() { addRows(1); }
  void rateAndSamples() {
    QFETCH(int, row);
    RunSettings s = drawn(row, 3);
    s.compute = DType::kF32;
    const RunOutcome run = trained(s);
    QVERIFY2(run.ok(), run.error().c_str());
    std::int64_t seen = 0;
    for (const runtime::StepRecord& step : run.steps) {
      const double rate = s.trainer.schedule.at(step.step);
      if (s.servers == 0 || s.dense == "all-reduce")
        QCOMPARE(step.learningRate, static_cast<double>(static_cast<float>(rate)));
      else
        QVERIFY(std::isnan(step.learningRate));  // the servers have it
      seen += step.samples;
      QCOMPARE(step.samplesSeen, seen);
    }
  }

  // The steps that are watched, their bytes and time are in the plan; the prediction has their
  // share.
  void isInPlanAndPrediction() {
    RunSettings s = drawn(6, 2);  // zero-1: the norm needs a sum over ranks
    const auto countOf = [](const plan::Plan& plan, plan::StepKind kind) {
      int count = 0;
      for (const plan::Body& body : plan.find("step")->bodies)
        for (const plan::Step& step : body.steps)
          if (step.phase == ir::Phase::kWatch && step.kind == kind) ++count;
      return count;
    };
    const auto plain = planOf(s);
    s.watch.every = 4;
    auto watched = planOf(s);
    QVERIFY(plain.ok() && watched.ok());
    QCOMPARE(countOf(*plain, plan::StepKind::kCompute), 0);
    QVERIFY(countOf(*watched, plan::StepKind::kCompute) > 0);
    QVERIFY(countOf(*watched, plan::StepKind::kCollective) > 0);
    QVERIFY(watched->isWatched(1) && !watched->isWatched(2) && watched->isWatched(5));
    QVERIFY(!plain->isWatched(1));
    // A second for each watched step: a quarter of that on the mean.
    double seconds = 0;
    for (plan::Step& step : watched->programs[1].bodies[0].steps)
      if (step.phase == ir::Phase::kWatch) {
        step.seconds = 1;
        seconds += 1;
      }
    QCOMPARE(watched->programs[1].name, std::string("step"));
    QCOMPARE(watched->programs[1].bodies.size(), std::size_t{1});
    const cluster::Cluster cluster = oneHost(s.ranks, s.ranks);
    const double longer = planner::simulate(*watched, cluster, {}).stepSeconds -
                          planner::simulate(*plain, cluster, {}).stepSeconds;
    QVERIFY2(std::abs(longer - seconds / 4) < 0.01 * seconds, qPrintable(QString::number(longer)));
    // Nothing that trains may read what is not always written.
    bool changed = false;
    for (plan::Step& step : watched->programs[1].bodies[0].steps)
      if (!changed && step.phase == ir::Phase::kBackward && step.kind == plan::StepKind::kCompute) {
        step.phase = ir::Phase::kWatch;
        changed = true;
      }
    QVERIFY(changed);
    QVERIFY(!plan::verify(*watched).ok());
  }

  // Events of a step that is not watched have its plan steps all the same, at no cost.
  void eventsKeepThePlansNumbers() {
    RunSettings s = drawn(1, 4);
    s.watch.every = 3;
    s.trainer.eventsEvery = 1;
    const auto plan = planOf(s);
    QVERIFY(plan.ok());
    const RunOutcome run = trained(s);
    QVERIFY2(run.ok(), run.error().c_str());
    std::int64_t steps = 0;
    for (const plan::ScheduleEntry& entry : plan->entriesOf(0))
      steps += static_cast<std::int64_t>(plan->find(entry.program, 0)->steps.size());
    QCOMPARE(static_cast<std::int64_t>(run.events[0].size()), steps * s.trainer.maxSteps);
    for (const plan::Event& event : run.events[0])
      if (event.phase == ir::Phase::kWatch && !plan->isWatched(event.step))
        QCOMPARE(event.end, event.begin);
  }
};

QTEST_GUILESS_MAIN(WatchTest)
#include "watch_test.moc"
