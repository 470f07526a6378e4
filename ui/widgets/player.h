// Player: plays what has a beginning and an end, or goes through it stop by stop: buttons, a slider
// and the speed. It knows nothing of what it plays.
#pragma once

#include <QElapsedTimer>
#include <QTimer>
#include <QWidget>
#include <vector>

class QComboBox;
class QSlider;
class QToolButton;

namespace lockstep::ui {

class Player : public QWidget {
  Q_OBJECT

 public:
  Player(const QString& objectName, QWidget* parent);

  // In ascending order: the first is the beginning, the last the end; fewer than two: nothing to
  // play. All of it takes `seconds` at the speed of 1. The position stays where it was in
  // proportion to the whole.
  void setStops(std::vector<double> stops, double seconds);
  double position() const { return position_; }
  void setPosition(double position);
  bool isPlaying() const { return timer_.isActive(); }
  bool atEnd() const;
  void play();  // at the end: from the beginning
  void pause();
  void step(int stops);  // forward, or back; pauses
  // Space, left, right, Home and End on that widget mean what the buttons do.
  void takeKeysOf(QWidget* widget);
  void retranslate();

 Q_SIGNALS:
  void moved(double position);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void hideEvent(QHideEvent* event) override;

 private:
  double begin() const { return stops_.size() < 2 ? 0 : stops_.front(); }
  double end() const { return stops_.size() < 2 ? 0 : stops_.back(); }
  void advance();
  void refresh();

  std::vector<double> stops_;
  double seconds_ = 1, position_ = 0;
  QTimer timer_;
  QElapsedTimer since_;
  QToolButton* back_ = nullptr;
  QToolButton* play_ = nullptr;
  QToolButton* forward_ = nullptr;
  QSlider* slider_ = nullptr;
  QComboBox* speed_ = nullptr;
};

}  // namespace lockstep::ui
