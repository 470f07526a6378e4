#include "agent/supervisor/spool_file.h"

#include <sqlite3.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "agent/supervisor/outline.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kLevels = 8;
constexpr Nanoseconds kWindow = 16'000'000'000;  // of level 1
constexpr int kFold = 16;                        // windows that become one
constexpr std::int64_t kRowBytes = 32;           // of the file, besides a row's body
constexpr std::int64_t kWindowShare = 64;        // a window's greatest part of the limit
// Upper limit of numbers read from a file; real records never reach it.
constexpr std::int64_t kHighestSequence = std::numeric_limits<std::int64_t>::max() / 2;

class Statement {
 public:
  Statement(sqlite3* db, const char* sql) { sqlite3_prepare_v2(db, sql, -1, &handle_, nullptr); }
  ~Statement() { sqlite3_finalize(handle_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Statement& bind(int at, std::int64_t value) {
    sqlite3_bind_int64(handle_, at, value);
    return *this;
  }
  Statement& bind(int at, std::uint64_t value) {
    return bind(at, static_cast<std::int64_t>(value));
  }
  Statement& bind(int at, const std::string& value, bool blob) {
    const int size = static_cast<int>(value.size());
    if (blob)
      sqlite3_bind_blob(handle_, at, value.data(), size, SQLITE_STATIC);
    else
      sqlite3_bind_text(handle_, at, value.data(), size, SQLITE_STATIC);
    return *this;
  }
  int step() { return sqlite3_step(handle_); }
  void reset() { sqlite3_reset(handle_); }
  std::int64_t integer(int column) { return sqlite3_column_int64(handle_, column); }
  std::uint64_t number(int column) { return static_cast<std::uint64_t>(integer(column)); }
  std::string bytes(int column) {
    const void* data = sqlite3_column_blob(handle_, column);
    const int size = sqlite3_column_bytes(handle_, column);
    return data == nullptr
               ? std::string()
               : std::string(static_cast<const char*>(data), static_cast<std::size_t>(size));
  }

 private:
  sqlite3_stmt* handle_ = nullptr;
};

Error sqliteError(sqlite3* db, Message what) {
  Error error;
  const int code = sqlite3_errcode(db) & 0xff;
  error.code = code == SQLITE_FULL || code == SQLITE_IOERR       ? Code::kResourceExhausted
               : code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? Code::kDataLoss
                                                                 : Code::kInternal;
  error.what = std::move(what);
  error.why = sqlite3_errmsg(db);
  if (error.code == Code::kResourceExhausted)
    error.next = "free space on the disk of the node's workdir";
  return error;
}

Status execute(sqlite3* db, const std::string& sql) {
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return sqliteError(db, "cannot write the spool");
  return {};
}

// Checks record numbers read from the file.
Status checkRange(const std::string& path, std::int64_t first, std::int64_t last) {
  if (first >= 1 && last >= first && last <= kHighestSequence) return {};
  Error error = makeError(Code::kDataLoss, "the spool {} is damaged", path);
  error.why = message("its record numbers, {} to {}, are out of range", first, last);
  return error;
}

// A statement that returns nothing.
Status run(sqlite3* db, Statement& statement) {
  Status status;
  if (statement.step() != SQLITE_DONE) status = sqliteError(db, "cannot write the spool");
  statement.reset();  // under way it would keep the transaction open
  return status;
}

SpoolFile::Row rowOf(Statement& statement) {
  return {statement.number(0), statement.integer(1), statement.bytes(2)};
}

std::int64_t sizeOf(const std::vector<SpoolFile::Row>& rows) {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0},
                         [](std::int64_t sum, const SpoolFile::Row& row) {
                           return sum + static_cast<std::int64_t>(row.bytes.size()) + kRowBytes;
                         });
}

Nanoseconds windowOf(std::size_t level) {
  Nanoseconds out = kWindow;
  for (std::size_t i = 0; i < level; ++i) out *= kFold;
  return out;
}

