// LessonSession: a lesson as a student goes through it: the page, the values of the sliders, the
// scene made of them, and the exercises that were reached. Scenes are made in the background, one
// at a time; of several states asked for meanwhile the newest is made. Threads: GUI.
#pragma once

#include <QObject>
#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "app/learn/lesson.h"
#include "app/learn/scene.h"
#include "engine/base/status.h"

namespace lockstep::ui {

class LessonSession : public QObject {
  Q_OBJECT

 public:
  using Scene = std::shared_ptr<const app::Scene>;

  // Makes the first page's scene. `reached` are the exercises reached earlier.
  LessonSession(std::shared_ptr<const app::Lesson> lesson, std::set<int> reached,
                QObject* parent = nullptr);
  ~LessonSession() override;

  const app::Lesson& lesson() const { return *lesson_; }
  int page() const { return page_; }
  void turnTo(int page);
  // The value of every slider.
  const app::LessonState& state() const { return state_; }
  void setValue(const std::string& slider, const std::string& value);
  // Of the sliders that it names. Errors: kInvalidArgument for a slider or value that the lesson
  // has not; nothing is set then.
  Status setState(const app::LessonState& values);
  void restart();  // with the values that the lesson begins with
  // What setValue() and setState() moved, of the sliders that a real run has. Turning to a page
  // that sets a slider takes that back.
  app::LessonState moved() const;
  app::Lesson::RealRun realRun() const;  // the lesson's, with what was moved

  const Scene& scene() const { return scene_; }  // the last that was made; null: none yet
  const Scene& start() const { return start_; }  // of the values that the lesson begins with
  bool isMaking() const { return stop_ != nullptr; }
  // Why the newest state has no scene; kCancelled after cancel(); nullopt: it has, or will have.
  const std::optional<Error>& error() const { return error_; }
  void make();  // again
  void cancel();
  const std::set<int>& reached() const { return reached_; }

 Q_SIGNALS:
  void pageChanged();
  void stateChanged();
  void sceneChanged();   // scene(), or error()
  void makingChanged();  // isMaking()
  void exerciseReached(int exercise);

 private:
  struct Answer;
  app::LessonState stateOf(int page) const;  // if no slider were moved by hand
  void changed();
  void take(Answer answer);
  void checkExercises(const app::LessonState& state);

  std::shared_ptr<const app::Lesson> lesson_;
  std::set<int> reached_;
  int page_ = 0;
  app::LessonState state_;
  std::set<std::string> moved_;  // sliders, not by a page
  Scene scene_, start_;
  std::optional<Error> error_;
  std::shared_ptr<std::atomic<bool>> stop_;  // of the scene that is being made; null: none
  bool again_ = false;                       // the state has changed meanwhile
};

}  // namespace lockstep::ui
