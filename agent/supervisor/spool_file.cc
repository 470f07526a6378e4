#include "agent/supervisor/spool_file.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "agent/supervisor/outline.h"
#include "engine/storage/database.h"

namespace lockstep::agent {
namespace {

using storage::Database;
using storage::Statement;
using storage::Transaction;

constexpr std::size_t kLevels = 8;
constexpr Nanoseconds kWindow = 16'000'000'000;  // of level 1
constexpr int kFold = 16;                        // windows that become one
constexpr std::int64_t kRowBytes = 32;           // of the file, besides a row's body
constexpr std::int64_t kWindowShare = 64;        // a window's greatest part of the limit
// Upper limit of numbers read from a file; real records never reach it.
constexpr std::int64_t kHighestSequence = std::numeric_limits<std::int64_t>::max() / 2;

constexpr std::string_view kSchema =
    "CREATE TABLE IF NOT EXISTS records(seq INTEGER PRIMARY KEY, wall INTEGER NOT NULL, body BLOB "
    "NOT NULL);"
    "CREATE TABLE IF NOT EXISTS lost(first INTEGER PRIMARY KEY, last INTEGER NOT NULL, why TEXT "
    "NOT NULL);";
constexpr std::string_view kLevelSchema =
    "ALTER TABLE records ADD COLUMN level INTEGER NOT NULL DEFAULT 0;";

storage::DatabaseOptions databaseOptions(std::int64_t maxPages) {
  storage::DatabaseOptions out;
  out.maxPages = maxPages;
  out.rejectTruncated = false;  // a full disk may cut a page that the log still has
  out.ioError = Code::kResourceExhausted;
  out.what = message("cannot write the spool");
  out.ifFull = message("free space on the disk of the node's workdir");
  return out;
}

// `error` with the text of what failed.
Error withWhat(Error error, Message what) {
  error.what = std::move(what);
  return error;
}

// Checks record numbers read from the file.
Status checkRange(const std::string& path, std::int64_t first, std::int64_t last) {
  if (first >= 1 && last >= first && last <= kHighestSequence) return {};
  Error error = makeError(Code::kDataLoss, "the spool {} is damaged", path);
  error.why = message("its record numbers, {} to {}, are out of range", first, last);
  return error;
}

std::uint64_t sequence(const Statement& row, int column) {
  return static_cast<std::uint64_t>(row.integer(column));
}

SpoolFile::Row rowOf(const Statement& row) {
  const auto body = row.blob(2);
  return {sequence(row, 0), row.integer(1),
          std::string(reinterpret_cast<const char*>(body.data()), body.size())};
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
  explicit Statements(Database& database)
      : insert(database, "INSERT OR REPLACE INTO records(seq,wall,body,level) VALUES(?,?,?,?)"),
        lose(database, "INSERT OR REPLACE INTO lost VALUES(?,?,?)") {}
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

SpoolFile::~SpoolFile() = default;

Status SpoolFile::openFile(std::int64_t maxPages) {
  for (auto* connection : {&writer_, &reader_}) {
    auto opened = Database::open(path_, {kSchema, kLevelSchema}, databaseOptions(maxPages));
    if (!opened.ok())
      return withWhat(std::move(opened.error()), message("cannot open the spool {}", path_));
    *connection = std::move(*opened);
  }
  statements_ = std::make_unique<Statements>(*writer_);
  return countLevels();
}

Status SpoolFile::countLevels() {
  levels_.assign(kLevels, {});
  Statement levels(*writer_,
                   "SELECT level, min(seq), max(seq), sum(length(body)), count(*) FROM records "
                   "GROUP BY level");
  while (levels.step()) {
    const auto at = static_cast<std::size_t>(levels.integer(0));
    LOCKSTEP_TRY(checkRange(path_, levels.integer(1), levels.integer(2)));
    if (at >= kLevels) continue;
    levels_[at] = {levels.integer(3) + levels.integer(4) * kRowBytes, sequence(levels, 1)};
    if (at > 0) thinnedTo_ = std::max(thinnedTo_.load(), sequence(levels, 2));
  }
  return checkRead(levels);
}

Status SpoolFile::checkRead(const Statement& rows) const {
  if (rows.status().ok()) return {};
  return withWhat(rows.status().error(), message("cannot read the spool {}", path_));
}

Result<std::vector<SpoolFile::Lost>> SpoolFile::lost() {
  std::lock_guard lock(writeMutex_);
  std::vector<Lost> out;
  Statement rows(*writer_, "SELECT first, last, why FROM lost ORDER BY first");
  while (rows.step()) {
    LOCKSTEP_TRY(checkRange(path_, rows.integer(0), rows.integer(1)));
    out.push_back({sequence(rows, 0), sequence(rows, 1), rows.text(2)});
  }
  LOCKSTEP_TRY(checkRead(rows));
  return out;
}

Result<std::optional<SpoolFile::Row>> SpoolFile::newest() {
  std::lock_guard lock(writeMutex_);
  Statement row(*writer_, "SELECT seq, wall, body FROM records ORDER BY seq DESC LIMIT 1");
  if (row.step()) return std::optional(rowOf(row));
  LOCKSTEP_TRY(checkRead(row));
  return std::optional<Row>();
}

Status SpoolFile::insert(const std::vector<Row>& rows, std::size_t level) {
  for (const Row& row : rows)
    LOCKSTEP_TRY(statements_->insert.bind(row.sequence)
                     .bind(row.wall)
                     .bindBlob(std::as_bytes(std::span(row.bytes)))
                     .bind(std::uint64_t{level})
                     .run());
  return {};
}

Status SpoolFile::insert(const Lost& lost) {
  return statements_->lose.bind(lost.from).bind(lost.to).bind(std::string_view(lost.why)).run();
}

Status SpoolFile::commit(const std::vector<Row>& rows, const std::vector<Lost>& lost) {
  std::lock_guard lock(writeMutex_);
  Transaction transaction(*writer_);
  LOCKSTEP_TRY(transaction.status());
  LOCKSTEP_TRY(insert(rows, 0));
  for (const Lost& one : lost) LOCKSTEP_TRY(insert(one));
  LOCKSTEP_TRY(transaction.commit());
  levels_[0].bytes += sizeOf(rows);
  if (levels_[0].first == 0 && !rows.empty()) levels_[0].first = rows.front().sequence;
  return {};
}

Result<std::vector<SpoolFile::Row>> SpoolFile::read(std::uint64_t after, std::size_t count) {
  std::vector<Row> out;
  std::lock_guard lock(readMutex_);
  Statement rows(*reader_,
                 "SELECT seq, wall, body FROM records WHERE seq > ? ORDER BY seq LIMIT ?");
  rows.bind(after).bind(std::uint64_t{count});
  while (rows.step()) out.push_back(rowOf(rows));
  if (Status read = checkRead(rows); !read.ok() && read.code() != Code::kDataLoss)
    return read.error();
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
  Statement rows(*writer_,
                 "SELECT seq, wall, body, level FROM records WHERE seq >= ? ORDER BY seq");
  rows.bind(levels_[level].first);
  while (rows.step() && rows.integer(3) == static_cast<std::int64_t>(level)) {
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
  LOCKSTEP_TRY(checkRead(rows));
  return out;
}

Status SpoolFile::replace(std::size_t level, const Window& window) {
  std::vector<Row> outline = outlineOfRows(window.rows);
  for (Row& row : outline) row.wall = window.rows.front().wall;  // marks the window
  Transaction transaction(*writer_);
  LOCKSTEP_TRY(transaction.status());
  LOCKSTEP_TRY(
      writer_->execute(fmt::format("DELETE FROM records WHERE seq BETWEEN {} AND {}",
                                   window.rows.front().sequence, window.rows.back().sequence)));
  LOCKSTEP_TRY(insert(outline, level + 1));
  LOCKSTEP_TRY(transaction.commit());
  levels_[level].bytes -= sizeOf(window.rows);
  levels_[level].first = window.next;
  Level& into = levels_[level + 1];
  into.bytes += sizeOf(outline);
  if (into.first == 0 && !outline.empty()) into.first = outline.front().sequence;
  return {};
}

// Removes a range that begins with the first record, and notes it as lost.
Status SpoolFile::remove(const Lost& range) {
  Transaction transaction(*writer_);
  LOCKSTEP_TRY(transaction.status());
  LOCKSTEP_TRY(writer_->execute(fmt::format("DELETE FROM records WHERE seq <= {}", range.to)));
  LOCKSTEP_TRY(insert(range));
  LOCKSTEP_TRY(transaction.commit());
  return countLevels();
}

// Removes the oldest records and returns their range.
Result<std::optional<SpoolFile::Lost>> SpoolFile::removeOldest() {
  std::int64_t bytes = 0;
  Lost out{1, 0, "the spool was full"};
  {
    Statement rows(*writer_, "SELECT seq, length(body) FROM records ORDER BY seq");
    while (bytes <= limitBytes_ / 10 && rows.step()) {
      out.to = sequence(rows, 0);
      bytes += rows.integer(1) + kRowBytes;
    }
    LOCKSTEP_TRY(checkRead(rows));
  }
  if (out.to == 0)
    return makeError(Code::kDataLoss, "the spool has no records, but exceeds its limit");
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
    Statement rows(*writer_, "SELECT seq, wall FROM records ORDER BY seq");
    while (rows.step() && rows.integer(1) < wall) out.to = sequence(rows, 0);
  }
  if (out.to == 0) return std::optional<Lost>();
  LOCKSTEP_TRY(remove(out));
  return std::optional(std::move(out));
}

}  // namespace lockstep::agent
