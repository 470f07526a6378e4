// A libcuda.so.1, a libcublasLt.so.13 and a libnccl.so.2 in one, with no GPU behind them: two fake
// ones, whose memory is the host's, whose work is done in the moment that it is given, and that
// write down what they are asked. What would compute does nothing.
//   LOCKSTEP_FAKE_GPUS_LOG   a file that calls are appended to, one a line:
//     "GPU CALL …", streams as "compute", "exchange" and "ahead", events and communicators by
//     number, in the order they are made
//   LOCKSTEP_FAKE_NCCL       "": all is well; "never": communicators stay in progress; "fail N":
//   the N-th collective of
//     GPU 0 fails, then graphs do not end, and communicators know of a peer's error; "hang": graphs
//     do not end. What does not end ends when all communicators of its GPU are aborted; "deaf": not
//     even then. "no products": products fail when they are given.
// As NCCL does, ncclCommAbort() and ncclCommDestroy() return when no graph refers to the
// communicator any more, and an abort when the GPU's work has ended: what would wait for ever
// aborts the process after 10 s.
#include <cublasLt.h>
#include <cuda.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

struct CUctx_st {
  int gpu = 0;
  int streams = 0, events = 0;
};
struct CUstream_st {
  CUctx_st* context = nullptr;
  const char* name = "";
  bool capturing = false, busy = false;
};
struct CUevent_st {
  int number = 0;
};
struct ncclComm {
  int gpu = 0, number = 0, rank = 0, size = 0;
  ncclResult_t state = ncclSuccess;
  int graphs = 0;  // that refer to it
  bool aborted = false;
};
// A captured graph, and one made of it.
struct CUgraph_st {
  std::vector<ncclComm_t> communicators;
};
struct CUgraphExec_st {
  std::vector<ncclComm_t> communicators;
};

namespace {

constexpr std::size_t kMemory = std::size_t{8} << 30;  // more than that is refused, pinned or not

std::mutex mutex;  // of all that follows
CUctx_st contexts[2]{{0}, {1}};
thread_local CUctx_st* current = nullptr;
std::map<int, int> communicators;  // made, by GPU
std::map<int, int> collectives;    // given, by GPU
std::vector<CUstream_st*> streams;
std::vector<ncclComm_t> alive;
std::map<int, std::vector<ncclComm_t>> captured;  // by the capture under way, by GPU
std::condition_variable changed;                  // graphs and communicators
bool failed = false;

std::string wanted() {
  const char* text = std::getenv("LOCKSTEP_FAKE_NCCL");
  return text != nullptr ? text : "";
}

template <typename... Parts>
void say(int gpu, const char* format, Parts... parts) {
  const char* path = std::getenv("LOCKSTEP_FAKE_GPUS_LOG");
  if (path == nullptr) return;
  std::FILE* file = std::fopen(path, "a");
  if (file == nullptr) std::abort();
  char line[512];
  std::snprintf(line, sizeof line, format, parts...);
  std::fprintf(file, "%d %s\n", gpu, line);
  std::fclose(file);
}

const char* nameOf(CUstream stream) { return stream->name; }

CUresult makeStream(CUstream* stream, const char* name) {
  const std::lock_guard lock(mutex);
  *stream = new CUstream_st{current, name, false, false};
  streams.push_back(*stream);
  ++current->streams;
  return CUDA_SUCCESS;
}

// A collective of a rank; what it comes to.
ncclResult_t collective(ncclComm_t comm, const std::string& what, const void* in, void* out,
                        std::size_t count, int type, CUstream stream) {
  const std::lock_guard lock(mutex);
  say(comm->gpu, "%s comm %d in %p out %p count %zu type %d on %s%s", what.c_str(), comm->number,
      in, out, count, type, nameOf(stream), stream->capturing ? " captured" : "");
  if (stream->capturing) captured[comm->gpu].push_back(comm);
  const int number = ++collectives[comm->gpu];
  const std::string fault = wanted();
  if (comm->gpu == 0 && fault.rfind("fail ", 0) == 0 && number == std::atoi(fault.c_str() + 5)) {
    failed = true;
    return ncclSystemError;
  }
  return ncclSuccess;
}

ncclComm_t makeCommunicator(int gpu, int rank, int size) {
  auto* comm = new ncclComm{gpu, communicators[gpu]++, rank, size,
                            wanted() == "never" ? ncclInProgress : ncclSuccess};
  alive.push_back(comm);
  return comm;
}

void refer(const std::vector<ncclComm_t>& to, int more) {
  for (ncclComm_t comm : to) comm->graphs += more;
  changed.notify_all();
}

bool busy(int gpu) {
  return std::any_of(streams.begin(), streams.end(),
                     [&](const CUstream_st* one) { return one->context->gpu == gpu && one->busy; });
}

void release(ncclComm_t comm, std::unique_lock<std::mutex>& lock) {
  const bool deaf = wanted() == "deaf";
  const bool isFree = changed.wait_for(lock, std::chrono::seconds(10),
                                       [&] { return comm->graphs == 0 && !busy(comm->gpu); });
  if (!isFree && deaf) return;
  if (!isFree) std::abort();  // for ever
  std::erase(alive, comm);
  delete comm;
}

}  // namespace

