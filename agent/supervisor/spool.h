// Spool: the records of one run on one node, numbered from 1, in an SQLite file (WAL).
//
// append() numbers a record and makes it readable at once. A thread commits records and cursor in
// one transaction, every 250 ms or 256 records. Reading deletes nothing. Records are dropped oldest
// first when the file is too large or they are too old, and, when the disk is full, past a limit in
// memory. Readers see each gap as a `lost` record with the number of the gap's last record.
// Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "lockstep/run/v1/telemetry.pb.h"

struct sqlite3;

namespace lockstep::agent {

struct SpoolOptions {
  std::int64_t limitBytes = std::int64_t{256} << 20;
  Nanoseconds maxAge = Nanoseconds{30} * 86'400'000'000'000;
  std::int64_t pendingBytes = std::int64_t{16} << 20;  // in memory while the disk is full
  std::int64_t maxPages = 0;                           // of the file; 0: unlimited
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
  struct Kept {
    std::uint64_t sequence = 0;
    std::string bytes;
  };
  std::vector<Kept> read(std::uint64_t after, std::size_t count, Nanoseconds wait);
  std::uint64_t last() const;
  bool finished() const;  // whether the last record is `finished`
  // Skips numbers. After a crash readers may have seen records that were not committed; their
  // numbers must not be reused.
  void skip(std::uint64_t count, std::string why);
  void wakeReaders();
  Status flush();  // commits pending records

 private:
  struct Lost {
    std::uint64_t from, to;
    std::string why;
  };
  explicit Spool(SpoolOptions options);
  Status openFile(const std::string& path);
  Status readState(const std::string& path);  // numbers and gaps of an earlier process
  void work();
  Status commit(const std::vector<Kept>& batch, const std::vector<Lost>& lost);
  void trim();
  void noteLost(std::uint64_t from, std::uint64_t to, std::string why);  // mutex_ held
  std::vector<Kept> readFile(std::uint64_t after, std::size_t count);
  // The first record of the tail from this number on. mutex_ held.
  std::deque<Kept>::const_iterator tailFrom(std::uint64_t sequence) const;
  Kept lostRecord(std::uint64_t from, std::uint64_t to) const;  // mutex_ held

  SpoolOptions options_;
  struct Statements;                        // the writer's, prepared once
  sqlite3* writer_ = nullptr;               // writeMutex_
  std::unique_ptr<Statements> statements_;  // writeMutex_
  sqlite3* reader_ = nullptr;               // readMutex_
  std::mutex writeMutex_, readMutex_;
  std::mutex flushMutex_;  // serialises commits

  mutable std::mutex mutex_;
  std::condition_variable woken_, pendingChanged_;
  std::deque<Kept> tail_;  // newest records, including all pending ones
  std::int64_t tailBytes_ = 0;
  std::deque<std::uint64_t> pending_;  // sequence numbers not yet committed
  std::int64_t pendingBytes_ = 0;
  std::vector<Lost> lost_;
  std::size_t lostWritten_ = 0;
  std::uint64_t last_ = 0;
  std::int64_t fileBytes_ = 0;
  bool finished_ = false, stop_ = false, troubled_ = false;
  bool idle_ = false;  // the thread waits for a record
  std::uint64_t wakes_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::agent
