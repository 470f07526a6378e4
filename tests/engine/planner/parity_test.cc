// What a plan computes does not depend on how it is distributed: several ranks, several groupings
// and one rank agree step by step, run by the reference backend in f64.
#include <QTest>

#include <cmath>
#include <thread>

#include "engine/base/random.h"
#include "engine/runtime/executor.h"
#include "tests/engine/planner/requests.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

constexpr int kSteps = 12;
constexpr Nanoseconds kTimeout = 20'000'000'000;

models::Model smallCnn() {
  models::Model model;
  model.name = "small-cnn";
  model.input = {8, 8, 1};
  model.layers = {conv2d("conv1", 3, 3, "relu"), maxPool2d("pool1", 2),
                  layer(models::Layer::Kind::kFlatten, "flatten1"), dense("dense1", 10)};
  return model;
}

models::Model smallMlp() {
  models::Model model;
  model.name = "small-mlp";
  model.input = {8, 8, 1};
  model.layers = {layer(models::Layer::Kind::kFlatten, "flatten1"), dense("dense1", 13, "gelu"),
                  dense("dense2", 7, "tanh"), dense("dense3", 10)};
  return model;
}

using Metrics = std::vector<std::array<double, 4>>;

void setFloat(const backends::Operand& to, std::int64_t index, double value) {
  if (to.data == nullptr) return;
  if (to.type.dtype == DType::kF64) {
    static_cast<double*>(to.data)[index] = value;
  } else {
    static_cast<float*>(to.data)[index] = static_cast<float>(value);
  }
}

// Sample i of step s is the same whoever computes it.
void feed(runtime::Executor& executor, std::int64_t step, std::int64_t first, std::int64_t end,
          int rank) {
  const backends::Operand x = executor.input("x"), label = executor.input("label"),
                          weight = executor.input("weight");
  const std::int64_t size = x.type.count() / (end - first);
  for (std::int64_t sample = first; sample < end; ++sample) {
    const std::uint64_t key =
        randomKey(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(sample));
    for (std::int64_t i = 0; i < size; ++i) {
      static_cast<std::uint8_t*>(x.data)[(sample - first) * size + i] =
          static_cast<std::uint8_t>(randomBits(key, static_cast<std::uint64_t>(i)));
    }
    static_cast<std::int32_t*>(label.data)[sample - first] =
        static_cast<std::int32_t>(randomBits(key, 1000) % 10);
    setFloat(weight, sample - first, sample % 5 == 4 ? 0 : 1);
  }
  setFloat(executor.input("lr"), 0, 0.02);
  setFloat(executor.input("t"), 0, static_cast<double>(step));
  setFloat(executor.input("stop"), 0, step == 3 && rank == 0 ? 1 : 0);
}

Status runRank(const plan::Plan& plan, int rank, comm::Communicator* group, Metrics& metrics,
               std::vector<plan::Event>& events) {
  LOCKSTEP_ASSIGN(auto backend, backends::makeBackend("reference", {}));
  LOCKSTEP_ASSIGN(const auto state, runtime::StateArena::make(plan, rank));
  const auto bind = [&](const char* program) {
    return runtime::Executor::bind(plan, program, rank, *backend, group, *state);
  };
  LOCKSTEP_ASSIGN(auto init, bind("init"));
  LOCKSTEP_ASSIGN(auto step, bind("step"));
  LOCKSTEP_ASSIGN(auto evaluate, bind("evaluate"));
  LOCKSTEP_TRY(init->run(0, nullptr));
  const auto c = static_cast<std::size_t>(rank);
  const auto note = [&](runtime::Executor& executor) {
    const backends::Operand result = executor.result("metrics.accuracy");
    const auto* values = static_cast<const double*>(result.data);
    metrics.push_back({values[0], values[1], values[2], values[3]});
  };
  for (int s = 1; s <= kSteps; ++s) {
    feed(*step, s, plan.batchCuts[c], plan.batchCuts[c + 1], rank);
    std::vector<plan::Event> recorded;
    recorded.reserve(step->steps());
    LOCKSTEP_TRY(step->run(s, &recorded));
    events.insert(events.end(), recorded.begin(), recorded.end());
    note(*step);
  }
  feed(*evaluate, 1000, plan.evaluateCuts[c], plan.evaluateCuts[c + 1], rank);
  LOCKSTEP_TRY(evaluate->run(0, nullptr));
  note(*evaluate);
  return {};
}

