// Programs of which one rank is elsewhere than the others, in a collective: who is named, and when.
#include <QElapsedTimer>
#include <QFile>
#include <QSet>
#include <QStandardPaths>
#include <QTest>

#include "tests/app/cli/cli_runner.h"
#include "tests/app/cli/program_command.h"
#include "tests/support/paths.h"
#include "tests/support/pytorch.h"

using namespace lockstep::test;

namespace {

// Debian's torchrun starts with these settings alone.
const QByteArray kTorchrun =
    "  launcher: torchrun\n  ranks_per_node: 2\n  command: [torchrun, main.py]\n"
    "  env: {PET_REDIRECTS: '1', PET_TEE: '1'}\n";

QByteArray programOf(const char* name) {
  QFile file(QString::fromStdString(sourcePath("tests/workloads/programs/")) + name);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

// "main.py:88", of the first line with the text.
QString placeOf(const QByteArray& script, const QByteArray& text) {
  return QString("main.py:%1").arg(script.left(script.indexOf(text)).count('\n') + 1);
}

}  // namespace

class CliProgramHangTest : public QObject {
  Q_OBJECT

  Cli cli_;

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
    if (!hasPyTorch()) QSKIP("/usr/bin/python3 has no PyTorch with Gloo");
  }

  void aForgottenCollective_data() {
    QTest::addColumn<int>("nodes");
    QTest::addColumn<QByteArray>("more");
    QTest::newRow("ranks") << 2 << QByteArray();
    QTest::newRow("torchrun") << 1 << kTorchrun;
  }
  void aForgottenCollective() {
    QFETCH(int, nodes);
    QFETCH(QByteArray, more);
    if (nodes == 1 && QStandardPaths::findExecutable("torchrun", {"/usr/bin"}).isEmpty())
      QSKIP("there is no /usr/bin/torchrun");
    const QByteArray script = programOf("forgets.py"), whole = kProgramPrelude + script;
    QVERIFY(!script.isEmpty());
    constexpr int kHang = 20;  // s: longer than PyTorch takes to start, in silence
    const auto process = cli_.start(
        programCommand(cli_, cli_.path(QTest::currentDataTag()), script, nodes,
                       more + "  restart: {hang_seconds: " + QByteArray::number(kHang) + "}\n"));
    QByteArray out;
    QVERIFY2(cli_.awaitEvent(*process, "step", out), out);  // the last before it hangs
    QElapsedTimer timer;
    timer.start();
    QVERIFY2(cli_.awaitEvent(*process, "recovering", out), out);
    QVERIFY2(timer.elapsed() < 2 * kHang * 1000, out);  // by the first silence
    const CliResult result = cli_.finish(*process, out);
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.first("started")["world"].toInt(), 2);
    const auto recovering = result.all("recovering");
    QCOMPARE(recovering.size(), qsizetype{1});
    const QString why = recovering[0]["why"].toString();
    // 20 passes of DistributedDataParallel, and 20 or 19 times all_reduce.
    QVERIFY2(why.contains("rank 0 is in all_reduce #40, called by train, " +
                          placeOf(whole, "    dist.all_reduce")),
             result.text());
    QVERIFY2(why.contains("rank 1 is in wait, called by load_batch, " +
                          placeOf(whole, "    return batches.get") +
                          ", after DistributedDataParallel #39"),
             result.text());
    QVERIFY2(why.contains("rank 1 is one collective behind"), result.text());
    QCOMPARE(recovering[0]["rank"].toInt(), 1);
    QCOMPARE(recovering[0]["node"].toString(), QString("local%1").arg(nodes));
    // Each rank tells its own sources.
    QSet<int> ranks;
    for (const QJsonObject& line : result.all("source"))
      if (line["name"].toString() == "DistributedDataParallel") ranks << line["rank"].toInt();
    QCOMPARE(ranks, (QSet<int>{0, 1}));
  }

  // Of a process with NCCL, what its RAS tells is told too.
  void ncclIsAsked() {
    QByteArray script = R"(
def wait_for_batch():
    time.sleep(1000)

if attempt: sys.exit()
if rank == 0:
    open("libnccl.so.2", "w").write("x")
    server = subprocess.Popen([sys.executable, "SERVER", os.environ["NCCL_RAS_ADDR"], "incomplete", "libnccl.so.2"],
                              stdout=subprocess.PIPE)
    server.stdout.readline()  # it listens
print("rank", rank, flush=True)
wait_for_batch()
)";
    script.replace("SERVER",
                   QByteArray::fromStdString(sourcePath("tests/support/nccl_ras_server")));
    const CliResult result = cli_.run(
        programCommand(cli_, cli_.path("nccl"), script, 2, "  restart: {hang_seconds: 10}\n"));
    QVERIFY2(result.exit == 0, result.text());
    const auto recovering = result.all("recovering");
    QCOMPARE(recovering.size(), qsizetype{1});
    const QString why = recovering[0]["why"].toString();
    QVERIFY2(why.contains("ranks 0, 1 are in wait_for_batch"), result.text());
    QVERIFY2(
        why.contains("NCCL's RAS tells: INCOMPLETE, Missing communicator data from 1 job process"),
        result.text());
  }

  // What torchrun itself waits in is no place of a rank.
  void oneRankOfTorchrunHasEnded_data() {
    QTest::addColumn<int>("ended");
    QTest::addColumn<QString>("told");
    QTest::newRow("the first") << 0 << "rank 0 is at a place that is not known";
    QTest::newRow("the second") << 1 << "rank 1 has ended";
  }
  void oneRankOfTorchrunHasEnded() {
    QFETCH(int, ended);
    QFETCH(QString, told);
    if (QStandardPaths::findExecutable("torchrun", {"/usr/bin"}).isEmpty())
      QSKIP("there is no /usr/bin/torchrun");
    QByteArray script = R"(
def wait_for_batch():
    time.sleep(1000)

print("rank", rank, flush=True)
time.sleep(1)
if rank == ENDED or os.path.exists("hung"): sys.exit()
open("hung", "w").close()
wait_for_batch()
)";
    script.replace("ENDED", QByteArray::number(ended));
    const CliResult result =
        cli_.run(programCommand(cli_, cli_.path(QString("ended%1").arg(ended)), script, 1,
                                kTorchrun + "  restart: {hang_seconds: 20}\n"));
    QVERIFY2(result.exit == 0, result.text());
    const auto recovering = result.all("recovering");
    QCOMPARE(recovering.size(), qsizetype{1});
    const QString why = recovering[0]["why"].toString();
    QVERIFY2(why.contains(told), result.text());
    QVERIFY2(why.contains(QString("rank %1 is in wait_for_batch, ").arg(1 - ended) +
                          placeOf(kProgramPrelude + script, "    time.sleep(1000)")),
             result.text());
  }
};

QTEST_GUILESS_MAIN(CliProgramHangTest)
#include "cli_program_hang_test.moc"
