// A step's timeline: as simulated, and as events that were stored tell it; and planned traffic.
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <map>
#include <tuple>

#include "app/history/history.h"
#include "app/runs/preview.h"
#include "app/runs/step_timeline.h"
#include "app/specs/spec_text.h"
#include "engine/plan/plan.h"
#include "lockstep/run/v1/telemetry.pb.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

Preview previewOf(const char* example, int nodes, const std::vector<std::string>& changes = {}) {
  auto spec = loadRunSpec(lockstep::test::sourcePath("resources/examples/") + example, changes);
  if (!spec.ok()) qFatal("%s", spec.error().text().c_str());
  LaunchRequest request;
  request.spec = spec->spec;
  request.cluster = localCluster(nodes, "/nowhere", "gloo").spec;
  auto preview = makePreview(request, {});
  if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
  return std::move(*preview);
}

// The stored form of a step's events.
run::v1::EventChunk chunkOf(const std::vector<plan::Event>& events, int rank) {
  run::v1::EventChunk chunk;
  for (const plan::Event& event : events) {
    if (event.rank != rank) continue;
    chunk.set_rank(rank);
    chunk.set_step(event.step);
    chunk.add_plan_step(event.planStep);
    chunk.add_kind(static_cast<int>(event.kind));
    chunk.add_phase(static_cast<int>(event.phase));
    chunk.add_begin_ns(event.begin);
    chunk.add_end_ns(event.end);
    chunk.add_bytes(event.bytes);
  }
  return chunk;
}

std::vector<plan::Event> stepOf(const planner::Simulation& simulation, std::int64_t step) {
  std::vector<plan::Event> out;
  for (const plan::Event& event : simulation.events)
    if (event.step == step) out.push_back(event);
  return out;
}

// An executor knows a collective from arrival to end: its waits are put into its transfers.
std::vector<plan::Event> asExecuted(const std::vector<plan::Event>& events) {
  std::vector<plan::Event> out;
  for (const plan::Event& event : events) {
    if (event.kind == plan::EventKind::kTransfer && !out.empty() &&
        out.back().kind == plan::EventKind::kWaiting && out.back().planStep == event.planStep &&
        out.back().rank == event.rank)
      out.back() = [&] {
        plan::Event whole = event;
        whole.begin = out.back().begin;
        return whole;
      }();
    else
      out.push_back(event);
  }
  return out;
}

// The plan step of the rank's first receive; -1: it has none.
std::int32_t firstReceive(const plan::Plan& plan, int rank) {
  std::int32_t at = 0;
  for (const plan::ScheduleEntry& entry : plan.entriesOf(rank))
    for (const plan::Step& step : plan.find(entry.program, rank)->steps) {
      if (plan::isMessage(step) && !plan::isSend(step)) return at;
      ++at;
    }
  return -1;
}

std::map<SpanKind, std::int64_t> totals(const StepTimeline::Lane& lane) {
  std::map<SpanKind, std::int64_t> out;
  for (const TimelineSpan& span : lane.spans) out[span.kind] += span.length();
  return out;
}

}  // namespace

class StepTimelineTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void waitsAreFoundInWhatAnExecutorTells_data() {
    QTest::addColumn<QString>("example");
    QTest::addColumn<QString>("strategy");
    QTest::addRow("data parallel") << "fashion-cnn.yaml"
                                   << "multi-worker-mirrored";
    QTest::addRow("zero-3") << "fashion-mlp.yaml"
                            << "zero-3";
    QTest::addRow("pipeline") << "fashion-mlp.yaml"
                              << "pipeline";
  }
  void waitsAreFoundInWhatAnExecutorTells() {
    QFETCH(QString, example);
    QFETCH(QString, strategy);
    const Preview preview =
        previewOf(qPrintable(example), 3,
                  {"strategy.kind=" + strategy.toStdString(), "strategy.overlap=never"});
    planner::SimulateOptions options;
    options.slowdown = {1, 2, 1};
    const auto simulation = planner::simulate(preview.plan, preview.cluster, preview.cost, options);
    const auto events = stepOf(simulation, 3);
    const StepTimeline simulated = makeTimeline(preview.plan, events);
    const StepTimeline executed = makeTimeline(preview.plan, asExecuted(events));
    QCOMPARE(simulated.step, 3);
    QCOMPARE(simulated.lanes.size(), std::size_t{3});
    QVERIFY(simulated.length > 0);
    bool waited = false;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      auto a = totals(simulated.lanes[rank]), b = totals(executed.lanes[rank]);
      if (strategy == "pipeline") {
        // A message travels after it was sent, and the executor cannot tell travelling from
        // waiting for the link.
        QVERIFY(b[SpanKind::kWaiting] <= a[SpanKind::kWaiting]);
        QCOMPARE(a[SpanKind::kWaiting] + a[SpanKind::kTransfer],
                 b[SpanKind::kWaiting] + b[SpanKind::kTransfer]);
      } else {
        QCOMPARE(a, b);
      }
      waited = waited || b[SpanKind::kWaiting] > 0;
      // Spans are in order and none overlaps another.
      std::int64_t end = 0;
      for (const TimelineSpan& span : executed.lanes[rank].spans) {
        QVERIFY(span.begin >= end && span.end > span.begin && span.end <= executed.length);
        QVERIFY(span.name < static_cast<int>(executed.names.size()));
        end = span.end;
      }
    }
    QVERIFY(waited);
  }

  void theLastRankHoldsUpTheOthers() {
    const Preview preview = previewOf("fashion-cnn.yaml", 3, {"strategy.overlap=never"});
    planner::SimulateOptions options;
    options.slowdown = {1, 1, 3};
    const StepTimeline timeline = makeTimeline(
        preview.plan,
        asExecuted(
            stepOf(planner::simulate(preview.plan, preview.cluster, preview.cost, options), 2)));
    QVERIFY(!timeline.collectives.empty());
    const auto& first = timeline.collectives.front();
    QCOMPARE(first.arrivals.size(), std::size_t{3});
    QCOMPARE(first.last.rank, 2);
    QVERIFY(!timeline.names[static_cast<std::size_t>(first.name)].empty());
    QVERIFY(totals(timeline.lanes[0])[SpanKind::kWaiting] >
            totals(timeline.lanes[2])[SpanKind::kWaiting]);
    for (const auto& arrival : first.arrivals) QVERIFY(arrival.at <= first.last.at);
  }

  void waitsNameARankAndTransfersTheirBytes_data() { waitsAreFoundInWhatAnExecutorTells_data(); }
  void waitsNameARankAndTransfersTheirBytes() {
    QFETCH(QString, example);
    QFETCH(QString, strategy);
    const Preview preview =
        previewOf(qPrintable(example), 3,
                  {"strategy.kind=" + strategy.toStdString(), "strategy.overlap=never"});
    planner::SimulateOptions options;
    options.slowdown = {1, 2, 1};
    const auto simulation = planner::simulate(preview.plan, preview.cluster, preview.cost, options);
    const auto events = asExecuted(stepOf(simulation, 3));
    const StepTimeline timeline = makeTimeline(preview.plan, events);
    std::map<std::pair<int, int>, std::int64_t> bytes;  // by rank and plan step
    for (const plan::Event& event : events)
      if (event.kind == plan::EventKind::kTransfer)
        bytes[{event.rank, event.planStep}] = event.bytes;
    const auto isSender = [&](int rank, const TimelineSpan& wait) {
      return std::ranges::any_of(timeline.flows, [&](const StepTimeline::Flow& flow) {
        return flow.to == rank && flow.receive == wait.name && flow.from == wait.waitsFor;
      });
    };
    int waits = 0, transfers = 0;
    for (int rank = 0; rank < 3; ++rank) {
      const StepTimeline::Lane& lane = timeline.lanes[static_cast<std::size_t>(rank)];
      for (const TimelineSpan& span : lane.spans) {
        const bool isTransfer = span.kind == SpanKind::kTransfer;
        transfers += isTransfer ? 1 : 0;
        QCOMPARE(timeline.bytesOf(span),
                 isTransfer ? bytes.at({rank, span.name - lane.firstName}) : 0);
        if (span.kind != SpanKind::kWaiting) {
          QCOMPARE(span.waitsFor, -1);
        } else if (span.collective >= 0) {
          const auto& last = timeline.collectives[static_cast<std::size_t>(span.collective)].last;
          QCOMPARE(span.waitsFor, last.rank == rank ? -1 : last.rank);
          ++waits;
        } else if (span.waitsFor >= 0) {
          QVERIFY(isSender(rank, span));
          ++waits;
        }
      }
    }
    QVERIFY(waits > 0 && transfers > 0);
  }

  // Every message of a pipeline, from the stage that sends it to the one that waits for it.
  void messagesArePaired() {
    const Preview preview = previewOf("fashion-mlp.yaml", 3, {"strategy.kind=pipeline"});
    const auto events =
        asExecuted(stepOf(planner::simulate(preview.plan, preview.cluster, preview.cost), 2));
    const StepTimeline timeline = makeTimeline(preview.plan, events);
    std::size_t sends = 0;
    for (int rank = 0; rank < 3; ++rank)
      for (const plan::ScheduleEntry& entry : preview.plan.entriesOf(rank))
        for (const plan::Step& step : preview.plan.find(entry.program, rank)->steps)
          if (plan::isSend(step))
            sends += static_cast<std::size_t>(plan::peersOf(step, entry.copy).count);
    QVERIFY(sends > 0);
    QCOMPARE(timeline.flows.size(), sends);
    bool waited = false;
    std::map<std::pair<int, int>, std::int64_t> lastSent;
    for (const StepTimeline::Flow& flow : timeline.flows) {
      QVERIFY(flow.from != flow.to);
      QVERIFY(flow.received >= std::max(flow.sent, flow.awaited));
      std::int64_t& last = lastSent[{flow.from, flow.to}];
      QVERIFY(flow.sent >= last);
      last = flow.sent;
      // The receive's spans end with it, and wait until the message is sent.
      const auto& spans = timeline.lanes[static_cast<std::size_t>(flow.to)].spans;
      for (const TimelineSpan& span : spans) {
        if (span.name != flow.receive) continue;
        QVERIFY(span.begin >= flow.awaited && span.end <= flow.received);
        if (span.kind != SpanKind::kWaiting) continue;
        QCOMPARE(span.end, flow.sent);
        waited = true;
      }
    }
    QVERIFY(waited);
  }

  // What most ranks do: one slow rank does not show in it, and one that waits alone does not
  // either.
  void theMedianRankIsAsMostAre() {
    const Preview preview = previewOf("fashion-cnn.yaml", 3, {"strategy.overlap=never"});
    const auto stepWith = [&](const std::vector<double>& slowdown) {
      planner::SimulateOptions options;
      options.slowdown = slowdown;
      return makeTimeline(
          preview.plan,
          asExecuted(
              stepOf(planner::simulate(preview.plan, preview.cluster, preview.cost, options), 2)));
    };
    const StepTimeline oneIsSlow = stepWith({1, 3, 1});
    QCOMPARE(oneIsSlow.medians.size(), std::size_t{1});
    auto median = totals(oneIsSlow.medians[0]), usual = totals(oneIsSlow.lanes[0]);
    for (const SpanKind kind : {SpanKind::kForward, SpanKind::kBackward, SpanKind::kWaiting})
      QVERIFY2(usual[kind] > 0 && std::abs(median[kind] - usual[kind]) <= usual[kind] / 20,
               qPrintable(QString("%1 %2").arg(median[kind]).arg(usual[kind])));
    QVERIFY(totals(oneIsSlow.lanes[1])[SpanKind::kForward] > 2 * median[SpanKind::kForward]);
    const StepTimeline oneIsFast = stepWith({3, 3, 1});
    QVERIFY(totals(oneIsFast.lanes[2])[SpanKind::kWaiting] >
            2 * totals(oneIsFast.medians[0])[SpanKind::kWaiting]);
    std::int64_t end = 0;
    for (const TimelineSpan& span : oneIsFast.medians[0].spans) {
      QVERIFY(span.begin >= end && span.end > span.begin);
      end = span.end;
    }
    // Stages of one rank have no median rank.
    const Preview stages = previewOf("fashion-mlp.yaml", 3, {"strategy.kind=pipeline"});
    QVERIFY(makeTimeline(stages.plan, stepOf(stages.simulation, 2)).medians.empty());
  }

  // A receive without events leaves out its message alone.
  void aLostReceiveShiftsNoOthers() {
    const Preview preview = previewOf("fashion-mlp.yaml", 3, {"strategy.kind=pipeline"});
    auto events =
        asExecuted(stepOf(planner::simulate(preview.plan, preview.cluster, preview.cost), 2));
    const StepTimeline whole = makeTimeline(preview.plan, events);
    QVERIFY(whole.flows.size() > 1);
    const auto spanOf = [](const StepTimeline::Flow& flow) {
      return std::tuple(flow.from, flow.to, flow.send, flow.receive);
    };
    QCOMPARE(whole.flows.front().to, 1);
    std::erase_if(events, [first = firstReceive(preview.plan, 1)](const plan::Event& event) {
      return event.rank == 1 && event.planStep == first;
    });
    const StepTimeline rest = makeTimeline(preview.plan, events);
    QCOMPARE(rest.flows.size(), whole.flows.size() - 1);
    for (std::size_t i = 0; i < rest.flows.size(); ++i)
      QCOMPARE(spanOf(rest.flows[i]), spanOf(whole.flows[i + 1]));
  }

  // A rank that has nothing to do until an asynchronous transfer ends, waits.
  void gapsThatTransfersEndAreWaiting() {
    const Preview preview = previewOf("fashion-mlp.yaml", 3, {"strategy.overlap=always"});
    const auto events = stepOf(planner::simulate(preview.plan, preview.cluster, preview.cost), 2);
    QVERIFY(std::any_of(events.begin(), events.end(),
                        [](const auto& event) { return event.asynchronous; }));
    const StepTimeline timeline = makeTimeline(preview.plan, asExecuted(events));
    QVERIFY(!timeline.lanes[0].communication.empty());
    QVERIFY(totals(timeline.lanes[0])[SpanKind::kWaiting] > 0);
  }

  void storedEventsAreRead() {
    const Preview preview = previewOf("fashion-cnn.yaml", 2);
    const QTemporaryDir folder;
    auto history = History::open(folder.path().toStdString());
    QVERIFY(history.ok());
    RunRow row;
    row.run = "20240501-120010-a1b2c0";
    row.world = 2;
    QVERIFY((*history)->add(row, {}).ok());
    auto store = (*history)->openRun(row.run);
    QVERIFY(store.ok() && (*store)->lockForRecording().ok());
    RunBatch batch;
    auto events = stepOf(preview.simulation, 2);
    for (const int rank : {1, 0})
      for (const std::int64_t step : {50, 100})
        batch.events.push_back({rank, step, chunkOf(events, rank).SerializeAsString()});
    batch.events.push_back({0, 73, chunkOf(events, 0).SerializeAsString(), true});
    batch.events.push_back({0, 150, "\xff\xff"});
    QVERIFY((*store)->append(batch).ok());
    std::vector<std::tuple<std::int64_t, bool, int>> told;
    for (const auto& [step, slow, ranks] : (*store)->eventSteps())
      told.emplace_back(step, slow, ranks);
    QCOMPARE(told, (std::vector<std::tuple<std::int64_t, bool, int>>{
                       {50, false, 2}, {73, true, 1}, {100, false, 2}, {150, false, 1}}));
    QVERIFY(readTimeline(**store, preview.plan, 73)->slow);
    const auto timeline = readTimeline(**store, preview.plan, 100);
    QVERIFY(timeline.ok());
    QCOMPARE(timeline->step, 100);
    QVERIFY(!timeline->slow);
    QCOMPARE(timeline->length, makeTimeline(preview.plan, events).length);
    QCOMPARE(readTimeline(**store, preview.plan, 99).error().code, Code::kNotFound);
    QCOMPARE(readTimeline(**store, preview.plan, 150).error().code, Code::kDataLoss);
    const std::vector<std::int64_t> sampled{50, 100, 150};
    for (const auto& [step, nearest] :
         {std::pair{1, 50}, {74, 50}, {75, 50}, {76, 100}, {100, 100}, {9999, 150}})
      QCOMPARE(nearestSampled(sampled, step), nearest);
    QCOMPARE(nearestSampled({}, 7), 0);
  }

  // A slow step is shown to who looks for it, and if all ranks have told it.
  void theStepToShowIsUsualAndWhole() {
    const std::vector<EventStep> told{{20, true, 1},   {50, false, 2},  {60, true, 2},
                                      {73, true, 1},   {100, false, 2}, {110, true, 1},
                                      {150, false, 1}, {170, true, 1},  {180, true, 2}};
    for (const auto& [wanted, shown] : {std::pair{0, 150},
                                        {1, 50},
                                        {20, 50},
                                        {54, 50},
                                        {56, 60},
                                        {60, 60},
                                        {73, 60},
                                        {74, 60},
                                        {81, 100},
                                        {110, 100},
                                        {149, 150},
                                        {169, 170},
                                        {200, 180}})
      QCOMPARE(stepToShow(told, wanted), shown);
    QCOMPARE(stepToShow({}, 0), 0);
    QCOMPARE(stepToShow({}, 7), 0);
    QCOMPARE(stepToShow({{20, true, 1}, {30, true, 2}}, 0), 30);  // no step was sampled
    QCOMPARE(stepToShow({{20, true, 1}, {30, true, 2}}, 21), 20);
  }

  // What the history keeps is enough to simulate the step again.
  void aPredictionIsSimulatedAgain() {
    const Preview preview = previewOf("fashion-cnn.yaml", 3);
    auto kept = parsePrediction(predictionJson(preview));
    auto plan = plan::parse(preview.planText);
    QVERIFY(kept.ok() && plan.ok());
    const auto again = predictTimeline(*plan, *kept);
    QVERIFY2(again.ok(), again.ok() ? "" : again.error().text().c_str());
    const StepTimeline first = makeTimeline(preview.plan, stepOf(preview.simulation, 2));
    QVERIFY(std::abs(again->length - first.length) <= first.length / 1000);
    QCOMPARE(again->lanes[1].spans.size(), first.lanes[1].spans.size());
    QCOMPARE(predictTimeline(*plan, Preview()).error().code, Code::kFailedPrecondition);
  }

  // A preview's own step: one that has a step before it, where there is one.
  void aPreviewHasItsStep() {
    Preview preview = previewOf("fashion-cnn.yaml", 3, {"strategy.overlap=never"});
    std::int64_t last = 0;
    for (const plan::Event& event : preview.simulation.events) last = std::max(last, event.step);
    QVERIFY(last > 2);
    const StepTimeline timeline = simulatedStep(preview);
    QCOMPARE(timeline.step, last - 1);
    QCOMPARE(timeline.lanes.size(), std::size_t{3});
    const auto waiting = totals(timeline.lanes[0])[SpanKind::kWaiting];
    QVERIFY(std::abs(static_cast<double>(waiting) * 1e-9 - preview.ranks[0].waiting) <=
            0.1 * preview.stepSeconds);
    preview.simulation.events.clear();
    QVERIFY(simulatedStep(preview).empty());
  }

  void eventsThatAreNoneOfThePlanAreHarmless() {
    const Preview preview = previewOf("fashion-cnn.yaml", 2);
    std::vector<plan::Event> events;
    for (const int rank : {-1, 0, 1, 2, 99})
      for (const int step : {-5, -1, 0, 3, 1 << 30})
        for (const int kind : {0, 1, 2, 3, 200}) {
          plan::Event event;
          event.rank = rank;
          event.step = 1;
          event.planStep = step;
          event.kind = static_cast<plan::EventKind>(kind);
          event.begin = 100 * std::int64_t{step};
          event.end = event.begin + 50 - 10 * kind;
          events.push_back(event);
        }
    QVERIFY(!makeTimeline(preview.plan, events).empty());
    QVERIFY(makeTimeline(preview.plan, {}).empty());
  }

  void collectivesAreTraffic() {
    const auto sent = [](const plan::Plan& plan) {
      std::map<std::pair<int, int>, std::int64_t> out;
      for (const auto& link : plan::stepTraffic(plan)) out[{link.from, link.to}] = link.bytes;
      return out;
    };
    const auto direct = sent(previewOf("fashion-cnn.yaml", 3, {"strategy.all_reduce=direct"}).plan);
    const auto ring = sent(previewOf("fashion-cnn.yaml", 3, {"strategy.all_reduce=ring"}).plan);
    QCOMPARE(direct.size(), std::size_t{6});  // everybody with everybody
    QCOMPARE(ring.size(), std::size_t{3});    // everybody to the next
    QVERIFY(ring.contains({0, 1}) && ring.contains({1, 2}) && ring.contains({2, 0}));
    std::int64_t a = 0, b = 0;
    for (const auto& [ranks, bytes] : direct) a += bytes;
    for (const auto& [ranks, bytes] : ring) b += bytes;
    QVERIFY2(std::abs(a - b) < a / 50, qPrintable(QString("%1 %2").arg(a).arg(b)));
    // Messages between stages are the same in both tables.
    const plan::Plan stages = previewOf("fashion-mlp.yaml", 2, {"strategy.kind=pipeline"}).plan;
    const auto all = sent(stages);
    for (const auto& link : plan::messageTraffic(stages))
      QVERIFY(all.at({link.from, link.to}) >= link.bytes);
  }
};

QTEST_GUILESS_MAIN(StepTimelineTest)
#include "step_timeline_test.moc"
