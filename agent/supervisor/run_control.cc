#include "agent/supervisor/run_control.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "agent/base/grpc_status.h"
#include "agent/worker/prepare.h"
#include "agent/worker/rank_groups.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/comm/communicator.h"
#include "engine/plan/plan.h"
#include "engine/specs/specs.h"

namespace lockstep::agent {
namespace {

using node::v1::FromPeer;
using node::v1::FromWorker;
using node::v1::ToPeer;
using node::v1::ToWorker;

constexpr Nanoseconds kSecond = 1'000'000'000;

bool isCascading(const Error& error) {
  return error.code == Code::kAborted || error.code == Code::kUnavailable ||
         error.code == Code::kDeadlineExceeded;
}

const spec::v1::NodeSpec* findNode(const spec::v1::ClusterSpec& cluster, const std::string& name) {
  for (const auto& node : cluster.nodes())
    if (node.name() == name) return &node;
  return nullptr;
}

// A worker's last lines, but for the one that says what it told as its error.
std::string linesBeside(const std::string& tail, const std::string& told) {
  std::string out;
  for (std::size_t at = 0; at < tail.size();) {
    const std::size_t end = std::min(tail.find('\n', at), tail.size());
    const std::string line = tail.substr(at, end - at);
    if (told.empty() || line.find(told) == std::string::npos)
      out += (out.empty() ? "" : "\n") + line;
    at = end + 1;
  }
  return out;
}

}  // namespace

RunControl::RunControl(EventLoop& loop, RunFolder folder, node::v1::PrepareRequest request,
                       Spool& spool, std::string version, RunLimits limits,
                       std::function<void()> onOver)
    : loop_(loop),
      folder_(std::move(folder)),
      request_(std::move(request)),
      spool_(spool),
      version_(std::move(version)),
      limits_(limits),
      onOver_(std::move(onOver)),
      generation_(request_.generation()),
      recovery_(request_.spec().recovery()),
      sampler_(folder_.path) {
  recover_.set_resume_from(request_.resume_from());
  if (coordinates())
    for (const std::string& node : nodesOf(request_))
      if (node != request_.node()) peers_[node];
  if (const auto* node = specs::evaluatorNode(request_.cluster()); node != nullptr && coordinates())
    evaluations_ = std::make_unique<Evaluations>(node->name());
}

RunControl::~RunControl() {
  if (sharedMemory_ >= 0) close(sharedMemory_);
}

Result<std::string> RunControl::start() {
  std::string address;
  if (!peers_.empty()) {
    const spec::v1::NodeSpec* node = findNode(request_.cluster(), request_.node());
    LOCKSTEP_ASSIGN(const std::string host, peerAddress(*node));
    PeerServer::Handlers handlers;
    handlers.onJoin = [this](const std::string& name, const node::v1::PeerHello& hello) {
      onPeerJoin(name, hello);
    };
    handlers.onLeave = [this](const std::string& name) { onPeerLeave(name); };
    handlers.onMessage = [this](const std::string& name, const FromPeer& message) {
      onPeerMessage(name, message);
    };
    LOCKSTEP_ASSIGN(server_, PeerServer::start(loop_, host, request_, std::move(handlers)));
    address = server_->address();
  }
  expiry_ = loop_.after(limits_.prepared, [this] {
    if (committed_ || outcome_) return;
    say("the run was prepared and not committed in time; it is given up");
    outcome_ = run::v1::EXPIRED;
    Error error = makeError(Code::kCancelled, "the run was not committed in time");
    ToPeer message;
    *message.mutable_abort()->mutable_error() = toInfo(error);
    tellPeers(message);
    finishWhenGone();
  });
  LOCKSTEP_TRY(folder_.writeState(state_));
  if (!coordinates() && !request_.coordinator_address().empty())
    join(request_.coordinator_address());
  const double hertz =
      request_.sample_hertz() > 0 ? std::clamp(request_.sample_hertz(), 0.1, 10.0) : 2;
  sample();
  loop_.every(static_cast<Nanoseconds>(1e9 / hertz), [this] { sample(); });
  folderWatch_ = std::jthread([this](const std::stop_token& stop) { watchFolder(stop); });
  loop_.every(2 * kSecond, [this] {
    if (!client_ || over_) return;
    FromPeer ping;
    ping.mutable_ping()->set_sent_ns(monotonicNow());
    client_->send(std::move(ping));
  });
  return address;
}

// Fails the run when its folder is removed: clients could no longer find it. Runs on a thread of
// its own, since a network file system may block.
void RunControl::watchFolder(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (
      !wake.wait_for(lock, stop, std::chrono::seconds(1), [&] { return stop.stop_requested(); })) {
    if (access(folder_.path.c_str(), F_OK) == 0 || errno != ENOENT) continue;
    loop_.post([this] {
      localFailure(
          makeError(Code::kNotFound, "the run's folder {} was removed while it ran", folder_.path),
          false);
    });
    return;
  }
}

Status RunControl::check(const std::string& run, int generation) const {
  if (run == request_.run() && generation == request_.generation()) return {};
  Error error = invalidArgument("this is run {} generation {}, not run {} generation {}",
                                request_.run(), request_.generation(), run, generation);
  return error;
}

Status RunControl::commit(const node::v1::CommitRequest& request) {
  LOCKSTEP_TRY(check(request.run(), request.generation()));
  if (state_ == run::v1::EXPIRED || outcome_ == run::v1::EXPIRED) {
    Error error =
        makeError(Code::kFailedPrecondition, "run {} was prepared too long ago", request.run());
    error.next = "launch it again";
    return error;
  }
  if (!coordinates()) {
    if (!request.coordinator_address().empty()) join(request.coordinator_address());
    return {};
  }
  committed();
  return {};
}

void RunControl::setState(run::v1::RunState state) {
  if (const Status allowed = specs::checkTransition(state_, state); !allowed.ok()) {
    say(allowed.error().text());
    return;
  }
  state_ = state;
  if (Status status = folder_.writeState(state); !status.ok())
    logWarning("{}", status.error().text());
}

void RunControl::say(std::string line) {
  logInfo("{}", line);
  run::v1::Record record;
  record.mutable_log()->set_rank(-1);
  record.mutable_log()->add_lines(std::move(line));
  spool_.append(std::move(record));
}

// ---- workers

void RunControl::committed() {
  if (committed_ || outcome_) return;
  committed_ = true;
  loop_.cancel(expiry_);
  setState(run::v1::RUNNING);
  run::v1::Record record;
  run::v1::Started* started = record.mutable_started();
  started->set_node(request_.node());
  started->set_boot_id(bootId());
  started->set_version(version_);
  *started->mutable_ranks() = request_.ranks();
  int world = request_.ranks_size();
  if (!peers_.empty() || !coordinates()) {
    world = 0;
    for (const auto* node : specs::nodesWithRanks(request_.cluster(), request_.spec().strategy()))
      world += specs::deviceCount(*node);
  }
  started->set_world(world);
  started->set_plan_hash(request_.plan_hash());
  started->set_coordinator(coordinates());
  spool_.append(std::move(record));
  ToPeer message;
  message.mutable_committed();
  tellPeers(message);
  if (evaluates()) {
    startEvaluator();
    localReady();
    return;
  }
  form();
}

// Starts the workers. The coordinator gives them a limited time until all of them are bound.
void RunControl::form() {
  if (Status status = startWorkers(); !status.ok()) {
    localFailure(status.error(), false);
    return;
  }
  if (!coordinates()) return;
  formation_ = loop_.after(limits_.formation, [this] {
    if (gone_ || outcome_) return;
    std::string waiting;
    for (const auto& [name, peer] : peers_)
      if (!peer.ready) waiting += (waiting.empty() ? "" : ", ") + name;
    if (!ready_) waiting += (waiting.empty() ? "" : ", ") + request_.node();
    Error error = makeError(Code::kDeadlineExceeded, "the run did not form in {} s",
                            limits_.formation / kSecond);
    error.why = lockstep::message("still waiting for node {}", waiting);
    error.next = "look at that node's agent, and whether it reaches the first node at its address";
    noteFailure(std::move(error), false);
  });
}

Status RunControl::startWorkers() {
  const std::string& kind = request_.comm();
  const int ranks = request_.ranks_size();
  const std::vector<specs::RankDevice> devices = devicesOf(request_);
  int threads = 0;
  std::vector<int> each;
  for (int i = 0; i < ranks; ++i)
    threads += each.emplace_back(devices[static_cast<std::size_t>(i)].threads);
  cores_ = CoreClaims();  // those of the generation before are free
  cores_ = request_.spec().training().unpinned() ? CoreClaims("training.unpinned")
                                                 : CoreClaims::claim(each);
  if ((kind == "shm" || kind == "nccl") && ranks > 1) {
    LOCKSTEP_ASSIGN(const std::string text, readFile(folder_.plan()));
    LOCKSTEP_ASSIGN(const plan::Plan plan, plan::parse(text, folder_.plan()));
    // what GPUs do not exchange goes through memory here, by Gloo where there are other nodes
    if (plan.mesh.size() == ranks) {
      LOCKSTEP_ASSIGN(const std::int64_t bytes, sharedMemoryBytes(plan.mesh));
      if (sharedMemory_ >= 0) close(std::exchange(sharedMemory_, -1));
      LOCKSTEP_ASSIGN(sharedMemory_, comm::makeSharedMemory(bytes));
    }
  }
  for (int i = 0; i < ranks; ++i)
    LOCKSTEP_TRY(startWorker(i, request_.ranks(i), devices[static_cast<std::size_t>(i)],
                             threads > usableCores()));
  return {};
}

Status RunControl::startWorker(int index, int rank, const specs::RankDevice& device,
                               bool oversubscribed) {
  auto worker = std::make_unique<Worker>();
  Worker* raw = worker.get();
  raw->rank = rank;
  raw->started = monotonicNow();
  WorkerOptions options;
  options.run = request_.run();
  options.rank = rank;
  options.threads = device.threads;
  options.ownCores = cores_.pinned();
  options.sharedMemoryFd = sharedMemory_;
  options.logPath = fmt::format("{}/rank-{}.log", folder_.logs(), rank);
  options.folder = folder_.path;
  WorkerProcess::Handlers handlers;
  handlers.onMessage = [this, raw](FromWorker& message) { onWorkerMessage(*raw, message); };
  handlers.onLines = [this, rank](std::vector<std::string> lines, std::uint64_t dropped) {
    run::v1::Record record;
    record.mutable_log()->set_rank(rank);
    record.mutable_log()->set_dropped(dropped);
    for (std::string& line : lines) record.mutable_log()->add_lines(std::move(line));
    if (!over_) spool_.append(std::move(record));
  };
  handlers.onExit = [this, raw](int status) { onWorkerExit(*raw, status); };
  LOCKSTEP_ASSIGN(raw->process, WorkerProcess::spawn(loop_, options, std::move(handlers)));
  workers_.push_back(std::move(worker));

  run::v1::Record record;
  record.mutable_rank()->set_rank(rank);
  record.mutable_rank()->set_state("started");
  record.mutable_rank()->set_pid(raw->process->pid());
  spool_.append(std::move(record));

  ToWorker message;
  node::v1::WorkerStart* start = message.mutable_start();
  start->set_run(request_.run());
  start->set_generation(generation_);
  start->set_node(request_.node());
  start->set_rank(rank);
  start->set_world(request_.ranks_size());  // of the node; the plan's mesh has that of the run
  start->set_plan_path(folder_.plan());
  *start->mutable_spec() = request_.spec();
  *start->mutable_data_paths() = request_.data_paths();
  start->set_comm(request_.comm());
  start->set_shared_memory_fd(sharedMemory_ >= 0 ? kWorkerSharedFd : -1);
  if (const spec::v1::NodeSpec* node = findNode(request_.cluster(), request_.node())) {
    start->set_address(node->address());
    start->set_interface(node->interface());
  }
  start->set_oversubscribed(oversubscribed);
  start->set_threads(device.threads);
  start->set_backend(device.backend);
  start->set_device(device.number);
  start->set_all_on_gpus(specs::allOnGpus(request_.cluster(), request_.spec()));
  setCores(cores_, static_cast<std::size_t>(index), *start);
  start->set_checkpoint_folder(folder_.checkpoints());
  start->set_resume_from(recover_.resume_from());
  start->set_events_every(request_.events_every());
  start->set_local_index(index);
  start->set_evaluated_apart(specs::evaluatorNode(request_.cluster()) != nullptr);
  raw->process->send(message);
  return {};
}

void RunControl::onWorkerMessage(Worker& worker, FromWorker& message) {
  // What a worker of the generation before says to the others is not for those of the next.
  if (leaving_ && (message.has_ready() || message.has_kv_set() || message.has_kv_get())) return;
  run::v1::Record record;
  switch (message.body_case()) {
    case FromWorker::kReady: {
      worker.ready = true;
      record.mutable_rank()->set_rank(worker.rank);
      record.mutable_rank()->set_state("ready");
      record.mutable_rank()->set_pid(worker.process->pid());
      record.mutable_rank()->set_bound_bytes(message.ready().bound_bytes());
      spool_.append(std::move(record));
      say(fmt::format("rank {} is ready {:.3f} s after its start", worker.rank,
                      static_cast<double>(monotonicNow() - worker.started) * 1e-9));
      const bool all =
          static_cast<int>(workers_.size()) == request_.ranks_size() &&
          std::all_of(workers_.begin(), workers_.end(), [](const auto& one) { return one->ready; });
      if (all && !outcome_) localReady();
      return;
    }
    case FromWorker::kKvSet:
      kvSet(message.kv_set().key(), message.kv_set().value());
      return;
    case FromWorker::kKvGet:
      localKvGet(worker, message.kv_get().id(), message.kv_get().key());
      return;
    case FromWorker::kSteps: {
      const auto& steps = message.steps();
      worker.lastStep = steps.first_step() + steps.loss_size() - 1;
      if (coordinates()) noteFirstSteps(steps);
      record.mutable_steps()->Swap(message.mutable_steps());
      break;
    }
    case FromWorker::kEvents:
      record.mutable_events()->Swap(message.mutable_events());
      break;
    case FromWorker::kEpoch:
      if (worker.rank != 0) return;  // equal on all ranks
      record.mutable_epoch()->Swap(message.mutable_epoch());
      onEpoch(record);
      break;
    case FromWorker::kCheckpoint:
      record.mutable_checkpoint()->Swap(message.mutable_checkpoint());
      onCheckpoint(record.checkpoint());
      break;
    case FromWorker::kWarning:
      message.mutable_warning()->set_node(request_.node());
      message.mutable_warning()->set_rank(worker.rank);
      record.mutable_warning()->Swap(message.mutable_warning());
      break;
    case FromWorker::kFinished:
      worker.finished = message.finished();
      return;
    case FromWorker::kFailed: {
      // names its own node and rank, or another's that it found wrong
      worker.failed = fromInfo(message.failed());
      return;  // told at its exit, with its last lines
    }
    default:
      return;
  }
  if (!over_) spool_.append(std::move(record));
}

void RunControl::onWorkerExit(Worker& worker, int status) {
  worker.exited = true;
  run::v1::Record record;
  run::v1::RankState* rank = record.mutable_rank();
  rank->set_rank(worker.rank);
  rank->set_state("exited");
  rank->set_pid(worker.process->pid());
  if (WIFEXITED(status)) rank->set_exit_code(WEXITSTATUS(status));
  if (WIFSIGNALED(status)) rank->set_signal(WTERMSIG(status));
  if (!over_) spool_.append(std::move(record));
  if (outcome_) {
    finishWhenGone();
    return;
  }
  if (leaving_) {
    if (workersGone()) loop_.post([this] { startGeneration(); });
    return;
  }
  const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (clean && worker.finished) {
    if (static_cast<int>(workers_.size()) == request_.ranks_size() &&
        std::all_of(workers_.begin(), workers_.end(),
                    [](const auto& one) { return one->exited && one->finished; }))
      localDone();
    return;
  }
  if (forced_) {
    localFailure(makeError(Code::kCancelled, "the run did not stop in time"), false);
    return;
  }
  Error error;
  bool cascading = false;
  if (worker.failed) {
    error = *worker.failed;
    cascading = isCascading(error);
  } else {
    error.code = Code::kAborted;
    error.what = message("the worker of rank {} {}", worker.rank, worker.process->exitText(status));
    error.next =
        "see the run's log; resume the run from its last checkpoint, or launch it again where it "
        "has none";
    error.node = request_.node();
    error.rank = worker.rank;
    error.step = worker.lastStep;
  }
  const std::string tail =
      linesBeside(worker.process->tail(), worker.failed ? worker.failed->what.text() : "");
  if (!tail.empty() && !cascading)
    error.why = error.why.empty() ? message("its last lines:\n{}", tail)
                                  : message("{}\nits last lines:\n{}", error.why, tail);
  localFailure(std::move(error), cascading);
}

void RunControl::sendAll(const ToWorker& message) {
  for (auto& worker : workers_)
    if (!worker->exited) worker->process->send(message);
}

void RunControl::signalAll(int number) {
  for (auto& worker : workers_)
    if (!worker->exited) worker->process->signal(number);
}

bool RunControl::workersGone() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& one) { return one->exited; });
}

