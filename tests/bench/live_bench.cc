// Measures a run of many GPUs from their driver to the window:
// lockstep_live_bench [--nodes 64] [--gpus 8] [--seconds 120] [--judge]
//
// A program that only waits runs on so many nodes of this machine: each has an agent and a
// supervisor, whose driver is a stand-in with so many GPUs. The supervisors sample ten times a
// second, of each GPU twelve values; the window receives them by the agents' streams, records them
// in its history, and shows their curves. Prints
// - the share of a core that the window's thread takes;
// - the growth of its memory per hour, over the second half of the time;
// - its longest frame: how long, how much of that it computed, and how much it waited for a core,
//   since all nodes share this machine's cores with it;
// - the bytes of the run's file for each value of it;
// - samples that the supervisors have spooled and that are not in the history, compared by the
//   power of each GPU, which the stand-in changes with every reading.
// With --judge it exits 1 if a figure misses its limit, and --seconds is 3600 unless given. For
// that the machine has to be idle. Needs the programs of this build beside it. Draws offscreen
// unless QT_QPA_PLATFORM says otherwise.
#include <sched.h>

#include <QAbstractEventDispatcher>
#include <QDir>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QFileInfo>
#include <QTabWidget>
#include <QTest>
#include <QTimer>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <utility>

#include "agent/supervisor/spool.h"
#include "tests/bench/judge.h"
#include "tests/bench/process_figures.h"
#include "tests/support/paths.h"
#include "tests/ui/studio_road.h"
#include "ui/studio/run_document.h"

using namespace lockstep;
using test::residentMegabytes;
using test::threadSeconds;

namespace {

constexpr const char* kMetrics[] = {
    "utilisation", "memory_utilisation", "memory",       "temperature",
    "power",       "sm_clock",           "memory_clock", "pcie_in",
    "pcie_out",    "nvlink_in",          "nvlink_out",   "throttled"};
constexpr int kHertz = 10;

struct Options {
  int nodes = 64, gpus = 8, seconds = 120;
};

// What a frame takes, in ms.
struct Frame {
  double wall = 0, processor = 0;
  double waiting = 0;  // for a core that others have
};

// Measures frames: the thread is busy from one wait for events to the next. Sums the time of each
// kind of event.
class BusyTimes : public QApplication {
 public:
  BusyTimes(int& argc, char** argv) : QApplication(argc, argv) {
    connect(QAbstractEventDispatcher::instance(), &QAbstractEventDispatcher::aboutToBlock, this,
            [this] { rests(); });
  }
  bool notify(QObject* receiver, QEvent* event) override {
    if (!wall_.isValid()) {
      wall_.start();
      began_ = {0, 1000 * threadSeconds(), waitedMs()};
    }
    if (std::exchange(nested_, true)) return QApplication::notify(receiver, event);
    // The receiver may be gone afterwards.
    const QString what =
        QString("%1 %2").arg(receiver->metaObject()->className()).arg(event->type());
    const qint64 before = wall_.nsecsElapsed();
    const bool done = QApplication::notify(receiver, event);
    nested_ = false;
    events_[what] += static_cast<double>(wall_.nsecsElapsed() - before) * 1e-6;
    return done;
  }
  void begin() {
    longest_ = {};
    mostProcessor_ = 0;
    above50_ = above50WithCore_ = 0;
    longestEvents_.clear();
  }
  const Frame& longest() const { return longest_; }
  double mostProcessor() const { return mostProcessor_; }  // ms, in any frame
  int above50() const { return above50_; }
  int above50WithCore() const { return above50WithCore_; }  // not counting what they waited for one
  // Of the longest time: its events, as class of the receiver and QEvent::Type, and their ms.
  const std::map<QString, double>& longestEvents() const { return longestEvents_; }

 private:
  // That the thread could have run and had no core.
  static double waitedMs() {
    std::ifstream file("/proc/thread-self/schedstat");
    double ran = 0, waited = 0;
    file >> ran >> waited;
    return waited * 1e-6;
  }

  void rests() {
    if (!wall_.isValid()) return;
    const Frame now{static_cast<double>(wall_.nsecsElapsed()) * 1e-6,
                    1000 * threadSeconds() - began_.processor, waitedMs() - began_.waiting};
    if (now.wall > longest_.wall) {
      longest_ = now;
      longestEvents_ = events_;
    }
    events_.clear();
    mostProcessor_ = std::max(mostProcessor_, now.processor);
    above50_ += now.wall > 50;
    above50WithCore_ += now.wall - now.waiting > 50;
    wall_.invalidate();
  }
  QElapsedTimer wall_;
  Frame began_, longest_;
  double mostProcessor_ = 0;
  int above50_ = 0, above50WithCore_ = 0;
  bool nested_ = false;
  std::map<QString, double> events_, longestEvents_;
};

// As a program does that waits for its events; QTest::qWait() looks for them now and then.
void waitFor(int ms) {
  QEventLoop loop;
  QTimer::singleShot(ms, &loop, &QEventLoop::quit);
  loop.exec();
}

}  // namespace

