// When a run restarts after a failure, with which nodes, and when it ends.
#include <QTest>

#include "agent/supervisor/members.h"
#include "agent/supervisor/recovery.h"
#include "engine/plan/plan.h"
#include "engine/specs/specs.h"

using namespace lockstep;

namespace {

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

}  // namespace

class RecoveryTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void onlyWhatMayPassIsTriedAgain() {
    for (const Code code :
         {Code::kAborted, Code::kUnavailable, Code::kDeadlineExceeded, Code::kInternal})
      QVERIFY(!agent::Recovery(restarting()).ends(failure(code), 5));
    for (const Code code : {Code::kInvalidArgument, Code::kDataLoss, Code::kCancelled,
                            Code::kResourceExhausted, Code::kPermissionDenied, Code::kNotFound}) {
      const auto end = agent::Recovery(restarting()).ends(failure(code), 5);
      QVERIFY(end);
      QCOMPARE(end->code, code);
      QCOMPARE(end->why.text(), std::string());
    }
    spec::v1::RecoverySpec none;
    none.set_policy("none");
    QVERIFY(agent::Recovery(none).ends(failure(), 5));
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
      agent::apply(*members, request);
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
    }
  }

  // Where the rest of a run cannot be planned, the planner's error says why.
  void whatCannotBePlannedIsSaid() {
    node::v1::PrepareRequest request = onNodes({1, 1, 1}, 0, "shrink");
    request.set_node("n0");
    for (const double share : {1.0, 2.0, 1.0})
      request.mutable_spec()->mutable_strategy()->add_shares(share);
    const auto members =
        agent::membersWithout({"n2"}, request, [](const std::string&) { return true; });
    QVERIFY(!members.ok());
    QVERIFY2(members.error().text().find("shares") != std::string::npos,
             members.error().text().c_str());
  }

  // Each restart waits longer than the one before. Then the run ends, and says what was tried.
  void aFailureThatComesAgainEndsTheRun() {
    agent::Recovery recovery(restarting());
    Nanoseconds before = -1;
    for (int restart = 0; restart < 3; ++restart) {
      QVERIFY(!recovery.ends(failure(), 7));
      QVERIFY(recovery.pause() > before);
      before = recovery.pause();
    }
    const auto end = recovery.ends(failure(), 6);
    QVERIFY(end);
    QCOMPARE(end->what.text(), failure().what.text());
    QCOMPARE(end->why.text(), std::string("3 restarts led to no step after step 7"));
  }

  void progressEndsTheBackOff() {
    agent::Recovery recovery(restarting());
    QVERIFY(!recovery.ends(failure(), 7));
    QVERIFY(!recovery.ends(failure(), 7));
    QCOMPARE(recovery.pause(), Nanoseconds{1'000'000'000});
    QVERIFY(!recovery.ends(failure(), 8));
    QCOMPARE(recovery.pause(), Nanoseconds{0});
  }

  void theNumberOfRestartsIsLimited() {
    agent::Recovery recovery(restarting(2));
    QVERIFY(!recovery.ends(failure(), 1));
    QVERIFY(!recovery.ends(failure(), 2));
    const auto end = recovery.ends(failure(), 3);
    QVERIFY(end);
    QVERIFY2(end->why.text().starts_with("the run was restarted 2 times"), end->why.text().c_str());
  }
};

QTEST_GUILESS_MAIN(RecoveryTest)
#include "recovery_test.moc"
