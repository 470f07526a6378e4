// Hangs of ranks on devices, played on emulated ones: which rank is named, and where it stands.
#include <QTest>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "agent/supervisor/hang_watch.h"
#include "agent/worker/stall_watch.h"
#include "engine/backends/cuda.h"
#include "engine/runtime/device_groups.h"
#include "engine/specs/run_limits.h"
#include "tests/support/communicator_groups.h"
#include "tests/support/emulated_device.h"
#include "tests/support/engine_run.h"

using namespace lockstep;
using agent::HangWatch;

namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kStalled = 3 * kSecond / 2;
constexpr Nanoseconds kLimit = 60 * kSecond;

// Holds those who come until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    holds_ = true;
    changed_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool holds() const {
    const std::lock_guard lock(mutex_);
    return holds_ && !open_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool holds_ = false, open_ = false;
};

// Where a rank hangs: in a kernel, between two steps, in reading samples, in an exchange; `after`
// so many of these.
struct Hang {
  enum Where : int { kKernel, kStep, kSamples, kExchange, kNowhere };
  Where where = kNowhere;
  int rank = 0;
  int after = 0;
};

bool startsWithOneOf(const std::string& call, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view one) { return call.starts_with(one); });
}
bool isKernel(const std::string& call) { return startsWithOneOf(call, {"launch", "product"}); }
bool isExchange(const std::string& call) {
  return startsWithOneOf(call, {"all-", "reduce-scatter", "broadcast", "send", "receive"});
}

// A training with its ranks as threads, each with an emulated device. One of them hangs.
class Training {
 public:
  Training(const test::RunSettings& settings, bool byDevices, Hang hang)
      : settings_(settings),
        plan_(test::planOf(settings).value()),
        byDevices_(byDevices),
        hang_(hang),
        local_(runtime::LocalGroups::make(plan_.mesh, kLimit).value()),
        ranks_(static_cast<std::size_t>(settings.ranks)) {
    for (int rank = 0; rank < settings.ranks; ++rank) {
      Rank& mine = ranks_[static_cast<std::size_t>(rank)];
      mine.groups = local_.of(rank);
      mine.stalls = agent::StallWatch(&mine.groups.activity(), &plan_, rank);
    }
  }
  ~Training() { end(); }

  // On the thread of rank 0's device, before each exchange. Call before start().
  std::function<void()> onExchange;

