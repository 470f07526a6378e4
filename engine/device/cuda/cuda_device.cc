#include "engine/device/cuda/cuda_device.h"

#include <array>
#include <cstring>
#include <thread>

#include "engine/device/cuda/groups.h"
#include "engine/device/cuda/matmul.h"

namespace lockstep::device::cuda {
namespace {

// NVIDIA's recommendation for cuBLASLt on sm_90.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;
// From this compute capability on, matrix units support tf32; tf32 is permitted, not required.
constexpr int kTf32Major = 8;
// Time limit for aborted work to end.
constexpr Nanoseconds kAbortLimit = 5'000'000'000;

Error failure(const Driver& driver, CUresult result, Message what) {
  Error error = makeError(Code::kInternal, "{}", what);
  error.why = driver.text(result);
  return error;
}

CUdeviceptr address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

class CudaEvent final : public Event {
 public:
  CudaEvent(const Driver& driver, CUevent event) : driver_(driver), event_(event) {}
  ~CudaEvent() override { driver_.cuEventDestroy(event_); }
  CUevent event() const { return event_; }

 private:
  const Driver& driver_;
  CUevent event_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(const Driver& driver, CUdevice device, Properties properties)
      : driver_(driver), device_(device), properties_(std::move(properties)) {}
  ~CudaDevice() override {
    if (context_ == nullptr) return;
    use();
    drain();
    grouping_.reset();
    if (lost_) {
      static_cast<void>(library_.release());  // cuBLASLt waits for the GPU when it ends
      return;
    }
    if (exchange_ != nullptr) driver_.cuStreamDestroy(exchange_);
    library_.reset();
    if (workspace_ != nullptr) driver_.cuMemFree(address(workspace_));
    for (CUmodule module : modules_) driver_.cuModuleUnload(module);
    for (CUstream stream : {ahead_, stream_})
      if (stream != nullptr) driver_.cuStreamDestroy(stream);
    driver_.cuDevicePrimaryCtxRelease(device_);
  }

  Status start(const void* const* program) {
    LOCKSTEP_TRY(
        check(driver_.cuDevicePrimaryCtxRetain(&context_, device_), "the GPU cannot be used"));
    use();
    for (CUstream* stream : {&stream_, &ahead_})
      LOCKSTEP_TRY(
          check(driver_.cuStreamCreate(stream, CU_STREAM_NON_BLOCKING), "no stream can be made"));
    for (; *program != nullptr; ++program) {
      CUmodule module = nullptr;
      LOCKSTEP_TRY(
          check(driver_.cuModuleLoadData(&module, *program), "Lockstep's kernels do not load"));
      modules_.push_back(module);
    }
    LOCKSTEP_ASSIGN(workspace_, allocate(kWorkspaceBytes, Where::kDevice));
    LOCKSTEP_ASSIGN(library_, MatmulLibrary::open(stream_, workspace_, kWorkspaceBytes));
    return {};
  }

  const Properties& properties() const override { return properties_; }

  Result<void*> allocate(std::int64_t bytes, Where where) override {
    use();
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 256));
    CUdeviceptr memory = 0;
    void* pinned = nullptr;
    const CUresult result = where == Where::kDevice ? driver_.cuMemAlloc(&memory, size)
                                                    : driver_.cuMemAllocHost(&pinned, size);
    if (result != CUDA_SUCCESS) return noMemory(size, where, driver_.text(result));
    if (pinned != nullptr) {
      std::memset(pinned, 0, size);
      return pinned;
    }
    void* const data = reinterpret_cast<void*>(memory);
    zero(data, static_cast<std::int64_t>(size));
    LOCKSTEP_TRY(synchronize());
    return data;
  }
  void release(void* memory, Where where) override {
    use();
    drain();
    if (lost_) return;
    if (where == Where::kDevice)
      driver_.cuMemFree(address(memory));
    else
      driver_.cuMemFreeHost(memory);
  }

  Result<Function> function(std::string_view name) override {
    const std::string text(name);
    for (CUmodule module : modules_) {
      CUfunction function = nullptr;
      if (driver_.cuModuleGetFunction(&function, module, text.c_str()) == CUDA_SUCCESS)
        return Function(function);
    }
    return makeError(Code::kNotFound, "the CUDA module has no kernel {}", name);
  }
  Result<std::unique_ptr<Work>> bind(const Matmul& matmul) override {
    use();
    Matmul allowed = matmul;
    allowed.tf32 = matmul.tf32 && properties_.major >= kTf32Major;
    return library_->bind(allowed, failed_);
  }

  void launch(const Launch& launch) override {
    use();
    std::array<void*, 1> arguments{const_cast<void*>(launch.arguments)};
    note(driver_.cuLaunchKernel(static_cast<CUfunction>(const_cast<void*>(launch.function)),
                                launch.blocks, launch.blocksDown, 1, launch.threads, 1, 1, 0,
                                stream_, arguments.data(), nullptr),
         "a kernel cannot be launched");
  }
  void copy(void* to, const void* from, std::int64_t bytes, Queue queue) override {
    use();
    note(driver_.cuMemcpyAsync(address(to), address(from), static_cast<std::size_t>(bytes),
                               streamOf(queue)),
         "a copy cannot be made");
  }
  void zero(void* memory, std::int64_t bytes) override {
    use();
    note(driver_.cuMemsetD8Async(address(memory), 0, static_cast<std::size_t>(bytes), stream_),
         "memory cannot be set");
  }

