// Communicator: the collectives and messages of one rank with its group.
//
// Completion: every call blocks until this rank's part is done; results are then readable.
// Order: all ranks of a group issue the same calls in the same order.
// Failure: a dead, frozen or aborted peer makes the call return kAborted or kDeadlineExceeded on
// every rank within the group's timeout. A frozen peer is detected by this timeout, which applies
// to waiting for one peer without progress. The error names the peer (RankNames) or, where ranks
// cannot decide, those of which it is one. After any error the group is unusable and must be
// re-formed under a new generation. Ranks that issue different calls get kInvalidArgument or
// kAborted. Threads: one thread issues collectives. While none runs, other threads may send and
// receive, at most one per peer and direction. abort() may be called from any thread. Determinism:
// the order of reduction depends only on kind, size and count.
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
#include "engine/comm/rank_names.h"

namespace lockstep::comm {

enum class ReduceOp : std::uint8_t { kSum, kMax };

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::string_view kind() const = 0;  // "in-process", "shm", "gloo"
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Reduces `count` elements of f32, f64, i32 or i64 in place.
  virtual Status allReduce(void* data, std::int64_t count, DType dtype, ReduceOp op) = 0;
  // Rank r receives elements [cuts[r], cuts[r+1]) of the reduction; cuts has size()+1 entries.
  virtual Status reduceScatter(const void* in, void* out, std::span<const std::int64_t> cuts,
                               DType dtype, ReduceOp op) = 0;
  // Rank r contributes elements [cuts[r], cuts[r+1]) of `out`; `in` may alias its range of `out`.
  virtual Status allGather(const void* in, void* out, std::span<const std::int64_t> cuts,
                           DType dtype) = 0;
  virtual Status broadcast(void* data, std::int64_t bytes, int root) = 0;
  // Sends `bytes` to each rank; `in` and `out` hold size() slots.
  virtual Status allToAll(const void* in, void* out, std::int64_t bytes) = 0;
  virtual Status send(const void* data, std::int64_t bytes, int peer, int tag) = 0;
  virtual Status recv(void* data, std::int64_t bytes, int peer, int tag) = 0;
  // Sends to `to` and receives from `from` simultaneously, so that ranks that all send first do not
  // deadlock.
  virtual Status exchange(const void* out, std::int64_t outBytes, int to, void* in,
                          std::int64_t inBytes, int from, int tag) = 0;
  virtual Status barrier() = 0;
  // Makes pending and later calls of this rank return kAborted; peers observe it as a death.
  virtual void abort() = 0;
};

// Ranks as threads of this process: for tests, and for workers with several ranks. Errors:
// kInvalidArgument for a size below 1 or above kMaxSharedRanks; kResourceExhausted without memory
// for the messages.
Result<std::vector<std::unique_ptr<Communicator>>> makeInProcessGroup(int size,
                                                                      Nanoseconds timeout);

// Ranks as processes of one node over a shared memfd, which holds one or several groups
// consecutively, each of sharedMemoryBytes(). The creator makes it zero-filled and passes the
// descriptor to every rank; openSharedMemory maps the group at `offset` and does not close the
// descriptor. `oversubscribed`: ranks share cores, so waiting yields at once.
inline constexpr int kMaxSharedRanks = 64;
std::int64_t sharedMemoryBytes(int size);          // whole pages
Result<int> makeSharedMemory(std::int64_t bytes);  // a sealed memfd, close-on-exec
Result<std::unique_ptr<Communicator>> openSharedMemory(int fd, std::int64_t offset, int rank,
                                                       int size, bool oversubscribed,
                                                       Nanoseconds timeout,
                                                       const RankNames& names = {});

// Key-value store through which the ranks of a group find each other. Threads: one sets; several
// may get at the same time.
class Store {
 public:
  virtual ~Store() = default;
  virtual Status set(const std::string& key, const std::string& value) = 0;
  virtual Result<std::string> get(const std::string& key, Nanoseconds timeout) = 0;  // blocks
};

struct GlooOptions {
  int rank = 0;
  int size = 1;
  std::string address;    // the address of this host that peers connect to; or
  std::string interface;  // the interface whose address is used; both empty: loopback
  std::string prefix;     // unique name: run and generation
  Nanoseconds timeout = 30'000'000'000;
  RankNames names = {};
};
// A group over TCP. Forming it connects each rank with its neighbours on the ring of ranks; other
// connections are made when calls first need them, without the peer's calling thread. `store` must
// outlive the communicator. Errors: kUnavailable, naming address and peer, when a neighbour cannot
// be connected to in time.
Result<std::unique_ptr<Communicator>> connectGloo(const GlooOptions& options, Store& store);

}  // namespace lockstep::comm
