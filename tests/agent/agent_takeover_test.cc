// A node takes over from a coordinator that is lost. Node n2 is real; the run's other nodes are
// played here: n1 coordinates and falls silent, n3 votes when n2 has voted for it. In some runs n1
// has left out n4 before, which comes back. In others n3 is real as well: what n1 had begun to
// tell, also of the run's end, one of the two may know alone.
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/event_loop.h"
#include "agent/supervisor/electorates.h"
#include "agent/supervisor/members.h"
#include "agent/supervisor/peers.h"
#include "agent/supervisor/recovery.h"
#include "agent/supervisor/run_control.h"
#include "agent/supervisor/spool.h"
#include "engine/base/file.h"
#include "engine/specs/error_info.h"
#include "engine/specs/states.h"
#include "tests/agent/agent_node.h"
#include "tests/agent/played_run.h"
#include "tests/agent/run_keys.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

constexpr Nanoseconds kMs = 1'000'000;
constexpr Nanoseconds kLost = 1500 * kMs;  // RunLimits::lostPeer
constexpr Nanoseconds kLimit = 50'000 * kMs;
constexpr int kHeartbeatMs = 60;

std::optional<run::v1::Record> firstOf(
    agent::Spool& spool, const std::function<bool(const run::v1::Record&)>& condition) {
  for (const run::v1::Record& record : recordsOf(spool))
    if (condition(record)) return record;
  return std::nullopt;
}

// The lines that a node has logged.
std::string logOf(agent::Spool& spool) {
  std::string out;
  for (const run::v1::Record& record : recordsOf(spool))
    for (const std::string& line : record.log().lines()) out += line + "\n";
  return out;
}

node::v1::PrepareRequest requestOf(const RunOptions& options, const RunAuthority& authority,
                                   int node) {
  auto out = keyedRequest(options, authority, node);
  out.mutable_spec()->mutable_recovery()->set_heartbeat_ms(kHeartbeatMs);
  out.mutable_spec()->mutable_training()->mutable_checkpoint()->set_copies(0);
  return out;
}

using agent::Electorate;

// As a coordinator tells them.
node::v1::Decisions decisionsOf(std::int64_t revision, const agent::Electorates& electorates) {
  node::v1::Decisions out;
  out.set_revision(revision);
  for (const Electorate& one : electorates)
    out.add_electorates()->mutable_nodes()->Assign(one.begin(), one.end());
  return out;
}

struct Story {
  std::vector<int> votes = {1};  // n3 votes once for each of these generations, at once
  // The nodes that have failed, one after the other. After them the run is in generation 2; if n4
  // is one of them, without n4.
  std::vector<std::string> failures = {};
  bool excluded = false;  // n4 is
  bool votes4 = false;    // n4 votes for n2 as well; else it joins n2 when that has taken over
  int takenOver = 0;      // n3, the first to succeed, coordinates this generation; 0: it votes
  // n3, the first to succeed, never answers, and n1 says again how the run goes when n2 joins
  // again,
  bool returns = false;
  bool isSpare = false;  // as a spare
};

class Takeover {
 public:
  explicit Takeover(Story story) : story_(std::move(story)) {
    options_ = {.run = newRunId(),
                .nodes = {"n1", "n2", "n3"},
                .ranks = 1,
                .comm = "gloo",
                .recovery = "shrink"};
    if (hasN4()) options_.nodes.push_back("n4");
    folder_.path = home_.filePath("run").toStdString();
    folder_.runtime = home_.path().toStdString();
    must(agent::makeFolders(folder_.logs()));
    spool_ = must(agent::Spool::open(folder_.spool(), {}));
    playCoordinator();
    playVoter();
    begin();
  }

  // Runs until the node coordinates, and then for longer than a lost coordinator has.
  void run() {
    loop_.every(20 * kMs, [this] {
      if (end_ == 0 && first([](const auto& record) { return record.has_recovering(); }))
        end_ = monotonicNow() + 2 * kLost;
      if ((end_ != 0 && monotonicNow() > end_) || followed3_) loop_.quit();
      if (story_.returns && (timesVoted() > 1 || !failure_.empty())) loop_.quit();
    });
    loop_.after(kLimit, [this] { loop_.quit(); });
    loop_.run();
  }
  std::optional<run::v1::Record> first(
      const std::function<bool(const run::v1::Record&)>& condition) const {
    return firstOf(*spool_, condition);
  }
  // Whether n3 gets the heartbeats of n2.
  bool followsN3() const { return followed3_; }
  // With what n4 was refused; "": it was not.
  const std::string& refusal() const { return refusal_; }
  // What n2 has told n1; "": nothing.
  const std::string& failure() const { return failure_; }
  // With what n3 was told that the run has ended; "": it was not.
  const std::string& endAtN3() const { return end3_; }
  std::string log() const { return logOf(*spool_); }
  run::v1::RunState state() const { return control_->state(); }
  // For n3, anew.
  int timesVoted() const {
    const std::string all = log(), line = "votes for node n3";
    int out = 0;
    for (std::size_t at = 0; (at = all.find(line, at)) != std::string::npos; at += line.size())
      ++out;
    return out;
  }