  Result<std::unique_ptr<Event>> makeEvent() override {
    use();
    CUevent event = nullptr;
    LOCKSTEP_TRY(check(driver_.cuEventCreate(&event, CU_EVENT_DEFAULT), "no event can be made"));
    return std::unique_ptr<Event>(std::make_unique<CudaEvent>(driver_, event));
  }
  // In a capture, a node of the graph: without the flag it would only order captured work.
  void record(Event& event, Queue queue) override {
    use();
    note(driver_.cuEventRecordWithFlags(
             eventOf(event), streamOf(queue),
             capturing_ ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT),
         "an event cannot be recorded");
  }
  // In a capture, edges of the graph rather than nodes.
  void mark(Event& event, Queue queue) override {
    use();
    note(driver_.cuEventRecordWithFlags(eventOf(event), streamOf(queue), CU_EVENT_RECORD_DEFAULT),
         "an event cannot be recorded");
  }
  void wait(const Event& event, Queue queue) override {
    use();
    note(driver_.cuStreamWaitEvent(streamOf(queue), eventOf(event), CU_EVENT_WAIT_DEFAULT),
         "an event cannot be waited for");
  }
  void await(const Event& event) override {
    use();
    note(driver_.cuEventSynchronize(eventOf(event)), "the GPU failed");
  }
  double seconds(const Event& from, const Event& to) override {
    float milliseconds = 0;
    note(driver_.cuEventElapsedTime(&milliseconds, eventOf(from), eventOf(to)),
         "events cannot be read");
    return static_cast<double>(milliseconds) * 1e-3;
  }

  Status synchronize() override {
    use();
    awaitCompute();
    if (!failed_.ok() && grouping_ != nullptr) grouping_->abort();
    return failed_;
  }

  Result<Grouping*> grouping() override {
    if (grouping_ != nullptr) return static_cast<Grouping*>(grouping_.get());
    use();
    int least = 0, greatest = 0;
    LOCKSTEP_TRY(
        check(driver_.cuCtxGetStreamPriorityRange(&least, &greatest), "no priorities are known"));
    if (exchange_ == nullptr)
      LOCKSTEP_TRY(
          check(driver_.cuStreamCreateWithPriority(&exchange_, CU_STREAM_NON_BLOCKING, greatest),
                "no stream can be made"));
    LOCKSTEP_ASSIGN(grouping_, CudaGrouping::open(
                                   exchange_, [this] { use(); }, failed_));
    return static_cast<Grouping*>(grouping_.get());
  }

  Status beginCapture() override {
    LOCKSTEP_TRY(failed_);
    use();
    LOCKSTEP_TRY(check(driver_.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                       "the step cannot be captured"));
    capturing_ = true;
    return {};
  }
  Result<std::unique_ptr<Work>> endCapture() override;

