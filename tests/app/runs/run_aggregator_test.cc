// What becomes of the records of a run: curves, warnings, and how it ended.
#include <QTest>

#include <cmath>
#include <limits>

#include "app/runs/log_line.h"
#include "app/runs/run_aggregator.h"
#include "app/runs/run_model.h"
#include "engine/base/clock.h"
#include "tests/app/runs/made_up_records.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::app::test;

class RunAggregatorTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void logLinesSayTheirTime() {
    const LogLine line = parseLogLine("2024-05-01T12:00:00.123Z W the step waited");
    QVERIFY(levelOf(line) == LogLevel::kWarning);
    QVERIFY(levelOf(parseLogLine("2024-05-01T12:00:00.123Z D an error")) == LogLevel::kDebug);
    QVERIFY(levelOf(parseLogLine("RuntimeERROR: no")) == LogLevel::kError);
    QVERIFY(levelOf(parseLogLine("traceback (most recent)")) == LogLevel::kError);
    QVERIFY(levelOf(parseLogLine("UserWarning: x")) == LogLevel::kWarning);
    QVERIFY(levelOf(parseLogLine("loss 0.3")) == LogLevel::kInfo);
    QCOMPARE(isoTime(line.wallNs), std::string("2024-05-01T12:00:00.123Z"));
    QCOMPARE(line.level, 'W');
    QCOMPARE(line.text, std::string_view("the step waited"));
    for (const char* other :
         {"", "words", "2024-05-01T12:00:00.123Z", "2024-05-01T12:00:00.123Z X text",
          "2024-05-01 12:00:00.123Z I text", "12 I text", "9999-05-01T12:00:00.123Z I text",
          "0000-00-00T00:00:00.000Z I text"}) {
      QCOMPARE(parseLogLine(other).text, std::string_view(other));
      QCOMPARE(parseLogLine(other).wallNs, 0);
    }
  }

  void stepsBecomeCurvesAndWaiting() {
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    book.add("n1", stepsRecord(1, 0, 1, 30, 0.002));
    book.add("n2", stepsRecord(1, 1, 1, 30, 0.010));
    const auto taken = book.take();
    QCOMPARE(find(taken.batch, "loss")->points.size(), std::size_t{30});
    QCOMPARE(find(taken.batch, "loss")->points[3].y, 0.25);
    QVERIFY(find(taken.batch, "rank/0/staleness") == nullptr);
    const auto* waiting = find(taken.batch, "rank/0/waiting");
    QVERIFY(waiting != nullptr);
    QCOMPARE(waiting->points.size(), std::size_t{30});
    QVERIFY(std::abs(waiting->points[5].y - 0.008) < 1e-6);
    QVERIFY(find(taken.batch, "rank/1/waiting")->points[5].y < 1e-6);
    QCOMPARE(taken.batch.cursors.size(), std::size_t{2});
    QVERIFY(std::abs(taken.update.row->measuredStepSeconds - 0.02) < 1e-9);
    QVERIFY(taken.update.slow.has_value());
    QCOMPARE(taken.update.slow->rank, 1);
    // Told again: nothing new.
    book.add("n1", stepsRecord(1, 0, 1, 30, 0.002));
    QVERIFY(book.empty());
  }

  // A recorder that is killed may have kept the run's first records, and not its row.
  void aRecorderThatTakesOverKnowsTheStart() {
    constexpr std::int64_t kWall = 5'000'000'000;
    run::v1::Record record;
    record.set_sequence(1);
    record.set_wall_ns(kWall);
    record.mutable_started()->set_version("1.2");
    RunAggregator first(rowOf(1), {{"n1", 0}});
    first.add("n1", record);
    const RunAggregator second(rowOf(1), {{"n1", 1}}, {}, first.take().batch.facts);
    QCOMPARE(second.row().startedNs, kWall);
    QCOMPARE(second.row().phase, RunState::RUNNING);
    QCOMPARE(second.row().version, std::string("1.2"));
  }

  // Of several measurements of a clock's offset the surest is applied.
  void theSurestClockOffsetHolds() {
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    constexpr std::int64_t kSecond = 1'000'000'000;
    std::uint64_t sequence = 0;
    for (const auto& [offset, uncertainty] : {std::pair{5 * kSecond + 40'000'000, 50'000'000L},
                                              {5 * kSecond, 100'000L},
                                              {5 * kSecond - 80'000'000, 90'000'000L}}) {
      run::v1::Record record;
      record.set_sequence(++sequence);
      record.set_monotonic_ns(static_cast<std::int64_t>(sequence) * kSecond);
      record.set_wall_ns(record.monotonic_ns());
      record.mutable_clock()->set_offset_ns(offset);
      record.mutable_clock()->set_uncertainty_ns(uncertainty);
      book.add("n2", record);
    }
    run::v1::Record late = stepsRecord(++sequence, 1, 1, 30, 0.010);
    late.mutable_steps()->set_begin_ns(0, late.steps().begin_ns(0) - 5 * kSecond);
    book.add("n1", stepsRecord(1, 0, 1, 30, 0.002));
    book.add("n2", late);
    const auto taken = book.take();
    const auto* waiting = find(taken.batch, "rank/0/waiting");
    QVERIFY(waiting != nullptr);
    QVERIFY(std::abs(waiting->points[5].y - 0.008) < 1e-6);
    QCOMPARE(find(taken.batch, "node/n2/clock_uncertainty")->points.size(), std::size_t{3});
  }

  // An outline has the extremes of many steps: curves, but nothing that compares ranks of one step.
  void anOutlineBecomesCurves() {
    RunRow row;
    row.run = "r";
    row.world = 2;
    RunAggregator book(row, {{"a", 0}});
    for (const std::int64_t step : {1, 500})
      for (int rank = 0; rank < 2; ++rank) {
        run::v1::Record record =
            stepsRecord(static_cast<std::uint64_t>(rank + 2 * step), rank, step, 1, 0.01);
        record.set_outline_from(1);
        book.add("a", record);
      }
    const auto taken = book.take();
    std::map<std::string, std::vector<Point>> series;
    for (const auto& one : taken.batch.series) series[one.name] = one.points;
    for (const char* name : {"loss", "rank/0/step", "rank/0/forward", "rank/1/optimizer"}) {
      QCOMPARE(series[name].size(), std::size_t{2});
      QCOMPARE(series[name][1].x, 500.0);
    }
    QVERIFY(!series.contains("rank/0/waiting"));
  }

  void stepsThatUpdateNothingAreASeries() {
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    for (const int rank : {0, 1}) {
      run::v1::Record record = stepsRecord(1, rank, 1, 4, 0.002);
      for (const float scale : {65536.0f, 65536.0f, 32768.0f, 32768.0f})
        record.mutable_steps()->add_loss_scale(scale);
      for (const int skipped : {0, 1, 0, 0}) record.mutable_steps()->add_skipped(skipped);
      book.add(rank == 0 ? "n1" : "n2", record);
    }
    const auto taken = book.take();
    QCOMPARE(find(taken.batch, "loss_scale")->points.size(), std::size_t{4});
    QCOMPARE(find(taken.batch, "loss_scale")->points[2].y, 32768.0);
    QCOMPARE(find(taken.batch, "skipped")->points.size(), std::size_t{1});
    QCOMPARE(find(taken.batch, "skipped")->points[0].x, 2.0);
    QCOMPARE(find(taken.batch, "skipped")->points[0].y, 1.0);
  }

  // The same on all ranks that report them: the first report of a step counts, and none that were
  // not measured.
  void whatIsWatchedIsASeries() {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    const auto record = [&](std::uint64_t sequence, int rank, int first, int seen) {
      run::v1::Record out = stepsRecord(sequence, rank, first, 4, 0.002);
      run::v1::StepChunk& steps = *out.mutable_steps();
      for (int i = 0; i < 4; ++i) {
        steps.add_learning_rate(0.001 * (first + i));
        steps.add_gradient_norm(static_cast<float>(i == 2 ? kNone : first + i));
        steps.add_update_ratio(static_cast<float>(kNone));
      }
      steps.set_samples_seen(seen);
      steps.set_sample_tokens(100);
      return out;
    };
    for (const int rank : {1, 0}) book.add(rank == 0 ? "n1" : "n2", record(1, rank, 1, 256));
    // Trained again after a restart, in part: what is known stays.
    book.add("n1", record(2, 0, 3, 384));
    const auto taken = book.take();
    const auto points = [&](const char* name) { return find(taken.batch, name)->points; };
    QCOMPARE(points("learning_rate").size(), std::size_t{6});
    QCOMPARE(points("learning_rate")[5].y, 0.006);
    std::vector<double> measured;
    for (const Point& point : points("gradient_norm")) measured.push_back(point.x);
    QCOMPARE(measured, (std::vector<double>{1, 2, 4, 6}));
    QCOMPARE(find(taken.batch, "update_ratio"), nullptr);
    QCOMPARE(points("samples").size(), std::size_t{6});
    QCOMPARE(points("samples")[0].y, 64.0);
    QCOMPARE(points("samples")[5].y, 384.0);
    QCOMPARE(points("tokens")[5].y, 38400.0);
    QCOMPARE(points("tokens_per_second")[0].y, points("samples_per_second")[0].y * 100);
  }

  // What a node could not measure is no point of a curve.
  void anUnknownDiskIsNoCurve() {
    RunAggregator book(rowOf(1), {{"n1", 0}});
    std::uint64_t sequence = 0;
    for (const double free : {-1.0, 5e9}) {
      ++sequence;
      run::v1::Record record = sampleRecord(sequence, static_cast<double>(sequence), {});
      record.mutable_node_sample()->set_disk_free(free);
      book.add("n1", record);
    }
    const auto taken = book.take();
    const auto* curve = find(taken.batch, "node/n1/disk_free");
    QVERIFY(curve != nullptr);
    QCOMPARE(curve->points.size(), std::size_t{1});
    QCOMPARE(curve->points[0].y, 5e9);
  }

  // Curves of GPUs are what their driver tells; what is wrong is told once.
  void gpusAreSeriesAndWarnings() {
    RunAggregator book(rowOf(1), {{"n1", 0}});
    std::uint64_t sequence = 0;
    const auto sample = [&](const std::function<void(run::v1::GpuSample&)>& set) {
      ++sequence;
      run::v1::Record record = sampleRecord(sequence, static_cast<double>(sequence), {});
      run::v1::GpuSample& one = *record.mutable_node_sample()->add_gpu();
      one.set_index(3);
      one.set_utilisation(0.9);
      one.set_power_w(600);
      one.set_throttle_known(true);
      one.set_ecc_uncorrected(7);  // from before the run
      one.set_xids(0);
      set(one);
      book.add("n1", record);
    };
    for (int i = 0; i < 3; ++i) sample([](auto&) {});
    auto taken = book.take();
    QVERIFY(taken.update.warnings.empty());
    QCOMPARE(find(taken.batch, "node/n1/gpu/3/utilisation")->points.size(), std::size_t{3});
    QCOMPARE(find(taken.batch, "node/n1/gpu/3/utilisation")->points[0].y, 0.9);
    QCOMPARE(find(taken.batch, "node/n1/gpu/3/power")->points[0].y, 600.0);
    QCOMPARE(find(taken.batch, "node/n1/gpu/3/throttled")->points[2].y, 0.0);
    // did not change
    QCOMPARE(find(taken.batch, "node/n1/gpu/3/ecc_uncorrected")->points.size(), std::size_t{1});
    for (const char* absent :
         {"memory", "memory_utilisation", "temperature", "sm_clock", "memory_clock", "pcie_in",
          "pcie_out", "nvlink_in", "nvlink_out", "ecc_corrected"})
      QVERIFY2(find(taken.batch, std::string("node/n1/gpu/3/") + absent) == nullptr, absent);
    // Under its power limit it works as it should; for a moment of heat nobody is called.
    for (int i = 0; i < 20; ++i) sample([](auto& gpu) { gpu.add_throttle("power"); });
    sample([](auto& gpu) { gpu.add_throttle("heat"); });
    taken = book.take();
    QVERIFY(taken.update.warnings.empty());
    QCOMPARE(find(taken.batch, "node/n1/gpu/3/throttled")->points[0].y, 1.0);
    for (int i = 0; i < 20; ++i)
      sample([](auto& gpu) {
        gpu.add_throttle("heat");
        gpu.set_temperature_c(91);
      });
    sample([](auto& gpu) {
      gpu.set_ecc_uncorrected(9);
      gpu.set_xids(1);
      gpu.set_last_xid(48);
      gpu.set_pcie_width(8);
      gpu.set_pcie_width_max(16);
    });
    for (int i = 0; i < 3; ++i)
      sample([](auto& gpu) {
        const std::string problem = "GPU is lost";
        gpu.Clear();
        gpu.set_index(3);
        gpu.mutable_problem()->set_text(problem);
        gpu.set_xids(1);
      });
    taken = book.take();
    QStringList told;
    for (const Error& warning : taken.update.warnings) {
      QCOMPARE(warning.node, std::string("n1"));
      told << QString::fromStdString(warning.what);
    }
    QCOMPARE(told,
             (QStringList{"GPU 3 is slowed down for heat",
                          "the driver reports an error of GPU 3: Xid 48",
                          "GPU 3 has uncorrected memory errors: 9",
                          "the PCIe link of GPU 3 has 8 of 16 lanes", "GPU 3 does not answer"}));
    QCOMPARE(taken.update.warnings[0].why, std::string("it has 91 °C"));
    QCOMPARE(taken.update.warnings[4].why, std::string("GPU is lost"));
    QCOMPARE(taken.batch.logs.size(), std::size_t{5});
    // Back and away again is news.
    sample([](auto&) {});
    sample([](auto& gpu) { gpu.mutable_problem()->set_text("GPU is lost"); });
    QCOMPARE(book.take().update.warnings.size(), std::size_t{1});
  }

  // A step has the mean of what the driver said during it, or what it said last before it. Nothing
  // is known of ranks without a GPU, and of what was said too long ago or of an idle GPU.
  void clocksOfGpusAreThoseOfSteps() {
    RunAggregator book(rowOf(2), {{"n1", 0}});
    std::uint64_t sequence = 0;
    const auto sample = [&](std::int64_t milliseconds, double clock, double use = 0.9) {
      run::v1::RankSample own = rankSample(0, false, 0, 0);
      own.set_gpu(3);
      run::v1::Record record = sampleRecord(++sequence, static_cast<double>(milliseconds) / 1e3,
                                            {own, rankSample(1, false, 0, 0)});
      record.set_monotonic_ns(milliseconds * 1'000'000);
      run::v1::GpuSample& gpu = *record.mutable_node_sample()->add_gpu();
      gpu.set_index(3);
      gpu.set_utilisation(use);
      gpu.set_sm_clock_mhz(clock);
      book.add("n1", record);
    };
    // Step n lasts from 20 n to 20 n + 20 ms.
    const auto steps = [&](std::int64_t first, int count) {
      for (int rank = 0; rank < 2; ++rank)
        book.add("n1", stepsRecord(++sequence, rank, first, count, 0.002));
    };
    steps(1, 1);
    sample(45, 1980);
    sample(50, 1000);
    sample(55, 1000);
    sample(85, 210, 0.02);
    steps(2, 3);
    sample(100, 600);
    steps(5, 56);
    const auto taken = book.take();
    std::map<int, double> clocks;
    for (const Point& point : find(taken.batch, "rank/0/gpu_clock")->points)
      clocks[static_cast<int>(point.x)] = point.y;
    std::map<int, double> expected{{2, 1327}, {3, 1000}, {4, 1000}};
    for (int step = 5; step <= 55; ++step) expected[step] = 600;  // until 1.1 s
    QCOMPARE(clocks, expected);
    QVERIFY(find(taken.batch, "rank/1/gpu_clock") == nullptr);
    // A node that is started anew counts its time anew.
    GpuClocks again;
    again.add(8'000'000'000, 1980);
    again.add(9'000'000'000, 1980);
    again.add(1'000'000, 600);
    QVERIFY(again.take(2'000'000, 3'000'000) == 600.0);
  }

  // Sums and differences of what nodes say do not overflow.
  void timesAreBounded() {
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    const std::int64_t now = wallNow();
    QCOMPARE(bounded(now), now);
    QCOMPARE(bounded(-now), -now);
    QCOMPARE(bounded(kMost), -bounded(kLeast));
    QVERIFY(bounded(kMost) > now && bounded(kMost) <= kMost / 4 + 1);
    QVERIFY(bounded(bounded(kMost) + bounded(kMost)) == bounded(kMost));
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}, {"n3", 0}});
    for (const bool early : {true, false}) {
      const std::string node = early ? "n2" : "n3";
      const std::int64_t end = early ? kLeast : kMost;
      run::v1::Record clock;
      clock.set_sequence(1);
      clock.mutable_clock()->set_relative_to("n1");
      clock.mutable_clock()->set_offset_ns(end);
      book.add(node, clock);
      run::v1::Record record = stepsRecord(2, early ? 0 : 1, 1, 1, 0.002);
      record.set_wall_ns(end);
      record.set_monotonic_ns(early ? kMost : kLeast);
      record.mutable_steps()->set_begin_ns(0, end);
      record.mutable_steps()->set_duration_ns(0, kMost);
      record.mutable_steps()->set_arrival_ns(0, early ? 1 : kMost);
      book.add(node, record);
    }
    const auto taken = book.take();
    const auto waiting = [&](int rank) {
      const auto* series = find(taken.batch, fmt::format("rank/{}/waiting", rank));
      return series != nullptr ? series->points.at(0).y : -1;
    };
    QVERIFY2(std::abs(waiting(0) - 0.0179) < 1e-6, qPrintable(QString::number(waiting(0))));
    QCOMPARE(waiting(1), 0.0);
    RunAggregator longest(rowOf(1), {{"n1", 0}});
    run::v1::Record record;
    record.set_sequence(1);
    record.set_wall_ns(kLeast);
    record.mutable_started();
    longest.add("n1", record);
    record.set_sequence(2);
    record.set_wall_ns(kMost);
    record.mutable_finished()->set_state(run::v1::SUCCEEDED);
    longest.add("n1", record);
    QCOMPARE(longest.row().finishedNs - longest.row().startedNs, bounded(kMost) - bounded(kLeast));
  }

  void theCoordinatorSaysTheEnd() {
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    run::v1::Record finished;
    finished.set_sequence(1);
    finished.mutable_finished()->set_state(run::v1::SUCCEEDED);
    book.add("n2", finished);
    QVERIFY(!book.ended() && book.finished("n2"));
    finished.mutable_finished()->set_weights_sha256("ab");
    finished.mutable_finished()->set_steps(7);
    book.add("n1", finished);
    QVERIFY(book.ended());
    QCOMPARE(book.row().figures.weightsSha256, std::string("ab"));
    QCOMPARE(book.row().figures.steps, std::int64_t{7});
  }

  // Its supervisor was lost as it ended the run: another node tells how.
  void anotherNodeSaysTheEnd_data() {
    QTest::addColumn<bool>("agreed");
    // The coordinator is, before (1) or after (2) that record; or its folder is gone (3).
    QTest::addColumn<int>("unreachable");
    QTest::addColumn<bool>("returns");  // its agent has written an end for it
    QTest::addColumn<RunState>("state");
    QTest::newRow("the coordinator answers") << true << 0 << false << RunState::RUNNING;
    QTest::newRow("it was out of reach before") << true << 1 << false << RunState::SUCCEEDED;
    QTest::newRow("it is out of reach later") << true << 2 << false << RunState::SUCCEEDED;
    QTest::newRow("it comes back") << true << 0 << true << RunState::SUCCEEDED;
    QTest::newRow("it comes back later") << true << 2 << true << RunState::SUCCEEDED;
    QTest::newRow("its folder is gone") << true << 3 << false << RunState::SUCCEEDED;
    QTest::newRow("the node's own end, and its folder is gone")
        << false << 3 << false << RunState::FAILED;
    QTest::newRow("the node's own end") << false << 1 << false << RunState::RUNNING;
    QTest::newRow("the node's own end, and it comes back")
        << false << 1 << true << RunState::FAILED;
  }
  void anotherNodeSaysTheEnd() {
    QFETCH(bool, agreed);
    QFETCH(int, unreachable);
    QFETCH(bool, returns);
    QFETCH(RunState, state);
    RunRow row = rowOf(2);
    row.phase = RunState::RUNNING;
    RunAggregator book(row, {{"n1", 0}, {"n2", 0}});
    run::v1::Record finished;
    finished.set_sequence(1);
    finished.set_wall_ns(9);
    finished.mutable_finished()->set_state(run::v1::SUCCEEDED);
    finished.mutable_finished()->set_steps(7);
    finished.mutable_finished()->set_agreed(agreed);
    if (unreachable == 1) book.setUnreachable(5);
    book.add("n2", finished);
    if (unreachable == 2) book.setUnreachable(5);
    if (unreachable == 3) book.fail(makeError(Code::kNotFound, "the node does not know the run"));
    finished.mutable_finished()->set_state(run::v1::FAILED);
    finished.mutable_finished()->set_agreed(false);
    finished.mutable_finished()->set_alone(true);
    if (returns) book.add("n1", finished);
    QCOMPARE(book.row().phase, state);
    if (state != RunState::SUCCEEDED) return;
    QCOMPARE(book.row().finishedNs, std::int64_t{9});
    QCOMPARE(book.row().unreachableNs, std::int64_t{0});
    QCOMPARE(book.row().figures.steps, std::int64_t{7});
    QVERIFY(book.take().update.errors.empty());
  }

  // Fewer than half of the nodes had confirmed that they know when the coordinator ended.
  void aKillOfWhichTheOthersHeardLate() {
    RunRow row = rowOf(2);
    row.phase = RunState::RUNNING;
    RunAggregator book(row, {{"n1", 0}, {"n2", 0}});
    run::v1::Record finished;
    finished.set_sequence(1);
    finished.set_wall_ns(9);
    finished.mutable_finished()->set_state(run::v1::STOPPED);
    finished.mutable_finished()->set_alone(true);
    book.add("n1", finished);
    QCOMPARE(book.row().phase, RunState::RUNNING);
    QCOMPARE(book.row().unreachableNs, std::int64_t{9});
    finished.mutable_finished()->set_alone(false);
    book.add("n2", finished);
    QCOMPARE(book.row().phase, RunState::STOPPED);
    QCOMPARE(book.row().unreachableNs, std::int64_t{0});
    QVERIFY(book.take().update.errors.empty());
  }

  // A run that was killed has the loss of its last whole epoch, or none; one that ended has what
  // its ranks said.
  void aKilledRunsLossIsWhatWasSeen() {
    for (const bool whole : {false, true})
      for (const auto state : {run::v1::FAILED, run::v1::STOPPED}) {
        RunAggregator book(rowOf(1), {{"n1", 0}});
        run::v1::Record record;
        record.set_sequence(1);
        if (whole) {
          record.mutable_epoch()->set_epoch(1);
          record.mutable_epoch()->set_train_loss(0.5);
          book.add("n1", record);
          record.set_sequence(2);
        }
        record.mutable_finished()->set_state(state);
        record.mutable_finished()->set_steps(7);
        book.add("n1", record);
        const double loss = book.row().figures.trainLoss;
        QVERIFY2(whole ? loss == 0.5 : std::isnan(loss), fmt::format("{}", loss).c_str());
      }
    RunAggregator book(rowOf(1), {{"n1", 0}});
    run::v1::Record record;
    record.set_sequence(1);
    record.mutable_finished()->set_state(run::v1::STOPPED);
    record.mutable_finished()->set_train_loss(0.25);
    book.add("n1", record);
    QCOMPARE(book.row().figures.trainLoss, 0.25);
  }

  // What a person sees as the end comes after everything that was recorded up to it.
  void theEndIsToldAfterTheLastRecords() {
    RunAggregator book(rowOf(2), {{"n1", 0}, {"n2", 0}});
    book.add("n1", stepsRecord(1, 0, 1, 3, 0.01));
    run::v1::Record finished;
    finished.set_sequence(2);
    finished.mutable_finished()->set_state(run::v1::SUCCEEDED);
    book.add("n1", finished);
    auto taken = book.take();
    QVERIFY(taken.update.ending && !isFinal(taken.update.row->phase));
    QVERIFY(find(taken.batch, "rank/1/waiting") == nullptr);
    book.add("n2", stepsRecord(1, 1, 1, 3, 0.02));
    taken = book.take();
    QCOMPARE(find(taken.batch, "rank/1/waiting")->points.size(), std::size_t{3});
    QVERIFY(taken.update.ending && (!taken.update.row || !isFinal(taken.update.row->phase)));
    QCOMPARE(book.row().phase, RunState::SUCCEEDED);
  }

  // Until it waits for nothing any more, its coordinator is lost, or it is over.
  void whatTheRunWaitsForIsTold() {
    for (const int until : {1, 2, 3}) {
      RunAggregator book(rowOf(1), {{"n1", 0}});
      RunModel model;
      model.begin(rowOf(1), {});
      run::v1::Record record;
      record.set_sequence(1);
      record.mutable_awaited()->set_text("waits for copies");
      book.add("n1", record);
      model.add(book.take().update, 0);
      QCOMPARE(model.awaited().text(), std::string("waits for copies"));
      record.set_sequence(2);
      if (until == 1) record.mutable_awaited()->clear_text();
      if (until == 2) record.mutable_recovering()->set_generation(2);
      if (until == 3) record.mutable_finished()->set_state(run::v1::SUCCEEDED);
      book.add("n1", record);
      auto update = book.take().update;
      if (until == 3) update.row = book.row();  // as the last update has it
      model.add(update, 0);
      QVERIFY(model.awaited().empty());
    }
  }

  void aSavedCheckpointIsToldOnce() {
    RunAggregator book(rowOf(1), {{"n1", 0}});
    run::v1::Record record;
    record.set_sequence(1);
    record.mutable_checkpoint()->set_step(120);
    book.add("n1", record);
    QVERIFY(book.take().update.checkpoint == 120);
    book.add("n1", stepsRecord(2, 0, 121, 1, 0.01));
    QVERIFY(!book.take().update.checkpoint);
    book.add("n1", record);  // again, as by a recorder that takes over
    QVERIFY(!book.take().update.checkpoint);
  }

  // Of a run with a node of role evaluator.
  void whatIsEvaluatedLaterCompletesItsEpoch() {
    RunRow row = rowOf(1);
    row.figures.metric = "accuracy";
    RunAggregator book(row, {{"n1", 0}, {"n2", 0}});
    run::v1::Record record;
    record.set_sequence(1);
    record.mutable_epoch()->set_epoch(1);
    record.mutable_epoch()->set_step(40);
    record.mutable_epoch()->set_train_loss(0.5);
    record.mutable_epoch()->set_evaluated_later(true);
    book.add("n1", record);
    auto taken = book.take();
    QVERIFY(!taken.update.epochs.at(0).evaluated());
    QCOMPARE(taken.update.row->figures.epochs, std::int64_t{1});
    QCOMPARE(taken.update.row->figures.evalLoss, 0.0);
    QVERIFY(find(taken.batch, "epoch/eval_loss") == nullptr);
    const run::v1::EpochInfo epoch = record.epoch();
    record.set_sequence(2);
    *record.mutable_evaluation() = epoch;
    record.mutable_evaluation()->set_evaluated_later(false);
    record.mutable_evaluation()->set_eval_loss(0.25);
    record.mutable_evaluation()->set_eval_metric(0.9);
    book.add("n1", record);
    taken = book.take();
    QCOMPARE(taken.update.epochs.at(0).evalLoss, 0.25);
    QCOMPARE(taken.update.epochs.at(0).step, std::int64_t{40});
    QCOMPARE(taken.update.row->figures.evalMetric, 0.9);
    QCOMPARE(find(taken.batch, "epoch/eval_accuracy")->points.at(0).x, 1.0);
    QVERIFY(find(taken.batch, "epoch/train_loss") == nullptr);
    record.set_sequence(3);
    record.mutable_warning()->set_code("aborted");
    record.mutable_warning()->mutable_what()->set_text(
        "the weights after step 80 could not be evaluated");
    book.add("n1", record);
    taken = book.take();
    QCOMPARE(taken.update.warnings.size(), std::size_t{1});
    QVERIFY(taken.update.errors.empty() && book.row().error.empty());
    QVERIFY(taken.update.logs.at(0).text.find("warning: ") == 0);
    // The last epoch's evaluation did not come: an older one is not its.
    record.set_sequence(4);
    record.mutable_finished()->set_state(run::v1::SUCCEEDED);
    book.add("n1", record);
    QCOMPARE(book.row().figures.evalLoss, 0.0);
  }

  void errorsReachRowAndObservers() {
    RunAggregator book(rowOf(1), {{"n1", 0}});
    run::v1::Record record;
    record.set_sequence(1);
    record.mutable_error()->set_code("aborted");
    record.mutable_error()->mutable_what()->set_text("rank 1 was killed");
    record.mutable_error()->set_rank(1);
    book.add("n1", record);
    const auto taken = book.take();
    QCOMPARE(taken.update.errors.size(), std::size_t{1});
    QCOMPARE(taken.update.errors[0].node, std::string("n1"));
    QVERIFY(taken.update.row->error.text().find("rank 1 was killed") != std::string::npos);
  }
};

QTEST_GUILESS_MAIN(RunAggregatorTest)
#include "run_aggregator_test.moc"
