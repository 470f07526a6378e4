#include "agent/node/agent_service.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "agent/base/grpc_status.h"
#include "agent/base/run_folder.h"
#include "agent/host/kernel_log.h"
#include "agent/host/metrics.h"
#include "agent/host/processes.h"
#include "agent/node/link_measure.h"
#include "agent/node/program_setup_task.h"
#include "agent/node/reachability.h"
#include "agent/node/staging.h"
#include "agent/node/watched_task.h"
#include "agent/node/workdir_items.h"
#include "agent/node/worker_group.h"
#include "agent/worker/prepare.h"
#include "agent/workload/check_python.h"
#include "agent/workload/code_folder.h"
#include "agent/workload/program_setup.h"
#include "agent/workload/versions.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/remove_tree.h"
#include "engine/specs/data_files.h"
#include "engine/specs/error_info.h"
#include "engine/specs/protocol.h"
#include "engine/specs/workload.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::agent {
namespace {

constexpr Nanoseconds kSupervisorStart = 15'000'000'000;
constexpr std::chrono::seconds kBenchEnd{5};  // from the last reply to the client's last request

// Renames a run's folder, so that nobody meets it half removed. Returns its path then.
std::filesystem::path setAside(const RunFolder& folder) {
  const std::filesystem::path path(folder.path);
  const std::filesystem::path gone =
      path.parent_path().parent_path() /
      fmt::format(".removed-{}-{}", path.parent_path().filename().string(), monotonicNow());
  std::error_code failed;
  unlink(folder.socket().c_str());  // of a supervisor that was killed
  std::filesystem::rename(path, gone, failed);
  if (failed) return path;
  std::filesystem::remove(path.parent_path(), failed);  // if it is empty now
  return gone;
}

void removeFolder(const RunFolder& folder) {
  std::error_code failed;
  (void)removeTree(setAside(folder));
  std::filesystem::remove(std::filesystem::path(folder.path).parent_path(), failed);
}

// A folder that is removed unless it has been moved away.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }  // "": there is none
  Status moveTo(const std::string& path) {
    if (rename(path_.c_str(), path.c_str()) != 0)
      return systemError(errno, message("cannot rename to {}", path));
    path_.clear();
    return {};
  }

 private:
  std::string path_;
};

}  // namespace

class AgentService::Impl final : public node::v1::Agent::Service {
 public:
  using BenchStream =
      grpc::ServerReaderWriter<node::v1::BenchTogetherReply, node::v1::BenchTogetherRequest>;

  Impl(EventLoop& loop, Workdir workdir, std::string version, double prepareSeconds)
      : loop_(loop),
        workdir_(std::move(workdir)),
        version_(std::move(version)),
        prepareSeconds_(prepareSeconds),
        data_(workdir_),
        staging_(workdir_, data_) {
    // so that the first handshake need not wait
    (void)gpuMonitor().look(std::chrono::milliseconds(0));
  }

  grpc::Status Handshake(grpc::ServerContext*, const node::v1::HandshakeRequest* request,
                         node::v1::HandshakeReply* reply) override {
    const specs::Protocols own = specs::ownProtocols(version_);
    specs::Protocols client{request->protocol(), request->protocol(), {}, {}};
    if (request->has_speaks()) client = specs::fromProto(request->speaks());
    auto common = specs::commonProtocol("the agent", own, client);
    if (!common.ok()) {
      common.error().next = "deploy the agent of your version to this node";
      return toGrpc(common.status());
    }
    reply->set_protocol(*common);
    reply->set_version(version_);
    *reply->mutable_speaks() = specs::toProto(own);
    *reply->mutable_inventory() = inventory(workdir_.path);
    return grpc::Status::OK;
  }

