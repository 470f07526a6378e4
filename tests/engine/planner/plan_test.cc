#include <QElapsedTimer>
#include <QTest>

#include <algorithm>
#include <numeric>
#include <set>

#include "engine/passes/group.h"
#include "tests/engine/planner/random_requests.h"
#include "tests/support/golden.h"
#include "tests/support/sanitizers.h"

using namespace lockstep;
using namespace lockstep::testing;

class PlanTest : public QObject {
  Q_OBJECT

  static const plan::Body& body(const plan::Plan& plan, const char* program, int rank = 0) {
    const plan::Program* found = plan.find(program);
    return found
        ->bodies[static_cast<std::size_t>(found->bodyOfRank[static_cast<std::size_t>(rank)])];
  }
  static int countOf(const plan::Body& body, ir::Op op) {
    return static_cast<int>(std::count_if(body.steps.begin(), body.steps.end(),
                                          [&](const plan::Step& s) { return s.op == op; }));
  }
  // Of inputs that are of the batch.
  static std::int64_t bytesOfSamples(const plan::Body& body) {
    std::int64_t bytes = 0;
    for (const plan::Buffer& buffer : body.buffers)
      for (const char* name : {"x", "label", "weight"})
        if (buffer.kind == plan::BufferKind::kInput && buffer.base < 0 && buffer.name == name)
          bytes += buffer.type.bytes();
    return bytes;
  }

  // Of as many samples as a step: what the ranks have for the step's programs is enough.
  static void evaluationNeedsNoMore(const plan::Plan& plan, const std::string& asked) {
    for (int rank = 0; rank < plan.mesh.size(); ++rank) {
      std::int64_t trains = 0, evaluates = 0;
      for (const plan::Program& program : plan.programs) {
        if (program.name == "init") continue;
        std::int64_t& most = program.name == "evaluate" ? evaluates : trains;
        most = std::max(most, body(plan, program.name.c_str(), rank).arenaBytes);
      }
      for (const plan::StateSlot& slot : plan.state) {
        if (slot.stage != plan.stageOf(rank) || !slot.name.starts_with("stash.")) continue;
        (slot.name.starts_with("stash.evaluate") ? evaluates : trains) +=
            slot.type.bytes() * slot.copies;
      }
      QVERIFY2(evaluates <= trains,
               fmt::format("rank {}: {} for {} of training: {}", rank, evaluates, trains, asked)
                   .c_str());
    }
  }

 private Q_SLOTS:
  void goldens_data() {
    QTest::addColumn<int>("ranks");
    QTest::addRow("1") << 1;
    QTest::addRow("3") << 3;
  }
  void goldens() {
    QFETCH(int, ranks);
    const plan::Plan plan = planOf(request(fashionMlp(), 8, 8), clusterOf(ranks));
    const std::string written = plan::text(plan);
    const std::string differs =
        differsFromGolden(fmt::format("fashion-mlp.{}-ranks.plan", ranks), written);
    QVERIFY2(differs.empty(), differs.c_str());
    const auto parsed = plan::parse(written);
    QVERIFY2(parsed.ok(), parsed.ok() ? "" : parsed.error().text().c_str());
    QVERIFY(*parsed == plan);
    QVERIFY(plan::verify(*parsed).ok());
    QCOMPARE(plan::hash(*parsed), plan::hash(plan));
  }

  // An algorithm that is asked for stands in every all-reduce of the replicas, in the text too; one
  // that the cluster cannot run is refused.
  void allReduceAlgorithms() {
    planner::PlanRequest asked = request(fashionMlp(), 64, 64);
    cluster::Cluster cluster = clusterOf(6, 1, 3);
    cluster.link = {"gloo", 1e-4, 1e8};
    for (const ir::Algorithm how : ir::kAlgorithms) {
      asked.allReduce = ir::algorithmName(how);
      const plan::Plan plan = planOf(asked, cluster);
      for (const plan::Step& step : body(plan, "step").steps) {
        if (step.op != ir::Op::kAllReduce) continue;
        QCOMPARE(ir::textAttr(step.attrs, "algorithm", "direct"), ir::algorithmName(how));
        QCOMPARE(ir::listAttr(step.attrs, "hosts"), how == ir::Algorithm::kHierarchical
                                                        ? (std::vector<std::int64_t>{0, 3, 6})
                                                        : std::vector<std::int64_t>{});
        QVERIFY(step.seconds > 0);
      }
      const auto parsed = plan::parse(plan::text(plan));
      QVERIFY(parsed.ok() && *parsed == plan && plan::verify(*parsed).ok());
    }
    for (const int perHost : {1, 6}) {
      const auto refused = planner::makePlan(asked, clusterOf(6, 1, perHost), {});
      QVERIFY(!refused.ok() && refused.error().next.text().find("auto") != std::string::npos);
    }
    asked.allReduce = "rings";
    QVERIFY(!planner::makePlan(asked, cluster, {}).ok());
  }

