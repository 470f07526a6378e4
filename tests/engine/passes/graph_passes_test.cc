// Autodiff, fused epilogues and dead nodes: text → pass → text.
#include <QTest>

#include "engine/ir/ops.h"
#include "engine/models/model.h"
#include "engine/passes/train_graph.h"
#include "tests/support/example_models.h"
#include "tests/support/golden.h"

using namespace lockstep;
using namespace lockstep::testing;
using ir::Op;

namespace {

// Backward graph of a model with every gradient as a result, without what leads nowhere.
ir::Graph backward(const models::Model& model) {
  const ir::ModelGraph forward = *models::build(model, 64, DType::kF32, models::Use::kTraining);
  std::vector<std::string> states;
  for (const ir::Parameter& parameter : forward.parameters) states.push_back(parameter.name);
  passes::Differentiated out = *passes::autodiff(forward.graph, forward.loss, states);
  for (std::size_t i = 0; i < states.size(); ++i)
    (void)*out.graph.add(Op::kResult, "grad." + states[i], {out.gradients[i]},
                         {{"name", states[i]}}, ir::Phase::kBackward);
  return out.graph;
}

ir::Graph parsed(std::string_view text) {
  Result<ir::Graph> graph = ir::parse(text);
  if (!graph.ok()) qFatal("%s", graph.error().what.text().c_str());
  return *std::move(graph);
}

QString fused(std::string_view text) {
  return QString::fromStdString(ir::text(*passes::fuseEpilogues(parsed(text))));
}

}  // namespace

class GraphPassesTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void goldens() {
    for (const models::Model& model : {fashionMlp(), fashionCnn()}) {
      const ir::Graph graph = backward(model);
      QVERIFY(ir::verify(graph).ok());
      QCOMPARE(differsFromGolden(model.name + ".autodiff.txt", ir::text(graph)), std::string());
      const Result<ir::Graph> live = passes::removeDead(graph);
      QVERIFY(live.ok());
      const Result<ir::Graph> once = passes::fuseEpilogues(*live);
      QVERIFY(once.ok());
      QVERIFY(ir::verify(*once).ok());
      QCOMPARE(differsFromGolden(model.name + ".fused.txt", ir::text(*once)), std::string());
      QCOMPARE(ir::text(*passes::fuseEpilogues(*once)), ir::text(*once));
    }
  }

  void inputAndWeightGradientsAreSeparateAndOnlyWhatIsWanted() {
    const ir::Graph graph = backward(fashionMlp());
    QVERIFY(graph.find("dense2.matmul.grad.w") != nullptr);
    QVERIFY(graph.find("dense2.matmul.grad.x") != nullptr);
    QVERIFY(graph.find("dense1.matmul.grad.w") != nullptr);
    QVERIFY(graph.find("dense1.matmul.grad.x") == nullptr);  // the input is data
    QVERIFY(backward(fashionCnn()).find("conv1.conv2d.grad.x") == nullptr);
  }

  void valuesUsedTwiceHaveTheirGradientsAdded() {
    ir::Graph g = parsed(
        "graph \"g\"\n"
        "%0 = state() {dtype=\"f32\", shape=[2], state=\"w\"} : f32[2] | w, forward\n"
        "%1 = add(%0, %0) : f32[2] | twice, forward\n"
        "%2 = sum-all(%1) : f32[1] | loss, forward\n");
    const Result<passes::Differentiated> out = passes::autodiff(g, 2, {"w"});
    QVERIFY(out.ok());
    const ir::Node& sum = out->graph.node(out->graph.value(out->gradients[0]).producer);
    QCOMPARE(sum.name, std::string("w.grad.sum"));
    QCOMPARE(sum.inputs[0], sum.inputs[1]);
  }

  void autodiffSaysWhatIsInTheWay() {
    const ir::Graph g = parsed(
        "graph \"g\"\n"
        "%0 = state() {dtype=\"f32\", shape=[2], state=\"w\"} : f32[2] | w, forward\n"
        "%1 = state() {dtype=\"f32\", shape=[2], state=\"v\"} : f32[2] | v, forward\n"
        "%2 = relu-grad(%0, %1) : f32[2] | odd, forward\n"
        "%3 = sum-all(%2) : f32[1] | loss, forward\n"
        "%4 = sum-all(%0) : f32[1] | other, forward\n");
    auto says = [&](ir::ValueId loss, std::vector<std::string> states) {
      const Result<passes::Differentiated> out = passes::autodiff(g, loss, states);
      return QString::fromStdString(out.ok() ? "no error" : out.error().what);
    };
    QCOMPARE(says(3, {"w"}),
             "autodiff: odd (relu-grad) lies between the loss and a state and cannot "
             "be differentiated");
    QCOMPARE(says(4, {"v"}), "autodiff: the loss of graph g does not depend on state v");
    QCOMPARE(says(4, {"u"}), "autodiff: graph g reads no state u");
    QCOMPARE(says(2, {"w"}), "autodiff: the loss is f32[2], expected one float");
    QCOMPARE(says(9, {"w"}), "autodiff: value %9 is not in graph g");
  }

  void fusionTakesOnlySingleUses() {
    const std::string head =
        "graph \"g\"\n"
        "%0 = input() {dtype=\"f32\", name=\"x\", shape=[2 3]} : f32[2x3] | x, data\n"
        "%1 = state() {dtype=\"f32\", shape=[3 4], state=\"w\"} : f32[3x4] | w, forward\n"
        "%2 = state() {dtype=\"f32\", shape=[4], state=\"b\"} : f32[4] | b, forward\n";
    const std::string used = head +
                             "%3 = matmul(%0, %1) : f32[2x4] | m, forward\n"
                             "%4 = bias-add(%3, %2) : f32[2x4] | ba, forward\n"
                             "%5 = relu(%4) : f32[2x4] | r, forward\n"
                             "%6 = tanh(%4) : f32[2x4] | t, forward\n";
    QCOMPARE(fused(used),
             QString::fromStdString(head + "%3 = matmul(%0, %1, %2) : f32[2x4] | m, forward\n"
                                           "%4 = relu(%3) : f32[2x4] | r, forward\n"
                                           "%5 = tanh(%3) : f32[2x4] | t, forward\n"));
    const std::string activated = head +
                                  "%3 = matmul(%0, %1) {act=\"relu\"} : f32[2x4] | m, forward\n"
                                  "%4 = bias-add(%3, %2) : f32[2x4] | ba, forward\n";
    QCOMPARE(fused(activated), QString::fromStdString(activated));
    const std::string ordered =
        head +
        "%3 = matmul(%0, %1) : f32[2x4] | m, forward\n"
        "%4 = fill() {dtype=\"f32\", shape=[1], value=0.0} : f32[1] | f, forward, after m\n"
        "%5 = bias-add(%3, %2) : f32[2x4] | ba, forward, after f\n";
    QCOMPARE(fused(ordered), QString::fromStdString(ordered));
    // The bias comes after the product: the fused node stands where the chain ended.
    QCOMPARE(
        fused("graph \"g\"\n"
              "%0 = input() {dtype=\"f32\", name=\"x\", shape=[2 3]} : f32[2x3] | x, data\n"
              "%1 = state() {dtype=\"f32\", shape=[3 4], state=\"w\"} : f32[3x4] | w, forward\n"
              "%2 = matmul(%0, %1) : f32[2x4] | m, forward, after x\n"
              "%3 = state() {dtype=\"f32\", shape=[4], state=\"b\"} : f32[4] | b, forward\n"
              "%4 = bias-add(%2, %3) : f32[2x4] | ba, forward, after w\n"
              "%5 = relu(%4) : f32[2x4] <data: split 0 [0 1 2]> | r, forward\n"
              "result(%5) {name=\"y\"} | y, forward, after r\n"),
        QString("graph \"g\"\n"
                "%0 = input() {dtype=\"f32\", name=\"x\", shape=[2 3]} : f32[2x3] | x, data\n"
                "%1 = state() {dtype=\"f32\", shape=[3 4], state=\"w\"} : f32[3x4] | w, forward\n"
                "%2 = state() {dtype=\"f32\", shape=[4], state=\"b\"} : f32[4] | b, forward\n"
                "%3 = matmul(%0, %1, %2) {act=\"relu\"} : f32[2x4] <data: split 0 [0 1 2]> | m, "
                "forward, after x w\n"
                "result(%3) {name=\"y\"} | y, forward, after m\n"));
  }

  // Of max-pool's gradient and relu's where relu made what was pooled, and not where it made
  // something else.
  void poolTakesReluBeforeIt() {
    const std::string head =
        "graph \"g\"\n"
        "%0 = input() {dtype=\"f32\", name=\"a\", shape=[1 2 2 1]} : f32[1x2x2x1] | a, data\n"
        "%1 = relu(%0) : f32[1x2x2x1] | r, forward\n"
        "%2 = max-pool2d(%1) {size=2, stride=2} : f32[1x1x1x1] | p, forward\n";
    const std::string grads =
        "%3 = max-pool2d-grad(%1, %2, %2) {size=2, stride=2} : f32[1x2x2x1] | pg, backward\n";
    QCOMPARE(fused(head + grads + "%4 = relu-grad(%3, %1) : f32[1x2x2x1] | rg, backward\n"),
             QString::fromStdString(
                 head + "%3 = max-pool2d-grad(%1, %2, %2) {act=\"relu\", size=2, stride=2} : "
                        "f32[1x2x2x1] | pg, backward\n"));
    const std::string other =
        head + grads + "%4 = relu-grad(%3, %0) : f32[1x2x2x1] | rg, backward\n";
    QCOMPARE(fused(other), QString::fromStdString(other));
  }

  // What flows between ops that can read 16 bits is stored so, by whoever makes it; the gradient of
  // weights, and what else is read, is not.
  void activationsAreStoredAsOperands() {
    const std::string head =
        "graph \"g\"\n"
        "%0 = input() {dtype=\"f32\", name=\"x\", shape=[2 3]} : f32[2x3] | x, data\n"
        "%1 = state() {dtype=\"f32\", shape=[3 4], state=\"w\"} : f32[3x4] | w, forward\n"
        "%2 = state() {dtype=\"f32\", shape=[4], state=\"b\"} : f32[4] | b, forward\n"
        "%3 = matmul(%0, %1) : f32[2x4] | m, forward\n"
        "%4 = bias-add(%3, %2) : f32[2x4] | ba, forward\n"
        "%5 = gelu(%4) : f32[2x4] | g, forward\n"
        "%6 = gelu-grad(%5, %4) : f32[2x4] | gg, backward\n"
        "%7 = reduce-rows(%6) : f32[4] | rr, backward\n"
        "%8 = matmul(%5, %6) {ta=1} : f32[4x4] | wg, backward\n"
        "result(%7) {name=\"b\"} | rb, backward\n"
        "result(%8) {name=\"w\"} | rw, backward\n";
    const auto stored = [](const ir::Graph& graph) {
      auto cast = passes::autocast(graph, DType::kBf16, true);
      if (!cast.ok()) qFatal("%s", cast.error().text().c_str());
      auto folded = passes::foldCasts(*passes::fuseEpilogues(*cast));
      if (!folded.ok() || !ir::verify(*folded).ok()) qFatal("the graph does not hold");
      return ir::text(*folded);
    };
    const auto has = [](const std::string& text, std::initializer_list<const char*> lines) {
      for (const char* line : lines)
        QVERIFY2(text.find(line) != std::string::npos, (text + "has no " + line).c_str());
    };
    has(stored(parsed(head)), {"= matmul(%3, %4, %2) {stored=\"bf16\"} : bf16[2x4] | m, forward\n",
                               "%6 = gelu(%5) {stored=\"bf16\"} : bf16[2x4] | g, forward\n",
                               "= gelu-grad(%6, %5) {stored=\"bf16\"} : bf16[2x4] | gg, backward\n",
                               "= reduce-rows(%7) : f32[4] | rr, backward\n",
                               "= matmul(%6, %7) {ta=1} : f32[4x4] | wg, backward\n"});
    // What a sum of squares reads is f32, with a cast for others.
    has(stored(parsed(head + "%9 = sum-squares(%4) : f32[1] | s, forward\n")),
        {"= matmul(%3, %4, %2) : f32[2x4] | m, forward\n",
         "%6 = gelu(%5) {stored=\"bf16\"} : bf16[2x4] | g, forward\n",
         "= gelu-grad(%6, %5) {stored=\"bf16\"} : bf16[2x4] | gg, backward\n"});
  }

  void deadNodesGo() {
    const Result<ir::Graph> live = passes::removeDead(
        parsed("graph \"g\"\n"
               "%0 = state() {dtype=\"f32\", shape=[4], state=\"a\"} : f32[4] | a, forward\n"
               "%1 = relu(%0) : f32[4] | dead, forward\n"
               "%2 = tanh(%0) : f32[4] <replicated> | live, forward, after dead a\n"
               "store(%2) {state=\"a\"} | store.a, optimizer\n"));
    QVERIFY(live.ok());
    QCOMPARE(
        ir::text(*live),
        std::string("graph \"g\"\n"
                    "%0 = state() {dtype=\"f32\", shape=[4], state=\"a\"} : f32[4] | a, forward\n"
                    "%1 = tanh(%0) : f32[4] <replicated> | live, forward, after a\n"
                    "store(%1) {state=\"a\"} | store.a, optimizer\n"));
  }
};

QTEST_GUILESS_MAIN(GraphPassesTest)
#include "graph_passes_test.moc"
