// A run's curves as OTLP in JSON: every line is a request that has what the history has.
#include "app/sinks/otlp.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <vector>

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kBegan = 1'780'000'000;

struct Case {
  std::string series, metric, attributes;
};
const std::vector<Case> kCases{
    {"loss", "lockstep.run.loss", ""},
    {"scalar/train/loss", "lockstep.scalar", "tag=train/loss;"},
    {"rank/12/forward", "lockstep.rank.forward", "rank=12;"},
    {"node/n1/cpu", "lockstep.node.cpu", "node=n1;"},
    {"node/n1/gpu/3/utilisation", "lockstep.gpu.utilisation", "node=n1;gpu=3;"},
    {"node/n1/to/n2/rate", "lockstep.link.rate", "node=n1;to=n2;"},
    {"node/\"模型\\\n\xff/cpu", "lockstep.node.cpu", "node=\"模型\\\n?;"},
};

struct Sample {
  std::int64_t time = 0;
  double value = 0;
};
using Metrics = std::map<std::string, std::vector<Sample>>;  // by "name attributes"

std::string attributesOf(const QJsonArray& attributes) {
  std::string out;
  for (const auto& one : attributes) {
    const QJsonObject value = one.toObject()["value"].toObject();
    out += one.toObject()["key"].toString().toStdString() + "=" +
           value.begin().value().toString().toStdString() + ";";
  }
  return out;
}

double numberOf(const QJsonValue& value) {
  if (value.toString() == "NaN") return std::nan("");
  if (value.isString()) return value.toString() == "Infinity" ? HUGE_VAL : -HUGE_VAL;
  return value.toDouble();
}

// Adds the metrics of a line; returns the attributes of its resource.
std::string readLine(const std::string& line, Metrics& out) {
  const QJsonObject request = QJsonDocument::fromJson(QByteArray::fromStdString(line)).object();
  const QJsonObject resource = request["resourceMetrics"][0].toObject();
  const QJsonObject metric =
      resource["scopeMetrics"].toArray()[0].toObject()["metrics"].toArray()[0].toObject();
  for (const auto& point : metric["gauge"].toObject()["dataPoints"].toArray())
    out[metric["name"].toString().toStdString() + " " +
        attributesOf(point.toObject()["attributes"].toArray())]
        .push_back({point.toObject()["timeUnixNano"].toString().toLongLong(),
                    numberOf(point.toObject()["asDouble"])});
  return attributesOf(resource["resource"].toObject()["attributes"].toArray());
}

}  // namespace

class OtlpTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void allSeriesAreRead_data() {
    QTest::addColumn<quint64>("seed");
    for (const quint64 seed : {1, 2, 3}) QTest::newRow(QByteArray::number(seed)) << seed;
  }
  void allSeriesAreRead() {
    QFETCH(quint64, seed);
    std::mt19937_64 random(seed);
    RunBatch batch;
    std::vector<Point> began;
    for (int step = 1; step <= 5000; ++step)
      began.push_back({static_cast<double>(step), static_cast<double>(kBegan + 2 * step)});
    for (const Case& one : kCases) {
      const bool overTime = one.series.starts_with("node/");
      std::vector<Point> points;
      for (std::size_t k = 1 + random() % 5000; k > 0; --k) {
        const double x = static_cast<double>(points.size() + 1);
        double y = std::exp(static_cast<double>(random() % 200'000) / 1000 - 100);
        if (random() % 20 == 0) y = std::numeric_limits<double>::quiet_NaN();
        if (random() % 20 == 0) y = random() % 2 == 0 ? HUGE_VAL : -HUGE_VAL;
        points.push_back({overTime ? static_cast<double>(kBegan) + 2 * x : x, y});
      }
      batch.series.push_back({one.series, points});
    }
    batch.series.push_back({"rank/0/began", began});
    const std::string text = exported(batch);
    Metrics read;
    std::string line;
    for (std::istringstream lines(text); std::getline(lines, line);)
      QCOMPARE(readLine(line, read),
               std::string("service.name=lockstep;lockstep.run=a;lockstep.model=m;"
                           "lockstep.cluster=c;"));
    QCOMPARE(read.size(), kCases.size());
    for (std::size_t i = 0; i < kCases.size(); ++i) {
      const auto& is = read[kCases[i].metric + " " + kCases[i].attributes];
      const std::vector<Point>& was = batch.series[i].points;
      QCOMPARE(is.size(), was.size());
      for (std::size_t k = 0; k < is.size(); ++k) {
        QCOMPARE(is[k].time, (kBegan + 2 * static_cast<std::int64_t>(k + 1)) * kSecond);
        QVERIFY(is[k].value == was[k].y || (std::isnan(is[k].value) && std::isnan(was[k].y)));
      }
    }
  }

  void aRunWithoutCurvesHasNoLine() { QCOMPARE(exported({}), std::string()); }

 private:
  std::string exported(const RunBatch& batch) {
    QTemporaryDir folder;
    auto history = History::open(folder.path().toStdString());
    if (!history.ok()) return history.error().text();
    RunRow row;
    row.run = "a";
    row.name = "m";
    row.clusterName = "c";
    row.createdNs = kBegan * kSecond;
    auto store = (*history)->begin(row, {});
    if (!store.ok()) return store.error().text();
    const Status added = (*store)->append(batch);
    if (!added.ok()) return added.error().text();
    store->reset();
    const auto text = otlpOfRun(**history, "a");
    return text.ok() ? *text : text.error().text();
  }
};

QTEST_GUILESS_MAIN(OtlpTest)
#include "otlp_test.moc"
