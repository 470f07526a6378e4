// lockstep generate, against plain PyTorch where there is one, and against itself.
#include <QProcess>
#include <QStandardPaths>
#include <QTest>
#include <cmath>

#include "tests/app/cli/cli_runner.h"
#include "tests/support/made_up_data.h"
#include "tests/support/paths.h"

using namespace lockstep::test;

namespace {

constexpr int kNoTorch = 77;

QByteArray specOf(int tokens, const QByteArray& data) {
  return "model:\n  input: {shape: [" + QByteArray::number(tokens) +
         "], vocabulary: 256}\n"
         "  layers:\n    - embedding: {units: 32}\n    - transformer: {heads: 4}\n"
         "    - transformer: {heads: 4}\n    - layer_norm: {}\n"
         "    - dense: {units: 256, tied: embedding1}\n" +
         data +
         "training: {max_steps: 80, batch: 16, optimizer: {kind: adam, learning_rate: 0.005}}\n";
}
const QByteArray kText =
    "data:\n  train: {text: made-up.txt, to: 0.9}\n  evaluate: {text: made-up.txt, from: 0.99}\n";

}  // namespace

class CliGenerateTest : public QObject {
  Q_OBJECT

  Cli cli_;
  QString run_;

  QString trained(const QByteArray& spec) const {
    const CliResult result =
        cli_.run({"run", cli_.write("run.yaml", spec), "--local", "1", "--json"});
    if (result.exit != 0) qWarning() << result.text();
    return result.first("started")["run"].toString();
  }
  CliResult generate(const QStringList& more, const QString& run = {}) const {
    return cli_.run(QStringList{"generate", run.isEmpty() ? run_ : run} + more);
  }
  static QByteArray ids(const CliResult& result) {
    QByteArray out;
    for (const QJsonObject& token : result.all("token"))
      out += QByteArray::number(token["id"].toInt()) + " ";
    return out.trimmed();
  }

 private Q_SLOTS:
  void initTestCase() {
    lockstep::testing::madeUpText(cli_.path("").toStdString());
    run_ = trained(specOf(24, kText));
    QVERIFY(!run_.isEmpty());
  }

  // Prompts shorter and longer than the window, which slides over what is generated.
  void greedyIsWhatPyTorchSays_data() {
    QTest::addColumn<QString>("prompt");
    QTest::newRow("one") << "a";
    QTest::newRow("short") << "The quick";
    QTest::newRow("as long") << QString(24, 'q');
    QTest::newRow("longer") << QString("no more than all of that, and then some");
  }
  void greedyIsWhatPyTorchSays() {
    QFETCH(QString, prompt);
    const QString weights = cli_.path("weights.safetensors");
    QCOMPARE(cli_.run({"export", run_, "--to", weights, "--names", "gpt2"}).exit, 0);
    QProcess oracle;
    oracle.start("/usr/bin/python3",
                 {QString::fromStdString(sourcePath("tests/oracle/gpt2_weights")), "generate",
                  weights, "--prompt", prompt, "--heads", "4", "--tokens", "24", "--count", "40"});
    QVERIFY(oracle.waitForFinished(120000));
    if (oracle.exitCode() == kNoTorch) QSKIP("PyTorch is not installed");
    QVERIFY2(oracle.exitCode() == 0, oracle.readAllStandardError());
    const QStringList words{"--prompt", prompt, "--tokens", "40", "--temperature", "0", "--json"};
    const CliResult ours = generate(words);
    QVERIFY2(ours.exit == 0 && ours.onlyJson, ours.text());
    QCOMPARE(ids(ours), oracle.readAllStandardOutput().trimmed());
    // The file of the other names is the same model.
    const CliResult file =
        generate(words + QStringList{"--names", "gpt2", "--model", cli_.path("run.yaml")}, weights);
    QCOMPARE(file.out, ours.out);
  }

  // What it makes up has the letters of what it has read; chance would give each 1/256.
  void learnedWhatItRead() {
    const CliResult said = generate({"--prompt", "the ", "--tokens", "60", "--json"});
    QVERIFY2(said.exit == 0, said.text());
    const QJsonObject last = said.last();
    QCOMPARE(last["event"].toString(), "generated");
    QCOMPARE(last["tokens"].toInt(), 60);
    QVERIFY2(last["log_probability"].toDouble() > 0.7 * -std::log(256.0), said.text());
  }

  // A text of Debian's, which a run makes: words of it are likelier than the letters' frequencies
  // say, 2.9 a letter.
  void kingJames() {
    if (QStandardPaths::findExecutable("bible").isEmpty()) QSKIP("bible-kjv is not installed");
    const QString run = trained(
        specOf(32,
               "data:\n  train: {text: kjv.txt, to: 0.1}\n  evaluate: {text: kjv.txt, from: "
               "0.999}\n")
            .replace("max_steps: 80", "max_steps: 200"));
    const CliResult said = generate(
        {"--prompt", "And the ", "--tokens", "100", "--temperature", "0.8", "--json"}, run);
    QVERIFY2(said.exit == 0, said.text());
    QVERIFY2(said.last()["log_probability"].toDouble() > -2.7, said.text());
    QVERIFY2(said.last()["text"].toString().contains(' '), said.text());
  }

