// When a run restarts after a failure, with which nodes, and when it ends.
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "agent/supervisor/checkpoint_copies.h"
#include "agent/supervisor/members.h"
#include "agent/supervisor/recovery.h"
#include "agent/supervisor/requests.h"
#include "agent/worker/prepare.h"
#include "engine/base/file.h"
#include "engine/plan/batch_shares.h"
#include "engine/plan/plan.h"
#include "engine/specs/planned.h"
#include "engine/specs/specs.h"
#include "engine/weights/checkpoint_files.h"

using namespace lockstep;

namespace {

constexpr auto kExit = agent::FailureKind::kExit;

Error failure(Code code = Code::kAborted) {
  Error error;
  error.code = code;
  error.what = "the worker of rank 1 was killed";
  return error;
}

spec::v1::RecoverySpec restarting(int most = 10) {
  spec::v1::RecoverySpec spec;
  spec.set_policy("restart");
  spec.set_max_restarts(most);
  return spec;
}

// A run on nodes "n0", "n1", … with these numbers of ranks, then `spares`.
node::v1::PrepareRequest onNodes(const std::vector<int>& ranks, int spares,
                                 const std::string& policy) {
  node::v1::PrepareRequest out;
  out.set_comm("gloo");
  auto& cluster = *out.mutable_cluster();
  cluster.set_version(1);
  cluster.set_name("c");
  for (std::size_t i = 0; i < ranks.size() + static_cast<std::size_t>(spares); ++i) {
    auto& node = *cluster.add_nodes();
    node.set_name(fmt::format("n{}", i));
    auto& device = *node.add_devices();
    device.set_kind("cpu");
    device.set_count(i < ranks.size() ? ranks[i] : 1);
    if (i >= ranks.size()) node.add_roles("spare");
    auto& host = *out.add_hosts();
    host.set_node(node.name());
    host.set_host(node.name());
    host.set_cores(4);
  }
  auto& spec = *out.mutable_spec();
  spec.set_version(1);
  auto& model = *spec.mutable_model();
  model.set_name("m");
  model.set_classes(3);
  for (const int size : {1, 4, 4}) model.mutable_input()->add_shape(size);
  model.add_layers()->mutable_flatten();
  model.add_layers()->mutable_dense()->set_units(3);
  spec.mutable_training()->set_batch(64);
  spec.mutable_training()->set_epochs(1);
  for (auto* data :
       {spec.mutable_data()->mutable_train(), spec.mutable_data()->mutable_evaluate()}) {
    data->set_images("x");
    data->set_labels("y");
  }
  spec.mutable_strategy()->set_kind("multi-worker-mirrored");
  spec.mutable_recovery()->set_policy(policy);
  const Status complete = specs::checkAndFill(spec);
  LOCKSTEP_CHECK(complete.ok(), "{}", complete.ok() ? "" : complete.error().text());
  return out;
}

std::set<std::string> namesOf(const std::map<std::string, std::vector<int>>& ranks) {
  std::set<std::string> out;
  for (const auto& [node, of] : ranks) out.insert(node);
  return out;
}

// Whether these files have all of every tensor.
bool isWhole(const weights::Manifest& manifest, const std::set<std::string>& files) {
  std::map<std::string, std::vector<plan::Piece>> pieces;
  for (const std::string& file : files)
    if (const auto found = manifest.contents.find(file); found != manifest.contents.end())
      for (const plan::Piece& piece : found->second) pieces[piece.tensor.name].push_back(piece);
  return std::all_of(manifest.tensors.begin(), manifest.tensors.end(), [&](const auto& one) {
    plan::Piece whole;
    whole.tensor = one.second;
    whole.end = elementCount(one.second.shape);
    return plan::coverOf(pieces[one.first], whole).has_value();
  });
}

}  // namespace

class RecoveryTest : public QObject {
  Q_OBJECT

