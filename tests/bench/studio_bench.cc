// Measures the window: lockstep_studio_bench [--runs 10000] [--values 100000] [--judge]
//
// 1. From start to a window that can be used, and its memory with one run open.
// 2. With a history of so many runs with so many values each: until it is listed, filtered, and a
//    run of it is open.
// With --judge it exits 1 if a figure misses its limit. For that the machine has to be idle. Draws
// offscreen unless QT_QPA_PLATFORM says otherwise. Prints one line for each figure.
// lockstep_live_bench measures it with a run of many GPUs in it.
#include <QElapsedTimer>
#include <QLineEdit>
#include <QTest>

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
#include "ui/studio/run_document.h"

using namespace lockstep;
using namespace lockstep::ui;
using test::residentMegabytes;

namespace {

constexpr int kLimitMs = 120'000;

struct Options {
  int runs = 10'000, values = 100'000;
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

}  // namespace

int main(int argc, char** argv) {
  test::Judge judge(argc, argv);
  Options options;
  const std::pair<const char*, int*> numbers[] = {{"--runs", &options.runs},
                                                  {"--values", &options.values}};
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
  return judge.verdict();
}
