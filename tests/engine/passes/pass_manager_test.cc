// The pass manager: order, verification after every pass, and what a trace says.
#include <QTest>

#include "engine/ir/ops.h"
#include "engine/passes/pass_manager.h"
#include "engine/passes/train_graph.h"

using namespace lockstep;
using ir::Graph;
using ir::Op;
using passes::Pass;

namespace {

// x → scale → result, with `dead` nodes that reach no result.
Graph sample(int dead) {
  Graph graph("sample");
  const ir::Attrs input{
      {"name", std::string("x")}, {"dtype", std::string("f32")}, {"shape", Shape{4}}};
  const ir::ValueId x = graph.output(*graph.add(Op::kInput, "x", {}, input));
  for (int i = 0; i < dead; ++i)
    (void)graph.add(Op::kScale, fmt::format("dead{}", i), {x}, {{"factor", 2.0}});
  const ir::ValueId y = graph.output(*graph.add(Op::kScale, "y", {x}, {{"factor", 3.0}}));
  (void)graph.add(Op::kResult, "y.result", {y}, {{"name", std::string("y")}});
  return graph;
}

}  // namespace

class PassManagerTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void enabledPassesRunInOrder() {
    passes::PassTrace trace("remove-dead");
    const passes::PassManager manager(&trace);
    std::vector<std::string> ran;
    const auto noted = [&](const std::string& name) {
      return [&ran, name](const Graph& graph) -> Result<Graph> {
        ran.push_back(name);
        return graph;
      };
    };
    const std::vector<Pass> list{{"first", noted("first")},
                                 {"disabled", noted("disabled"), false},
                                 {"remove-dead", passes::removeDead},
                                 {"last", noted("last")}};
    const auto made = manager.run("step", list, sample(2));
    QVERIFY2(made.ok(), made.ok() ? "" : made.error().text().c_str());
    QCOMPARE(made->nodes().size(), 3u);
    QCOMPARE(ran, (std::vector<std::string>{"first", "last"}));
    const auto& records = trace.records();
    QCOMPARE(records.size(), 3u);
    QCOMPARE(records[1].pass, std::string("remove-dead"));
    QCOMPARE(records[1].nodesBefore, 5u);
    QCOMPARE(records[1].nodesAfter, 3u);
    QCOMPARE(trace.dump(), "# step after remove-dead\n" + ir::text(*made) + "\n");
  }

  // A second graph of the same program is one more run of its passes.
  void runsAreCounted() {
    passes::PassTrace trace;
    const passes::PassManager manager(&trace);
    const std::vector<Pass> list{{"remove-dead", passes::removeDead}};
    for (int dead : {1, 3}) QVERIFY(manager.run("step", list, sample(dead)).ok());
    QVERIFY(manager.run("init", list, sample(0)).ok());
    QCOMPARE(trace.records().size(), 2u);
    QCOMPARE(trace.records()[0].runs, 2);
    QCOMPARE(trace.records()[0].nodesBefore, 4u);
    QCOMPARE(trace.records()[1].program, std::string("init"));
    QVERIFY(trace.dump().empty());
  }

  // The pass that broke the graph is named, not one that ran before or after it.
  void theCulpritIsNamed() {
    const passes::PassManager manager(nullptr);
    const auto breaks = [](const Graph& graph) -> Result<Graph> {
      Graph broken("broken");  // a result that reads a state of which a store before it wrote twice
      const ir::Attrs attrs{
          {"state", std::string("s")}, {"dtype", std::string("f32")}, {"shape", Shape{4}}};
      const ir::ValueId state = broken.output(*broken.add(Op::kState, "s", {}, attrs));
      (void)broken.add(Op::kStore, "s.store", {state}, {{"state", std::string("s")}});
      (void)broken.add(Op::kStore, "s.again", {state}, {{"state", std::string("s")}});
      (void)graph;
      return broken;
    };
    int after = 0;
    const std::vector<Pass> list{{"remove-dead", passes::removeDead},
                                 {"breaks", breaks},
                                 {"after", [&](const Graph& graph) -> Result<Graph> {
                                    ++after;
                                    return graph;
                                  }}};
    const auto made = manager.run("update", list, sample(0));
    QVERIFY(!made.ok());
    QCOMPARE(made.error().code, Code::kInternal);
    const QString text = QString::fromStdString(made.error().text());
    QVERIFY2(text.contains("pass breaks of program update broke graph broken"), qPrintable(text));
    QCOMPARE(after, 0);
  }

  // What a pass refuses is its own error, unchanged.
  void refusalsPass() {
    const passes::PassManager manager(nullptr);
    const std::vector<Pass> list{
        {"refuses", [](const Graph&) -> Result<Graph> { return invalidArgument("no"); }}};
    const auto made = manager.run("step", list, sample(0));
    QVERIFY(!made.ok());
    QCOMPARE(made.error().code, Code::kInvalidArgument);
    QCOMPARE(made.error().what, std::string("no"));
  }
};

QTEST_GUILESS_MAIN(PassManagerTest)
#include "pass_manager_test.moc"