  // Nodes that come back are spares, and make up for the places that nobody has taken.
  static void comeBack(const std::vector<std::string>& lost, const spec::v1::ClusterSpec& launched,
                       node::v1::PrepareRequest& request) {
    for (const spec::v1::NodeSpec& node : launched.nodes()) {
      if (std::find(lost.begin(), lost.end(), node.name()) == lost.end()) continue;
      spec::v1::NodeSpec& back = *request.mutable_cluster()->add_nodes();
      back = node;
      back.clear_roles();
      back.add_roles("spare");
    }
    const auto before = agent::ranksByNode(request);
    const auto grown =
        agent::membersWithSpares(launched, request, [](const std::string&) { return true; });
    QVERIFY2(grown.ok(), grown.ok() ? "" : grown.error().text().c_str());
    const std::size_t all = specs::nodesWithRanks(launched, request.spec().strategy()).size();
    QVERIFY(agent::apply(*grown, request).ok());
    const auto ranks = agent::ranksByNode(request);
    QCOMPARE(ranks.size(), all);
    for (const auto& [node, of] : before) QVERIFY(ranks.contains(node));
    QCOMPARE(request.comm(), std::string(all > 1 ? "gloo" : request.comm()));
    const auto plan = plan::parse(request.plan());
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    QVERIFY(plan::verify(*plan).ok());
    std::size_t world = 0;
    for (const auto& [node, of] : ranks) world += of.size();
    QCOMPARE(static_cast<int>(world), plan->mesh.size());
  }

 private Q_SLOTS:
  // Another node continues with what a person has asked for, and with nothing that is done.
  void pendingRequestsAreTakenOver() {
    agent::Requests own, next;
    own.exclude("n1", 7);
    own.exclude("n2", 9);
    own.excludeFailing("n3");
    own.rebalance({3, 1}, 9);
    next.exclude("n4", 0);
    next.continueFrom(own.pending());
    QCOMPARE(next.excluding(), (std::vector<std::string>{"n1", "n2"}));
    QCOMPARE(next.shares(), (std::vector<double>{3, 1}));
    QVERIFY(next.due(0).exclusion && next.due(0).rebalancing && !next.due(0).restart);
    next.onRestart({"n2"});  // the next generation began without it
    QCOMPARE(next.excluding(), std::vector<std::string>{"n1"});
    next.continueFrom(own.pending());  // told before that
    QCOMPARE(next.excluding(), std::vector<std::string>{"n1"});
    QVERIFY(next.isExcluded("n2") && !next.isFailing("n1"));
    next.continueFrom({});
    QVERIFY(!next.any());
  }

  void onlyWhatMayPassIsTriedAgain() {
    for (const Code code :
         {Code::kAborted, Code::kUnavailable, Code::kDeadlineExceeded, Code::kInternal})
      QVERIFY(!agent::Recovery(restarting()).ends(failure(code), kExit, 5));
    for (const Code code : {Code::kInvalidArgument, Code::kDataLoss, Code::kCancelled,
                            Code::kResourceExhausted, Code::kPermissionDenied, Code::kNotFound}) {
      const auto end = agent::Recovery(restarting()).ends(failure(code), kExit, 5);
      QVERIFY(end);
      QCOMPARE(end->code, code);
      QCOMPARE(end->why.text(), std::string());
    }
    spec::v1::RecoverySpec none;
    none.set_policy("none");
    QVERIFY(agent::Recovery(none).ends(failure(), kExit, 5));
  }

  void onlyTheKindsThatAreNamedRestart() {
    const std::map<agent::FailureKind, std::string> names = {
        {kExit, "exit"},
        {agent::FailureKind::kHang, "hang"},
        {agent::FailureKind::kNodeLost, "node_lost"}};
    for (const auto& [kind, name] : names) {
      QVERIFY(agent::restartsAfter(kind, restarting()));
      spec::v1::RecoverySpec spec = restarting();
      spec.add_on(name);
      for (const auto& [other, of] : names) {
        agent::Recovery recovery(spec);
        QCOMPARE(recovery.ends(failure(), other, 5).has_value(), other != kind);
        QCOMPARE(agent::restartsAfter(other, spec), other == kind);
      }
      spec.set_policy("none");
      QVERIFY(!agent::restartsAfter(kind, spec));
    }
    // Without restarts for them, no node takes the place of a lost one.
    node::v1::PrepareRequest request = onNodes({1, 1, 1}, 1, "restart");
    QVERIFY(agent::replacesNodes(request.spec(), request.cluster()));
    request.mutable_spec()->mutable_recovery()->add_on("exit");
    QVERIFY(!agent::replacesNodes(request.spec(), request.cluster()));
  }