  // Latencies of the rounds, and bytes over the busiest link.
  void whatAllReducesCost() {
    planner::PlanRequest asked = request(fashionMlp(), 64, 64);
    cluster::Cluster cluster = clusterOf(8, 1, 4);
    // there and back, and bytes in one direction
    cluster.link = {"gloo", 2e-4, 1e8};
    const auto seconds = [&](const char* algorithm) {
      asked.allReduce = algorithm;
      const plan::Plan plan = planOf(asked, cluster);
      for (const plan::Step& step : body(plan, "step").steps)
        if (step.op == ir::Op::kAllReduce)
          return std::pair(step.seconds, static_cast<double>(step.bytes) / 1e8);
      return std::pair(0.0, 0.0);
    };
    const auto close = [](double a, double b) { return std::abs(a - b) < 1e-3 * b; };
    const auto [ring, message] = seconds("ring");
    const double all = message * 14 / 8;  // what each of eight ranks sends
    QVERIFY(close(ring, 14 * 1e-4 + all));
    QVERIFY(close(seconds("tree").first, 6 * (1e-4 + message)));
    // four ranks of a host send half of theirs to the other host
    const double shared = 4.0 * 4 / 7;
    QVERIFY(close(seconds("direct").first, 8 * 1e-4 + all * shared));
    QVERIFY(close(seconds("halving-doubling").first, 6 * 1e-4 + all * shared));
    QVERIFY(seconds("hierarchical").first < ring);
    // What was measured counts.
    planner::CostModel cost;
    cost.collectives = {
        {"gloo ring", 8, 100, 3e-3}, {"gloo ring", 8, 10'000'000, 3e-3}, {"gloo", 8, 100, 9.0}};
    asked.allReduce = "ring";
    const auto measured = planner::makePlan(asked, cluster, cost);
    QVERIFY(measured.ok());
    for (const plan::Step& step : body(*measured, "step").steps)
      if (step.op == ir::Op::kAllReduce) QVERIFY(close(step.seconds, 3e-3));
  }

  // By the links: the communicator's own inside a host; where ranks of a host share a link, what
  // crosses it once; few rounds where latency is all.
  void cheapestAllReduce() {
    const auto chosen = [&](const cluster::Cluster& cluster) {
      const plan::Plan plan = planOf(request(fashionMlp(), 64, 64), cluster);
      std::set<std::string> algorithms;
      for (const plan::Step& step : body(plan, "step").steps)
        if (step.op == ir::Op::kAllReduce)
          algorithms.emplace(ir::textAttr(step.attrs, "algorithm", "direct"));
      return algorithms.size() == 1 ? *algorithms.begin() : std::string("several");
    };
    QCOMPARE(chosen(clusterOf(8, 1, 8)), std::string("direct"));
    cluster::Cluster cluster = clusterOf(8, 1, 8);
    cluster.link = {"gloo", 1e-4, 2e9};
    QCOMPARE(chosen(cluster), std::string("direct"));
    cluster = clusterOf(8, 1, 4);
    cluster.link = {"gloo", 1e-4, 1.25e7};  // 100 Mbit/s
    QCOMPARE(chosen(cluster), std::string("hierarchical"));
    cluster = clusterOf(8, 1, 1);
    cluster.link = {"gloo", 1e-4, 1.25e8};
    QCOMPARE(chosen(cluster), std::string("direct"));
    cluster = clusterOf(32, 1, 1);
    cluster.link = {"gloo", 1e-4, 1.25e8};
    QCOMPARE(chosen(cluster), std::string("halving-doubling"));
  }

  void everyExampleHolds_data() {
    QTest::addColumn<bool>("cnn");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<QString>("optimizer");
    QTest::addColumn<qint64>("bucketBytes");
    QTest::addColumn<bool>("f64");
    for (const bool cnn : {false, true}) {
      for (const int ranks : {1, 2, 3, 4, 7}) {
        for (const char* optimizer : {"sgd", "adam"}) {
          for (const qint64 bucket : {0, 1, 4096}) {
            QTest::addRow("%s %d %s %lld", cnn ? "cnn" : "mlp", ranks, optimizer, bucket)
                << cnn << ranks << QString(optimizer) << bucket << (ranks == 4);
          }
        }
      }
    }
  }
  // makePlan verifies after itself: that it succeeds is the proof of memory, order and views.
  void everyExampleHolds() {
    QFETCH(bool, cnn);
    QFETCH(int, ranks);
    QFETCH(QString, optimizer);
    QFETCH(qint64, bucketBytes);
    QFETCH(bool, f64);
    auto asked =
        request(cnn ? fashionCnn() : fashionMlp(), 64, 100, f64 ? DType::kF64 : DType::kF32);
    asked.training.optimizer.kind = optimizer.toStdString();
    asked.bucketBytes = bucketBytes;
    const auto made = planner::makePlan(asked, clusterOf(ranks), {});
    QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
    const plan::Plan& plan = *made;
    const auto parsed = plan::parse(plan::text(plan));
    QVERIFY(parsed.ok() && *parsed == plan);
    std::set<std::string> names;
    for (const plan::StateSlot& slot : plan.state) {
      for (const auto& member : slot.members) {
        if (slot.name.starts_with("params.")) names.insert(member.name);
        QCOMPARE(member.element * static_cast<std::int64_t>(sizeOf(slot.type.dtype)) % 64, 0);
      }
    }
    QCOMPARE(names.size(), std::size_t{4});
    const int groups =
        static_cast<int>(std::count_if(plan.state.begin(), plan.state.end(), [](const auto& slot) {
          return slot.name.starts_with("params.");
        }));
    QCOMPARE(groups, bucketBytes == 0 ? 1 : bucketBytes == 1 ? 4 : groups);
    for (int rank = 0; rank < ranks; ++rank) {
      const plan::Body& step = body(plan, "step", rank);
      QCOMPARE(countOf(step, ir::Op::kAllReduce), ranks == 1 ? 0 : groups);
      QCOMPARE(countOf(body(plan, "evaluate", rank), ir::Op::kAllReduce), ranks == 1 ? 0 : 1);
      QCOMPARE(countOf(step, optimizer == "adam" ? ir::Op::kAdam : ir::Op::kSgd), groups);
      // The one copy is the wish to stop: an input does not lie in a group.
      QCOMPARE(countOf(step, ir::Op::kScale), 1);
      QCOMPARE(step.results.size(), std::size_t{1});
      for (const char* input : {"x", "label", "weight", "lr", "t", "stop"}) {
        if (std::string_view(input) == "t" && optimizer == "sgd") continue;
        QVERIFY2(std::any_of(step.buffers.begin(), step.buffers.end(),
                             [&](const plan::Buffer& buffer) {
                               return buffer.kind == plan::BufferKind::kInput &&
                                      buffer.name == input;
                             }),
                 input);
      }
    }
  }

