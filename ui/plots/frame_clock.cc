#include "ui/plots/frame_clock.h"

#include <QCoreApplication>
#include <algorithm>
#include <utility>

namespace lockstep::ui {
namespace {

constexpr qint64 kMillisecond = 1'000'000;
constexpr qint64 kSlice = 12 * kMillisecond;  // of a tick; views are begun within it
constexpr qint64 kRest = 3;                   // times as long as painting took
// Views that are painted quickly keep the pace of the ticks.
constexpr qint64 kMostRestOwed = 33 * kMillisecond;

}  // namespace

FrameClock& FrameClock::instance() {
  static FrameClock* clock = new FrameClock;  // a child of the application, which ends it
  return *clock;
}

FrameClock::FrameClock() : QObject(QCoreApplication::instance()) {
  timer_.setInterval(33);
  connect(&timer_, &QTimer::timeout, this, [this] {
    const qint64 begin = clock_.nsecsElapsed();
    Q_EMIT drain();
    Q_EMIT paint();
    serve(begin);
  });
  timer_.start();
  clock_.start();
}

void FrameClock::await(QObject* view, std::function<void()> paint) {
  waiting_.push_back({view, std::move(paint)});
}

void FrameClock::serve(qint64 tick) {
  const qint64 begin = clock_.nsecsElapsed();
  if (begin < restUntil_) return;
  qint64 now = begin;
  bool isServed = false;
  while (!waiting_.empty() && (now - tick < kSlice || (isPassedOver_ && !isServed))) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    if (!next.view) continue;
    next.paint();
    isServed = true;
    now = clock_.nsecsElapsed();
  }
  isPassedOver_ = !isServed && !waiting_.empty();
  const qint64 spent = now - begin;
  restUntil_ = spent * (kRest + 1) > kMostRestOwed ? now + spent * kRest : 0;
}

}  // namespace lockstep::ui
