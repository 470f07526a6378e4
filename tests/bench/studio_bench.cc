// Measures the window: lockstep_studio_bench [--runs 10000] [--values 100000] [--nodes 64]
// [--gpus 8] [--rate 10] [--seconds 60] [--judge]
//
// 1. From start to a window that can be used, and its memory with one run open.
// 2. With a history of so many runs with so many values each: until it is listed, filtered, and a
//    run of it is open.
// 3. A run whose nodes send twelve values of each GPU so many times a second, for so many seconds,
//    with their curves in sight: the share of a core that the window's thread takes, the longest
//    time that it did nothing else and what it took of the processor in a frame, the growth of its
//    memory, over the second half of that time also per hour, and how often and how quickly the
//    plots of most lines are painted. Times of the processor are comparable on a busy machine; the
//    others are not.
// With --judge it exits 1 if a figure misses its limit, and --seconds is 600 unless given: growth
// is no figure after a minute. For that the machine has to be idle. Draws offscreen unless
// QT_QPA_PLATFORM says otherwise. Prints one line for each figure.
#include <QElapsedTimer>
#include <QLineEdit>
#include <QTabWidget>
#include <QTest>
#include <QTimer>

#include <cmath>
#include <cstdio>
#include <random>

#include "engine/base/clock.h"
#include "tests/bench/judge.h"
#include "tests/bench/process_figures.h"
#include "tests/ui/studio_fixture.h"
#include "ui/models/run_table_model.h"
#include "ui/pages/history_page.h"
#include "ui/pages/run_page.h"
#include "ui/plots/custom_plot.h"
#include "ui/plots/plot_view.h"
#include "ui/studio/run_document.h"

using namespace lockstep;
using namespace lockstep::ui;
using test::residentMegabytes;
using test::threadSeconds;

namespace {

constexpr int kLimitMs = 120'000;

struct Options {
  int runs = 10'000, values = 100'000, nodes = 64, gpus = 8, rate = 10, seconds = 60;
};

template <typename Condition>
double msUntil(Condition condition) {
  QElapsedTimer timer;
  timer.start();
  while (!condition() && timer.elapsed() < kLimitMs)
    QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents, 5);
  return static_cast<double>(timer.nsecsElapsed()) * 1e-6;
}

// Runs with ten curves each.
void fillHistory(const std::string& folder, int runs, int values) {
  auto history = std::move(app::History::open(folder)).value();
  std::mt19937 random(1);
  app::RunBatch batch;
  for (int curve = 0; curve < 10; ++curve) {
    batch.series.push_back(
        {curve == 0 ? "loss" : "node/n1/gpu/" + std::to_string(curve) + "/power", {}});
    for (int i = 1; i <= values / 10; ++i)
      batch.series.back().points.push_back(
          {static_cast<double>(i),
           std::floor(std::uniform_real_distribution<double>(0, 1000)(random)) / 10});
  }
  for (int i = 0; i < runs; ++i) {
    app::RunRow row;
    row.run = "20260101-" + std::to_string(100000 + i) + "-a1b2c3";
    row.name = i % 100 == 7 ? "needle" : "model-" + std::to_string(i % 50);
    row.strategy = "multi-worker-mirrored";
    row.clusterName = "lab";
    row.phase = app::RunState::SUCCEEDED;
    row.createdNs = 1'770'000'000'000'000'000 + i * 60'000'000'000;
    row.startedNs = row.createdNs;
    row.finishedNs = row.createdNs + 30'000'000'000;
    row.modelFile = "/nowhere";
    LOCKSTEP_CHECK(history->add(row, {}).ok());
    auto store = std::move(history->openRun(row.run)).value();
    LOCKSTEP_CHECK(store->lockForRecording().ok() && store->append(batch).ok());
  }
}

void measureStart(const tests::StudioHome& home, const QString& run, test::Judge& judge) {
  QElapsedTimer timer;
  timer.start();
  auto window = std::make_unique<MainWindow>(home.options());
  window->restoreSession();
  window->show();
  (void)QTest::qWaitForWindowExposed(window.get());
  QCoreApplication::processEvents();
  const double started = static_cast<double>(timer.nsecsElapsed()) * 1e-6;
  std::printf("start to a usable window: %.0f ms\n", started);
  judge.atMost("start", started, 700, "ms");
  RunPage* page = window->openRun(run);
  msUntil([&] { return page->document()->loaded(); });
  QTest::qWait(200);
  const double memory = residentMegabytes();
  std::printf("memory with one run open: %.0f MB\n", memory);
  judge.atMost("memory with one run open", memory, 250, "MB");
  tests::closeWindow(window);
}