  // Whatever is asked for is planned, or refused with the number to change: nothing that the
  // planner makes is refused by the verifier.
  void whateverIsAskedForHoldsOrIsRefused() {
    Draw draw(17);
    int planned = 0;
    const int all = test::kSanitized ? 100 : 600;
    for (int i = 0; i < all; ++i) {
      const Drawn drawn = draw();
      const auto made = planner::makePlan(drawn.request, drawn.cluster, {});
      planned += made.ok() ? 1 : 0;
      if (made.ok() && drawn.evaluatesLikeSteps) evaluationNeedsNoMore(*made, drawn.text);
      if (made.ok()) continue;
      QVERIFY2(made.error().code == Code::kInvalidArgument && !made.error().next.empty(),
               fmt::format("{}\n{}", drawn.text, made.error().text()).c_str());
    }
    qInfo("%d of %d were planned", planned, all);
    QVERIFY(planned >= all / 2);
  }

  // Ids of categories are an input of the stage that looks them up: messages carry floats alone.
  void idsAreAnInputWhereTheyAreLookedUp() {
    models::Model model;
    model.name = "clicks";
    model.input = {3};
    model.columns = 2;
    model.categories = 8;
    model.inputDtype = DType::kF32;
    model.inputScale = 1;
    model.loss = "binary-cross-entropy";
    model.layers = {dense("bottom", 4, "relu"), layer(models::Layer::Kind::kEmbedding, "tables"),
                    layer(models::Layer::Kind::kConcat, "join"), dense("head", 1)};
    model.layers[1].units = 4;
    model.layers[1].inputs = {"categories"};
    model.layers[2].inputs = {"bottom", "tables"};
    planner::PlanRequest asked = request(model, 8, 8);
    asked.strategy = "placement";
    asked.pins = {{"bottom", 0}, {"tables", 1}};
    cluster::Cluster cluster = clusterOf(2);
    cluster.mesh = cluster::Mesh({{"stage", 2}, {"data", 1}});
    const auto made = planner::makePlan(asked, cluster, {});
    QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
    for (const char* program : {"forward", "evaluate"}) {
      for (const int rank : {0, 1}) {
        const auto& buffers = body(*made, program, rank).buffers;
        const bool fed = std::any_of(buffers.begin(), buffers.end(), [](const plan::Buffer& one) {
          return one.kind == plan::BufferKind::kInput && one.name == "categories";
        });
        QCOMPARE(fed, rank == 1);
      }
    }
  }

  // A table is divided for logits that the loss takes; before another layer they are whole.
  void layersMayFollowTiedLogits() {
    using Kind = models::Layer::Kind;
    models::Model model;
    model.name = "tied";
    model.input = {8};
    model.vocabulary = model.classes = 16;
    model.layers = {layer(Kind::kEmbedding, "table"), layer(Kind::kTransformer, "block"),
                    dense("head", 16), layer(Kind::kDropout, "drop")};
    model.layers[0].units = 8;
    model.layers[1].heads = 2;
    model.layers[2].tied = "table";
    model.layers[3].dropout = 0.1;
    cluster::Cluster cluster = clusterOf(2);
    cluster.mesh = cluster::Mesh({{"data", 1}, {"model", 2}});
    for (const bool last : {false, true}) {
      if (last) model.layers.pop_back();
      planner::PlanRequest asked = request(model, 8, 8);
      asked.strategy = "tensor-parallel";
      QCOMPARE(asked.step.parameters[0].isDivided(2), last);
      const auto made = planner::makePlan(asked, cluster, {});
      QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
    }
  }

  // No layer's name makes one of its nodes share the name of a node that the planner adds.
  void layersMayHaveAnyName() {
    models::Model model = fashionMlp();
    model.layers[1].name = "metrics";
    model.layers[2].name = "own";
    planner::PlanRequest asked = request(model, 8, 8);
    for (const char* strategy : {"multi-worker-mirrored", "local-sgd"}) {
      asked.strategy = strategy;
      const auto made = planner::makePlan(asked, clusterOf(2), {});
      QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
    }
  }

  void unevenBatchesShareBodies() {
    const plan::Plan plan = planOf(request(fashionMlp(), 64, 64), clusterOf(3));
    QCOMPARE(plan.batchCuts, (std::vector<std::int64_t>{0, 22, 43, 64}));
    const plan::Program* step = plan.find("step");
    QCOMPARE(step->bodies.size(), std::size_t{2});
    QCOMPARE(step->bodies[0].role, std::string("worker.22"));
    QCOMPARE(step->bodies[1].role, std::string("worker.21"));
    QCOMPARE(step->bodyOfRank, (std::vector<int>{0, 1, 1}));
    QCOMPARE(plan.find("init")->bodies.size(), std::size_t{1});
  }

