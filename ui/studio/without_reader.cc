#include "ui/studio/without_reader.h"

#include <algorithm>
#include <utility>

#include "ui/studio/background.h"

namespace lockstep::ui {
namespace {

constexpr qint64 kEveryMs = 2000;
constexpr qint64 kRest = 5;  // times as long as the last replay took

}  // namespace

WithoutReader::WithoutReader(std::string historyFolder, std::string run, QObject* parent)
    : QObject(parent), folder_(std::move(historyFolder)), run_(std::move(run)) {
  rest_.setSingleShot(true);
  connect(&rest_, &QTimer::timeout, this, [this] {
    if (next_) start();
  });
}

WithoutReader::~WithoutReader() { stop_.request_stop(); }

void WithoutReader::ask(Question question) {
  if (question.ranks.empty()) return;
  if (question == (next_ ? next_ : asked_)) return;
  next_ = std::move(question);
  if (!reading_ && !rest_.isActive()) start();
}

void WithoutReader::forget() {
  answer_.reset();
  asked_.reset();
  next_.reset();
  forgotten_ = reading_;
  stop_.request_stop();
  rest_.stop();
}

void WithoutReader::start() {
  asked_ = std::exchange(next_, std::nullopt);
  reading_ = true;
  stop_ = {};
  took_.start();
  runInBackground(
      this,
      [folder = folder_, run = run_, question = *asked_,
       stop = stop_.get_token()]() -> Result<app::StepsWithout> {
        LOCKSTEP_ASSIGN(const auto history, app::History::open(folder));
        LOCKSTEP_ASSIGN(const app::RunRow row, history->row(run));
        return app::stepsWithout(*history, row, question.ranks, question.last, stop);
      },
      [this](const Result<app::StepsWithout>& answer) { take(answer); });
}

void WithoutReader::take(const Result<app::StepsWithout>& answer) {
  reading_ = false;
  if (!std::exchange(forgotten_, false)) {
    answer_.reset();
    if (answer.ok()) answer_ = *answer;
    rest_.start(static_cast<int>(std::max(kEveryMs, kRest * took_.elapsed())));
    Q_EMIT changed();
  } else if (next_) {
    start();
  }
}

}  // namespace lockstep::ui
