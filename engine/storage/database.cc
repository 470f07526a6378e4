#include "engine/storage/database.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include "engine/base/file_system.h"

namespace lockstep::storage {

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  check(sqlite3_prepare_v2(database.handle_, sql.data(), static_cast<int>(sql.size()), &statement_,
                           nullptr));
}

Statement::~Statement() { sqlite3_finalize(statement_); }

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
  check(sqlite3_bind_blob64(statement_, ++bound_,
                            value.data() == nullptr ? static_cast<const void*>("") : value.data(),
                            value.size(), SQLITE_TRANSIENT));
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

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
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

// Copies a database and its log or journal, which an immutable database would ignore, and merges
// them. Returns the copy's path.
Result<std::string> mergedCopy(const std::string& path, const std::string& ending,
                               TemporaryFolder& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::string name = fs::temp_directory_path(error).string() + "/lockstep-database-XXXXXX";
  if (error || mkdtemp(name.data()) == nullptr)
    return systemError(error ? error.value() : errno,
                       message("cannot create a folder for a copy of {}", path));
  folder.path = name;
  std::string copy = name + "/copy.db";
  fs::copy_file(path, copy, error);
  if (!error) fs::copy_file(path + ending, copy + ending, error);
  if (error) return systemError(error.value(), message("cannot copy {} and its log", path));
  fs::permissions(copy, fs::perms::owner_read | fs::perms::owner_write, error);
  fs::permissions(copy + ending, fs::perms::owner_read | fs::perms::owner_write, error);
  sqlite3* handle = nullptr;
  int merged = sqlite3_open_v2(copy.c_str(), &handle, SQLITE_OPEN_READWRITE, nullptr);
  if (merged == SQLITE_OK)
    merged = sqlite3_exec(handle, "PRAGMA user_version; PRAGMA wal_checkpoint(TRUNCATE)", nullptr,
                          nullptr, nullptr);  // reading rolls a journal back
  sqlite3_close(handle);
  if (merged == SQLITE_OK) return copy;
  Error failed = makeError(Code::kDataLoss, "cannot use {}", path);
  failed.why = message("its log cannot be merged: {}", sqlite3_errstr(merged));
  return failed;
}

}  // namespace

Database::Database(std::string path, DatabaseOptions options)
    : path_(std::move(path)), options_(std::move(options)) {
  if (options_.what.empty()) options_.what = message("cannot use {}", path_);
}

Database::~Database() { sqlite3_close(handle_); }

Result<std::unique_ptr<Database>> Database::open(const std::string& path,
                                                 const std::vector<std::string_view>& schema,
                                                 DatabaseOptions options) {
  std::unique_ptr<Database> database(new Database(path, std::move(options)));
  std::string file = path;
  LOCKSTEP_TRY(database->checkKind());
  TemporaryFolder copies;  // an open file outlives its name
  if (onReadOnlyFileSystem(path)) {
    for (const char* ending : {"-wal", "-journal"})
      if (struct stat log{}; stat((path + ending).c_str(), &log) == 0 && log.st_size > 0) {
        LOCKSTEP_ASSIGN(file, mergedCopy(path, ending, copies));
        break;
      }
    LOCKSTEP_TRY(database->connect(immutableUri(file), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI));
  } else {
    const int create = database->options_.create ? SQLITE_OPEN_CREATE : 0;
    LOCKSTEP_TRY(database->connect(file, SQLITE_OPEN_READWRITE | create));
    LOCKSTEP_TRY(database->setJournal());
    if (const std::int64_t limit = database->options_.maxPages; limit > 0)
      LOCKSTEP_TRY(database->execute(fmt::format("PRAGMA max_page_count={}", limit)));
  }
  if (database->options_.rejectTruncated) LOCKSTEP_TRY(database->checkSize(file));
  LOCKSTEP_TRY(database->migrate(schema));
  return database;
}