  grpc::Status WatchNode(grpc::ServerContext* context, const node::v1::WatchNodeRequest* request,
                         grpc::ServerWriter<run::v1::NodeSample>* writer) override {
    const double hertz = request->hertz() > 0 ? std::clamp(request->hertz(), 0.1, 10.0) : 1;
    const auto interval = std::chrono::nanoseconds(static_cast<Nanoseconds>(1e9 / hertz));
    NodeSampler sampler(workdir_.path);
    (void)sampler.sample({});
    auto next = std::chrono::steady_clock::now() +
                std::min<std::chrono::nanoseconds>(interval, std::chrono::milliseconds(200));
    while (!context->IsCancelled()) {
      {
        std::unique_lock lock(leaveMutex_);
        const auto now = std::chrono::steady_clock::now();
        const auto until = std::min(next, now + std::chrono::milliseconds(250));
        if (leaveChanged_.wait_until(lock, until, [&] { return leaving_; })) break;
      }
      if (std::chrono::steady_clock::now() < next) continue;  // looked whether the client is there
      if (!writer->Write(sampler.sample({}))) break;
      next = std::max(next + interval, std::chrono::steady_clock::now());
    }
    return grpc::Status::OK;
  }

  grpc::Status Prepare(grpc::ServerContext* context, const node::v1::PrepareRequest* request,
                       grpc::ServerWriter<node::v1::PrepareReply>* writer) override {
    const std::string key = fmt::format("{}/{}/{}/{}", request->run(), request->node(),
                                        request->generation(), request->check_only());
    return watched(preparing_, key, *context, *writer,
                   [this, request = *request](node::v1::PrepareReply& reply,
                                              const DataObserver& observer) -> Status {
                     return request.check_only() ? check(request, reply, observer)
                                                 : prepare(request, reply, observer);
                   });
  }

  grpc::Status FindFile(grpc::ServerContext* context, const node::v1::FindFileRequest* request,
                        grpc::ServerWriter<node::v1::FindFileReply>* writer) override {
    return watched(finding_, request->SerializeAsString(), *context, *writer,
                   [this, request = *request](node::v1::FindFileReply& reply,
                                              const DataObserver& observer) -> Status {
                     LOCKSTEP_ASSIGN(reply, staging_.find(request, observer));
                     return {};
                   });
  }

  // Nodes of one agent, and launches at the same time, wait for one transfer.
  grpc::Status FetchFile(grpc::ServerContext* context, const node::v1::FetchFileRequest* request,
                         grpc::ServerWriter<node::v1::FetchFileReply>* writer) override {
    return watched(fetching_, request->SerializeAsString(), *context, *writer,
                   [this, request = *request](node::v1::FetchFileReply& reply,
                                              const DataObserver& observer) -> Status {
                     LOCKSTEP_ASSIGN(reply, staging_.fetch(request, observer));
                     return {};
                   });
  }

  grpc::Status StageFile(grpc::ServerContext* context,
                         grpc::ServerReader<node::v1::StageFileRequest>* reader,
                         node::v1::StageFileReply* reply) override {
    auto staged =
        staging_.receive([&](node::v1::StageFileRequest& piece) { return reader->Read(&piece); },
                         [&] { return context->IsCancelled(); });
    if (!staged.ok()) return toGrpc(staged.status());
    *reply = std::move(*staged);
    return grpc::Status::OK;
  }

  grpc::Status SetUp(grpc::ServerContext* context, const node::v1::SetUpRequest* request,
                     grpc::ServerWriter<node::v1::SetUpReply>* writer) override {
    SetupClient client;
    client.tell = [&](const node::v1::SetUpReply& reply) { return writer->Write(reply); };
    client.gone = [&] { return context->IsCancelled() || isLeaving(); };
    Status status = setUp(*request, client);
    if (!status.ok() && status.error().node.empty()) status.error().node = request->node();
    node::v1::SetUpReply last;
    last.set_done(true);
    if (status.ok()) writer->Write(last);
    return toGrpc(status);
  }

  grpc::Status ListenForPeers(grpc::ServerContext* context,
                              const node::v1::ListenForPeersRequest* request,
                              grpc::ServerWriter<node::v1::ListenForPeersReply>* writer) override {
    listenForPeers(
        *request, [&](const node::v1::ListenForPeersReply& reply) { return writer->Write(reply); },
        [&] { return context->IsCancelled() || isLeaving(); });
    return grpc::Status::OK;
  }

