// CurveStore: the curves in the file of a run.
//
// New points of all curves together are a row of the table `batch`, so that a transaction costs
// about the same for ten curves as for thousands. Points that are many become chunks: those of one
// curve as soon as it has kChunkPoints, all of them once the batches hold kMostWaiting points. A
// chunk has the y of its points; their x is a row of the table `axis`, which all curves with the
// same x share, as those of a node do. A chunk of at least 1024 points also has spans of 16 points,
// one of kChunkPoints spans of 256, and its row has the span of all. So the time to read a range
// depends on the number of pixels, not on the length of the run.
//
// Threads and errors: see app/history/history.h.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "app/history/curve_codec.h"
#include "app/history/run_data.h"
#include "engine/base/status.h"
#include "engine/storage/database.h"

namespace lockstep::app {

class CurveStore {
 public:
  // Steps of the file's schema, see storage::Database::open(); others may come between them.
  static constexpr std::string_view kFirstSchema = R"(
CREATE TABLE series(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);
CREATE TABLE chunk(series INTEGER NOT NULL, level INTEGER NOT NULL, t0 REAL NOT NULL,
  t1 REAL NOT NULL, n INTEGER NOT NULL, low REAL, high REAL, last REAL, data BLOB NOT NULL,
  PRIMARY KEY(series, level, t0)) WITHOUT ROWID;
)";
  static constexpr std::string_view kBatchSchema = R"(
CREATE TABLE batch(id INTEGER PRIMARY KEY AUTOINCREMENT, data BLOB NOT NULL);
ALTER TABLE chunk ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE series ADD COLUMN points INTEGER NOT NULL DEFAULT 0;
ALTER TABLE series ADD COLUMN first REAL;
ALTER TABLE series ADD COLUMN last REAL;
ALTER TABLE series ADD COLUMN low REAL;
ALTER TABLE series ADD COLUMN high REAL;
UPDATE series SET (points, first, last, low, high) = (SELECT coalesce(sum(n), 0), min(t0), max(t1),
  min(low), max(high) FROM chunk WHERE chunk.series = series.id AND level = 0);
)";
  static constexpr std::string_view kAxisSchema = R"(
CREATE TABLE axis(id INTEGER PRIMARY KEY, data BLOB NOT NULL);
ALTER TABLE chunk ADD COLUMN axis INTEGER;
)";
  static constexpr std::size_t kChunkPoints = 4096;
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 21;

  explicit CurveStore(storage::Database& database) : database_(database) {}

  // Within the caller's transaction. x increases; points up to the last known one are left out.
  Status append(const std::vector<RunBatch::Series>& series);
  // Reads all points. kDataLoss if some cannot be.
  Status check() const;
  // To be called after a transaction that failed, or when another process may have written.
  void forget();

  // The others bring what is kept in memory up to date with the file.
  std::vector<SeriesInfo> series();
  // See RunStore::read() and readAll().
  Result<std::vector<Span>> read(const std::string& name, double from, double to, int maxPoints);
  Result<std::vector<Point>> readAll(const std::string& name);
  Result<std::vector<Point>> readAfter(const std::string& name, double x);

 private:
  struct Curve {
    std::int64_t id = 0;  // 0: there is none
    double lastX = 0;     // of its chunks; in recorded_, of all its points
  };
  struct Chunks;

  Curve find(const std::string& name);
  Result<Curve*> recorded(const std::string& name);
  void forgetBatches();
  Status readBatches();
  void add(const CurvePoints& curve, double after);  // its points with x > after
  std::span<const Point> waitingAfter(std::int64_t series, double x) const;
  struct Chunk;
  Status insert(const Chunk& chunk, std::span<const Point> points);
  Result<std::int64_t> axisOf(std::span<const Point> points);
  Status insertChunk(std::int64_t series, std::span<const Point> points);
  Status packFull(std::int64_t series);
  Status packAll();
  Result<Chunks> chunksOf(std::int64_t series, double from, double to) const;
  Result<std::vector<Span>> spansAt(int level, std::int64_t series, const Chunks& chunks) const;

  storage::Database& database_;
  std::map<std::string, Curve, std::less<>> recorded_;
  // The content of `batch`, of its rows from `first_` to `last_`, by curve. Readers may still have
  // points that have become chunks.
  std::map<std::int64_t, std::vector<Point>> waiting_;
  std::int64_t first_ = 0, last_ = 0;
  std::vector<std::int64_t> damaged_;                   // rows that cannot be read
  std::unordered_map<std::string, std::int64_t> axes_;  // by the bytes of x; of this append()
  std::size_t inBatches_ = 0;
};

}  // namespace lockstep::app
