// Runs on nodes that Slurm allocates, with the real Slurm over hosts of their own: from a login
// node over SSH and from the login node itself.
#include <signal.h>

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QTest>
#include <algorithm>
#include <functional>

#include "tests/app/cli/cli_runner.h"
#include "tests/app/cli/program_command.h"
#include "tests/cluster/hosts.h"
#include "tests/cluster/slurm_on_hosts.h"
#include "tests/support/paths.h"

using namespace lockstep::test;

namespace {

constexpr const char* kMinutes = "LOCKSTEP_SLURM_MINUTES";
constexpr int kHosts = 2;
const QString kBundle = QString::fromStdString(buildPath("bundle"));

// Ranks meet at rank 0, and each says who it is.
constexpr const char* kProgram = R"(
import os, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(place)
    peers = [server.accept()[0] for _ in range(world - 1)]
    for step in range(1, 11):
        for peer in peers:
            peer.sendall(b"x")
            assert peer.recv(1) == b"x"
        print(f"step {step} loss {1 / step:.6f}", flush=True)
    for peer in peers:
        peer.sendall(b".")
else:
    for _ in range(300):
        try:
            peer = socket.create_connection(place, 5)
            break
        except OSError:
            time.sleep(0.05)
    peer.settimeout(None)
    while peer.recv(1) == b"x":
        peer.sendall(b"x")
print("rank", rank, "of", world, "on", socket.gethostname(), "job", os.environ["SLURM_JOB_ID"], flush=True)
)";

}  // namespace

class ClusterSlurmTest : public QObject {
  Q_OBJECT

 public:
  // Before there are threads: they all have to be on the studio's host.
  ClusterSlurmTest() {
    makeKey(folder_ / "id");
    hosts_ = Hosts::start(kHosts, folder_.path(), folder_ / "id", &why_,
                          SlurmOnHosts::sshdConfig(folder_ / "slurm"), true);
    if (hosts_ && !hosts_->enter()) why_ = "the bridge's namespace cannot be entered";
    if (hosts_ && why_.empty())
      slurm_ = SlurmOnHosts::start(*hosts_, kHosts, folder_ / "slurm", &why_);
  }