  void samplingFollowsTheSeed() {
    const QStringList words{"--prompt", "a", "--tokens", "30", "--json"};
    const QByteArray one = ids(generate(words + QStringList{"--seed", "7"}));
    QCOMPARE(ids(generate(words + QStringList{"--seed", "7"})), one);
    QVERIFY(ids(generate(words + QStringList{"--seed", "8"})) != one);
    // Among one token there is no choice; nor in the smallest nucleus.
    const QByteArray greedy = ids(generate(words + QStringList{"--temperature", "0"}));
    QCOMPARE(ids(generate(words + QStringList{"--top-k", "1"})), greedy);
    QCOMPARE(ids(generate(words + QStringList{"--top-p", "0"})), greedy);
    QCOMPARE(ids(generate(words + QStringList{"--temperature", "0.001"})), greedy);
    QVERIFY(one != greedy);
  }

  // A text without --json is what the tokens are, escaped where a terminal could not show it.
  void textIsPrinted() {
    const QStringList words{"--prompt", "a", "--tokens", "50", "--temperature", "30"};
    const CliResult text = generate(words), events = generate(words + QStringList{"--json"});
    QVERIFY2(text.exit == 0, text.text());
    QVERIFY(QString::fromUtf8(text.out).toUtf8() == text.out);
    QByteArray plain = text.out;
    plain.chop(1);
    for (const QJsonObject& token : events.all("token")) {
      const int id = token["id"].toInt();
      if (id > 32 && id < 127) QVERIFY(plain.contains(static_cast<char>(id)));
    }
  }

  void vocabularies() {
    // Bytes by their names in GPT-2's files, and one pair.
    QByteArray vocabulary = "{", merges = "#version: 0.2\nt h\n";
    int id = 0;
    for (int byte = 0, shifted = 256; byte < 256; ++byte) {
      const bool plain = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
      const QString name(QChar(plain ? byte : shifted++));
      const QByteArray written =
          name == "\"" || name == "\\" ? "\\" + name.toUtf8() : name.toUtf8();
      vocabulary += "\"" + written + "\": " + QByteArray::number(id++) + ", ";
    }
    vocabulary += "\"th\": 256, \"<end>\": 257}";
    const QString v = cli_.write("vocab.json", vocabulary), m = cli_.write("merges.txt", merges);
    const QString tokens = cli_.path("tokens.npy");
    const CliResult made = cli_.run(
        {"tokenize", cli_.path("made-up.txt"), "--vocabulary", v, "--merges", m, "--to", tokens});
    QVERIFY2(made.exit == 0, made.text());
    const QByteArray spec =
        specOf(
            16,
            "data:\n  train: {tokens: tokens.npy}\n  evaluate: {tokens: tokens.npy, from: 0.99}\n")
            .replace("vocabulary: 256", "vocabulary: 260")
            .replace("units: 256", "units: 260");
    const QString run = trained(spec);
    const CliResult none = generate({"--prompt", "th"}, run);
    QVERIFY2(none.exit == 2 && none.err.contains("--vocabulary"), none.text());
    const CliResult half = generate({"--prompt", "th", "--vocabulary", v}, run);
    QVERIFY2(half.exit == 2 && half.err.contains("--merges is missing"), half.text());
    const QStringList words{"--prompt", "th é", "--vocabulary", v, "--merges", m, "--json"};
    const CliResult said = generate(words + QStringList{"--end-of-text", "<end>"}, run);
    QVERIFY2(said.exit == 0, said.text());
    for (const QJsonObject& token : said.all("token")) QVERIFY(token["id"].toInt() < 257);
    const CliResult unknown = generate(words + QStringList{"--end-of-text", "<stop>"}, run);
    QVERIFY2(unknown.exit == 2, unknown.text());
    cli_.write("more.json", vocabulary.replace("257", "300"));
    const CliResult large =
        generate({"--prompt", "a", "--vocabulary", cli_.path("more.json"), "--merges", m}, run);
    QVERIFY2(large.exit == 2 && large.err.contains("301 tokens"), large.text());
  }

  void errorsSayWhat() {
    const auto refused = [&](const QStringList& more, const QByteArray& text) {
      const CliResult result = generate(more);
      return result.exit == 2 && result.err.contains(text) ? QByteArray() : result.text();
    };
    QCOMPARE(refused({}, "--prompt is missing"), "");
    QCOMPARE(refused({"--prompt", "a", "--temperature", "-1"}, "temperature"), "");
    QCOMPARE(refused({"--prompt", "a", "--top-p", "1.5"}, "top-p"), "");
    QCOMPARE(refused({"--prompt", "a", "--top-k", "0"}, "top-k"), "");
    QCOMPARE(refused({"--prompt", "a", "--tokens", "0"}, "tokens"), "");
    const QByteArray sees =
        specOf(24, kText).replace("transformer: {heads: 4}\n    - layer",
                                  "transformer: {heads: 4, not_causal: true}\n    - layer");
    QVERIFY(sees.contains("not_causal"));
    QCOMPARE(refused({"--prompt", "a", "--model", cli_.write("sees.yaml", sees)},
                     "attend to later ones"),
             "");
    QCOMPARE(refused({"--prompt", "a", "--model", "fashion-mlp"}, "takes no text"), "");
  }

  void cleanupTestCase() { QVERIFY(cli_.leave()); }
};

QTEST_GUILESS_MAIN(CliGenerateTest)
#include "cli_generate_test.moc"
