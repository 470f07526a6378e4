// The report of a run as a page, its charts, and the axes of its curves.
#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>
#include <QXmlStreamReader>

#include <cmath>
#include <limits>
#include <random>

#include "app/history/history.h"
#include "app/report/chart.h"
#include "app/report/html_report.h"
#include "app/report/markup.h"
#include "app/report/run_axis.h"
#include "app/runs/energy.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

using Random = std::mt19937_64;

const std::vector<std::string> kHostile{"</pre><script>alert(1)</script>",
                                        "\"><img src=x onerror=alert(1)>",
                                        "' onmouseover='x",
                                        "]]></svg><style>*{}</style>",
                                        "&lt;b&gt; &amp; &#60;",
                                        "<!-- <!DOCTYPE x> -->",
                                        "\x1b[2J\x07 bell",
                                        std::string("nul\0byte", 8),
                                        "\xff\xfe not utf-8 \xc3",
                                        "\u202eesrever\u2066",
                                        "\u0085\u009b control",
                                        "\uffff\ufdd0",
                                        "模型 ünï 🚀",
                                        "javascript:alert(1)",
                                        "%s%n {} {0}"};

// A document as a reader of XML sees it; fails where it is not well-formed.
struct Document {
  QString error;
  QStringList elements;
  QString text;
  QStringList links;                 // what would be fetched or run
  QHash<QString, QStringList> rows;  // texts of table rows, by section
  QHash<QString, QList<double>> values;
  int paths = 0;
};
Document parsed(const std::string& page) {
  static const QStringList kFetching{"src", "href", "action", "data", "poster", "srcset"};
  Document out;
  QXmlStreamReader reader(QByteArray::fromStdString(page));
  QString section;
  while (!reader.atEnd()) {
    reader.readNext();
    if (reader.isStartElement()) {
      const QString name = reader.name().toString();
      out.elements << name;
      if (name == "section") section = reader.attributes().value("id").toString();
      if (name == "path") ++out.paths;
      for (const QXmlStreamAttribute& one : reader.attributes()) {
        if (kFetching.contains(one.name().toString()) || one.name().startsWith(QLatin1String("on")))
          out.links << name + "." + one.name().toString();
        if (one.name() == QLatin1String("data-value") && !one.value().isEmpty())
          out.values[section] << one.value().toDouble();
      }
      if (name == "tr") out.rows[section] << QString();
    } else if (reader.isCharacters()) {
      out.text += reader.text();
      if (!out.rows[section].isEmpty()) out.rows[section].last() += " " + reader.text().toString();
    }
  }
  if (reader.hasError())
    out.error = QString("%1:%2: %3")
                    .arg(reader.lineNumber())
                    .arg(reader.columnNumber())
                    .arg(reader.errorString());
  return out;
}

RunBatch batchOf(Random& random, int ranks, int steps) {
  RunBatch out;
  const auto value = [&] {
    switch (random() % 40) {
      case 0:
        return std::numeric_limits<double>::quiet_NaN();
      case 1:
        return std::numeric_limits<double>::infinity();
      case 2:
        return -1e300;
      default:
        return std::exp(static_cast<double>(random() % 2000) / 100 - 10);
    }
  };
  const auto add = [&](const std::string& name, double from, double step) {
    RunBatch::Series series{name, {}};
    for (int i = 0; i < steps; ++i) series.points.push_back({from + step * i, value()});
    out.series.push_back(std::move(series));
  };
  add("loss", 1, 1);
  add("accuracy", 1, 1);
  add("samples_per_second", 1, 1);
  for (int rank = 0; rank < ranks; ++rank)
    for (const char* part : {"step", "data", "forward", "backward", "waiting"})
      add(fmt::format("rank/{}/{}", rank, part), 1, 1);
  add("node/" + kHostile[0] + "/cpu", 1.78e9, 0.5);
  add("node/n1/memory", 1.78e9, 0.5);
  return out;
}

}  // namespace

class ReportTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    dir_ = std::make_unique<QTemporaryDir>();
    auto opened = History::open(dir_->path().toStdString());
    QVERIFY(opened.ok());
    history_ = std::move(opened).value();
  }

  // Everything that a run or a node can name is hostile, and the page is text all the same.
  void hostileTexts_data() {
    QTest::addColumn<quint64>("seed");
    for (const quint64 seed : {1, 2, 3, 4, 5, 6, 7, 8})
      QTest::newRow(QByteArray::number(seed).constData()) << seed;
  }
  void hostileTexts() {
    QFETCH(quint64, seed);
    Random random(seed);
    const auto hostile = [&] { return kHostile[random() % kHostile.size()]; };
    RunRow row;
    row.run = "20260101-000000-abcdef";
    row.name = hostile();
    row.notes = hostile() + "\n" + hostile();
    row.strategy = hostile();
    row.clusterName = hostile();
    row.comm = hostile();
    row.version = hostile();
    row.planHash = hostile();
    row.modelFile = hostile();
    row.phase = RunState::FAILED;
    row.error = Message(hostile());
    row.figures.metric = "accuracy";
    RunDocuments documents{
        hostile(), hostile() + hostile(),
        hostile(), hostile(),
        hostile(), R"([{"node":"<b>","host":"&","ranks":["<i>",1]},3,{"ranks":{}}])"};
    auto store = history_->begin(row, documents);
    QVERIFY(store.ok());
    const int ranks = 1 + static_cast<int>(random() % 20);
    RunBatch batch = batchOf(random, ranks, 1 + static_cast<int>(random() % 3000));
    for (int i = 0; i < 5; ++i) {
      batch.logs.push_back({0, 1, hostile(), 0, hostile()});
      Error error = makeError(Code::kAborted, "{}", hostile());
      error.why = Message(hostile());
      error.next = Message(hostile());
      error.node = hostile();
      error.rank = i;
      batch.errors.push_back(error);
      StragglerRow slow;
      slow.rank = i % 2 == 0 ? i : -1;
      slow.node = hostile();
      slow.to = i % 2 == 0 ? "" : hostile();
      slow.wallNs = 1'780'000'000'000'000'000 + i;
      slow.sinceStep = i + 1;
      slow.phase = hostile();
      slow.cause = hostile();
      slow.text = hostile();
      slow.factor = std::numeric_limits<double>::infinity();
      slow.lostSeconds = std::numeric_limits<double>::quiet_NaN();
      batch.stragglers.push_back(slow);
      batch.restarts.push_back({i + 2, 1, 2, error, i, 1.5});
      batch.epochs.push_back({i + 1, 100, NAN, i % 2 == 0 ? NAN : 0.5, NAN});
    }
    QVERIFY((*store)->append(batch).ok());
    const auto page = htmlReport(*history_, row.run);
    QVERIFY2(page.ok(), page.ok() ? "" : page.error().text().c_str());
    const Document document = parsed(*page);
    QVERIFY2(document.error.isEmpty(), qPrintable(document.error));
    QVERIFY2(document.links.isEmpty(), qPrintable(document.links.join(' ')));
    for (const char* never : {"script", "img", "link", "iframe", "object", "embed", "b", "i", "a"})
      QVERIFY2(!document.elements.contains(never), never);
    QCOMPARE(document.elements.count("style"), 1);
    QCOMPARE(document.elements.count("h1"), 1);
    QVERIFY(document.elements.count("svg") >= 5);
    QCOMPARE(document.rows["stragglers"].size(), 6);
    QCOMPARE(document.rows["restarts"].size(), 6);
    // No number that is none, and no address but the names of XHTML and SVG.
    for (const char* never : {"=\"nan", "=\"inf", "=\"-inf", "nan ", "https:"})
      QVERIFY2(page->find(never) == std::string::npos, never);
    for (std::size_t at = page->find("http:"); at != std::string::npos;
         at = page->find("http:", at + 1))
      QVERIFY(page->substr(at).starts_with("http://www.w3.org/"));
  }

  // The numbers are those of the history, to the last digit.
  void numbersAreThoseStored_data() {
    QTest::addColumn<quint64>("seed");
    for (const quint64 seed : {1, 2, 3, 4})
      QTest::newRow(QByteArray::number(seed).constData()) << seed;
  }
  void numbersAreThoseStored() {
    QFETCH(quint64, seed);
    Random random(seed);
    const auto number = [&] { return std::exp(static_cast<double>(random()) / 4e18 - 3); };
    RunRow row;
    row.run = "a";
    row.name = "gpt";
    row.phase = RunState::SUCCEEDED;
    row.figures.trainLoss = number();
    row.figures.evalLoss = number();
    row.figures.evalMetric = number();
    row.figures.metric = "perplexity";
    row.figures.samplesPerSecond = number() * 1e4;
    row.figures.lostSeconds = number();
    row.figures.joules = 1000 * (1 + random() % 900);
    row.figures.cost = 2.5;
    row.figures.currency = "EUR";
    row.figures.steps = 1'000'000 + static_cast<std::int64_t>(random() % 1'000'000);
    row.predictedStepSeconds = number();
    row.measuredStepSeconds = number();
    RunDocuments documents;
    const double predicted = number();
    documents.prediction = fmt::format(
        R"({{"ranks":[{{"rank":0,"node":"n1","device":"cpu 0","samples":4,"forward":{},)"
        R"("parameter_bytes":123457}}]}})",
        predicted);
    auto store = history_->begin(row, documents);
    QVERIFY(store.ok());
    RunBatch batch;
    RunBatch::Series forward{"rank/0/forward", {}};
    double sum = 0;
    for (int i = 1; i <= 50; ++i) {
      forward.points.push_back({static_cast<double>(i), number()});
      sum += forward.points.back().y;
    }
    batch.series.push_back(forward);
    for (int i = 1; i <= 3; ++i) batch.epochs.push_back({i, 10 * i, number(), number(), number()});
    StragglerRow slow;
    slow.rank = 2;
    slow.node = "n3";
    slow.wallNs = 1'780'000'000'000'000'000;
    slow.endNs = slow.wallNs + 60'000'000'000;
    slow.sinceStep = 40;
    slow.untilStep = 88;
    slow.factor = number();
    slow.phase = "backward";
    slow.cause = "other work had its cores 40 % of the time";
    slow.lostSeconds = number();
    batch.stragglers.push_back(slow);
    QVERIFY((*store)->append(batch).ok());
    const auto page = htmlReport(*history_, "a");
    QVERIFY(page.ok());
    const Document document = parsed(*page);
    QVERIFY2(document.error.isEmpty(), qPrintable(document.error));
    const auto figures = document.values["figures"];
    for (const double value :
         {row.figures.trainLoss, row.figures.evalLoss, row.figures.evalMetric,
          row.figures.samplesPerSecond, row.figures.lostSeconds, row.predictedStepSeconds,
          row.measuredStepSeconds, static_cast<double>(row.figures.steps),
          row.measuredStepSeconds / row.predictedStepSeconds})
      QVERIFY2(figures.contains(value), QByteArray::number(value, 'g', 17));
    QVERIFY(document.rows["figures"].contains(QString(" Steps %1").arg(row.figures.steps)));
    const QString energy = QString::fromStdString(energyText(row.figures));
    QVERIFY2(energy.contains("2.50 EUR") && document.text.contains(energy), qPrintable(energy));
    QVERIFY(document.values["prediction"].contains(predicted));
    QVERIFY(document.values["prediction"].contains(sum / 50));
    QVERIFY(document.values["prediction"].contains(123457));
    for (const EpochRow& epoch : batch.epochs)
      for (const double value : {epoch.trainLoss, epoch.evalLoss, epoch.evalMetric})
        QVERIFY(document.values["epochs"].contains(value));
    QCOMPARE(document.values["stragglers"], (QList<double>{slow.factor, slow.lostSeconds}));
    const QString told = document.rows["stragglers"].last();
    QVERIFY2(told.contains("rank 2 (n3)") && told.contains("40 to 88") &&
                 told.contains("other work had its cores"),
             qPrintable(told));
    QVERIFY(!document.rows.contains("restarts") && !document.rows.contains("errors"));
  }

  void theEnvironmentIsTold() {
    RunRow row;
    row.run = "a";
    RunDocuments documents;
    documents.nodes =
        R"([{"node":"n1","ranks":[0,1],"environment":{"kernel":"6.1.0","gpu_driver":"580.1"}},)"
        R"({"node":"n2","host":"far","environment":{"kernel":"6.6.0","gpu_driver":"580.1"}}])";
    QVERIFY(history_->add(row, documents).ok());
    const auto page = htmlReport(*history_, "a");
    QVERIFY(page.ok());
    const Document document = parsed(*page);
    const QString environment = document.rows["environment"].join('\n');
    for (const char* part : {"Kernel 6.1.0 (n1); 6.6.0 (n2)", "GPU driver 580.1",
                             "Node n1, ranks 0, 1", "Node n2 on far"})
      QVERIFY2(environment.contains(part), qPrintable(environment));
  }

  void aRunWithoutAnything() {
    RunRow row;
    row.run = "a";
    QVERIFY(history_->add(row, {}).ok());
    const auto page = htmlReport(*history_, "a");
    QVERIFY(page.ok());
    QVERIFY(parsed(*page).error.isEmpty());
    QCOMPARE(htmlReport(*history_, "none").error().code, Code::kNotFound);
    QCOMPARE(chartOf(*history_, "a", "loss").error().code, Code::kNotFound);
  }

  // How long a restart took is not known where the run did not train again.
  void aRestartThatDidNotEnd() {
    RunRow row;
    row.run = "a";
    auto store = history_->begin(row, {});
    QVERIFY(store.ok());
    constexpr std::int64_t kWall = 1'780'000'000'000'000'000;
    RunBatch batch;
    batch.restarts.push_back({2, kWall, kWall + 1, {}, 3, 1.5});
    batch.restarts.push_back({3, kWall + 2, 0, {}, 0, 0});
    QVERIFY((*store)->append(batch).ok());
    const QStringList rows = parsed(*htmlReport(*history_, "a")).rows["restarts"];
    QCOMPARE(rows.size(), 3);  // with the titles
    QVERIFY2(rows[1].trimmed().endsWith(" 1.5 s"), qPrintable(rows[1]));
    QVERIFY2(rows[2].trimmed().endsWith(QString::fromUtf8(" –")), qPrintable(rows[2]));
  }

  // Every sample lies within the frame of a chart, whatever it is, and none is lost.
  void chartsHoldWhatTheyShow() {
    Random random(5);
    for (int round = 0; round < 60; ++round) {
      Chart chart;
      chart.title = kHostile[random() % kHostile.size()];
      chart.xTitle = kHostile[random() % kHostile.size()];
      chart.y = static_cast<Chart::Unit>(random() % 5);
      chart.x = random() % 2 == 0 ? Chart::Unit::kDuration : Chart::Unit::kPlain;
      chart.fromZero = random() % 2 == 0;
      std::size_t samples = 0;
      for (auto lines = random() % 12; lines > 0; --lines) {
        ChartLine line;
        line.name = kHostile[random() % kHostile.size()];
        line.dots = true;
        const double scale = std::pow(10, static_cast<double>(random() % 30) - 15);
        for (auto points = random() % 40; points > 0; --points) {
          const double y = random() % 9 == 0 ? NAN : scale * static_cast<double>(random() % 100);
          line.spans.push_back({static_cast<double>(line.spans.size()), y, y, y});
          samples += std::isfinite(y);
        }
        chart.lines.push_back(line);
      }
      const std::string svg = svgOf(chart);
      QXmlStreamReader reader(QByteArray::fromStdString(svg));
      double width = 0, height = 0;
      std::size_t marks = 0;
      while (!reader.atEnd()) {
        if (reader.readNext() != QXmlStreamReader::StartElement) continue;
        const auto number = [&](const char* name) {
          return reader.attributes().value(QLatin1String(name)).toDouble();
        };
        if (reader.name() == QLatin1String("svg"))
          width = number("width"), height = number("height");
        if (reader.name() != QLatin1String("circle")) continue;
        ++marks;
        QVERIFY(number("cx") >= 60 && number("cx") <= width - 10);
        QVERIFY(number("cy") >= 20 && number("cy") <= height - 30);
      }
      QVERIFY2(!reader.hasError(), qPrintable(reader.errorString()));
      QCOMPARE(marks, samples);
    }
  }

  void textIsEscaped() {
    QCOMPARE(escaped("<a href=\"x\">'&"), std::string("&lt;a href=&quot;x&quot;&gt;&#39;&amp;"));
    QCOMPARE(escaped("模型\t\n🚀"), std::string("模型\t\n🚀"));
    Random random(9);
    for (int round = 0; round < 500; ++round) {
      std::string bytes;
      for (auto length = random() % 40; length > 0; --length)
        bytes += static_cast<char>(random() % 4 == 0 ? random() % 32 : random());
      QXmlStreamReader reader(
          QByteArray::fromStdString("<x y=\"" + escaped(bytes) + "\">" + escaped(bytes) + "</x>"));
      while (!reader.atEnd()) reader.readNext();
      QVERIFY2(!reader.hasError(), QByteArray::fromStdString(bytes).toHex());
    }
  }

  // Steps of two runs of other batches and speeds lie where they belong on each axis.
  void curvesOnOtherAxes() {
    const std::string spec =
        "version: 1\n"
        "model:\n  name: g\n  input: {shape: [64], vocabulary: 256}\n  layers:\n"
        "    - embedding: {units: 8}\n    - dense: {units: 256}\n  loss: cross-entropy\n"
        "data: {format: text, train: {text: a.txt, to: 0.9}, evaluate: {text: a.txt, from: 0.9}}\n"
        "training: {batch: 12, max_steps: 5, optimizer: {kind: sgd, learning_rate: 0.1}}\n"
        "strategy: {kind: mirrored}\n";
    RunRow row;
    row.run = "a";
    RunDocuments documents;
    documents.specYaml = documents.specResolved = spec;
    auto store = history_->begin(row, documents);
    QVERIFY(store.ok());
    RunBatch batch;
    // Resumed at step 11; the clock is set back once.
    batch.series.push_back({"loss", {{11, 5}, {12, 4}, {13, 3}, {14, 2}}});
    batch.series.push_back({"rank/0/began", {{11, 1000}, {12, 1000.5}, {13, 1000.25}, {14, 1002}}});
    QVERIFY((*store)->append(batch).ok());
    const auto on = [&](RunAxis axis) {
      auto placed = placedOn(axis, *history_, **store, "a", *(*store)->readAll("loss"));
      QList<double> out;
      if (!placed.ok()) qWarning("%s", placed.error().text().c_str());
      if (placed.ok())
        for (const Point& point : *placed) out << point.x << point.y;
      return out;
    };
    QCOMPARE(on(RunAxis::kStep), (QList<double>{11, 5, 12, 4, 13, 3, 14, 2}));
    QCOMPARE(on(RunAxis::kTime), (QList<double>{0, 5, 0.5, 4, 0.5, 3, 2, 2}));
    QCOMPARE(on(RunAxis::kSamples), (QList<double>{132, 5, 144, 4, 156, 3, 168, 2}));
    QCOMPARE(on(RunAxis::kTokens), (QList<double>{8448, 5, 9216, 4, 9984, 3, 10752, 2}));
    // As recorded, at some steps: the last batch of an epoch was smaller.
    RunBatch seen;
    seen.series.push_back({"samples", {{10, 120}, {12, 140}, {14, 162}}});
    QVERIFY((*store)->append(seen).ok());
    QCOMPARE(on(RunAxis::kSamples), (QList<double>{130, 5, 140, 4, 151, 3, 162, 2}));
    // Of an earlier version: steps without the times at which they began.
    row.run = "b";
    auto old = history_->begin(row, {});
    QVERIFY(old.ok());
    batch.series.back() = {"rank/0/step", {{11, 0.5}, {12, 0.25}, {13, 1}, {14, 1}}};
    QVERIFY((*old)->append(batch).ok());
    const auto placed = placedOn(RunAxis::kTime, *history_, **old, "b", *(*old)->readAll("loss"));
    QVERIFY(placed.ok());
    QCOMPARE(placed->back().x, 1.75);
    for (const RunAxis axis : {RunAxis::kSamples, RunAxis::kTokens})
      QCOMPARE(placedOn(axis, *history_, **old, "b", {{1, 1}}).error().code,
               Code::kFailedPrecondition);
    for (const char* name : {"step", "time", "samples", "tokens"})
      QCOMPARE(std::string(axisName(*axisFromName(name))), std::string(name));
    QVERIFY(!axisFromName("times").ok());
  }

 private:
  std::unique_ptr<QTemporaryDir> dir_;
  std::unique_ptr<History> history_;
};

QTEST_GUILESS_MAIN(ReportTest)
#include "report_test.moc"
