// Alert rules from the command line, and the alerts of a real run.
#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QTest>

#include "tests/app/alerts/loopback_server.h"
#include "tests/app/cli/cli_runner.h"
#include "tests/support/paths.h"

using namespace lockstep::test;

class CliAlertsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void rulesAreListedAndSet() {
    const Cli cli;
    const CliResult before = cli.run({"alerts", "--json"});
    QVERIFY2(before.exit == 0 && before.onlyJson, before.text());
    QCOMPARE(before.all("rule").size(), 11);
    QCOMPARE(rule(before, "loss-spike")["threshold"].toDouble(), 12.0);
    QCOMPARE(rule(before, "loss-spike")["window_unit"].toString(), QString("steps"));
    QVERIFY(!rule(before, "stall").contains("window"));
    const CliResult set =
        cli.run({"alerts", "set", "loss-spike.threshold=6.5", "loss-plateau.enabled=true",
                 "straggler.actions=command", "actions.command=notify 'a b'",
                 "actions.webhook=https://user:hunter2@h.example/T0/secret"});
    QVERIFY2(set.exit == 0 && set.out.isEmpty() && set.err.isEmpty(), set.text());
    const CliResult after = cli.run({"alerts", "--json"});
    QCOMPARE(rule(after, "loss-spike")["threshold"].toDouble(), 6.5);
    QVERIFY(rule(after, "loss-plateau")["enabled"].toBool());
    QCOMPARE(rule(after, "straggler")["actions"].toArray(), QJsonArray{"command"});
    QCOMPARE(after.first("actions")["command"].toString(), QString("notify 'a b'"));
    const CliResult table = cli.run({"alerts"});
    QVERIFY2(table.exit == 0 && table.out.contains("loss-spike") && table.out.contains("6.5"),
             table.text());
    for (const CliResult& shown : {after, table})
      QVERIFY2(!shown.out.contains("secret") && !shown.out.contains("hunter2"), shown.text());
    QCOMPARE(cli.run({"alerts", "set", "--defaults"}).exit, 0);
    QCOMPARE(rule(cli.run({"alerts", "--json"}), "loss-spike")["threshold"].toDouble(), 12.0);
    QVERIFY(cli.run({"alerts", "--help"}).out.contains("lockstep alerts set"));
  }

  void mistakesSayWhatWasExpected() {
    const Cli cli;
    const auto refused = [&](const QStringList& arguments, const char* why) {
      const CliResult result = cli.run(QStringList{"alerts"} + arguments);
      return result.exit == 2 && result.err.contains(why) ? QByteArray() : result.text();
    };
    for (const auto& [arguments, why] :
         {std::pair{QStringList{"set"}, "needs RULE.FIELD=VALUE"},
          {QStringList{"set", "stall"}, "expected RULE.FIELD=VALUE"},
          {QStringList{"set", "los-spike.hold=1"}, "did you mean loss-spike?"},
          {QStringList{"set", "stall.hold=soon"}, "stall.hold"},
          {QStringList{"set", "stall.hold=1e9"}, "from 1 to 86400 s"},
          {QStringList{"set", "actions.webhook=h.example/secret"}, "the webhook is no URL"},
          {QStringList{"test", "stal"}, "did you mean stall?"}}) {
      const QByteArray said = refused(arguments, why);
      QVERIFY2(said.isEmpty(), said);
    }
    QVERIFY(!QFile::exists(cli.home() + "/alert-rules.yaml"));
    cli.write("home/alert-rules.yaml", "rules:\n  stall: {hold: soon}\n");
    const CliResult damaged = cli.run({"alerts", "set", "stall.hold=3"});
    QVERIFY2(damaged.exit == 2 && damaged.err.contains("alert-rules.yaml:2:11"), damaged.text());
    QFile kept(cli.home() + "/alert-rules.yaml");
    QVERIFY(kept.open(QIODevice::ReadOnly) && kept.readAll().contains("soon"));
  }

  void actionsAreTested() {
    const Cli cli;
    const CliResult none = cli.run({"alerts", "test", "stall"});
    QVERIFY2(none.exit == 3 && none.err.contains("has no command and no webhook"), none.text());
    QCOMPARE(cli.run({"alerts", "set", "actions.command=tee " + cli.path("told")}).exit, 0);
    const CliResult well = cli.run({"alerts", "test", "stall"});
    QVERIFY2(well.exit == 0 && well.out == "command: done\n", well.text());
    QFile told(cli.path("told"));
    QVERIFY(told.open(QIODevice::ReadOnly));
    QCOMPARE(QJsonDocument::fromJson(told.readAll()).object()["rule"].toString(), QString("stall"));
    QCOMPARE(cli.run({"alerts", "set", "actions.command=false"}).exit, 0);
    const CliResult failed = cli.run({"alerts", "test", "stall"});
    QVERIFY2(failed.exit == 3 && failed.err.contains("the alert command false failed"),
             failed.text());
  }

  // A rule that every run breaks: the alert is an event, a line of text, and the command's input.
  void aRunRaisesAlerts() {
    const Cli cli;
    QCOMPARE(cli.run({"alerts", "set", "disk-free.threshold=1000000", "disk-free.hold=0",
                      "actions.command=tee -a " + cli.path("told")})
                 .exit,
             0);
    const CliResult run = cli.run(mlp() + QStringList{"--json"});
    QVERIFY2(run.exit == 0 && run.onlyJson, run.text());
    const QList<QJsonObject> alerts = run.all("alert");
    QStringList story;
    for (const QJsonObject& alert : alerts) {
      QCOMPARE(alert["run"], run.first("started")["run"]);
      QVERIFY(!alert["text"].toString().isEmpty());
      const QString rule = alert["rule"].toString();
      if (rule != "disk-free" && rule != "run-ended") continue;  // the machine is busy
      story << rule + ' ' + alert["state"].toString() + ' ' + alert["subject"].toString();
      if (story.size() == 1) QVERIFY(alert["text"].toString().contains("GiB of free disk space"));
    }
    QCOMPARE(story, QStringList(
                        {"disk-free raised local1", "disk-free over local1", "run-ended raised "}));
    QCOMPARE(run.last()["event"].toString(), QString("finished"));
    QFile told(cli.path("told"));
    QVERIFY(told.open(QIODevice::ReadOnly));
    QCOMPARE(told.readAll().count('\n'), alerts.size());
    const CliResult text = cli.run(mlp());
    QVERIFY2(text.exit == 0 && text.err.contains("alert: local1 has ") &&
                 text.err.contains("(disk-free)") && text.err.contains("alert over: "),
             text.text());
  }

  // The end of the run leads to three alerts, of which each would be waited for.
  void aDeadWebhookDoesNotHoldTheRunsEndUp() {
    const Cli cli;
    const lockstep::tests::LoopbackServer silent("");
    QCOMPARE(cli.run({"alerts", "set", "disk-free.threshold=1000000", "disk-free.hold=0",
                      "actions.webhook=" + QString::fromStdString(silent.url("/"))})
                 .exit,
             0);
    const auto process =
        cli.start(mlp("2") + QStringList{"--set", "training.max_steps=10000", "--json"});
    QByteArray out;
    while (!out.contains("\"rule\":\"run-ended\""))
      QVERIFY2(cli.awaitNext(*process, "alert", out), out.right(3000));
    QElapsedTimer clock;
    clock.start();
    const CliResult run = cli.finish(*process, out);
    QVERIFY2(run.exit == 0, run.text());
    QVERIFY2(run.err.contains("not sent to actions.webhook in time"), run.text());
    QVERIFY(!silent.requests().empty());
    QVERIFY2(clock.elapsed() < 29'000, qPrintable(QString::number(clock.elapsed())));
  }

  // A damaged file does not stop a run.
  void aRunUsesTheDefaultsInPlaceOfADamagedFile() {
    const Cli cli;
    QDir().mkpath(cli.home());
    cli.write("home/alert-rules.yaml", "rules: {stall: {hold: soon}}\n");
    const CliResult run = cli.run(mlp());
    QVERIFY2(run.exit == 0 && run.err.contains("alert-rules.yaml:1:17") &&
                 run.err.contains("the default alert rules are used"),
             run.text());
  }

  // app/alerts/RULES.md is what the command prints; written again with LOCKSTEP_UPDATE_GOLDEN=1.
  void theTableOfRulesIsTrue() {
    const Cli cli;
    const CliResult table = cli.run({"alerts", "--markdown"});
    QCOMPARE(table.exit, 0);
    QFile file(QString::fromStdString(lockstep::test::sourcePath("app/alerts/RULES.md")));
    if (qEnvironmentVariableIsSet("LOCKSTEP_UPDATE_GOLDEN")) {
      QVERIFY(file.open(QIODevice::WriteOnly));
      file.write(table.out);
      file.close();
    }
    QVERIFY(file.open(QIODevice::ReadOnly));
    QCOMPARE(table.out, file.readAll());
  }

 private:
  static QJsonObject rule(const CliResult& result, const QString& name) {
    for (const QJsonObject& rule : result.all("rule"))
      if (rule["rule"].toString() == name) return rule;
    return {};
  }
  // Long enough for some samples of its nodes.
  static QStringList mlp(const QString& nodes = "1") {
    return {"run",
            example("fashion-mlp"),
            "--local",
            nodes,
            "--no-benchmark",
            "--set",
            "training.epochs=100",
            "--set",
            "training.max_steps=20000"};
  }
};

QTEST_GUILESS_MAIN(CliAlertsTest)
#include "cli_alerts_test.moc"
