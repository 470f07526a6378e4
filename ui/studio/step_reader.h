// StepReader: reads the steps of a run from the history in the background: the timelines of told
// steps, the predicted timeline and the planned traffic. Works for live runs too, because their
// recorder writes the history. Threads: GUI.
#pragma once

#include <QObject>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/runs/step_timeline.h"
#include "engine/plan/traffic.h"

namespace lockstep::ui {

class StepReader : public QObject {
  Q_OBJECT

 public:
  StepReader(std::string historyFolder, std::string run, QObject* parent = nullptr);

  // Reads the step that is shown for `step` (app::stepToShow), and the plan if it was not read yet.
  // Only the newest call is answered.
  void read(std::int64_t step);
  bool reading() const { return reading_; }

  using Timeline = std::shared_ptr<const app::StepTimeline>;
  std::int64_t wanted() const { return shown_; }          // the step that measured() is nearest to
  const Timeline& measured() const { return measured_; }  // null: no step was told
  const Timeline& predicted() const { return predicted_; }  // null: no stored prediction
  bool planRead() const { return plan_ != nullptr; }
  const std::vector<plan::Traffic>& traffic() const { return traffic_; }  // planned, per step

 Q_SIGNALS:
  void changed();
  void failed(const lockstep::Error& error);

 private:
  struct Answer;
  static Answer work(const std::string& folder, const std::string& run, std::int64_t step,
                     std::shared_ptr<const plan::Plan> plan);
  void start();
  void take(Answer answer);

  std::string folder_, run_;
  bool reading_ = false;
  std::optional<std::int64_t> next_;  // requested while reading
  std::int64_t asked_ = 0, shown_ = 0;
  std::shared_ptr<const plan::Plan> plan_;
  std::vector<plan::Traffic> traffic_;
  Timeline measured_, predicted_;
};

}  // namespace lockstep::ui
