// Slow links, as nodes sample them, and the story of stragglers: made-up samples, seeded.
#include <QTest>
#include <random>

#include "app/runs/link_watch.h"
#include "app/runs/straggler_story.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

std::string nameOf(int node) { return "n" + std::to_string(node); }

// Links among nodes that each send at 1 GB/s for a part of the time, with noise.
class Network {
 public:
  Network(int nodes, unsigned seed) : nodes_(nodes), random_(seed) {
    share_ = 0.05 + 0.5 * uniform();
    ring_ = random_() % 2 == 0;
  }
  // A link that sends at this part of the rate, for longer.
  void slow(int from, int to, double factor) { slow_[{from, to}] = factor; }
  void heal() { slow_.clear(); }
  // From now on, a link that is not slow has more to send than is under way in no sample, and a
  // slow one in this share of them.
  void sendLittle(double rated) { littleRated_ = rated; }
  // Half a second passes.
  void pass(LinkWatch& watch) {
    seconds_ += 0.5;
    for (int from = 1; from <= nodes_; ++from) {
      run::v1::NodeSample sample;
      for (int to = 1; to <= nodes_; ++to) {
        if (to == from || (ring_ && to != from % nodes_ + 1)) continue;
        const auto at = slow_.find({from, to});
        const double factor = at == slow_.end() ? 1 : at->second;
        auto& link = *sample.add_link();
        link.set_node(nameOf(to));
        const double sending = std::min(1.0, share_ / factor) * (0.7 + 0.3 * uniform());
        link.set_sending(sending);
        link.set_pace(factor * 4e8 * (0.7 + 0.3 * uniform()));
        if (littleRated_ == 0 || (factor < 1 && uniform() < littleRated_))
          link.set_rate(factor * 1e9 * (0.6 + 0.8 * uniform()));
        link.set_round_trip(factor < 1 ? 5e-3 + 15e-3 * uniform()
                                       : 1e-4 + 2e-3 * uniform() * uniform());
      }
      watch.take(nameOf(from), seconds_, sample);
      watch.take(nameOf(from), seconds_ + 0.25, {});
    }
  }
  int any() { return 1 + static_cast<int>(random_() % static_cast<unsigned>(nodes_)); }
  int next(int node) const { return node % nodes_ + 1; }
  double uniform() { return std::uniform_real_distribution<>()(random_); }

 private:
  const int nodes_;
  std::minstd_rand random_;
  std::map<std::pair<int, int>, double> slow_;
  double share_ = 0, seconds_ = 0, littleRated_ = 0;
  bool ring_ = false;
};

Straggler slowRank(int rank, std::int64_t since) {
  Straggler out;
  out.rank = rank;
  out.node = "n" + std::to_string(rank + 1);
  out.factor = 2;
  out.stepSeconds = 0.3;
  out.withoutSeconds = 0.2;
  out.sinceStep = since;
  out.phase = "backward";
  return out;
}

QStringList texts(const std::vector<StragglerChange>& changes) {
  QStringList out;
  for (const StragglerChange& change : changes) out << QString::fromStdString(changeText(change));
  return out;
}

}  // namespace

class StragglersTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void healthyLinksAreNotNamed() {
    for (unsigned seed = 1; seed <= 200; ++seed) {
      Network network(2 + static_cast<int>(seed % 7), seed);
      LinkWatch watch;
      for (int i = 0; i < 200; ++i) {
        network.pass(watch);
        QVERIFY2(!watch.slowest(), qPrintable(QString("seed %1").arg(seed)));
      }
    }
  }

  void aSlowLinkIsNamedUntilItIsOver() {
    for (unsigned seed = 1; seed <= 200; ++seed) {
      const auto where = [&](int i) { return qPrintable(QString("seed %1, %2").arg(seed).arg(i)); };
      Network network(2 + static_cast<int>(seed % 7), seed);
      LinkWatch watch;
      for (int i = 0; i < 10; ++i) network.pass(watch);
      const int from = network.any(), to = network.next(from);
      network.slow(from, to, 0.01 + 0.09 * network.uniform());
      int named = 0;
      for (; named < 12 && !watch.slowest(); ++named) network.pass(watch);
      QVERIFY2(named <= 5, where(named));
      for (int i = 0; i < 20; ++i) {
        const auto slow = watch.slowest();
        QVERIFY2(slow && slow->from == nameOf(from) && slow->to == nameOf(to), where(i));
        QVERIFY2(slow->common.empty(), where(i));
        QVERIFY2(slow->rate < 0.3 * slow->usualRate, where(i));
        network.pass(watch);
      }
      network.heal();
      int over = 0;
      for (; over < 30 && watch.slowest(); ++over) network.pass(watch);
      QVERIFY2(over <= 12, where(over));
      for (int i = 0; i < 50; ++i) network.pass(watch);
      QVERIFY2(!watch.slowest(), where(over));
    }
  }

  // A link at a fraction of its rate needs no long look: a second and a half.
  void aVerySlowLinkIsNamedSoon() {
    for (unsigned seed = 1; seed <= 200; ++seed) {
      Network network(2 + static_cast<int>(seed % 7), seed);
      LinkWatch watch;
      for (int i = 0; i < 10; ++i) network.pass(watch);
      const int from = network.any(), to = network.next(from);
      network.slow(from, to, 0.01 + 0.04 * network.uniform());
      int named = 0;
      for (; named < 12 && !watch.slowest(); ++named) network.pass(watch);
      QVERIFY2(named <= LinkWatch::kSamples, qPrintable(QString("%1: %2").arg(seed).arg(named)));
      QVERIFY(watch.slowest()->from == nameOf(from) && watch.slowest()->to == nameOf(to));
    }
  }

  // As where each message is soon under way as a whole. Some of the links are slow from the start.
  void aLinkThatHasNoRateUntilItIsSlowIsNamed() {
    for (unsigned seed = 1; seed <= 200; ++seed) {
      const auto where = [&](int i) { return qPrintable(QString("seed %1, %2").arg(seed).arg(i)); };
      Network network(3 + static_cast<int>(seed % 6), seed);
      LinkWatch watch;
      network.sendLittle(0.5);
      for (int i = 0; i < static_cast<int>(seed % 4) * 5; ++i) {
        network.pass(watch);
        QVERIFY2(!watch.slowest(), where(i));
      }
      const int from = network.any(), to = network.next(from);
      network.slow(from, to, 0.01 + 0.05 * network.uniform());
      int named = 0;
      for (; named < 30 && !watch.slowest(); ++named) network.pass(watch);
      QVERIFY2(named <= 12, where(named));
      for (int i = 0; i < 20; ++i) {
        const auto slow = watch.slowest();
        QVERIFY2(slow && slow->from == nameOf(from) && slow->to == nameOf(to), where(i));
        network.pass(watch);
      }
      network.heal();
      int over = 0;
      for (; over < 30 && watch.slowest(); ++over) network.pass(watch);
      QVERIFY2(over <= LinkWatch::kSamples, where(over));
    }
  }

  // What is slow for a second, as when other work has the cores, is no slow link.
  void aLinkThatIsSlowForAMomentIsNotNamed() {
    for (unsigned seed = 1; seed <= 200; ++seed) {
      Network network(2 + static_cast<int>(seed % 7), seed);
      LinkWatch watch;
      for (int i = 0; i < 10; ++i) network.pass(watch);
      for (int moment = 0; moment < 20; ++moment) {
        const int from = network.any();
        network.slow(from, network.next(from), 0.01 + 0.04 * network.uniform());
        for (int i = 0; i < LinkWatch::kSamples - 1; ++i) network.pass(watch);
        network.heal();
        for (int i = 0; i < 8; ++i) {
          QVERIFY2(!watch.slowest(), qPrintable(QString("%1, %2").arg(seed).arg(moment)));
          network.pass(watch);
        }
      }
    }
  }

  // From the first sample on, with the other links alone to compare it with.
  void aNodeWhoseLinksAreAllSlowIsNamed() {
    for (unsigned seed = 1; seed <= 50; ++seed) {
      Network network(5, seed);
      LinkWatch watch;
      const int node = network.any();
      for (int other = 1; other <= 5; ++other) {
        network.slow(node, other, 0.05);
        network.slow(other, node, 0.05);
      }
      for (int i = 0; i < 12; ++i) network.pass(watch);
      const auto slow = watch.slowest();
      QVERIFY2(slow && slow->common == nameOf(node), qPrintable(QString("seed %1").arg(seed)));
    }
  }

  void aLinkThatIsSilentIsNotSlow() {
    Network network(3, 4);
    LinkWatch watch;
    for (int i = 0; i < 10; ++i) network.pass(watch);
    network.slow(1, 2, 0.02);
    for (int i = 0; i < 10; ++i) network.pass(watch);
    QVERIFY(watch.slowest());
    for (int i = 0; i < 10; ++i) watch.take("n1", 10 + i, {});
    QVERIFY(!watch.slowest());
  }

  void aGainThatRoundsToNothingIsSaidToBeNone() {
    Straggler slow = slowRank(2, 31);
    slow.withoutSeconds = 0.29999;
    QVERIFY(stragglerText(slow).ends_with("; a step takes 300.0 ms, as long without it"));
    slow.slowRanks = 2;
    slow.withoutSeconds = 0.2;
    QVERIFY(
        stragglerText(slow).ends_with("; a step takes 300.0 ms, 200.0 without the 2 slow ranks"));
  }

  void aStragglersStoryIsTold() {
    StragglerStory story;
    QVERIFY(story.take({}, 39, false).empty());
    Straggler slow = slowRank(2, 31);
    QCOMPARE(texts(story.take(slow, 40, false)),
             QStringList{"rank 2 (n3) is slow: 2.0 times the others' time in backward since step "
                         "31; a step takes 300.0 ms, 200.0 without it"});
    QVERIFY(story.take(slow, 50, false).empty());
    slow.evidence = {SlowCause::kThrottled, 0.4, 0};
    const auto known = story.take(slow, 60, false);
    QCOMPARE(known.size(), std::size_t{1});
    QVERIFY(known[0].kind == StragglerChange::Kind::kCauseKnown);
    QVERIFY(texts(known)[0].contains("a CPU quota held it back 40 % of the time"));
    slow.evidence.share = 0.5;
    slow.lostSeconds = 4.2;  // measured, not of a step now times their number
    QVERIFY(story.take(slow, 70, false).empty());
    // Another one instead.
    const auto changes = story.take(slowRank(0, 75), 80, false);
    const QStringList both = texts(changes);
    // As the history keeps it.
    const StragglerRow kept = rowOf(changes[0], 7);
    QVERIFY(kept.rank == 2 && kept.node == "n3" && kept.endNs == 7 && kept.sinceStep == 31);
    QVERIFY(kept.untilStep == 80 && kept.lostSeconds == changes[0].lostSeconds);
    QCOMPARE(kept.cause, std::string("a CPU quota held it back 50 % of the time"));
    QCOMPARE(rowOf(changes[1], 7).endNs, std::int64_t{0});
    QCOMPARE(both.size(), 2);
    QCOMPARE(both[0], QString("rank 2 (n3) was slow in steps 31 to 80: it cost 4.2 s"));
    QVERIFY(both[1].startsWith("rank 0 (n1) is slow"));
    // The run ends.
    Straggler other = slowRank(0, 75);
    other.lostSeconds = 1.6;
    QCOMPARE(texts(story.take(other, 90, true)),
             QStringList{"rank 0 (n1) was slow in steps 75 to 90: it cost 1.6 s"});
    QVERIFY(story.take(slowRank(0, 75), 90, true).empty());
  }
};

QTEST_GUILESS_MAIN(StragglersTest)
#include "stragglers_test.moc"
