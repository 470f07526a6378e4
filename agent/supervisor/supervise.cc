// supervise: owns one run on one node, and serves its records as long as somebody reads them.
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <limits>
#include <memory>

#include "agent/base/commands.h"
#include "agent/base/file_stream.h"
#include "agent/base/grpc_status.h"
#include "agent/base/open_files.h"
#include "agent/base/run_folder.h"
#include "agent/base/unix_server.h"
#include "agent/host/processes.h"
#include "agent/host/version_lease.h"
#include "agent/supervisor/members.h"
#include "agent/supervisor/rank_debugging.h"
#include "agent/supervisor/run_control.h"
#include "agent/supervisor/spool.h"
#include "agent/worker/prepare.h"
#include "agent/workload/artifacts.h"
#include "agent/workload/code_folder.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/specs/error_info.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::agent {
namespace {

class SupervisorService : public node::v1::Supervisor::Service {
 public:
  // `control` is null where the run has ended and only its records are served.
  SupervisorService(EventLoop& loop, RunFolder folder, const node::v1::PrepareRequest& request,
                    Spool& spool, RunControl* control)
      : loop_(loop),
        folder_(std::move(folder)),
        run_(request.run()),
        node_(request.node()),
        workload_(request.spec().workload()),
        coordinator_(request.coordinator()),
        spool_(spool),
        control_(control),
        debugging_(loop, folder_, control) {}

  grpc::Status Commit(grpc::ServerContext*, const node::v1::CommitRequest* request,
                      node::v1::CommitReply*) override {
    return onLoop([&] { return control_->commit(*request); });
  }
  grpc::Status Stop(grpc::ServerContext*, const node::v1::StopRequest* request,
                    node::v1::StopReply*) override {
    if (control_ == nullptr) return onLoop([] { return lockstep::Status(); });
    return onceKept([&] { return control_->stop(*request); }, true);
  }
  grpc::Status Checkpoint(grpc::ServerContext*, const node::v1::CheckpointRequest* request,
                          node::v1::CheckpointReply*) override {
    return onLoop([&] { return control_->checkpoint(request->run(), request->generation()); });
  }
  grpc::Status Exclude(grpc::ServerContext*, const node::v1::ExcludeRequest* request,
                       node::v1::ExcludeReply*) override {
    return onceKept(
        [&] { return control_->exclude(request->run(), request->generation(), request->node()); });
  }
  grpc::Status Restart(grpc::ServerContext*, const node::v1::RestartRequest* request,
                       node::v1::RestartReply*) override {
    return whileItTrains([&] { return control_->restart(request->run(), request->generation()); });
  }
  grpc::Status Rebalance(grpc::ServerContext*, const node::v1::RebalanceRequest* request,
                         node::v1::RebalanceReply*) override {
    return onceKept([&] {
      return control_->rebalance(request->run(), request->generation(),
                                 {request->shares().begin(), request->shares().end()});
    });
  }
  grpc::Status Profile(grpc::ServerContext*, const node::v1::ProfileRequest* request,
                       node::v1::ProfileReply* reply) override {
    return whileItTrains([&]() -> lockstep::Status {
      LOCKSTEP_ASSIGN(*reply->mutable_profiled(),
                      control_->profile(request->run(), request->generation(), request->steps()));
      return {};
    });
  }
  grpc::Status Kill(grpc::ServerContext*, const node::v1::KillRequest* request,
                    node::v1::KillReply*) override {
    if (control_ == nullptr) return onLoop([] { return lockstep::Status(); });
    return onceKept(
        [&] { return control_->kill(request->run(), request->generation(), "on request"); }, true);
  }
  grpc::Status Status(grpc::ServerContext*, const node::v1::StatusRequest*,
                      node::v1::RunOnNode* reply) override {
    reply->set_run(run_);
    reply->set_node(node_);
    reply->set_state(folder_.readState());
    reply->set_socket(folder_.socket());
    reply->set_folder(folder_.path);
    reply->set_coordinator(coordinator_);
    *reply->mutable_speaks() = specs::toProto(specs::ownProtocols(bundleVersion(folder_.runtime)));
    return grpc::Status::OK;
  }

