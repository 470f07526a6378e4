// Answers about runs whose truth is known: simulated steps with seeded jitter are written to a
// history as a recorder writes them, with a slow rank; what they take without it is simulated too.
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <random>
#include <set>

#include "app/history/history.h"
#include "app/runs/preview.h"
#include "app/runs/rank_costs.h"
#include "app/specs/spec_text.h"
#include "app/whatif/link_time.h"
#include "app/whatif/measured_speeds.h"
#include "app/whatif/steps_without.h"
#include "app/whatif/subject.h"
#include "engine/planner/replay.h"
#include "lockstep/run/v1/telemetry.pb.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr int kSteps = 124, kEvery = 10;
constexpr double kSlow = 2.5;

LaunchRequest requestOf(int nodes, const std::vector<std::string>& changes) {
  auto spec =
      loadRunSpec(lockstep::test::sourcePath("resources/examples/") + "fashion-mlp.yaml", changes);
  if (!spec.ok()) qFatal("%s", spec.error().text().c_str());
  LaunchRequest request;
  request.spec = spec->spec;
  request.cluster = localCluster(nodes, "/nowhere", "gloo").spec;
  return request;
}

Preview previewOf(int nodes, const std::vector<std::string>& changes) {
  auto preview = makePreview(requestOf(nodes, changes), {});
  if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
  return std::move(*preview);
}

// The steps of the plans, by rank.
std::vector<std::vector<const plan::Step*>> scriptsOf(const Preview& preview) {
  std::vector<std::vector<const plan::Step*>> out;
  for (int rank = 0; rank < preview.plan.mesh.size(); ++rank) {
    auto& script = out.emplace_back();
    for (const plan::ScheduleEntry& entry : preview.plan.entriesOf(rank))
      for (const plan::Step& step : preview.plan.find(entry.program, rank)->steps)
        script.push_back(&step);
  }
  return out;
}

// What a step of a rank's plan takes: as predicted, times `factor(rank, step)` where it computes.
template <typename F>
planner::MeasuredSeconds secondsOf(const Preview& preview, F factor) {
  const auto scripts = scriptsOf(preview);
  return [scripts, factor, overhead = preview.cost.stepOverheadSeconds](int rank, int step,
                                                                        plan::StepId id) {
    if (id < 0) return overhead * factor(rank, step);
    const plan::Step& one = *scripts[static_cast<std::size_t>(rank)][static_cast<std::size_t>(id)];
    return one.kind == plan::StepKind::kCompute ? one.seconds * factor(rank, step) : one.seconds;
  };
}

// As `seconds`, where a rank's process is stopped now and then as by a quota, in computing and in
// exchanges. Nobody reports it: the stops are too short to be told from a busy machine.
planner::MeasuredSeconds stopped(const Preview& preview, planner::MeasuredSeconds seconds, int slow,
                                 unsigned seed) {
  const auto isStopped = [=](int step, unsigned where) {
    return std::mt19937(seed * 7919u + static_cast<unsigned>(step) * 31u + where)() % 5 < 2;
  };
  const auto scripts = scriptsOf(preview);
  return [=, plan = preview.plan, length = preview.stepSeconds](int rank, int step,
                                                                plan::StepId id) {
    const double usual = seconds(rank, step, id);
    if (id < 0) return usual;
    const plan::Step& one = *scripts[static_cast<std::size_t>(rank)][static_cast<std::size_t>(id)];
    if (one.kind == plan::StepKind::kCompute)
      return rank == slow && isStopped(step, 1) ? 6 * usual : usual;
    // A collective holds all of its ranks up, a message its sender.
    const bool isHeld = plan::isMessage(one)
                            ? rank == slow
                            : isStopped(step, 0) && plan.stageOf(rank) == plan.stageOf(slow);
    return isHeld && isStopped(step, 2) ? usual + length : usual;
  };
}

// A rank's step, as it is recorded.
struct OwnStep {
  run::v1::EventChunk chunk;
  std::int64_t end = 0;
  std::map<std::string, double> seconds;
};
// What an executor tells of an event: a collective counts from arrival to end.
void add(OwnStep& to, const plan::Event& event) {
  const double seconds = static_cast<double>(event.end - event.begin) * 1e-9;
  to.end = std::max(to.end, event.end);
  if (event.kind == plan::EventKind::kWaiting) to.seconds["waiting"] += seconds;
  if (event.kind == plan::EventKind::kData) to.seconds["data"] += seconds;
  if (event.kind == plan::EventKind::kCompute)
    to.seconds[event.phase == ir::Phase::kBackward    ? "backward"
               : event.phase == ir::Phase::kOptimizer ? "optimizer"
                                                      : "forward"] += seconds;
  if (event.asynchronous && event.kind == plan::EventKind::kWaiting) return;
  to.chunk.set_rank(event.rank);
  to.chunk.set_step(event.step);
  to.chunk.add_plan_step(event.planStep);
  to.chunk.add_kind(static_cast<int>(event.kind));
  to.chunk.add_phase(static_cast<int>(event.phase));
  to.chunk.add_begin_ns(event.begin);
  to.chunk.add_end_ns(event.end);
}

// Steps in which a rank's process does not run for a time within its exchanges.
struct Stalls {
  int rank = -1;
  double seconds = 0;
  bool afterOthers = false;  // the others have left: they wait at the next step's first exchange
  bool isIn(int step) const { return rank >= 0 && step > 5 && step % kEvery == 3; }
};

// As `seconds`, with stalls.
planner::MeasuredSeconds stalled(const Preview& preview, planner::MeasuredSeconds seconds,
                                 const Stalls& stalls) {
  plan::StepId exchange = 0;  // the first of a step; ranks run equal programs
  const plan::ScheduleEntry& entry = preview.plan.entriesOf(0).front();
  for (const plan::Step& step : preview.plan.find(entry.program, 0)->steps) {
    if (step.kind == plan::StepKind::kCollective) break;
    ++exchange;
  }
  return [=](int rank, int step, plan::StepId id) {  // steps from 0
    const bool isHere = stalls.afterOthers
                            ? id < 0 && rank == stalls.rank && stalls.isIn(step)  // the one after
                            : id == exchange && stalls.isIn(step + 1);
    return seconds(rank, step, id) + (isHere ? stalls.seconds : 0);
  };
}