  // A bucket travels as soon as its last gradient is there, and updates come last.
  void collectivesFollowTheirGradients() {
    auto asked = request(fashionMlp(), 64, 64);
    asked.bucketBytes = 1;
    const plan::Plan plan = planOf(asked, clusterOf(2));
    const plan::Body& step = body(plan, "step");
    int reduced = 0;
    bool computedBetween = false;
    for (const plan::Step& s : step.steps) {
      if (s.kind == plan::StepKind::kCollective) ++reduced;
      if (reduced > 0 && reduced < 4 && s.phase == ir::Phase::kBackward && s.flops > 1e5) {
        computedBetween = true;
      }
      if (s.phase == ir::Phase::kOptimizer) QCOMPARE(reduced, 4);
    }
    QVERIFY(computedBetween);
  }

  // A large model has fewer buckets over a fast link than over a slow one, each as large as chosen.
  // A small one has as many.
  void bucketsAreSizedByTheLink() {
    Draw draw(9);
    const cluster::Link slow{"gloo", 1e-4, 1.25e8}, fast{"nccl", 2e-5, 2e10};
    const auto bucketsOf = [](const planner::PlanRequest& asked, const cluster::Link& link) {
      cluster::Cluster cluster = clusterOf(2);
      cluster.link = link;
      std::vector<std::int64_t> bytes;
      for (const plan::StateSlot& slot : planOf(asked, cluster).state)
        if (slot.role == plan::StateRole::kParameters) bytes.push_back(slot.type.bytes());
      return bytes;
    };
    const auto large = request(draw.gpt(8, 1024, 1000, 32), 2, 2);
    const auto few = bucketsOf(large, fast), many = bucketsOf(large, slow);
    QVERIFY2(few.size() < many.size(), fmt::format("{} {}", few.size(), many.size()).c_str());
    const std::int64_t all = std::accumulate(few.begin(), few.end(), std::int64_t{0});
    const std::int64_t chosen =
        passes::chooseBucketBytes(fast.latency, fast.bytesPerSecond, all * 99 / 100);
    QVERIFY(chosen > 4 << 20);
    for (std::size_t i = 0; i + 1 < few.size(); ++i) QVERIFY(few[i] >= chosen);
    const auto small = request(draw.gpt(4, 128, 1000, 32), 2, 2);
    QCOMPARE(bucketsOf(small, {"gloo", 1e-3, 1e9}), bucketsOf(small, fast));
  }

  void updatesWorkInPlace() {
    const plan::Plan plan = planOf(request(fashionCnn(), 64, 64), clusterOf(2));
    for (const plan::Step& step : body(plan, "step").steps) {
      if (step.op != ir::Op::kAdam) continue;
      QCOMPARE(step.inputs[0], step.outputs[0]);
      QCOMPARE(step.inputs[2], step.outputs[1]);
      QCOMPARE(step.inputs[3], step.outputs[2]);
    }
  }

  void memoryIsReused() {
    const plan::Plan plan = planOf(request(fashionCnn(), 64, 64), clusterOf(1));
    const plan::Body& step = body(plan, "step");
    std::int64_t all = 0;
    for (const plan::Buffer& buffer : step.buffers) {
      if (buffer.base < 0 && buffer.kind != plan::BufferKind::kState) all += buffer.type.bytes();
    }
    QVERIFY(step.arenaBytes < all);
    const planner::RankMemory memory = planner::memory(plan, 0);
    QCOMPARE(memory.optimizer, 2 * memory.parameters);
    QVERIFY(memory.gradients >= memory.parameters);
    QCOMPARE(memory.gradients + memory.activations,
             std::max(step.arenaBytes, body(plan, "evaluate").arenaBytes));
    QCOMPARE(plan.arenaBytesOf(0), std::max(step.arenaBytes, body(plan, "evaluate").arenaBytes));
    // On a device the samples of both programs wait in memory of their own: 64 images, labels and
    // weights.
    QCOMPARE(planner::memory(plan, 0, true).activations - memory.activations,
             bytesOfSamples(step) + bytesOfSamples(body(plan, "evaluate")));
  }

  // A request is held to the rules that specs are held to, in their words.
  void optionsThatAStrategyDoesNotTake() {
    const auto refused = [](const auto& change) {
      auto asked = request(fashionMlp(), 64, 64);
      change(asked);
      const auto plan = planner::makePlan(asked, clusterOf(2), {});
      return plan.ok() ? std::string() : plan.error().field + ": " + plan.error().what.text();
    };
    QCOMPARE(refused([](auto& asked) { asked.staleness = 1; }),
             std::string("strategy.staleness: strategy.staleness is 1, but multi-worker-mirrored "
                         "is synchronous; expected 0, or kind parameter-server"));
    QCOMPARE(refused([](auto& asked) { asked.inOrder = true, asked.strategy = "zero-1"; }),
             std::string("strategy.deterministic_parts: strategy.deterministic_parts is 2, but "
                         "zero-1 cannot add up gradients "
                         "in one order; expected 0"));
    QCOMPARE(refused([](auto& asked) {
               asked.inOrder = true, asked.shares = {1, 2};
             }),
             std::string("strategy.shares: strategy.shares and strategy.deterministic_parts "
                         "exclude each other; expected one "
                         "of them"));
  }

