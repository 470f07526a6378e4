// Divisions of the batch by speed: made-up steps of ranks whose speeds a seed chooses.
#include <QTemporaryDir>
#include <QTest>

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <random>

#include "app/history/history.h"
#include "app/runs/preview.h"
#include "app/runs/rebalance.h"
#include "app/specs/spec_text.h"
#include "engine/cluster/cuts.h"
#include "engine/plan/plan.h"
#include "tests/engine/planner/random_requests.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

struct Rank {
  double sampleSeconds = 0, fixedSeconds = 0;
  std::int64_t samples = 0;
  double seconds(std::int64_t n) const {
    return fixedSeconds + static_cast<double>(n) * sampleSeconds;
  }
};

plan::BatchShares sharesOf(const std::vector<std::int64_t>& samples, int modelRanks = 1,
                           int servers = 0, int microBatches = 1) {
  plan::Plan plan;
  plan.mesh = cluster::Mesh({{std::string(cluster::kDataAxis), static_cast<int>(samples.size())},
                             {std::string(cluster::kModelAxis), modelRanks}},
                            servers);
  plan.microBatches = microBatches;
  plan.batchCuts = {0};
  for (const std::int64_t n : samples) plan.batchCuts.push_back(plan.batchCuts.back() + n);
  return plan::BatchShares(plan);
}

// Steps 1 to `steps`, of which a third of the compute is forward; all wait for the last.
StepMatrix matrixOf(const std::vector<Rank>& ranks, std::int64_t steps, std::mt19937& random,
                    double noise) {
  StepMatrix out;
  std::uniform_real_distribution<> around(1 - noise, 1 + noise);
  double slowest = 0;
  for (const Rank& rank : ranks) slowest = std::max(slowest, rank.seconds(rank.samples));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    std::map<std::string, RunBatch::Series> parts;
    for (std::int64_t s = 1; s <= steps; ++s) {
      const auto x = static_cast<double>(s);
      const auto add = [&](const char* part, double seconds) {
        parts[part].points.push_back({x, seconds});
      };
      const double compute = static_cast<double>(ranks[r].samples) * ranks[r].sampleSeconds;
      add("forward", compute / 3 * around(random));
      add("backward", compute * 2 / 3 * around(random));
      add("data", ranks[r].fixedSeconds / 4);
      add("optimizer", ranks[r].fixedSeconds * 3 / 4);
      add("waiting", slowest - ranks[r].seconds(ranks[r].samples));
      add("transfer", 1e-3);
      add("step", slowest + 1e-3);
      add("began", 1000 + 0.01 * x);
    }
    for (auto& [part, series] : parts) {
      series.name = fmt::format("rank/{}/{}", r, part);
      out.add(series);
    }
  }
  return out;
}

Result<Rebalance> rebalanceOf(const StepMatrix& matrix, int world, const PlanFacts& plan,
                              const std::vector<double>& asked = {}) {
  return app::rebalanceOf(StepTimes(matrix, plan.sharesFrom, matrix.steps()), world, {}, plan,
                          kRebalanceSteps, asked);
}

double longest(const std::vector<Rank>& ranks, const std::vector<double>& samples) {
  double out = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    out = std::max(out, ranks[r].seconds(static_cast<std::int64_t>(samples[r])));
  return out;
}

}  // namespace

class RebalanceTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // No sample can be moved from one rank to another so that the slowest rank is sooner ready.
  void noOtherDivisionIsFaster() {
    for (unsigned seed = 1; seed <= 60; ++seed) {
      std::mt19937 random(seed);
      const auto pick = [&](double low, double high) {
        return std::uniform_real_distribution<>(low, high)(random);
      };
      std::vector<Rank> ranks(2 + random() % 7);
      PlanFacts plan;
      std::vector<std::int64_t> samples;
      for (Rank& rank : ranks) {
        rank = {pick(1e-4, 1e-2), pick(0, 5e-2), 1 + static_cast<std::int64_t>(random() % 200)};
        samples.push_back(rank.samples);
      }
      plan.shares = sharesOf(samples);
      const int world = static_cast<int>(ranks.size());
      const auto out = rebalanceOf(matrixOf(ranks, 40, random, 0), world, plan);
      QVERIFY2(out.ok(), out.ok() ? "" : out.error().text().c_str());
      const std::int64_t batch = std::accumulate(samples.begin(), samples.end(), std::int64_t{0});
      QCOMPARE(std::accumulate(out->shares.begin(), out->shares.end(), 0.0),
               static_cast<double>(batch));
      const std::vector<double> now(samples.begin(), samples.end());
      const double before = longest(ranks, now), after = longest(ranks, out->shares);
      const QByteArray where = fmt::format("seed {}: {} to {}", seed, before, after).c_str();
      QVERIFY2(std::abs(out->stepSeconds - before - 1e-3) < 1e-3 * before, where);
      QVERIFY2(std::abs(out->proposedSeconds - after - 1e-3) < 1e-3 * before, where);
      if (!out->changes()) {
        QCOMPARE(out->shares, now);
        continue;
      }
      QVERIFY2(after < before, where);
      for (std::size_t a = 0; a < ranks.size(); ++a)
        for (std::size_t b = 0; b < ranks.size(); ++b) {
          std::vector<double> other = out->shares;
          if (a == b || other[a] < 2) continue;
          --other[a];
          ++other[b];
          QVERIFY2(longest(ranks, other) > after * (1 - 1e-6), where);
        }
    }
  }

  // A rank at half the speed gets half of what its peers have, whatever the noise.
  void halfTheSpeedIsHalfTheSamples() {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      std::mt19937 random(seed);
      std::vector<Rank> ranks(2 + random() % 6, Rank{1e-3, 1e-3, 64});
      const std::size_t slow = random() % ranks.size();
      ranks[slow].sampleSeconds *= 2;
      PlanFacts plan;
      plan.shares = sharesOf(std::vector<std::int64_t>(ranks.size(), 64));
      const auto out =
          rebalanceOf(matrixOf(ranks, 50, random, 0.05), static_cast<int>(ranks.size()), plan);
      QVERIFY(out.ok() && out->changes());
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (r == slow) continue;
        const double ratio = out->shares[slow] / out->shares[r];
        QVERIFY2(std::abs(ratio - 0.5) < 0.05, fmt::format("seed {}: {}", seed, ratio).c_str());
      }
    }
  }

  // Equal ranks are left alone, and so is a batch of which each has one sample.
  void whatIsWellDividedStays() {
    std::mt19937 random(1);
    for (const std::int64_t samples : {1, 32}) {
      const std::vector<Rank> ranks(4, Rank{1e-3, 1e-3, samples});
      PlanFacts plan;
      plan.shares = sharesOf(std::vector<std::int64_t>(4, samples));
      const auto out = rebalanceOf(matrixOf(ranks, 50, random, 0.02), 4, plan);
      QVERIFY(out.ok());
      QVERIFY(!out->changes());
      QCOMPARE(out->proposedSeconds, out->stepSeconds);
    }
  }

  // A rank has as many samples of each micro-batch; what is told of it is of the whole step.
  void samplesAreThoseOfAStep() {
    std::mt19937 random(11);
    const std::vector<Rank> ranks{{1e-3, 0, 48}, {2e-3, 0, 48}};
    PlanFacts plan;
    plan.microBatches = 3;
    plan.shares = sharesOf({16, 16}, 1, 0, plan.microBatches);
    const auto out = rebalanceOf(matrixOf(ranks, 40, random, 0), 2, plan);
    QVERIFY2(out.ok(), out.ok() ? "" : out.error().text().c_str());
    QCOMPARE(out->shares[0] + out->shares[1], 32.0);
    QVERIFY(out->changes());
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const RankSpeed& rank = out->ranks[r];
      QCOMPARE(rank.samples, std::int64_t{48});
      QVERIFY(std::abs(rank.sampleSeconds - ranks[r].sampleSeconds) < 1e-6);
      QCOMPARE(static_cast<double>(rank.proposed), 3 * out->shares[r]);
    }
    const double after = std::max(out->ranks[0].proposedSeconds(), out->ranks[1].proposedSeconds());
    QVERIFY(std::abs(out->proposedSeconds - after - 1e-3) < 1e-5);
  }

  // Ranks that share a part of the batch are as fast as the slowest of them.
  void tensorParallelRanksHaveOneShare() {
    std::mt19937 random(2);
    std::vector<Rank> ranks(4, Rank{1e-3, 0, 30});
    ranks[3].sampleSeconds = 2e-3;
    PlanFacts plan;
    plan.shares = sharesOf({30, 30}, 2);
    const auto out = rebalanceOf(matrixOf(ranks, 20, random, 0), 4, plan);
    QVERIFY(out.ok());
    QCOMPARE(out->shares, (std::vector<double>{40, 20}));
    QCOMPARE(out->ranks[1].proposed, std::int64_t{40});
    QCOMPARE(out->ranks[2].proposed, std::int64_t{20});
  }

  // Steps of before a division do not count, and its samples do.
  void itStartsFromTheLastDivision() {
    std::mt19937 random(3);
    const std::vector<Rank> ranks{{1e-3, 0, 48}, {3e-3, 0, 16}};
    PlanFacts plan;
    plan.shares = sharesOf({32, 32});
    divideAnew(plan, {48, 16}, 20);
    QCOMPARE(plan.sharesFrom, std::int64_t{21});
    const auto out = rebalanceOf(matrixOf(ranks, 60, random, 0), 2, plan);
    QVERIFY(out.ok());
    QCOMPARE(out->first, std::int64_t{21});
    QVERIFY(!out->changes());
    divideAnew(plan, {48, 16}, 40);  // the same, as after a failure
    QCOMPARE(plan.sharesFrom, std::int64_t{21});
  }

  void sharesThatAreAskedForAreTaken() {
    std::mt19937 random(4);
    const std::vector<Rank> ranks(2, Rank{1e-3, 0, 32});
    PlanFacts plan;
    plan.shares = sharesOf({32, 32});
    const StepMatrix matrix = matrixOf(ranks, 20, random, 0);
    const auto out = rebalanceOf(matrix, 2, plan, {3, 1});
    QVERIFY(out.ok() && out->changes());
    QCOMPARE(out->shares, (std::vector<double>{48, 16}));
    QVERIFY(std::abs(out->proposedSeconds - 0.049) < 1e-6);
    for (const std::vector<double>& wrong :
         {std::vector<double>{1}, {1, 1, 1}, {0, 1}, {-1, 2}, {std::nan(""), 1}, {1e9, 1}}) {
      const auto refused = rebalanceOf(matrix, 2, plan, wrong);
      QVERIFY(!refused.ok());
      QCOMPARE(refused.error().code, Code::kInvalidArgument);
    }
    // What the planner would refuse: a cut through a statistics group, no sample of an evaluation.
    PlanFacts grouped = plan, evaluated = plan;
    grouped.unit = 8;
    evaluated.evaluateBatch = 2;
    QVERIFY(rebalanceOf(matrix, 2, grouped, {3, 1}).ok());
    QVERIFY(rebalanceOf(matrix, 2, evaluated, {1, 1}).ok());
    const auto cut = rebalanceOf(matrix, 2, grouped, {30, 34});
    QVERIFY(!cut.ok() && cut.error().text().find("a multiple of 8") != std::string::npos);
    const auto none = rebalanceOf(matrix, 2, evaluated, {15, 1});
    QVERIFY(!none.ok() && none.error().text().find("evaluation") != std::string::npos);
  }

  // Seeded requests, most of them of several stages or small evaluations: the planner takes what is
  // proposed.
  void whatIsProposedCanBePlanned() {
    lockstep::testing::Draw draw(17);
    std::mt19937 random(17);
    int changed = 0, pipelines = 0;
    for (int round = 0; round < 150; ++round) {
      lockstep::testing::Drawn drawn = draw();
      if (drawn.request.inOrder) continue;
      const auto plan = planner::makePlan(drawn.request, drawn.cluster, {});
      if (!plan.ok()) continue;
      PlanFacts facts = planFactsOf(*plan);
      const ir::Graph& graph = drawn.request.step.graph;
      for (const ir::Node& node : graph.nodes())
        if (node.op == ir::Op::kBatchMoments)
          if (const auto groups = graph.value(node.outputs[0]).type.shape[0]; groups > 1)
            facts.unit = std::lcm(facts.unit, drawn.request.step.batch / groups);
      const int world = plan->mesh.size();
      const std::vector<double> samples = facts.shares.of(world);
      std::vector<Rank> ranks;
      for (const double n : samples)
        ranks.push_back({std::uniform_real_distribution<>(1e-4, 1e-2)(random), 1e-3,
                         static_cast<std::int64_t>(n)});
      const auto out = rebalanceOf(matrixOf(ranks, 10, random, 0), world, facts);
      if (plan->mesh.axisSize(cluster::kStageAxis) > 1) {
        ++pipelines;
        QVERIFY2(!out.ok() && out.error().text().find("equal shares") != std::string::npos,
                 drawn.text.c_str());
      }
      if (!out.ok() || !out->changes()) continue;
      ++changed;
      drawn.request.shares = out->shares;
      const auto then = planner::makePlan(drawn.request, drawn.cluster, {});
      QVERIFY2(then.ok(), then.ok() ? "" : (drawn.text + then.error().text()).c_str());
      QCOMPARE(plan::BatchShares(*then).of(world).size(), samples.size());
    }
    QVERIFY2(changed >= 10 && pipelines >= 5,
             fmt::format("{} changed, {} pipelines", changed, pipelines).c_str());
  }

  // As large an evaluation as the batch, or smaller: no rank is left without a sample of it.
  void evaluationsLeaveEachRankASample() {
    std::mt19937 random(23);
    const std::vector<Rank> ranks{{1e-2, 0, 32}, {1e-4, 0, 32}};  // by speed 1 : 100
    PlanFacts plan;
    plan.shares = sharesOf({32, 32});
    for (const std::int64_t batch : {64, 16, 8, 3, 2}) {
      plan.evaluateBatch = batch;
      const auto out = rebalanceOf(matrixOf(ranks, 20, random, 0), 2, plan);
      QVERIFY(out.ok());
      QVERIFY(cluster::leaveNoneEmpty(cluster::cutsBy(batch, out->shares)));
      QCOMPARE(out->changes(), batch > 2);
    }
  }

  // The documents of a run tell which samples one rank has together, and that parts stay equal.
  void factsOfARun() {
    QTemporaryDir folder;
    const auto history = History::open(folder.path().toStdString());
    QVERIFY(history.ok());
    const auto factsOf = [&](const std::string& run, const std::string& layer,
                             const std::string& strategy) -> Result<PlanFacts> {
      const std::string yaml = fmt::format(
          "version: 1\nmodel:\n  name: m\n  input: {{shape: [8, 8, 1]}}\n  classes: 10\n"
          "  layers: [{{conv2d: {{filters: 8, kernel: 3}}}}, {}, {{flatten: {{}}}}, "
          "{{dense: {{units: 10}}}}]\n  loss: cross-entropy\ndata:\n"
          "  train: {{images: /i, labels: /l}}\n  evaluate: {{images: /i, labels: /l}}\n"
          "training: {{batch: 64}}\nstrategy: {{{}}}\n",
          layer, strategy);
      LOCKSTEP_ASSIGN(const RunSpecFile spec, completeRunSpec(yaml, {}));
      LaunchRequest request;
      request.spec = spec.spec;
      request.cluster = localCluster(2, folder.path().toStdString(), "").spec;
      LOCKSTEP_ASSIGN(const Preview preview, makePreview(request, {}));
      RunDocuments documents;
      documents.specYaml = yaml;
      documents.specResolved = toYaml(*spec.spec);
      documents.plan = preview.planText;
      RunRow row;
      row.run = run;
      LOCKSTEP_ASSIGN(const auto store, (*history)->begin(row, documents));
      return planFactsOf(documents, *store);
    };
    const auto grouped = factsOf("a", "{batch_norm: {groups: 8}}", "micro_batches: 2");
    QVERIFY2(grouped.ok(), grouped.ok() ? "" : grouped.error().text().c_str());
    QCOMPARE(grouped->unit, std::int64_t{8});  // 32 samples of a micro-batch in 4 groups
    QCOMPARE(grouped->microBatches, 2);
    QVERIFY(grouped->evenShares.empty());
    const auto plain = factsOf("b", "{batch_norm: {}}", "micro_batches: 2");
    QVERIFY(plain.ok());
    QCOMPARE(plain->unit, std::int64_t{1});
    const auto equal = factsOf("c", "{max_pool2d: {size: 2}}", "deterministic_parts: 4");
    QVERIFY2(equal.ok(), equal.ok() ? "" : equal.error().text().c_str());
    QVERIFY(equal->evenShares.text().find("deterministic_parts") != std::string::npos);
    std::mt19937 random(7);
    const StepMatrix matrix = matrixOf(std::vector<Rank>(2, Rank{1e-3, 0, 32}), 20, random, 0);
    QVERIFY(!rebalanceOf(matrix, 2, *equal).ok());
  }

  void whatCannotBeDividedSaysWhy() {
    std::mt19937 random(5);
    const std::vector<Rank> ranks(2, Rank{1e-3, 0, 32});
    PlanFacts plan, asynchronous;
    plan.shares = sharesOf({32, 32});
    asynchronous.shares = plan.shares;
    asynchronous.isAsynchronous = true;
    const StepMatrix many = matrixOf(ranks, 20, random, 0), few = matrixOf(ranks, 4, random, 0);
    const auto why = [](const Result<Rebalance>& out) {
      return out.ok() ? std::string() : out.error().text();
    };
    QVERIFY(why(rebalanceOf(many, 2, asynchronous)).find("asynchronous") != std::string::npos);
    QVERIFY(why(rebalanceOf(many, 2, {})).find("no plan") != std::string::npos);
    QVERIFY(why(rebalanceOf(few, 2, plan)).find("fewer than five") != std::string::npos);
    QVERIFY(why(rebalanceOf(StepMatrix(), 2, plan)).find("reported") != std::string::npos);
    PlanFacts alone;
    alone.shares = sharesOf({64}, 2);  // tensor parallel
    QVERIFY(why(rebalanceOf(many, 2, alone)).find("do not divide") != std::string::npos);
  }
};

QTEST_GUILESS_MAIN(RebalanceTest)
#include "rebalance_test.moc"
