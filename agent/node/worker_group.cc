#include "agent/node/worker_group.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "agent/base/grpc_status.h"
#include "agent/host/cores.h"
#include "agent/host/metrics.h"
#include "agent/worker/prepare.h"
#include "agent/worker/rank_groups.h"
#include "agent/worker/worker_process.h"
#include "engine/base/file.h"
#include "engine/base/statistics.h"
#include "engine/comm/communicator.h"
#include "engine/specs/specs.h"

namespace lockstep::agent {
namespace {

using node::v1::FromWorker;
using node::v1::ToWorker;
using node::v1::WorkerStart;

// Those that verify have all ranks in one process.
CoreClaims claimCores(const std::vector<WorkerStart>& starts) {
  std::vector<int> threads;
  for (const WorkerStart& start : starts)
    if (start.mode() != "verify" && start.mode() != "evaluate" && start.mode() != "survey")
      threads.push_back(start.threads());
  return starts.front().spec().training().unpinned() ? CoreClaims("training.unpinned")
                                                     : CoreClaims::claim(threads);
}

Status checkCounts(int ranks, int threads) {
  constexpr int kMostThreads = 1 << 16;  // of a rank
  if (ranks <= specs::kMaxRanks && threads <= kMostThreads) return {};
  return invalidArgument("{} ranks with {} threads each; expected {} and {} at most", ranks,
                         threads, specs::kMaxRanks, kMostThreads);
}

// Workers take these as they come: each has two memories of the largest size. `here`: ranks of this
// node.
Status checkCollectives(const node::v1::CollectiveBench& asked, int ranks, int here) {
  const std::string& algorithm = asked.algorithm();
  if (ranks < 2) return invalidArgument("{} rank has no peer to exchange with", ranks);
  if (asked.min_bytes() < 4 || asked.max_bytes() < asked.min_bytes())
    return invalidArgument("sizes from {} to {} bytes, expected 4 at least", asked.min_bytes(),
                           asked.max_bytes());
  if (!algorithm.empty() && !ir::algorithmFromName(algorithm))
    return invalidArgument("no algorithm is named '{}'", algorithm);
  const std::int64_t available = memoryAvailable(), each = asked.max_bytes() >> 19;  // MiB
  if (available < 0 || each <= (available >> 20) / here) return {};
  Error error = makeError(Code::kResourceExhausted, "not enough memory for the benchmark's ranks");
  error.why =
      message("{} ranks need {} MiB each, {} MiB are available", here, each, available >> 20);
  error.next = "use fewer ranks or a smaller largest size";
  return error;
}

// A measurement leaves most of what is free.
Status checkDisk(const node::v1::SpeedBench& asked, const std::string& workdir) {
  const std::int64_t free = diskFree(workdir), needed = 8 * asked.max();
  if (free < 0 || needed <= free) return {};
  Error error = makeError(Code::kResourceExhausted, "not enough disk space for the benchmark");
  error.why =
      message("{} MiB are free in {}, {} MiB are needed", free >> 20, workdir, needed >> 20);
  error.next = "free space there";
  return error;
}

// Three buffers of the largest size are needed.
Status checkSpeed(const node::v1::SpeedBench& asked, int ranks, const std::string& workdir) {
  constexpr std::int64_t kMostSide = 1 << 15, kMostBytes = std::int64_t{1} << 34;
  const bool products = asked.kind() == "gemm", disk = asked.kind() == "disk";
  if (!products && !disk && asked.kind() != "memory")
    return invalidArgument("there is no benchmark of '{}'", asked.kind());
  if (ranks != std::max(1, asked.devices_size()))
    return invalidArgument("{} ranks cannot measure one machine's limits", ranks);
  const std::int64_t most = products ? kMostSide : kMostBytes;
  if (asked.min() < 4 || asked.max() < asked.min() || asked.max() > most)
    return invalidArgument("sizes from {} to {}, expected 4 to {}", asked.min(), asked.max(), most);
  if (products && asked.precisions().empty()) return invalidArgument("no precision is named");
  for (const std::string& one : asked.precisions())
    if (one != "fp32" && one != "tf32" && one != "bf16" && one != "fp16")
      return invalidArgument("no precision is named '{}'", one);
  if (disk) return checkDisk(asked, workdir);
  if (asked.backend() == "cuda") return {};  // a GPU says itself what it has not
  const std::int64_t available = memoryAvailable(),
                     needed = 3 * (products ? 4 * asked.max() * asked.max() : asked.max());
  if (available < 0 || needed <= available) return {};
  Error error = makeError(Code::kResourceExhausted, "not enough memory for the benchmark");
  error.why =
      message("the largest size needs {} MiB, {} MiB are available", needed >> 20, available >> 20);
  error.next = "use a smaller largest size";
  return error;
}

struct Group {
  struct Member {
    std::unique_ptr<WorkerProcess> process;
    bool ready = false, exited = false;
    std::optional<FromWorker> answer;
  };
  std::vector<Member> members;
  std::shared_ptr<SharedStore> store;
  int sharedMemory = -1;
  CoreClaims cores;
  std::string what;  // they are for

  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;                         // mutex
  std::optional<Error> error;                // mutex
  std::vector<node::v1::KvSet> unpublished;  // mutex

