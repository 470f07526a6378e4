// Runs of one node: real supervisors and workers, real kills.
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <unistd.h>

#include <QFile>
#include <QProcess>
#include <QScopeGuard>
#include <QTest>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "agent/worker/prepare.h"
#include "agent/worker/worker_process.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/weights/checkpoint_files.h"
#include "tests/agent/agent_node.h"
#include "tests/support/sanitizers.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

struct Run {
  node::v1::PrepareRequest request;
  node::v1::PrepareReply prepared;
  std::unique_ptr<node::v1::Supervisor::Stub> supervisor;
  std::unique_ptr<Follower> records;

  Run(Node& node, const RunOptions& options) : request(prepareRequest(options)) {
    grpc::Status status = prepare(node.agent(), request, &prepared);
    if (!status.ok()) throw std::runtime_error(status.error_message());
    supervisor = node::v1::Supervisor::NewStub(channelTo(prepared.socket()));
    records = std::make_unique<Follower>(prepared.socket());
  }
  grpc::Status commit() {
    node::v1::CommitRequest commit;
    commit.set_run(request.run());
    commit.set_generation(1);
    node::v1::CommitReply reply;
    return supervisor->Commit(deadline().get(), commit, &reply);
  }
  bool underWay() {
    return eventually([&] { return records->lastStep(0) >= 3; }, 60);
  }
  bool noneLeft() {
    // The supervisor stays for its records; workers are gone.
    return eventually([&] { return processesOfRun(request.run()).size() <= 1; });
  }
};

bool contiguous(const std::vector<run::v1::Record>& records) {
  for (std::size_t i = 0; i < records.size(); ++i)
    if (records[i].sequence() != i + 1) return false;
  return true;
}

int decodedFilesOf(int pid) {
  const auto maps = readFile(fmt::format("/proc/{}/maps", pid));
  std::set<std::string> found;
  std::istringstream lines(maps.ok() ? *maps : "");
  for (std::string line; std::getline(lines, line);)
    if (const std::size_t at = line.find("/decoded/"); at != std::string::npos)
      found.insert(line.substr(at));
  return static_cast<int>(found.size());
}

int supervisorOf(const std::string& run) {
  int lowest = -1;
  for (int pid : processesOfRun(run))
    if (lowest < 0 || pid < lowest) lowest = pid;  // started before its workers
  return lowest;
}

constexpr std::int64_t kEndless = 100'000'000;

}  // namespace

class AgentRunTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void threeRanksTrain_data() {
    QTest::addColumn<QString>("comm");
    QTest::newRow("shm") << "shm";
    QTest::newRow("gloo") << "gloo";
  }
  void threeRanksTrain() {
    QFETCH(QString, comm);
    // The node has GPUs, as far as its driver says.
    qputenv("LOCKSTEP_NVML", LOCKSTEP_FAKE_NVML_FILE);
    const auto restored = qScopeGuard([] { qunsetenv("LOCKSTEP_NVML"); });
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .comm = comm.toStdString()});
    QVERIFY(run.commit().ok());
    QVERIFY(run.commit().ok());  // idempotent
    QVERIFY(run.records->waitFinished(120));
    QVERIFY2(run.records->state() == run::v1::SUCCEEDED, run.records->error().c_str());
    const auto records = run.records->records();
    QVERIFY(contiguous(records));
    QVERIFY(records.front().has_started());
    QVERIFY(records.back().has_finished());
    QCOMPARE(records.back().finished().steps(), 50);
    QCOMPARE(records.back().finished().weights_sha256().size(), std::size_t{64});
    for (int rank = 0; rank < 3; ++rank) {
      std::int64_t next = 1;
      for (const auto& record : records) {
        if (!record.has_steps() || record.steps().rank() != rank) continue;
        QCOMPARE(record.steps().first_step(), next);
        next += record.steps().loss_size();
        QCOMPARE(record.steps().begin_ns_size(), record.steps().loss_size());
      }
      QCOMPARE(next, 51);
    }
    QVERIFY(std::any_of(records.begin(), records.end(), [](const auto& r) {
      return r.has_node_sample() && r.node_sample().rank_size() == 3;
    }));
    QVERIFY(std::any_of(records.begin(), records.end(), [](const auto& r) {
      return r.has_node_sample() && r.node_sample().gpu_size() == 2 &&
             r.node_sample().gpu(1).name() == "Fake GPU 1" &&
             r.node_sample().gpu(1).memory_used() == 754820096 &&
             !r.node_sample().gpu(1).has_power_w();
    }));

    node::v1::FetchRequest fetch;
    fetch.set_name("model.safetensors");
    auto context = deadline();
    auto reader = run.supervisor->Fetch(context.get(), fetch);
    node::v1::FetchChunk chunk;
    std::string model, hash;
    while (reader->Read(&chunk)) {
      model += chunk.data();
      hash = chunk.sha256();
    }
    QVERIFY(reader->Finish().ok());
    QCOMPARE(static_cast<std::int64_t>(model.size()), chunk.total());
    QCOMPARE(sha256Hex(model), hash);
    QVERIFY(run.noneLeft());
    // Back-fill gives the same records.
    Follower again(run.prepared.socket(), 2);
    QVERIFY(again.waitFinished());
    QCOMPARE(again.records().size(), records.size() - 2);
  }

  // A worker's own memory, which is not that of files, once it trains.
  void memoryIsAsPredicted_data() {
    QTest::addColumn<int>("ranks");
    QTest::addColumn<QString>("strategy");
    QTest::newRow("1 rank") << 1 << "multi-worker-mirrored";
    QTest::newRow("3 ranks") << 3 << "multi-worker-mirrored";
    QTest::newRow("3 ranks, zero-3") << 3 << "zero-3";
  }
  void memoryIsAsPredicted() {
    if (test::kSanitized) QSKIP("a sanitizer has memory of its own");
    QFETCH(int, ranks);
    QFETCH(QString, strategy);
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(),
                   .ranks = ranks,
                   .maxSteps = kEndless,
                   .backend = "onednn",
                   .strategy = strategy.toStdString()});
    QVERIFY(run.commit().ok());
    QVERIFY(run.underWay());
    const auto plan = plan::parse(run.request.plan());
    QVERIFY(plan.ok());
    // The data were decoded by the agent, and are mapped.
    const auto predicted = static_cast<double>(agent::workerMemory(*plan, 0, 0));
    const auto own = [](int pid) {
      const auto status = readFile(fmt::format("/proc/{}/status", pid), 65536);
      const std::size_t at = status.ok() ? status->find("RssAnon:") : std::string::npos;
      return at == std::string::npos ? 0.0 : 1024 * std::strtod(status->c_str() + at + 8, nullptr);
    };
    int workers = 0;
    for (const int pid : processesOfRun(run.request.run())) {
      if (pid == supervisorOf(run.request.run())) continue;
      ++workers;
      QCOMPARE(decodedFilesOf(pid), 4);
      qInfo("%.1f MiB for %.1f", own(pid) / (1 << 20), predicted / (1 << 20));
      QVERIFY(std::abs(own(pid) - predicted) <= std::max(0.05 * predicted, 8.0 * (1 << 20)));
    }
    QCOMPARE(workers, ranks);
    node::v1::KillRequest kill;
    kill.set_run(run.request.run());
    kill.set_generation(1);
    node::v1::KillReply killed;
    QVERIFY(run.supervisor->Kill(deadline().get(), kill, &killed).ok());
    QVERIFY(run.noneLeft());
  }

  // By a driver that says of itself that it sees none.
  void aNodeWithoutAGpuRefusesRanksOnOne() {
    const QTemporaryDir libraries;
    QVERIFY(QFile::link(LOCKSTEP_FAKE_DRIVER_FILE, libraries.filePath("libcuda.so.1")));
    qputenv("LOCKSTEP_CUDA_LIBRARIES", libraries.path().toUtf8());
    qputenv("LOCKSTEP_FAKE_DRIVER", "13000 0 0");
    const auto clear = qScopeGuard([] {
      qunsetenv("LOCKSTEP_CUDA_LIBRARIES");
      qunsetenv("LOCKSTEP_FAKE_DRIVER");
    });
    Node node("n1");
    node.start();
    node::v1::PrepareReply prepared;
    const grpc::Status status =
        prepare(node.agent(),
                prepareRequest({.run = newRunId(), .ranks = 2, .backend = "", .device = "cuda"}),
                &prepared);
    QVERIFY(!status.ok());
    const std::string what = LOCKSTEP_HAS_CUDA_MODULE ? "the NVIDIA driver sees no GPU"
                                                      : "Lockstep's CUDA module cannot be used";
    QVERIFY2(status.error_message().find("the node cannot compute on a GPU: " + what) !=
                 std::string::npos,
             status.error_message().c_str());
    // The same devices, computed on by what the training names.
    const grpc::Status forced = prepare(
        node.agent(), prepareRequest({.run = newRunId(), .ranks = 2, .device = "cuda"}), &prepared);
    QVERIFY2(forced.ok(), forced.error_message().c_str());
  }

  // A run trains on the data that it was prepared with.
  void dataThatChangesAfterPrepareIsNotReadAgain() {
    Node node("n1");
    node.start();
    const std::string own = node.workdir() + "/images.gz";
    node::v1::PrepareRequest request = prepareRequest({.run = newRunId(), .maxSteps = 20});
    std::filesystem::copy_file(request.spec().data().train().images(), own);
    (*request.mutable_data_paths())["train.images"] = own;
    node::v1::PrepareReply prepared;
    const grpc::Status status = prepare(node.agent(), request, &prepared);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QVERIFY(writeFileAtomically(own, "\x1f\x8b\x08not really gzip").ok());
    auto supervisor = node::v1::Supervisor::NewStub(channelTo(prepared.socket()));
    Follower records(prepared.socket());
    node::v1::CommitRequest commit;
    commit.set_run(request.run());
    commit.set_generation(1);
    node::v1::CommitReply reply;
    QVERIFY(supervisor->Commit(deadline().get(), commit, &reply).ok());
    QVERIFY(records.waitFinished());
    QCOMPARE(records.state(), run::v1::SUCCEEDED);
  }

  // Decoded once for all runs; where it is gone, or not what was written, workers read the files
  // themselves.
  void dataAreDecodedOnce() {
    Node node("n1");
    node.start();
    const auto folder = [&] {
      return std::filesystem::recursive_directory_iterator(node.workdir() + "/decoded");
    };
    const auto files = [&] {
      std::map<std::string, std::filesystem::file_time_type> out;
      for (const auto& entry : folder())
        if (entry.is_regular_file()) out[entry.path()] = entry.last_write_time();
      return out;
    };
    std::map<std::string, std::filesystem::file_time_type> made;
    std::vector<std::string> weights;
    for (const QString what : {"made", "found", "removed", "made again", "torn"}) {
      Run run(node, {.run = newRunId(), .ranks = 2, .maxSteps = 20, .backend = "onednn"});
      QCOMPARE(files().size(), std::size_t{4});
      if (what == "made") made = files();
      if (what == "found") QVERIFY(files() == made);
      if (what == "removed") std::filesystem::remove_all(node.workdir() + "/decoded");
      if (what == "torn")
        for (const auto& [path, time] : files()) std::filesystem::resize_file(path, 10'000);
      QVERIFY(run.commit().ok());
      QVERIFY(run.records->waitFinished());
      QCOMPARE(run.records->state(), run::v1::SUCCEEDED);
      QVERIFY(run.noneLeft());
      for (const auto& record : run.records->records())
        if (record.has_finished()) weights.push_back(record.finished().weights_sha256());
    }
    QCOMPARE(weights.size(), std::size_t{5});
    for (const std::string& one : weights) QCOMPARE(one, weights.front());
  }

  // What is said of a killed worker is what the kernel's own count tells, and no more.
  void theCauseOfAKillIsKnownOrNotSaid() {
    const auto text = [](std::optional<bool> outOfMemory) {
      return agent::exitText(SIGKILL, 300 << 20, outOfMemory).text();
    };
    QCOMPARE(text({}), std::string("was killed by signal 9 (SIGKILL)"));
    QVERIFY(text(false).ends_with("the node was not out of memory"));
    QVERIFY(text(true).ends_with(
        "most likely by the kernel: the node ran out of memory; it had 300 MiB resident"));
    for (const auto outOfMemory :
         {std::optional<bool>(), std::optional(true), std::optional(false)}) {
      QVERIFY(agent::exitText(SIGSEGV, 0, outOfMemory)
                  .text()
                  .starts_with("was killed by signal 11 (SIGSEGV"));
      QCOMPARE(agent::exitText(3 << 8, 0, outOfMemory).text(), std::string("exited with code 3"));
    }
  }

  void aKilledWorkerEndsTheRun() {
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .maxSteps = kEndless});
    QVERIFY(run.commit().ok());
    QVERIFY(run.underWay());
    kill(run.records->pidOf(1), SIGKILL);
    QVERIFY(run.records->waitFinished());
    QCOMPARE(run.records->state(), run::v1::FAILED);
    for (const auto& record : run.records->records()) {
      if (!record.has_error()) continue;
      QCOMPARE(record.error().rank(), 1);
      QCOMPARE(record.error().node(), std::string("n1"));
      QVERIFY2(record.error().what().text().find("SIGKILL") != std::string::npos,
               record.error().what().text().c_str());
      QVERIFY2(record.error().what().text().ends_with(
                   "sent by a person or a program; the node was not out of memory"),
               record.error().what().text().c_str());
    }
    QVERIFY(!run.records->error().empty());
    QVERIFY(run.noneLeft());
  }

  // As by hand, to free disk: the run could be reached by nobody any more.
  void aRemovedFolderEndsTheRun() {
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .maxSteps = kEndless});
    QVERIFY(run.commit().ok());
    QVERIFY(run.underWay());
    std::filesystem::remove_all(node.workdir() + "/runs/" + run.request.run());
    QVERIFY(run.records->waitFinished());
    QCOMPARE(run.records->state(), run::v1::FAILED);
    QVERIFY2(run.records->error().find("was removed while it ran") != std::string::npos,
             run.records->error().c_str());
    QVERIFY(run.noneLeft());
    QVERIFY(!std::filesystem::exists(node.workdir() + "/runs/" + run.request.run()));
  }

  void aKilledAgentTouchesNoRun() {
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .maxSteps = kEndless});
    QVERIFY(run.commit().ok());
    QVERIFY(run.underWay());
    node.killAgent();
    const std::int64_t before = run.records->lastStep(0);
    QVERIFY(eventually([&] { return run.records->lastStep(0) > before; }));
    node.start();
    node::v1::FindRunRequest find;
    find.set_run(run.request.run());
    node::v1::RunOnNode found;
    QVERIFY(node.agent().FindRun(deadline().get(), find, &found).ok());
    QCOMPARE(found.socket(), run.prepared.socket());
    QCOMPARE(found.state(), run::v1::RUNNING);
    node::v1::RemoveRunRequest remove;
    remove.set_run(run.request.run());
    node::v1::RemoveRunReply removed;
    QCOMPARE(node.agent().RemoveRun(deadline().get(), remove, &removed).error_code(),
             grpc::StatusCode::FAILED_PRECONDITION);

    // Stop: all ranks leave after one step.
    node::v1::StopRequest stop;
    stop.set_run(run.request.run());
    stop.set_generation(1);
    node::v1::StopReply stopped;
    QVERIFY(run.supervisor->Stop(deadline().get(), stop, &stopped).ok());
    QVERIFY(run.records->waitFinished());
    QCOMPARE(run.records->state(), run::v1::STOPPED);
    std::set<std::int64_t> last;
    for (int rank = 0; rank < 3; ++rank) last.insert(run.records->lastStep(rank));
    QCOMPARE(last.size(), std::size_t{1});
    QVERIFY(std::filesystem::exists(found.folder() + "/checkpoints"));
    QVERIFY(node.agent().RemoveRun(deadline().get(), remove, &removed).ok());
    QVERIFY(!std::filesystem::exists(found.folder()));
    QVERIFY(eventually([&] { return processesOfRun(run.request.run()).empty(); }));
  }

  // A client that attaches late has two streams: new records come at once on the one, while almost
  // all of the stored ones have not been read from the other.
  void newRecordsComeBeforeStoredOnesAreRead() {
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .ranks = 1, .maxSteps = kEndless});
    QVERIFY(run.commit().ok());
    QVERIFY(eventually([&] { return run.records->lastStep(0) > 500; }));
    const std::uint64_t stored = run.records->records().back().sequence();
    const auto context = deadline();
    node::v1::RecordsRequest request;
    request.set_follow(true);
    const auto backFill = run.supervisor->Records(context.get(), request);
    run::v1::Record record;
    QVERIFY(backFill->Read(&record));
    QCOMPARE(record.sequence(), std::uint64_t{1});
    Follower live(run.prepared.socket(), std::numeric_limits<std::uint64_t>::max());
    QVERIFY2(live.waitFor([](const auto& one) { return one.has_steps(); }, 10),
             live.ended().c_str());
    const std::uint64_t first = live.records().front().sequence();
    QVERIFY2(first > stored, fmt::format("{} after {} stored", first, stored).c_str());
    // Together they are all records.
    for (std::uint64_t next = 2; next <= first; ++next) {
      QVERIFY(backFill->Read(&record));
      QCOMPARE(record.sequence(), next);
    }
    context->TryCancel();
    backFill->Finish();
  }

  // An agent that is asked to leave takes the supervisors of ended runs with it, and only those;
  // the next agent has their records.
  void anAgentThatLeavesTakesEndedRunsWithIt() {
    Node node("n1");
    node.start();
    Run ended(node, {.run = newRunId(), .ranks = 1, .maxSteps = 20});
    Run goesOn(node, {.run = newRunId(), .ranks = 1, .maxSteps = kEndless});
    QVERIFY(ended.commit().ok() && goesOn.commit().ok());
    QVERIFY(ended.records->waitFinished());
    QVERIFY(goesOn.underWay());
    const auto records = ended.records->records();
    QCOMPARE(processesOfRun(ended.request.run()).size(), std::size_t{1});
    kill(node.pid(), SIGTERM);
    const int pid = node.pid();
    QVERIFY(eventually([&] { return !alive(pid); }));
    QVERIFY(eventually([&] { return processesOfRun(ended.request.run()).empty(); }));
    const std::int64_t before = goesOn.records->lastStep(0);
    QVERIFY(eventually([&] { return goesOn.records->lastStep(0) > before; }));
    node.start();
    node::v1::FindRunRequest find;
    find.set_run(ended.request.run());
    node::v1::RunOnNode found;
    QVERIFY(node.agent().FindRun(deadline().get(), find, &found).ok());
    QCOMPARE(found.state(), run::v1::SUCCEEDED);
    Follower again(found.socket());
    QVERIFY(again.waitFinished());
    QCOMPARE(again.records().size(), records.size());
  }

  void aKilledSupervisorLeavesNoOrphan() {
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .maxSteps = kEndless});
    QVERIFY(run.commit().ok());
    QVERIFY(run.underWay());
    // What had come two seconds before has been committed by then, also to a busy disk.
    QVERIFY(eventually([&] { return run.records->lastStep(0) >= 3; }));
    const Nanoseconds seen = monotonicNow();
    const std::int64_t before = run.records->lastStep(0);
    QVERIFY(eventually([&] {
      return monotonicNow() - seen > 2'000'000'000 && run.records->lastStep(0) > before;
    }));
    const int supervisor = supervisorOf(run.request.run());
    kill(supervisor, SIGKILL);
    QVERIFY(eventually([&] { return !alive(supervisor); }));
    QVERIFY(eventually([&] { return processesOfRun(run.request.run()).empty(); }));
    // Its records stay readable, and end.
    node::v1::FindRunRequest find;
    find.set_run(run.request.run());
    node::v1::RunOnNode found;
    const grpc::Status status = node.agent().FindRun(deadline().get(), find, &found);
    QVERIFY2(status.ok(), status.error_message().c_str());
    Follower records(found.socket());
    QVERIFY2(records.waitFinished(), records.ended().c_str());
    QCOMPARE(records.state(), run::v1::FAILED);
    QVERIFY(records.error().find("unexpectedly") != std::string::npos);
    QVERIFY(records.lastStep(0) >= 3);
    // One that had read further than what was committed sees the end too.
    Follower late(found.socket(), run.records->records().back().sequence());
    QVERIFY(late.waitFinished());
  }

  void whatWasPreparedCanBeGivenUp() {
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId()});
    node::v1::RemoveRunRequest remove;
    remove.set_run(run.request.run());
    node::v1::RemoveRunReply removed;
    const grpc::Status status = node.agent().RemoveRun(deadline().get(), remove, &removed);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QVERIFY(!std::filesystem::exists(node.workdir() + "/runs/" + run.request.run()));
    QVERIFY(eventually([&] { return processesOfRun(run.request.run()).empty(); }));
  }

  void killIsImmediate() {
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .maxSteps = kEndless});
    QVERIFY(run.commit().ok());
    QVERIFY(run.underWay());
    kill(run.records->pidOf(2), SIGSTOP);  // one that could not answer
    node::v1::KillRequest request;
    request.set_run(run.request.run());
    request.set_generation(1);
    node::v1::KillReply reply;
    QVERIFY(run.supervisor->Kill(deadline().get(), request, &reply).ok());
    QVERIFY(run.records->waitFinished(20));
    QCOMPARE(run.records->state(), run::v1::STOPPED);
    QVERIFY(run.noneLeft());
  }

  void wrongGenerationIsRefused() {
    Node node("n1", {"--prepare-seconds", "5"});
    node.start();
    Run run(node, {.run = newRunId()});
    node::v1::CommitRequest commit;
    commit.set_run(run.request.run());
    commit.set_generation(2);
    node::v1::CommitReply reply;
    QCOMPARE(run.supervisor->Commit(deadline().get(), commit, &reply).error_code(),
             grpc::StatusCode::INVALID_ARGUMENT);
  }

  // Whole when it was prepared, another one when the workers read it: they do where it was not kept
  // decoded.
  void dataThatChangesAfterPrepareIsAnErrorOfItsRank() {
    Node node("n1");
    node.start();
    const std::string own = node.workdir() + "/images.gz";
    RunOptions options{.run = newRunId()};
    node::v1::PrepareRequest request = prepareRequest(options);
    QVERIFY(QFile::copy(QString::fromStdString(request.spec().data().train().images()),
                        QString::fromStdString(own)));
    (*request.mutable_data_paths())["train.images"] = own;
    node::v1::PrepareReply prepared;
    const grpc::Status status = prepare(node.agent(), request, &prepared);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QVERIFY(writeFileAtomically(own, "\x1f\x8b\x08not really gzip").ok());
    QVERIFY(std::filesystem::remove_all(node.workdir() + "/decoded") > 0);
    auto supervisor = node::v1::Supervisor::NewStub(channelTo(prepared.socket()));
    Follower records(prepared.socket());
    node::v1::CommitRequest commit;
    commit.set_run(request.run());
    commit.set_generation(1);
    node::v1::CommitReply reply;
    QVERIFY(supervisor->Commit(deadline().get(), commit, &reply).ok());
    QVERIFY(records.waitFinished());
    QCOMPARE(records.state(), run::v1::FAILED);
    QVERIFY2(records.error().find("images.gz") != std::string::npos, records.error().c_str());
    // What to do is said once, in the error and in the log.
    const auto count = [](const std::string& text, const std::string& part) {
      int found = 0;
      for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++found;
      return found;
    };
    std::string error, next, log;
    for (const auto& record : records.records()) {
      if (record.has_error()) {
        error = record.error().what().text() + record.error().why().text() +
                record.error().next().text();
        next = record.error().next().text();
      }
      for (const std::string& line : record.log().lines()) log += line;
    }
    QVERIFY(!next.empty());
    QCOMPARE(count(error, next), 1);
    QCOMPARE(count(error, own), 1);
    QCOMPARE(count(log, next), 0);
  }

  void aFullDiskFailsTheCheckpointAndTearsNothing() {
    if (geteuid() != 0) QSKIP("mounting a small disk needs root");
    Node node("n1");
    const QString workdir = QString::fromStdString(node.workdir());
    if (QProcess::execute("mount", {"-t", "tmpfs", "-o", "size=64m", "tmpfs", workdir}) != 0)
      QSKIP("a tmpfs cannot be mounted here");
    const auto unmount = qScopeGuard([&] { QProcess::execute("umount", {"-l", workdir}); });
    node.start();
    Run run(node, {.run = newRunId(), .maxSteps = kEndless});
    QVERIFY(run.commit().ok());
    QVERIFY(run.underWay());
    QFile filler(workdir + "/filler");
    QVERIFY(filler.open(QIODevice::WriteOnly | QIODevice::Unbuffered));
    const QByteArray block(4096, 'x');
    while (filler.write(block) == block.size()) {
    }
    // Records go on although none can be kept.
    const std::int64_t before = run.records->lastStep(0);
    QVERIFY(eventually([&] { return run.records->lastStep(0) > before; }));
    node::v1::StopRequest stop;
    stop.set_run(run.request.run());
    stop.set_generation(1);
    node::v1::StopReply stopped;
    QVERIFY(run.supervisor->Stop(deadline().get(), stop, &stopped).ok());
    QVERIFY(run.records->waitFinished());
    QCOMPARE(run.records->state(), run::v1::FAILED);
    QVERIFY2(run.records->error().find("No space left") != std::string::npos,
             run.records->error().c_str());
    for (const auto& record : run.records->records())
      if (record.has_error()) QCOMPARE(record.error().node(), std::string("n1"));
    const std::filesystem::path checkpoints =
        node.workdir() + "/runs/" + run.request.run() + "/n1/checkpoints";
    if (std::filesystem::exists(checkpoints))
      for (const auto& entry : std::filesystem::directory_iterator(checkpoints))
        QVERIFY2(!entry.path().filename().string().starts_with("step-"), entry.path().c_str());
    // Its supervisor gives the disk a while to take the last records, but leaves.
    const int supervisor = supervisorOf(run.request.run());
    kill(supervisor, SIGTERM);
    QVERIFY(eventually([&] { return !alive(supervisor); }));
    // What was kept has an end that says so, once there is space again.
    QVERIFY(filler.remove());
    node::v1::FindRunRequest find;
    find.set_run(run.request.run());
    node::v1::RunOnNode found;
    const grpc::Status status = node.agent().FindRun(deadline().get(), find, &found);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QCOMPARE(found.state(), run::v1::FAILED);
    Follower kept(found.socket());
    QVERIFY2(kept.waitFinished(), kept.ended().c_str());
    QCOMPARE(kept.state(), run::v1::FAILED);
    QVERIFY(!kept.error().empty());
  }

  // Checkpoints at the ends of epochs find no space: a warning says so once, the run trains on, and
  // the next one is written where there is space again.
  void aDiskThatFillsUpIsWarnedOf() {
    if (geteuid() != 0) QSKIP("mounting a small disk needs root");
    Node node("n1");
    const QString workdir = QString::fromStdString(node.workdir());
    if (QProcess::execute("mount", {"-t", "tmpfs", "-o", "size=64m", "tmpfs", workdir}) != 0)
      QSKIP("a tmpfs cannot be mounted here");
    const auto unmount = qScopeGuard([&] { QProcess::execute("umount", {"-l", workdir}); });
    node.start();
    Run run(node,
            {.run = newRunId(), .maxSteps = kEndless, .batch = 960, .backend = "", .hidden = 16});
    QVERIFY(run.commit().ok());
    QVERIFY(run.underWay());
    QFile filler(workdir + "/filler");
    QVERIFY(filler.open(QIODevice::WriteOnly | QIODevice::Unbuffered));
    const QByteArray block(4096, 'x');
    while (filler.write(block) == block.size()) {
    }
    const auto warnings = [&] {
      std::vector<run::v1::ErrorInfo> out;
      for (const auto& record : run.records->records())
        if (record.has_warning() &&
            record.warning().what().text().find("checkpoint at step") != std::string::npos)
          out.push_back(record.warning());
      return out;
    };
    QVERIFY(eventually([&] { return !warnings().empty(); }));
    const std::int64_t before = run.records->lastStep(0);
    QVERIFY(eventually([&] { return run.records->lastStep(0) > before + 200; }));
    QCOMPARE(warnings().size(), std::size_t{1});
    const run::v1::ErrorInfo warning = warnings().front();
    QVERIFY2(warning.why().text().find("No space left") != std::string::npos,
             warning.DebugString().c_str());
    QVERIFY(!warning.next().text().empty());
    QVERIFY(filler.remove());
    const auto checkpoints = [&] {
      return weights::checkpointsIn(node.workdir() + "/runs/" + run.request.run() +
                                    "/n1/checkpoints");
    };
    const auto full = checkpoints();
    const std::int64_t newest = full.empty() ? 0 : full.back().first;
    QVERIFY(eventually([&] {
      const auto now = checkpoints();
      return !now.empty() && now.back().first > newest;
    }));
    node::v1::KillRequest kill;
    kill.set_run(run.request.run());
    kill.set_generation(1);
    node::v1::KillReply killed;
    QVERIFY(run.supervisor->Kill(deadline().get(), kill, &killed).ok());
    QVERIFY(run.records->waitFinished());
    QVERIFY(run.noneLeft());
    // Given up, the run takes its supervisor with it, and the space it held is free.
    node::v1::RemoveRunRequest remove;
    remove.set_run(run.request.run());
    node::v1::RemoveRunReply removed;
    const grpc::Status status = node.agent().RemoveRun(deadline().get(), remove, &removed);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QVERIFY(eventually([&] { return processesOfRun(run.request.run()).empty(); }));
    QVERIFY(!std::filesystem::exists(node.workdir() + "/runs/" + run.request.run()));
  }

  void measuresAndBenches() {
    Node node("n1");
    node.start();
    const auto request = prepareRequest({.run = newRunId(), .ranks = 2});
    node::v1::MeasureRequest ask;
    ask.set_plan(request.plan());
    ask.set_ranks(2);
    ask.set_backend("reference");
    ask.set_comm("shm");
    ask.set_seconds(1);
    node::v1::MeasureReply measured;
    grpc::Status status = node.agent().Measure(deadline(60).get(), ask, &measured);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QVERIFY(measured.steps_size() > 5);
    for (const auto& step : measured.steps())
      QVERIFY(step.seconds() > 0 && !step.signature().empty());
    QVERIFY(measured.collectives_size() >= 1);
    QCOMPARE(measured.collectives(0).ranks(), 2);
    QVERIFY(measured.step_overhead_seconds() > 0);

    node::v1::BenchRequest race;
    *race.mutable_spec() = request.spec();
    race.set_plan(request.plan());
    race.set_ranks(2);
    race.set_seconds(1.5);
    race.set_comm("shm");
    node::v1::BenchReply benched;
    status = node.agent().Bench(deadline(90).get(), race, &benched);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QVERIFY(benched.samples_per_second() > 0);
    QVERIFY(benched.windows_size() >= 2);
    QVERIFY(benched.ops_size() > 5);

    const auto refused = [&](std::int64_t least, std::int64_t most, int ranks,
                             const char* algorithm) {
      node::v1::BenchRequest exchange;
      exchange.set_ranks(ranks);
      exchange.set_seconds(0.1);
      exchange.mutable_collectives()->add_kinds("all-reduce");
      exchange.mutable_collectives()->set_min_bytes(least);
      exchange.mutable_collectives()->set_max_bytes(most);
      exchange.mutable_collectives()->set_algorithm(algorithm);
      return node.agent().Bench(deadline(90).get(), exchange, &benched);
    };
    QCOMPARE(refused(0, 64, 2, "").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    QCOMPARE(refused(64, 64, 1, "").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    QCOMPARE(refused(64, 64, 2, "rings").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    const grpc::Status large = refused(64, std::int64_t{1} << 50, 2, "");
    QCOMPARE(large.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    QVERIFY2(refused(64, 64, 2, "ring").ok(), "a benchmark of what there is");
  }

  // By an answer; a client that then never ends its requests is cut off.
  void ranksOfABenchmarkAreRefused() {
    Node node("n1");
    node.start();
    const auto refused = [&](int rank, int world, bool ends) {
      node::v1::BenchTogetherRequest request;
      auto& start = *request.mutable_start();
      start.set_id("bench");
      start.set_rank(rank);
      start.set_world(world);
      start.mutable_collectives()->add_kinds("all-reduce");
      start.mutable_collectives()->set_min_bytes(64);
      start.mutable_collectives()->set_max_bytes(64);
      const auto context = deadline(60);
      const auto stream = node.agent().BenchTogether(context.get());
      node::v1::BenchTogetherReply reply;
      const bool answered = stream->Write(request) && stream->Read(&reply) && reply.has_failed();
      if (ends) stream->WritesDone();
      const bool more = stream->Read(&reply);
      return answered && !more ? stream->Finish().error_code() : grpc::StatusCode::UNKNOWN;
    };
    QCOMPARE(refused(2, 2, true), grpc::StatusCode::OK);
    QCOMPARE(refused(0, 1, true), grpc::StatusCode::OK);
    QCOMPARE(refused(0, 1 << 30, true), grpc::StatusCode::OK);
    QCOMPARE(refused(2, 2, false), grpc::StatusCode::CANCELLED);
  }

  // Each on one of its own where there are enough that no other run holds; what helps it runs on
  // any.
  void ranksComputeOnCoresOfTheirOwn() {
    Node node("n1");
    node.start();
    Run run(node, {.run = newRunId(), .ranks = 2, .maxSteps = kEndless});
    QVERIFY(run.commit().ok());
    QVERIFY(run.underWay());
    const auto coresOf = [](const std::string& task) {
      const auto text = readFile("/proc/" + task + "/status", 65536);
      const std::string key = "Cpus_allowed_list:\t";
      const std::size_t at = text.ok() ? text->find(key) : std::string::npos;
      if (at == std::string::npos) return std::string();
      return text->substr(at + key.size(), text->find('\n', at) - at - key.size());
    };
    const std::string any = coresOf("self");
    std::set<std::string> cores;
    for (int rank = 0; rank < 2; ++rank) {
      const std::string told = "rank " + std::to_string(rank) + " computes on ";
      std::string where;
      QVERIFY(run.records->waitFor([&](const run::v1::Record& record) {
        for (const std::string& line : record.log().lines())
          if (const auto at = line.find(told); at != std::string::npos)
            where = line.substr(at + told.size());
        return !where.empty();
      }));
      const std::string worker = std::to_string(run.records->pidOf(rank));
      const std::string own = coresOf(worker);
      if (where.starts_with("core ")) {
        QCOMPARE(own, where.substr(5));
        cores.insert(own);
        for (const auto& task : std::filesystem::directory_iterator("/proc/" + worker + "/task"))
          if (const std::string id = task.path().filename(); id != worker)
            QCOMPARE(coresOf(worker + "/task/" + id), any);
      } else {  // one core, a quota, or another run holds what there is
        QVERIFY2(where.starts_with("any core: ") && where.size() > 10, where.c_str());
        QCOMPARE(own, any);
      }
    }
    QVERIFY(cores.empty() || cores.size() == 2);
    node::v1::KillRequest kill;
    kill.set_run(run.request.run());
    kill.set_generation(1);
    node::v1::KillReply killed;
    QVERIFY(run.supervisor->Kill(deadline().get(), kill, &killed).ok());
    QVERIFY(run.records->waitFinished());
  }

  // A worker that is measured alone hears no stop from its servers, and a server has no part in
  // what workers reduce.
  void measuresServers() {
    Node node("n1");
    node.start();
    node::v1::MeasureRequest ask;
    ask.set_plan(
        prepareRequest({.run = newRunId(), .ranks = 3, .strategy = "parameter-server"}).plan());
    ask.set_ranks(3);
    ask.set_backend("reference");
    ask.set_comm("shm");
    ask.set_seconds(1);
    node::v1::MeasureReply measured;
    const grpc::Status status = node.agent().Measure(deadline(60).get(), ask, &measured);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QVERIFY(measured.collectives_size() >= 1);
    for (const auto& collective : measured.collectives()) {
      QCOMPARE(collective.ranks(), 2);
      QVERIFY(collective.seconds() > 0);
    }
    QVERIFY(measured.step_overhead_seconds() > 0);
    QVERIFY(measured.step_seconds() > 0);
  }
};

QTEST_GUILESS_MAIN(AgentRunTest)
#include "agent_run_test.moc"
