// RunControl: what the messages and exits of this node's workers mean for the run.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/program_hang.h"
#include "agent/supervisor/run_control.h"
#include "engine/runtime/heartbeat.h"

namespace lockstep::agent {
namespace {

using node::v1::FromPeer;
using node::v1::FromWorker;
using node::v1::ToWorker;

bool isCascading(const Error& error) {
  return error.code == Code::kAborted || error.code == Code::kUnavailable ||
         error.code == Code::kDeadlineExceeded;
}

// Whether a training step may have this number. Sums of two such numbers do not overflow.
bool isStep(std::int64_t step) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  return step >= 0 && step <= kMost;
}

// The step that a message is about; 0: it is about none.
std::int64_t stepOf(const FromWorker& message) {
  if (message.has_steps()) return message.steps().first_step();
  if (message.has_checkpoint()) return message.checkpoint().step();
  if (message.has_epoch()) return message.epoch().step();
  return 0;
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
  const Nanoseconds limit = formationLimit();
  const Status status = workers_.start(request_, generation_, recover_.from_checkpoints(), limit);
  if (!status.ok()) {
    localFailure(status.error(), false);
    return;
  }
  if (!coordinates()) return;
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

Workers::Handlers RunControl::workersHandlers() {
  Workers::Handlers handlers;
  handlers.onMessage = [this](Worker& worker, FromWorker& message) {
    onWorkerMessage(worker, message);
  };
  handlers.onExit = [this](Worker& worker, int status) { onWorkerExit(worker, status); };
  handlers.append = [this](run::v1::Record record) {
    if (!over_) spool_.append(std::move(record));
  };
  handlers.say = [this](std::string line) { say(std::move(line)); };
  return handlers;
}

void RunControl::onReady(Worker& worker, std::int64_t boundBytes) {
  workers_.noteReady(worker, boundBytes);
  if (workers_.allReady() && !outcome_) localReady();
}

void RunControl::onKvGet(Worker& worker, const node::v1::KvGet& asked) {
  rendezvous_.get(asked.key(),
                  [&worker, id = asked.id(), key = asked.key()](const std::string& value) {
                    if (worker.exited) return;
                    worker.process->send(keyValueReply<ToWorker>(id, key, value));
                  });
}

void RunControl::onProgram(Worker& worker, int pid) {
  workers_.noteProgram(worker, pid);
  noteRecovered(0);
}

void RunControl::onProgramStacks(const Worker& worker, const node::v1::Stacks& stacks) {
  if (over_ || leaving_) return;
  const std::vector<std::string> lines(stacks.lines().begin(), stacks.lines().end());
  if (std::all_of(lines.begin(), lines.end(), isEvidence))
    readStacksOf(worker, lines);  // it is no Python, has no hooks, or does not answer
  else
    tellStacks(worker.rank, lines);
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
  if (const std::int64_t step = stepOf(message); !isStep(step)) {
    say(fmt::format("rank {} tells of step {}, which cannot be: left out", worker.rank, step));
    return;
  }
  run::v1::Record record;
  switch (message.body_case()) {
    case FromWorker::kReady:
      onReady(worker, message.ready().bound_bytes());
      return;
    case FromWorker::kKvSet:
      rendezvous_.set(message.kv_set().key(), message.kv_set().value());
      return;
    case FromWorker::kKvGet:
      onKvGet(worker, message.kv_get());
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
        if (isStep(scalar.step())) worker.lastStep = std::max(worker.lastStep, scalar.step());
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
      if (worker.rank == 0) noteTrained(message.checkpoint().step());
      onPublished(message.checkpoint().step());
      if (worker.rank != 0) return;
      record.mutable_checkpoint()->Swap(message.mutable_checkpoint());
      onCheckpoint(record.checkpoint().step());
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
    hangs_.onStalled(stalled, monotonicNow());
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
  if (outcome_) {
    finishWhenGone();
    return;
  }
  if (leaving_) {
    if (workers_.gone()) loop_.post([this] { startGeneration(); });
    return;
  }
  const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (clean && worker.finished) {
    if (ofProgram()) {  // the others may wait for it
      node::v1::Stalled ended;
      ended.set_rank(worker.rank);
      onWorkerStalled(worker.rank, ended);
    }
    if (workers_.allFinished()) localDone();
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

void RunControl::endWorkers() {
  if (!ofProgram()) return workers_.signalAll(SIGKILL);
  workers_.endPrograms([this, generation = generation_] {
    return generation == generation_ && (leaving_ || outcome_);
  });
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
  const std::map<int, int> ranks = workers_.processes();
  std::vector<int> processes;
  for (const auto& [rank, process] : ranks) processes.push_back(process);
  run::v1::Record record;
  *record.mutable_node_sample() = sampler_.sample(ranks);
  for (run::v1::LinkSample& link : links_.sample(processes, nodesByAddress()))
    *record.mutable_node_sample()->add_link() = std::move(link);
  for (const auto& one : record.node_sample().rank())
    workers_.noteMemory(one.rank(), static_cast<std::int64_t>(one.memory()));
  if (committed_) spool_.append(std::move(record));
}

}  // namespace lockstep::agent
