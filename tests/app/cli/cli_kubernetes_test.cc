// Runs in the pods of a job in Kubernetes. No cluster is at hand: kubectl is tests/support/kubectl,
// which starts each pod as a real process group of this machine and runs `exec` for real. It is all
// that is not real here; nothing of this was run on a cluster.
#include <signal.h>

#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QTest>

#include "tests/app/cli/cli_runner.h"
#include "tests/app/cli/program_command.h"
#include "tests/support/paths.h"

using namespace lockstep::test;

namespace {

const QString kBundle = QString::fromStdString(buildPath("bundle"));

constexpr const char* kProgram = R"(
import os
for step in range(1, 11):
    print(f"step {step} loss {1 / step:.6f}", flush=True)
names = "RANK", "WORLD_SIZE", "MASTER_ADDR", "JOB_COMPLETION_INDEX"
print("rank", *(os.environ[name] for name in names), flush=True)
)";

}  // namespace

class CliKubernetesTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (!QDir(kBundle).exists()) QSKIP("there is no bundle");
    if (!QFile::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"))
      QSKIP("dataset-fashion-mnist is not installed");
    cli_.useBundle(kBundle);
    QVERIFY(QDir().mkpath(cli_.path("bin")) && QDir().mkpath(state()));
    QVERIFY(QFile::link(QString::fromStdString(sourcePath("tests/support/kubectl")),
                        cli_.path("bin/kubectl")));
    path_ = qgetenv("PATH");
    qputenv("PATH", cli_.path("bin").toUtf8() + ":" + path_);
    qputenv("KUBE_STATE", state().toUtf8());
  }
  // Pods without a job are ended.
  void cleanup() {
    QFile::remove(state() + "/full");
    for (const QString& job : objects("jobs")) QFile::remove(state() + "/jobs/" + job);
    QTRY_VERIFY_WITH_TIMEOUT(objects("pods").isEmpty(), 90000);
    for (const QString& service : objects("services"))
      QFile::remove(state() + "/services/" + service);
  }

  void trains() {
    const CliResult result = run(example("fashion-mlp"), "nodes: 2",
                                 {"--no-benchmark", "--set", "training.max_steps=200"});
    QVERIFY2(result.exit == 0, result.text());
    const auto nodes = result.first("allocated")["nodes"].toArray();
    const QString name = "lockstep-" + QString::number(jobOf(result));
    QCOMPARE(nodes.size(), qsizetype{2});
    QVERIFY2(nodes[0].toString().startsWith(name + "-0-") &&
                 nodes[1].toString().startsWith(name + "-1-"),
             result.text());
    QCOMPARE(result.first("started")["world"].toInt(), 2);
    QCOMPARE(result.last()["steps"].toInt(), 200);
    // The job is deleted with the run, and nothing of its pods stays.
    QVERIFY(objects("jobs").isEmpty() && objects("services").isEmpty());
    QTRY_VERIFY_WITH_TIMEOUT(objects("pods").isEmpty(), 60000);
    const QString run = result.first("started")["run"].toString();
    QTRY_VERIFY_WITH_TIMEOUT(cli_.processes(run).empty(), 60000);
    const CliResult deleted = cli_.run({"history", "delete", run});
    QVERIFY2(deleted.exit == 0 && !deleted.err.contains("may keep"), deleted.text());
  }

  void aProgramRuns() {
    QVERIFY(QDir().mkpath(cli_.path("code")));
    cli_.write("code/train.py", kProgram);
    const QString spec = cli_.write(
        "code/program.yaml", "version: 1\nworkload:\n  command: [/usr/bin/python3, train.py]\n");
    const CliResult result = run(spec, "nodes: 2");
    QVERIFY2(result.exit == 0, result.text());
    QStringList said;
    for (const QJsonObject& line : result.all("output"))
      if (line["text"].toString().startsWith("rank ")) said += line["text"].toString();
    said.sort();
    QCOMPARE(said, QStringList({"rank 0 2 127.0.0.1 0", "rank 1 2 127.0.0.1 1"}));
  }

  // Why pods wait is told; Ctrl-C deletes the job.
  void cancelledWhilePodsWait() {
    QVERIFY(QFile(state() + "/full").open(QIODevice::WriteOnly));
    const auto process =
        cli_.start({"run", example("fashion-mlp"), "--json", "--cluster", cluster("nodes: 2")});
    QByteArray out;
    QTRY_VERIFY2_WITH_TIMEOUT(readUntil(*process, out, "Unschedulable: 0/3 nodes"), out, 30000);
    QVERIFY2(out.contains("\"state\":\"Pending\""), out);
    QCOMPARE(objects("jobs").size(), qsizetype{1});
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = cli_.finish(*process, out);
    QCOMPARE(result.exit, 130);
    QVERIFY(objects("jobs").isEmpty() && objects("services").isEmpty());
  }

  void refused() {
    const CliResult result = run(example("fashion-mlp"), "image: refused");
    QVERIFY2(result.exit == 3, result.text());
    QVERIFY2((result.err + result.out).contains("admission webhook"), result.text());
    QVERIFY(objects("jobs").isEmpty() && objects("services").isEmpty());
    const CliResult other = run(example("fashion-mlp"), "context: other");
    QVERIFY2(other.exit == 3, other.text());
    QVERIFY2((other.err + other.out).contains("does not exist"), other.text());
  }

  void kubectlIsMissing() {
    qputenv("PATH", "/nonexistent");
    const CliResult result = run(example("fashion-mlp"), "nodes: 1");
    qputenv("PATH", cli_.path("bin").toUtf8() + ":" + path_);
    QVERIFY2(result.exit == 3, result.text());
    QVERIFY2((result.err + result.out).contains("install kubectl"), result.text());
  }

  // The end of the grace period after the time limit is not awaited: the run has stopped before.
  void stopsAtTheTimeLimit() {
    const CliResult result =
        run(example("fashion-mlp"), "nodes: 1, time: '1:00', notice_seconds: 60",
            {"--no-benchmark", "--set", "training.epochs=100000"});
    QVERIFY2(result.exit == 3, result.text());
    QVERIFY2(result.first("error")["what"].toString().startsWith("Kubernetes ended job"),
             result.text());
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    QVERIFY(result.last()["steps"].toInt() > 0);
  }

  // An eviction leads to a checkpoint, from which the run continues in another job.
  void continuesAfterAnEviction() {
    const auto process =
        cli_.start({"run", example("fashion-mlp"), "--json", "--every", "1", "--no-benchmark",
                    "--cluster", cluster("nodes: 2, requeue: true, volume_claim: data"), "--set",
                    "training.checkpoint.every_steps=50"});
    QByteArray out;
    QTRY_VERIFY2_WITH_TIMEOUT(readUntil(*process, out, "\"step\":300,"), out, 120000);
    QVERIFY(objects("jobs").size() == 1);
    const QString job = objects("jobs").front().section('.', 0, 0);
    QCOMPARE(QProcess::execute("kubectl", {"evict", job}), 0);
    const CliResult result = cli_.finish(*process, out, 300000);
    QVERIFY2(result.exit == 0, result.text());
    const auto started = result.all("started");
    QCOMPARE(started.size(), qsizetype{2});
    const auto allocated = result.all("allocated");
    QVERIFY(allocated.front()["job"] != allocated.back()["job"]);
    QCOMPARE(result.last()["steps"].toInt(), 9375);
    // Steps before the checkpoint are not trained again.
    qint64 first = 0;
    bool later = false;
    for (const QJsonObject& line : result.events) {
      if (line["event"] == "started") later = line["run"] == started[1]["run"];
      if (later && first == 0 && line["event"] == "step") first = line["step"].toInteger();
    }
    QVERIFY2(first > 50, QByteArray::number(first));
    QVERIFY(objects("jobs").isEmpty());
  }

  // It is started again in another job.
  void aProgramContinuesAfterAnEviction() {
    QVERIFY(QDir().mkpath(cli_.path("saves")) && QDir().mkpath(cli_.path("saved")));
    cli_.write("saves/train.py", countingProgram(250));
    const QString spec = cli_.write(
        "saves/program.yaml", "version: 1\nworkload:\n  command: [/usr/bin/python3, train.py, " +
                                  cli_.path("saved/").toUtf8() + "]\n");
    const auto process = cli_.start({"run", spec, "--json", "--every", "1", "--cluster",
                                     cluster("nodes: 2, requeue: true, volume_claim: data")});
    QByteArray out;
    QTRY_VERIFY2_WITH_TIMEOUT(readUntil(*process, out, "\"step\":50,"), out, 120000);
    QVERIFY(objects("jobs").size() == 1);
    QCOMPARE(QProcess::execute("kubectl", {"evict", objects("jobs").front().section('.', 0, 0)}),
             0);
    const CliResult result = cli_.finish(*process, out, 300000);
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.all("started").size(), qsizetype{2});
    QCOMPARE(result.last()["steps"].toInt(), 250);
    for (const QString rank : {"rank 0 from ", "rank 1 from "}) {
      QList<int> from;
      for (const QJsonObject& line : result.all("output"))
        if (line["text"].toString().startsWith(rank))
          from << line["text"].toString().mid(rank.size()).toInt();
      QVERIFY2(from.size() == 2 && from[0] == 1 && from[1] > 1, result.text());
    }
    QVERIFY(objects("jobs").isEmpty());
  }

  // Nobody waits for the other job: the end of what has run is the last that is told.
  void waitingForAnotherJobIsCancelled() {
    QVERIFY(QDir().mkpath(cli_.path("left")) && QDir().mkpath(cli_.path("leftover")));
    cli_.write("left/train.py", countingProgram(1000));
    const QString spec = cli_.write(
        "left/program.yaml", "version: 1\nworkload:\n  command: [/usr/bin/python3, train.py, " +
                                 cli_.path("leftover/").toUtf8() + "]\n");
    const auto process = cli_.start({"run", spec, "--json", "--every", "1", "--cluster",
                                     cluster("nodes: 2, requeue: true, volume_claim: data")});
    QByteArray out;
    QTRY_VERIFY2_WITH_TIMEOUT(readUntil(*process, out, "\"step\":20,"), out, 120000);
    QCOMPARE(QProcess::execute("kubectl", {"evict", objects("jobs").front().section('.', 0, 0)}),
             0);
    QTRY_VERIFY2_WITH_TIMEOUT(readUntil(*process, out, "\"finished\""), out, 120000);
    QVERIFY(cli_.awaitError(*process, "starts the job again"));
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = cli_.finish(*process, out, 120000);
    QCOMPARE(result.last()["event"].toString(), QString("finished"));
    QVERIFY2(result.exit != 0 && result.exit != -1, result.text());
    QTRY_VERIFY_WITH_TIMEOUT(objects("jobs").isEmpty(), 60000);
  }

  void theObjectsArePrinted() {
    const CliResult printed = cli_.run({"cluster", "script", cluster("nodes: 2")});
    QVERIFY2(printed.exit == 0, printed.text());
    const QJsonObject list = QJsonDocument::fromJson(printed.out).object();
    QCOMPARE(list["kind"].toString(), QString("List"));
    QCOMPARE(list["items"].toArray()[0].toObject()["kind"].toString(), QString("Job"));
    QCOMPARE(list["items"].toArray()[1].toObject()["kind"].toString(), QString("Service"));
    const CliResult check = cli_.run({"cluster", "check", cluster("nodes: 1")});
    QVERIFY2(check.exit == 3 && check.err.contains("Kubernetes has not allocated"), check.text());
  }

 private:
  QString state() const { return cli_.path("cluster"); }
  QStringList objects(const QString& kind) const {
    return QDir(state() + "/" + kind).entryList({"*.json"}, QDir::Files);
  }
  QString cluster(const QString& placement) const {
    const QByteArray image = placement.contains("image:") ? "" : "image: \"debian:12\", ";
    return cli_.write("kubernetes.yaml",
                      "version: 1\nname: k8s\nplacement: {kind: kubernetes, workdir: " +
                          cli_.path("pods").toUtf8() + ", " + image + placement.toUtf8() + "}\n");
  }
  CliResult run(const QString& spec, const QString& placement, const QStringList& more = {}) const {
    return cli_.run(QStringList{"run", spec, "--json", "--cluster", cluster(placement)} + more,
                    240000);
  }
  static qint64 jobOf(const CliResult& result) {
    return result.first("allocated")["job"].toInteger();
  }
  static bool readUntil(QProcess& process, QByteArray& out, const QByteArray& text) {
    process.waitForReadyRead(20);
    out += process.readAllStandardOutput();
    return out.contains(text);
  }

  Cli cli_;
  QByteArray path_;
};

QTEST_GUILESS_MAIN(CliKubernetesTest)
#include "cli_kubernetes_test.moc"
