// The cause of slowness, by made-up figures of a run whose nodes each have one rank: the right rank
// and the right cause within so many steps, and no rank of a healthy run.
#include <QTest>
#include <algorithm>
#include <random>

#include "app/runs/run_aggregator.h"
#include "tests/app/runs/made_up_records.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::app::test;

namespace {

constexpr int kHealthySteps = 30, kWithinSteps = 20, kSpares = 2;
constexpr double kSampleSeconds = 0.25, kStep = 0.05, kTransfer = 0.002, kClock = 1980;

std::string nameOf(int rank) { return "n" + std::to_string(rank + 1); }

// What is planted in a rank, and what its figures say of it.
struct Planted {
  double data = 0;        // seconds
  double work = 1;        // factor
  double reading = 0;     // seconds
  double diskBusy = 0;    // 0…1; 0: as the others'
  double othersBusy = 0;  // likewise, of the other nodes that have ranks; 0: seldom
  double elements = 1;    // factor
  double clock = 1;       // likewise
  double clockMax = kClock;
  double utilisation = 0.9;
};

// Own ranks say how long they wait for files; of a program it is known how much data it takes.
enum class Kind { kOwn, kProgram };

class Run {
 public:
  Run(int world, unsigned seed, Kind kind)
      : world_(world), random_(seed), kind_(kind), book_(rowOf(world), nodes(world + kSpares)) {}

