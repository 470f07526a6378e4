// RAII wrappers of SQLite connections and statements; errors as Status.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

class Database;

// A prepared statement, bound left to right from 1. Valid while its database is.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  Statement& bind(std::int64_t value);
  Statement& bind(int value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(double value);
  Statement& bind(std::string_view value);  // text
  Statement& bindBlob(std::span<const std::byte> value);

  // Returns true if there is a row; false at the end or on an error, see status().
  bool step();
  Status run();  // to the end, then ready to be bound again
  const Status& status() const { return status_; }

  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
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

class Database {
 public:
  // Opens a database in WAL mode, with a busy timeout of five seconds. Each entry of `schema`
  // migrates the file from one user_version to the next, starting at 0. kFailedPrecondition if a
  // newer version wrote it. On a read-only file system, opens it for reading.
  static Result<std::unique_ptr<Database>> open(const std::string& path,
                                                const std::vector<std::string_view>& schema);
  ~Database() { sqlite3_close(handle_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Status execute(const std::string& sql);
  Error error(int result) const;
  sqlite3* handle() { return handle_; }

 private:
  Database() = default;
  std::string path_;
  sqlite3* handle_ = nullptr;
};

// A transaction (BEGIN IMMEDIATE), rolled back unless commit() is called.
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

}  // namespace lockstep::app
