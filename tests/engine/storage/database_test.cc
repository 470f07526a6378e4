// SQLite connections, statements and transactions: values, migrations, and the codes of errors.
#include <QDeadlineTimer>
#include <QDir>
#include <QFile>
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>

#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <thread>

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

std::string modeOf(Database& database) {
  Statement mode(database, "PRAGMA journal_mode");
  return mode.step() ? mode.text(0) : "";
}

// Has SQLite's writes fail.
class FailingWrites {
 public:
  explicit FailingWrites(int cause) {
    cause_ = cause;
    const auto fail = +[](int, const void*, std::size_t, off_t) -> ssize_t {
      errno = cause_;
      return -1;
    };
    setWrites(reinterpret_cast<sqlite3_syscall_ptr>(fail));
  }
  ~FailingWrites() { setWrites(nullptr); }  // as they were
  FailingWrites(const FailingWrites&) = delete;
  FailingWrites& operator=(const FailingWrites&) = delete;

 private:
  static void setWrites(sqlite3_syscall_ptr call) {
    sqlite3_vfs* const system = sqlite3_vfs_find(nullptr);
    for (const char* name : {"pwrite", "pwrite64"}) system->xSetSystemCall(system, name, call);
  }
  static inline int cause_ = 0;
};

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

  // A newer version that is quicker keeps its number: else it would migrate the file once more.
  void aNewerVersionMayBeQuicker() {
    const auto database = make();
    Transaction quicker(*database);
    QVERIFY(quicker.status().ok());
    Status slower;
    std::thread other([&] {
      slower = Database::open(path(), {kTable, "ALTER TABLE t ADD COLUMN e"}).status();
    });
    QTest::qSleep(300);  // by then it has read the old number, and waits for the transaction
    const bool isSet = database->execute("PRAGMA user_version=9").ok() && quicker.commit().ok();
    other.join();
    QVERIFY(isSet);
    QCOMPARE(slower.code(), Code::kFailedPrecondition);
    Statement version(*database, "PRAGMA user_version");
    QVERIFY(version.step());
    QCOMPARE(version.integer(0), 9);
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

  // SQLite itself takes neither a used up quota nor a log that has no space for a full disk.
  void noSpaceIsFull_data() {
    QTest::addColumn<int>("journal");
    QTest::addColumn<int>("cause");
    QTest::addColumn<bool>("atOpening");
    const int log = static_cast<int>(Journal::kWriteAhead);
    QTest::newRow("quota, log") << log << EDQUOT << false;
    QTest::newRow("quota, journal") << static_cast<int>(Journal::kRollback) << EDQUOT << false;
    QTest::newRow("quota, opening") << log << EDQUOT << true;
    QTest::newRow("disk, opening") << log << ENOSPC << true;
  }
  void noSpaceIsFull() {
    QFETCH(int, journal);
    QFETCH(int, cause);
    QFETCH(bool, atOpening);
    DatabaseOptions options;
    options.journal = static_cast<Journal>(journal);
    auto database = make(options);
    if (atOpening) database.reset();
    const FailingWrites failing(cause);
    const Status status = atOpening ? Database::open(path(), {kTable}, options).status()
                                    : database->execute("INSERT INTO t(a) VALUES(1)");
    QVERIFY(!status.ok());
    QCOMPARE(status.code(), Code::kResourceExhausted);
    QCOMPARE(status.error().next, std::string("free disk space"));
    QVERIFY2(status.error().why.text().ends_with(std::strerror(cause)), textOf(status).c_str());
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

  // With a rollback journal, as on a network file system, they wait for each other.
  void aReaderAndAWriterShareAFile_data() {
    QTest::addColumn<int>("journal");
    QTest::newRow("write-ahead log") << static_cast<int>(Journal::kWriteAhead);
    QTest::newRow("rollback journal") << static_cast<int>(Journal::kRollback);
  }
  void aReaderAndAWriterShareAFile() {
    QFETCH(int, journal);
    DatabaseOptions options;
    options.journal = static_cast<Journal>(journal);
    const auto writer = make(options), reader = make(options);
    const bool hasLog = options.journal == Journal::kWriteAhead;
    QCOMPARE(modeOf(*reader), std::string(hasLog ? "wal" : "delete"));
    QCOMPARE(QFile::exists(QString::fromStdString(path() + "-wal")), hasLog);
    constexpr int kRows = 20;
    Status written;
    std::thread thread([&] {
      for (int i = 0; i < kRows && written.ok(); ++i) {
        Transaction transaction(*writer);
        written = transaction.status();
        for (int half = 0; half < 2 && written.ok(); ++half)
          written = writer->execute("INSERT INTO t(a) VALUES(1)");
        if (written.ok()) written = transaction.commit();
      }
    });
    const QDeadlineTimer limit(60'000);
    bool whole = true;
    std::int64_t rows = 0;
    while (rows >= 0 && rows < 2 * kRows && !limit.hasExpired()) {
      rows = count(*reader);
      whole = whole && rows % 2 == 0;
    }
    thread.join();
    QVERIFY2(written.ok(), textOf(written).c_str());
    QVERIFY(whole);
    QCOMPARE(rows, 2 * kRows);
  }

  void theJournalIsChangedWhileNobodyHasItOpen() {
    DatabaseOptions log, rollback;
    log.journal = Journal::kWriteAhead;
    rollback.journal = Journal::kRollback;
    {
      const auto database = make(log);
      QVERIFY(database->execute("INSERT INTO t(a) VALUES(1)").ok());
      QCOMPARE(Database::open(path(), {kTable}, rollback).error().code, Code::kUnavailable);
    }
    for (const DatabaseOptions& options : {rollback, log}) {
      const auto database = make(options);
      QCOMPARE(modeOf(*database), std::string(options.journal == log.journal ? "wal" : "delete"));
      QCOMPARE(count(*database), 1);
    }
  }

  // What a writer that was killed left half done is undone where nothing can be written.
  void aReadOnlyFileWithAJournalIsRolledBack() {
    if (::geteuid() != 0) QSKIP("mounting needs root");
    DatabaseOptions options;
    options.journal = Journal::kRollback;
    const QByteArray copy = folder_->filePath("copy").toUtf8();
    {
      const auto database = make(options);
      QVERIFY(database->execute("INSERT INTO t(d) VALUES(zeroblob(100000))").ok());
      // A small cache: what is not committed is already in the file.
      QVERIFY(database->execute("PRAGMA cache_size=2").ok());
      Transaction transaction(*database);
      QVERIFY(database->execute("UPDATE t SET d=randomblob(200000)").ok());
      QVERIFY(QDir().mkpath(copy));
      for (const char* file : {"a.db", "a.db-journal"})
        QVERIFY(QFile::copy(folder_->filePath(file), copy + "/" + file));
    }
    if (::mount(copy, copy, nullptr, MS_BIND, nullptr) != 0) QSKIP("nothing can be mounted here");
    const auto unmount = qScopeGuard([&] { ::umount2(copy, MNT_DETACH); });
    QCOMPARE(::mount(nullptr, copy, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
    const auto opened = Database::open(copy.toStdString() + "/a.db", {kTable});
    QVERIFY2(opened.ok(), textOf(opened.status()).c_str());
    Statement row(**opened, "SELECT d = zeroblob(100000) FROM t");
    QVERIFY(row.step() && row.integer(0) == 1);
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
  std::unique_ptr<Database> make(DatabaseOptions options = {}) {
    auto database = Database::open(path(), {kTable}, std::move(options));
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
