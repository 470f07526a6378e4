// Training that starts from given weights, and the export of trained ones; the files are made and
// read by another program, tests/oracle/gpt2_weights.
#include <QDir>
#include <QProcess>
#include <QTest>
#include <cmath>

#include "tests/app/cli/cli_runner.h"
#include "tests/support/paths.h"

using namespace lockstep::test;

namespace {

constexpr int kSkipped = 77;

struct Said {
  int exit = -1;
  QByteArray out;
};
Said oracle(const QStringList& arguments) {
  QProcess process;
  process.setProcessChannelMode(QProcess::MergedChannels);
  process.start(
      "/usr/bin/python3",
      QStringList{QString::fromStdString(sourcePath("tests/oracle/gpt2_weights"))} + arguments);
  if (!process.waitForFinished(120000)) return {};
  return {process.exitCode(), process.readAll()};
}

bool same(const QString& one, const QString& other) {
  const Said said = oracle({"same", one, other});
  if (said.exit != 0) qWarning() << said.out;
  return said.exit == 0;
}

QByteArray modelOf(const QByteArray& initFrom, const QByteArray& head = "tied: embedding1") {
  return "model:\n"
         "  input: {shape: [16], vocabulary: 256}\n"
         "  layers:\n"
         "    - embedding: {units: 32}\n"
         "    - transformer: {heads: 4}\n"
         "    - transformer: {heads: 4}\n"
         "    - layer_norm: {}\n"
         "    - dense: {units: 256, " +
         head + "}\n" + (initFrom.isEmpty() ? "" : "  init_from: {" + initFrom + "}\n");
}

// Weights stay as they are: the learning rate is 0.
const QByteArray kRest =
    "data:\n"
    "  train: {text: text.txt}\n"
    "  evaluate: {text: text.txt, from: 0.9}\n"
    "training:\n"
    "  batch: 12\n"
    "  max_steps: 2\n"
    "  no_shuffle: true\n"
    "  optimizer: {kind: sgd, learning_rate: 0}\n";

}  // namespace

class CliWeightsTest : public QObject {
  Q_OBJECT

  Cli cli_;
  QString text_;

  QString made(const QString& name, const QStringList& more = {}) const {
    const QString path = cli_.path(name);
    if (!QFile::exists(path))
      [&] {
        QCOMPARE(oracle(QStringList{"write", path, "--layers", "2", "--channels", "32", "--tokens",
                                    "16", "--vocabulary", "256"} +
                        more)
                     .exit,
                 0);
      }();
    return path;
  }
  CliResult run(const QByteArray& spec, const QStringList& more = {"--local", "1"}) const {
    return cli_.run(QStringList{"run", cli_.write("run.yaml", spec), "--json", "--every", "1"} +
                    more);
  }
  // Of the first 12 samples.
  double expectedLoss(const QString& weights) const {
    const Said said = oracle(
        {"loss", weights, "--text", text_, "--heads", "4", "--batch", "12", "--tokens", "16"});
    return said.exit == kSkipped ? NAN : said.out.trimmed().toDouble();
  }
  static double firstLoss(const CliResult& result) {
    return result.first("step")["loss"].toDouble();
  }
  static QString runIn(const CliResult& result) {
    return result.first("started")["run"].toString();
  }
  QString exported(const QString& source, const QString& name, const QStringList& more = {}) const {
    const QString to = cli_.path(name);
    const CliResult result =
        cli_.run(QStringList{"export", source, "--to", to, "--names", "gpt2"} + more);
    if (result.exit != 0) qWarning() << result.text();
    return to;
  }

