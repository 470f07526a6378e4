#include "tests/support/emulated_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "engine/base/clock.h"
#include "tests/support/cuda_intrinsics.h"

namespace lockstep::testing {

GridIndex threadIdx, blockIdx, blockDim, gridDim;

namespace {

constexpr unsigned kMostThreads = 1024, kWarpThreads = 32;
constexpr std::size_t kStack = 64 << 10;

std::map<std::string, Body, std::less<>>& kernels() {
  static std::map<std::string, Body, std::less<>> all;
  return all;
}

// Switches to the stack `to`; stores in `from` where to resume.
extern "C" void lockstepSwitchStacks(void** from, void* to);
asm(R"(
.text
.type lockstepSwitchStacks, @function
lockstepSwitchStacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
constexpr std::size_t kSavedRegisters = 6;

float ofBf16(unsigned bits) { return std::bit_cast<float>(bits << 16); }
float ofF16(unsigned bits) {
  const unsigned exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = exponent > 0 ? std::bit_cast<float>(((exponent + 112) << 23) | fraction << 13)
                            : static_cast<float>(fraction) * 0x1p-24f;
  if (exponent == 31) size = fraction == 0 ? INFINITY : NAN;
  return (bits & 0x8000) != 0 ? -size : size;
}

// The running block.
class Block {
 public:
  void run(Body body, const void* arguments) {
    body_ = body;
    arguments_ = arguments;
    for (unsigned t = 0; t < blockDim.x; ++t) {
      Thread& thread = threads_[t];
      thread.waits = Waits::kForTheBlock;
      LOCKSTEP_CHECK(thread.copies.empty(), "a thread has ended without waiting for its copies");
      // Initial frame: as if it had called lockstepSwitchStacks() at the start of enter(), which
      // never returns.
      auto** top = reinterpret_cast<void**>(stacks_ + (t + 1) * kStack) - 2;
      *top = reinterpret_cast<void*>(&Block::enter);
      thread.stack = top - kSavedRegisters;
    }
    const unsigned warps = blockDim.x / kWarpThreads;
    for (unsigned ended = 0; ended == 0;) {
      order_ = order_ * 6364136223846793005u + 1442695040888963407u;
      const bool backwards = (order_ >> 60 & 1) != 0;
      for (unsigned w = 0; w < warps; ++w)
        if (runWarp(backwards ? warps - 1 - w : w) == Waits::kForNothing) ++ended;
      LOCKSTEP_CHECK(ended == 0 || ended == warps,
                     "threads of a block go separate ways at a barrier");
    }
  }
  void barrier() { wait(Waits::kForTheBlock); }
  float shuffleXor(float x, int lane) {
    const Said* const all = say({.value = x});
    return all[threadIdx.x % kWarpThreads ^ static_cast<unsigned>(lane)].value;
  }
  unsigned ballot(bool one) {
    const Said* const all = say({.value = one ? 1.0f : 0.0f});
    unsigned bits = 0;
    for (unsigned lane = 0; lane < kWarpThreads; ++lane)
      bits |= (all[lane].value != 0 ? 1u : 0u) << lane;
    return bits;
  }
  // Fragments as the PTX ISA defines them: "Matrix Fragments for mma.m16n8k16 with floating point
  // type".
  void multiply(float (*number)(unsigned), float* d, const unsigned* a, unsigned b0, unsigned b1) {
    Said mine;
    for (unsigned i = 0; i < 8; ++i) mine.a[i] = number(a[i / 2] >> (i % 2 * 16) & 0xffff);
    for (unsigned i = 0; i < 4; ++i) mine.b[i] = number((i < 2 ? b0 : b1) >> (i % 2 * 16) & 0xffff);
    const Said* const all = say(mine);
    const unsigned group = threadIdx.x % kWarpThreads / 4, place = threadIdx.x % 4;
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = group + i / 2 * 8, column = place * 2 + i % 2;
      double sum = static_cast<double>(d[i]);
      for (unsigned k = 0; k < 16; ++k) {
        // In a: rows below 8 are elements 0, 1, 4 and 5; columns below 8 the first four. In b: rows
        // below 8 are the first two.
        const float left = all[row % 8 * 4 + k % 8 / 2].a[k / 8 * 4 + row / 8 * 2 + k % 2];
        const float right = all[column * 4 + k % 8 / 2].b[k / 8 * 2 + k % 2];
        sum += static_cast<double>(left) * static_cast<double>(right);
      }
      d[i] = static_cast<float>(sum);
    }
  }
  void loadMatrices(unsigned* to, const void* row, bool transposed) {
    LOCKSTEP_CHECK(reinterpret_cast<std::uintptr_t>(row) % 16 == 0,
                   "a row of a matrix does not lie on 16 bytes");
    const Said* const all = say({.row = static_cast<const std::uint16_t*>(row)});
    const unsigned lane = threadIdx.x % kWarpThreads, line = lane / 4, first = lane % 4 * 2;
    for (unsigned m = 0; m < 4; ++m)
      to[m] = transposed ? all[m * 8 + first].row[line] |
                               static_cast<unsigned>(all[m * 8 + first + 1].row[line]) << 16
                         : all[m * 8 + line].row[first] |
                               static_cast<unsigned>(all[m * 8 + line].row[first + 1]) << 16;
    wait(Waits::kForTheWarp);  // reads the previous values
  }
  void cpAsync(void* to, const void* from, unsigned bytes, bool there) {
    LOCKSTEP_CHECK(reinterpret_cast<std::uintptr_t>(to) % bytes == 0 &&
                       reinterpret_cast<std::uintptr_t>(from) % bytes == 0,
                   "a copy ahead does not lie on {} bytes", bytes);
    std::memset(to, 0xff, bytes);
    threads_[threadIdx.x].copies.push_back({to, from, bytes, there});
  }
  void cpAsyncWait() {
    for (const Copy& copy : threads_[threadIdx.x].copies) {
      if (copy.there)
        std::memcpy(copy.to, copy.from, copy.bytes);
      else
        std::memset(copy.to, 0, copy.bytes);
    }
    threads_[threadIdx.x].copies.clear();
  }
  static Block& one() {
    static Block block;
    return block;
  }

 private:
  enum class Waits { kForTheBlock, kForTheWarp, kForNothing };  // kForNothing: it has ended
  struct Copy {
    void* to;
    const void* from;
    unsigned bytes;
    bool there;
  };
  struct Thread {
    void* stack = nullptr;
    Waits waits{};
    unsigned turn = 0;  // number of exchanges so far
    std::vector<Copy> copies;
  };
  // What a thread shares with its warp.
  struct Said {
    float value = 0;
    const std::uint16_t* row = nullptr;
    float a[8] = {}, b[4] = {};
  };
  static void enter() {
    Block& block = one();
    block.body_(block.arguments_);
    block.wait(Waits::kForNothing);
  }
  void wait(Waits what) {
    threads_[threadIdx.x].waits = what;
    lockstepSwitchStacks(&threads_[threadIdx.x].stack, scheduler_);
  }
  // Runs the warp up to the next barrier.
  Waits runWarp(unsigned warp) {
    for (;;) {
      for (unsigned t = warp * kWarpThreads; t < (warp + 1) * kWarpThreads; ++t) {
        threadIdx.x = t;
        lockstepSwitchStacks(&scheduler_, threads_[t].stack);
      }
      const Waits first = threads_[warp * kWarpThreads].waits;
      for (unsigned lane = 1; lane < kWarpThreads; ++lane)
        LOCKSTEP_CHECK(threads_[warp * kWarpThreads + lane].waits == first,
                       "threads of a warp go separate ways");
      if (first != Waits::kForTheWarp) return first;
    }
  }
  // Shares a value among all threads of the warp, which must all take part; valid until the next
  // call.
  const Said* say(const Said& mine) {
    auto& said = said_[threads_[threadIdx.x].turn++ % 2];
    said[threadIdx.x] = mine;
    wait(Waits::kForTheWarp);
    return said.data() + threadIdx.x / kWarpThreads * kWarpThreads;
  }
  Body body_ = nullptr;
  const void* arguments_ = nullptr;
  void* scheduler_ = nullptr;
  std::uint64_t order_ = 1;  // of warps
  std::array<Thread, kMostThreads> threads_;
  std::array<std::array<Said, kMostThreads>, 2> said_{};
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  // Not initialized: most kernels have fewer threads.
  std::unique_ptr<Line[]> lines_ =
      std::make_unique_for_overwrite<Line[]>(kMostThreads * kStack / sizeof(Line));
  std::byte* const stacks_ = lines_[0].bytes.data();
};

struct TimedEvent final : device::Event {
  Nanoseconds at = 0;
  std::uint64_t marked = 0;  // the last mark; 0: none
};
using Action = std::function<void()>;
struct QueuedWork {
  device::Queue queue{};
  Action action;  // null: a mark or a wait
  std::uint64_t mark = 0, wait = 0;
};
std::atomic<int> made{0};

class Emulated;

class EmulatedGroup final : public device::Group {
 public:
  EmulatedGroup(Emulated& device, std::string id, const device::Grouping::Member& as);
  ~EmulatedGroup() override;
  int rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }
  Result<std::unique_ptr<Group>> split(int color, int key, int size) override {
    const std::string id = fmt::format("{}/{}.{}", id_, splits_++, color);
    if (color < 0) return std::unique_ptr<Group>();
    return std::unique_ptr<Group>(std::make_unique<EmulatedGroup>(
        device_, id, device::Grouping::Member{{}, key, size, limit_}));
  }
  void allReduce(void* data, std::int64_t count, DType dtype, device::Reduce op) override {
    enqueue("all-reduce", count, dtype,
            [=, this] { return comm_->allReduce(data, count, dtype, opOf(op)); });
  }
  void reduceScatter(const void* in, void* out, std::span<const std::int64_t> cuts, DType dtype,
                     device::Reduce op) override {
    enqueue("reduce-scatter", cuts.back() - cuts[0], dtype,
            [=, this, cuts = std::vector(cuts.begin(), cuts.end())] {
              return comm_->reduceScatter(in, out, cuts, dtype, opOf(op));
            });
  }
  void allGather(const void* in, void* out, std::span<const std::int64_t> cuts,
                 DType dtype) override {
    enqueue("all-gather", cuts.back() - cuts[0], dtype,
            [=, this, cuts = std::vector(cuts.begin(), cuts.end())] {
              return comm_->allGather(in, out, cuts, dtype);
            });
  }
  void broadcast(void* data, std::int64_t bytes, int root) override {
    enqueue("broadcast", bytes, DType::kU8,
            [=, this] { return comm_->broadcast(data, bytes, root); });
  }
  void allToAll(const void* in, void* out, std::int64_t bytes) override {
    enqueue("all-to-all", bytes * size(), DType::kU8,
            [=, this] { return comm_->allToAll(in, out, bytes); });
  }
  void exchange(std::span<const Message> messages) override;
  void abort();