 private Q_SLOTS:
  void initTestCase() {
    if (!slurm_) QSKIP(why_.c_str());
    if (!QDir(kBundle).exists()) QSKIP("there is no bundle");
    if (!QFile::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"))
      QSKIP("dataset-fashion-mnist is not installed");
    cli_.useBundle(kBundle);
    writeText(folder_ / "config", hosts_->sshConfig(folder_ / "known_hosts", folder_ / "id"), 0600);
  }
  void cleanup() {
    if (slurm_) slurm_->run({"scancel", "--full", "--user=root"});
    if (slurm_) QVERIFY(waitFor([&] { return active().empty(); }));
  }
  void cleanupTestCase() {
    slurm_.reset();
    hosts_.reset();
  }

  void trains_data() {
    QTest::addColumn<QString>("login");
    QTest::newRow("over a login node") << "login: n1, ";
    QTest::newRow("on the login node") << "";
  }
  void trains() {
    QFETCH(QString, login);
    const CliResult result =
        lockstep({"run", example("fashion-mlp"), "--json", "--no-benchmark", "--cluster",
                  cluster(login + "nodes: 2"), "--set", "training.max_steps=200"});
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(nodesOf(result), QStringList({"n1", "n2"}));
    QCOMPARE(result.first("started")["world"].toInt(), 2);
    QCOMPARE(result.last()["steps"].toInt(), 200);
    // The job has ended with the run, and no other did.
    const int job = result.first("allocated")["job"].toInt();
    QVERIFY(waitFor([&] { return active().empty(); }));
    QVERIFY2(slurm_->jobs().find(std::to_string(job) + " CANCELLED") != std::string::npos,
             slurm_->jobs().c_str());
    QVERIFY(
        waitFor([&] { return cli_.processes(result.first("started")["run"].toString()).empty(); }));
    // What it left is on the shared folder, and is removed over the login node.
    const QString run = result.first("started")["run"].toString();
    const CliResult again = lockstep({"attach", run, "--json"});
    QVERIFY2(again.exit == 0, again.text());
    const CliResult gone = lockstep({"history", "delete", run});
    QVERIFY2(gone.exit == 0, gone.text());
    QVERIFY2(!gone.err.contains("may still have"), gone.text());
  }

  void aProgramRuns() {
    cli_.write("train.py", kProgram);
    const QString spec = cli_.write(
        "program.yaml", "version: 1\nworkload:\n  command: [/usr/bin/python3, train.py]\n");
    const CliResult result =
        lockstep({"run", spec, "--json", "--cluster", cluster("login: n1, nodes: 2")});
    QVERIFY2(result.exit == 0, result.text());
    const QByteArray job = QByteArray::number(result.first("allocated")["job"].toInt());
    QStringList said;
    for (const QJsonObject& line : result.all("output"))
      if (line["text"].toString().startsWith("rank ")) said += line["text"].toString();
    said.sort();
    QCOMPARE(said, QStringList({"rank 0 of 2 on n1 job " + job, "rank 1 of 2 on n2 job " + job}));
  }

  // Of which srun has started one on each node: the agent.
  void ranksAreTasks() {
    QVERIFY(QDir().mkpath(cli_.path("tasks")));
    cli_.write("tasks/tasks.py",
               "import os\n"
               "print('task', *[os.environ['SLURM_' + name] for name in ('PROCID', 'LOCALID', "
               "'NODEID', 'NTASKS', 'TASKS_PER_NODE')])\n");
    const QString spec = cli_.write("tasks/run.yaml",
                                    "version: 1\nworkload:\n  command: [/usr/bin/python3, "
                                    "tasks.py]\n  ranks_per_node: 2\n");
    const CliResult result =
        lockstep({"run", spec, "--json", "--cluster", cluster("login: n1, nodes: 2")});
    QVERIFY2(result.exit == 0, result.text());
    QStringList said;
    for (const QJsonObject& line : result.all("output"))
      if (line["text"].toString().startsWith("task ")) said += line["text"].toString();
    said.sort();
    QCOMPARE(said, QStringList({"task 0 0 0 4 2(x2)", "task 1 1 0 4 2(x2)", "task 2 0 1 4 2(x2)",
                                "task 3 1 1 4 2(x2)"}));
  }

  void cancelledWhileQueued() {
    occupy();
    const auto process = start(
        {"run", example("fashion-mlp"), "--json", "--cluster", cluster("login: n1, nodes: 2")});
    QByteArray out;
    QVERIFY2(cli_.awaitEvent(*process, "queued", out), out);
    QVERIFY(waitFor([&] {
      process->waitForReadyRead(20);
      out += process->readAllStandardOutput();
      return out.contains("\"position\":1") && out.contains("\"reason\":\"Resources\"");
    }));
    QCOMPARE(jobLeases(), 1);
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    const CliResult result = cli_.finish(*process, out);
    QCOMPARE(result.exit, 130);
    QCOMPARE(jobLeases(), 0);
    const int job = result.first("queued")["job"].toInt();
    QVERIFY2(slurm_->jobs().find(std::to_string(job) + " CANCELLED") != std::string::npos,
             slurm_->jobs().c_str());
    QCOMPARE(active().size(), std::size_t{1});  // the other's
  }

  void refusedBySlurm() {
    const CliResult result = lockstep({"run", example("fashion-mlp"), "--json", "--cluster",
                                       cluster("login: n1, partition: none")});
    QVERIFY2(result.exit == 3, result.text());
    const QByteArray text = result.err + result.out;
    QVERIFY2(text.contains("sbatch") && text.contains("invalid partition"), result.text());
  }

  void cancelledWhileQueuedByAnAdministrator() {
    occupy();
    const auto process = start(
        {"run", example("fashion-mlp"), "--json", "--cluster", cluster("login: n1, nodes: 2")});
    QByteArray out;
    QVERIFY2(cli_.awaitEvent(*process, "queued", out), out);
    slurm_->run({"scancel", "--state=PENDING", "--user=root"});
    const CliResult result = cli_.finish(*process, out);
    QVERIFY2(result.exit == 3, result.text());
    QVERIFY2(result.out.contains("CANCELLED"), result.text());
  }

  void cancelledWhileTraining() {
    const auto process =
        start({"run", example("fashion-mlp"), "--json", "--no-benchmark", "--cluster",
               cluster("login: n1, nodes: 2"), "--set", "training.epochs=1000"});
    QByteArray out;
    QVERIFY2(cli_.awaitEvent(*process, "step", out), out);
    slurm_->run({"scancel", "--user=root"});
    const CliResult result = cli_.finish(*process, out);
    QVERIFY2(result.exit == 3, result.text());
    QVERIFY2(result.first("error")["what"].toString().startsWith("Slurm ended job"), result.text());
    QVERIFY(result.last()["status"] == "stopped" || result.last()["status"] == "failed");
    QVERIFY(waitFor([&] { return active().empty(); }));
  }

  // Takes minutes, in which Slurm counts time limits.
  void stopsBeforeTheTimeLimit() {
    if (!qEnvironmentVariableIsSet(kMinutes)) QSKIP("run with LOCKSTEP_SLURM_MINUTES=1");
    const CliResult result =
        lockstep({"run", example("fashion-mlp"), "--json", "--no-benchmark", "--cluster",
                  cluster("login: n1, nodes: 2, time: 2, notice_seconds: 60"), "--set",
                  "training.epochs=100000"});
    QVERIFY2(result.exit == 3, result.text());
    QVERIFY2(result.first("error")["what"].toString().startsWith("Slurm ended job"), result.text());
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    QVERIFY(result.last()["steps"].toInt() > 0);
  }

  // The notice of the time limit leads to a checkpoint, from which the requeued job continues.
  void continuesAfterTheNotice() {
    continuesAfter([&](const std::string& job) { slurm_->run({"scancel", "--signal=URG", job}); });
  }
  // It is started again, and counts on from what it has saved.
  void aProgramContinuesAfterTheNotice() {
    QVERIFY(QDir().mkpath(cli_.path("saves")));
    cli_.write("saves/saves.py", countingProgram(400));
    const QString spec = cli_.write(
        "saves/run.yaml", "version: 1\nworkload:\n  command: [/usr/bin/python3, saves.py, " +
                              QByteArray::fromStdString(folder_ / "saved-") + "]\n");
    const auto process = start({"run", spec, "--json", "--every", "1", "--cluster",
                                cluster("login: n1, nodes: 2, requeue: true")});
    QByteArray out;
    QVERIFY(waitFor([&] {
      process->waitForReadyRead(20);
      out += process->readAllStandardOutput();
      return out.contains("\"step\":50,");
    }));
    slurm_->run({"scancel", "--signal=URG", std::to_string(jobOf(out))});
    const CliResult result = cli_.finish(*process, out, 300000);
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.all("started").size(), qsizetype{2});
    QCOMPARE(result.all("allocated").back()["restarts"].toInt(), 1);
    QCOMPARE(result.last()["steps"].toInt(), 400);
    QList<int> from;
    for (const QJsonObject& line : result.all("output"))
      if (line["text"].toString().startsWith("rank "))
        from << line["text"].toString().section(' ', 3).toInt();
    std::sort(from.begin(), from.end());
    QVERIFY2(from.size() == 4 && from[1] == 1 && from[2] > 1, result.text());
  }
  void continuesAfterAPreemption() {
    continuesAfter([&](const std::string&) { occupy("urgent", "5"); });
  }