  // Spares take the places of lost nodes, by which they get the ranks of those; the others go on.
  void lostNodesAreReplacedOrLeftOut() {
    std::minstd_rand random(7);
    const auto upTo = [&](int most) {
      return static_cast<int>(random() % static_cast<unsigned>(most));
    };
    for (int round = 0; round < 300; ++round) {
      std::vector<int> ranks(static_cast<std::size_t>(2 + upTo(4)));
      for (int& of : ranks) of = 1 + upTo(3);
      const int spares = upTo(3), silent = spares > 0 ? upTo(spares) : 0;
      const bool shrinks = upTo(2) == 1;
      node::v1::PrepareRequest request = onNodes(ranks, spares, shrinks ? "shrink" : "restart");
      request.set_node("n0");
      std::vector<std::string> lost;
      for (std::size_t i = 1; i < ranks.size(); ++i)
        if (upTo(2) == 1) lost.push_back(fmt::format("n{}", i));
      if (lost.empty()) lost.push_back("n1");
      const std::string away = fmt::format("n{}", ranks.size());
      const auto answers = [&](const std::string& node) { return silent == 0 || node != away; };
      const int able = spares - (silent > 0 ? 1 : 0);
      const auto members = agent::membersWithout(lost, request, answers);
      if (!shrinks && able < static_cast<int>(lost.size())) {
        QVERIFY(!members.ok());
        QCOMPARE(members.error().code, Code::kUnavailable);
        continue;
      }
      QVERIFY2(members.ok(), members.ok() ? "" : members.error().text().c_str());
      std::set<std::string> expected = namesOf(agent::ranksByNode(request));
      const std::set<std::string> before = expected;
      for (const std::string& node : lost) expected.erase(node);
      const spec::v1::ClusterSpec launched = request.cluster();
      QVERIFY(agent::apply(*members, request).ok());
      const auto after = agent::ranksByNode(request);
      const std::set<std::string> names = namesOf(after);
      for (const std::string& node : expected) QVERIFY(names.contains(node));
      for (const std::string& node : lost) QVERIFY(!names.contains(node));
      QVERIFY(silent == 0 || !names.contains(away));
      const std::size_t taken = std::min(lost.size(), static_cast<std::size_t>(able));
      QCOMPARE(names.size(), before.size() - lost.size() + taken);
      QCOMPARE(specs::spareNodes(request.cluster()).size(),
               static_cast<std::size_t>(spares) - taken);
      const auto plan = plan::parse(request.plan());
      QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
      QVERIFY(plan::verify(*plan).ok());
      std::set<int> all;
      for (const auto& [node, of] : after) all.insert(of.begin(), of.end());
      QCOMPARE(static_cast<int>(all.size()), plan->mesh.size());
      QCOMPARE(*all.rbegin(), plan->mesh.size() - 1);
      QCOMPARE(request.ranks_size(), ranks[0]);
      const bool alone = after.size() == 1;
      QCOMPARE(request.comm(), std::string(!alone ? "gloo" : ranks[0] > 1 ? "shm" : "in-process"));

      comeBack(lost, launched, request);
      if (QTest::currentTestFailed()) return;
    }
  }

