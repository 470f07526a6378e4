// `lockstep gc` and `lockstep history delete` on real agents: what nodes keep, and what they
// forget.
#include <fcntl.h>
#include <sys/stat.h>

#include <QDir>
#include <QDirIterator>
#include <QFile>
#include <QTest>

#include "tests/app/cli/cli_runner.h"

using namespace lockstep::test;

namespace {

constexpr qint64 kDay = 24 * 3600;

// Sets the times of a file or folder back.
void age(const QString& path, int days) {
  const timespec past{time(nullptr) - days * kDay, 0};
  const timespec times[2] = {past, past};
  if (utimensat(AT_FDCWD, path.toUtf8().constData(), times, AT_SYMLINK_NOFOLLOW) != 0)
    qWarning("cannot change the time of %s", qPrintable(path));
}

// All paths in a folder but logs and sockets of agents.
QStringList pathsIn(const QString& folder) {
  QStringList out;
  QDirIterator entries(folder,
                       QDir::AllEntries | QDir::Hidden | QDir::System | QDir::NoDotAndDotDot,
                       QDirIterator::Subdirectories);
  while (entries.hasNext()) {
    const QString path = entries.next();
    if (!path.contains("agent.log") && !path.contains("/sock/") && !path.contains("-wal") &&
        !path.contains("-shm"))
      out << path;
  }
  out.sort();
  return out;
}

}  // namespace

class CliGcTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() { cli_ = std::make_unique<Cli>(); }
  void cleanup() { cli_.reset(); }

  void aDryRunChangesNothing() {
    const QString cluster = clusterOf({"n1", "n2"});
    const QString run = trained(cluster);
    ageRun("n1", run, 40);
    ageRun("n2", run, 40);
    const QStringList before = pathsIn(workdir("n1")) + pathsIn(workdir("n2"));
    const CliResult dry = gc({cluster, "--older-than", "30", "--dry-run", "--json"});
    QVERIFY2(dry.exit == 0 && dry.onlyJson, dry.text());
    QCOMPARE(itemOf(dry, run).size(), 2);
    for (const QJsonObject& item : itemOf(dry, run)) {
      QVERIFY2(item["removed"].toBool(), dry.text());
      QCOMPARE(item["state"].toString(), QString("succeeded"));
      QCOMPARE(item["history"].toString(), QString("listed"));
      QVERIFY(item["bytes"].toInteger() > 0 && item["idle_seconds"].toInteger() >= 40 * kDay);
    }
    QCOMPARE(dry.first("total")["removed_items"].toInt(), 2);
    QVERIFY(dry.first("total")["dry_run"].toBool());
    QCOMPARE(pathsIn(workdir("n1")) + pathsIn(workdir("n2")), before);
    const CliResult text = gc({cluster, "--older-than", "30", "--dry-run"});
    QVERIFY2(text.out.contains("would be removed") && text.out.contains("n1: would remove 1 of ") &&
                 text.out.contains("all: would remove 2 of "),
             text.text());
    QCOMPARE(pathsIn(workdir("n1")) + pathsIn(workdir("n2")), before);
  }

  // Runs and data go by their age; what is young stays, and the history keeps its entry.
  void oldRunsAndDataAreRemoved() {
    const QString cluster = clusterOf({"n1"});
    const QString old = trained(cluster), young = trained(cluster);
    const QString hash(64, 'a'), other(64, 'b');
    write("n1/data/" + hash + "/old.gz");
    write("n1/data/" + other + "/young.gz");
    age(workdir("n1") + "/data/" + hash + "/old.gz", 12);
    ageRun("n1", old, 12);
    for (const QStringList& limit : {QStringList(), {"--older-than", "30"}}) {
      const CliResult kept = gc(QStringList{cluster, "--json"} + limit);
      QVERIFY2(kept.exit == 0, kept.text());
      QCOMPARE(kept.first("total")["removed_items"].toInt(-1), 0);
    }
    const CliResult removed = gc({cluster, "--json", "--older-than", "10"});
    QVERIFY2(removed.exit == 0, removed.text());
    QVERIFY(!has("n1", old) && has("n1", young));
    QVERIFY(!QFile::exists(workdir("n1") + "/data/" + hash));
    QVERIFY(QFile::exists(workdir("n1") + "/data/" + other + "/young.gz"));
    QVERIFY2(!itemOf(removed, young).first()["removed"].toBool(true), removed.text());
    const CliResult listed = cli_->run({"history", "list", "--json"});
    QCOMPARE(listed.all("run").size(), 2);
    QCOMPARE(gc({cluster, "--older-than", "0"}).exit, 2);
  }

  // A run under way stays, whatever its files' times say, and so does a run whose checkpoint it
  // started from.
  void aRunUnderWayIsNotTouched() {
    const QString cluster = clusterOf({"n1"});
    const QString first = trained(cluster);
    const CliResult second =
        cli_->run({"run", example("fashion-mlp"), "--cluster", cluster, "--no-benchmark",
                   "--resume", first, "--detach", "--json", "--set", "training.epochs=100000"});
    QVERIFY2(second.exit == 0, second.text());
    const QString run = second.first("started")["run"].toString();
    QVERIFY(!run.isEmpty());
    ageRun("n1", first, 100);
    ageRun("n1", run, 100);
    const CliResult kept = gc({cluster, "--json", "--older-than", "1"});
    QVERIFY2(kept.exit == 0, kept.text());
    QCOMPARE(itemOf(kept, run).first()["why"].toString(), QString("the run is under way"));
    QCOMPARE(itemOf(kept, first).first()["why"].toString(),
             "run " + run + " starts from its checkpoint");
    QVERIFY(has("n1", first) && has("n1", run));
    // The user may delete the first one: it goes once the second has ended.
    const CliResult deleted = cli_->run({"history", "delete", first});
    QVERIFY2(deleted.exit == 0 && deleted.err.contains("node n1 may keep its part"),
             deleted.text());
    QVERIFY(has("n1", first));
    QVERIFY(!cli_->workers(run).isEmpty());
    const CliResult killed = cli_->run({"kill", run});
    QVERIFY2(killed.exit == 0, killed.text());
    const CliResult removed = gc({cluster, "--json"});
    QVERIFY2(removed.exit == 0, removed.text());
    // The command that killed the second run may have removed it.
    for (const QJsonObject& item : itemOf(removed, first))
      QVERIFY2(item.isEmpty() || (item["history"] == "deleted" && item["removed"].toBool()),
               removed.text());
    QVERIFY(!has("n1", first) && has("n1", run));
  }

  // A part that has ended stays while another node goes on with the run, also for a history that
  // does not know the run.
  void aRunUnderWayElsewhereStays() {
    const QString cluster = clusterOf({"n1", "n2"});
    const CliResult started =
        cli_->run({"run", example("fashion-mlp"), "--cluster", clusterOf({"n1"}), "--no-benchmark",
                   "--detach", "--json", "--set", "training.epochs=100000", "--set",
                   "training.checkpoint.every_minutes=600"});  // nothing goes while it is copied
    QVERIFY2(started.exit == 0, started.text());
    const QString run = started.first("started")["run"].toString();
    QVERIFY(QDir().mkpath(workdir("n2") + "/runs/" + run));
    const QString part = workdir("n2") + "/runs/" + run + "/n2";
    QCOMPARE(QProcess::execute("cp", {"-r", workdir("n1") + "/runs/" + run + "/n1", part}), 0);
    write("n2/runs/" + run + "/n2/state", "FAILED");
    ageRun("n2", run, 40);
    clusterOf({"n1", "n2"});
    const QStringList elsewhere{"--home", cli_->path("other")};
    const CliResult kept = gc(elsewhere + QStringList{cluster, "--json", "--older-than", "30"});
    QVERIFY2(kept.exit == 0 && QDir(part).exists(), kept.text());
    QCOMPARE(itemOf(kept, run).last()["why"].toString(),
             QString("the run is under way on another node"));
    QVERIFY(cli_->run({"kill", run}).exit == 0);
    const CliResult removed = gc(elsewhere + QStringList{cluster, "--json", "--older-than", "30"});
    QVERIFY2(removed.exit == 0 && !QDir(part).exists() && has("n1", run), removed.text());
  }

  // An unreachable node is reported, and the others are done.
  void anUnreachableNodeIsReported() {
    const QString near = clusterOf({"n1"});
    const QString run = trained(near);
    ageRun("n1", run, 40);
    const QString cluster =
        clusterOf({"n1"}, "  - name: far\n    ssh: {host: 127.0.0.1, port: 1}\n");
    const CliResult removed = gc({cluster, "--json", "--older-than", "30"});
    QVERIFY2(removed.exit == 3 && removed.onlyJson, removed.text());
    QCOMPARE(removed.first("error")["node"].toString(), QString("far"));
    QVERIFY2(!has("n1", run), removed.text());
    const CliResult chosen = gc({cluster, "--node", "n1"});
    QVERIFY2(chosen.exit == 0, chosen.text());
    const CliResult unknown = gc({cluster, "--node", "n7"});
    QVERIFY2(unknown.exit == 2 && unknown.err.contains("the cluster has no node n7"),
             unknown.text());
  }

  // Nodes that share a workdir are counted once.
  void twoNodesShareAWorkdir() {
    const QString shared = workdir("n1").toUtf8();
    const QString cluster = clusterOf({"n1"}, "  - name: n2\n    workdir: " + shared + "\n");
    const QString run = trained(cluster);
    QVERIFY(QDir(workdir("n1") + "/runs/" + run + "/n2").exists());
    for (const char* node : {"n1", "n2"})
      age(workdir("n1") + "/runs/" + run + "/" + node + "/state", 40);
    const CliResult removed = gc({cluster, "--json", "--older-than", "30"});
    QVERIFY2(removed.exit == 0 && removed.err.contains("node n2 has the workdir of node n1"),
             removed.text());
    QCOMPARE(itemOf(removed, run).size(), 2);
    QCOMPARE(removed.all("node").size(), 1);
    QCOMPARE(removed.first("total")["removed_items"].toInt(), 2);
    QVERIFY(!has("n1", run));
  }

  // A run of another history is marked, and goes by its age only; a run whose end the history has
  // not recorded stays.
  void runsOfOtherHistoriesAreMarked() {
    const QString cluster = clusterOf({"n1"});
    const QString run = trained(cluster);
    const QStringList elsewhere{"--home", cli_->path("other")};
    const CliResult kept = gc(elsewhere + QStringList{cluster, "--json"});
    QVERIFY2(kept.exit == 0, kept.text());
    QCOMPARE(itemOf(kept, run).first()["history"].toString(), QString("not listed"));
    QVERIFY(has("n1", run));
    ageRun("n1", run, 3);
    const CliResult removed = gc(elsewhere + QStringList{cluster, "--json", "--older-than", "2"});
    QVERIFY2(removed.exit == 0 && itemOf(removed, run).first()["removed"].toBool(), removed.text());
    QVERIFY(!has("n1", run));
    QVERIFY(!QFile::exists(cli_->path("other/history")));
  }

  // A run that was deleted while its node was away: a dry run says so, gc removes it.
  void aDeletedRunIsRemovedLater() {
    const QString cluster = clusterOf({"n1"});
    const QString run = trained(cluster);
    QVERIFY(cli_->leave());
    QVERIFY(QDir().rename(workdir("n1"), cli_->path("away")));
    QVERIFY(QFile(workdir("n1")).open(QFile::WriteOnly));
    const CliResult deleted = cli_->run({"history", "delete", run});
    QVERIFY2(deleted.exit == 0 && deleted.err.contains("node n1 may keep its part"),
             deleted.text());
    QVERIFY(QFile::remove(workdir("n1")) && QDir().rename(cli_->path("away"), workdir("n1")));
    const CliResult dry = gc({cluster, "--dry-run", "--json"});
    QVERIFY2(dry.exit == 0, dry.text());
    QCOMPARE(itemOf(dry, run).first()["history"].toString(), QString("deleted"));
    QVERIFY(itemOf(dry, run).first()["removed"].toBool() && has("n1", run));
    const CliResult removed = gc({cluster, "--json"});
    QVERIFY2(removed.exit == 0 && itemOf(removed, run).first()["removed"].toBool(), removed.text());
    QVERIFY(!has("n1", run));
  }

  // With a run its checkpoints go from all nodes, those of other ranks included; keys are on no
  // disk. What is outside of the workdirs stays, which is said.
  void aDeletedRunLeavesNothing() {
    const QString cluster = clusterOf({"n1", "n2"});
    const QString run =
        trained(cluster, {"--set", "strategy.kind=zero-1", "--set", "training.checkpoint.copies=1",
                          "--set", "training.checkpoint.every_steps=10"});
    QVERIFY(has("n1", run) && has("n2", run));
    for (const char* node : {"n1", "n2"})
      QCOMPARE(QProcess::execute("grep", {"-rqs", "PRIVATE KEY", workdir(node)}), 1);
    const CliResult deleted = cli_->run({"history", "delete", run});
    QVERIFY2(deleted.exit == 0 && !deleted.err.contains("may keep"), deleted.text());
    QVERIFY(!deleted.err.contains("checkpoints in"));
    for (const char* node : {"n1", "n2"})
      QVERIFY2(pathsIn(workdir(node)).filter(run).isEmpty(),
               qPrintable(pathsIn(workdir(node)).filter(run).join("\n")));

    const QString shared = cli_->path("shared");
    const QString kept = trained(cluster, {"--set", "training.checkpoint.path=" + shared});
    QVERIFY(QDir(shared + "/" + kept).exists());
    const CliResult told = cli_->run({"history", "delete", kept});
    QVERIFY2(told.exit == 0 && told.err.contains("note: the checkpoints in " + shared.toUtf8() +
                                                 "/" + kept.toUtf8() + " stay\n"),
             told.text());
    QVERIFY(QDir(shared + "/" + kept).exists() && !has("n1", kept));
  }

 private:
  QString workdir(const QString& node) const { return cli_->home() + "/local/" + node; }
  bool has(const QString& node, const QString& run) const {
    return QDir(workdir(node) + "/runs/" + run).exists();
  }
  QString clusterOf(const QStringList& nodes, const QString& more = {}) const {
    QString text = "version: 1\nname: c\nnodes:\n";
    for (const QString& node : nodes)
      text += "  - name: " + node + "\n    workdir: " + workdir(node) + "\n";
    return cli_->write("cluster.yaml", (text + more).toUtf8());
  }
  QString trained(const QString& cluster, const QStringList& more = {}) const {
    const CliResult result =
        cli_->run(QStringList{"run", example("fashion-mlp"), "--json", "--cluster", cluster,
                              "--no-benchmark", "--set", "training.max_steps=20"} +
                  more);
    if (result.exit != 0) qWarning("%s", result.text().constData());
    return result.first("started")["run"].toString();
  }
  CliResult gc(const QStringList& arguments) const {
    return cli_->run(QStringList{"gc"} + arguments);
  }
  void ageRun(const QString& node, const QString& run, int days) const {
    age(workdir(node) + "/runs/" + run + "/" + node + "/state", days);
  }
  void write(const QString& path, const QByteArray& text = "data") const {
    const QString whole = cli_->home() + "/local/" + path;
    QDir().mkpath(QFileInfo(whole).path());
    QFile file(whole);
    QVERIFY(file.open(QFile::WriteOnly) && file.write(text) == text.size());
  }
  static QList<QJsonObject> itemOf(const CliResult& result, const QString& run) {
    QList<QJsonObject> out;
    for (const QJsonObject& item : result.all("item"))
      if (item["run"].toString() == run) out << item;
    if (out.isEmpty()) qWarning("%s", result.text().constData());
    return out.isEmpty() ? QList<QJsonObject>{QJsonObject()} : out;
  }

  std::unique_ptr<Cli> cli_;
};

QTEST_GUILESS_MAIN(CliGcTest)
#include "cli_gc_test.moc"
