// A run of a Slurm job, launched from the window and followed over a requeue, with the real Slurm
// over a host of its own. Needs root.
#include <algorithm>

#include "tests/cluster/hosts.h"
#include "tests/cluster/slurm_on_hosts.h"
#include "tests/ui/studio_road.h"

using namespace lockstep;
using tests::wait;

class StudioSlurmTest : public QObject {
  Q_OBJECT

 public:
  // Before there are threads: they all have to be on the studio's host.
  StudioSlurmTest() {
    test::makeKey(folder_ / "id");
    hosts_ = test::Hosts::start(1, folder_.path(), folder_ / "id", &why_,
                                test::SlurmOnHosts::sshdConfig(folder_ / "slurm"), true);
    if (hosts_ && !hosts_->enter()) why_ = "the bridge's namespace cannot be entered";
    if (hosts_ && why_.empty())
      slurm_ = test::SlurmOnHosts::start(*hosts_, 1, folder_ / "slurm", &why_);
  }

 private Q_SLOTS:
  void initTestCase() {
    if (!slurm_) QSKIP(why_.c_str());
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
    if (!QDir(QString::fromStdString(test::buildPath("bundle"))).exists())
      QSKIP("there is no bundle");
    const std::string config = folder_ / "config";
    test::writeText(config, hosts_->sshConfig(folder_ / "known_hosts", folder_ / "id"), 0600);
    test::writeText(folder_ / "slurm.yaml",
                    "version: 1\nname: hpc\nplacement: {kind: slurm, login: n1, nodes: 1, "
                    "requeue: true, workdir: " +
                        folder_ / "shared" + "}\n");
    road_.open(QString::fromStdString(config));
  }
  void cleanupTestCase() {
    road_.close();
    slurm_.reset();
    hosts_.reset();
  }

  // The notice leads to a checkpoint. The page shows the queue, and the run goes on from the
  // checkpoint in a page of its own, until a person stops it: its job ends then.
  void goesOnAfterARequeue() {
    launchAndNotify();
    if (QTest::currentTestFailed()) return;
    ui::RunPage* first = road_.page();
    QCOMPARE(first->document()->row().phase, app::RunState::STOPPED);
    QVERIFY(!first->findChild<QPushButton*>("resumeButton")->isEnabled());
    const auto stoppedAt = first->document()->lastStep();

    QVERIFY2(wait([&] { return road_.window()->currentPage() != first; }), qPrintable(said()));
    auto* second = qobject_cast<ui::RunPage*>(road_.window()->currentPage());
    QVERIFY(second);
    QVERIFY2(said().contains(second->document()->run()), qPrintable(said()));
    QVERIFY2(wait([&] { return second->document()->lastStep() > stoppedAt; }),
             qPrintable(second->message()->details()));
    QCOMPARE(second->document()->row().resumedFrom, first->document()->run().toStdString());
    QVERIFY(second->document()->series("loss")->raw().x(0) > 100);
    QCOMPARE(states(), QStringList{"RUNNING"});

    auto* stop = second->findChild<QPushButton*>("stopButton");
    QVERIFY(wait([&] { return stop->isEnabled(); }));
    stop->click();
    QVERIFY2(wait([&] { return app::isFinal(second->document()->row().phase); }),
             qPrintable(second->message()->details()));
    QCOMPARE(second->document()->row().phase, app::RunState::STOPPED);
    QVERIFY2(wait([&] { return states() == QStringList{"CANCELLED"}; }), slurm_->jobs().c_str());
    QCOMPARE(road_.window()->currentPage(), second);
  }

  void aClosedPageCancelsItsJob() {
    launchAndNotify();
    if (QTest::currentTestFailed()) return;
    auto* tabs = qobject_cast<QTabWidget*>(road_.page()->parentWidget()->parentWidget());
    QVERIFY(tabs);
    Q_EMIT tabs->tabCloseRequested(tabs->indexOf(road_.page()));
    QVERIFY2(wait([&] { return states().last() == "CANCELLED"; }), slurm_->jobs().c_str());
  }

 private:
  // Launches a run that would take long, and sends its job the notice once it trains. At the end
  // its page waits for the next start of the job.
  void launchAndNotify() {
    auto* cluster = qobject_cast<ui::ClusterPage*>(
        road_.window()->openFile(QString::fromStdString(folder_ / "slurm.yaml")));
    QVERIFY(cluster);
    road_.launch("fashion-mlp.yaml", {{"epochs: 5", "epochs: 10000"}}, cluster, 1);
    if (QTest::currentTestFailed()) return;
    QVERIFY2(wait([&] { return road_.page()->document()->lastStep() > 100; }), qPrintable(said()));
    QCOMPARE(states().last(), QString("RUNNING"));
    slurm_->run({"scancel", "--signal=URG", job()});
    QVERIFY2(wait([&] { return said().contains("is PENDING (BeginTime), position 1 in"); }),
             qPrintable(said()));
  }
  QString said() { return road_.page()->message()->details(); }
  // Of all jobs.
  QStringList states() const {
    QStringList out;
    for (const QString& line :
         QString::fromStdString(slurm_->jobs()).split('\n', Qt::SkipEmptyParts))
      out << line.section(' ', 1);
    return out;
  }
  std::string job() const {  // the last
    const QString jobs = QString::fromStdString(slurm_->jobs()).trimmed();
    return jobs.section('\n', -1).section(' ', 0, 0).toStdString();
  }

  test::TempFolder folder_;
  std::string why_;
  std::unique_ptr<test::Hosts> hosts_;  // ends every process on them
  std::unique_ptr<test::SlurmOnHosts> slurm_;
  tests::StudioHome home_;
  tests::StudioRoad road_{home_.home()};
};

int main(int argc, char** argv) {
  StudioSlurmTest test;  // its hosts, before there are threads
  QApplication app(argc, argv);
  QTEST_SET_MAIN_SOURCE_PATH
  return QTest::qExec(&test, argc, argv);
}
#include "studio_slurm_test.moc"