  void aNodeIsNotReachedBeforeItsJob() {
    const CliResult result = lockstep({"cluster", "check", cluster("login: n1, nodes: 1")});
    QVERIFY(result.exit == 3);
    QVERIFY2(result.err.contains("has not allocated this node yet"), result.text());
    const CliResult script = lockstep({"cluster", "script", cluster("login: n1, nodes: 1")});
    QVERIFY2(script.exit == 0 && script.out.startsWith("#!/bin/sh"), script.text());
  }

 private:
  void continuesAfter(const std::function<void(const std::string& job)>& interrupt) {
    const auto process = start({"run", example("fashion-mlp"), "--json", "--every", "1",
                                "--no-benchmark", "--cluster", cluster("login: n1, nodes: 2"),
                                "--requeue", "--set", "training.checkpoint.every_steps=50"});
    QByteArray out;
    QVERIFY(waitFor([&] {
      process->waitForReadyRead(20);
      out += process->readAllStandardOutput();
      return out.contains("\"step\":300,");
    }));
    const std::string job = std::to_string(jobOf(out));
    interrupt(job);
    const CliResult result = cli_.finish(*process, out, 300000);
    QVERIFY2(result.exit == 0, result.text());
    const auto started = result.all("started");
    QCOMPARE(started.size(), qsizetype{2});
    QCOMPARE(result.all("allocated").back()["restarts"].toInt(), 1);
    QCOMPARE(result.last()["steps"].toInt(), 9375);
    // Steps before the checkpoint are not trained again.
    qint64 first = 0;
    bool later = false;
    for (const QJsonObject& line : result.events) {
      if (line["event"] == "started") later = line["run"] == started[1]["run"];
      if (later && first == 0 && line["event"] == "step") first = line["step"].toInteger();
    }
    QVERIFY2(first > 50, QByteArray::number(first));
  }

