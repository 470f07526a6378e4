// Runs in the pods of a job in Kubernetes, launched from the window. No cluster is at hand: kubectl
// is tests/support/kubectl, which starts each pod as a real process group of this machine.
#include <QRegularExpression>

#include "tests/ui/studio_road.h"
#include "ui/studio/log_model.h"

using namespace lockstep;
using tests::wait;

namespace {

constexpr const char* kProgram = R"(
import os
for step in range(1, 11):
    print(f"step {step} loss {1 / step:.6f}", flush=True)
names = "RANK", "WORLD_SIZE", "MASTER_ADDR", "JOB_COMPLETION_INDEX"
print("rank", *(os.environ[name] for name in names), flush=True)
)";

void writeFile(const QString& path, const QByteArray& text) {
  QVERIFY(QDir().mkpath(QFileInfo(path).path()));
  QFile file(path);
  QVERIFY(file.open(QIODevice::WriteOnly));
  file.write(text);
}

}  // namespace

class StudioKubernetesTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    path_ = qgetenv("PATH");
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
    if (!QDir(QString::fromStdString(test::buildPath("bundle"))).exists())
      QSKIP("there is no bundle");
    writeFile(home_.path("code/train.py"), kProgram);
    writeFile(program(), "version: 1\nworkload:\n  command: [/usr/bin/python3, train.py]\n");
    QVERIFY(QDir().mkpath(home_.path("bin")) && QDir().mkpath(state()));
    QVERIFY(QFile::link(QString::fromStdString(test::sourcePath("tests/support/kubectl")),
                        home_.path("bin/kubectl")));
    qputenv("PATH", home_.path("bin").toUtf8() + ":" + path_);
    qputenv("KUBE_STATE", state().toUtf8());
    road_.open();
  }
  void cleanupTestCase() {
    road_.close();
    qputenv("PATH", path_);
    qunsetenv("KUBE_STATE");
  }
  // Pods without a job are ended.
  void cleanup() {
    QFile::remove(full());
    for (const QString& job : objects("jobs")) QFile::remove(state() + "/jobs/" + job);
    QVERIFY(wait([&] { return objects("pods").isEmpty(); }));
    for (const QString& service : objects("services"))
      QFile::remove(state() + "/services/" + service);
  }

  // Its ranks are on the pods, and its job is deleted with its end.
  void aProgramRuns() {
    road_.launchFile(program(), cluster("program", "nodes: 2"), 2);
    if (QTest::currentTestFailed()) return;
    ui::RunPage* page = road_.page();
    ui::RunDocument* run = page->document();
    QVERIFY2(wait([&] { return app::isFinal(run->row().phase); }), qPrintable(said()));
    QVERIFY2(run->row().phase == app::RunState::SUCCEEDED, qPrintable(said()));
    QCOMPARE(run->row().figures.steps, 10);
    QCOMPARE(run->row().clusterName, std::string("k8s"));
    const auto nodes = run->nodesOfRanks();
    QCOMPARE(nodes.size(), std::size_t{2});
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      const QRegularExpression pod(QString("^lockstep-\\d+-%1-\\w+$").arg(rank));
      QVERIFY2(pod.match(QString::fromStdString(nodes[rank])).hasMatch(), nodes[rank].c_str());
    }
    for (const char* line : {"rank 0 2 127.0.0.1 0", "rank 1 2 127.0.0.1 1"})
      QVERIFY2(wait([&] { return hasLine(line); }), line);
    QVERIFY(wait([&] { return objects("jobs").isEmpty() && objects("services").isEmpty(); }));
    QVERIFY(wait([&] { return objects("pods").isEmpty(); }));
  }

  // The dialog says why; Cancel deletes the job.
  void cancelledWhilePodsWait() {
    writeFile(full(), {});
    auto* model = qobject_cast<ui::ModelPage*>(road_.window()->openFile(program()));
    QVERIFY(model);
    QPointer<ui::LaunchDialog> dialog =
        road_.window()->openLaunch(model, cluster("waiting", "nodes: 2"));
    QVERIFY(dialog);
    auto* accept = dialog->findChild<QPushButton*>("launchDialogAccept");
    auto* reject = dialog->findChild<QPushButton*>("launchDialogReject");
    QVERIFY(wait([&] { return dialog->ready() && accept->isEnabled(); }));
    QVERIFY2(dialog->command().contains("waiting.yaml"), qPrintable(dialog->command()));
    accept->click();
    const auto* progress = dialog->findChild<QLabel*>("launchProgressText");
    QVERIFY2(
        wait([&] { return progress->text().contains("is Pending (Unschedulable: 0/3 nodes"); }),
        qPrintable(progress->text()));
    QCOMPARE(objects("jobs").size(), qsizetype{1});
    reject->click();
    const auto* message = dialog->findChild<ui::MessagePanel*>();
    QVERIFY(wait([&] { return accept->isEnabled() && !message->details().isEmpty(); }));
    QVERIFY(objects("jobs").isEmpty() && objects("services").isEmpty());
    reject->click();
    QVERIFY(wait([&] { return dialog.isNull(); }));
  }

  void refused() {
    QString refusal;
    road_.tryLaunchFile(program(), cluster("refused", "image: refused"), 1, &refusal);
    if (QTest::currentTestFailed()) return;
    QVERIFY2(refusal.contains("admission webhook"), qPrintable(refusal));
    QVERIFY(objects("jobs").isEmpty() && objects("services").isEmpty());
    QPointer<ui::LaunchDialog> dialog = road_.window()->findChild<ui::LaunchDialog*>();
    QVERIFY(dialog);
    dialog->findChild<QPushButton*>("launchDialogReject")->click();
    QVERIFY(wait([&] { return dialog.isNull(); }));
  }

  // An eviction leads to a checkpoint. The page says what the next job waits for; the run continues
  // there, in a page of its own, until a person stops it.
  void goesOnAfterAnEviction() {
    road_.launch("fashion-mlp.yaml", {{"epochs: 5", "epochs: 10000"}},
                 cluster("requeued", "nodes: 2, requeue: true, volume_claim: data"), 2);
    if (QTest::currentTestFailed()) return;
    ui::RunPage* first = road_.page();
    QVERIFY2(wait([&] { return first->document()->lastStep() > 100; }), qPrintable(said()));
    QCOMPARE(objects("jobs").size(), qsizetype{1});
    const QString evicted = objects("jobs").front();
    writeFile(full(), {});
    QCOMPARE(QProcess::execute("kubectl", {"evict", evicted.section('.', 0, 0)}), 0);
    QVERIFY2(wait([&] { return said().contains("is Pending (Unschedulable: 0/3 nodes"); }),
             qPrintable(said()));
    QCOMPARE(first->document()->row().phase, app::RunState::STOPPED);
    const auto stoppedAt = first->document()->lastStep();

    QVERIFY(QFile::remove(full()));
    QVERIFY2(wait([&] { return road_.window()->currentPage() != first; }), qPrintable(said()));
    auto* second = qobject_cast<ui::RunPage*>(road_.window()->currentPage());
    QVERIFY(second);
    QVERIFY2(wait([&] { return second->document()->lastStep() > stoppedAt; }),
             qPrintable(second->message()->details()));
    QCOMPARE(second->document()->row().resumedFrom, first->document()->run().toStdString());
    QVERIFY(second->document()->series("loss")->raw().x(0) > 100);
    QCOMPARE(objects("jobs").size(), qsizetype{1});
    QVERIFY(objects("jobs").front() != evicted);

    auto* stop = second->findChild<QPushButton*>("stopButton");
    QVERIFY(wait([&] { return stop->isEnabled(); }));
    stop->click();
    QVERIFY2(wait([&] { return app::isFinal(second->document()->row().phase); }),
             qPrintable(second->message()->details()));
    QCOMPARE(second->document()->row().phase, app::RunState::STOPPED);
    QVERIFY(wait([&] { return objects("jobs").isEmpty() && objects("services").isEmpty(); }));
  }

 private:
  QString state() const { return home_.path("cluster"); }
  QString program() const { return home_.path("code/program.yaml"); }
  QString full() const { return state() + "/full"; }  // while it is there, new pods wait
  QStringList objects(const QString& kind) const {
    return QDir(state() + "/" + kind).entryList({"*.json"}, QDir::Files);
  }
  // The page of a cluster whose nodes are pods.
  ui::ClusterPage* cluster(const QString& name, const QByteArray& placement) {
    const QByteArray image = placement.contains("image:") ? "" : "image: \"debian:12\", ";
    const QString file = home_.path(name + ".yaml");
    writeFile(file, "version: 1\nname: k8s\nplacement: {kind: kubernetes, workdir: " +
                        home_.path("pods").toUtf8() + ", " + image + placement + "}\n");
    return qobject_cast<ui::ClusterPage*>(road_.window()->openFile(file));
  }
  QString said() { return road_.page()->message()->details(); }
  bool hasLine(const QString& text) {
    const ui::LogModel& logs = *road_.page()->document()->logs();
    for (int row = 0; row < logs.rowCount(); ++row)
      if (logs.line(row).text == text) return true;
    return false;
  }

  tests::StudioHome home_;
  tests::StudioRoad road_{home_.home()};
  QByteArray path_;
};

QTEST_MAIN(StudioKubernetesTest)
#include "studio_kubernetes_test.moc"
