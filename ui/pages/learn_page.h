// LearnPage: the lessons, and the one that is open.
#pragma once

#include <memory>

#include "app/learn/lesson.h"
#include "ui/pages/page.h"

class QLabel;
class QPushButton;
class QStackedWidget;
class QToolButton;

namespace lockstep::ui {

class LessonList;
class LessonSession;
class LessonViewer;
class Settings;

class LearnPage : public Page {
  Q_OBJECT

 public:
  // `folder` has the lessons. `settings` keeps the exercises that were reached.
  LearnPage(const QString& folder, Settings& settings, QWidget* parent = nullptr);

  QString title() const override { return tr("Learn"); }
  const char* iconName() const override { return "learn"; }
  Place place() const override;
  void go(const Place& place) override;  // opens the lesson, with the values of the place
  void openLesson(const QString& id);    // "": the list
  LessonSession* session() const { return session_; }  // of the open lesson; null: none
  bool onProjector() const;

 Q_SIGNALS:
  void runWanted(const lockstep::app::Lesson& lesson);  // with its real run as the sliders move it
  void copyLinkWanted();
  void projectorToggled(bool on);

 protected:
  void retranslate() override;

 private:
  QWidget* buildLesson();
  void readLessons();
  void openEntry(int entry);
  void noteReached();
  void setProjector(bool on);
  void askSave();
  void askOpen();
  void saveState(const QString& path);
  void openState(const QString& path);
  void refreshHead();

  QString folder_;
  Settings& settings_;
  QStackedWidget* stack_ = nullptr;
  LessonList* list_ = nullptr;
  QWidget* lessonBox_ = nullptr;
  QPushButton* toList_ = nullptr;
  QLabel* lessonTitle_ = nullptr;
  QToolButton* restart_ = nullptr;
  QToolButton* save_ = nullptr;
  QToolButton* openFile_ = nullptr;
  QToolButton* link_ = nullptr;
  QToolButton* projector_ = nullptr;
  LessonSession* session_ = nullptr;
  LessonViewer* viewer_ = nullptr;
};

}  // namespace lockstep::ui
