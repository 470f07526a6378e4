// CSV files that Python's csv module writes, read as a run reads them and as they are shown.
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "engine/base/file.h"
#include "engine/data/dataset.h"
#include "engine/data/decoded.h"
#include "engine/data/samples.h"
#include "tests/support/paths.h"

namespace lockstep::tests {
namespace {

std::vector<std::string> textsOf(const QJsonValue& list) {
  std::vector<std::string> out;
  for (const auto& one : list.toArray()) out.push_back(one.toString().toStdString());
  return out;
}

struct Written {
  data::TableFile table;
  std::vector<std::vector<std::string>> rows;  // label, numbers, categories
};

std::string errorText(const Status& status) { return status.ok() ? "" : status.error().text(); }

}  // namespace

class CsvTest : public QObject {
  Q_OBJECT
  QTemporaryDir folder_;

  std::string write(const char* name, const std::string& bytes) const {
    std::string path = folder_.filePath(name).toStdString();
    if (!writeFileAtomically(path, bytes).ok()) qFatal("cannot write");
    return path;
  }
  // Of columns "y", "a", "b", "c": a label of two classes, two numbers, a category.
  data::TableFile table(const std::string& bytes) const {
    data::TableFile out{write("small.csv", bytes), 2, 1, 50, 2};
    out.csv = data::CsvColumns{"y", {"a", "b"}, {"c"}, {}};
    return out;
  }
  static std::string troubleOf(const data::TableFile& file) {
    const std::string opened = errorText(data::openTable(file).status());
    const auto facts = data::inspectTable(file);
    const Status checked = facts.ok() ? data::checkTable(file, *facts) : facts.status();
    return errorText(checked) == opened ? opened : "they differ: " + opened;
  }
  Written writtenBy(int seed) const {
    QProcess python;
    python.start("/usr/bin/python3",
                 {QString::fromStdString(test::sourcePath("tests/engine/data/write_csv")),
                  folder_.path(), QString::number(seed)});
    python.waitForFinished(-1);
    if (python.exitCode() != 0) qFatal("%s", python.readAllStandardError().constData());
    const QJsonObject said = QJsonDocument::fromJson(python.readAllStandardOutput()).object();
    Written out;
    const std::vector<std::string> names = textsOf(said["names"]);
    const auto numbers = 1 + said["numbers"].toInt();
    data::CsvColumns csv;
    csv.label = names[0];
    csv.numbers = {names.begin() + 1, names.begin() + numbers};
    csv.categories = {names.begin() + numbers, names.end()};
    csv.classes = textsOf(said["classes"]);
    csv.header = said["header"].toBool();
    csv.logarithm = seed % 2 == 0;
    const std::string separator = said["separator"].toString().toStdString();
    if (!separator.empty()) csv.separator = separator[0];
    for (const auto& row : said["rows"].toArray()) out.rows.push_back(textsOf(row));
    out.table.path = folder_.filePath("t.csv").toStdString();
    out.table.numbers = std::ssize(csv.numbers);
    out.table.columns = std::ssize(csv.categories);
    out.table.categories = out.table.columns > 0 ? 1000 : 0;
    out.table.classes = csv.classes.empty() ? 3 : static_cast<int>(csv.classes.size());
    out.table.csv = std::move(csv);
    return out;
  }

  static int classOf(const Written& from, const std::vector<std::string>& row) {
    const auto& classes = from.table.csv->classes;
    if (classes.empty()) return std::stoi(row[0]);
    return static_cast<int>(std::find(classes.begin(), classes.end(), row[0]) - classes.begin());
  }

