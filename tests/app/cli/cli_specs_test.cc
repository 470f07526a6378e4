// New run specs, and the specs of two runs beside each other.
#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QTest>

#include "app/history/history.h"
#include "tests/app/cli/cli_runner.h"

using namespace lockstep;
using namespace lockstep::test;

class CliSpecsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // Every kind but the empty one can be planned as it is written.
  void newSpecsCanBePlanned() {
    const Cli cli;
    const CliResult kinds = cli.run({"new", "--json"});
    QVERIFY2(kinds.exit == 0 && kinds.onlyJson && kinds.all("kind").size() >= 7, kinds.text());
    const CliResult table = cli.run({"new"});
    QVERIFY2(table.exit == 0 && table.out.contains("resnet"), table.text());
    for (const QJsonObject& one : kinds.all("kind")) {
      const QString kind = one["kind"].toString(), file = cli.path(kind + "-a.yaml");
      const CliResult made = cli.run({"new", kind, file});
      QVERIFY2(made.exit == 0 && made.out.isEmpty(), made.text());
      const QByteArray text = bytes(file);
      QVERIFY2(kind == "empty" || text.contains("name: " + kind.toUtf8() + "-a"), text);
      if (kind == "empty" || kind == "program") continue;
      const CliResult plan = cli.run({"plan", file, "--local", "2"});
      QVERIFY2(plan.exit == 0, plan.text());
    }
  }

  void nameAndDataAreGiven() {
    const Cli cli;
    const QString file = cli.path("g.yaml"), data = cli.write("mine.txt", "to be or not to be");
    const CliResult made =
        cli.run({"new", "gpt", file, "--name", "shakespeare", "--data", data, "--json"});
    QVERIFY2(made.exit == 0 && made.first("created")["file"].toString() == file, made.text());
    QVERIFY2(bytes(file).contains("name: shakespeare") && bytes(file).contains(data.toUtf8()),
             bytes(file));
    for (const auto& [arguments, why] :
         {std::pair{QStringList{"gpt", file}, "exists already"},
          {QStringList{"gpt"}, "FILE.yaml is missing"},
          {QStringList{"gtp", cli.path("x.yaml")}, "expected mlp, cnn"},
          {QStringList{"mlp", cli.path("x.yaml"), "--data", data}, "takes no --data"}}) {
      const CliResult refused = cli.run(QStringList{"new"} + arguments);
      QVERIFY2(refused.exit == 2 && refused.err.contains(why), refused.text());
    }
    QVERIFY(!QFile::exists(cli.path("x.yaml")));
  }

  void specsOfRunsAreCompared() {
    const Cli cli;
    QVERIFY(QDir().mkpath(cli.path("home/history")));
    add(cli, "run-a", "training:\n  batch: 64\n  epochs: 2\n");
    add(cli, "run-b", "training:\n  batch: 96\n  epochs: 2\n");
    add(cli, "run-c", "training:\n  batch: 64\n  epochs: 2\n");
    const CliResult json = cli.run({"history", "diff", "run-a", "run-b", "--json"});
    QVERIFY2(json.exit == 0 && json.onlyJson && json.all("option").size() == 1, json.text());
    QCOMPARE(json.last()["option"].toString(), QString("training.batch"));
    QCOMPARE(json.last()["values"].toArray(), (QJsonArray{"64", "96"}));
    const CliResult table = cli.run({"history", "diff", "run-a", "run-b", "run-c"});
    QVERIFY2(table.exit == 0 && table.out.contains("run-c") && table.out.contains("96") &&
                 !table.out.contains("epochs"),
             table.text());
    const CliResult equal = cli.run({"history", "diff", "run-a", "run-c"});
    QVERIFY2(equal.exit == 0 && equal.out.isEmpty() && equal.err.contains("equal"), equal.text());
    QCOMPARE(cli.run({"history", "diff", "run-a", "run-z"}).exit, 2);
  }

 private:
  static QByteArray bytes(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  }
  static void add(const Cli& cli, const std::string& run, const std::string& spec) {
    app::RunRow row;
    row.run = run;
    app::RunDocuments documents;
    documents.specYaml = spec;
    const auto history = app::History::open(cli.path("home/history").toStdString());
    QVERIFY(history.ok() && (*history)->add(row, documents).ok());
  }
};

QTEST_GUILESS_MAIN(CliSpecsTest)
#include "cli_specs_test.moc"
