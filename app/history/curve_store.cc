#include "app/history/curve_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "app/history/curve_codec.h"
#include "app/history/spans.h"

namespace lockstep::app {
namespace {

using storage::Statement;

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr std::size_t kSpanPoints[] = {1, 16, 256, CurveStore::kChunkPoints};
constexpr int kLevels = 3;  // with rows of their own
constexpr std::size_t kLeastPoints[kLevels] = {1, 1024, CurveStore::kChunkPoints};

// The data of a chunk that an earlier version wrote.
template <typename T>
std::vector<T> plain(std::span<const std::byte> bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

std::span<const std::byte> bytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// How the data of a chunk is kept. Earlier versions wrote the first two.
enum : std::int64_t { kPlain, kPacked, kOnAxis };

// The columns of a chunk that pointsIn() takes.
constexpr std::string_view kPointsOf =
    "data, packed, n, (SELECT data FROM axis WHERE id=chunk.axis)";

Result<std::vector<Point>> pointsIn(const Statement& row) {
  if (row.integer(1) == kPlain) return plain<Point>(row.blob(0));
  if (row.integer(1) == kPacked) return unpackPoints(row.blob(0));
  const auto count = static_cast<std::size_t>(row.integer(2));  // a damaged one is too large
  LOCKSTEP_ASSIGN(const std::vector<double> x, unpackColumn(row.blob(3), count));
  LOCKSTEP_ASSIGN(const std::vector<double> y, unpackColumn(row.blob(0), count));
  std::vector<Point> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = {x[i], y[i]};
  return out;
}

std::vector<double> columnOf(std::span<const Point> points, double Point::*member) {
  std::vector<double> out;
  out.reserve(points.size());
  for (const Point& point : points) out.push_back(point.*member);
  return out;
}

// The points of [from, to] and a neighbour on either side.
std::span<const Point> within(std::span<const Point> points, double from, double to) {
  auto begin = std::lower_bound(points.begin(), points.end(), from,
                                [](const Point& point, double x) { return point.x < x; });
  auto end = std::upper_bound(begin, points.end(), to,
                              [](double x, const Point& point) { return x < point.x; });
  if (begin != points.begin()) --begin;
  if (end != points.end()) ++end;
  return {begin, end};
}

}  // namespace

void CurveStore::forget() {
  recorded_.clear();
  forgetBatches();
}

void CurveStore::forgetBatches() {
  waiting_.clear();
  damaged_.clear();
  first_ = last_ = 0;
  inBatches_ = 0;
}

CurveStore::Curve CurveStore::find(const std::string& name) {
  Statement found(database_, "SELECT id, last FROM series WHERE name=?");
  if (!found.bind(std::string_view(name)).step()) return {0, kNever};
  const double last = found.number(1);
  return {found.integer(0), std::isnan(last) ? kNever : last};
}

// Of a curve that is appended to; made where it is new.
Result<CurveStore::Curve*> CurveStore::recorded(const std::string& name) {
  if (const auto known = recorded_.find(name); known != recorded_.end()) return &known->second;
  Curve curve = find(name);
  if (curve.id == 0) {
    LOCKSTEP_TRY(Statement(database_, "INSERT INTO series(name) VALUES(?)")
                     .bind(std::string_view(name))
                     .run());
    curve.id = database_.lastRowId();
  }
  if (const auto rest = waitingAfter(curve.id, curve.lastX); !rest.empty())
    curve.lastX = rest.back().x;
  return &recorded_.emplace(name, curve).first->second;
}

// Rows are only added, and removed all at once.
Status CurveStore::readBatches() {
  Statement rows(database_, "SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM batch");
  if (!rows.step()) return rows.status();
  const std::int64_t first = rows.integer(0), last = rows.integer(1);
  if (first != first_ || last < last_) {
    forget();
    first_ = first;
  }
  if (last == last_) return {};
  std::map<std::int64_t, double> inChunks;  // up to which x
  Statement known(database_, "SELECT id, last FROM series WHERE last IS NOT NULL");
  while (known.step()) inChunks[known.integer(0)] = known.number(1);
  LOCKSTEP_TRY(known.status());
  Statement fresh(database_, "SELECT id, data FROM batch WHERE id>? ORDER BY id");
  fresh.bind(last_);
  while (fresh.step()) {
    last_ = fresh.integer(0);
    const auto curves = unpackCurves(fresh.blob(1));
    if (!curves.ok()) {  // check() finds it; the others stay readable
      damaged_.push_back(last_);
      continue;
    }
    for (const CurvePoints& curve : *curves) {
      const auto packed = inChunks.find(curve.series);
      add(curve, packed == inChunks.end() ? kNever : packed->second);
    }
  }
  return fresh.status();
}

void CurveStore::add(const CurvePoints& curve, double after) {
  auto& waiting = waiting_[curve.series];
  for (const Point& point : curve.points)
    if (point.x > after) waiting.push_back(point);
  inBatches_ += curve.points.size();
}

std::span<const Point> CurveStore::waitingAfter(std::int64_t series, double x) const {
  const auto found = waiting_.find(series);
  if (found == waiting_.end()) return {};
  const auto& points = found->second;
  const auto begin = std::upper_bound(points.begin(), points.end(), x,
                                      [](double at, const Point& point) { return at < point.x; });
  return {begin, points.end()};
}

struct CurveStore::Chunk {
  std::int64_t series;
  int level;
  std::int64_t packed;
  std::string data;
  std::int64_t axis = 0;  // of level 0
};

Status CurveStore::insert(const Chunk& chunk, std::span<const Point> points) {
  const Span whole = spanOf(points);
  return Statement(database_,
                   "INSERT INTO chunk(series,level,t0,t1,n,low,high,last,data,packed,axis) "
                   "VALUES(?,?,?,?,?,?,?,?,?,?,nullif(?,0))")
      .bind(chunk.series)
      .bind(chunk.level)
      .bind(points.front().x)
      .bind(points.back().x)
      .bind(static_cast<std::int64_t>(points.size()))
      .bind(whole.low)
      .bind(whole.high)
      .bind(whole.last)
      .bindBlob(bytesOf(chunk.data))
      .bind(chunk.packed)
      .bind(chunk.axis)
      .run();
}

// Returns the row of their x, which other curves of this append() may have.
Result<std::int64_t> CurveStore::axisOf(std::span<const Point> points) {
  const std::vector<double> x = columnOf(points, &Point::x);
  const auto [axis, isNew] = axes_.try_emplace(
      std::string(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(double)));
  if (!isNew) return axis->second;
  LOCKSTEP_TRY(Statement(database_, "INSERT INTO axis(data) VALUES(?)")
                   .bindBlob(bytesOf(packColumn(x)))
                   .run());
  return axis->second = database_.lastRowId();
}

Status CurveStore::insertChunk(std::int64_t series, std::span<const Point> points) {
  LOCKSTEP_ASSIGN(const std::int64_t axis, axisOf(points));
  LOCKSTEP_TRY(insert({series, 0, kOnAxis, packColumn(columnOf(points, &Point::y)), axis}, points));
  for (int level = 1; level < kLevels && points.size() >= kLeastPoints[level]; ++level)
    LOCKSTEP_TRY(
        insert({series, level, kPacked, packSpans(spansOf(points, kSpanPoints[level]))}, points));
  const Span whole = spanOf(points);
  return Statement(database_,
                   "UPDATE series SET points=points+?1, first=coalesce(first,?2), last=?3, "
                   "low=min(coalesce(low,?4),coalesce(?4,low)), "
                   "high=max(coalesce(high,?5),coalesce(?5,high)) WHERE id=?6")
      .bind(static_cast<std::int64_t>(points.size()))
      .bind(points.front().x)
      .bind(points.back().x)
      .bind(whole.low)
      .bind(whole.high)
      .bind(series)
      .run();
}

Status CurveStore::packFull(std::int64_t series) {
  std::vector<Point>& points = waiting_[series];
  std::span<const Point> rest(points);
  for (; rest.size() >= kChunkPoints; rest = rest.subspan(kChunkPoints))
    LOCKSTEP_TRY(insertChunk(series, rest.first(kChunkPoints)));
  points.erase(points.begin(), points.end() - static_cast<std::ptrdiff_t>(rest.size()));
  return {};
}

Status CurveStore::packAll() {
  for (const auto& [series, points] : waiting_) {
    LOCKSTEP_TRY(packFull(series));
    if (!points.empty()) LOCKSTEP_TRY(insertChunk(series, points));
  }
  const std::vector<std::int64_t> damaged = std::exchange(damaged_, {});
  forgetBatches();
  // What cannot be read stays, for check().
  Statement rows(database_, "DELETE FROM batch WHERE id NOT IN (SELECT value FROM json_each(?))");
  return rows.bind(std::string_view(fmt::format("[{}]", fmt::join(damaged, ",")))).run();
}

Status CurveStore::append(const std::vector<RunBatch::Series>& series) {
  LOCKSTEP_TRY(readBatches());
  std::vector<CurvePoints> fresh;
  for (const RunBatch::Series& given : series) {
    LOCKSTEP_ASSIGN(Curve* const curve, recorded(given.name));
    CurvePoints points{curve->id, {}};
    for (const Point& point : given.points) {  // what was there already is left out
      if (!(point.x > curve->lastX)) continue;
      curve->lastX = point.x;
      points.points.push_back(point);
    }
    if (!points.points.empty()) fresh.push_back(std::move(points));
  }
  if (fresh.empty()) return {};
  LOCKSTEP_TRY(Statement(database_, "INSERT INTO batch(data) VALUES(?)")
                   .bindBlob(bytesOf(packCurves(fresh)))
                   .run());
  last_ = database_.lastRowId();
  if (first_ == 0) first_ = last_;
  for (const CurvePoints& curve : fresh) add(curve, kNever);
  axes_.clear();
  if (inBatches_ >= kMostWaiting) return packAll();
  for (const CurvePoints& curve : fresh)
    if (waiting_[curve.series].size() >= kChunkPoints) LOCKSTEP_TRY(packFull(curve.series));
  return {};
}

Status CurveStore::check() const {
  // series() tells nothing of a list that cannot be read, or of its end.
  Statement names(database_, "SELECT name, points FROM series ORDER BY name");
  LOCKSTEP_TRY(names.run());
  Statement batches(database_, "SELECT data FROM batch");
  while (batches.step()) LOCKSTEP_TRY(unpackCurves(batches.blob(0)).status());
  LOCKSTEP_TRY(batches.status());
  Statement chunks(database_, fmt::format("SELECT {} FROM chunk WHERE level=0", kPointsOf));
  while (chunks.step()) LOCKSTEP_TRY(pointsIn(chunks).status());
  return chunks.status();
}

std::vector<SeriesInfo> CurveStore::series() {
  if (!readBatches().ok()) forget();  // read() says why
  Statement rows(database_,
                 "SELECT name, points, first, last, low, high, id FROM series ORDER BY name");
  std::vector<SeriesInfo> out;
  while (rows.step()) {
    SeriesInfo info{rows.text(0),   rows.integer(1), rows.number(2),
                    rows.number(3), rows.number(4),  rows.number(5)};
    const auto rest = waitingAfter(rows.integer(6), info.points > 0 ? info.lastX : kNever);
    if (!rest.empty()) {
      const Span whole = spanOf(rest);
      if (info.points == 0) info.firstX = rest.front().x;
      info.points += static_cast<std::int64_t>(rest.size());
      info.lastX = rest.back().x;
      info.low = std::fmin(info.low, whole.low);
      info.high = std::fmax(info.high, whole.high);
    }
    if (info.points > 0) out.push_back(std::move(info));
  }
  return out;
}

// A curve's chunks that overlap [from, to], with one more on either side, so that the neighbours'
// nearest points reach the edges; and about how many points lie between.
struct CurveStore::Chunks {
  struct Row {
    double t0, t1;
    std::size_t n;
    Span whole;
  };
  std::vector<Row> rows;
  std::int64_t points = 0;
};

Result<CurveStore::Chunks> CurveStore::chunksOf(std::int64_t series, double from, double to) const {
  Chunks out;
  Statement list(
      database_,
      "SELECT t0, t1, n, low, high, last FROM chunk WHERE series=?1 AND level=0 AND "
      "t0 >= coalesce((SELECT max(t0) FROM chunk WHERE series=?1 AND level=0 AND t1 < ?2), "
      "-9e999) AND t0 <= coalesce((SELECT min(t0) FROM chunk WHERE series=?1 AND level=0 "
      "AND t0 > ?3), 9e999) ORDER BY t0");
  list.bind(series).bind(from).bind(to);
  while (list.step()) {
    const Chunks::Row row{list.number(0),
                          list.number(1),
                          static_cast<std::size_t>(std::max<std::int64_t>(0, list.integer(2))),
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

Result<std::vector<Span>> CurveStore::spansAt(int level, std::int64_t series,
                                              const Chunks& chunks) const {
  std::vector<Span> out;
  Statement chunk(database_, fmt::format("SELECT {} FROM chunk WHERE series=? AND level=? AND t0=?",
                                         kPointsOf));
  const auto append = [&](const std::vector<Span>& spans) {
    out.insert(out.end(), spans.begin(), spans.end());
  };
  for (const Chunks::Row& row : chunks.rows) {
    if (level == kLevels) {
      out.push_back(row.whole);
      continue;
    }
    bool found = false;
    if (level > 0 && row.n >= kLeastPoints[level]) {
      found = chunk.bind(series).bind(level).bind(row.t0).step();
      if (found) {
        const auto spans =
            chunk.integer(1) != kPlain ? unpackSpans(chunk.blob(0)) : plain<Span>(chunk.blob(0));
        if (spans) append(*spans);  // as in readBatches()
      }
      LOCKSTEP_TRY(chunk.run());
    }
    if (found) continue;  // an earlier version kept no spans of less than 4096 points
    if (chunk.bind(series).bind(0).bind(row.t0).step()) {
      if (const auto points = pointsIn(chunk)) append(spansOf(*points, kSpanPoints[level]));
    }
    LOCKSTEP_TRY(chunk.run());
  }
  return out;
}

// Batches are read before chunks, so that points that become chunks meanwhile are found twice, and
// not missed; then those of the chunks count.
Result<std::vector<Span>> CurveStore::read(const std::string& name, double from, double to,
                                           int maxPoints) {
  LOCKSTEP_TRY(readBatches());
  const Curve curve = find(name);
  if (curve.id == 0 || maxPoints < 1) return std::vector<Span>();
  LOCKSTEP_ASSIGN(Chunks chunks, chunksOf(curve.id, from, to));
  const double lastX =
      chunks.rows.empty() ? curve.lastX : std::max(curve.lastX, chunks.rows.back().t1);
  const auto rest = within(waitingAfter(curve.id, lastX), from, to);
  chunks.points += static_cast<std::int64_t>(rest.size());
  int level = 0;
  for (std::int64_t spans = chunks.points; spans > maxPoints && level < kLevels; spans /= 16)
    ++level;
  LOCKSTEP_ASSIGN(std::vector<Span> found, spansAt(level, curve.id, chunks));
  const std::vector<Span> last = spansOf(rest, kSpanPoints[level]);
  found.insert(found.end(), last.begin(), last.end());
  std::vector<Span> out = cutTo(found, from, to);
  const auto most = static_cast<std::size_t>(maxPoints) + 2;
  return level > 0 && out.size() > 2 * most ? mergedTo(out, most) : out;
}

Result<std::vector<Point>> CurveStore::readAll(const std::string& name) {
  return readAfter(name, kNever);
}

Result<std::vector<Point>> CurveStore::readAfter(const std::string& name, double x) {
  LOCKSTEP_TRY(readBatches());
  const Curve curve = find(name);
  std::vector<Point> out;
  double last = std::max(curve.lastX, x);
  if (x < curve.lastX) {  // some of it is in chunks
    Statement rows(
        database_,
        fmt::format("SELECT {} FROM chunk WHERE series=? AND level=0 AND t1>? ORDER BY t0",
                    kPointsOf));
    rows.bind(curve.id).bind(x);
    while (rows.step()) {
      const auto points = pointsIn(rows);
      if (!points) continue;  // as in readBatches()
      for (const Point& point : *points)
        if (point.x > x) out.push_back(point);
    }
    LOCKSTEP_TRY(rows.status());
    if (!out.empty()) last = out.back().x;
  }
  const auto rest = waitingAfter(curve.id, last);
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

}  // namespace lockstep::app