 private:
  static comm::ReduceOp opOf(device::Reduce op) {
    return op == device::Reduce::kMax ? comm::ReduceOp::kMax : comm::ReduceOp::kSum;
  }
  void enqueue(std::string_view what, std::int64_t count, DType dtype,
               std::function<Status()> call);

  Emulated& device_;
  const std::string id_;
  const Nanoseconds limit_;
  int splits_ = 0;
  std::unique_ptr<comm::Communicator> comm_;
};

class Emulated final : public EmulatedDevice, public device::Grouping {
 public:
  Emulated() {
    properties_.name = "emulated";
    properties_.id = fmt::format("emulated-{}", ++made);
    properties_.major = 9;
    properties_.multiprocessors = 1;
    properties_.memoryBytes = std::int64_t{1} << 30;
  }
  ~Emulated() override {
    LOCKSTEP_CHECK(memory_.empty(), "{} pieces of memory were not released", memory_.size());
  }

  void failAt(int launches) override { failAt_ = launches; }
  void setId(std::string id) override { properties_.id = std::move(id); }
  void setComputeCapability(int major, int minor) override {
    properties_.major = major;
    properties_.minor = minor;
  }

  Result<device::Grouping*> grouping() override {
    if (rendezvous == nullptr)
      return makeError(Code::kFailedPrecondition, "emulated devices have nowhere to meet");
    return static_cast<device::Grouping*>(this);
  }
  std::string_view version() const override { return EmulatedDevice::version; }
  Result<std::string> makeId() override { return std::string("\x01\xfe group", 8); }
  Result<std::unique_ptr<device::Group>> join(const Member& as) override {
    return std::unique_ptr<device::Group>(std::make_unique<EmulatedGroup>(*this, as.id, as));
  }
  const device::Properties& properties() const override { return properties_; }

