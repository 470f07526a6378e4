// The command line over real sshd: runs, lost links, updates, questions at a terminal, and
// everything that can be wrong with a node or its data.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <QDir>
#include <QJsonDocument>
#include <QStandardPaths>
#include <QTest>
#include <filesystem>

#include "engine/base/hash.h"
#include "tests/app/cli/cli_runner.h"
#include "tests/support/paths.h"
#include "tests/support/sanitizers.h"
#include "tests/support/trouble.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

// Hosts n1 … behind sshd of their own, with work folders in the command's home.
struct Servers {
  TempFolder folder;
  std::vector<std::unique_ptr<Sshd>> list;
  QString config, cluster;
  std::string why;

  // One server for each; no key of theirs is known.
  bool start(const Cli& cli, const std::vector<std::string>& sshdConfigs,
             const std::string& passphrase = "") {
    makeKey(folder / "id", passphrase);
    std::vector<const Sshd*> servers;
    QByteArray nodes;
    for (const std::string& sshdConfig : sshdConfigs) {
      SshdOptions options;
      options.extraConfig = sshdConfig;
      const std::string name = "n" + std::to_string(list.size() + 1);
      auto server = Sshd::start(folder / name, folder / "id", options, &why);
      if (!server) return false;
      servers.push_back(server.get());
      list.push_back(std::move(server));
      nodes += "  - name: " + QByteArray::fromStdString(name) +
               "\n    ssh: {host: " + QByteArray::fromStdString(name) +
               "}\n    workdir: " + cli.home().toUtf8() + "/local/" +
               QByteArray::fromStdString(name) + "\n";
    }
    writeText(folder / "config", sshConfigFor(servers, folder / "known_hosts", folder / "id"),
              0600);
    config = QString::fromStdString(folder / "config");
    cluster = cli.write("cluster.yaml", "version: 1\nname: ssh\nnodes:\n" + nodes);
    return true;
  }
  QStringList accepted() const {
    QStringList out;
    for (const auto& server : list)
      out << "--accept-host-key" << QString::fromStdString(server->fingerprint());
    return out;
  }
};

void checkError(const CliResult& result, const QString& node,
                const std::vector<std::string>& says) {
  QVERIFY2(result.exit == 3, result.text());
  QVERIFY2(result.onlyJson, result.text());
  const QJsonObject error = result.first("error");
  QCOMPARE(error["node"].toString(), node);
  const QString all =
      error["what"].toString() + "\n" + error["why"].toString() + "\n" + error["next"].toString();
  for (const std::string& part : says)
    QVERIFY2(all.contains(QString::fromStdString(part)),
             qPrintable(QString::fromStdString(part) + " in\n" + all));
  QVERIFY2(!error["next"].toString().isEmpty(), result.text());
}

// The built bundle with one more file, which makes it another version.
QString otherVersion(const Cli& cli, const std::string& name) {
  const std::string folder = cli.path("bundle-").toStdString() + name;
  std::filesystem::copy(buildPath("bundle"), folder, std::filesystem::copy_options::recursive);
  writeText(folder + "/extra", name);
  writeText(folder + "/manifest", readText(folder + "/manifest") + "file " + sha256Hex(name) + " " +
                                      std::to_string(name.size()) + " 644 extra\n");
  return QString::fromStdString(folder);
}

// The workdir of a node of Servers.
struct Workdir {
  QString path;
  Workdir(const Cli& cli, const QString& node) : path(cli.home() + "/local/" + node) {}
  QStringList versions() const {
    return QDir(path + "/versions").entryList(QDir::Dirs | QDir::NoDotAndDotDot);
  }
  // Processes that hold the version, by their ids.
  QStringList leases(const QString& version) const {
    QStringList out;
    for (const QString& lease :
         QDir(path + "/versions/" + version + "/leases").entryList(QDir::Files))
      out << lease.section('.', -1);
    return out;
  }
  QString supervisor(const QString& run) const {
    const QString node = path.section('/', -1);
    return QString::fromStdString(
               readText((path + "/runs/" + run + "/" + node + "/supervisor").toStdString()))
        .section('\n', 0, 0);
  }
};

