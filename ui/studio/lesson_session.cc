#include "ui/studio/lesson_session.h"

#include <algorithm>
#include <utility>

#include "ui/studio/background.h"

namespace lockstep::ui {

struct LessonSession::Answer {
  app::LessonState state;
  Result<app::Scene> scene;
  std::optional<Result<app::Scene>> start;  // where it is another, and was not known
};

LessonSession::LessonSession(std::shared_ptr<const app::Lesson> lesson, std::set<int> reached,
                             QObject* parent)
    : QObject(parent), lesson_(std::move(lesson)), reached_(std::move(reached)) {
  state_ = stateOf(0);
  make();
}

LessonSession::~LessonSession() {
  if (stop_) stop_->store(true);
}

app::LessonState LessonSession::stateOf(int page) const {
  app::LessonState out = lesson_->start();
  for (int i = 0; i <= page && i < static_cast<int>(lesson_->pages.size()); ++i)
    for (const auto& [name, value] : lesson_->pages[static_cast<std::size_t>(i)].state)
      out[name] = value;
  return out;
}

// What the page says of its sliders; back on an earlier one also what the later pages changed.
void LessonSession::turnTo(int page) {
  page = std::clamp(page, 0, std::max(0, static_cast<int>(lesson_->pages.size()) - 1));
  if (page == page_) return;
  const app::LessonState there = stateOf(page);
  app::LessonState next = state_;
  const int last = std::max(page, page_);
  for (int i = page; i <= last; ++i)
    for (const auto& [name, value] : lesson_->pages[static_cast<std::size_t>(i)].state) {
      if (i != page && page > page_) continue;
      next[name] = there.at(name);
      moved_.erase(name);
    }
  page_ = page;
  Q_EMIT pageChanged();
  if (next == state_) return;
  state_ = std::move(next);
  changed();
}

void LessonSession::setValue(const std::string& slider, const std::string& value) {
  (void)setState({{slider, value}});
}

Status LessonSession::setState(const app::LessonState& values) {
  for (const auto& [name, value] : values) {
    const app::Slider* slider = lesson_->slider(name);
    if (slider == nullptr) return invalidArgument("the lesson has no slider '{}'", name);
    if (std::find(slider->values.begin(), slider->values.end(), value) == slider->values.end())
      return invalidArgument("slider {} has no value '{}'; expected one of {}", name, value,
                             fmt::join(slider->values, ", "));
  }
  bool isOther = false;
  for (const auto& [name, value] : values) {
    if (std::exchange(state_[name], value) == value) continue;
    moved_.insert(name);
    isOther = true;
  }
  if (isOther) changed();
  return {};
}

void LessonSession::restart() {
  if (moved_.empty() && state_ == lesson_->start()) return;
  moved_.clear();
  state_ = lesson_->start();
  changed();
}

app::LessonState LessonSession::moved() const {
  app::LessonState out;
  for (const std::string& name : moved_) out[name] = state_.at(name);
  return app::withoutSimulated(*lesson_, out);
}

app::Lesson::RealRun LessonSession::realRun() const {
  return *app::realRunIn(*lesson_, moved());  // it has these sliders and values
}

void LessonSession::changed() {
  Q_EMIT stateChanged();
  make();
}

void LessonSession::make() {
  error_.reset();
  if (stop_) {
    again_ = true;
    stop_->store(true);
    return;
  }
  again_ = false;
  stop_ = std::make_shared<std::atomic<bool>>(false);
  runInBackground(
      this,
      [lesson = lesson_, state = state_, stop = stop_, needsStart = !start_]() -> Answer {
        Answer out{state, app::makeScene(*lesson, state, stop.get()), std::nullopt};
        if (needsStart && state != lesson->start())
          out.start = app::makeScene(*lesson, lesson->start(), stop.get());
        return out;
      },
      [this](Answer answer) { take(std::move(answer)); });
  Q_EMIT makingChanged();
}

void LessonSession::take(Answer answer) {
  const bool stopped = stop_->load();
  stop_.reset();
  if (answer.start && answer.start->ok())
    start_ = std::make_shared<const app::Scene>(std::move(**answer.start));
  if (answer.scene.ok()) {
    scene_ = std::make_shared<const app::Scene>(std::move(*answer.scene));
    if (!start_ && answer.state == lesson_->start()) start_ = scene_;
    if (!again_ && answer.state != state_)  // cancelled too late for this one
      error_ = makeError(Code::kCancelled, "the scene was stopped");
    Q_EMIT sceneChanged();
    checkExercises(answer.state);
  } else if (!again_) {
    error_ = answer.scene.error();
    Q_EMIT sceneChanged();
  }
  const bool again = std::exchange(again_, false);
  if (again && (stopped || answer.state != state_)) return make();
  Q_EMIT makingChanged();
}

void LessonSession::cancel() {
  again_ = false;
  if (stop_) stop_->store(true);
}

void LessonSession::checkExercises(const app::LessonState& state) {
  if (!start_) return;
  for (int i = 0; i < static_cast<int>(lesson_->exercises.size()); ++i) {
    if (reached_.contains(i) || !app::isReached(lesson_->exercises[static_cast<std::size_t>(i)],
                                                *lesson_, state, *scene_, *start_))
      continue;
    reached_.insert(i);
    Q_EMIT exerciseReached(i);
  }
}

}  // namespace lockstep::ui
