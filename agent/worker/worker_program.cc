// Runs a program of the user's own as a rank: the worker is its parent, and tells the supervisor
// what it prints and how it ends.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "agent/base/grpc_status.h"
#include "agent/worker/program_reports.h"
#include "agent/worker/worker_link.h"
#include "agent/worker/worker_process.h"
#include "agent/workload/command_line.h"
#include "agent/workload/environment.h"
#include "agent/workload/event_files.h"
#include "agent/workload/mpi.h"
#include "agent/workload/nccl_ras.h"
#include "agent/workload/output_metrics.h"
#include "agent/workload/program.h"
#include "agent/workload/python_hooks.h"
#include "agent/workload/teed_lines.h"
#include "engine/comm/network_address.h"
#include "engine/specs/workload.h"

namespace lockstep::agent {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kTell = kSecond / 10;       // between two looks at what is told
constexpr Nanoseconds kEventFiles = kSecond / 2;  // between two looks at event files
constexpr Nanoseconds kStacks = 2 * kSecond;      // until all threads and NCCL's RAS have told
constexpr std::chrono::milliseconds kMpiTick{20};
constexpr std::size_t kTail = 4096;        // of the program's output, bytes
constexpr std::size_t kMostValues = 4096;  // of event files, at a time

std::string placeKey(int rank) { return fmt::format("program/{}", rank); }
constexpr const char* kPlacesKey = "program/places";
// Set once the torchrun of a node has ended.
std::string overKey(const std::string& node) { return fmt::format("program/over/{}", node); }
constexpr Nanoseconds kWholeRun = Nanoseconds{3650} * 24 * 3600 * kSecond;  // longer than any run

// Tells where this rank is, and learns it of the others.
Result<node::v1::ProgramPlaces> exchangePlaces(const node::v1::WorkerStart& start, int world,
                                               WorkerLink& link) {
  node::v1::ProgramPlace own;
  own.set_node(start.node());
  LOCKSTEP_ASSIGN(const std::string address, comm::ownAddress(start.address(), start.interface()));
  own.set_address(address);
  LOCKSTEP_ASSIGN(const FreePort free, freePort());  // held until all have theirs
  own.set_port(free.port);
  if (start.rank() > 0) {
    LOCKSTEP_TRY(link.set(placeKey(start.rank()), own.SerializeAsString()));
    LOCKSTEP_ASSIGN(const std::string told, link.get(kPlacesKey, start.formation_ns()));
    return parsePlaces(told, world);
  }
  node::v1::ProgramPlaces all;
  *all.add_places() = own;
  for (int rank = 1; rank < world; ++rank) {
    LOCKSTEP_ASSIGN(const std::string told, link.get(placeKey(rank), start.formation_ns()));
    if (!all.add_places()->ParseFromString(told))
      return makeError(Code::kInternal, "rank {} did not tell where it is", rank);
  }
  if (world > 1) LOCKSTEP_TRY(link.set(kPlacesKey, all.SerializeAsString()));
  return all;
}

bool portWasTaken(const std::string& output) {
  return output.find("ddress already in use") != std::string::npos ||
         output.find("errno: 98") != std::string::npos;
}

// The error of a program that has ended with this status. One that exits, or aborts as by a
// watchdog of NCCL, may have failed because it lost another rank (kAborted); one that was killed
// has not (kInternal). The field is set where the program exited, other than for a port that was
// taken.
Error failureOf(int status, const std::string& output) {
  const bool exited = WIFEXITED(status);
  const bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  const bool taken = portWasTaken(output);
  const Code code = taken               ? Code::kUnavailable
                    : exited || aborted ? Code::kAborted
                                        : Code::kInternal;
  constexpr int kNotFound = 127;  // of a shell
  Error error = exited && WEXITSTATUS(status) == kNotFound
                    ? makeError(code, "the program exited with code {}", kNotFound)
                    : makeError(code, "the program {}", exitText(status, 0, std::nullopt));
  if (exited && !taken) error.field = "workload.command";
  if (!taken && output.find("ModuleNotFoundError: ") != std::string::npos)
    error.next = "install it in this Python on the node, or name another with workload.python";
  return error;
}

std::vector<std::string> eventFolders(const node::v1::WorkerStart& start) {
  std::vector<std::string> out;
  if (start.local_index() > 0) return out;  // the ranks of a node share its folders
  for (const std::string& folder : start.spec().workload().metrics().tensorboard())
    out.push_back(folder.starts_with('/') ? folder : start.code_folder() + "/" + folder);
  return out;
}

ProgramRank rankOfProgram(const node::v1::WorkerStart& start,
                          const node::v1::ProgramPlaces& places) {
  ProgramRank rank;
  rank.rank = start.rank();
  rank.run = start.run();
  rank.restarts = start.generation() - 1;
  rank.maxRestarts = specs::recoveryOf(start.spec()).max_restarts();
  rank.threads = start.threads();
  rank.places = places;
  rank.secrets = {start.secret_env().begin(), start.secret_env().end()};
  return rank;
}

// The plug-in beside the agent; "": there is none, or its path is longer than NCCL takes.
std::string ncclProfiler() {
  constexpr std::size_t kLongest = 254;
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::string path = self.parent_path() / "lib" / "lockstep-nccl-profiler.so";
  return path.size() <= kLongest && std::filesystem::exists(path, failed) ? path : "";
}

// The variables of both; of one that both have, that of `over`.
std::vector<std::string> merged(const std::vector<std::string>& under,
                                const std::vector<std::string>& over) {
  std::map<std::string, std::string> all;
  for (const auto* entries : {&under, &over})
    for (const std::string& entry : *entries) all[entry.substr(0, entry.find('='))] = entry;
  std::vector<std::string> out;
  for (auto& [name, entry] : all) out.push_back(std::move(entry));
  return out;
}

// The program of a rank, from its start to its end.
class ProgramRun {
 public:
  ProgramRun(const node::v1::WorkerStart& start, WorkerLink& link, OutputMetrics metrics,
             std::unique_ptr<PythonHooks> hooks)
      : start_(start),
        byTorchrun_(start.spec().workload().launcher() == "torchrun"),
        link_(link),
        values_(start.rank(), link),
        steps_(start, link),
        output_(std::move(metrics), values_),
        teed_(torchrunRole(start.spec().workload()),
              [this](int local, std::string_view bytes) { takeTeed(local, bytes); }),
        events_(eventFolders(start), true),
        hooks_(std::move(hooks)),
        limit_(specs::hangSecondsOf(start.spec().workload()) * kSecond) {}

