// Exported ONNX files, run by another program: tests/oracle/onnx_model.
#include <QProcess>
#include <QTest>

#include "engine/base/random.h"
#include "tests/app/cli/cli_runner.h"
#include "tests/support/made_up_data.h"
#include "tests/support/paths.h"

using namespace lockstep::test;

namespace {

constexpr int kSkipped = 77;

// Sizes follow from the seed.
class Sizes {
 public:
  explicit Sizes(std::uint64_t seed) : seed_(seed) {}
  int among(int low, int high) {
    return low + static_cast<int>(lockstep::randomBits(seed_, next_++) %
                                  static_cast<std::uint64_t>(high - low));
  }
  QByteArray text(int low, int high) { return QByteArray::number(among(low, high)); }
  bool coin() { return among(0, 2) == 1; }

 private:
  std::uint64_t seed_, next_ = 0;
};

QByteArray imageModel(Sizes& sizes, int side, int classes) {
  const QByteArray n = QByteArray::number(side), filters = sizes.text(2, 7);
  return "model:\n  input: {shape: [" + n + ", " + n +
         ", 1]}\n  classes: " + QByteArray::number(classes) +
         "\n  layers:\n    - conv2d: {filters: " + filters +
         ", kernel: 3, padding: same, stride: " + sizes.text(1, 3) +
         "}\n    - {name: norm, batch_norm: {activation: relu}}\n"
         "    - {name: inner, conv2d: {filters: " +
         filters +
         ", kernel: 1}}\n    - {name: sum, inputs: [norm, inner], add: {activation: tanh}}\n"
         "    - max_pool2d: {size: 2, stride: " +
         sizes.text(1, 3) + "}\n" +
         (sizes.coin() ? "    - global_average_pool: {}\n" : "    - flatten: {}\n") +
         "    - {name: wide, dense: {units: " + sizes.text(3, 9) +
         ", activation: gelu}}\n    - dropout: {rate: 0.4}\n    - dense: {units: " +
         QByteArray::number(classes) +
         "}\ndata:\n  train: {images: images, labels: labels}\n  evaluate: {images: images, "
         "labels: labels}\n";
}

QByteArray textModel(Sizes& sizes) {
  const int heads = sizes.among(1, 4);
  return "model:\n  input: {shape: [" + sizes.text(3, 20) +
         "], vocabulary: 256}\n  layers:\n    - embedding: {units: " +
         QByteArray::number(8 * heads) +
         "}\n    - transformer: {heads: " + QByteArray::number(heads) +
         "}\n    - transformer: {heads: " + QByteArray::number(heads) +
         ", feed_forward: " + sizes.text(5, 30) +
         ", not_causal: " + (sizes.coin() ? "true" : "false") +
         "}\n    - layer_norm: {}\n    - dense: {units: 256" +
         (sizes.coin() ? ", tied: embedding1" : "") +
         "}\ndata:\n  train: {text: made-up.txt}\n  evaluate: {text: made-up.txt, from: 0.99}\n";
}

QByteArray clicksModel(Sizes& sizes, int numbers, int columns, int categories) {
  return "model:\n  input: {shape: [" + QByteArray::number(numbers) +
         "], columns: " + QByteArray::number(columns) +
         ", categories: " + QByteArray::number(categories) +
         "}\n  loss: binary-cross-entropy\n  layers:\n"
         "    - {name: tables, inputs: [categories], embedding: {units: " +
         sizes.text(1, 6) +
         "}}\n    - {name: join, inputs: [input, tables], concat: {}}\n    - dense: {units: " +
         sizes.text(2, 9) +
         ", activation: relu}\n    - dense: {units: 1}\n"
         "data:\n  format: table\n  train: {table: table.tsv}\n  evaluate: {table: table.tsv}\n";
}

QByteArray tableModel(Sizes& sizes, int numbers) {
  return "model:\n  input: {shape: [" + QByteArray::number(numbers) +
         "]}\n  loss: mse\n  layers:\n    - {name: a, dense: {units: " + sizes.text(2, 9) +
         ", activation: tanh}}\n    - {name: b, inputs: [input], dense: {units: " +
         sizes.text(2, 9) +
         "}}\n    - {name: c, inputs: [a, b], concat: {}}\n    - dense: {units: 1}\n"
         "data:\n  format: table\n  train: {table: table.tsv}\n  evaluate: {table: table.tsv}\n";
}

}  // namespace

class CliOnnxTest : public QObject {
  Q_OBJECT

  Cli cli_;

