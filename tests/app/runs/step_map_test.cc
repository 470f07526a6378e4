// What ranks spent on steps, and its map reduced to pixels.
#include <QElapsedTimer>
#include <QTest>
#include <algorithm>
#include <cmath>
#include <random>

#include "app/runs/heat_map.h"
#include "app/runs/step_matrix.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr const char* kParts[] = {"forward", "backward", "optimizer", "waiting", "transfer"};

// Steps of `seconds` with noise; rank `slow` takes twice as long to compute from step `since`.
void fill(StepMatrix& matrix, int ranks, int steps, double seconds, int slow, int since) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(1, 0.01);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string prefix = "rank/" + std::to_string(rank) + "/";
    RunBatch::Series whole{prefix + "step", {}};
    std::vector<RunBatch::Series> parts;
    for (const char* part : kParts) parts.push_back({prefix + part, {}});
    for (int step = 1; step <= steps; ++step) {
      whole.points.push_back({double(step), seconds});
      const double factor = rank == slow && step >= since ? 2 : 1;
      for (auto& part : parts)
        part.points.push_back({double(step), 0.1 * seconds * factor * noise(random)});
    }
    QVERIFY(matrix.add(whole));
    for (const auto& part : parts) QVERIFY(matrix.add(part));
  }
}

std::vector<int> inOrder(int ranks) {
  std::vector<int> out(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) out[static_cast<std::size_t>(rank)] = rank;
  return out;
}

}  // namespace

class StepMapTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void seriesOfRanksAreTaken() {
    StepMatrix matrix;
    for (const char* name : {"loss", "rank/", "rank/x/step", "rank/1", "rank/1/", "rank/-1/step",
                             "rank/1/cpu", "rank/99999999999/step", "node/n1/step"})
      QVERIFY2(!matrix.add({name, {{1, 1}}}), name);
    QCOMPARE(matrix.ranks(), 0);
    QVERIFY(matrix.add({"rank/2/forward", {{1, 0.25}, {3, 0.5}, {0, 9}, {-4, 9}, {1e300, 9}}}));
    QVERIFY(matrix.add({"rank/2/backward", {{1, 0.5}}}));
    QVERIFY(matrix.add({"rank/2/optimizer", {{1, 0.125}}}));
    QCOMPARE(matrix.ranks(), 3);
    QCOMPARE(matrix.steps(), 3);
    QCOMPARE(matrix.value(StepMeasure::kForward, 2, 3), 0.5f);
    QVERIFY(std::isnan(matrix.value(StepMeasure::kForward, 2, 2)));
    QVERIFY(std::isnan(matrix.value(StepMeasure::kForward, 2, 9)));
    QVERIFY(std::isnan(matrix.value(StepMeasure::kForward, 0, 1)));
    QCOMPARE(matrix.value(StepMeasure::kCompute, 2, 1), 0.875f);
    QVERIFY(std::isnan(matrix.value(StepMeasure::kCompute, 2, 3)));
    QCOMPARE(matrix.mean(StepMeasure::kForward, 2), 0.375);
    QVERIFY(std::isnan(matrix.mean(StepMeasure::kForward, 1)));
    // A step that is trained again after a restart keeps its first time.
    QVERIFY(matrix.add({"rank/2/forward", {{3, 7}}}));
    QCOMPARE(matrix.value(StepMeasure::kForward, 2, 3), 0.5f);
    QVERIFY(matrix.add({"rank/2/began", {{1, 1.7e9}, {3, 1.7e9 + 0.25}}}));
    QCOMPARE(matrix.began(2, 3), 1.7e9 + 0.25);
    QVERIFY(std::isnan(matrix.began(2, 2)) && std::isnan(matrix.began(5, 1)));
  }

  void relativeToTheMedianOfTheStep() {
    StepMatrix matrix;
    fill(matrix, 5, 40, 0.1, 3, 11);
    HeatMap map;
    map.setMeasure(StepMeasure::kForward, true);
    QVERIFY(map.update(matrix, 1 << 20));
    QVERIFY(std::abs(map.value(3, 10)) < 0.02);
    QVERIFY(std::abs(map.value(3, 11) - 0.1) < 0.02);  // a tenth of the step longer
    QCOMPARE(map.scale(), 0.2);
    map.setMeasure(StepMeasure::kCompute, false);
    QVERIFY(map.update(matrix, 1 << 20));
    QVERIFY(std::abs(map.value(3, 11) - 0.06) < 0.005);
    QCOMPARE(map.scale(), 0.1);
    const std::string nodes[] = {"b", "a", "b", "a", "a"};
    const auto by = [&](RowOrder order) {
      return rowOrder(matrix, order, StepMeasure::kCompute, nodes);
    };
    QCOMPARE(by(RowOrder::kRank), inOrder(5));
    QCOMPARE(by(RowOrder::kNode), (std::vector<int>{0, 2, 1, 3, 4}));
    QCOMPARE(by(RowOrder::kCost)[0], 3);
  }

  // Of a GPU clock low is bad: above 0 beside the median, in front of the others, and what a pixel
  // or a cell of several steps shows. Rank 3 has no GPU, and step 20 no sample.
  void lowGpuClocksAreBad() {
    constexpr StepMeasure kClock = StepMeasure::kGpuClock;
    StepMatrix matrix;
    fill(matrix, 4, 40, 0.1, -1, 1);
    QVERIFY(!matrix.has(kClock));
    for (int rank = 0; rank < 3; ++rank) {
      RunBatch::Series series{"rank/" + std::to_string(rank) + "/gpu_clock", {}};
      for (int step = 1; step <= 40; ++step)
        if (step != 20)
          series.points.push_back({double(step), rank == 2 && step > 10 ? 600 : 1980.0});
      QVERIFY(matrix.add(series));
    }
    QVERIFY(matrix.has(kClock));
    HeatMap map;
    map.setMeasure(kClock, true);
    QVERIFY(map.update(matrix, 1 << 20));
    QCOMPARE(map.value(2, 10), 0.0f);
    QCOMPARE(map.value(2, 11), 1380.0f / 1980);
    QCOMPARE(map.value(0, 11), 0.0f);
    QVERIFY(std::isnan(map.value(3, 11)));
    for (int rank = 0; rank < 4; ++rank) QVERIFY(std::isnan(map.value(rank, 20)));
    QCOMPARE(map.scale(), 1.0);
    map.setMeasure(kClock, false);
    QVERIFY(map.update(matrix, 1 << 20));
    QCOMPARE(map.value(2, 11), -600.0f);
    QCOMPARE(map.scale(), 2000.0);
    std::vector<float> pixels;
    map.reduce({1, 40, 0, 4, 1, 1}, inOrder(4), pixels);
    QCOMPARE(pixels[0], -600.0f);
    QCOMPARE(rowOrder(matrix, RowOrder::kCost, kClock, {}), (std::vector<int>{2, 0, 1, 3}));
    StepMatrix few(8);  // has room for 8 cells: each is of several steps
    RunBatch::Series series{"rank/0/gpu_clock", {}};
    for (int step = 1; step <= 16; ++step)
      series.points.push_back({double(step), step == 7 ? 600 : 1980.0});
    QVERIFY(few.add(series));
    QCOMPARE(few.stride(), std::int64_t{2});
    QCOMPARE(few.value(kClock, 0, 8), 600.0f);
    QCOMPARE(few.value(kClock, 0, 9), 1980.0f);
  }

  // Live, ranks report at different times; the map is what it would be if all came at once.
  void aMapThatGrowsEqualsOneBuiltAtOnce() {
    StepMatrix all, growing;
    fill(all, 4, 300, 0.1, 1, 50);
    HeatMap once, grown;
    QVERIFY(once.update(all, 1 << 20));
    std::mt19937 random(5);
    std::array<int, 4> sent{};
    while (*std::min_element(sent.begin(), sent.end()) < 300) {
      const auto rank = std::uniform_int_distribution<std::size_t>(0, 3)(random);
      const int upTo = std::min(300, sent[rank] + 17);
      for (const auto& [name, measure] : {std::pair{"step", StepMeasure::kStep},
                                          {"forward", StepMeasure::kForward},
                                          {"backward", StepMeasure::kBackward},
                                          {"optimizer", StepMeasure::kOptimizer}}) {
        RunBatch::Series series{"rank/" + std::to_string(rank) + "/" + name, {}};
        for (int step = sent[rank] + 1; step <= upTo; ++step)
          series.points.push_back({double(step), all.value(measure, int(rank), step)});
        growing.add(series);
      }
      sent[rank] = upTo;
      while (!grown.update(growing, 100)) {
      }
    }
    std::vector<float> a, b;
    const HeatMap::Window window{1, 300, 0, 4, 40, 4};
    once.reduce(window, inOrder(4), a);
    grown.reduce(window, inOrder(4), b);
    QCOMPARE(a, b);
    QVERIFY(*std::max_element(a.begin(), a.end()) > 0.25f);
  }

  // Every pixel is the greatest value of the steps and ranks that it covers.
  void pixelsEqualBruteForce() {
    StepMatrix matrix;
    const int ranks = 37, steps = 1500;
    fill(matrix, ranks, steps, 0.1, 20, 700);
    HeatMap map;
    map.setMeasure(StepMeasure::kForward, true);
    QVERIFY(map.update(matrix, std::size_t{1} << 30));
    const std::vector<int> order = rowOrder(matrix, RowOrder::kCost, StepMeasure::kForward, {});
    std::vector<float> pixels;
    std::mt19937 random(9);
    for (int trial = 0; trial < 60; ++trial) {
      const auto pick = [&](int low, int high) {
        return std::uniform_int_distribution<int>(low, high)(random);
      };
      // A pixel is a whole number of steps and rows, or a part of one.
      const int perPixel = trial % 3 == 0 ? 1 : trial % 3 == 1 ? 4 : 16;
      const int width = pick(1, steps / perPixel), height = pick(1, ranks);
      const int first = 1 + perPixel * pick(0, steps / perPixel - width);
      const int row = pick(0, ranks - height);
      map.reduce(
          {double(first), double(width * perPixel), double(row), double(height), width, height},
          order, pixels);
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) {
          float most = -INFINITY;
          for (int step = first + x * perPixel; step < first + (x + 1) * perPixel; ++step)
            most = std::max(most, map.value(order[std::size_t(row + y)], step));
          QCOMPARE(pixels[std::size_t(y * width + x)], most);
        }
    }
    // One slow step of one rank is seen however far away.
    StepMatrix lonely;
    fill(lonely, 64, 3000, 0.1, -1, 1);
    RunBatch::Series outlier{"rank/64/forward", {{2222, 0.09}}};
    QVERIFY(lonely.add(outlier));
    HeatMap wide;
    wide.setMeasure(StepMeasure::kForward, false);
    QVERIFY(wide.update(lonely, std::size_t{1} << 30));
    wide.reduce({1, 3000, 0, 65, 30, 10}, inOrder(65), pixels);
    QCOMPARE(*std::max_element(pixels.begin(), pixels.end()), 0.09f);
    // Beyond the data there is nothing.
    wide.reduce({5000, 100, 0, 65, 30, 10}, inOrder(65), pixels);
    QVERIFY(std::all_of(pixels.begin(), pixels.end(), [](float v) { return std::isnan(v); }));
  }

  // However many steps come, in whatever order the ranks report them, there are no more cells than
  // allowed; each has the greatest of its steps, and a map of them shows it.
  void aLongRunTakesBoundedRoom() {
    std::mt19937 random(17);
    const auto pick = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    for (int round = 0; round < 40; ++round) {
      const int ranks = pick(1, 5), steps = pick(1, 900);
      const auto most = static_cast<std::size_t>(pick(8, 400));
      StepMatrix matrix(most);
      HeatMap live, whole;
      live.setMeasure(StepMeasure::kForward, false);
      whole.setMeasure(StepMeasure::kForward, false);
      std::vector<std::vector<float>> forward(static_cast<std::size_t>(ranks));
      std::vector<int> sent(static_cast<std::size_t>(ranks), 0);
      for (auto& row : forward)
        for (int step = 0; step < steps; ++step)
          row.push_back(static_cast<float>(pick(1, 1000)) / 1024);
      while (*std::min_element(sent.begin(), sent.end()) < steps) {
        const int rank = pick(0, ranks - 1);
        int& from = sent[static_cast<std::size_t>(rank)];
        const int to = std::min(steps, from + pick(1, 60));
        const auto send = [&](int begin, int end, double offset, bool preview) {
          const std::string prefix = "rank/" + std::to_string(rank) + "/";
          RunBatch::Series values{prefix + "forward", {}}, begins{prefix + "began", {}};
          for (int step = begin; step < end; ++step) {
            const auto at = static_cast<std::size_t>(step);
            const auto seconds = static_cast<double>(forward[static_cast<std::size_t>(rank)][at]);
            values.points.push_back({step + 1.0, seconds + offset});
            begins.points.push_back({step + 1.0, 1000.0 + step + offset});
          }
          QVERIFY(matrix.add(values, preview) && matrix.add(begins, preview));
        };
        // The newest first, then what is missing; some steps are trained again, more slowly.
        if (pick(0, 3) == 0) send(std::min(steps, to + pick(0, 90)), steps, 0, true);
        send(from, to, 0, false);
        if (pick(0, 3) == 0) send(std::max(0, to - pick(1, 20)), to, 5, false);
        from = to;
        if (pick(0, 1) == 0) live.update(matrix, 50);
      }
      QVERIFY(matrix.stride() == 1 ||
              static_cast<std::size_t>(ranks) * std::size_t(matrix.cells()) <= most);
      QVERIFY(static_cast<std::size_t>(ranks * steps) > most || matrix.stride() == 1);
      for (HeatMap* map : {&live, &whole})
        while (!map->update(matrix, 50)) {
        }
      const auto stride = static_cast<int>(matrix.stride());
      float greatest = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto& row = forward[static_cast<std::size_t>(rank)];
        double sum = 0;
        for (int step = 1; step <= steps; ++step) {
          const int first = (step - 1) / stride * stride;
          float value = 0;
          for (int i = first; i < std::min(steps, first + stride); ++i)
            value = std::max(value, row[static_cast<std::size_t>(i)]);
          QCOMPARE(matrix.value(StepMeasure::kForward, rank, step), value);
          QCOMPARE(live.value(rank, step), value);
          QCOMPARE(matrix.began(rank, step), 1000.0 + first);
          sum += static_cast<double>(row[static_cast<std::size_t>(step - 1)]);
          greatest = std::max(greatest, value);
        }
        QVERIFY(std::abs(matrix.mean(StepMeasure::kForward, rank) - sum / steps) < 1e-9);
      }
      std::vector<float> a, b;
      const int width = pick(1, 200), first = pick(1, steps);
      for (const HeatMap::Window& window :
           {HeatMap::Window{1, double(steps), 0, double(ranks), 7, 1},
            HeatMap::Window{double(first), double(pick(1, steps)), 0, double(ranks), width, 3}}) {
        live.reduce(window, inOrder(ranks), a);
        whole.reduce(window, inOrder(ranks), b);
        for (std::size_t i = 0; i < a.size(); ++i)
          QVERIFY(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])));
        if (window.firstStep == 1 && window.width == 7)
          QCOMPARE(*std::max_element(a.begin(), a.end()), greatest);
      }
    }
  }

  void nothingIsNothing() {
    StepMatrix matrix;
    HeatMap map;
    QVERIFY(map.update(matrix, 100));
    QCOMPARE(map.scale(), 0.0);
    std::vector<float> pixels;
    map.reduce({1, 10, 0, 10, 4, 4}, {}, pixels);
    QCOMPARE(pixels.size(), std::size_t{16});
    QVERIFY(std::isnan(pixels[0]));
  }

  void aLargeMapIsCheap() {
    StepMatrix matrix;
    fill(matrix, 1024, 2000, 0.1, 700, 900);
    HeatMap map;
    QElapsedTimer timer;
    timer.start();
    while (!map.update(matrix, 1 << 20)) {
    }
    const double built = static_cast<double>(timer.nsecsElapsed()) / 1e6;
    const std::vector<int> order = inOrder(1024);
    std::vector<float> pixels;
    std::vector<qint64> times;
    for (int i = 0; i < 9; ++i) {
      timer.restart();
      map.reduce({1.0 + i, 2000.0 - 10 * i, 0, 1024, 1500, 600}, order, pixels);
      times.push_back(timer.nsecsElapsed());
    }
    std::sort(times.begin(), times.end());
    qInfo("1024 ranks x 2000 steps: built in %.0f ms, reduced in %.1f ms", built,
          static_cast<double>(times[4]) / 1e6);
    QVERIFY(times[4] < 100'000'000);
  }
};

QTEST_GUILESS_MAIN(StepMapTest)
#include "step_map_test.moc"