  // `mpi`, where mpirun starts the ranks, is kept until the end.
  Status run(const node::v1::ProgramPlaces& places, MpiRank* mpi) {
    mpi_ = mpi;
    heard_ = monotonicNow();
    if (byTorchrun_ && start_.local_index() > 0) return accompany();
    (void)events_.poll(0);  // what is there before is not the program's
    if (mpi_ != nullptr) LOCKSTEP_TRY(awaitMpi(places));
    if (mpi_ != nullptr && link_.stopAsked()) return tellEnd(true);
    LOCKSTEP_ASSIGN(Program program, startProgram(places));
    noteProcess(program.pid());
    const auto take = [this](std::string_view bytes) { takeOutput(bytes); };
    while (program.wait(kTell, take)) {
      if (mpi_ != nullptr) LOCKSTEP_TRY(pumpMpi());
      if (link_.stopAsked()) stop(program);
      if (monotonicNow() - looked_ > kEventFiles) readFiles();
      readHooks();
      noteProcess(program.pid());
      watchSilence();
      answerStacks();
    }
    teed_.end();
    output_.finishLine();
    while (readFiles()) {
    }
    readHooks();
    values_.tell();
    if (mpi_ != nullptr) LOCKSTEP_TRY(leaveMpi(program.status()));
    return conclude(program.status());
  }

