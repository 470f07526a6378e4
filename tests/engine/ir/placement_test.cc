// Tests of placement rules along one axis: the results of each op for split, partial and replicated
// inputs.
#include <QTest>

#include "engine/ir/graph.h"
#include "engine/ir/ops.h"

using namespace lockstep;
using namespace lockstep::ir;

namespace {

using Kind = AxisPlacement::Kind;

// "r" replicated, "s0" split along dimension 0 ("s0x3": with cuts times 3), "e0x3" split in two
// equal parts of 3, "p" partial sum, "m" partial max.
AxisPlacement placementOf(const std::string& word) {
  if (word == "p") return {Kind::kPartialSum, 0, {}};
  if (word == "m") return {Kind::kPartialMax, 0, {}};
  if (word == "r") return {};
  const std::int64_t k = word.size() > 2 ? word[3] - '0' : 1;
  return {Kind::kSplit, word[1] - '0', {0, k, word[0] == 'e' ? 2 * k : 4 * k}};
}

QString wordOf(const AxisPlacement& placement) {
  switch (placement.kind) {
    case Kind::kReplicated:
      return "r";
    case Kind::kPartialSum:
      return "p";
    case Kind::kPartialMax:
      return "m";
    case Kind::kSplit: {
      const std::int64_t k = placement.cuts.size() == 3 ? placement.cuts[1] : 0;
      if (placement.cuts == std::vector<std::int64_t>{0, k, 2 * k})
        return QString("e%1x%2").arg(placement.dim).arg(k);
      if (placement.cuts != std::vector<std::int64_t>{0, k, 4 * k}) return "wrong cuts";
      return QString("s%1").arg(placement.dim) + (k == 1 ? QString() : QString("x%1").arg(k));
    }
  }
  return "?";
}

// Returns the rule's result for the last node of a graph whose values %0, %1, … have these
// placements: those of the outputs, or "input i" and the wanted placement unless replicated.
QString place(const std::string& lines, const QStringList& words) {
  const Result<Graph> graph = parse("graph \"g\"\n" + lines);
  if (!graph.ok()) return QString::fromStdString(graph.error().what);
  const Node& node = graph->nodes().back();
  std::vector<AxisPlacement> inputs;
  std::vector<TensorType> inputTypes, outputTypes;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(placementOf(words[static_cast<int>(i)].toStdString()));
    inputTypes.push_back(graph->value(node.inputs[i]).type);
  }
  for (ValueId output : node.outputs) outputTypes.push_back(graph->value(output).type);
  const auto placed = info(node.op).place(node, inputs, inputTypes, outputTypes);
  if (placed.input >= 0) {
    const QString wanted = placed.wanted == AxisPlacement{} ? "" : ' ' + wordOf(placed.wanted);
    return QString("input %1").arg(placed.input) + wanted;
  }
  if (placed.outputs.size() != node.outputs.size()) return "wrong number of outputs";
  QStringList out;
  for (const AxisPlacement& placement : placed.outputs) out << wordOf(placement);
  return out.join(' ');
}

std::string fill(int id, const std::string& type) {
  const std::size_t open = type.find('[');
  std::string shape = type.substr(open);
  std::replace(shape.begin(), shape.end(), 'x', ' ');
  return fmt::format("%{} = input() {{dtype=\"{}\", name=\"v{}\", shape={}}} : {} | v{}, data\n",
                     id, type.substr(0, open), id, shape, type, id);
}

// Returns a graph with inputs of these types and one op that takes them all.
std::string graphOf(const std::vector<std::string>& types, const std::string& op,
                    const std::string& attrs, const std::vector<std::string>& outputs) {
  std::string lines, operands, results, resultTypes;
  for (std::size_t i = 0; i < types.size(); ++i) {
    lines += fill(static_cast<int>(i), types[i]);
    operands += fmt::format("{}%{}", i ? ", " : "", i);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    results += fmt::format("{}%{}", i ? ", " : "", types.size() + i);
    resultTypes += (i ? ", " : "") + outputs[i];
  }
  return lines + (outputs.empty() ? "" : results + " = ") + op + "(" + operands + ")" + attrs +
         (outputs.empty() ? "" : " : " + resultTypes) + " | op, forward\n";
}

}  // namespace

class PlacementTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void rules_data() {
    QTest::addColumn<QString>("graph");
    QTest::addColumn<QString>("inputs");
    QTest::addColumn<QString>("outputs");
    auto rows = [](const char* name, const std::string& graph,
                   std::initializer_list<std::pair<const char*, const char*>> cases) {
      for (const auto& [inputs, outputs] : cases)
        QTest::addRow("%s %s", name, inputs)
            << QString::fromStdString(graph) << QString(inputs) << QString(outputs);
    };
    rows("matmul", graphOf({"f32[4x4]", "f32[4x5]"}, "matmul", "", {"f32[4x5]"}),
         {{"r r", "r"},
          {"s0 r", "s0"},
          {"s1 s0", "p"},
          {"p r", "p"},
          {"r p", "p"},
          {"s0 s0", "input 1"},
          {"s1 r", "input 0"},
          {"p p", "input 0"},
          {"m r", "input 0"}});
    rows("matmul columns",
         graphOf({"f32[3x4]", "f32[4x4]", "f32[4]"}, "matmul", " {act=\"relu\"}", {"f32[3x4]"}),
         {{"r s1 s0", "s1"},
          {"r s1 r", "input 1"},
          {"s1 s0 r", "input 0"},
          {"p r r", "input 0"},
          {"r r p", "input 2"}});
    rows("weight gradient", graphOf({"f32[4x3]", "f32[4x5]"}, "matmul", " {ta=1}", {"f32[3x5]"}),
         {{"s0 s0", "p"}, {"r r", "r"}, {"s1 r", "s0"}, {"r s1", "s1"}, {"s0 r", "input 0"}});
    rows("input gradient", graphOf({"f32[4x5]", "f32[3x5]"}, "matmul", " {tb=1}", {"f32[4x3]"}),
         {{"s0 r", "s0"}, {"s1 s1", "p"}, {"r s0", "s1"}});
    rows("bias-add", graphOf({"f32[4x4]", "f32[4]"}, "bias-add", "", {"f32[4x4]"}),
         {{"s0 r", "s0"}, {"s1 s0", "s1"}, {"p r", "input 0"}, {"s0 p", "input 1"}, {"r r", "r"}});
    rows("reduce-rows", graphOf({"f32[4x2x4]"}, "reduce-rows", "", {"f32[4]"}),
         {{"s0", "p"}, {"s2", "s0"}, {"p", "p"}, {"r", "r"}, {"m", "input 0"}});
    rows(
        "conv2d",
        graphOf({"f32[4x4x4x4]", "f32[3x3x4x4]"}, "conv2d", " {pad=0, stride=1}", {"f32[4x2x2x4]"}),
        {{"s0 r", "s0"}, {"r s3", "s3"}, {"s3 s2", "p"}, {"p r", "p"}, {"s1 r", "input 0"}});
    rows("conv2d-weight-grad",
         graphOf({"f32[4x4x4x4]", "f32[4x2x2x4]"}, "conv2d-weight-grad",
                 " {pad=0, shape=[3 3 4 4], stride=1}", {"f32[3x3x4x4]"}),
         {{"s0 s0", "p"}, {"r s3", "s3"}, {"s3 r", "s2"}, {"s0 r", "input 0"}, {"r r", "r"}});
    rows("conv2d-input-grad",
         graphOf({"f32[4x2x2x4]", "f32[3x3x4x4]"}, "conv2d-input-grad",
                 " {pad=0, shape=[4 4 4 4], stride=1}", {"f32[4x4x4x4]"}),
         {{"s0 r", "s0"}, {"s3 s3", "p"}, {"r s2", "s3"}, {"p r", "p"}});
    rows("max-pool2d",
         graphOf({"f32[4x4x4x4]"}, "max-pool2d", " {size=2, stride=2}", {"f32[4x2x2x4]"}),
         {{"s0", "s0"}, {"s3", "s3"}, {"s1", "input 0"}, {"p", "input 0"}});
    rows("mean-pool2d", graphOf({"f32[4x2x2x4]"}, "mean-pool2d", "", {"f32[4x4]"}),
         {{"s0", "s0"}, {"s3", "s1"}, {"p", "p"}, {"s1", "input 0"}});
    rows("mean-pool2d-grad",
         graphOf({"f32[4x4]"}, "mean-pool2d-grad", " {shape=[4 2 2 4]}", {"f32[4x2x2x4]"}),
         {{"s0", "s0"}, {"s1", "s3"}, {"m", "input 0"}});
    const auto moments = [](int groups) {
      return graphOf({"f32[8x2x3]", "f32[8]", "f32[3]"}, "batch-moments",
                     fmt::format(" {{shape=[{} 7]}}", groups), {fmt::format("f32[{}x7]", groups)});
    };
    rows(
        "batch-moments of all", moments(1),
        {{"s0x2 s0x2 r", "p"}, {"r r r", "r"}, {"s0x2 r r", "input 1 s0x2"}, {"p r r", "input 0"}});
    rows("batch-moments of whole groups", moments(4),
         {{"s0x2 s0x2 r", "s0"}, {"r r p", "input 2"}});
    rows("batch-moments of cut groups", moments(2), {{"s0x2 s0x2 r", "input 0"}});
    rows(
        "batch-statistics",
        graphOf({"f32[4x7]", "f32[3]"}, "batch-statistics", "", {"f32[4x3]", "f32[4x3]", "f32[7]"}),
        {{"s0 r", "s0 s0 p"}, {"p r", "input 0"}, {"r r", "r r r"}});
    const auto norm = [](int groups) {
      const std::string statistics = fmt::format("f32[{}x3]", groups);
      return graphOf({"f32[8x2x3]", "f32[3]", "f32[3]", statistics, statistics, "f32[8]",
                      fmt::format("f32[{}x7]", groups)},
                     "batch-norm", " {eps=1e-05}", {"f32[8x2x3]"});
    };
    rows("batch-norm of all", norm(1),
         {{"s0x2 r r r r s0x2 r", "s0x2"}, {"s0x2 r r p r s0x2 r", "input 3"}});
    rows("batch-norm of groups", norm(4),
         {{"s0x2 r r s0 s0 s0x2 s0", "s0x2"}, {"s0x2 r r r s0 s0x2 s0", "input 3 s0"}});
    rows("batch-norm-weight-grad",
         graphOf({"f32[8x2x3]", "f32[8x2x3]", "f32[1x3]", "f32[1x3]"}, "batch-norm-weight-grad",
                 " {eps=1e-05}", {"f32[3]", "f32[3]", "f32[1x6]"}),
         {{"s0x2 s0x2 r r", "p p p"}, {"r s0x2 r r", "input 0 s0x2"}});
    rows("batch-norm-grad",
         graphOf({"f32[8x2x3]", "f32[8x2x3]", "f32[8]", "f32[3]", "f32[4x7]", "f32[4x3]",
                  "f32[4x3]", "f32[4x6]"},
                 "batch-norm-grad", " {eps=1e-05}", {"f32[8x2x3]"}),
         {{"s0x2 s0x2 s0x2 r s0 s0 s0 s0", "s0x2"}, {"r r r r r r r r", "r"}});
    rows("running-statistics",
         graphOf({"f32[3]", "f32[3]", "f32[7]"}, "running-statistics", " {momentum=0.9}",
                 {"f32[3]", "f32[3]"}),
         {{"r r p", "input 2"}, {"r r r", "r r"}});
    rows("relu", graphOf({"f32[4]"}, "relu", "", {"f32[4]"}),
         {{"s0", "s0"}, {"r", "r"}, {"p", "input 0"}});
    rows("relu-grad", graphOf({"f32[4]", "f32[4]"}, "relu-grad", "", {"f32[4]"}),
         {{"s0 s0", "s0"},
          {"p r", "p"},
          {"r p", "input 1"},
          {"r s0", "input 0 s0"},
          {"p s0", "input 0 s0"}});
    rows("add", graphOf({"f32[4]", "f32[4]"}, "add", "", {"f32[4]"}),
         {{"p p", "p"},
          {"s0 s0", "s0"},
          {"p r", "input 0"},
          {"r p", "input 1"},
          {"m m", "input 0"}});
    rows("scale", graphOf({"f32[4]"}, "scale", " {factor=2.0}", {"f32[4]"}),
         {{"p", "p"}, {"s0", "s0"}});
    rows("cast", graphOf({"u8[4]"}, "cast", " {dtype=\"f32\", scale=1.0}", {"f32[4]"}),
         {{"s0", "s0"}, {"r", "r"}});
    rows("reshape", graphOf({"f32[4x4x4]"}, "reshape", " {shape=[4 16]}", {"f32[4x16]"}),
         {{"s0", "s0"}, {"s1", "s1x4"}, {"s2", "input 0"}, {"p", "p"}, {"m", "m"}, {"r", "r"}});
    rows("reshape of columns", graphOf({"f32[4x3x4]"}, "reshape", " {shape=[12 4]}", {"f32[12x4]"}),
         {{"s2", "s1"}, {"s0", "s0x3"}});
    rows("reshape to more", graphOf({"f32[4]"}, "reshape", " {shape=[2 2]}", {"f32[2x2]"}),
         {{"s0", "input 0"}});
    rows("embedding", graphOf({"f32[4x4]", "i32[4]"}, "embedding", "", {"f32[4x4]"}),
         {{"r s0", "s0"}, {"s0 r", "p"}, {"s1 r", "s1"}, {"s0 s0", "input 0"}});
    rows("embedding-grad",
         graphOf({"i32[4]", "f32[4x4]"}, "embedding-grad", " {shape=[4 4]}", {"f32[4x4]"}),
         {{"s0 s0", "p"}, {"r s1", "s1"}, {"r p", "p"}, {"s0 r", "input 1 s0"}});
    rows("embedding of own rows",
         graphOf({"f32[6x4]", "i32[4]"}, "embedding", " {local=1}", {"f32[4x4]"}),
         {{"e0x3 s0", "s0"}, {"r r", "r"}, {"r s0", "input 1"}, {"s1 r", "input 0"}});
    rows("embedding-grad of own rows",
         graphOf({"i32[4]", "f32[4x4]"}, "embedding-grad", " {local=1, shape=[6 4]}", {"f32[6x4]"}),
         {{"s0 s0", "e0x3"}, {"r r", "r"}, {"s0 r", "input 0"}});
    rows(
        "unique",
        graphOf({"i32[4]"}, "unique", " {cuts=[0 5 9], shape=[6]}", {"i32[6]", "i32[2]", "i32[4]"}),
        {{"s0", "e0x3 r s0"}, {"r", "r r r"}});
    rows("push",
         graphOf({"f32[6x4]", "i32[2]"}, "push", " {count=2, part=1, rows=6}",
                 {"f32[6x4]", "i32[2]"}),
         {{"e0x3 r", "r r"}, {"r r", "r r"}});
    rows("pull", graphOf({"i32[6]", "i32[1]", "f32[6x4]", "i32[2]"}, "pull", "", {"f32[6x4]"}),
         {{"e0x3 r r r", "e0x3"}, {"r r r r", "r"}, {"e0x3 r s1 r", "input 2"}});
    rows("layer-norm",
         graphOf({"f32[4x4]", "f32[4]", "f32[4]"}, "layer-norm", " {eps=1e-05}",
                 {"f32[4x4]", "f32[4]", "f32[4]"}),
         {{"s0 r r", "s0 s0 s0"}, {"s1 r r", "input 0"}, {"p r r", "input 0"}});
    rows("layer-norm-weight-grad",
         graphOf({"f32[4x4]", "f32[4x4]", "f32[4]", "f32[4]"}, "layer-norm-weight-grad", "",
                 {"f32[4]", "f32[4]"}),
         {{"s0 s0 s0 s0", "p p"}, {"r r r r", "r r"}, {"s0 r s0 s0", "input 1 s0"}});
    rows("attention",
         graphOf({"f32[8x24]"}, "attention", " {causal=1, head=2, tokens=2}",
                 {"f32[8x8]", "f32[8x4]"}),
         {{"r", "r r"}, {"s0x2", "s0x2 s0x2"}, {"s1x6", "s1x2 s1"}, {"s1x3", "input 0"}});
    rows("attention-grad",
         graphOf({"f32[8x8]", "f32[8x24]", "f32[8x8]", "f32[8x4]"}, "attention-grad",
                 " {causal=1, head=2, tokens=2}", {"f32[8x24]"}),
         {{"s1x2 s1x6 s1x2 s1", "s1x6"},
          {"r s1x6 s1x2 s1", "input 0 s1x2"},
          {"p r r r", "input 0"}});
    rows("flat-view", graphOf({"f32[4]"}, "flat-view", " {offset=1, shape=[3]}", {"f32[3]"}),
         {{"p", "p"}, {"r", "r"}, {"s0", "input 0"}});
    rows("flatten", graphOf({"f32[2]", "f32[3x4]"}, "flatten", "", {"f32[14]"}),
         {{"p p", "p"}, {"r r", "r"}, {"r p", "input 1"}, {"p r", "input 0"}, {"r s0", "input 1"}});
    rows(
        "softmax-xent",
        graphOf({"f32[4x3]", "i32[4]", "f32[4]"}, "softmax-xent", "", {"f32[1]", "f32[4]"}),
        {{"s0 s0 s0", "p s0"}, {"r r r", "r r"}, {"s1 r r", "input 0"}, {"s0 r s0", "input 1 s0"}});
    const std::vector<std::string> xentGrad{"f32[4x3]", "i32[4]", "f32[4]", "f32[4]", "f32[1]"};
    rows("softmax-xent-grad", graphOf(xentGrad, "softmax-xent-grad", "", {"f32[4x3]"}),
         {{"s0 s0 s0 s0 r", "s0"}, {"s0 s0 s0 s0 p", "input 4"}, {"r r r r r", "r"}});
    rows("count-correct",
         graphOf({"f32[4x3]", "i32[4]", "f32[4]"}, "count-correct", "", {"f32[1]"}),
         {{"s0 s0 s0", "p"}, {"r r r", "r"}});
    rows("sum-all", graphOf({"f32[4x3]"}, "sum-all", "", {"f32[1]"}),
         {{"s0", "p"}, {"s1", "p"}, {"p", "p"}, {"r", "r"}});
    rows("sum-squares", graphOf({"f32[4]"}, "sum-squares", "", {"f32[1]"}),
         {{"s0", "p"}, {"p", "input 0"}, {"r", "r"}});
    rows("sgd",
         graphOf({"f32[4]", "f32[4]", "f32[4]", "f32[1]", "f32[1]"}, "sgd",
                 " {momentum=0.9, weight_decay=0.0}", {"f32[4]", "f32[4]"}),
         {{"r r r r r", "r r"},
          {"r p r r r", "input 1"},
          {"s0 s0 s0 r r", "s0 s0"},
          {"r r r p r", "input 3"}});
    rows("adam",
         graphOf({"f32[4]", "f32[4]", "f32[4]", "f32[4]", "f32[1]", "f32[1]", "f32[1]"}, "adam",
                 " {beta1=0.9, beta2=0.999, eps=1e-08, weight_decay=0.0}",
                 {"f32[4]", "f32[4]", "f32[4]"}),
         {{"r p r r r r r", "input 1"}, {"s0 s0 s0 s0 r r r", "s0 s0 s0"}});
    rows("concat", graphOf({"f32[4x4]", "f32[4x4]"}, "concat", "", {"f32[4x8]"}),
         {{"s0 s0", "s0"},
          {"p p", "p"},
          {"r r", "r"},
          {"s1 r", "input 0"},
          {"s0 r", "input 1 s0"},
          {"p r", "input 0"}});
    rows("columns", graphOf({"f32[4x4]"}, "columns", " {count=2, first=1}", {"f32[4x2]"}),
         {{"s0", "s0"}, {"p", "p"}, {"s1", "input 0"}});
    rows("dropout", graphOf({"f32[8x4]", "i32[4]"}, "dropout", " {rate=0.5, salt=1}", {"f32[8x4]"}),
         {{"s0x2 s0", "s0x2"},
          {"s1 r", "s1"},
          {"p r", "p"},
          {"r s0", "input 0 s0x2"},
          {"s0x2 r", "input 1 s0"},
          {"m r", "input 0"}});
    rows("binary-xent", graphOf({"f32[4x1]", "f32[4x1]", "f32[4]"}, "binary-xent", "", {"f32[1]"}),
         {{"s0 s0 s0", "p"}, {"r r r", "r"}, {"s0 r s0", "input 1 s0"}});
    rows("combine-rows",
         graphOf({"f32[16]", "i32[4]"}, "combine-rows", "", {"f32[16]", "i32[4]", "i32[8]"}),
         {{"r r", "r r r"}, {"s0 r", "input 0"}, {"r s0", "input 1"}});
    rows("adagrad-rows",
         graphOf({"f32[16]", "f32[16]", "f32[16]", "i32[4]", "f32[1]", "f32[1]"}, "adagrad-rows",
                 " {eps=1e-10}", {"f32[16]", "f32[16]"}),
         {{"r r r r r r", "r r"}, {"r r s0 r r r", "input 2"}, {"s0 s0 r r r r", "input 0"}});
    rows("store", graphOf({"f32[4]"}, "store", " {state=\"a\"}", {}),
         {{"p", "input 0"}, {"r", ""}, {"s0", ""}});
  }
  void rules() {
    QFETCH(QString, graph);
    QFETCH(QString, inputs);
    QFETCH(QString, outputs);
    QCOMPARE(place(graph.toStdString(), inputs.split(' ')), outputs);
  }

  // Meeting the demands of a rule ends with a placement, for every op and any inputs.
  void doingWhatIsAskedAlwaysEnds() {
    const std::pair<std::string, int> ops[] = {
        {graphOf({"f32[4x4]", "f32[4x4]"}, "matmul", "", {"f32[4x4]"}), 2},
        {graphOf({"f32[4x4]", "f32[4x4]", "f32[4]"}, "matmul", " {ta=1, tb=1}", {"f32[4x4]"}), 3},
        {graphOf({"f32[4x4]", "f32[4]"}, "bias-add", "", {"f32[4x4]"}), 2},
        {graphOf({"f32[4x4]", "i32[4]", "f32[4]", "f32[4]", "f32[1]"}, "softmax-xent-grad", "",
                 {"f32[4x4]"}),
         5},
        {graphOf({"f32[4x4]", "i32[4]", "f32[4]"}, "softmax-xent", "", {"f32[1]", "f32[4]"}), 3},
        {graphOf({"f32[4]", "f32[4]", "f32[4]"}, "flatten", "", {"f32[12]"}), 3},
        {graphOf({"f32[4x4x4x4]", "f32[3x3x4x4]", "f32[4]"}, "conv2d", " {pad=0, stride=1}",
                 {"f32[4x2x2x4]"}),
         3},
        {graphOf({"f32[4x4]", "f32[4x4]"}, "concat", "", {"f32[4x8]"}), 2},
        {graphOf({"f32[4x4]", "i32[4]"}, "dropout", " {rate=0.5, salt=1}", {"f32[4x4]"}), 2},
        {graphOf({"f32[4x4]", "f32[4]", "f32[4]"}, "batch-moments", " {shape=[4 9]}", {"f32[4x9]"}),
         3},
        {graphOf({"f32[4x4]", "f32[4x4]", "f32[2x4]", "f32[2x4]"}, "batch-norm-weight-grad",
                 " {eps=1e-05}", {"f32[4]", "f32[4]", "f32[2x8]"}),
         4}};
    const char* words[] = {"r", "s0", "s1", "s2", "s3", "p", "m"};
    for (const auto& [graph, count] : ops) {
      int combinations = 1;
      for (int i = 0; i < count; ++i) combinations *= 7;
      for (int c = 0; c < combinations; ++c) {
        QStringList inputs;
        for (int i = 0, rest = c; i < count; ++i, rest /= 7) inputs << words[rest % 7];
        QString answer = place(graph, inputs);
        for (int round = 0; round < 2 * count && answer.startsWith("input "); ++round) {
          const QStringList asked = answer.split(' ');
          const int index = asked[1].toInt();
          const QString wanted = asked.size() > 2 ? asked[2] : "r";
          QVERIFY2(inputs[index] != wanted, qPrintable(inputs.join(' ') + ": " + answer));
          inputs[index] = wanted;
          answer = place(graph, inputs);
        }
        QVERIFY2(!answer.startsWith("input "), qPrintable(answer));
      }
    }
  }

  void everyOpHasACompleteRow() {
    for (std::size_t i = 0; i < kOpCount; ++i) {
      const OpInfo& row = info(static_cast<Op>(i));
      QVERIFY(static_cast<std::size_t>(row.op) == i);
      QVERIFY(opFromName(row.name) == row.op);
      QVERIFY(row.infer != nullptr && row.place != nullptr && row.cost != nullptr);
      QCOMPARE(row.inPlace.size(), static_cast<std::size_t>(row.outputs));
      for (int input : row.inPlace) QVERIFY(input < std::max(1, row.maxInputs));
    }
    QVERIFY(!opFromName("nothing"));
  }

  void costs() {
    const Graph g = *parse("graph \"g\"\n" +
                           graphOf({"f32[64x784]", "f32[784x128]"}, "matmul", "", {"f32[64x128]"}));
    const std::vector<TensorType> in{g.value(0).type, g.value(1).type}, out{g.value(2).type};
    const OpCost cost = info(Op::kMatmul).cost(g.nodes().back(), in, out);
    QCOMPARE(cost.flops, 2.0 * 64 * 784 * 128);
    QCOMPARE(cost.bytes, std::int64_t{4 * (64 * 784 + 784 * 128 + 64 * 128)});
  }
};

QTEST_GUILESS_MAIN(PlacementTest)
#include "placement_test.moc"
