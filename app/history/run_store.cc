#include "app/history/run_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "app/history/integrity.h"
#include "app/history/spans.h"
#include "engine/specs/error_info.h"
#include "engine/storage/database.h"

namespace lockstep::app {
namespace {

using storage::Database;
using storage::Statement;
using storage::Transaction;

// Level 0 rows hold points; a full chunk of 4096 points also has a row at level 1 (spans of 16
// points) and at level 2 (spans of 256); the row itself is the span of the whole chunk. Rows that
// are not full are the tail of a series: one a batch, put together when they grow many.
constexpr std::int64_t kChunkPoints = 4096;
constexpr std::size_t kSpanPoints[] = {1, 16, 256};
constexpr std::size_t kMostTailRows = 64;

// The columns are for readers of SQL; `info`, an ErrorInfo, has all of an error.
constexpr std::string_view kErrorSchema = "ALTER TABLE error ADD COLUMN info BLOB;";
constexpr std::string_view kAboutSchema = "CREATE TABLE about(key TEXT PRIMARY KEY, text TEXT);";
constexpr std::string_view kSchema = R"(
CREATE TABLE series(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);
CREATE TABLE chunk(series INTEGER NOT NULL, level INTEGER NOT NULL, t0 REAL NOT NULL,
  t1 REAL NOT NULL, n INTEGER NOT NULL, low REAL, high REAL, last REAL, data BLOB NOT NULL,
  PRIMARY KEY(series, level, t0)) WITHOUT ROWID;
CREATE TABLE log(id INTEGER PRIMARY KEY, wall INTEGER NOT NULL, node TEXT NOT NULL,
  rank INTEGER NOT NULL, text TEXT NOT NULL);
CREATE TABLE epoch(epoch INTEGER PRIMARY KEY, step INTEGER NOT NULL, train_loss REAL,
  eval_loss REAL, eval_metric REAL);
CREATE TABLE error(id INTEGER PRIMARY KEY, code TEXT NOT NULL, what TEXT NOT NULL, why TEXT NOT NULL,
  next TEXT NOT NULL, node TEXT NOT NULL, rank INTEGER NOT NULL, step INTEGER NOT NULL);
CREATE TABLE event(step INTEGER NOT NULL, rank INTEGER NOT NULL, packed BLOB NOT NULL,
  PRIMARY KEY(step, rank));
CREATE TABLE cursor(node TEXT PRIMARY KEY, sequence INTEGER NOT NULL);
)";

template <typename T>
std::vector<T> unpack(std::span<const std::byte> bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

// The recorder's end of a series: points not yet in a full chunk.
struct Tail {
  std::int64_t series = 0;
  std::vector<Point> points;
  std::size_t rows = 0;
  double lastX = -std::numeric_limits<double>::infinity();
};

}  // namespace

struct RunStore::State {
  std::string path;
  std::unique_ptr<Database> database;
  int lock = -1;
  std::map<std::string, Tail, std::less<>> tails;

