// lockstep predict: rows and sums against the run's own evaluation, on data of every format.
#include <QFile>
#include <QTest>
#include <cmath>
#include <csignal>

#include "engine/base/random.h"
#include "tests/app/cli/cli_runner.h"
#include "tests/support/made_up_data.h"

using namespace lockstep::test;
using lockstep::randomBits;

namespace {

QByteArray tableOf(std::uint64_t seed, int rows, int numbers, int columns, bool clicks) {
  QByteArray out;
  for (int row = 0; row < rows; ++row) {
    const auto at = [&](int i) {
      return randomBits(seed, static_cast<std::uint64_t>(row * 64 + i));
    };
    out += clicks ? QByteArray::number(static_cast<int>(at(0) % 2))
                  : QByteArray::number(static_cast<double>(at(0) % 1000) / 100);
    for (int i = 0; i < numbers; ++i)
      out += "\t" + QByteArray::number(static_cast<int>(at(1 + i) % 50));
    for (int i = 0; i < columns; ++i)
      out += "\tc" + QByteArray::number(static_cast<int>(at(32 + i) % 9));
    out += "\n";
  }
  return out;
}

}  // namespace

class CliPredictTest : public QObject {
  Q_OBJECT

  Cli cli_;

  void images(std::uint32_t count, std::uint32_t side, std::uint32_t classes) const {
    lockstep::testing::madeUpImages(cli_.path("images").toStdString(),
                                    cli_.path("labels").toStdString(), count, side, classes);
  }
  // Sizes follow from the seed, so that the last batch is a part of one.
  QByteArray specOf(const QString& kind, std::uint64_t seed) const {
    const auto among = [&](std::uint64_t what, int low, int high) {
      return low +
             static_cast<int>(randomBits(seed, what) % static_cast<std::uint64_t>(high - low));
    };
    const QByteArray batch = QByteArray::number(among(0, 3, 20));
    const int count = among(1, 41, 90);
    const QByteArray training = "training: {max_steps: 5, batch: 8, evaluate_batch: " + batch +
                                ", optimizer: {kind: adam, learning_rate: 0.01}}\n";
    if (kind == "images") {
      const int side = among(2, 6, 14), classes = among(3, 2, 9);
      images(static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(side),
             static_cast<std::uint32_t>(classes));
      const QByteArray n = QByteArray::number(side), c = QByteArray::number(classes);
      return "model:\n  input: {shape: [" + n + ", " + n + ", 1]}\n  classes: " + c +
             "\n  layers:\n    - conv2d: {filters: 4, kernel: 3}\n"
             "    - batch_norm: {activation: relu}\n    - flatten: {}\n    - dropout: {rate: 0.3}\n"
             "    - dense: {units: " +
             c +
             "}\ndata:\n  train: {images: images, labels: labels}\n  evaluate: {images: images, "
             "labels: labels}\n" +
             training;
    }
    if (kind == "text") {
      lockstep::testing::madeUpText(cli_.path("").toStdString());
      return "model:\n  input: {shape: [" + QByteArray::number(among(2, 5, 19)) +
             "], vocabulary: 256}\n  layers:\n    - embedding: {units: 16}\n"
             "    - transformer: {heads: 2}\n    - layer_norm: {}\n    - dense: {units: 256}\n"
             "data:\n  train: {text: made-up.txt, to: 0.9}\n"
             "  evaluate: {text: made-up.txt, from: 0.99}\n" +
             training;
    }
    const bool clicks = kind == "clicks";
    const int numbers = among(2, 2, 6), columns = clicks ? 3 : 0;
    cli_.write("table.tsv", tableOf(seed, count, numbers, columns, clicks));
    QByteArray layers = "    - dense: {units: 8, activation: relu}\n    - dense: {units: 1}\n";
    if (clicks)
      layers =
          "    - {name: t, inputs: [categories], embedding: {units: 4}}\n"
          "    - {name: j, inputs: [input, t], concat: {}}\n" +
          layers;
    return "model:\n  input: {shape: [" + QByteArray::number(numbers) + "]" +
           (clicks ? ", columns: 3, categories: 11" : "") + "}\n  layers:\n" + layers +
           "  loss: " + (clicks ? "binary-cross-entropy" : "mse") +
           "\ndata:\n  format: table\n  train: {table: table.tsv}\n  evaluate: {table: "
           "table.tsv}\n" +
           training;
  }
  CliResult trained(const QByteArray& spec, const QStringList& more = {}) const {
    return cli_.run(QStringList{"run", cli_.write("run.yaml", spec), "--local", "1", "--json"} +
                    more);
  }
  static QString runIn(const CliResult& result) {
    return result.first("started")["run"].toString();
  }

