#include "app/alerts/alert_watch.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/statistics.h"
#include "engine/specs/workload.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kDurations = 101;  // median over that many steps
constexpr std::size_t kLeastLosses = 20;
constexpr std::size_t kLeastSamples = 10;
constexpr double kFiniteSteps = 10;    // in a row, until the loss counts as finite again
constexpr double kLeastSpread = 0.01;  // of the median: a loss without noise has no spread
constexpr double kGiB = 1073741824.0;
constexpr const char* kDiverged = "the training diverged: %1";  // id of the engine's error

double seconds(Nanoseconds time) { return static_cast<double>(time) * 1e-9; }

bool isSevere(AlertRule rule, RunState phase) {
  switch (rule) {
    case AlertRule::kLossNotFinite:
    case AlertRule::kDiskFree:
      return true;
    case AlertRule::kRunEnded:
      return phase == RunState::FAILED;
    default:
      return false;
  }
}

}  // namespace

Message runOutcome(RunState phase) {
  switch (phase) {
    case RunState::SUCCEEDED:
      return "The run succeeded.";
    case RunState::STOPPED:
      return "The run was stopped.";
    case RunState::EXPIRED:
      return "The run expired.";
    default:
      return "The run failed.";
  }
}

Message stragglerHeadline(const Straggler& slow) {
  if (slow.halted)
    return message("Rank {} on {} is stopped; the others wait for it.", slow.rank, slow.node);
  if (slow.link)
    return message("The link from {} to {} sends at 1/{:.3g} of its usual rate.", slow.link->from,
                   slow.link->to, slow.factor);
  return message("Rank {} on {} takes {:.3g}× the median compute time.", slow.rank, slow.node,
                 slow.factor);
}

