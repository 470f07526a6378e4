// What needs no training: new run specs and their layers, the specs of two runs beside each other,
// the logs of a run by level.
#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QScopeGuard>
#include <QTest>

#include <csignal>

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
          {QStringList{"gpt"}, "FILE is missing"},
          {QStringList{"gpt", cli.path("x.yaml"), "--data", ""}, "--data is empty"},
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

  // The environment too, where it differs.
  void environmentsOfRunsAreCompared() {
    const Cli cli;
    QVERIFY(QDir().mkpath(cli.path("home/history")));
    const auto nodes = [](const char* kernel) {
      return fmt::format(R"([{{"node":"n1","host":"a","ranks":[0,1],"environment":{{"kernel":"{}",)"
                         R"("gpu_driver":"580.1","versions":{{"torch":"2.1.0"}}}}}}])",
                         kernel);
    };
    add(cli, "run-a", "training:\n  batch: 64\n", nodes("6.1"));
    add(cli, "run-b", "training:\n  batch: 64\n", nodes("6.6"));
    const CliResult json = cli.run({"history", "diff", "run-a", "run-b", "--json"});
    QVERIFY2(json.exit == 0 && json.all("option").size() == 1, json.text());
    QCOMPARE(json.last()["option"].toString(), QString("environment.kernel"));
    QCOMPARE(json.last()["values"].toArray(), (QJsonArray{"6.1", "6.6"}));
    const CliResult text = cli.run({"history", "show", "run-b"});
    for (const char* part : {"\nenvironment\n", "  kernel            6.6\n",
                             "  gpu_driver        580.1\n", "  torch             2.1.0\n"})
      QVERIFY2(text.out.contains(part), text.text());
    const QJsonObject node = cli.run({"history", "show", "run-b", "--json"})
                                 .first("run")["nodes"]
                                 .toArray()[0]
                                 .toObject();
    QCOMPARE(node["kernel"].toString(), QString("6.6"));
    QCOMPARE(node["ranks"].toArray(), (QJsonArray{0, 1}));
    QCOMPARE(node["versions"].toObject()["torch"].toString(), QString("2.1.0"));
    QVERIFY(!node.contains("os"));
  }

  // Each text that a run was launched with, byte for byte.
  void documentsOfARunArePrinted() {
    const Cli cli;
    QVERIFY(QDir().mkpath(cli.path("home/history")));
    app::RunRow row;
    row.run = "run-a";
    row.phase = app::RunState::SUCCEEDED;
    app::RunDocuments documents;
    documents.specYaml = "# mine\nmodel: {name: m}\n";
    documents.specResolved = "model:\n  name: m\n";
    documents.clusterYaml = "name: lab\n";
    documents.plan = "plan: 1 rank\n";
    documents.codePatch = "diff --git a/x b/x\n-a\r\n+模型\r\n";
    const auto history = app::History::open(cli.path("home/history").toStdString());
    QVERIFY(history.ok() && (*history)->add(row, documents).ok());
    for (const app::RunText& one : app::kRunTexts) {
      const auto name = QString::fromStdString(std::string(one.name));
      const CliResult text = cli.run({"history", "show", "run-a", "--document", name});
      QVERIFY2(text.exit == 0, text.text());
      QCOMPARE(text.out.toStdString(), one.of(documents));
      const CliResult json = cli.run({"history", "show", "run-a", "--document", name, "--json"});
      QCOMPARE(json.first("document")["text"].toString().toStdString(), one.of(documents));
    }
    // As an editor of Windows writes lines.
    row.run = "run-w";
    documents.specYaml = "# mine\r\nmodel: {name: m}\r\n";
    documents.specResolved.clear();
    QVERIFY((*history)->add(row, documents).ok());
    const CliResult again = cli.run({"history", "export", "run-w", "--format", "yaml"});
    QVERIFY2(again.exit == 0 && again.out.toStdString() == documents.specYaml, again.text());
    const CliResult wrong = cli.run({"history", "show", "run-a", "--document", "plans"});
    QVERIFY2(wrong.exit == 2 && wrong.err.contains("did you mean plan?"), wrong.text());
    add(cli, "run-b", "model: {}\n");
    const CliResult none = cli.run({"history", "show", "run-b", "--document", "plan"});
    QVERIFY2(none.exit == 2 && none.err.contains("has no document \"plan\""), none.text());
  }

  // What its ranks send is not known, which is not nothing.
  void aProgramHasNoPlanToShow() {
    const Cli cli;
    QVERIFY(QDir().mkpath(cli.path("home/history")));
    app::RunRow row;
    row.run = "run-p";
    row.strategy = "own program";
    row.phase = app::RunState::SUCCEEDED;
    app::RunDocuments documents;
    documents.plan = "plan \"p\" version 2\nstrategy \"own program\"\nmesh \"data\" 2\n";
    const auto history = app::History::open(cli.path("home/history").toStdString());
    QVERIFY(history.ok() && (*history)->begin(row, documents).ok());
    for (const char* command : {"traffic", "timeline"}) {
      const CliResult refused = cli.run({command, "run-p"});
      QVERIFY2(
          refused.exit == 3 && refused.err.contains("has no plan: it is a program of your own"),
          refused.text());
    }
  }

  // Beside each layer what it takes and has; with ranks, what each keeps on one.
  void layersAreListed() {
    const Cli cli;
    const CliResult text = cli.run({"layers", "fashion-cnn"});
    QVERIFY2(text.exit == 0 && text.out.contains("conv2d") && text.out.contains("parameters"),
             text.text());
    const CliResult json = cli.run({"layers", "fashion-cnn", "--ranks", "2", "--json"});
    QVERIFY2(json.exit == 0 && json.onlyJson, json.text());
    const auto layers = json.all("layer");
    QVERIFY(layers.size() > 3);
    double parameters = 0;
    for (const QJsonObject& layer : layers) {
      parameters += layer["parameters"].toDouble();
      QVERIFY2(!layer["output"].toString().isEmpty() && layer.contains("state_bytes"), json.text());
    }
    QCOMPARE(layers[0]["inputs"].toArray(), QJsonArray{"input"});
    QCOMPARE(layers[1]["inputs"].toArray(), QJsonArray{layers[0]["layer"]});
    QCOMPARE(json.last()["parameters"].toDouble(), parameters);
    QCOMPARE(cli.run({"layers", cli.path("absent.yaml")}).exit, 2);
    // An example goes by its name beside a folder of that name, as ddp has one.
    const auto back = qScopeGuard([was = QDir::currentPath()] { QDir::setCurrent(was); });
    QVERIFY(QDir(cli.path("")).mkpath("fashion-cnn") && QDir::setCurrent(cli.path("")));
    QCOMPARE(cli.run({"layers", "fashion-cnn"}).out, text.out);
    // A folder of checkpoints is told from a run by its slash.
    const CliResult resumed = cli.run({"run", "fashion-cnn", "--resume", "home"});
    QVERIFY2(resumed.exit == 2 && resumed.err.contains("./home"), resumed.text());
    QCOMPARE(cli.run({"layers", example("ddp")}).exit, 2);  // no model of ours
  }

  void logsAreChosenByLevel() {
    const Cli cli;
    QVERIFY(QDir().mkpath(cli.path("home/history")));
    {
      const auto history = app::History::open(cli.path("home/history").toStdString());
      QVERIFY(history.ok());
      app::RunRow row;
      row.run = "run-l";
      row.phase = app::RunState::SUCCEEDED;
      app::RunDocuments documents;
      documents.clusterYaml =
          "version: 1\nname: c\nnodes:\n  - {name: n1, ssh: {host: n1}}\n"
          "  - {name: n2, ssh: {host: n2}}\n";
      const auto store = (*history)->begin(row, documents);
      QVERIFY(store.ok());
      app::RunBatch batch;
      const char* const lines[] = {"loss 0.3", "UserWarning: slow", "RuntimeError: first",
                                   "Traceback: second"};
      for (int i = 0; i < 4; ++i)
        batch.logs.push_back({0, i + 1, i % 2 ? "n2" : "n1", 0, lines[i]});
      QVERIFY((*store)->append(batch).ok());
    }
    const auto texts = [&](const QStringList& more) {
      QStringList out;
      for (const QJsonObject& line :
           cli.run(QStringList{"logs", "run-l", "--json"} + more).all("log"))
        out << line["text"].toString();
      return out;
    };
    QCOMPARE(texts({}).size(), 4);
    QCOMPARE(texts({"--level", "warning"}).size(), 3);
    QCOMPARE(texts({"--level", "error"}).size(), 2);
    QCOMPARE(texts({"--first-error"}), QStringList{"RuntimeError: first"});
    QCOMPARE(texts({"--first-error", "--node", "n2"}), QStringList{"Traceback: second"});
    QCOMPARE(texts({"--node", "n1", "--level", "info"}).size(), 2);
    const CliResult refused = cli.run({"logs", "run-l", "--level", "loud"});
    QVERIFY2(refused.exit == 2 && refused.err.contains("expected debug, info"), refused.text());
    const CliResult nowhere = cli.run({"logs", "run-l", "--node", "n3"});
    QVERIFY2(nowhere.exit == 2 && nowhere.err.contains("its nodes are n1, n2"), nowhere.text());
  }

  void ctrlCEndsLongLogs() {
    constexpr int kLines = 25'000;
    const Cli cli;
    QVERIFY(QDir().mkpath(cli.path("home/history")));
    {
      const auto history = app::History::open(cli.path("home/history").toStdString());
      QVERIFY(history.ok());
      app::RunRow row;
      row.run = "run-l";
      row.phase = app::RunState::SUCCEEDED;
      const auto store = (*history)->begin(row, {});
      QVERIFY(store.ok());
      app::RunBatch batch;
      for (int i = 0; i < kLines; ++i)
        batch.logs.push_back({0, i + 1, "n1", 0, fmt::format("line {} of a program", i)});
      QVERIFY((*store)->append(batch).ok());
    }
    const CliResult all = cli.run({"logs", "run-l"});
    QCOMPARE(all.out.count('\n'), qsizetype{kLines});
    QVERIFY(all.out.contains("line 0 of a program\n") &&
            all.out.endsWith(fmt::format("line {} of a program\n", kLines - 1).c_str()));
    const auto prints = cli.start({"logs", "run-l"});
    QVERIFY(prints->waitForReadyRead(60000));  // it waits for whoever reads the rest
    QCOMPARE(::kill(static_cast<pid_t>(prints->processId()), SIGINT), 0);
    const CliResult ended = cli.finish(*prints, {});
    QCOMPARE(ended.exit, 130);
    QVERIFY(ended.out.count('\n') < kLines);
  }

 private:
  static QByteArray bytes(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  }
  static void add(const Cli& cli, const std::string& run, const std::string& spec,
                  const std::string& nodes = {}) {
    app::RunRow row;
    row.run = run;
    row.phase = app::RunState::SUCCEEDED;
    app::RunDocuments documents;
    documents.specYaml = spec;
    documents.nodes = nodes;
    const auto history = app::History::open(cli.path("home/history").toStdString());
    QVERIFY(history.ok() && (*history)->add(row, documents).ok());
  }
};

QTEST_GUILESS_MAIN(CliSpecsTest)
#include "cli_specs_test.moc"