  void plant(int rank, const Planted& planted) {
    victim_ = rank;
    planted_ = planted;
  }
  // A step passes. Returns the straggler that is named then.
  std::optional<Straggler> pass() {
    ++step_;
    std::vector<run::v1::Record> records;
    double longest = 0;
    for (int rank = 0; rank < world_; ++rank) {
      records.push_back(stepOf(rank));
      const auto& chunk = records.back().steps();
      longest = std::max(longest, static_cast<double>(chunk.arrival_ns(0)) * 1e-9);
    }
    for (int rank = 0; rank < world_; ++rank) {
      auto& chunk = *records[static_cast<std::size_t>(rank)].mutable_steps();
      const double own = static_cast<double>(chunk.arrival_ns(0)) * 1e-9;
      chunk.add_communication(static_cast<float>(longest - own + kTransfer));
      chunk.add_duration_ns(ns(longest + kTransfer));
      book_.add(nameOf(rank), records[static_cast<std::size_t>(rank)]);
    }
    now_ += longest + kTransfer;
    for (; sampled_ + kSampleSeconds <= now_; sampled_ += kSampleSeconds) {
      for (int rank = 0; rank < world_; ++rank) book_.add(nameOf(rank), sampleOf(rank));
      for (int i = 0; i < kSpares; ++i) book_.add(nameOf(world_ + i), sampleOfSpare());
    }
    return book_.take().update.slow;
  }
  int upTo(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  double between(double from, double to) {
    return std::uniform_real_distribution<>(from, to)(random_);
  }

 private:
  static std::vector<RunAggregator::NodeCursor> nodes(int count) {
    std::vector<RunAggregator::NodeCursor> out;
    for (int i = 0; i < count; ++i) out.push_back({nameOf(i), 0});
    return out;
  }
  static std::int64_t ns(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }
  Planted of(int rank) const { return rank == victim_ ? planted_ : Planted{}; }

  run::v1::Record stepOf(int rank) {
    const Planted planted = of(rank);
    run::v1::Record record;
    record.set_sequence(++sequence_);
    auto& chunk = *record.mutable_steps();
    chunk.set_rank(rank);
    chunk.set_first_step(step_);
    const double rows = between(0.9, 1.1);  // of each batch its own number
    const double work = kStep * rows * planted.work * between(0.97, 1.03);
    const double data = 5e-4 + planted.data;
    chunk.add_begin_ns(ns(now_));
    chunk.add_data(static_cast<float>(data));
    chunk.add_forward(static_cast<float>(0.35 * work));
    chunk.add_backward(static_cast<float>(0.65 * work));
    chunk.add_optimizer(0);
    chunk.add_arrival_ns(ns(data + work));
    if (kind_ == Kind::kProgram) {
      chunk.set_generation(1);
      chunk.add_elements(static_cast<float>(8192 * rows * planted.elements));
    } else if (const double reading = planted.reading + between(0, 2e-3); reading > 1e-4) {
      chunk.add_reading(static_cast<float>(reading));
    }
    return record;
  }
  run::v1::Record sampleOf(int rank) {
    const Planted planted = of(rank);
    run::v1::RankSample one = rankSample(rank, false, 0.02, 0);
    one.set_gpu(0);
    run::v1::Record record = sampleRecord(++sequence_, sampled_ + kSampleSeconds, {one});
    auto& sample = *record.mutable_node_sample();
    const double busy = planted.diskBusy > 0 ? planted.diskBusy : planted_.othersBusy;
    sample.set_disk_busy(busy > 0 ? busy : between(0.01, 0.3));
    auto& gpu = *sample.add_gpu();
    gpu.set_throttle_known(true);
    gpu.set_utilisation(planted.utilisation);
    gpu.set_sm_clock_mhz(kClock * planted.clock * between(0.98, 1.02));
    gpu.set_sm_clock_max_mhz(planted.clockMax);
    return record;
  }
  run::v1::Record sampleOfSpare() {
    run::v1::Record record = sampleRecord(++sequence_, sampled_ + kSampleSeconds, {});
    record.mutable_node_sample()->set_disk_busy(0);
    return record;
  }

  const int world_;
  std::minstd_rand random_;
  const Kind kind_;
  RunAggregator book_;
  int victim_ = -1;
  Planted planted_;
  std::int64_t step_ = 0;
  std::uint64_t sequence_ = 0;  // of all nodes: each has its own in ascending order
  double now_ = 0, sampled_ = 0;
};

Planted plantedOf(const QString& kind, Run& run) {
  Planted out;
  if (kind == "disk") {
    out.reading = run.between(0.1, 0.3);
    out.data = out.reading - kStep;  // what is read beside a step does not delay it
  } else if (kind == "disk of a program") {
    out.data = run.between(0.06, 0.2);
    out.diskBusy = run.between(0.8, 1);
  } else if (kind == "disk that others use") {
    out.data = run.between(0.06, 0.2);
    out.diskBusy = run.between(0.8, 1);
  } else if (kind == "all disks are busy") {
    out.data = run.between(0.06, 0.2);
    out.diskBusy = run.between(0.8, 1);
    out.othersBusy = run.between(0.6, 0.8);
  } else if (kind == "a little more data from a disk") {
    out.elements = run.between(1.25, 1.3);
    out.data = run.between(0.1, 0.2);
    out.diskBusy = run.between(0.8, 1);
  } else if (kind == "clock, beside a busy disk") {
    out.clock = run.between(0.4, 0.55);
    out.data = kStep * (1 / out.clock - 1);
    out.diskBusy = run.between(0.8, 1);
  } else if (kind == "clock, with more data") {
    out.clock = run.between(0.4, 0.55);
    out.elements = out.work = run.between(1.8, 2.5);
  } else if (kind == "another model's clock") {
    out.clock = out.clockMax = run.between(0.5, 0.7);
    out.clockMax *= kClock;
    out.work = run.between(2, 3);
  } else if (kind == "clock of an idle GPU") {
    out.clock = run.between(0.3, 0.5);
    out.utilisation = run.between(0.1, 0.4);
    out.work = run.between(2, 3);
  } else if (kind == "more data") {
    out.elements = run.between(1.8, 2.5);
    out.work = out.elements * run.between(1, out.elements);  // up to its square
  } else if (kind == "clock") {
    out.clock = run.between(0.4, 0.55);
    out.work = 1 / out.clock;
  } else if (kind == "waits for no disk") {
    out.data = run.between(0.06, 0.2);
  } else if (kind == "little more data") {
    out.elements = run.between(1, 1.1);
    out.work = run.between(2, 3);
  } else if (kind == "more data, and slower than that") {
    out.elements = run.between(1.25, 1.35);
    out.work = run.between(4, 5);
  } else if (kind == "clock nearly as the others'") {
    out.clock = run.between(0.92, 0.99);
    out.work = run.between(2, 3);
  }
  return out;
}

}  // namespace

class SlowCausesTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void theCauseIsNamed_data() {
    QTest::addColumn<Kind>("of");
    QTest::addColumn<int>("cause");
    QTest::addColumn<QString>("words");
    const auto row = [](const char* kind, Kind of, SlowCause cause, const char* words) {
      QTest::newRow(kind) << of << static_cast<int>(cause) << words;
    };
    row("disk", Kind::kOwn, SlowCause::kDisk, "ms a step for its data files, the others ");
    row("disk of a program", Kind::kProgram, SlowCause::kDisk, "its node's disk was busy ");
    row("more data", Kind::kProgram, SlowCause::kMoreData, "its batches had ");
    row("clock", Kind::kOwn, SlowCause::kGpuClock, " MHz, the others' at ");
    // Several figures are the rank's own.
    row("a little more data from a disk", Kind::kProgram, SlowCause::kDisk, "disk was busy ");
    row("clock, beside a busy disk", Kind::kProgram, SlowCause::kGpuClock, " MHz, the others' at ");
    row("clock, with more data", Kind::kProgram, SlowCause::kGpuClock, " MHz, the others' at ");
    // The neighbourhood: slow for another reason.
    const auto none = [&](const char* kind, Kind of) {
      row(kind, of, SlowCause::kUnknown, "it had 0.50 cores");
    };
    none("waits for no disk", Kind::kOwn);
    none("disk that others use", Kind::kOwn);
    none("all disks are busy", Kind::kProgram);
    none("little more data", Kind::kProgram);
    none("more data, and slower than that", Kind::kProgram);
    none("clock nearly as the others'", Kind::kOwn);
    none("another model's clock", Kind::kOwn);
    none("clock of an idle GPU", Kind::kOwn);
  }

