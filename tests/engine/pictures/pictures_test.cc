// JPEG and PNG files as pixels, scaled, and as IDX files of labelled images.
#include "tests/support/pictures.h"

#include <sys/resource.h>
#include <zlib.h>

#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "engine/data/dataset.h"
#include "engine/pictures/image_set.h"
#include "engine/pictures/picture.h"

namespace lockstep::tests {
namespace {

using pictures::Picture;

std::string noise(std::mt19937& random, std::int64_t bytes) {
  std::string out(static_cast<std::size_t>(bytes), '\0');
  for (char& byte : out) byte = static_cast<char>(random());
  return out;
}

template <typename T>
std::string why(const Result<T>& result) {
  return result.ok() ? "" : result.error().text();
}

int at(const Picture& picture, std::int64_t y, std::int64_t x, std::int64_t channel) {
  const std::int64_t i = (y * picture.width + x) * picture.channels + channel;
  return static_cast<unsigned char>(picture.pixels[static_cast<std::size_t>(i)]);
}

std::string bigEndian(std::uint32_t number) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(number >> shift & 0xff);
  return out;
}

// A PNG file with a chunk behind its header.
std::string withChunk(std::string png, const std::string& type, const std::string& data) {
  constexpr std::size_t kHeader = 33;  // signature and IHDR
  const std::string checked = type + data;
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return png.insert(kHeader, bigEndian(static_cast<std::uint32_t>(data.size())) + checked +
                                 bigEndian(static_cast<std::uint32_t>(sum)));
}

std::string bytesOf(const std::vector<std::uint16_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), 2 * values.size()};
}

// The definition: a pixel is the mean of those around its middle, weighted by distance.
double expected(const Picture& from, std::int64_t height, std::int64_t width, std::int64_t y,
                std::int64_t x, std::int64_t channel) {
  const auto h = static_cast<double>(from.height), w = static_cast<double>(from.width);
  const double scale = std::min(h / static_cast<double>(height), w / static_cast<double>(width));
  const double reach = std::max(scale, 1.0);
  const double middleY =
      h / 2 + (static_cast<double>(y) + 0.5 - static_cast<double>(height) / 2) * scale;
  const double middleX =
      w / 2 + (static_cast<double>(x) + 0.5 - static_cast<double>(width) / 2) * scale;
  double sum = 0, weights = 0;
  for (std::int64_t r = 0; r < from.height; ++r)
    for (std::int64_t c = 0; c < from.width; ++c) {
      const double weight =
          std::max(0.0, 1 - std::abs(static_cast<double>(r) + 0.5 - middleY) / reach) *
          std::max(0.0, 1 - std::abs(static_cast<double>(c) + 0.5 - middleX) / reach);
      sum += weight * at(from, r, c, channel);
      weights += weight;
    }
  return sum / weights;
}

}  // namespace

class PicturesTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;

  std::string path(const std::string& name) const {
    return folder_.filePath(QString::fromStdString(name)).toStdString();
  }
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string out = path(name);
    std::filesystem::create_directories(std::filesystem::path(out).parent_path());
    std::ofstream(out, std::ios::binary) << bytes;
    return out;
  }
  // A picture of one colour.
  std::string plain(const std::string& name, int red, int green, int blue) const {
    std::string pixels;
    for (int i = 0; i < 12; ++i)
      for (const int value : {red, green, blue}) pixels += static_cast<char>(value);
    return write(name, name.ends_with("g") && name.find(".j") != std::string::npos
                           ? jpegOf(3, 4, pixels, 100)
                           : pngOf(3, 4, PNG_FORMAT_RGB, pixels));
  }

 private Q_SLOTS:
  void pngIsExact() {
    std::mt19937 random(1);
    for (int i = 0; i < 40; ++i) {
      const int height = 1 + static_cast<int>(random() % 40),
                width = 1 + static_cast<int>(random() % 40);
      const png_uint_32 format =
          std::vector<png_uint_32>{PNG_FORMAT_GRAY, PNG_FORMAT_RGB, PNG_FORMAT_RGBA}[random() % 3];
      const std::int64_t channels = PNG_IMAGE_PIXEL_CHANNELS(format);
      const std::string pixels = noise(random, height * width * channels);
      const auto picture = pictures::decodePicture(pngOf(height, width, format, pixels));
      QVERIFY2(picture.ok(), why(picture).c_str());
      QVERIFY(picture->height == height && picture->width == width && picture->channels == 3);
      for (std::int64_t pixel = 0; pixel < height * width; ++pixel)
        for (std::int64_t c = 0; c < 3; ++c)
          QCOMPARE(picture->pixels[static_cast<std::size_t>(3 * pixel + c)],
                   pixels[static_cast<std::size_t>(channels * pixel + (channels == 1 ? 0 : c))]);
    }
  }

  // What Pillow 13.0.0 reads of the same files, as RGB; of grey alone it cuts 16 bits off at 255.
  void sixteenBitsAreCut() {
    const std::vector<std::uint16_t> values{0,      1,      0x80,   0xff,   0x100,  0x17f,
                                            0x7fff, 0x8000, 0x80ff, 0x8100, 0xff00, 0xffff};
    const std::string expected = {0,    0,          0,          0,          1,          1,
                                  0x7f, char(0x80), char(0x80), char(0x81), char(0xff), char(0xff)};
    const int width = static_cast<int>(values.size());
    // Their gAMA chunk says that they are linear.
    const auto grey =
        pictures::decodePicture(pngOf(1, width, PNG_FORMAT_LINEAR_Y, bytesOf(values)));
    QVERIFY2(grey.ok(), why(grey).c_str());
    std::vector<std::uint16_t> colours;
    for (const std::uint16_t value : values)
      colours.insert(colours.end(), {value, static_cast<std::uint16_t>(~value), 0x8000});
    const auto colour =
        pictures::decodePicture(pngOf(1, width, PNG_FORMAT_LINEAR_RGB, bytesOf(colours)));
    QVERIFY2(colour.ok(), why(colour).c_str());
    for (int x = 0; x < width; ++x) {
      const int value = static_cast<unsigned char>(expected[static_cast<std::size_t>(x)]);
      for (int c = 0; c < 3; ++c) QCOMPARE(at(*grey, 0, x, c), value);
      QCOMPARE(at(*colour, 0, x, 0), value);
      QCOMPARE(at(*colour, 0, x, 1), 255 - value);
      QCOMPARE(at(*colour, 0, x, 2), 128);
    }
  }

  // As Pillow does.
  void gammaIsLeftOut() {
    const std::string pixels{1, char(128), char(254)};
    for (const std::uint32_t gamma : {100'000u, 45'455u, 220'000u}) {
      const auto picture = pictures::decodePicture(
          withChunk(pngOf(1, 3, PNG_FORMAT_GRAY, pixels), "gAMA", bigEndian(gamma)));
      QVERIFY2(picture.ok(), why(picture).c_str());
      QCOMPARE(picture->pixels, (std::string{1, 1, 1, char(128), char(128), char(128), char(254),
                                             char(254), char(254)}));
    }
    // Neither a transparent colour nor a text has a part in the picture.
    const auto marked = pictures::decodePicture(
        withChunk(withChunk(pngOf(1, 3, PNG_FORMAT_GRAY, pixels), "tRNS", {0, char(128)}), "tEXt",
                  std::string("a\0b", 3)));
    QVERIFY2(marked.ok(), why(marked).c_str());
    QCOMPARE(at(*marked, 0, 1, 0), 128);
  }

  void jpegIsNear() {
    std::string pixels;
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 48; ++x)
        for (const int value : {5 * x, 7 * y, 100}) pixels += static_cast<char>(value);
    const auto picture = pictures::decodePicture(jpegOf(32, 48, pixels, 100));
    QVERIFY(picture.ok() && picture->height == 32 && picture->width == 48);
    for (std::size_t i = 0; i < pixels.size(); ++i)
      QVERIFY(std::abs(static_cast<unsigned char>(pixels[i]) -
                       static_cast<unsigned char>(picture->pixels[i])) <= 4);
  }

  void damageIsAnError() {
    std::mt19937 random(2);
    const std::string pixels = noise(random, 20 * 30 * 3);
    for (const std::string& whole :
         {jpegOf(20, 30, pixels, 90), pngOf(20, 30, PNG_FORMAT_RGB, pixels)}) {
      for (int i = 0; i < 60; ++i) {
        const auto cut = pictures::decodePicture(whole.substr(0, random() % (whole.size() - 16)));
        QVERIFY(!cut.ok());
        QVERIFY(!cut.error().what.text().empty());
      }
      for (int i = 0; i < 200; ++i) {
        std::string changed = whole;
        for (int k = 0; k < 3; ++k)
          changed[random() % changed.size()] = static_cast<char>(random());
        if (const auto read = pictures::decodePicture(changed); read.ok())
          QCOMPARE(std::ssize(read->pixels), read->height * read->width * 3);
      }
    }
    QCOMPARE(pictures::decodePicture("GIF89a").error().text(),
             std::string("it is neither a JPEG nor a PNG file"));
    QVERIFY(!pictures::decodePicture("").ok());
    // A header that claims more than memory should be given.
    std::string large = pngOf(2, 2, PNG_FORMAT_RGB, noise(random, 12));
    large[16] = '\x7f';
    QVERIFY(!pictures::decodePicture(large).ok());
  }

  void fitIsAWeightedMean() {
    std::mt19937 random(3);
    for (int i = 0; i < 60; ++i) {
      const auto extent = [&] { return 1 + static_cast<std::int64_t>(random() % 24); };
      Picture from{extent(), extent(), random() % 2 == 0 ? 1 : 3, {}};
      from.pixels = noise(random, from.height * from.width * from.channels);
      const std::int64_t height = extent(), width = extent();
      const Picture to = pictures::fit(from, height, width);
      QVERIFY(to.height == height && to.width == width && to.channels == from.channels);
      for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x)
          for (std::int64_t c = 0; c < to.channels; ++c)
            QVERIFY(std::abs(at(to, y, x, c) - expected(from, height, width, y, x, c)) <= 1.01);
      QCOMPARE(pictures::fit(from, from.height, from.width).pixels, from.pixels);
    }
  }

  // Of a picture much taller or wider than the result, only the middle is scaled.
  void tallAndWidePicturesFit() {
    std::mt19937 random(4);
    for (const bool isTall : {true, false}) {
      const std::int64_t length = 3'000'000;
      Picture from{isTall ? length : 1, isTall ? 1 : length, 3, {}};
      from.pixels = noise(random, 3 * length);
      struct rusage before {
      }, after{};
      getrusage(RUSAGE_SELF, &before);
      const Picture to = pictures::fit(from, 512, 512);
      getrusage(RUSAGE_SELF, &after);
      QVERIFY2(after.ru_maxrss - before.ru_maxrss < 100 << 10, "more than 100 MiB");  // in KiB
      const std::int64_t middle = length / 2;
      const Picture alone =
          pictures::fit({isTall ? 4 : 1, isTall ? 1 : 4, 3,
                         from.pixels.substr(static_cast<std::size_t>(3 * (middle - 2)), 12)},
                        512, 512);
      QCOMPARE(to.pixels.size(), std::size_t{3} * 512 * 512);
      QVERIFY(to.pixels == alone.pixels);
    }
  }

  // Each folder once, at any depth.
  void linksBetweenFoldersEnd() {
    namespace fs = std::filesystem;
    plain("linked/cat/a.png", 1, 2, 3);
    plain("linked/dog/near/b.png", 1, 2, 3);
    plain("elsewhere/c.png", 1, 2, 3);
    std::string deep = "linked/dog";
    for (int i = 0; i < 100; ++i) deep += "/d";
    plain(deep + "/deep.png", 1, 2, 3);
    fs::create_directory_symlink(".", path("linked/cat/self"));
    fs::create_directory_symlink("../cat", path("linked/cat/again"));
    fs::create_directory_symlink("..", path("linked/cat/above"));
    fs::create_directory_symlink(".", path("linked/whole"));
    fs::create_directory_symlink("near", path("linked/dog/twice"));
    fs::create_directory_symlink("../../elsewhere", path("linked/dog/other"));
    fs::create_symlink("nowhere.png", path("linked/cat/broken.txt"));
    const auto set = pictures::findImages(path("linked"), {});
    QVERIFY2(set.ok(), why(set).c_str());
    QCOMPARE(set->classes, (std::vector<std::string>{"cat", "dog"}));
    std::map<std::string, int> names;
    for (const auto& image : set->images) ++names[fs::path(image.path).filename().string()];
    QCOMPARE(names, (std::map<std::string, int>{
                        {"a.png", 1}, {"b.png", 1}, {"c.png", 1}, {"deep.png", 1}}));
  }

  void foldersAreClasses() {
    plain("set/dog/a.png", 1, 2, 3);
    plain("set/dog/far/b.JPG", 10, 20, 30);
    plain("set/cat/c.jpeg", 4, 5, 6);
    plain("set/cat/.hidden.png", 0, 0, 0);
    write("set/cat/notes.txt", "not a picture");
    write("set/README", "nor a class");
    const auto set = pictures::findImages(path("set"), {});
    QVERIFY2(set.ok(), why(set).c_str());
    QCOMPARE(set->classes, (std::vector<std::string>{"cat", "dog"}));
    QCOMPARE(set->images.size(), std::size_t{3});
    QCOMPARE(set->images[0].path, path("set/cat/c.jpeg"));
    QCOMPARE(set->images[2].label, 1);
    const auto given = pictures::findImages(path("set"), {"cow", "dog", "cat"});
    QCOMPARE(given->images[0].label, 1);
    QCOMPARE(given->images[0].path, path("set/dog/a.png"));
    QVERIFY(pictures::findImages(path("set"), {"cow", "dog"}).error().text().find("cat") !=
            std::string::npos);
    QVERIFY(!pictures::findImages(path("set/dog/far"), {}).ok());
    QCOMPARE(pictures::findImages(path("none"), {}).error().code, Code::kNotFound);
    // A class is a line of the file of classes.
    plain("set/two\nlines/d.png", 1, 2, 3);
    QVERIFY(pictures::findImages(path("set"), {}).error().text().find("line break") !=
            std::string::npos);
  }

  void listsHaveClasses() {
    plain("list/a b.png", 1, 2, 3);
    plain("list/c.png", 4, 5, 6);
    const auto set =
        pictures::findImages(write("list/l.tsv", "a b.png\t10\r\n\nc.png   9\na b.png\t9"), {});
    QVERIFY2(set.ok(), why(set).c_str());
    QCOMPARE(set->classes, (std::vector<std::string>{"9", "10"}));
    QCOMPARE(set->images.size(), std::size_t{3});
    QCOMPARE(set->images[0].path, path("list/a b.png"));
    QCOMPARE(set->images[0].label, 1);
    for (const char* wrong : {"c.png 1\nc.png\n", "c.png 1\n  2\n", "c.png 1\n\t2\n"}) {
      const auto bad = pictures::findImages(write("list/bad", wrong), {});
      QVERIFY(!bad.ok());
      QVERIFY2(bad.error().text().find("line 2") != std::string::npos, why(bad).c_str());
    }
  }

  void classesAreRead() {
    QCOMPARE(*pictures::readClasses(write("c.txt", "a\nb c\r\nd")),
             (std::vector<std::string>{"a", "b c", "d"}));
    for (const char* wrong : {"", "a\n\nb\n", "a\nb\na\n"})
      QVERIFY(!pictures::readClasses(write("c.txt", wrong)).ok());
  }

  void filesAreADataSet_data() {
    QTest::addColumn<bool>("grey");
    QTest::addColumn<int>("classes");
    QTest::addRow("colour") << false << 3;
    QTest::addRow("grey") << true << 3;
    QTest::addRow("300 classes") << false << 300;
  }
  void filesAreADataSet() {
    QFETCH(bool, grey);
    QFETCH(int, classes);
    const std::string source = std::string("many") + std::to_string(classes);
    for (int i = 0; i < classes; ++i)
      plain(fmt::format("{}/{}/x.png", source, i), i % 256, 2 * i % 256, 7);
    const auto set = pictures::findImages(path(source), {});
    const auto files = pictures::writeImages(*set, {5, 6, grey}, path("out"));
    QVERIFY2(files.ok(), why(files).c_str());
    QCOMPARE(*pictures::readClasses(files->classes), set->classes);
    const auto opened = data::openIdx({files->images, files->labels, "", ""}, classes);
    QVERIFY2(opened.ok(), why(opened).c_str());
    QCOMPARE((*opened)->size(), std::int64_t{classes});
    QCOMPARE((*opened)->fields()[0].shape, (Shape{5, 6, grey ? 1 : 3}));
    for (int i = 0; i < classes; ++i) {
      std::vector<std::byte> x(static_cast<std::size_t>((*opened)->fields()[0].bytes()));
      std::int32_t label = -1;
      (*opened)->read(i, 0, x.data());
      (*opened)->read(i, 1, reinterpret_cast<std::byte*>(&label));
      QCOMPARE(label, i);
      const int blue = static_cast<int>(x.back());
      if (!grey) QVERIFY(static_cast<int>(x[0]) == i % 256 && blue == 7);
      if (grey) QVERIFY(std::abs(blue - (0.299 * i + 0.587 * 2 * i + 0.114 * 7)) <= 1);
    }
    QVERIFY(!data::openIdx({files->images, files->labels, "", ""}, classes - 1).ok());
  }

  void damagedPicturesAreNamed() {
    for (int i = 0; i < 100; ++i) plain(fmt::format("some/a/{:03}.png", i), i, i, i);
    const std::string bad = write("some/b/bad.jpg", "\xff\xd8 and no more");
    auto set = pictures::findImages(path("some"), {});
    const auto files = pictures::writeImages(*set, {4, 4, true}, path("damaged"));
    QVERIFY(!files.ok() && files.error().text().find(bad) != std::string::npos);
    QVERIFY(!std::filesystem::exists(path("damaged-images.idx")));
    const auto removed = pictures::removeDamaged(*set);
    QVERIFY(removed.ok() && removed->size() == 1 && set->images.size() == 100);
    QVERIFY(pictures::writeImages(*set, {4, 4, true}, path("damaged")).ok());
    int calls = 0;
    const auto stopped =
        pictures::writeImages(*set, {4, 4, true}, path("stopped"),
                              [&](std::int64_t, std::int64_t) { return ++calls < 2; });
    QCOMPARE(stopped.error().code, Code::kCancelled);
    QVERIFY(!std::filesystem::exists(path("stopped-images.idx")));
    set->images.clear();
    QVERIFY(!pictures::writeImages(*set, {4, 4, true}, path("empty")).ok());
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::PicturesTest)
#include "pictures_test.moc"
