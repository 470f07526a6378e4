// Which rank or link of a run is named as slow, and why, by what its nodes send.
#include <QTest>

#include "app/runs/run_aggregator.h"
#include "engine/plan/plan.h"
#include "tests/app/runs/made_up_records.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::app::test;

class SlowRanksTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void theGpuOfASlowRankIsNamed_data() {
    QTest::addColumn<QStringList>("throttle");  // of the slow rank's GPU
    QTest::addColumn<QStringList>("others");
    QTest::addColumn<int>("lanes");
    QTest::addColumn<int>("othersLanes");
    QTest::addColumn<int>("cause");
    QTest::addColumn<QString>("words");
    const QStringList none, heat{"heat"}, power{"power"};
    QTest::newRow("heat") << heat << none << 16 << 16 << int(SlowCause::kGpuHeat)
                          << "its GPU 6 was slowed down for heat 100 % of the time";
    QTest::newRow("power") << power << none << 16 << 16 << int(SlowCause::kGpuPower)
                           << "its GPU 6 was held at its power limit 100 % of the time";
    QTest::newRow("power as all are")
        << power << power << 16 << 16 << int(SlowCause::kUnknown) << "it had 0.50 cores";
    QTest::newRow("narrow link") << none << none << 8 << 16 << int(SlowCause::kGpuLink)
                                 << "the PCIe link of its GPU 6 has 8 of 16 lanes";
    QTest::newRow("narrow links all")
        << none << none << 8 << 8 << int(SlowCause::kUnknown) << "it had 0.50 cores";
    QTest::newRow("another's heat")
        << none << heat << 16 << 16 << int(SlowCause::kUnknown) << "it had 0.50 cores";
  }

  void theGpuOfASlowRankIsNamed() {
    QFETCH(QStringList, throttle);
    QFETCH(QStringList, others);
    QFETCH(int, lanes);
    QFETCH(int, othersLanes);
    QFETCH(int, cause);
    QFETCH(QString, words);
    RunAggregator book(rowOf(3), {{"n1", 0}});
    std::vector<run::v1::RankSample> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.push_back(rankSample(rank, false, 0, 0));
      ranks.back().set_gpu(5 + rank);
    }
    run::v1::Record record = sampleRecord(1, 0, ranks);
    for (int index = 0; index < 8; ++index) {
      run::v1::GpuSample& gpu = *record.mutable_node_sample()->add_gpu();
      gpu.set_index(index);
      gpu.set_throttle_known(true);
      for (const QString& word : index == 6 ? throttle : others)
        gpu.add_throttle(word.toStdString());
      gpu.set_pcie_width(index == 6 ? lanes : othersLanes);
      gpu.set_pcie_width_max(16);
    }
    book.add("n1", record);
    for (int rank = 0; rank < 3; ++rank)
      book.add("n1", stepsRecord(static_cast<std::uint64_t>(rank) + 2, rank, 1, 30,
                                 rank == 1 ? 0.010 : 0.002));
    const auto taken = book.take();
    QVERIFY(taken.update.slow.has_value());
    QCOMPARE(int(taken.update.slow->evidence.cause), cause);
    const QString text = QString::fromStdString(stragglerText(*taken.update.slow));
    QVERIFY2(text.contains(words), qPrintable(text));
  }

  // A step is predicted without all of them.
  void severalSlowRanksAreCounted() {
    RunAggregator book(rowOf(5), {{"n1", 0}});
    for (int rank = 0; rank < 5; ++rank)
      book.add("n1", stepsRecord(static_cast<std::uint64_t>(rank) + 1, rank, 1, 30,
                                 rank < 3 ? 0.002 : 0.010));
    const auto taken = book.take();
    QVERIFY(taken.update.slow.has_value());
    QCOMPARE(taken.update.slow->slowRanks, 2);
    const QString text = QString::fromStdString(stragglerText(*taken.update.slow));
    QVERIFY2(text.endsWith(" without the 2 slow ranks"), qPrintable(text));
  }

  void theCauseOfSlownessIsSaid_data() {
    QTest::addColumn<int>("world");
    QTest::addColumn<bool>("stopped");
    QTest::addColumn<double>("waiting");
    QTest::addColumn<double>("throttled");
    QTest::addColumn<int>("cause");
    QTest::addColumn<QString>("words");
    for (int world : {2, 3, 4}) {
      const auto row = [&](const char* name) -> QTestData& {
        return QTest::newRow(fmt::format("{}, {} ranks", name, world).c_str()) << world;
      };
      row("stopped") << true << 0.1 << 0.0 << int(SlowCause::kStopped)
                     << "its process was stopped 100 % of the time";
      row("quota") << false << 0.5 << 0.5 << int(SlowCause::kThrottled)
                   << "a CPU quota held it back 50 % of the time";
      row("crowded") << false << 0.6 << 0.0 << int(SlowCause::kCrowded)
                     << "other work had its cores 60 % of the time";
      row("crowded as all are") << false << 0.25 << 0.0 << int(SlowCause::kUnknown)
                                << "it had 0.50 cores";
    }
  }

  void theCauseOfSlownessIsSaid() {
    QFETCH(int, world);
    QFETCH(bool, stopped);
    QFETCH(double, waiting);
    QFETCH(double, throttled);
    QFETCH(int, cause);
    QFETCH(QString, words);
    RunAggregator book(rowOf(world), {{"n1", 0}});
    std::vector<run::v1::RankSample> samples;
    for (int rank = 0; rank < world; ++rank)
      samples.push_back(rank == 1 ? rankSample(1, stopped, waiting, throttled)
                                  : rankSample(rank, false, 0.2, 0));
    book.add("n1", sampleRecord(1, 0, samples));
    for (int rank = 0; rank < world; ++rank)
      book.add("n1", stepsRecord(static_cast<std::uint64_t>(rank) + 2, rank, 1, 30,
                                 rank == 1 ? 0.010 : 0.002));
    const auto taken = book.take();
    QVERIFY(taken.update.slow.has_value());
    QCOMPARE(taken.update.slow->rank, 1);
    QCOMPARE(int(taken.update.slow->evidence.cause), cause);
    const QString text = QString::fromStdString(stragglerText(*taken.update.slow));
    QVERIFY2(text.contains(words), qPrintable(text));
  }

  void aRankThatPagesIsNamed_data() {
    QTest::addColumn<double>("ownFaults");
    QTest::addColumn<double>("othersFaults");
    QTest::addColumn<int>("cause");
    QTest::newRow("alone") << 900.0 << 0.0 << int(SlowCause::kPaging);
    QTest::newRow("more than the others") << 900.0 << 100.0 << int(SlowCause::kPaging);
    QTest::newRow("as the others") << 900.0 << 850.0 << int(SlowCause::kUnknown);
    QTest::newRow("now and then") << 5.0 << 0.0 << int(SlowCause::kUnknown);
  }

  void aRankThatPagesIsNamed() {
    QFETCH(double, ownFaults);
    QFETCH(double, othersFaults);
    QFETCH(int, cause);
    RunAggregator book(rowOf(3), {{"n1", 0}});
    std::vector<run::v1::RankSample> samples;
    for (int rank = 0; rank < 3; ++rank) {
      samples.push_back(rankSample(rank, false, 0, 0));
      samples.back().set_disk_faults(rank == 1 ? ownFaults : othersFaults);
    }
    book.add("n1", sampleRecord(1, 0, samples));
    for (int rank = 0; rank < 3; ++rank)
      book.add("n1", stepsRecord(static_cast<std::uint64_t>(rank) + 2, rank, 1, 30,
                                 rank == 1 ? 0.010 : 0.002));
    const auto taken = book.take();
    QVERIFY(taken.update.slow.has_value());
    QCOMPARE(taken.update.slow->rank, 1);
    QCOMPARE(int(taken.update.slow->evidence.cause), cause);
    const std::string text = stragglerText(*taken.update.slow);
    QCOMPARE(text.find("it read 900 pages a second from a disk") != std::string::npos,
             cause == int(SlowCause::kPaging));
  }

  // A rank that stays stopped ends no step: the looks at it say so.
  void aRankThatStaysStoppedIsNamed() {
    RunAggregator book(rowOf(2), {{"n1", 0}});
    std::uint64_t sequence = 0;
    book.add("n1", stepsRecord(++sequence, 0, 1, 8, 0.002));
    std::vector<StragglerChange> changes;
    const auto look = [&](bool stopped) {
      const double seconds = 0.25 * static_cast<double>(sequence);
      auto record = sampleRecord(++sequence, seconds,
                                 {rankSample(0, false, 0, 0), rankSample(1, stopped, 0, 0)});
      record.set_monotonic_ns(static_cast<std::int64_t>(seconds * 1e9));
      book.add("n1", record);
      auto update = book.take().update;
      changes = std::move(update.stragglers);
      return update.slow;
    };
    for (int i = 0; i < 3; ++i) QVERIFY(!look(true));
    const auto slow = look(true);
    QVERIFY(slow.has_value());
    QCOMPARE(slow->rank, 1);
    QVERIFY(slow->halted);
    QCOMPARE(QString::fromStdString(stragglerText(*slow)),
             QString("rank 1 () is stopped: no step has ended since step 8"));
    for (int i = 0; i < 8; ++i) QVERIFY(look(true));
    QVERIFY(!look(false));
    QCOMPARE(changes.size(), std::size_t{1});
    QCOMPARE(changes[0].lostSeconds, 0.25 * 11);  // from the first look to the last
    QCOMPARE(QString::fromStdString(changeText(changes[0])),
             QString("rank 1 () was stopped after step 8: it cost 2.8 s"));
    for (int i = 0; i < 3; ++i) QVERIFY(!look(true));
    book.add("n1", stepsRecord(++sequence, 0, 9, 1, 0.002));
    QVERIFY(!look(true));
  }

  // Its samples have the time of the node, whose clock may be minutes ahead of the others'.
  void aSlowLinkIsNamedWhateverTheClocksSay_data() {
    QTest::addColumn<double>("ahead");  // seconds, of n2
    for (const double ahead : {0.0, 10.0, -10.0, 3600.0}) QTest::addRow("%g s", ahead) << ahead;
  }

  void aSlowLinkIsNamedWhateverTheClocksSay() {
    QFETCH(double, ahead);
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    const auto ns = [](double seconds) { return static_cast<std::int64_t>(seconds * 1e9); };
    const double booted[] = {5000, 90'000};  // each node counts from its own start
    std::uint64_t sequence = 0;
    const auto stamp = [&](run::v1::Record& record, int node, double seconds) {
      record.set_sequence(++sequence);
      record.set_wall_ns(ns(1'700'000'000 + seconds + (node == 1 ? ahead : 0)));
      record.set_monotonic_ns(ns(booted[node] + seconds));
    };
    run::v1::Record clock;
    stamp(clock, 1, 0);
    clock.mutable_clock()->set_relative_to("n1");
    clock.mutable_clock()->set_offset_ns(ns(booted[0] - booted[1]));
    clock.mutable_clock()->set_uncertainty_ns(100'000);
    book.add("n2", clock);
    std::optional<Straggler> slow;
    std::vector<LogRow> lines;
    for (int i = 1; i <= 20; ++i)
      for (const int node : {0, 1}) {
        run::v1::Record record;
        stamp(record, node, 0.5 * i);
        auto& link = *record.mutable_node_sample()->add_link();
        const bool isSlow = node == 0 && i > 8;
        link.set_node(node == 0 ? "n2" : "n1");
        link.set_sending(0.9);
        link.set_rate(isSlow ? 2e7 : 1e9);
        link.set_round_trip(isSlow ? 0.02 : 1e-4);
        link.set_resent(isSlow ? 0.04 : 0);
        book.add(node == 0 ? "n1" : "n2", record);
        const auto taken = book.take();
        slow = taken.update.slow;
        for (const LogRow& line : stragglerLines(taken.batch)) lines.push_back(line);
      }
    QVERIFY(slow && slow->link);
    QCOMPARE(slow->link->from, std::string("n1"));
    QCOMPARE(slow->link->to, std::string("n2"));
    const QString text = QString::fromStdString(stragglerText(*slow));
    QVERIFY2(text.contains("% of its packets are sent again"), qPrintable(text));
    QVERIFY(std::abs(slow->link->resent - 0.04) < 0.01);
    QVERIFY(!lines.empty());
    QVERIFY(lines.front().wallNs > ns(1'600'000'000));  // although no step has ended
  }

  // A rank with more samples takes longer; that is the plan, and named is who is slow beyond it.
  void sharesOfThePlanAreNoSlowness() {
    plan::Plan plan;
    plan.mesh = cluster::Mesh({{"data", 4}});
    plan.batchCuts = {0, 2, 3, 4, 5};
    for (const bool known : {true, false})
      for (const int slow : {-1, 0, 2}) {
        RunAggregator book(rowOf(4), {{"n1", 0}},
                           known ? plan::BatchShares(plan) : plan::BatchShares());
        std::uint64_t sequence = 0;
        for (int rank = 0; rank < 4; ++rank)
          book.add("n1", stepsRecord(++sequence, rank, 1, 40,
                                     rank == slow ? 0.019 : (rank == 0 ? 0.012 : 0.006)));
        const auto taken = book.take();
        if (known)
          QCOMPARE(taken.update.slow ? taken.update.slow->rank : -1, slow);
        else
          QVERIFY(taken.update.slow);
      }
  }

  // A recorder that takes over reads steps again, and tells of stragglers of later ones only.
  void stragglersAreToldOnce() {
    const auto steps = [](RunAggregator& book, std::uint64_t& sequence, int first, double slow) {
      for (int rank = 0; rank < 3; ++rank)
        book.add("n1", stepsRecord(++sequence, rank, first, 30, rank == 1 ? slow : 0.002));
      return book.take();
    };
    RunAggregator before(rowOf(3), {{"n1", 0}});
    std::uint64_t sequence = 0;
    auto taken = steps(before, sequence, 1, 0.012);
    QCOMPARE(stragglerLines(taken.batch).size(), std::size_t{1});
    QVERIFY(taken.update.row);
    RunAggregator later(*taken.update.row, {{"n1", sequence}});
    sequence = 0;
    taken = steps(later, sequence, 1, 0.012);
    QVERIFY(stragglerLines(taken.batch).empty());
    QVERIFY(taken.update.stragglers.empty());
    QCOMPARE(taken.update.slow ? taken.update.slow->rank : -1, 1);  // it still is
    taken = steps(later, sequence, 31, 0.012);
    QVERIFY(stragglerLines(taken.batch).empty());
    for (int first = 61; first < 301; first += 30) {
      taken = steps(later, sequence, first, 0.002);
      if (!stragglerLines(taken.batch).empty()) break;
    }
    QCOMPARE(stragglerLines(taken.batch).size(), std::size_t{1});
    QVERIFY(stragglerLines(taken.batch)[0].text.find("was slow in steps") != std::string::npos);
  }

  // The steps of a straggler are those that are measured: the values that a program reports may
  // count others, such as epochs.
  void aProgramsStragglerHasMeasuredSteps() {
    RunAggregator book(rowOf(3), {{"n1", 0}});
    std::uint64_t sequence = 0;
    run::v1::Record value;
    value.set_sequence(++sequence);
    value.mutable_scalars()->set_source("log");
    run::v1::Scalar& loss = *value.mutable_scalars()->add_scalars();
    loss.set_tag("loss");
    loss.set_step(2);
    book.add("n1", value);
    const auto steps = [&](int first, double slow) {
      for (int rank = 0; rank < 3; ++rank) {
        run::v1::Record record = stepsRecord(++sequence, rank, first, 30, rank == 1 ? slow : 0.002);
        record.mutable_steps()->set_generation(1);
        record.mutable_steps()->clear_loss();
        book.add("n1", record);
      }
      return book.take().batch.stragglers;
    };
    std::vector<StragglerRow> told = steps(1, 0.012);
    QCOMPARE(told.size(), std::size_t{1});
    told.clear();
    for (int first = 31; first < 301 && told.empty(); first += 30) told = steps(first, 0.002);
    QCOMPARE(told.size(), std::size_t{1});
    QVERIFY2(told[0].untilStep > told[0].sinceStep, told[0].text.c_str());
    QCOMPARE(book.row().figures.steps, std::int64_t{2});
  }
};

QTEST_GUILESS_MAIN(SlowRanksTest)
#include "slow_ranks_test.moc"