  grpc::Status Records(grpc::ServerContext* context, const node::v1::RecordsRequest* request,
                       grpc::ServerWriter<run::v1::Record>* writer) override {
    std::uint64_t after = std::min(request->after(), spool_.last());
    run::v1::Record record;
    // held back for ever if it came with a record that waits for the next
    writer->SendInitialMetadata();
    while (!context->IsCancelled()) {
      const auto batch = spool_.read(after, 512, request->follow() ? 250'000'000 : 0);
      if (!batch.ok()) return toGrpc(batch.error());
      for (const Spool::Kept& kept : *batch) {
        after = kept.sequence;
        if (!record.ParseFromString(kept.bytes)) continue;
        grpc::WriteOptions options;
        if (&kept != &batch->back()) options.set_buffer_hint();  // goes with the next
        if (!writer->Write(record, options)) return grpc::Status::OK;
      }
      if (after >= spool_.last() && (!request->follow() || spool_.finished())) break;
    }
    return grpc::Status::OK;
  }

  grpc::Status Fetch(grpc::ServerContext* context, const node::v1::FetchRequest* request,
                     grpc::ServerWriter<node::v1::FetchChunk>* writer) override {
    if (request->name() != kModelFile && request->name() != "plan.txt")
      return toGrpc(
          makeError(Code::kNotFound, "run {} has no artifact \"{}\"", run_, request->name()));
    lockstep::Status sent = sendFile(folder_.path + "/" + request->name(), *context, *writer);
    if (sent.code() == Code::kNotFound)
      sent =
          makeError(Code::kNotFound, "node {} has no {} of run {}", node_, request->name(), run_);
    return toGrpc(sent);
  }

  grpc::Status ListArtifacts(grpc::ServerContext*, const node::v1::ListArtifactsRequest*,
                             grpc::ServerWriter<node::v1::ListArtifactsReply>* writer) override {
    constexpr int kTogether = 500;
    const auto files = findArtifacts(
        programFolder(folder_, workload_),
        {workload_.artifacts().collect().begin(), workload_.artifacts().collect().end()});
    if (!files.ok()) return toGrpc(files.status());
    node::v1::ListArtifactsReply reply;
    for (const ArtifactFile& file : *files) {
      node::v1::Artifact& one = *reply.add_files();
      one.set_path(file.path);
      one.set_bytes(file.bytes);
      one.set_modified_ns(file.modified);
      if (!file.problem.empty()) *one.mutable_problem() = specs::toText(file.problem);
      if (reply.files_size() < kTogether) continue;
      if (!writer->Write(reply)) return grpc::Status::OK;
      reply.clear_files();
    }
    if (!reply.files().empty()) writer->Write(reply);
    return grpc::Status::OK;
  }

  grpc::Status FetchArtifact(grpc::ServerContext* context,
                             const node::v1::FetchArtifactRequest* request,
                             grpc::ServerWriter<node::v1::FetchChunk>* writer) override {
    const auto file =
        openArtifact(programFolder(folder_, workload_), request->path(), request->modified_ns());
    if (!file.ok()) return toGrpc(file.status());
    return toGrpc(sendPart(file->get(), request->offset(), request->bytes(), *context, *writer));
  }

  grpc::Status ReadRankStacks(grpc::ServerContext* context,
                              const node::v1::ReadRankStacksRequest* request,
                              node::v1::ReadRankStacksReply* reply) override {
    auto stacks =
        debugging_.readStacks(request->rank(), [context] { return context->IsCancelled(); });
    if (!stacks.ok()) return toGrpc(stacks.status());
    *reply = std::move(*stacks);
    return grpc::Status::OK;
  }