  void theCauseIsNamed() {
    QFETCH(Kind, of);
    QFETCH(int, cause);
    QFETCH(QString, words);
    const QString kind = QTest::currentDataTag();
    for (unsigned seed = 1; seed <= 60; ++seed) {
      Run run(2 + static_cast<int>(seed % 4), seed, of);
      for (int i = 0; i < kHealthySteps; ++i) QVERIFY(!run.pass());
      const int victim = run.upTo(2 + static_cast<int>(seed % 4));
      run.plant(victim, plantedOf(kind, run));
      std::optional<Straggler> slow;
      for (int i = 0; i < kWithinSteps; ++i) {
        slow = run.pass();
        QVERIFY2(!slow || slow->rank == victim, qPrintable(QString("seed %1").arg(seed)));
      }
      // Named by then, and with this cause from then on.
      for (int i = 0; i < 40; ++i) {
        QVERIFY2(slow.has_value(), qPrintable(QString("seed %1, step %2").arg(seed).arg(i)));
        const QString text = QString::fromStdString(stragglerText(*slow));
        const QString where = QString("seed %1, step %2: %3").arg(seed).arg(i).arg(text);
        QVERIFY2(slow->rank == victim, qPrintable(where));
        QVERIFY2(static_cast<int>(slow->evidence.cause) == cause, qPrintable(where));
        QVERIFY2(text.contains(words), qPrintable(where));
        slow = run.pass();
      }
    }
  }

  void noRankOfAHealthyRunIsNamed() {
    for (unsigned seed = 1; seed <= 40; ++seed) {
      Run run(2 + static_cast<int>(seed % 4), seed, seed % 2 == 0 ? Kind::kOwn : Kind::kProgram);
      for (int i = 0; i < 400; ++i)
        QVERIFY2(!run.pass(), qPrintable(QString("seed %1, step %2").arg(seed).arg(i)));
    }
  }
};

QTEST_GUILESS_MAIN(SlowCausesTest)
#include "slow_causes_test.moc"
