// Which rank is named where a run makes no progress: held against who was made to hang.
#include <QTest>
#include <random>

#include "agent/supervisor/hang_watch.h"
#include "agent/worker/stall_watch.h"
#include "engine/plan/plan.h"
#include "engine/specs/run_limits.h"

using namespace lockstep;
using agent::HangWatch;

namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

node::v1::Stalled stalled(int rank, const std::string& name, const std::vector<int>& awaits,
                          Nanoseconds since = kSecond) {
  node::v1::Stalled out;
  out.set_rank(rank);
  out.set_for_ns(since);
  out.set_step(name.empty() ? 0 : 41);
  out.set_name(name);
  out.set_op(awaits.empty() ? "matmul" : "all-reduce");
  for (const int other : awaits)
    if (other != rank) out.add_awaits(other);
  return out;
}

node::v1::Stalled moves(int rank) {
  node::v1::Stalled out;
  out.set_rank(rank);
  out.set_moves(true);
  return out;
}

// A run that has made steps of this length.
HangWatch trained(Nanoseconds step = 10'000'000) {
  HangWatch out;
  for (int i = 0; i < 5; ++i) out.noteStep(i == 0 ? 100 * kSecond : step);
  return out;
}

std::vector<int> upTo(int count) {
  std::vector<int> out(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) out[static_cast<std::size_t>(i)] = i;
  return out;
}

}  // namespace

class HangWatchTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // Data parallel: all but one wait in a collective; that one computes, is between programs, is in
  // an earlier collective of its own, or says nothing.
  void theRankThatIsNotThereIsNamed() {
    std::minstd_rand random(3);
    for (int round = 0; round < 500; ++round) {
      const int world = 2 + static_cast<int>(random() % 7);
      const int culprit = static_cast<int>(random() % static_cast<unsigned>(world));
      const int kind = static_cast<int>(random() % 3);
      HangWatch watch = trained();
      std::vector<int> order = upTo(world);
      std::shuffle(order.begin(), order.end(), random);
      for (const int rank : order) {
        if (rank != culprit)
          watch.note(stalled(rank, "grads.1", upTo(world)), kSecond);
        else if (kind == 1)
          watch.note(stalled(rank, "dense2.matmul", {}), kSecond);
        else if (kind == 2)
          watch.note(stalled(rank, "", {}), kSecond);
      }
      QVERIFY(!watch.judge(kSecond + specs::kHang.least / 2 - 1));
      const auto verdict = watch.judge(kSecond + specs::kHang.least);
      QVERIFY(verdict);
      QCOMPARE(verdict->ranks, std::vector{culprit});
      QCOMPARE(verdict->warning.rank, culprit);
      const std::string why = verdict->warning.why.text();
      QVERIFY2(why.find("all-reduce grads.1 of step 41") != std::string::npos, why.c_str());
      const char* where[] = {"its process is stopped", "matmul dense2.matmul", "reads data"};
      QVERIFY2(why.find(where[kind]) != std::string::npos, why.c_str());
    }
  }

  // Pipeline times data: the ranks of a stage wait for one another, those of the next for a
  // message.
  void theChainOfWaitsIsFollowed() {
    std::minstd_rand random(5);
    for (int round = 0; round < 500; ++round) {
      const int stages = 2 + static_cast<int>(random() % 5);
      const int culprit = static_cast<int>(random() % static_cast<unsigned>(stages));
      HangWatch watch = trained();
      std::vector<int> order = upTo(stages);
      std::shuffle(order.begin(), order.end(), random);
      for (const int stage : order) {
        if (stage == culprit) continue;
        const int from = stage < culprit ? stage + 1 : stage - 1;
        watch.note(stalled(stage, fmt::format("recv.{}", from), {from}), kSecond);
      }
      const auto verdict = watch.judge(5 * kSecond);
      QVERIFY(verdict);
      QCOMPARE(verdict->ranks, std::vector{culprit});
    }
  }

  // Stages on devices exchange messages in both directions together: each waits for both
  // neighbours.
  void theChainIsFollowedAmongOtherWaits() {
    std::minstd_rand random(7);
    for (int round = 0; round < 500; ++round) {
      const int stages = 3 + static_cast<int>(random() % 5);
      const int culprit = static_cast<int>(random() % static_cast<unsigned>(stages));
      HangWatch watch = trained();
      for (int stage = 0; stage < stages; ++stage) {
        std::vector<int> neighbours;
        for (const int other : {stage - 1, stage + 1})
          if (other >= 0 && other < stages) neighbours.push_back(other);
        std::shuffle(neighbours.begin(), neighbours.end(), random);
        if (stage == culprit) neighbours.clear();
        watch.note(stalled(stage, fmt::format("recv.{}", stage), neighbours), kSecond);
      }
      const auto verdict = watch.judge(5 * kSecond);
      QVERIFY(verdict);
      QCOMPARE(verdict->ranks, std::vector{culprit});
    }
  }

  void ranksThatAreAllThereWaitForEachOther() {
    HangWatch watch = trained();
    for (const int rank : {2, 0, 1}) watch.note(stalled(rank, "grads.1", upTo(3)), kSecond);
    const auto verdict = watch.judge(5 * kSecond);
    QVERIFY(verdict);
    QCOMPARE(verdict->ranks, upTo(3));
    QCOMPARE(verdict->warning.what.text(), std::string("ranks 0, 1, 2 wait for each other"));
    QVERIFY(!verdict->certain && verdict->warning.rank < 0);
    // Two wait in the communicator; the third is in something else within its collective.
    const std::vector<std::string> waits{
        "thread 7 lockstep-agent, S (sleeping)",
        "  __poll (libc.so.6)",
        "  lockstep::comm::GlooCommunicator::transfer() (gloo.cc:323)",
        "  lockstep::runtime::Executor::run (executor.cc:181)",
        "thread 8 lockstep-agent, S (sleeping)",
        "  epoll_pwait (libc.so.6)",
        "  uv_run (libuv.so.1)",
        "  gloo::transport::uv::Loop::run() (libgloo.so)"};
    std::vector<std::string> hangs = waits;
    hangs.insert(hangs.begin() + 1, {"  ioctl (libc.so.6)", "  driverWait (libdriver.so)"});
    std::vector<std::string> spins = waits;
    spins[1] = "  std::atomic<int>::load (atomic:5)";
    spins.insert(
        spins.begin() + 2,
        "  lockstep::Status lockstep::comm::(anonymous namespace)::await<long>(long) (a.h:3)");
    const auto named = watch.refine(*verdict, {{0, waits}, {1, spins}, {2, hangs}});
    QVERIFY(named.certain);
    QCOMPARE(named.ranks, std::vector{2});
    QCOMPARE(named.warning.rank, 2);
    QVERIFY(named.warning.why.text().find("driverWait (libdriver.so)") != std::string::npos);
    // So it is where a thread that carries the messages hangs.
    std::vector<std::string> carrier = waits;
    carrier.insert(carrier.end(),
                   {"thread 9 lockstep-agent, S (sleeping)", "  pause (libc.so.6)",
                    "  hangHere (hang.cc:7)", "  gloo::transport::uv::Loop::run() (libgloo.so)"});
    const auto carried = watch.refine(*verdict, {{0, carrier}, {1, waits}, {2, waits}});
    QVERIFY(carried.certain);
    QCOMPARE(carried.ranks, std::vector{0});
    // So it is where it hangs before or after the communicator's part of the collective, while
    // another was seen as it looked at the clock and one writes a checkpoint.
    std::vector<std::string> beside = waits;
    beside.erase(beside.begin() + 1, beside.begin() + 3);
    beside.insert(beside.begin() + 1, {"  pause (libc.so.6)", "  hangHere (hang.cc:7)"});
    std::vector<std::string> clock = waits;
    clock.insert(clock.begin() + 1, "  lockstep::monotonicNow() (clock.cc:9)");
    std::vector<std::string> writes = waits;
    writes.insert(writes.end(), {"thread 9 checkpoint, D (disk sleep)", "  pwrite64 (libc.so.6)",
                                 "  lockstep::File::write(long) (file.cc:40)",
                                 "  lockstep::runtime::CheckpointWriter::work() (writer.cc:3)"});
    const auto outside = watch.refine(*verdict, {{0, clock}, {1, beside}, {2, writes}});
    QVERIFY(outside.certain);
    QCOMPARE(outside.ranks, std::vector{1});
    // Not one that waits for its device, whose stack names that as its place otherwise.
    std::vector<std::string> device = beside;
    device[1] = "  cuStreamSynchronize (libcuda.so.1)";
    device[2] = "  lockstep::device::CudaDevice::await() (device.cc:7)";
    QVERIFY(!watch.refine(*verdict, {{0, waits}, {1, device}, {2, waits}}).certain);
    // Nor one beside stacks that could not be read.
    QVERIFY(!watch.refine(*verdict, {{0, {"cannot read"}}, {1, beside}}).certain);
    // All do so, or none, or there are none: undecided.
    QVERIFY(!watch.refine(*verdict, {{0, hangs}, {1, hangs}, {2, hangs}}).certain);
    QVERIFY(!watch.refine(*verdict, {{0, waits}, {1, waits}, {2, waits}}).certain);
    QVERIFY(!watch.refine(*verdict, {}).certain);
    QVERIFY(!watch.refine(*verdict, {{9, hangs}, {0, waits}, {1, {"cannot read"}}}).certain);
  }

  // One that is named by who waits for whom: its stack says where it is.
  void theStackSaysWhereTheRankIs() {
    HangWatch watch = trained();
    watch.note(stalled(0, "grads.1", upTo(2)), kSecond);
    watch.note(stalled(1, "", {}), kSecond);
    const auto verdict = watch.judge(5 * kSecond);
    QVERIFY(verdict && verdict->certain);
    const std::vector<std::string> other{"thread 8 lockstep-agent, S (sleeping)",
                                         "  lockstep::agent::Loop::run (loop.cc:9)"};
    std::vector<std::string> reads = other;
    reads.insert(reads.end(), {"thread 7 lockstep-agent, D (disk sleep)", "  pread64 (libc.so.6)",
                               "  lockstep::data::read (file.cc:40)",
                               "  lockstep::runtime::Trainer::run (trainer.cc:90)"});
    const auto refined = watch.refine(*verdict, {{1, reads}});
    QCOMPARE(refined.ranks, std::vector{1});
    const std::string why = refined.warning.why.text();
    QVERIFY2(why.ends_with("; rank 1 is in lockstep::data::read (file.cc:40)"), why.c_str());
    for (const auto& lines : {other, std::vector<std::string>{}, {"cannot read"}})
      QCOMPARE(watch.refine(*verdict, {{1, lines}}).warning.why.text(),
               verdict->warning.why.text());
  }

  void aCircleOfWaitsIsFound() {
    HangWatch watch = trained();
    watch.note(stalled(3, "a", {0}), 0);
    watch.note(stalled(0, "b", {1}), kSecond);
    watch.note(stalled(1, "c", {2}), kSecond);
    watch.note(stalled(2, "d", {0}), kSecond);
    const auto verdict = watch.judge(5 * kSecond);
    QVERIFY(verdict && !verdict->certain);
    QCOMPARE(verdict->ranks, upTo(4));
  }

  // Also one that names ranks which do not exist, or itself.
  void whateverRanksSayThereIsAVerdictAndAnEnd() {
    std::minstd_rand random(11);
    for (int round = 0; round < 2000; ++round) {
      HangWatch watch = trained();
      const int world = 1 + static_cast<int>(random() % 6);
      for (int i = 0; i < world; ++i) {
        std::vector<int> awaits;
        for (unsigned n = random() % 4; n > 0; --n)
          awaits.push_back(static_cast<int>(random() % 9) - 1);
        node::v1::Stalled one = stalled(i, fmt::format("c{}", random() % 3), awaits);
        if (random() % 8 == 0) one.add_awaits(i);
        watch.note(one, kSecond);
      }
      if (const auto verdict = watch.judge(9 * kSecond)) QVERIFY(!verdict->ranks.empty());
    }
  }

  void aHangIsToldOnceAndAgainAfterItMoved() {
    HangWatch watch = trained();
    const auto hang = [&](Nanoseconds now) {
      watch.note(stalled(0, "grads.1", upTo(2)), now);
      return watch.judge(now + 5 * kSecond);
    };
    QVERIFY(hang(kSecond) && watch.hangs());
    QVERIFY(!watch.judge(60 * kSecond));
    watch.note(moves(7), 61 * kSecond);
    QVERIFY(watch.hangs());
    watch.note(moves(0), 61 * kSecond);  // what it waited for has come
    QVERIFY(!watch.hangs());
    QVERIFY(!watch.judge(80 * kSecond));
    QVERIFY(hang(90 * kSecond));
    watch.clear();
    QVERIFY(!watch.judge(200 * kSecond));
  }

  // A process that was stopped tells nothing, not even that it goes on.
  void theNextHangIsToldAfterOneOfAStoppedProcess() {
    HangWatch watch = trained();
    for (int hang = 1; hang <= 3; ++hang) {
      const Nanoseconds begin = hang * 100 * kSecond;
      for (const int rank : {0, 2}) watch.note(stalled(rank, "grads.1", upTo(3)), begin);
      const auto verdict = watch.judge(begin + 5 * kSecond);
      QVERIFY(verdict);
      QCOMPARE(verdict->ranks, std::vector{1});
      QVERIFY(!watch.judge(begin + 6 * kSecond));
      QVERIFY(watch.hangs());
      for (const int rank : {2, 0}) watch.note(moves(rank), begin + 7 * kSecond);
      QVERIFY(!watch.hangs());
      watch.noteStep(7 * kSecond);
      QCOMPARE(watch.limit(), specs::kHang.least);
    }
  }

  // Among those that a rank waits for, one that reports where it stands comes before one that has
  // told nothing: it may have arrived just now.
  void theRankThatReportsAStallIsNamedFirst() {
    HangWatch watch = trained();
    watch.note(stalled(2, "grads.1", upTo(4)), kSecond);
    watch.note(stalled(3, "dense2.matmul", {}), kSecond);
    const auto verdict = watch.judge(5 * kSecond);
    QVERIFY(verdict);
    QCOMPARE(verdict->ranks, std::vector{3});
  }

  // What a node told before its connection broke may be outdated.
  void whatIsForgottenIsNotJudged() {
    HangWatch watch = trained();
    watch.note(stalled(0, "grads.1", upTo(2)), kSecond);
    watch.forget(0);
    QVERIFY(!watch.judge(90 * kSecond));
  }

  // Slow steps are no hang: the limit is a multiple of the median. Nor is a long first step.
  void theLimitFollowsTheSteps() {
    HangWatch watch;
    QCOMPARE(watch.limit(), HangWatch::kFirst);
    watch.noteStep(50 * kSecond);
    QCOMPARE(watch.limit(), HangWatch::kFirst);
    for (const int seconds : {3, 2, 3}) watch.noteStep(seconds * kSecond);
    QCOMPARE(watch.limit(), specs::kHang.times * 3 * kSecond);
    watch.note(stalled(0, "grads.1", upTo(2)), kSecond);
    QVERIFY(!watch.judge(29 * kSecond));
    QVERIFY(watch.judge(31 * kSecond));
  }

  // The worker's side: a second without a change is a stall, unless the process did not run.
  void aStallIsToldWithItsPlace() {
    plan::Plan plan;
    plan.mesh = cluster::Mesh({{"data", 3}});
    plan::Step compute, collective;
    compute.name = "dense1.matmul";
    compute.op = ir::Op::kMatmul;
    collective.name = "grads.0";
    collective.kind = plan::StepKind::kCollective;
    collective.op = ir::Op::kAllReduce;
    collective.axis = "data";
    runtime::Activity activity;
    agent::StallWatch watch(&activity, &plan, 1);
    QVERIFY(!watch.look(100 * kSecond, 0));  // it has not begun
    activity.enter(runtime::Activity::kTraining, compute, 7);
    QVERIFY(!watch.look(101 * kSecond, 0));
    QVERIFY(!watch.look(103 * kSecond, 2 * kSecond));  // frozen
    auto news = watch.look(104 * kSecond, 0);
    QVERIFY(news);
    QCOMPARE(news->rank(), 1);
    QCOMPARE(news->name(), std::string("dense1.matmul"));
    QCOMPARE(news->step(), std::int64_t{7});
    QCOMPARE(news->awaits_size(), 0);
    QVERIFY(!watch.look(110 * kSecond, 0));
    // The asynchronous collective that is under way, while the training waits for a later one.
    plan::Step later = collective;
    later.name = "grads.1";
    later.stream = plan::kComputeStream + 1;
    activity.enter(runtime::Activity::kCommunication, collective, 0);
    activity.enter(runtime::Activity::kTraining, later, 7);
    activity.beginCollective();
    news = watch.look(111 * kSecond, 0);
    QVERIFY(news && news->moves());
    news = watch.look(113 * kSecond, 0);
    QVERIFY(news);
    QCOMPARE(news->name(), std::string("grads.0"));
    QCOMPARE(std::vector(news->awaits().begin(), news->awaits().end()), (std::vector{0, 2}));
    QCOMPARE(news->collective(), std::uint64_t{1});
    // It has completed, and the training does not go on.
    activity.leave(runtime::Activity::kCommunication);
    QVERIFY(watch.look(114 * kSecond, 0)->moves());
    news = watch.look(116 * kSecond, 0);
    QVERIFY(news && news->awaits().empty());
    QCOMPARE(news->name(), std::string("grads.1"));
    activity.leave(runtime::Activity::kTraining);
    QVERIFY(watch.look(117 * kSecond, 0)->moves());
    news = watch.look(119 * kSecond, 0);
    QVERIFY(news && news->name().empty() && news->awaits().empty());
    QVERIFY(!agent::StallWatch().look(200 * kSecond, 0));
  }
};

QTEST_GUILESS_MAIN(HangWatchTest)
#include "hang_watch_test.moc"
