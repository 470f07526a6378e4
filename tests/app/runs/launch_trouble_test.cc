// Launches and recordings in trouble: nodes that do not answer, answers that are lost, a history
// that cannot be written.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <QScopeGuard>
#include <QTest>
#include <atomic>
#include <filesystem>
#include <thread>

#include "engine/base/file.h"
#include "engine/storage/database.h"
#include "tests/app/runs/runs_bench.h"
#include "tests/support/run_file.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::test;

namespace {

namespace fs = std::filesystem;

// Stands in for a server at its unix socket: passes on what one client asks, and no answer from its
// first request on. Once `begun` holds, the connection is cut and the server is at its place again.
class LostAnswer {
 public:
  LostAnswer(std::string path, std::function<bool()> begun)
      : path_(std::move(path)), aside_(path_ + ".r"), begun_(std::move(begun)) {
    fs::rename(path_, aside_);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = addressOf(path_);
    if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener_, 4) != 0)
      qFatal("cannot listen at %s", path_.c_str());
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }
  bool lost() const { return lost_; }

 private:
  static sockaddr_un addressOf(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
  }
  static bool readable(int fd) {
    pollfd one{fd, POLLIN, 0};
    return poll(&one, 1, 20) > 0;
  }
  void serve(const std::stop_token& stop) {
    while (!stop.stop_requested() && !readable(listener_)) {
    }
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = addressOf(aside_);
    if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      qFatal("cannot connect to %s", aside_.c_str());
    char buffer[65536];
    while (!stop.stop_requested() && !(asked() && begun_())) {
      if (readable(client)) {
        const ssize_t count = read(client, buffer, sizeof buffer);
        if (count <= 0) break;
        sent_.append(buffer, static_cast<std::size_t>(count));
        if (write(server, buffer, static_cast<std::size_t>(count)) != count) break;
      }
      if (!asked() && readable(server)) {
        const ssize_t count = read(server, buffer, sizeof buffer);
        if (count <= 0 || write(client, buffer, static_cast<std::size_t>(count)) != count) break;
      }
    }
    lost_ = asked() && begun_();
    fs::rename(aside_, path_);
    for (const int fd : {client, server, listener_}) close(fd);
  }
  // HTTP/2 (RFC 9113): after the preface of 24 bytes, frames of a length in three bytes, a type and
  // five bytes more; a request begins with HEADERS, type 1.
  bool asked() const {
    for (std::size_t at = 24; at + 9 <= sent_.size();) {
      const auto byte = [&](std::size_t i) {
        return std::size_t{static_cast<unsigned char>(sent_[at + i])};
      };
      if (byte(3) == 1) return true;
      at += 9 + (byte(0) << 16 | byte(1) << 8 | byte(2));
    }
    return false;
  }

  const std::string path_, aside_;
  const std::function<bool()> begun_;
  int listener_ = -1;
  std::string sent_;
  std::atomic<bool> lost_{false};
  std::jthread thread_;
};

// Connections at a unix socket, those included that its server has not accepted.
int connectionsTo(const std::string& path) {
  const std::string table = readFile("/proc/net/unix").value();
  int found = 0;
  for (std::size_t at = table.find(path); at != std::string::npos; at = table.find(path, at + 1))
    ++found;
  return found;
}

// A launch of two nodes, the agent of the second stopped: from its beginning on, or once the first
// node is being prepared, which it is before the second.
struct HalfFrozen {
  enum class When : std::uint8_t { kAtOnce, kAsTheFirstIsPrepared };
  Bench bench{2};
  std::vector<std::string> progress;
  std::optional<Result<std::string>> outcome;
  std::unique_ptr<Launch> launch;
  int frozen = -1;
  std::jthread freezer;

