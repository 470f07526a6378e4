// Sinks of a run while it is recorded: what other programs read of them is what the history has.
#include "app/sinks/run_sinks.h"

#include <QElapsedTimer>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>

#include "agent/workload/event_files.h"
#include "app/history/history.h"
#include "app/history/run_csv.h"
#include "tests/support/collector.h"

using namespace lockstep;
using namespace lockstep::app;

namespace fs = std::filesystem;

namespace {

constexpr double kBegan = 1'780'000'000;
const std::vector<std::string> kSeries{"loss",        "scalar/a,\"b\"\n模型", "rank/1/forward",
                                       "node/n1/cpu", "epoch/eval_loss",      "rank/0/memory"};

// What Python reads of a file of CSV or of lines of JSON: {series: [[x, value or null, time], …]}.
constexpr const char* kReader = R"(
import csv, json, sys
out = {}
with open(sys.argv[1], newline='', encoding='utf-8') as file:
    if sys.argv[1].endswith('.csv'):
        for row in csv.DictReader(file):
            value = float(row['value']) if row['value'] not in ('', 'inf', '-inf') else None
            out.setdefault(row['series'], []).append([float(row['x']), value, float(row['time'])])
    else:
        for line in file:
            row = json.loads(line)
            x = row.get('step', row.get('epoch', row['time']))
            out.setdefault(row['series'], []).append([x, row['value'], row['time']])
json.dump(out, sys.stdout)
)";