// Without times.
std::vector<SpoolFile::Row> outlineOfRows(const std::vector<SpoolFile::Row>& rows) {
  std::vector<run::v1::Record> records;
  for (const SpoolFile::Row& row : rows)
    if (run::v1::Record record; record.ParseFromString(row.bytes))
      records.push_back(std::move(record));
  std::vector<SpoolFile::Row> out;
  for (const run::v1::Record& record : outlineOf(std::move(records)))
    out.push_back({record.sequence(), 0, record.SerializeAsString()});
  return out;
}

}  // namespace

struct SpoolFile::Statements {
  explicit Statements(sqlite3* db)
      : insert(db, "INSERT OR REPLACE INTO records(seq,wall,body,level) VALUES(?,?,?,?)"),
        lose(db, "INSERT OR REPLACE INTO lost VALUES(?,?,?)") {}
  Statement insert, lose;
};

Result<std::unique_ptr<SpoolFile>> SpoolFile::open(const std::string& path, std::int64_t limitBytes,
                                                   std::int64_t maxPages) {
  std::unique_ptr<SpoolFile> file(new SpoolFile(path, limitBytes));
  LOCKSTEP_TRY(file->openFile(maxPages));
  return file;
}

SpoolFile::SpoolFile(std::string path, std::int64_t limitBytes)
    : path_(std::move(path)), limitBytes_(limitBytes) {}

SpoolFile::~SpoolFile() {
  statements_.reset();
  sqlite3_close_v2(reader_);
  sqlite3_close_v2(writer_);
}

