// Commands that train nothing, or a little: plan, simulate, history, cluster, bench, doctor,
// errors.
#include <QJsonArray>
#include <QScopeGuard>
#include <QStandardPaths>
#include <QTest>

#include <sys/stat.h>

#include <cmath>

#include "app/history/history.h"
#include "engine/plan/plan.h"
#include "tests/app/cli/cli_runner.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::test;

class CliCommandsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void planPrintsWhatParsesBack_data() {
    QTest::addColumn<QString>("name");
    QTest::addColumn<QString>("ranks");
    for (const QString name : {"fashion-mlp", "fashion-cnn"})
      for (const QString ranks : {"1", "3"})
        QTest::newRow(qPrintable(name + " " + ranks)) << name << ranks;
  }
  void planPrintsWhatParsesBack() {
    QFETCH(QString, name);
    QFETCH(QString, ranks);
    const Cli cli;
    const CliResult result = cli.run({"plan", example(name), "--local", ranks});
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2(result.err.contains("samples/s"), result.err);
    const auto plan =
        plan::parse(std::string_view(result.out.constData(), std::size_t(result.out.size())));
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    QCOMPARE(QByteArray::fromStdString(plan::text(*plan)), result.out);
    const CliResult json = cli.run({"plan", example(name), "--local", ranks, "--json"});
    QCOMPARE(json.exit, 0);
    QCOMPARE(json.events.size(), 1);
    QCOMPARE(json.last()["plan"].toString().toUtf8(), result.out);
    QVERIFY(json.last()["prediction"].toObject()["step_seconds"].toDouble() > 0);
    // All that would be run is told, with the same words.
    const QJsonArray summary = json.last()["summary"].toArray();
    QVERIFY(summary.size() > 10);
    for (const QJsonValue& row : summary) {
      const QByteArray label = row["label"].toString().toUtf8();
      QVERIFY2(result.err.contains("\n" + label + " ") &&
                   result.err.contains("  " + row["value"].toString().toUtf8() + "\n"),
               label);
    }
    QCOMPARE(result.err.contains("\nHeartbeat"), ranks != "1");
  }

  // The passes of every program, in order, and the graphs after one of them.
  void planListsItsPasses() {
    const Cli cli;
    const QStringList asked{"plan", example("fashion-mlp"), "--local", "3"};
    const CliResult result = cli.run(asked + QStringList{"--passes"});
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2(result.out.indexOf("autodiff") < result.out.indexOf("place-data"), result.out);
    const CliResult json = cli.run(asked + QStringList{"--passes", "--json"});
    const QJsonArray passes = json.last()["passes"].toArray();
    QVERIFY(passes.size() > 10);
    QCOMPARE(passes[0].toObject()["pass"].toString(), QString("autodiff"));
    for (const auto& pass : passes) {
      QVERIFY(pass.toObject()["nodes_after"].toInt() > 0);
      QVERIFY(pass.toObject()["runs"].toInt() > 0);
    }
    const CliResult dump = cli.run(asked + QStringList{"--dump-after", "place-data"});
    QVERIFY2(dump.exit == 0, dump.text());
    for (const char* program : {"init", "step", "evaluate"})
      QVERIFY2(dump.out.contains(QByteArray("# ") + program + " after place-data"), dump.out);
    QVERIFY(dump.out.contains("all-reduce"));
    const CliResult unknown = cli.run(asked + QStringList{"--dump-after", "placed"});
    QCOMPARE(unknown.exit, 2);
    QVERIFY2(unknown.err.contains("placed") && unknown.err.contains("place-data"), unknown.err);
    const CliResult measured = cli.run(asked + QStringList{"--passes", "--measure"});
    QCOMPARE(measured.exit, 2);
    QVERIFY2(measured.err.contains("--measure"), measured.err);
  }

  // How gradients travel is said before the run, and what it costs.
  void planSaysWhatTravels() {
    const Cli cli;
    const QStringList asked{
        "plan",  example("fashion-cnn"),      "--local", "3",
        "--set", "strategy.compression=int8", "--set",   "strategy.all_reduce=ring"};
    const CliResult result = cli.run(asked);
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2(result.err.contains("gradients are sent as int8") && result.err.contains("3.9"),
             result.err);
    QVERIFY(result.out.contains("algorithm \"ring\""));
    const CliResult json = cli.run(asked + QStringList{"--json"});
    const QJsonObject compression = json.last()["prediction"].toObject()["compression"].toObject();
    QVERIFY(compression["ratio"].toDouble() >= 3.9);
    QVERIFY(compression["payload_bytes"].toDouble() * 3.9 <=
            compression["gradient_bytes"].toDouble());
    const CliResult refused =
        cli.run({"plan", example("fashion-cnn"), "--local", "3", "--set",
                 "strategy.compression=int8", "--set", "strategy.kind=local-sgd"});
    QCOMPARE(refused.exit, 2);
    QVERIFY2(refused.err.contains("strategy.compression"), refused.err);
    const CliResult gathers = cli.run(
        {"plan", example("fashion-cnn"), "--local", "5", "--set", "strategy.compression=fp16"});
    QCOMPARE(gathers.exit, 2);
    QVERIFY2(gathers.err.contains("2.000 times") && gathers.err.contains("1.600 times") &&
                 gathers.err.contains("strategy.compression to none"),
             gathers.err);
  }

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

  void ranksOfANode() {
    const Cli cli;
    const CliResult result =
        cli.run({"plan", example("fashion-mlp"), "--local", "2", "--ranks", "local2=3", "--json"});
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.last()["prediction"].toObject()["world"].toInt(), 4);
    QCOMPARE(cli.run({"plan", example("fashion-mlp"), "--local", "2", "--ranks", "local3=1"}).exit,
             2);
  }

  // In the file as it was written, not as it is with other ranks.
  void mistakesOfOtherRanksArePlacedInTheFile() {
    const Cli cli;
    const QString file =
        cli.write("c.yaml",
                  "# One\n# line\n# after\n# another.\nversion: 1\nname: c\n\n"
                  "nodes:\n  - {name: a, address: 127.0.0.1}\n  - {name: b, address: 127.0.0.1}\n");
    const CliResult result = cli.run({"plan", example("fashion-mlp"), "--cluster", file, "--ranks",
                                      "a=4000", "--ranks", "b=4000"});
    QCOMPARE(result.exit, 2);
    QVERIFY2(result.err.contains("c.yaml:8:") || result.err.contains("c.yaml:9:"), result.err);
  }

  void verifyGivesACertificate() {
    if (!QFile::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"))
      QSKIP("the data set is not installed (dataset-fashion-mnist)");
    const Cli cli;
    const CliResult result = cli.run({"verify", "fashion-mlp", "--ranks", "3", "--steps", "4",
                                      "--set", "strategy.kind=zero-2", "--json"});
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY2(result.onlyJson, result.out);
    QCOMPARE(result.last()["event"].toString(), QString("certificate"));
    QVERIFY(result.last()["holds"].toBool());
    QCOMPARE(result.last()["ranks"].toInt(), 3);
    QStringList exact;
    for (const QJsonObject& finding : result.all("finding")) {
      QVERIFY2(finding["holds"].toBool(), result.out);
      if (finding["precision"].toString() == "fp64") exact << finding["check"].toString();
    }
    QCOMPARE(exact,
             QStringList({"initial weights", "gradients", "gradient scale", "updates", "losses",
                          "weights at the end", "evaluation", "all ranks", "two runs"}));
    const CliResult people =
        cli.run({"verify", example("fashion-mlp"), "--ranks", "2", "--steps", "2"});
    QVERIFY2(people.exit == 0, people.text());
    QVERIFY2(people.out.contains("The certificate holds"), people.out);
    QVERIFY2(people.out.contains("small variant: batch 32"), people.out);
    QVERIFY2(people.err.contains("running"), people.err);
  }

  void verifyRefusesWhatCannotBe() {
    const Cli cli;
    const CliResult tensor =
        cli.run({"verify", "fashion-mlp", "--ranks", "3", "--set", "strategy.tensor=2"});
    QCOMPARE(tensor.exit, 2);
    QVERIFY2(tensor.err.contains("divisor of the 3 ranks"), tensor.err);
    QCOMPARE(cli.run({"verify", "fashion-mlp"}).exit, 2);
    const QString cluster =
        cli.write("c.yaml",
                  "version: 1\nname: c\nnodes:\n  - {name: a, address: 127.0.0.1}\n"
                  "  - {name: b, address: 127.0.0.1}\n");
    const CliResult ranks =
        cli.run({"verify", "fashion-mlp", "--ranks", "3", "--cluster", cluster});
    QCOMPARE(ranks.exit, 2);
    QVERIFY2(ranks.err.contains("has 2"), ranks.err);
    // Too many ranks are refused before a strategy is searched for them.
    const QString many = cli.write("many.yaml",
                                   "version: 1\nname: many\nnodes:\n  - {name: 'n[1-16]', ssh: "
                                   "{host: 'n[1-16]'}, devices: [{kind: cpu, count: 8}]}\n");
    const CliResult tooMany =
        cli.run({"verify", "fashion-mlp", "--cluster", many, "--set", "strategy.kind=auto"});
    QVERIFY2(tooMany.exit == 2 && tooMany.err.contains("has 128 ranks"), tooMany.text());
  }

  // The settings that are advised give, as --set, the step that was told.
  void adviseFindsStrategies() {
    const Cli cli;
    const QStringList run{example("fashion-mlp"), "--local", "3"};
    const CliResult advice = cli.run(QStringList{"advise"} + run + QStringList{"--json"});
    QVERIFY2(advice.exit == 0, advice.text());
    const QJsonObject best = advice.first("candidate"), counts = advice.last();
    QCOMPARE(best["event"].toString(), "candidate");
    QCOMPARE(counts["event"].toString(), "advice");
    QVERIFY(counts["judged"].toInt() >= 100 && counts["planned"].toInt() >= 3);
    QVERIFY(!best["why"].toString().isEmpty());
    QVERIFY(best["link"].toDouble() > 0 && best["bubble"].toDouble() < 1);
    QStringList sets;
    const QJsonObject settings = best["settings"].toObject();
    for (auto it = settings.begin(); it != settings.end(); ++it)
      sets << "--set" << it.key() + "=" + it->toString();
    const CliResult plan = cli.run(QStringList{"plan"} + run + sets + QStringList{"--json"});
    QVERIFY2(plan.exit == 0, plan.text());
    const double planned = plan.last()["prediction"].toObject()["step_seconds"].toDouble();
    QVERIFY(std::abs(best["step_seconds"].toDouble() / planned - 1) < 0.01);
    // Each with its command.
    const auto candidates = advice.all("candidate");
    QCOMPARE(counts["command"].toString(), candidates[0]["command"].toString());
    for (const QJsonObject& one : candidates) {
      const QString command = one["command"].toString();
      QVERIFY2(command.startsWith("lockstep run " + run[0] + " --local 3"), qPrintable(command));
      QCOMPARE(command.count(" --set "), one["settings"].toObject().size());
    }
    // As text with the command to launch it; nothing but what is pinned.
    const QStringList second{"--pin", "strategy.kind=zero-3", "--top", "2", "--show", "2"};
    const CliResult told = cli.run(QStringList{"advise"} + run + second + QStringList{"--json"});
    QVERIFY2(told.exit == 0 && told.all("candidate").size() == 2, told.text());
    QCOMPARE(told.last()["command"].toString(), told.all("candidate")[1]["command"].toString());
    const CliResult text = cli.run(QStringList{"advise"} + run + second);
    QVERIFY2(text.exit == 0, text.text());
    QVERIFY2(text.out.contains("lockstep run ") && text.out.contains("strategy.kind=zero-3"),
             text.text());
    QCOMPARE(text.out.trimmed().split('\n')[1].contains("zero-3"), true);
    for (const QStringList& wrong :
         {QStringList{"--pin", "training.batch"}, QStringList{"--top", "0"},
          QStringList{"--top", "2", "--show", "3"}, QStringList{"--seconds", "x"},
          QStringList{"--pin", "strategy.tensor=2"}}) {
      const CliResult refused = cli.run(QStringList{"advise"} + run + wrong);
      QVERIFY2(refused.exit != 0 && refused.err.contains("error: "), refused.text());
    }
  }

  // strategy.kind auto is planned as the best candidate of advise is, and says which that is.
  void autoPlansWhatIsAdvised() {
    const Cli cli;
    const QStringList run{example("fashion-mlp"), "--local", "3"};
    const QStringList open = run + QStringList{"--set", "strategy.kind=auto"};
    const CliResult advice = cli.run(QStringList{"advise"} + open + QStringList{"--json"});
    QVERIFY2(advice.exit == 0 && advice.all("current").isEmpty(), advice.text());
    for (const QJsonObject& candidate : advice.all("candidate")) {  // settings of an open spec
      QStringList sets = open;
      const QJsonObject settings = candidate["settings"].toObject();
      for (auto it = settings.begin(); it != settings.end(); ++it)
        sets << "--set" << it.key() + "=" + it->toString();
      const CliResult plan = cli.run(QStringList{"plan"} + sets + QStringList{"--json"});
      QVERIFY2(plan.exit == 0 && !plan.text().contains("auto chose"), plan.text());
      const double planned = plan.last()["prediction"].toObject()["step_seconds"].toDouble();
      QVERIFY(std::abs(candidate["step_seconds"].toDouble() / planned - 1) < 0.01);
    }
    const QString command = advice.last()["command"].toString();
    QVERIFY2(command.contains("strategy.kind=") && !command.contains("auto"), qPrintable(command));
    QStringList words = command.split(' ').mid(2);  // without "lockstep run"
    const CliResult byHand = cli.run(QStringList{"plan"} + words + QStringList{"--json"});
    QVERIFY2(byHand.exit == 0, byHand.text());
    const CliResult found = cli.run(QStringList{"plan"} + open + QStringList{"--json"});
    QVERIFY2(found.exit == 0 && found.onlyJson, found.text());
    QCOMPARE(found.last()["plan"].toString(), byHand.last()["plan"].toString());
    const QJsonObject prediction = found.last()["prediction"].toObject();
    const QString chosen = prediction["remarks"].toArray()[0].toString();
    QVERIFY2(chosen.startsWith("auto chose ") && chosen.contains("3 ranks") &&
                 chosen.contains("next best: "),
             qPrintable(chosen));
    const CliResult step = cli.run(QStringList{"simulate"} + open);
    QVERIFY2(step.exit == 0 && step.out.contains("note: auto chose "), step.text());
    // What is set besides is kept, or refused where nothing can have it.
    const CliResult kept = cli.run(QStringList{"plan"} + open +
                                   QStringList{"--set", "strategy.micro_batches=4", "--json"});
    QVERIFY2(kept.exit == 0, kept.text());
    QVERIFY2(kept.last()["prediction"].toObject()["remarks"].toArray()[0].toString().contains(
                 "micro-batches 4"),
             kept.text());
    const CliResult unpinned =
        cli.run(QStringList{"advise"} + open + QStringList{"--pin", "strategy.kind"});
    QVERIFY2(unpinned.exit == 2 && unpinned.err.contains("--pin strategy.kind="), unpinned.text());
    for (const QString wrong : {"strategy.tensor=2", "strategy.local_steps=2"}) {
      const CliResult refused = cli.run(QStringList{"plan"} + open + QStringList{"--set", wrong});
      QVERIFY2(refused.exit == 2 && refused.err.contains(wrong.section('=', 0, 0).toUtf8()),
               refused.text());
    }
  }

  // Nodes that are not connected are planned, and what is not known of them is said.
  void autoPlansWithoutAConnection() {
    const Cli cli;
    const QString cluster = cli.write("far.yaml",
                                      "version: 1\nname: far\nnodes:\n"
                                      "  - {name: a, ssh: {host: a.nowhere.invalid}}\n"
                                      "  - {name: b, ssh: {host: b.nowhere.invalid}}\n");
    const QStringList open{example("fashion-mlp"), "--cluster", cluster, "--set",
                           "strategy.kind=auto"};
    const CliResult plan = cli.run(QStringList{"plan"} + open);
    QVERIFY2(plan.exit == 0 && plan.err.contains("auto chose ") &&
                 plan.err.contains("the memory of 2 nodes is not known until they are connected"),
             plan.text());
    const CliResult advice = cli.run(QStringList{"advise"} + open);
    QVERIFY2(advice.exit == 0 && advice.out.contains("the memory of 2 nodes is not known"),
             advice.text());
    QCOMPARE(cli.run(QStringList{"advise"} + open + QStringList{"--json"})
                 .last()["nodes_of_unknown_memory"]
                 .toInt(),
             2);
  }

  // Each figure of both plans, and that a plan is like itself.
  void planShowsTheDifference() {
    const Cli cli;
    const QStringList plan{"plan",   example("fashion-mlp"), "--local", "3",
                           "--diff", example("fashion-mlp")};
    QVERIFY(cli.run(plan).out.contains("the plans are the same"));
    const QStringList sharded = plan + QStringList{"--set", "strategy.kind=zero-3"};
    const CliResult json = cli.run(sharded + QStringList{"--json"});
    QVERIFY2(json.exit == 0 && json.onlyJson, json.text());
    QCOMPARE(json.last()["same_plan"].toBool(), false);
    QMap<QString, QJsonObject> figures;
    for (const QJsonObject& one : json.all("figure")) figures[one["name"].toString()] = one;
    const auto has = [&](const QString& name, const QString& which) {
      return figures.contains(name) && figures[name][which].toDouble() > 0;
    };
    QVERIFY(has("step", "plan") && has("step", "other"));
    QVERIFY(has("sent/all-gather data", "plan") && !has("sent/all-gather data", "other"));
    QVERIFY(figures["memory/optimizer"]["plan"].toDouble() <
            0.5 * figures["memory/optimizer"]["other"].toDouble());
    // One rank updates what three updated before.
    QVERIFY(figures["computation"]["plan"].toDouble() < figures["computation"]["other"].toDouble());
    const CliResult text = cli.run(sharded);
    QVERIFY2(text.out.contains("memory/optimizer") && text.out.contains(" %"), text.text());
    QCOMPARE(cli.run(plan + QStringList{"--passes"}).exit, 2);
    QCOMPARE(cli.run({"plan", example("fashion-mlp"), "--diff", "/nowhere.yaml"}).exit, 2);
  }

  void simulateShowsAStep() {
    const Cli cli;
    const CliResult result = cli.run({"simulate", example("fashion-mlp"), "--local", "3"});
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY(result.out.contains("one step"));
    QCOMPARE(result.out.count("│"), 6);
    const CliResult even = cli.run({"simulate", example("fashion-mlp"), "--local", "2", "--json"});
    const CliResult slow =
        cli.run({"simulate", example("fashion-mlp"), "--local", "2", "--slow", "1=3", "--json"});
    QVERIFY(slow.last()["prediction"].toObject()["step_seconds"].toDouble() >
            even.last()["prediction"].toObject()["step_seconds"].toDouble());
    QCOMPARE(slow.last()["events"].toObject()["rank"].toArray().size(),
             slow.last()["events"].toObject()["end_ns"].toArray().size());
    QCOMPARE(cli.run({"simulate", example("fashion-mlp"), "--slow", "7=2"}).exit, 2);
    for (const QString& factor : {QString("0=1e308"), QString("0=1e-300")})
      QVERIFY(cli.run({"simulate", example("fashion-mlp"), "--slow", factor})
                  .err.contains("a factor from 0.000001 to 1000000"));
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
    QCOMPARE(cli.run({"options", "nothing-like-it"}).exit, 2);
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

  void benchTrains() {
    const Cli cli;
    const CliResult result =
        cli.run({"bench", "train", "--model", "fashion-mlp", "--batch", "96", "--ranks", "2",
                 "--threads", "1", "--seconds", "1.5", "--json"});
    QVERIFY2(result.exit == 0, result.text());
    QCOMPARE(result.events.size(), 1);
    QVERIFY(result.last()["samples_per_second"].toDouble() > 0);
    QVERIFY(!result.last()["ops"].toArray().isEmpty());
    QCOMPARE(result.last()["batch"].toInt(), 96);
    // A trace that cannot be written does not take along what was measured.
    const CliResult lost = cli.run({"bench", "train", "--model", "fashion-mlp", "--seconds", "0.5",
                                    "--profile", "/", "--json"});
    QVERIFY2(lost.exit != 0, lost.text());
    QVERIFY2(lost.first("bench")["samples_per_second"].toDouble() > 0, lost.text());
    QVERIFY2(lost.first("error")["what"].toString() == "cannot write /", lost.text());
    QVERIFY(cli.leave());
    QVERIFY2(cli.processes().isEmpty(), qPrintable(cli.processes().join("\n")));
  }

  void benchSaysWhatCommunicationCosts() {
    const Cli cli;
    const auto asked = [&](int ranks, const char* strategy) {
      return cli.run({"bench", "train", "--model", "fashion-mlp", "--batch", "96", "--ranks",
                      QString::number(ranks), "--seconds", "1", "--communication", "--set",
                      QString("strategy.kind=%1").arg(strategy), "--json"});
    };
    for (const char* strategy : {"multi-worker-mirrored", "zero-3"}) {
      const CliResult two = asked(2, strategy);
      QVERIFY2(two.exit == 0, two.text());
      QCOMPARE(two.events.size(), 1);
      QVERIFY(two.last()["rounds"].toInt() > 0);
      for (const char* way : {"real_seconds", "barrier_seconds", "none_seconds"})
        QVERIFY2(two.last()[way].toDouble() > 0, way);
      QCOMPARE(two.last()["real_share"].toDouble(), 1.0);
    }
    const CliResult alone = asked(1, "mirrored");
    QVERIFY2(alone.exit != 0 &&
                 alone.text().toStdString().find("has no communication") != std::string::npos,
             alone.text());
    const CliResult stages = asked(2, "pipeline");
    QVERIFY2(stages.exit != 0 &&
                 stages.text().toStdString().find("a barrier cannot replace") != std::string::npos,
             stages.text());
    QVERIFY(cli.leave());
    QVERIFY2(cli.processes().isEmpty(), qPrintable(cli.processes().join("\n")));
  }

  void benchesCollectives() {
    const Cli cli;
    for (const QString comm : {"shm", "gloo"}) {
      const CliResult all = cli.run({"bench", "collective", "--ranks", "3", "--comm", comm, "--max",
                                     "65536", "--seconds", "0.5", "--json"});
      QVERIFY2(all.exit == 0, all.text());
      QCOMPARE(all.events.size(), 6 * 3 + 1);  // 4, 16 and 64 KiB, and the barrier
      for (const QJsonObject& one : all.events) {
        QVERIFY(one["seconds"].toDouble() > 0);
        QCOMPARE(one["comm"].toString(), comm);
        if (one["kind"].toString() == "barrier") continue;
        const double algorithmic = one["bytes"].toDouble() / one["seconds"].toDouble();
        const auto is = [&](const char* rate, double factor) {
          return std::abs(one[rate].toDouble() / (factor * algorithmic) - 1) < 1e-6;
        };
        QVERIFY(is("algorithm_bytes_per_second", 1));
        if (one["kind"].toString() == "all-reduce") QVERIFY(is("bus_bytes_per_second", 4.0 / 3));
        if (one["kind"].toString() == "all-gather") QVERIFY(is("bus_bytes_per_second", 2.0 / 3));
        if (one["kind"].toString() == "send-recv") QVERIFY(is("bus_bytes_per_second", 1));
      }
    }
    const CliResult ring =
        cli.run({"bench", "collective", "all-reduce", "--min", "1048576", "--max", "1048576",
                 "--seconds", "0.3", "--algorithm", "ring", "--json"});
    QVERIFY2(ring.exit == 0, ring.text());
    QCOMPARE(ring.events.size(), 1);
    QCOMPARE(ring.last()["algorithm"].toString(), QString("ring"));
    QCOMPARE(ring.last()["bytes"].toInt(), 1 << 20);
    const CliResult wrong = cli.run({"bench", "collective", "all-gathr", "--json"});
    QVERIFY(wrong.exit != 0);
    QVERIFY(wrong.text().toStdString().find("all-gathr") != std::string::npos);
    QVERIFY(cli.leave());
    QVERIFY2(cli.processes().isEmpty(), qPrintable(cli.processes().join("\n")));
  }

  void benchesTheMachine() {
    const Cli cli;
    const CliResult products = cli.run({"bench", "gemm", "fp32", "bf16", "--min", "32", "--max",
                                        "64", "--seconds", "0.2", "--json"});
    QVERIFY2(products.exit == 0, products.text());
    QCOMPARE(products.events.size(), 4);  // two sides, two precisions
    for (const QJsonObject& one : products.events) {
      const double side = one["side"].toDouble(), seconds = one["seconds"].toDouble();
      QVERIFY(side == 32 || side == 64);
      QVERIFY(seconds > 0);
      QVERIFY(std::abs(one["flops_per_second"].toDouble() * seconds / (2 * side * side * side) -
                       1) < 1e-6);
    }
    const CliResult memory = cli.run(
        {"bench", "memory", "--min", "4096", "--max", "8192", "--seconds", "0.2", "--json"});
    QVERIFY2(memory.exit == 0, memory.text());
    QCOMPARE(memory.events.size(), 6);  // two sizes; read, scale, add
    for (const QJsonObject& one : memory.events) {
      const QString name = one["name"].toString();
      const double arrays = name == "read" ? 1 : name == "scale" ? 2 : 3;
      QVERIFY(std::abs(one["bytes_per_second"].toDouble() * one["seconds"].toDouble() /
                           (arrays * one["bytes"].toDouble()) -
                       1) < 1e-6);
    }
    const std::vector<std::pair<QStringList, const char*>> wrong{
        {{"bench", "gemm", "fp7"}, "fp7"},
        {{"bench", "gemm", "--max", "2", "--min", "2"}, "min"},
        {{"bench", "gemm", "--max", "1000000"}, "max"},
        {{"bench", "memory", "--max", "17179869184"}, "memory"},
        {{"bench", "memory", "--backend", "abacus"}, "abacus"},
        {{"bench", "gemm", "--backend", "cuda", "--seconds", "0.2"}, "cuda"}};
    for (const auto& [words, named] : wrong) {
      const CliResult result = cli.run(words + QStringList{"--json"});
      if (QString(named) == "cuda" && result.exit == 0) continue;  // there is a GPU
      const bool isOfTheNode = QString(named) == "cuda" || QString(named) == "memory";
      QVERIFY2(result.exit == (isOfTheNode ? 3 : 2), result.text());
      QVERIFY2(result.text().contains(named), result.text());
    }
    QVERIFY(cli.leave());
    QVERIFY2(cli.processes().isEmpty(), qPrintable(cli.processes().join("\n")));
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
};

QTEST_GUILESS_MAIN(CliCommandsTest)
#include "cli_commands_test.moc"