  grpc::Status DebugRank(grpc::ServerContext* context, const node::v1::DebugRankRequest* request,
                         grpc::ServerWriter<node::v1::DebugRankReply>* writer) override {
    return toGrpc(debugging_.debug(
        *request, [writer](const node::v1::DebugRankReply& reply) { return writer->Write(reply); },
        [context] { return context->IsCancelled(); }));
  }

 private:
  template <typename Work>
  grpc::Status onLoop(Work work) {
    if (spool_.alone())
      return toGrpc(
          makeError(Code::kUnavailable, "node {} does not coordinate the run any more", node_));
    // Ended: what was asked is done or cannot be any more.
    if (control_ == nullptr) return grpc::Status::OK;
    lockstep::Status status;
    if (!loop_.call([&] { status = work(); }))
      status = makeError(Code::kUnavailable, "the supervisor is leaving");
    return toGrpc(status);
  }

  template <typename Work>
  grpc::Status whileItTrains(Work work) {
    if (control_ == nullptr && !spool_.alone())
      return toGrpc(makeError(Code::kFailedPrecondition, "run {} has ended", run_));
    return onLoop(work);
  }

  // Answers when the run still does what was asked if its coordinator is lost. `ends`: its end is
  // what was asked.
  template <typename Work>
  grpc::Status onceKept(Work work, bool ends = false) {
    const auto kept = std::make_shared<std::promise<lockstep::Status>>();
    const grpc::Status accepted = whileItTrains([&]() -> lockstep::Status {
      LOCKSTEP_TRY(work());
      control_->whenKept([this, kept, ends](const lockstep::Status& status) {
        kept->set_value(ends && control_->hasEnded() ? lockstep::Status() : status);
      });
      return {};
    });
    if (!accepted.ok()) return accepted;
    std::future<lockstep::Status> answer = kept->get_future();
    constexpr std::chrono::seconds kLimit{10};  // it answers earlier, unless it is leaving
    if (answer.wait_for(kLimit) != std::future_status::ready)
      return toGrpc(makeError(Code::kUnavailable, "the supervisor is leaving"));
    return toGrpc(answer.get());
  }

  EventLoop& loop_;
  const RunFolder folder_;
  const std::string run_, node_;
  const spec::v1::WorkloadSpec workload_;
  const bool coordinator_;
  Spool& spool_;
  RunControl* control_;
  RankDebugging debugging_;
};

int fail(const RunFolder& folder, const Error& error) {
  writeFailure(folder, error);
  std::fprintf(stderr, "lockstep-agent supervise: %s\n", error.text().c_str());
  return 3;
}

// A supervisor that was killed, or that ended on a full disk, has kept no end: it is written here.
void repair(const RunFolder& folder, const node::v1::PrepareRequest& request, Spool& spool) {
  const run::v1::RunState state = folder.readState();
  if (!spool.finished()) {
    constexpr std::uint64_t kUncommitted = 1 << 20;  // more than it could have numbered
    spool.skip(kUncommitted, isFinal(state) && spool.last() == 0
                                 ? "the run's spool on this node is empty"
                                 : "those not yet written when the supervisor ended");
    const bool coordinates = request.coordinator();
    const bool othersMayContinue =
        !isFinal(state) && (coordinates ? continuesWithoutAny(request.spec(), request.cluster(),
                                                              nodesOf(request).size())
                                        : replacesNodes(request.spec(), request.cluster()));
    run::v1::Record record;
    if (!isFinal(state) || state == run::v1::FAILED) {
      Error error;
      if (isFinal(state)) {
        error = makeError(Code::kDataLoss, "the run failed; its error was not kept");
        error.why = "its supervisor was killed, or the disk of the node's workdir is full";
      } else {
        error = makeError(Code::kAborted, "the run's supervisor ended unexpectedly");
        error.why = "it was killed, or the node was restarted";
      }
      error.next =
          othersMayContinue
              ? "the run may continue on the other nodes"
              : "resume the run from its last checkpoint, or launch it again where it has none";
      error.node = request.node();
      *(othersMayContinue ? record.mutable_warning() : record.mutable_error()) = toInfo(error);
      spool.append(record);
      record.Clear();
    }
    record.mutable_finished()->set_state(isFinal(state) ? state : run::v1::FAILED);
    record.mutable_finished()->set_alone(coordinates && othersMayContinue);
    spool.append(record);
    (void)spool.flush();
  }
  if (!isFinal(state)) (void)folder.writeState(run::v1::FAILED);
}

class IdleShutdown {
 public:
  IdleShutdown(EventLoop& loop, const UnixServer& server, Nanoseconds limit)
      : loop_(loop), server_(server), limit_(limit) {}
  // From the run's end: leaves after `limit` without a client.
  void begin() {
    begun_ = lastSeen_ = monotonicNow();
    loop_.every(std::min<Nanoseconds>(limit_ / 4 + 1, 5'000'000'000), [this] {
      if (server_.connections() > 0) lastSeen_ = monotonicNow();
      if (monotonicNow() - lastSeen_ > limit_) loop_.quit();
    });
  }
  // Now, but for the moment in which what was said last goes out, and a while for the disk to take
  // what it has not `kept`.
  void cutShort(std::function<bool()> kept) {
    if (asked_ != 0) return;
    asked_ = monotonicNow();
    loop_.every(50'000'000, [this, kept = std::move(kept)] {
      const Nanoseconds now = monotonicNow();
      if (now < begun_ + kLastWords) return;
      const bool all = kept();
      if (!all && now < asked_ + kForTheDisk) return;
      if (!all) logWarning("leaves, asked to, although the disk has not taken all records");
      loop_.quit();
    });
  }

