// SpoolFile: the SQLite file of a spool, bounded in size and age.
//
// Records are written unchanged, at level 0. When the file exceeds its limit, old records are
// replaced by their outline (agent/supervisor/outline.h), window by window, oldest first: a window
// is 16 seconds at level 1, 16 level-1 windows at level 2, and so on. The level furthest past its
// share, limit/2^(k+1) for level k, is reduced first, so that records get coarser with age. Each
// window is replaced in one transaction. Records are removed, and noted as lost, only when they
// exceed the age limit or no window can be reduced further. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"

namespace lockstep::storage {
class Database;
class Statement;
}  // namespace lockstep::storage

namespace lockstep::agent {

class SpoolFile {
 public:
  struct Row {
    std::uint64_t sequence = 0;
    Nanoseconds wall = 0;  // in an outline: the time of the window's first record
    std::string bytes;
  };
  struct Lost {
    std::uint64_t from = 0, to = 0;
    std::string why;
  };
  // `maxPages` limits the file; 0: unlimited.
  static Result<std::unique_ptr<SpoolFile>> open(const std::string& path, std::int64_t limitBytes,
                                                 std::int64_t maxPages);
  ~SpoolFile();
  SpoolFile(const SpoolFile&) = delete;
  SpoolFile& operator=(const SpoolFile&) = delete;

  Result<std::vector<Lost>> lost();
  Result<std::optional<Row>> newest();
  // Adds rows and lost ranges; a lost range replaces a stored one with the same first number.
  Status commit(const std::vector<Row>& rows, const std::vector<Lost>& lost);
  // Returns up to `count` rows after number `after`, in order; of a damaged file, those that can be
  // read.
  Result<std::vector<Row>> read(std::uint64_t after, std::size_t count);

  std::int64_t bytes() const;  // total size of the records
  // Replaces a window by its outline. If no window can be reduced, removes some of the oldest
  // records and returns their range.
  Result<std::optional<Lost>> thin();
  // Removes rows older than `wall`. Returns their range.
  Result<std::optional<Lost>> expire(Nanoseconds wall);
  // Records up to this number may have been replaced; gaps between them are not losses.
  std::uint64_t thinnedTo() const { return thinnedTo_; }

 private:
  struct Level {
    std::int64_t bytes = 0;
    std::uint64_t first = 0;  // 0: no rows
  };
  struct Window {
    std::vector<Row> rows;
    std::uint64_t next = 0;  // first row after it; 0: the window may be incomplete
  };
  SpoolFile(std::string path, std::int64_t limitBytes);
  Status openFile(std::int64_t maxPages);
  Status insert(const std::vector<Row>& rows, std::size_t level);
  Status insert(const Lost& lost);
  Status countLevels();
  Status checkRead(const storage::Statement& rows) const;
  Result<Window> oldestWindow(std::size_t level);
  Status replace(std::size_t level, const Window& window);
  Result<std::optional<Lost>> removeOldest();
  Status remove(const Lost& range);

  struct Statements;  // prepared once
  const std::string path_;
  const std::int64_t limitBytes_;
  mutable std::mutex writeMutex_;
  std::mutex readMutex_;
  std::unique_ptr<storage::Database> writer_, reader_;
  std::unique_ptr<Statements> statements_;
  std::vector<Level> levels_;
  std::atomic<std::uint64_t> thinnedTo_ = 0;
};

}  // namespace lockstep::agent
