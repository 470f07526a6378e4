// FrameClock: the one 33 ms timer of the GUI thread. Whatever shows live data drains its inbox and
// repaints on tick(); nothing is drawn per sample.
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