 private:
  static constexpr Nanoseconds kLastWords = 1'000'000'000, kForTheDisk = 10'000'000'000;
  EventLoop& loop_;
  const UnixServer& server_;
  Nanoseconds limit_, begun_ = 0, lastSeen_ = 0, asked_ = 0;
};

// Returns the signals that ask it to end, which are blocked before any thread is made.
sigset_t prepareProcess() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  umask(077);
  return signals;
}

// Until the process ends. A supervisor that is leaving may still hold it for a moment.
bool lockFolder(const RunFolder& folder) {
  for (int tries = 0; tries < 200; ++tries) {
    if (tryLock(folder.lock()) >= 0) return true;
    poll(nullptr, 0, 10);
  }
  return false;
}

void removeRun(const RunFolder& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder.path, ignored);
  std::filesystem::remove(std::filesystem::path(folder.path).parent_path(), ignored);  // if empty
}

Result<node::v1::PrepareRequest> requestWithSecrets(const RunFolder& folder) {
  LOCKSTEP_ASSIGN(node::v1::PrepareRequest request, folder.readRequest());
  LOCKSTEP_ASSIGN(node::v1::RunSecrets secrets, takeSecrets());
  request.mutable_tls()->Swap(secrets.mutable_tls());
  request.mutable_secret_env()->swap(*secrets.mutable_env());
  return request;
}

Result<Nanoseconds> duration(const Arguments& arguments, std::string_view flag,
                             Nanoseconds fallback) {
  LOCKSTEP_ASSIGN(const double value,
                  seconds(arguments, flag, static_cast<double>(fallback) / 1e9));
  return static_cast<Nanoseconds>(value * 1e9);
}

Result<RunLimits> limitsOf(const Arguments& arguments) {
  RunLimits out;
  LOCKSTEP_ASSIGN(out.prepared, duration(arguments, "prepare-seconds", out.prepared));
  LOCKSTEP_ASSIGN(out.lostPeer, duration(arguments, "lost-seconds", out.lostPeer));
  LOCKSTEP_ASSIGN(out.absence, duration(arguments, "absence-seconds", out.absence));
  LOCKSTEP_ASSIGN(out.lastEvaluation,
                  duration(arguments, "evaluation-seconds", out.lastEvaluation));
  return out;
}