 private:
  // For a rank of torchrun that is not its node's first: the first runs torchrun, which starts this
  // rank's process. Reads what that process tells until torchrun has ended or, after a stop, the
  // process has.
  Status accompany() {
    const auto over = std::make_shared<std::atomic<bool>>(false);
    std::thread([over, &link = link_, key = overKey(start_.node())] {  // ends with the process
      if (link.get(key, kWholeRun).ok()) *over = true;
    })
        .detach();
    while (!*over && !(link_.stopAsked() && hooks_->launchedRank() == 0)) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(kTell));
      readHooks();
      values_.tell();
      noteProcess(0);
      watchEnd();
      watchSilence();
      answerStacks();
    }
    readHooks();
    values_.tell();
    return tellEnd(link_.stopAsked());
  }

  void takeOutput(std::string_view bytes) {
    heard_ = monotonicNow();
    tail_.append(bytes);
    if (tail_.size() > kTail) tail_.erase(0, tail_.size() - kTail);
    byTorchrun_ ? teed_.add(bytes) : output_.take(bytes);
  }

  // Of the first rank of a node: a line of another is told to that one, if it runs.
  void takeTeed(int local, std::string_view bytes) {
    if (local < 0) return output_.take(bytes);
    if (local == 0) return output_.take(std::string(bytes) + "\n");
    if (local < start_.world() && hooks_->tellLine(local, bytes)) return;
    output_.take(fmt::format("[{}{}]:{}\n", torchrunRole(start_.spec().workload()), local, bytes));
  }

  // The others may wait for a process that has ended, until torchrun starts it again.
  void watchEnd() {
    const bool ended = process_ > 0 && hooks_->launchedRank() == 0;
    if (ended == ended_) return;
    ended_ = ended;
    silent_ = false;
    heard_ = monotonicNow();
    node::v1::FromWorker message;
    message.mutable_stalled()->set_rank(start_.rank());
    message.mutable_stalled()->set_moves(!ended);
    link_.channel().send(message);
  }

  // The rank's process is the one that torchrun has started as it, also after its end; before that,
  // and with other launchers, it is `program`. 0: none.
  void noteProcess(int program) {
    const int launched = hooks_->launchedRank();
    const int process = launched > 0 ? launched : process_ > 0 ? process_ : program;
    if (process == process_) return;
    process_ = process;
    node::v1::FromWorker message;
    message.mutable_program()->set_pid(process);
    link_.channel().send(message);
  }

  // What mpirun says is in the log, and is no output of the program.
  Status pumpMpi() {
    const Status pumped = mpi_->pump(print);
    return stopping_ || link_.stopAsked() ? Status() : pumped;
  }

  // Until mpirun has started this rank, or the run is stopped.
  Status awaitMpi(const node::v1::ProgramPlaces& places) {
    LOCKSTEP_TRY(mpi_->begin(programEnvironment(start_.spec().workload(), rankOf(places),
                                                start_.code_folder(), inheritedEnvironment()),
                             start_.code_folder()));
    while (!mpi_->variables() && !link_.stopAsked()) {
      LOCKSTEP_TRY(pumpMpi());
      if (start_.rank() == 0 && mpi_->over())
        return makeError(Code::kAborted, "mpirun ended before it had started the ranks");
      std::this_thread::sleep_for(kMpiTick);
    }
    return {};
  }

  // mpirun ends once all ranks have, and its daemons with it. It hears of one that has failed when
  // this process ends, and so after the supervisor.
  Status leaveMpi(int status) {
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return {};
    mpi_->finish();
    while (!mpi_->over()) {
      LOCKSTEP_TRY(pumpMpi());
      heard_ = monotonicNow();
      std::this_thread::sleep_for(kMpiTick);
    }
    return {};
  }

  ProgramRank rankOf(const node::v1::ProgramPlaces& places) const {
    ProgramRank rank = rankOfProgram(start_, places);
    rank.pythonFolder = hooks_->folder();
    rank.pythonPipe = hooks_->pipe();
    rank.localPipes = hooks_->localPipes();
    return rank;
  }

  Result<Program> startProgram(const node::v1::ProgramPlaces& places) {
    const spec::v1::WorkloadSpec& workload = start_.spec().workload();
    LOCKSTEP_ASSIGN(const FreePort ras, freePort());  // held until the program has started
    ProgramRank rank = rankOf(places);
    rank.rasPort = ras.port;
    const std::vector<std::string> hooks = specs::hooksOf(workload);
    if (std::find(hooks.begin(), hooks.end(), "c10d") != hooks.end())
      rank.ncclProfiler = ncclProfiler();
    Program::Options options;
    options.folder = start_.code_folder();
    options.environment =
        programEnvironment(workload, rank, options.folder, inheritedEnvironment());
    rasAddress_ = valueIn(options.environment, "NCCL_RAS_ADDR");
    if (mpi_ != nullptr) {
      const auto given = mpi_->variables();
      if (given) options.environment = merged(*given, options.environment);
    }
    const CommandPlace place{
        options.folder, options.environment, {hooks_->folder()}, hasNvidiaGpus()};
    LOCKSTEP_ASSIGN(CommandLine line, commandLine(workload, place));
    options.path = std::move(line.path);
    options.words = std::move(line.words);
    return Program::start(options);
  }

  // The program first; what it leaves behind when it ends, as a shell its command, after it.
  void stop(Program& program) {
    if (!std::exchange(stopping_, true)) {
      program.awaitChildren();
      program.signal(SIGTERM);
    } else if (program.exited() && !std::exchange(toldRest_, true)) {
      ::kill(0, SIGTERM);  // this process ignores it
    }
  }

  // Returns whether there may be more: as many values are read at a time as a message has.
  bool readFiles() {
    looked_ = monotonicNow();
    std::vector<run::v1::Scalar> values = events_.poll(kMostValues);
    const bool isFull = values.size() == kMostValues;
    if (!values.empty()) heard_ = looked_;
    values_.add("tensorboard", std::move(values));
    for (const Error& error : events_.takeErrors()) {
      node::v1::FromWorker message;
      *message.mutable_warning() = toInfo(error);
      link_.channel().send(message);
    }
    return isFull;
  }

  void readHooks() {
    PythonHooks::Told told = hooks_->read();
    if (!told.empty()) heard_ = monotonicNow();
    for (run::v1::ProgramSource& source : told.sources) {
      node::v1::FromWorker message;
      source.set_rank(start_.rank());
      message.mutable_source()->Swap(&source);
      link_.channel().send(message);
    }
    for (run::v1::Scalars& values : told.values)
      values_.add(values.source(), std::move(*values.mutable_scalars()));
    steps_.add(told.steps);
    for (const std::string& line : told.lines) output_.take(line + "\n");
  }

  // Tells once that this rank is silent, and once that it is not any more.
  void watchSilence() {
    if (limit_ == 0 || ended_) return;
    const Nanoseconds silent = monotonicNow() - heard_;
    if ((silent > limit_) == silent_) return;
    silent_ = !silent_;
    node::v1::FromWorker message;
    node::v1::Stalled& stalled = *message.mutable_stalled();
    stalled.set_rank(start_.rank());
    stalled.set_moves(!silent_);
    if (silent_) {
      stalled.set_for_ns(silent);
      stalled.set_step(values_.lastStep());
    }
    link_.channel().send(message);
  }

  // What the processes print takes a moment.
  void answerStacks() {
    const Nanoseconds now = monotonicNow();
    if (link_.takeStacksAsked()) {
      stacksUntil_ = now + (hooks_->askStacks(process_) ? kStacks : 0);
      askNccl();
    } else if (stacksUntil_ == 0) {
      return;
    }
    if (now < stacksUntil_ || !ncclAnswered()) return;
    stacksUntil_ = 0;
    node::v1::FromWorker message;
    message.mutable_stacks()->set_rank(start_.rank());
    if (ras_.valid())
      for (std::string& line : ras_.get()) message.mutable_stacks()->add_lines(std::move(line));
    for (std::string& line : hooks_->takeStacks(start_.code_folder()))
      message.mutable_stacks()->add_lines(std::move(line));
    link_.channel().send(message);
  }

  // One rank of a node asks: any process answers for all that it can reach.
  void askNccl() {
    if (start_.local_index() > 0 || rasAddress_.empty() || ras_.valid()) return;
    std::set<int> processes = hooks_->processes();
    processes.insert(process_);
    if (std::any_of(processes.begin(), processes.end(), hasNccl))
      ras_ = std::async(std::launch::async,
                        [address = rasAddress_] { return askRas(address, kStacks); });
  }
  bool ncclAnswered() const {
    return !ras_.valid() || ras_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  Status conclude(int status) {
    const bool succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!succeeded && !stopping_) return failureOf(status, tail_);
    return tellEnd(stopping_);
  }

  Status tellEnd(bool stopped) {
    if (byTorchrun_ && start_.local_index() == 0)
      LOCKSTEP_TRY(link_.set(overKey(start_.node()), ""));
    node::v1::FromWorker message;
    run::v1::Finished* finished = message.mutable_finished();
    finished->set_state(stopped ? run::v1::STOPPED : run::v1::SUCCEEDED);
    finished->set_steps(values_.lastStep());
    link_.channel().send(message);
    return {};
  }

  const node::v1::WorkerStart& start_;
  const bool byTorchrun_;
  WorkerLink& link_;
  ProgramValues values_;
  ProgramSteps steps_;
  ProgramOutput output_;
  TeedLines teed_;  // of torchrun
  std::string tail_;
  EventFiles events_;
  std::unique_ptr<PythonHooks> hooks_;
  std::string rasAddress_;
  std::future<std::vector<std::string>> ras_;  // while NCCL's RAS is asked
  MpiRank* mpi_ = nullptr;
  const Nanoseconds limit_;  // of silence; 0: none
  Nanoseconds heard_ = 0, looked_ = 0, stacksUntil_ = 0;
  int process_ = 0;  // of the rank; 0: none is known
  bool stopping_ = false, toldRest_ = false, silent_ = false, ended_ = false;
};

}  // namespace

