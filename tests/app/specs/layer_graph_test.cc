// The layers of a model as a graph.
#include "app/specs/layer_graph.h"

#include <QTest>
#include <random>

#include "app/specs/data_spec.h"
#include "app/specs/spec_text.h"
#include "engine/base/file.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

constexpr int kInput = LayerGraph::kInput, kCategories = LayerGraph::kCategories;
using Edges = std::vector<LayerGraph::Edge>;

LayerGraph graphOf(const std::string& yaml) {
  const SpecText text = SpecText::parse(yaml, "m.yaml", SpecKind::kModel);
  if (!text.model()) qFatal("not readable");
  return layerGraphOf(*text.model());
}

LayerGraph graphOfExample(const char* name) {
  const auto yaml =
      readFile(lockstep::test::sourcePath("resources/examples/") + name, std::size_t{1} << 20);
  if (!yaml.ok()) qFatal("no example");
  return layerGraphOf(*SpecText::parse(*yaml, name, SpecKind::kRun).model());
}

}  // namespace

class LayerGraphTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void layersFollowEachOther() {
    const LayerGraph graph = graphOfExample("fashion-cnn.yaml");
    QVERIFY(graph.edges == (Edges{{kInput, 0}, {0, 1}, {1, 2}, {2, 3}}));
    QVERIFY(graph.names == (std::vector<std::string>{"conv1", "pool1", "flatten1", "dense1"}));
    QCOMPARE(graph.input, std::string("28x28x1"));
    QCOMPARE(graph.categories, std::string());
    QCOMPARE(graph.loss, std::string("cross-entropy"));
    QVERIFY(graph.ties.empty());
  }

  void branchesTablesAndTies() {
    const LayerGraph ctr = graphOfExample("ctr.yaml");
    QVERIFY(ctr.edges == (Edges{{kCategories, 0}, {kInput, 1}, {0, 1}, {1, 2}, {2, 3}, {3, 4}}));
    QCOMPARE(ctr.categories, std::string("26"));
    const LayerGraph gpt = graphOfExample("gpt-tiny.yaml");
    QVERIFY(gpt.ties == (std::vector<LayerGraph::Tie>{{0, 6}}));
    const LayerGraph resnet = graphOfExample("fashion-resnet.yaml");
    // a1 adds stem-bn and a1-bn2.
    const auto has = [&](int from, int to) {
      return std::find(resnet.edges.begin(), resnet.edges.end(), LayerGraph::Edge{from, to}) !=
             resnet.edges.end();
    };
    QVERIFY(has(1, 6) && has(5, 6) && !has(0, 6));
  }

  // What is wrong in the text leaves edges out, and nothing else.
  void mistakesLeaveEdgesOut() {
    const LayerGraph graph = graphOf(
        "input: {shape: [4]}\nlayers:\n"
        "  - {name: a, dense: {units: 2}}\n"
        "  - {name: b, inputs: [c], dense: {units: 2}}\n"
        "  - {name: c, inputs: [a, a, b, nowhere], add: {}}\n"
        "  - {name: d, inputs: [d], dense: {units: 2, tied: nowhere}}\n");
    QVERIFY(graph.edges == (Edges{{kInput, 0}, {0, 2}, {1, 2}}));
    QVERIFY(graph.ties.empty());
    QVERIFY(graphOf("").edges.empty());
  }

  void randomGraphs_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 1; seed <= 30; ++seed) QTest::addRow("seed %d", seed) << seed;
  }
  void randomGraphs() {
    QFETCH(int, seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto pick = [&](int from, int to) {
      return std::uniform_int_distribution<int>(from, to)(random);
    };
    const int count = pick(1, 60);
    std::string yaml = "input: {shape: [8]}\nlayers:\n";
    Edges expected;
    for (int i = 0; i < count; ++i) {
      const int inputs = pick(0, 3);
      yaml += fmt::format("  - {{name: l{}, ", i);
      std::string names;
      for (int k = 0; k < inputs; ++k) {
        const int from = pick(-1, i - 1);
        names += (k > 0 ? ", " : "") + (from < 0 ? std::string("input") : fmt::format("l{}", from));
        const LayerGraph::Edge edge{from < 0 ? kInput : from, i};
        if (std::find(expected.begin(), expected.end(), edge) == expected.end())
          expected.push_back(edge);
      }
      if (inputs > 0)
        yaml += "inputs: [" + names + "], ";
      else
        expected.push_back({i == 0 ? kInput : i - 1, i});
      yaml += "concat: {}}\n";
    }
    const LayerGraph graph = graphOf(yaml);
    QVERIFY2(graph.edges == expected, yaml.c_str());
    QCOMPARE(std::ssize(graph.names), std::ptrdiff_t{count});
  }

  // The data of a spec are known whatever is wrong with its layers.
  void dataWithoutAModel() {
    const std::string spec =
        "version: 1\nmodel:\n  name: m\n  input: {shape: [28, 28, 1]}\n  layers:\n"
        "    - conv2d: {filters: -1, kernal: 3}\ndata:\n"
        "  train: {images: a.gz, labels: /b.gz}\n  evaluate: {images: c.gz, labels: d.gz}\n";
    const auto data = completeDataSpec(spec, "/home/x/run.yaml");
    QVERIFY2(data.ok(), data.ok() ? "" : data.error().text().c_str());
    QVERIFY(!completeRunSpec(spec, "/home/x/run.yaml").ok());
    const auto wrong = completeDataSpec(spec.substr(0, spec.find("  evaluate")), "/x/run.yaml");
    QVERIFY(!wrong.ok());
    QVERIFY2(wrong.error().text().find("evaluate") != std::string::npos,
             wrong.error().text().c_str());
    QVERIFY(!completeDataSpec("{", "/x/run.yaml").ok());
  }
};

QTEST_GUILESS_MAIN(LayerGraphTest)
#include "layer_graph_test.moc"
