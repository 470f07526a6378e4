// What failures cost, and what a recorder that takes over knows.
#include <QTest>

#include <cmath>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "app/runs/run_aggregator.h"
#include "engine/base/clock.h"
#include "tests/app/runs/made_up_records.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::app::test;

class RestartsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // A failure costs the time without a step, of a hang before it too, and the steps that are
  // trained again; a second failure, before these are made up for, only what was trained in
  // between.
  void aFailureCostsTheTimeWithoutSteps() {
    RunAggregator book(rowOf(1), {{"n1", 0}});
    const auto at = [&](std::uint64_t sequence, double seconds) {
      run::v1::Record record;
      record.set_sequence(sequence);
      record.set_monotonic_ns(static_cast<std::int64_t>(seconds * 1e9));
      return record;
    };
    const auto fails = [&](std::uint64_t sequence, double seconds, int generation) {
      run::v1::Record record = at(sequence, seconds);
      record.mutable_recovering()->set_generation(generation);
      book.add("n1", record);
    };
    const auto trainsAgain = [&](std::uint64_t sequence, double seconds, int generation,
                                 double after) {
      run::v1::Record record = at(sequence, seconds);
      auto& recovered = *record.mutable_recovered();
      recovered.set_generation(generation);
      recovered.set_step(81);
      recovered.set_lost_steps(20);
      recovered.set_seconds(after);
      book.add("n1", record);
      return book.take().update.row->figures.lostSeconds;
    };
    const auto near = [](double a, double b) { return std::abs(a - b) < 1e-9; };
    book.add("n1", stepsRecord(1, 0, 1, 100, 0.01));  // until 2.02 s, 20 ms each
    fails(2, 32.02, 2);                               // a rank hung for 30 s
    const double hang = trainsAgain(3, 34.22, 2, 2.2);
    QVERIFY2(near(hang, 32.2 + 20 * 0.02), fmt::format("{}", hang).c_str());
    run::v1::Record again = stepsRecord(4, 0, 81, 5, 0.01);
    again.mutable_steps()->set_begin_ns(0, 34'120'000'000);  // until 34.22 s
    book.add("n1", again);
    fails(5, 34.3, 3);
    const double second = trainsAgain(6, 35.22, 3, 0.92);
    QVERIFY2(near(second, hang + 1 + 5 * 0.02), fmt::format("{}", second).c_str());
  }

  // By its records, of a run under way too: the clocks of its nodes need not be the one here.
  void effectiveTimeIsByTheCoordinatorsClock_data() {
    QTest::addColumn<qint64>("seconds");  // that the run begins from now, as the coordinator has it
    QTest::newRow("as here") << qint64{0};
    QTest::newRow("ten years behind") << qint64{-315'360'000};
    QTest::newRow("an hour ahead") << qint64{3'600};
  }
  void effectiveTimeIsByTheCoordinatorsClock() {
    QFETCH(qint64, seconds);
    constexpr std::int64_t kSecond = 1'000'000'000;
    const std::int64_t begin = wallNow() + seconds * kSecond;
    RunAggregator book(rowOf(1), {{"n1", 0}, {"n2", 0}});
    std::uint64_t sequence = 0;
    const auto at = [&](double after) {
      run::v1::Record record;
      record.set_sequence(++sequence);
      record.set_wall_ns(begin + static_cast<std::int64_t>(after * 1e9));
      record.set_monotonic_ns(static_cast<std::int64_t>(after * 1e9));
      return record;
    };
    QVERIFY(std::isnan(effectiveTime(book.row())));
    run::v1::Record started = at(0), fails = at(15), again = at(20), sample = at(40),
                    other = at(4000), finished = at(50);
    started.mutable_started();
    fails.mutable_recovering()->set_generation(2);
    again.mutable_recovered()->set_generation(2);
    again.mutable_recovered()->set_seconds(5);
    for (run::v1::Record* one : {&sample, &other}) one->mutable_node_sample();
    finished.mutable_finished()->set_state(run::v1::SUCCEEDED);
    for (const run::v1::Record& record : {started, fails, again}) book.add("n1", record);
    const auto near = [&](double share) {
      return std::abs(effectiveTime(book.row()) - share) < 1e-6;
    };
    QVERIFY2(near(0.75), fmt::format("{}", effectiveTime(book.row())).c_str());
    (void)book.take();
    book.add("n1", sample);
    book.add("n2", other);  // its clock does not count
    QVERIFY2(near(0.875), fmt::format("{}", effectiveTime(book.row())).c_str());
    const auto taken = book.take();
    QVERIFY(taken.update.row && taken.update.row->heardNs == sample.wall_ns());
    book.add("n1", finished);
    QVERIFY2(near(0.9), fmt::format("{}", effectiveTime(book.row())).c_str());
  }

  // A recorder that takes over does not read what the nodes said of their ranks and members.
  void takingOverKnowsTheRanks() {
    RunAggregator before(rowOf(3), {{"n1", 0}, {"n2", 0}, {"n3", 0}});
    std::vector<RunBatch::Fact> facts;
    std::uint64_t sequence = 0;
    const auto keep = [&] {  // as the history does: by key
      for (RunBatch::Fact& fact : before.take().batch.facts) {
        std::erase_if(facts, [&](const auto& one) { return one.key == fact.key; });
        facts.push_back(std::move(fact));
      }
    };
    for (const auto& [node, rank] : {std::pair{"n1", 0}, {"n2", 1}, {"n3", 2}}) {
      run::v1::Record started;
      started.set_sequence(++sequence);
      started.mutable_started()->add_ranks(rank);
      before.add(node, started);
    }
    keep();
    // n3 is lost, and n2 gets its rank beside its own.
    run::v1::Record recovering;
    recovering.set_sequence(++sequence);
    recovering.mutable_recovering()->set_generation(2);
    recovering.mutable_recovering()->set_world(3);
    for (const char* node : {"n1", "n2"}) recovering.mutable_recovering()->add_nodes(node);
    before.add("n1", recovering);
    run::v1::Record moved;
    moved.set_sequence(++sequence);
    moved.mutable_rank()->set_rank(2);
    before.add("n2", moved);
    keep();
    // A worker is started again in its place.
    run::v1::Record again;
    again.set_sequence(++sequence);
    again.mutable_recovering()->set_generation(3);
    before.add("n1", again);
    keep();

    RunAggregator later(before.row(), {{"n1", 100}, {"n2", 100}, {"n3", 100}}, {}, facts);
    QVERIFY(later.finished("n3"));
    QVERIFY(!later.finished("n2"));
    for (const auto& [node, rank] : {std::pair{"n1", 0}, {"n2", 1}, {"n2", 2}})
      later.add(node, stepsRecord(100 + static_cast<std::uint64_t>(rank) + 1, rank, 1, 30,
                                  rank == 2 ? 0.012 : 0.002));
    const auto taken = later.take();
    QVERIFY(taken.update.slow.has_value());
    QCOMPARE(taken.update.slow->rank, 2);
    QCOMPARE(taken.update.slow->node, std::string("n2"));
  }

  // Ranks that one generation left out and a later one has again.
  void takingOverAfterTheRunGrewAgain() {
    RunAggregator before(rowOf(3), {{"n1", 0}, {"n2", 0}, {"n3", 0}});
    std::uint64_t sequence = 0;
    for (const auto& [node, rank] : {std::pair{"n1", 0}, {"n2", 1}, {"n3", 2}}) {
      run::v1::Record started;
      started.set_sequence(++sequence);
      started.mutable_started()->add_ranks(rank);
      before.add(node, started);
    }
    for (const int world : {2, 3}) {
      run::v1::Record recovering;
      recovering.set_sequence(++sequence);
      recovering.mutable_recovering()->set_generation(world);
      recovering.mutable_recovering()->set_world(world);
      for (int node = 1; node <= world; ++node)
        recovering.mutable_recovering()->add_nodes(fmt::format("n{}", node));
      before.add("n1", recovering);
      if (world < 3) continue;
      run::v1::Record back;
      back.set_sequence(++sequence);
      back.mutable_rank()->set_rank(2);
      before.add("n3", back);
    }
    RunAggregator later(before.row(), {{"n1", 100}, {"n2", 100}, {"n3", 100}}, {},
                        before.take().batch.facts);
    for (const auto& [node, rank] : {std::pair{"n1", 0}, {"n2", 1}, {"n3", 2}})
      later.add(node, stepsRecord(101 + static_cast<std::uint64_t>(rank), rank, 1, 30,
                                  rank == 2 ? 0.012 : 0.002));
    const auto taken = later.take();
    QVERIFY(taken.update.slow.has_value());
    QCOMPARE(taken.update.slow->node, std::string("n3"));
  }

  // A recorder that is killed may have kept that a node was left out, and not its row.
  void takingOverKnowsHowManyRanksThereAre() {
    RunAggregator before(rowOf(3), {{"n1", 0}, {"n2", 0}, {"n3", 0}});
    run::v1::Record recovering;
    recovering.set_sequence(1);
    recovering.mutable_recovering()->set_generation(2);
    recovering.mutable_recovering()->set_world(2);
    for (const char* node : {"n1", "n2"}) recovering.mutable_recovering()->add_nodes(node);
    before.add("n1", recovering);
    RunAggregator later(rowOf(3), {{"n1", 1}, {"n2", 0}, {"n3", 0}}, {}, before.take().batch.facts);
    QCOMPARE(later.row().world, 2);
    later.add("n1", stepsRecord(2, 0, 1, 30, 0.01));
    later.add("n2", stepsRecord(1, 1, 1, 30, 0.01));
    QCOMPARE(later.take().update.breakdown.size(), std::size_t{2});
  }

  // A recorder that takes over: what the history has is not told twice, but for steps.
  void takingOver() {
    RunAggregator book(rowOf(1), {{"n1", 5}});
    run::v1::Record log;
    log.set_sequence(4);
    log.mutable_log()->add_lines("old");
    book.add("n1", log);
    QVERIFY(book.empty());
    book.add("n1", stepsRecord(5, 0, 1, 3, 0.01));
    log.set_sequence(6);
    book.add("n1", log);
    const auto taken = book.take();
    QCOMPARE(taken.batch.logs.size(), std::size_t{1});
    QCOMPARE(find(taken.batch, "loss")->points.size(), std::size_t{3});
    QCOMPARE(taken.batch.cursors.front().sequence, std::uint64_t{6});
    // The recorder before may have read the end and ended before it wrote it.
    RunAggregator later(rowOf(1), {{"n1", 7}});
    run::v1::Record finished;
    finished.set_sequence(7);
    finished.mutable_finished()->set_state(run::v1::SUCCEEDED);
    later.add("n1", finished);
    QVERIFY(later.ended());
  }

  // A program's values may count other steps than are measured, and other ranks report them too.
  void takingOverKnowsWhoseValuesCount() {
    std::uint64_t sequence = 0;
    const auto report = [&](RunAggregator& book, int rank, std::int64_t step, double loss) {
      run::v1::Record record;
      record.set_sequence(++sequence);
      record.mutable_scalars()->set_rank(rank);
      record.mutable_scalars()->set_source("stdout");
      run::v1::Scalar& scalar = *record.mutable_scalars()->add_scalars();
      scalar.set_tag("loss");
      scalar.set_step(step);
      scalar.set_value(loss);
      book.add("n1", record);
    };
    RunAggregator before(rowOf(2), {{"n1", 0}});
    report(before, 0, 1, 0.5);
    const auto kept = before.take();
    RunAggregator later(before.row(), {{"n1", sequence}}, {}, kept.batch.facts);
    run::v1::Record steps = stepsRecord(++sequence, 0, 1, 40, 0.01);
    steps.mutable_steps()->set_generation(1);
    steps.mutable_steps()->clear_loss();
    later.add("n1", steps);
    QCOMPARE(later.row().figures.steps, std::int64_t{1});
    report(later, 1, 2, 9);
    report(later, 0, 2, 0.4);
    QCOMPARE(later.row().figures.steps, std::int64_t{2});
    const auto taken = later.take();
    const auto* loss = find(taken.batch, "loss");
    QVERIFY(loss != nullptr);
    QCOMPARE(loss->points.size(), std::size_t{1});
    QCOMPARE(loss->points[0].y, 0.4);
  }

  // A recorder may take over when no step comes any more, as while a run is evaluated.
  void takingOverAfterTheLastStepKeepsWhatStepsTook() {
    RunRow row = rowOf(1);
    row.phase = RunState::RUNNING;
    row.measuredStepSeconds = 0.02;
    RunAggregator book(row, {{"n1", 7}});
    run::v1::Record finished;
    finished.set_sequence(8);
    finished.mutable_finished()->set_state(run::v1::SUCCEEDED);
    book.add("n1", finished);
    const auto taken = book.take();
    QVERIFY(taken.update.row);
    QCOMPARE(taken.update.row->measuredStepSeconds, 0.02);
  }

  // Steps and the restart with fewer ranks that follows them may be read at once, and the steps of
  // one node after the restart of which another one tells.
  void stepsBeforeARestartKeepTheirParts_data() {
    QTest::addColumn<bool>("later");
    QTest::newRow("at once") << false;
    QTest::newRow("one node later") << true;
  }
  void stepsBeforeARestartKeepTheirParts() {
    QFETCH(bool, later);
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    book.add("n1", stepsRecord(1, 0, 1, 30, 0.002));
    if (!later) book.add("n2", stepsRecord(1, 1, 1, 30, 0.010));
    run::v1::Record recovering;
    recovering.set_sequence(2);
    recovering.mutable_recovering()->set_generation(2);
    recovering.mutable_recovering()->set_world(1);
    recovering.mutable_recovering()->add_nodes("n1");
    book.add("n1", recovering);
    if (later) {
      (void)book.take();
      book.add("n2", stepsRecord(1, 1, 1, 30, 0.010));
    }
    book.add("n1", stepsRecord(3, 0, 31, 5, 0.002));  // one rank trains on
    const auto taken = book.take();
    for (const auto& [name, steps] : {std::pair{"rank/0/waiting", 35}, {"rank/1/forward", 30}}) {
      const auto* part = find(taken.batch, name);
      QVERIFY2(part != nullptr, name);
      QCOMPARE(static_cast<int>(part->points.size()), steps);
    }
  }

  // What a coordinator told before another one took over may be read later: it is kept and counts,
  // and says nothing of the run now.
  void restartsBeforeATakeoverAreKept() {
    std::uint64_t sequence = 0;
    const auto record = [&](double seconds) {
      run::v1::Record out;
      out.set_sequence(++sequence);
      out.set_wall_ns(static_cast<std::int64_t>(seconds * 1e9));
      out.set_monotonic_ns(out.wall_ns());
      return out;
    };
    const auto restart = [&](RunAggregator& book, const char* node, int generation, double at) {
      run::v1::Record begins = record(at);
      auto& recovering = *begins.mutable_recovering();
      recovering.set_generation(generation);
      recovering.set_coordinator(node);
      recovering.set_world(generation == 3 ? 1 : 2);
      for (const char* member : {"n1", "n2"})
        if (generation < 3 || member == std::string_view("n2")) recovering.add_nodes(member);
      recovering.mutable_cause()->set_plain_what(fmt::format("failure {}", generation));
      book.add(node, begins);
      run::v1::Record ends = record(at + 1);
      ends.mutable_recovered()->set_generation(generation);
      ends.mutable_recovered()->set_seconds(1);
      book.add(node, ends);
    };
    for (const bool late : {false, true}) {
      RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
      for (const auto& [node, rank] : {std::pair{"n1", 0}, {"n2", 1}}) {
        run::v1::Record started = record(1);
        started.mutable_started()->add_ranks(rank);
        book.add(node, started);
      }
      if (late) {
        restart(book, "n2", 3, 20);
        QVERIFY(book.finished("n1"));
      }
      restart(book, "n1", 2, 10);
      if (!late) restart(book, "n2", 3, 20);
      const auto taken = book.take();
      QCOMPARE(taken.update.row->generation, 3);
      QCOMPARE(taken.update.row->phase, RunState::RUNNING);
      std::set<int> kept, told;
      for (const RestartRow& row : taken.batch.restarts) kept.insert(row.generation);
      for (const RunRestart& row : taken.update.restarts) told.insert(row.generation);
      QCOMPARE(kept, (std::set<int>{2, 3}));
      QCOMPARE(told, late ? std::set<int>{3} : (std::set<int>{2, 3}));
      // n1 is a member no longer, whatever it said of itself before.
      QCOMPARE(taken.update.leftOut.value(), std::set<std::string>{"n1"});
      QVERIFY(book.finished("n1"));
      QVERIFY(!book.finished("n2"));
    }
  }
};

QTEST_GUILESS_MAIN(RestartsTest)
#include "restarts_test.moc"