void measureHistory(const Options& options, test::Judge& judge) {
  tests::StudioHome home;
  const Nanoseconds filling = monotonicNow();
  fillHistory(home.home().historyFolder(), options.runs, options.values);
  std::printf("history of %d runs, %.2g values, made in %.0f s\n", options.runs,
              static_cast<double>(options.runs) * options.values,
              static_cast<double>(monotonicNow() - filling) * 1e-9);
  auto window = std::make_unique<MainWindow>(home.options());
  window->show();
  (void)QTest::qWaitForWindowExposed(window.get());
  QElapsedTimer timer;
  timer.start();
  HistoryPage* page = window->openHistory();
  msUntil([&] { return page->runs()->rowCount() > 0; });
  const auto listed = static_cast<double>(timer.elapsed());
  std::printf("history listed: %.0f ms\n", listed);
  judge.atMost("history listed", listed, 1000, "ms");
  const int all = page->runs()->rowCount();
  timer.restart();
  page->findChild<QLineEdit*>("historySearch")->setText("needle");
  msUntil([&] { return page->runs()->rowCount() != all; });
  const auto filtered = static_cast<double>(timer.elapsed());
  std::printf("filtered, %d of %d: %.0f ms\n", page->runs()->rowCount(), all, filtered);
  judge.atMost("history filtered", filtered, 200, "ms");
  timer.restart();
  RunPage* run =
      window->openRun("20260101-" + QString::number(100000 + options.runs / 2) + "-a1b2c3");
  msUntil([&] { return run->document()->loaded(); });
  const auto opened = static_cast<double>(timer.elapsed());
  std::printf("run opened: %.0f ms\n", opened);
  judge.atMost("run opened", opened, 500, "ms");
  tests::closeWindow(window);
}

// Sends what a recorder would tell the window, thirty times a second.
class Sender {
 public:
  Sender(const Options& options, RunDocument* document) : options_(options), document_(document) {
    static const char* const metrics[] = {
        "utilisation", "memory_utilisation", "memory",       "temperature",
        "power",       "sm_clock",           "memory_clock", "pcie_in",
        "pcie_out",    "nvlink_in",          "nvlink_out",   "throttled"};
    for (int node = 0; node < options.nodes; ++node)
      for (int gpu = 0; gpu < options.gpus; ++gpu)
        for (const char* metric : metrics)
          names_.push_back("node/n" + std::to_string(node) + "/gpu/" + std::to_string(gpu) + "/" +
                           metric);
  }
  std::size_t valuesPerSecond() const {
    return names_.size() * static_cast<std::size_t>(options_.rate);
  }

  void send(double seconds) {
    const double start = static_cast<double>(document_->row().startedNs) * 1e-9;
    const auto until = static_cast<std::int64_t>(seconds * options_.rate);
    if (until == sent_) return;
    const double begin = threadSeconds();
    app::RunUpdate update;
    for (const std::string& name : names_) {
      update.series.push_back({name, {}});
      for (std::int64_t at = sent_; at < until; ++at)
        update.series.back().points.push_back({start + static_cast<double>(at) / options_.rate,
                                               static_cast<double>(random_() % 1000)});
    }
    sent_ = until;
    making_ += threadSeconds() - begin;
    document_->take(update);
  }
  double making() const { return making_; }  // seconds that a recorder's thread would take

 private:
  const Options options_;
  RunDocument* document_;
  std::vector<std::string> names_;
  std::mt19937 random_{1};
  std::int64_t sent_ = 0;
  double making_ = 0;
};

// What paintings of the plots of most lines take of the thread.
class Paintings : public QObject {
 public:
  explicit Paintings(RunPage* page) {
    std::size_t most = 0;
    for (const PlotView* plot : page->findChildren<PlotView*>())
      if (plot->isVisible()) most = std::max(most, plot->series().size());
    lines_ = most;
    for (const PlotView* plot : page->findChildren<PlotView*>()) {
      if (!plot->isVisible() || plot->series().size() != most) continue;
      auto* canvas = plot->findChild<QCustomPlot*>("plotCanvas");
      connect(canvas, &QCustomPlot::beforeReplot, this, [this] { begin_ = threadSeconds(); });
      connect(canvas, &QCustomPlot::afterReplot, this, [this] {
        const double spent = threadSeconds() - begin_;
        ++count_;
        sum_ += spent;
        longest_ = std::max(longest_, spent);
      });
      ++plots_;
    }
  }
  void print(double seconds) const {
    if (count_ == 0) return;
    std::printf(
        "%d plots of %zu lines: painted %.1f times a second each, %.2f ms, at most %.2f ms\n",
        plots_, lines_, count_ / seconds / plots_, 1000 * sum_ / count_, 1000 * longest_);
  }

