// Frames of the heat map and the timeline while zooming, and of a plot of 256 curves while zooming
// and panning, and the lessons' pictures: lockstep_step_views [--judge] [RANKS STEPS SPANS
// SAMPLES]. With --judge it exits 1 if more than one frame in twenty takes longer than its limit.
#include <fmt/format.h>

#include <QApplication>
#include <QElapsedTimer>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>

#include "app/learn/lesson.h"
#include "app/runs/heat_map.h"
#include "app/runs/step_matrix.h"
#include "tests/bench/judge.h"
#include "ui/pages/lesson_viewer.h"
#include "ui/plots/custom_plot.h"
#include "ui/plots/heat_map_view.h"
#include "ui/plots/plot_view.h"
#include "ui/plots/series.h"
#include "ui/plots/timeline_view.h"
#include "ui/studio/lesson_session.h"
#include "ui/theme/theme.h"

using namespace lockstep;

namespace {

app::StepMatrix matrixOf(int ranks, int steps) {
  app::StepMatrix out;
  std::mt19937 random(1);
  std::normal_distribution<double> noise(1, 0.05);
  for (int rank = 0; rank < ranks; ++rank)
    for (const char* part : {"step", "forward", "backward", "optimizer"}) {
      app::RunBatch::Series series{fmt::format("rank/{}/{}", rank, part), {}};
      for (int step = 1; step <= steps; ++step)
        series.points.push_back({static_cast<double>(step), 0.1 * noise(random)});
      out.add(series);
    }
  return out;
}

app::StepTimeline timelineOf(int ranks, int spans) {
  app::StepTimeline out;
  std::mt19937 random(2);
  std::uniform_int_distribution<int> length(1'000, 30'000), kind(1, 5);
  for (int rank = 0; rank < ranks; ++rank) {
    app::StepTimeline::Lane lane;
    std::int64_t at = 0;
    for (int i = 0; i < spans; ++i) {
      const std::int64_t begin = at + length(random) / 10;
      at = begin + length(random);
      lane.spans.push_back({begin, at, -1, -1, static_cast<app::SpanKind>(kind(random))});
    }
    out.length = std::max(out.length, at);
    out.lanes.push_back(std::move(lane));
  }
  return out;
}

// Of this thread: on a machine that does other things too, frames take no longer.
double cpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

constexpr int kFrames = 60;

// The part of all that frame `i` shows: zoomed in by the wheel's factor, and out again.
double zoomAt(int i) { return std::pow(0.85, i < kFrames / 2 ? i : kFrames - i); }

// Prints how long frames took, in milliseconds.
void report(const char* name, std::vector<double> times, double limit, test::Judge& judge) {
  std::sort(times.begin(), times.end());
  const double most = times[times.size() * 19 / 20];
  fmt::print(
      "{}: a frame takes, of one core, {:.1f} ms (median), {:.1f} ms (95 %), {:.1f} ms (most); "
      "limit {:.0f} ms\n",
      name, times[times.size() / 2], most, times.back(), limit);
  judge.atMost(name, most, limit, "ms");
}

void measure(const char* name, ui::GridView& view, double limit, test::Judge& judge) {
  view.resize(1600, 700);
  view.show();
  QImage target(view.size(), QImage::Format_RGB32);
  const auto all = view.xRange();
  const auto rows = view.rowRange();
  std::vector<double> times;
  for (int i = 0; i < kFrames; ++i) {
    const double factor = zoomAt(i);
    const double middle = (all.begin + all.end) * 0.4, half = all.span() * factor / 2;
    const double row = (rows.begin + rows.end) / 2, halfRows = rows.span() * factor / 2;
    view.setView({middle - half, middle + half}, {row - halfRows, row + halfRows});
    const double begin = cpuSeconds();
    view.render(&target);
    times.push_back((cpuSeconds() - begin) * 1e3);
  }
  report(name, std::move(times), limit, judge);
}

// Zooms in, and pans over all of it, as by the wheel and a drag.
void measureCurves(int curves, int samples, double limit, test::Judge& judge) {
  ui::PlotView view("curves");
  for (int curve = 0; curve < curves; ++curve) {
    auto series = std::make_shared<ui::Series>(QString("rank %1").arg(curve), curve);
    for (int i = 0; i < samples; ++i) series->append(i, std::sin(i * 0.001 + curve) + curve % 16);
    view.addSeries(series);
  }
  view.resize(1600, 900);
  view.show();
  auto* canvas = view.findChild<QCustomPlot*>("plotCanvas");
  QElapsedTimer shown;
  shown.start();
  while (canvas->xAxis->range().upper < 0.9 * samples && shown.elapsed() < 60'000)
    QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents, 5);
  fmt::print("{} curves x {} samples\n", curves, samples);
  for (const bool pans : {false, true}) {
    std::vector<double> times;
    for (int i = 0; i < kFrames; ++i) {
      const double width = samples * (pans ? 0.25 : zoomAt(i));
      const double begin = pans ? (samples - width) * i / kFrames : (samples - width) * 0.4;
      const double before = cpuSeconds();
      view.showXRange(begin, begin + width);
      canvas->replot(QCustomPlot::rpImmediateRefresh);
      times.push_back((cpuSeconds() - before) * 1e3);
    }
    report(pans ? "curves, panned" : "curves, zoomed", std::move(times), limit, judge);
  }
}

// From the move of a slider until its picture is drawn: every value of every slider. By the clock,
// since another thread makes the scene.
void measureLessons(double limit, test::Judge& judge) {
  const auto lessons = app::readLessons(app::lessonFolder());
  if (!lessons.ok()) fmt::print("{}\n", lessons.error().text());
  double most = lessons.ok() ? 0 : NAN;
  for (std::size_t i = 0; lessons.ok() && i < lessons->size(); ++i) {
    const app::Lesson& lesson = (*lessons)[i];
    ui::LessonSession session(std::make_shared<const app::Lesson>(lesson), {});
    ui::LessonViewer viewer(&session, nullptr);
    viewer.resize(1400, 900);
    viewer.show();
    QImage target(viewer.size(), QImage::Format_RGB32);
    std::vector<double> times;
    const auto draw = [&] {
      QElapsedTimer timer;
      timer.start();
      while (session.isMaking()) QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents, 5);
      viewer.render(&target);
      times.push_back(static_cast<double>(timer.nsecsElapsed()) * 1e-6);
    };
    draw();
    times.clear();
    for (const app::Slider& slider : lesson.sliders)
      for (const std::string& value : slider.values) {
        session.setValue(slider.name, value);
        draw();
      }
    std::sort(times.begin(), times.end());
    const double usual = times[times.size() * 19 / 20];
    fmt::print("{}: a moved slider's picture after {:.1f} ms (median), {:.1f} ms (95 %)\n",
               lesson.id, times[times.size() / 2], usual);
    most = std::max(most, usual);
  }
  judge.atMost("a lesson's slider moved", most, limit, "ms");
}

}  // namespace

