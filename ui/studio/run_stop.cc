#include "ui/studio/run_stop.h"

#include <QTimer>
#include <chrono>
#include <utility>

#include "app/runs/relaunch.h"
#include "ui/studio/run_document.h"

namespace lockstep::ui {
namespace {

constexpr std::chrono::seconds kLimit{150};  // that of `lockstep stop`

}  // namespace

// What the run tells is judged after it has told all of it.
RunStop::RunStop(RunDocument& run, QObject* parent)
    : QObject(parent), id_(run.row().run), run_(&run) {
  connect(run_, &RunDocument::rowChanged, this, &RunStop::noteRow, Qt::QueuedConnection);
  connect(run_, &RunDocument::finished, this, &RunStop::judge, Qt::QueuedConnection);
  connect(run_, &RunDocument::stopRefused, this,
          [this](const Error& error) { app::isFinal(run_->row().phase) ? judge() : end(error); });
  connect(run_, &QObject::destroyed, this, &RunStop::cancel);
}

void RunStop::begin() {
  if (app::isFinal(run_->row().phase))
    QMetaObject::invokeMethod(this, &RunStop::judge, Qt::QueuedConnection);
  else
    run_->stop();
  QTimer::singleShot(kLimit, this, &RunStop::judge);
}

void RunStop::cancel() {
  Error error = makeError(Code::kCancelled, "run {} is not resumed", id_);
  error.why = "it was asked to stop, and stops with a checkpoint";
  error.next = "resume it once it has stopped";
  end(error);
}

void RunStop::noteRow() {
  if (run_ && app::isFinal(run_->row().phase)) judge();
}

void RunStop::judge() {
  if (run_) end(app::mustHaveStopped(run_->row()));
}

void RunStop::end(const Status& status) {
  if (std::exchange(over_, true)) return;
  if (status.ok())
    Q_EMIT stopped();
  else
    Q_EMIT failed(status.error());
}

}  // namespace lockstep::ui
