// Tests of graphs: construction, text, parser and verifier.
#include <QTest>
#include <clocale>
#include <locale>

#include "engine/base/random.h"
#include "engine/ir/graph.h"
#include "engine/ir/ops.h"

using namespace lockstep;
using namespace lockstep::ir;

namespace {

struct CommaNumbers final : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

Graph sample() {
  Graph g("sample \"quoted\"");
  const NodeId x = *g.add(Op::kInput, "x", {},
                          {{"name", "x"}, {"dtype", "u8"}, {"shape", Shape{6, 4}}}, Phase::kData);
  const NodeId cast = *g.add(Op::kCast, "x.cast", {g.output(x)},
                             {{"dtype", "f32"}, {"scale", 1.0 / 255}}, Phase::kData);
  const NodeId w =
      *g.add(Op::kState, "w", {}, {{"state", "w"}, {"dtype", "f32"}, {"shape", Shape{4, 3}}});
  const NodeId y = *g.add(Op::kMatmul, "y", {g.output(cast), g.output(w)}, {{"act", "relu"}},
                          Phase::kForward, {cast, x, cast});
  const NodeId sum = *g.add(Op::kSumAll, "sum", {g.output(y)});
  const NodeId loss =
      *g.add(Op::kResult, "loss", {g.output(sum)}, {{"name", "loss"}}, Phase::kForward, {y});
  g.setStage(y, 2);
  g.setStage(loss, kEveryStage);
  Placement split;
  split.axes["data"] = {AxisPlacement::Kind::kSplit, 0, {0, 2, 4, 6}};
  g.value(g.output(y)).placement = split;
  Placement sums;
  sums.submesh = "stage1";
  sums.axes["data"] = {AxisPlacement::Kind::kPartialSum, 0, {}};
  sums.axes["model"] = {AxisPlacement::Kind::kPartialMax, 0, {}};
  g.value(g.output(sum)).placement = sums;
  g.value(g.output(w)).placement = Placement{};
  return g;
}

constexpr std::string_view kSampleText =
    "graph \"sample \\\"quoted\\\"\"\n"
    "%0 = input() {dtype=\"u8\", name=\"x\", shape=[6 4]} : u8[6x4] | x, data\n"
    "%1 = cast(%0) {dtype=\"f32\", scale=0.00392156862745098} : f32[6x4] | x.cast, data\n"
    "%2 = state() {dtype=\"f32\", shape=[4 3], state=\"w\"} : f32[4x3] <replicated> | w, forward\n"
    "%3 = matmul(%1, %2) {act=\"relu\"} : f32[6x3] <data: split 0 [0 2 4 6]> | y, forward, stage "
    "2, after x x.cast\n"
    "%4 = sum-all(%3) : f32[1] <@stage1 data: partial sum; model: partial max> | sum, forward\n"
    "result(%4) {name=\"loss\"} | loss, forward, every stage, after y\n";

std::string errorOf(std::string_view graphText) {
  const Result<Graph> graph = parse(graphText, "g");
  return graph.ok() ? "" : graph.error().what;
}

}  // namespace

class GraphTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void textIsReadable() {
    QCOMPARE(QString::fromStdString(text(sample())), QString::fromUtf8(kSampleText.data()));
  }

  void textParsesBack() {
    const Result<Graph> graph = parse(kSampleText);
    QVERIFY2(graph.ok(), graph.ok() ? "" : graph.error().what.text().c_str());
    QCOMPARE(text(*graph), std::string(kSampleText));
    QVERIFY(graph->find("x.cast") == &graph->node(1));
    QVERIFY(graph->find("nothing") == nullptr);
    QCOMPARE(graph->node(3).after, (std::vector<NodeId>{0, 1}));
  }

  void textIgnoresTheLocale() {
    const std::locale before =
        std::locale::global(std::locale(std::locale::classic(), new CommaNumbers));
    const std::string formerly = std::setlocale(LC_ALL, nullptr);
    std::setlocale(LC_ALL, "de_DE.UTF-8");  // if installed
    const std::string written = text(sample());
    const Result<Graph> graph = parse(kSampleText);
    std::locale::global(before);
    std::setlocale(LC_ALL, formerly.c_str());
    QCOMPARE(written, std::string(kSampleText));
    QVERIFY(graph.ok());
  }

  void commentsAndBlankLinesAreSkipped() {
    const Result<Graph> graph = parse(
        "# made by hand\n\ngraph \"g\"\n# a value\n"
        "%0=fill(){dtype=\"f32\",shape=[],value=1}:f32[]|one,init\r\n\n");
    QVERIFY(graph.ok());
    QCOMPARE(text(*graph),
             std::string("graph \"g\"\n%0 = fill() {dtype=\"f32\", shape=[], value=1.0} : f32[] | "
                         "one, init\n"));
  }

  void attributesSurvive_data() {
    QTest::addColumn<double>("number");
    QTest::newRow("tenth") << 0.1;
    QTest::newRow("whole") << 3.0;
    QTest::newRow("minus zero") << -0.0;
    QTest::newRow("tiny") << 5e-324;
    QTest::newRow("huge") << 1.7976931348623157e308;
    QTest::newRow("large whole") << 1e20;
  }
  void attributesSurvive() {
    QFETCH(double, number);
    Graph g("g");
    const NodeId a =
        *g.add(Op::kFill, "a", {}, {{"dtype", "f64"}, {"shape", Shape{2}}, {"value", number}});
    (void)*g.add(Op::kResult, "r", {g.output(a)}, {{"name", "a\n\t\"\\\x01ü"}});
    const std::string once = text(g);
    const Result<Graph> back = parse(once);
    QVERIFY2(back.ok(), back.ok() ? "" : back.error().what.text().c_str());
    QCOMPARE(text(*back), once);
    QCOMPARE(std::signbit(floatAttr(back->node(0).attrs, "value")), std::signbit(number));
    QCOMPARE(floatAttr(back->node(0).attrs, "value"), number);
    QVERIFY(back->node(1).attrs == g.node(1).attrs);
  }

  void addSaysWhatWasExpected() {
    Graph g("g");
    const ValueId x = g.output(
        *g.add(Op::kInput, "x", {}, {{"name", "x"}, {"dtype", "f32"}, {"shape", Shape{64, 784}}}));
    const ValueId w = g.output(
        *g.add(Op::kState, "w", {}, {{"state", "w"}, {"dtype", "f32"}, {"shape", Shape{10, 128}}}));
    auto says = [&](Result<NodeId> result) {
      return QString::fromStdString(result.ok() ? "no error" : result.error().what);
    };
    QCOMPARE(says(g.add(Op::kMatmul, "y", {x, w})),
             "node y (matmul): input 1 is f32[10x128], expected f32[784x128]");
    QCOMPARE(says(g.add(Op::kMatmul, "y", {x})), "node y (matmul): 1 inputs, expected 2 to 3");
    QCOMPARE(says(g.add(Op::kMatmul, "y", {x, 9})),
             "node y (matmul): input %9 does not exist before it");
    QCOMPARE(says(g.add(Op::kRelu, "x", {x})), "node x (relu): another node has this name");
    QCOMPARE(says(g.add(Op::kRelu, "a b", {x})),
             "node a b (relu): not a name; expected letters, digits and _./+-");
    QCOMPARE(says(g.add(Op::kRelu, "y", {x}, {{"slope", 0.1}})),
             "node y (relu): attribute slope is unknown, expected stored");
    QCOMPARE(says(g.add(Op::kScale, "y", {x})),
             "node y (scale): attribute factor is missing, expected a finite number");
    QCOMPARE(
        says(g.add(Op::kReshape, "y", {x}, {{"shape", Shape{64, 783}}})),
        "node y (reshape): input 0 is f32[64x784], expected 50112 elements for shape [64x783]");
    QCOMPARE(says(g.add(Op::kRelu, "y", {x}, {}, Phase::kForward, {7})),
             "node y (relu): a control edge comes from a node that is not before it");
    QCOMPARE(g.nodes().size(), std::size_t{2});
    const ValueId qkv = g.output(
        *g.add(Op::kInput, "qkv", {}, {{"name", "qkv"}, {"dtype", "f32"}, {"shape", Shape{4, 6}}}));
    QCOMPARE(says(g.add(Op::kAttention, "y", {qkv},
                        {{"tokens", std::int64_t{2}},
                         {"head", std::int64_t{1}},
                         {"causal", std::int64_t{0}},
                         {"operand_dtype", "f8"}})),
             "node y (attention): operand_dtype is \"f8\", expected bf16 or f16");
  }

  void parserSaysWhereAndWhat_data() {
    QTest::addColumn<QString>("line");
    QTest::addColumn<QString>("message");
    QTest::newRow("op") << "%0 = matmull() | a, init"
                        << "g:2:6: found 'matmull', expected an op such as matmul";
    QTest::newRow("order") << "%1 = fill() | a, init"
                           << "g:2:1: value %1 is out of order, expected %0";
    QTest::newRow("type") << "%0 = fill() {dtype=\"f32\", shape=[2], value=0} : f32[3] | a, init"
                          << "g:2:6: type f32[3] of %0, expected f32[2]";
    QTest::newRow("phase") << "%0 = fill() {dtype=\"f32\", shape=[2], value=0} : f32[2] | a, inits"
                           << "g:2:61: found 'inits', expected a phase: init, data, forward, "
                              "backward, optimizer or watch";
    QTest::newRow("extent") << "%0 = fill() {dtype=\"f32\", shape=[0], value=0} : f32[0] | a, init"
                            << "g:2:53: number out of range, expected an extent from 1 to "
                               "1099511627776";
    QTest::newRow("quote") << "%0 = fill() {dtype=\"f32"
                           << "g:2:24: found the end, expected the closing '\"' of a text";
    QTest::newRow("after") << "%0 = fill() {dtype=\"f32\", shape=[2], value=0} : f32[2] | a, init, "
                              "after b"
                           << "g:2:73: node b is not known, expected one above";
  }
  void parserSaysWhereAndWhat() {
    QFETCH(QString, line);
    QFETCH(QString, message);
    QCOMPARE(QString::fromStdString(errorOf("graph \"g\"\n" + line.toStdString())), message);
  }

  void verifierFindsWhatIsBroken() {
    QVERIFY(verify(sample()).ok());
    Graph wrongType = sample();
    wrongType.value(3).type.shape[0] = 5;
    QVERIFY(!verify(wrongType).ok());
    Graph wrongProducer = sample();
    wrongProducer.value(3).producer = 0;
    QVERIFY(!verify(wrongProducer).ok());
    Graph wrongCuts = sample();
    wrongCuts.value(3).placement->axes["data"].cuts.back() = 7;
    QVERIFY(!verify(wrongCuts).ok());
    Graph twice = sample();
    (void)*twice.add(Op::kState, "w2", {},
                     {{"state", "w"}, {"dtype", "f32"}, {"shape", Shape{4, 3}}});
    QVERIFY(!verify(twice).ok());
    Graph otherType = sample();
    (void)*otherType.add(Op::kStore, "store.w", {4}, {{"state", "w"}});
    QCOMPARE(QString::fromStdString(verify(otherType).error().what),
             "node store.w (store): state w is f32[1] here and f32[4x3] elsewhere");
  }

  // The parser returns for any bytes; what it accepts has a canonical text.
  void mutationsNeverCrash() {
    const std::string_view pieces[] = {"%",
                                       "0",
                                       "-1",
                                       "9999999999999999999",
                                       "[",
                                       "]",
                                       "{",
                                       "}",
                                       "\"",
                                       "\\",
                                       "<",
                                       ">",
                                       "=",
                                       ",",
                                       "|",
                                       ":",
                                       "x",
                                       "f32",
                                       "shape=[1099511627776 1099511627776]",
                                       "\n",
                                       "after ",
                                       "e308",
                                       "split 7 [0 1]",
                                       "matmul",
                                       "flatten",
                                       "flat-view",
                                       "offset="};
    int accepted = 0;
    for (std::uint64_t seed = 0; seed < 20000; ++seed) {
      std::string mutated(kSampleText);
      const std::uint64_t edits = 1 + randomBits(seed, 0) % 4;
      for (std::uint64_t e = 0; e < edits; ++e) {
        const std::size_t at = randomBits(seed, 3 * e + 1) % mutated.size();
        const std::uint64_t kind = randomBits(seed, 3 * e + 2) % 4;
        const std::uint64_t what = randomBits(seed, 3 * e + 3);
        if (kind == 0) mutated[at] = static_cast<char>(what);
        if (kind == 1) mutated.erase(at, 1 + what % 8);
        if (kind == 2) mutated.insert(at, pieces[what % std::size(pieces)]);
        if (kind == 3) mutated.insert(at, mutated.substr(what % mutated.size(), 1 + what % 60));
        if (mutated.empty()) break;
      }
      const Result<Graph> graph = parse(mutated);
      if (!graph.ok()) {
        QVERIFY(graph.error().what.text().starts_with("graph:"));
        continue;
      }
      ++accepted;
      const std::string canonical = text(*graph);
      const Result<Graph> again = parse(canonical);
      QVERIFY2(again.ok(), canonical.c_str());
      QCOMPARE(text(*again), canonical);
    }
    QVERIFY(accepted > 100);
  }

  void randomBytesNeverCrash() {
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
      std::string bytes = "graph \"g\"\n";
      for (std::uint64_t i = 0; i < randomBits(seed, 0) % 200; ++i)
        bytes += static_cast<char>(randomBits(seed, i + 1));
      (void)parse(bytes).ok();
    }
  }
};

QTEST_GUILESS_MAIN(GraphTest)
#include "graph_test.moc"
