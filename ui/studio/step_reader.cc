#include "ui/studio/step_reader.h"

#include <utility>

#include "app/history/history.h"
#include "ui/studio/background.h"

namespace lockstep::ui {

struct StepReader::Answer {
  Status status;
  std::shared_ptr<const plan::Plan> plan;
  bool planIsNew = false;
  std::vector<plan::Traffic> traffic;  // with a new plan
  Timeline predicted;                  // with a new plan
  Timeline measured;
};

StepReader::StepReader(std::string historyFolder, std::string run, QObject* parent)
    : QObject(parent), folder_(std::move(historyFolder)), run_(std::move(run)) {}

StepReader::Answer StepReader::work(const std::string& folder, const std::string& run,
                                    std::int64_t step, std::shared_ptr<const plan::Plan> plan) {
  Answer out;
  out.plan = std::move(plan);
  out.status = [&]() -> Status {
    LOCKSTEP_ASSIGN(const auto history, app::History::open(folder));
    if (!out.plan) {
      LOCKSTEP_ASSIGN(const app::RunDocuments documents, history->documents(run));
      if (documents.plan.empty()) return {};  // its launch has not come so far
      LOCKSTEP_ASSIGN(plan::Plan parsed, app::storedPlan(documents.plan));
      out.plan = std::make_shared<const plan::Plan>(std::move(parsed));
      out.planIsNew = true;
      out.traffic = plan::stepTraffic(*out.plan);
      const auto prediction = app::parsePrediction(documents.prediction);
      if (prediction.ok())
        if (auto predicted = app::predictTimeline(*out.plan, *prediction); predicted.ok())
          out.predicted = std::make_shared<const app::StepTimeline>(std::move(*predicted));
    }
    LOCKSTEP_ASSIGN(const auto store, history->openRun(run));
    const std::int64_t shown = app::stepToShow(store->eventSteps(), step);
    if (shown == 0) return {};
    LOCKSTEP_ASSIGN(app::StepTimeline timeline, app::readTimeline(*store, *out.plan, shown));
    out.measured = std::make_shared<const app::StepTimeline>(std::move(timeline));
    return {};
  }();
  return out;
}

void StepReader::read(std::int64_t step) {
  next_ = step;
  if (!reading_) start();
}

void StepReader::start() {
  reading_ = true;
  asked_ = *std::exchange(next_, std::nullopt);
  runInBackground(
      this,
      [folder = folder_, run = run_, step = asked_, plan = plan_] {
        return work(folder, run, step, plan);
      },
      [this](Answer answer) { take(std::move(answer)); });
}

void StepReader::take(Answer answer) {
  reading_ = false;
  if (answer.planIsNew) {
    plan_ = std::move(answer.plan);
    traffic_ = std::move(answer.traffic);
    predicted_ = std::move(answer.predicted);
  }
  measured_ = std::move(answer.measured);
  shown_ = asked_;
  Q_EMIT changed();
  if (!answer.status.ok()) Q_EMIT failed(answer.status.error());
  if (next_) start();
}

}  // namespace lockstep::ui