  Result<void*> allocate(std::int64_t bytes, device::Where where) override {
    LOCKSTEP_CHECK(!capturing_, "memory is allocated in a capture");
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t size =
        (static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)) + page - 1) / page * page;
    const bool hidden = where == device::Where::kDevice;
    void* const data = mmap(nullptr, size, hidden ? PROT_NONE : PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LOCKSTEP_CHECK(data != MAP_FAILED);
    (hidden ? memory_ : pinned_)[data] = size;
    return data;
  }
  void release(void* data, device::Where where) override {
    touch([&] { run(std::exchange(queued_, {})); });
    auto& memory = where == device::Where::kDevice ? memory_ : pinned_;
    const auto at = memory.find(data);
    LOCKSTEP_CHECK(at != memory.end(), "what is released was not allocated");
    munmap(data, at->second);
    memory.erase(at);
  }
  Result<device::Function> function(std::string_view name) override {
    const auto at = kernels().find(name);
    if (at == kernels().end()) return makeError(Code::kNotFound, "there is no kernel {}", name);
    return static_cast<device::Function>(&*at);
  }

  void launch(const device::Launch& launch) override {
    const auto& kernel = *static_cast<const std::pair<const std::string, Body>*>(launch.function);
    LOCKSTEP_CHECK(launch.threads <= kMostThreads && launch.threads % kWarpThreads == 0);
    const auto* from = static_cast<const std::byte*>(launch.arguments);
    std::vector<std::byte> arguments(from, from + launch.argumentBytes);
    compute(fmt::format("launch {} {}×{}×{}", kernel.first, launch.blocks, launch.blocksDown,
                        launch.threads),
            [this, body = kernel.second, launch, arguments = std::move(arguments)] {
              static std::mutex running;  // one at a time over all devices
              const std::lock_guard lock(running);
              if (failAt_ > 0 && --failAt_ == 0)
                failed_ = makeError(Code::kInternal, "the device fell off the bus");
              blockDim = {launch.threads, 1};
              gridDim = {launch.blocks, launch.blocksDown};
              for (blockIdx.y = 0; blockIdx.y < launch.blocksDown; ++blockIdx.y)
                for (blockIdx.x = 0; blockIdx.x < launch.blocks; ++blockIdx.x)
                  Block::one().run(body, arguments.data());
            });
  }
  void copy(void* to, const void* from, std::int64_t bytes, device::Queue queue) override {
    LOCKSTEP_CHECK(!capturing_ || queue != device::Queue::kAhead, "a copy ahead is in no capture");
    const char* const where = queue == device::Queue::kAhead      ? " ahead"
                              : queue == device::Queue::kExchange ? " exchange"
                                                                  : "";
    // The host may read a count while the device is at work.
    if (queue == device::Queue::kExchange && bytes == sizeof(std::uint64_t))
      return enqueue(fmt::format("copy {}{}", bytes, where), queue, [=] {
        std::atomic_ref<std::uint64_t>(*static_cast<std::uint64_t*>(to))
            .store(*static_cast<const std::uint64_t*>(from), std::memory_order_relaxed);
      });
    enqueue(fmt::format("copy {}{}", bytes, where), queue,
            [=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
  }
  void zero(void* memory, std::int64_t bytes) override {
    compute(fmt::format("zero {}", bytes),
            [=] { std::memset(memory, 0, static_cast<std::size_t>(bytes)); });
  }
  Result<std::unique_ptr<device::Work>> bind(const device::Matmul& matmul) override;

  Result<std::unique_ptr<device::Event>> makeEvent() override {
    return std::unique_ptr<device::Event>(std::make_unique<TimedEvent>());
  }
  void record(device::Event& event, device::Queue queue) override {
    auto& timestamp = static_cast<TimedEvent&>(event);
    if (capturing_)
      recorded_.push_back(&timestamp);
    else
      timestamp.marked = ++marks_;
    enqueue("record", {queue, [&timestamp] { timestamp.at = monotonicNow(); },
                       capturing_ ? 0 : timestamp.marked, 0});
  }
  void mark(device::Event& event, device::Queue queue) override {
    static_cast<TimedEvent&>(event).marked = ++marks_;
    enqueue(fmt::format("mark {}", nameOf(queue)), {queue, nullptr, marks_, 0});
  }
  void wait(const device::Event& event, device::Queue queue) override {
    enqueue(fmt::format("wait {}", nameOf(queue)),
            {queue, nullptr, 0, static_cast<const TimedEvent&>(event).marked});
  }
  void await(const device::Event& event) override {
    LOCKSTEP_CHECK(!capturing_, "a capture is waited for");
    note("await");
    const std::uint64_t mark = static_cast<const TimedEvent&>(event).marked;
    if (std::none_of(queued_.begin(), queued_.end(),
                     [&](const QueuedWork& one) { return one.mark == mark; }))
      return;
    touch([&] { queued_ = run(std::exchange(queued_, {}), mark); });
  }
  double seconds(const device::Event& from, const device::Event& to) override {
    return static_cast<double>(static_cast<const TimedEvent&>(to).at -
                               static_cast<const TimedEvent&>(from).at) *
           1e-9;
  }

  Status synchronize() override {
    LOCKSTEP_CHECK(!capturing_, "a capture is synchronized");
    note("synchronize");
    compute("", [] {});
    queued_.back().mark = ++marks_;
    first_ = (first_ + 1) % kQueues;
    touch([&] { queued_ = run(std::exchange(queued_, {}), marks_); });
    if (!failed_.ok())
      for (EmulatedGroup* group : groups) group->abort();
    return failed_;
  }
  Status beginCapture() override {
    LOCKSTEP_CHECK(!capturing_);
    note("begin capture");
    capturing_ = true;
    return failed_;
  }
  Result<std::unique_ptr<device::Work>> endCapture() override;

  void enqueue(std::string call, QueuedWork work) {
    if (work.action)
      work.action = [this, call, action = std::move(work.action)] {
        if (onWork && !call.empty()) onWork(call);
        action();
      };
    if (!call.empty()) note((capturing_ ? "  " : "") + std::move(call));
    (capturing_ ? captured_ : queued_).push_back(std::move(work));
  }
  void enqueue(std::string call, device::Queue queue, Action action) {
    enqueue(std::move(call), {queue, std::move(action)});
  }
  // Enqueues work that records these events; they complete with all of it.
  void enqueueRecording(std::string call, Action action, const std::vector<TimedEvent*>& recorded) {
    const std::uint64_t mark = recorded.empty() ? 0 : ++marks_;
    for (TimedEvent* timestamp : recorded) timestamp->marked = mark;
    enqueue(std::move(call), {device::Queue::kCompute, std::move(action), mark, 0});
  }
  void compute(std::string call, Action action) {
    enqueue(std::move(call), device::Queue::kCompute, std::move(action));
  }
  void fail(const Status& status) {
    if (failed_.ok()) failed_ = status;
  }
  // Runs each queue in order until `mark` is reached, or to the end. Returns the remaining work. A
  // mark not found was reached before.
  std::vector<QueuedWork> run(std::vector<QueuedWork> all, std::uint64_t mark = 0) {
    std::set<std::uint64_t> open;
    std::array<std::deque<QueuedWork>, kQueues> queues;
    for (QueuedWork& one : all) {
      if (one.mark != 0) open.insert(one.mark);
      queues[static_cast<std::size_t>(one.queue)].push_back(std::move(one));
    }
    const auto advance = [&](std::deque<QueuedWork>& queue) {
      if (queue.empty() || open.contains(queue.front().wait)) return false;
      const QueuedWork next = std::move(queue.front());
      queue.pop_front();
      if (next.action && failed_.ok()) next.action();
      open.erase(next.mark);
      return true;
    };
    for (bool goes = true; goes && (mark == 0 || open.contains(mark));) {
      goes = false;
      for (std::size_t q = 0; q < kQueues && !goes; ++q)
        goes = advance(queues[(first_ + q) % kQueues]);
    }
    LOCKSTEP_CHECK(mark == 0 || !open.contains(mark), "the queues wait for each other");
    std::vector<QueuedWork> left;
    for (std::deque<QueuedWork>& queue : queues)
      for (QueuedWork& one : queue) left.push_back(std::move(one));
    LOCKSTEP_CHECK(mark != 0 || left.empty(), "the queues wait for each other");
    return left;
  }
  // Runs `what` with device memory accessible.
  template <typename Do>
  void touch(Do what) {
    protect(PROT_READ | PROT_WRITE);
    what();
    protect(PROT_NONE);
  }
  std::vector<EmulatedGroup*> groups;

 private:
  void note(std::string call) {
    if (calls != nullptr) calls->push_back(std::move(call));
  }
  void protect(int access) {
    for (const auto& [data, bytes] : memory_) LOCKSTEP_CHECK(mprotect(data, bytes, access) == 0);
  }

  device::Properties properties_;
  std::map<void*, std::size_t> memory_, pinned_;
  static constexpr std::size_t kQueues = 3;
  static std::string_view nameOf(device::Queue queue) {
    return queue == device::Queue::kCompute    ? "compute"
           : queue == device::Queue::kExchange ? "exchange"
                                               : "ahead";
  }
  std::vector<QueuedWork> queued_, captured_;
  std::vector<TimedEvent*> recorded_;  // events recorded in the capture
  std::uint64_t marks_ = 0;
  std::size_t first_ = 0;  // the queue that runs first
  bool capturing_ = false;
  int failAt_ = 0;
  Status failed_;
};

class Repeated final : public device::Work {
 public:
  Repeated(Emulated& device, std::string call, Action action,
           std::vector<TimedEvent*> recorded = {})
      : device_(device),
        call_(std::move(call)),
        action_(std::move(action)),
        recorded_(std::move(recorded)) {}
  void enqueue() override { device_.enqueueRecording(call_, action_, recorded_); }
  std::int64_t workspaceBytes() const override { return 0; }

 private:
  Emulated& device_;
  std::string call_;
  Action action_;
  std::vector<TimedEvent*> recorded_;
};

// Rounds f32 to tf32 as a GPU does: 10 bits of mantissa.
float inTf32(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffffe000u);
}

template <DType kOperand>
float operandAt(const void* x, std::int64_t i) {
  if constexpr (kOperand == DType::kF32) return static_cast<const float*>(x)[i];
  const unsigned bits = static_cast<const std::uint16_t*>(x)[i];
  return kOperand == DType::kBf16 ? ofBf16(bits) : ofF16(bits);
}
// Row by row, with b column by column.
template <DType Operand>
void multiply(const device::Matmul& p) {
  const std::int64_t pitch = p.pitch > 0 ? p.pitch : p.ta ? p.n : p.k;
  std::vector<float> rows(static_cast<std::size_t>(p.n * p.k)),
      columns(static_cast<std::size_t>(p.k * p.o));
  for (std::int64_t n = 0; n < p.n; ++n)
    for (std::int64_t k = 0; k < p.k; ++k)
      rows[static_cast<std::size_t>(n * p.k + k)] =
          operandAt<Operand>(p.a, p.ta ? k * pitch + n : n * pitch + k);
  for (std::int64_t o = 0; o < p.o; ++o)
    for (std::int64_t k = 0; k < p.k; ++k)
      columns[static_cast<std::size_t>(o * p.k + k)] =
          operandAt<Operand>(p.b, p.tb ? o * p.k + k : k * p.o + o);
  if (p.tf32)
    for (auto* operands : {&rows, &columns})
      std::transform(operands->begin(), operands->end(), operands->begin(), inTf32);
  for (std::int64_t n = 0; n < p.n; ++n)
    for (std::int64_t o = 0; o < p.o; ++o) {
      double sum = p.bias == nullptr            ? 0
                   : p.biasDtype == DType::kF32 ? operandAt<DType::kF32>(p.bias, o)
                                                : operandAt<Operand>(p.bias, o);
      const float *a = rows.data() + n * p.k, *b = columns.data() + o * p.k;
      const std::int64_t at = n * p.o + o;
      if (p.adds) sum += static_cast<double>(static_cast<float*>(p.y)[at]);
      for (std::int64_t k = 0; k < p.k; ++k)
        sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
      if (p.resultDtype == DType::kF32)
        static_cast<float*>(p.y)[at] = static_cast<float>(sum);
      else
        static_cast<std::uint16_t*>(p.y)[at] = static_cast<std::uint16_t>(
            pack(p.resultDtype == DType::kBf16 ? HalfFormat::kBf16 : HalfFormat::kF16,
                 static_cast<float>(sum), 0));
    }
}

Result<std::unique_ptr<device::Work>> Emulated::bind(const device::Matmul& matmul) {
  return std::unique_ptr<device::Work>(std::make_unique<Repeated>(
      *this,
      fmt::format("product {}×{}×{}{}{}", matmul.n, matmul.k, matmul.o, matmul.adds ? " added" : "",
                  matmul.tf32 ? " tf32" : ""),
      [matmul] {
        if (matmul.operandDtype == DType::kBf16)
          multiply<DType::kBf16>(matmul);
        else if (matmul.operandDtype == DType::kF16)
          multiply<DType::kF16>(matmul);
        else
          multiply<DType::kF32>(matmul);
      }));
}

Result<std::unique_ptr<device::Work>> Emulated::endCapture() {
  LOCKSTEP_CHECK(capturing_);
  note("end capture");
  capturing_ = false;
  // Captures must fork from kCompute and join it again.
  const auto ofExchange = [](const QueuedWork& one) {
    return one.queue == device::Queue::kExchange;
  };
  if (const auto first = std::find_if(captured_.begin(), captured_.end(), ofExchange);
      first != captured_.end()) {
    const auto last = std::find_if(captured_.rbegin(), captured_.rend(), ofExchange);
    LOCKSTEP_CHECK(first->wait != 0, "a capture's exchange does not begin by waiting");
    LOCKSTEP_CHECK(last->mark != 0 && std::any_of(captured_.begin(), captured_.end(),
                                                  [&](const QueuedWork& one) {
                                                    return one.queue == device::Queue::kCompute &&
                                                           one.wait == last->mark;
                                                  }),
                   "nothing in a capture waits for its last exchange");
  }
  return std::unique_ptr<device::Work>(std::make_unique<Repeated>(
      *this, "replay", [this, all = std::exchange(captured_, {})] { run(all); },
      std::exchange(recorded_, {})));
}

EmulatedGroup::EmulatedGroup(Emulated& device, std::string id, const device::Grouping::Member& as)
    : device_(device),
      id_(std::move(id)),
      limit_(as.limit),
      comm_(device.rendezvous->join(id_, as.rank, as.size, as.limit)) {
  device_.groups.push_back(this);
}
EmulatedGroup::~EmulatedGroup() { std::erase(device_.groups, this); }
void EmulatedGroup::enqueue(std::string_view what, std::int64_t count, DType dtype,
                            std::function<Status()> call) {
  device_.enqueue(fmt::format("{} {}", what, count * static_cast<std::int64_t>(sizeOf(dtype))),
                  device::Queue::kExchange,
                  [this, call = std::move(call)] { device_.fail(call()); });
}
void EmulatedGroup::exchange(std::span<const Message> messages) {
  std::vector<std::string> calls;
  for (const Message& one : messages)
    calls.push_back(fmt::format("{} {} {} {}", one.sends ? "send" : "receive", one.bytes,
                                one.sends ? "to" : "from", one.peer));
  device_.enqueue(fmt::format("{}", fmt::join(calls, ", ")), device::Queue::kExchange,
                  [this, all = std::vector(messages.begin(), messages.end())] {
                    device_.fail(device_.rendezvous->exchange(id_, comm_->rank(), all, limit_));
                  });
}
void EmulatedGroup::abort() {
  comm_->abort();
  device_.rendezvous->abort();
}

}  // namespace

