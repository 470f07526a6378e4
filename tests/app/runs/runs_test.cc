// A run from the launch to its history, on local agents.
#include <signal.h>
#include <sys/stat.h>

#include <QDirIterator>
#include <QElapsedTimer>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>
#include <set>

#include "app/cluster/cluster_session.h"
#include "app/history/history.h"
#include "app/runs/launcher.h"
#include "app/runs/recorder.h"
#include "app/specs/spec_text.h"
#include "engine/base/file.h"
#include "lockstep/spec/v1/spec.pb.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr int kLimitMs = 90000;

// What is needed of the application, on a home of its own.
struct Bench {
  QTemporaryDir folder;
  Home home{folder.path().toStdString()};
  Inbox inbox;
  ClusterSpecFile cluster;
  std::unique_ptr<ClusterSession> session;
  std::vector<int> agents;

  explicit Bench(int nodes, const std::string& comm = {})
      : cluster(localCluster(nodes, home.root + "/local", comm)) {
    open();
  }
  ~Bench() {
    session.reset();
    // Supervisors stay for a while for late readers; their pids are in the runs' folders.
    std::vector<int> pids = agents;
    QDirIterator files(folder.path(), {"supervisor"}, QDir::Files, QDirIterator::Subdirectories);
    while (files.hasNext()) {
      QFile file(files.next());
      if (!file.open(QIODevice::ReadOnly)) continue;
      if (const int pid = file.readLine().trimmed().toInt(); pid > 0) pids.push_back(pid);
    }
    for (const int pid : pids) ::kill(pid, SIGTERM);
    QElapsedTimer timer;
    timer.start();
    for (const int pid : pids) {
      while (::kill(pid, 0) == 0 && timer.elapsed() < 20000) QTest::qWait(10);
      ::kill(pid, SIGKILL);
    }
  }
  void open() {
    ClusterSessionOptions options;
    options.home = home;
    options.ask = false;
    session = std::make_unique<ClusterSession>(cluster.spec, options, inbox);
  }

  template <typename Done>
  bool until(Done done, int limitMs = kLimitMs) {
    QElapsedTimer timer;
    timer.start();
    while (!done()) {
      if (timer.elapsed() > limitMs) return false;
      inbox.wait(std::chrono::milliseconds(50));
      inbox.drain();
      for (int i = 0; i < session->size(); ++i) {
        const int pid = session->status(i).inventory.agentPid;
        if (pid > 0 && std::find(agents.begin(), agents.end(), pid) == agents.end()) {
          agents.push_back(pid);
        }
      }
    }
    return true;
  }

  Result<std::string> launch(const std::vector<std::string>& sets) {
    auto spec = loadRunSpec(LOCKSTEP_SOURCE_DIR "/resources/examples/fashion-mlp.yaml", sets);
    if (!spec.ok()) return spec.error();
    LaunchRequest request;
    request.spec = spec->spec;
    request.cluster = cluster.spec;
    request.specYaml = spec->yaml;
    request.clusterYaml = cluster.yaml;
    request.measure = false;
    std::optional<Result<std::string>> outcome;
    Launch launch(request, *session, home, inbox,
                  {{}, [&](Result<std::string> result) { outcome = std::move(result); }});
    if (!until([&] { return outcome.has_value(); })) {
      return makeError(Code::kDeadlineExceeded, "the launch did not end");
    }
    return *outcome;
  }
};

struct Seen {
  std::vector<double> loss;
  std::vector<EpochRow> epochs;
  std::vector<Error> errors;
  bool started = false, finished = false;
  bool toldEarly = false;   // a final phase before the last update, or anything after it
  RunRow row;
  RunObserver observer() {
    return [this](const RunUpdate& update) {
      started = started || update.started;
      for (const auto& series : update.series) {
        if (series.name != "loss") continue;
        for (const auto& point : series.points) loss.push_back(point.x);
      }
      epochs.insert(epochs.end(), update.epochs.begin(), update.epochs.end());
      errors.insert(errors.end(), update.errors.begin(), update.errors.end());
      if (update.row) row = *update.row;
      toldEarly = toldEarly || finished || (!update.finished && isFinal(row.phase));
      finished = finished || update.finished;
    };
  }
};

bool consecutive(const std::vector<double>& steps, std::size_t count) {
  if (steps.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (steps[i] != static_cast<double>(i + 1)) return false;
  }
  return true;
}

}  // namespace

class RunsTest : public QObject {
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