struct Recorded {
  QTemporaryDir folder;
  std::unique_ptr<History> history;
  RunRow row;
  double measured = 0;  // mean step, without the first ones

  template <typename F>
  Recorded(const Preview& preview, F factor) : Recorded(preview, secondsOf(preview, factor), {}) {}
  // `profiled`: steps that are recorded beside the sampled ones. `before`: the last step that the
  // history has not.
  Recorded(const Preview& preview, const planner::MeasuredSeconds& seconds, const Stalls& stalls,
           const std::set<std::int64_t>& profiled = {}, std::int64_t before = 0) {
    history = std::move(*History::open(folder.path().toStdString()));
    row.run = "20240501-120010-a1b2c0";
    row.world = preview.plan.mesh.size();
    RunDocuments documents;
    documents.plan = preview.planText;
    documents.prediction = predictionJson(preview);
    if (!history->add(row, documents).ok()) qFatal("the history takes no run");
    const planner::Replay steps = planner::replay(preview.plan, stalled(preview, seconds, stalls),
                                                  {.steps = kSteps, .events = true});
    for (int step = 6; step <= kSteps; ++step)
      measured += steps.stepSeconds[static_cast<std::size_t>(step) - 1] / (kSteps - 5);
    std::map<std::pair<int, std::int64_t>, OwnStep> own;
    for (const plan::Event& event : steps.events) add(own[{event.rank, event.step}], event);
    for (auto& [at, step] : own)
      if (at.first == stalls.rank && stalls.isIn(static_cast<int>(at.second)))
        stall(step, own[{at.first, at.second + 1}], stalls);
    record(own, profiled, before);
  }

  // What was simulated as data of the next step was a stall within this one.
  static void stall(OwnStep& step, OwnStep& next, const Stalls& stalls) {
    step.seconds["stalled"] = stalls.seconds;
    if (!stalls.afterOthers) return;
    step.end += std::llround(stalls.seconds * 1e9);
    next.seconds["data"] -= stalls.seconds;
  }

  void record(std::map<std::pair<int, std::int64_t>, OwnStep>& own,
              const std::set<std::int64_t>& profiled, std::int64_t before) {
    RunBatch batch;
    std::map<std::string, std::vector<Point>> series;
    for (auto& [at, step] : own) {
      const auto& [rank, number] = at;
      const std::int64_t begin = number > 1 ? own[{rank, number - 1}].end : 0;
      const double length = static_cast<double>(step.end - begin) * 1e-9;
      double rest = length;
      for (const char* part : {"data", "forward", "backward", "waiting", "optimizer"})
        rest -= step.seconds[part];
      step.seconds["transfer"] = std::max(rest, 0.0);
      step.seconds["step"] = length;
      for (const auto& [name, seconds] : step.seconds)
        series[fmt::format("rank/{}/{}", rank, name)].push_back(
            {static_cast<double>(before + number), seconds});
      const bool sampled = number % kEvery == 0 || profiled.contains(number);
      // Beside the sampled steps, many more that were told since they were slow.
      const bool slow = !sampled && number % kEvery > 3;
      if (slow || sampled)
        batch.events.push_back({rank, before + number, step.chunk.SerializeAsString(), slow});
    }
    for (auto& [name, points] : series) batch.series.push_back({name, std::move(points)});
    auto store = history->openRun(row.run);
    if (!(*store)->lockForRecording().ok() || !(*store)->append(batch).ok())
      qFatal("the history takes no steps");
  }
  MeasuredRun read(std::int64_t last = 0) const {
    auto run = readMeasuredRun(*history, row, last);
    if (!run.ok()) qFatal("%s", run.error().text().c_str());
    return std::move(*run);
  }
};

// Between 0.9 and 1.1, by the seed, the rank and the step.
double jitter(unsigned seed, int rank, int step) {
  std::mt19937 random(seed * 1'000'003u + static_cast<unsigned>(rank) * 10'007u +
                      static_cast<unsigned>(step));
  return 0.9 + 0.2 * static_cast<double>(random()) / static_cast<double>(std::mt19937::max());
}

bool near(double a, double b, double share) { return std::abs(a - b) <= share * std::abs(b); }

QByteArray said(const char* what, double a, double b) {
  return fmt::format("{}: {} and {}", what, a, b).c_str();
}

}  // namespace

class WhatIfTest : public QObject {
  Q_OBJECT

  static void strategies() {
    QTest::addColumn<QStringList>("settings");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<int>("slow");
    QTest::newRow("data parallel") << QStringList{"strategy.overlap=never"} << 4 << 2;
    QTest::newRow("overlapped") << QStringList{"strategy.overlap=always"} << 4 << 1;
    QTest::newRow("zero-3") << QStringList{"strategy.kind=zero-3", "strategy.overlap=never"} << 4
                            << 3;
    QTest::newRow("tensor parallel")
        << QStringList{"strategy.kind=tensor-parallel", "strategy.overlap=never"} << 2 << 0;
    QTest::newRow("pipeline") << QStringList{"strategy.kind=pipeline", "strategy.stages=2",
                                             "strategy.micro_batches=4"}
                              << 4 << 3;
    QTest::newRow("parameter server") << QStringList{"strategy.kind=parameter-server"} << 4 << 1;
  }
  static Preview fetchedPreview() {
    QFETCH(QStringList, settings);
    QFETCH(int, ranks);
    std::vector<std::string> changes;
    for (const QString& one : settings) changes.push_back(one.toStdString());
    return previewOf(ranks, changes);
  }

