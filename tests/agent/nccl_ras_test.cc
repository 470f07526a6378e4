// What NCCL's RAS tells, by a server of its protocol, and what others at its address tell.
#include "agent/workload/nccl_ras.h"

#include <unistd.h>

#include <QElapsedTimer>
#include <QFile>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <random>

#include "tests/support/paths.h"

using namespace lockstep;
using Lines = std::vector<std::string>;

namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

bool has(const Lines& lines, const std::string& line) {
  return std::find(lines.begin(), lines.end(), "NCCL RAS: " + line) != lines.end();
}

}  // namespace

class NcclRasTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;
  QProcess server_;
  std::string address_;

  void start(const QString& mode, const QStringList& more = {}) {
    server_.start(
        "/usr/bin/python3",
        QStringList{QString::fromStdString(test::sourcePath("tests/support/nccl_ras_server")),
                    "127.0.0.1:0", mode} +
            more);
    while (!server_.canReadLine()) QVERIFY(server_.waitForReadyRead(60000));
    address_ = "127.0.0.1:" + server_.readLine().trimmed().toStdString();
  }

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
  }
  void cleanup() {
    server_.kill();
    if (server_.state() != QProcess::NotRunning) QVERIFY(server_.waitForFinished(60000));
  }

  void whatItKnowsIsTold() {
    start("incomplete");
    const Lines lines = agent::askRas(address_, 60 * kSecond);
    for (const char* line : {"Job summary", "      2          2            1          4        4",
                             "#0-0 (cf264af53edbe986) INCOMPLETE", "  The missing rank: 3"})
      QVERIFY2(has(lines, line), line);
    QVERIFY(std::all_of(lines.begin(), lines.end(), agent::isRasLine));
    QCOMPARE(
        agent::rasProblems(lines),
        std::string("INCOMPLETE, Missing communicator data from 1 job process, Process 3487984 "
                    "on node 172.16.64.213 managing GPU 1, #0-0 (cf264af53edbe986) INCOMPLETE"));
    while (!server_.peek(1000).contains("verbose status\n"))
      QVERIFY(server_.waitForReadyRead(60000));
    QCOMPARE(server_.readAll(), QByteArray("client protocol 2\ntimeout 1\nverbose status\n"));
  }

  void aHealthyJobHasNoProblems() {
    start("healthy");
    const std::string port = address_.substr(address_.find(':'));
    for (const std::string& address : {address_, "localhost" + port, "[127.0.0.1]" + port}) {
      const Lines lines = agent::askRas(address, 60 * kSecond);
      QVERIFY2(has(lines, "Job summary"), address.c_str());
      QCOMPARE(agent::rasProblems(lines), std::string());
    }
  }

  // In a bounded time, and no more than so much.
  void othersAreTold_data() {
    QTest::addColumn<QString>("line");
    QTest::newRow("silent") << "what answers is not NCCL's RAS";
    QTest::newRow("stranger") << "what answers is not NCCL's RAS";
    QTest::newRow("closes") << "what answers is not NCCL's RAS";
    QTest::newRow("late") << "the rest did not come";
    QTest::newRow("endless") << "the rest did not come";
  }
  void othersAreTold() {
    QFETCH(QString, line);
    const QByteArray mode = QTest::currentDataTag();
    start(mode);
    QElapsedTimer timer;
    timer.start();
    const Lines lines = agent::askRas(address_, mode == "endless" ? 60 * kSecond : kSecond);
    QVERIFY(timer.elapsed() < 30000);
    QVERIFY(!lines.empty() && lines.size() <= 201);
    QVERIFY2(lines.back().find(line.toStdString()) != std::string::npos, lines.back().c_str());
    for (const std::string& one : lines) {
      QVERIFY(agent::isRasLine(one) && one.size() < 600);
      QVERIFY(one.find('\x1b') == std::string::npos);
    }
    QVERIFY(has(lines, "Job summary") == (mode == "late"));
  }

  void nobodyIsThere() {
    start("healthy");
    cleanup();
    const auto only = [](const std::string& address) {
      const Lines lines = agent::askRas(address, kSecond);
      return lines.size() == 1 ? lines.front() : std::string();
    };
    QCOMPARE(only(address_), "NCCL RAS: " + address_ + ": Connection refused");
    for (const char* none : {"", ":", "nccl.example:1", "127.0.0.1", "127.0.0.1:x", "[::1"})
      QCOMPARE(only(none), std::string("NCCL RAS: ") + none + ": is no address");
  }

  void processesWithNcclAreKnown() {
    const QString library = folder_.path() + "/libnccl.so.2";
    QFile file(library);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("x");
    file.close();
    QVERIFY(!agent::hasNccl(getpid()));
    start("healthy", {library});
    QVERIFY(agent::hasNccl(static_cast<int>(server_.processId())));
    cleanup();
    QVERIFY(!agent::hasNccl(0));
  }

  void problemsOfAnyLines() {
    std::mt19937 random(5);
    const Lines words{"NCCL RAS: ", "Errors", "Warnings", "======", "------", "  ", "DEAD", ""};
    for (int round = 0; round < 2000; ++round) {
      Lines lines;
      for (unsigned line = 0; line < random() % 9; ++line) {
        std::string text;
        for (unsigned word = 0; word < random() % 4; ++word) text += words[random() % words.size()];
        lines.push_back(text);
      }
      (void)agent::rasProblems(lines);
    }
  }
};

QTEST_GUILESS_MAIN(NcclRasTest)
#include "nccl_ras_test.moc"
