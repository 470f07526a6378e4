#include <QDir>
#include <QFile>
#include <QTest>

#include <functional>
#include <map>
#include <numeric>

#include "engine/analysis/analysis.h"
#include "engine/base/random.h"
#include "engine/cluster/cuts.h"
#include "engine/plan/batch_shares.h"
#include "engine/plan/plan.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::analysis;

namespace {

constexpr double kTransfer = 0.002, kOptimizer = 0.001;
constexpr std::int64_t kWithinSteps = 20;

Nanoseconds ns(double seconds) { return static_cast<Nanoseconds>(seconds * 1e9); }

// A synchronous run: every rank computes, all synchronize, all update. `compute(rank, step, now)`
// returns a rank's time from the start of the step to its arrival.
class Run {
 public:
  using Compute = std::function<double(int rank, std::int64_t step, double now)>;
  Run(int world, Compute compute, std::vector<double> samples = {})
      : world_(world), compute_(std::move(compute)), analyzer_(world, std::move(samples)) {}

  void advance(int steps) {
    for (int i = 0; i < steps; ++i) {
      ++step_;
      std::vector<double> own;
      double last = 0;
      for (int r = 0; r < world_; ++r) {
        own.push_back(compute_(r, step_, now_));
        last = std::max(last, own.back());
      }
      const double end = now_ + last + kTransfer + kOptimizer;
      for (int r = 0; r < world_; ++r) {
        const double mine = own[static_cast<std::size_t>(r)];
        StepSample sample;
        sample.rank = r;
        sample.step = step_;
        sample.begin = ns(now_);
        sample.end = ns(end);
        sample.arrival = ns(now_ + mine);
        sample.data = 0.05 * mine;
        sample.forward = 0.3 * mine;
        sample.backward = 0.65 * mine;
        sample.communication = last - mine + kTransfer;
        sample.optimizer = kOptimizer;
        analyzer_.add(sample);
      }
      now_ = end;
      if (!analyzer_.stragglers().empty()) {
        if (firstNamed_ == 0) firstNamed_ = step_;
        everNamed_ = true;
      }
    }
  }
  const std::vector<Straggler>& stragglers() const { return analyzer_.stragglers(); }
  StepAnalyzer& analyzer() { return analyzer_; }
  std::int64_t step() const { return step_; }
  std::int64_t firstNamed() const { return firstNamed_; }
  bool everNamed() const { return everNamed_; }

 private:
  int world_;
  Compute compute_;
  StepAnalyzer analyzer_;
  std::int64_t step_ = 0, firstNamed_ = 0;
  double now_ = 0;
  bool everNamed_ = false;
};

// Noise as on an oversubscribed machine: always a few per cent, now and then a scheduler's time
// slice, rarely a long hiccup, on any rank.
double noise(std::uint64_t seed, int rank, std::int64_t step) {
  const std::uint64_t key = randomKey(seed, static_cast<std::uint64_t>(rank));
  const auto at = static_cast<std::uint64_t>(step) * 8;
  double extra = 0.0005 * randomUniform(key, at);
  if (randomUniform(key, at + 1) < 0.2) extra += 0.004 * (1 + randomUniform(key, at + 2));
  if (randomUniform(key, at + 3) < 0.003) extra += 0.08;
  return extra;
}

// A batch divided unequally: how many samples each rank has, and how long it computes, in part in
// proportion to them.
struct Division {
  Division(std::uint64_t seed, int world) {
    const auto draw = [&](int least, int most) {
      return least + static_cast<int>(randomUniform(seed, ++drawn_) * (most - least + 1));
    };
    for (int r = 0; r < world; ++r) samples.push_back(draw(1, 5));
    fixed = 0.005 * draw(0, 4);
    each = 0.004 * draw(2, 8);
  }
  double own(int rank) const { return fixed + each * samples[static_cast<std::size_t>(rank)]; }
  double slowest(int without = -1) const {
    double out = 0;
    for (int r = 0; r < static_cast<int>(samples.size()); ++r)
      if (r != without) out = std::max(out, own(r));
    return out;
  }
  // The most that the rank's share explains, by any other rank's time per sample.
  double explained(int rank) const {
    const double least = *std::min_element(samples.begin(), samples.end());
    return samples[static_cast<std::size_t>(rank)] * (fixed / least + each);
  }
  std::vector<double> samples;
  double fixed = 0, each = 0;  // seconds