void blockBarrier() { Block::one().barrier(); }
float shuffleXor(float x, int lane) { return Block::one().shuffleXor(x, lane); }
unsigned ballot(bool one) { return Block::one().ballot(one); }
unsigned pack(HalfFormat as, float first, float second) {
  const auto bitsOf = [as](float x) -> unsigned {
    const unsigned bits = std::bit_cast<unsigned>(x), size = bits & 0x7fffffff;
    if (as == HalfFormat::kBf16)
      return size > 0x7f800000 ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    if (size > 0x7f800000) return 0x7fff;
    const double value = std::abs(static_cast<double>(x));
    if (value >= 65520) return (bits >> 16 & 0x8000) | 0x7c00;
    const int exponent = value < 0x1p-14 ? -14 : std::ilogb(value);
    // the implicit leading bit adds 1024
    const auto steps = static_cast<unsigned>(std::nearbyint(std::ldexp(value, 10 - exponent)));
    return (bits >> 16 & 0x8000) | (static_cast<unsigned>(exponent + 14) * 1024 + steps);
  };
  return bitsOf(first) | bitsOf(second) << 16;
}
void multiplyFragments(HalfFormat as, float* d, const unsigned* a, unsigned b0, unsigned b1) {
  Block::one().multiply(as == HalfFormat::kBf16 ? ofBf16 : ofF16, d, a, b0, b1);
}
void loadMatrices(unsigned* to, const void* row, bool transposed) {
  Block::one().loadMatrices(to, row, transposed);
}
void cpAsync(void* to, const void* from, unsigned bytes, bool there) {
  Block::one().cpAsync(to, from, bytes, there);
}
void cpAsyncWait() { Block::one().cpAsyncWait(); }
bool addKernel(const char* name, Body body) { return kernels().emplace(name, body).second; }

