// Every gradient rule against central differences in f64, alone and in whole models; and fused
// graphs against plain ones.
#include <QTest>
#include <set>

#include "engine/base/hash.h"
#include "engine/base/random.h"
#include "engine/ir/ops.h"
#include "engine/models/model.h"
#include "engine/passes/train_graph.h"
#include "tests/support/evaluate.h"
#include "tests/support/example_models.h"

using namespace lockstep;
using namespace lockstep::testing;
using ir::Attrs;
using ir::Graph;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-7;  // absolute below 1, relative above

Numbers randomNumbers(std::int64_t count, std::uint64_t key) {
  Numbers out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(2 * randomUniform(key, static_cast<std::uint64_t>(i)) - 1);
  return out;
}

struct Problem {
  Graph graph{"gradient"};
  ValueId loss = -1;
  std::vector<std::string> states;
  std::map<std::string, Numbers> feeds;

  ValueId add(Op op, const std::string& name, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return graph.output(*graph.add(op, name, std::move(inputs), std::move(attrs)));
  }
  ValueId state(const std::string& name, const Shape& shape) {
    states.push_back(name);
    feeds[name] = randomNumbers(elementCount(shape), stableHash(name));
    return add(Op::kState, name, {}, {{"state", name}, {"dtype", "f64"}, {"shape", shape}});
  }
  ValueId input(const std::string& name, const std::string& dtype, const Shape& shape,
                Numbers numbers) {
    feeds[name] = std::move(numbers);
    return add(Op::kInput, name, {}, {{"name", name}, {"dtype", dtype}, {"shape", shape}});
  }
  // ½‖y − target‖², so that the gradient differs from element to element.
  void measure(ValueId y) {
    const std::int64_t count = graph.value(y).type.count();
    const ValueId row = add(Op::kReshape, "row", {y}, {{"shape", Shape{1, count}}});
    const ValueId target = input("target", "f64", {1, count}, randomNumbers(count, 99));
    const ValueId one = input("one", "f64", {1}, {1.0});
    loss = add(Op::kMseLoss, "measure", {row, target, one});
  }
};

// The largest error of autodiff's gradients against central differences, and where.
std::pair<double, std::string> worstError(const Problem& problem) {
  const auto out = passes::autodiff(problem.graph, problem.loss, problem.states);
  if (!out.ok()) return {1e9, out.error().text()};
  if (const Status sound = ir::verify(out->graph); !sound.ok()) return {1e9, sound.error().text()};
  const Evaluation backward(out->graph, problem.feeds);
  std::pair<double, std::string> worst{0, ""};
  for (std::size_t s = 0; s < problem.states.size(); ++s) {
    const std::string& state = problem.states[s];
    const Numbers gradient = backward.numbers(out->gradients[s]);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      auto lossAt = [&](double step) {
        auto feeds = problem.feeds;
        feeds[state][i] += step;
        return Evaluation(problem.graph, feeds).numbers(problem.loss)[0];
      };
      const double expected = (lossAt(kStep) - lossAt(-kStep)) / (2 * kStep);
      const double error = std::abs(gradient[i] - expected) / std::max(1.0, std::abs(expected));
      if (!(error <= worst.first))
        worst = {error, fmt::format("{}[{}]: {} instead of {}", state, i, gradient[i], expected)};
    }
  }
  return worst;
}

struct OpCase {
  const char* name;
  Op op;
  std::vector<Shape> shapes;  // of the operands, all states
  Attrs attrs;
};