  QString cluster(const QString& placement) const {
    return cli_.write("slurm.yaml", "version: 1\nname: hpc\nplacement: {kind: slurm, workdir: " +
                                        QByteArray::fromStdString(folder_ / "shared") + ", " +
                                        placement.toUtf8() + "}\n");
  }
  QStringList withConfig(const QStringList& arguments) const {
    return QStringList{"--ssh-config", QString::fromStdString(folder_ / "config")} + arguments;
  }
  CliResult lockstep(const QStringList& arguments) const {
    return cli_.run(withConfig(arguments), 180000);
  }
  std::unique_ptr<QProcess> start(const QStringList& arguments) const {
    return cli_.start(withConfig(arguments));
  }
  static QStringList nodesOf(const CliResult& result) {
    QStringList out;
    for (const auto& node : result.first("allocated")["nodes"].toArray()) out += node.toString();
    return out;
  }
  static int jobOf(const QByteArray& out) {
    const auto at = out.indexOf("\"job\":");
    return out.mid(at + 6, 10).split(',')[0].toInt();
  }
  // Another job on all hosts.
  void occupy(const std::string& partition = "all", const std::string& seconds = "600") {
    QCOMPARE(slurm_->run({"sbatch", "--output=/dev/null", "--nodes=" + std::to_string(kHosts),
                          "--exclusive", "--partition=" + partition, "--wrap", "sleep " + seconds}),
             0);
    if (partition == "all")
      QVERIFY(waitFor([&] { return slurm_->jobs().find(" RUNNING") != std::string::npos; }));
  }
  // Of jobs on versions of the agent.
  int jobLeases() const {
    int count = 0;
    for (const auto& version : QDir(QString::fromStdString(folder_ / "shared/versions"))
                                   .entryInfoList(QDir::Dirs | QDir::NoDotAndDotDot))
      count += QDir(version.filePath() + "/leases").entryList({"slurm-*"}, QDir::Files).size();
    return count;
  }
  // The jobs that Slurm has not ended.
  std::vector<std::string> active() const {
    std::vector<std::string> out;
    for (const QString& line : QString::fromStdString(slurm_->jobs()).split('\n'))
      for (const char* state : {" RUNNING", " PENDING", " COMPLETING", " CONFIGURING"})
        if (line.endsWith(state)) out.push_back(line.toStdString());
    return out;
  }

  TempFolder folder_;
  std::string why_;
  Cli cli_;
  std::unique_ptr<Hosts> hosts_;
  std::unique_ptr<SlurmOnHosts> slurm_;
};

int main(int argc, char** argv) {
  ClusterSlurmTest test;  // its hosts, before there are threads
  QCoreApplication app(argc, argv);
  QTEST_SET_MAIN_SOURCE_PATH
  return QTest::qExec(&test, argc, argv);
}
#include "cluster_slurm_test.moc"