struct RunOutput {
  std::vector<Metrics> metrics;  // by rank
  std::vector<std::vector<plan::Event>> events;
};
RunOutput runPlan(const plan::Plan& plan) {
  const int ranks = plan.mesh.size();
  auto group = comm::makeInProcessGroup(ranks, kTimeout).value();
  RunOutput output;
  output.metrics.resize(static_cast<std::size_t>(ranks));
  output.events.resize(static_cast<std::size_t>(ranks));
  std::vector<Status> statuses(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<std::size_t>(rank);
      statuses[r] = runRank(plan, rank, ranks > 1 ? group[r].get() : nullptr, output.metrics[r],
                            output.events[r]);
    });
  }
  threads.clear();
  for (const Status& status : statuses) {
    if (!status.ok()) qFatal("%s", status.error().text().c_str());
  }
  return output;
}

}  // namespace

class ParityTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void everyDistributionComputesTheSame_data() {
    QTest::addColumn<bool>("cnn");
    QTest::addColumn<QString>("optimizer");
    for (const bool cnn : {false, true}) {
      for (const char* optimizer : {"sgd", "adam"}) {
        QTest::addRow("%s %s", cnn ? "cnn" : "mlp", optimizer) << cnn << QString(optimizer);
      }
    }
  }
  void everyDistributionComputesTheSame() {
    QFETCH(bool, cnn);
    QFETCH(QString, optimizer);
    auto asked = request(cnn ? smallCnn() : smallMlp(), 22, 17, DType::kF64);
    asked.training.optimizer.kind = optimizer.toStdString();
    asked.training.optimizer.momentum = 0.9;
    asked.training.optimizer.weightDecay = 1e-3;
    const Metrics one = runPlan(planOf(asked, clusterOf(1))).metrics[0];
    QCOMPARE(one.size(), std::size_t{kSteps + 1});
    QCOMPARE(one[2][3], 1.0);
    QCOMPARE(one[3][3], 0.0);
    QVERIFY(one[kSteps - 1][0] < one[0][0]);
    for (const int ranks : {1, 2, 3, 4}) {
      for (const std::int64_t bucket : {1, 512, 0}) {
        asked.bucketBytes = bucket;
        for (const Metrics& metrics : runPlan(planOf(asked, clusterOf(ranks))).metrics) {
          QCOMPARE(metrics.size(), one.size());
          for (std::size_t s = 0; s < one.size(); ++s) {
            for (std::size_t i = 0; i < 4; ++i) {
              const double error = std::abs(metrics[s][i] - one[s][i]);
              QVERIFY2(error <= 1e-9 * std::max(1.0, std::abs(one[s][i])),
                       qPrintable(QString("%1 ranks, bucket %2, step %3, metric %4: %5 for %6")
                                      .arg(ranks)
                                      .arg(bucket)
                                      .arg(s)
                                      .arg(i)
                                      .arg(metrics[s][i])
                                      .arg(one[s][i])));
            }
          }
        }
      }
    }
  }

  void executorAndSimulatorTellOneOrder() {
    auto asked = request(smallCnn(), 22, 17, DType::kF64);
    asked.bucketBytes = 512;
    const auto cluster = clusterOf(3, 2, 3);
    const plan::Plan plan = planOf(asked, cluster);
    planner::SimulateOptions options;
    options.steps = kSteps;
    const auto simulation = planner::simulate(plan, cluster, {}, options);
    const RunOutput output = runPlan(plan);
    using Recorded =
        std::tuple<std::int64_t, plan::StepId, plan::EventKind, ir::Phase, std::int64_t>;
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<Recorded> real, simulated;
      for (const plan::Event& e : output.events[static_cast<std::size_t>(rank)]) {
        real.emplace_back(e.step, e.planStep, e.kind, e.phase,
                          e.kind == plan::EventKind::kTransfer ? e.bytes : 0);
      }
      for (const plan::Event& e : simulation.events) {
        if (e.rank == rank && e.planStep >= 0 && e.kind != plan::EventKind::kWaiting) {
          simulated.emplace_back(e.step, e.planStep, e.kind, e.phase, e.bytes);
        }
      }
      QVERIFY(real == simulated);
    }
  }
};

QTEST_GUILESS_MAIN(ParityTest)
#include "parity_test.moc"