  static void sameAsRead(const Written& from, const data::Dataset& set, std::int64_t first) {
    const auto numbers = static_cast<std::size_t>(from.table.numbers);
    std::vector<float> x(numbers);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(from.table.columns) + 1);
    std::map<std::pair<std::size_t, std::string>, std::int32_t> seen;
    for (std::int64_t row = 0; row < set.size(); ++row) {
      const auto& cells = from.rows[static_cast<std::size_t>(first + row)];
      set.read(row, 0, reinterpret_cast<std::byte*>(x.data()));
      for (std::size_t i = 0; i < numbers; ++i) {
        const double value = cells[1 + i].empty() ? 0 : std::stod(cells[1 + i]);
        QCOMPARE(x[i], static_cast<float>(from.table.csv->logarithm
                                              ? std::copysign(std::log1p(std::abs(value)), value)
                                              : value));
      }
      std::int32_t label = -1;
      set.read(row, set.fields().size() - 1, reinterpret_cast<std::byte*>(&label));
      QCOMPARE(label, classOf(from, cells));
      if (from.table.columns == 0) continue;
      set.read(row, 1, reinterpret_cast<std::byte*>(ids.data()));
      for (std::size_t i = 0; 1 + numbers + i < cells.size(); ++i) {
        const auto [known, fresh] = seen.emplace(std::pair(i, cells[1 + numbers + i]), ids[i]);
        QCOMPARE(ids[i], known->second);  // equal texts are equal categories
        QCOMPARE(ids[i] / 1000, static_cast<int>(i));
      }
    }
  }

  static void sameAsShown(const Written& from, std::int64_t first,
                          const Result<std::vector<data::StoredSample>>& samples) {
    QVERIFY2(samples.ok(), errorText(samples.status()).c_str());
    QVERIFY(!samples->empty());
    for (const data::StoredSample& sample : *samples) {
      const auto& cells = from.rows[static_cast<std::size_t>(first + sample.index)];
      QVERIFY2(!sample.problem, sample.problem ? sample.problem->text().c_str() : "");
      QCOMPARE(sample.label, cells[0]);
      QVERIFY(sample.cells == std::vector<std::string>(cells.begin() + 1, cells.end()));
    }
  }

