// SQLite databases: connections, prepared statements and transactions; errors as Status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace lockstep::storage {

// A write-ahead log lets readers and a writer work at the same time, on one host. With a rollback
// journal they wait for each other, also those of several hosts.
enum class Journal : std::uint8_t { kWriteAhead, kRollback };

struct DatabaseOptions {
  // Whether open() makes a database where there is none. Otherwise a missing file is kNotFound and
  // an empty one kDataLoss.
  bool create = true;
  std::int64_t maxPages = 0;  // size limit of the file; 0: unlimited
  // Whether a file that ends within a page is kDataLoss. SQLite reads what is missing as zeros.
  bool rejectTruncated = true;
  // A write-ahead log on a local file system, a rollback journal on a network's, unless given.
  std::optional<Journal> journal;
  // code of reads and writes that the operating system fails, but for want of space
  Code ioError = Code::kDataLoss;
  Message what;  // Error::what; "cannot use PATH" if empty
  // Error::next where the disk is full, the file cannot be written, a newer version wrote it.
  Message ifFull = message("free disk space"), ifReadOnly, ifNewer;
};

// A connection to a database. Not thread-safe.
class Database {
 public:
  // Opens a database with a busy timeout of five seconds. Each entry of `schema` migrates the file
  // from one user_version to the next, starting at 0. kFailedPrecondition if a newer version wrote
  // it, kDataLoss if it is damaged or no file, kUnavailable if another process has it open with
  // another journal. On a read-only file system, opens it for reading.
  static Result<std::unique_ptr<Database>> open(const std::string& path,
                                                const std::vector<std::string_view>& schema,
                                                DatabaseOptions options = {});
  // Returns kDataLoss if the database at `path` is damaged (SQLite's quick_check), kUnavailable if
  // it cannot be checked. Reads all of it: about a second per GB.
  static Status check(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  bool made() const { return made_; }  // whether open() made it: the file was missing or empty
  Status execute(const std::string& sql);
  std::int64_t lastRowId() const;  // of the last INSERT

 private:
  friend class Statement;
  Database(std::string path, DatabaseOptions options);
  Status checkKind() const;
  Status connect(const std::string& file, int flags);
  Status setJournal();
  Status checkSize(const std::string& file);
  Status migrate(const std::vector<std::string_view>& schema);
  Result<std::int64_t> number(std::string_view pragma);
  Error error(int result) const;  // of the call that has just failed

  const std::string path_;
  DatabaseOptions options_;
  sqlite3* handle_ = nullptr;
  bool made_ = false;
};

// A prepared statement, bound left to right from 1. Valid while its database is.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  Statement& bind(std::int64_t value);
  Statement& bind(int value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(std::uint64_t value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(double value);
  Statement& bind(std::string_view value);  // text
  Statement& bindBlob(std::span<const std::byte> value);

  // Returns true if there is a row; false at the end or on an error, see status().
  bool step();
  Status run();  // to the end, then ready to be bound again
  const Status& status() const { return status_; }

  std::int64_t integer(int column) const;
  double number(int column) const;  // NaN for NULL, as which SQLite keeps NaN
  std::string text(int column) const;
  std::span<const std::byte> blob(int column) const;  // until the next step

 private:
  void check(int result);
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
  Status status_;
};

// A transaction (BEGIN IMMEDIATE), rolled back unless commit() succeeds.
class Transaction {
 public:
  explicit Transaction(Database& database)
      : database_(database), status_(database.execute("BEGIN IMMEDIATE")) {}
  ~Transaction() {
    if (open()) (void)database_.execute("ROLLBACK");
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  const Status& status() const { return status_; }
  Status commit() {
    Status done = database_.execute("COMMIT");
    committed_ = done.ok();
    return done;
  }

 private:
  bool open() const { return status_.ok() && !committed_; }
  Database& database_;
  Status status_;
  bool committed_ = false;
};

}  // namespace lockstep::storage