std::string alertJson(const AlertEvent& event) {
  nlohmann::ordered_json out;
  out["event"] = "alert";
  out["rule"] = alertRuleInfo(event.rule).name;
  out["state"] = event.raised ? "raised" : "over";
  out["run"] = event.run;
  out["name"] = event.name;
  out["subject"] = event.subject;
  out["text"] = event.text.text();
  out["severe"] = event.severe;
  out["time"] = isoTime(event.wallNs);
  return out.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

AlertEvent sampleAlert(AlertRule rule) {
  AlertEvent event;
  event.rule = rule;
  event.run = "test";
  event.name = "test";
  event.text = message("This is a test of the alert rule {}.", alertRuleInfo(rule).name);
  event.wallNs = wallNow();
  return event;
}

void AlertWatch::begin(const RunRow& row, RunProgress progress, Nanoseconds now) {
  row_ = row;
  progress_ = std::move(progress);
  toldSteps_ = static_cast<double>(row.figures.steps);
  over_ = isFinal(row.phase);
  if (row.phase == RunState::RUNNING && row.figures.steps > 0 && row.generation == 1)
    steppedAt_ = now;
}

void AlertWatch::addEvent(AlertRule rule, bool raised, const std::string& subject, Message text) {
  AlertEvent event;
  event.rule = rule;
  event.raised = raised;
  event.run = row_.run;
  event.name = row_.name;
  event.subject = subject;
  event.text = std::move(text);
  event.severe = isSevere(rule, row_.phase);
  event.lasts = rule != AlertRule::kRunEnded;
  events_.push_back(std::move(event));
}

void AlertWatch::note(AlertRule rule, const std::string& subject, const Reading& reading,
                      const std::function<Message()>& text) {
  if (!settings_.of(rule).enabled) return;
  const auto key = std::pair(rule, subject);
  const auto found = conditions_.find(key);
  if (found == conditions_.end() && !reading.past) return;
  Condition& condition = found != conditions_.end() ? found->second : conditions_[key];
  if (condition.active ? !reading.back : !reading.past) {
    condition.since.reset();
    if (!condition.active) conditions_.erase(key);
    return;
  }
  if (!condition.since) condition.since = reading.at;
  if (reading.at - *condition.since < (condition.active ? reading.release : reading.hold)) return;
  if (!condition.active) {
    condition.active = true;
    condition.since.reset();
    condition.text = text();
    addEvent(rule, true, subject, condition.text);
  } else {
    addEvent(rule, false, subject, condition.text);
    conditions_.erase(key);
  }
}

void AlertWatch::noteValue(AlertRule rule, const std::string& subject, double at, double value,
                           bool low, const std::function<Message()>& text) {
  const double threshold = settings_.value(rule, AlertField::kThreshold);
  const double released = threshold * alertRuleInfo(rule).release;
  const double hold = settings_.value(rule, AlertField::kHold);
  note(rule, subject,
       {at, low ? value < threshold : value >= threshold, low ? value > released : value < released,
        hold, hold},
       text);
}

void AlertWatch::endAlerts(const Which& which) {
  for (auto it = conditions_.begin(); it != conditions_.end();) {
    const auto& [rule, subject] = it->first;
    if (!which(rule, subject)) {
      ++it;
      continue;
    }
    if (it->second.active) addEvent(rule, false, subject, it->second.text);
    it = conditions_.erase(it);
  }
}

std::vector<AlertEvent> AlertWatch::taken(std::int64_t wallNs) {
  for (AlertEvent& event : events_) event.wallNs = wallNs;
  return std::exchange(events_, {});
}

std::vector<AlertEvent> AlertWatch::setSettings(AlertSettings settings, std::int64_t wallNs) {
  settings_ = std::move(settings);
  endAlerts([this](AlertRule rule, const auto&) { return !settings_.of(rule).enabled; });
  return taken(wallNs);
}

std::vector<AlertEvent> AlertWatch::take(const RunUpdate& update, Nanoseconds now,
                                         std::int64_t wallNs) {
  if (over_) return {};
  for (const auto& series : update.series) progress_.addSeries(series, now);
  for (const EpochRow& epoch : update.epochs) progress_.addEpoch(epoch);
  if (update.preview) {  // the points come again; that steps complete is news
    for (const auto& series : update.series)
      if (series.name == "loss" && !series.points.empty()) steppedAt_ = now;
    return {};
  }
  if (update.leftOut) leaveOut(*update.leftOut);
  skipped_.clear();  // they come with their losses
  for (const auto& series : update.series)
    if (series.name == "skipped")
      for (const Point& point : series.points) skipped_.insert(point.x);
  for (const auto& series : update.series) addSeries(series, now);
  if (!update.epochs.empty() && steppedAt_ != 0) steppedAt_ = now;  // an evaluation has ended
  if (!update.restarts.empty()) steppedAt_ = 0;  // steps that are trained again are not told of
  if (update.awaited) isTrained_ = !update.awaited->empty();
  addErrors(update.errors);
  if (update.slowChanged) slow_ = update.slow;
  for (const RunUpdate::Node& node : update.nodes) reachable_[node.name] = node.reachable;
  if (update.row) addRow(*update.row);
  if (!over_) judge(now);
  return taken(wallNs);
}

std::vector<AlertEvent> AlertWatch::tick(Nanoseconds now, std::int64_t wallNs) {
  if (over_) return {};
  judge(now);
  return taken(wallNs);
}

void AlertWatch::addRow(const RunRow& row) {
  row_ = row;
  if (!isFinal(row.phase)) return;
  over_ = true;
  endAlerts([](AlertRule, const auto&) { return true; });
  if (settings_.of(AlertRule::kRunEnded).enabled)
    addEvent(AlertRule::kRunEnded, true, {}, runOutcome(row.phase));
}

void AlertWatch::leaveOut(const std::set<std::string>& nodes) {
  leftOut_ = nodes;
  endAlerts([this](AlertRule, const std::string& subject) {
    return std::ranges::any_of(leftOut_, [&](const std::string& node) {
      return subject == node || subject.starts_with(node + " GPU ");
    });
  });
}

bool AlertWatch::ofProgram() const { return row_.strategy == specs::kProgramStrategy; }

void AlertWatch::noteDuration(double seconds) {
  durations_.push_back(seconds);
  if (durations_.size() > kDurations) durations_.pop_front();
}

void AlertWatch::addSeries(const RunBatch::Series& series, Nanoseconds now) {
  const std::string& name = series.name;
  double& last = lastX_.try_emplace(name, -1).first->second;
  std::vector<Point> points;
  for (const Point& point : series.points)
    if (point.x > last) points.push_back(point);
  if (points.empty()) return;
  last = points.back().x;
  if (name == "loss") {
    // The steps of a program are not measured: its losses come as often as it tells them.
    if (ofProgram() && steppedAt_ != 0) noteDuration(seconds(now - steppedAt_));
    steppedAt_ = now;
    for (const Point& point : points) addLoss(point.x, point.y);
  } else if (name == "rank/0/step") {
    for (const Point& point : points) noteDuration(point.y);
  } else {
    addNodeSeries(parseSeriesName(name), points);
  }
}

void AlertWatch::noteStep(AlertRule rule, const Reading& reading,
                          const std::function<Message()>& text) {
  if (reading.at > toldSteps_) note(rule, {}, reading, text);
}

void AlertWatch::addLoss(double step, double loss) {
  const bool isFinite = std::isfinite(loss);
  if (!isFinite && skipped_.contains(step)) return;  // the loss scale is being searched for
  noteStep(AlertRule::kLossNotFinite, {step, !isFinite, isFinite, 0, kFiniteSteps}, [&] {
    return message("The loss is not finite in step {}.", static_cast<std::int64_t>(step));
  });
  if (!isFinite) return;
  addSpike(step, loss);
  addPlateau(step, loss);
}

// The window keeps the losses of a spike: a level that stays is the usual one after half a window.
void AlertWatch::addSpike(double step, double loss) {
  const auto window =
      static_cast<std::size_t>(settings_.value(AlertRule::kLossSpike, AlertField::kWindow));
  if (settings_.of(AlertRule::kLossSpike).enabled &&
      losses_.size() >= std::max(kLeastLosses, window / 2)) {
    std::vector<double> values(losses_.begin(), losses_.end());
    const double middle = median(values);
    for (double& value : values) value = std::abs(value - middle);
    const double spread = std::max(median(std::move(values)), kLeastSpread * std::abs(middle));
    const double excess = spread > 0 ? (loss - middle) / spread : 0;
    const double threshold = settings_.value(AlertRule::kLossSpike, AlertField::kThreshold);
    const double release = alertRuleInfo(AlertRule::kLossSpike).release;
    const double hold = settings_.value(AlertRule::kLossSpike, AlertField::kHold) - 1;
    noteStep(AlertRule::kLossSpike,
             {step, excess >= threshold, excess < threshold * release, hold, hold}, [&] {
               return message("The loss {:.4g} in step {} is {:.3g} × MAD above the median {:.4g}.",
                              loss, static_cast<std::int64_t>(step), excess, middle);
             });
  }
  losses_.push_back(loss);
  while (losses_.size() > window) losses_.pop_front();
}

void AlertWatch::addPlateau(double step, double loss) {
  const double window = settings_.value(AlertRule::kLossPlateau, AlertField::kWindow);
  const double percent = settings_.value(AlertRule::kLossPlateau, AlertField::kThreshold);
  const bool isFirst = bestStep_ < 0;
  smoothed_ = isFirst ? loss : smoothed_ + (loss - smoothed_) * std::min(1.0, 10 / window);
  const bool improved = isFirst || smoothed_ < best_ - std::abs(best_) * percent / 100;
  if (improved) {
    best_ = lowest_ = smoothed_;
    bestStep_ = step;
  }
  lowest_ = std::min(lowest_, smoothed_);
  const bool isPast = step - bestStep_ >= window;
  if (isPast && !isPlateau_) best_ = lowest_;  // what came before is no improvement
  isPlateau_ = isPast;
  noteStep(AlertRule::kLossPlateau, {step, isPast, improved}, [&] {
    return message("The loss has not improved by {:.3g} % in {} steps.", percent,
                   static_cast<std::int64_t>(window));
  });
}

void AlertWatch::addNodeSeries(const SeriesName& name, const std::vector<Point>& points) {
  if (name.node.empty() || !name.to.empty() || leftOut_.contains(name.node)) return;
  if (name.gpu >= 0) {
    for (const Point& point : points) addGpuPoint(name.node, name.gpu, name.figure, point);
    return;
  }
  const std::string &node = name.node, &what = name.figure;
  if (what == "memory_total") memoryTotal_[node] = points.back().y;
  for (const Point& point : points) {
    if (what == "disk_free") {
      const double free = point.y / kGiB;
      noteValue(AlertRule::kDiskFree, node, point.x, free, true,
                [&] { return message("{} has {:.1f} GiB of free disk space.", node, free); });
    } else if (what == "memory" && memoryTotal_[node] > 0) {
      const double percent = 100 * point.y / memoryTotal_[node];
      noteValue(AlertRule::kNodeMemory, node, point.x, percent, false,
                [&] { return message("{} uses {:.0f} % of its memory.", node, percent); });
    }
  }
}

void AlertWatch::addGpuPoint(const std::string& node, int gpu, std::string_view what,
                             const Point& point) {
  const std::string subject = fmt::format("{} GPU {}", node, gpu);
  if (what == "temperature") {
    noteValue(AlertRule::kGpuTemperature, subject, point.x, point.y, false,
              [&] { return message("GPU {} of {} has {:.0f} °C.", gpu, node, point.y); });
  } else if (what == "slowed") {
    const double window = settings_.value(AlertRule::kGpuThrottled, AlertField::kWindow);
    std::deque<Point>& samples = throttled_[subject];
    samples.push_back(point);
    while (samples.front().x < point.x - window) samples.pop_front();
    if (point.x - samples.front().x < window / 2 || samples.size() < kLeastSamples) return;
    double slowed = 0;
    for (const Point& sample : samples) slowed += sample.y;
    const double percent = 100 * slowed / static_cast<double>(samples.size());
    noteValue(AlertRule::kGpuThrottled, subject, point.x, percent, false, [&] {
      return message("GPU {} of {} was slowed down {:.0f} % of the last {:.0f} s.", gpu, node,
                     percent, window);
    });
  }
}

void AlertWatch::addErrors(const std::vector<Error>& errors) {
  for (const Error& error : errors) {
    if (error.what.id() != kDiverged) continue;
    note(AlertRule::kLossNotFinite, {}, {static_cast<double>(error.step), true, false},
         [&] { return error.what; });
  }
}

void AlertWatch::judge(Nanoseconds now) {
  judgeStall(now);
  judgeStraggler(now);
  judgeNodes(now);
}

// While the run recovers or its coordinator does not answer, whether it stalls is not known. At the
// end of an epoch, an evaluation or a checkpoint may take longer. Trained to its end, it has no
// more steps.
void AlertWatch::judgeStall(Nanoseconds now) {
  if (steppedAt_ == 0 || isTrained_ || row_.phase != RunState::RUNNING || row_.unreachableNs != 0)
    return;
  constexpr double kBetweenEpochs = 10;
  constexpr std::size_t kFewLosses = 3;
  if (ofProgram() && durations_.size() < kFewLosses) return;  // how often they come is not known
  const double silent = seconds(now - steppedAt_);
  const double usual = median({durations_.begin(), durations_.end()});
  const double limit =
      std::max(settings_.value(AlertRule::kStall, AlertField::kHold),
               settings_.value(AlertRule::kStall, AlertField::kThreshold) * usual) *
      (progress_.isBetweenEpochs() ? kBetweenEpochs : 1);
  note(AlertRule::kStall, {}, {seconds(now), silent >= limit, silent < limit},
       [&] { return message("No step has completed for {:.0f} s.", silent); });
}

void AlertWatch::judgeStraggler(Nanoseconds now) {
  const std::string current = slow_ ? stragglerName(*slow_) : std::string();
  std::vector<std::string> others;
  for (const auto& [key, condition] : conditions_)
    if (key.first == AlertRule::kStraggler && key.second != current) others.push_back(key.second);
  for (const std::string& other : others)
    noteValue(AlertRule::kStraggler, other, seconds(now), 0, false, [] { return Message(); });
  if (!slow_) return;
  const double share = slow_->halted ? 100
                       : slow_->stepSeconds > 0
                           ? 100 * (1 - slow_->withoutSeconds / slow_->stepSeconds)
                           : 0;
  noteValue(AlertRule::kStraggler, current, seconds(now), share, false,
            [&] { return stragglerHeadline(*slow_); });
}

void AlertWatch::judgeNodes(Nanoseconds now) {
  const double hold = settings_.value(AlertRule::kNodeUnreachable, AlertField::kHold);
  for (const auto& [node, reachable] : reachable_) {
    if (leftOut_.contains(node)) continue;
    note(AlertRule::kNodeUnreachable, node, {seconds(now), !reachable, reachable, hold, 0},
         [&] { return message("node {} is not reachable now; the run goes on", node); });
  }
}

}  // namespace lockstep::app
