// worker: one rank. Hosts the engine; speaks to its supervisor over an inherited socket only.
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <thread>

#include "agent/base/commands.h"
#include "agent/base/grpc_status.h"
#include "agent/base/open_files.h"
#include "agent/base/run_folder.h"
#include "agent/host/stacks.h"
#include "agent/worker/consistency.h"
#include "agent/worker/prepare.h"
#include "agent/worker/rank_resources.h"
#include "agent/worker/telemetry.h"
#include "agent/worker/worker_link.h"
#include "agent/worker/worker_process.h"
#include "engine/backends/backend.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/device/module.h"
#include "engine/runtime/evaluate.h"
#include "engine/runtime/heartbeat.h"
#include "engine/runtime/trainer.h"
#include "engine/specs/data_files.h"
#include "engine/specs/specs.h"

namespace lockstep::agent {
namespace {

// Exit codes: what happened was told as a message before.
constexpr int kFailedExit = 1, kOrphanExit = 3;

void setCheckpoints(const node::v1::WorkerStart& start, WorkerLink& link,
                    runtime::TrainerOptions& options) {
  const auto& checkpoint = start.spec().training().checkpoint();
  if (!checkpoint.disabled()) options.checkpointFolder = start.checkpoint_folder();
  // A run restarts only once it has trained: then all ranks have had their folders.
  options.checkpointFolderMade = start.generation() > 1 && specs::sharesCheckpoints(start.spec());
  if (checkpoint.keep() > 0) options.keepCheckpoints = checkpoint.keep();
  if (start.copied()) options.copiedCheckpoint = &link.copiedCheckpoint();
  options.checkpointSteps = checkpoint.every_steps();
  options.checkpointSeconds = 60 * checkpoint.every_minutes();
  options.checkpointAsked = &link.checkpointAsked();
}

Status train(const node::v1::WorkerStart& start, WorkerLink& link) {
  LOCKSTEP_ASSIGN(const plan::Plan plan, readPlan(start));
  LOCKSTEP_ASSIGN(const auto trainData, openData(start, true));
  LOCKSTEP_ASSIGN(const auto evalData, openData(start, false));
  logInfo("{} samples to train on, {} to evaluate on", trainData->size(), evalData->size());
  const auto& training = start.spec().training();
  LOCKSTEP_ASSIGN(const RankResources resources, RankResources::open(start, plan, link));

  runtime::TrainerOptions options;
  options.epochs = training.epochs();
  options.maxSteps = training.max_steps();
  options.seed = training.seed();
  options.shuffle = !training.no_shuffle();
  options.augment = augmentOf(start.spec().data());
  options.schedule = scheduleOf(training);
  setCheckpoints(start, link, options);
  options.eventsEvery = start.events_every();
  options.slowSteps = options.eventsEvery > 0;
  options.profiled = &link.profiled();
  if (start.rank() == 0) options.modelFile = kModelFile;  // in the run's folder
  options.resumeFrom = start.resume_from();
  LOCKSTEP_ASSIGN(options.initFrom, initOf(start));
  if (training.on_nonfinite() == "continue") options.nonFinite = runtime::NonFinite::kTaken;
  options.warn = [&](const Error& warning) {
    logWarning("{}", warning.text());
    node::v1::FromWorker message;
    *message.mutable_warning() = toInfo(warning);
    link.channel().send(message);
  };
  options.evaluate = !start.evaluated_apart();
  // what is longer has its own caches cold and warm again in every step
  constexpr double kWarmUpSeconds = 0.05;
  options.warmUpSeconds = kWarmUpSeconds;
  // Slow work is done before the trainer warms up.
  RankFacts facts;
  if (plan.mesh.size() > 1) {
    LOCKSTEP_ASSIGN(facts, rankFacts(start, plan, *trainData));
    options.beforeFirst = [&](const std::string& replica) {
      return checkConsistency(std::move(facts), plan, replica, link, start.formation_ns());
    };
  }

  // An asynchronous server waits as long as its workers compute.
  StallWatch stalls;
  if (!plan.isAsynchronous())
    stalls = StallWatch(&resources.groups.activity(), &plan, start.rank());
  const auto ready = [&](std::int64_t boundBytes) {
    logInfo("rank {} of {} is bound to the plan: {} KiB", start.rank(), plan.mesh.size(),
            boundBytes >> 10);
    link.awaitStart(boundBytes);
  };
  const auto& input = start.spec().model().input();
  const auto tokens = static_cast<int>(input.vocabulary() > 0 ? input.shape(0) : 0);
  Telemetry telemetry(start.rank(), link.channel(), ready, stalls, tokens, &link.profiled());
  auto summary = runtime::train(plan, start.rank(), options, *trainData, *evalData,
                                *resources.backend, resources.groups, link.stopAsked(), telemetry);
  telemetry.finish();
  if (!summary.ok()) return summary.status();

  logInfo("{} after step {}", summary->status, summary->steps);
  node::v1::FromWorker message;
  run::v1::Finished* finished = message.mutable_finished();
  finished->set_state(summary->status == "stopped" ? run::v1::STOPPED : run::v1::SUCCEEDED);
  finished->set_steps(summary->steps);
  finished->set_epochs(summary->epochs);
  if (!std::isnan(summary->trainLoss)) finished->set_train_loss(summary->trainLoss);
  finished->set_eval_loss(summary->evalLoss);
  finished->set_eval_metric(summary->evalMetric);
  finished->set_samples_per_second(summary->samplesPerSecond);
  finished->set_weights_sha256(summary->weightsSha256);
  finished->set_model_file(options.modelFile);
  link.channel().send(message);
  return {};
}

// One checkpoint's model, for a node of role evaluator.
Status evaluateModel(const node::v1::WorkerStart& start, WorkerLink& link) {
  LOCKSTEP_ASSIGN(const plan::Plan plan, readPlan(start));
  LOCKSTEP_ASSIGN(const auto data, openData(start, false));
  LOCKSTEP_ASSIGN(const auto backend, openBackend(start));
  LOCKSTEP_ASSIGN(const runtime::Evaluation found,
                  runtime::evaluateCheckpoint(plan, start.resume_from(), *data, *backend));
  node::v1::FromWorker message;
  message.mutable_evaluated()->set_eval_loss(found.loss);
  message.mutable_evaluated()->set_eval_metric(found.metric);
  link.channel().send(message);
  return {};
}

// For an agent, which opens no driver itself.
Status surveyDevices(WorkerLink& link) {
  const device::Survey found = device::survey();
  node::v1::FromWorker message;
  node::v1::GpuSurvey& out = *message.mutable_surveyed();
  for (const device::Properties& gpu : found.devices) {
    auto* one = out.add_gpus();
    one->set_name(gpu.name);
    one->set_memory_bytes(gpu.memoryBytes);
    one->set_major(gpu.major);
    one->set_minor(gpu.minor);
  }
  for (const device::Library& library : found.libraries)
    if (library.problem.empty())
      out.add_libraries(fmt::format("{} {}", library.name, library.found));
    else if (library.name == "NCCL")
      out.set_alone(fmt::format("NCCL cannot be used: {}", library.problem));
  if (!found.usable.ok()) *out.mutable_problem() = toInfo(found.usable.error());
  link.channel().send(message);
  return {};
}

}  // namespace

bool WorkerLink::start(node::v1::WorkerStart& out) {
  std::string frame;
  node::v1::ToWorker message;
  if (!channel_.receive(frame) || !message.ParseFromString(frame) || !message.has_start())
    return false;
  out = message.start();
  std::thread([this] { watch(); }).detach();
  return true;
}

void WorkerLink::watch() {
  std::string frame;
  while (channel_.receive(frame)) {
    node::v1::ToWorker message;
    if (message.ParseFromString(frame)) onMessage(message);
  }
  if (endsGroup_) ::kill(0, SIGKILL);
  _exit(kOrphanExit);
}

void WorkerLink::onMessage(const node::v1::ToWorker& message) {
  if (message.has_stop()) stop_ = true;
  if (message.has_checkpoint()) checkpoint_ = true;
  if (message.has_read_stacks()) stacks_ = true;
  if (message.has_copied()) copied_ = message.copied().step();
  if (message.has_profile()) profiled_.set(message.profile().first(), message.profile().count());
  std::lock_guard lock(mutex_);
  if (message.has_go()) go_ = true;
  if (message.has_kv_value()) got_[message.kv_value().id()] = message.kv_value().value();
  changed_.notify_all();
}

// The signal of the supervisor's death would end this process alone.
void WorkerLink::endGroupWithSupervisor() {
  endsGroup_ = true;
  prctl(PR_SET_PDEATHSIG, 0);
}

void WorkerLink::awaitStart(std::int64_t boundBytes) {
  node::v1::FromWorker message;
  message.mutable_ready()->set_bound_bytes(boundBytes);
  channel_.send(message);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return go_; });
}