 private Q_SLOTS:
  void equalsTheRunsEvaluation_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<QString>("metric");
    QTest::addColumn<int>("seed");
    for (const auto& [kind, metric] : {std::pair<const char*, const char*>("images", "accuracy"),
                                       {"text", "perplexity"},
                                       {"clicks", "auc"},
                                       {"numbers", ""}})
      for (int seed = 1; seed <= 3; ++seed)
        QTest::addRow("%s %d", kind, seed) << kind << metric << seed;
  }
  void equalsTheRunsEvaluation() {
    QFETCH(QString, kind);
    QFETCH(QString, metric);
    QFETCH(int, seed);
    const CliResult run = trained(specOf(kind, static_cast<std::uint64_t>(seed)));
    QVERIFY2(run.exit == 0, run.text());
    const CliResult said = cli_.run({"predict", runIn(run), "--json"});
    QVERIFY2(said.exit == 0 && said.onlyJson, said.text());
    const QJsonObject sums = said.last(), epoch = run.first("epoch");
    QCOMPARE(sums["event"].toString(), "predicted");
    QCOMPARE(sums["loss"].toDouble(), epoch["eval_loss"].toDouble());
    QCOMPARE(sums["metric"].toString(), metric);
    if (!metric.isEmpty()) QCOMPARE(sums["value"].toDouble(), epoch["eval_" + metric].toDouble());
    const auto rows = said.all("prediction");
    QCOMPARE(rows.size(), sums["samples"].toInt());
    // The rows alone say the same.
    double loss = 0, right = 0;
    for (const QJsonObject& row : rows) {
      const double p = row["probability"].toDouble(), label = row["label"].toDouble();
      if (kind == "text") loss += row["loss"].toDouble();
      if (kind == "numbers") loss += std::pow(row["value"].toDouble() - label, 2) / 2;
      if (kind == "clicks") loss -= std::log(label == 1 ? p : 1 - p);
      if (kind == "images") right += row["class"].toInt() == row["label"].toInt() ? 1 : 0;
      if (kind == "images") QVERIFY(p > 0 && p <= 1);
    }
    const auto count = static_cast<double>(rows.size());
    if (kind == "images")
      QVERIFY(std::abs(right / count - sums["value"].toDouble()) < 1e-6);
    else
      QVERIFY2(std::abs(loss / count - sums["loss"].toDouble()) < 1e-4 * (1 + loss / count),
               said.text());
  }

  // Processors have no fp16 and tf32: these are computed in fp32.
  void precisions_data() {
    QTest::addColumn<double>("most");
    for (const char* exact : {"fp64", "bf16", "tf32"}) QTest::newRow(exact) << 0.0;
    QTest::newRow("fp16") << 1e-2;
  }
  void precisions() {
    QFETCH(double, most);
    const CliResult run = trained(
        specOf("images", 7), {"--set", QString("training.precision=") + QTest::currentDataTag()});
    QVERIFY2(run.exit == 0, run.text());
    const CliResult said = cli_.run({"predict", runIn(run), "--json"});
    QVERIFY2(said.exit == 0, said.text());
    QVERIFY(std::abs(said.last()["loss"].toDouble() - run.first("epoch")["eval_loss"].toDouble()) <=
            most);
  }

  // A run, its model file, a checkpoint in parts and a folder of checkpoints are one model.
  void sources() {
    const QString kept = cli_.path("kept");
    const QByteArray spec = specOf("images", 4);
    const CliResult run = trained(spec, {"--local", "2", "--set", "strategy.kind=zero-3", "--set",
                                         "training.checkpoint.path=" + kept});
    QVERIFY2(run.exit == 0, run.text());
    const QString file = cli_.path("model.safetensors");
    QCOMPARE(cli_.run({"export", runIn(run), "--to", file}).exit, 0);
    const CliResult first = cli_.run({"predict", runIn(run), "--json", "--outputs"});
    QVERIFY2(first.exit == 0 && first.first("prediction").contains("output_0"), first.text());
    const QString model = cli_.path("run.yaml");
    for (const QString& source : {file, kept + "/" + runIn(run)}) {
      const CliResult unknown = cli_.run({"predict", source});
      QVERIFY2(unknown.exit == 2 && unknown.err.contains("--model SPEC"), unknown.text());
      const CliResult other =
          cli_.run({"predict", source, "--model", model, "--json", "--outputs"});
      QVERIFY2(other.exit == 0, other.text());
      QCOMPARE(other.out, first.out);
    }
    const CliResult itself = cli_.run({"predict", file, "--model", model, "--out", file});
    QVERIFY2(itself.exit == 2 && itself.err.contains("it has the model"), itself.text());
    // Damaged weights are told as such, and what --out names stays as it is.
    QFile weights(file), rows(cli_.path("rows.csv"));
    QVERIFY(weights.resize(weights.size() - 4));
    QVERIFY(rows.open(QIODevice::ReadWrite) && rows.write("earlier\n") > 0 && rows.flush());
    const CliResult damaged =
        cli_.run({"predict", file, "--model", model, "--out", rows.fileName()});
    QVERIFY2(damaged.exit == 3 && damaged.err.contains("model.safetensors"), damaged.text());
    QVERIFY(rows.seek(0));
    QCOMPARE(rows.readAll(), "earlier\n");
  }

  void dataOfOnesOwn() {
    const CliResult run = trained(specOf("images", 5));
    QVERIFY2(run.exit == 0, run.text());
    const QString images = cli_.path("images"), labels = cli_.path("labels");
    const CliResult all = cli_.run({"predict", runIn(run), "--json"});
    const CliResult same =
        cli_.run({"predict", runIn(run), "--data", images, "--data", labels, "--json"});
    QCOMPARE(same.out, all.out);
    const CliResult bare =
        cli_.run({"predict", runIn(run), "--data", images, "--limit", "7", "--json"});
    QVERIFY2(bare.exit == 0, bare.text());
    QCOMPARE(bare.all("prediction").size(), 7);
    QVERIFY(!bare.last().contains("loss") && !bare.first("prediction").contains("label"));
    QCOMPARE(bare.first("prediction")["class"], all.first("prediction")["class"]);
    // Seven samples have the loss of seven, whatever the batch.
    const CliResult some = cli_.run({"predict", runIn(run), "--limit", "7", "--json"});
    double right = 0;
    for (const QJsonObject& row : some.all("prediction"))
      right += row["class"].toInt() == row["label"].toInt() ? 1 : 0;
    QVERIFY(std::abs(some.last()["value"].toDouble() - right / 7) < 1e-6);

    const CliResult itself = cli_.run({"predict", runIn(run), "--data", images, "--out", images});
    QVERIFY2(itself.exit == 2 && itself.err.contains("it has the data"), itself.text());

    const QString csv = cli_.path("rows.csv");
    const CliResult written = cli_.run({"predict", runIn(run), "--out", csv});
    QVERIFY2(written.exit == 0 && written.out.contains("accuracy"), written.text());
    QFile file(csv);
    QVERIFY(file.open(QIODevice::ReadOnly));
    const QList<QByteArray> lines = file.readAll().split('\n');
    QCOMPARE(lines.first(), "sample,class,probability,label");
    QCOMPARE(lines.size(), all.all("prediction").size() + 2);
  }

  void errorsSayWhat_data() {
    QTest::addColumn<QStringList>("more");
    QTest::addColumn<QByteArray>("text");
    QTest::newRow("no file") << QStringList{"--data", "/nowhere/i"} << QByteArray("/nowhere/i");
    QTest::newRow("three files") << QStringList{"--data", "a", "--data", "b", "--data", "c"}
                                 << QByteArray("--data is given 3 times");
    QTest::newRow("swapped") << QStringList{"--data", "LABELS", "--data", "IMAGES"}
                             << QByteArray("swapped");
    QTest::newRow("other size") << QStringList{"--data", "OTHER"} << QByteArray("the model takes");
    QTest::newRow("limit") << QStringList{"--limit", "0"} << QByteArray("limit");
    QTest::newRow("names") << QStringList{"--names", "gpt3"} << QByteArray("did you mean gpt2?");
    QTest::newRow("out") << QStringList{"--out", "/nowhere/x"} << QByteArray("/nowhere/x");
    QTest::newRow("other model") << QStringList{"--model", "OTHERMODEL"} << QByteArray("missing");
  }
  void errorsSayWhat() {
    QFETCH(QStringList, more);
    QFETCH(QByteArray, text);
    static QString run;
    if (run.isEmpty()) {
      const CliResult result = trained(specOf("images", 6));
      QVERIFY2(result.exit == 0, result.text());
      run = runIn(result);
      lockstep::testing::madeUpImages(cli_.path("other").toStdString(),
                                      cli_.path("other-labels").toStdString(), 5, 20, 2);
      cli_.write("other.yaml", specOf("numbers", 1));
    }
    more.replaceInStrings("OTHERMODEL", cli_.path("other.yaml"));
    more.replaceInStrings("OTHER", cli_.path("other"));
    more.replaceInStrings("LABELS", cli_.path("labels"));
    more.replaceInStrings("IMAGES", cli_.path("images"));
    const CliResult result = cli_.run(QStringList{"predict", run} + more);
    QVERIFY2(result.exit != 0 && result.err.contains(text), result.text());
    QVERIFY(cli_.run({"predict", "nothing"}).exit != 0);
  }

  void runsWhoseDataIsGone() {
    const CliResult run = trained(specOf("numbers", 8));
    QVERIFY2(run.exit == 0, run.text());
    QVERIFY(QFile::rename(cli_.path("table.tsv"), cli_.path("moved.tsv")));
    const CliResult gone = cli_.run({"predict", runIn(run)});
    QVERIFY2(gone.exit == 2 && gone.err.contains("--data FILE"), gone.text());
    QCOMPARE(cli_.run({"predict", runIn(run), "--data", cli_.path("moved.tsv")}).exit, 0);
  }

  // Ctrl-C ends the command and the process that runs the model.
  void interrupted() {
    const CliResult run = trained(specOf("text", 9));
    QVERIFY2(run.exit == 0, run.text());
    const auto process =
        cli_.start({"predict", runIn(run), "--data", cli_.path("made-up.txt"), "--json"});
    QByteArray out;
    QVERIFY(cli_.awaitEvent(*process, "prediction", out));
    ::kill(static_cast<pid_t>(process->processId()), SIGINT);
    QCOMPARE(cli_.finish(*process, out).exit, 130);
  }

  void cleanupTestCase() { QVERIFY(cli_.leave()); }
};

QTEST_GUILESS_MAIN(CliPredictTest)
#include "cli_predict_test.moc"