 private Q_SLOTS:
  void theAnswerIsTheRunWithoutTheSlowRank_data() { strategies(); }
  void theAnswerIsTheRunWithoutTheSlowRank() {
    QFETCH(int, slow);
    const Preview preview = fetchedPreview();
    for (unsigned seed = 1; seed <= 3; ++seed) {
      const auto healthy = [&](int rank, int step) { return jitter(seed, rank, step); };
      const Recorded recorded(preview, [&](int rank, int step) {
        return healthy(rank, step) * (rank == slow ? kSlow : 1);
      });
      const Recorded truth(preview, healthy);
      const MeasuredRun run = recorded.read();
      QVERIFY(!run.sampled.empty());
      for (const std::int64_t step : run.sampled) QCOMPARE(step % kEvery, std::int64_t{0});
      const Replayed replayed = replayOf(run);
      QVERIFY2(near(replayed.measuredSeconds(), recorded.measured, 1e-4),
               said("measured", replayed.measuredSeconds(), recorded.measured));
      QVERIFY2(std::abs(replayed.error()) < 0.03, said("error", replayed.error(), 0));
      const auto answer = whatIf(run, replayed, {.without = {slow}});
      QVERIFY2(answer.ok(), answer.ok() ? "" : answer.error().text().c_str());
      QVERIFY2(near(answer->stepSeconds, truth.measured, 0.03),
               said("without it", answer->stepSeconds, truth.measured));
      QVERIFY(answer->stepSeconds < recorded.measured);
      QVERIFY(near(answer->samplesPerSecond * answer->stepSeconds,
                   static_cast<double>(preview.plan.globalBatch), 1e-6));
    }
  }

  void theAnswerIsTheRunWithoutTheStoppedRank_data() { strategies(); }
  void theAnswerIsTheRunWithoutTheStoppedRank() {
    QFETCH(int, slow);
    const Preview preview = fetchedPreview();
    for (unsigned seed = 1; seed <= 3; ++seed) {
      const planner::MeasuredSeconds healthy =
          secondsOf(preview, [&](int rank, int step) { return jitter(seed, rank, step); });
      const Recorded truth(preview, healthy, {});
      const Recorded recorded(preview, stopped(preview, healthy, slow, seed), {});
      QVERIFY(recorded.measured > 1.5 * truth.measured);
      const MeasuredRun run = recorded.read();
      const Replayed replayed = replayOf(run);
      const auto answer = whatIf(run, replayed, {.without = {slow}});
      QVERIFY2(answer.ok(), answer.ok() ? "" : answer.error().text().c_str());
      QVERIFY2(near(answer->stepSeconds, truth.measured, 0.05),
               said("without it", answer->stepSeconds, truth.measured));
      if (preview.plan.mesh.size() == 2) continue;
      // Little comes of a rank that was not held up.
      const auto other = whatIf(run, replayed, {.without = {slow == 0 ? 1 : 0}});
      QVERIFY2(other->stepSeconds > 0.9 * recorded.measured,
               said("without another", other->stepSeconds, recorded.measured));
    }
  }

  // A quota stops a rank in different compute steps of its plan each time. Those that happened to
  // be stopped in the sampled training steps do not take longer once the rank is as fast as its
  // peers.
  void whereTheRankWasStoppedDoesNotCount_data() { strategies(); }
  void whereTheRankWasStoppedDoesNotCount() {
    QFETCH(int, slow);
    const Preview preview = fetchedPreview();
    const auto scripts = scriptsOf(preview);
    for (unsigned seed = 1; seed <= 3; ++seed) {
      const planner::MeasuredSeconds healthy =
          secondsOf(preview, [&](int rank, int step) { return jitter(seed, rank, step); });
      const auto held = [&](int rank, int step, plan::StepId id) {
        const bool isStopped = rank == slow && id >= 0 &&
                               scripts[rank][id]->kind == plan::StepKind::kCompute &&
                               jitter(seed, id, step) > 1.07;
        return healthy(rank, step, id) + (isStopped ? preview.stepSeconds : 0);
      };
      const Recorded truth(preview, healthy, {});
      const Recorded recorded(preview, held, {});
      QVERIFY(recorded.measured > 1.5 * truth.measured);
      const MeasuredRun run = recorded.read();
      const auto answer = whatIf(run, replayOf(run), {.without = {slow}});
      QVERIFY2(answer.ok(), answer.ok() ? "" : answer.error().text().c_str());
      QVERIFY2(near(answer->stepSeconds, truth.measured, 0.05),
               said("without it", answer->stepSeconds, truth.measured));
    }
  }

  void aStallWithinAnExchangeIsReplayed_data() {
    QTest::addColumn<bool>("afterOthers");
    QTest::newRow("the others wait in it") << false;
    QTest::newRow("the others have left it") << true;
  }
  void aStallWithinAnExchangeIsReplayed() {
    QFETCH(bool, afterOthers);
    constexpr int kStalled = 1;
    const Preview preview = previewOf(3, {"strategy.overlap=never"});
    const auto healthy = [](int rank, int step) { return jitter(5, rank, step); };
    const Recorded truth(preview, healthy);
    const Recorded recorded(preview, secondsOf(preview, healthy),
                            {kStalled, 20 * truth.measured, afterOthers});
    QVERIFY(recorded.measured > 2.5 * truth.measured);
    const MeasuredRun run = recorded.read();
    const Replayed replayed = replayOf(run);
    QVERIFY2(near(replayed.measuredSeconds(), recorded.measured, 1e-4),
             said("measured", replayed.measuredSeconds(), recorded.measured));
    QVERIFY2(std::abs(replayed.error()) < 0.03, said("error", replayed.error(), 0));
    const auto without = whatIf(run, replayed, {.without = {kStalled}});
    QVERIFY2(near(without->stepSeconds, truth.measured, 0.05),
             said("without it", without->stepSeconds, truth.measured));
    const auto other = whatIf(run, replayed, {.without = {0}});
    QVERIFY2(near(other->stepSeconds, recorded.measured, 0.05),
             said("without another", other->stepSeconds, recorded.measured));
  }

  void aReplayOfEqualStepsIsExact() {
    const Preview preview = previewOf(3, {"strategy.overlap=never"});
    const Recorded recorded(preview, [](int rank, int) { return rank == 1 ? kSlow : 1.0; });
    const Recorded truth(preview, [](int, int) { return 1.0; });
    const MeasuredRun run = recorded.read();
    QCOMPARE(run.steps.front(), 6);
    QCOMPARE(run.steps.back(), kSteps);
    QCOMPARE(run.sampled.size(), std::size_t{kSteps / kEvery});
    const Replayed replayed = replayOf(run);
    const auto answer = whatIf(run, replayed, {.without = {1}});
    QVERIFY2(near(answer->stepSeconds, truth.measured, 0.005),
             said("without it", answer->stepSeconds, truth.measured));
  }