std::vector<OpCase> opCases() {
  const Shape image{2, 5, 5, 2};
  const std::int64_t zero = 0, one = 1, two = 2;
  return {
      {"reshape", Op::kReshape, {{2, 6}}, {{"shape", Shape{3, 4}}}},
      {"flatten", Op::kFlatten, {{3}, {2, 2}, {1}}, {}},
      {"cast", Op::kCast, {{4}}, {{"dtype", "f64"}, {"scale", 0.25}}},
      {"add", Op::kAdd, {{2, 3}, {2, 3}}, {}},
      {"scale", Op::kScale, {{4}}, {{"factor", -1.5}}},
      {"relu", Op::kRelu, {{10}}, {}},
      {"gelu", Op::kGelu, {{10}}, {}},
      {"tanh", Op::kTanh, {{10}}, {}},
      {"matmul", Op::kMatmul, {{3, 4}, {4, 2}}, {}},
      {"matmul ta", Op::kMatmul, {{4, 3}, {4, 2}}, {{"ta", one}}},
      {"matmul tb", Op::kMatmul, {{3, 4}, {2, 4}}, {{"tb", one}}},
      {"matmul ta tb", Op::kMatmul, {{4, 3}, {2, 4}}, {{"ta", one}, {"tb", one}}},
      {"matmul fused", Op::kMatmul, {{3, 4}, {4, 2}, {2}}, {{"act", "relu"}}},
      {"concat", Op::kConcat, {{3, 2}, {3, 1}, {3, 4}}, {}},
      {"bias-add", Op::kBiasAdd, {{2, 3, 4}, {4}}, {}},
      {"reduce-rows", Op::kReduceRows, {{2, 3, 4}}, {}},
      {"conv2d", Op::kConv2d, {image, {3, 3, 2, 3}}, {{"stride", one}, {"pad", zero}}},
      {"conv2d padded", Op::kConv2d, {image, {3, 3, 2, 3}}, {{"stride", one}, {"pad", one}}},
      {"conv2d strided", Op::kConv2d, {image, {2, 3, 2, 2}}, {{"stride", two}, {"pad", one}}},
      {"conv2d fused",
       Op::kConv2d,
       {image, {3, 3, 2, 3}, {3}},
       {{"stride", two}, {"pad", zero}, {"act", "relu"}}},
      {"max-pool2d", Op::kMaxPool2d, {image}, {{"size", two}, {"stride", two}}},
      {"max-pool2d overlapping",
       Op::kMaxPool2d,
       {image},
       {{"size", std::int64_t{3}}, {"stride", one}}},
      {"mean-pool2d", Op::kMeanPool2d, {image}, {}},
      {"sum-all", Op::kSumAll, {{3, 4}}, {}},
      {"bias-add periodic", Op::kBiasAdd, {{6, 4}, {3, 4}}, {}},
      {"reduce-rows periodic", Op::kReduceRows, {{6, 4}}, {{"period", two}}},
      {"layer-norm", Op::kLayerNorm, {{3, 5}, {5}, {5}}, {{"eps", 1e-5}}},
      {"attention",
       Op::kAttention,
       {{6, 12}},
       {{"tokens", std::int64_t{3}}, {"head", two}, {"causal", zero}}},
      {"attention causal",
       Op::kAttention,
       {{8, 18}},
       {{"tokens", std::int64_t{4}}, {"head", std::int64_t{3}}, {"causal", one}}},
  };
}