  // Of each node, as many nodes on other hosts keep copies as is asked for, or as there are.
  void eachNodeIsCopiedToOtherHosts() {
    std::minstd_rand random(9);
    const auto upTo = [&](int most) {
      return static_cast<int>(random() % static_cast<unsigned>(most));
    };
    for (int round = 0; round < 300; ++round) {
      node::v1::PrepareRequest request =
          onNodes(std::vector<int>(static_cast<std::size_t>(1 + upTo(6)), 1), upTo(2), "restart");
      std::map<std::string, std::string> hosts;
      for (auto& host : *request.mutable_hosts()) {
        host.set_host(fmt::format("host{}", upTo(4)));
        hosts[host.node()] = host.host();
      }
      auto& checkpoint = *request.mutable_spec()->mutable_training()->mutable_checkpoint();
      const bool isShared = upTo(4) == 0, isAsked = upTo(2) == 0;
      if (isShared) checkpoint.set_path("/shared");
      if (isAsked) checkpoint.set_copies(upTo(4));
      const std::set<std::string> nodes = namesOf(agent::ranksByNode(request));
      std::set<std::string> used;
      for (const std::string& node : nodes) used.insert(hosts[node]);
      std::map<std::string, std::set<std::string>> holdersOf;
      for (const auto& [holder, of] : agent::copiedNodes(request)) {
        QVERIFY(!of.empty());
        for (const std::string& node : of) QVERIFY(holdersOf[node].insert(holder).second);
      }
      for (const std::string& node : nodes) {
        const std::set<std::string>& holders = holdersOf[node];
        std::size_t able = 0;
        for (const std::string& other : nodes)
          if (other != node && (used.size() < 2 || hosts[other] != hosts[node])) ++able;
        const int asked = isAsked ? checkpoint.copies() : isShared || used.size() < 2 ? 0 : 1;
        QCOMPARE(holders.size(), std::min(able, static_cast<std::size_t>(asked)));
        for (const std::string& holder : holders) {
          QVERIFY(holder != node && nodes.contains(holder));
          QVERIFY(used.size() < 2 || hosts[holder] != hosts[node]);
        }
      }
    }
  }

  // With the copied files, the others have the whole state; without any one of them they do not.
  void whatIsCopiedIsWhatTheOthersLack() {
    for (const char* kind :
         {"multi-worker-mirrored", "zero-1", "zero-2", "zero-3", "pipeline", "tensor-parallel"}) {
      node::v1::PrepareRequest request = onNodes({1, 2, 1}, 0, "restart");
      request.mutable_spec()->mutable_strategy()->set_kind(kind);
      request.mutable_spec()->mutable_model()->clear_layers();
      request.mutable_spec()->mutable_model()->add_layers()->mutable_flatten();
      for (const int units : {8, 8, 8, 4})
        request.mutable_spec()->mutable_model()->add_layers()->mutable_dense()->set_units(units);
      request.mutable_spec()->mutable_model()->set_classes(4);
      const Status complete = specs::checkAndFill(*request.mutable_spec());
      QVERIFY2(complete.ok(), complete.ok() ? "" : complete.error().text().c_str());
      std::vector<specs::NodeHost> hosts;
      for (const auto& host : request.hosts()) hosts.push_back({host.node(), host.host(), 4});
      spec::v1::ClusterSpec cluster = request.cluster();
      cluster.set_comm("gloo");
      const auto planned = specs::makePlanned(request.spec(), cluster, hosts, planner::CostModel());
      QVERIFY2(planned.ok(), planned.ok() ? "" : planned.error().text().c_str());
      const plan::Plan& plan = planned->plan;
      const auto ranks = agent::ranksByNode(request);
      std::vector<int> folders(static_cast<std::size_t>(plan.mesh.size()));
      for (const auto& [node, of] : ranks)
        for (const int rank : of) folders[static_cast<std::size_t>(rank)] = of.front();
      weights::Manifest manifest;
      for (int rank = 0; rank < plan.mesh.size(); ++rank)
        for (const plan::HeldPiece& held : plan::piecesWrittenBy(plan, rank, folders)) {
          manifest.tensors.emplace(held.piece.tensor.name, held.piece.tensor);
          manifest.contents[weights::shardFile(rank)].push_back(held.piece);
        }
      const bool isReplicated = std::string(kind) == "multi-worker-mirrored";
      for (const auto& [node, of] : ranks) {
        const std::vector<std::string> copied =
            weights::filesOnlyOf(manifest, {of.begin(), of.end()});
        QCOMPARE(copied.empty(), isReplicated);
        std::set<std::string> there;
        for (const auto& [file, pieces] : manifest.contents) there.insert(file);
        for (const int rank : of) there.erase(weights::shardFile(rank));
        there.insert(copied.begin(), copied.end());
        QVERIFY(isWhole(manifest, there));
        for (const std::string& file : copied) {
          std::set<std::string> less = there;
          less.erase(file);
          QVERIFY2(!isWhole(manifest, less), kind);
        }
      }
    }
  }