  // Many steps are recorded where a rank was slow for a moment: what a step takes is still the mean
  // over the run.
  void stepsRecordedAtAStragglerWeighNoMore() {
    const Preview preview = previewOf(3, {"strategy.overlap=never"});
    const auto factor = [](int rank, int step) {  // steps from 0
      return rank == 1 && step >= 60 && step < 67 ? 10.0 : 1.0;
    };
    const Recorded recorded(preview, secondsOf(preview, factor), {},
                            {61, 62, 63, 64, 65, 66, 67, 68});
    const MeasuredRun run = recorded.read(),
                      usual = Recorded(preview, [](int, int) { return 1.0; }).read();
    QCOMPARE(run.sampled.size(), usual.sampled.size() + 8);
    const auto own = [](const MeasuredRun& of) {
      return of.ranks[1].usual[static_cast<std::size_t>(OwnPart::kBackward)];
    };
    // Of 120 steps, seven took ten times as long.
    const double expected = (113 + 7 * 10) / 120.0 * own(usual);
    QVERIFY2(near(own(run), expected, 0.05), said("backward", own(run), expected));
  }

  // Steps became slower in the second half, of which alone the last ones tell.
  void lastStepsAreReplayedByTheirOwnEvents() {
    const Preview preview = previewOf(3, {"strategy.overlap=never"});
    const Recorded recorded(preview, [](int, int step) { return step < kSteps / 2 ? 1.0 : 3.0; });
    const MeasuredRun all = recorded.read(), run = recorded.read(25), few = recorded.read(4);
    QCOMPARE(all.sampled.size(), std::size_t{kSteps / kEvery});
    QCOMPARE(run.steps.front(), kSteps - 24);
    QCOMPARE(run.sampled, (std::vector<std::int64_t>{100, 110, 120}));
    const auto own = [](const MeasuredRun& of) {
      return of.ranks[0].usual[static_cast<std::size_t>(OwnPart::kBackward)];
    };
    QVERIFY2(near(own(run), 3 * own(all) / 2, 0.1), said("backward", own(run), own(all)));
    QCOMPARE(few.steps.front(), kSteps - 3);
    QCOMPARE(few.sampled, (std::vector<std::int64_t>{120}));  // the last one before them
    for (const MeasuredRun* one : {&run, &few})
      QVERIFY2(std::abs(replayOf(*one).error()) < 0.01, said("error", replayOf(*one).error(), 0));
  }

  // It has more steps than there is room for, of which the last ones are read.
  void aLongRunIsReplayed() {
    constexpr std::int64_t kBefore = 20'000'000;
    const Preview preview = previewOf(2, {"strategy.overlap=never"});
    const Recorded recorded(preview, secondsOf(preview, [](int, int) { return 1.0; }), {}, {},
                            kBefore);
    const MeasuredRun run = recorded.read(), few = recorded.read(25);
    QCOMPARE(run.steps.size(), std::size_t{kSteps});
    QCOMPARE(run.steps.front(), kBefore + 1);
    QCOMPARE(run.steps.back(), kBefore + kSteps);
    QCOMPARE(few.steps.front(), kBefore + kSteps - 24);
    for (const MeasuredRun* one : {&run, &few}) {
      const Replayed replayed = replayOf(*one);
      QVERIFY2(near(replayed.measuredSeconds(), recorded.measured, 0.01),
               said("measured", replayed.measuredSeconds(), recorded.measured));
      QVERIFY2(std::abs(replayed.error()) < 0.03, said("error", replayed.error(), 0));
    }
  }

  void anIdealNetworkTakesNoTime() {
    Preview preview = previewOf(4, {"strategy.overlap=never"});
    const auto healthy = [](int rank, int step) { return jitter(7, rank, step); };
    const Recorded recorded(preview, healthy);
    const MeasuredRun run = recorded.read();
    const auto answer = whatIf(run, replayOf(run), {.idealNetwork = true});
    for (plan::Program& program : preview.plan.programs)
      for (plan::Body& body : program.bodies)
        for (plan::Step& step : body.steps)
          if (step.kind == plan::StepKind::kCollective) step.seconds = 1e-12;
    const Recorded truth(preview, healthy);
    QVERIFY2(near(answer->stepSeconds, truth.measured, 0.03),
             said("ideal", answer->stepSeconds, truth.measured));
  }

  // Its stages are busy all the time: the step takes what the busiest has to do.
  void withoutABubbleTheBusiestStageCounts() {
    const Preview preview = previewOf(3, {"strategy.kind=pipeline", "strategy.micro_batches=8"});
    const Recorded recorded(preview, [](int, int) { return 1.0; });
    const MeasuredRun run = recorded.read();
    const Replayed replayed = replayOf(run);
    const auto answer = whatIf(run, replayed, {.noBubble = true});
    double busiest = 0;
    for (const MeasuredRun::Rank& rank : run.ranks) {  // with what all stages exchange together
      double own = 0;
      for (const auto& part : rank.parts) own += part.front();
      for (std::size_t i = 0; i < rank.script.size(); ++i)
        if (rank.exchange[i] >= 0 && !plan::isMessage(*rank.script[i]))
          own += run.exchanges[static_cast<std::size_t>(rank.exchange[i])].seconds;
      busiest = std::max(busiest, own);
    }
    QVERIFY2(near(answer->stepSeconds, busiest, 0.05),
             said("no bubble", answer->stepSeconds, busiest) +
                 said("; error", replayed.error(), replayed.stepSeconds));
    QVERIFY(answer->stepSeconds < replayed.measuredSeconds());
  }

