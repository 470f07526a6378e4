#include "agent/supervisor/workers.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "agent/host/metrics.h"
#include "agent/supervisor/checkpoint_copies.h"
#include "agent/worker/prepare.h"
#include "agent/worker/rank_groups.h"
#include "agent/workload/code_folder.h"
#include "engine/comm/communicator.h"
#include "engine/plan/plan.h"

namespace lockstep::agent {
namespace {

using node::v1::FromWorker;
using node::v1::ToWorker;

run::v1::Record rankRecord(const Workers::Worker& worker, const char* state, int pid) {
  run::v1::Record record;
  record.mutable_rank()->set_rank(worker.rank);
  record.mutable_rank()->set_state(state);
  record.mutable_rank()->set_pid(pid);
  return record;
}

}  // namespace

Workers::Workers(EventLoop& loop, RunFolder folder, Handlers handlers)
    : loop_(loop), folder_(std::move(folder)), handlers_(std::move(handlers)) {}

Status Workers::start(const node::v1::PrepareRequest& request, int generation, bool fromCheckpoints,
                      Nanoseconds formation) {
  const int ranks = request.ranks_size();
  expected_ = static_cast<std::size_t>(ranks);
  const std::vector<specs::RankDevice> devices = devicesOf(request);
  int threads = 0;
  for (int i = 0; i < ranks; ++i) threads += devices[static_cast<std::size_t>(i)].threads;
  claimCores(request, devices);
  LOCKSTEP_TRY(makeSharedMemory(request));
  const std::string own =
      specs::checkpointFolder(request.spec(), request.run(), folder_.checkpoints());
  for (int i = 0; i < ranks; ++i) {
    const specs::RankDevice& device = devices[static_cast<std::size_t>(i)];
    const bool oversubscribed = threads > usableCores();
    LOCKSTEP_ASSIGN(const Worker* worker, spawn(request, request.ranks(i), device));
    ToWorker message;
    node::v1::WorkerStart& start = *message.mutable_start();
    start = startOf(request, i, device);
    start.set_generation(generation);
    start.set_oversubscribed(oversubscribed);
    start.set_formation_ns(formation);
    start.set_checkpoint_folder(own);
    start.set_resume_from(fromCheckpoints ? own : request.resume_from());
    worker->process->send(message);
  }
  return {};
}

void Workers::claimCores(const node::v1::PrepareRequest& request,
                         const std::vector<specs::RankDevice>& devices) {
  std::vector<int> each;
  for (std::size_t i = 0; i < expected_; ++i) each.push_back(devices[i].threads);
  freeCores();  // those of the generation before
  cores_ = request.spec().training().unpinned() ? CoreClaims("training.unpinned")
           : request.spec().has_workload()      ? CoreClaims("a program of its own")
                                                : CoreClaims::claim(each);
}

// Through which the ranks of a run on one node communicate. With NCCL it carries the collectives
// that the GPUs do not run.
Status Workers::makeSharedMemory(const node::v1::PrepareRequest& request) {
  const std::string& kind = request.comm();
  if ((kind != "shm" && kind != "nccl") || request.ranks_size() <= 1) return {};
  LOCKSTEP_ASSIGN(const plan::Plan plan, readPlan(folder_.plan()));
  if (plan.mesh.size() != request.ranks_size()) return {};
  LOCKSTEP_ASSIGN(const std::int64_t bytes, sharedMemoryBytes(plan.mesh));
  sharedMemory_.reset();
  LOCKSTEP_ASSIGN(const int memory, comm::makeSharedMemory(bytes));
  sharedMemory_.reset(memory);
  return {};
}

Result<Workers::Worker*> Workers::spawn(const node::v1::PrepareRequest& request, int rank,
                                        const specs::RankDevice& device) {
  auto worker = std::make_unique<Worker>();
  Worker* raw = worker.get();
  raw->rank = rank;
  raw->started = monotonicNow();
  WorkerOptions options;
  options.run = request.run();
  options.rank = rank;
  options.threads = device.threads;
  options.ownCores = cores_.pinned();
  options.sharedMemoryFd = sharedMemory_.get();
  options.logPath = fmt::format("{}/rank-{}.log", folder_.logs(), rank);
  options.folder = folder_.path;
  WorkerProcess::Handlers handlers;
  handlers.onMessage = [this, raw](FromWorker& message) { handlers_.onMessage(*raw, message); };
  handlers.onLines = [this, rank](std::vector<std::string> lines, std::uint64_t dropped) {
    onLines(rank, std::move(lines), dropped);
  };
  handlers.onExit = [this, raw](int status) { onExit(*raw, status); };
  LOCKSTEP_ASSIGN(raw->process, WorkerProcess::spawn(loop_, options, std::move(handlers)));
  workers_.push_back(std::move(worker));
  handlers_.append(rankRecord(*raw, "started", raw->process->pid()));
  return raw;
}

node::v1::WorkerStart Workers::startOf(const node::v1::PrepareRequest& request, int index,
                                       const specs::RankDevice& device) const {
  node::v1::WorkerStart start;
  start.set_run(request.run());
  start.set_node(request.node());
  start.set_rank(request.ranks(index));
  start.set_world(request.ranks_size());  // of the node; the plan's mesh has that of the run
  start.set_plan_path(folder_.plan());
  *start.mutable_spec() = request.spec();
  *start.mutable_data_paths() = request.data_paths();
  *start.mutable_secret_env() = request.secret_env();
  start.set_comm(request.comm());
  start.set_shared_memory_fd(sharedMemory_ ? kWorkerSharedFd : -1);
  const auto& nodes = request.cluster().nodes();
  const auto node = std::find_if(nodes.begin(), nodes.end(),
                                 [&](const auto& one) { return one.name() == request.node(); });
  if (node != nodes.end()) {
    start.set_address(node->address());
    start.set_interface(node->interface());
  }
  start.set_threads(device.threads);
  start.set_backend(device.backend);
  start.set_device(device.number);
  start.set_all_on_gpus(specs::allOnGpus(request.cluster(), request.spec()));
  setCores(cores_, static_cast<std::size_t>(index), start);
  start.set_copied(!copiedNodes(request).empty());
  start.set_events_every(request.events_every());
  start.set_local_index(index);
  start.set_code_folder(programFolder(folder_, request.spec().workload()));
  start.set_evaluated_apart(specs::evaluatorNode(request.cluster()) != nullptr);
  return start;
}

void Workers::onLines(int rank, std::vector<std::string> lines, std::uint64_t dropped) {
  run::v1::Record record;
  record.mutable_log()->set_rank(rank);
  record.mutable_log()->set_dropped(dropped);
  for (std::string& line : lines) record.mutable_log()->add_lines(std::move(line));
  handlers_.append(std::move(record));
}

void Workers::onExit(Worker& worker, int status) {
  worker.exited = true;
  run::v1::Record record = rankRecord(worker, "exited", worker.process->pid());
  if (WIFEXITED(status)) record.mutable_rank()->set_exit_code(WEXITSTATUS(status));
  if (WIFSIGNALED(status)) record.mutable_rank()->set_signal(WTERMSIG(status));
  handlers_.append(std::move(record));
  handlers_.onExit(worker, status);
}

void Workers::noteReady(Worker& worker, std::int64_t boundBytes) {
  worker.ready = true;
  run::v1::Record record = rankRecord(worker, "ready", worker.process->pid());
  record.mutable_rank()->set_bound_bytes(boundBytes);
  handlers_.append(std::move(record));
  handlers_.say(fmt::format("rank {} is ready {:.3f} s after its start", worker.rank,
                            static_cast<double>(monotonicNow() - worker.started) * 1e-9));
}

void Workers::noteProgram(Worker& worker, int pid) {
  worker.program = pid;
  handlers_.append(rankRecord(worker, "program", pid));
  handlers_.say(fmt::format("rank {} runs the program, process {}", worker.rank, pid));
}

void Workers::noteMemory(int rank, std::int64_t bytes) {
  for (auto& worker : workers_)
    if (worker->rank == rank) worker->process->noteMemory(bytes);
}

void Workers::sendAll(const ToWorker& message) {
  for (auto& worker : workers_)
    if (!worker->exited) worker->process->send(message);
}

void Workers::signalAll(int number) {
  for (auto& worker : workers_)
    if (!worker->exited) worker->process->signal(number);
}

// A program may save something before it leaves.
void Workers::endPrograms(std::function<bool()> isEnding) {
  constexpr Nanoseconds kToLeave = 5'000'000'000;
  ToWorker stop;
  stop.mutable_stop();
  for (auto& worker : workers_) {
    if (worker->exited) continue;
    if (worker->program > 0)
      worker->process->send(stop);
    else
      worker->process->signal(SIGKILL);
  }
  loop_.after(kToLeave, [this, isEnding = std::move(isEnding)] {
    if (!isEnding() || gone()) return;
    handlers_.say("the program has not left after SIGTERM: SIGKILL");
    signalAll(SIGKILL);
  });
}

bool Workers::gone() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& one) { return one->exited; });
}