  // Where the rest of a run cannot be planned, the planner's error says why.
  void whatCannotBePlannedIsSaid() {
    node::v1::PrepareRequest request = onNodes({1, 1, 1}, 0, "shrink");
    request.set_node("n0");
    request.mutable_spec()->mutable_training()->set_batch(63);
    request.mutable_spec()->mutable_strategy()->set_deterministic_parts(3);
    const auto members =
        agent::membersWithout({"n2"}, request, [](const std::string&) { return true; });
    QVERIFY(!members.ok());
    QVERIFY2(members.error().text().find("deterministic_parts") != std::string::npos,
             members.error().text().c_str());
  }

  // The nodes that remain keep their proportions; one that takes a place has the mean.
  void sharesStayWithTheirNodes() {
    const auto samplesOf = [](const node::v1::PrepareRequest& request) {
      const auto plan = plan::parse(request.plan());
      return plan.ok() ? plan::BatchShares(*plan).of(plan->mesh.size()) : std::vector<double>();
    };
    const auto always = [](const std::string&) { return true; };
    for (unsigned seed = 1; seed <= 20; ++seed) {
      std::minstd_rand random(seed);
      const int spares = static_cast<int>(random() % 2);
      node::v1::PrepareRequest request = onNodes({1, 1, 1, 1}, spares, "shrink");
      request.set_node("n0");
      std::map<std::string, double> shareOf;
      std::vector<double> shares;
      double sum = 0;
      for (const auto& [node, ranks] : agent::ranksByNode(request)) {
        shares.push_back(1 + static_cast<double>(random() % 4));
        sum += shareOf[node] = shares.back();
      }
      const auto divided = agent::membersSharing(shares, request);
      QVERIFY2(divided.ok(), divided.ok() ? "" : divided.error().text().c_str());
      QVERIFY(agent::apply(*divided, request).ok());
      const auto before = agent::ranksByNode(request);
      const std::vector<double> now = samplesOf(request);
      for (const auto& [node, ranks] : before)
        QVERIFY(std::abs(now[static_cast<std::size_t>(ranks[0])] - 64 * shareOf[node] / sum) <
                1.01);
      const std::string lost = fmt::format("n{}", 1 + random() % 3);
      const auto members = agent::membersWithout({lost}, request, always);
      QVERIFY2(members.ok(), members.ok() ? "" : members.error().text().c_str());
      QVERIFY(agent::apply(*members, request).ok());
      const std::vector<double> then = samplesOf(request);
      double left = 0;
      for (const auto& [node, ranks] : agent::ranksByNode(request))
        left += shareOf.contains(node) ? shareOf[node] : sum / 4;
      for (const auto& [node, ranks] : agent::ranksByNode(request)) {
        const double share = shareOf.contains(node) ? shareOf[node] : sum / 4;
        QVERIFY(std::abs(then[static_cast<std::size_t>(ranks[0])] - 64 * share / left) < 1.01);
      }
    }
  }

  // Each restart waits longer than the one before. Then the run ends, and says what was tried.
  void aFailureThatComesAgainEndsTheRun() {
    agent::Recovery recovery(restarting());
    Nanoseconds before = -1;
    for (int restart = 0; restart < 3; ++restart) {
      QVERIFY(!recovery.ends(failure(), kExit, 7));
      QVERIFY(recovery.pause() > before);
      before = recovery.pause();
    }
    const auto end = recovery.ends(failure(), kExit, 6);
    QVERIFY(end);
    QCOMPARE(end->what.text(), failure().what.text());
    QCOMPARE(end->why.text(), std::string("3 restarts led to no step after step 7"));
  }