Status SpoolFile::openFile(std::int64_t maxPages) {
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path_.c_str(), &writer_, kFlags, nullptr) != SQLITE_OK)
    return sqliteError(writer_, message("cannot open the spool {}", path_));
  sqlite3_busy_timeout(writer_, 5000);
  LOCKSTEP_TRY(execute(writer_,
                       "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                       "CREATE TABLE IF NOT EXISTS records(seq INTEGER PRIMARY KEY, wall INTEGER "
                       "NOT NULL, body BLOB NOT NULL);"
                       "CREATE TABLE IF NOT EXISTS lost(first INTEGER PRIMARY KEY, last INTEGER "
                       "NOT NULL, why TEXT NOT NULL);"));
  if (maxPages > 0)
    LOCKSTEP_TRY(execute(writer_, fmt::format("PRAGMA max_page_count={};", maxPages)));
  std::int64_t version = 0;
  {
    Statement found(writer_, "PRAGMA user_version");
    if (found.step() == SQLITE_ROW) version = found.integer(0);
  }
  if (version < 2)
    LOCKSTEP_TRY(
        execute(writer_,
                "BEGIN; ALTER TABLE records ADD COLUMN level INTEGER NOT NULL DEFAULT 0; PRAGMA "
                "user_version=2; COMMIT"));
  statements_ = std::make_unique<Statements>(writer_);
  if (sqlite3_open_v2(path_.c_str(), &reader_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK)
    return sqliteError(reader_, message("cannot open the spool {}", path_));
  sqlite3_busy_timeout(reader_, 5000);
  return countLevels();
}

Status SpoolFile::countLevels() {
  levels_.assign(kLevels, {});
  Statement levels(writer_,
                   "SELECT level, min(seq), max(seq), sum(length(body)), count(*) FROM records "
                   "GROUP BY level");
  int result = SQLITE_OK;
  while ((result = levels.step()) == SQLITE_ROW) {
    const auto at = static_cast<std::size_t>(levels.integer(0));
    LOCKSTEP_TRY(checkRange(path_, levels.integer(1), levels.integer(2)));
    if (at >= kLevels) continue;
    levels_[at] = {levels.integer(3) + levels.integer(4) * kRowBytes, levels.number(1)};
    if (at > 0) thinnedTo_ = std::max(thinnedTo_.load(), levels.number(2));
  }
  return result == SQLITE_DONE ? Status()
                               : sqliteError(writer_, message("cannot read the spool {}", path_));
}

Result<std::vector<SpoolFile::Lost>> SpoolFile::lost() {
  std::lock_guard lock(writeMutex_);
  std::vector<Lost> out;
  Statement rows(writer_, "SELECT first, last, why FROM lost ORDER BY first");
  int result = SQLITE_OK;
  while ((result = rows.step()) == SQLITE_ROW) {
    LOCKSTEP_TRY(checkRange(path_, rows.integer(0), rows.integer(1)));
    out.push_back({rows.number(0), rows.number(1), rows.bytes(2)});
  }
  if (result != SQLITE_DONE)
    return sqliteError(writer_, message("cannot read the spool {}", path_));
  return out;
}

Result<std::optional<SpoolFile::Row>> SpoolFile::newest() {
  std::lock_guard lock(writeMutex_);
  Statement row(writer_, "SELECT seq, wall, body FROM records ORDER BY seq DESC LIMIT 1");
  switch (row.step()) {
    case SQLITE_ROW:
      return std::optional(rowOf(row));
    case SQLITE_DONE:
      return std::optional<Row>();
    default:
      return sqliteError(writer_, message("cannot read the spool {}", path_));
  }
}

// Calls `work`, with writeMutex_ held, in a transaction.
Status SpoolFile::transact(const std::function<Status()>& work) {
  LOCKSTEP_TRY(execute(writer_, "BEGIN IMMEDIATE"));
  Status done = work();
  if (done.ok()) done = execute(writer_, "COMMIT");
  if (!done.ok()) sqlite3_exec(writer_, "ROLLBACK", nullptr, nullptr, nullptr);
  return done;
}

Status SpoolFile::insert(const std::vector<Row>& rows, std::size_t level) {
  Statement& add = statements_->insert;
  for (const Row& row : rows) {
    add.bind(1, row.sequence).bind(2, row.wall).bind(3, row.bytes, true);
    LOCKSTEP_TRY(run(writer_, add.bind(4, std::uint64_t{level})));
  }
  return {};
}

Status SpoolFile::insert(const Lost& lost) {
  Statement& add = statements_->lose;
  return run(writer_, add.bind(1, lost.from).bind(2, lost.to).bind(3, lost.why, false));
}

Status SpoolFile::commit(const std::vector<Row>& rows, const std::vector<Lost>& lost) {
  std::lock_guard lock(writeMutex_);
  LOCKSTEP_TRY(transact([&]() -> Status {
    LOCKSTEP_TRY(insert(rows, 0));
    for (const Lost& one : lost) LOCKSTEP_TRY(insert(one));
    return {};
  }));
  levels_[0].bytes += sizeOf(rows);
  if (levels_[0].first == 0 && !rows.empty()) levels_[0].first = rows.front().sequence;
  return {};
}

std::vector<SpoolFile::Row> SpoolFile::read(std::uint64_t after, std::size_t count) {
  std::vector<Row> out;
  std::lock_guard lock(readMutex_);
  Statement rows(reader_, "SELECT seq, wall, body FROM records WHERE seq > ? ORDER BY seq LIMIT ?");
  rows.bind(1, after).bind(2, std::uint64_t{count});
  while (rows.step() == SQLITE_ROW) out.push_back(rowOf(rows));
  return out;
}

std::int64_t SpoolFile::bytes() const {
  std::lock_guard lock(writeMutex_);
  return std::accumulate(levels_.begin(), levels_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Level& level) { return sum + level.bytes; });
}

