// Byte-pair encoding: tests/engine/data/bpe is a vocabulary that Hugging Face's tokenizers 0.22
// learnt from some of this project's documents, and its tokens of 418 texts.
#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTemporaryDir>
#include <QTest>
#include <fstream>
#include <random>

#include "engine/data/bpe.h"
#include "engine/data/dataset.h"
#include "engine/data/token_writer.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::test;
using data::BytePairEncoder;

namespace {

std::string file(const char* name) {
  return sourcePath(std::string("tests/engine/data/bpe/") + name);
}
std::string contentOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
BytePairEncoder opened() {
  auto out = BytePairEncoder::open(file("vocab.json"), file("merges.txt"));
  if (!out.ok()) qFatal("%s", out.error().text().c_str());
  return std::move(*out);
}
std::vector<std::int32_t> tokensOf(BytePairEncoder& encoder, std::string_view text) {
  std::vector<std::int32_t> out;
  encoder.encode(text, out);
  return out;
}

}  // namespace

class BpeTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void tokensAreThoseOfTokenizers() {
    BytePairEncoder encoder = opened();
    QFile in(file("expected.json").c_str());
    QVERIFY(in.open(QIODevice::ReadOnly));
    const QJsonArray rows = QJsonDocument::fromJson(in.readAll()).array();
    QCOMPARE(rows.size(), 418);
    for (const QJsonValue& row : rows) {
      const std::string text = row["text"].toString().toStdString();
      std::vector<std::int32_t> expected;
      for (const QJsonValue& token : row["tokens"].toArray()) expected.push_back(token.toInt());
      const std::vector<std::int32_t> tokens = tokensOf(encoder, text);
      QVERIFY2(tokens == expected, text.c_str());
      QCOMPARE(encoder.decode(tokens), text);
    }
    QCOMPARE(encoder.find("<|endoftext|>"), std::optional<std::int32_t>(0));
    QCOMPARE(encoder.find("none of them"), std::optional<std::int32_t>());
    QCOMPARE(encoder.size(), 500);
    QCOMPARE(encoder.decode(std::array{0, -1, 500, 65}), std::string("<|endoftext|>a"));
  }

  // Wherever safeEnd() divides a text, and in whatever pieces it comes.
  void piecesAreAsTheWhole() {
    BytePairEncoder encoder = opened();
    std::mt19937 random(3);
    const std::vector<std::string> pieces{"rank", " ", "  ", "\n", "\t ",    "'s", "the",
                                          "中",   "é", "12", "\r", "\u00a0", ".",  "-"};
    for (int round = 0; round < 400; ++round) {
      std::string text;
      for (int i = 0; i < 40; ++i) text += pieces[random() % pieces.size()];
      const std::vector<std::int32_t> whole = tokensOf(encoder, text);
      std::vector<std::int32_t> parts;
      std::string rest;
      for (std::size_t at = 0; at < text.size(); at += 7) {
        rest += text.substr(at, 7);
        const std::size_t end = BytePairEncoder::safeEnd(rest);
        encoder.encode(std::string_view(rest).substr(0, end), parts);
        rest.erase(0, end);
      }
      encoder.encode(rest, parts);
      QVERIFY2(parts == whole, text.c_str());
    }
  }

  void anyBytesComeBack() {
    BytePairEncoder encoder = opened();
    std::mt19937 random(4);
    for (int round = 0; round < 300; ++round) {
      std::string bytes(random() % 200, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      QCOMPARE(encoder.decode(tokensOf(encoder, bytes)), bytes);
    }
  }

  void aLongWordTakesNoLonger() {
    BytePairEncoder encoder = opened();
    std::string word;
    for (int i = 0; i < 300000; ++i) word += static_cast<char>('a' + std::int64_t{i} * i % 7);
    QElapsedTimer timer;
    timer.start();
    QCOMPARE(encoder.decode(tokensOf(encoder, word)), word);
    QVERIFY2(timer.elapsed() < 30000, qPrintable(QString::number(timer.elapsed())));
  }

  void damagedFilesAreRefused_data() {
    QTest::addColumn<QByteArray>("vocabulary");
    QTest::addColumn<QByteArray>("merges");
    QTest::addColumn<QByteArray>("says");
    const QByteArray vocabulary(contentOf(file("vocab.json")).c_str()),
        merges(contentOf(file("merges.txt")).c_str());
    QTest::newRow("no JSON") << QByteArray("x") << merges << QByteArray("not a JSON object");
    QTest::newRow("empty") << QByteArray("{}") << merges << QByteArray("not a JSON object");
    QTest::newRow("a list") << QByteArray("[1]") << merges << QByteArray("not a JSON object");
    QTest::newRow("negative") << QByteArray(vocabulary).replace(":65,", ":-65,") << merges
                              << QByteArray("is -65");
    QTest::newRow("huge") << QByteArray(vocabulary).replace(":65,", ":65000000000,") << merges
                          << QByteArray("is 65000000000");
    QTest::newRow("text") << QByteArray(vocabulary).replace(":65,", ":\"a\",") << merges
                          << QByteArray("expected a number");
    const QByteArray nested = QByteArray(200'000, '[') + QByteArray(200'000, ']');
    QTest::newRow("nested") << QByteArray(vocabulary).replace(":65,", ":" + nested + ",") << merges
                            << QByteArray("is array");
    QTest::newRow("no a") << QByteArray(vocabulary).replace("\"a\":65,", "") << merges
                          << QByteArray("no token for the byte 97");
    QTest::newRow("three") << vocabulary << merges + "a b c\n"
                           << QByteArray("line 245 is not two tokens");
    QTest::newRow("one") << vocabulary << merges + "a\n" << QByteArray("is not two tokens");
    QTest::newRow("unknown") << vocabulary << merges + "a xyzzy\n" << QByteArray("no token xyzzy");
    QTest::newRow("unmade") << vocabulary << merges + "z z\n" << QByteArray("no token zz");
  }
  void damagedFilesAreRefused() {
    QFETCH(QByteArray, vocabulary);
    QFETCH(QByteArray, merges);
    QFETCH(QByteArray, says);
    QTemporaryDir dir;
    const std::string v = dir.filePath("v.json").toStdString(),
                      m = dir.filePath("m.txt").toStdString();
    std::ofstream(v) << vocabulary.toStdString();
    std::ofstream(m) << merges.toStdString();
    const auto encoder = BytePairEncoder::open(v, m);
    QVERIFY(!encoder.ok());
    QCOMPARE(encoder.error().code, Code::kDataLoss);
    QVERIFY2(encoder.error().text().find(says.toStdString()) != std::string::npos,
             encoder.error().text().c_str());
    QCOMPARE(BytePairEncoder::open(v + "x", m).error().code, Code::kNotFound);
  }

  void writtenFilesAreRead() {
    QTemporaryDir dir;
    for (const int bytes : {2, 4})
      for (const std::int32_t count : {5, 3'000'000}) {
        const std::string path = dir.filePath("t.npy").toStdString();
        auto writer = data::TokenWriter::open(path, bytes);
        QVERIFY(writer.ok());
        std::vector<std::int32_t> some;
        for (std::int32_t i = 0; i < count; ++i) {
          some.push_back(i % 50000);
          if (some.size() < 999 && i + 1 < count) continue;
          QVERIFY(writer->add(some).ok());
          some.clear();
        }
        QVERIFY(writer->finish().ok());
        const data::TokenFiles files{path, 4, 50000};
        QCOMPARE(data::inspectTokens(files)->dimensions, Shape{count});
        const auto set = data::openTokens(files);
        QVERIFY(set.ok());
        const std::int64_t last = (*set)->size() - 1;
        std::array<std::int32_t, 4> tokens{};
        (*set)->read(last, 1, reinterpret_cast<std::byte*>(tokens.data()));
        for (std::int64_t k = 0; k < 4; ++k)
          QCOMPARE(tokens[static_cast<std::size_t>(k)],
                   static_cast<std::int32_t>((4 * last + 1 + k) % 50000));
      }
    // One that is not finished leaves nothing.
    {
      auto left = data::TokenWriter::open(dir.filePath("left.npy").toStdString(), 2);
      QVERIFY(left.ok());
    }
    QCOMPARE(QDir(dir.path()).entryList(QDir::Files), QStringList{"t.npy"});
    QVERIFY(!data::TokenWriter::open(dir.filePath("no/such").toStdString(), 2).ok());
  }
};

QTEST_GUILESS_MAIN(BpeTest)
#include "bpe_test.moc"
