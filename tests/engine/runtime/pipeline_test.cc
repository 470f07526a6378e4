// Pipelines: schedules, verification that stages do not deadlock, and bubbles in executor and
// simulator compared with the closed formulas.
#include <QElapsedTimer>
#include <QTest>

#include <algorithm>
#include <deque>
#include <set>
#include <tuple>

#include "engine/passes/stages.h"
#include "engine/plan/message_order.h"
#include "engine/planner/pipeline.h"
#include "tests/support/engine_run.h"
#include "tests/support/sanitizers.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// One layer per stage.
models::Model equalBlocks(int layers) {
  models::Model model;
  model.name = "blocks";
  model.input = {28 * 28};
  for (int i = 0; i < layers; ++i) {
    models::Layer layer;
    layer.kind = models::Layer::Kind::kDense;
    layer.name = fmt::format("dense{}", i + 1);
    layer.units = i + 1 < layers ? 16 : 10;
    model.layers.push_back(layer);
  }
  return model;
}

RunSettings pipelineOf(int stages, int microBatches, const std::string& schedule) {
  RunSettings settings;
  settings.model = equalBlocks(stages);
  settings.strategy = "pipeline";
  settings.ranks = settings.stages = stages;
  settings.microBatches = microBatches;
  settings.batch = microBatches;
  settings.schedule = schedule;
  settings.backend = "timed";
  settings.compute = DType::kF32;
  return settings;
}

// Every stage's forward pass takes `unit`, its backward pass twice that, everything else nothing.
void setTimes(plan::Plan& plan, double unit, bool splitWeightGrad) {
  for (plan::Program& program : plan.programs) {
    const double seconds = program.name == "forward"    ? unit
                           : program.name == "weights"  ? unit
                           : program.name == "backward" ? (splitWeightGrad ? unit : 2 * unit)
                                                        : 1e-9;
    for (plan::Body& body : program.bodies) {
      bool first = true;
      for (plan::Step& step : body.steps) {
        if (step.kind == plan::StepKind::kCollective) {
          step.seconds = 1e-9;
          continue;
        }
        step.seconds = first ? seconds : 1e-9;
        first = false;
      }
    }
  }
}

// Fraction of a step in which a stage is idle, with equal work on all stages.
double idle(double stepSeconds, double unit, int microBatches) {
  return 1 - 3 * unit * microBatches / stepSeconds;
}
double allowed(const std::string& schedule, int stages, int microBatches) {
  const double bubble = static_cast<double>(stages - 1) / (microBatches + stages - 1);
  return schedule == "zb-h1" ? bubble / 2 : bubble;
}

}  // namespace

class PipelineTest : public QObject {
  Q_OBJECT

 private:
  // What a rank issues, in order: a group of messages, or a collective over all.
  struct MessageGroup {
    std::vector<std::tuple<bool, int, std::string>> messages;  // sends, peer, which
    std::size_t met = 0;
    std::string collective;
  };

  // What a rank issues, checked to be all of its messages, each once and in its place.
  static void issue(const plan::Plan& plan, int rank, std::deque<MessageGroup>& issued,
                    std::size_t& all, std::size_t& together) {
    const auto order = plan::messageOrder(plan, plan.schedule, rank);
    QVERIFY2(order.ok(), order.ok() ? "" : order.error().text().c_str());
    const auto& entries = plan.entriesOf(rank);
    std::set<std::pair<int, plan::StepId>> said;
    for (std::size_t p = 0; p < entries.size(); ++p) {
      const plan::Body& body = *plan.find(entries[p].program, rank);
      auto group = (*order)[p].begin();
      for (plan::StepId s = 0; s <= static_cast<plan::StepId>(body.steps.size()); ++s) {
        for (; group != (*order)[p].end() && group->before == s; ++group) {
          MessageGroup given;
          bool sends = false, receives = false;
          for (const auto& message : group->messages) {
            const plan::ScheduleEntry& of = entries[static_cast<std::size_t>(message.entry)];
            const plan::Step& step =
                plan.find(of.program, rank)->steps[static_cast<std::size_t>(message.step)];
            QVERIFY(said.emplace(message.entry, message.step).second);  // once
            // Not before its place in the plan's order.
            if (plan::isSend(step))
              QVERIFY(std::pair(message.entry, message.step) < std::pair(static_cast<int>(p), s));
            (plan::isSend(step) ? sends : receives) = true;
            given.messages.emplace_back(plan::isSend(step), plan::peersOf(step, of.copy).first,
                                        fmt::format("{} {}", step.name, of.micro));
          }
          QVERIFY(!receives || group->awaited);
          if (sends && receives) ++together;
          all += given.messages.size();
          issued.push_back(std::move(given));
        }
        if (s == static_cast<plan::StepId>(body.steps.size())) break;
        const plan::Step& step = body.steps[static_cast<std::size_t>(s)];
        if (step.kind != plan::StepKind::kCollective) continue;
        if (plan::isMessage(step)) {
          if (!plan::isSend(step)) QVERIFY(said.contains({static_cast<int>(p), s}));
        } else {
          issued.push_back({{}, 0, step.name});
        }
      }
      QVERIFY(group == (*order)[p].end());
    }
    std::size_t messages = 0;
    for (const plan::ScheduleEntry& entry : entries)
      for (const plan::Step& step : plan.find(entry.program, rank)->steps)
        messages += plan::isMessage(step) ? 1 : 0;
    QCOMPARE(said.size(), messages);
  }