  grpc::Status ReachPeers(grpc::ServerContext* context, const node::v1::ReachPeersRequest* request,
                          node::v1::ReachPeersReply* reply) override {
    *reply = reachPeers(*request, [&] { return context->IsCancelled() || isLeaving(); });
    return grpc::Status::OK;
  }

  grpc::Status ListenForMeasurements(
      grpc::ServerContext* context, const node::v1::ListenForMeasurementsRequest* request,
      grpc::ServerWriter<node::v1::ListenForMeasurementsReply>* writer) override {
    return toGrpc(listenForMeasurements(
        *request,
        [&](const node::v1::ListenForMeasurementsReply& reply) { return writer->Write(reply); },
        [&] { return context->IsCancelled() || isLeaving(); }));
  }

  grpc::Status MeasurePeer(grpc::ServerContext* context,
                           const node::v1::MeasurePeerRequest* request,
                           node::v1::MeasurePeerReply* reply) override {
    auto measured = measurePeer(*request, [&] { return context->IsCancelled() || isLeaving(); });
    if (!measured.ok()) return toGrpc(measured.status());
    *reply = *measured;
    return grpc::Status::OK;
  }

  grpc::Status ListRuns(grpc::ServerContext*, const node::v1::ListRunsRequest*,
                        node::v1::ListRunsReply* reply) override {
    for (const RunFolder& folder : findRuns(workdir_, "")) {
      auto found = describe(folder, false);
      if (found.ok()) *reply->add_runs() = std::move(*found);
    }
    return grpc::Status::OK;
  }

  grpc::Status FindRun(grpc::ServerContext*, const node::v1::FindRunRequest* request,
                       node::v1::RunOnNode* reply) override {
    auto folder = find(request->run(), request->node());
    if (!folder.ok()) return toGrpc(folder.status());
    auto found = describe(*folder, true);
    if (!found.ok()) {
      logWarning("the records in {} cannot be read: {}", folder->path, found.error().text());
      return toGrpc(found.status());
    }
    *reply = std::move(*found);
    return grpc::Status::OK;
  }

  grpc::Status RemoveRun(grpc::ServerContext*, const node::v1::RemoveRunRequest* request,
                         node::v1::RemoveRunReply*) override {
    if (!isPlainName(request->run()))
      return toGrpc(invalidArgument("\"{}\" is not a run's id", request->run()));
    for (const RunFolder& folder : findRuns(workdir_, request->run())) {
      if (!request->node().empty() &&
          std::filesystem::path(folder.path).filename() != request->node())
        continue;
      Status status = checkUnread(folder);
      if (status.ok()) status = remove(folder);
      if (!status.ok()) return toGrpc(status);
    }
    return grpc::Status::OK;
  }