// Calls `onSignal` for each that `signals` bring.
void watchSignals(EventLoop& loop, const sigset_t& signals, std::function<void()> onSignal) {
  const int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  loop.watch(fd, POLLIN, [fd, onSignal = std::move(onSignal)](short) {
    signalfd_siginfo got{};
    while (read(fd, &got, sizeof got) == sizeof got) {
    }
    onSignal();
  });
}

}  // namespace

Result<int> superviseCommand(const Arguments& arguments) {
  RunFolder folder;
  folder.path = arguments.words().front();
  folder.runtime = arguments.text("runtime");
  bool serveOnly = arguments.has("serve-only");
  LOCKSTEP_ASSIGN(const RunLimits limits, limitsOf(arguments));
  LOCKSTEP_ASSIGN(const Nanoseconds linger, duration(arguments, "linger-seconds", 60'000'000'000));
  LOCKSTEP_ASSIGN(const std::int64_t openFiles,
                  arguments.integer("open-files", 0, 0, std::numeric_limits<std::int64_t>::max()));

  const sigset_t signals = prepareProcess();
  raiseOpenFiles(static_cast<std::uint64_t>(openFiles));
  if (!lockFolder(folder))
    return fail(folder,
                makeError(Code::kAlreadyExists, "{} has a supervisor already", folder.path));
  auto request = requestWithSecrets(folder);
  if (!request.ok()) return fail(folder, request.error());

  EventLoop loop;
  const VersionLease lease(loop);
  std::unique_ptr<RunControl> control;
  SpoolOptions options;
  options.onTrouble = [&](const Error& error) {
    loop.post([&control, text = error.text()] {
      if (control) control->say("records are not being written: " + text);
    });
  };
  auto spool = Spool::open(folder.spool(), options);
  if (!spool.ok()) return fail(folder, spool.error());
  if (isFinal(folder.readState())) serveOnly = true;
  if (serveOnly) repair(folder, *request, **spool);

  SupervisorInfo info;
  info.pid = getpid();
  info.socket = folder.socket();
  info.speaks = specs::ownProtocols(bundleVersion(folder.runtime));
  std::unique_ptr<IdleShutdown> lingering;
  if (!serveOnly) {
    control = std::make_unique<RunControl>(loop, folder, *request, **spool,
                                           bundleVersion(folder.runtime), limits, [&] {
                                             if (control->state() == run::v1::EXPIRED)
                                               loop.quit();
                                             else
                                               lingering->begin();
                                           });
    auto address = control->start();
    if (!address.ok()) return fail(folder, address.error());
    info.peerAddress = *address;
    loop.every(1'000'000'000, [&] { reapOrphans([&](int pid) { return control->owns(pid); }); });
  }
  SupervisorService service(loop, folder, *request, **spool, control.get());
  auto server = UnixServer::start(info.socket, service);  // ends before what it serves
  if (!server.ok()) return fail(folder, server.error());
  lingering = std::make_unique<IdleShutdown>(loop, **server, linger);
  if (serveOnly) lingering->begin();
  if (Status status = writeSupervisor(folder, info); !status.ok())
    return fail(folder, status.error());

  watchSignals(loop, signals, [&] {
    if (!control || isFinal(control->state())) {
      lingering->cutShort([&] { return (*spool)->flush().ok(); });
      return;
    }
    (void)control->kill(request->run(), request->generation(), "its supervisor was asked to end");
    constexpr Nanoseconds kWritten = 500'000'000;  // the end, once it is known whether others know
    loop.after(limits.kept + kWritten, [&] { loop.quit(); });
  });
  loop.run();

  const bool expired = control && control->state() == run::v1::EXPIRED;
  (*spool)->wakeReaders();
  server->reset();
  control.reset();
  spool->reset();
  unlink(folder.supervisor().c_str());
  if (expired) removeRun(folder);
  return 0;
}

}  // namespace lockstep::agent
