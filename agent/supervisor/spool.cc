#include "agent/supervisor/spool.h"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "agent/base/heartbeat.h"
#include "engine/base/log.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kTailRecords = 4096;
constexpr std::int64_t kTailBytes = std::int64_t{8} << 20;
constexpr std::size_t kBatch = 256;
// of what a file says; append() never comes as far
constexpr std::int64_t kHighestSequence = std::numeric_limits<std::int64_t>::max() / 2;
constexpr auto kCommitDelay = std::chrono::milliseconds(250);

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
  if (error.code == Code::kResourceExhausted) error.next = "free space where the workdir is";
  return error;
}

Status execute(sqlite3* db, const std::string& sql) {
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return sqliteError(db, "cannot write the spool");
  return {};
}

}  // namespace

struct Spool::Statements {
  explicit Statements(sqlite3* db)
      : begin(db, "BEGIN IMMEDIATE"),
        commit(db, "COMMIT"),
        insert(db, "INSERT OR REPLACE INTO records VALUES(?,?,?)"),
        lose(db, "INSERT OR REPLACE INTO lost VALUES(?,?,?)") {}
  Statement begin, commit, insert, lose;
};

Spool::Spool(SpoolOptions options) : options_(std::move(options)) {}

Result<std::unique_ptr<Spool>> Spool::open(const std::string& path, SpoolOptions options) {
  std::unique_ptr<Spool> spool(new Spool(std::move(options)));
  LOCKSTEP_TRY(spool->openFile(path));
  spool->thread_ = std::thread([raw = spool.get()] { raw->work(); });
  return spool;
}

Status Spool::openFile(const std::string& path) {
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path.c_str(), &writer_, kFlags, nullptr) != SQLITE_OK)
    return sqliteError(writer_, message("cannot open the spool {}", path));
  sqlite3_busy_timeout(writer_, 5000);
  LOCKSTEP_TRY(execute(writer_,
                       "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA user_version=1;"
                       "CREATE TABLE IF NOT EXISTS records(seq INTEGER PRIMARY KEY, wall INTEGER "
                       "NOT NULL, body BLOB NOT NULL);"
                       "CREATE TABLE IF NOT EXISTS lost(first INTEGER PRIMARY KEY, last INTEGER "
                       "NOT NULL, why TEXT NOT NULL);"));
  if (options_.maxPages > 0)
    LOCKSTEP_TRY(execute(writer_, fmt::format("PRAGMA max_page_count={};", options_.maxPages)));
  LOCKSTEP_TRY(readState(path));
  statements_ = std::make_unique<Statements>(writer_);
  if (sqlite3_open_v2(path.c_str(), &reader_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK)
    return sqliteError(reader_, message("cannot open the spool {}", path));
  sqlite3_busy_timeout(reader_, 5000);
  return {};
}

Status Spool::readState(const std::string& path) {
  const auto damaged = [&](std::int64_t first, std::int64_t last) {
    Error error = makeError(Code::kDataLoss, "the spool {} is damaged", path);
    error.why = message("it has records {} to {}", first, last);
    return error;
  };
  const auto unreadable = [&] {
    return sqliteError(writer_, message("cannot read the spool {}", path));
  };
  Statement size(writer_,
                 "SELECT coalesce(min(seq),1), coalesce(max(seq),0), coalesce(sum(length(body)),0) "
                 "FROM records");
  if (size.step() != SQLITE_ROW) return unreadable();
  if (size.integer(0) < 1 || size.integer(1) > kHighestSequence)
    return damaged(size.integer(0), size.integer(1));
  last_ = static_cast<std::uint64_t>(size.integer(1));
  fileBytes_ = size.integer(2);
  Statement lost(writer_, "SELECT first, last, why FROM lost ORDER BY first");
  int result = lost.step();
  for (; result == SQLITE_ROW; result = lost.step()) {
    const std::int64_t from = lost.integer(0), to = lost.integer(1);
    if (from < 1 || to < from || to > kHighestSequence) return damaged(from, to);
    lost_.push_back(
        {static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to), lost.bytes(2)});
    last_ = std::max(last_, lost_.back().to);
  }
  if (result != SQLITE_DONE) return unreadable();
  lostWritten_ = lost_.size();
  Statement newest(writer_, "SELECT body FROM records ORDER BY seq DESC LIMIT 1");
  if (newest.step() == SQLITE_ROW) {
    run::v1::Record record;
    finished_ = record.ParseFromString(newest.bytes(0)) && record.has_finished();
  }
  return {};
}

Spool::~Spool() {
  if (thread_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    pendingChanged_.notify_all();
    thread_.join();
    (void)flush();
  }
  statements_.reset();
  sqlite3_close_v2(reader_);
  sqlite3_close_v2(writer_);
}

