// How long a run waits, by its heartbeat.
#include <QTest>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "agent/supervisor/run_limits.h"

using namespace lockstep;

namespace {

constexpr Nanoseconds kMs = 1'000'000, kSecond = 1'000'000'000;

}  // namespace

class RunLimitsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void theDefaultHeartbeatChangesNothing() {
    const agent::RunLimits own;
    for (const Nanoseconds heartbeat : {50 * kMs, 500 * kMs}) {
      const agent::RunLimits limits = own.withHeartbeat(heartbeat);
      QCOMPARE(limits.formation, 60 * kSecond);
      QCOMPARE(limits.lostPeer, 30 * kSecond);
      QCOMPARE(limits.grace, 2 * kSecond);
      QCOMPARE(limits.absence, 3600 * kSecond);
    }
  }

  // Whatever the limits given and the heartbeat, silence is noticed before anybody gives up.
  void noLimitEndsBeforeANodeIsSilent() {
    std::minstd_rand random(3);
    for (int round = 0; round < 1000; ++round) {
      agent::RunLimits own;
      own.lostPeer = static_cast<Nanoseconds>(random() % 60'000) * kMs;
      own.formation = static_cast<Nanoseconds>(random() % 60'000) * kMs;
      own.absence = static_cast<Nanoseconds>(random() % 60'000) * kMs;
      const Nanoseconds heartbeat = (50 + static_cast<Nanoseconds>(random() % 60'000)) * kMs;
      const agent::RunLimits limits = own.withHeartbeat(heartbeat);
      const Nanoseconds silent = specs::kSilentHeartbeats * heartbeat;
      QVERIFY(limits.grace >= silent && limits.grace >= own.grace);
      QVERIFY(limits.lostPeer > silent && limits.lostPeer >= own.lostPeer);
      QVERIFY(limits.formation > silent && limits.formation >= own.formation);
      // A node that is lost can come back once the others have formed anew.
      QVERIFY(limits.absence >= own.absence && limits.absence >= 60 * heartbeat);
      QCOMPARE(limits.stop.kill, own.stop.kill);
      QCOMPARE(limits.lastCopies, own.lastCopies);
      QCOMPARE(limits.kept, own.kept);
      const agent::RunLimits longer = own.withHeartbeat(heartbeat + kMs);
      QVERIFY(longer.grace >= limits.grace && longer.lostPeer >= limits.lostPeer &&
              longer.formation >= limits.formation && longer.absence >= limits.absence);
    }
  }

  // A dead connection is found, and one attempt more made, before its node is given up.
  void connectionsAreProbedBeforeANodeIsLost() {
    for (const Nanoseconds heartbeat : {50 * kMs, 500 * kMs, 2 * kSecond, 60 * kSecond}) {
      const agent::RunLimits limits = agent::RunLimits().withHeartbeat(heartbeat);
      QCOMPARE(limits.keepalive, std::max(3 * kSecond, 6 * heartbeat));
      QVERIFY(limits.keepalive > specs::kSilentHeartbeats * heartbeat);
      QVERIFY(2 * limits.keepalive < limits.lostPeer);
    }
  }

  void heartbeatsHaveALeast() {
    spec::v1::RunSpec run;
    QCOMPARE(specs::heartbeatOf(run), 50 * kMs);
    run.mutable_recovery()->set_heartbeat_ms(500);
    QCOMPARE(specs::heartbeatOf(run), 500 * kMs);
  }

  void theLogTellsThem() {
    agent::LimitedRun run;
    run.heartbeat = 2 * kSecond;
    run.collective = 45 * kSecond;
    run.onGpus = 120 * kSecond;
    run.watchesHangs = true;
    run.disk = 1800 * kSecond;
    QCOMPARE(
        agent::RunLimits().withHeartbeat(run.heartbeat).lines(run),
        (std::vector<std::string>{
            "a heartbeat every 2.00 s: a node is silent after 8.0 s; one that is not replaced is "
            "lost after 40 s, and may come back within 3600 s; a connection on which nothing comes "
            "for 12 s is closed after 12 s more",
            "if the coordinating node is silent, each node that may take over has 8.0 s to answer; "
            "a majority has 2 s to confirm a request, and 40 s to confirm the run's end",
            "a run that is not committed is given up after 30 s; ranks have 80 s to form their "
            "groups; a failure that may follow from another waits 8 s for that",
            "a collective waits 45 s for a rank that makes no progress, between GPUs 120 s",
            "a rank tells that it stands still after 1 s, and holds the others up after 10 times "
            "the usual step, but at least 2 s; after 20 s before steps are known",
            "the run ends if nothing moves on a rank's disk for 1800 s",
            "at a stop, ranks get SIGTERM after 10 s and are killed after 15 s; the last "
            "evaluation is awaited for 600 s, and copies of the last checkpoint for 60 s"}));
  }

  // Of one rank.
  void onOneNodeNoneIsOfOtherNodes() {
    agent::LimitedRun run;
    run.disk = 55 * kSecond;
    QCOMPARE(agent::RunLimits().lines(run),
             (std::vector<std::string>{
                 "a run that is not committed is given up after 30 s; ranks have 60 s to form "
                 "their groups; a failure that may follow from another waits 2 s for that",
                 "the run ends if nothing moves on a rank's disk for 55 s",
                 "at a stop, ranks get SIGTERM after 10 s and are killed after 15 s"}));
  }

  void programsHaveTheirOwn() {
    agent::LimitedRun run;
    run.ofProgram = true;
    run.silentProgram = 300 * kSecond;
    const std::vector<std::string> lines = agent::RunLimits().lines(run);
    QCOMPARE(lines.size(), std::size_t{3});
    QCOMPARE(lines[1], std::string("the program hangs once all ranks have been silent for 300 s"));
    QCOMPARE(lines[2],
             std::string("at a stop, the program gets SIGTERM at once and after 30 s, and is "
                         "killed after 45 s"));
  }
};

QTEST_GUILESS_MAIN(RunLimitsTest)
#include "run_limits_test.moc"