 private:
  std::size_t lines_ = 0;
  int plots_ = 0, count_ = 0;
  double begin_ = 0, sum_ = 0, longest_ = 0;
};

void measureLive(const Options& options, test::Judge& judge) {
  tests::StudioHome home;
  const std::string run = home.addRun(0, app::RunState::SUCCEEDED, 300);
  auto window = std::make_unique<MainWindow>(home.options());
  window->resize(2560, 1600);  // the plots of all metrics
  window->show();
  (void)QTest::qWaitForWindowExposed(window.get());
  RunPage* page = window->openRun(QString::fromStdString(run));
  msUntil([&] { return page->document()->loaded(); });
  Sender sender(options, page->document());
  for (const bool shown : {false, true}) {
    page->findChild<QTabWidget*>("runTabs")->setCurrentIndex(shown ? 1 : 0);
    QTest::qWait(500);
    const double memory = residentMegabytes(), before = threadSeconds() - sender.making();
    double longest = 0, most = 0, halfway = memory;
    const Paintings paintings(page);
    static double clock = 0;
    QElapsedTimer timer, frame;
    timer.start();
    frame.start();
    const double from = clock;
    while (timer.elapsed() < 1000 * options.seconds) {
      clock = from + static_cast<double>(timer.elapsed()) / 1000;
      const double making = sender.making(), begin = threadSeconds();
      sender.send(clock);
      QCoreApplication::processEvents();
      longest = std::max(longest, static_cast<double>(frame.nsecsElapsed()) * 1e-6 -
                                      1000 * (sender.making() - making));
      most = std::max(most, 1000 * (threadSeconds() - begin - (sender.making() - making)));
      if (timer.elapsed() < 500 * options.seconds) halfway = residentMegabytes();
      QTest::qSleep(33);
      frame.restart();
    }
    const double wall = static_cast<double>(timer.elapsed()) / 1000;
    const double share = 100 * (threadSeconds() - sender.making() - before) / wall;
    const double end = residentMegabytes(), hourly = (end - halfway) / (wall / 2) * 3600;
    std::printf(
        "%zu values a second, curves %s: %.1f %% of a core, longest frame %.0f ms (%.0f ms of the "
        "processor), memory %+.1f MB in %.0f s, %+.0f MB an hour\n",
        sender.valuesPerSecond(), shown ? "in sight" : "hidden", share, longest, most, end - memory,
        wall, hourly);
    judge.atMost("window's thread", share, 30, "% of a core");
    judge.atMost("longest frame", longest, 50, "ms");
    judge.atMost("growth of memory", hourly, 200, "MB an hour");
    paintings.print(wall);
  }
  tests::closeWindow(window);
}

}  // namespace

int main(int argc, char** argv) {
  test::Judge judge(argc, argv);
  Options options;
  if (judge.judges()) options.seconds = 600;
  const std::pair<const char*, int*> numbers[] = {
      {"--runs", &options.runs}, {"--values", &options.values}, {"--nodes", &options.nodes},
      {"--gpus", &options.gpus}, {"--rate", &options.rate},     {"--seconds", &options.seconds}};
  for (int i = 1; i < argc; ++i) {
    const auto found = std::find_if(std::begin(numbers), std::end(numbers), [&](const auto& one) {
      return std::string(argv[i]) == one.first;
    });
    if (found == std::end(numbers) || i + 1 == argc) {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      return 2;
    }
    *found->second = std::max(0, std::atoi(argv[++i]));
  }
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication app(argc, argv);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  {
    tests::StudioHome home;
    measureStart(home, QString::fromStdString(home.addRun(0, app::RunState::SUCCEEDED, 2000, 2)),
                 judge);
  }
  if (options.runs > 0) measureHistory(options, judge);
  if (options.seconds > 0) measureLive(options, judge);
  return judge.verdict();
}