std::uint64_t Spool::append(run::v1::Record record) {
  std::lock_guard lock(mutex_);
  record.set_sequence(++last_);
  record.set_monotonic_ns(monotonicNow());
  record.set_wall_ns(wallNow());
  finished_ = record.has_finished();
  tail_.push_back({last_, record.SerializeAsString()});
  const auto size = static_cast<std::int64_t>(tail_.back().bytes.size());
  tailBytes_ += size;
  pending_.push_back(last_);
  pendingBytes_ += size;
  if (pendingBytes_ > options_.pendingBytes) {
    const std::uint64_t from = pending_.front();
    std::uint64_t to = from;
    while (pendingBytes_ > options_.pendingBytes * 3 / 4 && pending_.size() > 1) {
      to = pending_.front();
      pending_.pop_front();
      pendingBytes_ -= static_cast<std::int64_t>(tailFrom(to)->bytes.size());
    }
    noteLost(from, to, "the disk of the node's workdir took no more");
  }
  while (!tail_.empty() && (tail_.size() > kTailRecords || tailBytes_ > kTailBytes) &&
         (pending_.empty() || tail_.front().sequence < pending_.front())) {
    tailBytes_ -= static_cast<std::int64_t>(tail_.front().bytes.size());
    tail_.pop_front();
  }
  if (finished_) woken_.notify_all();
  if (idle_ || pending_.size() >= kBatch) pendingChanged_.notify_all();
  return last_;
}

void Spool::noteLost(std::uint64_t from, std::uint64_t to, std::string why) {
  for (std::size_t i = lostWritten_; i < lost_.size(); ++i)
    if (lost_[i].to + 1 == from && lost_[i].why == why) {
      lost_[i].to = to;
      return;
    }
  lost_.push_back({from, to, std::move(why)});
}

std::deque<Spool::Kept>::const_iterator Spool::tailFrom(std::uint64_t sequence) const {
  return std::lower_bound(tail_.begin(), tail_.end(), sequence,
                          [](const Kept& a, std::uint64_t b) { return a.sequence < b; });
}

Spool::Kept Spool::lostRecord(std::uint64_t from, std::uint64_t to) const {
  run::v1::Record record;
  record.set_sequence(to);
  record.set_monotonic_ns(monotonicNow());
  record.set_wall_ns(wallNow());
  record.mutable_lost()->set_from(from);
  record.mutable_lost()->set_to(to);
  record.mutable_lost()->set_why("not kept");
  for (const Lost& lost : lost_)
    if (lost.from <= to && lost.to >= from) record.mutable_lost()->set_why(lost.why);
  return {to, record.SerializeAsString()};
}

std::vector<Spool::Kept> Spool::readFile(std::uint64_t after, std::size_t count) {
  std::vector<Kept> out;
  std::lock_guard lock(readMutex_);
  Statement select(reader_, "SELECT seq, body FROM records WHERE seq > ? ORDER BY seq LIMIT ?");
  select.bind(1, static_cast<std::int64_t>(after)).bind(2, static_cast<std::int64_t>(count));
  while (select.step() == SQLITE_ROW)
    out.push_back({static_cast<std::uint64_t>(select.integer(0)), select.bytes(1)});
  return out;
}

std::vector<Spool::Kept> Spool::read(std::uint64_t after, std::size_t count, Nanoseconds wait) {
  std::unique_lock lock(mutex_);
  const std::uint64_t wakes = wakes_;
  const auto woken = [&] { return finished_ || wakes_ != wakes; };
  const Nanoseconds end = monotonicNow() + wait;
  for (Nanoseconds now = end - wait; last_ <= after && now < end && !woken();
       now = monotonicNow()) {
    const Nanoseconds next = nextMultiple(now - kHeartbeatGrace, kHeartbeat) + kHeartbeatGrace;
    woken_.wait_for(lock, std::chrono::nanoseconds(std::min(next, end) - now), woken);
  }
  if (last_ <= after) return {};
  std::vector<Kept> found;
  if (tail_.empty() || tail_.front().sequence > after + 1) {
    lock.unlock();
    found = readFile(after, count);
    lock.lock();
  }
  if (found.empty()) {
    for (auto at = tailFrom(after + 1); at != tail_.end() && found.size() < count; ++at)
      found.push_back(*at);
  }
  // Nothing there although numbers went past: all of it is lost.
  if (found.empty()) return {lostRecord(after + 1, last_)};
  std::vector<Kept> out;
  for (Kept& kept : found) {
    if (kept.sequence > after + 1) out.push_back(lostRecord(after + 1, kept.sequence - 1));
    after = kept.sequence;
    out.push_back(std::move(kept));
  }
  return out;
}

