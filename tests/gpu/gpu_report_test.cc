// What gpu_report writes where no GPU can be used, and of a processor's self-test.
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

namespace {

struct Reported {
  int code = -1;
  QString said, summary;
  QJsonObject report;
};

Reported reported(const QStringList& arguments) {
  const QTemporaryDir folder;
  QProcess program;
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  environment.insert("LOCKSTEP_CUDA_MODULE", folder.filePath("none.so"));
  program.setProcessEnvironment(environment);
  program.start(qEnvironmentVariable("LOCKSTEP_BIN") + "/gpu_report",
                QStringList{"--out", folder.path()} + arguments);
  Reported out;
  if (!program.waitForFinished(100000)) return out;
  out.code = program.exitStatus() == QProcess::NormalExit ? program.exitCode() : -1;
  out.said = QString::fromUtf8(program.readAllStandardOutput());
  QFile report(folder.filePath("report.json")), summary(folder.filePath("summary.md"));
  if (report.open(QIODevice::ReadOnly))
    out.report = QJsonDocument::fromJson(report.readAll()).object();
  if (summary.open(QIODevice::ReadOnly)) out.summary = QString::fromUtf8(summary.readAll());
  return out;
}

}  // namespace

class GpuReportTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void saysPlainlyThatNothingRan() {
    const Reported out = reported({});
    QCOMPARE(out.code, 3);
    QVERIFY2(out.said.startsWith("Nothing was run: no GPU can be used here. Lockstep's CUDA module "
                                 "cannot be used: there is no "),
             qPrintable(out.said));
    QCOMPARE(out.report["ran_on_a_gpu"].toBool(true), false);
    QVERIFY(out.report["parts"].toObject().isEmpty());
    QVERIFY2(out.summary.contains(
                 "**Nothing ran on a GPU.** Why: Lockstep's CUDA module cannot be used"),
             qPrintable(out.summary));
  }

  void aProcessorIsNoGpu() {
    const Reported out = reported({"--device", "cpu", "--only", "selftest"});
    QVERIFY2(out.code == 0, qPrintable(out.said));
    QCOMPARE(out.report["ran_on_a_gpu"].toBool(true), false);
    const QJsonObject selftest = out.report["parts"].toObject()["selftest"].toObject();
    QVERIFY(selftest["ok"].toBool());
    QVERIFY(selftest["kernels"].toArray().size() > 50);
    QVERIFY(selftest["speeds"].toArray().size() == 4 && selftest["steps"].toArray().size() == 1);
    QVERIFY(out.summary.contains("**Nothing ran on a GPU**") &&
            out.summary.contains("| selftest | ok |"));
  }

  void aPartIsEndedAtItsLimit() {
    const Reported out = reported({"--device", "cpu", "--only", "selftest", "--limit", "1"});
    QCOMPARE(out.code, 1);
    QVERIFY2(out.said.contains("selftest: NOT OK: it was ended after 1 s"), qPrintable(out.said));
  }

  void refusesWhatItDoesNotKnow() { QCOMPARE(reported({"--abacus"}).code, 2); }
};

QTEST_GUILESS_MAIN(GpuReportTest)
#include "gpu_report_test.moc"
