// Nodes and supervisors of other versions than the client.
#include <grpcpp/grpcpp.h>

#include <QTest>

#include "app/cluster/kept_items.h"
#include "app/cluster/node_access.h"
#include "app/runs/launch_calls.h"
#include "engine/base/file.h"
#include "engine/specs/protocol.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/app/runs/runs_bench.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::test;

namespace {

// A node whose agent lacks every feature.
struct PlainNode final : NodeAccess {
  const std::string& name() const override { return name_; }
  Result<NodeInventory> waitConnected(std::stop_token) override {
    NodeInventory out;
    out.agentSpeaks.oldest = out.agentSpeaks.newest = specs::kNewestProtocol;
    return out;
  }
  Result<std::shared_ptr<grpc::Channel>> agent() override { return away(); }
  Result<std::shared_ptr<grpc::Channel>> supervisor(const std::string&) override { return away(); }
  Result<std::string> forward(const std::string&) override { return away(); }
  void unforward(const std::string&) override {}

 private:
  static Error away() { return makeError(Code::kUnavailable, "it was asked"); }
  const std::string name_ = "n1";
};

// A run under way, and what its supervisor says of itself.
struct Running {
  Bench bench{1};
  std::string run, file, own;

  Status begin() {
    LOCKSTEP_ASSIGN(run, bench.launch({"training.epochs=1000"}));
    file = bench.session->status(0).inventory.workdir + "/runs/" + run + "/local1/supervisor";
    LOCKSTEP_ASSIGN(own, readFile(file));
    return {};
  }
  // The range, and the features.
  Status say(const std::string& protocols, const std::string& features) const {
    std::size_t third = 0;
    for (int line = 0; line < 3; ++line) third = own.find('\n', third) + 1;
    return writeFileAtomically(file, own.substr(0, third) + protocols + "\n" + features + "\n");
  }
  Status ask(Recorder& recorder, const RunRequest& what) {
    std::optional<Status> answer;
    recorder.ask(what, [&](const Result<RunAnswer>& one) { answer = one.status(); });
    if (!bench.until([&] { return answer.has_value(); }, 60000))
      return makeError(Code::kDeadlineExceeded, "no answer");
    return *answer;
  }
};

}  // namespace

class ProtocolTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (!QFile::exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"))
      QSKIP("dataset-fashion-mnist is not installed");
  }

  void theNewestCommonProtocolIsTaken_data() {
    QTest::addColumn<int>("oldest");
    QTest::addColumn<int>("newest");
    QTest::addColumn<int>("common");  // with a client of 3 to 5; 0: none
    QTest::newRow("equal") << 3 << 5 << 5;
    QTest::newRow("older") << 1 << 4 << 4;
    QTest::newRow("older, at the edge") << 1 << 3 << 3;
    QTest::newRow("newer") << 4 << 9 << 5;
    QTest::newRow("newer, at the edge") << 5 << 9 << 5;
    QTest::newRow("too old") << 1 << 2 << 0;
    QTest::newRow("too new") << 6 << 6 << 0;
    QTest::newRow("none") << 5 << 3 << 0;
  }
  void theNewestCommonProtocolIsTaken() {
    QFETCH(int, oldest);
    QFETCH(int, newest);
    QFETCH(int, common);
    const auto found = specs::commonProtocol("the agent", {oldest, newest, {}, {}}, {3, 5, {}, {}});
    QCOMPARE(found.ok() ? *found : 0, common);
    if (found.ok()) return;
    QCOMPARE(found.error().code, Code::kFailedPrecondition);
    QVERIFY2(found.error().what.text().ends_with("the client protocol 3 to 5"),
             found.error().text().c_str());
  }

  void anAgentIsAskedOnlyForWhatItHas() {
    PlainNode node;
    const Home home{QDir::tempPath().toStdString() + "/none"};
    const CollectedGarbage found = findGarbage(home, node, {}, {});
    QVERIFY(found.error);
    QCOMPARE(found.error->code, Code::kFailedPrecondition);
    QCOMPARE(found.error->what.text(),
             std::string("the agent cannot list and remove what its workdir keeps"));
    QCOMPARE(found.error->node, std::string("n1"));
    QVERIFY(found.error->next.text().find("cluster deploy") != std::string::npos);
  }

  // Before anything is copied to it.
  void anAgentWithoutProgramsRunsNone() {
    Participants participants(2);
    participants[0].name = "n1";
    participants[0].inventory.agentSpeaks = specs::ownProtocols();
    participants[1].name = "n2";
    participants[1].inventory.agentSpeaks = {2, 2, {std::string(specs::kCheckData)}, {}};
    spec::v1::RunSpec spec;
    QVERIFY(checkAble(participants, spec).ok());
    spec.mutable_workload()->add_command("true");
    const Status lacks = checkAble(participants, spec);
    QCOMPARE(lacks.code(), Code::kFailedPrecondition);
    QCOMPARE(lacks.error().node, std::string("n2"));
    QCOMPARE(lacks.error().what.text(),
             std::string("the agent cannot run programs of a person's own"));
    participants[1].inventory.agentSpeaks.features.emplace_back(specs::kPrograms);
    QCOMPARE(checkAble(participants, spec).error().what.text(),
             std::string("the agent cannot follow workload.restart and workload.metrics.hooks"));
    participants.pop_back();
    QVERIFY(checkAble(participants, spec).ok());
  }

  void anAgentThatFetchesNothingNeedsPaths() {
    Participants participants(1);
    participants[0].name = "n1";
    participants[0].inventory.agentSpeaks = {2, 2, {std::string(specs::kCheckData)}, {}};
    participants[0].paths["train.images"] = "/data/images.gz";
    QVERIFY(checkAble(participants, {}).ok());
    participants[0].paths["train.images"] = "https://host/images.gz";
    const Status lacks = checkAble(participants, {});
    QCOMPARE(lacks.code(), Code::kFailedPrecondition);
    QCOMPARE(lacks.error().what.text(), std::string("the agent cannot fetch data files from URLs"));
    participants[0].inventory.agentSpeaks = specs::ownProtocols();
    QVERIFY(checkAble(participants, {}).ok());
  }

  void whatANodeLacksNamesItsVersion() {
    for (const std::string& version : {std::string(), std::string("5f21a90c03de")}) {
      const specs::Protocols node{2, 2, {std::string(specs::kWorkdirItems)}, version};
      QVERIFY(specs::checkFeature("the agent", node, specs::kWorkdirItems).ok());
      const Status lacks = specs::checkFeature("the agent", node, specs::kCheckData);
      QCOMPARE(lacks.code(), Code::kFailedPrecondition);
      QCOMPARE(lacks.error().why.text(), version.empty() ? std::string("it is of an older version")
                                                         : "it is of the older version " + version);
    }
  }

  // A supervisor of another version is not followed; its run goes on, and stands so in the history.
  void aSupervisorOfAnotherVersionIsNotFollowed() {
    Running running;
    const Status begun = running.begin();
    QVERIFY2(begun.ok(), begun.ok() ? "" : begun.error().text().c_str());
    for (const char* protocols : {"98 99 v", "1 1 v"}) {
      QVERIFY(running.say(protocols, "").ok());
      Seen seen;
      Recorder recorder(running.run, *running.bench.session, running.bench.home,
                        running.bench.inbox, seen.observer());
      QVERIFY(running.bench.until([&] { return seen.finished; }, 60000));
      QCOMPARE(seen.errors.size(), std::size_t{1});
      QCOMPARE(seen.errors[0].code, Code::kFailedPrecondition);
      QVERIFY2(seen.errors[0].what.text().starts_with("the run's supervisor speaks protocol"),
               seen.errors[0].text().c_str());
      QCOMPARE(running.ask(recorder, RunRequest::kStop).code(), Code::kFailedPrecondition);
      const auto row = (*History::open(running.bench.home.historyFolder()))->row(running.run);
      QVERIFY(row.ok() && !isFinal(row->phase));
    }
    // One that lacks a feature is followed, and stopped; only that it is not asked for.
    QVERIFY(running.say(fmt::format("1 {} v", specs::kNewestProtocol), "another").ok());
    Seen seen;
    Recorder recorder(running.run, *running.bench.session, running.bench.home, running.bench.inbox,
                      seen.observer());
    QVERIFY(running.bench.until([&] { return !seen.loss.empty(); }, 60000));
    const Status lacks = running.ask(recorder, RunRequest::kCheckpoint);
    QCOMPARE(lacks.code(), Code::kFailedPrecondition);
    QCOMPARE(lacks.error().what.text(),
             std::string("the run's supervisor cannot take a checkpoint on request"));
    QCOMPARE(lacks.error().why.text(), std::string("it is of the older version v"));
    QVERIFY(running.ask(recorder, RunRequest::kStop).ok());
    QVERIFY(running.bench.until([&] { return seen.finished; }));
    QCOMPARE(seen.row.phase, RunState::STOPPED);
  }
};

QTEST_GUILESS_MAIN(ProtocolTest)
#include "protocol_test.moc"
