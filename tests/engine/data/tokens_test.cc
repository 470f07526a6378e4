// Tokens in files: what other programs write, in any number of files, of any size; and what is
// wrong with them.
#include <QDir>
#include <QElapsedTimer>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "engine/data/dataset.h"
#include "engine/data/samples.h"

using namespace lockstep;

namespace {

constexpr std::int64_t kVocabulary = 50257;

template <typename T>
std::string bytesOf(const std::vector<std::int32_t>& tokens) {
  std::string out;
  for (const std::int32_t token : tokens) {
    const auto number = static_cast<T>(token);
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return out;
}

// As llm.c's dev/data/data_common.py writes it, for GPT-2 and for Llama 3.
template <typename T>
std::string llmC(const std::vector<std::int32_t>& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = sizeof(T) == 2 ? 20240520 : 20240801;
  header[1] = sizeof(T) == 2 ? 1 : 7;
  header[2] = static_cast<std::int32_t>(tokens.size());
  return bytesOf<std::int32_t>(header) + bytesOf<T>(tokens);
}

std::vector<std::int32_t> samplesOf(const data::Dataset& set, std::size_t field) {
  std::vector<std::int32_t> out, one(static_cast<std::size_t>(set.fields()[field].shape[0]));
  for (std::int64_t i = 0; i < set.size(); ++i) {
    set.read(i, field, reinterpret_cast<std::byte*>(one.data()));
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

}  // namespace

class TokensTest : public QObject {
  Q_OBJECT

  QTemporaryDir dir_;
  std::string path(const std::string& name) const {
    return dir_.filePath(name.c_str()).toStdString();
  }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  static data::TokenFiles files(const std::string& path, std::int64_t tokens = 4) {
    return {path, tokens, kVocabulary};
  }
  static std::string why(const data::TokenFiles& of) {
    const auto set = data::openTokens(of);
    return set.ok() ? "" : set.error().text();
  }

 private Q_SLOTS:
  // Whatever the shards, their formats and the part: sample i is tokens i·n to (i + 1)·n of all.
  void anyFilesAreOneSequence() {
    std::mt19937_64 random(7);
    const auto draw = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    for (int round = 0; round < 300; ++round) {
      const std::string folder = path(fmt::format("shards{}", round));
      std::filesystem::create_directory(folder);
      std::vector<std::int32_t> all;
      const std::int64_t shards = draw(1, 7);
      for (std::int64_t s = 0; s < shards; ++s) {
        std::vector<std::int32_t> tokens(static_cast<std::size_t>(draw(0, 40)));
        for (std::int32_t& token : tokens)
          token = static_cast<std::int32_t>(draw(0, 3) == 0 ? kVocabulary - 1
                                                            : draw(0, kVocabulary - 1));
        all.insert(all.end(), tokens.begin(), tokens.end());
        const std::int64_t kind = draw(0, 2);
        std::ofstream(fmt::format("{}/s_{:03}.bin", folder, s), std::ios::binary)
            << (kind == 0   ? bytesOf<std::uint16_t>(tokens)
                : kind == 1 ? llmC<std::uint16_t>(tokens)
                            : llmC<std::uint32_t>(tokens));
      }
      std::ofstream(folder + "/other.bin") << "not of them";
      data::TokenFiles of = files(folder + "/s_*.bin", draw(1, 9));
      of.from = static_cast<double>(draw(0, 3)) / 8;
      of.to = of.from + static_cast<double>(draw(1, 4)) / 8;
      const auto count = static_cast<double>(all.size());
      const auto first = static_cast<std::int64_t>(of.from * count),
                 last = static_cast<std::int64_t>(of.to * count);
      const auto set = data::openTokens(of);
      if (last - first <= of.tokens) {
        QCOMPARE(set.error().code, Code::kInvalidArgument);
        continue;
      }
      QVERIFY2(set.ok(), set.ok() ? "" : set.error().text().c_str());
      QCOMPARE((*set)->size(), (last - first - 1) / of.tokens);
      for (const std::size_t field : {0, 1}) {
        const auto begin = all.begin() + first + static_cast<std::int64_t>(field);
        QCOMPARE(samplesOf(**set, field), std::vector(begin, begin + (*set)->size() * of.tokens));
      }
      QVERIFY((*set)->problem().ok());
      const auto facts = data::inspectTokens(of);
      QCOMPARE(facts->dimensions, Shape{std::ssize(all)});
      const auto reader = data::readTokenSamples(of);
      QVERIFY(reader.ok() && (*reader)->check({}).ok());
      QCOMPARE((*reader)->size(), (*set)->size());
      QCOMPARE(std::ssize((*reader)->files()), shards);
    }
  }

  void whatNumPyWrites() {
    const std::string script = R"(
import sys, numpy
for kind in ("u1", "<u2", "<u4", "<i4", "<i8"):
    numpy.save(f"{sys.argv[1]}/{kind[-2:]}.npy", (numpy.arange(50) * 5).astype(kind))
numpy.save(f"{sys.argv[1]}/floats.npy", numpy.zeros(50))
numpy.save(f"{sys.argv[1]}/big.npy", numpy.arange(50).astype(">u2"))
numpy.save(f"{sys.argv[1]}/table.npy", numpy.zeros((5, 10), "<u2"))
with open(f"{sys.argv[1]}/v2.npy", "wb") as out:
    numpy.lib.format.write_array(out, (numpy.arange(50) * 5).astype("<u2"), version=(2, 0))
(numpy.arange(50) * 5).astype(numpy.uint16).tofile(f"{sys.argv[1]}/nanogpt.bin")
)";
    QProcess python;
    python.start("/usr/bin/python3", {"-c", script.c_str(), dir_.path()});
    if (!python.waitForFinished(60000) || python.exitCode() != 0) QSKIP("there is no NumPy");
    std::vector<std::int32_t> expected(48);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = static_cast<std::int32_t>(5 * i);
    for (const std::string name :
         {"u1.npy", "u2.npy", "u4.npy", "i4.npy", "i8.npy", "v2.npy", "nanogpt.bin"}) {
      const auto set = data::openTokens(files(path(name)));
      QVERIFY2(set.ok(), name.c_str());
      QCOMPARE(samplesOf(**set, 0), expected);
    }
    QVERIFY(why(files(path("floats.npy"))).find("little-endian integers") != std::string::npos);
    QVERIFY(why(files(path("big.npy"))).find("little-endian integers") != std::string::npos);
    QVERIFY(why(files(path("table.npy"))).find("one dimension") != std::string::npos);
  }

  void widthOfTokens() {
    std::vector<std::int32_t> tokens(64, 70000);
    data::TokenFiles of = files(write("wide.bin", bytesOf<std::uint32_t>(tokens)));
    of.vocabulary = 100000;  // more than 2 bytes hold
    QCOMPARE(samplesOf(**data::openTokens(of), 0), std::vector<std::int32_t>(60, 70000));
    of.vocabulary = 60000;
    of.bytesPerToken = 4;
    const auto set = data::openTokens(of);
    QVERIFY(set.ok());
    QCOMPARE(samplesOf(**set, 0).front(), 0);
    QCOMPARE((*set)->problem().error().code, Code::kDataLoss);
  }

  void wrongTokensAreToldWithTheirPlace() {
    std::vector<std::int32_t> tokens(100, 5);
    tokens[61] = 60000;
    write("p_0.bin", bytesOf<std::uint16_t>(std::vector<std::int32_t>(30, 5)));
    write("p_1.bin", bytesOf<std::uint16_t>(tokens));
    const auto set = data::openTokens(files(path("p_*.bin")));
    QVERIFY(set.ok());
    samplesOf(**set, 0);
    const Status problem = (*set)->problem();
    QVERIFY(!problem.ok());
    QVERIFY2(problem.error().text().find("token 61 of it is 60000") != std::string::npos &&
                 problem.error().text().find("p_1.bin") != std::string::npos,
             problem.error().text().c_str());
    const auto reader = data::readTokenSamples(files(path("p_*.bin")));
    QVERIFY(!(*reader)->check({}).ok());
    std::vector<std::int64_t> wanted{0, 22, 23};
    const auto samples = (*reader)->read(wanted);
    QCOMPARE((*samples)[0].bytes, std::string("5 5 5 5"));
    QVERIFY((*samples)[1].problem.has_value());
    QVERIFY(!(*samples)[2].problem.has_value());
  }

  void wrongFiles() {
    QCOMPARE(data::openTokens(files(path("none.bin"))).error().code, Code::kNotFound);
    QCOMPARE(data::openTokens(files(path("none-*.bin"))).error().code, Code::kNotFound);
    QVERIFY(!data::openTokens(files(dir_.path().toStdString())).ok());
    const std::string odd = write("odd.bin", std::string(21, '\0'));
    QVERIFY(why(files(odd)).find("21 bytes") != std::string::npos);
    const std::vector<std::int32_t> tokens(40, 1);
    const std::string cut = llmC<std::uint16_t>(tokens);
    QVERIFY(why(files(write("cut.bin", cut.substr(0, cut.size() - 2)))).find("40 tokens") !=
            std::string::npos);
    QVERIFY(why(files(write("gz.bin", "\x1f\x8b\x08" + std::string(39, '\0')))).find("gzip") !=
            std::string::npos);
    QVERIFY(
        !data::openTokens(files(write("short.bin", bytesOf<std::uint16_t>({1, 2, 3, 4})))).ok());
    QVERIFY(
        data::openTokens(files(write("enough.bin", bytesOf<std::uint16_t>({1, 2, 3, 4, 5})))).ok());
    QVERIFY(!data::openTokens(files(write("empty.bin", ""))).ok());
    const std::string shrinks = write("shrinks.bin", bytesOf<std::uint16_t>(tokens));
    const auto set = data::openTokens(files(shrinks));
    std::filesystem::resize_file(shrinks, 30);
    samplesOf(**set, 0);
    QVERIFY((*set)->problem().error().text().find("shorter") != std::string::npos);
  }

  // A pattern without a folder means the current folder.
  void foldersOfPatterns() {
    const std::string file = write("here_0.bin", bytesOf<std::uint16_t>({1, 2, 3, 4, 5}));
    const QString before = QDir::currentPath();
    QVERIFY(QDir::setCurrent(dir_.path()));
    const std::string trouble = why(files("here_*.bin"));
    QVERIFY(QDir::setCurrent(before));
    QCOMPARE(trouble, std::string());
    // One that cannot be listed is not taken for one without such files.
    QVERIFY(why(files(file + "/in_*.bin")).find("cannot list " + file) != std::string::npos);
  }

  // The file has holes in place of its 5 · 10⁹ tokens.
  void sizeCostsNothing() {
    const std::string large = write("large.bin", "");
    std::filesystem::resize_file(large, 10'000'000'000);
    QElapsedTimer timer;
    timer.start();
    const auto facts = data::inspectTokens(files(large, 1024));
    const auto set = data::openTokens(files(large, 1024));
    QVERIFY2(timer.elapsed() < 2000, qPrintable(QString::number(timer.elapsed())));
    QCOMPARE(facts->dimensions, Shape{5'000'000'000});
    QCOMPARE((*set)->size(), std::int64_t{4882812});
    std::vector<std::int32_t> one(1024, 7);
    (*set)->read(4882811, 1, reinterpret_cast<std::byte*>(one.data()));
    QCOMPARE(one, std::vector<std::int32_t>(1024, 0));
    QVERIFY((*set)->problem().ok());
  }

  void differentFilesHaveDifferentHashes() {
    std::vector<std::int32_t> tokens(100000, 3);
    const auto hashOf = [&](const std::string& name) {
      return data::inspectTokens(files(write(name, bytesOf<std::uint16_t>(tokens))))->sha256;
    };
    const std::string first = hashOf("a.bin");
    QCOMPARE(hashOf("b.bin"), first);
    tokens.back() = 4;
    QVERIFY(hashOf("c.bin") != first);
    tokens.back() = 3;
    tokens.push_back(3);
    QVERIFY(hashOf("d.bin") != first);
  }
};

QTEST_GUILESS_MAIN(TokensTest)
#include "tokens_test.moc"