  ~Group() {
    if (sharedMemory >= 0) close(sharedMemory);
  }

  void end(std::optional<Error> failure) {
    std::lock_guard lock(mutex);
    if (over) return;
    over = true;
    error = std::move(failure);
    changed.notify_all();
  }

  // Without the lock, since it may take long.
  void publish(std::unique_lock<std::mutex>& lock) {
    while (!unpublished.empty()) {
      const auto sets = std::exchange(unpublished, {});
      lock.unlock();
      for (const node::v1::KvSet& set : sets) store->publish(set);
      lock.lock();
    }
  }

  void onMessage(std::size_t at, FromWorker& message) {
    switch (message.body_case()) {
      case FromWorker::kReady: {
        members[at].ready = true;
        for (const Member& member : members)
          if (!member.ready) return;
        ToWorker go;
        go.mutable_go();
        for (Member& member : members) member.process->send(go);
        break;
      }
      case FromWorker::kKvSet:
        store->values.set(message.kv_set().key(), message.kv_set().value());
        if (store->publish) {
          const std::lock_guard lock(mutex);
          unpublished.push_back(std::move(*message.mutable_kv_set()));
          changed.notify_all();
        }
        break;
      case FromWorker::kKvGet: {
        const std::string& key = message.kv_get().key();
        store->values.get(key,
                          [this, at, id = message.kv_get().id(), key](const std::string& value) {
                            members[at].process->send(keyValueReply<ToWorker>(id, key, value));
                          });
        break;
      }
      case FromWorker::kFailed:
        end(fromInfo(message.failed()));
        break;
      case FromWorker::kMeasured:
      case FromWorker::kBenched:
      case FromWorker::kVerified:
      case FromWorker::kSurveyed:
        members[at].answer = std::move(message);
        for (const Member& member : members)
          if (!member.answer) return;
        end(std::nullopt);
        break;
      default:
        break;
    }
  }