  void progressEndsTheBackOff() {
    agent::Recovery recovery(restarting());
    QVERIFY(!recovery.ends(failure(), kExit, 7));
    QVERIFY(!recovery.ends(failure(), kExit, 7));
    QCOMPARE(recovery.pause(), Nanoseconds{1'000'000'000});
    QVERIFY(!recovery.ends(failure(), kExit, 8));
    QCOMPARE(recovery.pause(), Nanoseconds{0});
  }

  void theNumberOfRestartsIsLimited() {
    agent::Recovery recovery(restarting(2));
    QVERIFY(!recovery.ends(failure(), kExit, 1));
    QVERIFY(!recovery.ends(failure(), kExit, 2));
    const auto end = recovery.ends(failure(), kExit, 3);
    QVERIFY(end);
    QVERIFY2(end->why.text().starts_with("the run was restarted 2 times"), end->why.text().c_str());
  }

  void threeOfTheLastFiveFailuresExcludeANode() {
    agent::Recovery recovery(restarting());
    std::int64_t step = 0;
    const auto fails = [&](const std::vector<std::string>& nodes) {
      QVERIFY(!recovery.ends(failure(), kExit, step += 50, nodes));
    };
    fails({"n2"});
    fails({"n1"});
    fails({"n2", "n3"});
    fails({});
    QVERIFY(!recovery.failsRepeatedly("n2"));
    fails({"n2"});
    QVERIFY(recovery.failsRepeatedly("n2"));
    QVERIFY(!recovery.failsRepeatedly("n3"));
    QCOMPARE(recovery.failuresText("n2").text(),
             std::string("node n2 caused 3 of the last 5 failures"));
    QCOMPARE(recovery.lastFailureOf("n2").text(), failure().what.text());
    fails({"n3"});  // the first is forgotten
    QVERIFY(!recovery.failsRepeatedly("n2"));
    QVERIFY(!recovery.failsRepeatedly("n3"));
  }

  // What follows is not the failure of the node any more.
  void anExcludedNodeIsForgotten() {
    agent::Recovery recovery(restarting());
    for (int i = 0; i < 3; ++i) QVERIFY(!recovery.ends(failure(), kExit, 7, {"n2", "n3"}));
    QVERIFY(recovery.pause() > 0);
    recovery.noteExcluded("n2");
    QCOMPARE(recovery.pause(), Nanoseconds{0});
    QVERIFY(!recovery.failsRepeatedly("n2"));
    QVERIFY(recovery.failsRepeatedly("n3"));
    QVERIFY(!recovery.ends(failure(), kExit, 7, {"n1"}));
  }

  // The count of failures is the same whether one node coordinates the run, or one after another.
  void successorsContinueTheCount() {
    std::minstd_rand random(11);
    const auto upTo = [&](int most) {
      return static_cast<int>(random() % static_cast<unsigned>(most));
    };
    const std::vector<std::string> names{"n1", "n2", "n3"};
    for (int round = 0; round < 500; ++round) {
      const spec::v1::RecoverySpec spec = restarting(1 + upTo(15));
      agent::Recovery one(spec), successor(spec);
      std::int64_t step = 0;
      for (int i = 0; i < 20; ++i) {
        Error error = failure();
        error.what = message("worker {} was killed", i);
        std::vector<std::string> nodes = names;
        std::erase_if(nodes, [&](const std::string&) { return upTo(3) > 0; });
        step += upTo(3);
        const bool progress = upTo(8) == 0;
        const std::string excluded = upTo(6) == 0 ? names[static_cast<std::size_t>(upTo(3))] : "";
        std::vector<std::string> ends;
        for (agent::Recovery* recovery : {&one, &successor}) {
          if (progress) recovery->noteProgress();
          const auto end = recovery->ends(error, kExit, step, nodes);
          ends.push_back(end ? end->text() : "");
          recovery->noteExcluded(excluded);
        }
        QCOMPARE(ends[0], ends[1]);
        QCOMPARE(one.pause(), successor.pause());
        for (const std::string& name : names) {
          QCOMPARE(one.failsRepeatedly(name), successor.failsRepeatedly(name));
          QCOMPARE(one.failuresText(name).text(), successor.failuresText(name).text());
          QCOMPARE(one.lastFailureOf(name).text(), successor.lastFailureOf(name).text());
        }
        if (!ends[0].empty()) break;
        if (upTo(3) > 0) continue;
        node::v1::PastFailures past;
        QVERIFY(past.ParseFromString(successor.past().SerializeAsString()));
        successor = agent::Recovery(spec);
        successor.continueFrom(past);
      }
    }
  }

  void failuresOfADayAgoDoNotCount() {
    constexpr std::int64_t kMinute = 60'000'000'000, kDay = 24 * 60 * kMinute;
    for (const std::int64_t age : {-kDay, kMinute, kDay - kMinute, kDay, kDay + kMinute}) {
      node::v1::PastFailures past;
      for (int i = 0; i < 3; ++i) {
        past.add_last()->add_nodes("n2");
        past.mutable_last(i)->set_age_ns(age);
      }
      agent::Recovery recovery(restarting());
      recovery.continueFrom(past);
      QCOMPARE(recovery.failsRepeatedly("n2"), age < kDay);
    }
  }

  // A node is excluded once the run goes on without it, whoever coordinates the run after that.
  void successorsTakeNoExcludedNodeBack() {
    std::minstd_rand random(13);
    for (int round = 0; round < 200; ++round) {
      agent::Requests requests;
      std::set<std::string> excluded;
      for (int i = 0; i < 30; ++i) {
        const std::string node = fmt::format("n{}", random() % 4);
        switch (random() % 4) {
          case 0:
            requests.exclude(node, i);
            break;
          case 1:
            requests.excludeFailing(node);
            break;
          case 2:
            if (requests.isExcluding(node)) excluded.insert(node);
            requests.onLeftOut(node);
            break;
          default: {
            agent::Requests successor;
            successor.onRestart(requests.excluded());
            requests = successor;
          }
        }
        QCOMPARE(requests.excluded(), excluded);
      }
    }
  }

  // A run that ends says which nodes failed, where and how often.
  void theEndNamesNodesThatFailedRepeatedly() {
    agent::Recovery recovery(restarting(3));
    Error error = failure();
    error.node = "n2";
    error.rank = 1;
    for (const std::int64_t step : {10, 20, 30})
      QVERIFY(!recovery.ends(error, kExit, step, {"n2"}));
    const auto end = recovery.ends(error, kExit, 40, {"n2"});
    QVERIFY(end);
    QCOMPARE(end->step, std::int64_t{40});
    QCOMPARE(end->text(), std::string("node n2, rank 1, step 40: the worker of rank 1 was killed: "
                                      "the run was restarted 3 times, which recovery.max_restarts "
                                      "allows\nnode n2 caused 4 of the last 4 failures"));
  }

  // A supervisor reads the plan in the run's folder again, long after it was verified.
  void aPlanThatWasDamagedSinceIsRefused() {
    node::v1::PrepareRequest request = onNodes({1, 1}, 0, "shrink");
    request.set_node("n0");
    const auto members = agent::membersWithout({}, request, [](const auto&) { return true; });
    QVERIFY2(members.ok(), members.ok() ? "" : members.error().text().c_str());
    QTemporaryDir folder;
    const std::string path = folder.filePath("plan.txt").toStdString();
    QVERIFY(writeFileAtomically(path, members->plan()).ok());
    auto plan = agent::readPlan(path);
    QVERIFY(plan.ok());
    for (auto& program : plan->programs)
      for (auto& body : program.bodies) body.arenaBytes = 0;
    QVERIFY(writeFileAtomically(path, plan::text(*plan)).ok());
    QVERIFY(plan::parse(plan::text(*plan)).ok());
    QCOMPARE(agent::readPlan(path).status().code(), Code::kInvalidArgument);
  }
};

QTEST_GUILESS_MAIN(RecoveryTest)
#include "recovery_test.moc"
