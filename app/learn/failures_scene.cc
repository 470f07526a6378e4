// The scene of failures: work, checkpoints and failures drawn at random, held against Daly.
#include <algorithm>
#include <cmath>

#include "app/learn/scene_parts.h"
#include "app/specs/spec_text.h"
#include "engine/base/random.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

struct Course {  // seconds
  double interval = 600, checkpoint = 60, restart = 300, mtbf = 86400;
};

// Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
// Generation Computer Systems 22 (2006), equation 20.
double dalyFactor(const Course& of) {
  return of.mtbf / of.interval * std::exp(of.restart / of.mtbf) *
         std::expm1((of.interval + of.checkpoint) / of.mtbf);
}

// Failures are exponential and may strike during checkpoints and restarts too. Returns the mean
// time that a segment of `interval` takes, over that time. A segment needs e^(segment / mtbf) tries
// and each restart e^(restart / mtbf): where that is many, the formula of the mean is taken.
double simulatedFactor(const Course& of) {
  constexpr int kFailures = 40'000, kSegments = 4'000;  // at least
  const double segment = of.interval + of.checkpoint;
  if (segment + of.restart > 3 * of.mtbf) return dalyFactor(of);
  std::uint64_t draw = 0;
  const auto next = [&] { return -of.mtbf * std::log1p(-randomUniform(17, draw++)); };
  double spent = 0, segments = 0;
  for (int failures = 0; failures < kFailures || segments < kSegments; ++failures) {
    double failure = next();
    segments += std::floor(failure / segment);
    spent += failure;
    while ((failure = next()) < of.restart) spent += failure;
    spent += of.restart;
  }
  return spent / (segments * of.interval);
}

// Daly 2006, equation 37.
double dalyInterval(const Course& of) {
  const double c = of.checkpoint, m = of.mtbf;
  if (c >= 2 * m) return m;
  return std::sqrt(2 * c * m) * (1 + std::sqrt(c / (2 * m)) / 3 + c / (2 * m) / 9) - c;
}

// A course drawn at random, for some failures: the work that is done, of which a failure takes what
// came after the last checkpoint.
ChartScene courseChart(const Course& of) {
  constexpr int kFailures = 12, kMostSegments = 300;  // more are a straight line
  constexpr double kHour = 3600;
  const double segment = of.interval + of.checkpoint, end = kFailures * of.mtbf;
  ChartScene out{{"Work over time, drawn at random", "完成的工作随时间的变化，随机一例"},
                 {"hours", "小时"},
                 {"hours of work", "工作小时"},
                 {},
                 {}};
  out.overTime = true;
  ChartScene::Curve done{{"with failures", "有故障"}, {0}, {0}};
  std::uint64_t draw = 0;
  const auto next = [&] { return -of.mtbf * std::log1p(-randomUniform(18, draw++)); };
  const auto add = [&](double at, double work) {
    done.x.push_back(at / kHour);
    done.y.push_back(work / kHour);
  };
  double now = 0, saved = 0;
  while (now < end) {
    const double failure = next(), whole = std::floor(failure / segment);
    for (int i = 0; end / segment <= kMostSegments && i < whole; ++i) {
      add(now + i * segment + of.interval, saved + (i + 1) * of.interval);
      add(now + (i + 1) * segment, saved + (i + 1) * of.interval);
    }
    saved += whole * of.interval;
    const double rest = failure - whole * segment, work = std::min(rest, of.interval);
    if (rest > work) add(now + whole * segment + work, saved + work);
    now += failure;
    add(now, saved + work);
    add(now, saved);
    for (double again = 0; now < end && (again = next()) < of.restart;) now += again;
    now += of.restart;
    add(now, saved);
  }
  const double last = done.x.back();
  out.curves.push_back(std::move(done));
  out.curves.push_back(
      {{"without failures", "无故障"}, {0, last}, {0, last * of.interval / segment}, true});
  return out;
}

double lost(double factor) { return 100 * (1 - 1 / factor); }

}  // namespace

Result<Scene> makeFailuresScene(const Lesson& lesson, const Circumstances& at) {
  LOCKSTEP_ASSIGN(const RunSpecFile run,
                  completeRunSpec(lesson.specYaml, lesson.id + ".yaml", at.sets()));
  Course course;
  course.interval = 60 * run.spec->training().checkpoint().every_minutes();
  if (course.interval <= 0) course.interval = 600;  // the option's default
  course.checkpoint = at.number("failures.checkpoint_s");
  course.restart = at.number("failures.restart_s");
  course.mtbf = 86400 * at.number("failures.node_mtbf_days") / at.number("failures.nodes");
  Scene out;
  const double best = dalyInterval(course);
  addFigure(out, "lost", {"Lost time", "损失的时间"}, "%", lost(simulatedFactor(course)));
  addFigure(out, "lost_formula", {"Lost time, by Daly's formula", "损失的时间（Daly 公式）"}, "%",
            lost(dalyFactor(course)));
  addFigure(out, "interval_min", {"Interval", "间隔"}, "min", course.interval / 60);
  // Young, "A first order approximation to the optimum checkpoint interval", CACM 17 (1974)
  addFigure(out, "young_min", {"Best interval by Young", "Young 的最佳间隔"}, "min",
            std::sqrt(2 * course.checkpoint * course.mtbf) / 60);
  addFigure(out, "daly_min", {"Best interval by Daly", "Daly 的最佳间隔"}, "min", best / 60);
  addFigure(out, "off_factor", {"Interval over Daly's best", "间隔与 Daly 最佳值之比"}, "",
            course.interval / best);
  addFigure(out, "mtbf_h", {"Mean time between failures of the cluster", "集群的平均无故障时间"},
            "h", course.mtbf / 3600);
  addFigure(out, "checkpoint_share", {"Time spent writing checkpoints", "写检查点所占时间"}, "%",
            100 * course.checkpoint / (course.interval + course.checkpoint));
  out.charts.push_back(courseChart(course));
  return out;
}

}  // namespace lockstep::app