  bool begin(When when = When::kAtOnce) {
    bench.session->connect();
    if (!bench.until([&] { return bench.session->allConnected(); })) return false;
    const auto request = bench.request({"training.epochs=1000", "training.batch=48"});
    if (!request.ok()) return false;
    frozen = bench.session->status(1).inventory.agentPid;
    if (when == When::kAtOnce) {
      ::kill(frozen, SIGSTOP);
    } else {
      const std::string runs = bench.session->status(0).inventory.workdir + "/runs";
      freezer = std::jthread([runs, pid = frozen](const std::stop_token& stop) {
        std::error_code none;
        while (!stop.stop_requested() &&
               fs::directory_iterator(runs, none) == fs::directory_iterator())
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ::kill(pid, SIGSTOP);
      });
    }
    launch = std::make_unique<Launch>(
        *request, *bench.session, bench.home, bench.inbox,
        LaunchObserver{[this](const LaunchProgress& told) { progress.push_back(told.text()); },
                       [this](Result<std::string> done) { outcome = std::move(done); }});
    return true;
  }
  bool awaitsTheSecondOnly() const {
    return !progress.empty() &&
           progress.back().find("waiting for local2 since") != std::string::npos;
  }
  std::string folder(int node) const {
    const std::string name = "local" + std::to_string(node);
    return bench.session->status(node - 1).inventory.workdir + "/runs/" + launch->run() + "/" +
           name;
  }
  RunRow row() const { return *(*History::open(bench.home.historyFolder()))->row(launch->run()); }
  ~HalfFrozen() {
    freezer = {};
    if (frozen > 0) ::kill(frozen, SIGCONT);
    launch.reset();
  }
};

}  // namespace

class LaunchTroubleTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    struct stat there {};
    const std::string agent =
        qEnvironmentVariable("LOCKSTEP_BIN").toStdString() + "/lockstep-agent";
    if (::stat(agent.c_str(), &there) != 0) QSKIP("there is no lockstep-agent in $LOCKSTEP_BIN");
    if (::stat("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz", &there) != 0) {
      QSKIP("dataset-fashion-mnist is not installed");
    }
  }

  // The node awaited is named while it is awaited, and a cancel does not wait for it.
  void aLaunchIsCancelledWhileANodeDoesNotAnswer() {
    HalfFrozen half;
    QVERIFY(half.begin());
    QVERIFY2(half.bench.until([&] { return half.awaitsTheSecondOnly() || half.outcome; }, 60000),
             half.progress.empty() ? "nothing told" : half.progress.back().c_str());
    QVERIFY(!half.outcome);
    QCOMPARE(half.row().phase, RunState::LAUNCHING);
    half.launch->cancel();
    QVERIFY(half.bench.until([&] { return half.outcome.has_value(); }, 8000));
    QVERIFY(!half.outcome->ok());
    QCOMPARE(half.outcome->error().code, Code::kCancelled);
    QCOMPARE(half.row().phase, RunState::STOPPED);
    QVERIFY(!fs::exists(half.folder(1)));
  }

  void aNodeThatDoesNotAnswerIsNamed() {
    HalfFrozen half;
    QVERIFY(half.begin());
    QVERIFY(half.bench.until([&] { return half.outcome.has_value(); }, 60000));
    QVERIFY(!half.outcome->ok());
    const Error& error = half.outcome->error();
    QCOMPARE(error.node, std::string("local2"));
    QVERIFY2(!error.next.empty(), error.text().c_str());
    QCOMPARE(half.row().phase, RunState::FAILED);
    QVERIFY(!fs::exists(half.folder(1)));
  }

  // The run began, but the client was told otherwise: it is ended, and told as failed.
  void aCommitWhoseAnswerIsLostLeavesNoRun() {
    HalfFrozen half;
    QVERIFY(half.begin(HalfFrozen::When::kAsTheFirstIsPrepared));
    QVERIFY(half.bench.until([&] { return half.awaitsTheSecondOnly() || half.outcome; }, 60000));
    QVERIFY(!half.outcome);
    const std::string folder = half.folder(1);
    const auto state = [folder]() -> std::string {  // its first line; "" once the folder has gone
      const auto text = readFile(folder + "/state", 100);
      return text.ok() ? text->substr(0, text->find('\n')) : "";
    };
    const auto supervisor = readFile(folder + "/supervisor", 4096);
    QVERIFY(supervisor.ok());
    const std::string socket =
        QString::fromStdString(*supervisor).split('\n').value(1).toStdString();
    LostAnswer between(socket, [state] { return state() == "RUNNING"; });
    ::kill(half.frozen, SIGCONT);
    QVERIFY(half.bench.until([&] { return half.outcome.has_value(); }, 45000));
    QVERIFY(between.lost());
    QVERIFY2(!half.outcome->ok(), half.outcome->ok() ? (*half.outcome)->c_str() : "");
    QVERIFY2(half.row().phase == RunState::FAILED, half.outcome->error().text().c_str());
    QVERIFY(half.bench.until([&] { return state().empty() || state() == "STOPPED"; }, 60000));
  }

  // What was prepared expired before it was committed: it did not begin, and is told so.
  void aRunThatExpiredBeforeItsCommitHasFailed() {
    HalfFrozen half;
    QVERIFY(half.begin(HalfFrozen::When::kAsTheFirstIsPrepared));
    QVERIFY(half.bench.until([&] { return half.awaitsTheSecondOnly() || half.outcome; }, 60000));
    QVERIFY(!half.outcome);
    const auto supervisor = readFile(half.folder(1) + "/supervisor", 4096);
    QVERIFY(supervisor.ok());
    const int pid = QString::fromStdString(*supervisor).split('\n').value(0).toInt();
    QVERIFY(pid > 1);
    ::kill(pid, SIGTERM);  // gives up what is not committed, as its time limit does
    QVERIFY(half.bench.until([&] { return !fs::exists(half.folder(1)); }, 60000));
    ::kill(half.frozen, SIGCONT);
    QVERIFY(half.bench.until([&] { return half.outcome.has_value(); }, 60000));
    QVERIFY(!half.outcome->ok());
    QVERIFY2(half.outcome->error().text().find("whether run") == std::string::npos,
             half.outcome->error().text().c_str());
    QCOMPARE(half.row().phase, RunState::FAILED);
  }

  // Cancelled while its coordinator does not answer: that is said, and the run stays findable.
  void aCancelWithoutAnAnswerSaysSo() {
    HalfFrozen half;
    QVERIFY(half.begin(HalfFrozen::When::kAsTheFirstIsPrepared));
    QVERIFY(half.bench.until([&] { return half.awaitsTheSecondOnly() || half.outcome; }, 60000));
    QVERIFY(!half.outcome);
    const auto supervisor = readFile(half.folder(1) + "/supervisor", 4096);
    QVERIFY(supervisor.ok());
    const int pid = QString::fromStdString(*supervisor).split('\n').value(0).toInt();
    QVERIFY(pid > 1);
    ::kill(pid, SIGSTOP);
    const auto thaw = qScopeGuard([pid] { ::kill(pid, SIGCONT); });
    ::kill(half.frozen, SIGCONT);
    const auto commits = [&] { return half.progress.back().starts_with("starting"); };
    QVERIFY(half.bench.until([&] { return commits() || half.outcome; }, 60000));
    QVERIFY(!half.outcome);
    half.launch->cancel();
    QVERIFY(half.bench.until([&] { return half.outcome.has_value(); }, 60000));
    QVERIFY(!half.outcome->ok());
    const Error& error = half.outcome->error();
    QVERIFY2(error.code == Code::kUnavailable, error.text().c_str());
    QVERIFY2(error.text().find("lockstep kill " + half.launch->run()) != std::string::npos,
             error.text().c_str());
    QCOMPARE(half.row().phase, RunState::LAUNCHING);
  }

  // A supervisor that is found and does not live to answer: what was asked of it is asked of the
  // one that takes its place, and its run is told to its end.
  void aSupervisorThatIsReplacedIsSpokenToAgain() {
    Bench bench(1);
    const auto run = bench.launch({"training.epochs=1000", "training.batch=48"});
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    Seen seen;
    Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
    QVERIFY(bench.until([&] { return seen.loss.size() > 5; }));
    const auto supervisor = readFile(
        bench.session->status(0).inventory.workdir + "/runs/" + *run + "/local1/supervisor", 4096);
    QVERIFY(supervisor.ok());
    const QStringList lines = QString::fromStdString(*supervisor).split('\n');
    const int pid = lines.value(0).toInt();
    QVERIFY(pid > 1);
    ::kill(pid, SIGSTOP);
    const std::string socket = lines.value(1).toStdString();
    const int before = connectionsTo(socket);
    std::optional<Status> told;
    recorder.ask(RunRequest::kKill, [&](const Result<RunAnswer>& one) { told = one.status(); });
    QVERIFY(bench.until([&] { return connectionsTo(socket) > before; }));  // the agent has found it
    QVERIFY(!told);
    ::kill(pid, SIGKILL);
    QVERIFY(bench.until([&] { return told.has_value() && seen.finished; }, 60000));
    QVERIFY2(told->ok(), told->ok() ? "" : told->error().text().c_str());
    QCOMPARE(seen.row.phase, RunState::FAILED);
    QVERIFY2(seen.row.error.text().find("unexpectedly") != std::string::npos,
             seen.row.error.text().c_str());
  }

  // What the history cannot take is kept and written first, once it can.
  void curvesAreCompleteAfterTheHistoryWasLocked() {
    Bench bench(2);
    const auto run = bench.launch({"training.epochs=1000", "training.batch=48"});
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    Seen seen;
    Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
    QVERIFY(bench.until([&] { return seen.loss.size() > 5; }));
    std::size_t before = 0;
    {
      auto other = openRunFile(bench.home.historyFolder() + "/runs/" + *run + ".db");
      QVERIFY2(other.ok(), other.ok() ? "" : other.error().text().c_str());
      const storage::Transaction held(**other);
      QVERIFY2(held.status().ok(), held.status().ok() ? "" : held.status().error().text().c_str());
      QVERIFY(bench.until([&] { return !seen.errors.empty(); }, 60000));
      before = seen.loss.size();
    }
    QVERIFY(bench.until([&] { return seen.loss.size() > before + 20; }));
    recorder.ask(RunRequest::kStop);
    QVERIFY(bench.until([&] { return seen.finished; }));
    QCOMPARE(seen.errors.size(), std::size_t{1});  // told once
    auto history = History::open(bench.home.historyFolder());
    auto store = (*history)->openRun(*run);
    QVERIFY(store.ok());
    const auto points = (*store)->readAll("loss");
    QVERIFY(points.ok());
    std::vector<double> steps;
    for (const auto& point : *points) steps.push_back(point.x);
    QVERIFY(consecutive(steps, static_cast<std::size_t>(seen.row.figures.steps)));
    QCOMPARE((*history)->row(*run)->phase, RunState::STOPPED);
  }

  // However far behind a reader is, it is told every line another process records.
  void aReaderIsToldEveryLine() {
    Bench bench(1);
    auto history = History::open(bench.home.historyFolder());
    QVERIFY(history.ok());
    RunRow row;
    row.run = "r";
    row.phase = RunState::RUNNING;
    RunDocuments documents;
    documents.nodes = R"([{"node": "local1"}])";
    auto store = (*history)->begin(row, documents);
    QVERIFY(store.ok());
    RunBatch batch;
    constexpr int kLines = 25000;
    for (int i = 0; i < kLines; ++i) batch.logs.push_back({0, i, "local1", 0, std::to_string(i)});
    QVERIFY((*store)->append(batch).ok());
    std::vector<std::string> lines;
    bool finished = false;
    Recorder recorder("r", *bench.session, bench.home, bench.inbox, [&](const RunUpdate& update) {
      for (const LogRow& line : update.logs) lines.push_back(line.text);
      finished = finished || update.finished;
    });
    QVERIFY(bench.until([&] { return lines.size() >= kLines; }, 60000));
    row.phase = RunState::SUCCEEDED;
    QVERIFY((*history)->update(row).ok());
    QVERIFY(bench.until([&] { return finished; }, 60000));
    QCOMPARE(lines.size(), std::size_t{kLines});
    for (int i = 0; i < kLines; ++i)
      QCOMPARE(lines[static_cast<std::size_t>(i)], std::to_string(i));
    // so that its agent is ended
    QVERIFY(bench.until([&] { return bench.session->allConnected(); }));
  }
};

QTEST_GUILESS_MAIN(LaunchTroubleTest)
#include "launch_trouble_test.moc"
