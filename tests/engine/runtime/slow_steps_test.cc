// Steps that take much longer than the ones before them: found by made-up durations, and told with
// their events by a training of which one batch is late.
#include "engine/runtime/slow_steps.h"

#include <QTest>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "tests/support/engine_run.h"

using namespace lockstep;
using runtime::SlowSteps;

namespace {

constexpr std::int64_t kBatch = 256, kSteps = 100, kLateStep = 60;
constexpr std::chrono::seconds kLate(4);

// Of which the first sample of the late step's batch takes its time.
class LateImages final : public test::SyntheticImages {
 public:
  LateImages() : SyntheticImages(kBatch * kSteps) {}
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    if (index == (kLateStep - 1) * kBatch && field == 0) std::this_thread::sleep_for(kLate);
    SyntheticImages::read(index, field, out);
  }
};

class Keeping final : public runtime::TrainerObserver {
 public:
  void onReady(std::int64_t) override {}
  void onStep(const runtime::StepRecord& record) override { records.push_back(record); }
  void onEvents(const std::vector<plan::Event>& events) override {
    sampled.push_back(events.front().step);
    count = events.size();
  }
  void onSlowStep(const std::vector<plan::Event>& events) override { slow.push_back(events); }
  void onEpoch(const runtime::EpochRecord&) override {}
  void onCheckpoint(std::int64_t, const std::string&) override {}
  std::vector<runtime::StepRecord> records;
  std::vector<std::int64_t> sampled;
  std::size_t count = 0;  // of a sampled step
  std::vector<std::vector<plan::Event>> slow;
};

}  // namespace

class SlowStepsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void aSlowStepIsFound() {
    for (unsigned seed = 1; seed <= 200; ++seed) {
      std::minstd_rand random(seed);
      const auto between = [&](double from, double to) {
        return std::uniform_real_distribution<>(from, to)(random);
      };
      SlowSteps steps;
      Nanoseconds now = 1;
      const double usual = between(1e6, 3e8);
      const auto pass = [&](double factor) {
        const Nanoseconds begin = now;
        now += static_cast<Nanoseconds>(factor * usual);
        return steps.add(begin, now);
      };
      // The first ones are compared with nothing, and may well be slow.
      for (std::size_t i = 0; i < SlowSteps::kEvery; ++i) QVERIFY(!pass(between(0.85, 1.15)));
      for (int i = 0; i < 100; ++i) QVERIFY(!pass(between(0.85, 1.15)));
      QVERIFY(std::abs(static_cast<double>(steps.median()) / usual - 1) < 0.15);
      QVERIFY(pass(between(1.8, 10)));
      const Nanoseconds told = now;
      // Not two within a second, nor within the time of some steps.
      const Nanoseconds apart =
          std::max(SlowSteps::kApart, SlowSteps::kStepsApart * steps.median() * 4 / 5);
      for (int i = 0; i < 200; ++i) {
        const bool isSlow = i % 4 == 3;
        const bool found = pass(isSlow ? between(1.8, 3) : between(0.85, 1.15));
        QVERIFY(!found || (isSlow && now - told >= apart));
        if (found) break;
      }
    }
  }

  // What was slow for long is usual.
  void aSlowTimeIsUsualSoon() {
    SlowSteps steps;
    Nanoseconds now = 1;
    int found = 0;
    for (int i = 0; i < 200; ++i) {
      const Nanoseconds begin = now;
      now += i < 100 ? 1'000'000'000 : 2'000'000'000;
      found += steps.add(begin, now) ? 1 : 0;
    }
    QVERIFY(found > 0 && found <= static_cast<int>(SlowSteps::kKnown));
  }

  // Where every fourth step is slow for good, few of them are told.
  void ofTwoPacesFewStepsAreTold() {
    SlowSteps steps;
    Nanoseconds now = 1;
    int found = 0;
    constexpr int kPasses = 1000;
    for (int i = 0; i < kPasses; ++i) {
      const Nanoseconds begin = now;
      now += i % 4 == 3 ? 400'000'000 : 200'000'000;
      found += steps.add(begin, now) ? 1 : 0;
    }
    QVERIFY2(found > 20 && found <= 1 + kPasses * 5 / 4 / SlowSteps::kStepsApart,
             qPrintable(QString::number(found)));
  }

  void eventsOfASlowStepAreTold_data() {
    QTest::addColumn<bool>("asked");
    QTest::newRow("asked for") << true;
    QTest::newRow("not asked for") << false;
  }

  void eventsOfASlowStepAreTold() {
    QFETCH(bool, asked);
    test::RunSettings settings;
    settings.model = test::fashionCnn();
    settings.batch = kBatch;
    settings.compute = DType::kF32;
    const auto plan = test::planOf(settings);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    const LateImages train;
    const test::SyntheticImages evaluate(200);
    auto backend = backends::makeBackend("onednn", {1});
    QVERIFY(backend.ok());
    runtime::TrainerOptions options;
    options.maxSteps = kSteps;
    options.shuffle = false;
    options.eventsEvery = 50;
    options.slowSteps = asked;
    const std::atomic<bool> stop{false};
    Keeping kept;
    const auto done =
        runtime::train(*plan, 0, options, train, evaluate, **backend, nullptr, stop, kept);
    QVERIFY2(done.ok(), done.ok() ? "" : done.error().text().c_str());
    QCOMPARE(kept.sampled, (std::vector<std::int64_t>{50, 100}));
    const auto late = std::find_if(kept.slow.begin(), kept.slow.end(), [](const auto& events) {
      return events.front().step == kLateStep;
    });
    QCOMPARE(late != kept.slow.end(), asked);
    if (!asked) QVERIFY(kept.slow.empty());
    for (const auto& events : kept.slow) {
      QCOMPARE(events.size(), kept.count);
      QVERIFY(events.front().step == events.back().step && events.front().step % 50 != 0);
    }
    // It was slow since it waited for its samples, which is known of it.
    const runtime::StepRecord& record = kept.records[kLateStep - 1];
    QVERIFY(record.step == kLateStep && record.data > 0.1f);
    if (ThreadTime::now().queued >= 0) QVERIFY(record.reading > 3.9f && record.reading < 5);
  }
};

QTEST_GUILESS_MAIN(SlowStepsTest)
#include "slow_steps_test.moc"
