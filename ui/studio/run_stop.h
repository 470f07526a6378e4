// RunStop: asks a run to finish its step, save a checkpoint and stop, and waits until it has, for
// 150 s at most. The request cannot be withdrawn: cancelling, or destroying it, ends the wait
// alone. Threads: GUI.
#pragma once

#include <QObject>
#include <QPointer>
#include <string>

#include "engine/base/status.h"

namespace lockstep::ui {

class RunDocument;

class RunStop : public QObject {
  Q_OBJECT

 public:
  RunStop(RunDocument& run, QObject* parent);

  void begin();  // a run that has ended is asked nothing
  void cancel();

 Q_SIGNALS:  // one of them, once
  void stopped();
  // The run was not asked, did not stop, ended otherwise, or is not waited for any more.
  void failed(const lockstep::Error& error);

 private:
  void noteRow();
  void judge();
  void end(const Status& status);

  const std::string id_;
  QPointer<RunDocument> run_;
  bool over_ = false;
};

}  // namespace lockstep::ui
