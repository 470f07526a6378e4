// SQLite connections, statements and transactions: values, migrations, and the codes of errors.
#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <sys/stat.h>

#include <cmath>

#include "engine/storage/database.h"

using namespace lockstep;
using namespace lockstep::storage;

namespace {

constexpr std::string_view kTable = "CREATE TABLE t(a INTEGER, b REAL, c TEXT, d BLOB);";

std::string textOf(const Status& status) { return status.ok() ? "" : status.error().text(); }

std::int64_t count(Database& database) {
  Statement rows(database, "SELECT count(*) FROM t");
  return rows.step() ? rows.integer(0) : -1;
}

}  // namespace

class DatabaseTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() { folder_ = std::make_unique<QTemporaryDir>(); }

  void valuesReadBack() {
    const auto database = make();
    Statement add(*database, "INSERT INTO t VALUES(?,?,?,?)");
    const std::string bytes("\0x\xff", 3);
    for (const double number : {0.5, std::nan("")}) {
      const Status added = add.bind(std::uint64_t{7})
                               .bind(number)
                               .bind(std::string_view("text"))
                               .bindBlob(std::as_bytes(std::span(bytes)))
                               .run();
      QVERIFY2(added.ok(), textOf(added).c_str());
    }
    QCOMPARE(database->lastRowId(), 2);
    Statement rows(*database, "SELECT a, b, c, d FROM t");
    QVERIFY(rows.step());
    QCOMPARE(rows.integer(0), 7);
    QCOMPARE(rows.number(1), 0.5);
    QCOMPARE(rows.text(2), std::string("text"));
    const auto blob = rows.blob(3);
    QCOMPARE(std::string(reinterpret_cast<const char*>(blob.data()), blob.size()), bytes);
    QVERIFY(rows.step() && std::isnan(rows.number(1)));
    QVERIFY(!rows.step() && rows.status().ok());
    Statement wrong(*database, "SELECT e FROM t");
    QVERIFY(!wrong.step() && wrong.status().code() == Code::kInternal);
  }

  void transactionsAreRolledBackUnlessCommitted() {
    const auto database = make();
    for (const bool commit : {false, true}) {
      Transaction transaction(*database);
      QVERIFY(transaction.status().ok() && database->execute("INSERT INTO t(a) VALUES(1)").ok());
      if (commit) QVERIFY(transaction.commit().ok());
    }
    QCOMPARE(count(*database), 1);
  }

  void filesAreMigrated() {
    QVERIFY(make()->execute("INSERT INTO t(a) VALUES(1)").ok());
    const std::vector<std::string_view> two{kTable, "ALTER TABLE t ADD COLUMN e DEFAULT 5"};
    {
      const auto database = Database::open(path(), two);
      QVERIFY(database.ok());
      Statement row(**database, "SELECT e FROM t");
      QVERIFY(row.step() && row.integer(0) == 5);
    }
    QVERIFY(Database::open(path(), two).ok());
    DatabaseOptions options;
    options.ifNewer = "use that version";
    const auto newer = Database::open(path(), {kTable}, options);
    QCOMPARE(newer.error().code, Code::kFailedPrecondition);
    QCOMPARE(newer.error().next, std::string("use that version"));
    QVERIFY((*Database::open(path(), two))->execute("PRAGMA user_version=-1").ok());
    QCOMPARE(Database::open(path(), two).error().code, Code::kFailedPrecondition);
  }

  // A file that must be there is not made: neither where it is missing nor where it is empty.
  void whatMustBeThereIsNotMade() {
    DatabaseOptions options;
    options.create = false;
    QCOMPARE(Database::open(path(), {kTable}, options).error().code, Code::kNotFound);
    QVERIFY(!QFile::exists(QString::fromStdString(path())));
    overwrite({});
    for (int time = 0; time < 2; ++time) {
      const auto empty = Database::open(path(), {kTable}, options);
      QCOMPARE(empty.error().code, Code::kDataLoss);
      QCOMPARE(empty.error().why, std::string("the file is empty"));
    }
    QVERIFY((*Database::open(path(), {kTable}))->made());
    QVERIFY(!(*Database::open(path(), {kTable}))->made());
    QVERIFY(!(*Database::open(path(), {kTable}, options))->made());
  }

  void aFileAtItsLimitIsFull() {
    DatabaseOptions options;
    options.maxPages = 8;
    options.what = "cannot write the notes";
    options.ifFull = "remove some";
    auto database = Database::open(path(), {kTable}, options);
    QVERIFY(database.ok());
    Status added;
    for (int i = 0; i < 100 && added.ok(); ++i)
      added = (*database)->execute("INSERT INTO t(d) VALUES(zeroblob(4000))");
    QCOMPARE(added.code(), Code::kResourceExhausted);
    QCOMPARE(added.error().what, std::string("cannot write the notes"));
    QCOMPARE(added.error().next, std::string("remove some"));
  }

  void whatIsNoDatabaseIsDataLoss() {
    overwrite(QByteArray(9000, 'x'));
    QCOMPARE(Database::open(path(), {kTable}).error().code, Code::kDataLoss);
    const Status checked = Database::check(path());
    QCOMPARE(checked.code(), Code::kDataLoss);
    QCOMPARE(checked.error().what, path() + " is damaged");
  }

  void whatIsNoFileIsDataLoss() {
    QVERIFY(QDir().mkpath(QString::fromStdString(path())));
    QCOMPARE(Database::open(path(), {kTable}).error().why, std::string("it is a folder"));
    QCOMPARE(Database::open(path(), {kTable}).error().code, Code::kDataLoss);
    QCOMPARE(Database::check(path()).code(), Code::kDataLoss);
    QVERIFY(QDir().rmdir(QString::fromStdString(path())) && mkfifo(path().c_str(), 0600) == 0);
    QCOMPARE(Database::open(path(), {kTable}).error().code, Code::kDataLoss);
    QCOMPARE(Database::check(path()).code(), Code::kDataLoss);
  }

  void aFileThatIsCutOffIsDataLoss() {
    make();
    QVERIFY(Database::check(path()).ok());
    QFile file(QString::fromStdString(path()));
    QVERIFY(file.open(QFile::Append) && file.write("x") == 1);
    file.close();
    const auto opened = Database::open(path(), {kTable});
    QCOMPARE(opened.error().code, Code::kDataLoss);
    QCOMPARE(opened.error().why, std::string("the file is truncated"));
    QCOMPARE(Database::check(path()).code(), Code::kDataLoss);
    DatabaseOptions options;
    options.rejectTruncated = false;
    QVERIFY(Database::open(path(), {kTable}, options).ok());
  }

  void aFileThatIsNotThereCannotBeChecked() {
    const Status checked = Database::check(path());
    QCOMPARE(checked.code(), Code::kUnavailable);
    QCOMPARE(checked.error().what, "cannot check " + path());
    QVERIFY(!QFile::exists(QString::fromStdString(path())));
    const auto opened = Database::open(path() + "/in/none", {kTable});
    QCOMPARE(opened.error().code, Code::kNotFound);
  }

 private:
  std::string path() const { return folder_->filePath("a.db").toStdString(); }
  std::unique_ptr<Database> make() {
    auto database = Database::open(path(), {kTable});
    if (!database.ok()) qFatal("%s", database.error().text().c_str());
    return std::move(*database);
  }
  void overwrite(const QByteArray& bytes) {
    QFile file(QString::fromStdString(path()));
    QVERIFY(file.open(QFile::WriteOnly) && file.write(bytes) == bytes.size());
  }
  std::unique_ptr<QTemporaryDir> folder_;
};

QTEST_GUILESS_MAIN(DatabaseTest)
#include "database_test.moc"
