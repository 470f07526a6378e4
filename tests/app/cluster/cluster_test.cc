#include <signal.h>
#include <sys/stat.h>

#include <QElapsedTimer>
#include <QTemporaryDir>
#include <QTest>
#include <chrono>
#include <filesystem>
#include <stop_token>
#include <thread>

#include "app/cluster/all_reduce_bench.h"
#include "app/cluster/cluster_session.h"
#include "app/cluster/node_access.h"
#include "app/history/history.h"
#include "app/specs/spec_text.h"
#include "engine/base/file.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr int kLimitMs = 60000;

// Drains until `done`, or the limit.
template <typename Done>
bool drainUntil(Inbox& inbox, Done done, int limitMs = kLimitMs) {
  QElapsedTimer timer;
  timer.start();
  while (!done()) {
    if (timer.elapsed() > limitMs) return false;
    inbox.wait(std::chrono::milliseconds(100));
    inbox.drain();
  }
  return true;
}

bool alive(int pid) { return pid > 0 && ::kill(pid, 0) == 0; }

}  // namespace

class ClusterTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    const std::string agent =
        qEnvironmentVariable("LOCKSTEP_BIN").toStdString() + "/lockstep-agent";
    struct stat there {};
    if (::stat(agent.c_str(), &there) != 0) QSKIP("there is no lockstep-agent in $LOCKSTEP_BIN");
  }

  void init() {
    folder_ = std::make_unique<QTemporaryDir>();
    home_.root = folder_->path().toStdString();
    pids_.clear();
  }
  void cleanup() {
    for (const int pid : pids_) ::kill(pid, SIGTERM);
    for (const int pid : pids_) QTRY_VERIFY_WITH_TIMEOUT(!alive(pid), 60000);
    folder_.reset();
  }

  void connectsWatchesAndMends() {
    Inbox inbox;
    ClusterSessionOptions options;
    options.home = home_;
    options.sampleHertz = 10;
    int loads = 0;
    std::vector<std::string> phases;
    ClusterObserver observer;
    ClusterSession* watched = nullptr;
    observer.onLoad = [&](int) { ++loads; };
    observer.onNode = [&](int node) {
      if (node == 0) phases.emplace_back(stateName(watched->status(0).phase));
    };
    ClusterSession session(localCluster(2, home_.localFolder(1) + "x", "").spec, options, inbox,
                           observer);
    watched = &session;
    QCOMPARE(session.size(), 2);
    QCOMPARE(session.find("local2"), 1);
    QVERIFY(!session.access(0).agent().ok());
    session.connect();
    QVERIFY(drainUntil(inbox, [&] {
      return session.allConnected() || session.status(0).phase == NodeState::UNAVAILABLE;
    }));
    QVERIFY2(session.allConnected(),
             session.status(0).error ? session.status(0).error->text().c_str() : "");
    for (int i = 0; i < 2; ++i) pids_.push_back(session.status(i).inventory.agentPid);
    QVERIFY(pids_[0] != pids_[1]);
    QVERIFY(session.status(0).inventory.cores > 0);
    QVERIFY(!session.status(0).inventory.bootId.empty());
    QVERIFY(drainUntil(inbox, [&] { return loads > 6; }));
    QVERIFY(session.status(0).load.memoryTotal > 0);
    QVERIFY(session.access(0).agent().ok());

    // The agent is killed: a new one takes its place, and the session finds it.
    const int before = pids_[0];
    ::kill(before, SIGKILL);
    QVERIFY(drainUntil(inbox, [&] {
      return session.status(0).phase == NodeState::CONNECTED &&
             session.status(0).inventory.agentPid != before;
    }));
    pids_[0] = session.status(0).inventory.agentPid;
    QVERIFY(std::find(phases.begin(), phases.end(), "reconnecting") != phases.end());

    session.disconnect(0);
    QVERIFY(drainUntil(inbox, [&] { return session.status(0).phase == NodeState::DISCONNECTED; }));
    QVERIFY(alive(pids_[0]));
    session.connect(0);
    QVERIFY(drainUntil(inbox, [&] { return session.allConnected(); }));
    QCOMPARE(session.status(0).inventory.agentPid, pids_[0]);
  }

  // Ranks of three agents find each other through this client.
  void agentsReduceTogether() {
    Inbox inbox;
    ClusterSessionOptions options;
    options.home = home_;
    ClusterSession session(localCluster(3, home_.root + "/local", "").spec, options, inbox);
    session.connect();
    QVERIFY(drainUntil(inbox, [&] { return session.allConnected(); }));
    std::vector<BenchedRank> ranks;
    for (int i = 0; i < 3; ++i) {
      pids_.push_back(session.status(i).inventory.agentPid);
      ranks.push_back({&session.access(i), "127.0.0.1"});
    }
    const auto rate = measureAllReduce(ranks, 0.2, {});
    QVERIFY2(rate.ok(), rate.ok() ? "" : rate.error().text().c_str());
    QVERIFY2(*rate > 1e6, qPrintable(QString::number(*rate)));

    ranks[1].address = "192.0.2.1";  // not of this host
    const auto elsewhere = measureAllReduce(ranks, 0.2, {});
    QVERIFY(!elsewhere.ok());
    QCOMPARE(elsewhere.error().node, std::string("local2"));
    ranks[1].address = "127.0.0.1";

    std::stop_source stop;
    QElapsedTimer timer;
    timer.start();
    const std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      stop.request_stop();
    });
    const auto cancelled = measureAllReduce(ranks, 60, stop.get_token());
    QVERIFY(!cancelled.ok() && cancelled.error().code == Code::kCancelled);
    QVERIFY2(timer.elapsed() < 20'000, qPrintable(QString::number(timer.elapsed())));
  }

  // A run that is deleted while its node is connected goes at once, another one stays.
  void cleansConnectedNodesUp() {
    Inbox inbox;
    ClusterSessionOptions options;
    options.home = home_;
    ClusterSession session(localCluster(1, home_.root + "/local", "").spec, options, inbox);
    session.connect();
    QVERIFY(drainUntil(inbox, [&] { return session.allConnected(); }));
    pids_.push_back(session.status(0).inventory.agentPid);
    const auto history = History::open(home_.historyFolder());
    QVERIFY(history.ok());
    const auto folderOf = [&](const std::string& run) {
      return home_.localFolder(1) + "/runs/" + run + "/local1";
    };
    for (const char* run : {"gone", "kept"}) {
      RunRow row;
      row.run = run;
      row.phase = RunState::SUCCEEDED;
      RunDocuments documents;
      documents.nodes = R"([{"node":"local1"}])";
      QVERIFY((*history)->add(row, documents).ok());
      std::filesystem::create_directories(folderOf(run));
      node::v1::PrepareRequest request;
      request.set_run(run);
      request.set_node("local1");
      QVERIFY(writeFileAtomically(folderOf(run) + "/request.pb", request.SerializeAsString()).ok());
      QVERIFY(writeFileAtomically(folderOf(run) + "/state", "SUCCEEDED\n").ok());
    }
    QVERIFY((*history)->remove("gone").ok());
    session.cleanUp();
    QVERIFY(drainUntil(inbox, [&] { return !std::filesystem::exists(folderOf("gone")); }));
    QVERIFY(drainUntil(inbox, [&] { return (*history)->leftOnNodes().empty(); }));
    QVERIFY(std::filesystem::exists(folderOf("kept")));
  }

  void failureNamesNodeAndCause() {
    Inbox inbox;
    ClusterSessionOptions options;
    options.home = home_;
    // A file stands where the work folder should be.
    QVERIFY(writeFileAtomically(home_.root + "/local", "x").ok());
    ClusterSession session(localCluster(1, home_.root + "/local", "").spec, options, inbox);
    session.connect();
    QVERIFY(drainUntil(inbox, [&] { return session.status(0).phase == NodeState::UNAVAILABLE; }));
    QVERIFY(session.status(0).error.has_value());
    QCOMPARE(session.status(0).error->node, std::string("local1"));
    const auto waited = session.access(0).waitConnected({});
    QVERIFY(!waited.ok());
  }

  void unreachableHostFailsAndCancels() {
    Inbox inbox;
    ClusterSessionOptions options;
    options.home = home_;
    const auto cluster = completeClusterSpec(
        "nodes:\n  - name: far\n    ssh: {host: 127.0.0.1, port: 1}\n", "c.yaml");
    QVERIFY2(cluster.ok(), cluster.ok() ? "" : cluster.error().text().c_str());
    ClusterSession session(cluster->spec, options, inbox);
    session.connect();
    QVERIFY(drainUntil(inbox, [&] { return session.status(0).phase == NodeState::UNAVAILABLE; }));
    QCOMPARE(session.status(0).error->node, std::string("far"));
    QVERIFY(!session.status(0).error->what.empty());
    session.connect();  // and the session may end in the middle of it
  }

 private:
  std::unique_ptr<QTemporaryDir> folder_;
  Home home_;
  std::vector<int> pids_;
};

QTEST_GUILESS_MAIN(ClusterTest)
#include "cluster_test.moc"
