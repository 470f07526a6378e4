#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include <QElapsedTimer>
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/random.h"
#include "engine/data/click_log.h"
#include "engine/data/dataset.h"
#include "engine/data/decoded.h"

namespace lockstep::tests {
namespace {

using data::IdxFiles;

std::string idx(const std::vector<std::uint32_t>& dimensions, const std::string& elements) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(dimensions.size())};
  for (const std::uint32_t extent : dimensions)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(extent >> shift & 0xff);
  return out + elements;
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Returns every field of every sample.
std::string contentOf(const data::Dataset& of) {
  std::string out;
  for (std::int64_t i = 0; i < of.size(); ++i)
    for (std::size_t f = 0; f < of.fields().size(); ++f) {
      std::string field(static_cast<std::size_t>(of.fields()[f].bytes()), '\0');
      of.read(i, f, reinterpret_cast<std::byte*>(field.data()));
      out += field;
    }
  return out;
}

// 20 images of 2×3 whose pixels identify the image; labels 0 to 9.
constexpr std::uint32_t kSamples = 20;
std::string sampleImages() {
  std::string pixels;
  for (std::uint32_t i = 0; i < kSamples * 6; ++i) pixels += static_cast<char>(i);
  return idx({kSamples, 2, 3}, pixels);
}
std::string sampleLabels() {
  std::string labels;
  for (std::uint32_t i = 0; i < kSamples; ++i) labels += static_cast<char>(i % 10);
  return idx({kSamples}, labels);
}

}  // namespace

class DatasetTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;

  std::string file(const char* name, const std::string& bytes) {
    const std::string path = folder_.filePath(name).toStdString();
    std::filesystem::remove(path);  // some file systems flush overwritten files to disk
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  // Returns the error of opening; inspection must return the same.
  Error errorOf(const std::string& images, const std::string& labels, int classes = 10) {
    const IdxFiles files{file("images", images), file("labels", labels), "", ""};
    auto opened = data::openIdx(files, classes);
    const Error said = opened.ok() ? Error{Code::kOk} : opened.error();
    Error found{Code::kOk};
    auto imageFacts = data::inspectIdx(files.images), labelFacts = data::inspectIdx(files.labels);
    if (!imageFacts.ok()) {
      found = imageFacts.error();
    } else if (!labelFacts.ok()) {
      found = labelFacts.error();
    } else if (Status fits = data::checkIdx(files, *imageFacts, *labelFacts, {}, classes);
               !fits.ok()) {
      found = fits.error();
    }
    if (found.code == said.code && found.text() == said.text()) return said;
    return makeError(Code::kInternal, "opening says \"{}\", inspecting \"{}\"", said.text(),
                     found.text());
  }

 private Q_SLOTS:
  // Images with channels, labels of a byte or of four; from the file, gzip, and decoded.
  void channelsAndManyClasses() {
    std::mt19937 random(11);
    data::DecodedFolder decoded(folder_.filePath("channels").toStdString(), {64 << 20, 0});
    for (int i = 0; i < 20; ++i) {
      const auto extent = [&](std::uint32_t most) {
        return 1 + static_cast<std::uint32_t>(random()) % most;
      };
      const std::uint32_t count = extent(i == 0 ? 200'000 : 50), height = extent(4),
                          width = extent(4), channels = extent(4);
      const bool wide = i % 2 == 0;
      std::string pixels, labels;
      for (std::uint32_t k = 0; k < count * height * width * channels; ++k)
        pixels += static_cast<char>(random());
      std::vector<std::int32_t> expected;
      for (std::uint32_t k = 0; k < count; ++k) {
        expected.push_back(static_cast<std::int32_t>(random() % (wide ? 70'000 : 256)));
        for (int shift = wide ? 24 : 0; shift >= 0; shift -= 8)
          labels += static_cast<char>(expected.back() >> shift & 0xff);
      }
      const auto packed = [&](const std::string& bytes) {
        return i % 3 == 0 ? gzip(bytes) : bytes;
      };
      std::string labelFile = idx({count}, labels);
      if (wide) labelFile[2] = '\x0c';
      IdxFiles files{file("images", packed(idx({count, height, width, channels}, pixels))),
                     file("labels", packed(labelFile)), "", ""};
      const int classes = 1 + *std::max_element(expected.begin(), expected.end());
      const auto images = data::inspectIdx(files.images, &decoded),
                 names = data::inspectIdx(files.labels, &decoded);
      QVERIFY2(images.ok() && names.ok(), "not inspected");
      QCOMPARE(names->highest, classes - 1);
      QCOMPARE(expected[static_cast<std::size_t>(names->highestAt)], classes - 1);
      const Shape shape{height, width, channels};
      QVERIFY(data::checkIdx(files, *images, *names, shape, classes).ok());
      QVERIFY(!data::checkIdx(files, *images, *names, {height, width, channels + 1}, classes).ok());
      if (classes > 1) QVERIFY(!data::openIdx(files, classes - 1).ok());
      for (int pass = 0; pass < 2; ++pass) {
        const auto opened = data::openIdx(files, classes);
        QVERIFY2(opened.ok(), opened.ok() ? "" : opened.error().text().c_str());
        QCOMPARE((*opened)->fields()[0].shape, shape);
        const auto bytes = static_cast<std::size_t>(elementCount(shape));
        for (std::uint32_t k = 0; k < count; k += 1 + count / 100) {
          std::int32_t label = -1;
          std::string image(bytes, '\0');
          (*opened)->read(k, 0, reinterpret_cast<std::byte*>(image.data()));
          (*opened)->read(k, 1, reinterpret_cast<std::byte*>(&label));
          QCOMPARE(label, expected[k]);
          QCOMPARE(image, pixels.substr(k * bytes, bytes));
        }
        files.decodedImages = decoded.find(data::idxDecoding(), images->sha256);
        files.decodedLabels = decoded.find(data::idxDecoding(), names->sha256);
        QVERIFY(!files.decodedImages.empty() && !files.decodedLabels.empty());
      }
    }
    // Numbers of 32 bits are labels alone; negative ones are no labels.
    std::string images = idx({1, 2, 2}, std::string(16, '\0'));
    images[2] = '\x0c';
    QCOMPARE(errorOf(images, idx({1}, "\1")).code, Code::kDataLoss);
    std::string negative = idx({1}, "\xff\xff\xff\xfe");
    negative[2] = '\x0c';
    QCOMPARE(errorOf(idx({1, 1, 1}, "a"), negative, 1000).code, Code::kDataLoss);
  }

  // Every byte is a token, labelled with the next byte; ranges share no byte.
  void textInParts() {
    const std::string path = file("text", "abcdefghij\xff");
    const auto first = data::openText({path, 3, 0, 0.7});
    QVERIFY2(first.ok(), first.ok() ? "" : first.error().text().c_str());
    QCOMPARE((*first)->size(), std::int64_t{2});  // "abcdefg": two samples and the token after each
    std::int32_t x[3], label[3];
    (*first)->read(1, 0, reinterpret_cast<std::byte*>(x));
    (*first)->read(1, 1, reinterpret_cast<std::byte*>(label));
    QCOMPARE(std::string({char(x[0]), char(x[1]), char(x[2])}), std::string("def"));
    QCOMPARE(std::string({char(label[0]), char(label[1]), char(label[2])}), std::string("efg"));
    const auto rest = data::openText({path, 3, 0.7, 1});
    QVERIFY(rest.ok());
    QCOMPARE((*rest)->size(), std::int64_t{1});
    (*rest)->read(0, 1, reinterpret_cast<std::byte*>(label));
    QCOMPARE(label[2], std::int32_t{255});

    const auto facts = data::inspectText(path);
    QVERIFY(facts.ok());
    QCOMPARE(facts->dimensions, (Shape{11}));
    QVERIFY(data::checkText({path, 10, 0, 1}, *facts).ok());
    const Status tooShort = data::checkText({path, 11, 0, 1}, *facts);
    QVERIFY(!tooShort.ok());
    QVERIFY(tooShort.error().what.text().find(path) != std::string::npos);
    QVERIFY(!data::openText({path, 3, 0.9, 1}).ok());
    QVERIFY(data::openText({path + ".none", 3, 0, 1}).error().code == Code::kNotFound);
  }

  // Criteo's lines: a missing value is 0, or a category of its own.
  void tables() {
    const std::string rows = "1\t3\t\tab12\t\n0\t-1\t0.5\tab12\tff\r\n1\t0\t2e1\t\tff";
    data::TableFile table{file("table", rows), 2, 2, 1000, 2};
    const auto opened = data::openTable(table);
    QVERIFY2(opened.ok(), opened.ok() ? "" : opened.error().text().c_str());
    QCOMPARE((*opened)->size(), std::int64_t{3});
    QCOMPARE((*opened)->fields().size(), std::size_t{3});
    const auto x = [&](std::int64_t row) {
      std::array<float, 2> out{};
      (*opened)->read(row, 0, reinterpret_cast<std::byte*>(out.data()));
      return out;
    };
    const auto ids = [&](std::int64_t row) {
      std::array<std::int32_t, 2> out{};
      (*opened)->read(row, 1, reinterpret_cast<std::byte*>(out.data()));
      return out;
    };
    const auto label = [](const data::Dataset& from, std::int64_t row) {
      std::int32_t out = -1;
      from.read(row, 2, reinterpret_cast<std::byte*>(&out));
      return out;
    };
    QCOMPARE(x(0), (std::array<float, 2>{std::log1p(3.0f), 0}));
    QCOMPARE(x(1), (std::array<float, 2>{-std::log1p(1.0f), std::log1p(0.5f)}));
    QCOMPARE(ids(0)[0], ids(1)[0]);
    QCOMPARE(ids(1)[1], ids(2)[1]);
    QVERIFY(ids(0)[0] != ids(2)[0] && ids(0)[1] != ids(1)[1]);
    for (std::int64_t row = 0; row < 3; ++row)
      QVERIFY(ids(row)[0] >= 0 && ids(row)[0] < 1000 && ids(row)[1] >= 1000 && ids(row)[1] < 2000);
    QCOMPARE(label(**opened, 0), 1);
    QCOMPARE(label(**opened, 1), 0);

    table.from = 0.5;  // from the second row on
    const auto rest = data::openTable(table);
    QVERIFY(rest.ok());
    QCOMPARE((*rest)->size(), std::int64_t{2});
    QCOMPARE(label(**rest, 0), 0);
    const auto facts = data::inspectTable(table);
    QVERIFY(facts.ok());
    QCOMPARE(facts->dimensions, (Shape{3, 20}));
    table.from = 0.9;
    table.to = 0.95;
    QVERIFY(!data::checkTable(table, *facts).ok() && !data::openTable(table).ok());

    // Comma-separated, numeric label, no categories.
    const auto prices = data::openTable({file("prices", "2.5,1,2\n-1e3,,4\n"), 2, 0, 0, 0});
    QVERIFY2(prices.ok(), prices.ok() ? "" : prices.error().text().c_str());
    float price = 0;
    (*prices)->read(1, 1, reinterpret_cast<std::byte*>(&price));
    QCOMPARE(price, -1000.0f);
  }

  void wrongTables() {
    const auto why = [&](const std::string& rows) {
      const data::TableFile table{file("table", rows), 2, 2, 1000, 2};
      const auto opened = data::openTable(table);
      const auto facts = data::inspectTable(table);
      const std::string said = opened.ok() ? "" : opened.error().text();
      if (facts.ok() != opened.ok() || (!facts.ok() && facts.error().text() != said))
        return std::string("differs");
      return opened.ok() ? said : opened.error().why.text();
    };
    const std::string good = "1\t3\t\tab\tcd\n";
    QCOMPARE(why(good), std::string());
    QVERIFY(why(good + "1\t3\t4\tab\n").starts_with("line 2: it has 4 columns, expected 5"));
    QVERIFY(why(good + good + "\n" + good).starts_with("line 3: it has 1 columns"));
    QVERIFY(why("1\tx\t4\tab\tcd\n").starts_with("line 1: column 2 is \"x\""));
    QVERIFY(why(good + "1\tnan\t4\tab\tcd\n").starts_with("line 2: column 2 is \"nan\""));
    QVERIFY(why(good + "1\t1\t1e999\tab\tcd\n").starts_with("line 2: column 3"));
    QVERIFY(why("2\t3\t4\tab\tcd\n").starts_with("line 1: the label is \"2\", expected 0 to 1"));
    QVERIFY(why("0.5\t3\t4\tab\tcd\n").starts_with("line 1: the label is"));
    QVERIFY(why("\t3\t4\tab\tcd\n").starts_with("line 1: the label is \"\""));
    QVERIFY(data::openTable({"/nowhere/table", 2, 2, 1000, 2}).error().code == Code::kNotFound);
    QVERIFY(!data::openTable({file("empty", ""), 2, 2, 1000, 2}).ok());
  }

  // A mapped decoding equals what is read from the file.
  void decodedOnce() {
    const std::string folder = folder_.filePath("decoded").toStdString();
    data::DecodedFolder decoded(folder, {4 << 20, 0});
    const auto equal = [](const data::Dataset& a, const data::Dataset& b) {
      if (a.size() != b.size() || a.fields().size() != b.fields().size()) return false;
      for (std::int64_t i = 0; i < a.size(); ++i)
        for (std::size_t f = 0; f < a.fields().size(); ++f) {
          const auto bytes = static_cast<std::size_t>(a.fields()[f].bytes());
          std::vector<std::byte> one(bytes), other(bytes);
          if (b.fields()[f].bytes() != a.fields()[f].bytes() ||
              b.fields()[f].shape != a.fields()[f].shape)
            return false;
          a.read(i, f, one.data());
          b.read(i, f, other.data());
          if (one != other) return false;
        }
      return true;
    };
    IdxFiles idx{file("images.gz", gzip(sampleImages())), file("labels", sampleLabels()), "", ""};
    const auto images = data::inspectIdx(idx.images, &decoded),
               labels = data::inspectIdx(idx.labels, &decoded);
    QVERIFY(images.ok() && labels.ok());
    QCOMPARE(images->dimensions, data::inspectIdx(idx.images)->dimensions);
    const auto read = data::openIdx(idx, 10);
    idx.decodedImages = decoded.find(data::idxDecoding(), images->sha256);
    idx.decodedLabels = decoded.find(data::idxDecoding(), labels->sha256);
    QVERIFY(!idx.decodedImages.empty() && !idx.decodedLabels.empty());
    const auto mapped = data::openIdx(idx, 10);
    QVERIFY(read.ok() && mapped.ok() && equal(**read, **mapped));
    // The source files are needed only for error messages; expectations of them are still checked.
    QCOMPARE(data::openIdx(idx, 9).error().text(),
             data::openIdx({idx.images, idx.labels, "", ""}, 9).error().text());
    const std::string source = idx.images;
    idx.images = "/nowhere/images";
    QVERIFY(data::openIdx(idx, 10).ok());
    idx.imagesSha256 = std::string(64, '0');
    QCOMPARE(data::openIdx(idx, 10).error().code, Code::kNotFound);

    data::TableFile table{file("table", "1\t3\t\tab\t\n0\t-1\t0.5\tab\tff\r\n1\t0\t2e1\t\tff"), 2,
                          2, 1000, 2};
    const auto facts = data::inspectTable(table, &decoded);
    QVERIFY(facts.ok());
    for (const auto& [from, to] : {std::pair{0.0, 1.0}, {0.0, 0.7}, {0.5, 1.0}, {0.9, 0.95}})
      for (const int classes : {2, 0}) {
        data::TableFile part = table;
        part.from = from;
        part.to = to;
        part.classes = classes;
        const auto whole = data::openTable(part);
        part.decoded = decoded.find(data::tableDecoding(part), facts->sha256);
        QCOMPARE(part.decoded.empty(), classes == 0);  // it would be another table
        const auto same = data::openTable(part);
        QCOMPARE(same.ok(), whole.ok());
        if (whole.ok())
          QVERIFY(equal(**whole, **same));
        else
          QCOMPARE(same.error().text(), whole.error().text());
      }
    // An invalid data file caches nothing.
    const auto count = [&] {
      return std::distance(std::filesystem::directory_iterator(folder), {});
    };
    const auto before = count();
    QVERIFY(!data::inspectIdx(file("short", sampleImages().substr(0, 40)), &decoded).ok());
    QVERIFY(!data::inspectTable({file("bad", "1\t3\t\tab\t\nx"), 2, 2, 1000, 2}, &decoded).ok());
    QCOMPARE(count(), before);
  }

  // A truncated, modified or mismatched cache file is not returned; readers fall back to the
  // source.
  void decodedAndSpoilt() {
    const std::string folder = folder_.filePath("spoilt").toStdString();
    const std::string source = file("images", sampleImages()),
                      labels = file("labels", sampleLabels());
    const auto spoil = [&](const std::string& path,
                           const std::function<void(std::string&)>& change) {
      std::string bytes = readFile(path).value();
      change(bytes);
      std::filesystem::remove(path);
      std::ofstream(path, std::ios::binary)
          .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    };
    const std::vector<std::function<void(std::string&)>> changes = {
        [](std::string& bytes) { bytes.pop_back(); },
        [](std::string& bytes) { bytes.resize(100); },
        [](std::string& bytes) { bytes.clear(); },
        [](std::string& bytes) { bytes.erase(0, 1); },
        [](std::string& bytes) { bytes += ' '; },
        [](std::string& bytes) { bytes[bytes.size() - 4096] = 'x'; },  // its page
        [](std::string& bytes) { bytes[bytes.size() - 1] ^= 1; },
    };
    for (const auto& change : changes) {
      data::DecodedFolder decoded(folder, {4 << 20, 0});
      const auto facts = data::inspectIdx(source, &decoded);
      const std::string path = decoded.find(data::idxDecoding(), facts->sha256);
      QVERIFY(!path.empty());
      spoil(path, change);
      QCOMPARE(data::openDecoded(path, data::idxDecoding()).error().code, Code::kDataLoss);
      const auto opened = data::openIdx({source, labels, "", "", path, ""}, 10);
      QVERIFY(opened.ok());
      std::byte pixels[6];
      (*opened)->read(19, 0, pixels);
      QCOMPARE(static_cast<int>(pixels[5]), 119);
      QVERIFY(decoded.find(data::idxDecoding(), facts->sha256).empty());
      QVERIFY(!std::filesystem::exists(path));
    }
    // A modified element is only detected by a full read, which the folder does for touched files
    // and after a restart.
    for (const bool anew : {false, true}) {
      auto decoded =
          std::make_unique<data::DecodedFolder>(folder, data::DecodedFolder::Limits{4 << 20, 0});
      const auto facts = data::inspectIdx(source, decoded.get());
      const std::string path = decoded->find(data::idxDecoding(), facts->sha256);
      spoil(path, [](std::string& bytes) { bytes[3] ^= 4; });
      QVERIFY(data::openDecoded(path, data::idxDecoding()).ok());
      if (anew)
        decoded =
            std::make_unique<data::DecodedFolder>(folder, data::DecodedFolder::Limits{4 << 20, 0});
      QVERIFY(decoded->find(data::idxDecoding(), facts->sha256).empty());
      QVERIFY(!std::filesystem::exists(path));
    }
    // Under another file's name.
    data::DecodedFolder decoded(folder, {4 << 20, 0});
    const auto facts = data::inspectIdx(source, &decoded),
               other = data::inspectIdx(labels, &decoded);
    std::filesystem::rename(decoded.find(data::idxDecoding(), other->sha256),
                            decoded.find(data::idxDecoding(), facts->sha256));
    QVERIFY(decoded.find(data::idxDecoding(), facts->sha256).empty());
    QCOMPARE(data::openDecoded("/nowhere/decoded", data::idxDecoding()).error().code,
             Code::kNotFound);
  }

  // Evicts least recently used files; does not cache what exceeds the limit or the disk.
  void decodedWithinLimits() {
    const std::string folder = folder_.filePath("limits").toStdString();
    constexpr std::int64_t kMost = 2 << 20;
    const auto sized = [&](int number, std::size_t elements) {
      std::string bytes("\0\0\x08\x01", 4);
      for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(elements >> shift);
      return file("sized", bytes + std::string(elements, static_cast<char>(number)));
    };
    data::DecodedFolder decoded(folder, {kMost, 0});
    std::vector<std::string> hashes;
    const auto has = [&](int number) {
      return std::filesystem::exists(
          fmt::format("{}/idx-{}", folder, hashes[static_cast<std::size_t>(number)]));
    };
    for (int number = 0; number < 3; ++number) {
      hashes.push_back(data::inspectIdx(sized(number, 500 << 10), &decoded)->sha256);
      QTest::qWait(20);  // file-system timestamp granularity
    }
    QVERIFY(has(0) && has(1) && has(2));
    const auto held =
        data::openDecoded(fmt::format("{}/idx-{}", folder, hashes[1]), data::idxDecoding());
    QVERIFY(held.ok());
    QTest::qWait(20);
    for (const std::size_t number : {0, 2})
      QVERIFY(!decoded.find(data::idxDecoding(), hashes[number]).empty());
    hashes.push_back(data::inspectIdx(sized(3, 600 << 10), &decoded)->sha256);
    QVERIFY(has(0) && !has(1) && has(2) && has(3));
    QCOMPARE(held->elements(), std::string(500 << 10, '\1'));  // existing mappings stay valid
    QVERIFY(decoded.takes(1 << 20) && !decoded.takes(kMost));
    hashes.push_back(data::inspectIdx(sized(4, kMost), &decoded)->sha256);
    QVERIFY(!has(4) && has(3));
    std::int64_t sum = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      sum += static_cast<std::int64_t>(entry.file_size());
    QVERIFY(sum <= kMost);

    // A disk with less free space than is to be left.
    data::DecodedFolder full(folder_.filePath("full").toStdString(),
                             {kMost, std::int64_t{1} << 60});
    QVERIFY(!full.takes(1));
    const auto facts = data::inspectIdx(sized(5, 100), &full);
    QVERIFY(facts.ok());
    QVERIFY(full.find(data::idxDecoding(), facts->sha256).empty());
    QVERIFY(std::filesystem::is_empty(folder_.filePath("full").toStdString()));
    decoded.makeRoom(std::int64_t{1} << 60);
    QVERIFY(std::filesystem::is_empty(folder));
    // A leftover of a killed process is removed, what another process writes is not.
    std::ofstream(folder + "/.part-1-1") << "x";
    const data::FileFacts written = data::inspectIdx(sized(6, 100)).value();
    const std::string elements(100, 'x');
    data::DecodedFolder::Writer writer(&decoded, data::idxDecoding());
    writer.add(elements);
    const data::DecodedFolder again(folder, {kMost, 0});
    QVERIFY(!std::filesystem::exists(folder + "/.part-1-1"));
    writer.keep(written);
    QVERIFY(!decoded.find(data::idxDecoding(), written.sha256).empty());
  }

  // Concurrent decoding, lookup and removal of the same file.
  void decodedByMany() {
    const std::string folder = folder_.filePath("many").toStdString();
    data::DecodedFolder decoded(folder, {4 << 20, 0});
    const std::string source = file("images.gz", gzip(sampleImages())),
                      labels = file("labels", sampleLabels());
    const std::string sha256 = data::inspectIdx(source)->sha256;
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&, thread] {
        for (int round = 0; round < 50; ++round) {
          if (thread == 3) {
            decoded.makeRoom(std::int64_t{1} << 60);
            continue;
          }
          if (!data::inspectIdx(source, &decoded).ok()) ++wrong;
          const auto opened = data::openIdx(
              {source, labels, "", "", decoded.find(data::idxDecoding(), sha256), ""}, 10);
          std::byte pixels[6]{};
          if (opened.ok()) (*opened)->read(19, 0, pixels);
          if (static_cast<int>(pixels[5]) != 119) ++wrong;
        }
      });
    for (std::thread& thread : threads) thread.join();
    QCOMPARE(wrong.load(), 0);
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      QVERIFY(!entry.path().filename().string().starts_with("."));
  }

  void mutatedTables() {
    std::string rows;
    for (int i = 0; i < 6; ++i)
      rows += fmt::format("{}\t{}\t\t{:x}\tcd{}\n", i % 2, i * 3, i * 77, i);
    for (std::uint64_t round = 0; round < 3000; ++round) {
      std::string mutant = rows;
      const std::uint64_t key = randomKey(13, round);
      for (std::uint64_t i = 0; i <= randomBits(key, 99) % 5; ++i) {
        const std::uint64_t bits = randomBits(key, i);
        if (bits % 7 == 0)
          mutant.resize(bits / 7 % (rows.size() + 8));
        else if (!mutant.empty())
          mutant[bits / 7 % mutant.size()] = static_cast<char>(bits >> 40);
      }
      const data::TableFile table{file("mutant", mutant), 2, 2, 50, 2};
      const auto opened = data::openTable(table);
      const auto facts = data::inspectTable(table);
      if (mutant.empty()) continue;
      QCOMPARE(facts.ok(), opened.ok());
      if (!opened.ok()) {
        QVERIFY(opened.error().why.text().starts_with("line "));
        continue;
      }
      QCOMPARE((*opened)->size(), facts->dimensions[0]);
      for (std::int64_t row = 0; row < (*opened)->size(); ++row) {
        float x[2];
        std::int32_t ids[2], label = -1;
        (*opened)->read(row, 0, reinterpret_cast<std::byte*>(x));
        (*opened)->read(row, 1, reinterpret_cast<std::byte*>(ids));
        (*opened)->read(row, 2, reinterpret_cast<std::byte*>(&label));
        QVERIFY(std::isfinite(x[0]) && std::isfinite(x[1]) && (label == 0 || label == 1));
        QVERIFY(ids[0] >= 0 && ids[0] < 50 && ids[1] >= 50 && ids[1] < 100);
      }
    }
  }

  // A function of the seed; the ceiling uses the probabilities from which labels were drawn.
  void clickLogs() {
    const std::string path = folder_.filePath("clicks").toStdString();
    const auto made = data::writeClickLog({20'000, 3}, path);
    QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
    QVERIFY2(made->ceiling > 0.7 && made->ceiling < 0.95, std::to_string(made->ceiling).c_str());
    QVERIFY(std::abs(made->tailCeiling - made->ceiling) < 0.05);
    QVERIFY(made->ones > 0.1 && made->ones < 0.5);
    const auto opened = data::openTable({path, 13, 26, 100'000, 2});
    QVERIFY2(opened.ok(), opened.ok() ? "" : opened.error().text().c_str());
    QCOMPARE((*opened)->size(), std::int64_t{20'000});
    const auto again = data::writeClickLog({20'000, 3}, path),
               other = data::writeClickLog({20'000, 4}, path);
    QCOMPARE(again->sha256, made->sha256);
    QVERIFY(other->sha256 != made->sha256);
  }

  void plainAndPacked() {
    for (const bool packed : {false, true}) {
      const auto pack = [&](const std::string& text) { return packed ? gzip(text) : text; };
      // File names are misleading: the magic number counts.
      IdxFiles files{file(packed ? "images" : "images.gz", pack(sampleImages())),
                     file("labels", pack(sampleLabels())), "", ""};
      files.imagesSha256 = sha256File(files.images).value();
      auto opened = data::openIdx(files, 10);
      QVERIFY(opened.ok());
      QCOMPARE((*opened)->size(), 20);
      QCOMPARE((*opened)->fields()[0].shape, (Shape{2, 3, 1}));
      std::byte pixels[6];
      (*opened)->read(19, 0, pixels);
      QCOMPARE(static_cast<int>(pixels[5]), 119);
      std::int32_t label = -1;
      (*opened)->read(13, 1, reinterpret_cast<std::byte*>(&label));
      QCOMPARE(label, 3);
    }
    const std::string twice = gzip(sampleImages().substr(0, 50)) + gzip(sampleImages().substr(50));
    QCOMPARE(errorOf(twice, sampleLabels()).code, Code::kOk);
  }

  void everyKindPlainAndPacked() {
    const std::string text = "the quick brown fox jumps over the lazy dog";
    const std::string rows = "1\t0.5\ta\n0\t2\tb\n1\t\tc";
    for (const bool cut : {false, true}) {
      const auto pack = [&](const std::string& whole) {
        return cut ? gzip(whole.substr(0, 9)) + gzip(whole.substr(9)) : gzip(whole);
      };
      const std::string plainText = file("text", text), packedText = file("text.gz", pack(text));
      QCOMPARE(data::inspectText(packedText)->dimensions, data::inspectText(plainText)->dimensions);
      QCOMPARE(data::inspectText(packedText)->sha256, sha256File(packedText).value());
      QCOMPARE(contentOf(**data::openText({packedText, 4, 0.1, 0.9})),
               contentOf(**data::openText({plainText, 4, 0.1, 0.9})));
      const std::string plainRows = file("rows", rows), packedRows = file("rows.gz", pack(rows));
      QCOMPARE(data::inspectTable({packedRows, 1, 1, 50})->dimensions,
               data::inspectTable({plainRows, 1, 1, 50})->dimensions);
      QCOMPARE(data::inspectTable({packedRows, 1, 1, 50})->sha256, sha256File(packedRows).value());
      QCOMPARE(contentOf(**data::openTable({packedRows, 1, 1, 50})),
               contentOf(**data::openTable({plainRows, 1, 1, 50})));
      const std::string broken = file("broken.gz", pack(text).substr(0, pack(text).size() - 3));
      QCOMPARE(data::openText({broken, 4}).error().code, Code::kDataLoss);
      QCOMPARE(data::openTable({broken, 1, 1, 50}).error().code, Code::kDataLoss);
    }
  }

  // Reported at once for any kind of data: a FIFO would block for ever.
  void filesThatAreNone() {
    const std::string fifo = folder_.filePath("fifo").toStdString();
    QCOMPARE(mkfifo(fifo.c_str(), 0600), 0);
    const std::map<std::string, std::string> none{
        {fifo, "FIFO"}, {folder_.path().toStdString(), "folder"}, {"/dev/zero", "device"}};
    const std::string labels = file("labels", sampleLabels());
    for (const auto& [path, kind] : none)
      for (const Error& error :
           {data::openIdx({path, labels, "", ""}, 10).error(), data::inspectIdx(path).error(),
            data::openText({path, 4}).error(), data::inspectText(path).error(),
            data::openTable({path, 1, 1, 50}).error(),
            data::inspectTable({path, 1, 1, 50}).error()}) {
        QCOMPARE(error.code, Code::kFailedPrecondition);
        QVERIFY2(error.what.text().find(path) != std::string::npos, error.text().c_str());
        QVERIFY2(error.why.text().find(kind) != std::string::npos, error.text().c_str());
      }
  }

  // What is said to do next is of the reason: a file that is there need not be put there.
  void filesThatCannotBeOpened() {
    const std::string there = file("there", "some words");
    QCOMPARE(data::inspectText(there + "-not").error().next,
             std::string("correct the path, or put the file there"));
    rlimit before{};
    QCOMPARE(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const auto restore = qScopeGuard([&] { ::setrlimit(RLIMIT_NOFILE, &before); });
    const rlimit none{0, before.rlim_max};
    QCOMPARE(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const auto facts = data::inspectText(there);
    QVERIFY(!facts.ok());
    QCOMPARE(facts.error().next, std::string("raise the limit of open files (ulimit -n)"));
  }

  // Small on disk, gigabytes decompressed: reads no more than needed to reject the file.
  void largePackedFiles() {
    const auto zeros = [&](const char* name, int mebibytes, const std::string& first = "") {
      const std::string member = gzip(std::string(std::size_t{1} << 20, '\0'));
      std::string packed = first.empty() ? "" : gzip(first);
      for (int i = 0; i < mebibytes; ++i) packed += member;
      return file(name, packed);
    };
    const std::string labels = file("labels", sampleLabels());
    const std::string twoGigabytes = zeros("zeros.gz", 2048),
                      more = zeros("more.gz", 2048, sampleImages());
    QElapsedTimer clock;
    clock.start();
    const Error noHeader = data::inspectIdx(twoGigabytes).error();
    QVERIFY2(noHeader.why.text().starts_with("it is neither an IDX file"), noHeader.text().c_str());
    QCOMPARE(data::openIdx({twoGigabytes, labels, "", ""}, 10).error().text(), noHeader.text());
    const Error follows = data::inspectIdx(more).error();
    QVERIFY2(
        follows.why.text().find("declares 120 bytes of elements, more follow") != std::string::npos,
        follows.text().c_str());
    QCOMPARE(data::openIdx({more, labels, "", ""}, 10).error().text(), follows.text());
    const qint64 spent = clock.elapsed();
    clock.start();
    const Error tooLarge = data::inspectText(zeros("large.gz", 4097)).error();
    QCOMPARE(tooLarge.code, Code::kResourceExhausted);
    QCOMPARE(tooLarge.why, std::string("it unpacks to more than 4 GiB"));
    QVERIFY2(spent < clock.elapsed(), std::to_string(spent).c_str());  // it did not read all of it
  }

  // Accepts exactly what training accepts.
  void samplesThatFitTheModel() {
    data::FileFacts images, labels;
    images.dimensions = {kSamples, 2, 3};
    labels.dimensions = {kSamples};
    const auto code = [&](const Shape& sample) {
      return data::checkIdx({}, images, labels, sample, 10).code();
    };
    QCOMPARE(code({}), Code::kOk);
    QCOMPARE(code({2, 3, 1}), Code::kOk);
    QCOMPARE(code({6}), Code::kOk);
    QCOMPARE(code({2, 3}), Code::kOk);
    QCOMPARE(code({3, 2, 1}), Code::kInvalidArgument);
    QCOMPARE(code({7}), Code::kInvalidArgument);
  }

  void fashionMnist() {
    const std::string root = "/usr/share/datasets/fashion-mnist/";
    if (!std::filesystem::exists(root)) QSKIP("Debian's dataset-fashion-mnist is not installed");
    auto train = data::openIdx(
        {root + "train-images-idx3-ubyte.gz", root + "train-labels-idx1-ubyte.gz", "", ""}, 10);
    QVERIFY2(train.ok(), train.ok() ? "" : train.error().text().c_str());
    QCOMPARE((*train)->size(), 60'000);
    QCOMPARE((*train)->fields()[0].shape, (Shape{28, 28, 1}));
    std::vector<int> counts(10);
    for (std::int64_t i = 0; i < 60'000; ++i) {
      std::int32_t label = 0;
      (*train)->read(i, 1, reinterpret_cast<std::byte*>(&label));
      ++counts[label];
    }
    QCOMPARE(counts, std::vector<int>(10, 6000));
    auto test = data::openIdx(
        {root + "t10k-images-idx3-ubyte.gz", root + "t10k-labels-idx1-ubyte.gz", "", ""}, 10);
    QVERIFY(test.ok());
    QCOMPARE((*test)->size(), 10'000);
    QCOMPARE(
        data::openIdx(
            {root + "train-images-idx3-ubyte.gz", root + "t10k-labels-idx1-ubyte.gz", "", ""}, 10)
            .error()
            .code,
        Code::kDataLoss);
  }

  void badFiles() {
    auto absent = data::openIdx({"/nowhere/images", "/nowhere/labels", "", ""}, 10);
    QCOMPARE(absent.error().code, Code::kNotFound);
    QVERIFY(absent.error().text().find("/nowhere/images") != std::string::npos);

    const auto images = sampleImages(), labels = sampleLabels();
    auto wrong =
        data::openIdx({file("i", images), file("l", labels), std::string(64, '0'), ""}, 10);
    QCOMPARE(wrong.error().code, Code::kFailedPrecondition);
    QVERIFY(wrong.error().why.text().find(sha256Hex(images)) != std::string::npos);
    QVERIFY(wrong.error().why.text().find(std::string(64, '0')) != std::string::npos);

    for (std::size_t length = 0; length < images.size(); ++length)
      QCOMPARE(errorOf(images.substr(0, length), labels).code, Code::kDataLoss);
    const std::string packed = gzip(images);
    for (std::size_t length = 2; length < packed.size(); ++length)
      QCOMPARE(errorOf(packed.substr(0, length), labels).code, Code::kDataLoss);
    QCOMPARE(errorOf(images + "x", labels).code, Code::kDataLoss);
    QCOMPARE(errorOf(packed + "junk", labels).code, Code::kDataLoss);
    QCOMPARE(errorOf(labels, images).code, Code::kDataLoss);
    QCOMPARE(errorOf(images, idx({19}, std::string(19, '\0'))).code, Code::kDataLoss);
    QCOMPARE(errorOf(idx({0, 2, 3}, ""), idx({0}, "")).code, Code::kDataLoss);
    QCOMPARE(errorOf(idx({~0u, ~0u, ~0u}, "abc"), labels).code, Code::kDataLoss);

    const Error label = errorOf(images, labels, 9);
    QCOMPARE(label.code, Code::kDataLoss);
    QVERIFY(label.why.text().starts_with("record 9 has label 9"));
    QVERIFY(label.what.text().find("labels") != std::string::npos);

    // gzip's own checks detect a flipped bit, except in the padding after the last block.
    for (std::size_t i = 10; i < packed.size(); ++i) {
      std::string flipped = packed;
      flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
      if (i != packed.size() - 9) QCOMPARE(errorOf(flipped, labels).code, Code::kDataLoss);
    }
  }

  void mutatedHeaders() {
    // Never crashes, and never yields a data set of another shape than its bytes.
    const auto images = sampleImages();
    const std::string labels = file("labels", sampleLabels());
    for (std::uint64_t round = 0; round < 3000; ++round) {
      std::string mutant = images;
      const std::uint64_t key = randomKey(11, round);
      for (std::uint64_t i = 0; i <= randomBits(key, 99) % 4; ++i) {
        const std::uint64_t bits = randomBits(key, i);
        if (bits % 5 == 0)
          mutant.resize(bits / 7 % (images.size() + 8));
        else if (!mutant.empty())
          mutant[bits / 7 % std::min<std::size_t>(mutant.size(), 20)] =
              static_cast<char>(bits >> 40);
      }
      auto opened = data::openIdx({file("mutant", mutant), labels, "", ""}, 10);
      if (!opened.ok()) continue;
      std::vector<std::byte> pixels(static_cast<std::size_t>((*opened)->fields()[0].bytes()));
      for (std::int64_t i = 0; i < (*opened)->size(); ++i) (*opened)->read(i, 0, pixels.data());
      QCOMPARE((*opened)->size() * (*opened)->fields()[0].bytes() + 16,
               static_cast<std::int64_t>(mutant.size()));
    }
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::DatasetTest)
#include "dataset_test.moc"
