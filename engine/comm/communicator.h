// Communicator: the primitive collectives one rank plays with its group.
//
// Completion: every call blocks until this rank's part is done; results are then readable.
// Order: all ranks of a group issue the same calls in the same order.
// Failure: a dead, frozen or aborted peer makes the call return kAborted or kDeadlineExceeded on
//   every rank within the group's time limit; after any error the group is unusable and is formed
//   anew under a new generation. The error names the peer. The limit is on waiting for one peer
//   without progress. Ranks that issue different calls get kInvalidArgument or kAborted.
// Threads: one thread issues; while no collective runs, other threads may send and receive, to and
//   from each peer one. abort() may be called from any thread.
// Determinism: for a given kind, size and count the order of reduction is fixed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/dtype.h"
#include "engine/base/status.h"

namespace lockstep::comm {

enum class ReduceOp : std::uint8_t { kSum, kMax };

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::string_view kind() const = 0;  // "in-process", "shm", "gloo"
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // In place, `count` elements of f32, f64, i32 or i64.
  virtual Status allReduce(void* data, std::int64_t count, DType dtype, ReduceOp op) = 0;
  // Rank r receives elements [cuts[r], cuts[r+1]) of the reduction. cuts has size()+1 entries.
  virtual Status reduceScatter(const void* in, void* out, std::span<const std::int64_t> cuts,
                               DType dtype, ReduceOp op) = 0;
  // Rank r gives elements [cuts[r], cuts[r+1]) of `out`; `in` may lie in `out` at its place.
  virtual Status allGather(const void* in, void* out, std::span<const std::int64_t> cuts,
                           DType dtype) = 0;
  virtual Status broadcast(void* data, std::int64_t bytes, int root) = 0;
  // `bytes` to each rank; in and out hold size() slots.
  virtual Status allToAll(const void* in, void* out, std::int64_t bytes) = 0;
  virtual Status send(const void* data, std::int64_t bytes, int peer, int tag) = 0;
  virtual Status recv(void* data, std::int64_t bytes, int peer, int tag) = 0;
  // A message to `to` and one from `from` at once: ranks that all send first do not wait for each
  // other.
  virtual Status exchange(const void* out, std::int64_t outBytes, int to, void* in,
                          std::int64_t inBytes, int from, int tag) = 0;
  virtual Status barrier() = 0;
  // Pending and later calls of this rank return kAborted; peers notice as of a death.
  virtual void abort() = 0;
};

// Ranks as threads of this process: tests, and several ranks in one worker. Errors:
// kInvalidArgument for a size below 1 or above kMaxSharedRanks, kResourceExhausted where there is
// no memory for its messages.
Result<std::vector<std::unique_ptr<Communicator>>> makeInProcessGroup(int size,
                                                                      Nanoseconds timeout);

// Ranks as processes of one node over a shared memfd, which holds one group or several, one after
// another, each of sharedMemoryBytes(). The creator makes it, zero-filled, and passes the
// descriptor to every rank; openSharedMemory maps the group at `offset` and does not close it.
// `oversubscribed` says that waiting must yield at once: ranks share cores.
inline constexpr int kMaxSharedRanks = 64;
std::int64_t sharedMemoryBytes(int size);          // whole pages
Result<int> makeSharedMemory(std::int64_t bytes);  // a sealed memfd, close-on-exec
Result<std::unique_ptr<Communicator>> openSharedMemory(int fd, std::int64_t offset, int rank,
                                                       int size, bool oversubscribed,
                                                       Nanoseconds timeout);

// Where ranks exchange addresses while they form a group. Threads: one.
class Store {
 public:
  virtual ~Store() = default;
  virtual Status set(const std::string& key, const std::string& value) = 0;
  virtual Result<std::string> get(const std::string& key, Nanoseconds timeout) = 0;  // waits
};

struct GlooOptions {
  int rank = 0;
  int size = 1;
  std::string address;    // what peers connect to: an address of this host; or
  std::string interface;  // the interface whose address is taken; both empty: loopback
  std::string prefix;     // a name used once: run and generation
  Nanoseconds timeout = 30'000'000'000;
};
// Errors: kUnavailable naming address and peer when a connection cannot be made in time.
Result<std::unique_ptr<Communicator>> connectGloo(const GlooOptions& options, Store& store);

}  // namespace lockstep::comm
