// What ranks and nodes cost the others: made-up steps, seeded.
#include <QTest>

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "app/runs/rank_costs.h"
#include "engine/plan/plan.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr int kSteps = 200;
constexpr const char* kParts[] = {"data",     "forward",   "backward", "waiting",
                                  "transfer", "optimizer", "stalled"};

// Steps of ranks that work for 1 + 3 + 5 + 1 ms, with noise; all wait for the last.
struct Steps {
  explicit Steps(int ranks) : seconds(static_cast<std::size_t>(ranks)) {
    for (auto& rank : seconds)
      for (auto& part : rank) part.assign(kSteps, 0);
  }
  void work(std::mt19937& random, double noise) {
    std::uniform_real_distribution<> around(1 - noise, 1 + noise);
    for (auto& rank : seconds)
      for (int s = 0; s < kSteps; ++s) {
        const auto at = static_cast<std::size_t>(s);
        rank[0][at] = 1e-3 * around(random);
        rank[1][at] = 3e-3 * around(random);
        rank[2][at] = 5e-3 * around(random);
        rank[4][at] = 1e-3;
        rank[5][at] = 1e-3 * around(random);
      }
  }
  double own(std::size_t rank, std::size_t step) const {
    const auto& parts = seconds[rank];
    return parts[0][step] + parts[1][step] + parts[2][step] + parts[5][step];
  }
  std::size_t last(std::size_t rank) const { return until.empty() ? kSteps : until[rank]; }
  StepMatrix matrix(std::size_t mostCells = StepMatrix::kMostCells) {
    StepMatrix out(mostCells);
    for (std::size_t s = 0; s < kSteps; ++s) {
      double last = 0;
      for (std::size_t r = 0; r < seconds.size(); ++r) last = std::max(last, own(r, s));
      for (std::size_t r = 0; r < seconds.size(); ++r) seconds[r][3][s] = last - own(r, s);
    }
    for (std::size_t r = 0; r < seconds.size(); ++r) {
      RunBatch::Series whole{fmt::format("rank/{}/step", r), {}};
      RunBatch::Series began{fmt::format("rank/{}/began", r), {}};
      for (std::size_t p = 0; p < std::size(kParts); ++p) {
        RunBatch::Series part{fmt::format("rank/{}/{}", r, kParts[p]), {}};
        for (std::size_t s = 0; s < last(r); ++s)
          if (p != 6 || seconds[r][p][s] > 0)
            part.points.push_back({static_cast<double>(s + 1), seconds[r][p][s]});
        out.add(part);
      }
      for (std::size_t s = 0; s < last(r); ++s) {
        const double x = static_cast<double>(s + 1);
        whole.points.push_back({x, own(r, s) + seconds[r][3][s] + seconds[r][4][s]});
        began.points.push_back({x, 1000 + 0.01 * x});
      }
      out.add(whole);
      out.add(began);
    }
    return out;
  }
  std::vector<std::array<std::vector<double>, std::size(kParts)>> seconds;  // by rank, part, step
  std::vector<std::size_t> until;  // of each rank: how many it reports; empty: all
};

std::vector<std::string> twoANode(int ranks) {
  std::vector<std::string> out;
  for (int r = 0; r < ranks; ++r) out.push_back(fmt::format("n{}", r / 2 + 1));
  return out;
}

RankCosts costsOf(const StepMatrix& matrix, std::int64_t first, std::int64_t last,
                  const std::vector<std::string>& nodes = {}, const plan::BatchShares& shares = {},
                  int world = 0) {
  return rankCosts(StepTimes(matrix, first, last), world > 0 ? world : matrix.ranks(), nodes,
                   shares);
}

bool near(double a, double b, double within) { return std::abs(a - b) <= within * std::abs(b); }

}  // namespace

class RankCostsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // One rank is slow in one phase, for a part of the steps: it is first, with what was planted.
  void whatIsPlantedIsFound() {
    const std::size_t phaseOf[] = {0, 1, 2, 6, 5};
    for (unsigned seed = 1; seed <= 40; ++seed) {
      std::mt19937 random(seed);
      const int ranks = 2 + static_cast<int>(random() % 9);
      const auto slow = static_cast<std::size_t>(random() % static_cast<unsigned>(ranks));
      const std::size_t phase = random() % 5;
      const std::size_t from = 10 + random() % 100, until = from + 20 + random() % 60;
      const double extra = 5e-3 + 1e-3 * static_cast<double>(random() % 10);
      Steps steps(ranks);
      steps.work(random, 0.02);
      for (std::size_t s = from; s < until; ++s) {
        steps.seconds[slow][phaseOf[phase]][s] += extra;
        if (phase == 3)
          for (auto& rank : steps.seconds) rank[4][s] += extra;  // all wait for the transfer
      }
      const auto nodes = twoANode(ranks);
      const StepMatrix matrix = steps.matrix();
      const RankCosts costs = costsOf(matrix, 1, kSteps, nodes);
      QByteArray where =
          fmt::format("seed {}: rank {} of {}, phase {}, {} s", seed, slow, ranks, phase, extra)
              .c_str();
      for (const RankCost& cost : costs.ranks)
        where += fmt::format("; rank {}: {}", cost.rank, cost.seconds).c_str();
      QCOMPARE(costs.first, std::int64_t{6});
      QCOMPARE(costs.steps, std::int64_t{kSteps - 5});
      QCOMPARE(costs.ranks.size(), static_cast<std::size_t>(ranks));
      const RankCost& worst = costs.ranks[0];
      QVERIFY2(worst.rank == static_cast<int>(slow), where);
      QVERIFY2(worst.node == nodes[slow], where);
      QVERIFY2(worst.mainPhase() == phase, where);
      const auto late = static_cast<double>(until - from);
      QVERIFY2(near(worst.seconds, late * extra, 0.1), where);
      QCOMPARE(worst.lateSteps, static_cast<std::int64_t>(until - from));
      QCOMPARE(worst.firstLate, static_cast<std::int64_t>(from + 1));
      QCOMPARE(worst.lastLate, static_cast<std::int64_t>(until));
      QVERIFY2(near(costs.stepSeconds - worst.withoutSeconds, late * extra / (kSteps - 5), 0.1),
               where);
      for (std::size_t r = 1; r < costs.ranks.size(); ++r) {
        QVERIFY2(costs.ranks[r].seconds < 0.1 * worst.seconds, where);
        QVERIFY2(costs.ranks[r].lateSteps == 0, where);
      }
      QVERIFY2(costs.nodes[0].node == worst.node && costs.nodes[0].rank == -1, where);
      QVERIFY2(near(costs.nodes[0].seconds, worst.seconds, 0.1), where);
      // Of the steps before it nothing is said against it.
      const RankCosts before = costsOf(matrix, 1, static_cast<std::int64_t>(from), nodes);
      for (const RankCost& cost : before.ranks) QVERIFY2(cost.lateSteps == 0, where);
    }
  }

  // Two slow ranks of a node cost as much as the slower, not as much as both.
  void theRanksOfANodeAreSlowTogether() {
    std::mt19937 random(3);
    Steps steps(6);
    steps.work(random, 0);
    for (std::size_t s = 20; s < 120; ++s) {
      steps.seconds[2][2][s] += 4e-3;
      steps.seconds[3][2][s] += 6e-3;
    }
    const RankCosts costs = costsOf(steps.matrix(), 1, kSteps, twoANode(6));
    QCOMPARE(costs.ranks[0].rank, 3);
    QCOMPARE(costs.ranks[1].rank, 2);
    QCOMPARE(costs.nodes[0].node, std::string("n2"));
    QVERIFY(near(costs.nodes[0].seconds, 0.6, 0.01));
    QVERIFY(near(costs.ranks[1].seconds, 0.4, 0.01));
  }

  void aLargerShareOfTheBatchIsNoCost() {
    Steps steps(3);
    std::mt19937 random(4);
    steps.work(random, 0);
    for (auto& part : steps.seconds[1])
      for (double& seconds : part) seconds *= 2;
    const StepMatrix matrix = steps.matrix();
    QVERIFY(costsOf(matrix, 1, kSteps).ranks[0].seconds > 1);
    plan::Plan plan;
    plan.mesh = cluster::Mesh({{"data", 3}});
    plan.batchCuts = {0, 16, 48, 64};
    const RankCosts fair = costsOf(matrix, 1, kSteps, {}, plan::BatchShares(plan));
    QVERIFY(fair.ranks[0].seconds < 1e-6);
    QVERIFY(fair.nodes.empty());
  }

  // Ranks that have not reported, one rank alone, no steps, bounds beyond the steps.
  void whatIsNotKnownDoesNotCount() {
    QCOMPARE(costsOf(StepMatrix(), 1, 100, {}, {}).steps, std::int64_t{0});
    Steps alone(1);
    std::mt19937 random(5);
    alone.work(random, 0);
    QVERIFY(costsOf(alone.matrix(), 1, kSteps, {}, {}).ranks.empty());
    Steps steps(3);
    steps.work(random, 0.1);
    StepMatrix matrix = steps.matrix();
    RunBatch::Series ahead{"rank/0/step", {{kSteps + 1, 1.0}, {kSteps + 2, 1.0}}};
    matrix.add(ahead);
    QCOMPARE(costsOf(matrix, -5, kSteps + 100, {}, {}).steps, std::int64_t{kSteps - 5});
    QCOMPARE(costsOf(matrix, 50, 40, {}, {}).steps, std::int64_t{0});
    QCOMPARE(costsOf(matrix, kSteps + 1, kSteps + 2, {}, {}).steps, std::int64_t{0});
  }

  // Ranks that have left the run do not hide those that go on; a rank that is to report yet does.
  void aRunGoesOnWithFewerRanks() {
    std::mt19937 random(8);
    Steps steps(4);
    steps.work(random, 0.02);
    for (std::size_t s = 120; s < kSteps; ++s) steps.seconds[0][1][s] += 9e-3;
    steps.until = {kSteps, kSteps, kSteps, 100};
    const StepMatrix matrix = steps.matrix();
    QCOMPARE(costsOf(matrix, 1, kSteps).steps, std::int64_t{95});
    const RankCosts fewer = costsOf(matrix, 1, kSteps, {}, {}, 3);
    QCOMPARE(fewer.steps, std::int64_t{195});
    QCOMPARE(fewer.ranks[0].rank, 0);
    QCOMPARE(fewer.ranks[0].lateSteps, std::int64_t{80});
    QVERIFY(near(fewer.ranks[0].seconds, 80 * 9e-3, 0.1));
    QCOMPARE(costsOf(matrix, 150, kSteps, {}, {}, 3).steps, std::int64_t{51});
  }

  // Two that are slow alike: without one of them nothing would be gained.
  void whatASecondSlowRankLeavesIsNoGain() {
    std::mt19937 random(9);
    Steps steps(4);
    steps.work(random, 0);
    for (std::size_t s = 5; s < kSteps; ++s) {
      steps.seconds[1][2][s] += 5e-3;
      steps.seconds[3][2][s] += 8e-3;
    }
    const RankCosts costs = costsOf(steps.matrix(), 1, kSteps, twoANode(4));
    QCOMPARE(costs.ranks[0].rank, 3);
    QVERIFY(near(costs.stepSeconds - costs.ranks[0].withoutSeconds, 3e-3, 0.01));
    QCOMPARE(costs.ranks[1].rank, 1);
    QVERIFY(near(costs.ranks[1].seconds, 195 * 5e-3, 0.01));
    QVERIFY(near(costs.ranks[1].withoutSeconds, costs.stepSeconds, 1e-6));
    QVERIFY(near(costs.stepSeconds - costs.nodes[0].withoutSeconds, 3e-3, 0.01));
  }

  // Where steps share cells, a cost is that of the costliest, for each of them.
  void sharedCellsSayAtMost() {
    std::mt19937 random(6);
    Steps steps(4);
    steps.work(random, 0.05);
    for (std::size_t s = 50; s < 150; ++s) steps.seconds[1][1][s] += 8e-3;
    const RankCosts exact = costsOf(steps.matrix(), 1, kSteps);
    const RankCosts shared = costsOf(steps.matrix(4 * kSteps / 3), 1, kSteps);
    QVERIFY(!exact.atMost && shared.atMost);
    QCOMPARE(shared.ranks[0].rank, 1);
    QVERIFY(shared.stepSeconds >= exact.stepSeconds);
    QVERIFY(near(exact.ranks[0].seconds, 0.8, 0.1));
    QVERIFY2(near(shared.ranks[0].seconds, 0.8, 0.15),
             fmt::format("{}", shared.ranks[0].seconds).c_str());
    QVERIFY(std::abs(shared.ranks[0].lateSteps - 100) <= 8);  // a cell has four
  }

  void nodesThatAreNotKnownAreNoRows() {
    std::mt19937 random(10);
    Steps steps(4);
    steps.work(random, 0.05);
    const RankCosts costs = costsOf(steps.matrix(), 1, kSteps, {"n1", "n1", "n2"});
    QCOMPARE(costs.ranks.size(), std::size_t{4});
    QCOMPARE(costs.nodes.size(), std::size_t{2});
  }

  void figuresStandBesideThePeers() {
    std::mt19937 random(7);
    Steps steps(4);
    steps.work(random, 0);
    for (double& seconds : steps.seconds[2][2]) seconds += 5e-3;
    const std::map<std::string, double> means{{"rank/0/cpu", 1},
                                              {"rank/1/cpu", 1.1},
                                              {"rank/2/cpu", 0.4},
                                              {"rank/3/cpu", 1},
                                              {"node/n1/net_out", 5},
                                              {"node/n2/net_out", 7},
                                              {"node/n2/gpu/0/sm_clock", 900},
                                              {"node/n2/gpu/1/sm_clock", 1100},
                                              {"node/n1/gpu/0/sm_clock", 1980}};
    const auto meanOf = [&](const std::string& name) -> std::optional<double> {
      const auto found = means.find(name);
      return found == means.end() ? std::nullopt : std::optional(found->second);
    };
    const auto figures = peerFigures(StepTimes(steps.matrix(), 1, kSteps), 2, twoANode(4), meanOf);
    const auto find = [&](const std::string& name) {
      for (const PeerFigure& figure : figures)
        if (figure.name == name) return figure;
      return PeerFigure{"", -1, -1};
    };
    QVERIFY(near(find("backward").own, 10e-3, 1e-5));
    QVERIFY(near(find("backward").peers, 5e-3, 1e-5));
    QVERIFY(near(find("waiting").peers, 5e-3, 1e-5));
    QCOMPARE(find("cpu").own, 0.4);
    QCOMPARE(find("cpu").peers, 1.0);
    QCOMPARE(find("node/net_out").own, 7.0);
    QCOMPARE(find("node/net_out").peers, 5.0);
    QCOMPARE(find("node/gpu/sm_clock").own, 1000.0);
    QCOMPARE(find("node/gpu/sm_clock").peers, 1980.0);
    QCOMPARE(find("memory").name, std::string());  // nobody sampled it
  }
};

QTEST_GUILESS_MAIN(RankCostsTest)
#include "rank_costs_test.moc"
