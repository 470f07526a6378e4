// What the profiler plug-in for NCCL counts, in a program that calls it as NCCL does.
#include <QFile>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <memory>

#include "agent/workload/python_hooks.h"
#include "tests/support/paths.h"

using namespace lockstep;
using agent::PythonHooks;
using Lines = std::vector<std::string>;

class NcclProfilerTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;
  std::unique_ptr<PythonHooks> hooks_;

  std::unique_ptr<QProcess> start(const QString& version, const QProcessEnvironment& environment,
                                  const QString& collectives) {
    auto program = std::make_unique<QProcess>();
    program->setProcessEnvironment(environment);
    program->start(QString::fromStdString(test::buildPath("bin/nccl_program")),
                   {QString::fromStdString(test::buildPath("bin/lib/lockstep-nccl-profiler.so")),
                    version, collectives});
    QByteArray said;
    while (!said.contains("there\n") && program->waitForReadyRead(60000))
      said += program->readAllStandardOutput();
    return said == "there\n" ? std::move(program) : nullptr;
  }
  static bool ends(QProcess& program) {
    program.closeWriteChannel();
    return program.waitForFinished(60000) && program.exitStatus() == QProcess::NormalExit &&
           program.exitCode() == 0;
  }
  QProcessEnvironment environmentOf() const {
    QProcessEnvironment out = QProcessEnvironment::systemEnvironment();
    out.insert("LOCKSTEP_PIPE", QString::fromStdString(hooks_->pipe()));
    return out;
  }
  void make(const QString& name) {
    hooks_.reset();
    hooks_ = std::move(PythonHooks::make((folder_.path() + name).toStdString(), 0, true).value());
  }
  Lines sorted() {
    Lines out = hooks_->takeStacks({});
    std::sort(out.begin(), out.end());
    return out;
  }

 private Q_SLOTS:
  void collectivesAreCounted_data() {
    QTest::addColumn<QString>("version");
    for (const char* version : {"3", "4", "5"}) QTest::newRow(version) << version;
  }
  void collectivesAreCounted() {
    QFETCH(QString, version);
    make("/v" + version);
    const auto program = start(version, environmentOf(), "1000");
    QVERIFY(program);
    const auto told = hooks_->read();
    QCOMPARE(told.sources.size(), std::size_t{1});
    QCOMPARE(told.sources[0].name(), std::string("NCCL"));
    QCOMPARE(told.sources[0].version(), "profiler v" + version.toStdString());
    // Those of a CUDA graph are not among them.
    QCOMPARE(sorted(), (Lines{"Collective 1000 of group nccl/0000000000000001: in AllReduce",
                              "Collective 1000 of group nccl/0000000000000002: after AllReduce",
                              "Collective 1000 of group nccl/0000000000000003: after AllReduce",
                              "Collective 1000 of group nccl/0000000000000004: after AllReduce"}));
    // Another process of the rank does not count.
    const auto second = start(version, environmentOf(), "7");
    QVERIFY(second);
    QCOMPARE(sorted().size(), std::size_t{4});
    QVERIFY(hooks_->read().sources.empty());
    QVERIFY(ends(*second));
    QVERIFY(ends(*program));
    // Nor one that has ended.
    QCOMPARE(sorted(), Lines());
    const auto third = start(version, environmentOf(), "7");
    QVERIFY(third);
    QCOMPARE(sorted().front(),
             std::string("Collective 7 of group nccl/0000000000000001: in ReduceScatter"));
    QVERIFY(ends(*third));
  }

  // The pipe of a process that torchrun has started has the number of that.
  void ranksOfTorchrunAreFound() {
    make("/torchrun");
    QProcessEnvironment environment = environmentOf();
    environment.insert("LOCKSTEP_PIPE", "/nowhere");
    environment.insert("LOCKSTEP_LOCAL_PIPES", QString::fromStdString(hooks_->localPipes()));
    environment.insert("LOCAL_RANK", "0");
    const auto program = start("5", environment, "3");
    QVERIFY(program);
    QCOMPARE(sorted().size(), std::size_t{4});
    QVERIFY(ends(*program));
  }

  // Nobody counts, and nothing fails.
  void withoutLockstep() {
    make("/none");
    QTemporaryDir other;
    QFile small(other.path() + "/pipe.counts");
    QVERIFY(small.open(QIODevice::WriteOnly));
    small.write("12345678");
    small.close();
    for (const QString& pipe :
         {QString(), QString("/nowhere"), QString(5000, 'x'), QString(other.path() + "/pipe")}) {
      QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
      environment.remove("LOCKSTEP_PIPE");
      if (!pipe.isEmpty()) environment.insert("LOCKSTEP_PIPE", pipe);
      const auto program = start("5", environment, "50");
      QVERIFY2(program, qPrintable(pipe));
      QVERIFY(ends(*program));
      QCOMPARE(sorted(), Lines());
    }
  }
};

QTEST_GUILESS_MAIN(NcclProfilerTest)
#include "nccl_profiler_test.moc"
