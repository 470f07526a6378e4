// `lockstep learn LESSON --run` of every lesson, on local agents.
#include <QDir>
#include <QFile>
#include <QRegularExpression>
#include <QTest>
#include <limits>

#include "app/history/history.h"
#include "tests/app/cli/cli_runner.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr int kSteps = 30;

const QDir& lessons() {
  static const QDir kFolder(QString::fromStdString(sourcePath("resources/lessons")), "*.yaml");
  return kFolder;
}

}  // namespace

class CliLearnTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"))
      QSKIP("dataset-fashion-mnist is not installed");
    QCOMPARE(lessons().entryList().size(), 10);
  }

  // To its end, but for the number of steps as the lesson says, with measured beside predicted.
  void everyLessonRunsForReal_data() {
    QTest::addColumn<QString>("name");
    for (const QString& name : lessons().entryList()) QTest::newRow(qPrintable(name)) << name;
  }
  void everyLessonRunsForReal() {
    QFETCH(QString, name);
    const CliResult result = cli_.run({"learn", shortened(name), "--run"});
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2(result.out.contains(QString("succeeded after %1 steps").arg(kSteps).toUtf8()),
             result.text());
    static const QRegularExpression compared(
        "\na step: ([0-9.]+) ms measured, ([0-9.]+) ms predicted\n$");
    const QRegularExpressionMatch figures = compared.match(QString::fromUtf8(result.out));
    QVERIFY2(figures.hasMatch(), result.text());
    QVERIFY(figures.captured(1).toDouble() > 0 && figures.captured(2).toDouble() > 0);
  }

  // Compared is the run that was made, also beside a newer one.
  void aMovedSliderIsRun() {
    const std::string folder = (cli_.home() + "/history").toStdString();
    app::RunRow newer;
    newer.run = "a-newer-one";
    newer.phase = app::RunState::SUCCEEDED;
    newer.createdNs = std::numeric_limits<std::int64_t>::max();
    newer.measuredStepSeconds = 1;
    QVERIFY((*app::History::open(folder))->add(newer, {}).ok());
    const CliResult result = cli_.run(
        {"learn", shortened("01-gradient-step.yaml"), "--run", "--set", "batch=256", "--json"});
    QVERIFY2(result.exit == 0 && result.onlyJson, result.text());
    const QString run = result.first("started")["run"].toString();
    const QJsonObject compared = result.last();
    QCOMPARE(compared["event"].toString(), QString("compared"));
    QCOMPARE(compared["run"].toString(), run);
    QVERIFY(compared["step_seconds"].toDouble() > 0 &&
            compared["predicted_step_seconds"].toDouble() > 0);
    const CliResult shown = cli_.run({"history", "show", run, "--json"});
    QVERIFY2(shown.last()["spec_resolved"].toString().contains("batch: 256"), shown.text());
    QVERIFY((*app::History::open(folder))->remove("a-newer-one").ok());
  }

 private:
  // A copy of the lesson whose real run has kSteps steps.
  QString shortened(const QString& name) const {
    QFile file(lessons().filePath(name));
    if (!file.open(QIODevice::ReadOnly)) qFatal("cannot read %s", qPrintable(name));
    static const QRegularExpression steps("(settings: \\{.*training\\.max_steps: )\"\\d+\"");
    QString text = QString::fromUtf8(file.readAll());
    if (text.count(steps) != 1) qFatal("%s: one number of steps expected", qPrintable(name));
    text.replace(steps, QString("\\1\"%1\"").arg(kSteps));
    return cli_.write(name, text.toUtf8());
  }

  const Cli cli_;  // its agents are shared by all runs
};

QTEST_GUILESS_MAIN(CliLearnTest)
#include "cli_learn_test.moc"