  // Messages that both sides have reached match, in order per pair of ranks; a rank proceeds when a
  // whole group has matched. Adds to `met` how many did.
  static void meet(std::vector<std::deque<MessageGroup>>& ranks, std::size_t& met) {
    for (bool goes = true; goes;) {
      goes = false;
      const auto next = [&](std::size_t rank, bool sends,
                            int peer) -> std::tuple<bool, int, std::string>* {
        if (ranks[rank].empty()) return nullptr;
        for (auto& message : ranks[rank].front().messages)
          if (std::get<0>(message) == sends && std::get<1>(message) == peer) return &message;
        return nullptr;
      };
      for (std::size_t from = 0; from < ranks.size(); ++from)
        for (std::size_t to = 0; to < ranks.size(); ++to) {
          auto* const sent = next(from, true, static_cast<int>(to));
          auto* const received = next(to, false, static_cast<int>(from));
          if (sent == nullptr || received == nullptr) continue;
          QCOMPARE(std::get<2>(*sent), std::get<2>(*received));
          std::get<1>(*sent) = std::get<1>(*received) = -1;
          ++ranks[from].front().met;
          ++ranks[to].front().met;
          met += 2;
          goes = true;
        }
      for (auto& rank : ranks)
        if (!rank.empty() && rank.front().collective.empty() &&
            rank.front().met == rank.front().messages.size()) {
          rank.pop_front();
          goes = true;
        }
      const bool isMeeting = std::all_of(ranks.begin(), ranks.end(), [&](const auto& rank) {
        return !rank.empty() && !rank.front().collective.empty() &&
               rank.front().collective == ranks[0].front().collective;
      });
      if (!isMeeting) continue;
      for (auto& rank : ranks) rank.pop_front();
      goes = true;
    }
  }

