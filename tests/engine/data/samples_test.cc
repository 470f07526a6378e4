// Single samples of data files, held against the data sets that a run reads.
#include "engine/data/samples.h"

#include <zlib.h>

#include <QElapsedTimer>
#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "engine/base/file.h"
#include "engine/base/hash.h"

namespace lockstep::tests {
namespace {

using data::SampleReader;

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

std::string randomBytes(std::mt19937& random, std::size_t size, int below = 256) {
  std::uniform_int_distribution<int> byte(0, below - 1);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(byte(random));
  return out;
}

int pick(std::mt19937& random, int from, int to) {
  return std::uniform_int_distribution<int>(from, to)(random);
}

// Ascending, some of them beyond the end.
std::vector<std::int64_t> someIndices(std::mt19937& random, std::int64_t size) {
  std::set<std::int64_t> out{0, size - 1, size, size + 5};
  for (int i = 0; i < 5; ++i) out.insert(pick(random, 0, static_cast<int>(size) + 2));
  return {out.begin(), out.end()};
}

std::string fieldOf(const data::Dataset& of, std::int64_t index, std::size_t field) {
  std::string out(static_cast<std::size_t>(of.fields()[field].bytes()), '\0');
  of.read(index, field, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

std::string textOf(const Error& error) { return error.text(); }

}  // namespace

class SamplesTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;
  std::string path(const std::string& name) const {
    return folder_.filePath(QString::fromStdString(name)).toStdString();
  }
  std::string write(const std::string& name, const std::string& bytes) const {
    if (!writeFileAtomically(path(name), bytes, 0644).ok()) qFatal("cannot write");
    return path(name);
  }
  // What the first read of a reader, and its count and check, say.
  static std::string troubleOf(const Result<std::unique_ptr<SampleReader>>& opened) {
    if (!opened.ok()) return textOf(opened.error());
    SampleReader& reader = **opened;
    const std::int64_t first[] = {0};
    if (const auto read = reader.read(first); !read.ok()) return textOf(read.error());
    if (const Status counted = reader.count({}); !counted.ok()) return textOf(counted.error());
    const Status checked = reader.check({});
    return checked.ok() ? "" : textOf(checked.error());
  }

 private Q_SLOTS:
  void seeds_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 1; seed <= 12; ++seed) QTest::addRow("seed %d", seed) << seed;
  }

