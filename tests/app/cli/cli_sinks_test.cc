// Sinks of a run on local agents: they have what the history has.
#include <QDir>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>
#include <algorithm>

#include "tests/app/cli/cli_runner.h"
#include "tests/support/collector.h"

using namespace lockstep::test;

namespace {

QByteArray bytesOf(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

// The steps of the loss in a file of CSV.
QList<qint64> stepsInCsv(const QString& path) {
  QList<qint64> out;
  for (const QByteArray& line : bytesOf(path).split('\n'))
    if (line.startsWith("loss,step,")) out.push_back(line.split(',')[2].toLongLong());
  return out;
}

QList<qint64> stepsInJson(const QString& path) {
  QList<qint64> out;
  for (const QByteArray& line : bytesOf(path).split('\n')) {
    const QJsonObject one = QJsonDocument::fromJson(line).object();
    if (one["series"].toString() == "loss") out.push_back(one["step"].toInteger());
  }
  return out;
}

QList<qint64> stepsInHistory(const Cli& cli) {
  const CliResult exported = cli.run({"history", "export", "last", "--format", "json"});
  const QJsonArray points =
      QJsonDocument::fromJson(exported.out).object()["points"].toObject()["loss"].toArray();
  QList<qint64> out;
  for (const auto& point : points) out.push_back(point.toArray()[0].toInteger());
  return out;
}

}  // namespace

class CliSinksTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // One program that records is killed, and another one goes on.
  void sinksHaveWhatTheHistoryHas() {
    const Cli cli;
    const Collector collector("ok");
    QVERIFY(collector.isRunning());
    const QString out = cli.path("out");
    // Of small batches, points come faster than a busy machine hands them on.
    QStringList arguments = training("multi-worker-mirrored", "2", kEndless) +
                            QStringList{"--set", "training.batch=512"};
    for (const char* sink : {"csv", "json", "tensorboard"})
      arguments << "--set" << QString("sinks.%1=%2/%1").arg(sink, out);
    arguments << "--set"
              << "sinks.otlp=" + QString::fromStdString(collector.url());
    const auto first = cli.start(arguments);
    QByteArray told;
    QVERIFY2(cli.awaitEvent(*first, "step", told), told.constData());
    const QString run = runOf(told);
    const QString csv = out + "/csv/" + run + ".csv", json = out + "/json/" + run + ".jsonl";
    const QString board = out + "/tensorboard/" + run;
    const auto boards = [&](const char* below) {
      return QDir(board + below).entryList({"*tfevents*"}).size();
    };
    const QList<const char*> folders{"", "/rank/1", "/node/local1"};
    QVERIFY(QTest::qWaitFor(
        [&] {
          return stepsInCsv(csv).size() > 10 &&
                 std::ranges::all_of(folders,
                                     [&](const char* below) { return boards(below) == 1; });
        },
        60'000));
    first->kill();
    QVERIFY(first->waitForFinished(60'000));
    const qsizetype before = stepsInCsv(csv).size();

    const auto second = cli.start({"attach", "last", "--json"});
    QVERIFY(QTest::qWaitFor([&] { return stepsInCsv(csv).size() > before; }, 60'000));
    QVERIFY(cli.run({"stop", "last"}).exit == 0);
    const CliResult ended = cli.finish(*second, {});
    QVERIFY2(ended.last()["status"].toString() == "stopped", ended.text());
    for (const QJsonObject& warning : ended.all("warning"))
      QVERIFY2(!warning["what"].toString().contains("of the run"), ended.text());

    const QList<qint64> steps = stepsInHistory(cli);
    QVERIFY(steps.size() > before);
    QCOMPARE(stepsInCsv(csv), steps);
    QCOMPARE(stepsInJson(json), steps);
    QSet<qint64> times;
    const auto losses = collector.metrics()["lockstep.run.loss"];
    for (const auto& sample : losses) times.insert(sample.time);
    QCOMPARE(times.size(), steps.size());
    for (const char* below : folders) QCOMPARE(boards(below), 2);
  }

  void aCollectorThatIsDownCostsAWarning() {
    const Cli cli;
    const CliResult ended = cli.run(training("multi-worker-mirrored", "2", 300) +
                                    QStringList{"--set", "sinks.otlp=http://127.0.0.1:9"});
    QVERIFY2(ended.exit == 0, ended.text());
    QStringList told;
    for (const QJsonObject& warning : ended.all("warning"))
      if (warning["what"].toString().contains("http://127.0.0.1:9"))
        told << warning["what"].toString();
    QVERIFY2(told.size() == 2 && told[0].contains("cannot be sent to") &&
                 told[1].contains("did not get: "),
             ended.text());
  }

  void wrongSinks() {
    const Cli cli;
    for (const char* wrong : {"sinks.otlp=collector:4318", "sinks.otlp=http://u:p@collector",
                              "sinks.otlp=ftp://collector", "sinks.prometheus=x"}) {
      const CliResult refused =
          cli.run(training("multi-worker-mirrored", "2", 300) + QStringList{"--set", wrong});
      QVERIFY2(refused.exit == 2, refused.text());
    }
  }

  // Paths are relative to the spec.
  void foldersBesideTheSpec() {
    const Cli cli;
    QVERIFY(QDir().mkpath(cli.path("specs")));
    const QByteArray spec = bytesOf(example("fashion-mlp"));
    const QString file = cli.write("specs/run.yaml", spec + "\nsinks: {csv: curves}\n");
    const CliResult ended = cli.run({"run", file, "--json", "--local", "1", "--set",
                                     "training.epochs=1000000", "--set", "training.max_steps=20"});
    QVERIFY2(ended.exit == 0, ended.text());
    const QStringList files = QDir(cli.path("specs/curves")).entryList({"*.csv"});
    QCOMPARE(files.size(), 1);
    const QList<qint64> steps = stepsInCsv(cli.path("specs/curves/" + files[0]));
    QVERIFY(!steps.isEmpty() && steps.back() == 20);
  }
};

QTEST_GUILESS_MAIN(CliSinksTest)
#include "cli_sinks_test.moc"
