// Checksums of blocks in safetensors files: a read sees the damage of the blocks that it touches,
// and of no other. Files of earlier versions have one for each tensor.
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <cstring>
#include <random>

#include "engine/base/crc32c.h"
#include "engine/base/file.h"
#include "engine/weights/safetensors.h"

using namespace lockstep;
using weights::TensorReader;

namespace {

constexpr std::size_t kBlock = 1 << 20;

using Bytes = std::vector<std::byte>;

Bytes randomBytes(std::mt19937& random, std::size_t size) {
  Bytes out(size);
  for (std::byte& one : out) one = static_cast<std::byte>(random());
  return out;
}

std::string textOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A file with one tensor "a", and checksums of blocks as the metadata says that it has them.
std::string fileOf(const Bytes& tensor, const std::string& kind, std::size_t block) {
  std::vector<std::uint32_t> sums{0};
  for (std::size_t at = 0; at < tensor.size(); at += block)
    sums.push_back(crc32c(std::span(tensor).subspan(at, std::min(block, tensor.size() - at))));
  const std::size_t end = tensor.size(), count = sums.size() + 1;
  const std::string header = fmt::format(
      "{{\"__metadata__\":{{\"checksums\":\"{}\"}},"
      "\"a\":{{\"dtype\":\"U8\",\"shape\":[{}],\"data_offsets\":[0,{}]}},"
      "\"checksums.crc32c\":{{\"dtype\":\"U32\",\"shape\":[{}],\"data_offsets\":[{},{}]}}}}",
      kind, end, end, count, end, end + 4 * count);
  const std::uint64_t length = header.size();
  std::string head(sizeof length, '\0');
  std::memcpy(head.data(), &length, sizeof length);
  head += header;
  sums.front() = crc32c(std::as_bytes(std::span(head)));
  sums.push_back(crc32c(std::as_bytes(std::span(sums))));
  return head + textOf(tensor) + textOf(std::as_bytes(std::span(sums)));
}

}  // namespace

class ChecksumsTest : public QObject {
  Q_OBJECT

  QTemporaryDir dir_;
  std::string path_ = dir_.filePath("t.safetensors").toStdString();

  // Tensors that end within a block, with one, and beside one.
  struct Content {
    explicit Content(unsigned seed) : random(seed) {
      const std::size_t sizes[] = {0, 1, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock};
      for (int i = 0; i < 4; ++i) {
        const std::size_t size = random() % 2 == 0 ? sizes[random() % 6] : random() % (3 * kBlock);
        tensors.push_back({fmt::format("t{}", i), DType::kU8, {static_cast<std::int64_t>(size)}});
        bytes.push_back(randomBytes(random, size));
      }
      tensors.push_back({"last", DType::kU8, {static_cast<std::int64_t>(2 * kBlock + 77)}});
      bytes.push_back(randomBytes(random, 2 * kBlock + 77));
    }
    Status write(const std::string& path) const {
      return weights::writeTensors(
          path, tensors, {{"step", "3"}},
          [&](std::size_t i) -> Result<std::span<const std::byte>> {
            return std::span<const std::byte>(bytes[i]);
          },
          weights::Checksums::kCrc32c);
    }

    std::mt19937 random;
    std::vector<TensorInfo> tensors;
    std::vector<Bytes> bytes;
  };

  // Reads [begin, end) of a tensor; "": the bytes are right, "?": they are not.
  static std::string readRange(const TensorReader& reader, const Content& content,
                               std::size_t tensor, std::size_t begin, std::size_t end) {
    Bytes out(end - begin);
    const Status status = reader.readRange(content.tensors[tensor].name, begin, out);
    if (!status.ok())
      return status.code() == Code::kDataLoss ? status.error().text() : "not a data loss";
    const auto from = content.bytes[tensor].begin() + static_cast<std::ptrdiff_t>(begin);
    return std::equal(out.begin(), out.end(), from) ? "" : "?";
  }

 private Q_SLOTS:
  void readsSeeWhatTheyTouch() {
    for (unsigned seed = 1; seed <= 12; ++seed) {
      Content content(seed);
      std::mt19937& random = content.random;
      QVERIFY(content.write(path_).ok());
      std::size_t hit = random() % content.bytes.size();
      if (content.bytes[hit].empty()) hit = content.bytes.size() - 1;
      const std::size_t at = random() % content.bytes[hit].size(), block = at / kBlock;
      const std::string name = content.tensors[hit].name;
      std::string file = *readFile(path_);
      {
        const auto whole = TensorReader::open(path_);
        QVERIFY(whole.ok() && whole->hasChecksums() && whole->verifiesRanges());
        char& byte = file[whole->dataOffset() + whole->entries().at(name).offset + at];
        byte = static_cast<char>(byte ^ 1 << random() % 8);
      }
      QVERIFY(writeFileAtomically(path_, file).ok());
      const auto reader = TensorReader::open(path_);
      QVERIFY(reader.ok());
      const std::string words = fmt::format(
          "the checksum of tensor {} does not match{}", name,
          content.bytes[hit].size() > kBlock ? fmt::format(" in block {},", block) : "");
      for (std::size_t tensor = 0; tensor < content.bytes.size(); ++tensor)
        for (int i = 0; i < 40; ++i) {
          const std::size_t size = content.bytes[tensor].size();
          std::size_t begin = random() % (size + 1), end = random() % (size + 1);
          if (begin > end) std::swap(begin, end);
          if (i == 0) begin = 0, end = size;
          if (i % 4 == 1) end = std::min(size, begin + random() % 100);
          const bool touches = tensor == hit && begin < end && begin / kBlock <= block &&
                               (end - 1) / kBlock >= block;
          const std::string found = readRange(*reader, content, tensor, begin, end);
          const std::string where =
              fmt::format("seed {}, {} {} to {}: {}", seed, tensor, begin, end, found);
          QVERIFY2(touches ? found.find(words) != std::string::npos &&
                                 found.find(path_) != std::string::npos
                           : found.empty(),
                   where.c_str());
        }
      Bytes all(content.bytes[hit].size());
      QCOMPARE(reader->read(name, all).code(), Code::kDataLoss);
      QVERIFY(!weights::readTensors(path_).ok());
    }
  }

