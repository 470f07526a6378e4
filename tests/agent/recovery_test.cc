// When a run restarts after a failure, and when it ends.
#include <QTest>

#include "agent/supervisor/recovery.h"

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