class LiveBench : public QObject {
  Q_OBJECT

 public:
  LiveBench(const Options& options, test::Judge& judge) : options_(options), judge_(judge) {}

 private Q_SLOTS:
  void cleanup() {
    if (!road_) return;
    road_->close();
    road_->endAgents();
    std::ofstream("/proc/self/autogroup") << 0;
  }

  void live() {
    road_ = std::make_unique<tests::StudioRoad>(home_.home());
    road_->open();
    road_->window()->resize(2560, 1600);
    const QString spec = home_.path("waits.yaml");
    QFile file(spec);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("version: 1\nworkload:\n  command: [sleep, \"100000\"]\n");
    file.close();
    QElapsedTimer timer;
    timer.start();
    road_->launchFile(spec, nullptr, options_.nodes);
    if (QTest::currentTestFailed()) return;
    std::printf("%d nodes: launched after %.1f s\n", options_.nodes,
                static_cast<double>(timer.elapsed()) * 1e-3);
    const auto* last = "node/local%1/gpu/%2/power";
    const QString name = QString(last).arg(options_.nodes).arg(options_.gpus - 1);
    QVERIFY(tests::wait(
        [&] { return road_->page()->document()->series(name.toStdString()) != nullptr; }));
    road_->page()->findChild<QTabWidget*>("runTabs")->setCurrentIndex(1);
    letNodesGiveWay();
    waitFor(2000);
    watch();
    const std::string run = road_->run().toStdString();
    road_->choose("menuRun", "actionStop");
    QVERIFY2(
        tests::wait([&] { return app::isFinal(road_->page()->document()->row().phase); }, 120'000),
        qPrintable(road_->page()->message()->details()));
    compare(home_.home(), run);
  }

 private:
  // They would be other machines: whenever the window has something to do, they wait. Processes of
  // different sessions share the cores by their sessions' weights (sched(7), autogroup): as far as
  // this user may, the nodes' are given the least, this one's the most until the end.
  void letNodesGiveWay() const {
    const sched_param none{};
    for (const char* word : {"serve", "supervise"})
      for (const int pid : road_->processes(word)) {
        std::ofstream("/proc/" + std::to_string(pid) + "/autogroup") << 19;
        for (const QString& task : QDir(QString("/proc/%1/task").arg(pid)).entryList(QDir::Dirs))
          if (const int thread = task.toInt(); thread > 0)
            ::sched_setscheduler(thread, SCHED_IDLE, &none);
      }
    std::ofstream("/proc/self/autogroup") << -20;
  }

  void watch() {
    auto& busy = *static_cast<BusyTimes*>(qApp);
    busy.begin();
    const double before = threadSeconds(), memory = residentMegabytes();
    QElapsedTimer timer;
    timer.start();
    waitFor(500 * options_.seconds);
    const double halfway = residentMegabytes();
    waitFor(500 * options_.seconds);
    const double wall = static_cast<double>(timer.elapsed()) / 1000;
    const double share = 100 * (threadSeconds() - before) / wall, end = residentMegabytes();
    const double hourly = (end - halfway) / (wall / 2) * 3600;
    const Frame& longest = busy.longest();
    std::printf("%.0f s: %.1f %% of a core, memory %.0f MB %+.1f MB, %+.0f MB an hour\n", wall,
                share, end, end - memory, hourly);
    std::printf(
        "longest frame %.0f ms: %.0f ms of the processor, %.0f ms without a core; most of the "
        "processor %.0f ms; over 50 ms: %d, %d without the time that they had no core\n",
        longest.wall, longest.processor, longest.waiting, busy.mostProcessor(), busy.above50(),
        busy.above50WithCore());
    for (const auto& [what, ms] : busy.longestEvents())
      if (ms > 2) std::printf("  in the longest frame: %s %.0f ms\n", qPrintable(what), ms);
    judge_.atMost("window's thread", share, 30, "% of a core");
    judge_.atMost("longest frame", longest.wall, 50, "ms");
    judge_.atMost("growth of memory", hourly, 200, "MB an hour");
  }

  void compare(const app::Home& home, const std::string& run) {
    const std::string folder = home.historyFolder();
    auto history = app::History::open(folder);
    QVERIFY2(history.ok(), history.ok() ? "" : history.error().text().c_str());
    auto store = (*history)->openRun(run);
    QVERIFY2(store.ok(), store.ok() ? "" : store.error().text().c_str());
    double values = 0, ofGpus = 0, lost = 0, seconds = 0;
    for (const app::SeriesInfo& series : (*store)->series()) {
      const auto points = (*store)->readAll(series.name);
      QVERIFY2(points.ok(), points.ok() ? "" : points.error().text().c_str());
      values += static_cast<double>(points->size());
      const QString name = QString::fromStdString(series.name);
      if (!isOfGpu(name)) continue;
      ofGpus += static_cast<double>(points->size());
      if (!points->empty()) seconds = std::max(seconds, points->back().x - points->front().x);
    }
    for (int i = 1; i <= options_.nodes; ++i) {
      const std::string node = "local" + std::to_string(i);
      lost += lostOf(**store, node,
                     home.root + "/local/" + std::to_string(i) + "/runs/" + run + "/" + node);
    }
    const QFileInfo file(QString::fromStdString(folder + "/runs/" + run + ".db"));
    const double bytes = static_cast<double>(file.size()) / values;
    const double asked = double{kHertz} * options_.nodes * options_.gpus * std::size(kMetrics);
    std::printf(
        "%.0f values of GPUs in %.0f s, %.0f a second (%.0f asked); with the others %.0f, %.2f "
        "bytes a value; lost %.0f\n",
        ofGpus, seconds, ofGpus / seconds, asked, values, bytes, lost);
    judge_.atMost("bytes a value", bytes, 2, "");
    judge_.atMost("lost samples", lost, 0, "");
    judge_.atMost("values that were not sampled in time", 100 * (1 - ofGpus / seconds / asked), 2,
                  "%");
  }

  bool isOfGpu(const QString& name) const {
    return name.contains("/gpu/") && std::ranges::any_of(kMetrics, [&](const char* metric) {
             return name.endsWith(QString("/") + metric);
           });
  }

  // Samples of GPUs that a node has spooled and that are not in the history as it told them.
  double lostOf(app::RunStore& store, const std::string& node, const std::string& folder) const {
    auto spool = agent::Spool::open(folder + "/spool.db", {});
    if (!spool.ok()) return HUGE_VAL;
    std::vector<std::vector<double>> told(static_cast<std::size_t>(options_.gpus));
    for (std::uint64_t after = 0; after < (*spool)->last();) {
      const auto rows = (*spool)->read(after, 4096, 0);
      if (!rows.ok() || rows->empty()) return HUGE_VAL;
      for (const agent::Spool::Kept& row : *rows) {
        after = row.sequence;
        run::v1::Record record;
        if (!record.ParseFromString(row.bytes) || record.has_lost()) return HUGE_VAL;
        for (const run::v1::GpuSample& gpu : record.node_sample().gpu())
          if (gpu.has_power_w())
            told[static_cast<std::size_t>(gpu.index())].push_back(gpu.power_w());
      }
    }
    double out = 0;
    for (std::size_t gpu = 0; gpu < told.size(); ++gpu) {
      if (told[gpu].empty()) return HUGE_VAL;
      const auto points = store.readAll("node/" + node + "/gpu/" + std::to_string(gpu) + "/power");
      if (!points.ok()) return HUGE_VAL;
      std::size_t at = 0;
      for (const double power : told[gpu]) {
        const bool kept = at < points->size() && (*points)[at].y == power;
        out += kept ? 0 : 1;
        at += kept ? 1 : 0;
      }
    }
    return out;
  }

  const Options options_;
  test::Judge& judge_;
  tests::StudioHome home_;  // is there until the agents have ended
  std::unique_ptr<tests::StudioRoad> road_;
};

int main(int argc, char** argv) {
  test::Judge judge(argc, argv);
  Options options;
  if (judge.judges()) options.seconds = 3600;
  const std::pair<const char*, int*> numbers[] = {
      {"--nodes", &options.nodes}, {"--gpus", &options.gpus}, {"--seconds", &options.seconds}};
  for (int i = 1; i < argc; ++i) {
    const auto* found = std::ranges::find_if(
        numbers, [&](const auto& one) { return std::string(argv[i]) == one.first; });
    if (found == std::end(numbers) || i + 1 == argc) {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      return 2;
    }
    *found->second = std::max(1, std::atoi(argv[++i]));
  }
  for (const auto& [name, value] :
       {std::pair{"QT_QPA_PLATFORM", QByteArray("offscreen")},
        {"LOCKSTEP_BIN", QByteArray::fromStdString(test::buildPath("bin"))},
        {"LOCKSTEP_BUNDLE", QByteArray::fromStdString(test::buildPath("bundle"))},
        {"QTEST_FUNCTION_TIMEOUT", QByteArray("100000000")}}) {
    if (!qEnvironmentVariableIsSet(name)) qputenv(name, value);
  }
  qputenv("LOCKSTEP_NVML", LOCKSTEP_FAKE_NVML_FILE);
  qputenv("LOCKSTEP_NVML_MOVING", QByteArray::number(options.gpus));
  qputenv("LOCKSTEP_SAMPLE_HERTZ", QByteArray::number(kHertz));
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const BusyTimes app(argc, argv);
  LiveBench bench(options, judge);
  const int failed = QTest::qExec(&bench, QStringList{"lockstep_live_bench", "-silent"});
  return std::max(failed, judge.verdict());
}
#include "live_bench.moc"
