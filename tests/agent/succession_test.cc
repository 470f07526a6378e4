// How a node votes for another, asks for votes and takes over, without connections and by a clock
// of the test's own.
#include <QTest>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/supervisor/succession.h"

using namespace lockstep;
using agent::Succession;

namespace {

constexpr Nanoseconds kBeat = 1'000'000'000;

// A node of a run that "n1" coordinates; the others succeed it in the order of their names.
class Node {
 public:
  Node(const std::string& name, int nodes) {
    for (int i = 1; i <= nodes; ++i) names_.push_back(fmt::format("n{}", i));
    situation.follows = situation.continues = true;
    situation.coordinator = "n1";
    electorates = {names_};
    situation.heard = now;
    succession = std::make_unique<Succession>(name, names_, kBeat, handlers());
    std::vector<node::v1::Listener> listeners;
    for (const std::string& one : names_)
      if (one != "n1") listeners.emplace_back().set_node(one);
    succession->setListeners(std::move(listeners));
  }

  void beat(int heartbeats = 1) {
    now += heartbeats * kBeat;
    succession->beat(now);
  }
  void fallSilent() {
    situation.silent = true;
    beat(5);
  }
  void vote(const std::string& from) { succession->onVote(from, 1, now); }
  void decline(const std::string& successor = {}) {
    node::v1::Decline message;
    message.set_successor(successor);
    succession->onDecline(message, now);
  }
  // Returns what it has done since the last call.
  std::string told() {
    const std::string out = fmt::format("{}", fmt::join(told_, "; "));
    told_.clear();
    return out;
  }

  Nanoseconds now = 1000 * kBeat;
  Succession::Situation situation;
  Status takesOver;  // whether the run can continue
  agent::Electorates electorates;
  std::string connected;  // the successor
  std::unique_ptr<Succession> succession;

 private:
  Succession::Handlers handlers() {
    Succession::Handlers out;
    out.say = [](const std::string&) {};
    out.situation = [this] { return situation; };
    out.electorates = [this](const Succession::Voters&) { return electorates; };
    out.nodesWithRanks = [this] { return names_; };
    out.connect = [this](const node::v1::Listener& to) {
      told_.push_back("connect " + to.node());
      connected = to.node();
    };
    out.disconnect = [this] { connected.clear(); };
    out.sendVote = [this] { told_.emplace_back("vote"); };
    out.sendDecline = [this](const std::string& node, const node::v1::Decline& decline) {
      told_.push_back("decline " + node + (decline.hears() ? " hears" : "") +
                      (decline.successor().empty() ? "" : " for " + decline.successor()));
    };
    out.leaveCoordinator = [this] { told_.emplace_back("leave"); };
    out.followCoordinator = [this] { told_.emplace_back("follow"); };
    out.takeOver = [this](const std::vector<std::string>& lost, const Succession::Voters&) {
      told_.push_back(fmt::format("without {}", fmt::join(lost, ",")));
      if (takesOver.ok()) situation.follows = false;
      return takesOver;
    };
    return out;
  }

  std::vector<std::string> names_, told_;
};

}  // namespace

class SuccessionTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void votesOnceTheCoordinatorIsSilent() {
    Node node("n4", 4);
    node.beat();
    QCOMPARE(node.told(), std::string());
    node.fallSilent();
    QCOMPARE(node.told(), std::string("connect n2"));
    node.succession->onReached("n2");
    QCOMPARE(node.told(), std::string("leave; vote"));
    node.beat();
    QCOMPARE(node.told(), std::string("vote"));
  }

  void aSuccessorThatIsNotReachedLosesItsTurn() {
    Node node("n4", 4);
    node.fallSilent();
    node.beat(Succession::kTurn - 1);
    QCOMPARE(node.told(), std::string("connect n2"));
    node.beat();
    QCOMPARE(node.told(), std::string("connect n3"));
  }

  void aSuccessorThatIsLostAfterTheVoteIsGivenUp() {
    Node node("n4", 4);
    node.fallSilent();
    node.succession->onReached("n2");
    node.succession->onUnreached("n2", node.now);
    node.beat(Succession::kTurn);
    QCOMPARE(node.told(), std::string("connect n2; leave; vote"));
    node.beat();
    QCOMPARE(node.told(), std::string("follow"));
  }

  // The first may have its turn again.
  void aDeclineLeadsToTheNext() {
    Node node("n4", 4);
    node.fallSilent();
    std::string last = node.told();
    for (int i = 0; i < 100 && last == "connect n2"; ++i) {
      node.succession->onReached("n2");
      node.decline();
      node.beat();
      QCOMPARE(node.told(), std::string("leave; vote; follow"));
      node.beat();
      last = node.told();
    }
    QCOMPARE(last, std::string("connect n3"));
  }

  void theFirstOfTwoThatVoteForEachOtherStands() {
    Node node("n3", 4);
    node.fallSilent();
    node.succession->onReached("n2");
    node.decline("n4");
    node.succession->onReached("n4");
    QCOMPARE(node.told(), std::string("connect n2; leave; vote; connect n4; leave; vote"));
    node.vote("n4");
    node.beat();
    QCOMPARE(node.told(), std::string("leave"));
    node.vote("n2");
    QCOMPARE(node.told(), std::string("without n1"));
    QCOMPARE(node.connected, std::string());  // it would have this vote too
  }

  void theSecondOfThemKeepsItsVote() {
    Node node("n4", 5);
    node.fallSilent();
    node.succession->onReached("n2");
    node.decline("n3");
    node.succession->onReached("n3");
    QCOMPARE(node.told(), std::string("connect n2; leave; vote; connect n3; leave; vote"));
    node.vote("n3");
    node.vote("n5");
    node.beat();
    QCOMPARE(node.told(), std::string("decline n5 for n3; vote"));
  }

  void votesAreDeclinedWhileTheCoordinatorAnswers() {
    Node node("n2", 3);
    node.vote("n3");
    node.beat();
    QCOMPARE(node.told(), std::string());
    node.situation.heard = node.now;
    node.beat();
    QCOMPARE(node.told(), std::string("decline n3 hears"));
  }

  void aMajorityTakesOver() {
    Node node("n2", 4);
    node.fallSilent();
    node.vote("n3");
    QCOMPARE(node.told(), std::string("leave"));  // half of the nodes
    node.vote("n4");
    QCOMPARE(node.told(), std::string("without n1"));
  }

  // Whoever coordinates: of two halves, one alone decides.
  void ofTwoHalvesThatWithTheFirstNodeDecides() {
    const agent::Electorates four = {{"n1", "n2", "n3", "n4"}};
    const auto decide = [&](const std::set<std::string>& nodes) {
      return agent::isQuorum(four, [&](const std::string& one) { return nodes.contains(one); });
    };
    QVERIFY(decide({"n1", "n4"}));
    QVERIFY(!decide({"n2", "n3"}));
    QVERIFY(decide({"n2", "n3", "n4"}));
  }

  // While the electorate changes.
  void aMajorityOfEachElectorateTakesOver() {
    Node node("n2", 5);
    node.electorates.push_back({"n1", "n2", "n4", "n6"});
    node.fallSilent();
    node.vote("n3");
    node.vote("n5");
    node.beat(2);
    QCOMPARE(node.told(), std::string("leave"));  // of the old one alone
    node.vote("n4");
    QCOMPARE(node.told(), std::string());  // half of the new one, without its first node
    node.vote("n6");
    QCOMPARE(node.told(), std::string("without n1"));
  }

  void aMajorityWaitsForTheOthers() {
    Node node("n2", 5);
    node.fallSilent();
    node.vote("n3");
    node.vote("n4");
    node.beat();
    QCOMPARE(node.told(), std::string("leave"));
    node.beat();
    QCOMPARE(node.told(), std::string("without n1,n5"));
  }

  void aMinorityGivesUp() {
    Node node("n2", 4);
    node.fallSilent();
    QCOMPARE(node.told(), std::string("leave"));
    std::string told;
    for (int i = 0; i < 20 && told.empty(); ++i) {
      node.vote("n3");
      node.beat();
      told = node.told();
    }
    QCOMPARE(told, std::string("decline n3; follow"));
  }

  void votesThatAreNotRepeatedDoNotCount() {
    Node node("n2", 4);
    node.fallSilent();
    node.vote("n3");
    node.beat(Succession::kTurn + 1);
    node.vote("n4");
    QCOMPARE(node.told(), std::string("leave"));
  }

  void aMajorityThatCannotContinueGivesUp() {
    Node node("n2", 3);
    node.takesOver = makeError(Code::kUnavailable, "no spare node can replace node n1");
    node.fallSilent();
    node.vote("n3");
    QCOMPARE(node.told(), std::string("leave; without n1; decline n3; follow"));
  }

  void anAbsentNodeAsksInTurnWhoCoordinates() {
    Node node("n4", 4);
    node.situation.silent = node.situation.absent = true;
    node.beat();
    node.succession->onReached("n2");  // it does not vote
    node.beat();
    QCOMPARE(node.told(), std::string("connect n2"));
    node.beat(Succession::kTurn);
    QCOMPARE(node.told(), std::string("connect n3"));
    node.beat(Succession::kTurn);  // its own turn
    QCOMPARE(node.told(), std::string());
    node.beat(Succession::kTurn);
    QCOMPARE(node.told(), std::string("connect n2"));
  }
};

QTEST_GUILESS_MAIN(SuccessionTest)
#include "succession_test.moc"