  Status start(EventLoop& loop, std::vector<WorkerStart>& starts) {
    const int size = static_cast<int>(starts.size());
    if ((starts.front().comm() == "shm" || starts.front().comm() == "nccl") && size > 1) {
      cluster::Mesh mesh({{"data", size}});
      if (!starts.front().plan_path().empty()) {
        LOCKSTEP_ASSIGN(const plan::Plan plan, readPlan(starts.front()));
        mesh = meshFor(plan, size);
      }
      LOCKSTEP_ASSIGN(const std::int64_t bytes, sharedMemoryBytes(mesh));
      LOCKSTEP_ASSIGN(sharedMemory, comm::makeSharedMemory(bytes));
    }
    members.resize(starts.size());
    for (std::size_t i = 0; i < starts.size(); ++i) {
      WorkerStart& from = starts[i];
      setCores(cores, i, from);
      from.set_shared_memory_fd(sharedMemory >= 0 ? kWorkerSharedFd : -1);
      WorkerOptions options;
      options.run = from.run();
      options.rank = from.rank();
      options.threads = from.threads();
      options.ownCores = !from.cores().empty();
      options.sharedMemoryFd = sharedMemory;
      WorkerProcess::Handlers handlers;
      handlers.onMessage = [this, i](FromWorker& message) { onMessage(i, message); };
      handlers.onLines = [](const std::vector<std::string>&, std::uint64_t) {};
      handlers.onExit = [this, i](int status) {
        members[i].exited = true;
        if (members[i].answer) return;
        Error error = makeError(Code::kAborted, "a worker of {} {}", what,
                                members[i].process->exitText(status));
        error.why = members[i].process->tail();
        end(std::move(error));
      };
      LOCKSTEP_ASSIGN(members[i].process, WorkerProcess::spawn(loop, options, std::move(handlers)));
      ToWorker message;
      *message.mutable_start() = from;
      members[i].process->send(message);
    }
    return {};
  }
};

// A folder with the plan in it, for as long as the question runs.
class PlanFile {
 public:
  PlanFile(const std::string& folder, const std::string& plan)
      : path_(fmt::format("{}/plan-{}-{}.txt", folder, getpid(), monotonicNow())),
        status_(writeFileAtomically(path_, plan, 0600)) {}
  ~PlanFile() { unlink(path_.c_str()); }
  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;
  const std::string& path() const { return path_; }
  const Status& status() const { return status_; }

