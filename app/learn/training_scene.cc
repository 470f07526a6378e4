// The scene of a training under bounded staleness: a small network is really trained, with the
// gradients that workers compute from the weights they have, in the time that the planner predicts
// for the lesson's parameter servers. Ho et al., "More effective distributed ML via a stale
// synchronous parallel parameter server", 2013.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "app/learn/scene_parts.h"
#include "engine/base/random.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kHidden = 16, kClasses = 3, kPoints = 300, kBatch = 16;
constexpr std::size_t kWeights = kHidden * 3 + kClasses * (kHidden + 1);
using Weights = std::array<double, kWeights>;  // first layer by unit, then second by class
struct PointOf {
  double x = 0, y = 0;
  std::size_t label = 0;
};

std::vector<PointOf> spirals() {
  std::vector<PointOf> out;
  for (std::size_t i = 0; i < kPoints; ++i) {
    const std::size_t label = i % kClasses;
    const double radius = static_cast<double>(i) / kPoints;
    const double angle = 3.5 * radius + 2.0943951 * static_cast<double>(label) +
                         0.15 * randomNormal(3, static_cast<std::uint64_t>(i));
    out.push_back({radius * std::sin(angle), radius * std::cos(angle), label});
  }
  return out;
}

// Adds the gradient of the point's cross-entropy, times `scale`; returns the loss.
double addGradient(const Weights& w, const PointOf& at, double scale, Weights* gradient) {
  std::array<double, kHidden> hidden{};
  std::array<double, kClasses> out{};
  for (std::size_t h = 0; h < kHidden; ++h)
    hidden[h] = std::tanh(w[3 * h] * at.x + w[3 * h + 1] * at.y + w[3 * h + 2]);
  const auto second = [&](std::size_t c, std::size_t h) {
    return 3 * kHidden + c * (kHidden + 1) + h;
  };
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < kClasses; ++c) {
    out[c] = w[second(c, kHidden)];
    for (std::size_t h = 0; h < kHidden; ++h) out[c] += w[second(c, h)] * hidden[h];
    most = std::max(most, out[c]);
  }
  double sum = 0;
  for (const double one : out) sum += std::exp(one - most);
  const double loss = std::log(sum) + most - out[at.label];
  if (gradient == nullptr) return loss;
  std::array<double, kHidden> back{};
  for (std::size_t c = 0; c < kClasses; ++c) {
    const double error = scale * (std::exp(out[c] - most) / sum - (c == at.label ? 1.0 : 0.0));
    for (std::size_t h = 0; h < kHidden; ++h) {
      (*gradient)[second(c, h)] += error * hidden[h];
      back[h] += error * w[second(c, h)];
    }
    (*gradient)[second(c, kHidden)] += error;
  }
  for (std::size_t h = 0; h < kHidden; ++h) {
    const double error = back[h] * (1 - hidden[h] * hidden[h]);
    (*gradient)[3 * h] += error * at.x;
    (*gradient)[3 * h + 1] += error * at.y;
    (*gradient)[3 * h + 2] += error;
  }
  return loss;
}

struct Course {
  std::vector<double> times, losses;
  double stale = 0, waiting = 0;  // updates that a gradient missed, at most; share of workers' time
};

class Training {
 public:
  Training(std::vector<double> seconds, int staleness, double rate)
      : seconds_(std::move(seconds)),
        staleness_(staleness),
        rate_(rate),
        points_(spirals()),
        workers_(seconds_.size()) {
    for (std::size_t i = 0; i < kWeights; ++i) weights_[i] = 0.5 * randomNormal(5, i);
  }

  Result<Course> run(int rounds, const std::atomic<bool>* stop) {
    const std::size_t all = static_cast<std::size_t>(rounds) * workers_.size();
    for (std::size_t w = 0; w < workers_.size(); ++w) begin(w, 0);
    for (std::size_t pushes = 0; pushes < all; ++pushes) {
      if (stop != nullptr && stop->load())
        return makeError(Code::kCancelled, "training was stopped");
      if (pushes % (10 * workers_.size()) == 0) note();
      push();
    }
    note();
    course_.waiting = now_ > 0 ? waited_ / (now_ * static_cast<double>(workers_.size())) : 0;
    return std::move(course_);
  }

 private:
  struct Worker {
    std::int64_t steps = 0;  // pushed
    bool waits = false;
    double since = 0, until = 0;
    std::int64_t seen = 0;  // updates that its weights have
    Weights weights{};
  };