int main(int argc, char** argv) {
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  test::Judge judge(argc, argv);
  QApplication app(argc, argv);
  ui::Theme::instance().apply(ui::Theme::Mode::kLight);
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 1024,
            steps = argc > 2 ? std::atoi(argv[2]) : 2000;
  const int spans = argc > 3 ? std::atoi(argv[3]) : 10'000,
            samples = argc > 4 ? std::atoi(argv[4]) : 100'000;
  app::StepMatrix matrix = matrixOf(ranks, steps);
  app::HeatMap map;
  QElapsedTimer timer;
  timer.start();
  while (!map.update(matrix, 1 << 20)) {
  }
  fmt::print("{} ranks x {} steps: the map is made in {} ms, in slices\n", ranks, steps,
             timer.elapsed());
  ui::HeatMapView heat("heatMap", map);
  std::vector<QString> names;
  for (int rank = 0; rank < ranks; ++rank) names.push_back(QString("rank %1").arg(rank));
  heat.refresh(app::rowOrder(matrix, app::RowOrder::kCost, app::StepMeasure::kCompute, {}), names,
               map.scale());
  measure("heat map", heat, 16, judge);
  const int lanes = std::max(1, ranks / 4);
  ui::TimelineView timeline("timeline");
  timeline.setNames(names);
  timeline.setTimelines(std::make_shared<const app::StepTimeline>(timelineOf(lanes, spans)),
                        nullptr);
  fmt::print("{} ranks x {} spans\n", lanes, spans);
  measure("timeline", timeline, 25, judge);
  measureCurves(256, samples, 25, judge);
  measureLessons(50, judge);
  return judge.verdict();
}