void RunControl::sample() {
  if (over_) return;
  std::map<int, int> ranks;
  for (auto& worker : workers_)
    if (!worker->exited) ranks[worker->rank] = worker->process->pid();
  run::v1::Record record;
  *record.mutable_node_sample() = sampler_.sample(ranks);
  for (const auto& one : record.node_sample().rank())
    for (auto& worker : workers_)
      if (worker->rank == one.rank())
        worker->process->noteMemory(static_cast<std::int64_t>(one.memory()));
  if (committed_) spool_.append(std::move(record));
}

// ---- the rendezvous store: held by the coordinator, asked by everyone

void RunControl::kvSet(const std::string& key, const std::string& value) {
  if (coordinates()) {
    kv_.set(key, value);
    return;
  }
  kvTold_.emplace_back(key, value);
  FromPeer message;
  message.mutable_kv_set()->set_key(key);
  message.mutable_kv_set()->set_value(value);
  if (client_) client_->send(std::move(message));
}

void RunControl::kvGet(const std::string& key, KeyValueStore::Answer answer) {
  if (coordinates()) {
    kv_.get(key, std::move(answer));
    return;
  }
  const std::uint64_t id = nextGet_++;
  kvAsked_[id] = {key, std::move(answer)};
  FromPeer message;
  message.mutable_kv_get()->set_id(id);
  message.mutable_kv_get()->set_key(key);
  if (client_) client_->send(std::move(message));
}

void RunControl::localKvGet(Worker& worker, std::uint64_t id, const std::string& key) {
  kvGet(key, [&worker, id, key](const std::string& value) {
    if (worker.exited) return;
    worker.process->send(keyValueReply<ToWorker>(id, key, value));
  });
}

}  // namespace lockstep::agent