extern "C" {

// ---- the driver

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** name) {
  *name = "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "a fake one";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 2;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU %d", device);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid_v2(CUuuid* id, CUdevice device) {
  std::memset(id->bytes, device, sizeof id->bytes);
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
  *bytes = kMemory;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = &contexts[device];
  contexts[device].streams = 0;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = *total = kMemory;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr* memory, std::size_t bytes) {
  if (bytes > kMemory) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr memory) {
  std::free(reinterpret_cast<void*>(memory));
  return CUDA_SUCCESS;
}
CUresult cuMemAllocHost_v2(void** memory, std::size_t bytes) {
  if (bytes > kMemory) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* memory) {
  std::free(memory);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr, CUdeviceptr, std::size_t bytes, CUstream stream) {
  const std::lock_guard lock(mutex);
  say(stream->context->gpu, "copy %zu on %s%s", bytes, nameOf(stream),
      stream->capturing ? " captured" : "");
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr memory, unsigned char value, std::size_t bytes, CUstream) {
  std::memset(reinterpret_cast<void*>(memory), value, bytes);
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule* module, const void*) {
  *module = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char*) {
  *function = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream stream, void**, void**) {
  const std::lock_guard lock(mutex);
  say(stream->context->gpu, "launch on %s", nameOf(stream));
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned) {
  return makeStream(stream, current->streams == 0 ? "compute" : "ahead");
}
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  say(current->gpu, "exchange stream, priority %d%s", priority,
      flags == CU_STREAM_NON_BLOCKING ? "" : ", blocking");
  return makeStream(stream, "exchange");
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  const std::lock_guard lock(mutex);
  std::erase(streams, stream);
  delete stream;
  return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream stream) {
  const std::lock_guard lock(mutex);
  return stream->busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
  const std::lock_guard lock(mutex);
  if (stream->busy) std::abort();  // for ever
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  const std::lock_guard lock(mutex);
  say(stream->context->gpu, "wait %d on %s", event->number, nameOf(stream));
  for (CUstream_st* one : streams)  // so that it is in the capture
    if (one->context == stream->context && one->capturing) stream->capturing = true;
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  const std::lock_guard lock(mutex);
  stream->capturing = true;
  say(stream->context->gpu, "begin capture%s",
      mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ? "" : " of all threads");
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const std::lock_guard lock(mutex);
  for (CUstream_st* one : streams)
    if (one->context == stream->context) one->capturing = false;
  say(stream->context->gpu, "end capture");
  *graph = new CUgraph_st{std::exchange(captured[stream->context->gpu], {})};
  refer((*graph)->communicators, 1);
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned) {
  const std::lock_guard lock(mutex);
  *event = new CUevent_st{current->events++};
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent event) {
  delete event;
  return CUDA_SUCCESS;
}
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  const std::lock_guard lock(mutex);
  say(stream->context->gpu, "%s %d on %s", flags == CU_EVENT_RECORD_EXTERNAL ? "time" : "record",
      event->number, nameOf(stream));
  return CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent event) {
  const std::lock_guard lock(mutex);
  say(current->gpu, "await %d", event->number);
  return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent, CUevent) {
  *milliseconds = 1;
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  const std::lock_guard lock(mutex);
  *out = new CUgraphExec_st{graph->communicators};
  refer(graph->communicators, 1);
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  const std::lock_guard lock(mutex);
  refer(graph->communicators, -1);
  delete graph;
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec, CUstream stream) {
  const std::lock_guard lock(mutex);
  say(stream->context->gpu, "launch graph on %s", nameOf(stream));
  stream->busy = failed || wanted() == "hang" || wanted() == "deaf";
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec graph) {
  const std::lock_guard lock(mutex);
  refer(graph->communicators, -1);
  delete graph;
  return CUDA_SUCCESS;
}

// ---- cuBLASLt: it multiplies nothing. Descriptions, layouts and preferences are what was set, by
// number.

