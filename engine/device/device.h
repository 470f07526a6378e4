// Device: what the driver of an accelerator is asked for: memory, copies, launches, events, graphs.
// Whatever decides when and with what it is asked stands above it and knows no CUDA, so that it is
// tested on a device that records.
//
// Order: work is done in the order in which it is given; calls that give some return before it is
// done. What groups
//   exchange has a queue of its own, and so have copies ahead: between queues there is the order
//   that wait() makes.
// Completion: synchronize() returns when all of queue kCompute is: what others were given is waited
// for there. Failure: what goes wrong with work is told by the next synchronize(), and by every one
// after it: memory and what is
//   under way are lost then, and the device's groups are aborted.
// Threads: one at a time: where several give work, each holds inUse() until it has synchronized.
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
  std::string id;            // no other device anywhere has it; no spaces
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::int64_t memoryBytes = 0;
};

enum class Where : std::uint8_t {
  kDevice,
  kPinned,  // of the host, read and written by copies without a detour
};

// A kernel of the device's program; good for the device's life.
using Function = const void*;

struct Launch {
  Function function = nullptr;
  unsigned blocks = 1, blocksDown = 1;  // the grid, x and y
  unsigned threads = 1;                 // of a block
  // the kernel's one argument, a struct; read before launch() returns
  const void* arguments = nullptr;
  std::size_t argumentBytes = 0;
};

// y[n×o] = op(a)·op(b) + bias; op(a) is n×k, row-major. Factors in f32, bf16 or f16, sums and y in
// f32. With tf32 factors of f32 may be rounded to 10 bits of fraction.
struct Product {
  std::int64_t n = 0, k = 0, o = 0;
  bool ta = false, tb = false;
  DType factors = DType::kF32;
  const void *a = nullptr, *b = nullptr;
  const void* bias = nullptr;  // may be null
  void* y = nullptr;
  bool tf32 = false;
  std::int64_t pitch = 0;  // elements from a row of a, as it lies, to the next; 0: the row's
  bool adds = false;       // to what y has
};

// Work that is given again and again.
class Work {
 public:
  virtual ~Work() = default;
  virtual void give() = 0;
  virtual std::int64_t workspaceBytes() const = 0;  // its own memory on the device
};

// A moment in the order of work.
class Event {
 public:
  virtual ~Event() = default;
};

enum class Queue : std::uint8_t {
  kCompute,   // of all that names none
  kExchange,  // of what groups exchange; where both have something to do it goes first
  kAhead,     // of copies of what will be needed; in no capture
};

enum class Reduce : std::uint8_t { kSum, kMax };

// What ranks' devices do together, on operands in their memory: as comm::Communicator of the same
// names, but that a call gives work, to queue kExchange. Order: all ranks of a group give the same
// calls in the same order, and it has one place in the order of all groups of a
//   device.
// Failure: as of all work. Where peers are gone, or do not come within the group's limit,
// synchronize() says so:
//   kAborted, kDeadlineExceeded. A rank that fails aborts all its groups, and its peers find out.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // All ranks of the group at once. Those of one color, of which there are `size`, become a group,
  // numbered by `key`; of color -1 none.
  virtual Result<std::unique_ptr<Group>> split(int color, int key, int size) = 0;
  virtual void allReduce(void* data, std::int64_t count, DType dtype, Reduce op) = 0;
  virtual void reduceScatter(const void* in, void* out, std::span<const std::int64_t> cuts,
                             DType dtype, Reduce op) = 0;
  virtual void allGather(const void* in, void* out, std::span<const std::int64_t> cuts,
                         DType dtype) = 0;
  virtual void broadcast(void* data, std::int64_t bytes, int root) = 0;
  virtual void allToAll(const void* in, void* out, std::int64_t bytes) = 0;
  // To and from single ranks, all together: none of these waits for another, and the call's work
  // ends when all have been received. Between two ranks messages come in the order in which they
  // were given; where they lie in how many calls is each side's own.
  struct Message {
    bool sends = false;
    void* data = nullptr;
    std::int64_t bytes = 0;
    int peer = 0;
    bool operator==(const Message&) const = default;
  };
  virtual void exchange(std::span<const Message> messages) = 0;
};

// How devices become a group. The device outlives it, and it the groups.
class Grouping {
 public:
  struct Member {
    std::string id;  // the group's
    int rank = 0, size = 1;
    Nanoseconds limit = 0;  // on waiting for the others, to become a group and in all that it does
  };
  virtual ~Grouping() = default;
  virtual std::string_view version() const = 0;  // those of all ranks are the same; no spaces
  // What one rank makes and tells the others.
  virtual Result<std::string> makeId() = 0;
  // All ranks at once. Errors: kDeadlineExceeded where they do not come.
  virtual Result<std::unique_ptr<Group>> join(const Member& as) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  std::mutex& inUse() { return inUse_; }

  virtual const Properties& properties() const = 0;
  // Zero-filled, aligned to 256 bytes. Errors: kResourceExhausted with what was asked for and what
  // is free.
  virtual Result<void*> allocate(std::int64_t bytes, Where where) = 0;
  virtual void release(void* memory, Where where) = 0;
  // kNotFound where the program has no kernel of the name.
  virtual Result<Function> function(std::string_view name) = 0;
  // The algorithm is chosen here. Errors: kFailedPrecondition where there is none.
  virtual Result<std::unique_ptr<Work>> bind(const Product& product) = 0;

  virtual void launch(const Launch& launch) = 0;
  // Between any two memories of allocate().
  virtual void copy(void* to, const void* from, std::int64_t bytes,
                    Queue queue = Queue::kCompute) = 0;
  virtual void zero(void* memory, std::int64_t bytes) = 0;

  virtual Result<std::unique_ptr<Event>> makeEvent() = 0;
  // For its time. Where it is recorded by captured work, what follows holds of it too, from each
  // time that work is given.
  virtual void record(Event& event, Queue queue) = 0;
  // What is given to `queue` from now on is done after what was given to the other one before
  // mark().
  virtual void mark(Event& event, Queue queue) = 0;
  virtual void wait(const Event& event, Queue queue) = 0;
  // The host, until what was given before mark() is done. Failures are told by synchronize().
  virtual void await(const Event& event) = 0;
  // Between two that have been recorded and synchronized.
  virtual double seconds(const Event& from, const Event& to) = 0;

  virtual Status synchronize() = 0;
  // Errors: kFailedPrecondition: why this device forms no groups.
  virtual Result<Grouping*> grouping() = 0;

  // What is given between the two is not done; it becomes one piece of work, of two queues:
  // kExchange begins by waiting for kCompute, which waits for it in the end. In between nothing is
  // bound, allocated or synchronized.
  virtual Status beginCapture() = 0;
  virtual Result<std::unique_ptr<Work>> endCapture() = 0;

 private:
  std::mutex inUse_;
};

// Owns what a device allocated; the device outlives it.
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
