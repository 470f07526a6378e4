// FrameClock: the 33 ms timer of the GUI thread. Views of live data drain their inbox and repaint
// on tick(), never per sample; painting leaves the thread time for the person.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QPointer>
#include <QTimer>
#include <deque>
#include <functional>

namespace lockstep::ui {

class FrameClock : public QObject {
  Q_OBJECT

 public:
  static FrameClock& instance();

  // Calls `paint` when its turn comes, unless the view is gone then: first come, first served, at
  // most some milliseconds of all of them at a tick, and at most a quarter of the thread's time.
  // If a tick has no time left after drain(), one view is painted at the next tick.
  void await(QObject* view, std::function<void()> paint);

 Q_SIGNALS:
  void drain();  // first: take what has arrived
  void paint();  // then: repaint what is visible and changed, or await a turn

 private:
  FrameClock();
  void serve(qint64 tick);  // which began then

  struct Waiting {
    QPointer<QObject> view;
    std::function<void()> paint;
  };
  QTimer timer_;
  QElapsedTimer clock_;
  std::deque<Waiting> waiting_;
  qint64 restUntil_ = 0;  // ns of clock_
  bool isPassedOver_ = false;
};

}  // namespace lockstep::ui