 private Q_SLOTS:
  void initTestCase() {
    if (oracle({"--help"}).exit != 0) QSKIP("there is no /usr/bin/python3 with NumPy");
    QByteArray text;
    for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i * i % 23);
    text_ = cli_.write("text.txt", text);
  }

  // As another program has them, on ranks that share layers, parameters or the batch.
  void strategiesStartFromGpt2_data() {
    QTest::addColumn<QStringList>("more");
    QTest::newRow("one") << QStringList{"--local", "1"};
    QTest::newRow("mirrored") << QStringList{"--local", "3"};
    QTest::newRow("zero-3") << QStringList{"--local", "3", "--set", "strategy.kind=zero-3"};
    QTest::newRow("tensor") << QStringList{"--local", "2", "--set",
                                           "strategy.kind=tensor-parallel"};
    QTest::newRow("pipeline") << QStringList{
        "--local", "3", "--set", "strategy.kind=pipeline", "--set", "strategy.micro_batches=2"};
    QTest::newRow("servers") << QStringList{
        "--local", "3", "--set", "strategy.kind=parameter-server", "--set", "strategy.servers=1"};
  }
  void strategiesStartFromGpt2() {
    QFETCH(QStringList, more);
    const QString weights = made("gpt2.safetensors");
    const CliResult result = run(modelOf("file: gpt2.safetensors, names: gpt2") + kRest, more);
    QVERIFY2(result.exit == 0, result.text());
    const double expected = expectedLoss(weights);
    if (!std::isnan(expected))
      QVERIFY2(std::abs(firstLoss(result) - expected) < 1e-5,
               qPrintable(QString("%1 %2").arg(firstLoss(result)).arg(expected)));
    const QString out = exported(runIn(result), "out.safetensors");
    QVERIFY(same(weights, out));
  }

  // A model in a file of its own names what lies beside it.
  void besideTheModel() {
    QVERIFY(QDir().mkpath(cli_.path("models")));
    QVERIFY(QFile::copy(made("gpt2.safetensors"), cli_.path("models/beside.safetensors")));
    const QByteArray model = modelOf("file: beside.safetensors, names: gpt2");
    QByteArray own;
    for (const QByteArray& line : model.split('\n').mid(1)) own += line.mid(2) + "\n";
    cli_.write("models/gpt.yaml", own);
    const CliResult result = run("model: models/gpt.yaml\n" + kRest);
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY(same(made("gpt2.safetensors"), exported(runIn(result), "out.safetensors")));
  }

  // Older files, files of 16 bits, and those with the tied weight twice.
  void filesDiffer_data() {
    QTest::addColumn<QStringList>("written");
    QTest::newRow("bare") << QStringList{"--bare"};
    QTest::newRow("f16") << QStringList{"--type", "F16"};
    QTest::newRow("bf16") << QStringList{"--type", "BF16", "--head"};
  }
  void filesDiffer() {
    QFETCH(QStringList, written);
    const QString name = QString(QTest::currentDataTag()) + ".safetensors";
    const QString weights = made(name, written);
    const CliResult result =
        run(modelOf("file: " + name.toUtf8() + ", names: gpt2") + kRest, {"--local", "2"});
    QVERIFY2(result.exit == 0, result.text());
    const double expected = expectedLoss(weights);
    if (!std::isnan(expected)) QVERIFY(std::abs(firstLoss(result) - expected) < 1e-5);
    if (written.contains("F16"))
      QVERIFY(same(weights, exported(runIn(result), "out.safetensors", {"--type", "f16"})));
  }

  void headOfItsOwn() {
    const QString weights = made("head.safetensors", {"--head"});
    const CliResult result =
        run(modelOf("file: head.safetensors, names: gpt2", "no_bias: true") + kRest);
    QVERIFY2(result.exit == 0, result.text());
    QVERIFY(same(weights, exported(runIn(result), "out.safetensors")));
  }

  // A checkpoint of one run, in parts, and a model file are what other runs start from.
  void startsFromOwnRuns() {
    const QString kept = cli_.path("kept");
    QVERIFY(QDir().mkpath(kept));
    const CliResult first =
        run(modelOf("") + kRest,
            {"--local", "3", "--set", "strategy.kind=zero-3", "--set",
             "training.optimizer.learning_rate=0.1", "--set", "training.checkpoint.path=" + kept});
    QVERIFY2(first.exit == 0, first.text());
    const QString model = exported(runIn(first), "first.safetensors");
    const QString folder = kept + "/" + runIn(first);
    QVERIFY2(QDir(folder).exists(), first.text());
    const QString file = cli_.path("native.safetensors");
    QCOMPARE(cli_.run({"export", runIn(first), "--to", file}).exit, 0);
    QVERIFY(same(model, exported(folder, "kept.safetensors", {"--model", cli_.path("run.yaml")})));
    for (const QByteArray& from :
         {"checkpoint: " + folder.toUtf8(), QByteArray("file: native.safetensors")}) {
      const CliResult next = run(modelOf(from) + kRest, {"--local", "3"});
      QVERIFY2(next.exit == 0, next.text());
      QVERIFY(same(model, exported(runIn(next), "next.safetensors")));
    }
  }

  void onlyAPart() {
    made("gpt2.safetensors");
    const QByteArray other = modelOf("file: gpt2.safetensors, names: gpt2", "no_bias: true");
    const CliResult refused = run(other + kRest);
    QVERIFY(refused.exit != 0);
    QVERIFY2(refused.out.contains("missing are lm_head.weight"), refused.text());
    const CliResult taken =
        run(other + kRest, {"--local", "2", "--set", "model.init_from.partial=true"});
    QVERIFY2(taken.exit == 0, taken.text());
    QVERIFY2(taken.out.contains("training starts from a part of the weights"), taken.text());
  }

  void mismatchesAreListed() {
    made("gpt2.safetensors");
    const QByteArray wide = modelOf("file: gpt2.safetensors, names: gpt2")
                                .replace("    - layer_norm",
                                         "    - transformer: {heads: 4}\n"
                                         "    - layer_norm")
                                .replace("[16]", "[12]");
    const CliResult result = run(wide + kRest);
    QVERIFY(result.exit != 0);
    for (const QByteArray text : {"missing are h.2.", " more",
                                  "transformer.wpe.weight is f32[16x32] there, the model has "
                                  "f32[12x32]"})
      QVERIFY2(result.out.contains(text), result.text());
  }

  void damageIsRefused() {
    QFile file(made("gpt2.safetensors"));
    QVERIFY(file.open(QIODevice::ReadOnly));
    const QByteArray good = file.readAll();
    const QByteArray twice = QByteArray(good).replace("h.0.ln_1.bias", "h.0.ln_1.biaz");
    QByteArray shape = good;
    shape.replace("[32, 96]", "[96, 32]");
    QByteArray offset = good;
    offset.replace("\"data_offsets\": [0,", "\"data_offsets\": [8,");
    for (const QByteArray& bad :
         {good.left(good.size() - 100), good.left(3), twice, shape, offset, QByteArray("x")}) {
      cli_.write("bad.safetensors", bad);
      const CliResult result = run(modelOf("file: bad.safetensors, names: gpt2") + kRest);
      QVERIFY2(result.exit != 0 && result.out.contains("bad.safetensors"), result.text());
    }
    const CliResult none = run(modelOf("file: none.safetensors, names: gpt2") + kRest);
    QVERIFY2(none.exit != 0 && none.out.contains("none.safetensors"), none.text());
  }

  void specsAreChecked() {
    for (const auto& [init, text] :
         {std::pair<QByteArray, QByteArray>("partial: true", "either a file or a checkpoint"),
          {"file: a, checkpoint: b", "either a file or a checkpoint"},
          {"checkpoint: b, names: gpt2", "expected it left out"},
          {"file: a, names: gpt3", "gpt2"},
          {"file: a, file_sha256: 12", "not a SHA-256"}}) {
      const CliResult result = run(modelOf(init) + kRest);
      QVERIFY2(result.exit == 2 && (result.out + result.err).contains(text), result.text());
    }
    const CliResult biased = run(modelOf("file: a, names: gpt2", "activation: relu") + kRest);
    QVERIFY2(biased.exit == 2 && biased.text().contains("bias or an activation"), biased.text());
    const CliResult sum =
        run(modelOf("file: gpt2.safetensors, names: gpt2, file_sha256: " + QByteArray(64, '0')) +
            kRest);
    QVERIFY2(sum.exit != 0 && sum.out.contains("SHA-256"), sum.text());
  }

  void cleanupTestCase() { QVERIFY(cli_.leave()); }
};

QTEST_GUILESS_MAIN(CliWeightsTest)
#include "cli_weights_test.moc"