  void start() {
    for (int rank = 0; rank < settings_.ranks; ++rank)
      threads_.emplace_back([this, rank] { train(rank); });
  }
  // Waits until a rank hangs and all others wait.
  bool settles() {
    const Nanoseconds until = monotonicNow() + kLimit / 2;
    for (std::vector<std::uint64_t> seen; monotonicNow() < until;) {
      std::vector<std::uint64_t> now;
      bool allWait = gate_.holds();
      for (int rank = 0; rank < settings_.ranks; ++rank) {
        const auto at = of(rank).groups.activity().position();
        allWait = allWait && (at.waits || rank == hang_.rank);
        now.push_back(at.changes);
      }
      if (allWait && now == seen) return true;
      seen = std::move(now);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }
  // What each rank tells where it has stood still for kStalled.
  void tell(HangWatch& to) {
    for (Rank& rank : ranks_) {
      if (!rank.told) {
        (void)rank.stalls.look(0, 0);
        rank.told = rank.stalls.look(kStalled, 0);
      }
      if (rank.told) to.note(*rank.told, kStalled);
    }
  }
  // Ends the hang and the training. Returns the first error; "" if there is none.
  std::string end() {
    gate_.open();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    for (const Rank& rank : ranks_)
      if (!rank.result.ok()) return rank.result.error().text();
    return {};
  }
  bool allMove() {
    return std::all_of(ranks_.begin(), ranks_.end(), [](Rank& rank) {
      const auto news = rank.stalls.look(2 * kSecond, 0);
      return news && news->moves();
    });
  }

  struct Rank {
    runtime::Groups groups;
    agent::StallWatch stalls;
    std::optional<node::v1::Stalled> told;
    Status result;
    std::atomic<std::int64_t> steps{0};
    // of the device's thread; read while it stands still
    bool isReady = false;
    int passed = 0;        // kernels or exchanges
    std::string exchange;  // the last one of the run under way
    std::atomic<int> reads{0};
  };
  Rank& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const plan::Plan& plan() const { return plan_; }
  int size() const { return settings_.ranks; }

 private:
  struct Observer : runtime::TrainerObserver {
    Training& training;
    const int rank;
    Observer(Training& of, int its) : training(of), rank(its) {}
    void onReady(std::int64_t) override { training.of(rank).isReady = true; }
    void onStep(const runtime::StepRecord& record) override { training.onStep(rank, record.step); }
    void onEvents(const std::vector<plan::Event>&) override {}
    void onEpoch(const runtime::EpochRecord&) override {}
    void onCheckpoint(std::int64_t, const std::string&) override {}
  };
  struct Samples : data::Dataset {
    const data::Dataset& from;
    Training& training;
    const int rank;
    Samples(const data::Dataset& dataset, Training& of, int its)
        : from(dataset), training(of), rank(its) {}
    std::int64_t size() const override { return from.size(); }
    const std::vector<data::Field>& fields() const override { return from.fields(); }
    void read(std::int64_t index, std::size_t field, std::byte* out) const override {
      training.onRead(rank);
      from.read(index, field, out);
    }
  };

  void train(int rank) {
    Rank& mine = of(rank);
    auto device = testing::makeEmulatedDevice();
    device->rendezvous = byDevices_ ? &rendezvous_ : nullptr;
    device->onWork = [this, rank](const std::string& call) { onWork(rank, call); };
    const auto backend = backends::makeCuda(std::move(device));
    runtime::DeviceGroups devices;
    runtime::Groups groups = mine.groups;
    if (byDevices_) {
      devices = runtime::DeviceGroups::form(plan_.mesh, *backend->device(), store_,
                                            {.rank = rank, .prefix = "hang", .limit = kLimit})
                    .value();
      devices.addTo(groups);
    }
    const models::Model& model = settings_.model;
    const test::SyntheticImages images(settings_.samples);
    const test::SyntheticText text(settings_.samples, model.input[0], model.vocabulary);
    const data::Dataset& synthetic =
        model.vocabulary > 0 ? static_cast<const data::Dataset&>(text) : images;
    const Samples samples(synthetic, *this, rank);
    Observer observer(*this, rank);
    mine.result = runtime::train(plan_, rank, settings_.trainer, samples, synthetic, *backend,
                                 groups, stop_, observer)
                      .status();
    if (!mine.result.ok()) local_.abort(rank);
  }
  void onStep(int rank, std::int64_t step) {
    of(rank).steps = step;
    const bool isHang = hang_.where == Hang::kStep && rank == hang_.rank;
    if (isHang && step == 1 + hang_.after % 3) gate_.pass();
  }
  void onRead(int rank) {
    const bool isHang = hang_.where == Hang::kSamples && rank == hang_.rank;
    if (isHang && of(rank).reads++ == hang_.after) gate_.pass();
  }
  void onWork(int rank, const std::string& call) {
    Rank& mine = of(rank);
    if (!mine.isReady) return;
    if (call == "replay") mine.exchange.clear();
    if (isExchange(call)) mine.exchange = call;
    if (rank == 0 && isExchange(call) && onExchange) onExchange();
    if (rank != hang_.rank) return;
    const bool counts = hang_.where == Hang::kKernel
                            ? isKernel(call)
                            : hang_.where == Hang::kExchange && isExchange(call);
    if (counts && mine.passed++ == hang_.after) gate_.pass();
  }

  const test::RunSettings settings_;
  const plan::Plan plan_;
  const bool byDevices_;
  const Hang hang_;
  testing::EmulatedRendezvous rendezvous_;
  tests::MemoryStore store_;
  runtime::LocalGroups local_;
  std::atomic<bool> stop_{false};
  std::deque<Rank> ranks_;
  Gate gate_;
  std::vector<std::thread> threads_;
};

// A run that has made steps of this length.
HangWatch trained(Nanoseconds step) {
  HangWatch out;
  for (int i = 0; i < 5; ++i) out.noteStep(step);
  return out;
}

// Whether a call of a device is one of the collectives or messages that the rank may tell so.
bool isCallOf(const plan::Plan& plan, const node::v1::Stalled& told, const std::string& call) {
  for (const plan::ScheduleEntry& entry : plan.entriesOf(told.rank())) {
    const plan::Body& body = *plan.find(entry.program, told.rank());
    for (const plan::Step& step : body.steps) {
      if (step.name != told.name() || ir::info(step.op).name != told.op()) continue;
      const std::int64_t bytes = plan::payload(body, step).bytes();
      const std::string said = step.op == ir::Op::kRecv   ? fmt::format("receive {} from", bytes)
                               : step.op == ir::Op::kSend ? fmt::format("send {} to", bytes)
                               : step.op == ir::Op::kAllReduce ? fmt::format("all-reduce {}", bytes)
                                                               : fmt::format("{} ", told.op());
      if (call.find(said) != std::string::npos) return true;
    }
  }
  return false;
}

// Whether what a rank computes follows its last exchange, and ends where the next begins.
bool isBetweenExchanges(const plan::Plan& plan, const node::v1::Stalled& told,
                        const std::string& lastExchange) {
  const std::vector<plan::Step>& steps = plan.find("step", told.rank())->steps;
  const auto named = [&](const std::string& name) {
    return std::find_if(steps.begin(), steps.end(),
                        [&](const plan::Step& step) { return step.name == name; });
  };
  const auto isCollective = [](const plan::Step& step) {
    return step.kind == plan::StepKind::kCollective;
  };
  const auto first = named(told.name());
  const auto last = told.last().empty() ? first : named(told.last());
  if (first == steps.end() || last == steps.end() || last < first) return false;
  if (std::any_of(first, last + 1, isCollective)) return false;
  if (last + 1 != steps.end() && !isCollective(*(last + 1))) return false;
  if (first == steps.begin()) return lastExchange.empty();
  node::v1::Stalled before = told;
  before.set_name((first - 1)->name);
  before.set_op(std::string(ir::info((first - 1)->op).name));
  return isCollective(*(first - 1)) && isCallOf(plan, before, lastExchange);
}

test::RunSettings settingsOf(const QString& strategy, int ranks, const QString& overlap) {
  test::RunSettings out;
  const bool isPipeline = strategy == "pipeline";
  out.model = isPipeline ? test::smallGpt() : test::fashionMlp();
  out.strategy = strategy.toStdString();
  out.ranks = ranks;
  out.batch = 12;
  out.compute = DType::kF32;
  out.overlap = overlap.toStdString();
  out.bucketBytes = 1 << 12;
  if (isPipeline) {
    out.stages = ranks;
    out.microBatches = 3;
    out.optimizer.clipNorm = 1;
  }
  out.trainer.maxSteps = 8;
  out.samples = out.batch * out.trainer.maxSteps;
  out.trainer.evaluate = false;
  return out;
}

}  // namespace

