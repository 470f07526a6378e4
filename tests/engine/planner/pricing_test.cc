// Prices of collectives that were not measured, and what is said of those that were.
#include "engine/planner/pricing.h"

#include "tests/engine/planner/random_requests.h"

using namespace lockstep;
using namespace lockstep::testing;
using ir::Algorithm;
using ir::Op;

namespace {

bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); }

cluster::Cluster gpus(int ranks) {
  cluster::Cluster out = clusterOf(ranks, 1, ranks);
  for (cluster::Device& device : out.devices) device.kind = "cuda";
  out.link = {"nccl", 2e-5, 2e11};
  return out;
}

// Seconds of the collectives of a training step along the axis of replicas.
double exchanged(const plan::Plan& plan) {
  double seconds = 0;
  for (const plan::Step& step : plan.find("step")->bodies[0].steps)
    if (step.kind == plan::StepKind::kCollective && step.bytes > 1024) seconds += step.seconds;
  return seconds;
}

}  // namespace

class PricingTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // A ring of n ranks sends 2 (n - 1) / n of what it sums (nccl-tests, doc/PERFORMANCE.md).
  void anAllReduceSendsAlmostTwiceItsPayload() {
    const std::int64_t bytes = 1'000'000'000;
    for (const char* kind : {"nccl", "shm", "in-process", "gloo"}) {
      const cluster::Link link{kind, 0, 1e9};
      for (const int n : {2, 3, 8, 64, 1024}) {
        const double sent = 2 * (n - 1.0) / n;
        for (const Algorithm how : {Algorithm::kDirect, Algorithm::kRing})
          QVERIFY(close(planner::allReduceSeconds(how, n, bytes, {}, link), sent));
        QVERIFY(close(planner::collectiveSeconds(Op::kAllToAll, n, bytes, {}, link), sent / 2));
        QVERIFY(close(planner::collectiveSeconds(Op::kBroadcast, n, bytes, {}, link), 1));
        // whole messages, down the tree and up
        QVERIFY(close(planner::allReduceSeconds(Algorithm::kTree, n, bytes, {}, link),
                      2 * std::ceil(std::log2(n))));
      }
      for (const int n : {2, 8, 64})
        QVERIFY(close(planner::allReduceSeconds(Algorithm::kHalvingDoubling, n, bytes, {}, link),
                      2 * (n - 1.0) / n));
      QCOMPARE(planner::collectiveSeconds(Op::kAllReduce, 1, bytes, {}, link), 0.0);
    }
  }

  // Gloo gathers a few bytes in rounds, each of eight times as many ranks as the one before.
  void fewBytesTakeRounds() {
    const cluster::Link link{"gloo", 1e-4, 1e9};
    const auto seconds = [&](int ranks, std::int64_t bytes) {
      return planner::allReduceSeconds(Algorithm::kDirect, ranks, bytes, {}, link);
    };
    for (const auto& [ranks, rounds] : {std::pair{3, 1}, {8, 1}, {9, 2}, {64, 2}, {1024, 4}})
      QVERIFY(close(seconds(ranks, 100), rounds * 1e-4 + (ranks - 1) * 1e-7));
    QVERIFY(seconds(1024, 8192) > 512 * 1e-4);  // 8 MiB of all ranks are too many
  }

  // Any communicator, ranks, sizes and hosts.
  void scatteringAndGatheringIsAnAllReduce() {
    Draw draw(3);
    for (int round = 0; round < 500; ++round) {
      const auto link = draw.of<cluster::Link>(
          {{"shm", 5e-6, 5e9}, {"gloo", 1e-4, 1e9}, {"nccl", 2e-5, 3e11}, {"in-process", 0, 1e9}});
      const int perHost = draw.of({1, 2, 3, 8}), hosts = draw.of({1, 2, 5, 16});
      const int ranks = perHost * hosts;
      std::vector<std::int64_t> cuts;
      for (int host = 0; host <= hosts; ++host) cuts.push_back(host * perHost);
      const std::int64_t bytes = draw.of({40'000, 1'000'000, 123'456'789});
      const auto seconds = [&](Op op) {
        return planner::collectiveSeconds(op, ranks, bytes, cuts, link);
      };
      const double whole = planner::allReduceSeconds(Algorithm::kDirect, ranks, bytes, cuts, link);
      QVERIFY(close(seconds(Op::kAllReduce), whole));
      QVERIFY(close(seconds(Op::kReduceScatter) + seconds(Op::kAllGather), whole));
    }
  }

  // ZeRO-1 scatters gradients and gathers parameters, where replicas sum gradients.
  void zeroCostsWhatReplicasCost() {
    for (const int ranks : {2, 4, 8}) {
      const cluster::Cluster cluster = gpus(ranks);
      Draw draw(11);
      planner::PlanRequest asked = request(draw.gpt(2, 256, 8192, 64), 8, 8);
      asked.bucketBytes = 100 << 20;
      const double replicas = exchanged(planOf(asked, cluster));
      for (const char* kind : {"zero-1", "zero-2"}) {
        asked.strategy = kind;
        const double sharded = exchanged(planOf(asked, cluster));
        QVERIFY2(std::abs(sharded / replicas - 1) < 0.02,
                 fmt::format("{} {}: {} and {}", ranks, kind, sharded, replicas).c_str());
      }
      asked.strategy = "zero-3";
      const double whole = exchanged(planOf(asked, cluster));
      QVERIFY2(whole > 1.2 * replicas && whole < 1.55 * replicas,
               fmt::format("{}: {} and {}", ranks, whole, replicas).c_str());
    }
  }

  // What was measured keeps its meaning: seconds of its own kind, number of ranks and payload.
  void measuredCollectivesComeFirst() {
    for (const int ranks : {2, 4}) {
      const cluster::Cluster cluster = gpus(ranks);
      Draw draw(11);
      planner::PlanRequest asked = request(draw.gpt(2, 256, 8192, 64), 8, 8);
      asked.strategy = "zero-1";
      plan::Plan plan = planOf(asked, cluster);
      planner::CostModel cost;
      cost.collectives = {{"nccl", ranks, 1000, 1e-3}, {"nccl", ranks, 1'000'000, 2e-3}};
      const auto secondsOf = [&](Op op, std::int64_t& bytes) {
        planner::predict(plan, cluster, cost);
        for (const plan::Step& step : plan.find("step")->bodies[0].steps)
          if (step.op == op && step.bytes > 1024) {
            bytes = step.bytes;
            return step.seconds;
          }
        return 0.0;
      };
      // Where all-reduces alone were measured, a part of one takes half of it.
      for (const Op op : {Op::kReduceScatter, Op::kAllGather}) {
        std::int64_t bytes = 0;
        const double seconds = secondsOf(op, bytes);
        const double allReduce = 1e-3 + 1e-3 * static_cast<double>(bytes - 1000) / 999'000;
        QVERIFY(std::abs(seconds / (allReduce / 2) - 1) < 1e-3);
      }
      cost.collectives.push_back({"nccl reduce-scatter", ranks, 1000, 0.5});
      cost.collectives.push_back({"nccl reduce-scatter", ranks, 1'000'000'000, 0.5});
      std::int64_t bytes = 0;
      QCOMPARE(secondsOf(Op::kReduceScatter, bytes), 0.5);
    }
  }
};

QTEST_GUILESS_MAIN(PricingTest)
#include "pricing_test.moc"
