#include "app/history/sqlite.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

namespace lockstep::app {

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  check(sqlite3_prepare_v2(database.handle(), sql.data(), static_cast<int>(sql.size()), &statement_,
                           nullptr));
}

void Statement::check(int result) {
  if (result != SQLITE_OK && result != SQLITE_ROW && result != SQLITE_DONE && status_.ok())
    status_ = database_.error(result);
}
Statement& Statement::bind(std::int64_t value) {
  check(sqlite3_bind_int64(statement_, ++bound_, value));
  return *this;
}
Statement& Statement::bind(double value) {
  check(sqlite3_bind_double(statement_, ++bound_, value));
  return *this;
}
Statement& Statement::bind(std::string_view value) {
  check(sqlite3_bind_text64(statement_, ++bound_, value.data() == nullptr ? "" : value.data(),
                            value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}
Statement& Statement::bindBlob(std::span<const std::byte> value) {
  check(sqlite3_bind_blob64(statement_, ++bound_, value.data(), value.size(), SQLITE_TRANSIENT));
  return *this;
}

bool Statement::step() {
  if (!status_.ok()) return false;
  const int result = sqlite3_step(statement_);
  check(result);
  return result == SQLITE_ROW;
}

Status Statement::run() {
  while (step()) {
  }
  Status out = status_;
  status_ = {};
  sqlite3_reset(statement_);
  bound_ = 0;
  return out;
}

double Statement::number(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL)
    return std::numeric_limits<double>::quiet_NaN();
  return sqlite3_column_double(statement_, column);
}
std::string Statement::text(int column) const {
  const auto* data = sqlite3_column_text(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return data == nullptr
             ? std::string()
             : std::string(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
}
std::span<const std::byte> Statement::blob(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  return {static_cast<const std::byte*>(data),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

namespace {

bool onReadOnlyFileSystem(const std::string& path) {
  struct statvfs info {};
  return statvfs(path.c_str(), &info) == 0 && (info.f_flag & ST_RDONLY) != 0;
}

// Opens a file that nobody writes, without the files that writers and readers share.
std::string immutableUri(const std::string& path) {
  std::string out = "file:";
  for (const char c : path)
    out += c == '%' || c == '?' || c == '#' ? fmt::format("%{:02x}", c) : std::string(1, c);
  return out + "?immutable=1";
}

// A temporary folder, removed with all it holds.
struct TemporaryFolder {
  std::string path;
  TemporaryFolder() = default;
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
};

// Copies a database and its write-ahead log, which an immutable database would ignore, and merges
// them. Returns the copy's path.
Result<std::string> mergedCopy(const std::string& path, TemporaryFolder& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::string name = fs::temp_directory_path(error).string() + "/lockstep-history-XXXXXX";
  if (error || mkdtemp(name.data()) == nullptr)
    return systemError(error ? error.value() : errno,
                       message("cannot create a folder for a copy of {}", path));
  folder.path = name;
  std::string copy = name + "/copy.db";
  fs::copy_file(path, copy, error);
  if (!error) fs::copy_file(path + "-wal", copy + "-wal", error);
  if (error) return systemError(error.value(), message("cannot copy {} and its log", path));
  fs::permissions(copy, fs::perms::owner_read | fs::perms::owner_write, error);
  fs::permissions(copy + "-wal", fs::perms::owner_read | fs::perms::owner_write, error);
  sqlite3* handle = nullptr;
  int merged = sqlite3_open_v2(copy.c_str(), &handle, SQLITE_OPEN_READWRITE, nullptr);
  if (merged == SQLITE_OK)
    merged = sqlite3_exec(handle, "PRAGMA wal_checkpoint(TRUNCATE)", nullptr, nullptr, nullptr);
  sqlite3_close(handle);
  if (merged == SQLITE_OK) return copy;
  Error failed = makeError(Code::kDataLoss, "cannot use {}", path);
  failed.why = message("its write-ahead log cannot be merged: {}", sqlite3_errstr(merged));
  return failed;
}

}  // namespace

Result<std::unique_ptr<Database>> Database::open(const std::string& path,
                                                 const std::vector<std::string_view>& schema) {
  const std::int64_t version = std::ssize(schema);
  std::unique_ptr<Database> database(new Database);
  database->path_ = path;
  const bool readOnly = onReadOnlyFileSystem(path);
  const int access = readOnly ? SQLITE_OPEN_READONLY | SQLITE_OPEN_URI
                              : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  struct stat info {};
  std::string file = path;
  TemporaryFolder copies;  // an open file outlives its name
  if (readOnly && stat((path + "-wal").c_str(), &info) == 0 && info.st_size > 0) {
    LOCKSTEP_ASSIGN(file, mergedCopy(path, copies));
  }
  const int opened = sqlite3_open_v2((readOnly ? immutableUri(file) : file).c_str(),
                                     &database->handle_, access | SQLITE_OPEN_NOMUTEX, nullptr);
  if (opened != SQLITE_OK) return database->error(opened);
  sqlite3_busy_timeout(database->handle_, 5000);
  if (!readOnly)
    LOCKSTEP_TRY(database->execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"));
  const auto number = [&](std::string_view pragma) -> Result<std::int64_t> {
    Statement statement(*database, pragma);
    if (!statement.step()) return statement.status().error();
    return statement.integer(0);
  };
  const auto found = [&] { return number("PRAGMA user_version"); };
  LOCKSTEP_ASSIGN(std::int64_t current, found());
  // A page that is cut off would be read as zeros.
  LOCKSTEP_ASSIGN(const std::int64_t page, number("PRAGMA page_size"));
  if (stat(file.c_str(), &info) == 0 && info.st_size % page != 0) {
    Error error = makeError(Code::kDataLoss, "cannot use {}", path);
    error.why = "the file is truncated";
    return error;
  }
  if (current > version) {
    Error error = makeError(Code::kFailedPrecondition, "{} was written by a newer Lockstep", path);
    error.next = "use that version, or another --home";
    return error;
  }
  if (current < version) {
    Transaction transaction(*database);
    LOCKSTEP_TRY(transaction.status());
    LOCKSTEP_ASSIGN(current, found());  // another process may have been quicker
    for (; current < version; ++current)
      LOCKSTEP_TRY(database->execute(std::string(schema.begin()[current])));
    LOCKSTEP_TRY(database->execute(fmt::format("PRAGMA user_version={}", version)));
    LOCKSTEP_TRY(transaction.commit());
  }
  return database;
}

Status Database::execute(const std::string& sql) {
  const int result = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? Status() : Status(error(result));
}

Error Database::error(int result) const {
  Code code = Code::kInternal;
  std::string next;
  switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      code = Code::kUnavailable;
      break;
    case SQLITE_FULL:
      code = Code::kResourceExhausted;
      next = "free disk space";
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_IOERR:
      code = Code::kDataLoss;
      break;
    case SQLITE_CANTOPEN:
      code = Code::kNotFound;
      break;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      code = Code::kPermissionDenied;
      next = "make it writable, or use another --home";
      break;
    default:
      break;
  }
  Error error = makeError(code, "cannot use {}", path_);
  error.why = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(result);
  if (const int cause = handle_ != nullptr ? sqlite3_system_errno(handle_) : 0;
      code == Code::kNotFound && cause != 0)
    error.why = message("{}: {}", error.why, std::strerror(cause));
  error.next = next;
  return error;
}

}  // namespace lockstep::app