  QString trained(const QByteArray& spec) const {
    const CliResult result = cli_.run(
        {"run",
         cli_.write("run.yaml", spec + "training: {max_steps: 6, batch: 7, evaluate_batch: 5, "
                                       "optimizer: {kind: adam, learning_rate: 0.02}}\n"),
         "--local", "1", "--json"});
    if (result.exit != 0) qWarning() << result.text();
    return result.first("started")["run"].toString();
  }

 private Q_SLOTS:
  void outputsAreEqual_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<int>("seed");
    for (const char* kind : {"images", "text", "table", "clicks"})
      for (int seed = 1; seed <= 4; ++seed) QTest::addRow("%s %d", kind, seed) << kind << seed;
  }
  void outputsAreEqual() {
    QFETCH(QString, kind);
    QFETCH(int, seed);
    Sizes sizes(static_cast<std::uint64_t>(seed));
    QByteArray spec;
    QString data;
    QStringList more;
    if (kind == "images") {
      const int side = sizes.among(6, 13), classes = sizes.among(2, 9);
      data = cli_.path("images");
      lockstep::testing::madeUpImages(data.toStdString(), cli_.path("labels").toStdString(), 33,
                                      static_cast<std::uint32_t>(side),
                                      static_cast<std::uint32_t>(classes));
      spec = imageModel(sizes, side, classes);
    } else if (kind == "text") {
      data = QString::fromStdString(lockstep::testing::madeUpText(cli_.path("").toStdString()));
      spec = textModel(sizes);
    } else {
      const int numbers = sizes.among(2, 8), columns = kind == "clicks" ? sizes.among(1, 5) : 0;
      QByteArray rows;
      for (int row = 0; row < 40; ++row) {
        rows += sizes.text(0, columns > 0 ? 2 : 100);
        for (int i = 0; i < numbers; ++i) rows += "\t" + sizes.text(-50, 50);
        for (int i = 0; i < columns; ++i) rows += "\tk" + sizes.text(0, 30);
        rows += "\n";
      }
      data = cli_.write("table.tsv", rows);
      spec = columns > 0 ? clicksModel(sizes, numbers, columns, 13) : tableModel(sizes, numbers);
      if (columns > 0) more = {"--categories", "13"};
    }
    const QString run = trained(spec), file = cli_.path("model.onnx"), rows = cli_.path("rows.csv");
    const CliResult exported = cli_.run({"export", run, "--to", file});
    QVERIFY2(exported.exit == 0, exported.text());
    const CliResult predicted =
        cli_.run({"predict", run, "--data", data, "--outputs", "--limit", "30", "--out", rows});
    QVERIFY2(predicted.exit == 0, predicted.text());
    QProcess oracle;
    oracle.setProcessChannelMode(QProcess::MergedChannels);
    oracle.start("/usr/bin/python3",
                 QStringList{QString::fromStdString(sourcePath("tests/oracle/onnx_model")), file,
                             "--rows", rows, "--" + (kind == "clicks" ? "table" : kind), data} +
                     more);
    QVERIFY(oracle.waitForFinished(120000));
    if (oracle.exitCode() == kSkipped) QSKIP("PyTorch or python3-onnx is not installed");
    QVERIFY2(oracle.exitCode() == 0, oracle.readAll());
  }

  void errorsSayWhat() {
    cli_.write("table.tsv", "1\t2\t3\t4\n2\t0\t1\t5\n");
    Sizes sizes(1);
    const QString run = trained(tableModel(sizes, 3));
    const QString file = cli_.path("x.onnx"), native = cli_.path("x.safetensors");
    const CliResult typed = cli_.run({"export", run, "--to", file, "--type", "f16"});
    QVERIFY2(typed.exit == 2 && typed.err.contains("--type"), typed.text());
    QCOMPARE(cli_.run({"export", run, "--to", native}).exit, 0);
    const CliResult unknown = cli_.run({"export", native, "--to", file});
    QVERIFY2(unknown.exit == 2 && unknown.err.contains("--model SPEC"), unknown.text());
    const CliResult other = cli_.run({"export", native, "--to", file, "--model", "fashion-mlp"});
    QVERIFY2(other.exit == 2 && other.err.contains("it has no"), other.text());
    const CliResult nowhere = cli_.run({"export", run, "--to", "/nowhere/x.onnx"});
    QVERIFY2(nowhere.exit != 0 && nowhere.err.contains("/nowhere"), nowhere.text());
  }

  void cleanupTestCase() { QVERIFY(cli_.leave()); }
};

QTEST_GUILESS_MAIN(CliOnnxTest)
#include "cli_onnx_test.moc"