  void wholeFilesAreRead() {
    const Content content(99);
    QVERIFY(content.write(path_).ok());
    const auto file = weights::readTensors(path_);
    QVERIFY2(file.ok(), file.ok() ? "" : file.error().text().c_str());
    QVERIFY(file->verified);
    for (std::size_t i = 0; i < content.bytes.size(); ++i) {
      const auto found = file->bytes(file->entries.at(content.tensors[i].name));
      QVERIFY(
          std::equal(found.begin(), found.end(), content.bytes[i].begin(), content.bytes[i].end()));
    }
  }

  void filesOfEarlierVersionsAreRead() {
    std::mt19937 random(5);
    const Bytes tensor = randomBytes(random, 2 * kBlock + 5);
    std::string file = fileOf(tensor, "crc32c", tensor.size());
    QVERIFY(writeFileAtomically(path_, file).ok());
    const auto reader = TensorReader::open(path_);
    QVERIFY2(reader.ok(), reader.ok() ? "" : reader.error().text().c_str());
    QVERIFY(reader->hasChecksums() && !reader->verifiesRanges());
    Bytes out(tensor.size()), part(1000);
    QVERIFY(reader->read("a", out).ok());
    QVERIFY(out == tensor);
    QVERIFY(reader->readRange("a", kBlock - 500, part).ok());
    QVERIFY(std::equal(part.begin(), part.end(), tensor.begin() + kBlock - 500));
    char& byte = file[reader->dataOffset() + random() % tensor.size()];
    byte = static_cast<char>(byte ^ 4);
    QVERIFY(writeFileAtomically(path_, file).ok());
    const auto damaged = TensorReader::open(path_);
    QVERIFY(damaged.ok());
    const Status read = damaged->read("a", out);
    QCOMPARE(read.code(), Code::kDataLoss);
    QCOMPARE(read.error().why.text(), std::string("the checksum of tensor a does not match"));
  }

  // Blocks of another size than ours, and headers that nobody would write.
  void blocksAreAsTheHeaderSays_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<qulonglong>("block");
    QTest::addColumn<bool>("isRead");
    QTest::newRow("4 KiB") << "crc32c/4096" << 4096ull << true;
    QTest::newRow("of no power of two") << "crc32c/10007" << 10007ull << true;
    QTest::newRow("larger than the tensor") << "crc32c/67108864" << 67108864ull << true;
    QTest::newRow("too small") << "crc32c/4095" << 4095ull << false;
    QTest::newRow("too large") << "crc32c/67108865" << 67108865ull << false;
    QTest::newRow("nothing") << "crc32c/" << 50000ull << false;
    QTest::newRow("zero") << "crc32c/0" << 50000ull << false;
    QTest::newRow("negative") << "crc32c/-4096" << 4096ull << false;
    QTest::newRow("more than a number") << "crc32c/4096x" << 4096ull << false;
    QTest::newRow("overflow") << "crc32c/99999999999999999999999" << 50000ull << false;
    QTest::newRow("fewer checksums") << "crc32c/4096" << 8192ull << false;
    QTest::newRow("more checksums") << "crc32c/8192" << 4096ull << false;
    QTest::newRow("blocks of a whole") << "crc32c" << 4096ull << false;
    QTest::newRow("another hash") << "sha256" << 50000ull << false;
  }
  void blocksAreAsTheHeaderSays() {
    QFETCH(QString, kind);
    QFETCH(qulonglong, block);
    QFETCH(bool, isRead);
    std::mt19937 random(7);
    const Bytes tensor = randomBytes(random, 50'000);
    const std::string file = fileOf(tensor, kind.toStdString(), block);
    QVERIFY(writeFileAtomically(path_, file).ok());
    const auto reader = TensorReader::open(path_);
    QCOMPARE(reader.ok(), isRead);
    if (!isRead) {
      QCOMPARE(reader.error().code, Code::kDataLoss);
      return;
    }
    Bytes out(tensor.size()), part(20'000);
    QVERIFY(reader->read("a", out).ok());
    QVERIFY(out == tensor);
    QVERIFY(reader->readRange("a", 17'001, part).ok());
    QVERIFY(std::equal(part.begin(), part.end(), tensor.begin() + 17'001));
  }
};

QTEST_GUILESS_MAIN(ChecksumsTest)
#include "checksums_test.moc"
