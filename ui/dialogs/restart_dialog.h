// RestartDialog: asks whether all ranks of a run are to be restarted.
#pragma once

#include "ui/dialogs/dialog.h"

namespace lockstep::ui {

class RestartDialog : public Dialog {
  Q_OBJECT

 public:
  RestartDialog(QString run, bool ofProgram, QWidget* parent);

 protected:
  void retranslate() override;

 private:
  const QString run_;
  const bool ofProgram_;  // of the user's own
};

}  // namespace lockstep::ui
