// RunControl: the workers of a node.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/run_control.h"
#include "agent/worker/prepare.h"
#include "agent/worker/rank_groups.h"
#include "agent/workload/code_folder.h"
#include "engine/base/file.h"
#include "engine/comm/communicator.h"
#include "engine/plan/plan.h"
#include "engine/runtime/heartbeat.h"
#include "engine/specs/specs.h"

namespace lockstep::agent {
namespace {

using node::v1::FromPeer;
using node::v1::FromWorker;
using node::v1::ToWorker;

bool isCascading(const Error& error) {
  return error.code == Code::kAborted || error.code == Code::kUnavailable ||
         error.code == Code::kDeadlineExceeded;
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

// Ranks that read a checkpoint or given weights wait for their disks as long as these deliver.
Nanoseconds RunControl::formationLimit() const {
  const bool reads = recover_.from_checkpoints() || !request_.resume_from().empty() ||
                     request_.spec().model().has_init_from();
  return limits_.formation +
         (reads ? std::chrono::nanoseconds(runtime::diskWait().limit).count() : 0);
}

// Starts the workers. The coordinator gives them a limited time until all of them are bound.
void RunControl::form() {
  if (request_.ranks().empty()) return localReady();  // a spare
  if (Status status = startWorkers(); !status.ok()) {
    localFailure(status.error(), false);
    return;
  }
  if (!coordinates()) return;
  const Nanoseconds limit = formationLimit();
  formation_ = loop_.after(limit, [this, limit] {
    if (gone_ || outcome_) return;
    std::string waiting;
    for (const auto& [name, peer] : peers_)
      if (!peer.ready && awaited(name)) waiting += (waiting.empty() ? "" : ", ") + name;
    if (!ready_) waiting += (waiting.empty() ? "" : ", ") + request_.node();
    Error error =
        makeError(Code::kDeadlineExceeded, "the run did not form in {} s", limit / 1'000'000'000);
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
           : request_.spec().has_workload()      ? CoreClaims("a program of its own")
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
  *start->mutable_secret_env() = request_.secret_env();
  start->set_comm(request_.comm());
  start->set_shared_memory_fd(sharedMemory_ >= 0 ? kWorkerSharedFd : -1);
  if (const spec::v1::NodeSpec* node = ownNode()) {
    start->set_address(node->address());
    start->set_interface(node->interface());
  }
  start->set_oversubscribed(oversubscribed);
  start->set_threads(device.threads);
  start->set_backend(device.backend);
  start->set_device(device.number);
  start->set_all_on_gpus(specs::allOnGpus(request_.cluster(), request_.spec()));
  setCores(cores_, static_cast<std::size_t>(index), *start);
  start->set_checkpoint_folder(checkpointFolder());
  start->set_resume_from(recover_.from_checkpoints() ? checkpointFolder() : request_.resume_from());
  start->set_copied(!copiedNodes(request_).empty());
  start->set_events_every(request_.events_every());
  start->set_local_index(index);
  start->set_code_folder(programFolder(folder_, request_.spec().workload()));
  start->set_evaluated_apart(specs::evaluatorNode(request_.cluster()) != nullptr);
  raw->process->send(message);
  return {};
}

void RunControl::onReady(Worker& worker, std::int64_t boundBytes) {
  worker.ready = true;
  run::v1::Record record;
  record.mutable_rank()->set_rank(worker.rank);
  record.mutable_rank()->set_state("ready");
  record.mutable_rank()->set_pid(worker.process->pid());
  record.mutable_rank()->set_bound_bytes(boundBytes);
  spool_.append(std::move(record));
  say(fmt::format("rank {} is ready {:.3f} s after its start", worker.rank,
                  static_cast<double>(monotonicNow() - worker.started) * 1e-9));
  const bool all =
      static_cast<int>(workers_.size()) == request_.ranks_size() &&
      std::all_of(workers_.begin(), workers_.end(), [](const auto& one) { return one->ready; });
  if (all && !outcome_) localReady();
}

void RunControl::onProgram(Worker& worker, int pid) {
  worker.program = pid;
  run::v1::Record record;
  record.mutable_rank()->set_rank(worker.rank);
  record.mutable_rank()->set_state("program");
  record.mutable_rank()->set_pid(pid);
  if (!over_) spool_.append(std::move(record));
  say(fmt::format("rank {} runs the program, process {}", worker.rank, pid));
  noteRecovered(0);
}

void RunControl::onProgramStacks(const Worker& worker, const node::v1::Stacks& stacks) {
  if (over_ || leaving_) return;
  if (stacks.lines().empty())
    readStacksOf(worker);  // it is no Python, or has no hooks
  else
    tellStacks(worker.rank, {stacks.lines().begin(), stacks.lines().end()});
}

// A program counts its steps anew at each start: the values that it reports have its own numbers.
void RunControl::onSteps(Worker& worker, const run::v1::StepChunk& steps) {
  if (ofProgram()) return;
  worker.lastStep = steps.first_step() + steps.loss_size() - 1;
  noteFirstSteps(steps);
}

void RunControl::onWorkerMessage(Worker& worker, FromWorker& message) {
  // What a worker of the generation before says to the others is not for those of the next.
  if (leaving_ && (message.has_ready() || message.has_kv_set() || message.has_kv_get() ||
                   message.has_stalled() || message.has_checkpoint()))
    return;
  run::v1::Record record;
  switch (message.body_case()) {
    case FromWorker::kReady:
      onReady(worker, message.ready().bound_bytes());
      return;
    case FromWorker::kKvSet:
      kvSet(message.kv_set().key(), message.kv_set().value());
      return;
    case FromWorker::kKvGet:
      localKvGet(worker, message.kv_get().id(), message.kv_get().key());
      return;
    case FromWorker::kSteps:
      onSteps(worker, message.steps());
      record.mutable_steps()->Swap(message.mutable_steps());
      break;
    case FromWorker::kProgram:
      onProgram(worker, message.program().pid());
      return;
    case FromWorker::kStacks:
      onProgramStacks(worker, message.stacks());
      return;
    case FromWorker::kScalars:
      message.mutable_scalars()->set_rank(worker.rank);
      for (const auto& scalar : message.scalars().scalars())
        worker.lastStep = std::max(worker.lastStep, scalar.step());
      furthest_ = std::max(furthest_, worker.lastStep);
      record.mutable_scalars()->Swap(message.mutable_scalars());
      break;
    case FromWorker::kSource:
      message.mutable_source()->set_rank(worker.rank);
      record.mutable_source()->Swap(message.mutable_source());
      break;
    case FromWorker::kEvents:
      record.mutable_events()->Swap(message.mutable_events());
      break;
    case FromWorker::kEpoch:
      if (worker.rank != 0) return;  // equal on all ranks
      record.mutable_epoch()->Swap(message.mutable_epoch());
      epochs_ = record.epoch().epoch();
      onEpoch(record);
      break;
    case FromWorker::kCheckpoint:
      onPublished(message.checkpoint().step());
      if (worker.rank != 0) return;
      record.mutable_checkpoint()->Swap(message.mutable_checkpoint());
      onCheckpoint(record.checkpoint());
      noteTrained(record.checkpoint().step());
      if (copiedNodes(request_).empty())
        loop_.post([this, step = record.checkpoint().step()] { regroup(step); });
      break;
    case FromWorker::kWarning:
      message.mutable_warning()->set_node(request_.node());
      message.mutable_warning()->set_rank(worker.rank);
      record.mutable_warning()->Swap(message.mutable_warning());
      break;
    case FromWorker::kStalled:
      onWorkerStalled(worker.rank, *message.mutable_stalled());
      return;
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

void RunControl::onWorkerStalled(int rank, node::v1::Stalled& stalled) {
  if (coordinates()) {
    hangs_.onStalled(stalled);
    return;
  }
  if (stalled.moves())
    stalled_.erase(rank);
  else
    stalled_[rank] = stalled;
  FromPeer news;
  news.mutable_stalled()->Swap(&stalled);
  if (client_) client_->send(std::move(news));
}

// A run that is trained to its end does not restart for a node that is back.
void RunControl::noteTrained(std::int64_t step) {
  const auto& training = request_.spec().training();
  isTrained_ = (training.max_steps() > 0 && step >= training.max_steps()) ||
               (training.epochs() > 0 && epochs_ >= training.epochs());
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
    if (ofProgram()) {  // the others may wait for it
      node::v1::Stalled ended;
      ended.set_rank(worker.rank);
      onWorkerStalled(worker.rank, ended);
    }
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
  if (!tail.empty() && (!cascading || ofProgram()))
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

// A program may save something before it leaves.
void RunControl::endWorkers() {
  constexpr Nanoseconds kToLeave = 5'000'000'000;
  if (!ofProgram()) return signalAll(SIGKILL);
  ToWorker stop;
  stop.mutable_stop();
  for (auto& worker : workers_) {
    if (worker->exited) continue;
    if (worker->program > 0)
      worker->process->send(stop);
    else
      worker->process->signal(SIGKILL);
  }
  loop_.after(kToLeave, [this, generation = generation_] {
    if (generation != generation_ || !(leaving_ || outcome_) || workersGone()) return;
    say("the program has not left after SIGTERM: SIGKILL");
    signalAll(SIGKILL);
  });
}

bool RunControl::workersGone() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& one) { return one->exited; });
}

// Without those that share an address, as nodes on one host do.
std::map<std::string, std::string> RunControl::nodesByAddress() const {
  std::map<std::string, std::string> out;
  std::set<std::string> shared;
  for (const spec::v1::NodeSpec& node : request_.cluster().nodes())
    if (!out.emplace(node.address(), node.name()).second) shared.insert(node.address());
  std::erase_if(out, [&](const auto& one) {
    return one.first.empty() || one.second == request_.node() || shared.contains(one.first);
  });
  return out;
}

void RunControl::sample() {
  if (over_) return;
  std::map<int, int> ranks;
  std::vector<int> processes;
  for (auto& worker : workers_) {
    if (worker->exited) continue;
    ranks[worker->rank] = worker->pid();
    processes.push_back(worker->pid());
  }
  run::v1::Record record;
  *record.mutable_node_sample() = sampler_.sample(ranks);
  for (run::v1::LinkSample& link : links_.sample(processes, nodesByAddress()))
    *record.mutable_node_sample()->add_link() = std::move(link);
  for (const auto& one : record.node_sample().rank())
    for (auto& worker : workers_)
      if (worker->rank == one.rank())
        worker->process->noteMemory(static_cast<std::int64_t>(one.memory()));
  if (committed_) spool_.append(std::move(record));
}

}  // namespace lockstep::agent