 private:
  class Graph;
  static CUevent eventOf(const Event& event) {
    return static_cast<const CudaEvent&>(event).event();
  }
  CUstream streamOf(Queue queue) const {
    return queue == Queue::kCompute ? stream_ : queue == Queue::kExchange ? exchange_ : ahead_;
  }
  // Waits for queue kCompute. Work of groups whose peers are gone does not end by itself; it is
  // aborted when a group reports an error, or after the groups' timeout (applied to all work, since
  // a GPU does not tell what it is doing). If aborted work does not end either, the GPU is lost,
  // and no call that would wait for it is made any more.
  void awaitCompute() {
    if (lost_ || stream_ == nullptr) return;
    const Nanoseconds limit = grouping_ != nullptr ? grouping_->limit() : 0;
    if (limit == 0) return note(driver_.cuStreamSynchronize(stream_), "the GPU failed");
    // sleeping costs short steps more than long ones
    constexpr Nanoseconds kBusy = 100'000'000, kLook = 1'000'000;
    const Nanoseconds begin = monotonicNow();
    Nanoseconds looked = begin, aborted = 0;
    for (;;) {
      const CUresult result = driver_.cuStreamQuery(stream_);
      if (result != CUDA_ERROR_NOT_READY) return note(result, "the GPU failed");
      const Nanoseconds now = monotonicNow();
      if (now - looked > kLook) {
        looked = now;
        if (failed_.ok()) grouping_->poll();
        if (failed_.ok() && now - begin > limit) {
          failed_ =
              makeError(Code::kDeadlineExceeded, "a collective of the ranks' GPUs does not finish");
          failed_.error().why =
              message("there is no progress for {} s: a rank may be frozen", limit / 1'000'000'000);
        }
        if (!failed_.ok() && aborted == 0) {
          grouping_->abort();
          aborted = now;
        }
        if (aborted > 0 && now - aborted > kAbortLimit) {
          lost_ = true;
          const Message late =
              message("the GPU has not stopped in {} s", kAbortLimit / 1'000'000'000);
          Message& why = failed_.error().why;
          why = why.empty() ? late : message("{}; {}", why, late);
          return;
        }
      }
      if (now - begin > kBusy)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      else
        std::this_thread::yield();
    }
  }
  // Prefetching copies wait for preceding compute work.
  void drain() {
    awaitCompute();
    if (!lost_ && ahead_ != nullptr) driver_.cuStreamSynchronize(ahead_);
  }
  void use() { driver_.cuCtxSetCurrent(context_); }  // of the calling thread
  // Pinned memory is the host's: what the GPU has free says nothing of it.
  Error noMemory(std::size_t bytes, Where where, const std::string& why) const {
    Error error;
    error.code = Code::kResourceExhausted;
    error.next =
        "train with a smaller batch, more micro-batches, strategy.recompute, or more ranks";
    error.what = message("cannot allocate {} MiB of pinned memory", bytes >> 20);
    error.why = why;
    if (where == Where::kPinned) return error;
    std::size_t free = 0, total = 0;
    driver_.cuMemGetInfo(&free, &total);
    error.what = message("cannot allocate {} MiB of GPU memory", bytes >> 20);
    error.why = message("{}; {} of {} MiB of the GPU are free", why, free >> 20, total >> 20);
    return error;
  }
  Status check(CUresult result, Message what) const {
    if (result == CUDA_SUCCESS) return {};
    return failure(driver_, result, std::move(what));
  }
  void note(CUresult result, const char* what) {
    if (result != CUDA_SUCCESS && failed_.ok()) failed_ = failure(driver_, result, what);
  }

  const Driver& driver_;
  const CUdevice device_;
  const Properties properties_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUstream ahead_ = nullptr;  // of prefetching copies
  std::vector<CUmodule> modules_;
  void* workspace_ = nullptr;
  std::unique_ptr<MatmulLibrary> library_;
  CUstream exchange_ = nullptr;  // of collectives and messages
  std::unique_ptr<CudaGrouping> grouping_;
  Status failed_;
  bool lost_ = false;  // it did not stop when its groups were aborted
  bool capturing_ = false;
};

class CudaDevice::Graph final : public Work {
 public:
  Graph(CudaDevice& device, CUgraphExec graph) : device_(device), graph_(graph) {}
  ~Graph() override {
    device_.use();
    device_.awaitCompute();
    if (!device_.lost_) device_.driver_.cuGraphExecDestroy(graph_);
  }
  void enqueue() override {
    device_.use();
    device_.note(device_.driver_.cuGraphLaunch(graph_, device_.stream_),
                 "a captured step cannot be launched");
  }
  std::int64_t workspaceBytes() const override { return 0; }

 private:
  CudaDevice& device_;
  CUgraphExec graph_;
};

Result<std::unique_ptr<Work>> CudaDevice::endCapture() {
  use();
  capturing_ = false;
  CUgraph graph = nullptr;
  const CUresult captured = driver_.cuStreamEndCapture(stream_, &graph);
  if (!failed_.ok()) {  // the cause is more informative than an invalid capture
    if (graph != nullptr) driver_.cuGraphDestroy(graph);
    return failed_.error();
  }
  LOCKSTEP_TRY(check(captured, "the step cannot be captured"));
  CUgraphExec made = nullptr;
  const CUresult result = driver_.cuGraphInstantiateWithFlags(&made, graph, 0);
  driver_.cuGraphDestroy(graph);
  LOCKSTEP_TRY(check(result, "the step cannot be made a graph"));
  return std::unique_ptr<Work>(std::make_unique<Graph>(*this, made));
}

}  // namespace

Properties propertiesOf(const Driver& driver, CUdevice device) {
  Properties out;
  std::array<char, 256> name{};
  if (driver.cuDeviceGetName(name.data(), static_cast<int>(name.size() - 1), device) ==
      CUDA_SUCCESS)
    out.name = name.data();
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
  };
  out.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  out.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  CUuuid uuid{};
  if (driver.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS)
    for (const char byte : uuid.bytes)
      out.id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  out.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  std::size_t bytes = 0;
  if (driver.cuDeviceTotalMem(&bytes, device) == CUDA_SUCCESS)
    out.memoryBytes = static_cast<std::int64_t>(bytes);
  return out;
}

Result<std::unique_ptr<Device>> openDevice(const Driver& driver, int ordinal,
                                           const void* const* program) {
  CUdevice device = 0;
  if (const CUresult result = driver.cuDeviceGet(&device, ordinal); result != CUDA_SUCCESS)
    return failure(driver, result, message("there is no GPU {}", ordinal));
  auto out = std::make_unique<CudaDevice>(driver, device, propertiesOf(driver, device));
  LOCKSTEP_TRY(out->start(program));
  return std::unique_ptr<Device>(std::move(out));
}

}  // namespace lockstep::device::cuda
