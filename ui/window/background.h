// Work off the GUI thread: run(owner, work, done) runs `work` on a pool thread and hands its value
// to `done` on the GUI thread, unless `owner` is gone by then. Nothing that takes over 100 ms runs
// on the GUI thread.
#pragma once

#include <QCoreApplication>
#include <QPointer>
#include <QThreadPool>
#include <memory>
#include <utility>

namespace lockstep::ui {

template <typename Work, typename Done>
void runInBackground(QObject* owner, Work work, Done done) {
  QPointer<QObject> alive(owner);
  QThreadPool::globalInstance()->start(
      [alive, work = std::move(work), done = std::move(done)]() mutable {
        auto value = std::make_shared<decltype(work())>(work());
        QMetaObject::invokeMethod(
            QCoreApplication::instance(),
            [alive, value, done = std::move(done)]() mutable {
              if (alive) done(std::move(*value));
            },
            Qt::QueuedConnection);
      });
}

// Waits for what is under way, drops what has not begun and whatever was to be handed over: at the
// end, when nobody is there to take it.
inline void endBackground() {
  QThreadPool::globalInstance()->clear();
  QThreadPool::globalInstance()->waitForDone();
  QCoreApplication::sendPostedEvents();
}

}  // namespace lockstep::ui
