#include <QElapsedTimer>
#include <QTest>
#include <algorithm>
#include <random>

#include "engine/cluster/assumed.h"
#include "engine/planner/layer_placement.h"
#include "tests/engine/planner/random_requests.h"
#include "tests/support/sanitizers.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

bool close(double a, double b) { return std::abs(a - b) <= 1e-9 + 1e-6 * std::abs(b); }

struct Sums {
  double compute = 0, collective = 0;
};
Sums sumsOf(const plan::Plan& plan, std::size_t body = 0) {
  Sums sums;
  for (const plan::Step& step : plan.find("step")->bodies[body].steps) {
    (step.kind == plan::StepKind::kCompute ? sums.compute : sums.collective) += step.seconds;
  }
  return sums;
}

// As many stages of equal work, of a micro-batch of 4 samples each time. The first has two layers,
// since what a layer reads of the images has no gradient.
planner::PlanRequest pipelineOf(int stages, int microBatches, const char* schedule) {
  models::Model model = fashionMlp();
  model.layers = {layer(models::Layer::Kind::kFlatten, "flatten"), dense("images", 16, "relu")};
  std::vector<std::pair<std::string, int>> pins{{"flatten", 0}, {"images", 0}};
  for (int stage = 0; stage < stages; ++stage) {
    const std::string name = fmt::format("dense{}", stage);
    model.layers.push_back(stage + 1 == stages ? dense(name, 10) : dense(name, 16, "relu"));
    pins.emplace_back(name, stage);
  }
  planner::PlanRequest asked = request(model, 4, 4);
  asked.strategy = "placement";
  asked.pins = std::move(pins);
  asked.microBatches = microBatches;
  asked.schedule = schedule;
  return asked;
}

// A program of a stage takes as long as told, nearly all of it in its first computation.
void setSeconds(plan::Plan& plan, std::string_view program, double seconds) {
  const auto found = std::ranges::find(plan.programs, program, &plan::Program::name);
  if (found == plan.programs.end()) return;
  for (plan::Body& body : found->bodies) {
    for (plan::Step& step : body.steps) step.seconds = 1e-9;  // 0 would be priced
    const auto first = std::ranges::find(body.steps, plan::StepKind::kCompute, &plan::Step::kind);
    if (first == body.steps.end()) qFatal("%s computes nothing", body.role.c_str());
    first->seconds += seconds;
  }
}

}  // namespace

class SimulateTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void oneRankTakesTheSum() {
    const auto cluster = clusterOf(1);
    const planner::CostModel cost;
    const plan::Plan plan = planOf(request(fashionMlp(), 64, 64), cluster);
    const auto simulation = planner::simulate(plan, cluster, cost);
    QVERIFY(close(simulation.stepSeconds, sumsOf(plan).compute + cost.stepOverheadSeconds));
    const auto& rank = simulation.ranks[0];
    QVERIFY(
        close(rank.data + rank.forward + rank.backward + rank.optimizer, simulation.stepSeconds));
    QVERIFY(rank.forward > 0 && rank.backward > 0 && rank.optimizer > 0 && rank.waiting == 0);
  }

  void equalRanksDoNotWait() {
    const auto cluster = clusterOf(2);
    const planner::CostModel cost;
    const plan::Plan plan = planOf(request(fashionMlp(), 64, 64), cluster);
    const auto simulation = planner::simulate(plan, cluster, cost);
    const Sums sums = sumsOf(plan);
    QVERIFY(
        close(simulation.stepSeconds, sums.compute + sums.collective + cost.stepOverheadSeconds));
    for (const auto& rank : simulation.ranks) {
      QCOMPARE(rank.waiting, 0.0);
      QVERIFY(close(rank.transfer, sums.collective));
    }
  }

  void twoRanksOnOneCoreTakeTwice() {
    const auto cluster = clusterOf(2, 1, 2);
    const planner::CostModel cost;
    const plan::Plan plan = planOf(request(fashionMlp(), 64, 64), cluster);
    const Sums sums = sumsOf(plan);
    QVERIFY(close(planner::simulate(plan, cluster, cost).stepSeconds,
                  2 * (sums.compute + cost.stepOverheadSeconds) + sums.collective));
    const auto cores = clusterOf(2, 2, 2);
    QVERIFY(close(planner::simulate(plan, cores, cost).stepSeconds,
                  sums.compute + cost.stepOverheadSeconds + sums.collective));
  }

  void threeEqualRanksOnTwoCores() {
    const auto cluster = clusterOf(3, 2, 3);
    const planner::CostModel cost;
    const plan::Plan plan = planOf(request(fashionMlp(), 63, 63), cluster);
    const Sums sums = sumsOf(plan);
    QVERIFY(close(planner::simulate(plan, cluster, cost).stepSeconds,
                  1.5 * (sums.compute + cost.stepOverheadSeconds) + sums.collective));
  }

  void othersWaitForASlowRank() {
    const auto cluster = clusterOf(2);
    const planner::CostModel cost;
    const plan::Plan plan = planOf(request(fashionMlp(), 64, 64), cluster);
    planner::SimulateOptions options;
    options.slowdown = {1, 3};
    const auto simulation = planner::simulate(plan, cluster, cost, options);
    const Sums sums = sumsOf(plan);
    const double work = sums.compute + cost.stepOverheadSeconds;
    QVERIFY(close(simulation.stepSeconds, 3 * work + sums.collective));
    QVERIFY(close(simulation.ranks[0].waiting, 2 * work));
    QCOMPARE(simulation.ranks[1].waiting, 0.0);
    for (const plan::Event& event : simulation.events) {
      if (event.kind == plan::EventKind::kWaiting) QCOMPARE(event.peer, 1);
    }
  }

  // Ranks that run the same body compute at the rates of their own devices, until they are
  // measured.
  void othersWaitForASlowDevice() {
    const auto fast = clusterOf(2);
    const plan::Plan planned = planOf(request(fashionCnn(), 64, 64), fast);
    const cluster::DeviceRates rates = cluster::assumedRates(fast.devices[0], "fp32");
    for (const double slower : {1.0, 1.5, 4.0, 20.0}) {
      cluster::Cluster unequal = fast;
      unequal.devices[1].figures.peakFlops =
          rates.flopsPerSecond / slower / cluster::reachedOfProducts("fp32");
      unequal.devices[1].figures.peakBytesPerSecond =
          rates.bytesPerSecond / slower / cluster::kReachedOfMemory;
      planner::CostModel cost;
      const plan::Plan plan = planOf(request(fashionCnn(), 64, 64), unequal);
      QCOMPARE(plan.find("step")->bodies.size(), std::size_t{1});
      const auto simulation = planner::simulate(plan, unequal, cost);
      const Sums sums = sumsOf(plan);
      QVERIFY(
          close(simulation.stepSeconds, sums.compute + sums.collective + cost.stepOverheadSeconds));
      const auto computes = [&](std::size_t rank) {
        const auto& spent = simulation.ranks[rank];
        return spent.forward + spent.backward + spent.optimizer;
      };
      QVERIFY(std::abs(computes(0) - sumsOf(planned).compute) <= 1e-3 * computes(0));
      QVERIFY(close(computes(1), sums.compute));
      QVERIFY(close(simulation.ranks[0].waiting, computes(1) - computes(0)));
      const plan::Body& body = plan.find("step")->bodies[0];
      for (const plan::Step& step : body.steps)
        if (step.kind == plan::StepKind::kCompute)
          cost.stepSeconds.emplace(planner::signature(body, step), 1e-3);
      plan::Plan measured = plan;
      planner::predict(measured, unequal, cost);
      QCOMPARE(planner::simulate(measured, unequal, cost).ranks[0].waiting, 0.0);
    }
  }

  // Each rank's events follow its plan, and time does not go back.
  void eventsAreInPlanOrder() {
    const auto cluster = clusterOf(3, 2, 3);
    const plan::Plan plan = planOf(request(fashionCnn(), 64, 64), cluster);
    const auto simulation = planner::simulate(plan, cluster, {});
    std::size_t at = 0;
    for (int rank = 0; rank < 3; ++rank) {
      const plan::Program* step = plan.find("step");
      const auto& steps =
          step->bodies[static_cast<std::size_t>(step->bodyOfRank[static_cast<std::size_t>(rank)])]
              .steps;
      std::int64_t now = 0;
      for (int number = 1; number <= 4; ++number) {
        for (int planStep = -1; planStep < static_cast<int>(steps.size()); ++planStep) {
          const plan::Event* event = &simulation.events[at++];
          if (event->kind == plan::EventKind::kWaiting) {
            QVERIFY(event->begin >= now && event->end > event->begin);
            event = &simulation.events[at++];
          }
          QCOMPARE(event->rank, rank);
          QCOMPARE(event->step, number);
          QCOMPARE(event->planStep, planStep);
          QVERIFY(event->begin >= now && event->end >= event->begin);
          now = event->end;
        }
      }
    }
    QCOMPARE(at, simulation.events.size());
  }

  void measuredCostsComeFirst() {
    const auto cluster = clusterOf(2);
    plan::Plan plan = planOf(request(fashionMlp(), 64, 64), cluster);
    planner::CostModel cost;
    const plan::Body& body = plan.find("step")->bodies[0];
    const auto matmul = std::find_if(body.steps.begin(), body.steps.end(),
                                     [](const plan::Step& s) { return s.op == ir::Op::kMatmul; });
    const std::string name = planner::signature(body, *matmul);
    QVERIFY2(name.starts_with("matmul f32[32x784] f32[784x128]"), name.c_str());
    cost.stepSeconds[name] = 0.25;
    cost.collectives = {{"shm", 2, 1000, 0.001},
                        {"shm", 2, 1'000'000, 0.002},
                        {"gloo", 2, 1000, 9},
                        {"shm", 3, 1000, 9}};
    planner::predict(plan, cluster, cost);
    const auto index = static_cast<std::size_t>(matmul - body.steps.begin());
    QCOMPARE(body.steps[index].seconds, 0.25);
    for (const plan::Step& step : body.steps) {
      if (step.kind != plan::StepKind::kCollective) continue;
      const double expected = 0.001 + 0.001 * static_cast<double>(step.bytes - 1000) / 999'000;
      QVERIFY(std::abs(step.seconds - expected) < 1e-3 * expected);
    }
  }

  void aCalibratedStepTakesWhatWasMeasured() {
    for (const int ranks : {1, 2, 3}) {
      const auto cluster = clusterOf(ranks, 2, 3);
      plan::Plan plan = planOf(request(fashionMlp(), 63, 63), cluster);
      planner::CostModel cost;
      cost.collectives = {{"shm", ranks, 1000, 1e-4}, {"shm", ranks, 1'000'000, 2e-4}};
      for (const plan::Body& body : plan.find("step")->bodies)
        for (const plan::Step& step : body.steps)
          if (step.kind == plan::StepKind::kCompute)
            cost.stepSeconds[planner::signature(body, step)] = 2 * step.seconds;
      planner::predict(plan, cluster, cost);
      const double before = planner::simulate(plan, cluster, cost).stepSeconds;
      for (const double factor : {0.3, 1.0, 1.2, 3.0}) {
        planner::CostModel fitted = cost;
        planner::calibrate(fitted, plan, cluster, before * factor);
        plan::Plan again = plan;
        planner::predict(again, cluster, fitted);
        const double after = planner::simulate(again, cluster, fitted).stepSeconds;
        QVERIFY2(
            std::abs(after / (before * factor) - 1) < 0.01,
            qPrintable(QString("%1 ranks, %2: %3").arg(ranks).arg(factor).arg(after / before)));
      }
      // A measurement below any reason leaves costs that are positive.
      planner::calibrate(cost, plan, cluster, 0);
      QVERIFY(cost.stepOverheadSeconds > 0);
      for (const auto& one : cost.collectives) QVERIFY(one.seconds > 0);
    }
  }

  // Of p equal stages and m micro-batches GPipe and 1F1B idle (p − 1) / (m + p − 1) of a step
  // (Huang et al., "GPipe", 2019). Forward pass, gradients of inputs and of weights taking F, B and
  // W each, ZB-H1 waits (p − 1) · (F + B − W), where m is not less than p (Qi et al., "Zero bubble
  // pipeline parallelism", 2023, table 2).
  void bubblesAreAsTheFormulasSay() {
    constexpr double kUnit = 1e-3;  // F, B and W
    std::mt19937 random(43);
    for (int round = 0; round < 12; ++round) {
      const int stages = std::uniform_int_distribution<>(2, 8)(random);
      for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
        const bool isSplit = std::string_view(schedule) == "zb-h1";
        const int parts = std::uniform_int_distribution<>(isSplit ? stages : 1, 20)(random);
        cluster::Cluster cluster = clusterOf(stages);
        cluster.mesh = cluster::Mesh({{"stage", stages}, {"data", 1}});
        plan::Plan plan = planOf(pipelineOf(stages, parts, schedule), cluster);
        setSeconds(plan, "forward", kUnit);
        setSeconds(plan, "backward", isSplit ? kUnit : 2 * kUnit);
        setSeconds(plan, "weights", kUnit);
        setSeconds(plan, "update", 1e-9);
        planner::CostModel cost;
        cost.stepOverheadSeconds = 1e-9;
        const auto simulation = planner::simulate(plan, cluster, cost);
        const double waits = (stages - 1) * (isSplit ? 1 : 3) * kUnit, works = parts * 3 * kUnit;
        const std::string what =
            fmt::format("{}, {} stages, {} micro-batches", schedule, stages, parts);
        QVERIFY2(std::abs(simulation.stepSeconds / (works + waits) - 1) < 1e-3,
                 fmt::format("{}: {}", what, simulation.stepSeconds).c_str());
        for (const auto& rank : simulation.ranks)
          QVERIFY2(std::abs(rank.waiting - waits) < 1e-3 * (works + waits),
                   fmt::format("{}: {} and {}", what, rank.waiting, waits).c_str());
      }
    }
  }

  // What is frozen has no gradients: stages that count that are faster than those that do not.
  void stagesOfFrozenLayersAreBalanced() {
    Draw draw(29);
    int faster = 0;
    constexpr int kRounds = 12;
    for (int round = 0; round < kRounds; ++round) {
      const int blocks = draw.of({6, 8, 10}), stages = draw.of({2, 3}), frozen = blocks / 2;
      models::Model model = draw.gpt(blocks, draw.of({64, 128}), 256, 32);
      model.layers.back().tied.clear();
      planner::PlanRequest asked = request(model, 4, 4);
      asked.strategy = "pipeline";
      asked.microBatches = 8;
      cluster::Cluster cluster = clusterOf(stages);
      cluster.mesh = cluster::Mesh({{"stage", stages}, {"data", 1}});
      cluster.link = {"shm", 5e-6, 5e9};
      const auto stagesOf = [&] {
        const plan::Plan plan = planOf(asked, cluster);
        const auto layers = planner::layerPlacements(asked, cluster, {}, plan);
        if (!layers.ok()) qFatal("%s", layers.error().text().c_str());
        std::vector<std::pair<std::string, int>> pins;
        for (std::size_t i = 0; i < layers->size(); ++i)
          pins.emplace_back(asked.step.layers[i].name, (*layers)[i].stage);
        return pins;
      };
      const auto before = stagesOf();
      for (ir::Parameter& parameter : asked.step.parameters)
        for (int block = 0; block < frozen; ++block)
          if (parameter.name.starts_with(fmt::format("block{}.", block)) ||
              parameter.name.starts_with("embedding."))
            parameter.frozen = true;
      const auto after = stagesOf();
      const auto stepOf = [&](const std::vector<std::pair<std::string, int>>& pins) {
        planner::PlanRequest pinned = asked;
        pinned.strategy = "placement";
        pinned.pins = pins;
        return planner::simulate(planOf(pinned, cluster), cluster, {}, {}).stepSeconds;
      };
      const double now = stepOf(after), then = stepOf(before);
      QVERIFY2(now < 1.02 * then, fmt::format("round {}: {} and {}", round, now, then).c_str());
      if (now < 0.97 * then) ++faster;
    }
    QVERIFY2(faster >= kRounds / 2, fmt::format("{} of {}", faster, kRounds).c_str());
  }

  // Ranks of a stage that cannot be told apart are simulated as one: the same comes out where each
  // is simulated, as for a factor that is too small to matter.
  void ranksThatCannotBeToldApartAreLikeAnyOthers() {
    Draw draw(7);
    int planned = 0;
    for (int round = 0; round < 150; ++round) {
      const Drawn drawn = draw();
      const cluster::Cluster& cluster = drawn.cluster;
      const auto plan = planner::makePlan(drawn.request, cluster, {});
      if (!plan.ok()) continue;  // not every strategy has every mesh
      ++planned;
      planner::SimulateOptions options;
      options.steps = draw.of({1, 3});
      const auto simulation = planner::simulate(*plan, cluster, {}, options);
      const auto ranks = static_cast<std::size_t>(plan->mesh.size());
      options.slowdown.assign(ranks, 1);
      options.slowdown.back() = 1 + 1e-15;
      const auto each = planner::simulate(*plan, cluster, {}, options);
      QVERIFY2(close(simulation.stepSeconds, each.stepSeconds), drawn.text.c_str());
      QCOMPARE(simulation.ranks.size(), ranks);
      for (std::size_t r = 0; r < each.ranks.size(); ++r) {
        const auto &a = simulation.ranks[r], &b = each.ranks[r];
        using Breakdown = planner::Simulation::Breakdown;
        for (double Breakdown::*part :
             {&Breakdown::data, &Breakdown::forward, &Breakdown::backward, &Breakdown::waiting,
              &Breakdown::transfer, &Breakdown::optimizer, &Breakdown::hidden})
          QVERIFY2(std::abs(a.*part - b.*part) < 1e-7,  // sums of whole nanoseconds
                   fmt::format("{}: rank {}: {} and {}", drawn.text, r, a.*part, b.*part).c_str());
      }
      const auto isWaiting = [](const plan::Event& event) {
        return event.kind == plan::EventKind::kWaiting && event.end - event.begin < 2;
      };
      std::vector<plan::Event> first = simulation.events, second = each.events;
      std::erase_if(first, isWaiting);
      std::erase_if(second, isWaiting);
      QCOMPARE(first.size(), second.size());
      for (std::size_t i = 0; i < first.size(); ++i) {
        const plan::Event &a = first[i], &b = second[i];
        QVERIFY(a.rank == b.rank && a.step == b.step && a.planStep == b.planStep);
        QVERIFY(a.kind == b.kind && a.bytes == b.bytes && a.asynchronous == b.asynchronous);
        QVERIFY(std::abs(a.begin - b.begin) <= 2 && std::abs(a.end - b.end) <= 2);
      }
      // Without events the rest is as with them.
      options.slowdown.clear();
      options.events = false;
      const auto brief = planner::simulate(*plan, cluster, {}, options);
      QVERIFY(brief.events.empty());
      QCOMPARE(brief.stepSeconds, simulation.stepSeconds);
      QCOMPARE(brief.ranks.back().forward, simulation.ranks.back().forward);
    }
    QVERIFY2(planned >= 50, qPrintable(QString::number(planned)));
  }

  void aThousandRanksAreSimulatedQuickly() {
    const auto cluster = clusterOf(1024, 4, 8);
    const plan::Plan plan = planOf(request(fashionCnn(), 2000, 2000), cluster);
    QElapsedTimer timer;
    timer.start();
    const auto simulation = planner::simulate(plan, cluster, {});
    QVERIFY2(timer.elapsed() <= 16000 || test::kSanitized,
             qPrintable(QString::number(timer.elapsed())));
    QCOMPARE(simulation.ranks.size(), std::size_t{1024});
  }

  // A step takes more nanoseconds than 64 bits hold.
  void timesOfAnySizeAreBounded() {
    const auto cluster = clusterOf(2);
    planner::CostModel cost;
    cost.stepOverheadSeconds = 1e14;
    const plan::Plan plan = planOf(request(fashionMlp(), 64, 64), cluster);
    const auto events = planner::simulate(plan, cluster, cost).events;
    QVERIFY(!events.empty());
    for (const plan::Event& event : events) QVERIFY(event.begin >= 0 && event.end >= event.begin);
  }

  void unknownProgramsGiveNothing() {
    const auto cluster = clusterOf(1);
    const plan::Plan plan = planOf(request(fashionMlp(), 8, 8), cluster);
    planner::SimulateOptions options;
    options.program = "save";
    QVERIFY(planner::simulate(plan, cluster, {}, options).events.empty());
  }
};

QTEST_GUILESS_MAIN(SimulateTest)
#include "simulate_test.moc"