 private Q_SLOTS:
  void stagesAreBalanced() {
    using Stages = std::vector<int>;
    QCOMPARE(passes::balanceStages({1, 1, 1, 1}, 2), (Stages{0, 0, 1, 1}));
    QCOMPARE(passes::balanceStages({3, 1, 1, 1}, 2), (Stages{0, 1, 1, 1}));
    QCOMPARE(passes::balanceStages({0, 0, 5}, 3), (Stages{0, 1, 2}));
    QCOMPARE(passes::balanceStages({1}, 1), (Stages{0}));
    // Compares with every possible division.
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      std::vector<double> costs;
      for (std::uint64_t i = 0; i < 7; ++i)
        costs.push_back(static_cast<double>(randomBits(seed, i) % 20));
      // of stages that are slower than others by so much
      std::vector<double> slowness;
      for (std::uint64_t s = 0; s < 3; ++s)
        slowness.push_back(seed % 2 == 0 ? 1.0
                                         : static_cast<double>(1 + randomBits(seed, 7 + s) % 4));
      const auto worst = [&](const Stages& stages) {
        std::vector<double> sums(3, 0);
        for (std::size_t i = 0; i < costs.size(); ++i)
          sums[static_cast<std::size_t>(stages[i])] +=
              costs[i] * slowness[static_cast<std::size_t>(stages[i])];
        return *std::max_element(sums.begin(), sums.end());
      };
      double best = 1e9;
      for (std::size_t a = 1; a < 6; ++a)
        for (std::size_t b = a + 1; b < 7; ++b) {
          Stages stages(7, 0);
          for (std::size_t i = a; i < 7; ++i) stages[i] = i < b ? 1 : 2;
          best = std::min(best, worst(stages));
        }
      std::vector<std::vector<double>> ofStages(3, costs);
      for (std::size_t s = 0; s < 3; ++s)
        for (double& cost : ofStages[s]) cost *= slowness[s];
      QCOMPARE(worst(passes::balanceStages(ofStages)), best);
      if (seed % 2 == 0) QCOMPARE(worst(passes::balanceStages(costs, 3)), best);
    }
  }

  // On devices a message is a rendezvous: messages that ranks issue together must match, whatever
  // else is sent at the same time.
  void messagesOfDevicesMeet_data() {
    // the first and the last stage exchange the tied table and its gradient
    QTest::addColumn<bool>("tied");
    QTest::addColumn<QString>("schedule");
    QTest::addColumn<int>("stages");
    QTest::addColumn<int>("micros");
    for (const std::string_view kind : planner::pipelineSchedules())
      for (const int stages : {2, 3, 5, 8})
        for (const int micros : {1, 2, 3, 8})
          QTest::addRow("%s, %d stages, %d micro-batches", std::string(kind).c_str(), stages,
                        micros)
              << false << QString::fromStdString(std::string(kind)) << stages << micros;
    for (const char* kind : {"1f1b", "zb-h1"})
      QTest::addRow("%s, tied", kind) << true << kind << 3 << 5;
  }
  void messagesOfDevicesMeet() {
    QFETCH(bool, tied);
    QFETCH(QString, schedule);
    QFETCH(int, stages);
    QFETCH(int, micros);
    RunSettings settings = pipelineOf(stages, micros, schedule.toStdString());
    if (tied) settings.model = smallGpt();
    settings.optimizer.clipNorm = 1;  // each stage sends to all others
    const auto plan = planOf(settings);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    std::vector<std::deque<MessageGroup>> ranks(static_cast<std::size_t>(stages));
    std::size_t all = 0, together = 0;
    for (int rank = 0; rank < stages; ++rank) {
      issue(*plan, rank, ranks[static_cast<std::size_t>(rank)], all, together);
      if (QTest::currentTestFailed()) return;
    }
    if (schedule == "1f1b" && micros > stages) QVERIFY(together > 0);
    std::size_t met = 0;
    meet(ranks, met);
    if (QTest::currentTestFailed()) return;
    for (const auto& rank : ranks) QVERIFY(rank.empty());
    QCOMPARE(met, all);
  }

  void messagesCostWhatWasMeasured() {
    const RunSettings settings = pipelineOf(2, 2, "1f1b");
    auto plan = planOf(settings);
    QVERIFY(plan.ok());
    cluster::Cluster cluster = oneHost(2, 2, 1, 2);
    cluster.link.kind = "nccl";
    planner::CostModel cost;
    cost.collectives = {
        {"nccl send", 2, 1, 0.25}, {"nccl send", 2, 1'000'000, 0.25}, {"nccl", 2, 4, 0.5}};
    planner::predict(*plan, cluster, cost);
    int messages = 0;
    for (const plan::Program& program : plan->programs)
      for (const plan::Body& body : program.bodies)
        for (const plan::Step& step : body.steps) {
          if (plan::isMessage(step)) QCOMPARE(step.seconds, 0.25);
          messages += plan::isMessage(step) ? 1 : 0;
        }
    QVERIFY(messages > 0);
  }

  void schedulesRunEveryMicroBatchOnce() {
    for (const std::string_view kind : planner::pipelineSchedules())
      for (const int stages : {2, 3, 8})
        for (const int micros : {1, 2, 5, 16}) {
          const auto schedule = planner::pipelineSchedule(kind, stages, micros);
          for (int s = 0; s < stages; ++s) {
            const auto& entries = schedule.entries[static_cast<std::size_t>(s)];
            std::map<std::string, std::vector<int>> micro;
            int onTheWay = 0, most = 0;
            for (const plan::ScheduleEntry& entry : entries) {
              micro[entry.program].push_back(entry.micro);
              onTheWay += entry.program == "forward" ? 1
                          : entry.program == (schedule.splitWeightGrad ? "weights" : "backward")
                              ? -1
                              : 0;
              most = std::max(most, onTheWay);
            }
            std::vector<int> all(static_cast<std::size_t>(micros));
            for (int i = 0; i < micros; ++i) all[static_cast<std::size_t>(i)] = i;
            QCOMPARE(micro["forward"], all);
            QCOMPARE(micro["backward"], all);
            QCOMPARE(micro["weights"], schedule.splitWeightGrad ? all : std::vector<int>{});
            QCOMPARE(entries.back().program, std::string("update"));
            QCOMPARE(most, schedule.copies[static_cast<std::size_t>(s)]);
            if (kind == "1f1b") QCOMPARE(most, std::min(stages - s, micros));
          }
        }
  }

  // A schedule that deadlocks, or reads missing data, is rejected.
  void schedulesThatCannotRunAreRefused() {
    const auto plan = planOf(pipelineOf(3, 4, "1f1b"));
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    QVERIFY(plan::verify(*plan).ok());
    const auto refused = [&](auto change, std::string_view words) {
      plan::Plan changed = *plan;
      change(changed);
      const Status status = plan::verify(changed);
      const std::string said = status.ok() ? "nothing" : status.error().what;
      if (status.ok()) return false;
      if (said.find(words) == std::string::npos) qWarning("%s", said.c_str());
      return said.find(words) != std::string::npos;
    };
    QVERIFY(refused([](plan::Plan& p) { std::swap(p.schedule[0][0], p.schedule[0][3]); },
                    "before it was written"));
    // The first stage waits for a gradient before it has sent what that depends on.
    QVERIFY(refused(
        [](plan::Plan& p) {
          auto& entries = p.schedule[2];  // forward 0, backward 0, forward 1, …
          std::rotate(entries.begin(), entries.begin() + 2, entries.begin() + 4);
        },
        "sends"));
    QVERIFY(refused([](plan::Plan& p) { p.schedule[1].erase(p.schedule[1].begin()); }, ""));
    QVERIFY(refused([](plan::Plan& p) { p.schedule[0].pop_back(); }, "waits forever"));
    QVERIFY(refused([](plan::Plan& p) { p.schedule[0][0].copy = 3; }, "copy 3"));
    QVERIFY(refused([](plan::Plan& p) { p.schedule[0][0].micro = 4; }, "micro-batch 4"));
    QVERIFY(refused([](plan::Plan& p) { p.schedule[0][0].program = "sideways"; }, "sideways"));
    QVERIFY(refused([](plan::Plan& p) { p.schedule.pop_back(); }, "schedules of 2 stages"));
    QVERIFY(refused([](plan::Plan& p) { p.state.back().stage = 0; }, ""));
    QVERIFY(refused(
        [](plan::Plan& p) {
          for (plan::Program& program : p.programs)
            for (plan::Body& body : program.bodies)
              for (plan::Step& step : body.steps)
                if (step.op == ir::Op::kRecv) step.attrs["peer"] = std::int64_t{7};
        },
        "coordinates 7 to 7"));
  }

  void whatCannotBeStagedSaysWhatToChange() {
    const auto said = [](RunSettings settings) {
      const auto plan = planOf(settings);
      return plan.ok() ? std::string("a plan") : plan.error().text();
    };
    RunSettings many = pipelineOf(4, 4, "1f1b");
    many.ranks = many.stages = 5;
    QVERIFY(said(many).find("set strategy.stages to 1") != std::string::npos);
    RunSettings uneven = pipelineOf(2, 2, "1f1b");
    uneven.ranks = 4;
    uneven.batch = 6;
    QVERIFY(said(uneven).find("set training.batch to 8") != std::string::npos);
    QVERIFY(said(pipelineOf(2, 2, "2f2b")).find("one of 1f1b, gpipe, zb-h1") != std::string::npos);
  }

  void bubbles_data() {
    QTest::addColumn<int>("stages");
    QTest::addColumn<int>("microBatches");
    QTest::addColumn<QString>("schedule");
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
      for (const int stages : {4, 8})
        QTest::addRow("%s, %d stages", schedule, stages)
            << stages << 2 * stages << QString(schedule);
  }
  void bubbles() {
    QFETCH(int, stages);
    QFETCH(int, microBatches);
    QFETCH(QString, schedule);
    RunSettings settings = pipelineOf(stages, microBatches, schedule.toStdString());
    auto plan = planOf(settings);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    constexpr double kUnit = 8e-3;
    setTimes(*plan, kUnit, schedule == "zb-h1");
    const double limit = allowed(settings.schedule, stages, microBatches);

    cluster::Cluster cluster = oneHost(stages, stages, 1, stages);
    const double simulated =
        idle(planner::simulate(*plan, cluster, {}).stepSeconds, kUnit, microBatches);
    settings.trainer.maxSteps = 5;
    // Other load adds to the idle time: repeats if it was large, and keeps the minimum.
    double measured = 1;
    for (int tries = 0; tries < 5 && measured > limit + 0.05; ++tries) {
      const RunOutcome real = run(settings, *plan);
      QVERIFY2(real.ok(), real.error().c_str());
      std::vector<double> steps;
      for (const auto& step : real.steps)
        steps.push_back(static_cast<double>(step.end - step.begin) * 1e-9);
      std::sort(steps.begin(), steps.end());
      measured = std::min(measured, idle(steps[steps.size() / 2], kUnit, microBatches));
    }
    qInfo("idle: %.1f %% simulated, %.1f %% measured, %.1f %% by the formula", 100 * simulated,
          100 * measured, 100 * limit);
    if (schedule == "zb-h1") {
      QVERIFY(simulated <= limit);
      QVERIFY(measured <= limit + 0.05);
    } else {
      QVERIFY(std::abs(simulated - limit) <= 0.005);
      QVERIFY(std::abs(measured - limit) <= 0.05);
    }
  }

  // Whichever message or collective fails, on whichever stage: every rank ends with an error.
  void everyCallCanFail() {
    for (const int rank : {0, 1, 2})
      for (int call = 0; call < 30; call += call < 8 ? 1 : 5) {
        RunSettings settings = pipelineOf(3, 4, "zb-h1");
        settings.backend = "reference";
        settings.trainer.maxSteps = 3;
        settings.failingRank = rank;
        settings.failingCall = call;
        const RunOutcome out = trained(settings);
        for (const auto& result : out.ranks)
          QVERIFY2(!result.ok(), qPrintable(QString("rank %1, call %2").arg(rank).arg(call)));
        QVERIFY(out.ranks[static_cast<std::size_t>(rank)].error().code == Code::kAborted);
      }
  }

  // 8 stages x 16 data x 8 tensor.
  void aThousandRanksAreCheap() {
    models::Model model = smallGpt();
    const models::Layer block = model.layers[1];
    model.layers.erase(model.layers.begin() + 1, model.layers.end() - 2);
    for (int i = 0; i < 12; ++i) {
      models::Layer layer = block;
      layer.name = fmt::format("block{}", i);
      layer.heads = 8;
      model.layers.insert(model.layers.end() - 2, layer);
    }
    model.layers[0].units = 64;
    RunSettings settings;
    settings.model = model;
    settings.strategy = "zero-1";
    settings.ranks = 1024;
    settings.modelRanks = 8;
    settings.stages = 8;
    settings.microBatches = 32;
    settings.batch = 32 * 16;
    settings.evaluateBatch = 16;
    settings.compute = DType::kF32;
    QElapsedTimer timer;
    timer.start();
    const auto plan = planOf(settings);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    const std::string written = plan::text(*plan);
    const qint64 elapsed = timer.elapsed();
    qInfo("%lld ms, %zu bytes of text", static_cast<long long>(elapsed), written.size());
    QVERIFY(written.size() <= 1'000'000);
    QVERIFY(elapsed <= 8000 || kSanitized);
    const auto parsed = plan::parse(written);
    QVERIFY(parsed.ok() && *parsed == *plan);
  }
};

QTEST_GUILESS_MAIN(PipelineTest)
#include "pipeline_test.moc"
