// The YAML of runs of a program of the user's own.
#include <QTemporaryDir>
#include <QTest>
#include <filesystem>
#include <string>

#include "app/specs/spec_text.h"
#include "engine/base/file.h"
#include "lockstep/spec/v1/spec.pb.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

const std::string kRun =
    "version: 1\n"
    "workload:\n"
    "  name: fit\n"
    "  command: [python, \"a b.py\", --text, \"it's \\\"two\\\"\\nlines\", \"\", 训练, \"7\", "
    "\"true\"]\n"
    "  launcher: torchrun  # it calls it itself\n"
    "  ranks_per_node: 2\n"
    "  code: {from: ../code/./sub/, exclude: .mine, max_bytes: 1.5 MiB}\n"
    "  python: {kind: venv, path: venv}\n"
    "  env:\n"
    "    WANDB_MODE: offline\n"
    "    EMPTY: \"\"\n"
    "    NUMBER: \"1e5\"\n"
    "    ODD: \"a: b # c\"\n"
    "  metrics:\n"
    "    stdout: ['loss[=:] (?P<loss>\\d+\\.\\d+)', \"(?P<step>\\\\d+)/\"]\n"
    "    tensorboard: [runs, /var/tb]\n"
    "recovery: {policy: none}\n";

// Each field that a program's spec has most use of.
const std::string kWhole =
    "workload:\n"
    "  command: [python, train.py, --lr, \"3e-4\"]\n"
    "  launcher: ranks\n"
    "  ranks_per_node: auto\n"
    "  code: {from: ., exclude: .lockstepignore, max_bytes: 256MiB}\n"
    "  python: {kind: venv, path: .venv}\n"
    "  setup: [\"make -C ops\"]\n"
    "  env: {HF_HOME: /data/hf, NONE: \"NULL\"}\n"
    "  env_from: [WANDB_API_KEY]\n"
    "  metrics: {tensorboard: [runs/], stdout: ['loss[=: ]+(?P<loss>[-+0-9.e]+)'], hooks: [c10d, "
    "ddp, wandb, stacks], mlflow: true}\n"
    "  artifacts: {collect: [\"ckpt/*.pt\"], max_bytes: 10GiB}\n"
    "  restart: {max: 3, on: [exit, hang, node_lost], hang_seconds: 600}\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  if (at == std::string::npos) qFatal("no '%s' in the text", from.c_str());
  return text.replace(at, from.size(), to);
}

std::string problemOf(const std::string& text) {
  const SpecText spec = SpecText::parse(text, "f.yaml", SpecKind::kRun);
  return spec.problems().empty() ? "" : spec.problems().front().error().text();
}

}  // namespace

class WorkloadTextTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void everyFieldLoads() {
    const auto loaded = completeRunSpec(kRun, "/home/ann/runs/run.yaml");
    QVERIFY2(loaded.ok(), loaded.ok() ? "" : loaded.error().text().c_str());
    const spec::v1::WorkloadSpec& workload = loaded->spec->workload();
    const std::vector<std::string> words(workload.command().begin(), workload.command().end());
    QCOMPARE(words, (std::vector<std::string>{"python", "a b.py", "--text", "it's \"two\"\nlines",
                                              "", "训练", "7", "true"}));
    QCOMPARE(workload.code().from(), std::string("/home/ann/code/sub"));
    QCOMPARE(workload.code().exclude(), std::string(".mine"));
    QCOMPARE(workload.code().max_bytes(), 3 << 19);
    QCOMPARE(workload.artifacts().max_bytes(), std::int64_t{10} << 30);  // its default
    QCOMPARE(workload.python().path(), std::string("venv"));             // on the nodes
    QCOMPARE(workload.env_size(), 4);
    QCOMPARE(workload.env().at("NUMBER"), std::string("1e5"));
    QCOMPARE(workload.env().at("ODD"), std::string("a: b # c"));
    QCOMPARE(workload.env().at("EMPTY"), std::string());
    QCOMPARE(workload.metrics().stdout(0), std::string(R"(loss[=:] (?P<loss>\d+\.\d+))"));
    QCOMPARE(workload.metrics().tensorboard(1), std::string("/var/tb"));
    QCOMPARE(loaded->spec->recovery().policy(), std::string("none"));
  }

  void theWholeContractLoads() {
    const auto loaded = completeRunSpec(kWhole, "/home/ann/run.yaml");
    QVERIFY2(loaded.ok(), loaded.ok() ? "" : loaded.error().text().c_str());
    const spec::v1::WorkloadSpec& workload = loaded->spec->workload();
    QCOMPARE(workload.ranks_per_node(), 0);
    QCOMPARE(workload.code().max_bytes(), std::int64_t{256} << 20);
    QCOMPARE(workload.artifacts().max_bytes(), std::int64_t{10} << 30);
    QCOMPARE(workload.metrics().hooks_size(), 4);
    QVERIFY(workload.metrics().mlflow());
    QCOMPARE(workload.restart().max(), 3);
    QCOMPARE(workload.restart().on_size(), 3);
    QCOMPARE(workload.restart().hang_seconds(), 600);
  }

  // An empty list turns hooks off; one that is left out does not.
  void anEmptyListOfHooks() {
    for (const std::string hooks : {"[]", "[none]"}) {
      const auto loaded = completeRunSpec(
          "workload: {command: [a], metrics: {hooks: " + hooks + ", mlflow: false}}", "r.yaml");
      QVERIFY2(loaded.ok(), loaded.ok() ? "" : loaded.error().text().c_str());
      const auto& metrics = loaded->spec->workload().metrics();
      QCOMPARE(metrics.hooks_size(), 1);
      QCOMPARE(metrics.hooks(0), std::string("none"));
      QVERIFY(!metrics.mlflow());
    }
    const auto loaded = completeRunSpec("workload: {command: [a]}", "r.yaml");
    QVERIFY(loaded.ok());
    QCOMPARE(loaded->spec->workload().metrics().hooks_size(), 0);
    QVERIFY(loaded->spec->workload().metrics().mlflow());
  }

  // Histories have specs of older versions, which are launched again.
  void aSpecOfAnOlderVersion() {
    const auto loaded = completeRunSpec(
        "workload: {command: [a], hang_seconds: 5, no_hooks: true, metrics: {}}\n"
        "recovery: {policy: shrink, max_restarts: 4, on: [exit]}\n",
        "run r");
    QVERIFY2(loaded.ok(), loaded.ok() ? "" : loaded.error().text().c_str());
    const auto expected = completeRunSpec(
        "workload: {command: [a], metrics: {hooks: []}, restart: {max: 4, on: [exit], "
        "hang_seconds: 5}}\n"
        "recovery: {policy: shrink}\n",
        "run r");
    QVERIFY2(expected.ok(), expected.ok() ? "" : expected.error().text().c_str());
    QCOMPARE(toYaml(*loaded->spec), toYaml(*expected->spec));
    for (const FieldInfo& field : SpecText::fields(SpecKind::kRun, "workload"))
      QVERIFY(field.name != "hang_seconds" && field.name != "no_hooks");
  }

  // The complete spec, as the history keeps it, is the same spec again from anywhere.
  void theCompleteSpecLoadsAgain_data() {
    QTest::addColumn<QString>("text");
    QTest::newRow("all fields") << QString::fromStdString(kRun);
    QTest::newRow("the least") << "workload:\n  command: [\"./a\"]\n";
    QTest::newRow("the contract") << QString::fromStdString(kWhole);
    QTest::newRow("no hooks") << "workload: {command: [a], metrics: {hooks: [], mlflow: false}}\n";
    QTest::newRow("no code") << "workload: {command: [a], code: {disabled: true}}\n";
  }
  void theCompleteSpecLoadsAgain() {
    QFETCH(QString, text);
    const auto first = completeRunSpec(text.toStdString(), "/home/ann/run.yaml");
    QVERIFY2(first.ok(), first.ok() ? "" : first.error().text().c_str());
    const std::string yaml = toYaml(*first->spec);
    const auto second = completeRunSpec(yaml, "/elsewhere/run.yaml");
    QVERIFY2(second.ok(), (yaml + (second.ok() ? "" : second.error().text())).c_str());
    QCOMPARE(QString::fromStdString(second->spec->DebugString()),
             QString::fromStdString(first->spec->DebugString()));
    QCOMPARE(toYaml(*second->spec), yaml);
  }

  void theFolderOfTheCode_data() {
    QTest::addColumn<QString>("from");
    QTest::addColumn<QString>("folder");
    QTest::newRow("left out") << ""
                              << "/home/ann";
    QTest::newRow("here") << "code: {from: .}"
                          << "/home/ann";
    QTest::newRow("below") << "code: {from: src/}"
                           << "/home/ann/src";
    QTest::newRow("beside") << "code: {from: ../bob}"
                            << "/home/bob";
    QTest::newRow("above all") << "code: {from: ../../../..}"
                               << "/";
    QTest::newRow("absolute") << "code: {from: /opt//x/../y}"
                              << "/opt/y";
  }
  void theFolderOfTheCode() {
    QFETCH(QString, from);
    QFETCH(QString, folder);
    const std::string text = "workload:\n  command: [a]\n  " + from.toStdString() + "\n";
    const auto loaded = completeRunSpec(text, "/home/ann/run.yaml");
    QVERIFY2(loaded.ok(), loaded.ok() ? "" : loaded.error().text().c_str());
    QCOMPARE(QString::fromStdString(loaded->spec->workload().code().from()), folder);
  }

  void mistakes_data() {
    QTest::addColumn<QString>("from");
    QTest::addColumn<QString>("to");
    QTest::addColumn<QString>("begin");
    const auto row = [](const char* name, const char* from, const char* to, const char* begin) {
      QTest::newRow(name) << QString(from) << QString(to) << QString(begin);
    };
    row("section", "workload:", "worklaod:", "f.yaml:2:1: unknown field 'worklaod', did you mean");
    row("field", "launcher:", "luncher:",
        "f.yaml:5:3: unknown field 'luncher' in workload, did you mean 'launcher'?");
    row("field of the code",
        "exclude:", "excludes:", "f.yaml:7:32: unknown field 'excludes' in workload.code");
    row("a word for restarts", "  env:\n", "  restart: {max: often}\n  env:\n",
        "f.yaml:9:18: 'max' is 'often', expected a whole number, at least 1");
    row("a section of the file", "  env:\n", "  recovery: {policy: none}\n  env:\n",
        "f.yaml:9:3: unknown field 'recovery' in workload, did you mean 'recovery' outside of "
        "workload?");
    row("restart of the run", "recovery:", "restart:",
        "f.yaml:17:1: unknown field 'restart', did you mean 'workload.restart'?");
    row("a former field beside its own", "  env:\n",
        "  hang_seconds: 5\n  restart: {hang_seconds: 6}\n  env:\n",
        "f.yaml:9:17: workload.restart.hang_seconds and workload.hang_seconds are both given");
    row("like a former field", "  env:\n", "  no_hook: true\n  env:\n",
        "f.yaml:9:3: unknown field 'no_hook' in workload, expected the fields");
    row("a hook", "    stdout:", "    hooks: [cd10]\n    stdout:", "f.yaml:15:13: ");
    row("a field of another group", "policy: none", "hang_seconds: 9",
        "f.yaml:17:12: unknown field 'hang_seconds' in recovery, did you mean "
        "'workload.restart.hang_seconds'?");
    row("a field of several groups", "policy: none", "kind: none",
        "f.yaml:17:12: unknown field 'kind' in recovery, expected the fields");
    row("choice", "torchrun", "torchrn",
        "f.yaml:5:13: 'launcher' is 'torchrn', expected one of ranks, torchrun, mpi, single");
    row("number", "node: 2", "node: two",
        "f.yaml:6:19: 'ranks_per_node' is 'two', expected auto, or a whole number, at least 1");
    row("word of another case", "node: 2", "node: AUTO", "f.yaml:6:19: 'ranks_per_node' is 'AUTO'");
    row("text for a list", "[runs, /var/tb]", "runs", "f.yaml:16:18: 'tensorboard' is 'runs'");
    row("list for a map", "env:\n    WANDB_MODE: offline", "env:\n    - WANDB_MODE", "f.yaml:");
    row("variable", "EMPTY", "EM PTY", "f.yaml:11:");
    row("pattern", "(?P<step>", "(?P<step", "f.yaml:15:");
    row("python", ", path: venv", "", "f.yaml:8:");
    row("a model too", "recovery:", "model: {}\nrecovery:", "f.yaml:17:1: model is not used");
    row("a strategy too",
        "recovery:", "strategy: {kind: zero-1}\nrecovery:", "f.yaml:17:1: strategy is not");
  }
  void mistakes() {
    QFETCH(QString, from);
    QFETCH(QString, to);
    QFETCH(QString, begin);
    const QString problem =
        QString::fromStdString(problemOf(replaced(kRun, from.toStdString(), to.toStdString())));
    QVERIFY2(problem.startsWith(begin), qPrintable(problem));
  }

  void filesAndSets() {
    QTemporaryDir folder;
    const std::string root = std::filesystem::canonical(folder.path().toStdString());
    const std::string file = root + "/run.yaml";
    QVERIFY(writeFileAtomically(file, "workload:\n  command: [python, a.py]\n").ok());
    const auto loaded = loadRunSpec(
        file, {"workload.ranks_per_node=2", "workload.env[A]=1", "workload.env[B_2]='x=y'",
               "workload.env[A.B]=", "workload.env[B_2]=", "workload.command[1]=b",
               "workload.metrics.tensorboard=[logs]", "workload.restart.max=3",
               "workload.metrics.hooks=[]"});
    QVERIFY2(loaded.ok(), loaded.ok() ? "" : loaded.error().text().c_str());
    QCOMPARE(loaded->spec->workload().ranks_per_node(), 2);
    QCOMPARE(loaded->spec->workload().env().at("A"), std::string("1"));
    QCOMPARE(loaded->spec->workload().env_size(), 1);
    QCOMPARE(loaded->spec->workload().command(1), std::string("b"));
    QCOMPARE(loaded->spec->workload().metrics().tensorboard(0), std::string("logs"));
    QCOMPARE(loaded->spec->workload().code().from(), root);
    QCOMPARE(loaded->spec->workload().restart().max(), 3);
    QCOMPARE(loaded->spec->workload().metrics().hooks_size(), 1);
    const auto again =
        loadRunSpec(file, {"workload.ranks_per_node=2", "workload.ranks_per_node=auto"});
    QVERIFY2(again.ok(), again.ok() ? "" : again.error().text().c_str());
    QCOMPARE(again->spec->workload().ranks_per_node(), 0);

    const auto refusal = [&](const std::string& set) {
      const auto wrong = loadRunSpec(file, {set});
      return wrong.ok() ? QString("no error") : QString::fromStdString(wrong.error().text());
    };
    QVERIFY2(refusal("workload.ranks_per_nod=2").contains("did you mean 'ranks_per_node'?"),
             qPrintable(refusal("workload.ranks_per_nod=2")));
    QVERIFY2(
        refusal("workload.launcher=pmi").contains("expected one of ranks, torchrun, mpi, single"),
        qPrintable(refusal("workload.launcher=pmi")));
    QVERIFY2(refusal("training.batch=8").contains("training is not used with workload"),
             qPrintable(refusal("training.batch=8")));

    QVERIFY2(refusal("workload.env.A=1").contains("write --set workload.env[KEY]=VALUE"),
             qPrintable(refusal("workload.env.A=1")));
    QVERIFY2(refusal("workload.env[A B]=1").contains("is not the name of an environment variable"),
             qPrintable(refusal("workload.env[A B]=1")));

    const auto file2 = completeRunSpec("workload: {command: [a]}", "p.yaml");
    QVERIFY(file2.ok());
    const Status status = mustHaveModel(*file2);
    QVERIFY(!status.ok());
    QCOMPARE(QString::fromStdString(status.error().what.text()),
             QString("p.yaml runs a program of its own"));
  }

  // What the studio's form does: fields one by one, on a text that is not complete yet.
  void growsFromNothing() {
    std::string text;
    const auto set = [&](const char* path, const char* value) {
      const auto edit = SpecText::parse(text, "f.yaml", SpecKind::kRun).edit(path, value);
      QVERIFY2(edit.ok(), path);
      text = edit->applied(text);
    };
    set("workload.name", "fit");
    QVERIFY(!problemOf(text).empty());
    set("workload.command", "python, fit.py");
    set("workload.python.kind", "path");
    QVERIFY2(problemOf(text).starts_with("f.yaml:"), problemOf(text).c_str());
    set("workload.python.path", "/usr/bin");
    set("workload.metrics.tensorboard", "runs");
    set("recovery.policy", "restart");
    QCOMPARE(problemOf(text), std::string());
    QCOMPARE(QString::fromStdString(text), QString("workload:\n"
                                                   "  name: fit\n"
                                                   "  command: [python, fit.py]\n"
                                                   "  python: {kind: path, path: /usr/bin}\n"
                                                   "  metrics: {tensorboard: [runs]}\n"
                                                   "recovery: {policy: restart}\n"));
    const SpecText spec = SpecText::parse(text, "f.yaml", SpecKind::kRun);
    QCOMPARE(spec.value("workload.command").value_or(""), std::string("python, fit.py"));
    QCOMPARE(spec.run()->workload().command_size(), 2);
  }
};

QTEST_GUILESS_MAIN(WorkloadTextTest)
#include "workload_text_test.moc"