  void linksOfOtherRatesCarryTheSameBytes() {
    const Preview preview = previewOf(3, {"strategy.overlap=never"});
    const Recorded recorded(preview, [](int, int) { return 1.0; });
    const MeasuredRun run = recorded.read();
    const Replayed replayed = replayOf(run);
    QCOMPARE(run.nodes.size(), std::size_t{3});
    const auto slow = parseLinkRate(run.nodes[0] + "-" + run.nodes[1] + "=1Mbit/s", run.nodes);
    QVERIFY(slow.ok());
    QCOMPARE(slow->bytesPerSecond, 125000.0);
    const auto links = exchangeLinks(run, {*slow});
    double bytes = 0, before = 0, after = 0;  // of all exchanges
    for (std::size_t e = 0; e < run.exchanges.size(); ++e) {
      before += (*links)[e].part;
      after += (*links)[e].changed;
      QVERIFY((*links)[e].part <= run.exchanges[e].seconds * (1 + 1e-9));
    }
    for (const plan::Traffic& sent : plan::stepTraffic(run.plan))
      if (sent.from + sent.to == 1) bytes = std::max(bytes, static_cast<double>(sent.bytes));
    QVERIFY2(near(after, bytes / 125000.0, 0.35), said("bytes", after, bytes / 125000.0));
    const auto answer = whatIf(run, replayed, {.links = {*slow}});
    QVERIFY2(near(answer->stepSeconds, replayed.measuredSeconds() + after - before, 0.01),
             said("slow link", answer->stepSeconds, replayed.measuredSeconds() + after - before));
    // At the rate that it has nothing changes; a faster one of three leaves the others.
    const auto fast = parseLinkRate(run.nodes[0] + "-" + run.nodes[1] + "=100TB/s", run.nodes);
    const auto faster = whatIf(run, replayed, {.links = {*fast}});
    QVERIFY(faster->stepSeconds <= replayed.measuredSeconds() * (1 + 1e-9));
  }

  // What the nodes saw of a link while data were under way, of each direction by itself.
  void ratesOfLinksAreRead() {
    const Preview preview = previewOf(3, {"strategy.overlap=never"});
    const Recorded recorded(preview, [](int, int) { return 1.0; });
    const std::vector<std::string> nodes = recorded.read().nodes;
    auto store = recorded.history->openRun(recorded.row.run);
    RunBatch batch;
    const auto name = [&](std::size_t from, std::size_t to) {
      return fmt::format("node/{}/to/{}/rate", nodes[from], nodes[to]);
    };
    batch.series.push_back({name(0, 1), {{1, 1e9}, {2, 3e9}, {3, 2e9}}});
    batch.series.push_back({name(2, 0), {{1, 5e9}}});
    QVERIFY((*store)->lockForRecording().ok() && (*store)->append(batch).ok());
    const auto rates = recorded.read().linkRates;
    QCOMPARE(rates.size(), std::size_t{2});
    QCOMPARE(rates.at({nodes[0], nodes[1]}), 2e9);
    QCOMPARE(rates.at({nodes[2], nodes[0]}), 5e9);
  }

  // Soon after it is asked to: a window that closes waits for it.
  void aReplayIsCancelled() {
    const Preview preview = previewOf(4, {"strategy.overlap=never"});
    const Recorded recorded(preview, [](int, int) { return 1.0; });
    std::stop_source stop;
    int calls = 0;
    const planner::Replay replay = planner::replay(preview.plan,
                                                   [&](int, int, plan::StepId) {
                                                     if (++calls == 100) stop.request_stop();
                                                     return 0.001;
                                                   },
                                                   {.steps = 1000, .stop = stop.get_token()});
    QVERIFY(replay.stepSeconds.empty());
    QVERIFY2(calls < 200, QByteArray::number(calls));
    const std::stop_token stopped = stop.get_token();
    const MeasuredRun run = recorded.read();
    QVERIFY(replayOf(run, stopped).measured.empty());
    QCOMPARE(readMeasuredRun(*recorded.history, recorded.row, 0, stopped).error().code,
             Code::kCancelled);
    QCOMPARE(whatIf(run, replayOf(run), {.without = {2}}, stopped).error().code, Code::kCancelled);
    QCOMPARE(stepsWithout(*recorded.history, recorded.row, {{2}}, 0, stopped).error().code,
             Code::kCancelled);
  }

  // What the stragglers' list says of a step without the rank is another reckoning of the same.
  void theStragglersCostAgrees() {
    const Preview preview = previewOf(4, {"strategy.overlap=never"});
    const Recorded recorded(preview, [](int rank, int step) {
      return jitter(3, rank, step) * (rank == 2 ? kSlow : 1);
    });
    const MeasuredRun run = recorded.read();
    const auto answer = whatIf(run, replayOf(run), {.without = {2}});
    auto store = recorded.history->openRun(recorded.row.run);
    StepMatrix matrix;
    for (const SeriesInfo& info : (*store)->series())
      matrix.add({info.name, std::move(*(*store)->readAll(info.name))});
    const RankCosts costs =
        rankCosts(StepTimes(matrix, 1, kSteps), recorded.row.world, run.nodes, {});
    QCOMPARE(costs.ranks[0].rank, 2);
    QVERIFY2(near(costs.ranks[0].withoutSeconds, answer->stepSeconds, 0.05),
             said("without it", costs.ranks[0].withoutSeconds, answer->stepSeconds));
    // What is shown of it is that answer, of its node too, with the error.
    QCOMPARE(lateRanks(costs, costs.ranks), (std::vector<SlowRanks>{{2}}));
    QCOMPARE(lateRanks(costs, costs.nodes), (std::vector<SlowRanks>{{2}}));
    const auto shown = stepsWithout(*recorded.history, recorded.row, {{2}, {0, 1}, {9}});
    QVERIFY2(shown.ok(), shown.ok() ? "" : shown.error().text().c_str());
    QCOMPARE(shown->without({2}), answer->stepSeconds);
    QVERIFY(shown->without({0, 1}) > answer->stepSeconds);
    QVERIFY(std::isnan(shown->without({9})) && std::isnan(shown->without({1})));
    QCOMPARE(shown->error, replayOf(run).error());
    QCOMPARE(shown->first, run.steps.front());
    QCOMPARE(shown->last, std::int64_t{kSteps});
    const auto last = stepsWithout(*recorded.history, recorded.row, {{2}}, 40);
    QVERIFY(last.ok());
    QCOMPARE(last->first, std::int64_t{kSteps - 39});
    StepsWithout none = *last;
    none.seconds = {none.measuredSeconds};
    QVERIFY(withoutText(none, 2, "n3").starts_with("without rank 2 (n3) a step still takes "));
    StepsWithout shorter = none;  // by a quarter
    shorter.measuredSeconds = 0.00034;
    shorter.seconds = {0.00026};
    QVERIFY(withoutText(shorter, 2, "n3").find("takes 0.260 ms instead of 0.340") !=
            std::string::npos);
    const std::string text = withoutText(*last, 2, "n3");
    QVERIFY2(text.starts_with("without rank 2 (n3) a step takes ") &&
                 text.find(fmt::format("(steps {} to {} replayed", kSteps - 39, kSteps)) !=
                     std::string::npos,
             text.c_str());
  }