  // Of parameters in parts few are whole at once, and again in the backward pass.
  void gathersAreFreedAfterUse() {
    models::Model model = fashionMlp();
    models::Layer hidden = model.layers[1];
    hidden.units = 256;
    model.layers[1].units = 256;
    for (int i = 0; i < 12; ++i) {
      hidden.name = fmt::format("hidden{}", i);
      model.layers.insert(model.layers.begin() + 2, hidden);
    }
    auto asked = request(model, 64, 64);
    const planner::RankMemory one = planner::memory(planOf(asked, clusterOf(1)), 0);
    QCOMPARE(planner::gatheredWindow(planOf(asked, clusterOf(4)), 0), 0);
    asked.strategy = "zero-3";
    asked.bucketBytes = 1 << 18;  // a hidden layer's weight
    const plan::Plan plan = planOf(asked, clusterOf(4));
    const planner::RankMemory part = planner::memory(plan, 0);
    const auto held = [](const planner::RankMemory& memory) {
      return static_cast<double>(memory.parameters + memory.gradients + memory.optimizer);
    };
    qInfo("holds %.4f of one rank's, %lld bytes whole at once", held(part) / held(one),
          static_cast<long long>(planner::gatheredWindow(plan, 0)));
    QVERIFY(held(part) <= 0.27 * held(one));
    // The first layer's parameters and their gradients are the largest: 784 x 256.
    QVERIFY(planner::gatheredWindow(plan, 0) <= 2 * 784 * 256 * 4 + (1 << 18));
    QVERIFY(planner::gatheredWindow(plan, 0) < one.parameters);
    // Initial values are made group by group: of the largest group whole, and no more, in the
    // memory that steps have.
    std::int64_t largest = 0;
    for (const plan::StateSlot& slot : plan.state)
      if (slot.name.starts_with("params.")) largest = std::max(largest, 4 * plan.groupCount(slot));
    const std::int64_t init = body(plan, "init").arenaBytes;
    QVERIFY2(init <= largest + 64 && 4 * init < one.parameters,
             fmt::format("{} of {}", init, one.parameters).c_str());
    QVERIFY(init <= plan.arenaBytesOf(0));
    int forward = 0, backward = 0;
    for (const plan::Step& step : body(plan, "step").steps) {
      if (step.op != ir::Op::kAllGather) continue;
      ++(step.phase == ir::Phase::kForward ? forward : backward);
    }
    QVERIFY(forward >= 12);
    QVERIFY(backward >= 11);  // all but the first layer's, whose input has no gradient
  }

  // In half precision too: for shapes at random, weights of products are gathered twice and memory
  // is no more than in fp32; and what is whole at once is what memory is laid out for.
  void gathersInHalfPrecisionAreFreedToo() {
    Draw draw(3);
    double worst = 0;
    for (int i = 0; i < 24; ++i) {
      const models::Model model = draw.gpt(draw.of({2, 4, 8}), draw.of({128, 256, 512}),
                                           draw.of({64, 1000}), draw.of({16, 64}));
      const int ranks = draw.of({2, 4, 8});
      auto asked = request(model, 2 * ranks, ranks);
      asked.strategy = "zero-3";
      asked.overlap = draw.of<const char*>({"never", "always"});
      asked.bucketBytes = draw.of<std::int64_t>({0, 1, 1 << 16});
      struct Made {
        std::int64_t peak, forward, backward, untold;
      };
      const auto made = [&](DType matmulDtype) -> Made {
        asked.matmulDtype = matmulDtype;
        asked.training.lossScale.reset();
        if (matmulDtype == DType::kF16) asked.training.lossScale.emplace();
        const plan::Plan plan = planOf(asked, clusterOf(ranks));
        const plan::Body& step = body(plan, "step");
        std::int64_t gathers[2] = {0, 0};
        std::vector<bool> whole(step.buffers.size(), false);
        const auto rootOf = [&](plan::BufferId id) {
          const plan::Buffer& buffer = step.buffers[static_cast<std::size_t>(id)];
          return static_cast<std::size_t>(buffer.base >= 0 ? buffer.base : id);
        };
        for (const plan::Step& one : step.steps) {
          if (one.op == ir::Op::kReduceScatter) whole[rootOf(one.inputs[0])] = true;
          if (one.op != ir::Op::kAllGather ||
              step.buffers[rootOf(one.outputs[0])].kind != plan::BufferKind::kTemp)
            continue;
          if (step.buffers[rootOf(one.outputs[0])].type.dtype == matmulDtype)
            ++gathers[one.phase == ir::Phase::kForward ? 0 : 1];
          whole[rootOf(one.outputs[0])] = true;
        }
        // By the steps that use them; what is asynchronous is in use until it is waited for.
        std::vector<std::int64_t> during(step.steps.size(), 0);
        for (std::size_t b = 0; b < step.buffers.size(); ++b) {
          if (!whole[b]) continue;
          std::size_t first = step.steps.size(), end = 0;
          for (std::size_t k = 0; k < step.steps.size(); ++k) {
            bool uses = false;
            for (const auto* ids : {&step.steps[k].inputs, &step.steps[k].outputs})
              uses = uses || std::any_of(ids->begin(), ids->end(),
                                         [&](plan::BufferId id) { return rootOf(id) == b; });
            if (!uses) continue;
            first = std::min(first, k);
            end = k + 1;
            if (step.steps[k].stream == plan::kComputeStream) continue;
            const auto knows = [&](const plan::Step& later) {
              return later.stream == plan::kCommunicationStream ||
                     std::any_of(later.after.begin(), later.after.end(), [&](plan::StepId id) {
                       return static_cast<std::size_t>(id) >= k;
                     });
            };
            while (end < step.steps.size() && !knows(step.steps[end])) ++end;
          }
          for (std::size_t k = first; k < end; ++k) during[k] += step.buffers[b].type.bytes();
        }
        const std::int64_t most = *std::max_element(during.begin(), during.end());
        return {step.arenaBytes, gathers[0], gathers[1], most - planner::gatheredWindow(plan, 0)};
      };
      const Made wide = made(DType::kF32);
      for (const DType matmulDtype : {DType::kBf16, DType::kF16}) {
        const Made narrow = made(matmulDtype);
        const std::string said = fmt::format(
            "{} layers, {} ranks, overlap {}, buckets {}: {}: {} bytes for {}; {} and {} gathers",
            model.layers.size(), ranks, asked.overlap, asked.bucketBytes, dtypeName(matmulDtype),
            narrow.peak, wide.peak, narrow.forward, narrow.backward);
        worst = std::max(worst, static_cast<double>(narrow.peak) / static_cast<double>(wide.peak));
        QVERIFY2(narrow.untold == 0 && wide.untold == 0, said.c_str());
        QVERIFY2(narrow.forward > 0 && narrow.backward == narrow.forward, said.c_str());
      }
    }
    qInfo("at most %.3f times the memory of fp32", worst);
    QVERIFY(worst <= 1.02);
  }