Status WorkerLink::set(const std::string& key, const std::string& value) {
  node::v1::FromWorker message;
  message.mutable_kv_set()->set_key(key);
  message.mutable_kv_set()->set_value(value);
  if (!channel_.send(message)) return makeError(Code::kUnavailable, "the supervisor is gone");
  return {};
}

Result<std::string> WorkerLink::get(const std::string& key, Nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  const std::uint64_t id = nextGet_++;
  lock.unlock();
  node::v1::FromWorker message;
  message.mutable_kv_get()->set_id(id);
  message.mutable_kv_get()->set_key(key);
  if (!channel_.send(message)) return makeError(Code::kUnavailable, "the supervisor is gone");
  lock.lock();
  if (!changed_.wait_for(lock, std::chrono::nanoseconds(timeout),
                         [&] { return got_.contains(id); })) {
    Error error = makeError(Code::kDeadlineExceeded, "no rank has said \"{}\" in {} s", key,
                            timeout / 1'000'000'000);
    error.next = "check whether the nodes reach each other at their addresses";
    return error;
  }
  return std::move(got_.extract(id).mapped());
}

std::string backendName(const node::v1::WorkerStart& start) {
  return start.backend().empty() ? "onednn" : start.backend();
}

backends::BackendOptions backendOptions(const node::v1::WorkerStart& start) {
  backends::BackendOptions options;
  options.threads = start.threads();
  options.device = start.device();
  return options;
}

Result<std::unique_ptr<backends::Backend>> openBackend(const node::v1::WorkerStart& start) {
  return backends::makeBackend(backendName(start), backendOptions(start));
}

Result<plan::Plan> readPlan(const node::v1::WorkerStart& start) {
  return readPlan(start.plan_path());
}

Result<runtime::InitFrom> initOf(const node::v1::WorkerStart& start) {
  const auto& init = start.spec().model().init_from();
  runtime::InitFrom out;
  out.checkpoint = init.checkpoint();
  out.partial = init.partial();
  const auto file = start.data_paths().find(std::string(specs::kInitFile));
  if (init.file().empty()) return out;
  if (file == start.data_paths().end())
    return makeError(Code::kInternal, "nobody has told where the file of weights is");
  out.file = file->second;
  LOCKSTEP_ASSIGN(out.names, specs::weightNames(start.spec().model(), init.names()));
  return out;
}

data::Augment augmentOf(const spec::v1::DataSpec& data) {
  return {data.augment().crop(), data.augment().flip()};
}

// Hashes were checked by the agent.
Result<std::unique_ptr<data::Dataset>> openData(const node::v1::WorkerStart& start, bool train) {
  return specs::openData(start.spec(), train, [&](const std::string& name) {
    const auto at = start.data_paths().find(name);
    return at == start.data_paths().end() ? std::string() : at->second;
  });
}

runtime::Schedule scheduleOf(const spec::v1::TrainingSpec& training) {
  using Kind = runtime::Schedule::Kind;
  const auto& spec = training.schedule();
  runtime::Schedule out;
  out.kind = spec.kind() == "step"     ? Kind::kStep
             : spec.kind() == "cosine" ? Kind::kCosine
             : spec.kind() == "linear" ? Kind::kLinear
                                       : Kind::kConstant;
  out.peak = training.optimizer().learning_rate() * specs::rateScale(training);
  out.warmup = spec.warmup_steps();
  out.steps = spec.steps();
  out.last = spec.final_rate() * specs::rateScale(training);
  out.every = std::max<std::int64_t>(1, spec.every());
  out.factor = spec.factor();
  return out;
}

namespace {

// Tells the supervisor why the worker failed.
void sendFailure(Error error, const node::v1::WorkerStart& start, WorkerLink& link) {
  if (error.rank < 0) error.rank = start.rank();
  if (error.node.empty()) error.node = start.node();
  logError("{}{}{}", error.what, error.why.empty() ? "" : ": ", error.why);
  node::v1::FromWorker message;
  *message.mutable_failed() = toInfo(error);
  link.channel().send(message);
  std::fflush(nullptr);
}

// A thread that hangs in a disk cannot be joined: the process leaves without it.
void leaveStuckDisks(const node::v1::WorkerStart& start, WorkerLink& link) {
  runtime::diskWait().limit = diskLimit();
  runtime::diskWait().onStuck = [&start, &link](const Error& error) {
    sendFailure(error, start, link);
    _exit(kFailedExit);
  };
}

}  // namespace

Result<int> workerCommand(const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const std::int64_t fd,
                  arguments.integer("fd", -1, 0, std::numeric_limits<int>::max()));
  raiseOpenFiles();
  // Large blocks go back when they are freed, also those after a larger one: what binding needs is
  // not kept.
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  // Lives as long as the process: the watchdog reads from it.
  auto* link = new WorkerLink(static_cast<int>(fd));
  node::v1::WorkerStart start;
  if (!link->start(start)) {
    logError("the worker ends: descriptor {} is no supervisor that says what to do", fd);
    return kOrphanExit;
  }
  leaveStuckDisks(start, *link);
  allowStacks();
  Status status;
  if (start.mode() == "measure")
    status = measureSteps(start, *link);
  else if (start.mode() == "collectives")
    status = measureCollectives(start, *link);
  else if (start.mode() == "bench")
    status = runBench(start, *link);
  else if (start.mode() == "bench-collectives")
    status = runCollectives(start, *link);
  else if (start.mode() == "bench-communication")
    status = runCommunication(start, *link);
  else if (start.mode() == "bench-speed")
    status = runSpeed(start, *link);
  else if (start.mode() == "evaluate")
    status = evaluateModel(start, *link);
  else if (start.mode() == "verify")
    status = runVerify(start, *link);
  else if (start.mode() == "survey")
    status = surveyDevices(*link);
  else if (start.mode() == "setup")
    status = runProgramSetup(start, *link);
  else if (start.spec().has_workload())
    status = runProgram(start, *link);
  else
    status = train(start, *link);
  if (!status.ok()) sendFailure(status.error(), start, *link);
  std::fflush(nullptr);
  // Straight out: threads of libraries may still be waiting for peers.
  _exit(status.ok() ? 0 : kFailedExit);
}

}  // namespace lockstep::agent