  ~State() {
    if (lock >= 0) close(lock);
  }
  static Result<std::unique_ptr<State>> open(const std::string& path, bool create);
  std::int64_t seriesId(const std::string& name) const {
    Statement found(*database, "SELECT id FROM series WHERE name=?");
    return found.bind(std::string_view(name)).step() ? found.integer(0) : 0;
  }
  Result<Tail*> tail(const std::string& name);
  Status insert(std::int64_t series, int level, std::span<const Point> points,
                std::span<const std::byte> data);
  Status dropTail(const Tail& tail);
  Status appendSeries(const RunBatch::Series& series);
  struct Chunks;
  Result<Chunks> chunksOf(std::int64_t series, double from, double to) const;
  Result<std::vector<Span>> spansAt(int level, std::int64_t series, const Chunks& chunks) const;
};

Result<std::unique_ptr<RunStore::State>> RunStore::State::open(const std::string& path,
                                                               bool create) {
  auto state = std::make_unique<State>();
  state->path = path;
  LOCKSTEP_ASSIGN(state->database,
                  openDatabase(path, {kSchema, kErrorSchema, kAboutSchema}, create));
  return state;
}

Result<Tail*> RunStore::State::tail(const std::string& name) {
  if (const auto found = tails.find(name); found != tails.end()) return &found->second;
  Tail tail;
  tail.series = seriesId(name);
  if (tail.series == 0) {
    LOCKSTEP_TRY(Statement(*database, "INSERT INTO series(name) VALUES(?)")
                     .bind(std::string_view(name))
                     .run());
    tail.series = database->lastRowId();
  }
  Statement rows(*database, "SELECT data, n, t1 FROM chunk WHERE series=? AND level=0 ORDER BY t0");
  rows.bind(tail.series);
  while (rows.step()) {
    tail.lastX = rows.number(2);
    if (rows.integer(1) >= kChunkPoints) continue;
    const auto points = unpack<Point>(rows.blob(0));
    tail.points.insert(tail.points.end(), points.begin(), points.end());
    ++tail.rows;
  }
  LOCKSTEP_TRY(rows.status());
  return &tails.emplace(name, std::move(tail)).first->second;
}

Status RunStore::State::insert(std::int64_t series, int level, std::span<const Point> points,
                               std::span<const std::byte> data) {
  const Span whole = spanOf(points);
  return Statement(*database, "INSERT INTO chunk VALUES(?,?,?,?,?,?,?,?,?)")
      .bind(series)
      .bind(level)
      .bind(points.front().x)
      .bind(points.back().x)
      .bind(static_cast<std::int64_t>(points.size()))
      .bind(whole.low)
      .bind(whole.high)
      .bind(whole.last)
      .bindBlob(data)
      .run();
}

Status RunStore::State::dropTail(const Tail& tail) {
  return Statement(*database, "DELETE FROM chunk WHERE series=? AND level=0 AND n<?")
      .bind(tail.series)
      .bind(kChunkPoints)
      .run();
}

Status RunStore::State::appendSeries(const RunBatch::Series& series) {
  LOCKSTEP_ASSIGN(Tail* const tail, this->tail(series.name));
  std::vector<Point> fresh;
  for (const Point& point : series.points) {  // x increases; what was there already is left out
    if (!(point.x > tail->lastX)) continue;
    tail->lastX = point.x;
    fresh.push_back(point);
  }
  if (fresh.empty()) return {};
  tail->points.insert(tail->points.end(), fresh.begin(), fresh.end());
  const auto full = static_cast<std::size_t>(kChunkPoints);
  if (tail->points.size() < full && tail->rows + 1 < kMostTailRows) {
    ++tail->rows;
    return insert(tail->series, 0, fresh, std::as_bytes(std::span(fresh)));
  }
  LOCKSTEP_TRY(dropTail(*tail));
  std::span<const Point> rest(tail->points);
  for (; rest.size() >= full; rest = rest.subspan(full)) {
    const auto chunk = rest.first(full);
    LOCKSTEP_TRY(insert(tail->series, 0, chunk, std::as_bytes(chunk)));
    for (int level = 1; level <= 2; ++level) {
      const auto spans = spansOf(chunk, kSpanPoints[level]);
      LOCKSTEP_TRY(insert(tail->series, level, chunk, std::as_bytes(std::span(spans))));
    }
  }
  tail->points.erase(tail->points.begin(),
                     tail->points.end() - static_cast<std::ptrdiff_t>(rest.size()));
  tail->rows = tail->points.empty() ? 0 : 1;
  if (tail->points.empty()) return {};
  return insert(tail->series, 0, tail->points, std::as_bytes(std::span(tail->points)));
}

RunStore::RunStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
RunStore::~RunStore() = default;

Result<std::unique_ptr<RunStore>> openRunStore(const std::string& path) {
  LOCKSTEP_ASSIGN(auto state, RunStore::State::open(path, false));
  return std::unique_ptr<RunStore>(new RunStore(std::move(state)));
}

Result<std::unique_ptr<RunStore>> makeRunStore(const std::string& path) {
  LOCKSTEP_ASSIGN(auto state, RunStore::State::open(path, true));
  return std::unique_ptr<RunStore>(new RunStore(std::move(state)));
}

Result<int> lockRunStore(const std::string& path) {
  const std::string file = path + ".lock";
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return systemError(errno, message("cannot open {}", file));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int reason = errno;
  close(fd);
  if (reason == EWOULDBLOCK)
    return makeError(Code::kAlreadyExists, "another process records this run");
  return systemError(reason, message("cannot lock {}", file));
}

Status RunStore::lockForRecording() {
  if (state_->lock >= 0) return {};
  LOCKSTEP_ASSIGN(state_->lock, lockRunStore(state_->path));
  state_->tails.clear();  // another recorder may have written since
  return {};
}

Status RunStore::append(const RunBatch& batch) {
  if (state_->lock < 0)
    return makeError(Code::kFailedPrecondition, "the run is not locked for recording");
  Database& database = *state_->database;
  Transaction transaction(database);
  LOCKSTEP_TRY(transaction.status());
  Status written = [&]() -> Status {
    for (const auto& series : batch.series) LOCKSTEP_TRY(state_->appendSeries(series));
    if (!batch.logs.empty()) {
      Statement log(database, "INSERT INTO log(wall,node,rank,text) VALUES(?,?,?,?)");
      for (const LogRow& row : batch.logs)
        LOCKSTEP_TRY(log.bind(row.wallNs)
                         .bind(std::string_view(row.node))
                         .bind(row.rank)
                         .bind(std::string_view(row.text))
                         .run());
    }
    for (const EpochRow& row : batch.epochs)
      LOCKSTEP_TRY(Statement(database, "INSERT OR REPLACE INTO epoch VALUES(?,?,?,?,?)")
                       .bind(row.epoch)
                       .bind(row.step)
                       .bind(row.trainLoss)
                       .bind(row.evalLoss)
                       .bind(row.evalMetric)
                       .run());
    for (const Error& error : batch.errors) {
      const std::string info = specs::toInfo(error).SerializeAsString();
      LOCKSTEP_TRY(Statement(database,
                             "INSERT INTO error(code,what,why,next,node,rank,step,info) "
                             "VALUES(?,?,?,?,?,?,?,?)")
                       .bind(codeName(error.code))
                       .bind(std::string_view(error.what.text()))
                       .bind(std::string_view(error.why.text()))
                       .bind(std::string_view(error.next.text()))
                       .bind(std::string_view(error.node))
                       .bind(error.rank)
                       .bind(error.step)
                       .bindBlob(std::as_bytes(std::span(info)))
                       .run());
    }
    for (const SpanEvents& events : batch.events)
      LOCKSTEP_TRY(Statement(database, "INSERT OR REPLACE INTO event VALUES(?,?,?)")
                       .bind(events.step)
                       .bind(events.rank)
                       .bindBlob(std::as_bytes(std::span(events.packed)))
                       .run());
    for (const auto& cursor : batch.cursors)
      LOCKSTEP_TRY(Statement(database, "INSERT OR REPLACE INTO cursor VALUES(?,?)")
                       .bind(std::string_view(cursor.node))
                       .bind(static_cast<std::int64_t>(cursor.sequence))
                       .run());
    return transaction.commit();
  }();
  if (!written.ok()) state_->tails.clear();  // they may be ahead of what was kept
  return written;
}

bool RunStore::recorded() const {
  // Whatever is appended comes with a cursor, but for rows of a test or an earlier version.
  Statement any(*state_->database,
                "SELECT EXISTS(SELECT 1 FROM cursor) OR EXISTS(SELECT 1 FROM series)");
  return any.step() && any.integer(0) != 0;
}

std::uint64_t RunStore::cursor(const std::string& node) const {
  Statement found(*state_->database, "SELECT sequence FROM cursor WHERE node=?");
  return found.bind(std::string_view(node)).step() ? static_cast<std::uint64_t>(found.integer(0))
                                                   : 0;
}

Status RunStore::setAbout(const std::map<std::string_view, std::string>& texts) {
  Transaction transaction(*state_->database);
  LOCKSTEP_TRY(transaction.status());
  for (const auto& [key, text] : texts)
    LOCKSTEP_TRY(Statement(*state_->database, "INSERT OR REPLACE INTO about VALUES(?,?)")
                     .bind(key)
                     .bind(std::string_view(text))
                     .run());
  return transaction.commit();
}

std::string RunStore::about(std::string_view key) const {
  Statement found(*state_->database, "SELECT text FROM about WHERE key=?");
  return found.bind(key).step() ? found.text(0) : std::string();
}

std::vector<SeriesInfo> RunStore::series() const {
  Statement rows(
      *state_->database,
      "SELECT name, sum(n), min(t0), max(t1), min(low), max(high) FROM series "
      "JOIN chunk ON chunk.series=series.id WHERE level=0 GROUP BY series.id ORDER BY name");
  std::vector<SeriesInfo> out;
  while (rows.step())
    out.push_back({rows.text(0), rows.integer(1), rows.number(2), rows.number(3), rows.number(4),
                   rows.number(5)});
  return out;
}

// A series' chunks that overlap [from, to], with one more on either side, so that the neighbours'
// nearest points reach the edges; and about how many points lie between.
struct RunStore::State::Chunks {
  struct Row {
    double t0, t1;
    std::int64_t n;
    Span whole;
  };
  std::vector<Row> rows;
  std::int64_t points = 0;
};

Result<RunStore::State::Chunks> RunStore::State::chunksOf(std::int64_t series, double from,
                                                          double to) const {
  Chunks out;
  Statement list(
      *database,
      "SELECT t0, t1, n, low, high, last FROM chunk WHERE series=?1 AND level=0 AND "
      "t0 >= coalesce((SELECT max(t0) FROM chunk WHERE series=?1 AND level=0 AND t1 < ?2), "
      "-9e999) AND t0 <= coalesce((SELECT min(t0) FROM chunk WHERE series=?1 AND level=0 "
      "AND t0 > ?3), 9e999) ORDER BY t0");
  list.bind(series).bind(from).bind(to);
  while (list.step()) {
    const Chunks::Row row{list.number(0),
                          list.number(1),
                          list.integer(2),
                          {list.number(0), list.number(3), list.number(4), list.number(5)}};
    if (row.t1 >= from && row.t0 <= to && row.t1 > row.t0) {
      const double part = (std::min(row.t1, to) - std::max(row.t0, from)) / (row.t1 - row.t0);
      out.points += static_cast<std::int64_t>(static_cast<double>(row.n) * part);
    } else {
      out.points += 1;
    }
    out.rows.push_back(row);
  }
  LOCKSTEP_TRY(list.status());
  return out;
}

Result<std::vector<Span>> RunStore::State::spansAt(int level, std::int64_t series,
                                                   const Chunks& chunks) const {
  std::vector<Span> out;
  Statement chunk(*database, "SELECT data FROM chunk WHERE series=? AND level=? AND t0=?");
  for (const Chunks::Row& row : chunks.rows) {
    const bool full = row.n >= kChunkPoints;
    if (full && level == 3) {
      out.push_back(row.whole);
      continue;
    }
    chunk.bind(series).bind(full ? level : 0).bind(row.t0);
    if (chunk.step()) {
      if (full && level > 0) {
        const auto spans = unpack<Span>(chunk.blob(0));
        out.insert(out.end(), spans.begin(), spans.end());
      } else {
        const auto raw = unpack<Point>(chunk.blob(0));
        const std::size_t each = level == 0 ? 1 : kSpanPoints[std::min(level, 2)];
        const auto spans = spansOf(raw, each);
        out.insert(out.end(), spans.begin(), spans.end());
      }
    }
    LOCKSTEP_TRY(chunk.run());
  }
  return out;
}

Result<std::vector<Span>> RunStore::read(const std::string& series, double from, double to,
                                         int maxPoints) const {
  const std::int64_t id = state_->seriesId(series);
  if (id == 0 || maxPoints < 1) return std::vector<Span>();
  LOCKSTEP_ASSIGN(const State::Chunks chunks, state_->chunksOf(id, from, to));
  int level = 0;
  for (std::int64_t spans = chunks.points; spans > maxPoints && level < 3; spans /= 16) ++level;
  LOCKSTEP_ASSIGN(const std::vector<Span> found, state_->spansAt(level, id, chunks));
  std::vector<Span> out = cutTo(found, from, to);
  const auto most = static_cast<std::size_t>(maxPoints) + 2;
  return level > 0 && out.size() > 2 * most ? mergedTo(out, most) : out;
}

Result<std::vector<Point>> RunStore::readAll(const std::string& series) const {
  Statement rows(*state_->database,
                 "SELECT data FROM chunk WHERE series=? AND level=0 ORDER BY t0");
  rows.bind(state_->seriesId(series));
  std::vector<Point> out;
  while (rows.step()) {
    const auto points = unpack<Point>(rows.blob(0));
    out.insert(out.end(), points.begin(), points.end());
  }
  LOCKSTEP_TRY(rows.status());
  return out;
}

Result<std::vector<LogRow>> RunStore::logs(const LogFilter& filter, std::int64_t before,
                                           int limit) const {
  Statement rows(
      *state_->database,
      fmt::format("SELECT id, wall, node, rank, text FROM log WHERE (?1='' OR node=?1) AND "
                  "(?2<-1 OR rank=?2) AND (?3='' OR instr(lower(text), lower(?3))>0) AND "
                  "id>?4 AND (?5=0 OR id<?5) ORDER BY id {} LIMIT ?6",
                  filter.oldestFirst ? "ASC" : "DESC"));
  rows.bind(std::string_view(filter.node))
      .bind(filter.rank)
      .bind(std::string_view(filter.contains))
      .bind(filter.after)
      .bind(before)
      .bind(limit);
  std::vector<LogRow> out;
  while (rows.step())
    out.push_back({rows.integer(0), rows.integer(1), rows.text(2),
                   static_cast<int>(rows.integer(3)), rows.text(4)});
  LOCKSTEP_TRY(rows.status());
  if (!filter.oldestFirst) std::reverse(out.begin(), out.end());
  return out;
}

std::vector<EpochRow> RunStore::epochs() const {
  Statement rows(*state_->database, "SELECT * FROM epoch ORDER BY epoch");
  std::vector<EpochRow> out;
  while (rows.step())
    out.push_back(
        {rows.integer(0), rows.integer(1), rows.number(2), rows.number(3), rows.number(4)});
  return out;
}

std::vector<Error> RunStore::errors() const {
  Statement rows(*state_->database,
                 "SELECT code, what, why, next, node, rank, step, info FROM error ORDER BY id");
  std::vector<Error> out;
  while (rows.step()) {
    const std::span<const std::byte> blob = rows.blob(7);
    run::v1::ErrorInfo info;
    if (!blob.empty() && info.ParseFromArray(blob.data(), static_cast<int>(blob.size()))) {
      out.push_back(specs::fromInfo(info));
      continue;
    }
    Error error;
    error.code = codeFromName(rows.text(0)).value_or(Code::kInternal);
    error.what = rows.text(1);
    error.why = rows.text(2);
    error.next = rows.text(3);
    error.node = rows.text(4);
    error.rank = static_cast<int>(rows.integer(5));
    error.step = rows.integer(6);
    out.push_back(std::move(error));
  }
  return out;
}

std::vector<SpanEvents> RunStore::events(std::int64_t fromStep, std::int64_t toStep) const {
  Statement rows(
      *state_->database,
      "SELECT rank, step, packed FROM event WHERE step BETWEEN ? AND ? ORDER BY step, rank");
  rows.bind(fromStep).bind(toStep);
  std::vector<SpanEvents> out;
  while (rows.step()) {
    const auto blob = rows.blob(2);
    out.push_back({static_cast<int>(rows.integer(0)), rows.integer(1),
                   std::string(reinterpret_cast<const char*>(blob.data()), blob.size())});
  }
  return out;
}

std::vector<std::int64_t> RunStore::eventSteps() const {
  Statement rows(*state_->database, "SELECT DISTINCT step FROM event ORDER BY step");
  std::vector<std::int64_t> out;
  while (rows.step()) out.push_back(rows.integer(0));
  return out;
}

}  // namespace lockstep::app