class DeviceHangTest : public QObject {
  Q_OBJECT

  static void checkWaiting(Training& training, bool byDevices, int hangs) {
    for (int rank = 0; rank < training.size(); ++rank) {
      const node::v1::Stalled& told = *training.of(rank).told;
      if (rank == hangs && told.awaits_size() == 0) continue;
      QVERIFY(told.awaits_size() > 0);
      if (byDevices)
        QVERIFY2(isCallOf(training.plan(), told, training.of(rank).exchange),
                 fmt::format("{} {} is not {}", told.op(), told.name(), training.of(rank).exchange)
                     .c_str());
      for (const int other : told.awaits()) {  // in one collective: of one number
        const node::v1::Stalled& its = *training.of(other).told;
        if (its.name() == told.name() && its.step() == told.step())
          QCOMPARE(its.collective(), told.collective());
      }
    }
  }
  static void checkHang(Training& training, Hang hang, bool isOrdered) {
    const node::v1::Stalled& told = *training.of(hang.rank).told;
    switch (hang.where) {
      case Hang::kKernel:
        QVERIFY(told.awaits_size() == 0 && !told.name().empty());
        QCOMPARE(told.step(), training.of(hang.rank).steps + 1);
        if (isOrdered)
          QVERIFY2(isBetweenExchanges(training.plan(), told, training.of(hang.rank).exchange),
                   fmt::format("{} to {} after {}", told.name(), told.last(),
                               training.of(hang.rank).exchange)
                       .c_str());
        return;
      case Hang::kExchange:
        QVERIFY(told.awaits_size() > 0);
        return;
      default:
        QVERIFY(told.awaits_size() == 0 && told.name().empty());
    }
  }