// Cases with operands that are not states.
Problem softmaxProblem() {
  Problem p;
  const ValueId logits = p.state("logits", {4, 3});
  const ValueId label = p.input("label", "i32", {4}, {0, 2, 1, 2});
  const ValueId w = p.input("w", "f64", {4}, {1, 0.5, 0, 2});
  p.loss = p.add(Op::kSoftmaxXent, "loss", {logits, label, w});
  return p;
}
Problem dividedSoftmaxProblem() {
  Problem p;
  const ValueId logits = p.state("logits", {4, 3});
  const ValueId label = p.input("label", "i32", {4}, {0, 2, 1, 2});
  const ValueId w = p.input("w", "f64", {4}, {1, 0.5, 0, 2});
  const ValueId largest = p.add(Op::kRowMax, "max", {logits});
  const ValueId terms = p.add(Op::kXentTerms, "terms", {logits, label, largest});
  p.loss = p.add(Op::kXentLoss, "loss", {terms, terms + 1, w});
  return p;
}
Problem embeddingProblem() {
  Problem p;
  const ValueId table = p.state("table", {5, 3});
  const ValueId ids = p.input("ids", "i32", {6}, {4, 0, 4, 2, 1, 4});
  p.measure(p.add(Op::kEmbedding, "embedding", {table, ids}));
  return p;
}
// Rows outside a part of the table are zeros and have no gradient.
Problem partOfEmbeddingProblem() {
  Problem p;
  const ValueId table = p.state("table", {2, 3});
  const ValueId ids = p.input("ids", "i32", {6}, {4, 0, 3, 2, 1, 4});
  p.measure(p.add(Op::kEmbedding, "embedding", {table, ids}, {{"first", std::int64_t{3}}}));
  return p;
}
// The gradient goes through the statistics; a sample of weight 0 is in none of them.
Problem batchNormProblem(std::int64_t groups) {
  Problem p;
  const ValueId x = p.state("x", {6, 2, 3});
  const ValueId gain = p.state("gain", {3}), bias = p.state("bias", {3});
  const ValueId shift = p.input("shift", "f64", {3}, {0.2, -0.1, 0.0});
  const ValueId w = p.input("w", "f64", {6}, {1, 1, 0, 1, 0.5, 2});
  const ir::NodeId moments =
      *p.graph.add(Op::kBatchMoments, "moments", {x, w, shift}, {{"shape", Shape{groups, 7}}});
  const ir::NodeId statistics =
      *p.graph.add(Op::kBatchStatistics, "statistics", {p.graph.output(moments), shift});
  p.measure(p.add(Op::kBatchNorm, "norm",
                  {x, gain, bias, p.graph.output(statistics), p.graph.output(statistics, 1), w,
                   p.graph.output(moments)},
                  {{"eps", 1e-3}}));
  return p;
}
Problem binaryXentProblem() {
  Problem p;
  const ValueId logits = p.state("logits", {4, 2});
  const ValueId target = p.input("target", "f64", {4, 2}, {0, 1, 1, 0, 0.25, 1, 0, 0});
  const ValueId w = p.input("w", "f64", {4}, {1, 0.5, 0, 2});
  p.loss = p.add(Op::kBinaryXent, "loss", {logits, target, w});
  return p;
}
Problem dropoutProblem() {
  Problem p;
  const ValueId x = p.state("x", {6, 5});
  const ValueId key = p.input("key", "i32", {3}, {7, -2, 7});
  p.measure(p.add(Op::kDropout, "dropout", {x, key}, {{"salt", std::int64_t{3}}, {"rate", 0.4}}));
  return p;
}
Problem mseProblem() {
  Problem p;
  const ValueId y = p.state("y", {3, 2});
  const ValueId target = p.state("target", {3, 2});
  const ValueId w = p.input("w", "f64", {3}, {1, 0.5, 2});
  p.loss = p.add(Op::kMseLoss, "loss", {y, target, w});
  return p;
}

Problem modelProblem(const models::Model& model, std::int64_t batch) {
  const ir::ModelGraph built = *models::build(model, batch, DType::kF64, models::Use::kTraining);
  Problem p;
  p.graph = built.graph;
  p.loss = built.loss;
  for (const ir::Parameter& parameter : built.parameters) {
    p.states.push_back(parameter.name);
    p.feeds[parameter.name] =
        randomNumbers(elementCount(parameter.shape), stableHash(parameter.name));
  }
  Numbers pixels = randomNumbers(batch * elementCount(model.input), 7);
  const std::int64_t values = model.vocabulary > 0 ? model.vocabulary : 254;
  for (double& pixel : pixels) pixel = std::floor((pixel + 1) * 0.5 * static_cast<double>(values));
  p.feeds["x"] = pixels;
  Numbers labels, weights;
  for (std::int64_t i = 0; i < batch; ++i) {
    for (std::int64_t t = 0; t < (model.vocabulary > 0 ? model.input[0] : 1); ++t)
      labels.push_back(static_cast<double>((i + t) % model.classes));
    weights.push_back(i + 1 == batch ? 0.0 : 1.0);  // the last sample is padding
  }
  p.feeds["label"] = labels;
  p.feeds["weight"] = weights;
  return p;
}

