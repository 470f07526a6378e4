// The curves that views show: read on first use, continued, thinned, and read again more closely.
#include <QDir>
#include <QElapsedTimer>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <random>

#include "app/history/history.h"
#include "ui/studio/run_curves.h"
#include "ui/studio/step_lines.h"

using namespace lockstep;
using namespace lockstep::ui;

namespace {

using Random = std::mt19937_64;

app::RunBatch::Series part(const std::string& name, const std::vector<app::Point>& points,
                           std::size_t from, std::size_t to) {
  return {name,
          {points.begin() + static_cast<std::ptrdiff_t>(from),
           points.begin() + static_cast<std::ptrdiff_t>(to)}};
}

std::vector<app::Point> noise(Random& random, std::size_t count) {
  std::vector<app::Point> out;
  for (std::size_t i = 1; i <= count; ++i)
    out.push_back({static_cast<double>(i), std::uniform_real_distribution<double>(0, 1)(random)});
  return out;
}

}  // namespace

class RunCurvesTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void init() {
    dir_ = std::make_unique<QTemporaryDir>();
    history_ = std::move(app::History::open(folder())).value();
    app::RunRow row;
    row.run = "r";
    QVERIFY(history_->add(row, {}).ok());
    store_ = std::move(history_->openRun("r")).value();
    QVERIFY(store_->lockForRecording().ok());
  }
  void cleanup() {
    store_.reset();
    history_.reset();
  }

  // However the points are divided among history and recorder, and whenever a view asks.
  void everyPointOnce_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 1; seed <= 30; ++seed) QTest::addRow("seed %d", seed) << seed;
  }
  void everyPointOnce() {
    QFETCH(int, seed);
    Random random(static_cast<std::uint64_t>(seed));
    const auto points = noise(random, 1 + random() % 3000);
    const std::size_t kept = random() % points.size();  // at the begin
    const std::size_t asked = random() % (points.size() + 1);
    if (kept > 0) QVERIFY(store_->append({{part("m", points, 0, kept)}, {}, {}, {}, {}, {}}).ok());
    RunCurves curves(folder(), "r", nullptr);
    std::vector<std::string> names;
    for (const auto& info : store_->series()) names.push_back(info.name);
    curves.begin(names, {});
    std::shared_ptr<Series> line;
    std::size_t at = kept - std::min<std::size_t>(kept, random() % 10);  // some are told again
    while (at < points.size()) {
      if (!line && at >= asked) line = curves.series("m");
      const std::size_t next = std::min(points.size(), at + 1 + random() % 500);
      const auto fresh = part("m", points, at, next);
      curves.append(fresh);  // a recorder tells first, then writes
      if (random() % 2) QTest::qWait(1);
      QVERIFY(store_->append({{fresh}, {}, {}, {}, {}, {}}).ok());
      at = next;
    }
    if (!line) line = curves.series("m");
    QTRY_VERIFY_WITH_TIMEOUT(!curves.reading(), 60'000);
    QTRY_COMPARE_WITH_TIMEOUT(line->raw().size(), points.size(), 60'000);
    for (std::size_t i = 0; i < points.size(); ++i) {
      QCOMPARE(line->raw().x(i), points[i].x);
      QCOMPARE(line->raw().y(i), points[i].y);
    }
    QVERIFY(curves.series("nothing")->raw().size() == 0);
  }

  void askedForLongAfterwards() {
    Random random(1);
    const auto points = noise(random, 400);
    RunCurves curves(folder(), "r", nullptr);
    curves.begin({}, {});
    const auto tell = [&](std::size_t from, std::size_t to) {
      curves.append(part("m", points, from, to));
      QVERIFY(store_->append({{part("m", points, from, to)}, {}, {}, {}, {}, {}}).ok());
    };
    tell(0, 200);
    QTest::qWait(RunCurves::kRecentMs + 100);
    tell(200, 400);
    QVERIFY(curves.names().contains("m"));
    const auto line = curves.series("m");
    QTRY_COMPARE_WITH_TIMEOUT(line->raw().size(), points.size(), 60'000);
  }

  // A long curve keeps its extremes in few samples; what is looked at closely is complete again.
  void longCurvesAreThinnedAndReadAgain() {
    Random random(5);
    auto points = noise(random, 600'000);
    points[123'456].y = 50;
    points[599'000].y = -50;
    for (std::size_t at = 0; at < points.size(); at += 50'000)
      QVERIFY(store_->append({{part("m", points, at, at + 50'000)}, {}, {}, {}, {}, {}}).ok());
    RunCurves curves(folder(), "r", nullptr);
    curves.begin({"m"}, {});
    const auto line = curves.series("m");
    QTRY_VERIFY_WITH_TIMEOUT(!curves.reading(), 60'000);
    const Pyramid& raw = line->raw();
    QVERIFY(raw.size() > 10'000 && raw.size() <= SampleRoom::kMostSamples / 8);
    QCOMPARE(raw.range(0, raw.size()).max, 50.0);
    QCOMPARE(raw.range(0, raw.size()).min, -50.0);
    for (const double from : {1000.0, 123'400.0, 590'000.0}) {
      const double to = from + 300;
      QVERIFY(line->wantsDetail(from, to, 800));
      curves.refine({line}, from, to, 800);
      QTRY_VERIFY_WITH_TIMEOUT(!line->wantsDetail(from, to, 800), 60'000);
      const Pyramid& near = line->raw(from, to);
      const std::size_t first = near.lower(from);
      QCOMPARE(near.upper(to) - first, std::size_t{301});
      for (std::size_t i = 0; i <= 300; ++i)
        QCOMPARE(near.y(first + i), points[static_cast<std::size_t>(from) - 1 + i].y);
    }
    // All of it: what is here is enough.
    QVERIFY(!line->wantsDetail(1, 600'000, 800));
    // New points are seen beside a detail at the end.
    curves.refine({line}, 599'900, 600'000, 800);
    QTRY_VERIFY_WITH_TIMEOUT(line->hasDetail(599'900, 600'000), 60'000);
    curves.append({"m", {{600'001, 7}}});
    QVERIFY(!line->hasDetail(599'900, 600'001));
    QCOMPARE(line->raw().y(line->raw().size() - 1), 7.0);
    QVERIFY(line->wantsDetail(599'900, 600'001, 800));
  }

  // Curves share the room: live ones that go on for ever, too.
  void memoryIsBounded() {
    RunCurves curves(folder(), "r", nullptr);
    curves.begin({}, {});
    std::vector<std::shared_ptr<Series>> lines;
    std::size_t most = 0;
    for (int at = 0; at < 40'000; at += 1000) {
      for (int i = 0; i < 150; ++i) {
        app::RunBatch::Series series{"m" + std::to_string(i), {}};
        for (int k = at; k < at + 1000; ++k)
          series.points.push_back({static_cast<double>(k), static_cast<double>(k % 100)});
        curves.append(series);
        if (at == 0) lines.push_back(curves.series(series.name));
      }
      std::size_t total = 0;
      for (const auto& line : lines) total += line->raw().size();
      most = std::max(most, total);
    }
    QVERIFY2(most <= SampleRoom::kMostSamples * 11 / 10, qPrintable(QString::number(most)));
    QVERIFY(most > SampleRoom::kMostSamples / 4);
    for (const auto& line : lines) {
      QCOMPARE(line->raw().range(0, line->raw().size()).max, 99.0);
      QCOMPARE(line->raw().range(0, line->raw().size()).min, 0.0);
      QCOMPARE(line->raw().x(line->raw().size() - 1), 39'999.0);
    }
  }

  // Several plots are zoomed together: each gets its samples.
  void everyPlotIsReadAgain() {
    Random random(9);
    const std::vector<std::string> names{"a", "b", "c"};
    for (const std::string& name : names) {
      const auto points = noise(random, 300'000);
      for (std::size_t at = 0; at < points.size(); at += 50'000)
        QVERIFY(store_->append({{part(name, points, at, at + 50'000)}, {}, {}, {}, {}, {}}).ok());
    }
    RunCurves curves(folder(), "r", nullptr);
    curves.begin(names, {});
    std::vector<std::shared_ptr<Series>> lines;
    for (const std::string& name : names) lines.push_back(curves.series(name));
    QTRY_VERIFY_WITH_TIMEOUT(!curves.reading(), 60'000);
    for (const auto& line : lines) {
      QVERIFY(line->wantsDetail(1000, 1300, 800));
      curves.refine({line}, 1000, 1300, 800);
    }
    for (const auto& line : lines) QTRY_VERIFY_WITH_TIMEOUT(line->hasDetail(1000, 1300), 60'000);
  }

  void pinsShareTheRoom() {
    RunCurves curves(folder(), "r", nullptr);
    curves.begin({}, {});
    std::vector<std::shared_ptr<Series>> lines;
    for (int i = 0; i < 100; ++i) {
      const std::string name = "m" + std::to_string(i);
      lines.push_back(curves.series(name));
      for (int k = 0; k < 3; ++k) lines.push_back(curves.pin(name));
      app::RunBatch::Series series{name, {}};
      for (int k = 0; k < 12'000; ++k) series.points.push_back({double(k), double(k % 100)});
      curves.append(series);
    }
    std::size_t total = 0;
    for (const auto& line : lines) total += line->raw().size();
    QVERIFY2(total <= SampleRoom::kMostSamples * 11 / 10, qPrintable(QString::number(total)));
    QCOMPARE(lines[7]->raw().range(0, lines[7]->raw().size()).max, 99.0);
  }

  // The newest steps come first, then what is missing: a line has all of them, in order.
  void stepsOfAPreview_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 1; seed <= 20; ++seed) QTest::addRow("seed %d", seed) << seed;
  }
  void stepsOfAPreview() {
    QFETCH(int, seed);
    Random random(static_cast<std::uint64_t>(seed));
    const auto points = noise(random, 100 + random() % 900);
    app::StepMatrix steps;
    SampleRoom room;
    StepLines lines(steps, room, nullptr);
    const std::size_t first = random() % points.size(), ahead = first + random() % 50;
    const auto tell = [&](std::size_t from, std::size_t to, bool preview) {
      const auto some = part("rank/2/forward", points, from, std::min(to, points.size()));
      QVERIFY(steps.add(some, preview));
      if (!preview) lines.took(some);
    };
    tell(0, first, false);
    tell(std::min(ahead, points.size()), points.size(), true);
    const auto line = lines.pin("rank/2/forward");
    for (std::size_t at = first; at < points.size(); at += 40) {
      if (random() % 2) QTest::qWait(1);
      tell(at, at + 40, false);
    }
    QTRY_COMPARE_WITH_TIMEOUT(line->raw().size(), points.size(), 60'000);
    for (std::size_t i = 0; i < points.size(); ++i) {
      QCOMPARE(line->raw().x(i), points[i].x);
      QCOMPARE(line->raw().y(i), static_cast<double>(static_cast<float>(points[i].y)));
    }
    QVERIFY(!StepLines::has("rank/x/step") && !StepLines::has("rank/1/cpu"));
  }

  // Cells of several steps: each sample is the greatest value of steps from its own on.
  void stepsThatShareACell_data() { stepsOfAPreview_data(); }
  void stepsThatShareACell() {
    QFETCH(int, seed);
    Random random(static_cast<std::uint64_t>(seed));
    const auto points = noise(random, 2000 + random() % 3000);
    app::StepMatrix steps(1000);
    SampleRoom room;
    StepLines lines(steps, room, nullptr);
    std::shared_ptr<Series> line;
    for (std::size_t at = 0; at < points.size(); at += 70) {
      const auto some = part("rank/0/forward", points, at, std::min(at + 70, points.size()));
      QVERIFY(steps.add(some));
      lines.took(some);
      if (at % 700 == 0) QTest::qWait(1);
      if (at == 1400) line = lines.pin("rank/0/forward");
    }
    const auto stride = static_cast<std::size_t>(steps.stride());
    QVERIFY(stride >= 2 && points.size() / stride <= 1000);
    const Pyramid& samples = line->raw();
    QTRY_VERIFY_WITH_TIMEOUT(
        samples.size() > 0 && samples.x(samples.size() - 1) > double(points.size() - 2 * stride),
        60'000);
    double greatest = 0;
    for (const app::Point& point : points) greatest = std::max(greatest, double(float(point.y)));
    for (std::size_t i = 0; i < samples.size(); ++i) {
      QVERIFY(i == 0 || samples.x(i) > samples.x(i - 1));
      const auto first = static_cast<std::size_t>(samples.x(i)) - 1;
      bool found = false;
      for (std::size_t k = first / stride * stride; k < std::min(points.size(), first + stride);
           ++k)
        found = found || samples.y(i) == double(float(points[k].y));
      QVERIFY(found);
    }
    QVERIFY(samples.range(0, samples.size()).max <= greatest);
  }

  // Of many ranks and steps: within the room, with all extremes, and the window stays free.
  void manyStepsAreReduced() {
    Random random(3);
    constexpr int kRanks = 64, kSteps = 100'000;
    app::StepMatrix steps;
    SampleRoom room;
    StepLines lines(steps, room, nullptr);
    std::vector<std::shared_ptr<Series>> pins;
    for (int rank = 0; rank < kRanks; ++rank) {
      app::RunBatch::Series series{"rank/" + std::to_string(rank) + "/step", {}};
      for (int k = 1; k <= kSteps; ++k)
        series.points.push_back({double(k), 1 + double(random() % 1000) / 2000});
      series.points[static_cast<std::size_t>(1000 + rank)].y = 64;
      steps.add(series);
      lines.took(series);
    }
    QElapsedTimer pinning;
    pinning.start();
    for (int rank = 0; rank < kRanks; ++rank)
      pins.push_back(lines.pin("rank/" + std::to_string(rank) + "/step"));
    QVERIFY(pinning.elapsed() < 2000);
    std::size_t total = 0;
    QTRY_VERIFY_WITH_TIMEOUT(std::all_of(pins.begin(), pins.end(),
                                         [&](const auto& pin) {
                                           return pin->raw().size() > 0 &&
                                                  pin->raw().x(pin->raw().size() - 1) > kSteps - 20;
                                         }),
                             60'000);
    for (const auto& pin : pins) {
      total += pin->raw().size();
      QCOMPARE(pin->raw().range(0, pin->raw().size()).max, 64.0);
    }
    QVERIFY2(total <= SampleRoom::kMostSamples * 11 / 10, qPrintable(QString::number(total)));
    // Looked at closely, every step is there.
    QVERIFY(pins[5]->wantsDetail(1000, 1100, 800));
    lines.refine({pins[5]}, 1000, 1100, 800);
    QTRY_VERIFY_WITH_TIMEOUT(!pins[5]->wantsDetail(1000, 1100, 800), 60'000);
    const Pyramid& near = pins[5]->raw(1000, 1100);
    QCOMPARE(near.upper(1100) - near.lower(1000), std::size_t{101});
    QCOMPARE(near.y(near.lower(1006)), 64.0);
  }

  void failedReadIsTriedAgain() {
    const QString there = dir_->path(), away = there + "-away";
    Random random(4);
    const auto points = noise(random, 500);
    QVERIFY(store_->append({{part("m", points, 0, 300)}, {}, {}, {}, {}, {}}).ok());
    store_.reset();
    history_.reset();
    QVERIFY(QDir().rename(there, away));
    RunCurves curves(folder(), "r", nullptr);
    QSignalSpy failed(&curves, &RunCurves::failed);
    curves.begin({"m"}, {});
    const auto line = curves.series("m");
    QTRY_COMPARE_WITH_TIMEOUT(failed.count(), 1, 60'000);
    curves.append(part("m", points, 300, 400));  // is shown meanwhile
    QCOMPARE(line->raw().size(), std::size_t{100});
    QDir(there).removeRecursively();  // which a try may have made
    QVERIFY(QDir().rename(away, there));
    QTRY_COMPARE_WITH_TIMEOUT(line->raw().size(), std::size_t{400}, 60'000);
    curves.append(part("m", points, 400, 500));
    QCOMPARE(line->raw().size(), std::size_t{500});
    for (std::size_t i = 0; i < points.size(); ++i) QCOMPARE(line->raw().y(i), points[i].y);
    QCOMPARE(failed.count(), 1);
  }

  void damagedHistoryIsTold() {
    RunCurves curves((dir_->path() + "/none").toStdString(), "r", nullptr);
    QSignalSpy failed(&curves, &RunCurves::failed);
    curves.begin({"m"}, {});
    QCOMPARE(curves.series("m")->raw().size(), std::size_t{0});
    QTRY_COMPARE_WITH_TIMEOUT(failed.count(), 1, 60'000);
    QVERIFY(!curves.reading());
  }

 private:
  std::string folder() const { return dir_->path().toStdString(); }

  std::unique_ptr<QTemporaryDir> dir_;
  std::unique_ptr<app::History> history_;
  std::unique_ptr<app::RunStore> store_;
};

QTEST_MAIN(RunCurvesTest)
#include "run_curves_test.moc"
