#include <QTest>

#include "engine/plan/wait_limit.h"
#include "tests/engine/plan/sample_plan.h"

using namespace lockstep;
using namespace lockstep::plan;

namespace {

// Returns verify()'s error for the sample plan after `change`.
template <typename Change>
std::string complaint(Change change) {
  Plan plan = samplePlan();
  change(plan, plan.programs[0].bodies[0]);
  const Status status = verify(plan);
  return status.ok() ? "" : status.error().what;
}

}  // namespace

#define EXPECT(words, ...)                                          \
  do {                                                              \
    const std::string said = complaint([](Plan& plan, Body& body) { \
      (void)plan;                                                   \
      (void)body;                                                   \
      __VA_ARGS__;                                                  \
    });                                                             \
    QVERIFY2(said.find(words) != std::string::npos, said.c_str());  \
  } while (false)

class PlanVerifyTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void theSampleHolds() {
    const Status status = verify(samplePlan());
    QVERIFY2(status.ok(), status.ok() ? "" : status.error().text().c_str());
  }
  // A large model over links of a few bytes per second: more nanoseconds than 64 bits hold.
  void longPredictionsKeepALongLimit() {
    Plan plan = samplePlan();
    plan.programs[0].bodies[0].steps[0].seconds = 1e10;
    QCOMPARE(collectiveLimit(plan), Nanoseconds{1} << 61);
  }
  void buffersLieInRange() {
    EXPECT("reaches past the arena", body.arenaBytes = 8192);
    EXPECT("reaches past its base", body.buffers[4].offset = 68);
    EXPECT("splits an element", body.buffers[4].offset = 30);
    EXPECT("no buffer of its own", body.buffers[4].base = 3);
    EXPECT("not aligned", body.buffers[5].offset = 8196);
    EXPECT("not the plan's state", body.buffers[1].name = "params.1");
    EXPECT("uses no buffer", body.steps[0].inputs[0] = 77);
  }
  void overlapsHaveAnOrder() {
    EXPECT("share memory", body.buffers[5].offset = 4096);
    EXPECT("share memory", body.buffers[5].offset = 0);  // an input overlaps nothing
    EXPECT("without an order", body.steps[4].after.clear());
    EXPECT("before all of it was written", body.steps[2].outputs = {5});
    EXPECT("before all of it was written", body.steps[1].inputs = {2});
  }
  void asynchronousCollectivesHaveAnOrder() {
    EXPECT("stream 1", body.steps[2].stream = kCommunicationStream);  // no collective
    EXPECT("stream 2", body.steps[3].stream = 2);
    EXPECT("use the group along axis data without an order", Step again = body.steps[3];
           again.name = "again"; again.stream = kComputeStream;
           body.steps.insert(body.steps.begin() + 4, again));
    // differs from the other ranks
    EXPECT("different collectives", body.steps[3].stream = kComputeStream);
  }
  // A parsed plan may contain anything: the attributes of kernels and collectives are verified.
  void stepsAreAsTheirOperationsHaveThem() {
    EXPECT("attribute value is missing", body.steps[2].attrs.erase("value"));
    EXPECT("attribute speed is unknown", body.steps[2].attrs["speed"] = std::int64_t{1});
    EXPECT("algorithm is \"sideways\"", for (Body& one
                                             : plan.programs[0].bodies) one.steps[3]
                                            .attrs["algorithm"] = std::string("sideways"));
    EXPECT("hosts come with", for (Body& one
                                   : plan.programs[0].bodies) one.steps[3]
                                  .attrs["algorithm"] = std::string("hierarchical"));
    EXPECT("in buffer metrics, which is f32[16]", body.steps[2].attrs["shape"] = Shape{15});
  }

  // Buffers whose lives do not overlap may share memory.
  void memoryIsReused() {
    const std::string said = complaint([](Plan&, Body& body) {
      body.buffers.push_back({"late", f32({8}), BufferKind::kTemp, -1, 8192});
      Step late = body.steps[2];
      late.name = "late";
      late.attrs["shape"] = Shape{8};
      late.outputs = {6};
      body.steps.push_back(late);
    });
    QVERIFY2(said.empty(), said.c_str());
  }
  void ranksRunTheSameCollectives() {
    EXPECT("different collectives", body.steps.erase(body.steps.begin() + 3);
           body.steps[3].after.clear());
    EXPECT("different collectives", body.steps[3].attrs["op"] = std::string("max"));
    EXPECT("no two ranks", body.steps[3].axis = "model");
    EXPECT("works in place", body.steps[3].outputs = {4});
  }
  void stateAndCuts() {
    EXPECT("overlaps another", plan.state[0].members[1].element = 5);
    EXPECT("has rows that the tensor does not have", plan.state[0].members[0].firstRow = 1);
    EXPECT("end at 2 of 3", plan.state[0].members[0].rows = 2);
    EXPECT("has rows that the tensor does not have",
           plan.state[0].members[0].rows = plan.state[0].members[0].shape[0] + 1);
    EXPECT("given twice", plan.state.push_back(plan.state[0]));
    EXPECT("do not ascend", plan.batchCuts = {0, 7, 4, 10});
    EXPECT("do not end at the batch", plan.batchCuts = {0, 4, 7, 9});
    EXPECT("a rank has no body", plan.programs[0].bodyOfRank[1] = -1);
  }
};

QTEST_GUILESS_MAIN(PlanVerifyTest)
#include "plan_verify_test.moc"