  // A run whose ranks compute and exchange slower than built-in costs say, planned for others.
  void otherRanksAndSettingsArePlannedAnew() {
    constexpr double kTimes = 1.7;
    const std::vector<std::string> changes{"strategy.overlap=never", "training.batch=256"};
    const LaunchRequest request = requestOf(2, changes);
    Recorded recorded(previewOf(2, changes), [](int, int) { return kTimes; });
    RunDocuments documents = *recorded.history->documents(recorded.row.run);
    documents.specResolved = toYaml(*request.spec);
    documents.clusterYaml = toYaml(*request.cluster);
    QVERIFY(recorded.history->setDocuments(recorded.row.run, documents).ok());
    const MeasuredRun run = recorded.read();
    const Replayed replayed = replayOf(run);
    const auto launched = launchOf(*recorded.history, recorded.row.run);
    QVERIFY2(launched.ok(), launched.ok() ? "" : launched.error().text().c_str());
    const auto answer = [&](const OtherSettings& settings) {
      auto out = plannedAnew(*launched, run, replayed, settings);
      if (!out.ok()) qFatal("%s", out.error().text().c_str());
      return *out;
    };
    const PlannedAnew same = answer({.ranks = 2});
    QVERIFY2(std::abs(same.error) < 0.02, said("error", same.error, 0));
    QVERIFY(near(same.stepSeconds, recorded.measured, 1e-6));
    const PlannedAnew more = answer({.ranks = 4});
    QCOMPARE(more.ranks, 4);
    const Recorded truth(previewOf(4, changes), [](int, int) { return kTimes; });
    QVERIFY2(near(more.stepSeconds, truth.measured, 0.05),
             said("4 ranks", more.stepSeconds, truth.measured));
    std::vector<std::string> others = changes;
    others[1] = "training.batch=1024";
    const Recorded larger(previewOf(2, others), [](int, int) { return kTimes; });
    const PlannedAnew batch = answer({.sets = {others[1]}});
    QVERIFY2(near(batch.stepSeconds, larger.measured, 0.05),
             said("batch", batch.stepSeconds, larger.measured));
    QVERIFY(near(batch.samplesPerSecond * batch.stepSeconds, 1024, 1e-6));
    const auto refused = plannedAnew(*launched, run, replayed, {.sets = {"training.x=1"}});
    QVERIFY(!refused.ok() && refused.error().text().find("training.x=1") != std::string::npos);
  }

  // Spares, evaluators and servers have no ranks: they are not counted as ranks, and not copied.
  void otherRanksAreOfNodesThatTrain_data() {
    QTest::addColumn<QString>("role");
    QTest::addColumn<QString>("setting");
    QTest::newRow("a spare of the spec") << QString() << "recovery.spares=1";
    QTest::newRow("a spare of the cluster") << "spare"
                                            << "recovery.spares=0";
    QTest::newRow("an evaluator") << "evaluator"
                                  << "recovery.spares=0";
    QTest::newRow("an idle server") << "ps"
                                    << "recovery.spares=0";
  }
  void otherRanksAreOfNodesThatTrain() {
    QFETCH(QString, role);
    QFETCH(QString, setting);
    const std::vector<std::string> changes{"strategy.overlap=never", "training.batch=256"};
    LaunchRequest request = requestOf(3, {changes[0], changes[1], setting.toStdString()});
    auto cluster = std::make_shared<spec::v1::ClusterSpec>(*request.cluster);
    if (!role.isEmpty()) cluster->mutable_nodes(2)->add_roles(role.toStdString());
    request.cluster = cluster;
    const auto preview = makePreview(request, {});
    QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
    QCOMPARE(preview->plan.mesh.size(), 2);
    const auto subject = subjectOf(*preview, {request, {}});
    QVERIFY2(subject.ok(), subject.ok() ? "" : subject.error().text().c_str());
    for (const int ranks : {1, 2, 4}) {
      const auto anew =
          plannedAnew(*subject->launched, subject->steps, subject->replayed, {.ranks = ranks});
      QVERIFY2(anew.ok(), anew.ok() ? "" : anew.error().text().c_str());
      QCOMPARE(anew->ranks, ranks);
    }
  }

