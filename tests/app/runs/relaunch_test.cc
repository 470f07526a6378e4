// A run that is launched again: resumed, rerun, or with a faster strategy.
#include <QTemporaryDir>
#include <QTest>

#include "app/history/history.h"
#include "app/runs/relaunch.h"
#include "app/specs/spec_text.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/app/runs/made_up_records.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::app::test;

class RelaunchTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void aRunIsLaunchedAgainAsItRan() {
    QTemporaryDir folder;
    auto history = History::open(folder.path().toStdString());
    QVERIFY(history.ok());
    RunRow row = rowOf(2);
    row.name = "mlp";
    RunDocuments documents;
    const std::string file = lockstep::test::sourcePath("resources/examples/fashion-mlp.yaml");
    const auto written = loadRunSpec(file);
    QVERIFY(written.ok());
    documents.specYaml = written->yaml;
    documents.specResolved = toYaml(*written->spec);
    documents.clusterYaml = localCluster(2, "/nowhere", "").yaml;
    documents.nodes = R"([{"node": "local1", "folder": "/w/runs/r"}])";
    QVERIFY((*history)->add(row, documents).ok());
    const auto resumed = relaunchOf(**history, "r", RelaunchKind::kResume);
    QVERIFY(resumed.ok());
    QCOMPARE(resumed->checkpoints.ofNode.at("local1"), std::string("/w/runs/r/checkpoints"));
    QCOMPARE(resumed->specYaml, written->yaml);  // with its comments
    QVERIFY(relaunchOf(**history, "r", RelaunchKind::kRerun)->checkpoints.empty());
    // With --set the text says something else than what ran.
    documents.specResolved = toYaml(*loadRunSpec(file, {"training.batch=96"})->spec);
    documents.nodes.clear();
    QVERIFY((*history)->setDocuments("r", documents).ok());
    const auto anew = relaunchOf(**history, "r", RelaunchKind::kRerun);
    QVERIFY(anew.ok());
    QCOMPARE(completeRunSpec(anew->specYaml, {})->spec->training().batch(), 96);
    const auto never = relaunchOf(**history, "r", RelaunchKind::kResume);
    QVERIFY(!never.ok());
    QCOMPARE(never.error().code, Code::kFailedPrecondition);
    QVERIFY(!relaunchOf(**history, "other", RelaunchKind::kRerun).ok());
    // Without checkpoints there is none to resume from.
    documents.specResolved =
        toYaml(*loadRunSpec(file, {"training.checkpoint.disabled=true"})->spec);
    documents.nodes = R"([{"node": "local1", "folder": "/w/runs/r"}])";
    QVERIFY((*history)->setDocuments("r", documents).ok());
    const auto without = relaunchOf(**history, "r", RelaunchKind::kResume);
    QVERIFY(!without.ok());
    QCOMPARE(without.error().why, std::string("training.checkpoint.disabled is set"));
  }

  // Resumed as long as there is something to train from a checkpoint; one that is under way does
  // not lose what it has trained.
  void aRunIsLaunchedAgainWithAFasterStrategy() {
    QTemporaryDir folder;
    auto history = History::open(folder.path().toStdString());
    QVERIFY(history.ok());
    const std::string file = lockstep::test::sourcePath("resources/examples/fashion-mlp.yaml");
    RunRow row = rowOf(2);
    RunDocuments documents;
    documents.clusterYaml = localCluster(2, "/nowhere", "").yaml;
    documents.nodes = R"([{"node": "local1", "folder": "/w/runs/r"}])";
    QVERIFY((*history)->add(row, documents).ok());
    for (const bool saves : {true, false}) {
      const auto spec = loadRunSpec(
          file, {std::string("training.checkpoint.disabled=") + (saves ? "false" : "true")});
      QVERIFY(spec.ok());
      documents.specYaml = documents.specResolved = toYaml(*spec->spec);
      QVERIFY((*history)->setDocuments("r", documents).ok());
      for (const RunState phase :
           {RunState::RUNNING, RunState::STOPPED, RunState::FAILED, RunState::SUCCEEDED}) {
        row.phase = phase;
        QVERIFY((*history)->update(row).ok());
        const auto again = relaunchOf(**history, "r", RelaunchKind::kFaster);
        const bool isUnderWay = phase == RunState::RUNNING;
        QCOMPARE(again.ok(), saves || !isUnderWay);
        if (!again.ok()) continue;
        QCOMPARE(again->isUnderWay, isUnderWay);
        QCOMPARE(again->checkpoints.empty(), !saves || phase == RunState::SUCCEEDED);
      }
    }
  }

  void onlyAStoppedRunIsResumed() {
    RunRow row = rowOf(2);
    row.phase = RunState::STOPPED;
    QVERIFY(mustHaveStopped(row).ok());
    for (const auto& [phase, why] :
         {std::pair{RunState::SUCCEEDED, "it had trained to its end before it could be stopped"},
          {RunState::FAILED, "it ended before it could be stopped"},
          {RunState::EXPIRED, "it ended before it could be stopped"},
          {RunState::STOPPING, "it has not stopped"}}) {
      row.phase = phase;
      const Status status = mustHaveStopped(row);
      QVERIFY(!status.ok());
      QCOMPARE(status.error().code, Code::kFailedPrecondition);
      QCOMPARE(status.error().why, std::string(why));
    }
  }
};

QTEST_GUILESS_MAIN(RelaunchTest)
#include "relaunch_test.moc"