// Whether `process` tells steps beyond those that it has told already.
bool stillTells(const Cli& cli, QProcess& process, QByteArray& out) {
  while (process.waitForReadyRead(0)) out += process.readAllStandardOutput();
  return cli.awaitNext(process, "step", out) && cli.awaitNext(process, "step", out);
}

}  // namespace

class CliSshTest : public QObject {
  Q_OBJECT
  std::unique_ptr<Cli> measured_;  // a home that knows what its nodes cost

 private Q_SLOTS:
  void cleanupTestCase() { measured_.reset(); }

  void nodeThatCannotBeUsed_data() {
    QTest::addColumn<QString>("name");
    for (const std::string& name : SshTrouble::all())
      QTest::newRow(name.c_str()) << QString::fromStdString(name);
  }
  void nodeThatCannotBeUsed() {
    QFETCH(QString, name);
    std::string why;
    const auto trouble = SshTrouble::make(name.toStdString(), &why);
    if (!trouble) QSKIP(why.c_str());
    Cli cli;
    cli.useBundle(QString::fromStdString(trouble->bundle()));
    const QString config = QString::fromStdString(trouble->sshConfig());
    const QString cluster = QString::fromStdString(trouble->clusterFile());
    checkError(cli.run({"--ssh-config", config, "cluster", "deploy", cluster, "--json"}), "n1",
               trouble->says());
    if (QTest::currentTestFailed()) return;
    const CliResult run = cli.run(
        {"--ssh-config", config, "run", example("fashion-mlp"), "--json", "--cluster", cluster});
    checkError(run, "n1", trouble->says());
    if (QTest::currentTestFailed()) return;
    QCOMPARE(run.last()["status"].toString(), QString("failed"));
    QVERIFY(run.first("started").isEmpty());
    QVERIFY(trouble->nothingStays());
    QVERIFY(cli.run({"runs"}).out.isEmpty());
    QVERIFY2(cli.processes().isEmpty(), qPrintable(cli.processes().join("\n")));
  }

