// A node of role evaluator beside two ranks on another: what it tells, and what its failures end.
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <QTest>
#include <algorithm>
#include <cmath>

#include "agent/supervisor/peers.h"
#include "tests/agent/agent_node.h"
#include "tests/agent/run_keys.h"
#include "tests/support/sanitizers.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

using run::v1::Record;

// Seconds; a step takes half a minute under a sanitizer.
constexpr int kEnds = lockstep::test::kSanitized ? 1500 : 200;

struct WithEvaluator {
  Node ranks{"n1"}, evaluator{"n2"};
  RunAuthority authority;
  RunOptions options;
  node::v1::PrepareReply prepared[2];
  std::unique_ptr<Follower> records[2];

  WithEvaluator(std::int64_t steps, std::int64_t hidden) {
    // Three steps an epoch.
    options = {.run = newRunId(),
               .ranks = 2,
               .maxSteps = steps,
               .batch = 20000,
               .hidden = hidden,
               .evaluator = "n2"};
    ranks.start();
    evaluator.start();
  }
  node::v1::PrepareRequest request(int node) {
    auto out = prepareRequest(options, node);
    *out.mutable_tls() = authority.identity(agent::peerIdentity(options.run, out.node(), 1));
    out.set_coordinator_address(node == 0 ? "" : prepared[0].peer_address());
    return out;
  }
  void launch(const std::function<void(node::v1::PrepareRequest&)>& change = {}) {
    for (int node = 0; node < 2; ++node) {
      auto asked = request(node);
      if (node == 1 && change) change(asked);
      Node& at = node == 0 ? ranks : evaluator;
      const grpc::Status status = prepare(at.agent(), asked, &prepared[node]);
      if (!status.ok()) throw std::runtime_error(status.error_message());
      records[node] = std::make_unique<Follower>(prepared[node].socket());
    }
    node::v1::CommitRequest commit;
    commit.set_run(options.run);
    commit.set_generation(1);
    node::v1::CommitReply reply;
    const auto stub = node::v1::Supervisor::NewStub(channelTo(prepared[0].socket()));
    const grpc::Status status = stub->Commit(deadline().get(), commit, &reply);
    if (!status.ok()) throw std::runtime_error(status.error_message());
  }
  // Ended well on both nodes.
  void expectSuccess() {
    for (auto& one : records) {
      QVERIFY2(one->waitFinished(kEnds), one->ended().c_str());
      QVERIFY2(one->state() == run::v1::SUCCEEDED, one->error().c_str());
    }
    QCOMPARE(records[0]->lastStep(0), options.maxSteps);
  }
  template <typename Wanted>
  std::vector<Record> told(Wanted wanted) const {
    std::vector<Record> out = records[0]->records();
    std::erase_if(out, [&](const Record& record) { return !wanted(record); });
    return out;
  }
  std::vector<Record> evaluations() const {
    return told([](const Record& record) { return record.has_evaluation(); });
  }
  std::vector<Record> warnings() const {
    return told([](const Record& record) {
      return record.has_warning() &&  // others: a slow disk
             record.warning().what().text().find("evaluated") != std::string::npos;
    });
  }
};

// The process that evaluates: it works in the run's folder on the evaluator's node.
int evaluatingAt(const std::string& run, const std::string& workdir) {
  for (const int pid : processesOfRun(run)) {
    QFile file(QString("/proc/%1/cmdline").arg(pid));
    if (!file.open(QIODevice::ReadOnly) || !file.readAll().contains(QByteArray("\0worker\0", 8)))
      continue;
    if (QFile::symLinkTarget(QString("/proc/%1/cwd").arg(pid))
            .startsWith(QString::fromStdString(workdir)))
      return pid;
  }
  return -1;
}

}  // namespace

class AgentEvaluationTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void theLastEpochIsAwaited() {
    WithEvaluator nodes(6, 32);
    nodes.launch();
    nodes.expectSuccess();
    QVERIFY(nodes.warnings().empty());
    for (const Record& record : nodes.told([](const Record& one) { return one.has_epoch(); }))
      QVERIFY(record.epoch().evaluated_later());
    const auto all = nodes.evaluations();
    QVERIFY(!all.empty());
    const auto& last = all.back().evaluation();
    QCOMPARE(last.step(), std::int64_t{6});
    QCOMPARE(last.epoch(), std::int64_t{2});
    QVERIFY(last.eval_loss() > 0 && last.eval_metric() > 0 && last.train_loss() > 0);
    const auto finished = nodes.records[0]->records().back().finished();
    QCOMPARE(finished.eval_loss(), last.eval_loss());
    QCOMPARE(finished.eval_metric(), last.eval_metric());
    // The ranks alone find the same.
    WithEvaluator other(6, 32);
    other.options.evaluator.clear();
    node::v1::PrepareReply prepared;
    QVERIFY(
        agent_test::prepare(other.ranks.agent(), prepareRequest(other.options), &prepared).ok());
    Follower alone(prepared.socket());
    node::v1::CommitRequest commit;
    commit.set_run(other.options.run);
    commit.set_generation(1);
    node::v1::CommitReply reply;
    QVERIFY(node::v1::Supervisor::NewStub(channelTo(prepared.socket()))
                ->Commit(deadline().get(), commit, &reply)
                .ok());
    QVERIFY2(alone.waitFinished(kEnds), alone.ended().c_str());
    const auto expected = alone.records().back().finished();
    QCOMPARE(expected.weights_sha256(), finished.weights_sha256());
    QVERIFY2(std::abs(expected.eval_loss() - finished.eval_loss()) <= 1e-6 * expected.eval_loss(),
             fmt::format("{} and {}", expected.eval_loss(), finished.eval_loss()).c_str());
    QCOMPARE(float(expected.eval_metric()), float(finished.eval_metric()));
  }

  void aKilledEvaluationIsToldAndEndsNothing() {
    WithEvaluator nodes(9, 48);
    nodes.launch();
    int pid = -1;
    QVERIFY(eventually(
        [&] { return (pid = evaluatingAt(nodes.options.run, nodes.evaluator.workdir())) > 0; },
        kEnds));
    kill(pid, SIGKILL);
    nodes.expectSuccess();
    const auto warnings = nodes.warnings();
    QCOMPARE(warnings.size(), std::size_t{1});
    const auto& warning = warnings[0].warning();
    QCOMPARE(warning.node(), std::string("n2"));
    QCOMPARE(warning.what().text(),
             fmt::format("the weights after step {} could not be evaluated", warning.step()));
    QVERIFY2(warning.why().text().find("SIGKILL") != std::string::npos,
             warning.why().text().c_str());
    QVERIFY(!warning.next().text().empty());
    // The next epochs' are evaluated.
    QCOMPARE(nodes.evaluations().back().evaluation().step(), std::int64_t{9});
  }

  void dataThatGoesAwayFailsEvaluationsAlone() {
    WithEvaluator nodes(3, 16);
    QTemporaryDir own;
    const QString labels = own.filePath("labels.gz");
    QVERIFY(QFile::copy("/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz", labels));
    nodes.launch([&](node::v1::PrepareRequest& request) {
      (*request.mutable_data_paths())["evaluate.labels"] = labels.toStdString();
    });
    QVERIFY(QFile::remove(labels));
    QVERIFY(
        QDir(QString::fromStdString(nodes.evaluator.workdir() + "/decoded")).removeRecursively());
    nodes.expectSuccess();
    QVERIFY(nodes.evaluations().empty());
    QCOMPARE(nodes.warnings().size(), std::size_t{1});
    const std::string why = nodes.warnings()[0].warning().why().text();
    QVERIFY2(why.find("labels.gz") != std::string::npos, why.c_str());
    QCOMPARE(nodes.records[0]->records().back().finished().eval_loss(), 0.0);
  }
};

QTEST_GUILESS_MAIN(AgentEvaluationTest)
#include "agent_evaluation_test.moc"
