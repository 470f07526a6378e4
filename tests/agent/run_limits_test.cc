// How long a run waits, by its heartbeat.
#include <QTest>

#include <random>

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
      const Nanoseconds silent = agent::kSilentHeartbeats * heartbeat;
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

  void theLogTellsThem() {
    const std::vector<std::string> lines =
        agent::RunLimits().withHeartbeat(2 * kSecond).lines(2 * kSecond, true);
    QCOMPARE(lines.size(), std::size_t{4});
    QCOMPARE(lines[0],
             std::string("a heartbeat every 2.00 s: a node is silent after 8.0 s; one that is not "
                         "replaced is lost after 40 s, and may come back within 3600 s"));
    QCOMPARE(lines[1], std::string("ranks have 80 s to form their groups; a collective waits at "
                                   "least 30 s for a rank; an error that may follow from another "
                                   "waits 8 s for that"));
    QCOMPARE(lines[2], std::string("if the coordinating node is silent, each node that may take "
                                   "over has 8.0 s to answer; a majority has 2 s to confirm a "
                                   "request, and 40 s to confirm the run's end"));
    QCOMPARE(lines[3],
             std::string("at a stop, the program gets SIGTERM at once and after 30 s, and "
                         "is killed after 45 s"));
    QCOMPARE(agent::RunLimits().lines(kSecond, false)[3],
             std::string("at a stop, ranks get SIGTERM after 10 s and are killed after 15 s; the "
                         "last evaluation is awaited for 600 s, and copies of the last checkpoint "
                         "for 60 s"));
  }
};

QTEST_GUILESS_MAIN(RunLimitsTest)
#include "run_limits_test.moc"