 private:
  node::v1::PrepareRequest request(int node) const {
    auto out = requestOf(options_, authority_, node);
    if (!story_.isSpare) return out;
    out.mutable_cluster()->mutable_nodes(1)->add_roles("spare");
    if (node == 1) out.clear_ranks();
    return out;
  }
  // It says how the run begins, and nothing after that.
  void playCoordinator() {
    agent::PeerServer::Handlers handlers;
    handlers.onJoin = [this](const std::string& node, const node::v1::PeerHello&) {
      if (std::exchange(spoke_, true) && !story_.returns) return;
      node::v1::ToPeer message;
      message.mutable_committed();
      coordinator_->send(node, message);
      spec::v1::ClusterSpec cluster = request(1).cluster();
      if (!story_.failures.empty()) {
        coordinator_->setGeneration(2, {"n1", "n2", "n3"});
        *message.mutable_recover() = recoverAfterFailures();
        if (hasN4()) cluster = message.recover().members().cluster();
        coordinator_->send(node, message);
      }
      node::v1::Go& go = *message.mutable_go();
      *go.mutable_cluster() = cluster;
      Electorate electorate;
      for (const auto& one : cluster.nodes()) electorate.push_back(one.name());
      std::vector<std::pair<std::string, std::string>> listeners = {{"n2", address_},
                                                                    {"n3", voter_->address()}};
      if (story_.takenOver > 0 || story_.returns) std::swap(listeners[0], listeners[1]);
      for (const auto& [name, address] : listeners) {
        go.add_listeners()->set_node(name);
        go.mutable_listeners()->rbegin()->set_address(address);
      }
      coordinator_->send(node, message);
      *message.mutable_decisions() = decisionsOf(1, {electorate});
      coordinator_->send(node, message);
    };
    handlers.onLeave = [](const std::string&) {};
    handlers.onMessage = [this](const std::string&, const node::v1::FromPeer& message) {
      if (message.has_failed()) failure_ = specs::fromInfo(message.failed()).what.text();
    };
    coordinator_ =
        must(agent::PeerServer::start(loop_, "127.0.0.1", request(0), {}, std::move(handlers)));
  }
  bool hasN4() const {
    return std::find(story_.failures.begin(), story_.failures.end(), "n4") != story_.failures.end();
  }
  node::v1::Recover recoverAfterFailures() const {
    const node::v1::PrepareRequest own = request(0);
    agent::Recovery recovery(own.spec().recovery());
    std::int64_t steps = 0;
    for (const std::string& node : story_.failures)
      (void)recovery.ends(agent::lostError({node}), agent::FailureKind::kNodeLost, steps++, {node});
    node::v1::Recover out;
    *out.mutable_failures() = recovery.past();
    if (hasN4())
      *out.mutable_members() =
          must(agent::membersWithout({"n4"}, own, [](const std::string&) { return true; }));
    if (story_.excluded) out.add_excluded("n4");
    return out;
  }
  void playVoter() {
    agent::PeerServer::Handlers handlers;
    handlers.onJoin = [](const std::string&, const node::v1::PeerHello&) {};
    handlers.onLeave = [](const std::string&) {};
    handlers.onMessage = [this](const std::string& node, const node::v1::FromPeer& message) {
      followed3_ = followed3_ || message.has_ping();
      if (story_.returns || !message.has_vote() || std::exchange(voted_, true)) return;
      if (story_.takenOver > 0) {
        voter_->setGeneration(story_.takenOver, {"n2", "n3"});
        node::v1::ToPeer begins;
        *begins.mutable_recover()->mutable_members() =
            must(agent::membersWithout({"n1"}, request(2), [](const auto&) { return true; }));
        return voter_->send(node, begins);
      }
      node::v1::FromPeer vote;
      vote.mutable_vote();
      for (const int generation : story_.votes) {
        votes_->setGeneration(generation);
        votes_->send(vote);
      }
    };
    voter_ =
        must(agent::PeerServer::start(loop_, "127.0.0.1", request(2), {}, std::move(handlers)));
  }
  void begin() {
    node::v1::PrepareRequest own = request(1);
    own.set_coordinator_address(coordinator_->address());
    must(writeFileAtomically(folder_.plan(), own.plan(), 0600));
    agent::RunLimits limits;
    limits.lostPeer = kLost;
    control_ = std::make_unique<agent::RunControl>(loop_, folder_, own, *spool_, "test", limits,
                                                   [this] {  // others are told meanwhile
                                                     loop_.after(kLost, [this] { loop_.quit(); });
                                                   });
    address_ = must(control_->start());
    agent::PeerClient::Handlers handlers;
    handlers.onJoin = [] {};
    handlers.onLost = [](const std::string&) {};
    handlers.onRefused = [](const Error&) {};
    handlers.onMessage = [this](const node::v1::ToPeer& message) {
      if (message.has_abort()) end3_ = specs::fromInfo(message.abort().error()).what.text();
      if (!message.has_recover()) return;
      votes_->setGeneration(message.generation());
      follows_ = true;
      if (hasN4() && !n4_) joinN4();
    };
    votes_ = std::make_unique<agent::PeerClient>(loop_, "n2", address_, voter_->address(),
                                                 request(2), 1, std::move(handlers));
    if (story_.votes4) joinN4();
    loop_.every(kHeartbeatMs * kMs, [this] {
      node::v1::FromPeer ping, vote;
      ping.mutable_ping()->set_sent_ns(monotonicNow());
      if (follows_) votes_->send(ping);
      vote.mutable_vote();
      if (story_.votes4 && !follows_) n4_->send(vote);
    });
  }
  void joinN4() {
    agent::PeerClient::Handlers handlers;
    handlers.onJoin = [] {};
    handlers.onLost = [](const std::string&) {};
    handlers.onRefused = [](const Error&) {};
    handlers.onMessage = [this](const node::v1::ToPeer& message) {
      if (message.has_abort()) refusal_ = specs::fromInfo(message.abort().error()).what.text();
    };
    n4_ = std::make_unique<agent::PeerClient>(loop_, "n2", address_, "", request(3), 1,
                                              std::move(handlers));
  }

