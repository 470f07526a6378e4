#include <dlfcn.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>

#include "engine/base/log.h"
#include "engine/device/cuda/groups.h"
#include "engine/device/cuda/library.h"

namespace lockstep::device::cuda {
namespace {

// clang-format off
#define LOCKSTEP_NCCL_CALLS(CALL)                                                                        \
  CALL(ncclGetVersion) CALL(ncclGetErrorString) CALL(ncclGetUniqueId) CALL(ncclCommInitRankConfig)       \
  CALL(ncclCommSplit) CALL(ncclCommGetAsyncError) CALL(ncclCommFinalize) CALL(ncclCommDestroy)           \
  CALL(ncclCommAbort) CALL(ncclGroupStart) CALL(ncclGroupEnd) CALL(ncclAllReduce) CALL(ncclReduce)       \
  CALL(ncclReduceScatter) CALL(ncclAllGather) CALL(ncclBroadcast) CALL(ncclSend) CALL(ncclRecv)
// clang-format on

struct Calls {
#define LOCKSTEP_FIELD(name) decltype(&::name) name = nullptr;
  LOCKSTEP_NCCL_CALLS(LOCKSTEP_FIELD)
#undef LOCKSTEP_FIELD
};

constexpr int kLeastVersion = NCCL_VERSION(2, 18, 0);  // the first with ncclCommSplit
constexpr Nanoseconds kFinalizeLimit = 5'000'000'000;
constexpr Nanoseconds kAbortLimit = 5'000'000'000;

std::string versionText(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

struct Found {
  Calls calls;
  Library library;
};

Found find() {
  Found out;
  out.library.name = "NCCL";
  out.library.expected = fmt::format(
      "{} or later, as {} that the module was built with; for GPUs to exchange without the host",
      versionText(kLeastVersion), versionText(NCCL_VERSION_CODE));
  // Connects rings and trees when a group is formed, while all ranks take part, not when a step
  // that needs them is captured.
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  const OpenLibrary library = openLibrary("libnccl.so.2");
  out.library.problem = library.problem;
  if (library.handle == nullptr) return out;
  const auto resolve = [&](auto& field, const char* name) {
    field = reinterpret_cast<std::remove_reference_t<decltype(field)>>(dlsym(library.handle, name));
    if (field == nullptr && out.library.problem.empty())
      out.library.problem = fmt::format("{} has no {}", library.path, name);
  };
#define LOCKSTEP_RESOLVE(name) resolve(out.calls.name, #name);
  LOCKSTEP_NCCL_CALLS(LOCKSTEP_RESOLVE)
#undef LOCKSTEP_RESOLVE
  int version = 0;
  if (out.calls.ncclGetVersion != nullptr) out.calls.ncclGetVersion(&version);
  if (version > 0) out.library.version = versionText(version);
  // An old version lacks symbols; its version is the better message.
  if (version > 0 && version < kLeastVersion)
    out.library.problem = fmt::format("it is {} ({})", out.library.version, library.path);
  if (!out.library.problem.empty()) return out;
  out.library.found = fmt::format("{} ({})", out.library.version, library.path);
  return out;
}

const Found& found() {
  static const Found once = find();
  return once;
}

ncclDataType_t typeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kBf16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    case DType::kI32:
      return ncclInt32;
    case DType::kI64:
      return ncclInt64;
    case DType::kU8:
      return ncclUint8;
  }
  return ncclUint8;
}
ncclRedOp_t reductionOf(Reduce op) { return op == Reduce::kMax ? ncclMax : ncclSum; }

// Whether all parts are of equal size.
bool even(std::span<const std::int64_t> cuts) {
  for (std::size_t i = 1; i + 1 < cuts.size(); ++i)
    if (cuts[i + 1] - cuts[i] != cuts[1] - cuts[0]) return false;
  return true;
}

// Back-off of a polling loop: spins first, then yields the core.
void rest(Nanoseconds since) {
  constexpr Nanoseconds kBusy = 1'000'000;
  if (monotonicNow() - since > kBusy)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  else
    std::this_thread::yield();
}

// Aborts communicators, each on a thread of its own. ncclCommAbort() sets the communicator's abort
// flag first, which ends its kernels, and then blocks until all graphs that captured it are
// destroyed. The caller owns these graphs, so it must not block here; and a communicator's cleanup
// may wait for the kernels of another, so all flags must be set at once.
class Aborts {
 public:
  // `abort` is ncclCommAbort.
  void start(ncclResult_t (*abort)(ncclComm_t), ncclComm_t comm) {
    {
      const std::lock_guard lock(shared_->mutex);
      ++shared_->underWay;
    }
    std::thread([abort, comm, shared = shared_] {
      abort(comm);
      const std::lock_guard lock(shared->mutex);
      --shared->underWay;
      shared->changed.notify_all();
    }).detach();  // one that never returns must not keep the process
  }
  // Returns the number of calls that have not returned within `limit`.
  int await(Nanoseconds limit) {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait_for(lock, std::chrono::nanoseconds(limit),
                              [this] { return shared_->underWay == 0; });
    return shared_->underWay;
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    int underWay = 0;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

class NcclGroup;

class NcclGrouping final : public CudaGrouping {
 public:
  NcclGrouping(CUstream exchange, std::function<void()> use, Status& failed)
      : exchange_(exchange), use_(std::move(use)), failed_(failed) {}
  // Precondition: graphs that captured the groups are destroyed.
  ~NcclGrouping() override {
    if (const int left = aborts_.await(kAbortLimit); left > 0)
      logWarning("NCCL has not released {} communicator{} after {} s", left, left == 1 ? "" : "s",
                 kAbortLimit / 1'000'000'000);
  }

  std::string_view version() const override { return found().library.version; }
  Result<std::string> makeId() override;
  Result<std::unique_ptr<Group>> join(const Member& as) override;

  void poll() override;
  void abort() override;
  Nanoseconds limit() const override;

 private:
  friend class NcclGroup;
  // With blocking=1, a call that waits for a missing peer would never return.
  static ncclConfig_t config() {
    ncclConfig_t out = NCCL_CONFIG_INITIALIZER;
    out.blocking = 0;
    return out;
  }
  void fail(const Status& status) {
    if (failed_.ok()) failed_ = status;
    abort();
  }

  const CUstream exchange_;
  const std::function<void()> use_;
  Status& failed_;  // the device's
  std::vector<NcclGroup*> groups_;
  Aborts aborts_;
};

class NcclGroup final : public Group {
 public:
  NcclGroup(NcclGrouping& all, int rank, int size, Nanoseconds limit)
      : all_(all), rank_(rank), size_(size), limit_(limit) {
    all_.groups_.push_back(this);
  }
  // Without a failure, peers may still be reading this rank's data.
  ~NcclGroup() override {
    std::erase(all_.groups_, this);
    if (comm_ == nullptr) return;
    if (all_.failed_.ok() &&
        settle(calls().ncclCommFinalize(comm_), comm_, "", kFinalizeLimit).ok())
      calls().ncclCommDestroy(comm_);
    else
      abort();
  }

  Status join(const ncclUniqueId& id) {
    all_.use_();
    ncclConfig_t config = NcclGrouping::config();
    const ncclResult_t given = calls().ncclCommInitRankConfig(&comm_, size_, id, rank_, &config);
    return formed(settle(given, comm_,
                         lockstep::message("the GPUs of {} ranks do not become a group", size_),
                         limit_));
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Result<std::unique_ptr<Group>> split(int color, int key, int size) override {
    LOCKSTEP_TRY(all_.failed_);
    all_.use_();
    auto part = std::make_unique<NcclGroup>(all_, key, size, limit_);
    ncclConfig_t config = NcclGrouping::config();
    const lockstep::Message what =
        message("the GPUs of {} of {} ranks do not become a group", size, size_);
    const ncclResult_t given = calls().ncclCommSplit(comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color,
                                                     key, &part->comm_, &config);
    // The old communicator creates the new one, which then initializes itself.
    Status status = formed(settle(given, comm_, what, limit_));
    if (status.ok() && part->comm_ != nullptr)
      status = part->formed(part->settle(ncclInProgress, part->comm_, what, limit_));
    LOCKSTEP_TRY(status);
    if (color < 0) return std::unique_ptr<Group>();
    return std::unique_ptr<Group>(std::move(part));
  }

  void allReduce(void* data, std::int64_t count, DType dtype, Reduce op) override {
    enqueue("an all-reduce", [&] {
      return calls().ncclAllReduce(data, data, size(count), typeOf(dtype), reductionOf(op), comm_,
                                   all_.exchange_);
    });
  }
  void reduceScatter(const void* in, void* out, std::span<const std::int64_t> cuts, DType dtype,
                     Reduce op) override {
    const auto* from = static_cast<const std::byte*>(in);
    const auto at = [&](std::int64_t element) { return from + element * bytesOf(dtype); };
    if (even(cuts)) {
      enqueue("a reduce-scatter", [&] {
        return calls().ncclReduceScatter(at(cuts[0]), out, size(cuts[1] - cuts[0]), typeOf(dtype),
                                         reductionOf(op), comm_, all_.exchange_);
      });
      return;
    }
    giveParts("a reduce-scatter", cuts, [&](int root, std::int64_t first, std::int64_t count) {
      return calls().ncclReduce(at(first), out, size(count), typeOf(dtype), reductionOf(op), root,
                                comm_, all_.exchange_);
    });
  }
  void allGather(const void* in, void* out, std::span<const std::int64_t> cuts,
                 DType dtype) override {
    auto* to = static_cast<std::byte*>(out);
    const auto at = [&](std::int64_t element) { return to + element * bytesOf(dtype); };
    if (even(cuts)) {
      enqueue("an all-gather", [&] {
        return calls().ncclAllGather(in, at(cuts[0]), size(cuts[1] - cuts[0]), typeOf(dtype), comm_,
                                     all_.exchange_);
      });
      return;
    }
    giveParts("an all-gather", cuts, [&](int root, std::int64_t first, std::int64_t count) {
      return calls().ncclBroadcast(root == rank_ ? in : at(first), at(first), size(count),
                                   typeOf(dtype), root, comm_, all_.exchange_);
    });
  }
  void broadcast(void* data, std::int64_t bytes, int root) override {
    enqueue("a broadcast", [&] {
      return calls().ncclBroadcast(data, data, size(bytes), ncclUint8, root, comm_, all_.exchange_);
    });
  }
  void allToAll(const void* in, void* out, std::int64_t bytes) override {
    enqueue("an all-to-all", [&] {
      calls().ncclGroupStart();
      ncclResult_t worst = ncclSuccess;
      for (int peer = 0; peer < size_; ++peer) {
        const auto* from = static_cast<const std::byte*>(in) + peer * bytes;
        auto* to = static_cast<std::byte*>(out) + peer * bytes;
        note(worst, calls().ncclSend(from, size(bytes), ncclUint8, peer, comm_, all_.exchange_));
        note(worst, calls().ncclRecv(to, size(bytes), ncclUint8, peer, comm_, all_.exchange_));
      }
      note(worst, calls().ncclGroupEnd());
      return worst;
    });
  }
  void exchange(std::span<const Message> messages) override {
    enqueue("a message", [&] {
      calls().ncclGroupStart();
      ncclResult_t worst = ncclSuccess;
      for (const Message& one : messages)
        note(worst, one.sends ? calls().ncclSend(one.data, size(one.bytes), ncclUint8, one.peer,
                                                 comm_, all_.exchange_)
                              : calls().ncclRecv(one.data, size(one.bytes), ncclUint8, one.peer,
                                                 comm_, all_.exchange_));
      note(worst, calls().ncclGroupEnd());
      return worst;
    });
  }

 private:
  friend class NcclGrouping;
  static const Calls& calls() { return found().calls; }
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }
  static std::int64_t bytesOf(DType dtype) { return static_cast<std::int64_t>(sizeOf(dtype)); }
  static void note(ncclResult_t& worst, ncclResult_t result) {
    if (worst == ncclSuccess || worst == ncclInProgress)
      worst = result == ncclSuccess ? worst : result;
  }

  // Waits for the outcome of a call of `comm`; a nonblocking communicator accepts no other call
  // until then.
  static Status settle(ncclResult_t result, ncclComm_t comm, const lockstep::Message& what,
                       Nanoseconds limit) {
    const Nanoseconds begin = monotonicNow();
    while (result == ncclInProgress) {
      if (monotonicNow() - begin > limit) {
        Error error = makeError(Code::kDeadlineExceeded, "{}", what);
        error.why =
            message("NCCL has not finished within {} s: a rank may be frozen or unreachable",
                    limit / 1'000'000'000);
        return error;
      }
      const ncclResult_t asked = calls().ncclCommGetAsyncError(comm, &result);
      if (asked != ncclSuccess) result = asked;
      if (result == ncclInProgress) rest(begin);
    }
    if (result == ncclSuccess) return {};
    // A system error may be a connection's: it does not tell on which side the fault is.
    const Code code = result == ncclRemoteError   ? Code::kAborted
                      : result == ncclSystemError ? Code::kUnavailable
                                                  : Code::kInternal;
    Error error = makeError(code, "{}", what);
    error.why = message("NCCL says: {}", calls().ncclGetErrorString(result));
    return error;
  }
  Status formed(Status status) {
    if (!status.ok()) all_.fail(status);
    return status;
  }
  // Does nothing after a failure: peers would wait for missing data, and detect the failure through
  // their own groups.
  template <typename Call>
  void enqueue(std::string_view what, Call call) {
    if (!all_.failed_.ok()) return;
    all_.use_();
    (void)formed(settle(call(), comm_, lockstep::message("{} of GPUs failed", what), limit_));
  }
  template <typename Call>
  void giveParts(std::string_view what, std::span<const std::int64_t> cuts, Call call) {
    enqueue(what, [&] {
      calls().ncclGroupStart();
      ncclResult_t worst = ncclSuccess;
      for (int root = 0; root < size_; ++root) {
        const auto part = static_cast<std::size_t>(root);
        if (cuts[part + 1] > cuts[part])
          note(worst, call(root, cuts[part], cuts[part + 1] - cuts[part]));
      }
      note(worst, calls().ncclGroupEnd());
      return worst;
    });
  }
  void abort() {
    if (comm_ != nullptr) all_.aborts_.start(calls().ncclCommAbort, std::exchange(comm_, nullptr));
  }
  // ncclInProgress belongs to a call that settle() waits for.
  Status state() const {
    ncclResult_t result = ncclSuccess;
    if (comm_ == nullptr || calls().ncclCommGetAsyncError(comm_, &result) != ncclSuccess ||
        result == ncclInProgress)
      return {};
    return settle(result, comm_, "what GPUs exchange failed", 0);
  }

  NcclGrouping& all_;
  const int rank_, size_;
  const Nanoseconds limit_;
  ncclComm_t comm_ = nullptr;
};

Result<std::string> NcclGrouping::makeId() {
  ncclUniqueId id;
  if (const ncclResult_t result = found().calls.ncclGetUniqueId(&id); result != ncclSuccess) {
    Error error =
        makeError(Code::kFailedPrecondition, "NCCL cannot create an id for a group of GPUs");
    error.why = found().calls.ncclGetErrorString(result);
    return error;
  }
  return std::string(id.internal, sizeof id.internal);
}

Result<std::unique_ptr<Group>> NcclGrouping::join(const Member& as) {
  LOCKSTEP_TRY(failed_);
  ncclUniqueId id;
  if (as.id.size() != sizeof id.internal)
    return makeError(Code::kDataLoss, "the unique id of NCCL's group has {} bytes", as.id.size());
  std::copy(as.id.begin(), as.id.end(), id.internal);
  auto group = std::make_unique<NcclGroup>(*this, as.rank, as.size, as.limit);
  LOCKSTEP_TRY(group->join(id));
  return std::unique_ptr<Group>(std::move(group));
}

void NcclGrouping::poll() {
  for (const NcclGroup* group : groups_)
    if (const Status state = group->state(); !state.ok()) {
      fail(state);
      return;
    }
}

void NcclGrouping::abort() {
  for (NcclGroup* group : groups_) group->abort();
}

Nanoseconds NcclGrouping::limit() const {
  Nanoseconds least = 0;
  for (const NcclGroup* group : groups_)
    least = least == 0 ? group->limit_ : std::min(least, group->limit_);
  return least;
}

}  // namespace

const Library& groupsLibrary() { return found().library; }

Result<std::unique_ptr<CudaGrouping>> CudaGrouping::open(CUstream exchange,
                                                         std::function<void()> use,
                                                         Status& failed) {
  const Library& library = found().library;
  if (!library.problem.empty()) {
    Error error = makeError(Code::kFailedPrecondition, "NCCL cannot be used");
    error.why = library.problem;
    error.next = "install NCCL, or name its folder in LOCKSTEP_CUDA_LIBRARIES";
    return error;
  }
  return std::unique_ptr<CudaGrouping>(
      std::make_unique<NcclGrouping>(exchange, std::move(use), failed));
}

}  // namespace lockstep::device::cuda