Status runProgram(const node::v1::WorkerStart& start, WorkerLink& link) {
  LOCKSTEP_ASSIGN(const plan::Plan plan, readPlan(start));
  const auto& given = start.spec().workload().metrics().stdout();
  LOCKSTEP_ASSIGN(OutputMetrics metrics, OutputMetrics::make({given.begin(), given.end()}));
  LOCKSTEP_ASSIGN(const auto places, exchangePlaces(start, plan.mesh.size(), link));
  std::unique_ptr<MpiRank> mpi;
  if (start.spec().workload().launcher() == "mpi") {
    const std::string folder = std::filesystem::current_path().string() + "/mpi";
    LOCKSTEP_ASSIGN(mpi, MpiRank::make(folder, rankOfProgram(start, places), link));
  }
  // Before any rank starts: torchrun's processes look for the pipes of all ranks of their node.
  LOCKSTEP_ASSIGN(
      auto hooks,
      PythonHooks::make(std::filesystem::current_path().string() + "/python", start.local_index(),
                        !specs::hooksOf(start.spec().workload()).empty()));
  link.awaitStart();
  ::signal(SIGTERM, SIG_IGN);  // it leaves when the program has ended
  link.endGroupWithSupervisor();
  return ProgramRun(start, link, std::move(metrics), std::move(hooks)).run(places, mpi.get());
}

}  // namespace lockstep::agent