std::unique_ptr<comm::Communicator> EmulatedRendezvous::join(const std::string& id, int rank,
                                                             int size, Nanoseconds limit) {
  const std::lock_guard lock(mutex_);
  auto& group = groups_[id];
  if (group.empty()) group = comm::makeInProcessGroup(size, limit).value();
  LOCKSTEP_CHECK(static_cast<int>(group.size()) == size &&
                 group[static_cast<std::size_t>(rank)] != nullptr);
  return std::move(group[static_cast<std::size_t>(rank)]);
}

Status EmulatedRendezvous::exchange(const std::string& id, int rank,
                                    std::span<const device::Group::Message> messages,
                                    Nanoseconds limit) {
  std::unique_lock lock(mutex_);
  std::vector<std::shared_ptr<Sent>> mine;
  for (const auto& one : messages) {
    if (!one.sends) continue;
    mine.push_back(std::make_shared<Sent>(Sent{one.data, one.bytes, false}));
    sent_[{id, rank, one.peer}].push_back(mine.back());
  }
  changed_.notify_all();
  const auto until = [&](const auto& done) -> Status {
    if (!changed_.wait_for(lock, std::chrono::nanoseconds(limit),
                           [&] { return aborted_ || done(); }))
      return makeError(Code::kDeadlineExceeded, "rank {} of {} waits for a message", rank, id);
    return aborted_ ? Status(makeError(Code::kAborted, "a rank has left")) : Status();
  };
  for (const auto& one : messages) {
    if (one.sends) continue;
    auto& from = sent_[{id, one.peer, rank}];
    LOCKSTEP_TRY(until([&] { return !from.empty(); }));
    LOCKSTEP_CHECK(from.front()->bytes == one.bytes, "a message of {} bytes is received as of {}",
                   from.front()->bytes, one.bytes);
    std::memcpy(one.data, from.front()->data, static_cast<std::size_t>(one.bytes));
    from.front()->received = true;
    from.pop_front();
    changed_.notify_all();
  }
  return until([&] {
    return std::all_of(mine.begin(), mine.end(), [](const auto& one) { return one->received; });
  });
}

void EmulatedRendezvous::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

std::unique_ptr<EmulatedDevice> makeEmulatedDevice() { return std::make_unique<Emulated>(); }

}  // namespace lockstep::testing