  const Story story_;
  RunOptions options_;
  RunAuthority authority_;
  QTemporaryDir home_;
  agent::RunFolder folder_;
  agent::EventLoop loop_;
  std::unique_ptr<agent::Spool> spool_;
  std::unique_ptr<agent::PeerServer> coordinator_, voter_;
  std::string address_;  // of n2
  std::unique_ptr<agent::RunControl> control_;
  std::unique_ptr<agent::PeerClient> votes_, n4_;
  std::string refusal_, end3_, failure_;
  bool spoke_ = false, voted_ = false, follows_ = false, followed3_ = false;
  Nanoseconds end_ = 0;
};

// What n1 has told before it falls silent. Each is told by node: n1 was lost meanwhile.
struct LastWords {
  std::vector<std::string> recover = {};   // these know that generation 2 begins
  std::string leftOut = {};                // without this node; "": with all
  std::vector<std::string> requests = {};  // these know that …
  std::string excluding = {};              // … this node is to be excluded; "": none is
  std::vector<double> shares = {};         // … the batch is to be divided so; empty: it is not
  std::vector<std::string> dropped = {};   // these know later that nothing is
  bool ends = false;                       // all ranks have ended before n1 falls silent
  std::vector<std::string> decided = {};   // these know that the run is to end
  std::vector<std::string> ended = {};     // these have been told to
  std::vector<std::string> stopping = {};  // these know that a person has stopped the run
  std::vector<std::string> killed = {};    // these know that a person has killed it
  std::vector<std::string> changes = {};   // these know that the electorate becomes …
  Electorate next = {};                    // … this one
  std::vector<std::string> refused = {};   // these are told that the run goes on without them
  bool apart = false;                      // no node reaches another any more
  std::string recovery = "shrink";
};

// n2 and n3 are real. What holds this process up must not look like a node's silence.
class Survivors {
  static constexpr int kBeatMs = 120;
  static constexpr const char* kCheckpoint = "step-5";
  static constexpr Nanoseconds kNodeLost = 20 * kBeatMs * kMs;  // RunLimits::lostPeer

 public:
  explicit Survivors(LastWords words) : words_(std::move(words)) {
    options_ = {.run = newRunId(),
                .nodes = {"n1", "n2", "n3"},
                .ranks = 1,
                .comm = "gloo",
                .recovery = words_.recovery};
    if (words_.ends) options_.maxSteps = kEndsAtOnce;
    playCoordinator();
    for (const int node : {1, 2}) begin(node);
  }
  // Runs until `condition` holds, and then, unless the run has ended, for longer than a lost
  // coordinator has. Returns whether it came to hold.
  bool run(const std::function<bool()>& condition) {
    Nanoseconds end = 0;
    loop_.every(20 * kMs, [&] {
      if (end == 0 && condition())
        end = monotonicNow() + (hasEnded() ? 0 : kNodeLost + kNodeLost / 2);
      if (end != 0 && monotonicNow() > end) loop_.quit();
    });
    loop_.after(kLimit, [this] { loop_.quit(); });
    loop_.run();
    return end != 0;
  }
  // n2 coordinates one generation, and n3 is part of it.
  bool converged() {
    return log("n3").find("node n2 coordinates the run from now on") != std::string::npos &&
           state("n2") == run::v1::RUNNING && state("n3") == run::v1::RUNNING;
  }
  bool hasEnded() { return specs::isFinal(state("n2")) && specs::isFinal(state("n3")); }
  run::v1::RunState state(const std::string& node) { return nodes_.at(node)->control->state(); }
  std::string log(const std::string& node) { return logOf(*nodes_.at(node)->spool); }
  bool hasCheckpoint(const std::string& node) {
    return std::filesystem::exists(nodes_.at(node)->folder.checkpoints() + "/" + kCheckpoint);
  }
  std::optional<run::v1::Record> first(
      const std::string& node, const std::function<bool(const run::v1::Record&)>& condition) {
    return firstOf(*nodes_.at(node)->spool, condition);
  }