// Returns kDataLoss if the path is a folder, a pipe or the like.
Status Database::checkKind() const {
  struct stat info {};
  if (stat(path_.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return {};
  Error error = makeError(Code::kDataLoss, "cannot use {}", path_);
  error.why = S_ISDIR(info.st_mode) ? "it is a folder" : "it is not a regular file";
  return error;
}

Status Database::connect(const std::string& file, int flags) {
  const int result = sqlite3_open_v2(file.c_str(), &handle_, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (result != SQLITE_OK) {
    Error failed = error(result);
    std::error_code ignored;
    if (std::filesystem::is_symlink(path_, ignored) && !std::filesystem::exists(path_, ignored)) {
      failed.why = "it is a link to a file that is not there";
      failed.next = "make that file available, or remove the link";
    }
    return failed;
  }
  sqlite3_busy_timeout(handle_, 5000);
  return {};
}

Status Database::setJournal() {
  const Journal journal = options_.journal.value_or(isLocalFilesystem(path_) ? Journal::kWriteAhead
                                                                             : Journal::kRollback);
  return execute(journal == Journal::kWriteAhead
                     ? "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"
                     : "PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL");
}

// Returns kDataLoss if the file ends within a page.
Status Database::checkSize(const std::string& file) {
  LOCKSTEP_ASSIGN(const std::int64_t page, number("PRAGMA page_size"));
  struct stat info {};
  if (stat(file.c_str(), &info) != 0 || info.st_size % page == 0) return {};
  Error error = makeError(Code::kDataLoss, "cannot use {}", path_);
  error.why = "the file is truncated";
  return error;
}

Status Database::migrate(const std::vector<std::string_view>& schema) {
  const std::int64_t version = std::ssize(schema);
  std::int64_t current = 0;
  const auto readCurrent = [&]() -> Status {
    LOCKSTEP_ASSIGN(current, number("PRAGMA user_version"));
    if (current >= 0 && current <= version) return {};
    Error error = makeError(Code::kFailedPrecondition, "{} was written by a newer Lockstep", path_);
    error.next = options_.ifNewer;
    return error;
  };
  LOCKSTEP_TRY(readCurrent());
  if (current == version) return {};
  if (current == 0 && !options_.create) {
    Error error = makeError(Code::kDataLoss, "cannot use {}", path_);
    error.why = "the file is empty";
    return error;
  }
  Transaction transaction(*this);
  LOCKSTEP_TRY(transaction.status());
  LOCKSTEP_TRY(readCurrent());  // another process may have been quicker
  made_ = current == 0;
  for (; current < version; ++current) LOCKSTEP_TRY(execute(std::string(schema.begin()[current])));
  LOCKSTEP_TRY(execute(fmt::format("PRAGMA user_version={}", version)));
  return transaction.commit();
}

Status Database::check(const std::string& path) {
  Database database(path, {.ioError = Code::kUnavailable});
  const Status found = [&]() -> Status {
    LOCKSTEP_TRY(database.checkKind());
    LOCKSTEP_TRY(database.connect(path, SQLITE_OPEN_READWRITE));
    LOCKSTEP_TRY(database.checkSize(path));
    Statement check(database, "PRAGMA quick_check(1)");
    if (!check.step()) return check.status();
    const std::string answer = check.text(0);
    if (answer == "ok") return {};
    Error damage = makeError(Code::kDataLoss, "cannot use {}", path);
    damage.why = answer;
    return damage;
  }();
  if (found.ok()) return {};
  Error error = found.code() == Code::kDataLoss
                    ? makeError(Code::kDataLoss, "{} is damaged", path)
                    : makeError(Code::kUnavailable, "cannot check {}", path);
  error.why = found.error().why;
  error.next = found.error().next;
  return error;
}

Status Database::execute(const std::string& sql) {
  const int result = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? Status() : Status(error(result));
}

std::int64_t Database::lastRowId() const { return sqlite3_last_insert_rowid(handle_); }

Result<std::int64_t> Database::number(std::string_view pragma) {
  Statement statement(*this, pragma);
  if (!statement.step()) return statement.status().error();
  return statement.integer(0);
}

Error Database::error(int result) const {
  const int failed = errno, kind = result & 0xff;
  // sqlite3_system_errno() is not set by a failed write to the log.
  const int cause = kind == SQLITE_IOERR                            ? failed
                    : kind == SQLITE_CANTOPEN && handle_ != nullptr ? sqlite3_system_errno(handle_)
                                                                    : 0;
  // SQLITE_FULL is a write without space, but neither one beyond a quota nor a file that cannot be
  // made or extended.
  const bool noSpace = cause == ENOSPC || cause == EDQUOT;
  Error error;
  switch (kind) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      error.code = Code::kUnavailable;
      break;
    case SQLITE_FULL:
      error.code = Code::kResourceExhausted;
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      error.code = Code::kDataLoss;
      break;
    case SQLITE_IOERR:
      error.code = options_.ioError;
      break;
    case SQLITE_CANTOPEN:
      error.code = Code::kNotFound;
      break;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      error.code = Code::kPermissionDenied;
      break;
    default:
      break;
  }
  if (noSpace) error.code = Code::kResourceExhausted;
  error.what = options_.what;
  error.why = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(result);
  if (cause != 0 && (noSpace || kind == SQLITE_CANTOPEN))
    error.why = message("{}: {}", error.why, std::strerror(cause));
  if (error.code == Code::kResourceExhausted) error.next = options_.ifFull;
  if (error.code == Code::kPermissionDenied) error.next = options_.ifReadOnly;
  return error;
}

}  // namespace lockstep::storage
