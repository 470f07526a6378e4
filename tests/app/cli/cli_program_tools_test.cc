// Programs that mpirun, uv or apptainer start, on real agents.
#include <signal.h>

#include <QDir>
#include <QFile>
#include <QJsonDocument>
#include <QMap>
#include <QProcess>
#include <QScopeGuard>
#include <QStandardPaths>
#include <QTest>

#include "tests/app/cli/cli_runner.h"
#include "tests/app/cli/program_command.h"
#include "tests/support/paths.h"

using namespace lockstep::test;

namespace {

QStringList linesOf(const CliResult& result, int rank) {
  QStringList out;
  for (const QJsonObject& line : result.all("output"))
    if (line["rank"].toInt() == rank) out << line["text"].toString();
  return out;
}

bool hasMpi() { return !QStandardPaths::findExecutable("mpirun").isEmpty(); }
bool hasMpi4py() { return QProcess::execute("/usr/bin/python3", {"-c", "import mpi4py"}) == 0; }

}  // namespace

class CliProgramToolsTest : public QObject {
  Q_OBJECT

  Cli cli_;
  int count_ = 0;
  QString folder_;

  QStringList program(const QByteArray& script, int nodes, const QByteArray& more,
                      const QByteArray& rest = {}) {
    folder_ = cli_.path(QString("code%1").arg(++count_));
    return programCommand(cli_, folder_, script, nodes, more, rest);
  }
  // Puts a program of this name on the path of the ranks.
  QByteArray pathWith(const QString& name, const QByteArray& text) {
    const QString file = cli_.write("bin/" + name, text);
    QFile::setPermissions(file, QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
    return "  env: {PATH: '" + QFileInfo(file).path().toUtf8() + ":/usr/bin:/bin'}\n";
  }

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
    QDir(cli_.path("")).mkdir("bin");
  }

