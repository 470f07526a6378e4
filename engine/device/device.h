// Device: abstraction of an accelerator driver: memory, copies, launches, events, graphs.
// Scheduling stands above it and knows no CUDA, so that tests run on a recording device.
//
// Ordering: work runs in the order in which it is enqueued; enqueuing calls return before
// completion. Collectives (kExchange) and prefetching copies (kAhead) have queues of their own;
// wait() orders queues among each other.
// Completion: synchronize() returns when all work of kCompute has completed; wait for other queues
// from there.
// Failure: the next synchronize(), and every one after it, reports an error of asynchronous work.
// Memory contents and pending work are then lost, and the device's groups are aborted.
// Threads: one at a time. Where several threads enqueue work, each holds inUse() until it has
// synchronized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/dtype.h"
#include "engine/base/status.h"

namespace lockstep::device {

struct Properties {
  std::string id;            // globally unique; no spaces
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::int64_t memoryBytes = 0;
};

enum class Where : std::uint8_t {
  kDevice,
  kPinned,  // page-locked host memory, directly readable and writable by copies
};

// Handle of a kernel in the device's program; valid for the device's life.
using Function = const void*;

struct Launch {
  Function function = nullptr;
  unsigned blocks = 1, blocksDown = 1;  // the grid, x and y
  unsigned threads = 1;                 // per block
  // the kernel's one argument, a struct; read before launch() returns
  const void* arguments = nullptr;
  std::size_t argumentBytes = 0;
};

// y[n×o] = op(a)·op(b) + bias; op(a) is n×k, row-major. Operands in f32, bf16 or f16; accumulation
// in f32, y in f32 or the type of 16-bit operands. The bias is f32, or where y has 16 bits may be
// of y's type: then a device need not take another. With tf32, f32 operands may be rounded to 10
// bits of mantissa.
struct Matmul {
  std::int64_t n = 0, k = 0, o = 0;
  bool ta = false, tb = false;
  DType operandDtype = DType::kF32;
  const void *a = nullptr, *b = nullptr;
  const void* bias = nullptr;  // may be null
  void* y = nullptr;
  bool tf32 = false;
  std::int64_t pitch = 0;  // leading dimension of a, in elements; 0: the row length
  bool adds = false;       // accumulates into y
  DType resultDtype = DType::kF32, biasDtype = DType::kF32;
};

// Work that can be enqueued repeatedly.
class Work {
 public:
  virtual ~Work() = default;
  virtual void enqueue() = 0;
  virtual std::int64_t workspaceBytes() const = 0;  // device memory that it owns
};

// A point in a queue's order of work, with a timestamp once recorded.
class Event {
 public:
  virtual ~Event() = default;
};

enum class Queue : std::uint8_t {
  kCompute,   // default
  kExchange,  // of collectives and messages; has priority over the others
  kAhead,     // of prefetching copies; never captured
};

enum class Reduce : std::uint8_t { kSum, kMax };

// A collective group of devices, on operands in device memory. Same semantics as the methods of
// comm::Communicator of these names, except that calls enqueue work on kExchange.
// Ordering: all ranks of a group issue the same calls in the same order, which is consistent across
// all groups of a device.
// Failure: as for all work. Where peers are gone or do not arrive within the group's timeout,
// synchronize() returns kAborted or kDeadlineExceeded. A rank that fails aborts all its groups, so
// that its peers fail too.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Collective over all ranks. The `size` ranks of one color form a group, ranked by `key`; color
  // −1 joins none.
  virtual Result<std::unique_ptr<Group>> split(int color, int key, int size) = 0;
  virtual void allReduce(void* data, std::int64_t count, DType dtype, Reduce op) = 0;
  virtual void reduceScatter(const void* in, void* out, std::span<const std::int64_t> cuts,
                             DType dtype, Reduce op) = 0;
  virtual void allGather(const void* in, void* out, std::span<const std::int64_t> cuts,
                         DType dtype) = 0;
  virtual void broadcast(void* data, std::int64_t bytes, int root) = 0;
  virtual void allToAll(const void* in, void* out, std::int64_t bytes) = 0;
  // Point-to-point sends and receives, issued together: none blocks another, and the work completes
  // when all have been received. Messages between two ranks arrive in the order in which they were
  // issued; how each side batches them into calls is its own.
  struct Message {
    bool sends = false;
    void* data = nullptr;
    std::int64_t bytes = 0;
    int peer = 0;
    bool operator==(const Message&) const = default;
  };
  virtual void exchange(std::span<const Message> messages) = 0;
};

