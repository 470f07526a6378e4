// Files that zstd and gzip wrote, read as what they hold, whatever is done to them.
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <cstring>
#include <random>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/data/content.h"
#include "engine/data/dataset.h"
#include "engine/data/samples.h"

namespace lockstep::tests {
namespace {

int pick(std::mt19937& random, int from, int to) {
  return std::uniform_int_distribution<int>(from, to)(random);
}

std::string idx(const std::vector<std::uint32_t>& dimensions, const std::string& elements) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(dimensions.size())};
  for (const std::uint32_t extent : dimensions)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(extent >> shift & 0xff);
  return out + elements;
}

// Of any size round that of a piece, more or less compressible.
std::string randomText(std::mt19937& random) {
  std::string out(static_cast<std::size_t>(pick(random, 1, 3) == 1 ? pick(random, 1, 300)
                                                                   : pick(random, 1, 900'000)),
                  '\0');
  const int letters = pick(random, 1, 255);
  for (char& c : out) c = static_cast<char>(pick(random, 0, letters));
  return out;
}

}  // namespace

class UnpackTest : public QObject {
  Q_OBJECT
  QTemporaryDir folder_;

  std::string write(const char* name, const std::string& bytes) const {
    std::string path = folder_.filePath(name).toStdString();
    if (!writeFileAtomically(path, bytes).ok()) qFatal("cannot write");
    return path;
  }
  static std::string packed(const std::string& bytes, const QStringList& command) {
    QProcess process;
    process.start(command[0], command.mid(1));
    process.write(bytes.data(), std::ssize(bytes));
    process.closeWriteChannel();
    process.waitForFinished(-1);
    if (process.exitCode() != 0) qFatal("%s", process.readAllStandardError().constData());
    return process.readAllStandardOutput().toStdString();
  }
  static std::string packed(const std::string& bytes, std::mt19937& random) {
    const QString level = QString("-%1").arg(pick(random, 1, 9));
    switch (pick(random, 0, 3)) {
      case 0:
        return packed(bytes, {"gzip", level});
      case 1:
        return packed(bytes, {"zstd", "-q", level, "--no-check"});
      case 2:
        return packed(bytes, {"zstd", "-q", level, "--long=27", "--ultra"});
      default:
        return packed(bytes, {"zstd", "-q", level});
    }
  }
  Result<std::string> contentOf(const std::string& path) const {
    auto content = data::readWholeContent(path, true);
    if (!content.ok()) return content.error();
    if (content->sha256 != sha256File(path).value()) return invalidArgument("another hash");
    return content->bytes;
  }

 private Q_SLOTS:
  void anyFileIsUnpacked_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 0; seed < 25; ++seed) QTest::addRow("%d", seed) << seed;
  }
  // In one frame or in several, some of them empty or skipped; read whole, and in pieces.
  void anyFileIsUnpacked() {
    QFETCH(int, seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const std::string text = randomText(random);
    std::string bytes = packed(text, random), all = text;
    const bool zstd = !bytes.starts_with("\x1f\x8b");
    if (seed % 3 == 0) {
      bytes += packed("", {zstd ? "zstd" : "gzip", "-c"}) + bytes;
      all += text;
    }
    if (zstd && seed % 4 == 0) bytes.insert(0, std::string("\x50\x2a\x4d\x18\3\0\0\0abc", 11));
    const std::string path = write("f", bytes);
    const auto content = contentOf(path);
    QVERIFY2(content.ok(), content.ok() ? "" : content.error().text().c_str());
    QVERIFY(*content == all);
    QVERIFY(data::inspectFile(path)->packed);
    std::vector<data::Piece> pieces;
    for (std::int64_t at = 0; at < std::ssize(all); at += pick(random, 1, 200'000))
      pieces.push_back({at, std::min<std::int64_t>(pick(random, 0, 9), std::ssize(all) - at)});
    for (std::size_t i = 1; i < pieces.size(); ++i)
      pieces[i].offset = std::max(pieces[i].offset, pieces[i - 1].offset + pieces[i - 1].size);
    std::erase_if(pieces, [&](const auto& one) { return one.offset + one.size > std::ssize(all); });
    const auto read = data::readPieces(path, pieces);
    QVERIFY2(read.ok(), read.ok() ? "" : read.error().text().c_str());
    for (std::size_t i = 0; i < pieces.size(); ++i)
      QVERIFY((*read)[i] == all.substr(static_cast<std::size_t>(pieces[i].offset),
                                       static_cast<std::size_t>(pieces[i].size)));
  }

  void everyKindOfData() {
    const auto zstd = [&](const char* name, const std::string& bytes) {
      return write(name, packed(bytes, {"zstd", "-q"}));
    };
    std::string pixels, labels;
    for (int i = 0; i < 240; ++i) pixels += static_cast<char>(i);
    for (int i = 0; i < 40; ++i) labels += static_cast<char>(i % 10);
    const data::IdxFiles files{zstd("images", idx({40, 2, 3}, pixels)),
                               zstd("labels", idx({40}, labels)), "", ""};
    const auto images = data::openIdx(files, 10);
    QVERIFY2(images.ok(), images.ok() ? "" : images.error().text().c_str());
    char image[6];
    (*images)->read(39, 0, reinterpret_cast<std::byte*>(image));
    QVERIFY(std::memcmp(image, pixels.data() + 234, 6) == 0);
    const auto shown = data::readIdxSamples(files, {}, 10);
    QVERIFY(shown.ok() && (*shown)->count({}).ok() && (*shown)->check({}).ok());
    QCOMPARE((*shown)->labels().at(3), std::int64_t{4});

    const auto text = data::openText({zstd("text", "the quick brown fox jumps"), 4});
    QVERIFY2(text.ok(), text.ok() ? "" : text.error().text().c_str());
    QCOMPARE((*text)->size(), std::int64_t{6});
    const auto rows = data::openTable({zstd("rows", "1\t0.5\ta\n0\t2\tb\n1\t\tc"), 1, 1, 50, 2});
    QVERIFY2(rows.ok(), rows.ok() ? "" : rows.error().text().c_str());
    QCOMPARE((*rows)->size(), std::int64_t{3});
    const auto tokens = data::openTokens({zstd("t.npy", std::string(400, 'a')), 4, 50'000});
    QVERIFY(tokens.error().why.text().find("compressed by zstd") != std::string::npos);
  }

  // Cut anywhere it is truncated; with any byte changed it is corrupt, or still what it was.
  void damageIsNoticed() {
    std::mt19937 random(3);
    const std::string text = "the quick brown fox jumps over the lazy dog, again and again";
    const std::string whole = packed(text, {"zstd", "-q", "--check"});
    for (std::size_t size = data::kPackedHead; size < whole.size(); ++size) {
      const auto cut = contentOf(write("cut", whole.substr(0, size)));
      QCOMPARE(cut.status().code(), Code::kDataLoss);
      QVERIFY(cut.error().text().find("truncated") != std::string::npos);
      QVERIFY(cut.error().text().find("cut") != std::string::npos);
    }
    for (int trial = 0; trial < 400; ++trial) {
      std::string bytes = whole;
      bytes[static_cast<std::size_t>(pick(random, 4, static_cast<int>(bytes.size()) - 1))] ^=
          static_cast<char>(1 << pick(random, 0, 7));
      const auto read = contentOf(write("bad", bytes));
      QVERIFY(read.ok() ? *read == text
                        : read.error().code == Code::kDataLoss ||
                              read.error().code == Code::kResourceExhausted);
    }
    QCOMPARE(contentOf(write("longer", whole + "x")).status().code(), Code::kDataLoss);
  }

  // Small on disk, gigabytes unpacked; and a frame that asks for more memory than it may have.
  void bombsAreRefused() {
    const std::string zeros = packed(std::string(std::size_t{16} << 20, '\0'), {"zstd", "-q"});
    std::string bytes;
    for (int i = 0; i < 257; ++i) bytes += zeros;
    const Error tooLarge = data::inspectText(write("large", bytes)).error();
    QCOMPARE(tooLarge.code, Code::kResourceExhausted);
    QCOMPARE(tooLarge.why, std::string("it unpacks to more than 4 GiB"));
    const Error header = data::inspectIdx(write("zeros", bytes)).error();
    QVERIFY2(header.why.text().starts_with("it is neither an IDX file"), header.text().c_str());
    // RFC 8878: a window of 256 MiB, a last block of one byte.
    const Error window =
        data::inspectText(write("window", std::string("\x28\xb5\x2f\xfd\0\x90\x09\0\0x", 10)))
            .error();
    QCOMPARE(window.code, Code::kResourceExhausted);
    QVERIFY2(window.why.text().find("128 MiB") != std::string::npos, window.text().c_str());
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::UnpackTest)
#include "unpack_test.moc"