QJsonObject readByPython(const fs::path& file) {
  QProcess python;
  python.start("/usr/bin/python3", {"-c", kReader, QString::fromStdString(file.native())});
  if (!python.waitForFinished(60'000) || python.exitCode() != 0) return {};
  return QJsonDocument::fromJson(python.readAllStandardOutput()).object();
}

std::string textOf(const std::vector<Error>& errors) {
  std::string out;
  for (const Error& error : errors) out += error.text() + "\n";
  return out;
}

}  // namespace

class RunSinksTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    dir_ = std::make_unique<QTemporaryDir>();
    root_ = dir_->path().toStdString();
    auto opened = History::open(root_ + "/history");
    QVERIFY(opened.ok());
    history_ = std::move(opened).value();
    RunRow row;
    row.run = "a";
    row.name = "m";
    row.clusterName = "c";
    row.createdNs = static_cast<std::int64_t>(kBegan) * 1'000'000'000;
    auto begun = history_->begin(row, {});
    QVERIFY(begun.ok());
    store_ = std::move(begun).value();
    next_.clear();
  }
  void cleanup() {
    store_.reset();
    history_.reset();
  }

  void filesAreReadByOthers_data() { seeds(); }
  void filesAreReadByOthers() {
    QFETCH(quint64, seed);
    std::mt19937_64 random(seed);
    spec::v1::SinksSpec spec;
    spec.set_csv(root_ + "/out/csv");
    spec.set_json(root_ + "/out/json");
    spec.set_tensorboard(root_ + "/out/board");
    for (int recorder = 0; recorder < 3; ++recorder) {
      RunSinks sinks(root_ + "/history", "a", spec);
      for (int batch = 0; batch < 5; ++batch) {
        record(random);
        QTest::qWait(static_cast<int>(random() % 400));
      }
      if (recorder == 2) sinks.finish({});
      QCOMPARE(textOf(sinks.warnings()), std::string());
    }
    compare(readByPython(root_ + "/out/csv/a.csv"));
    compare(readByPython(root_ + "/out/json/a.jsonl"));
    // A recorder that ends within a pass leaves events that the next one writes again.
    agent::EventFiles events({root_ + "/out/board/a"});
    std::map<std::string, std::map<double, double>> read;  // by tag and step
    for (const auto& scalar : events.poll(~std::size_t{0}))
      read[scalar.tag()][static_cast<double>(scalar.step())] = scalar.value();
    QVERIFY(events.takeErrors().empty());
    const auto losses = store_->readAll("loss");
    QVERIFY(losses.ok());
    QCOMPARE(read["loss"].size(), losses->size());
    for (const Point& point : *losses) {
      const auto found = read["loss"].find(point.x);
      QVERIFY(found != read["loss"].end());
      QVERIFY(std::isnan(point.y)
                  ? std::isnan(found->second)
                  : static_cast<float>(found->second) == static_cast<float>(point.y));
    }
    const auto cpu = store_->readAll("node/n1/cpu");
    QCOMPARE(read["node/n1/node/cpu"].size(), cpu->size());
    QCOMPARE(read["node/n1/node/cpu"].rbegin()->first, static_cast<double>(cpu->size() - 1));
  }

  // As after a kill: the file is longer than what was noted of it.
  void anotherRecorderCutsFilesBack() {
    std::mt19937_64 random(1);
    spec::v1::SinksSpec spec;
    spec.set_csv(root_);
    for (int recorder = 0; recorder < 2; ++recorder) {
      RunSinks sinks(root_ + "/history", "a", spec);
      record(random);
      sinks.finish({});
      QCOMPARE(textOf(sinks.warnings()), std::string());
      if (recorder == 0) std::ofstream(root_ + "/a.csv", std::ios::app) << "loss,step,1";
    }
    compare(readByPython(root_ + "/a.csv"));
  }

  void aFileThatCannotBeWritten() {
    std::mt19937_64 random(1);
    std::ofstream(root_ + "/file") << "x";
    spec::v1::SinksSpec spec;
    spec.set_csv(root_ + "/file/out");
    spec.set_json(root_ + "/json");
    RunSinks sinks(root_ + "/history", "a", spec);
    record(random);
    std::string told;
    QVERIFY(QTest::qWaitFor(
        [&] {
          told += textOf(sinks.warnings());
          return !told.empty();
        },
        20'000));
    QVERIFY2(told.find("cannot be written to " + root_ + "/file/out/a.csv") != std::string::npos,
             told.c_str());
    QTest::qWait(2500);
    QCOMPARE(textOf(sinks.warnings()), std::string());  // told once
    sinks.finish({});
    const std::string lacks = textOf(sinks.warnings());
    QVERIFY2(lacks.find("did not get: " + std::to_string(points())) != std::string::npos,
             lacks.c_str());
    compare(readByPython(root_ + "/json/a.jsonl"));
  }

  void collectorsGetAll_data() {
    QTest::addColumn<QString>("mode");
    QTest::addColumn<QString>("warning");
    QTest::newRow("ok") << "ok"
                        << "";
    QTest::newRow("slow") << "slow"
                          << "";
    QTest::newRow("busy") << "busy"
                          << "status 503";
    QTest::newRow("closes") << "closes"
                            << "cannot be sent";
    QTest::newRow("garbage") << "garbage"
                             << "cannot be sent";
  }
  // One that fails gets all of it once it works.
  void collectorsGetAll() {
    QFETCH(QString, mode);
    QFETCH(QString, warning);
    std::mt19937_64 random(7);
    test::Collector collector(mode.toStdString());
    QVERIFY(collector.isRunning());
    qputenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20secret , tenant=x");
    spec::v1::SinksSpec spec;
    spec.set_otlp(collector.url());
    record(random);
    RunSinks sinks(root_ + "/history", "a", spec);
    std::string told;
    QVERIFY(QTest::qWaitFor(
        [&] {
          told += textOf(sinks.warnings());
          return warning.isEmpty() ? !collector.requests().empty() : !told.empty();
        },
        20'000));
    QVERIFY2(told.find(warning.toStdString()) != std::string::npos, told.c_str());
    QVERIFY2(told.find("secret") == std::string::npos, told.c_str());
    if (!warning.isEmpty()) collector.setMode("ok");
    record(random);
    sinks.finish({});
    QCOMPARE(textOf(sinks.warnings()), std::string());
    qunsetenv("OTEL_EXPORTER_OTLP_HEADERS");
    for (const QJsonObject& request : collector.requests()) {
      QCOMPARE(request["path"].toString(), QString("/v1/metrics"));
      QCOMPARE(request["type"].toString(), QString("application/json"));
      QCOMPARE(request["key"].toString(), QString("a secret"));
    }
    compareLosses(collector);
  }

  // More than it is given at once.
  void muchWaitsForACollector() {
    test::Collector collector("busy");
    QVERIFY(collector.isRunning());
    RunBatch batch;
    batch.series = {{"loss", {}}, {"rank/0/began", {}}};
    for (int step = 1; step <= 20'000; ++step) {
      batch.series[0].points.push_back({static_cast<double>(step), 0.5});
      batch.series[1].points.push_back({static_cast<double>(step), kBegan + step});
    }
    QVERIFY(store_->append(batch).ok());
    spec::v1::SinksSpec spec;
    spec.set_otlp(collector.url());
    RunSinks sinks(root_ + "/history", "a", spec);
    QVERIFY(QTest::qWaitFor([&] { return !sinks.warnings().empty(); }, 20'000));
    collector.setMode("ok");
    sinks.finish({});
    QCOMPARE(textOf(sinks.warnings()), std::string());
    compareLosses(collector);
  }

  void collectorsThatRefuse_data() {
    QTest::addColumn<QString>("mode");
    QTest::addColumn<QString>("why");
    QTest::newRow("refuses") << "refuses"
                             << "status 400";
    QTest::newRow("partial") << "partial"
                             << "too old";
  }
  void collectorsThatRefuse() {
    QFETCH(QString, mode);
    QFETCH(QString, why);
    std::mt19937_64 random(7);
    test::Collector collector(mode.toStdString());
    QVERIFY(collector.isRunning());
    spec::v1::SinksSpec spec;
    spec.set_otlp(collector.url() + "/v1/metrics");
    record(random);
    RunSinks sinks(root_ + "/history", "a", spec);
    sinks.finish({});
    const std::string told = textOf(sinks.warnings());
    QVERIFY2(told.find("does not take metrics") != std::string::npos, told.c_str());
    QVERIFY2(told.find(why.toStdString()) != std::string::npos, told.c_str());
    const std::size_t refused = mode == "partial" ? 3 * collector.requests().size() : points();
    QVERIFY2(told.find("did not get: " + std::to_string(refused)) != std::string::npos,
             told.c_str());
  }

  void collectorsThatAreNotThere_data() {
    QTest::addColumn<bool>("listens");
    QTest::newRow("silent") << true;
    QTest::newRow("down") << false;
  }
  void collectorsThatAreNotThere() {
    QFETCH(bool, listens);
    std::mt19937_64 random(7);
    auto collector = std::make_unique<test::Collector>("silent");
    QVERIFY(collector->isRunning());
    spec::v1::SinksSpec spec;
    spec.set_otlp(collector->url());
    spec.set_csv(root_);
    if (!listens) collector.reset();
    record(random);
    {
      RunSinks sinks(root_ + "/history", "a", spec);
      QTest::qWait(500);
      QElapsedTimer spent;
      spent.start();
      sinks.finish({});
      QVERIFY2(spent.elapsed() < 25'000, qPrintable(QString::number(spent.elapsed())));
      const std::string told = textOf(sinks.warnings());
      QVERIFY2(told.find("cannot be sent to " + spec.otlp()) != std::string::npos, told.c_str());
      QVERIFY2(told.find("did not get: " + std::to_string(points())) != std::string::npos,
               told.c_str());
      compare(readByPython(root_ + "/a.csv"));
    }
    // A recorder that ends waits for no collector.
    record(random);
    QElapsedTimer spent;
    spent.start();
    {
      const RunSinks sinks(root_ + "/history", "a", spec);
      QTest::qWait(300);
    }
    QVERIFY2(spent.elapsed() < 4000, qPrintable(QString::number(spent.elapsed())));
  }

 private:
  static void seeds() {
    QTest::addColumn<quint64>("seed");
    for (const quint64 seed : {1, 2, 3}) QTest::newRow(QByteArray::number(seed)) << seed;
  }

  // Records some more points of each series. Step k of rank 0 begins k seconds after kBegan.
  void record(std::mt19937_64& random) {
    RunBatch batch;
    double steps = 0;
    for (const std::string& series : kSeries) {
      std::vector<Point> points;
      for (std::size_t left = 1 + random() % 700; left > 0; --left) {
        const double at = ++next_[series];
        const bool overTime = seriesAxis(series) == SeriesAxis::kTime;
        if (!overTime) steps = std::max(steps, at);
        double y = std::exp(static_cast<double>(random() % 20'000) / 1000 - 10);
        if (random() % 40 == 0) y = std::numeric_limits<double>::quiet_NaN();
        points.push_back({overTime ? kBegan + at / 4 : at, y});
      }
      batch.series.push_back({series, points});
    }
    std::vector<Point> began;
    for (double& at = next_["rank/0/began"]; at < steps;) {
      ++at;
      began.push_back({at, kBegan + at});
    }
    if (!began.empty()) batch.series.push_back({"rank/0/began", began});
    const Status added = store_->append(batch);
    QVERIFY2(added.ok(), added.ok() ? "" : added.error().text().c_str());
  }

  std::size_t points() const {
    std::size_t out = 0;
    for (const std::string& series : kSeries) out += store_->readAll(series)->size();
    return out;
  }

  void compareLosses(const test::Collector& collector) {
    const auto losses = store_->readAll("loss");
    const auto got = collector.metrics()["lockstep.run.loss"];
    QCOMPARE(got.size(), losses->size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      QCOMPARE(got[i].time,
               (static_cast<std::int64_t>(kBegan) + std::llround((*losses)[i].x)) * 1'000'000'000);
      if (std::isfinite((*losses)[i].y)) QCOMPARE(got[i].value, (*losses)[i].y);
    }
  }

  void compare(const QJsonObject& read) {
    QCOMPARE(read.size(), static_cast<qsizetype>(kSeries.size()));
    for (const std::string& series : kSeries) {
      const auto was = store_->readAll(series);
      QVERIFY(was.ok());
      const QJsonArray is = read[QString::fromStdString(series)].toArray();
      QCOMPARE(static_cast<std::size_t>(is.size()), was->size());
      for (qsizetype i = 0; i < is.size(); ++i) {
        const Point& point = (*was)[static_cast<std::size_t>(i)];
        QVERIFY(std::abs(is[i][0].toDouble() - point.x) < 0.001);
        QCOMPARE(is[i][1].isNull(), std::isnan(point.y));
        if (!std::isnan(point.y))
          QVERIFY(std::abs(is[i][1].toDouble() - point.y) <= 1e-15 * std::abs(point.y));
        if (series == "loss") QCOMPARE(is[i][2].toDouble(), kBegan + point.x);
      }
    }
  }

  std::unique_ptr<QTemporaryDir> dir_;
  std::string root_;
  std::unique_ptr<History> history_;
  std::unique_ptr<RunStore> store_;
  std::map<std::string, double> next_;  // by series
};

QTEST_GUILESS_MAIN(RunSinksTest)
#include "run_sinks_test.moc"