// Forms groups of devices. Must not outlive its device; groups must not outlive it.
class Grouping {
 public:
  struct Member {
    std::string id;  // the group's
    int rank = 0, size = 1;
    Nanoseconds limit = 0;  // timeout of forming the group and of all its operations
  };
  virtual ~Grouping() = default;
  virtual std::string_view version() const = 0;  // must be equal on all ranks; no spaces
  // Creates a group id on one rank, which shares it with the others.
  virtual Result<std::string> makeId() = 0;
  // Collective. Errors: kDeadlineExceeded where other ranks do not arrive.
  virtual Result<std::unique_ptr<Group>> join(const Member& as) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  std::mutex& inUse() { return inUse_; }

  virtual const Properties& properties() const = 0;
  // Allocates zero-filled memory aligned to 256 bytes. Errors: kResourceExhausted with the size
  // requested and, of the device's memory, the size free.
  virtual Result<void*> allocate(std::int64_t bytes, Where where) = 0;
  virtual void release(void* memory, Where where) = 0;
  // Looks up a kernel by name. Errors: kNotFound.
  virtual Result<Function> function(std::string_view name) = 0;
  // Prepares a matmul and selects its algorithm. Errors: kFailedPrecondition where there is none.
  virtual Result<std::unique_ptr<Work>> bind(const Matmul& matmul) = 0;

  virtual void launch(const Launch& launch) = 0;
  // Copies between any two allocations of allocate().
  virtual void copy(void* to, const void* from, std::int64_t bytes,
                    Queue queue = Queue::kCompute) = 0;
  virtual void zero(void* memory, std::int64_t bytes) = 0;

  virtual Result<std::unique_ptr<Event>> makeEvent() = 0;
  // Records a timestamp. If recorded by captured work, the same holds each time that work is
  // enqueued.
  virtual void record(Event& event, Queue queue) = 0;
  // mark() notes a point in its queue's order; wait() makes later work of its queue wait for that
  // point.
  virtual void mark(Event& event, Queue queue) = 0;
  virtual void wait(const Event& event, Queue queue) = 0;
  // Blocks the host until the work enqueued before mark() has completed. Failures are reported by
  // synchronize().
  virtual void await(const Event& event) = 0;
  // Returns the time between two events that have been recorded and synchronized.
  virtual double seconds(const Event& from, const Event& to) = 0;

  virtual Status synchronize() = 0;
  // Errors: kFailedPrecondition with the reason why this device forms no groups.
  virtual Result<Grouping*> grouping() = 0;

  // Captures the calls in between, without running them, into one piece of work on two queues:
  // kExchange begins by waiting for kCompute, which waits for it at the end. In between, nothing
  // may be bound, allocated or synchronized.
  virtual Status beginCapture() = 0;
  virtual Result<std::unique_ptr<Work>> endCapture() = 0;

 private:
  std::mutex inUse_;
};

// Owns an allocation of a device, which must outlive it.
class Memory {
 public:
  Memory() = default;
  static Result<Memory> allocate(Device& device, std::int64_t bytes, Where where) {
    LOCKSTEP_ASSIGN(void* const data, device.allocate(bytes, where));
    return Memory(device, data, bytes, where);
  }
  ~Memory() {
    if (data_ != nullptr) device_->release(data_, where_);
  }
  Memory(Memory&& other) noexcept
      : device_(other.device_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(other.bytes_),
        where_(other.where_) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(where_, other.where_);
    return *this;
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::int64_t bytes() const { return bytes_; }

 private:
  Memory(Device& device, void* data, std::int64_t bytes, Where where)
      : device_(&device), data_(data), bytes_(bytes), where_(where) {}
  Device* device_ = nullptr;
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
  Where where_ = Where::kDevice;
};

}  // namespace lockstep::device
