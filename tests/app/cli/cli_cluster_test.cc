// Clusters put together on the command line, as the studio does it.
#include <signal.h>

#include <QFile>
#include <QTest>

#include "tests/app/cli/cli_runner.h"
#include "tests/support/paths.h"

using namespace lockstep::test;

class CliClusterTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void hostsAreListed() {
    const Cli cli;
    const QString config = cli.write("config", "Host n1 *.lab\n  Port 22\nHost n2\n");
    const CliResult text = cli.run({"cluster", "hosts", "--ssh-config", config});
    QVERIFY2(text.exit == 0 && text.out == "n1\nn2\n", text.text());
    const CliResult json = cli.run({"cluster", "hosts", "--json", "--ssh-config", config});
    QVERIFY2(json.onlyJson && json.all("host").size() == 2, json.text());
    QCOMPARE(json.last()["host"].toString(), QString("n2"));
    QCOMPARE(cli.run({"cluster", "hosts", "--ssh-config", cli.path("absent")}).out, QByteArray());
  }

  void clustersOfOtherToolsAreImported() {
    const Cli cli;
    const QString hosts = cli.write("mpi.hosts", "# ours\nn1 slots=2\nn2 slots=4\n");
    const CliResult printed = cli.run({"cluster", "import", hosts});
    QVERIFY2(printed.exit == 0 && printed.out.contains("name: mpi") && printed.out.contains("n2"),
             printed.text());
    const QString made = cli.path("lab.yaml");
    const CliResult kept =
        cli.run({"cluster", "import", hosts, "--name", "lab", "--to", made, "--json"});
    QVERIFY2(kept.exit == 0 && kept.onlyJson, kept.text());
    QCOMPARE(kept.first("imported")["cluster"].toString().toUtf8(), bytes(made));
    QVERIFY2(bytes(made).contains("name: lab") && bytes(made).contains("count: 4"), bytes(made));
    const CliResult again = cli.run({"cluster", "import", hosts, "--to", made});
    QVERIFY2(again.exit == 2 && again.err.contains("exists already"), again.text());
    const QString tensorflow =
        cli.write("tf.json", "{\"cluster\": {\"worker\": [\"b:2222\", \"c:2222\"]}}");
    const CliResult tf = cli.run({"cluster", "import", tensorflow});
    QVERIFY2(tf.exit == 0 && tf.out.contains("worker") && tf.out.contains("c"), tf.text());
    const QString wrong = cli.write("wrong.hosts", "n1\nn2 slots=x\n");
    const CliResult refused = cli.run({"cluster", "import", wrong});
    QVERIFY2(refused.exit == 2 && refused.err.contains("hostfile:2"), refused.text());
  }

  void stdinIsImported() {
    const Cli cli;
    QProcess process;
    process.setStandardInputFile(cli.write("hosts", "n1 slots=2\n"));
    process.start(QString::fromStdString(buildPath("bin/lockstep")),
                  {"--home", cli.home(), "cluster", "import", "-", "--name", "piped"});
    const CliResult done = cli.finish(process, {});
    QVERIFY2(done.exit == 0 && done.out.contains("name: piped"), done.text());
  }

  // What `cluster add` writes is a cluster that can be planned on.
  void nodesAreAddedAndRemoved() {
    const Cli cli;
    const QString file = cli.path("lab.yaml");
    const CliResult added = cli.run({"cluster", "add", file, "ann@n1.lab", "n2.lab", "10.0.0.3",
                                     "--ranks", "2", "--port", "2201", "--json"});
    QVERIFY2(added.exit == 0 && added.onlyJson && added.all("added").size() == 3, added.text());
    QCOMPARE(added.last()["node"].toString(), QString("10.0.0.3"));
    QCOMPARE(cli.run({"cluster", "add", file, "--name", "here"}).out,
             "added here: " + file.toUtf8() + "\n");
    const CliResult plan = cli.run({"plan", "fashion-mlp", "--cluster", file, "--json"});
    QVERIFY2(plan.exit == 0, plan.text());
    const auto mine = QFile::ReadOwner | QFile::WriteOwner;
    QVERIFY(QFile::setPermissions(file, mine));
    const QByteArray before = bytes(file);
    for (const auto& [arguments, why] :
         {std::pair{QStringList{"add", file, "n2.lab"}, "already has a node n2"},
          {QStringList{"add", file, "n4", "n5", "--name", "x"}, "--name is of one host"},
          {QStringList{"add", file}, "HOST is missing"},
          {QStringList{"add", file, "n4.lab:2222"}, "as --port"},
          {QStringList{"add", file, "--name", "n4", "--user", "ann"}, "--user is of a HOST"},
          {QStringList{"add", cli.path("n4"), "n5"}, "there is no file"},
          {QStringList{"add", file, "n4", "--device", "tpu"}, "cpu or cuda"},
          {QStringList{"add", file, "n4", "--ranks", "0"}, "--ranks"},
          {QStringList{"remove", file, "n1", "n9"}, "no node \"n9\""}}) {
      const CliResult refused = cli.run(QStringList{"cluster"} + arguments);
      QVERIFY2(refused.exit == 2 && refused.err.contains(why), refused.text());
      QCOMPARE(bytes(file), before);
    }
    const CliResult removed = cli.run({"cluster", "remove", file, "n1", "here"});
    QVERIFY2(removed.exit == 0 && removed.out.contains("removed n1"), removed.text());
    QVERIFY2(!bytes(file).contains("n1.lab") && bytes(file).contains("n2.lab"), bytes(file));
    QVERIFY(!(QFile::permissions(file) & (QFile::ReadGroup | QFile::ReadOther)));
  }

  void fieldsAreSet() {
    const Cli cli;
    const QString file = cli.write("lab.yaml",
                                   "version: 1\nname: lab  # ours\nnodes:\n"
                                   "  - {name: n1, ssh: {host: n1.lab}}\n"
                                   "  - {name: \"m[1-3]\", ssh: {host: \"m[1-3].lab\"}}\n");
    const CliResult set = cli.run({"cluster", "set", file, "n1", "ssh.user=ann", "address=10.0.0.2",
                                   "devices=[{kind: cuda, count: 8}]", "--json"});
    QVERIFY2(set.exit == 0 && set.onlyJson && set.last()["node"] == "n1", set.text());
    QCOMPARE(cli.run({"cluster", "set", file, "name=lab2"}).out,
             "changed cluster: " + file.toUtf8() + "\n");
    QCOMPARE(cli.run({"cluster", "set", file, "m[1-3]", "workdir=/scratch/a=b"}).exit, 0);
    QCOMPARE(cli.run({"cluster", "set", file, "n1", "address="}).exit, 0);
    const QByteArray text = bytes(file);
    QVERIFY2(text.contains("name: lab2  # ours") && text.contains("user: ann") &&
                 text.contains("count: 8") && text.contains("/scratch/a=b") &&
                 !text.contains("10.0.0.2"),
             text);
    for (const auto& [arguments, why] : {std::pair{QStringList{"n1", "adress=10.0.0.2"}, "adress"},
                                         {QStringList{"n1", "ssh.port=-1"}, "ssh.port"},
                                         {QStringList{"n1", "name=m2"}, "m2"},
                                         {QStringList{"n1"}, "FIELD=VALUE is missing"},
                                         {QStringList{}, "FIELD=VALUE is missing"},
                                         {QStringList{"n1", "address"}, "instead of 'address'"},
                                         {QStringList{"n1", "=x"}, "instead of '=x'"},
                                         {QStringList{"n9", "address=x"}, "no node \"n9\""},
                                         {QStringList{"m2", "address=x"}, "m2 is one of m[1-3]"}}) {
      const CliResult refused = cli.run(QStringList{"cluster", "set", file} + arguments);
      QVERIFY2(refused.exit == 2 && refused.err.contains(why), refused.text());
      QCOMPARE(bytes(file), text);
    }
    QVERIFY(cli.run({"cluster", "set", cli.path("none.yaml"), "name=x"}).exit != 0);
    QVERIFY(!QFile::exists(cli.path("none.yaml")));
  }

  // Both nodes are this machine.
  void aPreflightTellsLinksAndVersions() {
    const Cli cli;
    const QStringList command{"cluster", "preflight", "--local", "2", "--seconds", "0.05"};
    const CliResult json = cli.run(command + QStringList{"--json"});
    QVERIFY2((json.exit == 0 || json.exit == 1) && json.onlyJson, json.text());
    QStringList kernels;
    for (const QJsonObject& version : json.all("preflight_version")) {
      if (version["kind"] == "kernel") kernels << version["version"].toString();
      if (version["kind"] == "kernel" || version["kind"] == "agent")
        QVERIFY2(version["grade"] == "same" && !version.contains("text"), json.text());
    }
    QCOMPARE(kernels, QStringList(2, QSysInfo::kernelVersion()));
    const CliResult text = cli.run(command);
    for (const char* part : {"versions", "kernel", "bandwidth to", "from local1", "round trip to"})
      QVERIFY2(text.out.contains(part), text.text());
    QVERIFY2(text.out.contains(QSysInfo::kernelVersion().toUtf8()), text.text());
    QVERIFY2(!text.err.contains("unlike"), text.text());
  }

  // Once, and again until Ctrl-C.
  void loadsOfNodesAreTold() {
    const Cli cli;
    const CliResult json = cli.run({"cluster", "load", "--local", "2", "--json"});
    QVERIFY2(json.exit == 0 && json.onlyJson && json.all("load").size() == 2, json.text());
    for (const QJsonObject& load : json.all("load")) {
      QVERIFY(load["disk_busy"].toDouble() >= 0 && load["disk_busy"].toDouble() <= 1);
      QVERIFY2(load["memory_used_bytes"].toDouble() > 0 &&
                   load["memory_used_bytes"].toDouble() < load["memory_total_bytes"].toDouble(),
               json.text());
      QVERIFY2(load["cpu"].toDouble() >= 0 && load["cpu"].toDouble() <= 1, json.text());
    }
    const CliResult text = cli.run({"cluster", "load", "--local", "1"});
    QVERIFY2(text.exit == 0 && text.out.contains("local1") && text.out.contains(" of "),
             text.text());
    const auto process = cli.start({"cluster", "load", "--local", "1", "--every", "0.5", "--json"});
    QByteArray out;
    for (int time = 0; time < 3; ++time) QVERIFY(cli.awaitNext(*process, "load", out));
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    QCOMPARE(cli.finish(*process, out).exit, 0);
    QCOMPARE(cli.run({"cluster", "load"}).exit, 2);
    QCOMPARE(cli.run({"cluster", "load", "c.yaml", "--local", "1"}).exit, 2);
  }

 private:
  static QByteArray bytes(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  }
};

QTEST_GUILESS_MAIN(CliClusterTest)
#include "cli_cluster_test.moc"