  // Of micro-batches on the way a stage keeps what later programs read of them, each for as long as
  // they do. With zb-h1 that is at most what the first stage of 1f1b keeps and a micro-batch more
  // (Qi et al.: "Zero Bubble Pipeline Parallelism", 2023, table 1), and what rounds copies up to
  // divisors of their stage's number.
  void weightGradientsApartKeepWhatTheyRead() {
    Draw draw(5);
    for (const int stages : {2, 3, 4, 8}) {
      for (const int micros : {stages, 2 * stages, 4 * stages}) {
        auto asked = request(draw.gpt(3 * stages, 128, 64, 64), 4, 4);
        asked.microBatches = micros;
        asked.strategy = "pipeline";
        cluster::Cluster cluster = clusterOf(stages);
        cluster.mesh = cluster::Mesh({{"stage", stages}, {"data", 1}});
        const auto most = [&](const char* schedule) {
          asked.schedule = schedule;
          const plan::Plan plan = planOf(asked, cluster);
          std::int64_t bytes = 0;
          for (int rank = 0; rank < stages; ++rank)
            bytes = std::max(bytes, planner::memory(plan, rank).activations);
          return static_cast<double>(bytes);
        };
        const double times = most("zb-h1") / most("1f1b");
        qInfo("%d stages, %d micro-batches: %.2f times the activations of 1f1b", stages, micros,
              times);
        QVERIFY(times <= 1.4);
      }
    }
  }

  // zero-2 holds parts of what is added up of micro-batches; of one micro-batch nothing is added
  // up.
  void zero2DividesWhatMicroBatchesAddUp() {
    Draw draw(6);
    auto asked = request(draw.gpt(6, 256, 1000, 32), 8, 8);
    const auto of = [&](const char* strategy, int micros) {
      asked.strategy = strategy;
      asked.microBatches = micros;
      return planner::memory(planOf(asked, clusterOf(4)), 0);
    };
    QCOMPARE(of("zero-2", 1).total(), of("zero-1", 1).total());
    const planner::RankMemory one = of("zero-1", 4), two = of("zero-2", 4);
    qInfo("gradients of 4 micro-batches: %lld bytes, in zero-2 %lld; all %lld and %lld",
          static_cast<long long>(one.gradients), static_cast<long long>(two.gradients),
          static_cast<long long>(one.total()), static_cast<long long>(two.total()));
    QVERIFY(2 * two.gradients <= one.gradients);
    QVERIFY(two.total() < one.total());
  }

  // Rajbhandari et al., "ZeRO", 2020, figure 1: of n ranks each has 1/n of the optimizer's state
  // from zero-1 on, of the gradients that micro-batches add up from zero-2 on, of the parameters in
  // zero-3.
  void zeroDividesByTheRanks() {
    Draw draw(8);
    for (int round = 0; round < 6; ++round) {
      const int ranks = draw.of({2, 3, 4, 5, 6, 7, 8});
      auto asked = request(draw.gpt(draw.of({2, 4}), 128, 1000, 32), 8, 8);
      asked.microBatches = draw.of({2, 3, 4});
      struct Held {
        double parameters, optimizer, sums;
      };
      const auto heldBy = [&](const char* strategy) {
        asked.strategy = strategy;
        const plan::Plan plan = planOf(asked, clusterOf(ranks));
        const planner::RankMemory memory = planner::memory(plan, 0);
        std::int64_t sums = 0;
        for (const plan::StateSlot& slot : plan.state)
          if (slot.role == plan::StateRole::kGradientSum) sums += slot.type.bytes();
        return Held{static_cast<double>(memory.parameters), static_cast<double>(memory.optimizer),
                    static_cast<double>(sums)};
      };
      const Held whole = heldBy("multi-worker-mirrored");
      QCOMPARE(whole.optimizer, 2 * whole.parameters);
      int level = 0;
      for (const char* strategy : {"zero-1", "zero-2", "zero-3"}) {
        ++level;
        const Held held = heldBy(strategy);
        const auto isPart = [&](double part, double all, int from) {
          const double want = level >= from ? all / ranks : all;  // and padding
          return std::abs(part - want) <= 0.01 * want;
        };
        const std::string what =
            fmt::format("{} of {} ranks, {} micro-batches", strategy, ranks, asked.microBatches);
        QVERIFY2(isPart(held.optimizer, whole.optimizer, 1), what.c_str());
        QVERIFY2(isPart(held.sums, whole.sums, 2), what.c_str());
        QVERIFY2(isPart(held.parameters, whole.parameters, 3), what.c_str());
      }
    }
  }