models::Model smallResidual() {
  models::Model model;
  model.name = "small";
  model.input = {6, 6, 1};
  model.classes = 3;
  model.layers = {conv2d("conv1", 2, 3, "relu", true),
                  conv2d("conv2", 2, 3, "tanh", true),
                  layer(models::Layer::Kind::kAdd, "sum"),
                  maxPool2d("pool", 2),
                  layer(models::Layer::Kind::kFlatten, "flat"),
                  dense("hidden", 4, "gelu"),
                  dense("head", 3)};
  model.layers[2].inputs = {"conv1", "conv2"};
  return model;
}

models::Model smallText() {
  models::Model model;
  model.name = "text";
  model.input = {4};
  model.vocabulary = model.classes = 5;
  models::Layer embedding = layer(models::Layer::Kind::kEmbedding, "embedding");
  embedding.units = 6;
  models::Layer block = layer(models::Layer::Kind::kTransformer, "block");
  block.heads = 2;
  models::Layer head = dense("head", 5);
  head.tied = "embedding";
  model.layers = {embedding, block, layer(models::Layer::Kind::kLayerNorm, "norm"), head};
  return model;
}

}  // namespace

class GradientTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void ops_data() {
    QTest::addColumn<int>("index");
    const std::vector<OpCase> cases = opCases();
    for (std::size_t i = 0; i < cases.size(); ++i)
      QTest::newRow(cases[i].name) << static_cast<int>(i);
  }
  void ops() {
    QFETCH(int, index);
    const OpCase one = opCases()[static_cast<std::size_t>(index)];
    Problem problem;
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < one.shapes.size(); ++i)
      operands.push_back(problem.state(fmt::format("operand{}", i), one.shapes[i]));
    problem.measure(problem.add(one.op, "op", operands, one.attrs));
    const auto [error, where] = worstError(problem);
    QVERIFY2(error < kTolerance, where.c_str());
  }

  void losses() {
    for (const Problem& problem :
         {softmaxProblem(), dividedSoftmaxProblem(), mseProblem(), binaryXentProblem(),
          dropoutProblem(), embeddingProblem(), partOfEmbeddingProblem(), batchNormProblem(1),
          batchNormProblem(3)}) {
      const auto [error, where] = worstError(problem);
      QVERIFY2(error < kTolerance, where.c_str());
    }
  }

  // A mask is a sample's and an element's own: parts of a batch, or of the columns, have the
  // whole's.
  void dropoutOfPartsIsThatOfTheWhole() {
    constexpr std::size_t kRows = 6, kColumns = 8;
    const Numbers x(kRows * kColumns, 1.0), keys{5, -9, 11};
    const auto mask = [](Shape shape, Numbers in, Numbers key, Attrs attrs) {
      attrs["salt"] = std::int64_t{17};
      attrs["rate"] = 0.5;
      Problem p;
      const auto samples = static_cast<std::int64_t>(key.size());
      const ValueId a = p.input("x", "f64", std::move(shape), std::move(in));
      const ValueId k = p.input("key", "i32", {samples}, std::move(key));
      const ValueId y = p.add(Op::kDropout, "dropout", {a, k}, std::move(attrs));
      return Evaluation(p.graph, p.feeds).numbers(y);
    };
    const Numbers whole = mask({kRows, kColumns}, x, keys, {});
    const auto kept = std::count(whole.begin(), whole.end(), 2.0);
    QVERIFY(kept > 12 && kept < 36);
    QCOMPARE(kept + std::count(whole.begin(), whole.end(), 0.0), std::ssize(whole));
    const Numbers last = mask({2, kColumns}, Numbers(2 * kColumns, 1.0), {keys[2]}, {});
    QVERIFY(std::equal(last.begin(), last.end(), whole.begin() + 4 * kColumns));
    const Numbers right = mask({kRows, 4}, Numbers(kRows * 4, 1.0), keys,
                               {{"columns", std::int64_t{8}}, {"first", std::int64_t{4}}});
    for (std::size_t i = 0; i < right.size(); ++i)
      QCOMPARE(right[i], whole[i / 4 * kColumns + 4 + i % 4]);
  }

  void everyDifferentiableOpHasACase() {
    std::set<Op> covered = {Op::kSoftmaxXent, Op::kXentTerms, Op::kXentLoss,  Op::kMseLoss,
                            Op::kBinaryXent,  Op::kDropout,   Op::kEmbedding, Op::kBatchNorm};
    for (const OpCase& one : opCases()) covered.insert(one.op);
    for (std::size_t i = 0; i < ir::kOpCount; ++i) {
      const ir::OpInfo& row = ir::info(static_cast<Op>(i));
      QVERIFY2(row.gradient == nullptr || row.isCollective || covered.contains(row.op),
               std::string(row.name).c_str());
    }
  }

  void wholeModels() {
    models::Model mlp = fashionMlp();
    mlp.input = {3, 3, 1};
    mlp.layers[1].units = 5;
    for (const models::Model& model : {mlp, smallResidual(), smallText()}) {
      const auto [error, where] = worstError(modelProblem(model, 4));
      QVERIFY2(error < kTolerance, where.c_str());
    }
  }

  void fusedGraphsComputeTheSame() {
    for (const models::Model& model : {smallResidual()}) {
      const Problem problem = modelProblem(model, 4);
      auto out = *passes::autodiff(problem.graph, problem.loss, problem.states);
      for (std::size_t i = 0; i < problem.states.size(); ++i)
        (void)*out.graph.add(Op::kResult, "grad." + problem.states[i], {out.gradients[i]},
                             {{"name", problem.states[i]}});
      const Graph live = *passes::removeDead(out.graph);
      const Graph fused = *passes::fuseEpilogues(live);
      QVERIFY(fused.nodes().size() < live.nodes().size());
      const Evaluation plain(out.graph, problem.feeds), quick(fused, problem.feeds);
      QCOMPARE(quick.results().size(), problem.states.size());
      for (const auto& [name, numbers] : plain.results()) {
        const Numbers& other = quick.results().at(name);
        for (std::size_t i = 0; i < numbers.size(); ++i)
          QVERIFY(std::abs(numbers[i] - other[i]) <= 1e-12 * std::max(1.0, std::abs(numbers[i])));
      }
    }
  }

  // A sum over samples: the gradient of a batch is the sum of those of its parts, whatever the
  // cut; padded samples count nothing.
  void gradientsAreSumsOverSamples() {
    const Problem whole = modelProblem(smallResidual(), 6);
    auto gradientOf = [](const Problem& p) {
      const auto out = *passes::autodiff(p.graph, p.loss, p.states);
      return Evaluation(out.graph, p.feeds).numbers(out.gradients[0]);
    };
    const Numbers expected = gradientOf(whole);
    Numbers sum(expected.size(), 0.0);
    for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{0, 4}, {4, 2}}) {
      Problem part = modelProblem(smallResidual(), static_cast<std::int64_t>(count));
      for (const char* name : {"x", "label", "weight"}) {
        const Numbers& all = whole.feeds.at(name);
        const std::size_t each = all.size() / 6;
        part.feeds[name].assign(all.begin() + static_cast<std::ptrdiff_t>(first * each),
                                all.begin() + static_cast<std::ptrdiff_t>((first + count) * each));
      }
      const Numbers gradient = gradientOf(part);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
    }
    for (std::size_t i = 0; i < sum.size(); ++i) QVERIFY(std::abs(sum[i] - expected[i]) < 1e-12);
  }
};

QTEST_GUILESS_MAIN(GradientTest)
#include "gradient_test.moc"