  grpc::Status ListWorkdir(grpc::ServerContext* context,
                           const node::v1::ListWorkdirRequest* request,
                           grpc::ServerWriter<node::v1::WorkdirItem>* writer) override {
    const double seconds = request->seconds() > 0 ? std::min(request->seconds(), 600.0) : 30;
    const Nanoseconds end = monotonicNow() + static_cast<Nanoseconds>(seconds * 1e9);
    const auto cancelled = [&] { return context->IsCancelled() || isLeaving(); };
    const WorkdirItems items(workdir_);
    for (node::v1::WorkdirItem& item : items.list()) {
      items.measure(item, end, cancelled);
      if (cancelled() || !writer->Write(item)) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }

  grpc::Status RemoveFromWorkdir(grpc::ServerContext* context,
                                 const node::v1::RemoveFromWorkdirRequest* request,
                                 grpc::ServerWriter<node::v1::WorkdirRemoval>* writer) override {
    for (int next = 0; next < request->names_size();) {
      if (context->IsCancelled() || isLeaving()) return grpc::Status::CANCELLED;
      for (const node::v1::WorkdirRemoval& removal : removeSome(*request, next))
        if (!writer->Write(removal)) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }

  grpc::Status ListProcesses(grpc::ServerContext* context,
                             const node::v1::ListProcessesRequest* request,
                             node::v1::ListProcessesReply* reply) override {
    auto processes = listProcesses(*request, [&] { return context->IsCancelled() || isLeaving(); });
    if (!processes.ok()) return toGrpc(processes.status());
    *reply = std::move(*processes);
    return grpc::Status::OK;
  }

  grpc::Status ReadKernelLog(grpc::ServerContext*, const node::v1::ReadKernelLogRequest* request,
                             node::v1::ReadKernelLogReply* reply) override {
    auto log = readKernelLog(*request);
    if (!log.ok()) return toGrpc(log.status());
    *reply = std::move(*log);
    return grpc::Status::OK;
  }

  grpc::Status Measure(grpc::ServerContext* context, const node::v1::MeasureRequest* request,
                       node::v1::MeasureReply* reply) override {
    std::lock_guard alone(measuring_);
    auto result =
        measure(loop_, *request, workdir_.runtime, [&] { return context->IsCancelled(); });
    if (!result.ok()) return toGrpc(result.status());
    *reply = std::move(*result);
    return grpc::Status::OK;
  }

  grpc::Status Bench(grpc::ServerContext* context, const node::v1::BenchRequest* request,
                     node::v1::BenchReply* reply) override {
    std::lock_guard alone(measuring_);
    auto result = bench(loop_, *request, workdir_.runtime, workdir_.path,
                        [&] { return context->IsCancelled(); });
    if (!result.ok()) return toGrpc(result.status());
    *reply = std::move(*result);
    return grpc::Status::OK;
  }

  grpc::Status BenchTogether(grpc::ServerContext* context, BenchStream* stream) override {
    node::v1::BenchTogetherRequest first;
    if (!stream->Read(&first)) return grpc::Status::OK;
    auto store = std::make_shared<SharedStore>();
    store->publish = [stream](const node::v1::KvSet& set) {
      node::v1::BenchTogetherReply reply;
      *reply.mutable_published() = set;
      stream->Write(reply);
    };
    std::promise<void> end;
    const std::future<void> ended = end.get_future();  // the client ended its requests, or its call
    const auto endsWithin = [&](std::chrono::seconds time) {
      return ended.wait_for(time) == std::future_status::ready;
    };
    std::thread reader([&] {
      node::v1::BenchTogetherRequest next;
      while (stream->Read(&next))
        loop_.post([store, set = next.published()] { store->values.set(set.key(), set.value()); });
      end.set_value();
    });
    const auto result = benchTogether(loop_, first.start(), store, [&] {
      return endsWithin(std::chrono::seconds(0)) || context->IsCancelled() || isLeaving();
    });
    node::v1::BenchTogetherReply last;
    if (result.ok())
      *last.mutable_result() = *result;
    else
      *last.mutable_failed() = specs::toInfo(result.error());
    stream->Write(last);
    if (!endsWithin(kBenchEnd)) context->TryCancel();
    reader.join();
    return grpc::Status::OK;
  }

  grpc::Status Verify(grpc::ServerContext* context, const node::v1::VerifyRequest* request,
                      node::v1::VerifyReply* reply) override {
    auto result = verify(loop_, *request, [&] { return context->IsCancelled(); });
    if (!result.ok()) return toGrpc(result.status());
    *reply = std::move(*result);
    return grpc::Status::OK;
  }

  void reapSupervisors() {
    std::lock_guard lock(startedMutex_);
    std::erase_if(started_, [](int pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
  }

  bool hasRuns() const {
    for (const RunFolder& folder : findRuns(workdir_, ""))
      if (!isFinal(folder.readState()) && isLocked(folder.lock())) return true;
    return false;
  }

  void leave() {
    std::lock_guard lock(leaveMutex_);
    leaving_ = true;
    leaveChanged_.notify_all();
  }

 private:
  bool isLeaving() {
    std::lock_guard lock(leaveMutex_);
    return leaving_;
  }

  Result<RunFolder> find(const std::string& run, const std::string& node) const {
    if (isPlainName(run))
      for (RunFolder& folder : findRuns(workdir_, run))
        if (node.empty() || std::filesystem::path(folder.path).filename() == node) return folder;
    return makeError(Code::kNotFound, "there is no run \"{}\" on this node", run);
  }

  Result<SupervisorInfo> startFor(const RunFolder& folder, const std::vector<std::string>& options,
                                  const node::v1::RunSecrets& secrets = {}) {
    LOCKSTEP_ASSIGN(const int pid, startSupervisor(folder, options, secrets));
    auto info = awaitSupervisor(folder, pid, kSupervisorStart);
    if (!info.ok()) kill(pid, SIGKILL);
    std::lock_guard lock(startedMutex_);
    started_.insert(pid);
    return info;
  }

  Result<node::v1::RunOnNode> describe(const RunFolder& folder, bool start) {
    LOCKSTEP_ASSIGN(const node::v1::PrepareRequest request, folder.readRequest());
    auto supervisor = findSupervisor(folder);
    if (!supervisor && start) {
      // One at a time: two clients may look for the same ended run.
      std::lock_guard lock(prepareMutex_);
      supervisor = findSupervisor(folder);
      if (!supervisor) {
        LOCKSTEP_ASSIGN(supervisor, startFor(folder, {"--serve-only"}));
      }
    }
    node::v1::RunOnNode out;
    out.set_run(request.run());
    out.set_node(request.node());
    run::v1::RunState state = folder.readState();
    // Its supervisor was killed before it could say so.
    if (!supervisor && !isFinal(state) && !isLocked(folder.lock())) state = run::v1::FAILED;
    out.set_state(state);
    out.set_folder(folder.path);
    out.set_coordinator(request.coordinator());
    if (supervisor) {
      out.set_socket(supervisor->socket);
      *out.mutable_speaks() = specs::toProto(supervisor->speaks);
    }
    return out;
  }

  // Tells the client of a task's progress, and then its result.
  template <typename Reply, typename Work>
  grpc::Status watched(WatchedTasks<Reply>& tasks, const std::string& key,
                       const grpc::ServerContext& context, grpc::ServerWriter<Reply>& writer,
                       const Work& work) {
    TaskClient client;
    client.tell = [&](const node::v1::DataProgress& progress) {
      Reply reply;
      *reply.mutable_progress() = progress;
      return writer.Write(reply);
    };
    client.gone = [&] { return context.IsCancelled() || isLeaving(); };
    Reply result;
    Status status = tasks.run(key, work, result, client);
    if (status.code() == Code::kCancelled && isLeaving())
      status = makeError(Code::kUnavailable, "the agent is leaving");
    if (status.ok()) writer.Write(result);
    return toGrpc(status);
  }

  Status named(Status status, const node::v1::PrepareRequest& request) const {
    if (!status.ok() && status.error().node.empty()) status.error().node = request.node();
    return status;
  }

  Status check(const node::v1::PrepareRequest& request, FoundData& data,
               const DataObserver& observer) {
    LOCKSTEP_TRY(named(checkNames(request), request));
    return named(
        checkPrepare(
            request, workdir_, data_, data,
            [this] { return surveyGpus(loop_, [this] { return isLeaving(); }); }, observer),
        request);
  }

  Status check(const node::v1::PrepareRequest& request, node::v1::PrepareReply& reply,
               const DataObserver& observer) {
    FoundData data;
    LOCKSTEP_TRY(check(request, data, observer));
    for (const auto& [name, hash] : data.hashes) (*reply.mutable_data_hashes())[name] = hash;
    return {};
  }

  // Where a program with this code is set up.
  Result<SetupFolder> setupFolderOf(const spec::v1::WorkloadSpec& workload,
                                    const std::string& code) {
    LOCKSTEP_ASSIGN(const data::FileFacts facts,
                    data_.inspect(code, "code", [&]() -> Result<data::FileFacts> {
                      data::FileFacts out;
                      LOCKSTEP_ASSIGN(out.sha256, sha256File(code));
                      return out;
                    }));
    return SetupFolder{workdir_.programs() + "/" + setupKey(workload, facts.sha256)};
  }

  Status setUp(const node::v1::SetUpRequest& request, const SetupClient& client) {
    spec::v1::RunSpec spec = request.spec();
    LOCKSTEP_TRY(specs::checkAndFill(spec));
    if (!spec.has_workload() || spec.workload().setup().empty())
      return invalidArgument("the run has no workload.setup");
    LOCKSTEP_ASSIGN(const SetupFolder folder, setupFolderOf(spec.workload(), request.code()));
    node::v1::SetUpRequest filled = request;
    *filled.mutable_spec() = std::move(spec);
    return setProgramUp(loop_, filled, folder, client);
  }

  // Returns a copy of what was set up, which may be large; "" where nothing was.
  Result<std::string> copyOfSetup(const node::v1::PrepareRequest& request,
                                  const DataObserver& observer) {
    if (request.spec().workload().setup().empty()) return std::string();
    LOCKSTEP_ASSIGN(const SetupFolder from,
                    setupFolderOf(request.spec().workload(), codeOf(request)));
    const std::string to =
        fmt::format("{}/.copy-{}-{}", workdir_.programs(), getpid(), monotonicNow());
    LOCKSTEP_TRY(copySetup(from, to, [&] { return !observer({}); }));
    return to;
  }

  static const std::string& codeOf(const node::v1::PrepareRequest& request) {
    return request.data_paths().at(std::string(specs::kCodeFile));
  }

  Status prepare(const node::v1::PrepareRequest& request, node::v1::PrepareReply& reply,
                 const DataObserver& observer) {
    LOCKSTEP_TRY(named(checkNames(request), request));
    const RunFolder folder = runFolder(workdir_, request.run(), request.node());
    {
      std::lock_guard lock(prepareMutex_);
      LOCKSTEP_ASSIGN(const bool before, preparedBefore(folder, request, reply));
      if (before) return {};
    }
    FoundData data;
    LOCKSTEP_TRY(check(request, data, observer));
    auto copied = copyOfSetup(request, observer);
    if (!copied.ok()) return named(copied.status(), request);
    TemporaryFolder code(std::move(*copied));
    std::lock_guard lock(prepareMutex_);
    LOCKSTEP_ASSIGN(const bool before, preparedBefore(folder, request, reply));
    if (before) return {};
    for (const auto& [name, hash] : data.hashes) (*reply.mutable_data_hashes())[name] = hash;
    Status status = begin(folder, request, data, code, reply);
    if (status.ok() && !observer({})) {
      LOCKSTEP_TRY(named(endSupervisor(folder), request));
      status = makeError(Code::kCancelled, "the launch was cancelled");
    }
    if (!status.ok()) removeFolder(folder);
    return named(status, request);
  }

  // Whether the same run and generation was prepared already; its `reply` then. prepareMutex_ held.
  Result<bool> preparedBefore(const RunFolder& folder, const node::v1::PrepareRequest& request,
                              node::v1::PrepareReply& reply) {
    const auto before = folder.readRequest();
    if (!before.ok()) return false;
    if (before->generation() > request.generation())
      return makeError(Code::kAlreadyExists, "run {} is at generation {} already", request.run(),
                       before->generation());
    const bool ended = isFinal(folder.readState()) || !isLocked(folder.lock());
    if (before->generation() < request.generation()) {
      if (!ended)
        return makeError(Code::kAlreadyExists, "generation {} of run {} still exists",
                         before->generation(), request.run());
      LOCKSTEP_TRY(remove(folder));
      return false;
    }
    if (ended) {
      Error error = makeError(Code::kAlreadyExists, "run {} has ended on this node", request.run());
      error.next = "launch it under a new id";
      return error;
    }
    const auto info = findSupervisor(folder);
    if (!info)
      return makeError(Code::kUnavailable, "the supervisor of run {} does not answer",
                       request.run());
    LOCKSTEP_ASSIGN(const std::string hashes, readFile(folder.hashes()));
    if (!reply.ParseFromString(hashes))
      return makeError(Code::kDataLoss, "{} differs from what was prepared", folder.hashes());
    reply.set_socket(info->socket);
    reply.set_peer_address(info->peerAddress);
    return true;
  }

  // Puts the code into the run's folder: a copy of what was set up, with what the commands printed,
  // or the files as they came.
  Status placeCode(const RunFolder& folder, const node::v1::PrepareRequest& request,
                   TemporaryFolder& copy) {
    if (copy.path().empty()) return writeCode(codeOf(request), folder.code());
    LOCKSTEP_TRY(copy.moveTo(folder.code()));
    LOCKSTEP_ASSIGN(const SetupFolder from,
                    setupFolderOf(request.spec().workload(), codeOf(request)));
    return writeFileAtomically(folder.setupLog(), setupStory(from, request.run()), 0600);
  }

  // With the hashes in `reply`; the rest of it is filled.
  Status begin(const RunFolder& folder, const node::v1::PrepareRequest& request,
               const FoundData& data, TemporaryFolder& code, node::v1::PrepareReply& reply) {
    LOCKSTEP_TRY(makeFolders(folder.logs()));
    if (request.spec().has_workload() && !request.spec().workload().code().disabled())
      LOCKSTEP_TRY(placeCode(folder, request, code));
    if (request.spec().has_workload()) {
      const spec::v1::WorkloadSpec& workload = request.spec().workload();
      const std::string program = programFolder(folder, workload);
      LOCKSTEP_TRY(checkPython(workload, {request.secret_env().begin(), request.secret_env().end()},
                               program));
      for (const auto& [name, version] : pythonVersions(workload, program))
        (*reply.mutable_versions())[name] = version;
    }
    node::v1::PrepareRequest kept = request;
    kept.clear_data_paths();
    for (const auto& [name, path] : dataPaths(request.spec(), request.data_paths()))
      (*kept.mutable_data_paths())[name] = path;
    for (const auto& [name, path] : data.decoded)
      (*kept.mutable_data_paths())[fmt::format("{}{}", specs::kDecoded, name)] = path;
    kept.clear_plan();  // in its own file
    kept.clear_tls();
    kept.clear_secret_env();
    LOCKSTEP_TRY(writeFileAtomically(folder.plan(), request.plan(), 0600));
    LOCKSTEP_TRY(writeFileAtomically(folder.request(), kept.SerializeAsString(), 0600));
    LOCKSTEP_TRY(writeFileAtomically(folder.hashes(), reply.SerializeAsString(), 0600));
    LOCKSTEP_TRY(folder.writeState(run::v1::PREPARED));
    node::v1::RunSecrets secrets;
    *secrets.mutable_tls() = request.tls();
    *secrets.mutable_env() = request.secret_env();
    LOCKSTEP_ASSIGN(
        const SupervisorInfo info,
        startFor(folder, {"--prepare-seconds", fmt::format("{}", prepareSeconds_)}, secrets));
    reply.set_socket(info.socket);
    reply.set_peer_address(info.peerAddress);
    return {};
  }

  // Refuses the removal of a run whose checkpoint another run under way starts from.
  Status checkUnread(const RunFolder& folder) const {
    const std::string reading = runReading(runStarts(workdir_), folder);
    if (reading.empty()) return {};
    Error error = makeError(Code::kFailedPrecondition, "run folder {} is in use", folder.path);
    error.why = message("run {} starts from its checkpoint", reading);
    error.next = "wait for the end of that run";
    return error;
  }

  Status remove(const RunFolder& folder) {
    LOCKSTEP_TRY(endSupervisor(folder));
    removeFolder(folder);
    return {};
  }

  Status endSupervisor(const RunFolder& folder) {
    const std::string parent = std::filesystem::path(folder.path).parent_path();
    if (std::error_code failed; std::filesystem::is_symlink(parent, failed)) {
      Error error = makeError(Code::kFailedPrecondition, "the run cannot be removed");
      error.why = message("{} is a symbolic link", parent);
      error.next = "remove the link on the node";
      return error;
    }
    const auto supervisor = findSupervisor(folder);
    if (!supervisor) return {};
    // Gives up prepared runs that were not committed; running ones are not touched.
    const run::v1::RunState state = folder.readState();
    if (!isFinal(state) && state != run::v1::PREPARED) {
      Error error = makeError(Code::kFailedPrecondition, "run folder {} is in use", folder.path);
      error.next = "stop or kill the run first";
      return error;
    }
    // Its records are not wanted: it may wait for a full disk to take them, but not here.
    for (const int number : {SIGTERM, SIGKILL}) {
      if (isLocked(folder.lock())) kill(supervisor->pid, number);
      for (int tries = 0; tries < 300 && isLocked(folder.lock()); ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return {};
  }

  // Removes items of the workdir that are not in use and were idle for long enough, from name
  // `next` on, which advances. Returns those done, and why items were kept.
  std::vector<node::v1::WorkdirRemoval> removeSome(
      const node::v1::RemoveFromWorkdirRequest& request, int& next) {
    constexpr Nanoseconds kMostLocked = 250'000'000;
    struct Removal {
      node::v1::WorkdirItem item;
      std::string name;
      std::filesystem::path aside;  // of a run
      bool done = false;
      Message kept;
    };
    std::vector<Removal> removals;
    std::unique_lock lock(prepareMutex_);  // no run is prepared meanwhile
    const WorkdirItems items(workdir_);
    std::map<std::string, node::v1::WorkdirItem> listed;
    for (node::v1::WorkdirItem& item : items.list()) listed[item.name()] = std::move(item);
    const Nanoseconds end = monotonicNow() + kMostLocked;
    do {
      Removal& removal = removals.emplace_back();
      removal.name = request.names(next);
      const auto item = listed.find(removal.name);
      if (item == listed.end()) continue;  // gone
      removal.item = item->second;
      removal.kept = whyKept(removal.item, request.idle_seconds());
      const auto kind = removal.item.kind();
      // A launch that begins afterwards does not find the file.
      removal.done = removal.kept.empty() && (kind == node::v1::WorkdirItem::DATA ||
                                              kind == node::v1::WorkdirItem::DECODED);
      if (removal.done) removal.kept = items.remove(removal.item, {});
      if (!removal.kept.empty() || kind != node::v1::WorkdirItem::RUN) continue;
      const RunFolder folder = runFolder(workdir_, removal.item.run(), removal.item.node());
      if (const Status status = endSupervisor(folder); !status.ok()) {
        removal.kept = status.error().message();
        continue;
      }
      removal.aside = setAside(folder);
      listed.erase(item);
    } while (++next < request.names_size() && monotonicNow() < end);
    lock.unlock();
    std::vector<node::v1::WorkdirRemoval> out;
    for (Removal& removal : removals) {
      if (removal.kept.empty() && !removal.done && !removal.item.name().empty())
        removal.kept = items.remove(removal.item, removal.aside);
      out.emplace_back().set_name(removal.name);
      if (!removal.kept.empty()) *out.back().mutable_kept() = specs::toText(removal.kept);
    }
    return out;
  }

  EventLoop& loop_;
  const Workdir workdir_;
  const std::string version_;
  const double prepareSeconds_;
  DataCache data_;
  Staging staging_;
  std::mutex prepareMutex_, measuring_, startedMutex_;
  std::set<int> started_;  // startedMutex_
  std::mutex leaveMutex_;
  std::condition_variable leaveChanged_;
  bool leaving_ = false;                            // leaveMutex_
  WatchedTasks<node::v1::PrepareReply> preparing_;  // they use what is above
  WatchedTasks<node::v1::FindFileReply> finding_;
  WatchedTasks<node::v1::FetchFileReply> fetching_;
};

AgentService::AgentService(EventLoop& loop, Workdir workdir, std::string version,
                           double prepareSeconds)
    : impl_(std::make_unique<Impl>(loop, std::move(workdir), std::move(version), prepareSeconds)) {}
AgentService::~AgentService() = default;
grpc::Service& AgentService::service() { return *impl_; }
void AgentService::reapSupervisors() { impl_->reapSupervisors(); }
bool AgentService::hasRuns() { return impl_->hasRuns(); }
void AgentService::leave() { impl_->leave(); }

}  // namespace lockstep::agent