 private:
  std::string path_;
  Status status_;
};

// The mean of what workers measured side by side.
node::v1::MeasureReply meanCosts(const std::vector<FromWorker>& answers) {
  std::map<std::string, std::pair<double, int>> sums;
  double overhead = 0;
  for (const FromWorker& answer : answers) {
    for (const auto& step : answer.measured().steps()) {
      auto& [sum, count] = sums[step.signature()];
      sum += step.seconds();
      ++count;
    }
    overhead += answer.measured().step_overhead_seconds();
  }
  node::v1::MeasureReply reply;
  for (const auto& [signature, sum] : sums) {
    auto* cost = reply.add_steps();
    cost->set_signature(signature);
    cost->set_seconds(sum.first / sum.second);
  }
  reply.set_step_overhead_seconds(overhead / static_cast<double>(answers.size()));
  reply.set_step_seconds(answers.front().measured().step_seconds());
  return reply;
}

// How ranks fall on cores differs from one group of processes to the next, and stays for its life:
// the middle of three counts, or of two that agree.
constexpr int kRounds = 3;
constexpr double kRoundsAgree = 0.02;
constexpr std::string_view kMeasurement = "the measurement", kBenchmark = "the benchmark";

Nanoseconds benchmarkLimit(double seconds) {
  return static_cast<Nanoseconds>((seconds + 60) * 1e9);
}

// Those of all devices, each worker having measured one.
node::v1::BenchReply speedsOf(const std::vector<FromWorker>& answers,
                              const node::v1::SpeedBench& asked) {
  node::v1::BenchReply reply;
  reply.set_cuda_version(answers.front().benched().cuda_version());
  reply.set_nccl_version(answers.front().benched().nccl_version());
  for (std::size_t i = 0; i < answers.size(); ++i)
    for (const auto& speed : answers[i].benched().speeds()) {
      auto* one = reply.add_speeds();
      *one = speed;
      if (static_cast<int>(i) < asked.devices_size())
        one->set_device(asked.devices(static_cast<int>(i)));
    }
  return reply;
}

// On GPUs: each rank on that of `devices`, or on one of its own.
void setIndex(WorkerStart& start, int index,
              const google::protobuf::RepeatedField<std::int32_t>& devices = {}) {
  start.set_local_index(index);
  start.set_device(index < devices.size() ? devices[index] : index);
  start.set_all_on_gpus(start.backend() == "cuda");
}

std::string questionId(std::string_view kind) {
  return fmt::format("{}-{}-{}", kind, getpid(), monotonicNow());
}

}  // namespace

Result<std::vector<FromWorker>> runWorkers(EventLoop& loop, std::vector<WorkerStart> starts,
                                           std::string_view what, Nanoseconds limit,
                                           const std::function<bool()>& cancelled,
                                           std::shared_ptr<SharedStore> store) {
  auto group = std::make_unique<Group>();
  group->what = what;
  group->store = store ? std::move(store) : std::make_shared<SharedStore>();
  group->cores = claimCores(starts);
  Status started;
  if (!loop.call([&] { started = group->start(loop, starts); }))
    return makeError(Code::kUnavailable, "the agent is leaving");
  const Nanoseconds end = monotonicNow() + limit;
  if (started.ok()) {
    std::unique_lock lock(group->mutex);
    while (!group->over) {
      group->changed.wait_for(lock, std::chrono::milliseconds(50));
      group->publish(lock);
      if (group->over) break;
      if (cancelled()) {
        group->over = true;
        group->error = makeError(Code::kCancelled, "{} was cancelled", what);
      } else if (monotonicNow() > end) {
        group->over = true;
        group->error = makeError(Code::kDeadlineExceeded, "{} took longer than {} s", what,
                                 limit / 1'000'000'000);
        group->error->next = "use a smaller batch, or try again when the node is less busy";
      }
    }
    group->publish(lock);
  }
  std::vector<FromWorker> answers;
  std::optional<Error> error;
  loop.callInAnyCase([&] {
    error = group->error;
    group->store->values.dropWaiting();
    for (Group::Member& member : group->members) {
      if (member.answer) answers.push_back(std::move(*member.answer));
      member.process.reset();  // kills what is left
    }
  });
  if (!started.ok()) return started.error();
  if (error) return *error;
  return answers;
}

Status checkMeasure(const node::v1::MeasureRequest& request) {
  return checkCounts(request.ranks(), request.threads());
}

Status checkBench(const node::v1::BenchRequest& request, const std::string& workdir) {
  LOCKSTEP_TRY(checkCounts(request.ranks(), request.threads()));
  const int ranks = std::max(1, request.ranks());
  if (request.has_collectives())
    LOCKSTEP_TRY(checkCollectives(request.collectives(), ranks, ranks));
  if (request.has_speed()) LOCKSTEP_TRY(checkSpeed(request.speed(), ranks, workdir));
  return {};
}

Status checkBenchTogether(const node::v1::BenchTogetherRequest::Start& request) {
  LOCKSTEP_TRY(checkCounts(request.world(), 1));
  LOCKSTEP_TRY(checkCollectives(request.collectives(), request.world(), 1));
  if (!isPlainName(request.id())) return invalidArgument("\"{}\" is not an id", request.id());
  if (request.rank() < 0 || request.rank() >= request.world())
    return invalidArgument("there is no rank {} of {}", request.rank(), request.world());
  return {};
}

Result<node::v1::MeasureReply> measure(EventLoop& loop, const node::v1::MeasureRequest& request,
                                       const std::string& folder,
                                       const std::function<bool()>& cancelled) {
  LOCKSTEP_TRY(checkMeasure(request));
  const PlanFile plan(folder, request.plan());
  LOCKSTEP_TRY(plan.status());
  const double seconds = request.seconds() > 0 ? std::min(request.seconds(), 60.0) : 1;
  const int ranks = std::max(1, request.ranks());
  const bool collectives = ranks > 1 && !request.comm().empty();
  WorkerStart start;
  start.set_run(questionId("measure"));
  start.set_plan_path(plan.path());
  start.set_world(1);
  start.set_backend(request.backend());
  start.set_threads(std::max(1, request.threads()));
  start.set_oversubscribed(ranks * start.threads() > usableCores());
  start.set_events_every(request.events_every());
  *start.mutable_spec() = request.spec();
  for (const auto& [name, path] : dataPaths(request.spec(), request.data_paths()))
    (*start.mutable_data_paths())[name] = path;
  start.set_mode("measure");
  start.set_seconds(collectives ? seconds / 3 : seconds);
  const auto limit = static_cast<Nanoseconds>((seconds + 30) * 1e9);
  // As many at once as will be at work at once: they share caches and memory bandwidth.
  const int atWork = std::clamp(usableCores() / start.threads(), 1, ranks);
  std::vector<WorkerStart> each(static_cast<std::size_t>(atWork), start);
  for (int i = 0; i < atWork; ++i)
    setIndex(each[static_cast<std::size_t>(i)], i, request.devices());
  LOCKSTEP_ASSIGN(const auto alone,
                  runWorkers(loop, std::move(each), kMeasurement, limit, cancelled));
  node::v1::MeasureReply reply = meanCosts(alone);
  if (!collectives) return reply;

  start.set_mode("collectives");
  start.set_seconds(seconds * 2 / 3 / kRounds);
  start.set_world(ranks);
  start.set_comm(request.comm());
  start.set_link(request.link().empty() ? request.comm() : request.link());
  std::vector<double> steps;
  std::vector<std::vector<double>> costs;
  for (int round = 0; round < kRounds; ++round) {
    start.set_run(questionId("collectives"));
    std::vector<WorkerStart> starts;
    for (int rank = 0; rank < ranks; ++rank) {
      start.set_rank(rank);
      setIndex(start, rank, request.devices());
      starts.push_back(start);
    }
    LOCKSTEP_ASSIGN(auto together,
                    runWorkers(loop, std::move(starts), kMeasurement, limit, cancelled));
    const auto& first = together.front().measured();
    steps.push_back(first.step_seconds());
    // Equal sizes in equal order on all workers and in all rounds, none on servers; the mean of the
    // workers' medians.
    costs.resize(static_cast<std::size_t>(first.collectives_size()));
    for (int i = 0; i < first.collectives_size(); ++i) {
      if (round == 0) *reply.add_collectives() = first.collectives(i);
      double sum = 0;
      int workers = 0;
      for (const FromWorker& one : together) {
        if (i >= one.measured().collectives_size()) continue;
        sum += one.measured().collectives(i).seconds();
        ++workers;
      }
      costs[static_cast<std::size_t>(i)].push_back(sum / workers);
    }
    if (round == 1 && std::abs(steps[0] - steps[1]) <= kRoundsAgree * steps[0]) break;
  }
  for (int i = 0; i < reply.collectives_size(); ++i)
    reply.mutable_collectives(i)->set_seconds(median(costs[static_cast<std::size_t>(i)]));
  reply.set_step_seconds(median(steps));
  return reply;
}

Result<node::v1::BenchReply> bench(EventLoop& loop, const node::v1::BenchRequest& request,
                                   const std::string& folder, const std::string& workdir,
                                   const std::function<bool()>& cancelled) {
  LOCKSTEP_TRY(checkBench(request, workdir));
  const bool collectives = request.has_collectives(), speed = request.has_speed();
  const int ranks = std::max(1, request.ranks());
  const PlanFile plan(folder, request.plan());
  LOCKSTEP_TRY(plan.status());
  const double seconds = request.seconds() > 0 ? std::min(request.seconds(), 600.0) : 5;
  WorkerStart start;
  start.set_run(questionId("bench"));
  start.set_plan_path(plan.path());
  start.set_world(ranks);
  *start.mutable_spec() = request.spec();
  for (const auto& [name, path] : dataPaths(request.spec(), request.data_paths()))
    (*start.mutable_data_paths())[name] = path;
  start.set_comm(request.comm().empty() ? "shm" : request.comm());
  start.set_threads(std::max(1, request.threads()));
  start.set_backend(specs::backendOn("cpu", request.spec().training()));
  start.set_oversubscribed(ranks * start.threads() > usableCores());
  start.set_mode(collectives               ? "bench-collectives"
                 : request.communication() ? "bench-communication"
                                           : "bench");
  if (collectives) {
    start.clear_plan_path();
    *start.mutable_collectives() = request.collectives();
  }
  if (speed) {
    start.set_mode("bench-speed");
    start.set_backend(request.speed().backend());
    start.clear_plan_path();
    start.set_checkpoint_folder(workdir);
    *start.mutable_speed() = request.speed();
  }
  start.set_seconds(seconds);
  std::vector<WorkerStart> starts;
  for (int rank = 0; rank < ranks; ++rank) {
    start.set_rank(rank);
    setIndex(start, rank, request.speed().devices());
    starts.push_back(start);
  }
  LOCKSTEP_ASSIGN(auto answers, runWorkers(loop, std::move(starts), kBenchmark,
                                           benchmarkLimit(seconds), cancelled));
  if (speed) return speedsOf(answers, request.speed());
  node::v1::BenchReply reply = answers.front().benched();
  for (int i = 0; i < reply.collectives_size(); ++i) {
    double sum = 0;
    for (const FromWorker& one : answers) sum += one.benched().collectives(i).seconds();
    reply.mutable_collectives(i)->set_seconds(sum / static_cast<double>(answers.size()));
  }
  for (std::size_t i = 1; i < answers.size(); ++i)
    reply.mutable_steps()->MergeFrom(answers[i].benched().steps());
  return reply;
}

Result<node::v1::BenchReply> benchTogether(EventLoop& loop,
                                           const node::v1::BenchTogetherRequest::Start& request,
                                           std::shared_ptr<SharedStore> store,
                                           const std::function<bool()>& cancelled) {
  LOCKSTEP_TRY(checkBenchTogether(request));
  const double seconds = std::clamp(request.seconds(), 0.05, 600.0);
  WorkerStart start;
  start.set_run(request.id());
  start.set_rank(request.rank());
  start.set_world(request.world());
  start.set_comm("gloo");
  start.set_address(request.address());
  start.set_threads(1);
  start.set_mode("bench-collectives");
  *start.mutable_collectives() = request.collectives();
  start.set_seconds(seconds);
  LOCKSTEP_ASSIGN(auto answers, runWorkers(loop, {start}, kBenchmark, benchmarkLimit(seconds),
                                           cancelled, std::move(store)));
  return answers.front().benched();
}

Result<node::v1::VerifyReply> verify(EventLoop& loop, const node::v1::VerifyRequest& request,
                                     const std::function<bool()>& cancelled) {
  constexpr Nanoseconds kLimit = 3'600'000'000'000;  // a person sees it go on, and may end it
  WorkerStart start;
  start.set_run(questionId("verify"));
  start.set_world(1);
  start.set_threads(1);  // of each rank
  start.set_mode("verify");
  *start.mutable_verify() = request;
  LOCKSTEP_ASSIGN(auto answers, runWorkers(loop, {start}, "the verification", kLimit, cancelled));
  return answers.front().verified();
}

Result<node::v1::GpuSurvey> surveyGpus(EventLoop& loop, const std::function<bool()>& cancelled) {
  constexpr Nanoseconds kLimit = 60'000'000'000;  // a driver that has to load takes seconds
  WorkerStart start;
  start.set_run(questionId("survey"));
  start.set_world(1);
  start.set_threads(1);
  start.set_mode("survey");
  LOCKSTEP_ASSIGN(auto answers, runWorkers(loop, {start}, "the look for GPUs", kLimit, cancelled));
  return answers.front().surveyed();
}

}  // namespace lockstep::agent