std::uint64_t Spool::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}
bool Spool::finished() const {
  std::lock_guard lock(mutex_);
  return finished_;
}
void Spool::skip(std::uint64_t count, std::string why) {
  std::lock_guard lock(mutex_);
  noteLost(last_ + 1, last_ + count, std::move(why));
  last_ += count;
}

void Spool::wakeReaders() {
  std::lock_guard lock(mutex_);
  ++wakes_;
  woken_.notify_all();
}

Status Spool::commit(const std::vector<Kept>& batch, const std::vector<Lost>& lost) {
  std::lock_guard lock(writeMutex_);
  Statements& sql = *statements_;
  // A statement under way would keep the transaction open.
  const auto runStatement = [this](Statement& statement) -> Status {
    Status status;
    if (statement.step() != SQLITE_DONE) status = sqliteError(writer_, "cannot write the spool");
    statement.reset();
    return status;
  };
  LOCKSTEP_TRY(runStatement(sql.begin));
  std::int64_t bytes = 0;
  const auto fill = [&]() -> Status {
    const Nanoseconds now = wallNow();
    for (const Kept& kept : batch) {
      sql.insert.bind(1, static_cast<std::int64_t>(kept.sequence))
          .bind(2, now)
          .bind(3, kept.bytes, true);
      LOCKSTEP_TRY(runStatement(sql.insert));
      bytes += static_cast<std::int64_t>(kept.bytes.size());
    }
    for (const Lost& one : lost) {
      sql.lose.bind(1, static_cast<std::int64_t>(one.from))
          .bind(2, static_cast<std::int64_t>(one.to));
      sql.lose.bind(3, one.why, false);
      LOCKSTEP_TRY(runStatement(sql.lose));
    }
    return runStatement(sql.commit);
  };
  if (Status status = fill(); !status.ok()) {
    sqlite3_exec(writer_, "ROLLBACK", nullptr, nullptr, nullptr);
    return status;
  }
  fileBytes_ += bytes;
  return {};
}

// Past the limit, oldest records go until nine tenths of it are left.
void Spool::trim() {
  std::uint64_t from = 0, to = 0;
  {
    std::lock_guard lock(writeMutex_);
    if (fileBytes_ <= options_.limitBytes) return;
    const Nanoseconds oldest = wallNow() - options_.maxAge;
    Statement walk(writer_, "SELECT seq, wall, length(body) FROM records ORDER BY seq");
    while (walk.step() == SQLITE_ROW) {
      const bool old = walk.integer(1) < oldest;
      if (!old && fileBytes_ <= options_.limitBytes * 9 / 10) break;
      if (from == 0) from = static_cast<std::uint64_t>(walk.integer(0));
      to = static_cast<std::uint64_t>(walk.integer(0));
      fileBytes_ -= walk.integer(2);
    }
    walk.reset();
    if (to != 0) (void)execute(writer_, fmt::format("DELETE FROM records WHERE seq <= {}", to));
  }
  if (to == 0) return;
  std::lock_guard lock(mutex_);
  noteLost(from, to, "older than the spool keeps, or past its size");
}

Status Spool::flush() {
  std::lock_guard alone(flushMutex_);
  for (;;) {
    std::vector<Kept> batch;
    std::vector<Lost> lost;
    {
      std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < pending_.size() && i < 4 * kBatch; ++i)
        batch.push_back(*tailFrom(pending_[i]));
      lost.assign(lost_.begin() + static_cast<std::ptrdiff_t>(lostWritten_), lost_.end());
      if (batch.empty() && lost.empty()) return {};
    }
    LOCKSTEP_TRY(commit(batch, lost));
    std::lock_guard lock(mutex_);
    lostWritten_ = std::min(lost_.size(), lostWritten_ + lost.size());
    const std::uint64_t done = batch.empty() ? 0 : batch.back().sequence;
    while (!pending_.empty() && pending_.front() <= done) {
      pendingBytes_ -= static_cast<std::int64_t>(tailFrom(pending_.front())->bytes.size());
      pending_.pop_front();
    }
  }
}

void Spool::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      pendingChanged_.wait_for(lock, kCommitDelay,
                               [&] { return stop_ || pending_.size() >= kBatch; });
      if (stop_) return;
      if (pending_.empty()) {
        idle_ = true;
        pendingChanged_.wait(lock, [&] { return stop_ || !pending_.empty(); });
        idle_ = false;
        continue;
      }
    }
    const Status status = flush();
    if (status.ok()) {
      troubled_ = false;
      trim();
      continue;
    }
    if (!troubled_) {
      troubled_ = true;
      logWarning("{}", status.error().text());
      if (options_.onTrouble) options_.onTrouble(status.error());
    }
    std::unique_lock lock(mutex_);
    pendingChanged_.wait_for(lock, std::chrono::seconds(1), [&] { return stop_; });
    if (stop_) return;
  }
}

}  // namespace lockstep::agent