  // Before a launch: the predicted step is replayed as it was predicted, and answers as the
  // simulator does of the changed plan.
  void aPredictedStepIsAsked_data() {
    QTest::addColumn<QStringList>("settings");
    QTest::addColumn<int>("ranks");
    QTest::newRow("data parallel") << QStringList{"strategy.overlap=never"} << 4;
    QTest::newRow("overlapped") << QStringList{"strategy.overlap=always"} << 4;
    QTest::newRow("zero-3") << QStringList{"strategy.kind=zero-3"} << 4;
    QTest::newRow("pipeline") << QStringList{"strategy.kind=pipeline", "strategy.stages=2",
                                             "strategy.micro_batches=8"}
                              << 2;
    QTest::newRow("parameter server") << QStringList{"strategy.kind=parameter-server"} << 4;
  }
  void aPredictedStepIsAsked() {
    QFETCH(QStringList, settings);
    QFETCH(int, ranks);
    std::vector<std::string> changes{"training.batch=256"};
    for (const QString& one : settings) changes.push_back(one.toStdString());
    const LaunchRequest request = requestOf(ranks, changes);
    const auto preview = makePreview(request, {});
    QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
    const auto subject = subjectOf(*preview, {request, {}});
    QVERIFY2(subject.ok(), subject.ok() ? "" : subject.error().text().c_str());
    QVERIFY(subject->isPredicted());
    QVERIFY(near(subject->replayed.measuredSeconds(), preview->stepSeconds, 1e-9));
    QVERIFY2(std::abs(subject->replayed.error()) < 0.15,
             said("error", subject->replayed.error(), 0));
    const auto ask = [&](const WhatIfChanges& asked) {
      auto out = whatIf(subject->steps, subject->replayed, asked);
      if (!out.ok()) qFatal("%s", out.error().text().c_str());
      return out->stepSeconds;
    };
    QVERIFY(!subject->links.empty());
    const auto [a, b] = subject->links.front();
    QVERIFY(ask({.links = {{a, b, 1e3}}}) > 2 * preview->stepSeconds);
    plan::Plan ideal = preview->plan;
    for (plan::Program& program : ideal.programs)
      for (plan::Body& body : program.bodies)
        for (plan::Step& step : body.steps)
          if (step.kind == plan::StepKind::kCollective) step.seconds = 1e-12;
    const double truth = planner::simulate(ideal, preview->cluster, preview->cost, {}).stepSeconds;
    QVERIFY2(near(ask({.idealNetwork = true}), truth, 0.15),
             said("ideal", ask({.idealNetwork = true}), truth));
    if (settings.front() == "strategy.kind=pipeline")
      QVERIFY(ask({.noBubble = true}) < preview->stepSeconds);
    const auto anew = plannedAnew(*subject->launched, subject->steps, subject->replayed,
                                  {.sets = {"training.batch=1024"}});
    QVERIFY2(anew.ok(), anew.ok() ? "" : anew.error().text().c_str());
    changes[0] = "training.batch=1024";
    const double larger = previewOf(ranks, changes).stepSeconds;
    QVERIFY2(near(anew->stepSeconds, larger, 0.2), said("batch", anew->stepSeconds, larger));
  }

  void whatIsNotPredictedIsNotAsked() {
    const LaunchRequest request = requestOf(
        3, {"strategy.kind=parameter-server", "strategy.staleness=2", "training.batch=64"});
    const auto preview = makePreview(request, {});
    QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
    const auto subject = subjectOf(*preview, {request, {}});
    QVERIFY(!subject.ok() && subject.error().code == Code::kFailedPrecondition);
    QVERIFY(subject.error().text().find("asynchronous") != std::string::npos);
  }

