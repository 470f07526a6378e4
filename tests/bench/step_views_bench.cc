// Frames of the heat map and the timeline while zooming: lockstep_step_views [RANKS STEPS SPANS].
#include <fmt/format.h>

#include <QApplication>
#include <QElapsedTimer>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>

#include "app/runs/heat_map.h"
#include "app/runs/step_matrix.h"
#include "ui/plots/heat_map_view.h"
#include "ui/plots/timeline_view.h"
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

// Zooms in and out again by the wheel's factor, and prints how long frames take.
void measure(const char* name, ui::GridView& view, double most) {
  view.resize(1600, 700);
  view.show();
  QImage target(view.size(), QImage::Format_RGB32);
  const auto all = view.xRange();
  const auto rows = view.rowRange();
  std::vector<double> times;
  for (int i = 0; i < 60; ++i) {
    const double factor = std::pow(0.85, i < 30 ? i : 60 - i);
    const double middle = (all.begin + all.end) * 0.4, half = all.span() * factor / 2;
    const double row = (rows.begin + rows.end) / 2, halfRows = rows.span() * factor / 2;
    view.setView({middle - half, middle + half}, {row - halfRows, row + halfRows});
    const double begin = cpuSeconds();
    view.render(&target);
    times.push_back((cpuSeconds() - begin) * 1e3);
  }
  std::sort(times.begin(), times.end());
  fmt::print(
      "{}: a frame takes, of one core, {:.1f} ms (median), {:.1f} ms (95 %), {:.1f} ms (most); "
      "limit {:.0f} ms\n",
      name, times[30], times[57], times.back(), most);
}

}  // namespace

int main(int argc, char** argv) {
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication app(argc, argv);
  ui::Theme::instance().apply(ui::Theme::Mode::kLight);
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 1024,
            steps = argc > 2 ? std::atoi(argv[2]) : 2000;
  const int spans = argc > 3 ? std::atoi(argv[3]) : 10'000;
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
  measure("heat map", heat, 16);
  const int lanes = std::max(1, ranks / 4);
  ui::TimelineView timeline("timeline");
  timeline.setNames(names);
  timeline.setTimelines(std::make_shared<const app::StepTimeline>(timelineOf(lanes, spans)),
                        nullptr);
  fmt::print("{} ranks x {} spans\n", lanes, spans);
  measure("timeline", timeline, 25);
  return 0;
}
