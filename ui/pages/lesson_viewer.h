// LessonViewer: inside a lesson: left the text and the exercises, right what the simulator makes of
// the sliders.
#pragma once

#include <QTimer>
#include <QWidget>
#include <array>
#include <vector>

class QGridLayout;
class QLabel;
class QProgressBar;
class QPushButton;
class QScrollArea;
class QSplitter;
class QTabWidget;

namespace lockstep::ui {

class LessonExercises;
class LessonPicture;
class LessonSession;
class LessonSliders;
class LessonText;

class LessonViewer : public QWidget {
  Q_OBJECT

 public:
  LessonViewer(LessonSession* session, QWidget* parent);

  void retranslate();

 Q_SIGNALS:
  void runWanted();

 protected:
  void resizeEvent(QResizeEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QWidget* buildLeft();
  QWidget* buildRight();
  QWidget* buildState();
  void connectSession();
  void fitLeft();      // as wide as its buttons need
  void fitRight();     // as wide as its sliders and picture need, where the text can give way
  void fitTabs();      // as high as its pictures need
  void openPicture();  // that of the page
  void showScene();
  void showFigures();
  void arrangeFigures();
  void showState();  // of the making of the scene

  LessonSession* session_;
  QSplitter* splitter_ = nullptr;
  QScrollArea* left_ = nullptr;
  QScrollArea* right_ = nullptr;
  LessonText* text_ = nullptr;
  LessonExercises* exercises_ = nullptr;
  QTabWidget* tabs_ = nullptr;
  std::vector<LessonPicture*> pictures_;  // by tab
  QWidget* figureBox_ = nullptr;
  QGridLayout* figureGrid_ = nullptr;
  std::vector<std::array<QLabel*, 3>> figures_;  // name, value, value at the start
  LessonSliders* sliders_ = nullptr;
  QWidget* state_ = nullptr;
  QLabel* stateText_ = nullptr;
  QProgressBar* busy_ = nullptr;
  QPushButton* cancel_ = nullptr;
  QPushButton* again_ = nullptr;
  QTimer slow_;  // what is made in an instant is not announced
};

}  // namespace lockstep::ui
