// A run from the launch to its history, on local agents.
#include <sys/stat.h>

#include <QTest>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <set>

#include "app/cluster/node_access.h"
#include "app/runs/node_records.h"
#include "app/runs/relaunch.h"
#include "app/runs/run_nodes.h"
#include "engine/base/hash.h"
#include "engine/storage/database.h"
#include "tests/app/runs/runs_bench.h"
#include "tests/support/run_file.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::test;

namespace {

// A node that went away and does not come back.
struct LostNode final : NodeAccess {
  std::string own = "far";
  const std::string& name() const override { return own; }
  Result<NodeInventory> waitConnected(std::stop_token stop) override {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    wake.wait(lock, stop, [] { return false; });
    return makeError(Code::kCancelled, "connecting was cancelled");
  }
  Result<std::shared_ptr<grpc::Channel>> agent() override {
    return makeError(Code::kUnavailable, "away");
  }
  Result<std::shared_ptr<grpc::Channel>> supervisor(const std::string&) override { return agent(); }
  Result<std::string> forward(const std::string& socketOnNode) override { return socketOnNode; }
  void unforward(const std::string&) override {}
};

constexpr int kLongHistory = 1000;  // steps

// Waits until the run's node has so many steps, of which no recorder has heard.
bool hasSteps(Bench& bench, const std::string& run, int steps) {
  const auto history = History::open(bench.home.historyFolder());
  if (!history.ok()) return false;
  const auto documents = (*history)->documents(run);
  if (!documents.ok()) return false;
  const auto nodes = runNodes(documents->nodes, *bench.session);
  if (!nodes.ok()) return false;
  bool found = false;
  RecordSink sink;
  sink.reach = [](bool, const Message&) {};
  sink.record = [&](const run::v1::Record& record) {
    found = record.has_steps() && record.steps().first_step() > steps;
    return !found;
  };
  return readRecords(run, nodes->front(), 0, sink, {}).ok() && found;
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
    QCOMPARE(seen.row.phase, RunState::SUCCEEDED);
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

  // A communicator that was asked for beside the cluster is the run's when it is launched again.
  void theCommunicatorIsKept() {
    Bench bench(2, "shm");
    auto asked = bench.request({"training.max_steps=2", "training.batch=48"});
    QVERIFY(asked.ok());
    asked->comm = "gloo";
    const auto run = bench.launch(*asked);
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    Seen seen;
    Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
    QVERIFY(bench.until([&] { return seen.finished; }));
    QCOMPARE(seen.row.comm, std::string("gloo"));
    const auto history = History::open(bench.home.historyFolder());
    QVERIFY(history.ok());
    const auto again = relaunchOf(**history, *run, RelaunchKind::kRerun);
    QVERIFY(again.ok());
    const auto cluster = completeClusterSpec(again->clusterYaml, {});
    QVERIFY2(cluster.ok(), again->clusterYaml.c_str());
    QCOMPARE(cluster->spec->comm(), std::string("gloo"));
    QCOMPARE(cluster->spec->nodes_size(), 1);
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
    QCOMPARE(seen.row.phase, RunState::SUCCEEDED);
    auto history = History::open(bench.home.historyFolder());
    auto store = (*history)->openRun(*run);
    QVERIFY(store.ok());
    const auto points = (*store)->readAll("loss");
    QVERIFY(points.ok());
    std::vector<double> steps;
    for (const auto& point : *points) steps.push_back(point.x);
    QVERIFY(consecutive(steps, 1500));
  }

  // Also where many nodes are gone.
  void aModelIsNotAwaitedForever() {
    LostNode node;
    QTemporaryDir folder;
    std::vector<RunNode> nodes(100, {"nearer", &node});
    nodes.front().name = node.name();
    QElapsedTimer clock;
    clock.start();
    const auto model = downloadModel("r", nodes, Home{folder.path().toStdString()}, {},
                                     std::chrono::milliseconds(500));
    QVERIFY(!model.ok());
    QVERIFY2(clock.elapsed() < 25'000, qPrintable(QString::number(clock.elapsed())));
    QCOMPARE(model.error().code, Code::kDeadlineExceeded);
    QCOMPARE(model.error().node, std::string("far"));
    QVERIFY(!model.error().next.empty());
  }

  // The coordinator's host is gone, and another node has a copy.
  void aModelIsFetchedFromAnotherNode() {
    Bench bench(2);
    const auto run = bench.launch({"training.max_steps=5", "training.checkpoint.copies=1"});
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    Seen seen;
    {
      Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
      QVERIFY(bench.until([&] { return seen.finished; }));
    }
    const auto history = History::open(bench.home.historyFolder());
    QVERIFY(history.ok());
    const auto nodes = runNodes((*history)->documents(*run)->nodes, *bench.session);
    QVERIFY(nodes.ok());
    QCOMPARE(nodes->size(), std::size_t{2});
    LostNode lost;
    QTemporaryDir folder;
    const auto model =
        downloadModel(*run, {{lost.name(), &lost}, nodes->back()},
                      Home{folder.path().toStdString()}, {}, std::chrono::seconds(5));
    QVERIFY2(model.ok(), model.ok() ? "" : model.error().text().c_str());
    QCOMPARE(*sha256File(*model), *sha256File(seen.row.modelFile));
    // Where no file can be made, that is said, and not that the disk is full.
    const Home other{(folder.path() + "/other").toStdString()};
    std::filesystem::create_directories(other.root);
    std::filesystem::create_directory_symlink("/proc", other.modelsFolder());
    const auto none = downloadModel(*run, {nodes->back()}, other, {}, std::chrono::seconds(5));
    QVERIFY(!none.ok());
    QVERIFY2(none.error().what.text().starts_with("cannot create "), none.error().text().c_str());
  }

  // Left as soon as the end was told: the run has ended in the history too, and its model is
  // fetched by a recorder that comes later.
  void aModelThatWasNotFetchedIsFetchedLater() {
    Bench bench(1);
    const auto run = bench.launch({"training.max_steps=5"});
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    bool ending = false;
    {
      Recorder recorder(*run, *bench.session, bench.home, bench.inbox,
                        [&](const RunUpdate& update) { ending = ending || update.ending; });
      QVERIFY(bench.until([&] { return ending; }));
    }
    auto history = History::open(bench.home.historyFolder());
    QVERIFY(history.ok());
    auto row = (*history)->row(*run);
    QVERIFY(row.ok());
    QCOMPARE(row->phase, RunState::SUCCEEDED);
    row->modelFile.clear();  // it may have come just in time
    QVERIFY((*history)->update(*row).ok());
    QVERIFY(lacksModel(*row));
    Seen seen;
    Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
    QVERIFY(bench.until([&] { return seen.finished; }));
    QVERIFY2(seen.errors.empty(), seen.errors.empty() ? "" : seen.errors[0].text().c_str());
    QVERIFY(!seen.row.modelFile.empty());
    QCOMPARE((*history)->row(*run)->modelFile, seen.row.modelFile);
    QVERIFY(!lacksModel(seen.row));
  }

  // While what came before cannot be taken, what comes now is seen; then all of it is there.
  void whatComesNowDoesNotWaitForWhatCameBefore() {
    Bench bench(1);
    const auto run = bench.launch({"training.epochs=1000", "training.batch=48"});
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    QVERIFY(hasSteps(bench, *run, kLongHistory));
    Seen seen;
    {
      auto held = openRunFile(bench.home.historyFolder() + "/runs/" + *run + ".db");
      QVERIFY2(held.ok(), held.ok() ? "" : held.error().text().c_str());
      const storage::Transaction transaction(**held);
      QVERIFY(transaction.status().ok());
      Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
      // Until the recorder gives up writing what came before.
      QVERIFY(bench.until([&] { return seen.preview.size() > 20 || !seen.loss.empty(); }));
      QVERIFY(seen.loss.empty());
      QVERIFY(seen.preview.front() > kLongHistory);
      for (std::size_t i = 1; i < seen.preview.size(); ++i)
        QCOMPARE(seen.preview[i], seen.preview[i - 1] + 1);
    }
    Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
    QVERIFY(bench.until([&] { return !seen.loss.empty(); }));
    seen.loss.clear();
    recorder.ask(RunRequest::kStop);
    QVERIFY(bench.until([&] { return seen.finished; }));
    auto history = History::open(bench.home.historyFolder());
    auto store = (*history)->openRun(*run);
    QVERIFY(store.ok());
    const auto points = (*store)->readAll("loss");
    std::vector<double> steps;
    for (const auto& point : *points) steps.push_back(point.x);
    QVERIFY(steps.size() > seen.preview.size());
    QVERIFY(consecutive(steps, static_cast<std::size_t>(seen.row.figures.steps)));
  }

  // Once the earlier records can be stored, the preview ends and every step is there once.
  void thePreviewEndsWhereTheHistoryArrives() {
    Bench bench(1);
    const auto run = bench.launch({"training.epochs=1000", "training.batch=48"});
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    QVERIFY(hasSteps(bench, *run, kLongHistory));
    auto held = openRunFile(bench.home.historyFolder() + "/runs/" + *run + ".db");
    QVERIFY2(held.ok(), held.ok() ? "" : held.error().text().c_str());
    std::optional<storage::Transaction> transaction(std::in_place, **held);
    QVERIFY(transaction->status().ok());
    Seen seen;
    Recorder recorder(*run, *bench.session, bench.home, bench.inbox, seen.observer());
    QVERIFY(bench.until([&] { return !seen.preview.empty() || !seen.loss.empty(); }));
    QVERIFY(seen.loss.empty());
    QVERIFY(seen.preview.front() > kLongHistory);
    transaction.reset();
    // A preview that did not end would be as far as the history.
    QVERIFY(bench.until([&] {
      return !seen.loss.empty() && seen.loss.back() > seen.preview.back() + kLongHistory;
    }));
    QVERIFY2(seen.errors.empty(), seen.errors.empty() ? "" : seen.errors[0].text().c_str());
    QVERIFY(consecutive(seen.loss, seen.loss.size()));
    recorder.ask(RunRequest::kKill);
    QVERIFY(bench.until([&] { return seen.finished; }));
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
    const auto done = [&](const Result<RunAnswer>& one) { told = one.status(); };
    recorder.ask(kill ? RunRequest::kKill : RunRequest::kStop, done);
    QVERIFY(bench.until([&] { return told.has_value() && seen.finished; }));
    QVERIFY2(told->ok(), told->ok() ? "" : told->error().text().c_str());
    QCOMPARE(seen.row.phase, RunState::STOPPED);
    // A killed run has no model, and that is no error.
    QVERIFY2(seen.errors.empty(), seen.errors.empty() ? "" : seen.errors[0].text().c_str());
    QCOMPARE(seen.row.modelFile.empty(), kill);
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