bool Workers::allReady() const {
  return workers_.size() == expected_ &&
         std::all_of(workers_.begin(), workers_.end(), [](const auto& one) { return one->ready; });
}

bool Workers::allFinished() const {
  return workers_.size() == expected_ &&
         std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& one) { return one->exited && one->finished; });
}

bool Workers::anyStopped() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& one) {
    return one->finished && one->finished->state() == run::v1::STOPPED;
  });
}

run::v1::Finished Workers::finished() const {
  run::v1::Finished out;
  for (const auto& worker : workers_) {
    if (!worker->finished) continue;
    if (out.steps() == 0 || worker->rank == 0) out = *worker->finished;
  }
  return out;
}

std::int64_t Workers::lastStep() const {
  std::int64_t out = -1;
  for (const auto& worker : workers_) out = std::max(out, worker->lastStep);
  return out;
}

std::map<int, int> Workers::processes() const {
  std::map<int, int> out;
  for (const auto& worker : workers_)
    if (!worker->exited) out[worker->rank] = worker->pid();
  return out;
}

bool Workers::owns(int pid) const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [pid](const auto& one) { return !one->exited && one->process->pid() == pid; });
}

const Workers::Worker* Workers::of(int rank) const {
  const auto worker = std::find_if(workers_.begin(), workers_.end(), [rank](const auto& one) {
    return one->rank == rank && !one->exited;
  });
  return worker == workers_.end() ? nullptr : worker->get();
}

}  // namespace lockstep::agent
