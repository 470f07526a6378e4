// Commands that train nothing: help, options, lessons, history, cluster, doctor, and mistakes on
// the command line and in files.
#include <QJsonArray>
#include <QScopeGuard>
#include <QStandardPaths>
#include <QTest>

#include <sys/stat.h>

#include <csignal>

#include "app/history/history.h"
#include "tests/app/cli/cli_runner.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::test;

class CliCommandsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // Lessons: listed, shown with a slider moved, shared as a file.
  void lessonsAreShown() {
    const Cli cli;
    const CliResult list = cli.run({"learn", "--json"});
    QVERIFY2(list.exit == 0 && list.events.size() >= 10, list.text());
    const QString file = cli.write("state.yaml", "");
    const CliResult moved =
        cli.run({"learn", "6", "--set", "micro_batches=16", "--save", file, "--json"});
    QVERIFY2(moved.exit == 0, moved.text());
    QVERIFY(moved.last()["exercises"].toArray()[0].toObject()["reached"].toBool());
    QVERIFY(moved.last()["run"].toString().startsWith("lockstep run lesson.yaml --local 2"));
    const CliResult again = cli.run({"learn", "--state", file, "--json"});
    QCOMPARE(again.last()["state"], moved.last()["state"]);
    const CliResult page = cli.run({"learn", "6", "--page", "2", "--language", "zh"});
    QVERIFY2(page.exit == 0 && page.out.contains("微批") && page.out.contains("│"), page.text());
    const CliResult text = cli.run({"learn", "6", "--set", "micro_batches=16"});
    QVERIFY2(text.out.contains(" --spec --set micro_batches=16 > lesson.yaml"), text.text());
    const CliResult many = cli.run({"learn", "1", "--set", "batch=256"});  // over 14,000 samples/s
    QVERIFY2(many.out.contains("[x] 1. ") && !many.out.contains("e+0"), many.text());
    const CliResult pageMoves =
        cli.run({"learn", "10", "--page", "3", "--set", "batch=1024", "--set", "bandwidth=1000"});
    QVERIFY2(pageMoves.out.contains("10-scaling --spec --set batch=1024 > lesson.yaml\n") &&
                 pageMoves.out.contains("lockstep run lesson.yaml --local 2\n"),
             pageMoves.text());
    const CliResult refused = cli.run({"learn", "6", "--set", "micro_batches=7"});
    QCOMPARE(refused.exit, 2);
    QVERIFY2(refused.err.contains("micro_batches"), refused.err);
    QCOMPARE(cli.run({"learn", "11"}).exit, 2);
    const CliResult spec = cli.run({"learn", "6", "--spec", "--set", "micro_batches=16"});
    QVERIFY2(spec.exit == 0 && spec.out.contains("micro_batches: 16"), spec.text());
    const CliResult asAtStart = cli.run({"learn", "7", "--spec", "--set", "staleness=0"});
    QVERIFY2(asAtStart.exit == 0 && asAtStart.out.contains("staleness: 0"), asAtStart.text());
    for (const QStringList& useless :
         {QStringList{"--list", "--check"}, QStringList{"6", "--run", "--set", "nothing=1"},
          QStringList{"6", "--run", "--page", "2"},
          QStringList{"6", "--check", "--set", "micro_batches=16"}, QStringList{"6", "--list"},
          QStringList{"--run"}, QStringList{"6", "--language", "fr"},
          QStringList{"4", "--run", "--set", "bandwidth=1000"}})
      QCOMPARE(cli.run(QStringList{"learn"} + useless).exit, 2);
  }

  // engine/specs/OPTIONS.md is what the command prints; written again with
  // LOCKSTEP_UPDATE_GOLDEN=1.
  void theTableOfOptionsIsTrue() {
    const Cli cli;
    const CliResult run = cli.run({"options", "--markdown"}),
                    cluster = cli.run({"options", "--cluster", "--markdown"});
    QCOMPARE(run.exit, 0);
    QCOMPARE(cluster.exit, 0);
    const QByteArray whole =
        "# Options\n\nMade by `lockstep options --markdown` from the option table in "
        "`proto/lockstep/spec/v1`.\n\n## Run spec\n\n" +
        run.out + "\n## Cluster spec\n\n" + cluster.out;
    QFile file(QString::fromStdString(lockstep::test::sourcePath("engine/specs/OPTIONS.md")));
    if (qEnvironmentVariableIsSet("LOCKSTEP_UPDATE_GOLDEN")) {
      QVERIFY(file.open(QIODevice::WriteOnly));
      file.write(whole);
      file.close();
    }
    QVERIFY(file.open(QIODevice::ReadOnly));
    QCOMPARE(file.readAll(), whole);
  }

  void optionsAreFoundByName() {
    const Cli cli;
    const CliResult prefetch = cli.run({"options", "prefetch"});  // the field's word for it
    QCOMPARE(prefetch.exit, 0);
    QVERIFY2(
        prefetch.out.contains("strategy.gather_bytes") && prefetch.out.contains("Prefetch limit"),
        prefetch.text());
    const CliResult json = cli.run({"options", "training.batch", "--json"});
    QVERIFY(json.onlyJson);
    QCOMPARE(json.first("option")["default"].toString(), QString("64"));
    const CliResult none = cli.run({"options", "nothing-like-it"}),
                    ofCluster = cli.run({"options", "nothing-like-it", "--cluster"});
    QVERIFY2(none.exit == 2 && none.err.contains("(lockstep options lists them)"), none.text());
    QVERIFY2(ofCluster.err.contains("(lockstep options --cluster lists them)"), ofCluster.text());
    const QList<QByteArray> paths = cli.run({"options", "--paths"}).out.trimmed().split('\n');
    QVERIFY(paths.size() > 80);
    // Every option that has a path without an index can be set.
    for (const QByteArray& path : paths)
      if (!path.contains('['))
        QVERIFY2(!cli.run({"plan", "fashion-mlp", "--set", path + "="})
                      .err.contains("there is no field"),
                 path);
  }

  void commandLineMistakes() {
    const Cli cli;
    QCOMPARE(cli.run({"frobnicate"}).exit, 2);
    QCOMPARE(cli.run({"run"}).exit, 2);
    const CliResult near = cli.run({"run", "x.yaml", "--jsn"});
    QCOMPARE(near.exit, 2);
    QVERIFY2(near.err.contains("did you mean --json?"), near.err);
    for (const char* following : {"run", "rerun", "resume", "attach"}) {
      const CliResult told = cli.run({following, "x", "--json", "--nothing"});
      QCOMPARE(told.exit, 2);
      QCOMPARE(told.last()["event"].toString(), QString("finished"));
    }
    QCOMPARE(cli.run({"--help"}).exit, 0);
    QCOMPARE(cli.run({"run", "--help"}).exit, 0);
    QVERIFY(cli.run({"--version"}).out.startsWith("lockstep 0."));
    QCOMPARE(cli.run({"run", example("fashion-mlp"), "--local", "2", "--cluster", "x"}).exit, 2);
    QCOMPARE(cli.run({"attach", "nothing"}).exit, 2);
    for (const QStringList& empty : {QStringList{"plan", example("fashion-mlp"), "--comm", ""},
                                     {"make-data", "ctr", "--out", ""},
                                     {"runs", "--home", ""}}) {
      const CliResult result = cli.run(empty);
      QVERIFY2(
          result.exit == 2 && result.err.contains(empty[empty.size() - 2].toUtf8() + " is empty"),
          result.text());
    }
  }

  void aLogOfOneLabelHasNoAuc() {
    const Cli cli;
    const CliResult made =
        cli.run({"make-data", "ctr", "--rows", "1", "--out", cli.path("ctr.tsv")});
    QVERIFY2(made.exit == 0 && !made.out.contains("nan") &&
                 made.out.contains("all labels of these rows are the same"),
             made.text());
  }

  void helpOfOneCommand() {
    const Cli cli;
    for (const QStringList& command : {QStringList{"resume"}, {"history", "list"}, {"history"}}) {
      const CliResult help = cli.run(QStringList{"help"} + command);
      QCOMPARE(help.exit, 0);
      QCOMPARE(help.out, cli.run(command + QStringList{"--help"}).out);
      QVERIFY2(help.out.startsWith("usage:"), help.text());
    }
    QVERIFY(cli.run({"help"}).out.contains("lockstep plan SPEC"));
    QCOMPARE(cli.run({"help", "frobnicate"}).exit, 2);
  }

  // A run that never began, and what is said of it.
  void historyOfAnExpiredRun() {
    const Cli cli;
    QVERIFY(cli.run({"history", "list"}).err.contains("the history is empty"));
    {
      auto history = app::History::open((cli.home() + "/history").toStdString());
      QVERIFY(history.ok());
      app::RunRow row;
      row.run = "20240101-000000-aaaa";
      row.name = "two\nlines \xff";
      row.phase = app::RunState::EXPIRED;
      row.world = 3;
      QVERIFY((*history)->add(row, {}).ok());
      QVERIFY((*history)->openRun(row.run).ok());
    }
    const CliResult none = cli.run({"history", "list", "--contains", "%"});
    QVERIFY2(none.exit == 0 && none.err.contains("no run matches"), none.text());
    const CliResult stopped = cli.run({"stop", "last"});
    QVERIFY2(stopped.exit == 0 && stopped.out == "expired\n", stopped.text());
    const CliResult shown = cli.run({"history", "show", "last"});
    QVERIFY2(shown.out.contains("two lines \\xff"), shown.text());
    const CliResult logs = cli.run({"logs", "last", "--rank", "99"});
    QVERIFY2(logs.exit == 2 && logs.err.contains("has the ranks 0 to 2"), logs.text());
    QCOMPARE(cli.run({"logs", "last", "--rank", "2"}).exit, 0);
  }

  void everyGroupOfCommandsHasHelp() {
    const Cli cli;
    for (const QString group : {"cluster", "history", "bench", "make-data"})
      for (const QString flag : {"--help", "-h"}) {
        const CliResult result = cli.run({group, flag});
        QVERIFY2(result.exit == 0, result.text());
        QVERIFY2(result.out.contains("lockstep " + group.toUtf8() + " "), result.text());
      }
    for (const QStringList& command : {QStringList{"history", "list"},
                                       {"history", "show"},
                                       {"history", "export"},
                                       {"history", "delete"},
                                       {"cluster", "check"},
                                       {"cluster", "deploy"},
                                       {"bench", "train"}}) {
      const CliResult result = cli.run(command + QStringList{"--help"});
      QVERIFY2(result.exit == 0 &&
                   result.out.startsWith("usage: lockstep " + command.join(" ").toUtf8()),
               result.text());
    }
    QCOMPARE(cli.run({"clutser", "--help"}).exit, 2);
  }

  void aGroupOfCommandsSaysWhichThereAre() {
    const Cli cli;
    for (const QByteArray group : {"cluster", "history", "bench", "make-data"}) {
      for (const QStringList& rest : {QStringList{}, {"nonsense"}, {"--json"}}) {
        const CliResult result = cli.run(QStringList{group} + rest);
        QVERIFY2(result.exit == 2, result.text());
        const QByteArray said = result.out + result.err;
        QVERIFY2(
            !said.contains("unknown command") && said.contains("lockstep " + group + " --help"),
            result.text());
        QVERIFY2(said.contains(rest.value(0) == "nonsense" ? "has no command nonsense"
                                                           : "needs a command"),
                 result.text());
      }
      const CliResult help = cli.run({group, "--help", "--json"});
      QVERIFY2(help.exit == 0 && help.out.startsWith("usage:"), help.text());
    }
    QVERIFY(
        cli.run({"history"})
            .err.contains("expected list, tag, note, filter, show, diff, export, check, delete"));
    QVERIFY(cli.run({"history", "show"}).err.contains("RUN is missing"));
    QVERIFY(cli.run({"plan"}).err.contains("SPEC is missing"));
  }

  // What stdout does not take is an error of every command, however it writes.
  void outputThatIsLostIsAnError_data() {
    QTest::addColumn<QStringList>("arguments");
    QTest::newRow("plan") << QStringList{"plan", example("fashion-mlp")};
    QTest::newRow("plan, JSON") << QStringList{"plan", example("fashion-mlp"), "--json"};
    QTest::newRow("simulate") << QStringList{"simulate", example("fashion-mlp")};
    QTest::newRow("verify") << QStringList{
        "verify", example("fashion-mlp"), "--ranks", "2", "--steps", "2"};
    QTest::newRow("version") << QStringList{"--version"};
    QTest::newRow("help") << QStringList{"--help"};
    QTest::newRow("help of one") << QStringList{"history", "--help"};
    QTest::newRow("history list") << QStringList{"history", "list"};
    QTest::newRow("history list, JSON") << QStringList{"history", "list", "--json"};
    QTest::newRow("history show") << QStringList{"history", "show", "r"};
    QTest::newRow("history export") << QStringList{"history", "export", "r"};
    QTest::newRow("logs") << QStringList{"logs", "r"};
  }
  void outputThatIsLostIsAnError() {
    QFETCH(const QStringList, arguments);
    const Cli cli;
    {
      auto history = History::open(cli.home().toStdString() + "/history");
      QVERIFY(history.ok());
      RunRow row;
      row.run = "r";
      row.phase = RunState::SUCCEEDED;
      auto store = (*history)->begin(row, {});
      QVERIFY(store.ok());
      RunBatch batch;
      batch.series.push_back({"loss", {{1, 0.5}}});
      batch.logs.push_back({0, 1, "n1", 0, "a line"});
      QVERIFY((*store)->append(batch).ok());
    }
    const CliResult whole = cli.run(arguments);
    QVERIFY2(whole.exit == 0 && !whole.out.isEmpty(), whole.text());
    QProcess process;
    process.setStandardOutputFile("/dev/full");
    process.start(QString::fromStdString(buildPath("bin/lockstep")),
                  QStringList{"--home", cli.home()} + arguments);
    QVERIFY(process.waitForFinished(60000));
    const QByteArray said = process.readAllStandardError();
    QVERIFY2(process.exitCode() == 3, said);
    QVERIFY2(said.contains("error: cannot write the output: No space left on device"), said);
  }

  // Whatever is given as a spec or a cluster ends soon, with its cause.
  void filesThatAreNoSpecs() {
    const Cli cli;
    for (const char* command : {"plan", "run", "data show"}) {  // a spec itself in place of a file
      const CliResult result = cli.run(QString(command).split(' ') << QString(5000, 'x'));
      QVERIFY2(result.exit > 0 && result.err.contains("File name too long"), result.text());
    }
    const QString big = cli.write("big.yaml", QByteArray(5 << 20, 'x'));
    for (const QString& path : {big, QString("/dev/zero")})
      for (const QStringList& arguments : {QStringList{"plan", path},
                                           {"run", path},
                                           {"cluster", "check", path},
                                           {"plan", example("fashion-mlp"), "--cluster", path}}) {
        const CliResult result = cli.run(arguments);
        QVERIFY2(result.exit == 2 && result.err.contains("larger than 2 MiB"), result.text());
      }
    const QString fifo = cli.path("fifo");
    QCOMPARE(::mkfifo(qPrintable(fifo), 0600), 0);
    const CliResult silent = cli.run({"plan", fifo});
    QVERIFY2(silent.exit == 2 && silent.err.contains("nothing was written to it"), silent.text());
    for (const QString wait : {"", "sleep 1; "}) {
      QProcess shell;
      shell.start("bash", {"-c", QString("\"$0\" --home \"$1\" plan <(%1cat \"$2\")").arg(wait),
                           QString::fromStdString(buildPath("bin/lockstep")), cli.home(),
                           example("fashion-mlp")});
      QVERIFY(shell.waitForFinished(120000));
      QVERIFY2(shell.exitCode() == 0, shell.readAllStandardError());
    }
  }

  void anEmptyResumeIsRefused() {
    const Cli cli;
    for (const QStringList& resume : {QStringList{"--resume", ""}, {"--resume="}}) {
      const CliResult result =
          cli.run(QStringList{"run", example("fashion-mlp"), "--local", "1", "--json"} + resume);
      QVERIFY2(result.exit == 2, result.text());
      QVERIFY2(result.first("error")["what"].toString().contains("--resume is empty"),
               result.text());
    }
  }

  void nodeNamesAreCheckedWhenRead() {
    const Cli cli;
    const auto plan = [&](const QByteArray& name) {
      const QString file =
          cli.write("names.yaml", "version: 1\nname: c\nnodes:\n  - {name: " + name +
                                      ", address: 127.0.0.1}\n"
                                      "  - {name: b, address: 127.0.0.1}\n");
      return cli.run({"plan", example("fashion-mlp"), "--cluster", file});
    };
    for (const QByteArray name : {"a", "A-1_x.y", "0"})
      QVERIFY2(plan(name).exit == 0, plan(name).text());
    for (const QByteArray name :
         {"a/b", "../a", "'.a'", "a+b", "'a b'", "é", "'\"\\e[31m\"'", "''"}) {
      const CliResult result = plan(name);
      QVERIFY2(result.exit == 2 && result.err.contains("expected letters, digits"), result.text());
      QVERIFY2(result.err.contains("names.yaml:4:"), result.text());
    }
    QCOMPARE(plan(QByteArray(129, 'n')).exit, 2);
  }

  // The name of a model is written by anybody; a terminal interprets none of it.
  void foreignTextIsShown() {
    const Cli cli;
    QFile file(example("fashion-mlp"));
    QVERIFY(file.open(QIODevice::ReadOnly));
    QByteArray text = file.readAll();
    text.replace("name: fashion-mlp", "name: \"\\e]0;owned\\a\\e[2J\"");
    const CliResult result = cli.run({"plan", cli.write("owned.yaml", text), "--local", "1"});
    QVERIFY2(!result.out.contains('\x1b') && !result.err.contains('\x1b'), result.text());
    const CliResult missing = cli.run({"run", "no\x1b[2Jsuch.yaml", "--local", "1"});
    QVERIFY2(missing.exit == 2 && !missing.err.contains('\x1b') && missing.err.contains("\\x1b[2J"),
             missing.text());
  }

  void badSpecSaysWhere() {
    const Cli cli;
    const QString file = cli.write("bad.yaml", "version: 1\ntraining:\n  optimiser: {kind: sgd}\n");
    const CliResult text = cli.run({"run", file});
    QCOMPARE(text.exit, 2);
    QVERIFY2(text.err.contains(file.toUtf8() + ":3:3: "), text.err);
    QVERIFY2(text.err.contains("optimizer"), text.err);
    const CliResult json = cli.run({"run", file, "--json"});
    QCOMPARE(json.exit, 2);
    QVERIFY(json.onlyJson);
    QCOMPARE(json.events.size(), 2);
    QCOMPARE(json.events[0]["event"].toString(), QString("error"));
    QCOMPARE(json.events[0]["code"].toString(), QString("invalid-argument"));
    QVERIFY(json.events[0]["what"].toString().contains(file + ":3:3: "));
    QCOMPARE(json.last()["event"].toString(), QString("finished"));
    QCOMPARE(json.last()["status"].toString(), QString("failed"));
    QVERIFY(json.last()["train_loss"].isNull());
    QCOMPARE(cli.run({"run", cli.path("absent.yaml"), "--json"}).exit, 2);
    QCOMPARE(cli.run({"run", example("fashion-mlp"), "--set", "training.bach=3"}).exit, 2);
    QVERIFY(cli.processes().isEmpty());
  }

  // A run that may still be under way is deleted only where a person insists.
  void historyDeleteForce() {
    const Cli cli;
    QCOMPARE(cli.run({"history", "list"}).exit, 0);  // makes the home
    {
      auto history = app::History::open((cli.home() + "/history").toStdString());
      QVERIFY(history.ok());
      app::RunRow row;
      row.run = "20240101-000000-aaaa";
      row.phase = app::RunState::RUNNING;
      QVERIFY((*history)->add(row, {}).ok());
    }
    const CliResult refused = cli.run({"history", "delete", "last"});
    QVERIFY2(refused.exit == 3, refused.text());
    QVERIFY2(refused.err.contains("is under way") && refused.err.contains("stop or kill it first"),
             refused.text());
    QCOMPARE(cli.run({"history", "list", "--json"}).events.size(), 1);
    const CliResult forced = cli.run({"history", "delete", "last", "--force"});
    QVERIFY2(forced.exit == 0, forced.text());
    QVERIFY(forced.err.contains("deleted run 20240101-000000-aaaa"));
    QCOMPARE(cli.run({"history", "list", "--json"}).events.size(), 0);
  }

  void clusterCheckNamesTheNode() {
    const Cli cli;
    qputenv("LOCKSTEP_NVML", "/no/such/libnvidia-ml.so.1");  // whatever this machine has
    const QString good =
        cli.write("good.yaml", "version: 1\nname: c\nnodes:\n  - name: here\n    workdir: " +
                                   cli.home().toUtf8() + "/local/1\n");
    const CliResult well = cli.run({"cluster", "check", good, "--json"});
    QVERIFY2(well.exit == 0, well.text());
    QCOMPARE(well.first("node")["node"].toString(), QString("here"));
    QVERIFY(well.first("node")["cores"].toInt() > 0);
    QCOMPARE(well.first("node")["curl"].toBool(),
             !QStandardPaths::findExecutable("curl").isEmpty());
    QVERIFY(well.all("gpu").isEmpty());
    qunsetenv("LOCKSTEP_NVML");
    const QString bad = cli.write(
        "bad.yaml",
        "version: 1\nname: c\nnodes:\n  - name: far\n    ssh: {host: 127.0.0.1, port: 1}\n");
    const CliResult ill = cli.run({"cluster", "check", bad, "--json"});
    QVERIFY2(ill.exit == 3, ill.text());
    QCOMPARE(ill.first("error")["node"].toString(), QString("far"));
    QVERIFY(cli.leave());
    QVERIFY2(cli.processes().isEmpty(), qPrintable(cli.processes().join("\n")));
  }

  // What the driver tells of a node's GPUs; what it does not is left out.
  void aClusterCheckTellsOfGpus() {
    const Cli cli;
    qputenv("LOCKSTEP_NVML", LOCKSTEP_FAKE_NVML_FILE);
    qputenv("LOCKSTEP_NVML_SCRIPT",
            cli.write("script",
                      "utilization 93 41\npower 612500\npower-limit 700000\n"
                      "1.reasons 32\n1.width 8\n1.max-width 16\n")
                .toUtf8());
    const auto restored = qScopeGuard([] {
      qunsetenv("LOCKSTEP_NVML");
      qunsetenv("LOCKSTEP_NVML_SCRIPT");
    });
    const QString cluster =
        cli.write("c.yaml", "version: 1\nname: c\nnodes:\n  - name: here\n    workdir: " +
                                cli.home().toUtf8() + "/local/1\n");
    const CliResult json = cli.run({"cluster", "check", cluster, "--json"});
    QVERIFY2(json.exit == 0, json.text());
    QCOMPARE(json.first("node")["gpu_driver"].toString(), QString("580.65.06"));
    const QList<QJsonObject> gpus = json.all("gpu");
    QVERIFY2(gpus.size() == 2, json.text());
    QCOMPARE(gpus[1]["node"].toString(), QString("here"));
    QCOMPARE(gpus[1]["gpu"].toInt(), 1);
    QCOMPARE(gpus[1]["name"].toString(), QString("Fake GPU 1"));
    QCOMPARE(gpus[1]["utilisation"].toDouble(), 0.93);
    QCOMPARE(gpus[1]["power_w"].toDouble(), 612.5);
    QCOMPARE(gpus[1]["throttle"].toArray(), QJsonArray{"heat"});
    QVERIFY(!gpus[0].contains("throttle") && !gpus[0].contains("temperature_c") &&
            !gpus[0].contains("xids"));
    const CliResult text = cli.run({"cluster", "check", cluster});
    QVERIFY2(text.exit == 0, text.text());
    QVERIFY2(text.out.contains("slowed down for heat, 8 of 16 PCIe lanes"), text.text());
    QVERIFY2(text.out.contains("612 of 700 W"), text.text());
    QJsonObject second;
    for (const QJsonObject& check : cli.run({"doctor", "--json"}).all("check"))
      if (check["name"].toString() == "GPU 1") second = check;
    QVERIFY(!second.isEmpty() && !second["ok"].toBool() && !second["needed"].toBool());
    QVERIFY2(second["found"].toString().contains("8 of 16 PCIe lanes"),
             qPrintable(second["found"].toString()));
    QVERIFY(cli.leave());
  }

  void doctorLeavesNothing() {
    const Cli cli;
    const CliResult result = cli.run({"doctor", "--json"});
    QVERIFY2(result.exit == 0, result.text());
    QMap<QString, QJsonObject> checks;
    for (const QJsonObject& check : result.all("check")) checks[check["name"].toString()] = check;
    QVERIFY(checks["local agent"]["ok"].toBool());
    QVERIFY(checks.contains("curl") && !checks["curl"]["needed"].toBool());
    QCOMPARE(checks["curl"]["ok"].toBool(), !QStandardPaths::findExecutable("curl").isEmpty());
    QVERIFY2(cli.processes().isEmpty(), qPrintable(cli.processes().join("\n")));
  }

  // Colours are for a terminal, which stdout may be and stderr not.
  void errorsInAFileHaveNoColours() {
    const Cli cli;
    Terminal terminal(cli, {"run", cli.path("none.yaml")}, cli.path("errors"));
    QCOMPARE(terminal.finish(), 2);
    QFile errors(cli.path("errors"));
    QVERIFY(errors.open(QIODevice::ReadOnly));
    const QByteArray text = errors.readAll();
    QVERIFY2(text.startsWith("error: ") && !text.contains('\x1b'), text.constData());
  }

  // Nothing is said of an agent that was not waited for.
  void ctrlCEndsDoctor() {
    const Cli cli;
    const auto doctor = cli.start({"doctor", "--json"});
    QByteArray out;
    QVERIFY(cli.awaitEvent(*doctor, "check", out));
    QCOMPARE(::kill(static_cast<pid_t>(doctor->processId()), SIGINT), 0);
    const CliResult result = cli.finish(*doctor, out);
    QVERIFY2(result.exit == 130 && result.onlyJson, result.text());
    for (const QJsonObject& check : result.all("check"))
      QVERIFY2(check["name"].toString() != "local agent", result.text());
  }
};

QTEST_GUILESS_MAIN(CliCommandsTest)
#include "cli_commands_test.moc"
