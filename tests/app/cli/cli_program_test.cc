// Runs of programs of the user's own, on real agents: what a program is started with, and what the
// history has of it.
#include <sys/resource.h>
#include <sys/utsname.h>

#include <QCryptographicHash>
#include <QDir>
#include <QDirIterator>
#include <QJsonArray>
#include <QJsonDocument>
#include <QProcess>
#include <QScopeGuard>
#include <QTest>
#include <algorithm>

#include "tests/app/cli/program_runs.h"
#include "tests/support/free_port.h"
#include "tests/support/paths.h"
#include "tests/support/pytorch.h"

using namespace lockstep::test;

class CliProgramTest : public QObject, ProgramRuns {
  Q_OBJECT

  // The history keeps what each node was, and the Python that the program ran with.
  void checkEnvironment(const QString& run) {
    utsname names{};
    uname(&names);
    QProcess python;
    python.start("/usr/bin/python3", {"-c", "import platform; print(platform.python_version())"});
    QVERIFY(python.waitForFinished(30000));
    const QString version = QString::fromUtf8(python.readAllStandardOutput()).trimmed();
    const QJsonArray nodes =
        cli_.run({"history", "show", run, "--json"}).first("run")["nodes"].toArray();
    QCOMPARE(nodes.size(), qsizetype{3});
    for (int i = 0; i < 3; ++i) {
      const QJsonObject node = nodes[i].toObject();
      QCOMPARE(node["node"].toString(), QString("local%1").arg(i + 1));
      QCOMPARE(node["ranks"].toArray(), QJsonArray{i});
      QCOMPARE(node["kernel"].toString(), QString(names.release));
      QVERIFY(node["cores"].toInt() > 0 && node["memory_bytes"].toDouble() > 1e8);
      QVERIFY(!node["os"].toString().isEmpty() && !node["agent"].toString().isEmpty());
      QCOMPARE(node["versions"].toObject()["python"].toString(), version);
    }
  }

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/bin/python3")) QSKIP("there is no /usr/bin/python3");
  }

  void ranksFindEachOther() {
    const QStringList arguments = program(R"(
host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
open("mine.txt", "w").write(str(rank))
os.makedirs("deep/er"); open("deep/er/too", "w").write("x")
if rank == 0:
    server = socket.create_server((host, port))
    peers = [server.accept()[0] for _ in range(world - 1)]
else:
    for _ in range(2000):
        try: peers = [socket.create_connection((host, port))]; break
        except OSError: time.sleep(0.05)
for step in range(1, 11):
    if rank == 0:
        total = sum(struct.unpack("!q", p.recv(8, socket.MSG_WAITALL))[0] for p in peers)
        for p in peers: p.sendall(struct.pack("!q", total))
        print(f"step {step} loss {1 / step:.6f} sum {total}")
    else:
        peers[0].sendall(struct.pack("!q", rank * step))
        total = struct.unpack("!q", peers[0].recv(8, socket.MSG_WAITALL))[0]
print("sum", total)
)",
                                          3);
    const auto before = QDir(folder_).entryInfoList(QDir::Files);
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == 0 && result.onlyJson, result.text());
    for (int rank = 0; rank < 3; ++rank)
      QVERIFY2(linesOf(result, rank).contains("sum 30"), result.text());
    const auto scalars = result.all("scalar"), steps = result.all("step");
    QCOMPARE(scalars.size(), qsizetype{10});
    QCOMPARE(steps.size(), qsizetype{10});
    for (int i = 0; i < 10; ++i) {
      const double loss = QString::number(1.0 / (i + 1), 'f', 6).toDouble();
      QCOMPARE(scalars[i]["tag"].toString(), QString("loss"));
      QCOMPARE(scalars[i]["source"].toString(), QString("stdout"));
      QCOMPARE(scalars[i]["step"].toInt(), i + 1);
      QCOMPARE(scalars[i]["value"].toDouble(), loss);
      QCOMPARE(steps[i]["step"].toInt(), i + 1);
      QCOMPARE(steps[i]["loss"].toDouble(), loss);
    }
    QCOMPARE(result.last()["status"].toString(), QString("succeeded"));
    QCOMPARE(result.last()["steps"].toInt(), 10);
    QCOMPARE(result.last()["train_loss"].toDouble(), 0.1);
    QCOMPARE(result.first("started")["world"].toInt(), 3);
    for (const QJsonObject& warning : result.all("warning"))  // heartbeats of a busy machine
      QVERIFY2(warning["what"].toString().endsWith(" does not answer"), result.text());
    // Each node has files of its own; the person's folder is as it was.
    const QString run = result.first("started")["run"].toString();
    for (int node = 1; node <= 3; ++node) {
      QCOMPARE(read(copied(run, node) + "mine.txt"), QByteArray::number(node - 1));
      QCOMPARE(read(copied(run, node) + "deep/er/too"), QByteArray("x"));
    }
    checkEnvironment(run);
    const auto after = QDir(folder_).entryInfoList(QDir::Files);
    QCOMPARE(QDir(folder_).entryList(QDir::AllEntries | QDir::Hidden | QDir::NoDotAndDotDot),
             (QStringList{"main.py", "run.yaml"}));
    for (int i = 0; i < before.size(); ++i)
      QCOMPARE(after[i].lastModified(), before[i].lastModified());
  }

  // Of variables named in workload.env_from the program has the values in each generation, and no
  // file has them.
  void secretsComeFromHere() {
    QVERIFY(cli_.run(program("print('before')", 2)).exit == 0);  // agents that lack the variable
    const QByteArray name = "LOCKSTEP_TEST_SECRET", value = "correct-horse-battery";
    const QByteArray from = "  env_from: [" + name + "]\n";
    const CliResult unset = cli_.run(program("pass", 2, from));
    QVERIFY2(unset.exit != 0 && unset.text().contains(name + " is not set"), unset.text());
    qputenv(name.constData(), "caf\xe9");
    const CliResult latin = cli_.run(program("pass", 2, from));
    QVERIFY2(latin.exit != 0 && latin.text().contains(name + " is not UTF-8"), latin.text());
    qputenv(name.constData(), value);
    // Both say it before the first of them leaves.
    const QByteArray said = cli_.path("said").toUtf8();
    const CliResult result = cli_.run(program(
        "import hashlib\n"
        "print('secret', hashlib.sha256(os.environ['" +
            name + "'].encode()).hexdigest(), flush=True)\nopen(f'" + said + "{rank}', 'w')\n" +
            counting(20, "    while not os.path.exists(f'" + said +
                             "{1 - rank}'): time.sleep(0.05)\n"
                             "    if attempt == 0 and step == 10: os._exit(3)\n"),
        2, from));
    qunsetenv(name.constData());
    QVERIFY2(result.exit == 0, result.text());
    const QByteArray digest =
        "secret " + QCryptographicHash::hash(value, QCryptographicHash::Sha256).toHex();
    for (int rank = 0; rank < 2; ++rank)
      QVERIFY2(linesOf(result, rank).count(digest) >= 2, result.text());
    QDirIterator files(cli_.home(), QDir::Files | QDir::Hidden, QDirIterator::Subdirectories);
    int count = 0;
    for (; files.hasNext(); ++count) {
      const QString path = files.next();
      QVERIFY2(!read(path).contains(value), qPrintable(path));
    }
    QVERIFY(count > 20);
  }

  // The Python of each node is told before anything starts: here a script that has another PyTorch
  // in the copy of the second node.
  void versionsAreCompared() {
    const QStringList arguments = program("print('ran')", 2, "  python: {kind: path, path: bin}\n");
    const QString code = QDir(folder_).dirName();
    for (const QString made :
         {"bin", "packages2.1/torch-2.1.dist-info", "packages2.2/torch-2.2.dist-info"})
      QDir(folder_).mkpath(made);
    const QString python =
        cli_.write(code + "/bin/python3",
                   "#!/bin/sh\ncase $PWD in */local2/*) v=2.2;; *) v=2.1;; esac\n"
                   "export PYTHONPATH=$PWD/packages$v\n"
                   "exec /usr/bin/python3 \"$@\"\n");
    QFile::setPermissions(python, QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
    for (const char* version : {"2.1", "2.2"})
      cli_.write(QString("%1/packages%2/torch-%2.dist-info/METADATA").arg(code, version),
                 "Metadata-Version: 2.1\nName: torch\nVersion: " + QByteArray(version) + ".0\n");
    const CliResult refused = cli_.run(arguments);
    QVERIFY2(refused.exit != 0 && refused.text().contains("its torch is not that of local1") &&
                 refused.text().contains("2.2.0 here, 2.1.0 there"),
             refused.text());
    QVERIFY2(linesOf(refused).isEmpty(), refused.text());
    const CliResult mixed =
        cli_.run(arguments + QStringList{"--set", "workload.python.mixed=true"});
    QVERIFY2(mixed.exit == 0 && linesOf(mixed).count("ran") == 2, mixed.text());
  }

  // A virtual environment that comes later in the path, and has a "python".
  void pythonHasItsOwnLibraries() {
    const QString later = cli_.path("later/bin");
    QVERIFY(QDir().mkpath(later) && QDir().mkpath(cli_.path("first")));
    cli_.write("later/pyvenv.cfg", "home = /usr/bin\n");
    QVERIFY(QFile::link("/usr/bin/python3", later + "/python"));
    QVERIFY(QFile::link("/usr/bin/python3", cli_.path("first/python3")));
    const QByteArray path = (cli_.path("first") + ":" + later).toUtf8();
    const CliResult result =
        cli_.run(program("print(sys.prefix)\n", 1,
                         "  python: {kind: none}\n  env: {PATH: '" + path + ":/usr/bin:/bin'}\n"));
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(linesOf(result), QList<QByteArray>{"/usr"});
  }

  void mistakes_data() {
    QTest::addColumn<QByteArray>("more");
    QTest::addColumn<int>("exit");
    QTest::addColumn<QString>("node");
    QTest::addColumn<QStringList>("texts");
    const auto row = [](const char* name, const char* more, int exit, const char* node,
                        const QStringList& texts) {
      QTest::newRow(name) << QByteArray(more) << exit << QString(node) << texts;
    };
    row("no such program", "  command: [no-such-program, main.py]\n", 1, "local1",
        {"there is no program no-such-program on this node", "workload.python"});
    row("no such file", "  command: [./absent.sh]\n", 1, "local1",
        {"absent.sh", "make it there with workload.setup"});
    row("not executable", "  command: [./main.py]\n", 1, "local1",
        {"cannot run", "make it executable", "[python3, ./main.py]"});
    row("no such interpreter", "  command: [./strange.sh]\n", 1, "local1",
        {"cannot run", "is not on this node", "[python3, ./strange.sh]"});
    row("no such folder of Python", "  python: {kind: venv, path: .venv}\n", 3, "local1",
        {"there is no Python in /", "/.venv on this node|workload.python.path|",
         "the folder does not exist", "make it there with workload.setup"});
    row("no interpreter", "  python: {kind: venv, path: /usr/share}\n", 3, "local1",
        {"there is no Python in /usr/share", "it has no /usr/share/bin/python",
         "create it on the node"});
    row("no such script", "  command: [python, absent.py]\n", 1, "local1",
        {"exited with code 2", "can't open file"});
    row("no such module", "  command: [python, -c, import no_such_module]\n", 1, "local1",
        {"exited with code 1", "No module named 'no_such_module'", "workload.python"});
    row("no such folder", "  code: {from: absent}\n", 2, "", {"workload.code.from", "/absent"});
    row("too large", "  code: {max_bytes: 100}\n", 3, "",
        {"is too large", "main.py", ".lockstepignore", "max_bytes"});
  }
  void mistakes() {
    QFETCH(QByteArray, more);
    QFETCH(int, exit);
    QFETCH(QString, node);
    QFETCH(QStringList, texts);
    const QStringList arguments = program("", 1, more);
    const QString script =
        cli_.write(QDir(folder_).dirName() + "/strange.sh", "#!/nowhere/python\n");
    QFile::setPermissions(script, QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == exit, result.text());
    const QJsonObject error = result.first("error");
    QCOMPARE(error["node"].toString(), node);
    const QString all = error["what"].toString() + "|" + error["field"].toString() + "|" +
                        error["why"].toString() + "|" + error["next"].toString();
    for (const QString& text : texts) QVERIFY2(all.contains(text), qPrintable(all));
    QVERIFY(result.all("recovering").isEmpty());
  }

  void launchers_data() {
    QTest::addColumn<QString>("launcher");
    QTest::addColumn<int>("ranks");
    QTest::newRow("torchrun") << "torchrun" << 2;
    QTest::newRow("single") << "single" << 1;
  }
  void launchers() {
    QFETCH(QString, launcher);
    QFETCH(int, ranks);
    const CliResult result = cli_.run(program(
        R"(print(json.dumps({k: v for k, v in os.environ.items() if "RANK" in k or "PET" in k})))",
        2, "  launcher: " + launcher.toUtf8() + "\n  env: {MY_RANK: mine}\n"));
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.first("started")["world"].toInt(), ranks);
    QCOMPARE(linesOf(result).size(), ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const QJsonObject told = QJsonDocument::fromJson(linesOf(result, rank).value(0)).object();
      QCOMPARE(told["MY_RANK"].toString(), QString("mine"));
      QVERIFY2(!told.contains("RANK") && !told.contains("LOCAL_RANK"), result.text());
      QCOMPARE(told.contains("PET_NNODES"), ranks == 2);
      if (ranks == 2) QCOMPARE(told["PET_NODE_RANK"].toString(), QString::number(rank));
    }
  }

  void codeMayBeOnTheNodesAlready() {
    program("", 1);
    const QString script = cli_.write("there.py", "import os\nprint('in', os.listdir())\n");
    const CliResult result = cli_.run(
        program("", 2, "  command: [python, " + script.toUtf8() + "]\n  code: {disabled: true}\n"));
    QVERIFY2(result.exit == 0, result.text());
    for (const int rank : {0, 1})
      QVERIFY2(linesOf(result, rank).value(0).startsWith("in ["), result.text());
    QVERIFY(!linesOf(result, 0).value(0).contains("main.py"));
    QVERIFY(!QDir(copied(result.first("started")["run"].toString(), 1)).exists());
  }

  void commandsThatNeedAModelRefuse_data() {
    QTest::addColumn<QStringList>("command");
    QTest::newRow("plan") << QStringList{"plan", "FILE", "--local", "2"};
    QTest::newRow("simulate") << QStringList{"simulate", "FILE", "--local", "2"};
    QTest::newRow("advise") << QStringList{"advise", "FILE", "--local", "2"};
    QTest::newRow("whatif") << QStringList{"whatif", "FILE", "--local", "2"};
    QTest::newRow("verify") << QStringList{"verify", "FILE", "--ranks", "2"};
    QTest::newRow("bench") << QStringList{"bench", "train", "--model", "FILE"};
    QTest::newRow("data show") << QStringList{"data", "show", "FILE"};
  }
  void commandsThatNeedAModelRefuse() {
    QFETCH(QStringList, command);
    program("", 1);
    command.replaceInStrings("FILE", folder_ + "/run.yaml");
    const CliResult result = cli_.run(command);
    QVERIFY2(result.exit == 2, result.text());
    QVERIFY2(result.err.contains("runs a program of its own"), result.text());
  }

  void theHistoryHasThem() {
    const CliResult result = cli_.run(program(counting(12), 2, "  name: my fit\n"));
    QVERIFY2(result.exit == 0, result.text());
    const QString run = result.first("started")["run"].toString();
    const CliResult list = cli_.run({"history", "list"});
    QVERIFY2(list.out.contains(run.toUtf8()) && list.out.contains("my fit"), list.text());
    const CliResult shown = cli_.run({"history", "show", run});
    QVERIFY2(shown.exit == 0 && shown.out.contains("my fit") && shown.out.contains("own program") &&
                 shown.out.contains("# code: 2 files, "),
             shown.text());
    for (const char* file : {"r.html", "r.csv", "r.json", "r.svg"}) {
      const CliResult exported = cli_.run({"history", "export", run, "--out", cli_.path(file)});
      QVERIFY2(exported.exit == 0, exported.text());
      QVERIFY2(read(cli_.path(file)).size() > 100, file);
    }
    QVERIFY(read(cli_.path("r.csv")).contains("loss"));
    const CliResult resumed = cli_.run({"resume", run});
    QVERIFY2(resumed.exit == 3 && resumed.err.contains("its program writes its own checkpoints"),
             resumed.text());
    for (const QStringList& words : {QStringList{"predict", run, "--data", folder_ + "/main.py"},
                                     QStringList{"generate", run, "--prompt", "a"},
                                     QStringList{"export", run, "--to", cli_.path("x.onnx")}}) {
      const CliResult refused = cli_.run(words);
      QVERIFY2(refused.exit != 0 && refused.err.contains("its program saves its model itself") &&
                   refused.err.contains("lockstep artifacts " + run.toUtf8()),
               refused.text());
    }
    // Its code is what the folder has now.
    cli_.write(QDir(folder_).dirName() + "/main.py", kProgramPrelude + counting(15));
    const CliResult again = cli_.run({"rerun", run, "--json"});
    QVERIFY2(again.exit == 0, again.text());
    QCOMPARE(again.last()["steps"].toInt(), 15);
    const CliResult attached = cli_.run({"attach", run, "--json", "--every", "1"});
    QCOMPARE(attached.all("step").size(), qsizetype{12});
  }

  void theHistoryHasWhatIsNotCommitted() {
    const QStringList arguments = program("print('committed')\n", 1);
    const auto git = [&](const QStringList& words) {
      QProcess process;
      process.setWorkingDirectory(folder_);
      process.start("git", QStringList{"-c", "user.name=n", "-c", "user.email=e"} + words);
      return process.waitForFinished(30000) && process.exitCode() == 0;
    };
    QVERIFY(git({"init", "--quiet"}) && git({"add", "--all"}) && git({"commit", "-qm", "m"}));
    cli_.write(QDir(folder_).dirName() + "/main.py", kProgramPrelude + "print('<changed>')\n");
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == 0, result.text());
    const QString run = result.first("started")["run"].toString();
    const QByteArray lines = "-print('committed')\n+print('<changed>')\n";
    const CliResult shown = cli_.run({"history", "show", run});
    QVERIFY2(shown.out.contains(lines) && shown.out.contains("changed since commit "),
             shown.text());
    const CliResult json = cli_.run({"history", "show", run, "--json"});
    QVERIFY2(json.first("run")["code_patch"].toString().contains(lines), json.text());
    QVERIFY(cli_.run({"history", "export", run, "--out", cli_.path("patch.html")}).exit == 0);
    QVERIFY(read(cli_.path("patch.html")).contains("+print(&#39;&lt;changed&gt;&#39;)"));
  }

  // The first text of README's chapter, beside a train.py.
  void theReadmesSpecRuns() {
    const QByteArray all = read(QString::fromStdString(sourcePath("README.md")));
    const qsizetype chapter = all.indexOf("\n## Your own program\n");
    const QByteArray start = "cat >run.yaml <<'END'\n";
    const qsizetype begin = all.indexOf(start, chapter) + start.size();
    QVERIFY(chapter > 0 && begin > chapter + start.size());
    const QByteArray spec = all.mid(begin, all.indexOf("END\n", begin) - begin);
    QCOMPARE(spec.count('\n'), 2);
    QVERIFY(QDir().mkpath(cli_.path("readme")));
    cli_.write("readme/run.yaml", spec);
    cli_.write("readme/train.py",
               "import os, sys\nprint(*sys.argv, os.environ['RANK'], 'of', "
               "os.environ['WORLD_SIZE'])\nprint('step 1 loss 0.5')\n");
    const CliResult result =
        cli_.run({"run", cli_.path("readme/run.yaml"), "--json", "--local", "3"});
    QVERIFY2(result.exit == 0, result.text());
    for (int rank = 0; rank < 3; ++rank)
      QCOMPARE(linesOf(result, rank).value(0),
               QString("train.py --lr 3e-4 %1 of 3").arg(rank).toUtf8());
    QCOMPARE(result.last()["train_loss"].toDouble(), 0.5);
  }
  void theExampleTrains() {
    if (!hasPyTorch()) QSKIP("/usr/bin/python3 has no PyTorch with Gloo");
    const CliResult result =
        cli_.run({"run", QString::fromStdString(sourcePath("resources/examples/ddp.yaml")),
                  "--json", "--local", "3", "--set", "workload.python.kind=path", "--set",
                  "workload.python.path=/usr/bin"});
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.last()["steps"].toInt(), 300);
    QVERIFY2(result.last()["train_loss"].toDouble() < 0.6, result.text());
  }

  void argumentsArriveAsTheyAre() {
    const QList<QString> odd = {"",     " ",      "a b", "it's", "\"q\"", "two\nlines", "$HOME `x`",
                                "训练", "\\n \\", "{a}", "#",    "- x",   "true",       "1e5"};
    QByteArray command = "  command: [python, main.py";
    for (const QString& word : odd) {
      QJsonArray quoted{word};  // as YAML quotes it too
      const QByteArray json = QJsonDocument(quoted).toJson(QJsonDocument::Compact);
      command += ", " + json.mid(1, json.size() - 2);
    }
    const CliResult result =
        cli_.run(program("print(json.dumps(sys.argv[1:]))", 1, command + "]\n"));
    QVERIFY2(result.exit == 0, result.text());
    QStringList told;
    for (const auto& word : QJsonDocument::fromJson(linesOf(result).value(0)).array())
      told << word.toString();
    QCOMPARE(told, odd);
  }

  // What agent, supervisor and worker may have open is raised, for them alone.
  void programsKeepTheirLimitOfOpenFiles() {
    rlimit before{};
    QCOMPARE(getrlimit(RLIMIT_NOFILE, &before), 0);
    const auto restore = qScopeGuard([&] { setrlimit(RLIMIT_NOFILE, &before); });
    const rlimit low{1000, before.rlim_max};
    QCOMPARE(setrlimit(RLIMIT_NOFILE, &low), 0);
    Cli cli;
    const CliResult result = cli.run(programCommand(cli, cli.path("code"), R"(
pid, limits = os.getpid(), []
for _ in range(4):
    for line in open(f"/proc/{pid}/limits"):
        if line.startswith("Max open files"): limits.append(line.split()[3])
    pid = int(open(f"/proc/{pid}/stat").read().rsplit(') ', 1)[1].split()[1])
print(*limits)
)",
                                                    1));
    QVERIFY2(result.exit == 0, result.text());
    const QByteArray raised =
        QByteArray::number(static_cast<qulonglong>(std::min<rlim_t>(before.rlim_max, 65536)));
    QCOMPARE(linesOf(result).value(0), "1000 " + raised + " " + raised + " " + raised);
  }

  void manyRanksOfANode() {
    const CliResult result =
        cli_.run(program(R"(print(rank, world, os.environ["LOCAL_RANK"], os.environ["TF_CONFIG"]))",
                         1, "  ranks_per_node: 64\n"));
    QVERIFY2(result.exit == 0, result.text());
    for (int rank = 0; rank < 64; ++rank) {
      const QByteArray number = QByteArray::number(rank);
      const QByteArray line = linesOf(result, rank).value(0);
      QVERIFY2(line.startsWith(number + " 64 " + number + " {"), line);
      const QJsonObject config =
          QJsonDocument::fromJson(line.mid(line.indexOf('{'))).object()["cluster"].toObject();
      QSet<QString> workers;
      for (const auto& worker : config["worker"].toArray()) workers << worker.toString();
      QCOMPARE(workers.size(), qsizetype{64});
    }
  }

  // With the same digits as the same program that a person starts by hand.
  void pyTorchTrainsAsByHand() {
    if (!hasPyTorch()) QSKIP("/usr/bin/python3 has no PyTorch with Gloo");
    const QStringList arguments = program(R"(
import torch, torch.distributed as dist
torch.manual_seed(1); torch.set_num_threads(1)
dist.init_process_group("gloo")
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
model = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
random = torch.Generator().manual_seed(rank)
x, y = torch.randn(64, 16, generator=random), torch.randint(0, 4, (64,), generator=random)
for step in range(1, 21):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward(); optimizer.step()
    total = loss.detach().clone(); dist.all_reduce(total)
    if rank == 0: print(f"step {step} loss {total.item() / world:.17g}", flush=True)
)",
                                          3);
    const CliResult result = cli_.run(arguments);
    QVERIFY2(result.exit == 0, result.text());
    const QString port = QString::number(freePort());
    std::vector<std::unique_ptr<QProcess>> byHand;
    for (int rank = 0; rank < 3; ++rank) {
      QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
      for (const auto& [name, value] : QMap<QString, QString>{
               {"RANK", QString::number(rank)},
               {"WORLD_SIZE", "3"},
               {"MASTER_ADDR", "127.0.0.1"},
               {"MASTER_PORT", port},
               {"GLOO_SOCKET_IFNAME",
                "lo"}}.asKeyValueRange())
        environment.insert(name, value);
      byHand.push_back(std::make_unique<QProcess>());
      byHand.back()->setProcessEnvironment(environment);
      byHand.back()->start("/usr/bin/python3", {folder_ + "/main.py"});
    }
    for (const auto& process : byHand) QVERIFY(process->waitForFinished(120000));
    const QList<QByteArray> lines = byHand[0]->readAllStandardOutput().trimmed().split('\n');
    QCOMPARE(lines.size(), qsizetype{20});
    QCOMPARE(linesOf(result, 0), lines);
    QCOMPARE(result.all("scalar").size(), qsizetype{20});
  }
};

QTEST_GUILESS_MAIN(CliProgramTest)
#include "cli_program_test.moc"