std::size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "a fake one"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t) {
  *made = new cublasLtMatmulDescOpaque_t{};
  (*made)->data[CUBLASLT_MATMUL_DESC_COMPUTE_TYPE] = compute;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  std::memcpy(&description->data[attribute], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t pitch) {
  *made = new cublasLtMatrixLayoutOpaque_t{
      {static_cast<std::uint64_t>(type), rows, columns, static_cast<std::uint64_t>(pitch)}};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = new cublasLtMatmulPreferenceOpaque_t{};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  std::memcpy(&preference->data[attribute - 1], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t*, int* found) {
  const auto of = [&](cublasLtMatmulPreferenceAttributes_t attribute) {
    return static_cast<int>(preference->data[attribute - 1]);
  };
  say(current->gpu, "choose a product, aligned %d %d %d %d",
      of(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
      of(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
      of(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
      of(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES));
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void*,
                              const void* a, cublasLtMatrixLayout_t aLayout, const void* b,
                              cublasLtMatrixLayout_t bLayout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t cLayout, void* d,
                              cublasLtMatrixLayout_t dLayout, const cublasLtMatmulAlgo_t*, void*,
                              std::size_t, cudaStream_t stream) {
  const auto matrix = [](const void* data, cublasLtMatrixLayout_t layout) {
    char text[80];
    std::snprintf(text, sizeof text, "%p %dx%d pitch %d type %d", data,
                  static_cast<int>(layout->data[1]), static_cast<int>(layout->data[2]),
                  static_cast<int>(layout->data[3]), static_cast<int>(layout->data[0]));
    return std::string(text);
  };
  const auto of = [&](cublasLtMatmulDescAttributes_t attribute) {
    return static_cast<int>(description->data[attribute]);
  };
  if (c != d || cLayout != dLayout) std::abort();
  if (wanted() == "no products") return CUBLAS_STATUS_EXECUTION_FAILED;
  const std::lock_guard lock(mutex);
  say(stream->context->gpu,
      "product op %d of %s, op %d of %s, to %s times %g, compute %d, epilogue %d on %s",
      of(CUBLASLT_MATMUL_DESC_TRANSA), matrix(a, aLayout).c_str(), of(CUBLASLT_MATMUL_DESC_TRANSB),
      matrix(b, bLayout).c_str(), matrix(d, dLayout).c_str(),
      static_cast<double>(*static_cast<const float*>(beta)), of(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE),
      of(CUBLASLT_MATMUL_DESC_EPILOGUE), nameOf(stream));
  return CUBLAS_STATUS_SUCCESS;
}

// ---- NCCL

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSystemError   ? "a fake fault"
         : result == ncclRemoteError ? "a fake peer's fault"
                                     : "another";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(mutex);
  std::memset(id->internal, 7, sizeof id->internal);
  failed = false;  // another run begins
  for (CUstream_st* one : streams) one->busy = false;
  collectives.clear();
  communicators.clear();
  for (CUctx_st& context : contexts) context.events = 0;
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const std::lock_guard lock(mutex);
  *comm = makeCommunicator(current->gpu, rank, size);
  say(current->gpu, "init comm %d rank %d of %d id %d%s", (*comm)->number, rank, size,
      id.internal[127], config->blocking == 0 ? "" : " blocking");
  return ncclInProgress;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part,
                           ncclConfig_t* config) {
  const std::lock_guard lock(mutex);
  *part = color == NCCL_SPLIT_NOCOLOR ? nullptr : makeCommunicator(comm->gpu, key, 0);
  say(comm->gpu, "split comm %d color %d key %d%s", comm->number, color, key,
      config->blocking == 0 ? "" : " blocking");
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(mutex);
  *state = failed && comm->state == ncclSuccess ? ncclRemoteError : comm->state;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  say(comm->gpu, "finalize comm %d", comm->number);
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  std::unique_lock lock(mutex);
  say(comm->gpu, "destroy comm %d", comm->number);
  release(comm, lock);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  std::unique_lock lock(mutex);
  say(comm->gpu, "abort comm %d", comm->number);
  comm->aborted = true;
  const bool all = std::all_of(alive.begin(), alive.end(), [&](ncclComm_t one) {
    return one->gpu != comm->gpu || one->aborted;
  });
  for (CUstream_st* one : streams)
    if (all && one->context->gpu == comm->gpu && wanted() != "deaf") one->busy = false;
  changed.notify_all();
  release(comm, lock);
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  say(current->gpu, "group start");
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  say(current->gpu, "group end");
  return ncclInProgress;
}
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, CUstream stream) {
  return collective(comm, op == ncclMax ? "all-reduce max" : "all-reduce", in, out, count, type,
                    stream);
}
ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t, int root, ncclComm_t comm, CUstream stream) {
  return collective(comm, "reduce to " + std::to_string(root), in, out, count, type, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, CUstream stream) {
  return collective(comm, "reduce-scatter", in, out, count, type, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, CUstream stream) {
  return collective(comm, "all-gather", in, out, count, type, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, CUstream stream) {
  return collective(comm, "broadcast from " + std::to_string(root), in, out, count, type, stream);
}
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, CUstream stream) {
  return collective(comm, "send to " + std::to_string(peer), in, nullptr, count, type, stream);
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream stream) {
  return collective(comm, "receive from " + std::to_string(peer), nullptr, out, count, type,
                    stream);
}
}