  // A replay of it would take minutes.
  void aLargePlanIsNotAsked() {
    const LaunchRequest request = requestOf(4, {"training.batch=64"});
    auto preview = makePreview(request, {});
    QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
    QVERIFY(subjectOf(*preview, {request, {}}).ok());
    const std::string& program = preview->plan.entriesOf(0).front().program;
    for (plan::Program& one : preview->plan.programs)
      for (plan::Body& body : one.bodies)
        if (one.name == program && !body.steps.empty()) {
          const plan::Step step = body.steps.front();
          body.steps.resize(200'000, step);
        }
    const auto refused = subjectOf(*preview, {request, {}});
    QVERIFY(!refused.ok() && refused.error().code == Code::kFailedPrecondition);
    QVERIFY2(refused.error().text().find("its 4 ranks") != std::string::npos,
             refused.error().text().c_str());
  }

  // Where exchanges take longer beside what ranks compute, links are slower: those that the cluster
  // names as much as all others.
  void linksAreAsSlowAsMeasured() {
    const std::vector<std::string> changes{"strategy.overlap=never", "training.batch=768"};
    LaunchRequest request = requestOf(3, changes);
    auto cluster = std::make_shared<spec::v1::ClusterSpec>(*request.cluster);
    spec::v1::LinkSpec& named = *cluster->add_links();
    named.set_from(cluster->nodes(0).name());
    named.set_to(cluster->nodes(1).name());
    named.set_bandwidth_mbit(8000);
    request.cluster = cluster;
    const auto preview = makePreview(request, {});
    QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
    const auto& steps = preview->plan.find(preview->plan.entriesOf(0).front().program, 0)->steps;
    const planner::MeasuredSeconds usual = secondsOf(*preview, [](int, int) { return 1.0; });
    const Recorded recorded(*preview,
                            [&](int rank, int step, plan::StepId id) {
                              const bool isExchange =
                                  id >= 0 && steps[static_cast<std::size_t>(id)].kind ==
                                                 plan::StepKind::kCollective;
                              return usual(rank, step, id) * (isExchange ? 6 : 1);
                            },
                            {});
    RunDocuments documents = *recorded.history->documents(recorded.row.run);
    documents.specResolved = toYaml(*request.spec);
    documents.clusterYaml = toYaml(*request.cluster);
    QVERIFY(recorded.history->setDocuments(recorded.row.run, documents).ok());
    const auto subject = subjectOf(*recorded.history, recorded.row);
    QVERIFY2(subject.ok(), subject.ok() ? "" : subject.error().text().c_str());
    const auto launched = launchAsMeasured(
        *subject, {{.node = cluster->nodes(1).name(), .host = {}, .memoryAvailable = 12345}});
    QVERIFY2(launched.ok(), launched.ok() ? "" : launched.error().text().c_str());
    QCOMPARE(launched->hosts[1].memoryAvailable, std::int64_t{12345});
    const auto& links = launched->request.cluster->links();
    QCOMPARE(links.size(), 2);
    QCOMPARE(links[0].from(), named.from());
    QVERIFY2(links[0].bandwidth_mbit() < 0.5 * 8000, said("link", links[0].bandwidth_mbit(), 8000));
    QCOMPARE(links[1].from(), std::string("*"));
    QVERIFY(links[1].bandwidth_mbit() > links[0].bandwidth_mbit());
    const auto seen = makePreview(launched->request, launched->hosts);
    QVERIFY2(seen.ok(), seen.ok() ? "" : seen.error().text().c_str());
    QVERIFY(seen->ranks[0].transfer > 2 * preview->ranks[0].transfer);
  }

  // A node whose rank computes longer is as much slower in what strategies are sought for.
  void nodesAreAsFastAsMeasured() {
    const std::vector<std::string> changes{"strategy.overlap=never", "training.batch=768"};
    const LaunchRequest request = requestOf(3, changes);
    const Preview preview = previewOf(3, changes);
    for (const int slow : {-1, 1}) {
      // All of it takes longer than assumed, which makes no node slower than another.
      const Recorded recorded(preview, [&](int rank, int) { return rank == slow ? 3 * kSlow : 3; });
      RunDocuments documents = *recorded.history->documents(recorded.row.run);
      documents.specResolved = toYaml(*request.spec);
      documents.clusterYaml = toYaml(*request.cluster);
      QVERIFY(recorded.history->setDocuments(recorded.row.run, documents).ok());
      const auto subject = subjectOf(*recorded.history, recorded.row);
      QVERIFY2(subject.ok(), subject.ok() ? "" : subject.error().text().c_str());
      const auto launched = launchAsMeasured(*subject);
      QVERIFY2(launched.ok(), launched.ok() ? "" : launched.error().text().c_str());
      const auto seen = makePreview(launched->request, launched->hosts);
      QVERIFY2(seen.ok(), seen.ok() ? "" : seen.error().text().c_str());
      const auto own = [&](int rank) {
        const RankPreview& one = seen->ranks[static_cast<std::size_t>(rank)];
        return one.forward + one.backward;
      };
      const double times = slow < 0 ? 1 : kSlow;
      QVERIFY2(near(own(1) / own(0), times, 0.1), said("slower", own(1) / own(0), times));
      QVERIFY2(near(own(2), own(0), 0.01), said("alike", own(2), own(0)));
      // The step of the run's own plan is what was measured.
      const auto same =
          plannedAnew(*launched, subject->steps, subject->replayed, {.sets = {changes[1]}});
      QVERIFY2(same.ok(), same.ok() ? "" : same.error().text().c_str());
      QVERIFY2(near(same->stepSeconds, recorded.measured, 1e-3),
               said("same", same->stepSeconds, recorded.measured));
      QVERIFY2(std::abs(same->error) < 0.1, said("error", same->error, 0));
    }
  }

  void ratesAreParsed() {
    const std::vector<std::string> nodes{"n1", "n-2", "n-2-3"};
    for (const auto& [text, rate] :
         std::initializer_list<std::pair<const char*, double>>{{"n1-n-2=10Gbit/s", 1.25e9},
                                                               {"n1-n-2=10Gbit", 1.25e9},
                                                               {"n-2-3-n1=1.2GB/s", 1.2e9},
                                                               {"n-2-n-2-3=5 MB/s", 5e6},
                                                               {"n1-n-2=800kbit/s", 1e5},
                                                               {"n1-n-2=8bit/s", 1}}) {
      const auto link = parseLinkRate(text, nodes);
      QVERIFY2(link.ok(), text);
      QVERIFY2(near(link->bytesPerSecond, rate, 1e-9), text);
    }
    for (const char* text :
         {"", "n1-n-2", "n1-n-2=", "n1-n-2=10", "n1-n-2=0GB/s", "n1-n-2=-1GB/s", "n1-n-2=1Gb/s",
          "n1-n-2=nanGB/s", "n1-n-2=1e99TB/s", "n1-n1=1GB/s", "n1-n4=1GB/s", "n1=1GB/s"}) {
      const auto link = parseLinkRate(text, nodes);
      QVERIFY2(!link.ok() && link.error().text().find("--link") == 0, text);
    }
  }

  void whatCannotBeAnsweredIsSaid() {
    const Preview preview = previewOf(2, {"strategy.overlap=never"});
    const Recorded recorded(preview, [](int, int) { return 1.0; });
    const MeasuredRun run = recorded.read();
    const Replayed replayed = replayOf(run);
    const auto refused = [&](const WhatIfChanges& changes, const char* text) {
      const auto answer = whatIf(run, replayed, changes);
      return !answer.ok() && answer.error().text().find(text) != std::string::npos;
    };
    QVERIFY(refused({.without = {2}}, "there is no rank 2"));
    QVERIFY(refused({.without = {0, 1}}, "no other rank"));
    QVERIFY(refused({.noBubble = true}, "not a pipeline"));
    RunRow other = recorded.row;
    other.world = 3;
    const auto regrouped = readMeasuredRun(*recorded.history, other);
    QVERIFY(!regrouped.ok() && regrouped.error().code == Code::kFailedPrecondition);
    other.run = "20240501-120010-a1b2c1";
    other.world = 2;
    RunDocuments documents;
    documents.plan = preview.planText;
    QVERIFY(recorded.history->add(other, documents).ok());
    const auto empty = readMeasuredRun(*recorded.history, other);
    QVERIFY(!empty.ok() && empty.error().text().find("events") != std::string::npos);
    QVERIFY(recorded.history->setDocuments(other.run, {}).ok());
    const auto planless = readMeasuredRun(*recorded.history, other);
    QVERIFY(!planless.ok() && planless.error().text().find("no plan") != std::string::npos);
  }

  void aDamagedPlanIsRefused_data() {
    QTest::addColumn<QString>("was");
    QTest::addColumn<QString>("is");
    QTest::newRow("a schedule of an unknown program") << "schedule 0: \"step\""
                                                      << "schedule 0: \"stap\"";
    QTest::newRow("a mesh without the axis of collectives") << "mesh \"data\""
                                                            << "mesh \"dota\"";
  }
  void aDamagedPlanIsRefused() {
    QFETCH(QString, was);
    QFETCH(QString, is);
    const Preview preview = previewOf(2, {"strategy.overlap=never"});
    const Recorded recorded(preview, [](int, int) { return 1.0; });
    RunDocuments documents = *recorded.history->documents(recorded.row.run);
    const QString text = QString::fromStdString(documents.plan);
    QVERIFY2(text.contains(was), qPrintable(text.left(400)));
    documents.plan = QString(text).replace(was, is).toStdString();
    QVERIFY(plan::parse(documents.plan).ok());
    QVERIFY(recorded.history->setDocuments(recorded.row.run, documents).ok());
    const auto run = readMeasuredRun(*recorded.history, recorded.row);
    QVERIFY(!run.ok() && run.error().code == Code::kFailedPrecondition);
    QVERIFY2(run.error().text().find("damaged") != std::string::npos, run.error().text().c_str());
  }
};

QTEST_GUILESS_MAIN(WhatIfTest)
#include "whatif_test.moc"