  void runsAndIsKept_data() {
    QTest::addColumn<int>("nodes");
    QTest::addColumn<QString>("comm");
    QTest::newRow("three nodes") << 3 << "";
    QTest::newRow("three ranks of one node") << 3 << "shm";
  }
  void runsAndIsKept() {
    QFETCH(int, nodes);
    QFETCH(QString, comm);
    Bench bench(nodes, comm.toStdString());
    const auto run = bench.launch({"training.max_steps=40", "training.batch=48"});
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    Seen seen;
    {
      Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
      QVERIFY(bench.until([&] { return seen.finished; }));
      QVERIFY(!seen.toldEarly);
    }
    QVERIFY2(seen.errors.empty(), seen.errors.empty() ? "" : seen.errors[0].text().c_str());
    QVERIFY(seen.started);
    QVERIFY(consecutive(seen.loss, 40));
    QCOMPARE(seen.row.phase, RunPhase::kSucceeded);
    QCOMPARE(seen.row.figures.steps, std::int64_t{40});
    QCOMPARE(seen.row.figures.weightsSha256.size(), std::size_t{64});

    auto history = History::open(bench.home.historyFolder());
    QVERIFY(history.ok());
    const auto row = (*history)->find("last");
    QVERIFY(row.ok());
    QCOMPARE(row->run, *run);
    QCOMPARE(row->world, nodes);
    QVERIFY(row->predictedStepSeconds > 0);
    QVERIFY(!row->modelFile.empty());
    struct stat model {};
    QCOMPARE(::stat(row->modelFile.c_str(), &model), 0);
    auto store = (*history)->openRun(*run);
    QVERIFY(store.ok());
    std::set<std::string> names;
    for (const auto& info : (*store)->series()) names.insert(info.name);
    for (int rank = 0; rank < nodes; ++rank) {
      for (const char* part : {"step", "data", "forward", "backward", "optimizer"}) {
        const std::string name = fmt::format("rank/{}/{}", rank, part);
        QVERIFY2(names.contains(name),
                 fmt::format("{} is not among {}", name, fmt::join(names, " ")).c_str());
      }
    }
    QVERIFY((*history)->csv(*run).ok());
    store = makeError(Code::kCancelled, "closed");
    QVERIFY((*history)->remove(*run).ok());
    QVERIFY(!(*history)->row(*run).ok());
  }

  // The studio dies in the middle: another one fills in what it missed.
  void aLaterRecorderCompletesTheCurves() {
    Bench bench(2);
    const auto run = bench.launch({"training.max_steps=1500", "training.batch=48"});
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    {
      Seen seen;
      Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
      QVERIFY(bench.until([&] { return seen.loss.size() > 20 || seen.finished; }));
    }
    bench.session.reset();
    bench.open();
    bench.session->connect();
    Seen seen;
    Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
    QVERIFY(bench.until([&] { return seen.finished; }));
    QCOMPARE(seen.row.phase, RunPhase::kSucceeded);
    auto history = History::open(bench.home.historyFolder());
    auto store = (*history)->openRun(*run);
    QVERIFY(store.ok());
    const auto points = (*store)->readAll("loss");
    QVERIFY(points.ok());
    std::vector<double> steps;
    for (const auto& point : *points) steps.push_back(point.x);
    QVERIFY(consecutive(steps, 1500));
  }

  void stopAndKill_data() {
    QTest::addColumn<bool>("kill");
    QTest::newRow("stop") << false;
    QTest::newRow("kill") << true;
  }
  void stopAndKill() {
    QFETCH(bool, kill);
    Bench bench(2);
    const auto run = bench.launch({"training.epochs=1000", "training.batch=48"});
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    Seen seen;
    Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
    QVERIFY(bench.until([&] { return seen.loss.size() > 5; }));
    std::optional<Status> told;
    const auto done = [&](Status status) { told = std::move(status); };
    kill ? recorder.kill(done) : recorder.stop(done);
    QVERIFY(bench.until([&] { return told.has_value() && seen.finished; }));
    QVERIFY2(told->ok(), told->ok() ? "" : told->error().text().c_str());
    QVERIFY(isFinal(seen.row.phase));
    if (!kill) QCOMPARE(seen.row.phase, RunPhase::kStopped);
  }

  // Wrong data on a node: named before anything starts, and nothing of the run stays.
  void missingDataIsToldBeforehand() {
    Bench bench(2);
    const auto run = bench.launch({"training.max_steps=5", "data.train.images=/nowhere/images.gz"});
    QVERIFY(!run.ok());
    QVERIFY(QString::fromStdString(run.error().text()).contains("/nowhere/images.gz"));
    QVERIFY2(run.error().node.rfind("local", 0) == 0, run.error().text().c_str());
    QVERIFY(!run.error().next.empty());
  }
};

QTEST_GUILESS_MAIN(RunsTest)
#include "runs_test.moc"
