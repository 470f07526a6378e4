// AlertWatch: applies alert rules to a run's updates: which alerts are raised, and which are over.
// No threads, no clock, no I/O: `now` is monotonicNow(), `wallNs` wallNow().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/alerts/alert_rules.h"
#include "app/history/series_name.h"
#include "app/runs/run_progress.h"
#include "app/runs/run_update.h"
#include "engine/base/clock.h"

namespace lockstep::app {

struct AlertEvent {
  AlertRule rule = AlertRule::kRunEnded;
  bool raised = true;  // false: it is over
  std::string run, name;
  std::string subject;  // "rank 2", "n1", "n1 GPU 0"; "": the run
  Message text;
  bool severe = false;
  bool lasts = true;  // until it is over; false: it happened
  std::int64_t wallNs = 0;
};
// One line: {"event":"alert","rule":"loss-spike","state":"raised", …}.
std::string alertJson(const AlertEvent& event);
// Returns an event as a rule would raise it, to test the actions.
AlertEvent sampleAlert(AlertRule rule);

Message runOutcome(RunState phase);
Message stragglerHeadline(const Straggler& slow);

class AlertWatch {
 public:
  explicit AlertWatch(AlertSettings settings = {}) : settings_(std::move(settings)) {}

  // Starts with the run as the history has it: `progress` knows its length. Losses of steps up to
  // the row's may come again: later ones are compared with them, and they are not judged. A run
  // that has ended raises nothing.
  void begin(const RunRow& row, RunProgress progress, Nanoseconds now);
  // Alerts of rules that are now disabled are over.
  std::vector<AlertEvent> setSettings(AlertSettings settings, std::int64_t wallNs);
  const AlertSettings& settings() const { return settings_; }
  // Adds an update. Series of steps and samples that repeat are ignored.
  std::vector<AlertEvent> take(const RunUpdate& update, Nanoseconds now, std::int64_t wallNs);
  // Applies the rules that depend on time alone; about once a second.
  std::vector<AlertEvent> tick(Nanoseconds now, std::int64_t wallNs);

 private:
  struct Condition {
    bool active = false;
    std::optional<double> since;  // when the pending change began, steps or seconds
    Message text;
  };
  // The state of a subject at `at`. It is raised once it was `past` the threshold for `hold`, and
  // over once it was `back` for `release`.
  struct Reading {
    double at = 0;
    bool past = false, back = true;
    double hold = 0, release = 0;
  };
  void note(AlertRule rule, const std::string& subject, const Reading& reading,
            const std::function<Message()>& text);
  // The run's state at a step.
  void noteStep(AlertRule rule, const Reading& reading, const std::function<Message()>& text);
  // A value whose rule has a threshold: at or above it is past, or below it where `low`.
  void noteValue(AlertRule rule, const std::string& subject, double at, double value, bool low,
                 const std::function<Message()>& text);
  void addEvent(AlertRule rule, bool raised, const std::string& subject, Message text);
  using Which = std::function<bool(AlertRule, const std::string& subject)>;
  void endAlerts(const Which& which);

  void addSeries(const RunBatch::Series& series, Nanoseconds now);
  void addLoss(double step, double loss);
  void addSpike(double step, double loss);
  void addPlateau(double step, double loss);
  void addNodeSeries(const SeriesName& name, const std::vector<Point>& points);
  void addGpuPoint(const std::string& node, int gpu, std::string_view what, const Point& point);
  void addErrors(const std::vector<Error>& errors);
  void addRow(const RunRow& row);
  void leaveOut(const std::set<std::string>& nodes);
  void judge(Nanoseconds now);
  bool ofProgram() const;
  void noteDuration(double seconds);
  void judgeStall(Nanoseconds now);
  void judgeStraggler(Nanoseconds now);
  void judgeNodes(Nanoseconds now);
  std::vector<AlertEvent> taken(std::int64_t wallNs);

  AlertSettings settings_;
  RunRow row_;
  bool over_ = false;
  std::map<std::pair<AlertRule, std::string>, Condition> conditions_;
  std::vector<AlertEvent> events_;

  RunProgress progress_;
  double toldSteps_ = 0;                 // of the row that it began with
  std::map<std::string, double> lastX_;  // by series
  std::set<double> skipped_;             // steps of fp16 whose update was left out
  std::deque<double> losses_;            // of the window, finite
  double smoothed_ = 0;                  // loss
  double best_ = 0, lowest_ = 0;         // smoothed loss at bestStep_, and the lowest since
  double bestStep_ = -1;                 // -1: no loss yet
  bool isPlateau_ = false;
  std::deque<double> durations_;  // of recent steps, seconds
  Nanoseconds steppedAt_ = 0;     // when the last step was told of; 0: not known
  bool isTrained_ = false;        // to its end: it waits for an evaluation or copies
  std::optional<Straggler> slow_;
  std::map<std::string, bool> reachable_;
  std::set<std::string> leftOut_;  // nodes that the run goes on without: nothing is raised of them
  std::map<std::string, double> memoryTotal_;           // of each node, bytes
  std::map<std::string, std::deque<Point>> throttled_;  // of each GPU, in the window
};

}  // namespace lockstep::app
