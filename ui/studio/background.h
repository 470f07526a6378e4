// Runs work off the GUI thread: `work` runs on a pool thread, and `done` receives its value on the
// GUI thread, unless `owner` was destroyed. Nothing that takes over 100 ms runs on the GUI thread.
// Work that uses a Workspace runs on its teardownPool(), for which its destructor waits.
// Work that waits for nodes has a pool of more threads.
#pragma once

#include <QCoreApplication>
#include <QPointer>
#include <QThreadPool>
#include <memory>
#include <utility>

namespace lockstep::ui {

// Calls it on the GUI thread, unless `owner` was destroyed. Threads: any.
template <typename Call>
void postToGui(QPointer<QObject> owner, Call call) {
  QMetaObject::invokeMethod(
      QCoreApplication::instance(),
      [owner = std::move(owner), call = std::move(call)]() mutable {
        if (owner) call();
      },
      Qt::QueuedConnection);
}

template <typename Work, typename Done>
void runInBackground(QObject* owner, Work work, Done done,
                     QThreadPool& pool = *QThreadPool::globalInstance()) {
  pool.start(
      [alive = QPointer<QObject>(owner), work = std::move(work), done = std::move(done)]() mutable {
        auto value = std::make_shared<decltype(work())>(work());
        postToGui(std::move(alive),
                  [value, done = std::move(done)]() mutable { done(std::move(*value)); });
      });
}

// Waits for running work, and drops queued work and undelivered values. Called at exit.
inline void endBackground() {
  QThreadPool::globalInstance()->clear();
  QThreadPool::globalInstance()->waitForDone();
  QCoreApplication::sendPostedEvents();
}

}  // namespace lockstep::ui
