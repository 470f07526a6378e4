// Spool: the records of one run on one node, numbered from 1, in a file (see spool_file.h).
//
// append() numbers a record and makes it readable at once. A thread commits records, one
// transaction every 250 ms or 256 records; committed records survive a killed process. Reading
// deletes nothing. When the file exceeds its limit, old records are downsampled. Records are lost
// when they are too old, or when the disk is full and the memory limit is exceeded. Readers see
// such a gap as a `lost` record with the number of the gap's last record.
//
// Record times are not affected by changes of the node's clock (see agent/base/steady_wall.h).
// Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/steady_wall.h"
#include "agent/supervisor/spool_file.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

struct SpoolOptions {
  std::int64_t limitBytes = std::int64_t{256} << 20;
  Nanoseconds maxAge = Nanoseconds{30} * 86'400'000'000'000;
  std::int64_t pendingBytes = std::int64_t{16} << 20;  // in memory while the disk is full
  std::int64_t maxPages = 0;                           // of the file; 0: unlimited
  std::function<Nanoseconds()> clock = wallNow;        // read once, when opened
  // Called on the spool's thread when writing begins to fail.
  std::function<void(const Error&)> onTrouble;
};

class Spool {
 public:
  static Result<std::unique_ptr<Spool>> open(const std::string& path, SpoolOptions options);
  ~Spool();  // commits pending records
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Sets sequence and times.
  std::uint64_t append(run::v1::Record record);
  // Returns up to `count` serialised records after number `after`, in order, with `lost` records
  // for gaps. If there is none, waits for the next heartbeat's or the last record, at most `wait`.
  using Kept = SpoolFile::Row;
  Result<std::vector<Kept>> read(std::uint64_t after, std::size_t count, Nanoseconds wait);
  std::uint64_t last() const;
  bool finished() const;  // whether the last record is `finished`
  bool alone() const;     // and says that other nodes may continue the run
  // Skips numbers. After a crash readers may have seen records that were not committed; their
  // numbers must not be reused.
  void skip(std::uint64_t count, std::string why);
  void wakeReaders();
  Status flush();  // commits pending records and trims the file to its limit

 private:
  explicit Spool(SpoolOptions options);
  Status openFile(const std::string& path);
  void work();
  void trim();  // flushMutex_ held
  Status expire();
  void noteGone(std::optional<SpoolFile::Lost> range);
  // mutex_ held, as for the next three.
  void noteLost(std::uint64_t from, std::uint64_t to, std::string why);
  // Returns the first record of the tail with at least this number.
  std::deque<Kept>::const_iterator tailFrom(std::uint64_t sequence) const;
  std::optional<Kept> gap(std::uint64_t from, std::uint64_t to) const;
  Kept lostRecord(std::uint64_t from, std::uint64_t to, const std::string& why) const;

  SpoolOptions options_;
  std::unique_ptr<SpoolFile> file_;
  SteadyWall wall_{0};
  std::mutex flushMutex_;      // serialises commits
  Nanoseconds expireDue_ = 0;  // monotonic; flushMutex_

  mutable std::mutex mutex_;
  std::condition_variable woken_, pendingChanged_;
  std::deque<Kept> tail_;  // newest records, including all pending ones
  std::int64_t tailBytes_ = 0;
  std::deque<std::uint64_t> pending_;  // sequence numbers not yet committed
  std::int64_t pendingBytes_ = 0;
  struct Lost : SpoolFile::Lost {
    bool written = false;
  };
  std::vector<Lost> lost_;
  std::uint64_t last_ = 0;
  bool finished_ = false, alone_ = false, stop_ = false, troubled_ = false;
  bool idle_ = false;  // the thread waits for a record
  std::uint64_t wakes_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::agent
