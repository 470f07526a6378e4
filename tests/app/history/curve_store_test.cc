// Curves in a run's file: what is packed comes back bit for bit, whatever it is and however it
// came.
#include <QFile>
#include <QFileInfo>
#include <QTemporaryDir>
#include <QTest>

#include <bit>
#include <cmath>
#include <map>
#include <random>

#include "app/history/curve_codec.h"
#include "app/history/curve_store.h"
#include "app/history/run_store.h"
#include "app/history/spans.h"
#include "engine/storage/database.h"
#include "tests/support/run_file.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

using Random = std::mt19937_64;

double uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

// A value as some instrument gives it: a count, a share, a float, a time, anything.
double value(Random& random, int kind) {
  switch (kind % 9) {
    case 0:
      return std::floor(uniform(random, 0, 100));
    case 1:
      return std::floor(uniform(random, 0, 100)) / 100;
    case 2:
      return static_cast<double>(static_cast<float>(std::floor(uniform(random, 0, 1000))) / 10);
    case 3:
      return static_cast<double>(static_cast<float>(uniform(random, -1, 1)));
    case 4:
      return uniform(random, -1e300, 1e300);
    case 5:
      return std::floor(uniform(random, -9e18, 9e18));
    case 6: {
      const double odd[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 5e-324, 1e308, 9007199254740993.0};
      return odd[random() % std::size(odd)];
    }
    case 7:
      return std::round(uniform(random, 0, 1e6)) / 1e6;
    default:
      return 42;
  }
}

std::vector<Point> curve(Random& random, std::size_t count) {
  const int kind = static_cast<int>(random() % 10), steps = static_cast<int>(random() % 4);
  std::vector<Point> out;
  double x = steps == 3 ? 1.7e9 : static_cast<double>(random() % 100);
  for (std::size_t i = 0; i < count; ++i) {
    x += steps == 0   ? 1
         : steps == 1 ? 1 + static_cast<double>(random() % 50)
         : steps == 2 ? uniform(random, 1e-6, 5)
                      : 0.1;
    out.push_back({x, value(random, kind == 9 ? static_cast<int>(random() % 9) : kind)});
  }
  return out;
}

bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}
bool same(const std::vector<Point>& a, const std::vector<Point>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const Point& one, const Point& other) {
           return same(one.x, other.x) && same(one.y, other.y);
         });
}

std::span<const std::byte> bytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::vector<double> columnOf(const std::vector<Point>& points, double Point::*member) {
  std::vector<double> out;
  for (const Point& point : points) out.push_back(point.*member);
  return out;
}

// As an earlier version packed the points of a chunk.
std::string packedPoints(const std::vector<Point>& points) {
  std::string out;
  std::size_t count = points.size();
  for (; count >= 0x80; count >>= 7) out.push_back(static_cast<char>(count | 0x80));
  out.push_back(static_cast<char>(count));
  return out + packColumn(columnOf(points, &Point::x)) + packColumn(columnOf(points, &Point::y));
}

}  // namespace

class CurveStoreTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void packedCurvesComeBack() {
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
      Random random(seed);
      const std::vector<Point> points = curve(random, random() % 300);
      auto back = unpackPoints(bytesOf(packedPoints(points)));
      QVERIFY2(back.ok() && same(*back, points), qPrintable(QString("seed %1").arg(seed)));
      std::vector<Span> spans;
      for (std::size_t i = 0; i < points.size(); ++i)
        spans.push_back({points[i].x, value(random, 6), value(random, 2), points[i].y});
      auto spansBack = unpackSpans(bytesOf(packSpans(spans)));
      QVERIFY(spansBack.ok() && spansBack->size() == spans.size());
      for (std::size_t i = 0; i < spans.size(); ++i)
        QVERIFY(same((*spansBack)[i].low, spans[i].low) &&
                same((*spansBack)[i].high, spans[i].high) &&
                same((*spansBack)[i].last, spans[i].last) && same((*spansBack)[i].x, spans[i].x));
    }
  }

  // What a sampler takes ten times a second of a GPU: times with jitter, whole percents, watts.
  void measuredValuesTakeFewBytes() {
    Random random(1);
    std::vector<Point> share, watts;
    for (int i = 0; i < 4096; ++i) {
      const double x = std::round((1.7e9 + i * 0.1) * 1e3 + uniform(random, 0, 2)) / 1e3;
      share.push_back({x, static_cast<double>(random() % 101) / 100});
      watts.push_back({x, 300 + std::round(uniform(random, -20, 20) * 10) / 10});
    }
    const double each = static_cast<double>(packedPoints(share).size()) / 4096;
    QVERIFY2(each < 1.4, qPrintable(QString::number(each)));
    QVERIFY(static_cast<double>(packedPoints(watts).size()) / 4096 < 2);
  }

  void damagedBytesAreRefused() {
    Random random(7);
    std::vector<CurvePoints> curves;
    for (std::int64_t id = 1; id < 6; ++id) curves.push_back({id, curve(random, 50)});
    const std::string packed = packCurves(curves);
    QVERIFY(unpackCurves(bytesOf(packed)).ok());
    for (std::size_t size = 0; size < packed.size(); ++size)
      QVERIFY(!unpackCurves(bytesOf(packed.substr(0, size))).ok());
    int accepted = 0;
    for (int i = 0; i < 5000; ++i) {
      std::string bad = packed;
      bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
      const auto back = unpackCurves(bytesOf(bad));
      if (!back.ok()) continue;
      ++accepted;  // a bit that means nothing
      for (std::size_t k = 0; k < curves.size(); ++k)
        QVERIFY((*back)[k].series == curves[k].series && same((*back)[k].points, curves[k].points));
    }
    QVERIFY2(accepted < 50, qPrintable(QString::number(accepted)));
    QVERIFY(unpackPoints({}).error().code == Code::kDataLoss);
    QVERIFY(unpackColumn({}, 0).error().code == Code::kDataLoss);
    const std::string column = packColumn(columnOf(curve(random, 50), &Point::y));
    QVERIFY(unpackColumn(bytesOf(column), 50).ok());
    for (const std::size_t count : {std::size_t{0}, std::size_t{49}, std::size_t{51}, SIZE_MAX})
      QCOMPARE(unpackColumn(bytesOf(column), count).error().code, Code::kDataLoss);
  }

  // Batches of any size, of curves that begin and end at any time, with points told twice; read by
  // the recorder, by one who opened the file before, and by one who opens it now.
  void everyReaderFindsEveryPoint_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 1; seed <= 6; ++seed) QTest::addRow("seed %d", seed) << seed;
  }
  void everyReaderFindsEveryPoint() {
    QFETCH(int, seed);
    Random random(static_cast<std::uint64_t>(seed));
    const std::string path = dir_.filePath(QString("%1.db").arg(seed)).toStdString();
    auto store = std::move(makeRunStore(path)).value();
    auto early = std::move(openRunStore(path)).value();
    QVERIFY(store->lockForRecording().ok());
    std::map<std::string, std::vector<Point>> all;
    std::vector<std::vector<Point>> planned;
    std::vector<std::size_t> at;
    for (int i = 0; i < 12; ++i) {
      planned.push_back(curve(random, std::size_t{1} << random() % 15));
      at.push_back(0);
    }
    while (std::any_of(at.begin(), at.end(), [&](const std::size_t& one) {
      return one < planned[static_cast<std::size_t>(&one - at.data())].size();
    })) {
      RunBatch batch;
      for (std::size_t i = 0; i < planned.size(); ++i) {
        if (random() % 3 == 0) continue;
        const std::size_t count = std::min(planned[i].size() - at[i], random() % 1500);
        const std::size_t again = std::min(at[i], random() % 3);
        const auto from = planned[i].begin() + static_cast<std::ptrdiff_t>(at[i]);
        const std::string name = "curve " + std::to_string(i);
        batch.series.push_back({name,
                                {from - static_cast<std::ptrdiff_t>(again),
                                 from + static_cast<std::ptrdiff_t>(count)}});
        all[name].insert(all[name].end(), from, from + static_cast<std::ptrdiff_t>(count));
        at[i] += count;
      }
      QVERIFY(store->append(batch).ok());
      if (random() % 40 == 0) check(*early, all, random);
      if (random() % 60 == 0) {  // another recorder goes on
        store.reset();
        store = std::move(openRunStore(path)).value();
        QVERIFY(store->lockForRecording().ok());
      }
    }
    check(*store, all, random);
    check(*early, all, random);
    check(*std::move(openRunStore(path)).value(), all, random);
  }

  // So many curves that all become chunks before any of them is long.
  // What is damaged is found by a check, and hides nothing else.
  void aDamagedBatch() {
    const std::string path = dir_.filePath("damaged.db").toStdString();
    const auto store = std::move(makeRunStore(path)).value();
    QVERIFY(store->lockForRecording().ok());
    for (int i = 0; i < 3; ++i) {
      RunBatch batch;
      batch.series.push_back({"loss", {{i + 1.0, 10.0 - i}}});
      QVERIFY(store->append(batch).ok());
    }
    QVERIFY(store->checkCurves().ok());
    {
      auto database = std::move(openRunFile(path)).value();
      storage::Statement damage(*database, "UPDATE batch SET data=x'00ff00' WHERE id=2");
      QVERIFY(damage.run().ok());
    }
    const auto reader = std::move(openRunStore(path)).value();
    QCOMPARE(reader->checkCurves().code(), Code::kDataLoss);
    const auto points = reader->readAll("loss");
    QVERIFY(points.ok());
    QCOMPARE(points->size(), std::size_t{2});
    QCOMPARE(reader->series().size(), std::size_t{1});
  }

  // Without its names a curve is not there at all: a check tells that too.
  void aDamagedListOfCurves() {
    const std::string path = dir_.filePath("nameless.db").toStdString();
    {
      const auto store = std::move(makeRunStore(path)).value();
      QVERIFY(store->lockForRecording().ok());
      RunBatch batch;
      batch.series.push_back({"loss", {{1.0, 10.0}}});
      QVERIFY(store->append(batch).ok());
    }
    std::int64_t page = 0, size = 0;
    {
      auto database = std::move(openRunFile(path)).value();
      storage::Statement place(*database,
                               "SELECT rootpage, (SELECT page_size FROM pragma_page_size) "
                               "FROM sqlite_schema WHERE name='series'");
      QVERIFY(place.step());
      page = place.integer(0);
      size = place.integer(1);
    }
    QFile file(QString::fromStdString(path));
    QVERIFY(file.open(QFile::ReadWrite) && file.seek((page - 1) * size));
    QCOMPARE(file.write(QByteArray(static_cast<int>(size), '\xff')), size);
    file.close();
    const auto reader = std::move(openRunStore(path)).value();
    QVERIFY(reader->series().empty());
    QCOMPARE(reader->checkCurves().code(), Code::kDataLoss);
  }

  void manyCurvesBecomeChunks() {
    const std::string path = dir_.filePath("many.db").toStdString();
    auto store = std::move(makeRunStore(path)).value();
    auto early = std::move(openRunStore(path)).value();
    QVERIFY(store->lockForRecording().ok());
    constexpr int kCurves = 4000, kPoints = 700;
    for (int at = 0; at < kPoints; at += 50) {
      RunBatch batch;
      for (int i = 0; i < kCurves; ++i) {
        batch.series.push_back({"node/" + std::to_string(i), {}});
        for (int k = at; k < at + 50; ++k)
          batch.series.back().points.push_back({k * 0.1, static_cast<double>((i + k) % 100)});
      }
      QVERIFY(store->append(batch).ok());
      QCOMPARE(early->readAll("node/7")->size(), static_cast<std::size_t>(at + 50));
    }
    for (const int i : {0, 7, kCurves - 1}) {
      const auto points = store->readAll("node/" + std::to_string(i));
      QCOMPARE(points->size(), std::size_t{kPoints});
      for (std::size_t k = 0; k < points->size(); ++k)
        QCOMPARE((*points)[k].y, static_cast<double>((i + static_cast<int>(k)) % 100));
    }
    QCOMPARE(store->series().size(), std::size_t{kCurves});
    store.reset();
    early.reset();  // the last one to close the file puts its log into it
    QVERIFY(QFileInfo(QString::fromStdString(path)).size() < 2 * kCurves * kPoints);
  }

  // Chunks were plain doubles once, those of a series' end short ones.
  void filesOfEarlierVersionsAreRead() {
    const std::string path = dir_.filePath("early.db").toStdString();
    const std::string others =
        "CREATE TABLE log(id INTEGER PRIMARY KEY, wall INTEGER NOT NULL, node TEXT NOT NULL, "
        "rank INTEGER NOT NULL, text TEXT NOT NULL);"
        "CREATE TABLE cursor(node TEXT PRIMARY KEY, sequence INTEGER NOT NULL);"
        "CREATE TABLE error(id INTEGER PRIMARY KEY);"
        "CREATE TABLE event(step INTEGER NOT NULL, rank INTEGER NOT NULL, packed BLOB NOT NULL, "
        "PRIMARY KEY(step, rank));";
    const std::string first = std::string(CurveStore::kFirstSchema) + others;
    std::vector<Point> points;
    for (int i = 1; i <= 4096 + 1500 + 40; ++i) points.push_back({i * 1.0, std::sin(i)});
    {
      auto file =
          std::move(storage::Database::open(path, {first, "SELECT 1;", "SELECT 1;"})).value();
      QVERIFY(file->execute("INSERT INTO series VALUES(5,'loss')").ok());
      std::span<const Point> rest(points);
      for (const std::size_t count : {4096, 1500, 40}) {
        const auto part = rest.first(count);
        rest = rest.subspan(count);
        const Span whole = spanOf(part);
        const auto insert = [&](int level, std::span<const std::byte> data) {
          return storage::Statement(*file, "INSERT INTO chunk VALUES(5,?,?,?,?,?,?,?,?)")
              .bind(level)
              .bind(part.front().x)
              .bind(part.back().x)
              .bind(static_cast<std::int64_t>(count))
              .bind(whole.low)
              .bind(whole.high)
              .bind(whole.last)
              .bindBlob(data)
              .run();
        };
        QVERIFY(insert(0, std::as_bytes(part)).ok());
        if (count < 4096) continue;
        for (const int level : {1, 2}) {
          const auto spans = spansOf(part, level == 1 ? 16 : 256);
          QVERIFY(insert(level, std::as_bytes(std::span(spans))).ok());
        }
      }
    }
    auto store = std::move(openRunStore(path)).value();
    Random random(3);
    std::map<std::string, std::vector<Point>> all{{"loss", points}};
    for (int i = 0; i < 20; ++i) check(*store, all, random);
    QVERIFY(store->lockForRecording().ok());
    RunBatch batch;
    batch.series.push_back({"loss", {{5636, 1}, {5637, 2}}});  // the first is there
    QVERIFY(store->append(batch).ok());
    all["loss"].push_back({5637, 2});
    for (int i = 0; i < 20; ++i) check(*store, all, random);
  }

 private:
  static void check(RunStore& store, const std::map<std::string, std::vector<Point>>& all,
                    Random& random) {
    std::size_t found = 0;
    for (const SeriesInfo& info : store.series()) {
      const auto& points = all.at(info.name);
      QCOMPARE(info.points, static_cast<std::int64_t>(points.size()));
      QVERIFY(same(info.firstX, points.front().x) && same(info.lastX, points.back().x));
      ++found;
      auto back = store.readAll(info.name);
      QVERIFY(back.ok() && same(*back, points));
      const std::size_t begin = random() % points.size();
      const std::size_t end = begin + random() % (points.size() - begin);
      back = store.readAfter(info.name, points[begin].x);
      QVERIFY(back.ok());
      QVERIFY(same(*back, {points.begin() + static_cast<std::ptrdiff_t>(begin) + 1, points.end()}));
      auto spans = store.read(info.name, points[begin].x, points[end].x, 1 << 20);
      QVERIFY(spans.ok());
      // the points themselves and a neighbour on either side
      const std::size_t first = begin > 0 ? begin - 1 : 0,
                        last = std::min(end + 1, points.size() - 1);
      QCOMPARE(spans->size(), last - first + 1);
      for (std::size_t i = 0; i < spans->size(); ++i)
        QVERIFY(same((*spans)[i].x, points[first + i].x) &&
                same((*spans)[i].last, points[first + i].y));
      const int pixels = 1 + static_cast<int>(random() % 300);
      spans = store.read(info.name, points.front().x, points.back().x, pixels);
      QVERIFY(spans.ok() && spans->size() <= 2 * (static_cast<std::size_t>(pixels) + 2));
      double low = NAN, high = NAN, ownLow = NAN, ownHigh = NAN;
      for (const Span& span : *spans) {
        low = std::fmin(low, span.low);
        high = std::fmax(high, span.high);
      }
      for (const Point& point : points) {
        ownLow = std::fmin(ownLow, point.y);
        ownHigh = std::fmax(ownHigh, point.y);
      }
      QVERIFY(same(low, ownLow) || (std::isnan(low) && std::isnan(ownLow)) || low == ownLow);
      QVERIFY(high == ownHigh || (std::isnan(high) && std::isnan(ownHigh)));
    }
    std::size_t expected = 0;
    for (const auto& [name, points] : all) expected += !points.empty();
    QCOMPARE(found, expected);
  }

  QTemporaryDir dir_;
};

QTEST_APPLESS_MAIN(CurveStoreTest)
#include "curve_store_test.moc"
