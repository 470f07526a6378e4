// Who is blamed, over random groups: of ranks that wait for each other, some late, and ranks that
// are frozen, have ended, or compute.
#include "engine/comm/blame.h"

#include <QTest>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace lockstep::tests {
namespace {

using comm::Blame;
using comm::Farewell;
using comm::Heard;
using comm::Last;

constexpr Nanoseconds kTimeout = 30'000'000'000;

// Ranks in a random order, in which each waits for earlier ones. The first of them is frozen or has
// ended, the last of them computes and is awaited by none that timed out.
struct Group {
  Group(std::mt19937& random, bool hasLate) : heard(2 + random() % 31), order(heard.size()) {
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    constexpr Last kLasts[] = {Last::kSilence, Last::kEnd, Last::kUnreachable};
    heard[culprit()].last = kLasts[random() % std::size(kLasts)];
    for (std::size_t i = 1; i < order.size(); ++i) {
      Heard& one = heard[order[i]];
      one.last = Last::kFarewell;
      for (std::size_t waits = 1 + random() % 3; waits > 0; --waits)
        one.words.await(order[random() % i]);
      const bool isLate = hasLate && random() % 4 == 0;
      one.words.waited = isLate ? kTimeout / 4 : kTimeout * 3 / 4;
    }
    first = order[1 + random() % (order.size() - 1)];
    heard[first].words.cause = first;
    std::vector<int> failed{first};
    for (const int rank : order) {
      if (rank == first || rank == culprit()) continue;
      heard[rank].words.cause = failed[random() % failed.size()];
      failed.push_back(rank);
    }
    // A rank that was woken while it waits for one that has yet to come.
    if (order.size() < 4 || first == order.back() || hasLate) return;
    heard[order.back()] = {};
    for (Heard& one : heard)
      if (one.words.cause == order.back()) one.words.cause = first;
    Heard& woken = heard[order[order.size() - 2]];
    if (order[order.size() - 2] != first) woken.words.await(order.back());
  }
  int culprit() const { return order.front(); }
  Blame seenBy(int rank) const {
    return comm::findBlame(rank, heard[rank].words, kTimeout, [&](int r) { return heard[r]; });
  }

  std::vector<Heard> heard;  // by rank
  std::vector<int> order;
  int first = 0;
};

}  // namespace

class BlameTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void allNameTheCulprit() {
    for (unsigned seed = 0; seed < 2000; ++seed) {
      std::mt19937 random(seed);
      const Group group(random, false);
      const Heard& culprit = group.heard[group.culprit()];
      for (int rank = 0; rank < std::ssize(group.heard); ++rank) {
        if (group.heard[rank].last != Last::kFarewell) continue;
        const Blame blame = group.seenBy(rank);
        QVERIFY2(blame.ranks == std::vector{group.culprit()}, std::to_string(seed).c_str());
        QCOMPARE(blame.kind, culprit.last == Last::kEnd           ? Blame::Kind::kEnded
                             : culprit.last == Last::kUnreachable ? Blame::Kind::kUnreachable
                                                                  : Blame::Kind::kSilent);
      }
    }
  }

  // Those that came late may be named too, and nobody else.
  void theLateAreNamedBesideIt() {
    for (unsigned seed = 0; seed < 2000; ++seed) {
      std::mt19937 random(seed);
      const Group group(random, true);
      for (int rank = 0; rank < std::ssize(group.heard); ++rank) {
        if (rank == group.culprit()) continue;
        const Blame blame = group.seenBy(rank);
        const auto names = [&](int r) {
          return std::count(blame.ranks.begin(), blame.ranks.end(), r) == 1;
        };
        QVERIFY2(names(group.culprit()), std::to_string(seed).c_str());
        for (const int r : blame.ranks)
          QVERIFY2(r == group.culprit() || group.heard[r].words.waited < kTimeout / 2,
                   std::to_string(seed).c_str());
      }
    }
  }

  void rankThatCameLateIsNamed() {
    Farewell first, late;
    first.cause = 0, first.waited = kTimeout, first.await(1);
    late.cause = 0, late.await(2);
    Farewell other = first;
    other.cause = 0, other.awaited = {1, -1, -1, -1, -1, -1, -1, -1};
    const auto hear = [&](int r) { return Heard{Last::kFarewell, r == 1 ? late : other}; };
    const Blame blame = comm::findBlame(0, first, kTimeout, hear);
    QCOMPARE(blame.text(0, kTimeout).text(), std::string("rank 1 did not answer for 30 s"));
    QCOMPARE(comm::findBlame(1, late, kTimeout, hear).text(1, kTimeout).text(),
             std::string("rank 0 timed out waiting for this rank"));
  }

  void ranksThatWaitForEachOther() {
    std::vector<Farewell> words(3);
    for (int r = 0; r < 3; ++r) {
      words[r].cause = r, words[r].waited = kTimeout;
      words[r].await((r + 1) % 3);
    }
    const Blame blame = comm::findBlame(0, words[0], kTimeout, [&](int r) {
      return Heard{Last::kFarewell, words[r]};
    });
    QCOMPARE(blame.code(), Code::kDeadlineExceeded);
    QCOMPARE(blame.text(0, kTimeout).text(),
             std::string("one of ranks 0, 1, 2 holds the others up"));
  }

  // A rank that waits for nobody, as when it is out of descriptors; rank 2 learns it by rank 1.
  void rankThatFailedByItself() {
    Farewell failed, own;
    failed.cause = 0;
    own.cause = 1, own.await(1);
    Farewell told = own;
    told.cause = 0, told.awaited = {0, -1, -1, -1, -1, -1, -1, -1};
    const Blame blame = comm::findBlame(2, own, kTimeout, [&](int r) {
      return Heard{Last::kFarewell, r == 0 ? failed : told};
    });
    QCOMPARE(blame.code(), Code::kAborted);
    QCOMPARE(blame.text(2, kTimeout).text(), std::string("rank 0 failed"));
  }

  void differentCalls() {
    Farewell first, own;
    first.cause = 1, first.differs = 1, first.await(2);
    own.cause = 1, own.await(1);
    const Blame blame = comm::findBlame(0, own, kTimeout, [&](int) {
      return Heard{Last::kFarewell, first};
    });
    QCOMPARE(blame.code(), Code::kAborted);
    QCOMPARE(blame.text(0, kTimeout).text(), std::string("ranks 1 and 2 issued different calls"));
  }
};

}  // namespace lockstep::tests

QTEST_GUILESS_MAIN(lockstep::tests::BlameTest)
#include "blame_test.moc"
