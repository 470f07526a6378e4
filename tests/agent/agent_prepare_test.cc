// Preparations that take long: their progress, and what becomes of them when clients go.
#include <grpcpp/grpcpp.h>
#include <sys/mount.h>
#include <unistd.h>

#include <QFile>
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/base/file.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"
#include "tests/agent/agent_node.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using node::v1::DataProgress;

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A file of zeros after `head`, which takes no space on the disk.
void makeSparse(const std::string& path, const std::string& head, std::int64_t bytes) {
  std::ofstream(path, std::ios::binary) << head;
  fs::resize_file(path, static_cast<std::uintmax_t>(bytes));
}

// Bytes that the agent has read from files so far.
std::int64_t bytesRead(const Node& node) {
  const std::string text = readFile(fmt::format("/proc/{}/io", node.pid()), 4096).value();
  return std::atoll(text.c_str() + text.find("rchar:") + 6);
}

// Waits until the agent reads no more data; false: it still does.
bool stopsReading(const Node& node) {
  std::int64_t before = bytesRead(node);
  for (const auto begin = Clock::now(); secondsSince(begin) < 4;) {
    QTest::qWait(100);
    const std::int64_t now = bytesRead(node);
    if (now - before < (1 << 20)) return true;
    before = now;
  }
  return false;
}

std::size_t filesBelow(const std::string& folder) {
  std::error_code none;
  std::size_t out = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder, none))
    out += entry.is_regular_file() ? 1 : 0;
  return out;
}

// A run on `images` pictures of zeros: 784 bytes each to decode.
node::v1::PrepareRequest longPreparation(const Node& node, std::int64_t images) {
  std::string count(4, '\0');
  for (int i = 0; i < 4; ++i)
    count[3 - static_cast<std::size_t>(i)] = static_cast<char>(images >> (8 * i));
  const std::string side("\0\0\0\34", 4), own = node.workdir() + "/images";
  makeSparse(own, std::string("\0\0\10\3", 4) + count + side + side, 16 + images * 784);
  makeSparse(own + "-labels", std::string("\0\0\10\1", 4) + count, 8 + images);
  auto request = prepareRequest({.run = newRunId()});
  (*request.mutable_data_paths())["train.images"] = own;
  (*request.mutable_data_paths())["train.labels"] = own + "-labels";
  return request;
}

// A Prepare on a thread.
struct Waiting {
  Waiting(Node& node, const node::v1::PrepareRequest& request) {
    thread = std::jthread([this, &node, request] {
      status = prepare(node.agent(), request, &reply, {120, [this](const DataProgress& progress) {
                                                         if (progress.bytes_done() > 0)
                                                           counted = true;
                                                         return !leave;
                                                       }});
      over = true;
    });
  }
  std::atomic<bool> leave = false, counted = false, over = false;
  grpc::Status status;
  node::v1::PrepareReply reply;
  std::jthread thread;
};

}  // namespace

class AgentPrepareTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void lookingForALargeFileTellsHowFarItIs() {
    Node node("n1");
    node.start();
    const std::string path = node.workdir() + "/large";
    const std::int64_t bytes = std::int64_t{64} << 30;
    makeSparse(path, "", bytes);
    node::v1::FindFileRequest request;
    request.set_sha256(std::string(64, '0'));
    request.set_path(path);
    node::v1::FindFileReply reply;
    std::vector<DataProgress> told;
    auto last = Clock::now();
    double longest = 0;
    const auto take = [&](const DataProgress& progress) {
      longest = std::max(longest, secondsSince(last));
      last = Clock::now();
      told.push_back(progress);
      return told.size() < 5;
    };
    const grpc::Status status = findFile(node.agent(), request, &reply, {60, take});
    QCOMPARE(status.error_code(), grpc::StatusCode::CANCELLED);
    QVERIFY(stopsReading(node));
    QVERIFY2(longest < 10, qPrintable(QString::number(longest)));  // 0.5, on an idle machine
    QCOMPARE(told.size(), std::size_t{5});
    for (std::size_t i = 0; i < told.size(); ++i) {
      QCOMPARE(told[i].activity(), DataProgress::HASHING);
      QCOMPARE(told[i].file(), path);
      QCOMPARE(told[i].bytes_total(), bytes);
      QVERIFY(told[i].bytes_done() > (i == 0 ? 0 : told[i - 1].bytes_done()));
    }
  }

  // All clients of a preparation go: it ends, and nothing stays of it.
  void aPreparationThatNobodyAwaitsEnds() {
    Node node("n1");
    node.start();
    const auto request = longPreparation(node, 5'000'000);
    Waiting first(node, request), second(node, request);
    QVERIFY(eventually([&] { return first.counted && second.counted; }));
    first.leave = true;
    QVERIFY(eventually([&] { return first.over.load(); }));
    QCOMPARE(first.status.error_code(), grpc::StatusCode::CANCELLED);
    const std::int64_t before = bytesRead(node);
    QVERIFY(eventually([&] { return bytesRead(node) > before + (std::int64_t{64} << 20); }));
    second.leave = true;
    QVERIFY(eventually([&] { return second.over.load(); }));
    QVERIFY(stopsReading(node));
    QVERIFY(eventually([&] { return filesBelow(node.workdir() + "/decoded") == 0; }));
    QVERIFY(!fs::exists(node.workdir() + "/runs/" + request.run()));
    QVERIFY(processesOfRun(request.run()).empty());
  }

  // One of two clients goes: the other has its answer.
  void aPreparationGoesOnForOneClient() {
    Node node("n1");
    node.start();
    const auto request = longPreparation(node, 1'500'000);
    Waiting first(node, request), second(node, request);
    QVERIFY(eventually([&] { return first.counted || second.over; }));
    QVERIFY(!second.over);
    first.leave = true;
    QVERIFY(eventually([&] { return second.over.load(); }, 60));
    QVERIFY2(second.status.ok(), second.status.error_message().c_str());
    QCOMPARE(second.reply.data_hashes_size(), 4);
    QVERIFY(!second.reply.socket().empty());
  }

  // What is only checked starts nothing; what was checked need not be read again.
  void aCheckStartsNothing() {
    Node node("n1");
    node.start();
    auto request = prepareRequest({.run = newRunId()});
    request.set_check_only(true);
    node::v1::PrepareReply checked, prepared;
    grpc::Status status = prepare(node.agent(), request, &checked);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QCOMPARE(checked.data_hashes_size(), 4);
    QVERIFY(checked.socket().empty());
    QVERIFY(!fs::exists(node.workdir() + "/runs/" + request.run()));
    QVERIFY(processesOfRun(request.run()).empty());
    request.set_check_only(false);
    const std::int64_t before = bytesRead(node);
    status = prepare(node.agent(), request, &prepared);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QVERIFY(bytesRead(node) - before < (8 << 20));
    QVERIFY(!prepared.socket().empty());
    for (const auto& [name, hash] : checked.data_hashes())
      QCOMPARE(prepared.data_hashes().at(name), hash);
    request.set_check_only(true);
    (*request.mutable_data_paths())["train.images"] = "/no/such/images.gz";
    QCOMPARE(prepare(node.agent(), request, &checked).error_code(), grpc::StatusCode::NOT_FOUND);
  }

  // In the workdir, or in the folder that the run names, which need not be there yet.
  void checkpointsNeedRoomWhereTheyGo() {
    if (geteuid() != 0) QSKIP("mounting a small tmpfs needs root");
    Node node("n1");
    const std::string small = node.workdir();
    if (mount("lockstep-test", small.c_str(), "tmpfs", 0, "size=150m") != 0)
      QSKIP("a tmpfs cannot be mounted here");
    const auto away = qScopeGuard([&] { umount2(small.c_str(), MNT_DETACH); });
    node.start();
    const QTemporaryDir large;
    // Three of 60 MiB.
    auto request = prepareRequest({.run = newRunId(), .ranks = 1, .hidden = 20000});
    request.set_check_only(true);
    const auto problem = [&](const std::string& path) {
      request.mutable_spec()->mutable_training()->mutable_checkpoint()->set_path(path);
      node::v1::PrepareReply reply;
      return prepare(node.agent(), request, &reply).error_message();
    };
    const std::string none = "no space for the run in " + small;
    QVERIFY2(problem("").find(none + ": ") != std::string::npos, problem("").c_str());
    QCOMPARE(problem(large.path().toStdString() + "/of/runs"), std::string());
    const std::string there = problem(small + "/of/runs");
    QVERIFY2(there.find(none + "/of/runs: ") != std::string::npos, there.c_str());
  }

  // A path that the system refuses to look at ends the preparation, not the agent.
  void aPathThatCannotBeIsNotTheCode() {
    Node node("n1");
    node.start();
    auto request = prepareRequest({.run = newRunId(), .ranks = 1});
    request.mutable_spec()->Clear();
    request.mutable_spec()->mutable_workload()->add_command("true");
    must(specs::checkAndFill(*request.mutable_spec()));
    (*request.mutable_data_paths())[std::string(specs::kCodeFile)] = "/" + std::string(300, 'x');
    node::v1::PrepareReply reply;
    for (int times = 0; times < 2; ++times)
      QCOMPARE(prepare(node.agent(), request, &reply).error_code(), grpc::StatusCode::NOT_FOUND);
  }
};

QTEST_GUILESS_MAIN(AgentPrepareTest)
#include "agent_prepare_test.moc"