  void ranksOfMpirunAreRanks() {
    if (!hasMpi()) QSKIP("openmpi-bin is not installed");
    const QString home = cli_.path("another home");  // mpirun splits some paths at blanks
    const auto leave = qScopeGuard([&] {
      for (const char* node : {"1", "2", "3"})
        QProcess::execute(QString::fromStdString(buildPath("bin/lockstep-agent")),
                          {"leave", "--workdir", home + "/local/" + node});
    });
    const CliResult result =
        cli_.run(program(
                     R"(
own = {k: os.environ[k] for k in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "MASTER_ADDR", "MINE")}
print(json.dumps(own))
print("has RANK" if "RANK" in os.environ else "has no RANK")
if own["OMPI_COMM_WORLD_RANK"] == "0":
    import lockstep
    print("step 3 loss 0.5")
    lockstep.log({"rate": 0.25}, step=3)
)",
                     3, "  launcher: mpi\n  ranks_per_node: 2\n  env: {MINE: mine}\n") +
                 QStringList{"--home", home});
    QVERIFY2(result.exit == 0 && result.onlyJson, result.text());
    QCOMPARE(result.first("started")["world"].toInt(), 6);
    for (int rank = 0; rank < 6; ++rank) {
      const QStringList lines = linesOf(result, rank);
      const QJsonObject told = QJsonDocument::fromJson(lines.value(0).toUtf8()).object();
      QCOMPARE(told["OMPI_COMM_WORLD_RANK"].toString(), QString::number(rank));
      QCOMPARE(told["OMPI_COMM_WORLD_SIZE"].toString(), QString("6"));
      QCOMPARE(told["PMIX_RANK"].toString(), QString::number(rank));
      QCOMPARE(told["MINE"].toString(), QString("mine"));
      QVERIFY2(lines.contains("has no RANK"), result.text());
    }
    QMap<QString, double> values;
    for (const QJsonObject& line : result.all("scalar"))
      values[line["tag"].toString()] = line["value"].toDouble();
    QCOMPARE(values, (QMap<QString, double>{{"loss", 0.5}, {"rate", 0.25}}));
  }

  void theyExchange() {
    if (!hasMpi() || !hasMpi4py()) QSKIP("openmpi-bin and python3-mpi4py are not installed");
    const CliResult result = cli_.run(program(R"(
from mpi4py import MPI
world = MPI.COMM_WORLD
for step in range(1, 6):
    print("sum", world.allreduce(world.Get_rank() * step))
)",
                                              3, "  launcher: mpi\n"));
    QVERIFY2(result.exit == 0, result.text());
    for (int rank = 0; rank < 3; ++rank)
      QCOMPARE(linesOf(result, rank), (QStringList{"sum 3", "sum 6", "sum 9", "sum 12", "sum 15"}));
  }

  // Of its own accord mpirun would look for Slurm's nodes, and start its daemons there by srun.
  void mpirunInAJobOfSlurm() {
    if (!hasMpi()) QSKIP("openmpi-bin is not installed");
    const std::pair<const char*, const char*> job[] = {{"SLURM_JOB_ID", "7"},
                                                       {"SLURM_JOBID", "7"},
                                                       {"SLURM_JOB_NODELIST", "n1,n2"},
                                                       {"SLURM_NODELIST", "n1,n2"},
                                                       {"SLURM_JOB_NUM_NODES", "2"},
                                                       {"SLURM_NNODES", "2"},
                                                       {"SLURM_TASKS_PER_NODE", "1(x2)"},
                                                       {"SLURM_PROCID", "0"},
                                                       {"SLURM_STEP_ID", "0"}};
    const QByteArray exchange =
        hasMpi4py() ? "from mpi4py import MPI\nassert MPI.COMM_WORLD.allreduce(1) == 2\n" : "";
    for (const auto& [name, value] : job) qputenv(name, value);
    const Cli cli;  // with agents that are in the job
    const CliResult result =
        cli.run(programCommand(cli, cli.path("code"),
                               "print(*[os.environ[k] for k in ('SLURM_JOB_ID', 'SLURM_PROCID', "
                               "'OMPI_COMM_WORLD_RANK')])\n" +
                                   exchange,
                               2, "  launcher: mpi\n"));
    for (const auto& [name, value] : job) qunsetenv(name);
    QVERIFY2(result.exit == 0, result.text());
    for (int rank = 0; rank < 2; ++rank)
      QCOMPARE(linesOf(result, rank), QStringList(QString("7 %1 %1").arg(rank)));
  }

  void aRankThatFailsIsNamed() {
    if (!hasMpi()) QSKIP("openmpi-bin is not installed");
    const CliResult result = cli_.run(program(R"(
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    print("it is this one"); sys.exit(7)
time.sleep(100)
)",
                                              2, "  launcher: mpi\n"));
    QVERIFY2(result.exit == 1, result.text());
    const QJsonObject error = result.first("error");
    QVERIFY2(error["what"].toString().contains("exited with code 7"), result.text());
    QCOMPARE(error["rank"].toInt(), 1);
    QVERIFY2(error["why"].toString().contains("it is this one"), result.text());
    const QString run = result.first("started")["run"].toString();
    QVERIFY(cli_.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli_.processes(run).isEmpty(), 60000);
  }

  void aKilledRankIsStartedAgainAndTheRunStopped() {
    if (!hasMpi()) QSKIP("openmpi-bin is not installed");
    const auto process = cli_.start(
        program("print(f'own={os.getpid()}=')\n"
                "for step in range(1, 100000):\n"
                "    if os.environ['OMPI_COMM_WORLD_RANK'] == '0': print(f'step {step} loss 1')\n"
                "    time.sleep(0.05)\n",
                2, "  launcher: mpi\n"));
    QByteArray out;
    QVERIFY2(cli_.awaitEvent(*process, "step", out), out);
    QTRY_VERIFY_WITH_TIMEOUT((out += process->readAllStandardOutput(), out.count("own=") == 2),
                             60000);
    const qsizetype at = out.lastIndexOf("own=") + 4;
    ::kill(out.mid(at, out.indexOf('=', at) - at).toInt(), SIGKILL);
    QVERIFY2(cli_.awaitEvent(*process, "recovered", out), out);
    const QString run = runOf(out);
    const CliResult result = cli_.stop(*process, out);
    QCOMPARE(result.last()["status"].toString(), QString("stopped"));
    QVERIFY(cli_.leave());
    QTRY_VERIFY_WITH_TIMEOUT(cli_.processes(run).isEmpty(), 60000);
  }

  void aNodeWithoutMpirun() {
    const CliResult result =
        cli_.run(program("print('ran')\n", 1, "  launcher: mpi\n  env: {PATH: /nowhere}\n"));
    QVERIFY2(result.exit != 0, result.text());
    QVERIFY2(result.first("error")["what"].toString().contains("there is no program mpirun"),
             result.text());
    QVERIFY2(result.first("error")["next"].toString().contains("install Open MPI"), result.text());
  }

  // A stand-in for apptainer, which runs the command as the container would.
  void inAContainer() {
    const QByteArray path =
        pathWith("apptainer",
                 "#!/bin/sh\n"
                 "echo \"called with $*\"\n"
                 "while [ \"$1\" != image.sif ]; do case \"$1\" in *.sif) break;; "
                 "esac; shift; done; shift\n"
                 "exec \"$@\"\n");
    const QStringList arguments = program(
        "import lockstep\nprint('in', sys.argv, "
        "os.getcwd())\nlockstep.log({'loss': 0.25}, step=1)\n",
        2,
        path +
            "  python: {kind: apptainer, path: image.sif, binds: [/tmp]}\n"
            "  command: [python3, main.py, 'a b']\n");
    const CliResult without = cli_.run(arguments);
    QVERIFY2(without.exit == 3 &&
                 without.first("error")["what"].toString().contains("/image.sif on this node"),
             without.text());
    cli_.write(QDir(folder_).dirName() + "/image.sif", "an image");
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == 0, result.text());
    for (int rank = 0; rank < 2; ++rank) {
      const QString said = linesOf(result, rank).join('\n');
      QVERIFY2(said.contains("called with exec --bind /"), result.text());
      QVERIFY2(said.contains("--bind /tmp --pwd /"), result.text());
      QVERIFY2(said.contains("image.sif python3 main.py a b"), result.text());
      QVERIFY2(said.contains("in ['main.py', 'a b'] "), result.text());
    }
    QCOMPARE(result.first("scalar")["source"].toString(), QString("log"));
  }

  // The real one, where there is one.
  void byUv() {
    const QString uv = QStandardPaths::findExecutable("uv");
    if (uv.isEmpty()) QSKIP("uv is not installed");
    const QByteArray more = "  env: {PATH: '" + QFileInfo(uv).path().toUtf8() +
                            ":/usr/bin:/bin', UV_OFFLINE: '1', UV_PYTHON: /usr/bin/python3}\n"
                            "  python: {kind: uv}\n";
    const QStringList arguments = program("print('prefix', sys.prefix, sys.argv)\n", 2,
                                          more + "  command: [python, main.py, 'a b']\n");
    const QString name = QDir(folder_).dirName() + "/";
    cli_.write(name + "pyproject.toml",
               "[project]\nname = 'own'\nversion = '1'\nrequires-python = '>=3.9'\n"
               "dependencies = []\n");
    const CliResult unlocked = cli_.run(arguments);
    QVERIFY2(unlocked.exit == 1 && unlocked.out.contains("uv.lock"), unlocked.text());
    QProcess lock;
    lock.setWorkingDirectory(folder_);
    lock.start(uv, {"lock", "--offline", "--python", "/usr/bin/python3"});
    QVERIFY(lock.waitForFinished(60000));
    QVERIFY2(lock.exitCode() == 0, lock.readAllStandardError());
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == 0, result.text());
    for (int rank = 0; rank < 2; ++rank) {
      const QString said = linesOf(result, rank).join('\n');
      QVERIFY2(said.contains("/code/.venv ['main.py', 'a b']"), result.text());
    }
  }

  void aNodeWithoutTheTool_data() {
    QTest::addColumn<QByteArray>("python");
    QTest::addColumn<QString>("text");
    QTest::newRow("uv") << QByteArray("{kind: uv}") << "there is no program uv on this node";
    QTest::newRow("apptainer") << QByteArray("{kind: apptainer, path: a.sif}")
                               << "there is no program apptainer on this node";
  }
  void aNodeWithoutTheTool() {
    QFETCH(QByteArray, python);
    QFETCH(QString, text);
    const CliResult result =
        cli_.run(program("", 1, "  env: {PATH: /nowhere}\n  python: " + python + "\n"));
    QVERIFY2(result.exit == 3, result.text());
    QVERIFY2(result.first("error")["what"].toString().contains(text), result.text());
    QVERIFY2(result.first("error")["next"].toString().contains("workload.env.PATH"), result.text());
    QCOMPARE(result.first("error")["node"].toString(), QString("local1"));
  }
};

QTEST_GUILESS_MAIN(CliProgramToolsTest)
#include "cli_program_tools_test.moc"