 private:
  struct Real {
    QTemporaryDir home;
    agent::RunFolder folder;
    std::unique_ptr<agent::Spool> spool;
    std::unique_ptr<agent::RunControl> control;
    std::string address;
  };
  void playCoordinator() {
    agent::PeerServer::Handlers handlers;
    handlers.onJoin = [this](const std::string& node, const node::v1::PeerHello&) {
      if (std::find(joined_.begin(), joined_.end(), node) != joined_.end()) return;
      joined_.push_back(node);
      if (joined_.size() == 2) speak();
    };
    handlers.onLeave = [](const std::string&) {};
    handlers.onMessage = [this](const std::string& node, const node::v1::FromPeer& message) {
      if (isSilent_) return;
      if (message.has_done()) done_.insert(node);
      if (done_.size() == 2) return speakLast();
      if (!message.has_ping()) return;
      node::v1::ToPeer pong;
      pong.mutable_pong()->set_sent_ns(message.ping().sent_ns());
      coordinator_->send(node, pong);
    };
    coordinator_ = must(agent::PeerServer::start(
        loop_, "127.0.0.1", requestOf(options_, authority_, 0), {}, std::move(handlers)));
  }
  void speak() {
    const node::v1::PrepareRequest own = requestOf(options_, authority_, 0);
    node::v1::ToPeer committed, goes, votes;
    *votes.mutable_decisions() = decisionsOf(0, {options_.nodes});
    committed.mutable_committed();
    node::v1::Go& go = *goes.mutable_go();
    *go.mutable_cluster() = own.cluster();
    for (const auto& [name, node] : nodes_) {
      go.add_listeners()->set_node(name);
      go.mutable_listeners()->rbegin()->set_address(words_.apart ? "127.0.0.1:1" : node->address);
    }
    if (words_.apart) loop_.after(kNodeLost / 4, [this] { coordinator_.reset(); });
    for (const std::string& name : joined_)
      for (const node::v1::ToPeer& message : {committed, goes, votes})
        coordinator_->send(name, message);
    if (!words_.ends) speakLast();
  }
  void speakLast() {
    isSilent_ = true;
    node::v1::ToPeer requests, dropped, stopping, decided, killed, changes, ended, recovers,
        refused;
    const auto decides = [this](node::v1::ToPeer& message, std::int64_t revision) {
      *message.mutable_decisions() = decisionsOf(revision, {options_.nodes});
    };
    decides(requests, 1);
    if (!words_.excluding.empty()) requests.mutable_decisions()->add_excluding(words_.excluding);
    requests.mutable_decisions()->mutable_shares()->Assign(words_.shares.begin(),
                                                           words_.shares.end());
    decides(dropped, 2);
    decides(stopping, 3);
    stopping.mutable_decisions()->set_stops(true);
    const auto end = words_.stopping.empty() ? run::v1::SUCCEEDED : run::v1::STOPPED;
    decides(decided, 4);
    decided.mutable_decisions()->set_stops(end == run::v1::STOPPED);
    decided.mutable_decisions()->set_end(end);
    decides(killed, 5);
    killed.mutable_decisions()->set_killed(true);
    *changes.mutable_decisions() = decisionsOf(6, {options_.nodes, words_.next});
    ended.mutable_all_done()->set_state(end);
    *refused.mutable_abort()->mutable_error() =
        specs::toInfo(makeError(Code::kCancelled, "the run continues without this node"));
    node::v1::Recover& recover = *recovers.mutable_recover();
    if (!words_.leftOut.empty())
      *recover.mutable_members() =
          must(agent::membersWithout({words_.leftOut}, requestOf(options_, authority_, 0),
                                     [](const std::string&) { return true; }));
    const auto tell = [this](const std::vector<std::string>& nodes, const node::v1::ToPeer& what) {
      for (const std::string& name : nodes) coordinator_->send(name, what);
    };
    tell(words_.requests, requests);
    tell(words_.dropped, dropped);
    tell(words_.stopping, stopping);
    tell(words_.decided, decided);
    tell(words_.killed, killed);
    tell(words_.changes, changes);
    tell(words_.ended, ended);
    tell(words_.refused, refused);
    coordinator_->setGeneration(2, options_.nodes);
    tell(words_.recover, recovers);
  }
  void begin(int number) {
    auto node = std::make_unique<Real>();
    node::v1::PrepareRequest request = requestOf(options_, authority_, number);
    request.mutable_spec()->mutable_recovery()->set_heartbeat_ms(kBeatMs);
    request.set_coordinator_address(coordinator_->address());
    node->folder.path = node->home.filePath("run").toStdString();
    node->folder.runtime = node->home.path().toStdString();
    must(agent::makeFolders(node->folder.logs()));
    must(agent::makeFolders(node->folder.checkpoints() + "/" + kCheckpoint));
    must(writeFileAtomically(node->folder.plan(), request.plan(), 0600));
    node->spool = must(agent::Spool::open(node->folder.spool(), {}));
    agent::RunLimits limits;
    limits.lostPeer = kNodeLost;
    limits.stop = {.term = kNodeLost / 4, .kill = kNodeLost / 2};
    node->control = std::make_unique<agent::RunControl>(loop_, node->folder, request, *node->spool,
                                                        "test", limits, [] {});
    node->address = must(node->control->start());
    nodes_[request.node()] = std::move(node);
  }

  const LastWords words_;
  RunOptions options_;
  RunAuthority authority_;
  agent::EventLoop loop_;
  std::unique_ptr<agent::PeerServer> coordinator_;
  std::map<std::string, std::unique_ptr<Real>> nodes_;
  std::vector<std::string> joined_;
  std::set<std::string> done_;
  bool isSilent_ = false;  // n1, but for its server
};

}  // namespace

class AgentTakeoverTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // n2 and n3 vote for each other: n2 comes first and stands, and has all the votes there are.
  void whoHasTakenOverSeeksNobody_data() {
    QTest::addColumn<std::vector<int>>("generations");
    QTest::addColumn<int>("next");
    // One more, since the coordinator may have begun one that nobody has heard of.
    QTest::newRow("all know one generation") << std::vector<int>{1} << 3;
    QTest::newRow("a voter has heard of a later one") << std::vector<int>{3} << 5;
    QTest::newRow("it hears of that between two votes") << std::vector<int>{1, 3} << 5;
    QTest::newRow("an old vote comes last") << std::vector<int>{3, 1} << 5;
  }
  void whoHasTakenOverSeeksNobody() {
    QFETCH(std::vector<int>, generations);
    QFETCH(int, next);
    Takeover takeover({.votes = generations});
    takeover.run();
    const std::string log = takeover.log();
    const auto recovering = takeover.first([](const auto& one) { return one.has_recovering(); });
    QVERIFY2(recovering, log.c_str());
    QCOMPARE(recovering->recovering().generation(), next);
    QCOMPARE(recovering->recovering().world(), 2);
    const auto end = takeover.first([](const auto& one) { return one.has_finished(); });
    QVERIFY2(!end, log.c_str());
    const std::size_t since = log.find("coordinates the run from now on");
    QVERIFY2(since != std::string::npos, log.c_str());
    QVERIFY2(log.find("votes", since) == std::string::npos, log.c_str());
  }

  // What the lost coordinator has excluded does not come back; what it has only left out does.
  void anExcludedNodeStaysOut_data() {
    QTest::addColumn<bool>("excluded");
    QTest::addColumn<bool>("votes");
    QTest::newRow("it was left out, and joins again") << false << false;
    QTest::newRow("it was excluded, and joins again") << true << false;
    QTest::newRow("it was excluded, and votes") << true << true;
  }
  void anExcludedNodeStaysOut() {
    QFETCH(bool, excluded);
    QFETCH(bool, votes);
    Takeover takeover({.failures = {"n4"}, .excluded = excluded, .votes4 = votes});
    takeover.run();
    const std::string log = takeover.log();
    const auto recovering = takeover.first([](const auto& one) { return one.has_recovering(); });
    QVERIFY2(recovering, log.c_str());
    QCOMPARE(recovering->recovering().generation(), 4);
    QCOMPARE(recovering->recovering().world(), 2);
    QVERIFY2((log.find("node n4 is back, as a spare") == std::string::npos) == excluded,
             log.c_str());
    QCOMPARE(takeover.refusal(), std::string(excluded ? "the run continues without node n4" : ""));
  }

  // The restarts that the lost coordinator has begun count, and so does what it knew of n4.
  void theCountOfFailuresGoesOn() {
    // As many as recovery.max_restarts. n3 has heard of a later generation.
    Takeover takeover({.votes = {3}, .failures = std::vector<std::string>(10, "n4")});
    takeover.run();
    const auto error = takeover.first([](const auto& one) { return one.has_error(); });
    QVERIFY2(error, takeover.log().c_str());
    QCOMPARE(error->error().what().text(), std::string("node n1 was lost"));
    QCOMPARE(error->error().why().text(),
             std::string("the run was restarted 10 times, which recovery.max_restarts allows\n"
                         "node n4 caused 4 of the last 5 failures\nheartbeats have stopped"));
    QCOMPARE(takeover.endAtN3(), std::string("node n1 was lost"));
  }

  void aCoordinatorThatFailsRepeatedlyIsExcluded_data() {
    QTest::addColumn<std::vector<std::string>>("failures");
    QTest::addColumn<bool>("excluded");
    QTest::newRow("two of five failures")
        << std::vector<std::string>{"n3", "n1", "n3", "n2"} << false;
    QTest::newRow("three of five failures")
        << std::vector<std::string>{"n3", "n1", "n3", "n1"} << true;
  }
  void aCoordinatorThatFailsRepeatedlyIsExcluded() {
    QFETCH(std::vector<std::string>, failures);
    QFETCH(bool, excluded);
    Takeover takeover({.failures = failures});
    takeover.run();
    const auto recovering = takeover.first([](const auto& one) { return one.has_recovering(); });
    QVERIFY2(recovering, takeover.log().c_str());
    const std::string why = recovering->recovering().cause().why().text();
    QVERIFY2((why.find("node n1 caused 3 of the last 5 failures, and is excluded") !=
              std::string::npos) == excluded,
             why.c_str());
  }

  // A lost coordinator may have begun a generation that one node alone has heard of, and the next
  // one a generation of the same number without that node.
  void aGenerationOfTheSameNumberIsFollowed_data() {
    QTest::addColumn<int>("takenOver");
    QTest::newRow("the same number") << 2;
    QTest::newRow("a later one") << 4;
  }
  void aGenerationOfTheSameNumberIsFollowed() {
    QFETCH(int, takenOver);
    Takeover takeover({.failures = {"n3"}, .takenOver = takenOver});
    takeover.run();
    QVERIFY2(takeover.followsN3(), takeover.log().c_str());
  }

  // The run has gone on with a spare that could reach nobody for a while: it votes again.
  void aSpareThatIsBackIsOneAgain() {
    Takeover takeover({.returns = true, .isSpare = true});
    takeover.run();
    const std::string log = takeover.log();
    QVERIFY2(log.find("ends its workers, and waits") != std::string::npos, log.c_str());
    QVERIFY2(
        log.find("node n1 answers again, and the run still has this node") != std::string::npos,
        log.c_str());
    QCOMPARE(takeover.timesVoted(), 2);
    QCOMPARE(takeover.state(), run::v1::RUNNING);
  }

  // The run has gone on with a node that has ended its workers meanwhile: it restarts.
  void aNodeThatIsBackTellsThatItsWorkersHaveEnded() {
    Takeover takeover({.returns = true});
    takeover.run();
    const std::string log = takeover.log();
    QVERIFY2(log.find("ends its workers, and waits") != std::string::npos, log.c_str());
    QCOMPARE(takeover.failure(), std::string("node n2 was lost"));
  }

  // n1 is lost before n3 knows that n2 is excluded: n3 does not wait for n2.
  void anExcludedNodeTakesNoVotes() {
    Survivors survivors({.refused = {"n2"}});
    const bool stood = survivors.run([&] {
      const std::string log = survivors.log("n3");
      const std::size_t voted = log.find("votes for node n2");  // it may have stood before
      return voted != std::string::npos &&
             log.find("asks for votes to take over", voted) != std::string::npos;
    });
    QVERIFY2(stood, survivors.log("n3").c_str());
    QCOMPARE(survivors.state("n2"), run::v1::STOPPED);
  }

  // Whoever has heard of the generation that the coordinator began as it was lost.
  void survivorsConverge_data() {
    using Names = std::vector<std::string>;
    QTest::addColumn<Names>("told");
    QTest::addColumn<std::string>("leftOut");
    QTest::newRow("nobody was told") << Names{} << std::string();
    QTest::newRow("the successor was told") << Names{"n2"} << std::string();
    QTest::newRow("the other node was told") << Names{"n3"} << std::string();
    QTest::newRow("both were told") << Names{"n2", "n3"} << std::string();
    QTest::newRow("the other node is left out") << Names{"n2"} << std::string("n3");
    QTest::newRow("the successor is left out") << Names{"n3"} << std::string("n2");
  }
  void survivorsConverge() {
    QFETCH(std::vector<std::string>, told);
    QFETCH(std::string, leftOut);
    Survivors survivors({.recover = told, .leftOut = leftOut});
    const bool converged = survivors.run([&] { return survivors.converged(); });
    const std::string logs = survivors.log("n2") + "---\n" + survivors.log("n3");
    QVERIFY2(converged, logs.c_str());
    // For good: both are still part of it.
    QCOMPARE(survivors.state("n2"), run::v1::RUNNING);
    QCOMPARE(survivors.state("n3"), run::v1::RUNNING);
    const std::size_t since = logs.find("coordinates the run from now on");
    const std::string later = logs.substr(since, logs.find("---") - since);
    QVERIFY2(later.find("votes") == std::string::npos, logs.c_str());
    QVERIFY2(!survivors.first("n3", [](const auto& one) { return one.has_recovering(); }),
             logs.c_str());
    QVERIFY2(logs.find("step 9223372036854775807, which cannot be") != std::string::npos,
             logs.c_str());
  }

  // Whoever is held up itself, as by a paused virtual machine, has not heard what others have said.
  void aNodeThatWasHeldUpAccusesNobody() {
    using namespace std::chrono_literals;
    Survivors survivors({});
    int times = 0;
    const bool converged = survivors.run([&] {
      if (!survivors.converged()) return false;
      std::this_thread::sleep_for(1s);  // more than four heartbeats
      return ++times == 3;
    });
    const std::string logs = survivors.log("n2") + "---\n" + survivors.log("n3");
    QVERIFY2(converged, logs.c_str());
    QVERIFY2(logs.find("nothing has come from node n2") == std::string::npos, logs.c_str());
    QVERIFY2(logs.find("nothing has come from node n3") == std::string::npos, logs.c_str());
    QCOMPARE(survivors.state("n2"), run::v1::RUNNING);
    QCOMPARE(survivors.state("n3"), run::v1::RUNNING);
  }

  // Whoever takes over continues with what a person has asked of the lost coordinator, or says that
  // it cannot.
  void aPendingExclusionSurvives_data() {
    using Names = std::vector<std::string>;
    QTest::addColumn<Names>("told");
    QTest::addColumn<std::string>("node");
    QTest::addColumn<Names>("dropped");  // these know that it was dropped since
    QTest::newRow("both were told") << Names{"n2", "n3"} << std::string("n3") << Names{};
    QTest::newRow("the voter alone was told") << Names{"n3"} << std::string("n3") << Names{};
    QTest::newRow("of the successor itself") << Names{"n2", "n3"} << std::string("n2") << Names{};
    QTest::newRow("dropped, as the voter knows")
        << Names{"n2", "n3"} << std::string("n3") << Names{"n3"};
    QTest::newRow("dropped, as the successor knows")
        << Names{"n2", "n3"} << std::string("n3") << Names{"n2"};
  }
  void aPendingExclusionSurvives() {
    QFETCH(std::vector<std::string>, told);
    QFETCH(std::string, node);
    QFETCH(std::vector<std::string>, dropped);
    Survivors survivors({.requests = told, .excluding = node, .dropped = dropped});
    const bool isExcluded = node == "n3" && dropped.empty();
    const auto isExclusion = [](const run::v1::Record& record) {
      return record.recovering().cause().what().text() == "node n3 was excluded on request";
    };
    const auto isRefusal = [](const run::v1::Record& record) {
      return record.warning().what().text() == "node n2 cannot be excluded now" &&
             record.warning().why().text() == "it coordinates the run";
    };
    const bool answered = survivors.run([&] {
      return isExcluded ? survivors.first("n2", isExclusion).has_value() : survivors.converged();
    });
    const std::string logs = survivors.log("n2") + "---\n" + survivors.log("n3");
    QVERIFY2(answered, logs.c_str());
    QCOMPARE(survivors.first("n2", isExclusion).has_value(), isExcluded);
    QCOMPARE(survivors.first("n2", isRefusal).has_value(), node == "n2");
    QCOMPARE(survivors.state("n2"), run::v1::RUNNING);
    QCOMPARE(survivors.state("n3"), isExcluded ? run::v1::STOPPED : run::v1::RUNNING);
  }

  // A takeover is a restart, before which the batch was not divided: that is told, also where the
  // voter alone knew of the request.
  void aPendingDivisionIsToldAsDropped() {
    Survivors survivors({.requests = {"n3"}, .shares = {3, 1, 1}});
    const bool converged = survivors.run([&] { return survivors.converged(); });
    const std::string logs = survivors.log("n2") + "---\n" + survivors.log("n3");
    QVERIFY2(converged, logs.c_str());
    const auto told = survivors.first("n2", [](const run::v1::Record& record) {
      return record.warning().why().text() == "the run has restarted before that";
    });
    QVERIFY2(told, logs.c_str());
  }

  // Whoever knows that the run was to end, or has ended, as the coordinator was lost. If nobody
  // does, nobody has ended, and the others continue from the last checkpoint.
  void theRunEndsOnceEverywhere_data() {
    using Names = std::vector<std::string>;
    QTest::addColumn<Names>("decided");
    QTest::addColumn<Names>("ended");
    QTest::newRow("nobody knows") << Names{} << Names{};
    QTest::newRow("the successor knows") << Names{"n2"} << Names{};
    QTest::newRow("the voter knows") << Names{"n3"} << Names{};
    QTest::newRow("both know") << Names{"n2", "n3"} << Names{};
    QTest::newRow("the successor has ended") << Names{"n2"} << Names{"n2"};
    QTest::newRow("the successor has ended, and the other knows")
        << Names{"n2", "n3"} << Names{"n2"};
    QTest::newRow("the other has ended") << Names{"n3"} << Names{"n3"};
    QTest::newRow("the other has ended, and the successor knows")
        << Names{"n2", "n3"} << Names{"n3"};
  }
  void theRunEndsOnceEverywhere() {
    QFETCH(std::vector<std::string>, decided);
    QFETCH(std::vector<std::string>, ended);
    Survivors survivors({.ends = true, .decided = decided, .ended = ended});
    const bool isOver = survivors.run([&] { return survivors.hasEnded(); });
    const std::string logs = survivors.log("n2") + "---\n" + survivors.log("n3");
    QVERIFY2(isOver, logs.c_str());
    for (const char* node : {"n2", "n3"}) {
      QCOMPARE(survivors.state(node), run::v1::SUCCEEDED);
      const auto last = survivors.first(node, [](const auto& one) { return one.has_finished(); });
      QVERIFY2(last && last->finished().agreed(), logs.c_str());
      QVERIFY2(!survivors.first(node, [](const auto& one) { return one.has_error(); }),
               logs.c_str());
    }
    const auto again = survivors.first("n2", [](const auto& one) { return one.has_recovering(); });
    QVERIFY2(again.has_value() == decided.empty(), logs.c_str());
  }

  // None has a majority: each ends its workers, and waits for the others.
  void allApart() {
    Survivors survivors({.apart = true});
    const auto areAbsent = [&] {
      return survivors.state("n2") == run::v1::RECOVERING &&
             survivors.state("n3") == run::v1::RECOVERING;
    };
    const bool were = survivors.run(areAbsent);
    const std::string logs = survivors.log("n2") + "---\n" + survivors.log("n3");
    QVERIFY2(were && areAbsent(), logs.c_str());
    QVERIFY2(logs.find("coordinates the run from now on") == std::string::npos, logs.c_str());
    for (const char* node : {"n2", "n3"}) {
      QVERIFY2(!survivors.first(node, [](const auto& one) { return one.has_recovering(); }),
               logs.c_str());
      QVERIFY2(survivors.log(node).find("ends its workers, and waits") != std::string::npos,
               logs.c_str());
    }
  }

  // What a person has stopped trains no more, whoever knows of it, even if ranks do not end by
  // themselves.
  void aStoppedRunEndsWithoutItsCoordinator_data() {
    using Names = std::vector<std::string>;
    QTest::addColumn<Names>("stopping");
    QTest::addColumn<bool>("ended");  // all ranks have
    QTest::newRow("both know") << Names{"n2", "n3"} << false;
    QTest::newRow("the successor knows") << Names{"n2"} << false;
    QTest::newRow("the voter knows") << Names{"n3"} << false;
    QTest::newRow("all ranks have ended") << Names{"n2", "n3"} << true;
  }
  void aStoppedRunEndsWithoutItsCoordinator() {
    QFETCH(std::vector<std::string>, stopping);
    QFETCH(bool, ended);
    Survivors survivors({.ends = ended,
                         .decided = ended ? stopping : std::vector<std::string>(),
                         .stopping = stopping});
    const bool isOver = survivors.run([&] { return survivors.hasEnded(); });
    const std::string logs = survivors.log("n2") + "---\n" + survivors.log("n3");
    QVERIFY2(isOver, logs.c_str());
    for (const char* node : {"n2", "n3"}) {
      QCOMPARE(survivors.state(node), run::v1::STOPPED);
      QVERIFY2(!survivors.first(node, [](const auto& one) { return one.has_error(); }),
               logs.c_str());
      QVERIFY2(!survivors.first(node, [](const auto& one) { return one.has_recovering(); }),
               logs.c_str());
      const auto last = survivors.first(node, [](const auto& one) { return one.has_finished(); });
      QVERIFY2(last && last->finished().agreed(), logs.c_str());
      QVERIFY(survivors.hasCheckpoint(node));
    }
    const auto warning = survivors.first("n2", [](const run::v1::Record& record) {
      return record.warning().what().text() == "node n1 was lost";
    });
    QVERIFY2(warning.has_value() != ended, logs.c_str());
  }

  // Whoever knows that a person has killed the run has ended, and tells the other.
  void aKilledRunEndsWithoutItsCoordinator_data() {
    QTest::addColumn<std::vector<std::string>>("killed");
    QTest::newRow("both know") << std::vector<std::string>{"n2", "n3"};
    QTest::newRow("the successor knows") << std::vector<std::string>{"n2"};
    QTest::newRow("the voter knows") << std::vector<std::string>{"n3"};
  }
  void aKilledRunEndsWithoutItsCoordinator() {
    QFETCH(std::vector<std::string>, killed);
    Survivors survivors({.killed = killed});
    const bool isOver = survivors.run([&] { return survivors.hasEnded(); });
    const std::string logs = survivors.log("n2") + "---\n" + survivors.log("n3");
    QVERIFY2(isOver, logs.c_str());
    for (const char* node : {"n2", "n3"}) {
      QCOMPARE(survivors.state(node), run::v1::STOPPED);
      QVERIFY2(!survivors.first(node, [](const auto& one) { return one.has_recovering(); }),
               logs.c_str());
    }
    for (const std::string& node : killed) {  // with n1, two of three
      const auto last = survivors.first(node, [](const auto& one) { return one.has_finished(); });
      QVERIFY2(last && last->finished().agreed(), logs.c_str());
    }
  }

  // The coordinator may count the new electorate alone already, or the old one still.
  void whoKnowsOfANewElectorateNeedsItsMajority_data() {
    using Names = std::vector<std::string>;
    QTest::addColumn<Names>("told");
    QTest::addColumn<Names>("next");
    QTest::addColumn<bool>("takesOver");
    QTest::newRow("nobody knows") << Names{} << Names{"n1", "n2"} << true;
    QTest::newRow("the successor knows") << Names{"n2"} << Names{"n1", "n2"} << false;
    QTest::newRow("the voter knows") << Names{"n3"} << Names{"n1", "n2"} << false;
    QTest::newRow("they are a majority of both") << Names{"n2", "n3"} << Names{"n2", "n3"} << true;
  }
  void whoKnowsOfANewElectorateNeedsItsMajority() {
    QFETCH(std::vector<std::string>, told);
    QFETCH(std::vector<std::string>, next);
    QFETCH(bool, takesOver);
    Survivors survivors({.changes = told, .next = next});
    const auto logs = [&] { return survivors.log("n2") + "---\n" + survivors.log("n3"); };
    const bool stood = survivors.run(
        [&] { return logs().find("asks for votes to take over") != std::string::npos; });
    const std::string all = logs();
    QVERIFY2(stood, all.c_str());
    const bool tookOver = all.find("coordinates the run from now on") != std::string::npos;
    QVERIFY2(tookOver == takesOver, all.c_str());
  }

  // Others may have gone on only where a node can take over.
  void aNodeThatIsAloneEndsAsStopped_data() {
    QTest::addColumn<std::string>("recovery");
    QTest::addColumn<bool>("agreed");
    QTest::newRow("others can take over") << std::string("shrink") << false;
    QTest::newRow("none can") << std::string("none") << true;
  }
  void aNodeThatIsAloneEndsAsStopped() {
    QFETCH(std::string, recovery);
    QFETCH(bool, agreed);
    Survivors survivors({.stopping = {"n2", "n3"}, .apart = true, .recovery = recovery});
    const bool isOver = survivors.run([&] { return survivors.hasEnded(); });
    const std::string logs = survivors.log("n2") + "---\n" + survivors.log("n3");
    QVERIFY2(isOver, logs.c_str());
    for (const char* node : {"n2", "n3"}) {
      QCOMPARE(survivors.state(node), run::v1::STOPPED);
      QVERIFY2(!survivors.first(node, [](const auto& one) { return one.has_error(); }),
               logs.c_str());
      const auto last = survivors.first(node, [](const auto& one) { return one.has_finished(); });
      QVERIFY2(last && last->finished().agreed() == agreed, logs.c_str());
      const auto warning = survivors.first(node, [](const run::v1::Record& record) {
        return record.warning().next().text().starts_with("resume the run from its last");
      });
      QVERIFY2(warning, logs.c_str());
    }
  }
};

// The workers of the nodes are this program too. Each is ready at once, takes a checkpoint when it
// is asked to, and tells of a step that cannot be. Where that is all that is to be trained, it ends
// when it may begin.
int runWorker() {
  PlayedWorker worker;
  node::v1::FromWorker steps;
  steps.mutable_steps()->set_first_step(std::numeric_limits<std::int64_t>::max());
  for (int i = 0; i < 2; ++i) steps.mutable_steps()->add_loss(1);
  worker.send(steps);
  worker.sendReady();
  while (const auto message = worker.receive()) {
    if (message->has_checkpoint()) worker.sendCheckpoint(5);
    if (worker.maxSteps() != kEndsAtOnce || !message->has_go()) continue;
    worker.sendFinished(run::v1::SUCCEEDED);
    break;
  }
  return 0;
}

int main(int argc, char** argv) {
  return runTestOrWorker<AgentTakeoverTest>(argc, argv, runWorker);
}
#include "agent_takeover_test.moc"
