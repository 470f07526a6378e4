// `lockstep run` as a person or a script meets it: events, exit codes, signals, the client's death.
#include <signal.h>
#include <sys/stat.h>

#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <memory>

#include "app/history/history.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr int kLimitMs = 90000;
const QString kExample =
    QString::fromStdString(lockstep::test::sourcePath("resources/examples/fashion-mlp.yaml"));

// Processes whose command line names `folder`.
std::vector<int> processesOf(const QString& folder) {
  std::vector<int> pids;
  for (const QString& entry : QDir("/proc").entryList(QDir::Dirs)) {
    bool number = false;
    const int pid = entry.toInt(&number);
    QFile file("/proc/" + entry + "/cmdline");
    if (number && file.open(QIODevice::ReadOnly) && file.readAll().contains(folder.toUtf8())) {
      pids.push_back(pid);
    }
  }
  return pids;
}

struct Outcome {
  int exitCode = -1;
  QList<QJsonObject> events;
  QByteArray errors;
  bool onlyObjects = true;
  QString event(int i) const { return events[i].value("event").toString(); }
};

}  // namespace

class CliRunTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    program_ = qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep";
    if (!QFile::exists(program_)) QSKIP("there is no lockstep in $LOCKSTEP_BIN");
    if (!QFile::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")) {
      QSKIP("dataset-fashion-mnist is not installed");
    }
    folder_ = std::make_unique<QTemporaryDir>();
  }
  void cleanupTestCase() {
    if (!folder_) return;
    const auto pids = processesOf(folder_->path());
    for (const int pid : pids) ::kill(pid, SIGTERM);
    QElapsedTimer timer;
    timer.start();
    for (const int pid : pids) {
      while (::kill(pid, 0) == 0 && timer.elapsed() < 60000) QTest::qWait(10);
      ::kill(pid, SIGKILL);
    }
  }

  void eventsInOrder() {
    const Outcome run = lockstepRun({"run", kExample, "--local", "3", "--json", "--every", "1",
                                     "--set", "training.max_steps=12"});
    QVERIFY2(run.exitCode == 0, run.errors.constData());
    QVERIFY(run.onlyObjects);
    QVERIFY(run.events.size() >= 14);
    QCOMPARE(run.event(0), QString("started"));
    QCOMPARE(run.events[0].value("world").toInt(), 3);
    QVERIFY(!run.events[0].value("run").toString().isEmpty());
    QCOMPARE(run.events[0].value("plan_hash").toString().size(), 64);
    int steps = 0;
    for (const auto& event : run.events) {
      if (event.value("event").toString() == "step") {
        QCOMPARE(event.value("step").toInt(), ++steps);
        QVERIFY(event.value("loss").isDouble());
      }
    }
    QCOMPARE(steps, 12);
    const QJsonObject last = run.events.back();
    QCOMPARE(last.value("event").toString(), QString("finished"));
    QCOMPARE(last.value("status").toString(), QString("succeeded"));
    QCOMPARE(last.value("steps").toInt(), 12);
    QCOMPARE(last.value("weights_sha256").toString().size(), 64);
  }

  void badInputIsExit2_data() {
    QTest::addColumn<QStringList>("words");
    QTest::newRow("set") << QStringList{"run",    kExample, "--local",        "1",
                                        "--json", "--set",  "training.bach=1"};
    QTest::newRow("absent") << QStringList{"run", "/nowhere.yaml", "--local", "1", "--json"};
    QTest::newRow("value") << QStringList{"run",    kExample, "--local",          "1",
                                          "--json", "--set",  "training.batch=-1"};
  }
  void badInputIsExit2() {
    QFETCH(QStringList, words);
    const Outcome run = lockstepRun(words);
    QCOMPARE(run.exitCode, 2);
    QVERIFY(run.onlyObjects);
    QCOMPARE(run.events.size(), qsizetype{2});
    QCOMPARE(run.event(0), QString("error"));
    QCOMPARE(run.event(1), QString("finished"));
    QCOMPARE(run.events[1].value("status").toString(), QString("failed"));
  }

  void interruptStops() {
    const auto process = begin({"run", kExample, "--local", "2", "--json", "--every", "1", "--set",
                                "training.epochs=1000"});
    QByteArray output;
    QVERIFY(readUntil(*process, output, "\"event\":\"step\""));
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const Outcome run = end(*process, output);
    QCOMPARE(run.exitCode, 130);
    QCOMPARE(run.events.back().value("event").toString(), QString("finished"));
    QCOMPARE(run.events.back().value("status").toString(), QString("stopped"));
  }

  void deathOfTheClientEndsNothing() {
    const auto process = begin({"run", kExample, "--local", "2", "--json", "--every", "1", "--set",
                                "training.max_steps=3000"});
    QByteArray output;
    QVERIFY(readUntil(*process, output, "\"event\":\"step\""));
    process->kill();
    const QString id = end(*process, output).events[0].value("run").toString();
    QVERIFY(!id.isEmpty());
    const Outcome attached = lockstepRun({"attach", id, "--json"});
    QVERIFY2(attached.exitCode == 0, attached.errors.constData());
    QCOMPARE(attached.events.back().value("status").toString(), QString("succeeded"));
    QCOMPARE(attached.events.back().value("steps").toInt(), 3000);
    auto history = History::open((folder_->path() + "/history").toStdString());
    QVERIFY(history.ok());
    auto store = (*history)->openRun(id.toStdString());
    QVERIFY(store.ok());
    const auto loss = (*store)->readAll("loss");
    QVERIFY(loss.ok());
    QCOMPARE(loss->size(), std::size_t{3000});
    for (std::size_t i = 0; i < loss->size(); ++i) {
      QCOMPARE((*loss)[i].x, static_cast<double>(i + 1));
    }
  }

  // A damaged file of a run is set aside; its curves come from the run's node again.
  void aDamagedRunIsReadAgainFromItsNode() {
    const Outcome run =
        lockstepRun({"run", kExample, "--local", "1", "--json", "--set", "training.max_steps=300"});
    QVERIFY2(run.exitCode == 0, run.errors.constData());
    const QString id = run.events[0].value("run").toString();
    QFile file(folder_->path() + "/history/runs/" + id + ".db");
    QVERIFY(file.open(QFile::ReadWrite));
    for (qint64 at = 8192; at + 4096 <= file.size(); at += 8192)
      QVERIFY(file.seek(at) && file.write(QByteArray(4096, '\xee')) == 4096);
    file.close();
    const Outcome check = lockstepRun({"history", "check", "--json"});
    QVERIFY2(check.exitCode == 0, check.errors.constData());
    QCOMPARE(check.event(0), QString("damaged"));
    QCOMPARE(check.events[0].value("run").toString(), id);
    QVERIFY(check.events[0].value("restored").toBool());
    const QString aside = check.events[0].value("file").toString();
    QVERIFY(QFile::exists(aside) && aside.contains(id + ".db.damaged-"));
    QCOMPARE(check.events.back().value("damaged").toInt(), 1);
    auto history = History::open((folder_->path() + "/history").toStdString());
    QVERIFY(history.ok());
    QCOMPARE((*history)->row(id.toStdString())->phase, RunState::SUCCEEDED);
    auto store = (*history)->openRun(id.toStdString());
    QVERIFY(store.ok());
    QCOMPARE((*store)->readAll("loss")->size(), std::size_t{300});
    const Outcome again = lockstepRun({"history", "check", "--json"});
    QVERIFY(again.exitCode == 0 && again.events.size() == 1);
  }

 private:
  std::unique_ptr<QProcess> begin(const QStringList& words) {
    auto process = std::make_unique<QProcess>();
    process->setStandardInputFile(QProcess::nullDevice());
    process->start(program_, QStringList{"--home", folder_->path()} + words);
    return process;
  }
  static bool readUntil(QProcess& process, QByteArray& output, const QByteArray& text) {
    QElapsedTimer timer;
    timer.start();
    while (true) {
      output += process.readAllStandardOutput();
      QByteArray packed = output;
      packed.replace("\": ", "\":");
      if (packed.contains(text)) return true;
      if (timer.elapsed() > kLimitMs || process.state() == QProcess::NotRunning) return false;
      process.waitForReadyRead(200);
    }
  }
  static Outcome end(QProcess& process, QByteArray output) {
    Outcome out;
    process.waitForFinished(kLimitMs);
    out.exitCode = process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -1;
    output += process.readAllStandardOutput();
    out.errors = process.readAllStandardError();
    for (const QByteArray& line : output.split('\n')) {
      if (line.isEmpty()) continue;
      const auto parsed = QJsonDocument::fromJson(line);
      out.onlyObjects = out.onlyObjects && parsed.isObject();
      // What a slow launch tells of the data comes before its start.
      if (parsed.object().value("event").toString() == "data") continue;
      out.events.push_back(parsed.object());
    }
    if (out.events.isEmpty()) out.events.push_back({});
    return out;
  }
  Outcome lockstepRun(const QStringList& words) {
    const auto process = begin(words);
    return end(*process, {});
  }

  QString program_;
  std::unique_ptr<QTemporaryDir> folder_;
};

QTEST_GUILESS_MAIN(CliRunTest)
#include "cli_run_test.moc"
