// FrameClock: the 33 ms timer of the GUI thread. Views of live data drain their inbox and repaint
// on tick(), never per sample.
#pragma once

#include <QObject>
#include <QTimer>

namespace lockstep::ui {

class FrameClock : public QObject {
  Q_OBJECT

 public:
  static FrameClock& instance();

 Q_SIGNALS:
  void drain();  // first: take what has arrived
  void paint();  // then: repaint what is visible and changed

 private:
  FrameClock();
  QTimer timer_;
};

}  // namespace lockstep::ui