  void begin(std::size_t index, double now) {
    Worker& worker = workers_[index];
    worker.waits = false;
    worker.weights = weights_;
    worker.seen = updates_;
    worker.until = now + seconds_[index];
  }
  std::int64_t slowest() const {
    return std::min_element(workers_.begin(), workers_.end(),
                            [](const auto& a, const auto& b) { return a.steps < b.steps; })
        ->steps;
  }
  // The next gradient reaches the server.
  void push() {
    std::size_t first = workers_.size();
    for (std::size_t w = 0; w < workers_.size(); ++w)
      if (!workers_[w].waits &&
          (first == workers_.size() || workers_[w].until < workers_[first].until))
        first = w;
    Worker& worker = workers_[first];
    now_ = worker.until;
    Weights gradient{};
    const std::uint64_t key = randomKey(11, first);
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::uint64_t draw = static_cast<std::uint64_t>(worker.steps) * kBatch + i;
      addGradient(worker.weights, points_[randomBits(key, draw) % kPoints], 1.0 / kBatch,
                  &gradient);
    }
    if (staleness_ != 0)
      course_.stale = std::max(course_.stale, static_cast<double>(updates_ - worker.seen));
    // In lockstep the workers' gradients make one update; else each makes one by itself, as on the
    // servers of a run.
    const double scale = staleness_ == 0 ? rate_ / static_cast<double>(workers_.size()) : rate_;
    for (std::size_t i = 0; i < kWeights; ++i) weights_[i] -= scale * gradient[i];
    ++updates_;
    ++worker.steps;
    worker.waits = true;
    worker.since = now_;
    const std::int64_t least = slowest();
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (!workers_[w].waits) continue;
      if (staleness_ >= 0 && workers_[w].steps - least > staleness_) continue;
      waited_ += now_ - workers_[w].since;
      begin(w, now_);
    }
  }
  void note() {
    double loss = 0;
    for (const PointOf& point : points_) loss += addGradient(weights_, point, 0, nullptr);
    course_.times.push_back(now_);
    course_.losses.push_back(std::isfinite(loss) ? std::min(10.0, loss / kPoints) : 10.0);
  }

  const std::vector<double> seconds_;
  const int staleness_;
  const double rate_;
  const std::vector<PointOf> points_;
  std::vector<Worker> workers_;
  Weights weights_{};
  std::int64_t updates_ = 0;
  double now_ = 0, waited_ = 0;
  Course course_;
};

// How long each worker takes for a gradient, with its way to the servers and back.
Result<std::vector<double>> secondsOf(const Lesson& lesson, const Circumstances& at, int& staleness,
                                      double& rate) {
  LOCKSTEP_ASSIGN(const ScenePlan plan, scenePlanOf(lesson, at));
  LOCKSTEP_ASSIGN(const Preview preview, makeBriefPreview(plan.request, plan.hosts));
  staleness = static_cast<int>(plan.request.spec->strategy().staleness());
  rate = plan.request.spec->training().optimizer().learning_rate();
  const RankPreview mean = meanOfWorkers(preview);
  std::vector<double> out;
  for (int rank = 0; rank < preview.plan.mesh.workers(); ++rank) {
    const double own = plan.slowdown[static_cast<std::size_t>(rank)];
    out.push_back(own * (mean.data + mean.forward + mean.backward) + mean.transfer);
  }
  return out;
}

}  // namespace

Result<Scene> makeTrainingScene(const Lesson& lesson, const Circumstances& at,
                                const std::atomic<bool>* stop) {
  constexpr int kRounds = 600;
  int staleness = 0;
  double rate = 0;
  LOCKSTEP_ASSIGN(const std::vector<double> seconds, secondsOf(lesson, at, staleness, rate));
  LOCKSTEP_ASSIGN(const Course course, Training(seconds, staleness, rate).run(kRounds, stop));
  LOCKSTEP_ASSIGN(const Course lockstep, Training(seconds, 0, rate).run(kRounds, stop));
  Scene out;
  addFigure(out, "loss", {"Loss at the end", "最终损失"}, "", course.losses.back());
  addFigure(out, "time_s", {"Time for all steps", "完成所有步的时间"}, "s", course.times.back());
  addFigure(out, "speedup", {"Faster than in lockstep", "相对同步的加速比"}, "",
            lockstep.times.back() / course.times.back());
  addFigure(out, "missed_updates",
            {"Updates that a gradient missed, at most", "梯度最多错过的更新数"}, "", course.stale);
  addFigure(out, "waiting", {"Share of waiting", "等待占比"}, "%", 100 * course.waiting);
  ChartScene chart{
      {"Loss over time", "损失随时间的变化"}, {"seconds", "秒"}, {"loss", "损失"}, {}, {}};
  chart.curves.push_back({{"this state", "当前状态"}, course.times, course.losses});
  chart.curves.push_back({{"in lockstep", "同步"}, lockstep.times, lockstep.losses, true});
  chart.overTime = true;
  out.charts.push_back(std::move(chart));
  return out;
}

}  // namespace lockstep::app
