// WithoutReader: what a step of a run would take without its slow ranks, replayed in the background
// from what the history has. Of a live run it takes a sixth of the time at most. Threads: GUI.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/whatif/steps_without.h"

namespace lockstep::ui {

class WithoutReader : public QObject {
  Q_OBJECT

 public:
  WithoutReader(std::string historyFolder, std::string run, QObject* parent = nullptr);
  ~WithoutReader() override;  // a replay under way ends within a step of it

  struct Question {
    std::vector<app::SlowRanks> ranks;
    std::int64_t last = 0;  // of so many last steps; 0: of all
    std::int64_t step = 0;  // the run's last step now
    bool operator==(const Question&) const = default;
  };
  // The same question is answered once; a newer one takes the place of one that still waits.
  void ask(Question question);
  void forget();  // the answer, and what is asked

  // The newest answer; null: none, or the run cannot be replayed.
  const app::StepsWithout* answer() const { return answer_ ? &*answer_ : nullptr; }

 Q_SIGNALS:
  void changed();

 private:
  void start();
  void take(const Result<app::StepsWithout>& answer);

  std::string folder_, run_;
  std::optional<Question> asked_, next_;  // the one that is answered, or has been
  bool reading_ = false, forgotten_ = false;
  std::stop_source stop_;  // of the replay under way
  QElapsedTimer took_;
  QTimer rest_;
  std::optional<app::StepsWithout> answer_;
};

}  // namespace lockstep::ui
