// Rounds of copies, against what a run needs of them: seeded series of checkpoints and answers.
#include "agent/supervisor/copy_rounds.h"

#include <QTest>

#include "engine/base/random.h"

using namespace lockstep;
using agent::CopyRounds;

class CopyRoundsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void oneAtATime() {
    CopyRounds rounds;
    QVERIFY(!rounds.exists());
    QCOMPARE(rounds.begin({"a"}), 0);
    rounds.onPublished(10);
    QVERIFY(rounds.exists() && !rounds.isCopied());
    QCOMPARE(rounds.begin({}), 0);
    QCOMPARE(rounds.begin({"a", "b"}), 10);
    rounds.onPublished(20);
    rounds.onPublished(30);
    QCOMPARE(rounds.begin({"a", "b"}), 0);
    QVERIFY(rounds.awaits("a") && !rounds.awaits("c"));
    QVERIFY(rounds.onAnswer("a", 10, false) == CopyRounds::Answer::kNotOver);
    QVERIFY(rounds.onAnswer("a", 10, false) == CopyRounds::Answer::kNotOver);
    QVERIFY(rounds.onAnswer("b", 20, false) == CopyRounds::Answer::kNotOver);
    QVERIFY(rounds.onAnswer("b", 10, false) == CopyRounds::Answer::kAllCopied);
    rounds.onCopied(10);
    QCOMPARE(rounds.copied(), 10);
    QCOMPARE(rounds.begin({"a", "b"}), 30);
    QVERIFY(rounds.onAnswer("a", 30, true) == CopyRounds::Answer::kNotOver);
    QVERIFY(rounds.onAnswer("b", 30, false) == CopyRounds::Answer::kFailed);
    QCOMPARE(rounds.begin({"a", "b"}), 0);  // not again
  }

  void membersAndGenerations() {
    CopyRounds rounds;
    rounds.onPublished(5);
    rounds.onCopied(5);
    QVERIFY(rounds.isCopied() && rounds.isCopiedHere());
    rounds.onMembersChange();
    QVERIFY(rounds.isCopied() && !rounds.isCopiedHere());
    rounds.beginGeneration(false, false);
    QVERIFY(!rounds.exists() && !rounds.isCopied());
    QCOMPARE(rounds.copied(), 5);  // which workers keep
    rounds.onPublished(3);         // trained again
    QCOMPARE(rounds.begin({"a"}), 3);
    rounds.beginGeneration(true, true);
    QVERIFY(rounds.exists() && rounds.isCopied() && !rounds.awaits("a"));
    QVERIFY(rounds.onAnswer("a", 3, false) == CopyRounds::Answer::kNotOver);
  }

  // The same nodes copy what they had no time for. Others copy their own first checkpoint.
  void whatIsNotCopiedHasItsTurnAgain() {
    CopyRounds rounds;
    rounds.onPublished(10);
    QCOMPARE(rounds.begin({"a"}), 10);
    rounds.beginGeneration(true, false);
    QVERIFY(!rounds.awaits("a"));
    QCOMPARE(rounds.begin({"a"}), 10);
    QVERIFY(rounds.onAnswer("a", 10, false) == CopyRounds::Answer::kAllCopied);
    rounds.onCopied(10);
    rounds.beginGeneration(true, true);
    QCOMPARE(rounds.begin({"a"}), 0);
    rounds.onPublished(20);
    rounds.onMembersChange();
    rounds.beginGeneration(true, true);
    QCOMPARE(rounds.begin({"a"}), 0);
    rounds.onPublished(30);
    rounds.beginGeneration(false, false);  // from the beginning
    QCOMPARE(rounds.begin({"a"}), 0);
  }

  // What waits for a round is of that round alone.
  void whatIsAwaitedHurries() {
    CopyRounds rounds;
    QVERIFY(!rounds.hurry());  // nothing is under way
    rounds.onPublished(10);
    rounds.begin({"a"});
    QVERIFY(!rounds.isLate() && !rounds.isHurried());
    rounds.onPublished(20);
    QVERIFY(rounds.isLate());
    QVERIFY(rounds.hurry() && rounds.isHurried());
    QVERIFY(!rounds.hurry());  // told once
    rounds.onAnswer("a", 10, false);
    QVERIFY(!rounds.isLate() && !rounds.hurry());
    QCOMPARE(rounds.begin({"a"}), 20);
    QVERIFY(!rounds.isLate() && !rounds.isHurried());
  }

  // The run ends without them. A late answer changes nothing.
  void missingAnswersAreGivenUp() {
    CopyRounds rounds;
    rounds.onPublished(10);
    QCOMPARE(rounds.begin({"a", "b"}), 10);
    QVERIFY(rounds.onAnswer("a", 10, true) == CopyRounds::Answer::kNotOver);
    rounds.giveUp();
    QVERIFY(rounds.step() == 0 && !rounds.awaits("b"));
    QVERIFY(rounds.onAnswer("b", 10, false) == CopyRounds::Answer::kNotOver);
    QVERIFY(!rounds.isCopied());
    QCOMPARE(rounds.begin({"a"}), 0);  // not again
    rounds.onPublished(20);
    QCOMPARE(rounds.begin({"a"}), 20);
    QVERIFY(rounds.onAnswer("a", 20, false) == CopyRounds::Answer::kAllCopied);
  }

  // Whatever comes in whatever order: a round ends once, with the answers of all its nodes to its
  // own step, and counts as copied only if none has failed.
  void seededSeries() {
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
      std::uint64_t drawn = 0;
      const auto random = [&](std::uint64_t below) { return randomBits(seed, drawn++) % below; };
      CopyRounds rounds;
      const std::set<std::string> nodes = {"a", "b", "c"};
      std::set<std::string> missing;
      std::int64_t newest = 0, current = 0, begun = 0;
      bool failed = false;
      for (int event = 0; event < 200; ++event) {
        if (random(3) == 0) rounds.onPublished(newest += static_cast<std::int64_t>(random(2)));
        const std::int64_t step = rounds.begin(nodes);
        QCOMPARE(step, current == 0 && newest > begun ? newest : 0);
        if (step != 0) {
          current = begun = step;
          missing = nodes;
          failed = false;
        }
        const std::string node(1, static_cast<char>('a' + random(4)));
        const std::int64_t answered = random(4) == 0 ? newest : current;
        const bool fails = random(4) == 0;
        const auto answer = rounds.onAnswer(node, answered, fails);
        bool isOver = false;
        if (current != 0 && answered == current && missing.erase(node) > 0) {
          failed = failed || fails;
          isOver = missing.empty();
        }
        QCOMPARE(answer != CopyRounds::Answer::kNotOver, isOver);
        if (!isOver) continue;
        QCOMPARE(answer == CopyRounds::Answer::kFailed, failed);
        current = 0;
      }
    }
  }
};

QTEST_GUILESS_MAIN(CopyRoundsTest)
#include "copy_rounds_test.moc"