  // Parameters that products alone read are cast before they travel; those that others read, biases
  // here, are not.
  void castParametersTravelInHalfTheBytes() {
    auto asked = request(fashionMlp(), 64, 64);
    asked.strategy = "zero-3";
    const auto gathered = [&](DType type) {
      const plan::Plan plan = planOf(asked, clusterOf(2));
      const plan::Body& step = body(plan, "step");
      std::int64_t elements = 0;
      for (const plan::Step& one : step.steps) {
        if (one.op != ir::Op::kAllGather || one.phase != ir::Phase::kForward) continue;
        const ir::TensorType& whole = step.buffers[static_cast<std::size_t>(one.outputs[0])].type;
        if (whole.dtype == type) elements += whole.count();
      }
      return elements;
    };
    const std::int64_t all = gathered(DType::kF32);
    asked.matmulDtype = DType::kBf16;
    const std::int64_t wide = gathered(DType::kF32), narrow = gathered(DType::kBf16);
    QCOMPARE(wide + narrow, all);
    QVERIFY(narrow >= 784 * 128 + 128 * 10);
    QVERIFY(wide > 0 && wide < 1024);
    const plan::Plan plan = planOf(asked, clusterOf(2));
    QCOMPARE(plan.precision, std::string("bf16"));
    for (const plan::StateSlot& slot : plan.state) QVERIFY(slot.type.dtype == DType::kF32);
    for (const plan::Program& program : plan.programs)
      for (const plan::Step& step : program.bodies[0].steps) {
        if (step.op == ir::Op::kMatmul)
          QVERIFY(program.bodies[0].buffers[static_cast<std::size_t>(step.inputs[0])].type.dtype ==
                  DType::kBf16);
      }
  }

  // Attention's operands stay f32: the plan says what a GPU may round them to.
  void attentionMayHave16BitOperands() {
    models::Layer embedding = layer(models::Layer::Kind::kEmbedding, "embedding"),
                  block = layer(models::Layer::Kind::kTransformer, "block");
    embedding.units = 8;
    block.heads = 2;
    models::Model model;
    model.name = "text";
    model.input = {6};
    model.vocabulary = model.classes = 11;
    model.layers = {embedding, block, dense("head", 11)};
    auto asked = request(model, 8, 8);
    for (const auto& [matmulDtype, operandDtype] :
         {std::pair{DType::kBf16, "bf16"}, {DType::kF16, "f16"}, {DType::kF32, ""}}) {
      asked.matmulDtype = matmulDtype;
      if (matmulDtype == DType::kF16)
        asked.training.lossScale.emplace();
      else
        asked.training.lossScale.reset();
      const plan::Plan plan = planOf(asked, clusterOf(2));
      for (const char* program : {"step", "evaluate"}) {
        std::ptrdiff_t found = 0;
        for (const plan::Step& step : body(plan, program).steps) {
          const bool isAttention =
              step.op == ir::Op::kAttention || step.op == ir::Op::kAttentionGrad;
          found += isAttention ? 1 : 0;
          QCOMPARE(ir::textAttr(step.attrs, "operand_dtype"),
                   std::string_view(isAttention ? operandDtype : ""));
          for (const int input : step.inputs)
            if (isAttention)
              QVERIFY(body(plan, program).buffers[static_cast<std::size_t>(input)].type.dtype ==
                      DType::kF32);
        }
        QVERIFY(found > 0);
      }
    }
  }

