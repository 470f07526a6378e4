// LessonExercises: the exercises of a lesson, each with a hint and a mark once it is reached; and
// below them the same thing for real.
#pragma once

#include <QWidget>
#include <vector>

class QLabel;
class QPushButton;

namespace lockstep::ui {

class Card;
class LessonSession;

class LessonExercises : public QWidget {
  Q_OBJECT

 public:
  LessonExercises(LessonSession* session, QWidget* parent);

  void retranslate();

 Q_SIGNALS:
  void runWanted();

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void buildRun();
  void refresh();
  void refreshRun();

  struct Row {
    QLabel* mark;
    QLabel* task;
    QPushButton* hintButton;
    QLabel* hint;
    QLabel* done;
  };
  LessonSession* session_;
  Card* card_ = nullptr;
  std::vector<Row> rows_;
  Card* runCard_ = nullptr;
  QLabel* runText_ = nullptr;
  QLabel* runSettings_ = nullptr;
  QLabel* runCommand_ = nullptr;  // the same run from a terminal
  QPushButton* run_ = nullptr;
};

}  // namespace lockstep::ui