  void runThatANodeCannotTake_data() {
    QTest::addColumn<QString>("name");
    for (const std::string& name : RunTrouble::all())
      QTest::newRow(name.c_str()) << QString::fromStdString(name);
  }
  void runThatANodeCannotTake() {
    QFETCH(QString, name);
    if (!measured_) measured_ = std::make_unique<Cli>();
    const Cli& cli = *measured_;
    QVERIFY(QDir().mkpath(cli.home() + "/local"));
    std::string why;
    const auto trouble =
        RunTrouble::make(name.toStdString(), (cli.home() + "/local").toStdString(), &why);
    if (!trouble) QSKIP(why.c_str());
    const CliResult run = cli.run({"run", example("fashion-mlp"), "--json", "--cluster",
                                   QString::fromStdString(trouble->clusterFile())});
    checkError(run, "n2", trouble->says());
    if (QTest::currentTestFailed()) return;
    QCOMPARE(run.last()["status"].toString(), QString("failed"));
    QVERIFY(run.first("started").isEmpty());
    QVERIFY(trouble->noRunStays());
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes().isEmpty(), 60000);
  }

  // Fingerprints given beforehand; one server that forwards nothing; the links cut in the middle.
  void runOutlivesCutLinks() {
    Cli cli;
    cli.useBuiltBundle();
    Servers servers;
    if (!servers.start(cli, {"", "AllowTcpForwarding no\nAllowStreamLocalForwarding no"}))
      QSKIP(servers.why.c_str());
    const auto process =
        cli.start(QStringList{"--ssh-config", servers.config} + servers.accepted() +
                  QStringList{"run", example("fashion-mlp"), "--json", "--every", "1", "--cluster",
                              servers.cluster, "--set", "training.max_steps=3000"});
    QByteArray out;
    const bool began = cli.awaitEvent(*process, "step", out);
    QVERIFY2(began, out + process->readAllStandardError());
    for (const auto& server : servers.list) QVERIFY(server->killSessions() > 0);
    const CliResult result = cli.finish(*process, out);
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2(result.onlyJson, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("succeeded"));
    const auto steps = result.all("step");
    QCOMPARE(steps.size(), 3000);
    for (int i = 0; i < steps.size(); ++i) QCOMPARE(steps[i]["step"].toInt(), i + 1);
    QVERIFY(result.first("error").isEmpty());
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes(result.first("started")["run"].toString()).isEmpty(),
                             60000);
  }

  // Agents are updated in the middle of a run. It goes on in the same processes, for the client
  // that was there and for one of a newer version. A deployment keeps two versions, and the run's
  // own as a third; the first one after the run removes that.
  void anUpdateTouchesNoRun() {
    Cli cli;
    cli.useBuiltBundle();
    Servers servers;
    if (!servers.start(cli, {"", ""})) QSKIP(servers.why.c_str());
    const std::vector<Workdir> nodes{{cli, "n1"}, {cli, "n2"}};
    const QStringList ssh = QStringList{"--ssh-config", servers.config} + servers.accepted();
    const auto process =
        cli.start(ssh + QStringList{"run", example("fashion-mlp"), "--json", "--every", "20",
                                    "--cluster", servers.cluster, "--no-benchmark", "--set",
                                    "training.batch=600", "--set", "training.epochs=100000"});
    QByteArray out;
    QVERIFY2(cli.awaitEvent(*process, "step", out), out + process->readAllStandardError());
    const QString run = runOf(out);
    QCOMPARE(nodes[0].versions().size(), 1);
    const QString own = nodes[0].versions()[0];
    const auto workers = cli.workers(run);
    QCOMPARE(workers.size(), 2);
    QStringList supervisors;
    for (const Workdir& node : nodes) supervisors << node.supervisor(run);

    update(cli, ssh, servers.cluster, "second");
    if (QTest::currentTestFailed()) return;
    // Each version has its own.
    QTRY_COMPARE_WITH_TIMEOUT(cli.agents().size(), qsizetype{4}, 60000);
    QVERIFY2(stillTells(cli, *process, out), out.right(2000));
    process->kill();
    QVERIFY(process->waitForFinished());
    // Without agents nothing but the run holds its version.
    for (const qint64 agent : cli.agents()) ::kill(static_cast<pid_t>(agent), SIGTERM);
    QTRY_VERIFY_WITH_TIMEOUT(cli.agents().isEmpty(), 60000);
    for (int i = 0; i < 2; ++i) QCOMPARE(nodes[i].leases(own), supervisors.mid(i, 1));
    update(cli, ssh, servers.cluster, "third");
    if (QTest::currentTestFailed()) return;
    for (const Workdir& node : nodes) QCOMPARE(node.versions().size(), 3);

    const auto later = cli.start(ssh + QStringList{"attach", run, "--json", "--every", "1"});
    QByteArray told;
    QVERIFY2(cli.awaitEvent(*later, "step", told), told + later->readAllStandardError());
    checkKept(cli.run(ssh + QStringList{"gc", servers.cluster, "--json"}), own);
    if (QTest::currentTestFailed()) return;
    QVERIFY2(stillTells(cli, *later, told), told.right(2000));
    QCOMPARE(cli.workers(run), workers);
    for (int i = 0; i < 2; ++i) QCOMPARE(nodes[i].supervisor(run), supervisors[i]);
    const CliResult stop = cli.run(ssh + QStringList{"stop", run});
    QVERIFY2(stop.exit == 0, stop.text());
    checkWhole(cli.finish(*later, told), "stopped");
    if (QTest::currentTestFailed()) return;

    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes(run).isEmpty(), 60000);
    update(cli, ssh, servers.cluster, "fourth");
    for (const Workdir& node : nodes) {
      QCOMPARE(node.versions().size(), 2);
      QVERIFY(!node.versions().contains(own));
    }
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes().isEmpty(), 60000);
  }

  // The debugger's socket on the node is forwarded to this machine, by SSH itself or by the agent.
  void aRankIsDebuggedFromAfar_data() {
    QTest::addColumn<QString>("sshd");
    QTest::newRow("forwarded") << "";
    QTest::newRow("bridged") << "AllowStreamLocalForwarding no";
  }
  void aRankIsDebuggedFromAfar() {
    QFETCH(QString, sshd);
    if (QStandardPaths::findExecutable("gdbserver").isEmpty()) QSKIP("gdbserver is not installed");
    Cli cli;
    cli.useBuiltBundle();
    Servers servers;
    if (!servers.start(cli, {sshd.toStdString()})) QSKIP(servers.why.c_str());
    const QStringList ssh = QStringList{"--ssh-config", servers.config} + servers.accepted();
    const auto process = cli.start(ssh + QStringList{"run", example("fashion-mlp"), "--json",
                                                     "--every", "20", "--cluster", servers.cluster,
                                                     "--set", "training.epochs=100000"});
    QByteArray out, said;
    QVERIFY2(cli.awaitEvent(*process, "step", out, 120000), out.right(2000));
    const qsizetype at = out.indexOf("\"run\":\"") + 7;
    const QString run = QString::fromUtf8(out.mid(at, out.indexOf('"', at) - at));
    const CliResult stacks = cli.run(ssh + QStringList{"debug", "stacks", run, "0"});
    QVERIFY2(stacks.exit == 0 && stacks.out.contains("lockstep::"), stacks.text());
    const CliResult processes =
        cli.run(ssh + QStringList{"debug", "processes", servers.cluster, "n1", "--json"});
    QVERIFY2(processes.exit == 0, processes.text());
    const auto gdb = cli.start(ssh + QStringList{"debug", "gdb", run, "0", "--json"});
    QVERIFY2(cli.awaitEvent(*gdb, "debugger", said), said);
    const QString socket = QJsonDocument::fromJson(said.trimmed()).object()["socket"].toString();
    QVERIFY2(QFile::exists(socket), said);
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    socket.toStdString().copy(to.sun_path, sizeof to.sun_path - 1);
    const int debugger = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    QCOMPARE(::connect(debugger, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    QCOMPARE(::send(debugger, "$?#3f", 5, MSG_NOSIGNAL), ssize_t{5});
    pollfd answer{debugger, POLLIN, 0};
    QCOMPARE(::poll(&answer, 1, 60000), 1);
    ::close(debugger);
    const CliResult left = cli.finish(*gdb, said);
    QVERIFY2(left.exit == 0 && left.last()["state"].toString() == "left", left.text());
    QVERIFY(!QFile::exists(socket));  // the forward has ended with the command
    QVERIFY(cli.awaitNext(*process, "step", out));
    cli.run(ssh + QStringList{"kill", run});
    cli.finish(*process, out);
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes(run).isEmpty(), 60000);
  }

  // Each state of each node, and how far an upload is now and then.
  void deployingTellsLittle() {
    Cli cli;
    cli.useBuiltBundle();
    Servers servers;
    if (!servers.start(cli, {"", "", ""})) QSKIP(servers.why.c_str());
    QElapsedTimer clock;
    clock.start();
    const QStringList ssh = QStringList{"--ssh-config", servers.config} + servers.accepted();
    const CliResult check = cli.run(ssh + QStringList{"cluster", "check", servers.cluster});
    QVERIFY2(check.exit == 0 && check.err.contains("n2: not deployed\n"), check.text());
    QVERIFY2(!check.err.contains("failed"), check.text());
    const CliResult deploy = cli.run(ssh + QStringList{"cluster", "deploy", servers.cluster});
    QVERIFY2(deploy.exit == 0, deploy.text());
    const auto seconds = clock.elapsed() / 1000;
    for (const char* node : {"n1", "n2", "n3"}) {
      QList<QByteArray> lines = deploy.err.split('\n');
      lines.removeIf(
          [&](const QByteArray& line) { return !line.startsWith(QByteArray(node) + ": "); });
      QVERIFY2(lines.size() >= 3 && lines.size() <= 5 + seconds / 2, deploy.text());
      for (const QByteArray& line : lines) QVERIFY2(line == line.trimmed(), deploy.text());
      QCOMPARE(lines.last(), QByteArray(node) + ": connected");
    }
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes().isEmpty(), 60000);
  }

  // The second node's clock is far off for all that runs there.
  void clocksFarApart_data() {
    QTest::addColumn<QString>("offset");
    QTest::addColumn<QString>("says");
    QTest::newRow("behind") << "-3650d"
                            << "3650 days behind this machine's";
    QTest::newRow("ahead") << "+20000d"
                           << "20000 days ahead of this machine's";
    QTest::newRow("less than a day") << "+13h"
                                     << "";
  }
  void clocksFarApart() {
    QFETCH(QString, offset);
    QFETCH(QString, says);
    const QString library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    if (!QFile::exists(library)) QSKIP("libfaketime is not installed");
    Cli cli;
    cli.useBuiltBundle();
    Servers servers;
    const QString clock = QString("SetEnv ") + kPreloads + "LD_PRELOAD=" + library +
                          " FAKETIME=" + offset + " DONT_FAKE_MONOTONIC=1";
    if (!servers.start(cli, {"", clock.toStdString()})) QSKIP(servers.why.c_str());
    const CliResult result =
        cli.run(QStringList{"--ssh-config", servers.config} + servers.accepted() +
                QStringList{"run", example("fashion-mlp"), "--json", "--cluster", servers.cluster,
                            "--set", "training.max_steps=20"});
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.last()["status"].toString(), QString("succeeded"));
    const QString run = result.first("started")["run"].toString();
    const CliResult log = cli.run({"logs", run});
    QVERIFY2(log.out.contains("the clock of node n2 is"), log.text());
    QVERIFY2(log.out.contains(offset.startsWith('-') ? "s behind that of node n1"
                                                     : "s ahead of that of node n1"),
             log.text());
    const CliResult plan = cli.run(
        QStringList{"--ssh-config", servers.config} + servers.accepted() +
        QStringList{"plan", example("fashion-mlp"), "--cluster", servers.cluster, "--measure"});
    QVERIFY2(says.isEmpty() ? !plan.err.contains(" days ") : plan.err.contains(says.toUtf8()),
             plan.text());
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes().isEmpty(), 60000);
  }

  // An account of its own, with nothing but a password.
  void asksForAPasswordAtATerminal() {
    Cli cli;
    cli.useBuiltBundle();
    Servers servers;
    const auto user = TestUser::make("open sesame", &servers.why);
    if (!user || !servers.start(cli, {"PasswordAuthentication yes\nPubkeyAuthentication no"}))
      QSKIP(servers.why.c_str());
    const QString cluster = cli.write(
        "own.yaml", "version: 1\nname: own\nnodes:\n  - name: n1\n    ssh: {host: n1, user: " +
                        QByteArray::fromStdString(user->name()) + "}\n");
    const QStringList check = QStringList{"--ssh-config", servers.config} + servers.accepted() +
                              QStringList{"cluster", "deploy", cluster};
    Terminal terminal(cli, check);
    QVERIFY2(terminal.await("password"), terminal.shown());
    terminal.type("open sesame");
    QVERIFY2(terminal.finish() == 0, terminal.shown());
    QVERIFY2(!terminal.shown().contains("sesame"), terminal.shown());
    QVERIFY(QDir(QString::fromStdString(user->home()) + "/.lockstep/versions").exists());
    // Without a terminal it is not asked for.
    const CliResult silent = cli.run(check + QStringList{"--json"});
    checkError(silent, "n1", {"permission denied for " + user->name(), "password (not given)"});
  }

  void asksAtATerminal() {
    Cli cli;
    cli.useBuiltBundle();
    Servers servers;
    if (!servers.start(cli, {""}, "sesame")) QSKIP(servers.why.c_str());
    const QStringList check{"--ssh-config", servers.config, "cluster", "deploy", servers.cluster};
    {
      Terminal terminal(cli, check);
      QVERIFY2(terminal.await("Trust it and go on? (yes/no)"), terminal.shown());
      QVERIFY(terminal.shown().contains(servers.list[0]->fingerprint().c_str()));
      terminal.type("y");
      QVERIFY2(terminal.await("Type yes or no: "), terminal.shown());
      terminal.type("no");
      QVERIFY2(terminal.finish() == 3, terminal.shown());
      QVERIFY(readText(servers.folder / "known_hosts").empty());
    }
    Terminal terminal(cli, check);
    QVERIFY2(terminal.await("Trust it and go on? (yes/no)"), terminal.shown());
    terminal.type("yes");
    QVERIFY2(terminal.await("Passphrase of"), terminal.shown());
    terminal.type("wrong");
    QVERIFY2(terminal.await("That was not right."), terminal.shown());
    QVERIFY2(terminal.await("Passphrase of"), terminal.shown());
    terminal.type("sesame");
    QVERIFY2(terminal.finish() == 0, terminal.shown());
    QVERIFY2(!terminal.shown().contains("sesame"), terminal.shown());
    QVERIFY(!readText(servers.folder / "known_hosts").empty());
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes().isEmpty(), 60000);
  }

  void asksOnceForAllNodes() {
    Cli cli;
    cli.useBuiltBundle();
    Servers servers;
    if (!servers.start(cli, {"", "", ""}, "sesame")) QSKIP(servers.why.c_str());
    Terminal terminal(cli, QStringList{"--ssh-config", servers.config} + servers.accepted() +
                               QStringList{"cluster", "deploy", servers.cluster});
    QVERIFY2(terminal.await("Passphrase of"), terminal.shown());
    terminal.type("sesame");
    QVERIFY2(terminal.finish() == 0, terminal.shown());
    QCOMPARE(terminal.shown().count("Passphrase of"), qsizetype{1});
    QVERIFY(cli.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli.processes().isEmpty(), 60000);
  }

 private:
  // Deploys another version, which later commands are of as well.
  static void update(Cli& cli, const QStringList& ssh, const QString& cluster,
                     const std::string& name) {
    cli.useBundle(otherVersion(cli, name));
    const CliResult deployed = cli.run(ssh + QStringList{"cluster", "deploy", cluster, "--json"});
    QVERIFY2(deployed.exit == 0, deployed.text());
  }
  static void checkKept(const CliResult& gc, const QString& version) {
    QVERIFY2(gc.exit == 0, gc.text());
    int found = 0;
    for (const QJsonObject& item : gc.all("item")) {
      if (!item["name"].toString().endsWith(version)) continue;
      ++found;
      QVERIFY2(!item["removed"].toBool(true), gc.text());
      QCOMPARE(item["why"].toString(), QString("an agent or a run of this version is under way"));
    }
    QCOMPARE(found, 2);
  }
  // Every step once, without a failure.
  static void checkWhole(const CliResult& result, const QString& status) {
    QCOMPARE(result.last()["status"].toString(), status);
    const auto steps = result.all("step");
    QCOMPARE(steps.size(), result.last()["steps"].toInt());
    for (int i = 0; i < steps.size(); ++i) QCOMPARE(steps[i]["step"].toInt(), i + 1);
    QVERIFY2(result.first("recovering").isEmpty() && result.first("error").isEmpty(),
             result.text());
  }
};

QTEST_GUILESS_MAIN(CliSshTest)
#include "cli_ssh_test.moc"
