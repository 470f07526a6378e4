// `lockstep metrics` and event files of TensorBoard, of a run on local agents.
#include <QDir>
#include <QElapsedTimer>
#include <QRegularExpression>
#include <QTest>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "engine/base/unique_fd.h"
#include "tests/app/cli/cli_runner.h"

using namespace lockstep::test;

namespace {

QByteArray fetched(int port) {
  const lockstep::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const QByteArray request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::send(fd.get(), request.data(), static_cast<std::size_t>(request.size()), MSG_NOSIGNAL) < 0)
    return {};
  QByteArray out;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::recv(fd.get(), bytes, sizeof bytes, 0)) > 0;)
    out.append(bytes, static_cast<qsizetype>(got));
  return out;
}

// The value of the first sample of a metric; -1: there is none.
double valueOf(const QByteArray& page, const QString& metric) {
  const QRegularExpression sample("^" + metric + R"(\{.*\} (\S+)$)",
                                  QRegularExpression::MultilineOption);
  const auto match = sample.match(QString::fromUtf8(page));
  return match.hasMatch() ? match.captured(1).toDouble() : -1;
}

}  // namespace

class CliMetricsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // A run that `run` records is served as it goes on, and is not disturbed.
  void aRunIsServedWhileItTrains() {
    const Cli cli;
    const auto run = cli.start(training("multi-worker-mirrored", "2", 2'000'000) +
                               QStringList{"--set", "training.epochs=1000"});
    QByteArray told;
    QVERIFY2(cli.awaitEvent(*run, "step", told), told.constData());
    const auto metrics = cli.start({"metrics", "--listen", "0"});
    QVERIFY(metrics->waitForReadyRead(60'000));
    const QByteArray line = metrics->readAllStandardOutput();
    const QRegularExpression url(R"(^http://127\.0\.0\.1:(\d+)/metrics\n$)");
    const auto match = url.match(QString::fromUtf8(line));
    QVERIFY2(match.hasMatch(), line.constData());
    const int port = match.captured(1).toInt();

    QByteArray page;
    double first = -1;
    QElapsedTimer timer;
    timer.start();
    const auto isWhole = [&] {
      page = fetched(port);
      const double step = valueOf(page, "lockstep_run_step");
      if (first <= 0) first = step;
      return first > 0 && step > first && valueOf(page, "lockstep_node_cpu_ratio") >= 0;
    };
    while (!isWhole() && timer.elapsed() < 60'000) QTest::qWait(200);
    QVERIFY2(page.startsWith("HTTP/1.1 200 OK\r\n"), page.constData());
    QVERIFY2(valueOf(page, "lockstep_run_step") > first, page.constData());
    QVERIFY(valueOf(page, "lockstep_run_loss") > 0);
    QVERIFY(valueOf(page, "lockstep_run_ranks") == 2);
    QVERIFY(page.contains("phase=\"backward\"") && page.contains("state=\"running\""));
    QVERIFY(page.contains("lockstep_node_memory_bytes{") && page.contains("rank=\"1\""));

    const CliResult once = cli.run({"metrics", "last", "--once"});
    QVERIFY2(once.exit == 0 && valueOf(once.out, "lockstep_run_step") > first, once.text());
    QVERIFY(cli.run({"stop", "last"}).exit == 0);
    QVERIFY2(cli.finish(*run, told).last()["status"].toString() == "stopped", told.constData());
    QVERIFY(fetched(port).endsWith("\r\n\r\n"));  // no run is under way
    ::kill(static_cast<pid_t>(metrics->processId()), SIGINT);
    QVERIFY(metrics->waitForFinished(60'000) && metrics->exitCode() == 0);
    QVERIFY(!metrics->readAllStandardError().contains("can reach this address"));

    const QString out = cli.path("logs");
    const CliResult written =
        cli.run({"history", "export", "last", "--format", "tensorboard", "--out", out});
    QVERIFY2(written.exit == 0, written.text());
    const QStringList runs = QDir(out).entryList(QDir::Dirs | QDir::NoDotAndDotDot);
    QCOMPARE(runs.size(), 1);
    for (const char* below : {"", "/rank/0", "/rank/1", "/node/local1"})
      QCOMPARE(QDir(out + "/" + runs[0] + below).entryList({"*tfevents*"}).size(), 1);
    const CliResult again =
        cli.run({"history", "export", "last", "--format", "tensorboard", "--out", out});
    QVERIFY2(again.exit == 2 && again.err.contains("is there already"), again.text());
  }

  void otherAddressesAreWarnedOf() {
    const Cli cli;
    const auto metrics = cli.start({"metrics", "--listen", "0.0.0.0:0"});
    QVERIFY(cli.awaitError(*metrics, "whoever can reach this address can read the values"));
    QCOMPARE(metrics->state(), QProcess::Running);
    ::kill(static_cast<pid_t>(metrics->processId()), SIGINT);
    QVERIFY(metrics->waitForFinished(60'000) && metrics->exitCode() == 0);
  }

  void wrongArguments() {
    const Cli cli;
    for (const QStringList& wrong : {QStringList{"metrics", "--listen", "localhost:1"},
                                     {"metrics", "absent", "--once"},
                                     {"metrics", "--listen", "0", "--once"}})
      QCOMPARE(cli.run(wrong).exit, 2);
    const CliResult none = cli.run({"metrics", "--once"});
    QVERIFY(none.exit == 0 && none.out.isEmpty());
    QVERIFY(cli.run({"history", "export", "last", "--format", "tensorboard"}).exit == 2);
  }
};

QTEST_GUILESS_MAIN(CliMetricsTest)
#include "cli_metrics_test.moc"