  void imagesAreThoseOfTheRun_data() { seeds_data(); }
  void imagesAreThoseOfTheRun() {
    QFETCH(int, seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto count = static_cast<std::uint32_t>(pick(random, 1, 3000));
    const auto height = static_cast<std::uint32_t>(pick(random, 1, 40)),
               width = static_cast<std::uint32_t>(pick(random, 1, 40));
    const int classes = pick(random, 1, 256);
    const std::string labels = randomBytes(random, count, classes);
    const bool packed = seed % 2 == 0, wide = seed % 3 == 0;
    std::vector<std::uint32_t> dimensions{count, height, width};
    if (seed % 4 > 1) dimensions.push_back(static_cast<std::uint32_t>(pick(random, 1, 4)));
    const std::int64_t channels = dimensions.size() > 3 ? dimensions[3] : 1;
    std::string labelFile = idx({count}, labels);
    if (wide) {  // numbers of 32 bits
      labelFile = idx({count}, {});
      labelFile[2] = '\x0c';
      for (const char label : labels) labelFile += std::string(3, '\0') + label;
    }
    const auto stored = [&](const std::string& bytes) { return packed ? gzip(bytes) : bytes; };
    const std::string images =
        idx(dimensions, randomBytes(random, std::size_t{count} * height * width *
                                                static_cast<std::size_t>(channels)));
    data::IdxFiles files{write("images", stored(images)), write("labels", stored(labelFile))};
    files.imagesSha256 = sha256Hex(stored(images));
    auto opened = data::readIdxSamples(files, {height, width, channels}, classes);
    QVERIFY2(opened.ok(), opened.ok() ? "" : textOf(opened.error()).c_str());
    SampleReader& reader = **opened;
    QCOMPARE(reader.size(), std::int64_t{count});
    QCOMPARE(reader.shape(), Shape(dimensions.begin() + 1, dimensions.end()));
    const auto set = data::openIdx(files, classes);
    QVERIFY(set.ok());
    const auto indices = someIndices(random, count);
    const auto samples = reader.read(indices);
    QVERIFY2(samples.ok(), samples.ok() ? "" : textOf(samples.error()).c_str());
    QCOMPARE(std::ssize(*samples),
             std::count_if(indices.begin(), indices.end(), [&](auto i) { return i < count; }));
    for (const data::StoredSample& sample : *samples) {
      QCOMPARE(sample.bytes, fieldOf(**set, sample.index, 0));
      QCOMPARE(sample.label, std::to_string(static_cast<unsigned char>(
                                 labels[static_cast<std::size_t>(sample.index)])));
      QVERIFY(!sample.problem);
    }
    QVERIFY(reader.labels().empty());
    QVERIFY(reader.count({}).ok());
    std::map<int, std::int64_t> expected;
    for (const char c : labels) ++expected[static_cast<unsigned char>(c)];
    QVERIFY(reader.labels() == expected);
    QVERIFY(reader.check({}).ok());
  }

  void textsAreThoseOfTheRun_data() { seeds_data(); }
  void textsAreThoseOfTheRun() {
    QFETCH(int, seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const std::string text =
        randomBytes(random, static_cast<std::size_t>(pick(random, 3000, 400'000)));
    const bool packed = seed % 2 == 0;
    data::TextFile file{write("text", packed ? gzip(text) : text), pick(random, 1, 300), 0, 1};
    file.from = seed % 3 == 0 ? 0.3 : 0;
    file.to = seed % 4 == 0 ? 0.8 : 1;
    auto opened = data::readTextSamples(file, sha256Hex(packed ? gzip(text) : text));
    QVERIFY2(opened.ok(), opened.ok() ? "" : textOf(opened.error()).c_str());
    SampleReader& reader = **opened;
    QCOMPARE(reader.size() < 0, packed);
    QVERIFY(reader.count({}).ok());
    const auto set = data::openText(file);
    QVERIFY(set.ok());
    QCOMPARE(reader.size(), (*set)->size());
    const auto samples = reader.read(someIndices(random, reader.size()));
    QVERIFY(samples.ok() && !samples->empty());
    for (const data::StoredSample& sample : *samples) {
      const std::string ids = fieldOf(**set, sample.index, 0);
      QCOMPARE(std::ssize(sample.bytes), file.tokens);
      for (std::size_t t = 0; t < sample.bytes.size(); ++t)
        QCOMPARE(static_cast<int>(static_cast<unsigned char>(sample.bytes[t])),
                 static_cast<int>(reinterpret_cast<const std::int32_t*>(ids.data())[t]));
    }
    QVERIFY(reader.check({}).ok());
  }

  void rowsAreThoseOfTheRun_data() { seeds_data(); }
  void rowsAreThoseOfTheRun() {
    QFETCH(int, seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const int rows = pick(random, 1, seed % 5 == 0 ? 60'000 : 900);
    data::TableFile file;
    file.numbers = pick(random, 1, 4);
    file.columns = pick(random, 0, 3);
    file.categories = file.columns > 0 ? 50 : 0;
    file.classes = pick(random, 2, 5);
    file.from = rows > 10 && seed % 3 == 0 ? 0.25 : 0;
    file.to = rows > 10 && seed % 4 == 1 ? 0.75 : 1;
    const std::string separator = seed % 2 == 0 ? "\t" : ",";
    const std::string end = seed % 3 == 1 ? "\r\n" : "\n";
    std::string text;
    std::vector<std::vector<std::string>> cells;
    for (int row = 0; row < rows; ++row) {
      std::vector<std::string> line{std::to_string(pick(random, 0, file.classes - 1))};
      for (int i = 0; i < file.numbers; ++i)
        line.push_back(pick(random, 0, 5) == 0 ? "" : std::to_string(pick(random, -50, 5000)));
      for (int i = 0; i < file.columns; ++i)
        line.push_back(pick(random, 0, 9) == 0
                           ? ""
                           : std::string(6, static_cast<char>('a' + pick(random, 0, 25))));
      for (std::size_t i = 0; i < line.size(); ++i) text += (i > 0 ? separator : "") + line[i];
      if (row + 1 < rows || seed % 2 == 0) text += end;
      cells.push_back(std::move(line));
    }
    const bool packed = seed % 4 < 2;
    file.path = write("table", packed ? gzip(text) : text);
    auto opened = data::readTableSamples(file);
    QVERIFY2(opened.ok(), opened.ok() ? "" : textOf(opened.error()).c_str());
    SampleReader& reader = **opened;
    const auto set = data::openTable(file);
    QVERIFY2(set.ok(), set.ok() ? "" : textOf(set.error()).c_str());
    const auto first = static_cast<std::int64_t>(file.from * rows);
    const auto same = [&](const Result<std::vector<data::StoredSample>>& samples) {
      QVERIFY2(samples.ok(), samples.ok() ? "" : textOf(samples.error()).c_str());
      QVERIFY(!samples->empty());
      for (const data::StoredSample& sample : *samples) {
        const auto& line = cells[static_cast<std::size_t>(first + sample.index)];
        QCOMPARE(sample.label, line[0]);
        QVERIFY(sample.cells == std::vector<std::string>(line.begin() + 1, line.end()));
        QVERIFY2(!sample.problem, sample.problem ? textOf(*sample.problem).c_str() : "");
      }
    };
    const std::int64_t beginning[] = {0};
    same(reader.read(beginning));  // before the rows are counted
    QVERIFY(reader.count({}).ok());
    QCOMPARE(reader.size(), (*set)->size());
    same(reader.read(someIndices(random, reader.size())));
    std::map<int, std::int64_t> expected;
    for (std::int64_t row = 0; row < reader.size(); ++row)
      ++expected[std::stoi(cells[static_cast<std::size_t>(first + row)][0])];
    QVERIFY(reader.labels() == expected);
    QVERIFY(reader.check({}).ok());
  }

  // What a run would refuse is said with the file and the reason.
  void damageIsSaid_data() {
    QTest::addColumn<QByteArray>("images");
    QTest::addColumn<QByteArray>("labels");
    QTest::addColumn<QString>("expected");
    const auto bytes = [](const std::string& text) { return QByteArray::fromStdString(text); };
    const std::string images = idx({4, 2, 3}, std::string(24, '\5')), labels = idx({4}, "abcd");
    const QByteArray good = bytes(images), names = bytes(idx({4}, std::string("\0\1\2\3", 4)));
    QTest::newRow("empty") << QByteArray() << names << "images.*too short for an IDX header";
    QTest::newRow("magic") << bytes("PNG" + images) << names << "images.*neither an IDX file";
    QTest::newRow("truncated") << good.left(30) << names << "images.*declares 24 bytes";
    QTest::newRow("longer") << good + "x" << names << "images.*declares 24 bytes";
    QTest::newRow("header alone") << good.left(9) << names << "images.*too short";
    QTest::newRow("no size") << bytes(idx({0, 2, 3}, "")) << names << "images.*dimension 0 is 0";
    QTest::newRow("huge") << bytes(idx({4000000000u, 4000000000u, 9}, "")) << names
                          << "images.*more than 4 GiB of elements.*split it";
    QTest::newRow("swapped") << names << good << "images.*swapped";
    QTest::newRow("count") << good << bytes(idx({3}, "\1\2\3")) << "labels.*3 labels for the 4";
    QTest::newRow("label") << good << bytes(labels) << "labels.*record 0 has label 97";
    QTest::newRow("gzip truncated")
        << bytes(gzip(images)).chopped(9) << names << "images.*(truncated|ends after)";
    QTest::newRow("gzip damaged") << bytes(gzip(images)).replace(12, 4, "\xff\xff\xff\xff") << names
                                  << "images.*(corrupt|truncated|ends after|IDX)";
    QTest::newRow("gzip longer") << bytes(gzip(images + "x")) << names << "images.*declares 24";
    QTest::newRow("labels truncated") << good << names.chopped(1) << "labels.*declares 4 bytes";
    QTest::newRow("labels gzip truncated")
        << good << bytes(gzip(names.toStdString())).chopped(4) << "labels.*truncated";
  }
  void damageIsSaid() {
    QFETCH(QByteArray, images);
    QFETCH(QByteArray, labels);
    QFETCH(QString, expected);
    const data::IdxFiles files{write("images", images.toStdString()),
                               write("labels", labels.toStdString())};
    const std::string trouble = troubleOf(data::readIdxSamples(files, {}, 10));
    QVERIFY2(QRegularExpression(expected).match(QString::fromStdString(trouble)).hasMatch(),
             trouble.c_str());
  }

  // Cut anywhere, or with any byte changed, a file is read, or said to be damaged.
  void anyDamageIsSurvived() {
    std::mt19937 random(7);
    const std::string images = idx({30, 5, 4}, randomBytes(random, 600));
    const std::string labels = idx({30}, randomBytes(random, 30, 10));
    for (int trial = 0; trial < 300; ++trial) {
      std::string bytes = trial % 2 == 0 ? images : gzip(images);
      if (trial % 3 == 0)
        bytes.resize(static_cast<std::size_t>(pick(random, 0, static_cast<int>(bytes.size()) - 1)));
      else
        bytes[static_cast<std::size_t>(pick(random, 0, static_cast<int>(bytes.size()) - 1))] ^=
            static_cast<char>(1 << pick(random, 0, 7));
      const data::IdxFiles files{write("i", bytes), write("l", labels)};
      const std::string trouble = troubleOf(data::readIdxSamples(files, {}, 10));
      QVERIFY2(trouble.empty() || trouble.find(path("i")) != std::string::npos ||
                   trouble.find(path("l")) != std::string::npos,
               trouble.c_str());
      if (trial % 3 == 0) QVERIFY(!trouble.empty());
    }
  }

  void missingAndOddFiles() {
    const data::IdxFiles none{path("none"), path("none")};
    QCOMPARE(data::readIdxSamples(none, {}, 10).status().code(), Code::kNotFound);
    QCOMPARE(data::readTextSamples({path("none"), 5}).status().code(), Code::kNotFound);
    data::TableFile table{path("none"), 1, 0, 0, 2};
    QCOMPARE(data::readTableSamples(table).status().code(), Code::kNotFound);
    table.path = folder_.path().toStdString();
    QCOMPARE(data::readTableSamples(table).status().code(), Code::kFailedPrecondition);
    table.path = write("empty", "");
    QCOMPARE(data::readTableSamples(table).status().code(), Code::kInvalidArgument);
    QCOMPARE(data::readTextSamples({write("short", "abc"), 5}).status().code(),
             Code::kInvalidArgument);
    QCOMPARE(data::readTextSamples({write("short", "abc"), 0}).status().code(),
             Code::kInvalidArgument);
    const std::string hash(64, '0');
    const auto text = data::readTextSamples({write("text", "some words here"), 3}, hash);
    QVERIFY(text.ok());
    QCOMPARE((*text)->check({}).code(), Code::kFailedPrecondition);
  }

  // A malformed row is shown beside the others, with its line.
  void malformedRowsAreNamed() {
    const data::TableFile file{write("t", "0,5\n1,x\n7,1\n0,1,2\n\n1,2\n"), 1, 0, 0, 2};
    auto reader = data::readTableSamples(file);
    QVERIFY(reader.ok());
    const std::int64_t all[] = {0, 1, 2, 3, 4, 5};
    const auto samples = (*reader)->read(all);
    QVERIFY2(samples.ok(), samples.ok() ? "" : textOf(samples.error()).c_str());
    QCOMPARE(std::ssize(*samples), std::ptrdiff_t{6});
    const char* const lines[] = {"", "line 2", "line 3", "line 4", "line 5", ""};
    for (std::size_t i = 0; i < 6; ++i) {
      const auto& problem = (*samples)[i].problem;
      QCOMPARE(problem.has_value(), *lines[i] != '\0');
      if (problem) QVERIFY2(textOf(*problem).find(lines[i]) != std::string::npos, lines[i]);
    }
    QCOMPARE((*reader)->check({}).code(), Code::kDataLoss);
    const data::TableFile endless{write("e", std::string(3 << 20, '1')), 1, 0, 0, 2};
    QCOMPARE(data::readTableSamples(endless).status().code(), Code::kDataLoss);
  }

  // What is written to a table while it is looked at is counted and read.
  void rowsOfAGrowingTable() {
    const std::string row = "1,5\n";
    const data::TableFile file{write("grows", row), 1, 0, 0, 2};
    const auto reader = data::readTableSamples(file);
    QVERIFY(reader.ok());
    std::string rows;
    for (int i = 0; i < 600'000; ++i) rows += row;  // more than one mark's
    write("grows", rows);
    QVERIFY((*reader)->count({}).ok());
    QCOMPARE((*reader)->size(), std::int64_t{600'000});
    const std::int64_t ends[] = {0, 599'999};
    const auto samples = (*reader)->read(ends);
    QVERIFY2(samples.ok(), samples.ok() ? "" : textOf(samples.error()).c_str());
    QCOMPARE(samples->size(), std::size_t{2});
    QCOMPARE(samples->back().cells.at(0), std::string("5"));
    write("grows", row);
    QCOMPARE((*reader)->read(ends).status().code(), Code::kDataLoss);
  }

  // Of a large plain file little is read; what takes long can be cancelled.
  void largeFilesAreNotReadWhole() {
    constexpr std::int64_t kImages = 3'000'000;  // 2.35 GB, sparse
    const std::string images = idx({kImages, 28, 28}, ""), labels = idx({kImages}, "");
    const data::IdxFiles files{write("many", images), write("labels", labels)};
    std::filesystem::resize_file(files.images, images.size() + kImages * 784);
    std::filesystem::resize_file(files.labels, labels.size() + kImages);
    const std::string text = write("long", "x");
    std::filesystem::resize_file(text, std::uintmax_t{3} << 30);
    QElapsedTimer timer;
    timer.start();
    const auto reader = data::readIdxSamples(files, {}, 10);
    QVERIFY2(reader.ok(), reader.ok() ? "" : textOf(reader.error()).c_str());
    const std::int64_t some[] = {0, kImages / 2, kImages - 1};
    QCOMPARE((*reader)->read(some)->size(), std::size_t{3});
    const auto bytes = data::readTextSamples({text, 64});
    QVERIFY(bytes.ok());
    const std::int64_t far[] = {(*bytes)->size() - 1};
    QCOMPARE((*bytes)->read(far)->size(), std::size_t{1});
    QVERIFY2(timer.elapsed() < 2000, qPrintable(QString::number(timer.elapsed())));
    int calls = 0;
    const auto stop = [&](std::int64_t, std::int64_t) { return ++calls < 3; };
    QCOMPARE((*reader)->check(stop).code(), Code::kCancelled);
    QCOMPARE(calls, 3);
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::SamplesTest)
#include "samples_test.moc"
