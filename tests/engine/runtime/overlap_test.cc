// Asynchronous collectives change no bit, stay within their memory limit, and overlap computation.
#include <QTest>

#include "tests/support/engine_run.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

RunSettings gpt(const char* strategy, int ranks) {
  RunSettings settings;
  settings.model = smallGpt(12);
  settings.strategy = strategy;
  settings.ranks = ranks;
  settings.batch = settings.evaluateBatch = 48;
  settings.samples = 200;
  settings.bucketBytes = 1 << 12;
  settings.trainer.maxSteps = 6;
  return settings;
}

const plan::Body& stepOf(const plan::Plan& plan) { return plan.find("step")->bodies[0]; }

std::vector<std::size_t> asynchronousSteps(const plan::Body& body) {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < body.steps.size(); ++i)
    if (body.steps[i].stream == plan::kCommunicationStream) steps.push_back(i);
  return steps;
}

std::size_t asynchronousCount(const plan::Plan& plan) {
  std::size_t count = 0;
  for (const plan::Program& program : plan.programs)
    for (const plan::Body& body : program.bodies) count += asynchronousSteps(body).size();
  return count;
}

plan::Plan planned(const RunSettings& settings) {
  const auto plan = planOf(settings);
  LOCKSTEP_CHECK(plan.ok(), "{}", plan.error().text());
  return *plan;
}

}  // namespace

class OverlapTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void sameBits_data() {
    QTest::addColumn<RunSettings>("settings");
    const auto row = [](const char* name, const RunSettings& settings) {
      QTest::newRow(name) << settings;
    };
    for (const char* strategy :
         {"multi-worker-mirrored", "zero-1", "zero-2", "zero-3", "local-sgd"}) {
      RunSettings settings = gpt(strategy, 3);
      if (settings.strategy == "local-sgd") settings.microBatches = 2;
      row(strategy, settings);
    }
    RunSettings settings = gpt("zero-3", 4);
    settings.modelRanks = 2;
    row("zero-3 x tensor", settings);
    settings = gpt("zero-1", 8);
    settings.modelRanks = settings.stages = 2;
    settings.microBatches = 4;
    row("zero-1 x tensor x pipeline", settings);
    settings = gpt("multi-worker-mirrored", 2);
    settings.compression = "int8";
    settings.compute = DType::kF32;
    row("int8", settings);
    settings = gpt("zero-3", 2);
    settings.model = smallResnet(2);
    settings.microBatches = 2;
    row("batch norm, micro-batches", settings);
    settings = gpt("multi-worker-mirrored", 4);
    settings.hosts = 2;
    settings.allReduce = "ring";
    row("ring", settings);
    settings = gpt("multi-worker-mirrored", 3);
    settings.shares = {1, 2, 1};
    row("shares", settings);
  }
  void sameBits() {
    QFETCH(RunSettings, settings);
    settings.overlap = "never";
    const RunOutcome waiting = trained(settings);
    QVERIFY2(waiting.ok(), waiting.error().c_str());
    QCOMPARE(asynchronousCount(planned(settings)), std::size_t{0});
    settings.overlap = "always";
    const RunOutcome overlapped = trained(settings);
    QVERIFY2(overlapped.ok(), overlapped.error().c_str());
    QVERIFY(asynchronousCount(planned(settings)) > 0);
    QCOMPARE(overlapped.ranks[0]->weightsSha256, waiting.ranks[0]->weightsSha256);
    QCOMPARE(overlapped.steps.size(), waiting.steps.size());
    for (std::size_t i = 0; i < overlapped.steps.size(); ++i)
      QCOMPARE(overlapped.steps[i].loss, waiting.steps[i].loss);
  }

  // Between hosts collectives are asynchronous where there is enough to compute meanwhile; on one
  // host none do.
  void autoMeansBetweenHosts() {
    RunSettings settings = gpt("zero-3", 2);
    QCOMPARE(asynchronousCount(planned(settings)), std::size_t{0});
    cluster::Cluster far = oneHost(2, 2);
    far.devices[1].host = "host1";
    far.link.kind = "gloo";
    planner::CostModel slow;
    slow.flopsPerSecond = 1e8;
    const auto request = planRequestOf(settings);
    QVERIFY(request.ok());
    const auto plan = planner::makePlan(*request, far, slow);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    QVERIFY(!asynchronousSteps(stepOf(*plan)).empty());
    far.link.kind = "shm";
    QCOMPARE(asynchronousCount(*planner::makePlan(*request, far, slow)), std::size_t{0});
    far.link.kind = "nccl";  // GPUs have a queue for it, on one host too
    far.devices[1].host = "host";
    QVERIFY(asynchronousCount(*planner::makePlan(*request, far, slow)) > 0);
    auto ring = *request;
    ring.allReduce = "ring";
    QVERIFY(!planner::makePlan(ring, far, slow).ok());
  }

  void gathersAreAheadWithinTheirBytes() {
    RunSettings settings = gpt("zero-3", 2);
    settings.overlap = "never";
    const plan::Plan waiting = planned(settings);
    const std::int64_t least = planner::gatheredWindow(waiting, 0);
    settings.overlap = "always";
    std::int64_t before = 0;
    for (const std::int64_t bytes : {least, 2 * least, std::int64_t{1} << 30}) {
      settings.gatherBytes = bytes;
      const plan::Plan plan = planned(settings);
      QVERIFY(planner::gatheredWindow(plan, 0) <= bytes);
      // How many steps of computing lie between a gather and the first that reads it.
      const plan::Body& body = stepOf(plan);
      std::int64_t ahead = 0;
      for (const std::size_t i : asynchronousSteps(body)) {
        if (body.steps[i].op != ir::Op::kAllGather) continue;
        for (std::size_t k = i + 1; k < body.steps.size(); ++k) {
          const auto& after = body.steps[k].after;
          if (body.steps[k].stream == plan::kComputeStream) ++ahead;
          if (std::any_of(after.begin(), after.end(),
                          [&](plan::StepId id) { return static_cast<std::size_t>(id) >= i; }))
            break;
        }
      }
      qInfo("%lld bytes: %lld whole, gathers %lld steps ahead, arena %lld",
            static_cast<long long>(bytes), static_cast<long long>(planner::gatheredWindow(plan, 0)),
            static_cast<long long>(ahead), static_cast<long long>(body.arenaBytes));
      QVERIFY(ahead > before);
      before = ahead;
      QVERIFY(body.arenaBytes <=
              stepOf(waiting).arenaBytes + std::max(bytes - least, std::int64_t{0}) + least);
    }
    settings.gatherBytes = 0;
    QVERIFY(planner::gatheredWindow(planned(settings), 0) <= 2 * least);
  }

  // On a link where a collective takes 4 ms: of what the simulator says can be hidden at least 70 %
  // is.
  void hidesBehindComputing_data() {
    QTest::addColumn<QString>("strategy");
    for (const char* strategy : {"multi-worker-mirrored", "zero-1", "zero-3"})
      QTest::newRow(strategy) << strategy;
  }
  void hidesBehindComputing() {
    QFETCH(QString, strategy);
    RunSettings settings = gpt(qPrintable(strategy), 2);
    settings.backend = "timed";
    settings.compute = DType::kF32;
    settings.bucketBytes = 1 << 14;
    settings.linkRest = 4'000'000;
    settings.trainer.maxSteps = 9;
    double real[2] = {}, simulated[2] = {};
    const auto measure = [&](int overlaps) {
      settings.overlap = overlaps ? "always" : "never";
      plan::Plan plan = planned(settings);
      for (plan::Program& program : plan.programs)
        for (plan::Body& body : program.bodies)
          for (plan::Step& step : body.steps)
            step.seconds = step.kind == plan::StepKind::kCollective ? 4e-3
                           : step.op == ir::Op::kMatmul             ? 2e-3
                                                                    : 1e-9;
      simulated[overlaps] = planner::simulate(plan, oneHost(2, 2), {}).stepSeconds;
      const RunOutcome out = run(settings, plan);
      QVERIFY2(out.ok(), out.error().c_str());
      std::vector<double> steps;
      for (const auto& step : out.steps)
        steps.push_back(static_cast<double>(step.end - step.begin) * 1e-9);
      std::sort(steps.begin(), steps.end());
      real[overlaps] = steps[steps.size() / 2];
    };
    const auto hidden = [&] { return real[0] - real[1] >= 0.7 * (simulated[0] - simulated[1]); };
    // Measured in real time, on a machine that may be busy: one of ten attempts has to succeed.
    for (int attempt = 0; attempt < 10 && (attempt == 0 || !hidden()); ++attempt) {
      measure(0);
      measure(1);
      qInfo("%.1f -> %.1f ms, simulated %.1f -> %.1f", 1e3 * real[0], 1e3 * real[1],
            1e3 * simulated[0], 1e3 * simulated[1]);
    }
    QVERIFY(simulated[0] - simulated[1] > 8e-3);
    QVERIFY(hidden());
  }

  void whatWaitsForNothingIsRefused() {
    plan::Plan plan = planned([] {
      RunSettings settings = gpt("zero-3", 2);
      settings.overlap = "always";
      return settings;
    }());
    for (plan::Program& program : plan.programs)
      if (program.name == "step")
        for (plan::Step& step : program.bodies[0].steps) step.after.clear();
    const Status status = plan::verify(plan);
    QVERIFY(!status.ok());
    QVERIFY2(status.error().text().find("order") != std::string::npos,
             status.error().text().c_str());
    RunSettings settings;
    settings.overlap = "sometimes";
    QVERIFY(planOf(settings).error().text().find("auto, always or never") != std::string::npos);
  }

  // Whichever collective fails, asynchronous or not: every rank ends, with an error.
  void everyCallCanFail() {
    for (int call = 0; call < 60; call += call < 12 ? 1 : 7) {
      RunSettings settings = gpt("zero-3", 3);
      settings.overlap = "always";
      settings.trainer.maxSteps = 3;
      settings.failingRank = call % 3;
      settings.failingCall = call;
      const RunOutcome out = trained(settings);
      for (const auto& result : out.ranks)
        QVERIFY2(!result.ok(), qPrintable(QString("call %1").arg(call)));
    }
  }
};

QTEST_GUILESS_MAIN(OverlapTest)
#include "overlap_test.moc"
