// Loads of nodes, collected and divided: seeded random curves in random updates.
#include <QTest>

#include <algorithm>
#include <map>
#include <random>

#include "app/runs/load_parts.h"

using namespace lockstep;
using namespace lockstep::app;
using std::chrono::milliseconds;

namespace {

using Random = std::mt19937_64;
using Curves = std::map<std::string, std::vector<double>>;  // x of each, in order

// An update of curves of nodes, of ranks and of the run; x goes on from update to update.
std::vector<RunBatch::Series> anUpdate(Random& random, double& x, std::size_t mostPoints) {
  std::vector<RunBatch::Series> out;
  for (std::size_t i = random() % 40; i > 0; --i) {
    static const char* const names[] = {"loss", "rank/3/step", "node/a/cpu", "node/b/gpu/7/power",
                                        "nodes"};
    RunBatch::Series series{names[random() % std::size(names)], {}};
    for (std::size_t k = random() % mostPoints; k > 0; --k) series.points.push_back({++x, 1});
    out.push_back(std::move(series));
  }
  return out;
}

void add(Curves& to, const std::vector<RunBatch::Series>& from) {
  for (const RunBatch::Series& one : from)
    for (const Point& point : one.points) to[one.name].push_back(point.x);
}

}  // namespace

class LoadPartsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void everyPointComesOnceAndInOrder_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 1; seed <= 20; ++seed) QTest::newRow(qPrintable(QString::number(seed))) << seed;
  }
  void everyPointComesOnceAndInOrder() {
    QFETCH(int, seed);
    Random random(static_cast<std::uint64_t>(seed));
    LoadParts loads;
    LoadParts::Clock::time_point now{};
    Curves given, others, taken;
    double x = 0;
    for (int i = 0; i < 50; ++i) {
      auto update = anUpdate(random, x, i % 7 == 0 ? 3000 : 5);
      add(given, update);
      loads.collect(update);
      QVERIFY(std::ranges::none_of(update,
                                   [](const auto& one) { return one.name.starts_with("node/"); }));
      add(others, update);
      now += milliseconds(random() % 400);
      for (const auto& part : loads.take(now, i == 49)) {
        std::size_t points = 0;
        for (const RunBatch::Series& one : part) points += one.points.size();
        QVERIFY(points > 0 && points <= LoadParts::kPartPoints);
        add(taken, part);
      }
    }
    taken.insert(others.begin(), others.end());
    std::erase_if(given, [](const auto& curve) { return curve.second.empty(); });
    QVERIFY(taken == given);
  }

  // The first come at once; later ones are collected for a while.
  void laterOnesWait() {
    LoadParts loads;
    const auto collect = [&](double at) {
      std::vector<RunBatch::Series> update{{"node/a/cpu", {{at, 1}}}};
      loads.collect(update);
    };
    const LoadParts::Clock::time_point begin{std::chrono::hours(1)};
    QVERIFY(loads.take(begin, true).empty());
    collect(1);
    QCOMPARE(loads.take(begin, false).size(), std::size_t{1});
    collect(2);
    QVERIFY(loads.take(begin + LoadParts::kEvery - milliseconds(1), false).empty());
    collect(3);
    const auto parts = loads.take(begin + LoadParts::kEvery, false);
    QCOMPARE(parts.size(), std::size_t{1});
    QCOMPARE(parts[0].size(), std::size_t{1});
    QCOMPARE(parts[0][0].points.size(), std::size_t{2});
    QVERIFY(loads.take(begin + std::chrono::hours(1), false).empty());
    collect(4);
    collect(5);
    QCOMPARE(loads.take(begin, true).size(), std::size_t{1});  // due or not
  }
};

QTEST_APPLESS_MAIN(LoadPartsTest)
#include "load_parts_test.moc"