 private Q_SLOTS:
  void theRankThatHangsIsNamed_data() {
    QTest::addColumn<QString>("strategy");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<QString>("overlap");
    QTest::addColumn<bool>("byDevices");
    QTest::addColumn<int>("where");
    const std::array places{"kernel", "between steps", "samples", "exchange"};
    const auto add = [&](const char* strategy, int ranks, const char* overlap, bool byDevices) {
      for (int where = 0; where < (byDevices ? 4 : 3); ++where)
        QTest::addRow("%s, %d ranks, overlap %s%s, %s", strategy, ranks, overlap,
                      byDevices ? "" : ", through the host",
                      places[static_cast<std::size_t>(where)])
            << strategy << ranks << overlap << byDevices << where;
    };
    add("mirrored", 3, "never", true);
    add("mirrored", 2, "always", true);
    add("zero-3", 3, "never", true);
    add("pipeline", 4, "never", true);
    add("mirrored", 2, "never", false);
  }
  void theRankThatHangsIsNamed() {
    QFETCH(QString, strategy);
    QFETCH(int, ranks);
    QFETCH(QString, overlap);
    QFETCH(bool, byDevices);
    QFETCH(int, where);
    for (const unsigned seed : {1u, 2u}) {
      std::minstd_rand random(seed + 10 * static_cast<unsigned>(where));
      random.discard(8);
      const int any = static_cast<int>(random() % static_cast<unsigned>(ranks));
      // stages between the first and the last read no samples
      const bool reads = strategy == "pipeline" && where == Hang::kSamples;
      const int rank = !reads ? any : any % 2 == 0 ? 0 : ranks - 1;
      const bool inExchange = where == Hang::kExchange;
      const Hang hang{static_cast<Hang::Where>(where), rank,
                      static_cast<int>(random() % (inExchange ? 8u : 40u))};
      const std::string which = fmt::format("rank {} after {}", hang.rank, hang.after);
      Training training(settingsOf(strategy, ranks, overlap), byDevices, hang);
      training.start();
      QVERIFY2(training.settles(), which.c_str());
      HangWatch watch = trained(kSecond / 100), slow = trained(kSecond);
      training.tell(watch);
      training.tell(slow);
      checkWaiting(training, byDevices, hang.rank);
      checkHang(training, hang, strategy != "pipeline" && overlap == "never" && byDevices);
      if (QTest::currentTestFailed()) {
        qWarning("%s", which.c_str());
        return;
      }
      const auto verdict = watch.judge(kStalled + specs::kHang.least);
      QVERIFY2(verdict, which.c_str());
      QVERIFY2(!slow.judge(kStalled + specs::kHang.least), which.c_str());
      QCOMPARE(verdict->certain, !inExchange);
      if (inExchange)
        QVERIFY(std::count(verdict->ranks.begin(), verdict->ranks.end(), rank) == 1);
      else
        QCOMPARE(verdict->ranks, std::vector{rank});
      const node::v1::Stalled& waiting = *training.of(verdict->waiting).told;
      const std::string why = verdict->warning.why.text();
      QVERIFY2(why.find(fmt::format("{} {} of step {}", waiting.op(), waiting.name(),
                                    waiting.step())) != std::string::npos,
               why.c_str());
      QCOMPARE(training.end(), std::string());
      QVERIFY(training.allMove());
    }
  }

  // A step may take as long as it likes while the device goes from collective to collective.
  void progressIsNoStall() {
    Training training(settingsOf("mirrored", 2, "never"), true, {});
    Nanoseconds now = 0;
    int looks = 0, news = 0;
    training.onExchange = [&] {
      ++looks;
      if (training.of(0).stalls.look(now += kStalled, 0)) ++news;
    };
    training.start();
    QCOMPARE(training.end(), std::string());
    const std::vector<plan::Step>& steps = training.plan().find("step", 0)->steps;
    const auto collectives = std::count_if(steps.begin(), steps.end(), [](const plan::Step& step) {
      return step.kind == plan::StepKind::kCollective;
    });
    QVERIFY(collectives > 1);
    QCOMPARE(looks, static_cast<int>(8 * collectives));
    QCOMPARE(news, 0);
  }
};

QTEST_GUILESS_MAIN(DeviceHangTest)
#include "device_hang_test.moc"
