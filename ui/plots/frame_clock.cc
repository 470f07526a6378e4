#include "ui/plots/frame_clock.h"

#include <QCoreApplication>

namespace lockstep::ui {

FrameClock& FrameClock::instance() {
  static FrameClock* clock = new FrameClock;  // a child of the application, which ends it
  return *clock;
}

FrameClock::FrameClock() : QObject(QCoreApplication::instance()) {
  timer_.setInterval(33);
  connect(&timer_, &QTimer::timeout, this, [this] {
    Q_EMIT drain();
    Q_EMIT paint();
  });
  timer_.start();
}

}  // namespace lockstep::ui
