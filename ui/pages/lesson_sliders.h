// LessonSliders: what a student changes in a lesson. Numbers have a slider with their values, words
// a list to choose from.
#pragma once

#include <QWidget>
#include <vector>

#include "app/learn/lesson.h"

class QComboBox;
class QGridLayout;
class QLabel;
class QSlider;

namespace lockstep::ui {

class LessonSession;

class LessonSliders : public QWidget {
  Q_OBJECT

 public:
  LessonSliders(LessonSession* session, QWidget* parent);

  void retranslate();

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  struct Row {
    const app::Slider* slider;
    QLabel* label = nullptr;
    QSlider* number = nullptr;  // or
    QComboBox* word = nullptr;
    QLabel* value = nullptr;
  };
  Row makeRow(const app::Slider& slider);
  void arrange();  // in one or two columns
  void refresh();  // from the session
  void choose(const Row& row, int index);
  QString valueText(const app::Slider& slider, std::size_t index) const;

  LessonSession* session_;
  QGridLayout* grid_ = nullptr;
  std::vector<Row> rows_;
  int columns_ = 0;
};

}  // namespace lockstep::ui
