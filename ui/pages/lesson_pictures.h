// LessonPicture: one of the pictures of a lesson: the views of the run page, played by the
// simulator.
#pragma once

#include <QWidget>

#include "app/learn/lesson.h"
#include "ui/studio/lesson_session.h"

namespace lockstep::ui {

class LessonPicture : public QWidget {
  Q_OBJECT

 public:
  using QWidget::QWidget;
  // `start` is the scene of the values that the lesson begins with; null: not known yet.
  virtual void show(const LessonSession::Scene& scene, const LessonSession::Scene& start) = 0;
  virtual QString title() const = 0;
  virtual void retranslate() = 0;
};

LessonPicture* makePicture(app::LessonView view, QWidget* parent);
// Those that are played. (ui/pages/lesson_players.cc)
LessonPicture* makeTimelinePicture(QWidget* parent);
LessonPicture* makeMessagesPicture(QWidget* parent);

}  // namespace lockstep::ui
