// What is told before a run: plan, simulate, advise and verify.
#include <QFile>
#include <QJsonArray>
#include <QTest>

#include <cmath>

#include "engine/plan/plan.h"
#include "tests/app/cli/cli_runner.h"

using namespace lockstep;
using namespace lockstep::test;

class CliPlanTest : public QObject {
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

  // It may have planned a few strategies alone: nothing is said of all.
  void ctrlCEndsASearch() {
    const Cli cli;
    Terminal terminal(cli, {"advise", "fashion-mlp", "--local", "32", "--all"});
    QVERIFY2(terminal.await("strategies planned"), terminal.shown());
    terminal.type("\x03");
    QVERIFY2(terminal.finish() == 0, terminal.shown());
    QVERIFY2(terminal.shown().contains("Ctrl-C ended the search early"), terminal.shown());
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
      QVERIFY2(command.endsWith(" --home " + cli.home()), qPrintable(command));  // not the usual
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
    // The settings of each candidate, applied to the spec, give the plan of its step time.
    for (const QJsonObject& candidate : advice.all("candidate")) {
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
};

QTEST_GUILESS_MAIN(CliPlanTest)
#include "cli_plan_test.moc"