// Returns the oldest rows of a level that become one window of the next, and the first row after
// them.
Result<SpoolFile::Window> SpoolFile::oldestWindow(std::size_t level) {
  Window out;
  const Nanoseconds width = windowOf(level);
  std::int64_t bytes = 0;
  Statement rows(writer_, "SELECT seq, wall, body, level FROM records WHERE seq >= ? ORDER BY seq");
  rows.bind(1, levels_[level].first);
  int result = SQLITE_OK;
  while ((result = rows.step()) == SQLITE_ROW && rows.number(3) == level) {
    Row row = rowOf(rows);
    // A window of the level below is not split: its rows have the same time.
    const bool between = out.rows.empty() || level == 0 || row.wall != out.rows.back().wall;
    if (!out.rows.empty() && (row.wall / width != out.rows.front().wall / width ||
                              (between && bytes > limitBytes_ / kWindowShare))) {
      out.next = row.sequence;
      return out;
    }
    bytes += static_cast<std::int64_t>(row.bytes.size()) + kRowBytes;
    out.rows.push_back(std::move(row));
  }
  if (result != SQLITE_ROW && result != SQLITE_DONE)
    return sqliteError(writer_, message("cannot read the spool {}", path_));
  return out;
}

Status SpoolFile::replace(std::size_t level, const Window& window) {
  std::vector<Row> outline = outlineOfRows(window.rows);
  for (Row& row : outline) row.wall = window.rows.front().wall;  // marks the window
  LOCKSTEP_TRY(transact([&]() -> Status {
    LOCKSTEP_TRY(
        execute(writer_, fmt::format("DELETE FROM records WHERE seq BETWEEN {} AND {}",
                                     window.rows.front().sequence, window.rows.back().sequence)));
    return insert(outline, level + 1);
  }));
  levels_[level].bytes -= sizeOf(window.rows);
  levels_[level].first = window.next;
  Level& into = levels_[level + 1];
  into.bytes += sizeOf(outline);
  if (into.first == 0 && !outline.empty()) into.first = outline.front().sequence;
  return {};
}

// Removes a range that begins with the first record, and notes it as lost.
Status SpoolFile::remove(const Lost& range) {
  LOCKSTEP_TRY(transact([&]() -> Status {
    LOCKSTEP_TRY(execute(writer_, fmt::format("DELETE FROM records WHERE seq <= {}", range.to)));
    return insert(range);
  }));
  return countLevels();
}

// Removes the oldest records and returns their range.
Result<std::optional<SpoolFile::Lost>> SpoolFile::removeOldest() {
  std::int64_t bytes = 0;
  Lost out{1, 0, "the spool was full"};
  {
    Statement rows(writer_, "SELECT seq, length(body) FROM records ORDER BY seq");
    while (bytes <= limitBytes_ / 10 && rows.step() == SQLITE_ROW) {
      out.to = rows.number(0);
      bytes += rows.integer(1) + kRowBytes;
    }
  }
  LOCKSTEP_TRY(remove(out));
  return std::optional(std::move(out));
}

Result<std::optional<SpoolFile::Lost>> SpoolFile::thin() {
  std::lock_guard lock(writeMutex_);
  std::vector<std::size_t> order(kLevels - 1);  // most past its share first
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto excess = [&](std::size_t at) { return levels_[at].bytes - (limitBytes_ >> (at + 1)); };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return excess(a) > excess(b); });
  for (const std::size_t level : order) {
    if (levels_[level].first == 0) continue;
    LOCKSTEP_ASSIGN(const Window window, oldestWindow(level));
    if (window.next == 0) continue;
    // Set before the rows are replaced: a reader must not take a gap for a loss.
    thinnedTo_ = std::max(thinnedTo_.load(), window.rows.back().sequence);
    LOCKSTEP_TRY(replace(level, window));
    return std::optional<Lost>();
  }
  return removeOldest();
}

Result<std::optional<SpoolFile::Lost>> SpoolFile::expire(Nanoseconds wall) {
  std::lock_guard lock(writeMutex_);
  Lost out{1, 0, "past the spool's age limit"};
  {
    Statement rows(writer_, "SELECT seq, wall FROM records ORDER BY seq");
    while (rows.step() == SQLITE_ROW && rows.integer(1) < wall) out.to = rows.number(0);
  }
  if (out.to == 0) return std::optional<Lost>();
  LOCKSTEP_TRY(remove(out));
  return std::optional(std::move(out));
}

}  // namespace lockstep::agent