  // GPT-2 124M as tests/gpu/gpt2-124m.yaml has it. Between layers nothing as large as the hidden
  // units or the logits of all tokens is f32, and no probabilities are kept.
  void activationsAreOfTheOperandsTypeOnGpus() {
    constexpr std::int64_t kTokens = 32 * 1024;
    models::Model model;
    model.name = "gpt2-124m";
    model.input = {1024};
    model.vocabulary = model.classes = 50304;
    model.layers = {layer(models::Layer::Kind::kEmbedding, "embedding1")};
    model.layers[0].units = 768;
    for (int i = 1; i <= 12; ++i) {
      model.layers.push_back(layer(models::Layer::Kind::kTransformer, fmt::format("block{}", i)));
      model.layers.back().heads = 12;
    }
    model.layers.push_back(layer(models::Layer::Kind::kLayerNorm, "norm1"));
    model.layers.push_back(dense("dense1", 50304));
    model.layers.back().tied = "embedding1";
    model.layers.back().bias = false;
    auto asked = request(model, 32, 32);
    asked.matmulDtype = DType::kBf16;
    cluster::Cluster gpu = clusterOf(1);
    gpu.devices[0].kind = "cuda";
    struct Made {
      std::int64_t memory = 0, moved = 0;
      double flops = 0;
    };
    const auto made = [&](const plan::Plan& plan) {
      Made out{planner::memory(plan, 0, true).total()};
      for (const plan::Step& step : body(plan, "step").steps) {
        out.moved += step.bytes;
        out.flops += step.flops;
      }
      return out;
    };
    const auto wideOf = [&](const plan::Plan& plan) {
      std::int64_t largest = 0;
      for (const char* program : {"step", "evaluate"})
        for (const plan::Buffer& buffer : body(plan, program).buffers)
          if (buffer.kind == plan::BufferKind::kTemp && buffer.type.dtype == DType::kF32 &&
              buffer.type.shape.size() == 2 && buffer.type.shape[0] == kTokens)
            largest = std::max(largest, buffer.type.shape[1]);
      return largest;
    };
    asked.activations = "f32";
    const plan::Plan wide = planOf(asked, gpu);
    QCOMPARE(wideOf(wide), std::int64_t{50304});
    asked.activations = "auto";
    const plan::Plan narrow = planOf(asked, gpu);
    QCOMPARE(wideOf(narrow), std::int64_t{768});  // the residual stream
    const Made before = made(wide), after = made(narrow);
    qInfo("memory %.1f and %.1f MiB, %.1f and %.1f GB moved a step, %.2f and %.2f TFLOP",
          static_cast<double>(before.memory) / 0x1p20, static_cast<double>(after.memory) / 0x1p20,
          static_cast<double>(before.moved) / 1e9, static_cast<double>(after.moved) / 1e9,
          before.flops / 1e12, after.flops / 1e12);
    QVERIFY(static_cast<double>(after.memory) < 0.65 * static_cast<double>(before.memory));
    QVERIFY(static_cast<double>(after.moved) < 0.6 * static_cast<double>(before.moved));
    // Elsewhere activations stay f32, unless it is asked for.
    gpu.devices[0].kind = "cpu";
    QCOMPARE(wideOf(planOf(asked, gpu)), std::int64_t{50304});
    asked.activations = "operands";
    QCOMPARE(wideOf(planOf(asked, gpu)), std::int64_t{768});
  }

  void productsMayBeInTf32() {
    auto asked = request(fashionCnn(), 64, 64);
    asked.tf32 = true;
    const plan::Plan plan = planOf(asked, clusterOf(2));
    QCOMPARE(plan.precision, std::string("tf32"));
    for (const char* program : {"step", "evaluate"}) {
      std::ptrdiff_t products = 0, convolutions = 0;
      for (const plan::Step& step : body(plan, program).steps) {
        const bool convolves = step.op == ir::Op::kConv2d || step.op == ir::Op::kConv2dInputGrad ||
                               step.op == ir::Op::kConv2dWeightGrad;
        QCOMPARE(step.attrs.contains("tf32"), convolves || step.op == ir::Op::kMatmul);
        products += step.op == ir::Op::kMatmul ? 1 : 0;
        convolutions += convolves ? 1 : 0;
      }
      QVERIFY(products > 0 && convolutions > 0);
    }
  }

  void initialValuesDependOnNamesAlone() {
    auto asked = request(fashionMlp(), 64, 64);
    const plan::Plan one = planOf(asked, clusterOf(1));
    asked.bucketBytes = 1;
    const plan::Plan other = planOf(asked, clusterOf(3));
    const auto keys = [](const plan::Plan& plan) {
      std::map<std::string, std::int64_t> keys;
      for (const plan::Step& step : body(plan, "init").steps) {
        if (step.op == ir::Op::kRandom) keys[step.name] = ir::intAttr(step.attrs, "key");
      }
      return keys;
    };
    QCOMPARE(keys(one).size(), std::size_t{4});
    QVERIFY(keys(one) == keys(other));
    asked.training.seed = 2;
    QVERIFY(keys(planOf(asked, clusterOf(1))) != keys(one));
  }

  void errorsSayWhichNumberToChange() {
    const auto errorOf = [](const planner::PlanRequest& asked, const cluster::Cluster& cluster) {
      const auto made = planner::makePlan(asked, cluster, {});
      return made.ok() ? Error{} : made.error();
    };
    Error error = errorOf(request(fashionMlp(), 2, 64), clusterOf(3));
    QCOMPARE(error.code, Code::kInvalidArgument);
    QCOMPARE(error.what,
             std::string("training.batch is 2, which leaves some of 3 ranks without a sample"));
    QCOMPARE(error.next, std::string("set training.batch to 3"));
    auto asked = request(fashionMlp(), 64, 64);
    asked.strategy = "mirrored";
    QCOMPARE(errorOf(asked, clusterOf(2)).code, Code::kInvalidArgument);
    asked.strategy = "mirored";
    QVERIFY(errorOf(asked, clusterOf(1)).what.text().find("mirored") != std::string::npos);
    asked = request(fashionMlp(), 64, 64);
    asked.training.optimizer.kind = "adm";
    QVERIFY(errorOf(asked, clusterOf(1)).what.text().find("adm") != std::string::npos);
  }

  void aThousandRanksAreCheap() {
    const auto asked = request(fashionCnn(), 2000, 2000);
    const auto cluster = clusterOf(1024);
    QElapsedTimer timer;
    timer.start();
    const plan::Plan plan = planOf(asked, cluster);
    const std::string written = plan::text(plan);
    const qint64 elapsed = timer.elapsed();
    QVERIFY2(elapsed <= 8000 || test::kSanitized, qPrintable(QString::number(elapsed)));
    QVERIFY2(written.size() <= 1'000'000, qPrintable(QString::number(written.size())));
    QCOMPARE(plan.find("step")->bodies.size(), std::size_t{2});
    const auto parsed = plan::parse(written);
    QVERIFY(parsed.ok() && *parsed == plan);
  }
};

QTEST_GUILESS_MAIN(PlanTest)
#include "plan_test.moc"