 private:
  std::uint64_t drawn_ = 0;
};

// Adds delays of `length` every `period` from `start` on to work of `work` beginning at `now`.
double withBursts(double now, double work, double start, double period, double length) {
  double end = now + work;
  for (double burst = start; burst < end; burst += period) {
    if (burst + length <= now) continue;
    end += burst + length - std::max(burst, now);
  }
  return end - now;
}

// Recorded steps of three ranks on two cores. The first line is "nobody" if no rank is to be
// reported, or "slowed RANK STEP": which rank was slowed after which step. The other lines: step,
// rank, then in microseconds begin, end, arrival, data, forward, backward, communication,
// optimizer, frozen, and the frozen part after the arrival.
struct Recording {
  int rank = -1;
  std::int64_t after = 0;
  std::vector<StepSample> samples;
};

Recording readRecording(const QString& path) {
  Recording out;
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) qFatal("cannot read %s", qPrintable(path));
  const QList<QByteArray> head = file.readLine().trimmed().split(' ');
  if (head[0] == "slowed") {
    out.rank = head[1].toInt();
    out.after = head[2].toLongLong();
  }
  while (!file.atEnd()) {
    const QList<QByteArray> words = file.readLine().trimmed().split(' ');
    if (words.size() != 12) qFatal("%s is damaged", qPrintable(path));
    const auto us = [&](int i) { return words[i].toLongLong() * 1000; };
    const auto seconds = [&](int i) { return words[i].toDouble() * 1e-6; };
    StepSample sample;
    sample.step = words[0].toLongLong();
    sample.rank = words[1].toInt();
    sample.begin = us(2);
    sample.end = us(3);
    sample.arrival = us(4);
    sample.data = seconds(5);
    sample.forward = seconds(6);
    sample.backward = seconds(7);
    sample.communication = seconds(8);
    sample.optimizer = seconds(9);
    sample.frozen = seconds(10);
    sample.frozenArrived = seconds(11);
    out.samples.push_back(sample);
  }
  return out;
}

// A step of three ranks with `work` seconds of work each. Rank 1 is frozen for `before` seconds of
// its work and for `after` seconds once all have arrived; rank 2, like rank 0, for `everyone` of
// its work.
void addFrozenStep(StepAnalyzer& analyzer, std::int64_t step, double before, double after,
                   double everyone = 0, double work = 0.05) {
  const double begin = static_cast<double>(step);
  const double last = work + std::max(before, everyone);
  for (int r = 0; r < 3; ++r) {
    const double own = work + (r == 1 ? before : everyone);
    StepSample sample{r, step, ns(begin), ns(begin + last + after + kTransfer), ns(begin + own)};
    sample.forward = own;
    sample.communication = last - own + after + kTransfer;
    sample.frozen = r == 1 ? before + after : everyone;
    sample.frozenArrived = r == 1 ? after : 0;
    analyzer.add(sample);
  }
}

}  // namespace

class AnalysisTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void waitingIsTheTimeToTheLastArrival() {
    Run run(3, [](int rank, std::int64_t, double) { return 0.01 * (rank + 1); });
    run.advance(2);
    const auto steps = run.analyzer().take();
    QCOMPARE(steps.size(), std::size_t{2});
    for (int r = 0; r < 3; ++r) {
      const Breakdown& rank = steps[1].ranks[static_cast<std::size_t>(r)];
      QVERIFY(std::abs(rank.waiting - 0.01 * (2 - r)) < 1e-8);
      QVERIFY(std::abs(rank.transfer - kTransfer) < 1e-8);
      QVERIFY(std::abs(rank.total() - steps[1].seconds) < 1e-8);
    }
    QVERIFY(std::abs(run.analyzer().recent().ranks[0].waiting - 0.02) < 1e-8);
    QVERIFY(run.analyzer().take().empty());
  }

  void waitingNeverExceedsCommunication() {
    StepSample a{0, 1, 0, ns(0.03), ns(0.01), 0, 0.01, 0, 0.005, 0};
    StepSample b{1, 1, 0, ns(0.03), ns(0.02), 0, 0.02, 0, 0.004, 0};
    auto step = breakDown({a, b});
    QVERIFY(std::abs(step.ranks[0].waiting - 0.005) < 1e-12);
    QCOMPARE(step.ranks[0].transfer, 0.0);
    a.arrival = b.arrival = 0;  // without arrivals, the least communication is the transfer
    step = breakDown({a, b});
    QVERIFY(std::abs(step.ranks[0].waiting - 0.001) < 1e-12);
    QVERIFY(std::abs(step.ranks[1].transfer - 0.004) < 1e-12);
  }

  void ranksMayTellLateAndTwice() {
    StepAnalyzer analyzer(2);
    const auto tell = [&](int rank, std::int64_t step) {
      analyzer.add({rank, step, ns(0.01 * static_cast<double>(step)),
                    ns(0.01 * static_cast<double>(step) + 0.01), 0, 0, 0.01, 0, 0, 0});
    };
    for (int step = 1; step <= 3; ++step) tell(0, step);
    QVERIFY(analyzer.take().empty());
    tell(0, 3);
    tell(1, 1);
    tell(7, 2);
    QCOMPARE(analyzer.take().size(), std::size_t{1});
    tell(1, 2);
    tell(1, 3);
    tell(1, 1);
    QCOMPARE(analyzer.take().size(), std::size_t{2});
    // Step 4 of rank 1 is lost.
    tell(0, 4);
    for (int step = 5; step < 5 + 5000; ++step) {
      tell(0, step);
      tell(1, step);
    }
    QCOMPARE(analyzer.take().size(), std::size_t{5000});
  }

  // Ranks whose records begin at different steps, or have gaps: after a takeover, a restart,
  // records that were dropped. The steps that all report are broken down, each once, and none is
  // held back.
  void stepsThatNotAllReport() {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      std::uint64_t drawn = 0;
      const auto draw = [&](std::uint64_t below) { return randomBits(seed, ++drawn) % below; };
      const auto world = 1 + static_cast<int>(draw(4));
      std::vector<std::vector<std::int64_t>> reports(static_cast<std::size_t>(world));
      std::map<std::int64_t, int> counts;
      for (auto& report : reports) {
        const std::uint64_t gaps = draw(3) * 10;  // of 100 steps
        for (std::int64_t step = 1 + static_cast<std::int64_t>(draw(40)); step <= 200; ++step)
          if (draw(100) >= gaps) report.push_back(step);
        for (const std::int64_t step : report) ++counts[step];
      }
      std::vector<std::int64_t> want, got;
      for (const auto& [step, count] : counts)
        if (count == world) want.push_back(step);
      StepAnalyzer analyzer(world);
      std::vector<std::size_t> next(reports.size());
      std::size_t left = 0;
      for (const auto& report : reports) left += report.size();
      while (left > 0) {
        const std::size_t rank = draw(reports.size());
        for (std::uint64_t some = draw(30); some > 0 && next[rank] < reports[rank].size(); --some) {
          StepSample sample;
          sample.rank = static_cast<int>(rank);
          sample.step = reports[rank][next[rank]++];
          analyzer.add(sample);
          --left;
        }
        for (const StepBreakdown& step : analyzer.take()) got.push_back(step.step);
      }
      QVERIFY2(got == want, qPrintable(QStringLiteral("seed %1: %2 of %3 steps")
                                           .arg(seed)
                                           .arg(got.size())
                                           .arg(want.size())));
    }
  }

  void healthyRunsNameNobody_data() {
    QTest::addColumn<int>("world");
    QTest::addColumn<double>("work");
    for (const int world : {1, 2, 3, 8}) {
      for (const double work : {0.0005, 0.003, 0.02, 0.2}) {
        QTest::addRow("%d ranks, %g ms", world, work * 1e3) << world << work;
      }
    }
  }
  void healthyRunsNameNobody() {
    QFETCH(int, world);
    QFETCH(double, work);
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      Run run(world,
              [&](int rank, std::int64_t step, double) { return work + noise(seed, rank, step); });
      run.advance(2000);
      QVERIFY2(!run.everNamed(),
               qPrintable(QString("seed %1, step %2").arg(seed).arg(run.firstNamed())));
    }
  }

  // Three ranks on two cores: two of them share a core, and which two changes occasionally.
  void sharingCoresNamesNobody() {
    Run run(3, [](int rank, std::int64_t step, double) {
      const int alone = static_cast<int>(mix64(static_cast<std::uint64_t>(step / 37)) % 3);
      return (rank == alone ? 0.02 : 0.04) + noise(9, rank, step);
    });
    run.advance(2000);
    QVERIFY(!run.everNamed());
  }

  void aLargerShareIsNoSlowness_data() {
    QTest::addColumn<int>("world");
    for (const int world : {2, 3, 4, 8}) QTest::addRow("%d ranks", world) << world;
  }
  void aLargerShareIsNoSlowness() {
    QFETCH(int, world);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Division division(100 * seed + static_cast<std::uint64_t>(world), world);
      Run run(
          world,
          [&](int rank, std::int64_t step, double) {
            return division.own(rank) + noise(seed, rank, step);
          },
          division.samples);
      run.advance(500);
      QVERIFY2(!run.everNamed(),
               qPrintable(QString("seed %1, step %2").arg(seed).arg(run.firstNamed())));
    }
  }

  // Whatever its share, the rank that the others wait for by more than shares explain is named.
  void aSlowRankIsNamedWhateverItsShare_data() { aLargerShareIsNoSlowness_data(); }
  void aSlowRankIsNamedWhateverItsShare() {
    QFETCH(int, world);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Division division(100 * seed + static_cast<std::uint64_t>(world), world);
      const int slow = static_cast<int>(seed % static_cast<std::uint64_t>(world));
      const double own = 1.6 * std::max(division.slowest(slow), division.explained(slow));
      const double extra = own - division.own(slow);
      Run run(
          world,
          [&](int rank, std::int64_t step, double) {
            return division.own(rank) + (rank == slow && step > 30 ? extra : 0) +
                   0.2 * noise(seed, rank, step);
          },
          division.samples);
      run.advance(30);
      QVERIFY(!run.everNamed());
      run.advance(60);
      const QByteArray where = "seed " + QByteArray::number(static_cast<int>(seed));
      QVERIFY2(run.stragglers().size() == 1, where);
      QVERIFY2(run.stragglers()[0].rank == slow, where);
      QVERIFY2(run.stragglers()[0].factor > 1.3, where);
    }
  }

  void sharesAreThoseOfThePlan() {
    const auto planOf = [](std::vector<cluster::Axis> axes, std::vector<std::int64_t> cuts,
                           int servers = 0) {
      plan::Plan plan;
      plan.mesh = cluster::Mesh(std::move(axes), servers);
      plan.batchCuts = std::move(cuts);
      return plan::BatchShares(plan);
    };
    using Samples = std::vector<double>;
    const plan::BatchShares five = planOf({{"data", 4}}, cluster::evenCuts(5, 4));
    QCOMPARE(five.of(4), (Samples{2, 1, 1, 1}));
    QCOMPARE(five.of(3), (Samples{2, 2, 1}));  // a rank is lost
    QCOMPARE(five.of(1), (Samples{5}));
    const plan::BatchShares pairs = planOf({{"data", 2}, {"model", 2}}, {0, 6, 8});
    QCOMPARE(pairs.of(4), (Samples{6, 6, 2, 2}));
    QCOMPARE(pairs.of(2), (Samples{8, 8}));
    QVERIFY(pairs.of(3).empty());
    QCOMPARE(planOf({{"data", 2}}, {0, 3, 4}, 1).of(3), (Samples{3, 1, 0}));
    QCOMPARE(planOf({{"stage", 3}}, {0, 4}).of(3), (Samples{4, 4, 4}));
    QVERIFY(planOf({{"data", 2}}, {}).of(2).empty());
    QVERIFY(plan::BatchShares().of(4).empty());
    plan::Plan accumulating;  // two micro-batches of four samples
    accumulating.mesh = cluster::Mesh({{"data", 2}}, 0);
    accumulating.batchCuts = {0, 3, 4};
    accumulating.microBatches = 2;
    QCOMPARE(plan::BatchShares(accumulating).of(2), (Samples{6, 2}));
    QCOMPARE(plan::BatchShares(accumulating).of(1), (Samples{8}));
  }

  void slowRankIsNamedWithin20Steps_data() {
    QTest::addColumn<int>("world");
    QTest::addColumn<double>("work");
    QTest::addColumn<double>("factor");
    for (const int world : {2, 3, 4}) {
      for (const double factor : {1.5, 3.0}) {
        QTest::addRow("%d ranks, %g times", world, factor) << world << 0.03 << factor;
        QTest::addRow("%d ranks, %g times, long", world, factor) << world << 0.3 << factor;
      }
    }
  }
  void slowRankIsNamedWithin20Steps() {
    QFETCH(int, world);
    QFETCH(double, work);
    QFETCH(double, factor);
    Run run(world, [&](int rank, std::int64_t step, double) {
      return work * (rank == 1 && step > 50 ? factor : 1) + noise(5, rank, step);
    });
    run.advance(50);
    QVERIFY(!run.everNamed());
    run.advance(20);
    QCOMPARE(run.stragglers().size(), std::size_t{1});
    const Straggler& straggler = run.stragglers()[0];
    QCOMPARE(straggler.rank, 1);
    QVERIFY(straggler.since >= 31 && straggler.since <= 53);
    QCOMPARE(slowPhaseName(straggler.phase), std::string_view("backward"));
    run.advance(40);
    const Straggler& settled = run.stragglers()[0];
    QVERIFY(std::abs(settled.factor - factor) < 0.25 * factor);
    const double without = work + kTransfer + kOptimizer;
    QVERIFY(settled.withoutSeconds > 0.95 * without && settled.withoutSeconds < 1.35 * without);
    QVERIFY(settled.stepSeconds > 1.2 * settled.withoutSeconds);
  }

  // What a slow rank has cost is summed step by step: a hiccup in the last window is no measure of
  // the thousands of steps before it.
  void costIsOfTheStepsThatThereWere() {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      const int slow = static_cast<int>(seed % 3);
      const double late = 0.0025 + 0.004 * randomUniform(seed, 1);
      std::vector<double> lost;  // by step
      Run run(3, [&](int rank, std::int64_t step, double) {
        if (rank != slow) return 0.002;
        const double here = late + (step % 97 == 0 ? 0.3 * randomUniform(seed, 2) : 0);
        lost.resize(static_cast<std::size_t>(step) + 1);
        lost.back() = here;
        return 0.002 + here;
      });
      run.advance(500 + static_cast<int>(1000 * randomUniform(seed, 3)));
      QCOMPARE(run.stragglers().size(), std::size_t{1});
      const Straggler& named = run.stragglers().front();
      QCOMPARE(named.rank, slow);
      const double expected = std::accumulate(lost.begin() + named.since, lost.end(), 0.0);
      QVERIFY2(named.lostSeconds > 0.99 * expected && named.lostSeconds < 1.01 * expected,
               qPrintable(
                   QString("seed %1: %2 s of %3").arg(seed).arg(named.lostSeconds).arg(expected)));
    }
  }

  void burstsAreNamed_data() {
    QTest::addColumn<double>("work");
    QTest::addColumn<int>("within");
    QTest::newRow("30 ms") << 0.03 << 25;
    QTest::newRow("100 ms") << 0.1 << 20;
    QTest::newRow("300 ms") << 0.3 << 20;
    QTest::newRow("1 ms") << 0.001 << 1500;
  }
  void burstsAreNamed() {
    QFETCH(double, work);
    QFETCH(int, within);
    Run run(3, [&](int rank, std::int64_t step, double now) {
      const double own = work + 0.1 * noise(6, rank, step);
      return rank == 2 ? withBursts(now, own, 2.0, 0.5, 0.2) : own;
    });
    int steps = 0;
    while (run.step() < 1 || !run.everNamed()) {
      run.advance(1);
      QVERIFY2(++steps < 4000, "never named");
    }
    const double begins = 2.0 / (work + kTransfer + kOptimizer);
    QVERIFY2(static_cast<double>(run.firstNamed()) - begins <= within,
             qPrintable(QString::number(run.firstNamed())));
    QCOMPARE(run.stragglers()[0].rank, 2);
    // It stays reported between the bursts.
    for (int i = 0; i < 300; ++i) {
      run.advance(1);
      QCOMPARE(run.stragglers().size(), std::size_t{1});
    }
  }

  void recordedRuns_data() {
    QTest::addColumn<QString>("path");
    const QDir folder(
        QString::fromStdString(lockstep::test::sourcePath("tests/engine/analysis/recorded")));
    const QStringList names = folder.entryList({"*.txt"}, QDir::Files);
    QVERIFY(names.size() >= 6);
    for (const QString& name : names) QTest::newRow(qPrintable(name)) << folder.filePath(name);
  }
  void recordedRuns() {
    QFETCH(QString, path);
    const Recording recording = readRecording(path);
    StepAnalyzer analyzer(3);
    std::int64_t named = 0, last = 0;
    for (const StepSample& sample : recording.samples) {
      analyzer.add(sample);
      last = std::max(last, sample.step);
      if (analyzer.stragglers().empty() || named != 0) continue;
      named = sample.step;
      QCOMPARE(analyzer.stragglers().size(), std::size_t{1});
      QCOMPARE(analyzer.stragglers()[0].rank, recording.rank);
    }
    if (recording.rank < 0) {
      QCOMPARE(named, 0);
      QVERIFY(last >= 100);
      return;
    }
    QVERIFY(named > recording.after);
    QVERIFY2(named - recording.after <= kWithinSteps,
             qPrintable(QString::number(named - recording.after)));
  }

  // A freeze while the others wait for the rank's part of the transfer counts as its delay.
  void freezesInTheTransferAreNamed() {
    StepAnalyzer analyzer(3);
    std::int64_t step = 0;
    while (step < 20) addFrozenStep(analyzer, ++step, 0, 0);
    addFrozenStep(analyzer, ++step, 0, 0.14);
    QVERIFY(analyzer.stragglers().empty());  // a single one is not reported
    for (int i = 0; i < 3; ++i) addFrozenStep(analyzer, ++step, 0, 0);
    addFrozenStep(analyzer, ++step, 0, 0.14);
    QCOMPARE(analyzer.stragglers().size(), std::size_t{1});
    QCOMPARE(analyzer.stragglers()[0].rank, 1);
    QCOMPARE(slowPhaseName(analyzer.stragglers()[0].phase), std::string_view("transfer"));
    QVERIFY(analyzer.stragglers()[0].frozenShare > 0.1);
    QVERIFY(analyzer.stragglers()[0].withoutSeconds < analyzer.stragglers()[0].stepSeconds - 0.01);
  }

  // A rank that is frozen for a fifth of each step, as by a limit on its processor time, is named
  // with the first such step and the phase that the freezes prolong.
  void freezesOfEachStepAreDescribed() {
    for (const bool arrived : {false, true}) {
      StepAnalyzer analyzer(3);
      for (std::int64_t step = 1; step <= 30; ++step) {
        addFrozenStep(analyzer, step, arrived ? 0 : 0.14, arrived ? 0.14 : 0, 0, 0.5);
        if (step < 10) continue;
        QCOMPARE(analyzer.stragglers().size(), std::size_t{1});
        const Straggler& named = analyzer.stragglers()[0];
        QCOMPARE(named.rank, 1);
        QCOMPARE(named.since, kWarmUpSteps + 1);
        QCOMPARE(slowPhaseName(named.phase), std::string_view(arrived ? "transfer" : "forward"));
      }
    }
  }

  // One freeze that extends over two steps counts once.
  void oneFreezeNamesNobody() {
    StepAnalyzer analyzer(3);
    std::int64_t step = 0;
    while (step < 20) addFrozenStep(analyzer, ++step, 0, 0);
    addFrozenStep(analyzer, ++step, 0, 0.2);
    addFrozenStep(analyzer, ++step, 0.2, 0);
    for (int i = 0; i < 40; ++i) {
      addFrozenStep(analyzer, ++step, 0, 0);
      QVERIFY(analyzer.stragglers().empty());
    }
  }

  // A frozen machine freezes all its ranks.
  void freezesOfAllRanksNameNobody() {
    StepAnalyzer analyzer(3);
    for (std::int64_t step = 1; step <= 60; ++step) {
      const double pause = step > 20 && step % 4 == 0 ? 0.15 : 0;
      addFrozenStep(analyzer, step, pause, 0, pause);
      QVERIFY(analyzer.stragglers().empty());
    }
  }

  // A slow optimizer delays the rank's next arrival, whatever its own clock says of that step.
  void slowOptimizerIsNamed() {
    StepAnalyzer analyzer(3);
    double now = 0;
    for (int step = 1; step <= 40; ++step) {
      for (int r = 0; r < 3; ++r) {
        const double late = r == 1 && step > 1 ? 0.02 : 0;  // of the previous step
        const double end = now + (step > 1 ? 0.02 : 0) + 0.03 + 0.01 + (r == 1 ? 0.02 : 0);
        analyzer.add({r, step, ns(now + late), ns(end), ns(now + late + 0.03), 0, 0.01, 0.02,
                      0.005 + (step > 1 ? 0.02 : 0) - late, r == 1 ? 0.025 : 0.005});
      }
      now += (step > 1 ? 0.02 : 0) + 0.04;
    }
    QCOMPARE(analyzer.stragglers().size(), std::size_t{1});
    QCOMPARE(analyzer.stragglers()[0].rank, 1);
    QCOMPARE(slowPhaseName(analyzer.stragglers()[0].phase), std::string_view("optimizer"));
  }

  void slowStartIsNoStraggler() {
    Run run(3, [](int rank, std::int64_t step, double) {
      return (rank == 0 && step <= 4 ? 0.3 : 0.02) + noise(3, rank, step);
    });
    run.advance(300);
    QVERIFY(!run.everNamed());
  }

  void recoveryClearsTheName() {
    Run run(3, [](int rank, std::int64_t step, double) {
      return 0.03 * (rank == 0 && step > 20 && step <= 100 ? 3 : 1) + noise(4, rank, step);
    });
    run.advance(100);
    QCOMPARE(run.stragglers().size(), std::size_t{1});
    run.advance(200);
    QVERIFY(run.stragglers().empty());
  }

  void twoSlowRanksOfFiveAreBothNamed() {
    Run run(5, [](int rank, std::int64_t step, double) {
      return 0.03 * (rank >= 3 ? 2 : 1) + 0.2 * noise(4, rank, step);
    });
    run.advance(60);
    QCOMPARE(run.stragglers().size(), std::size_t{2});
    QVERIFY(run.stragglers()[0].withoutSeconds < 0.6 * run.stragglers()[0].stepSeconds);
  }
};

QTEST_GUILESS_MAIN(AnalysisTest)
#include "analysis_test.moc"
