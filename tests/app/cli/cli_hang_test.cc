// A rank whose training thread hangs while its process goes on: it is named, with the stack.
// LOCKSTEP_HANG_ROUNDS: how often each case is played; the median of all times has a limit.
#include <signal.h>

#include <QElapsedTimer>
#include <QJsonDocument>
#include <QRegularExpression>
#include <QTest>
#include <algorithm>
#include <vector>

#include "engine/base/statistics.h"
#include "tests/app/cli/cli_runner.h"

using namespace lockstep::test;

namespace {
// ms from the hang to the verdict: of the median, and of each, which other work on this machine may
// hold up
constexpr qint64 kAsked = 5000, kLongest = 30000;
}  // namespace

class CliHangTest : public QObject {
  Q_OBJECT

 private:
  static int rankOf(qint64 pid) {
    QFile file(QString("/proc/%1/environ").arg(pid));
    if (!file.open(QIODevice::ReadOnly)) return -2;
    for (const QByteArray& entry : file.readAll().split('\0'))
      if (entry.startsWith("LOCKSTEP_RANK=")) return entry.mid(14).toInt();
    return -2;
  }
  std::vector<double> seconds_;  // from a hang to its verdict

 private Q_SLOTS:
  void aHungRankIsNamed_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<QStringList>("comm");
    const int rounds = qEnvironmentVariable("LOCKSTEP_HANG_ROUNDS", "1").toInt();
    const auto row = [](const char* name, int round, const char* kind, const QStringList& comm) {
      QTest::addRow("%s, round %d", name, round) << kind << comm;
    };
    for (int round = 1; round <= rounds; ++round) {
      row("gloo", round, "multi-worker-mirrored", {});
      row("shared memory", round, "multi-worker-mirrored", {"--comm", "shm"});
      row("zero-3", round, "zero-3", {});
      row("pipeline", round, "pipeline", {});
    }
  }
  void aHungRankIsNamed() {
    QFETCH(QString, kind);
    QFETCH(QStringList, comm);
    qputenv("LD_PRELOAD", LOCKSTEP_HANGING_THREAD_LIBRARY);
    const Cli cli;
    QStringList arguments{"run", example("fashion-mlp"), "--json", "--every", "50", "--local", "3"};
    arguments += comm;
    arguments += {"--set", "strategy.kind=" + kind, "--set", "training.epochs=1000"};
    const auto process = cli.start(arguments);
    qunsetenv("LD_PRELOAD");
    QByteArray out;
    QVERIFY(cli.awaitEvent(*process, "step", out));
    const qsizetype at = out.indexOf("\"run\":\"") + 7;
    const QString run = QString::fromUtf8(out.mid(at, out.indexOf('"', at) - at));
    const auto workers = cli.workers(run);
    QCOMPARE(workers.size(), qsizetype{3});
    const qint64 hung = workers[1];
    const int rank = rankOf(hung);
    QElapsedTimer clock;
    clock.start();
    ::kill(static_cast<pid_t>(hung), SIGUSR1);
    QByteArray rest;
    do {  // other warnings may come first, as of a slow disk
      QVERIFY2(cli.awaitNext(*process, "warning", rest, 60000), (out + rest).right(3000));
    } while (!rest.contains("holds up") && clock.elapsed() < kLongest);
    const qint64 took = clock.elapsed();
    qInfo("told after %lld ms: %s", took, rest.right(600).constData());
    QVERIFY2(took < kLongest, rest.constData());
    seconds_.push_back(static_cast<double>(took) / 1e3);
    out += rest;
    // The stacks are in the run's log before the warning is told.
    cli.run({"kill", run});
    cli.finish(*process, out);
    const CliResult log = cli.run({"logs", run});
    const QByteArray all = rest + log.text();
    // Inside of a collective its stack names it, outside who waits for whom.
    QJsonObject warning;
    for (const QByteArray& line : rest.split('\n'))
      if (line.contains("\"event\":\"warning\"")) warning = QJsonDocument::fromJson(line).object();
    QVERIFY2(warning["what"].toString().contains("holds up"), all.constData());
    QCOMPARE(warning["rank"].toInt(-1), rank);
    QVERIFY2(warning["why"].toString().contains("hangHere"), all.constData());
    // The collective that the others wait in.
    QVERIFY2(QRegularExpression("(all-reduce|reduce-scatter|all-gather|recv|send) ")
                 .match(warning["why"].toString())
                 .hasMatch(),
             all.constData());
    QVERIFY2(log.out.contains("hangHere") && log.out.contains("lockstep::runtime::"),
             all.constData());
    QVERIFY(cli.leave());
  }
  void verdictTimes() {
    if (seconds_.empty()) return;
    const double median = lockstep::median(seconds_);
    qInfo("verdict median %.2f s, greatest %.2f s of %zu", median,
          *std::max_element(seconds_.begin(), seconds_.end()), seconds_.size());
    QVERIFY(median < static_cast<double>(kAsked) / 1e3);
  }
};

QTEST_GUILESS_MAIN(CliHangTest)
#include "cli_hang_test.moc"
