// workload.artifacts on real agents: the files of a program are here when its run has ended.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <QCryptographicHash>
#include <QDir>
#include <QDirIterator>
#include <QFile>
#include <QJsonArray>
#include <QTest>

#include "tests/app/cli/cli_runner.h"
#include "tests/app/cli/program_command.h"

using namespace lockstep::test;

namespace {

QByteArray read(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

// Writes files, one of which is larger than a part.
const QByteArray kFiles = R"(
import random
random.seed(rank)
os.makedirs("ckpt", exist_ok=True); os.makedirs("out/deep/er", exist_ok=True)
for name, size in (("ckpt/a.pt", 20_000_003), ("ckpt/none.pt", 0), ("ckpt/not.txt", 5), ("out/deep/er/x", 1000 + rank)):
    with open(name, "wb") as file: file.write(random.randbytes(size))
print("step 1 loss 1")
)";
constexpr const char* kCollect = "  artifacts: {collect: ['ckpt/*.pt', 'out/**']}\n";
const QStringList kCollected{"ckpt/a.pt", "ckpt/none.pt", "out/deep/er/x"};

}  // namespace

class CliArtifactsTest : public QObject {
  Q_OBJECT

  Cli cli_;
  int count_ = 0;

  QStringList program(const QByteArray& script, int nodes, const QByteArray& more,
                      const QByteArray& rest = {}) {
    return programCommand(cli_, cli_.path(QString("code%1").arg(++count_)), script, nodes, more,
                          rest);
  }
  QString there(const QString& run, int node) const {
    return QString("%1/local/%2/runs/%3/local%2/code/").arg(cli_.home()).arg(node).arg(run);
  }
  QString here(const QString& run) const { return cli_.home() + "/runs/" + run + "/"; }
  QStringList filesIn(const QString& folder) const {
    QStringList out;
    QDirIterator all(folder, QDir::Files | QDir::System | QDir::Hidden,
                     QDirIterator::Subdirectories);
    while (all.hasNext()) out << QDir(folder).relativeFilePath(all.next());
    out.sort();
    return out;
  }
  // The files of two nodes, with the content that they have there.
  void allAreHere(const QString& run) {
    for (const int node : {1, 2}) {
      const QString own = here(run) + QString("artifacts/local%1/").arg(node);
      QCOMPARE(filesIn(own), kCollected);
      for (const QString& file : kCollected)
        QVERIFY2(read(own + file) == read(there(run, node) + file), qPrintable(file));
    }
    QProcess sums;
    sums.setWorkingDirectory(here(run));
    sums.start("sha256sum", {"--check", "--strict", "SHA256SUMS"});
    QVERIFY(sums.waitForFinished(60000));
    QCOMPARE(sums.exitCode(), 0);
    QCOMPARE(sums.readAllStandardOutput().count(": OK"), qsizetype{6});
  }

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
  }

  void atTheEnd_data() {
    QTest::addColumn<QByteArray>("end");
    QTest::addColumn<QString>("status");
    QTest::newRow("succeeded") << QByteArray() << "succeeded";
    QTest::newRow("failed") << QByteArray("sys.exit(3)\n") << "failed";
    QTest::newRow("stopped") << QByteArray("time.sleep(1000)\n") << "stopped";
  }
  void atTheEnd() {
    QFETCH(QByteArray, end);
    QFETCH(QString, status);
    const auto process =
        cli_.start(program(kFiles + end, 2, kCollect, "recovery: {policy: none}\n"));
    QByteArray out;
    QVERIFY2(cli_.awaitEvent(*process, "step", out), out);
    const QString run = runOf(out);
    if (status == "stopped") {
      QTRY_VERIFY_WITH_TIMEOUT(QFile::exists(there(run, 2) + "out/deep/er/x"), 60000);
      QVERIFY(cli_.run({"stop", run}).exit == 0);
    }
    const CliResult result = cli_.finish(*process, out);
    QVERIFY2(result.onlyJson, result.text());
    QCOMPARE(result.last()["status"].toString(), status);
    allAreHere(run);
    const auto files = result.all("artifact");
    QCOMPARE(files.size(), qsizetype{6});
    for (const QJsonObject& file : files) {
      const QByteArray content =
          read(here(run) + "artifacts/" + file["node"].toString() + "/" + file["path"].toString());
      QCOMPARE(file["bytes"].toInteger(), qint64{content.size()});
      QCOMPARE(file["sha256"].toString().toUtf8(),
               QCryptographicHash::hash(content, QCryptographicHash::Sha256).toHex());
    }
    const QJsonObject all = result.first("artifacts");
    QCOMPARE(all["files"].toInt(), 6);
    QCOMPARE(all["bytes"].toInt(), 2 * 20'000'003 + 1000 + 1001);
    QVERIFY(all["problems"].toArray().isEmpty());
    const CliResult shown = cli_.run({"history", "show", run});
    QVERIFY2(shown.out.contains("6 files, 40002007 bytes, in "), shown.text());
    const CliResult json = cli_.run({"history", "show", run, "--json"});
    QCOMPARE(json.first("run")["artifacts"].toObject()["files"].toInt(), 6);
  }

  // The run ends while nobody follows it.
  void theyAreFetchedLater() {
    QStringList arguments = program(kFiles, 2, kCollect);
    const CliResult launched = cli_.run(arguments << "--detach");
    QVERIFY2(launched.exit == 0, launched.text());
    const QString run = launched.first("started")["run"].toString();
    for (const int node : {1, 2})
      QTRY_VERIFY_WITH_TIMEOUT(
          read(QString("%1/local/%2/runs/%3/local%2/state").arg(cli_.home()).arg(node).arg(run))
              .startsWith("SUCCEEDED"),
          60000);
    const CliResult attached = cli_.run({"attach", run, "--json"});
    QVERIFY2(attached.exit == 0, attached.text());
    QCOMPARE(attached.first("artifacts")["files"].toInt(), 6);
    allAreHere(run);
    // What is here stays; what is not comes again.
    const QString kept = here(run) + "artifacts/local1/ckpt/a.pt";
    struct stat before {
    }, after{};
    QCOMPARE(stat(kept.toUtf8(), &before), 0);
    QVERIFY(QFile::remove(here(run) + "artifacts/local2/ckpt/a.pt"));
    const CliResult again = cli_.run({"artifacts", run});
    QVERIFY2(again.exit == 0 && again.out.contains("6 files, "), again.text());
    allAreHere(run);
    QCOMPARE(stat(kept.toUtf8(), &after), 0);
    QCOMPARE(before.st_ino, after.st_ino);
  }

  void tooMuchIsNotFetched() {
    const CliResult result = cli_.run(program(
        kFiles, 2, "  artifacts: {collect: ['ckpt/*.pt', 'out/**'], max_bytes: 40002006}\n"));
    QVERIFY2(result.exit == 0, result.text());  // the run has succeeded
    const QString run = result.first("started")["run"].toString();
    const QJsonObject failed = result.first("artifacts_failed");
    QVERIFY2(failed["what"].toString().contains("40002007 bytes"), result.text());
    QVERIFY2(failed["why"].toString().contains("ckpt/a.pt on local1 has 20000003"), result.text());
    QVERIFY(filesIn(here(run)).isEmpty());
    const CliResult shown = cli_.run({"history", "show", run});
    QVERIFY2(shown.out.contains("40002007 bytes, more than"), shown.text());
    const CliResult all = cli_.run({"artifacts", run, "--max-bytes", "40002007", "--json"});
    QVERIFY2(all.exit == 0 && all.first("artifacts")["files"].toInt() == 6, all.text());
    allAreHere(run);
  }

  void linksAndNames() {
    const QByteArray outside = cli_.write("outside", "secret").toUtf8();
    QByteArray script = R"(
os.makedirs("out/folder")
for name in ("out/plain", "out/two\nlines", "out/back\\slash", "out/训练", "out/ and spaces ", "out/.hidden", "out/folder/in"):
    open(name, "w").write(name)
open(b"out/\xff\xfe", "w").write("bytes")
os.symlink("plain", "out/inner"); os.symlink("folder", "out/inner-folder")
os.symlink("OUTSIDE", "out/outer"); os.symlink("/etc", "out/etc"); os.symlink("../../..", "out/up")
os.symlink("nowhere", "out/broken"); os.mkfifo("out/pipe")
)";
    script.replace("OUTSIDE", outside);
    const CliResult result =
        cli_.run(program(script, 1, "  artifacts: {collect: ['out/*', out/etc/passwd]}\n"));
    QVERIFY2(result.exit == 0, result.text());
    const QString run = result.first("started")["run"].toString();
    const QString own = here(run) + "artifacts/local1/out/";
    QCOMPARE(read(own + "plain"), QByteArray("out/plain"));
    QCOMPARE(read(own + "two\nlines"), QByteArray("out/two\nlines"));
    QCOMPARE(read(own + "back\\slash"), QByteArray("out/back\\slash"));
    QCOMPARE(read(own + "inner"), QByteArray("out/plain"));
    QCOMPARE(read(own + "folder/in"), QByteArray("out/folder/in"));
    QVERIFY(::access((own.toUtf8() + "\xff\xfe").constData(), F_OK) == 0);
    QVERIFY(!QFile::exists(own + ".hidden"));
    struct stat info {};
    for (const char* absent : {"outer", "etc", "up", "broken", "pipe", "etc/passwd"})
      QVERIFY2(lstat((own + absent).toUtf8(), &info) != 0, absent);
    QByteArray problems;
    for (const auto& one : result.first("artifacts")["problems"].toArray())
      problems += one.toString().toUtf8() + "\n";
    for (const char* told : {"out/outer", "out/etc", "out/up"})
      QVERIFY2(problems.contains(told), problems);
    QCOMPARE(problems.count("leaves the folder of the code"), qsizetype{3});
    QProcess sums;
    sums.setWorkingDirectory(here(run));
    sums.start("sha256sum", {"--check", "--strict", "SHA256SUMS"});
    QVERIFY(sums.waitForFinished(60000));
    QCOMPARE(sums.exitCode(), 0);
  }

  void refusals() {
    const CliResult none = cli_.run(program("print('ran')\n", 1, {}));
    const QString run = none.first("started")["run"].toString();
    const CliResult refused = cli_.run({"artifacts", run});
    QVERIFY2(refused.exit == 3 && refused.err.contains("names no files"), refused.text());
    for (const char* pattern : {"/etc/*", "../*", "a/../../b", "''", "a//b", "./a"}) {
      const CliResult wrong =
          cli_.run(program("", 1, QByteArray("  artifacts: {collect: [ok, ") + pattern + "]}\n"));
      QVERIFY2(wrong.exit == 2 && wrong.out.contains("run.yaml:4:29") &&
                   wrong.out.contains("is not a pattern of files below"),
               wrong.text());
    }
    const CliResult nothing =
        cli_.run(program("print('ran')\n", 1, "  artifacts: {collect: [absent/*]}\n"));
    QCOMPARE(nothing.first("artifacts")["files"].toInt(-1), 0);
  }
};

QTEST_GUILESS_MAIN(CliArtifactsTest)
#include "cli_artifacts_test.moc"