 private Q_SLOTS:
  void filesOfPython_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 0; seed < 40; ++seed) QTest::addRow("%d", seed) << seed;
  }
  void filesOfPython() {
    QFETCH(int, seed);
    Written from = writtenBy(seed);
    const auto rows = std::ssize(from.rows);
    if (rows > 10 && seed % 3 == 0) from.table.from = 0.25;
    if (rows > 10 && seed % 4 == 0) from.table.to = 0.75;
    const auto first = static_cast<std::int64_t>(from.table.from * static_cast<double>(rows)),
               last = static_cast<std::int64_t>(from.table.to * static_cast<double>(rows));
    const auto facts = data::inspectTable(from.table);
    QVERIFY2(facts.ok(), errorText(facts.status()).c_str());
    QCOMPARE(facts->dimensions[0], rows);
    const auto set = data::openTable(from.table);
    QVERIFY2(set.ok(), errorText(set.status()).c_str());
    QCOMPARE((*set)->size(), last - first);
    sameAsRead(from, **set, first);

    const auto reader = data::readTableSamples(from.table);
    QVERIFY2(reader.ok(), errorText(reader.status()).c_str());
    const std::int64_t beginning[] = {0};
    sameAsShown(from, first, (*reader)->read(beginning));  // before the rows are counted
    QVERIFY((*reader)->count({}).ok());
    QCOMPARE((*reader)->size(), last - first);
    std::mt19937 random(static_cast<unsigned>(seed));
    std::set<std::int64_t> some{0, last - first - 1, last - first};
    for (int i = 0; i < 6; ++i) some.insert(static_cast<std::int64_t>(random()) % (last - first));
    const std::vector<std::int64_t> indices(some.begin(), some.end());
    sameAsShown(from, first, (*reader)->read(indices));
    std::map<int, std::int64_t> labels;
    for (std::int64_t row = first; row < last; ++row)
      ++labels[classOf(from, from.rows[static_cast<std::size_t>(row)])];
    QVERIFY((*reader)->labels() == labels);
    QVERIFY((*reader)->check({}).ok());
  }

  void whatAFileMayHave() {
    for (const char* good :
         {"y,a,b,c\n1,2,3,red", "c,b,y,a\r\nred,3,1,2\r\n", "\xef\xbb\xbfy;a;b;c\n1;2;3;red\n",
          "y\ta\tb\tc\td\n1\t2\t3\tred\t\n", "\n\r\n y , a , b , c \n\n 1 , 2 , 3 , red \n  \n\n",
          "\"y\",\"a\",\"b\",\"c\"\n\"1\",\"2\",\"3\",\"red\"\n"}) {
      const auto reader = data::readTableSamples(table(good));
      QVERIFY2(reader.ok(), errorText(reader.status()).c_str());
      const std::int64_t all[] = {0, 1};
      const auto samples = (*reader)->read(all);
      QVERIFY2(samples.ok() && samples->size() == 1, good);
      QCOMPARE(samples->front().label, std::string("1"));
      QVERIFY((samples->front().cells == std::vector<std::string>{"2", "3", "red"}));
      QCOMPARE(troubleOf(table(good)), std::string());
    }
  }

  // Wherever it is read, an error names the file, the line and the column.
  void whatIsWrongIsNamed_data() {
    QTest::addColumn<QByteArray>("bytes");
    QTest::addColumn<QByteArray>("says");
    const QByteArray head = "y,a,b,c\n", row = "1,2,3,red\n";
    QTest::newRow("empty") << QByteArray() << QByteArray("it has 0 rows");
    QTest::newRow("header alone") << head << QByteArray("it has 0 rows");
    QTest::newRow("column") << QByteArray("y,a,c\n1,2,red\n")
                            << QByteArray("no column \"b\"; it has y, a, c");
    QTest::newRow("twice") << "y,a,b,c,a\n" + row << QByteArray("column \"a\" twice");
    QTest::newRow("few") << head + row + "1,2,3\n"
                         << QByteArray("line 3: it has 3 columns, the first row has 4");
    QTest::newRow("many") << head + row + "\n\n1,2,3,x,x\n"
                          << QByteArray("line 5: it has 5 columns, the first row has 4");
    QTest::newRow("number") << head + "1,2,\"3\n\",red\n"
                            << QByteArray("line 2: column b is \"3?\", expected a finite number");
    QTest::newRow("after two lines") << head + "1,2,3,\"re\nd\"\n1,x,3,red\n"
                                     << QByteArray("line 4: column a is \"x\"");
    QTest::newRow("nan") << head + "1,nan,3,red\n" << QByteArray("line 2: column a is \"nan\"");
    QTest::newRow("label") << head + row + "2,2,3,red\n"
                           << QByteArray("line 3: the label is \"2\", expected 0 to 1");
    QTest::newRow("quote") << head + row + "1,2,3,re\"d\n"
                           << QByteArray("line 3: it has quotes that are not closed");
    QTest::newRow("after quotes") << head + "1,2,3,\"red\"x\n"
                                  << QByteArray("line 2: it has quotes that are not closed, or");
    QTest::newRow("open") << head + row + "1,2,3,\"red\n" + row
                          << QByteArray("line 3: it has quotes that are not closed");
    QTest::newRow("header quote") << "y,a,b,\"c\n" + row << QByteArray("its first row has quotes");
    QTest::newRow("old Macintosh") << head + "1,2,3,red\r1,2,3,red\n"
                                   << QByteArray("line 2: it has a carriage return");
    QTest::newRow("old Macintosh alone")
        << QByteArray("y,a,b,c\r1,2,3,red\r") << QByteArray("its first row has a carriage return");
    QTest::newRow("UTF-16") << QByteArray("\xff\xfey\0,\0a\0\n\0", 10)
                            << QByteArray("it is UTF-16");
  }
  void whatIsWrongIsNamed() {
    QFETCH(QByteArray, bytes);
    QFETCH(QByteArray, says);
    const data::TableFile file = table(bytes.toStdString());
    const std::string trouble = troubleOf(file);
    QVERIFY2(trouble.find(says.toStdString()) != std::string::npos, trouble.c_str());
    QVERIFY(trouble.find(file.path) != std::string::npos);
    // Shown beside the good rows, or said at once.
    const auto reader = data::readTableSamples(file);
    std::string shown = errorText(reader.status());
    if (reader.ok()) {
      const std::int64_t some[] = {0, 1, 2};
      const auto samples = (*reader)->read(some);
      shown = samples.ok() ? "" : samples.error().text();
      if (samples.ok())
        for (const auto& sample : *samples)
          if (sample.problem) shown = sample.problem->text();
      if (shown.empty()) shown = errorText((*reader)->count({}));
    }
    QVERIFY2(shown.find(says.toStdString()) != std::string::npos, shown.c_str());
  }

  void numbersMayHaveASign() {
    data::TableFile file = table("y,a,b,c\n+1,+2.5,-3,red\n");
    file.csv->logarithm = false;
    const auto set = data::openTable(file);
    QVERIFY2(set.ok(), errorText(set.status()).c_str());
    float numbers[2];
    (*set)->read(0, 0, reinterpret_cast<std::byte*>(numbers));
    QCOMPARE(numbers[0], 2.5f);
    QCOMPARE(numbers[1], -3.0f);
    for (const std::string none : {"+", "++2", "+-2"}) {
      const std::string trouble = troubleOf(table("y,a,b,c\n1," + none + ",3,red\n"));
      QVERIFY2(trouble.find("expected a finite number") != std::string::npos, trouble.c_str());
    }
  }

  void classesAndColumnsByNumber() {
    data::TableFile file = table("red,x,2,3\nblue,y,2,3\n");
    file.csv->header = false;
    file.csv->label = "1";
    file.csv->numbers = {"3", "4"};
    file.csv->categories = {"2"};
    file.csv->classes = {"blue", "red"};
    const auto set = data::openTable(file);
    QVERIFY2(set.ok(), errorText(set.status()).c_str());
    std::int32_t label = -1;
    (*set)->read(0, 2, reinterpret_cast<std::byte*>(&label));
    QCOMPARE(label, 1);
    file.csv->classes = {"blue", "green"};
    QVERIFY(troubleOf(file).find("the label is \"red\", expected one of blue, green") !=
            std::string::npos);
    for (const char* none : {"0", "5", "x", "", "1x"}) {
      file.csv->categories = {none};
      QVERIFY2(troubleOf(file).find("columns in data.csv are numbers from 1") != std::string::npos,
               none);
    }
  }

  // Another choice of columns has another decoding.
  void decodingsAreApart() {
    data::DecodedFolder decoded(folder_.filePath("decoded").toStdString(), {4 << 20, 0});
    data::TableFile file = table("y,a,b,c\n1,2,3,red\n0,4,5,blue\n");
    std::set<std::string> names;
    const auto keep = [&] {
      const auto facts = data::inspectTable(file, &decoded);
      QVERIFY2(facts.ok(), errorText(facts.status()).c_str());
      names.insert(data::tableDecoding(file));
      data::TableFile mapped = file;
      mapped.decoded = decoded.find(data::tableDecoding(file), facts->sha256);
      QVERIFY(!mapped.decoded.empty());
      const auto set = data::openTable(mapped), fresh = data::openTable(file);
      QVERIFY(set.ok() && fresh.ok());
      for (std::int64_t row = 0; row < 2; ++row) {
        float x[2], y[2];
        (*set)->read(row, 0, reinterpret_cast<std::byte*>(x));
        (*fresh)->read(row, 0, reinterpret_cast<std::byte*>(y));
        QVERIFY(std::memcmp(x, y, sizeof x) == 0);
      }
    };
    keep();
    file.csv->numbers = {"b", "a"};
    keep();
    file.csv->logarithm = false;
    keep();
    file.csv->classes = {"0", "1"};
    keep();
    file.csv->classes = {"1", "0"};
    keep();
    QCOMPARE(names.size(), std::size_t{5});
  }

  // Quotes that are never closed end the reading of a large file early.
  void openQuotesAreBounded() {
    std::string text = "y,a,b,c\n1,2,3,\"red";
    for (int i = 0; i < 3'000'000; ++i) text += ",1,2,3,red\n";
    QVERIFY(troubleOf(table(text)).find("line 2: its quotes are not closed within") !=
            std::string::npos);
    const auto reader = data::readTableSamples(table(text));
    QVERIFY(reader.ok());
    QCOMPARE((*reader)->count({}).code(), Code::kDataLoss);
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::CsvTest)
#include "csv_test.moc"
