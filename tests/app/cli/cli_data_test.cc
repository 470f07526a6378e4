// The command data show, and a few steps of training of every kind of model that is offered.
#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QProcess>
#include <QTest>

#include <csignal>
#include <random>

#include "tests/app/cli/cli_runner.h"
#include "tests/support/paths.h"
#include "tests/support/pictures.h"

using namespace lockstep::test;
using lockstep::tests::jpegOf;
using lockstep::tests::pngOf;

namespace {

QByteArray idx(const QList<quint32>& dimensions, const QByteArray& elements) {
  QByteArray out("\0\0\x08", 3);
  out += static_cast<char>(dimensions.size());
  for (const quint32 extent : dimensions)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(extent >> shift & 0xff);
  return out + elements;
}

// 96 images of 28 × 28 with labels 0 to 9.
QStringList imageFiles(const Cli& cli) {
  QByteArray pixels, labels;
  for (int i = 0; i < 96 * 784; ++i) pixels += static_cast<char>(i * 7 % 251);
  for (int i = 0; i < 96; ++i) labels += static_cast<char>(i % 10);
  const QString images = cli.write("images", idx({96, 28, 28}, pixels)),
                names = cli.write("labels", idx({96}, labels));
  QStringList out;
  for (const char* part : {"train", "evaluate"})
    out << "--set" << QString("data.%1.images=%2").arg(part, images) << "--set"
        << QString("data.%1.labels=%2").arg(part, names);
  return out;
}

}  // namespace

class CliDataTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // Folders of pictures, each a class, become the files of a run that learns to tell them apart.
  void picturesBecomeImages() {
    const Cli cli;
    std::mt19937 random(5);
    const char* const names[] = {"blue", "green", "red"};
    for (const char* part : {"train", "val"})
      for (int label = 0; label < 3; ++label)
        for (int i = 0; i < 24; ++i) {
          const int height = 8 + static_cast<int>(random() % 30),
                    width = 8 + static_cast<int>(random() % 30);
          std::string pixels;
          for (int pixel = 0; pixel < height * width; ++pixel)
            for (int channel = 0; channel < 3; ++channel)
              pixels += static_cast<char>(random() % 100 + (channel == 2 - label ? 120 : 0));
          const std::string bytes = i % 2 == 0 ? jpegOf(height, width, pixels, 95)
                                               : pngOf(height, width, PNG_FORMAT_RGB, pixels);
          const QString folder = QString("%1/%2").arg(part, names[label]);
          QDir(cli.path("")).mkpath(folder);
          cli.write(QString("%1/%2.%3").arg(folder).arg(i).arg(i % 2 == 0 ? "jpg" : "png"),
                    QByteArray::fromStdString(bytes));
        }
    const auto make = [&](const QString& part, const QStringList& more) {
      return cli.run(QStringList{"make-data", "images", cli.path(part), "--size", "8x6", "--to",
                                 cli.path(part)} +
                     more);
    };
    const CliResult made = make("train", {"--json"});
    QVERIFY2(made.exit == 0 && made.onlyJson, made.text());
    QCOMPARE(made.first("images")["count"].toInt(), 72);
    QCOMPARE(made.first("images")["names"].toArray(), (QJsonArray{"blue", "green", "red"}));
    const CliResult other = make("val", {"--classes", cli.path("train-classes.txt")});
    QVERIFY2(other.exit == 0 && other.out.contains("72 images of 3 classes"), other.text());
    const QString spec = cli.write(
        "m.yaml",
        "version: 1\nmodel:\n  classes: 3\n  input: {shape: [8, 6, 3]}\n  layers:\n"
        "    - conv2d: {filters: 4, kernel: 3, activation: relu}\n    - flatten\n"
        "    - {dense: {units: 3}}\n"
        "data:\n  train: {images: train-images.idx, labels: train-labels.idx}\n"
        "  evaluate: {images: val-images.idx, labels: val-labels.idx}\n"
        "training: {batch: 12, epochs: 12, optimizer: {kind: adam, learning_rate: 0.01}}\n");
    const CliResult shown = cli.run({"data", "show", spec, "--count", "1", "--check"});
    QVERIFY2(shown.exit == 0 && shown.out.contains("72 samples: 8x6x3") &&
                 shown.out.contains("labels: 0×24 1×24 2×24"),
             shown.text());
    const CliResult run = cli.run({"run", spec, "--local", "2", "--json"});
    QVERIFY2(run.exit == 0, run.text());
    QVERIFY2(run.all("epoch").last()["eval_accuracy"].toDouble() > 0.95, run.text());

    for (const QStringList& wrong : {QStringList{"--size", "8"},
                                     {"--size", "0x8"},
                                     {"--size", "8x8x8"},
                                     {"--size", ""},
                                     {"--size", "9999x9"},
                                     {"--size", "8x8", "--classes", cli.path("none")}})
      QVERIFY(cli.run(QStringList{"make-data", "images", cli.path("train"), "--to", cli.path("x")} +
                      wrong)
                  .exit == 2);
    cli.write("val/red/bad.png", "\x89PNG");
    const CliResult damaged = make("val", {});
    QVERIFY2(damaged.exit != 0 && damaged.text().contains("val/red/bad.png") &&
                 damaged.text().contains("--skip-damaged"),
             damaged.text());
    // At a terminal the error does not stand behind how far it had come.
    Terminal terminal(
        cli, {"make-data", "images", cli.path("val"), "--size", "8x6", "--to", cli.path("val")});
    QVERIFY(terminal.finish() > 0);
    const qsizetype at = terminal.shown().indexOf("error: ");
    QVERIFY2(at >= 0 && !terminal.shown().first(at).endsWith("pictures"),
             terminal.shown().constData());
    const CliResult skipped = make("val", {"--skip-damaged"});
    QVERIFY2(skipped.exit == 0 && skipped.err.contains("left out: ") &&
                 skipped.out.contains("72 images"),
             skipped.text());
  }

  // A CSV file with names, quotes and an own separator is shown and trained on; with zstd as
  // without.
  void csvIsTrainedOn() {
    const Cli cli;
    QByteArray rows = "\"id\";kind;size;\"weight, kg\";colour\n";
    for (int i = 0; i < 160; ++i)
      rows += QString("%1;%2;%3;%4;\"c\"\"%5\"\"\"\n")
                  .arg(i)
                  .arg(i % 2 == 0 ? "cat" : "\"dog, big\"")
                  .arg(i % 2 == 0 ? 10 + i % 5 : 100 + i % 9)
                  .arg(i % 7 == 0 ? QString() : QString::number(i % 3))
                  .arg(i % 4)
                  .toUtf8();
    cli.write("pets.csv", rows);
    QCOMPARE(QProcess::execute("zstd", {"-q", cli.path("pets.csv"), "-o", cli.path("pets.zst")}),
             0);
    const QString spec = cli.write(
        "m.yaml",
        "version: 1\nmodel:\n  classes: 2\n  input: {shape: [2], columns: 1, categories: 20}\n"
        "  layers:\n    - {name: t, inputs: [categories], embedding: {units: 2}}\n"
        "    - {name: j, inputs: [input, t], concat: {}}\n    - dense: {units: 2}\n"
        "  loss: cross-entropy\ndata:\n  train: {table: pets.csv, to: 0.75}\n"
        "  evaluate: {table: pets.csv, from: 0.75}\n"
        "  csv: {label: kind, numbers: [size, \"weight, kg\"], categories: [colour],\n"
        "        classes: [cat, \"dog, big\"], separator: \";\"}\n"
        "training: {batch: 10, epochs: 20, optimizer: {kind: adam, learning_rate: 0.05}}\n");
    const CliResult shown = cli.run({"data", "show", spec, "--count", "2", "--check"});
    QVERIFY2(shown.exit == 0 && shown.out.contains("120 samples: rows") &&
                 shown.out.contains("columns: size, weight, kg, colour") &&
                 shown.out.contains("labels: 0×60 1×60") &&
                 shown.out.contains("#1  label dog, big  101 1 c\"1\""),
             shown.text());
    const CliResult json = cli.run({"data", "show", spec, "--json"});
    QCOMPARE(json.first("data")["columns"].toArray(), (QJsonArray{"size", "weight, kg", "colour"}));
    const auto losses = [&](const QStringList& more) {
      const CliResult run =
          cli.run(QStringList{"run", spec, "--local", "2", "--no-benchmark", "--json"} + more);
      if (run.exit != 0) qWarning() << run.text();
      QList<double> out;
      for (const QJsonObject& epoch : run.all("epoch"))
        out << epoch["train_loss"].toDouble() << epoch["eval_loss"].toDouble()
            << epoch["eval_accuracy"].toDouble();
      return out;
    };
    const QList<double> plain = losses({});
    QVERIFY(plain.size() == 60 && plain.back() > 0.95);
    QCOMPARE(losses({"--set", "data.train.table=" + cli.path("pets.zst"), "--set",
                     "data.evaluate.table=" + cli.path("pets.zst")}),
             plain);

    const CliResult frozen = cli.run({"plan", spec, "--set", "training.freeze=[t]"});
    QVERIFY2(frozen.exit == 0 && frozen.err.contains("40 of 50 parameters are frozen"),
             frozen.text());
    QVERIFY(losses({"--set", "training.freeze=[t]"}) != plain);

    const auto refused = [&](const QString& set, const char* says) {
      const CliResult run = cli.run({"plan", spec, "--set", set});
      QVERIFY2(run.exit == 2 && run.text().contains(says), run.text());
    };
    refused("data.csv.numbers=[size]", "data.csv.numbers names 1 columns");
    refused("data.csv.categories=[]", "data.csv.categories names 0 columns");
    refused("data.csv.label=size", "is the label");
    refused("data.csv.label=", "label is missing");
    refused("data.csv.classes=[cat]", "has 1 texts");
    refused("data.csv.classes=[cat, cat]", "listed twice");
    refused("data.csv.separator=;;", "one ASCII character");
    refused("data.csv.transform=sqrt", "log");
    cli.write("pets.csv", rows + "160;cat;5;1;red;6\n");
    const CliResult line = cli.run({"run", spec, "--local", "1", "--no-benchmark"});
    QVERIFY2(line.exit != 0 && line.text().contains("pets.csv") &&
                 line.text().contains("line 162: it has 6 columns, the first row has 5"),
             line.text());
  }

  // Records as Python's protobuf writes them become a table; Parquet needs pyarrow, and says so.
  void tablesOfOtherFormats() {
    const Cli cli;
    QProcess python;
    python.start("/usr/bin/python3",
                 {QString::fromStdString(sourcePath("tests/app/cli/write_records")), cli.path("")});
    QVERIFY(python.waitForFinished(-1));
    QVERIFY2(python.exitCode() == 0, python.readAllStandardError().constData());
    const auto make = [&](const QStringList& files, const QStringList& more = {}) {
      QStringList words{"make-data", "table"};
      for (const QString& file : files) words << cli.path(file);
      return cli.run(words + QStringList{"--to", cli.path("t.csv")} + more);
    };
    const CliResult made = make({"a.tfrecord", "b.tfrecord.gz"}, {"--json"});
    QVERIFY2(made.exit == 0 && made.onlyJson, made.text());
    QCOMPARE(made.first("table")["rows"].toInt(), 100);
    QCOMPARE(made.first("table")["columns"].toArray(), (QJsonArray{"kind", "x.0", "x.1", "y"}));
    QFile csv(cli.path("t.csv"));
    QVERIFY(csv.open(QIODevice::ReadOnly));
    QCOMPARE(csv.readLine(), QByteArray("kind,x.0,x.1,y\n"));
    QCOMPARE(csv.readLine(), QByteArray("\"k \"\"0\"\"\",0,-0.5,0\n"));
    QCOMPARE(csv.readLine(), QByteArray(",1,0.5,1\n"));
    const QString spec = cli.write(
        "m.yaml",
        "version: 1\nmodel:\n  classes: 2\n  input: {shape: [2], columns: 1, categories: 9}\n"
        "  layers:\n    - {name: t, inputs: [categories], embedding: {units: 2}}\n"
        "    - {name: j, inputs: [input, t], concat: {}}\n    - dense: {units: 2}\n"
        "data:\n  train: {table: t.csv}\n  evaluate: {table: t.csv}\n"
        "  csv: {label: y, numbers: [x.0, x.1], categories: [kind]}\ntraining: {batch: 10}\n");
    const CliResult run = cli.run({"run", spec, "--local", "1", "--no-benchmark"});
    QVERIFY2(run.exit == 0, run.text());
    const CliResult two = make({"a.tfrecord"}, {"--columns", "y,kind"});
    QVERIFY2(two.out.contains("60 rows in ") && two.out.contains("columns: y, kind"), two.text());

    QFile records(cli.path("a.tfrecord"));
    QVERIFY(records.open(QIODevice::ReadOnly));
    const QByteArray all = records.readAll();
    cli.write("cut", all.chopped(3));
    cli.write("bad", all.left(20) + "x" + all.mid(21));
    cli.write("text", "y,a\n1,2\n3,4\n");
    cli.write("a.parquet", "PAR1, it says");
    const QString bare = cli.write("python", "#!/bin/sh\nexec /usr/bin/python3 -S -I \"$@\"\n");
    QFile::setPermissions(bare, QFile::ReadOwner | QFile::ExeOwner);
    for (const auto& [result, says] :
         {std::pair<CliResult, QByteArray>(make({"cut"}), "record 59: the file ends within it"),
          {make({"bad"}), "record 0: its content does not fit its checksum"},
          {make({"text"}), "neither Parquet nor TFRecord"},
          {make({"none"}), "none"},
          {make({"a.tfrecord", "a.parquet"}), "different formats"},
          {make({"pictures.tfrecord"}), "\"image\" is not a text"},
          {make({"uneven.tfrecord"}), "\"x\" has 1 values, and 2 before"},
          {make({"a.tfrecord"}, {"--columns", "y,z"}), "no record has a feature \"z\""},
          {make({"a.parquet"}, {"--python", bare}), "No module named 'pyarrow'"},
          {make({"a.parquet"}, {"--python", bare}), "pip install pyarrow"},
          {make({"a.parquet"}, {"--python", "/nowhere/python"}), "there is no program"},
          {cli.run({"make-data", "table", cli.path("a.tfrecord")}), "--to is missing"},
          {cli.run({"make-data", "table", cli.path("a.tfrecord"), "--to", cli.path("a.tfrecord")}),
           "would be replaced"}})
      QVERIFY2(result.exit != 0 && result.text().contains(says), result.text());
    for (const QString& left : QDir(cli.path("")).entryList(QDir::Files))
      QVERIFY2(!left.contains(".part"), qPrintable(left));
    QVERIFY(make({"pictures.tfrecord"}, {"--columns", "y"}).exit == 0);
  }

  void imagesAreShown() {
    const Cli cli;
    cli.write("images", idx({3, 2, 2}, QByteArray("\0\xff\xff\0\x80\x80\x80\x80\0\0\0\xff", 12)));
    cli.write("labels", idx({3}, QByteArray("\1\0\1", 3)));
    const QString spec =
        cli.write("m.yaml",
                  "version: 1\nmodel:\n  input: {shape: [2, 2, 1]}\n  layers: [flatten, {dense: "
                  "{units: 2}}]\n"
                  "data:\n  train: {images: images, labels: labels}\n"
                  "  evaluate: {images: none, labels: labels}\ntraining: {batch: 2}\n");
    const CliResult text = cli.run({"data", "show", spec, "--count", "2"});
    QVERIFY2(text.exit == 0, text.text());
    QVERIFY2(text.out.contains("3 samples: 2x2") && text.out.contains("labels: 0×1 1×2"), text.out);
    QVERIFY2(text.out.contains("#0  label 1\n  ██\n██\n#1  label 0\n▒▒▒▒\n▒▒▒▒\n"), text.out);
    const CliResult json = cli.run({"data", "show", spec, "--from", "1", "--check", "--json"});
    QVERIFY2(json.exit == 0 && json.onlyJson, json.text());
    QCOMPARE(json.first("data")["samples"].toInt(), 3);
    QCOMPARE(json.first("data")["labels"].toObject()["1"].toInt(), 2);
    const auto samples = json.all("sample");
    QCOMPARE(samples.size(), 2);
    QCOMPARE(samples[1]["index"].toInt(), 2);
    QCOMPARE(samples[1]["pixels"].toArray(), (QJsonArray{0, 0, 0, 255}));
    QCOMPARE(cli.run({"data", "show", spec, "--random", "--count", "2", "--seed", "5"}).out,
             cli.run({"data", "show", spec, "--random", "--count", "2", "--seed", "5"}).out);
    const auto refused = [&](const QStringList& more, const char* says) {
      const CliResult result = cli.run(QStringList{"data", "show", spec} + more);
      QVERIFY2(result.exit != 0 && result.err.contains(says), result.text());
    };
    refused({"--from", "3"}, "3 samples");
    refused({"--split", "test"}, "--split");
    refused({"--from", "1", "--random"}, "exclude");
    refused({"--split", "evaluate"}, "none");
    cli.write("labels", idx({3}, QByteArray("\1\0\7", 3)));
    refused({}, "record 2 has label 7");
    cli.write("images", idx({3, 2, 2}, QByteArray("abc")));
    refused({}, "declares 12 bytes");
  }

  // Nothing stays of data whose making was cancelled.
  void ctrlCEndsTheMakingOfData() {
    const Cli cli;
    QDir folder(cli.path("made"));
    QVERIFY(folder.mkpath("."));
    const auto makes =
        cli.start({"make-data", "ctr", "--rows", "16000000", "--out", folder.filePath("ctr.tsv")});
    QTRY_VERIFY_WITH_TIMEOUT(!folder.entryList(QDir::Files).isEmpty(), 60000);
    QCOMPARE(::kill(static_cast<pid_t>(makes->processId()), SIGINT), 0);
    const CliResult cancelled = cli.finish(*makes, {});
    QVERIFY2(cancelled.exit == 130 && cancelled.err.contains("cancelled"), cancelled.text());
    QVERIFY(folder.entryList(QDir::Files).isEmpty());
  }

  void rowsAndTextsAreShown() {
    const Cli cli;
    QVERIFY(cli.run({"make-data", "ctr", "--rows", "500", "--out", cli.path("ctr.tsv")}).exit == 0);
    QFile example(lockstep::test::example("ctr"));
    QVERIFY(example.open(QIODevice::ReadOnly));
    const QString spec = cli.write("ctr.yaml", example.readAll());
    const CliResult rows = cli.run({"data", "show", spec, "--split", "evaluate", "--json"});
    QVERIFY2(rows.exit == 0, rows.text());
    QCOMPARE(rows.first("data")["samples"].toInt(), 50);
    QCOMPARE(rows.all("sample").size(), 8);
    QCOMPARE(rows.first("sample")["cells"].toArray().size(), 39);
    QVERIFY(cli.run({"data", "show", spec, "--check"}).out.contains("450 samples"));
    const QString text = cli.write("t.txt", "one\ntwo\x1b[31m three four five six seven\n");
    const QString words =
        cli.write("t.yaml",
                  "version: 1\nmodel:\n  input: {shape: [8], vocabulary: 256}\n  layers:\n"
                  "    - embedding: {units: 4}\n    - dense: {units: 256}\ndata:\n"
                  "  train: {text: t.txt}\n  evaluate: {text: t.txt}\ntraining: {batch: 1}\n");
    const CliResult shown = cli.run({"data", "show", words, "--count", "1"});
    QVERIFY2(shown.exit == 0 && shown.out.contains("#0  one↵two·"), shown.text());
  }

  // The bytes of a text as tokens, in three files, train as the text does: each loss is the same.
  void tokensTrainAsTheirText() {
    const Cli cli;
    const QByteArray text = QByteArray("the quick brown fox jumps over it\n").repeated(30);
    cli.write("t.txt", text);
    for (qsizetype part = 0; part < 3; ++part) {
      QByteArray tokens;
      for (const char c : text.mid(part * 340, 340)) tokens += QByteArray(1, c) + QByteArray(1, 0);
      cli.write(QString("t_%1.bin").arg(part), tokens);
    }
    const auto spec = [&](const QByteArray& data) {
      return cli.write("m.yaml",
                       "version: 1\nmodel:\n  input: {shape: [8], vocabulary: 256}\n  layers:\n"
                       "    - embedding: {units: 16}\n    - transformer: {heads: 2}\n"
                       "    - dense: {units: 256}\n  loss: cross-entropy\ndata:\n" +
                           data +
                           "training: {batch: 4, max_steps: 12, evaluate_batch: 4}\n"
                           "strategy: {kind: zero-1}\n");
    };
    const auto losses = [&](const QByteArray& data) {
      const CliResult result =
          cli.run({"run", spec(data), "--json", "--every", "1", "--local", "2", "--no-benchmark"});
      if (result.exit != 0) qWarning() << result.text();
      QList<double> out;
      for (const QJsonObject& step : result.all("step")) out += step["loss"].toDouble();
      return out += result.last()["eval_loss"].toDouble();
    };
    const QList<double> expected =
        losses("  train: {text: t.txt}\n  evaluate: {text: t.txt, from: 0.5}\n");
    QVERIFY(expected.size() > 2 && expected.back() > 0);
    QCOMPARE(losses("  train: {tokens: t_*.bin}\n  evaluate: {tokens: t_*.bin, from: 0.5}\n"),
             expected);

    const CliResult shown = cli.run(
        {"data", "show", spec("  train: {tokens: t_*.bin}\n  evaluate: {tokens: t_0.bin}\n"),
         "--count", "1", "--check"});
    QVERIFY2(shown.exit == 0 && shown.out.contains("127 samples: 8") &&
                 shown.out.contains("#0  116 104 101 32 113 117 105 99") &&
                 shown.out.contains("t_2.bin"),
             shown.text());
    const CliResult json = cli.run({"data", "show", cli.path("m.yaml"), "--count", "1", "--json"});
    QCOMPARE(json.first("sample")["tokens"].toArray().at(1).toInt(), int('h'));
    QCOMPARE(json.first("data")["format"].toString(), QString("tokens"));
    QCOMPARE(json.first("data")["files"].toArray().size(), 3);
  }

  void textsAreTokenized() {
    const Cli cli;
    const QString vocabulary =
                      QString::fromStdString(sourcePath("tests/engine/data/bpe/vocab.json")),
                  merges = QString::fromStdString(sourcePath("tests/engine/data/bpe/merges.txt"));
    const QString first = cli.write("a.txt", "hello world"), second = cli.write("b.txt", "a");
    QFile original(merges);
    QVERIFY(original.open(QIODevice::ReadOnly));
    const QString pairs = cli.write("merges.txt", original.readAll());  // a copy, for --to to name
    const auto tokenize = [&](const QStringList& texts, const QStringList& more = {}) {
      return cli.run(
          QStringList{"tokenize"} + texts +
          QStringList{"--vocabulary", vocabulary, "--merges", merges, "--to", cli.path("t.npy")} +
          more);
    };
    const CliResult json = tokenize({first, second}, {"--end-of-text", "<|endoftext|>", "--json"});
    QVERIFY2(json.exit == 0 && json.onlyJson, json.text());
    QCOMPARE(json.last()["tokens"].toInt(), 10);  // 7 and 1, and the ends of both
    QCOMPARE(json.last()["bytes_per_token"].toInt(), 2);
    const QString spec =
        cli.write("m.yaml",
                  "version: 1\nmodel:\n  input: {shape: [9], vocabulary: 500}\n  layers:\n"
                  "    - embedding: {units: 4}\n    - dense: {units: 500}\n  loss: cross-entropy\n"
                  "data:\n  train: {tokens: t.npy}\n  evaluate: {tokens: t.npy}\n");
    const CliResult shown = cli.run({"data", "show", spec});
    QVERIFY2(shown.out.contains("#0  72 369 285 269 270 76 68 0 65"), shown.text());
    QVERIFY2(tokenize({first}).out.contains("7 tokens of 11 B"), "");

    cli.write("latin.txt", QByteArray("Gr\xf6sse"));
    for (const auto& [result, says] :
         {std::pair<CliResult, QByteArray>(tokenize({cli.path("latin.txt")}),
                                           "byte 2 of it is not UTF-8"),
          {tokenize({cli.path("none.txt")}), "none.txt"},
          {tokenize({first}, {"--end-of-text", "<none>"}), "no token <none>"},
          {cli.run({"tokenize", first, "--merges", merges, "--to", cli.path("u.npy")}),
           "--vocabulary is missing"},
          {cli.run(
               {"tokenize", first, "--vocabulary", vocabulary, "--merges", pairs, "--to", pairs}),
           "would be replaced"},
          {cli.run({"tokenize", first, "--vocabulary", merges, "--merges", merges, "--to",
                    cli.path("u.npy")}),
           "not a JSON object"}})
      QVERIFY2(result.exit != 0 && result.text().contains(says), result.text());
    QVERIFY(!QFile::exists(cli.path("u.npy")));
  }

  void wrongTokensEndARun() {
    const Cli cli;
    QByteArray tokens(400, '\1');
    cli.write("t.bin", tokens);  // 257, each
    const auto run = [&](const QByteArray& data, const QStringList& more = {}) {
      return cli.run(
          QStringList{
              "run",
              cli.write("m.yaml",
                        "version: 1\nmodel:\n  input: {shape: [8], vocabulary: 300}\n"
                        "  layers:\n    - embedding: {units: 4}\n    - dense: {units: 300}\n"
                        "  loss: cross-entropy\ndata: " +
                            data + "\ntraining: {batch: 4, max_steps: 3, evaluate_batch: 4}\n"),
              "--local", "2", "--no-benchmark"} +
          more);
    };
    const QByteArray files = "train: {tokens: t.bin}, evaluate: {tokens: t.bin}";
    const CliResult taken = run("{" + files + "}");
    QVERIFY2(taken.exit == 0, taken.text());
    const CliResult small = run("{" + files + "}", {"--set", "model.input.vocabulary=257", "--set",
                                                    "model.layers[1].dense.units=257"});
    QVERIFY2(small.exit != 0 && small.text().contains("the vocabulary has 257"), small.text());
    const CliResult none = run("{train: {tokens: u-*.bin}, evaluate: {tokens: t.bin}}");
    QVERIFY2(none.exit != 0 && none.text().contains("u-*.bin"), none.text());
    for (const auto& [data, says] :
         {std::pair<QByteArray, QByteArray>("{copy_to_nodes: true, " + files + "}", "not copied"),
          {"{format: text, " + files + "}", "text is missing"},
          {"{format: idx, " + files + "}", "expected format tokens or text"},
          {"{token_type: u8, " + files + "}", "u16"},
          {"{token_type: u16, train: {text: t.bin}, evaluate: {text: t.bin}}",
           "only tokens have a type"}}) {
      const CliResult refused = run(data);
      QVERIFY2(refused.exit == 2 && refused.text().contains(says), refused.text());
    }
  }

  void presetsTrain_data() {
    QTest::addColumn<QString>("name");
    for (const char* name :
         {"fashion-mlp", "fashion-cnn", "fashion-resnet", "gpt-tiny", "gpt-small", "ctr"})
      QTest::newRow(name) << QString(name);
  }
  // Every kind of model that a new one starts from makes some steps, and its loss is a number.
  void presetsTrain() {
    QFETCH(QString, name);
    const Cli cli;
    QStringList command{
        "run",    example(name), "--json",         "--local", "2",
        "--comm", "shm",         "--no-benchmark", "--set",   "training.max_steps=3"};
    if (name.startsWith("fashion")) {
      command +=
          imageFiles(cli) + QStringList{"--set", "training.batch=16", "--set", "training.epochs=1"};
    } else if (name.startsWith("gpt")) {
      const QString text =
          cli.write("t.txt", QByteArray("the quick brown fox jumps over it\n").repeated(90));
      for (const char* part : {"train", "evaluate"})
        command << "--set" << QString("data.%1.text=%2").arg(part, text);
      command += {"--set", "training.batch=2",
                  "--set", "training.evaluate_batch=2",
                  "--set", "training.schedule.warmup_steps=0"};
    } else {
      const QString table = cli.path("ctr.tsv");
      QVERIFY(cli.run({"make-data", "ctr", "--rows", "4000", "--out", table}).exit == 0);
      for (const char* part : {"train", "evaluate"})
        command << "--set" << QString("data.%1.table=%2").arg(part, table);
      command += {"--set", "training.batch=256", "--set", "training.evaluate_batch=256",
                  "--set", "training.epochs=1"};
    }
    const CliResult result = cli.run(command);
    QVERIFY2(result.exit == 0, result.text());
    const QJsonObject end = result.last();
    QCOMPARE(end["event"].toString(), QString("finished"));
    QVERIFY2(end["steps"].toInt() >= 3, result.text());
    QVERIFY2(end["train_loss"].isDouble() && end["eval_loss"].isDouble(), result.text());
  }
};

QTEST_GUILESS_MAIN(CliDataTest)
#include "cli_data_test.moc"
