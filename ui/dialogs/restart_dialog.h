// RestartDialog: asks whether all ranks of a run are to be restarted.
#pragma once

#include "ui/dialogs/dialog.h"

namespace lockstep::ui {

class RestartDialog : public Dialog {
  Q_OBJECT

 public:
  RestartDialog(QString run, QWidget* parent);

 protected:
  void retranslate() override;

 private:
  const QString run_;
};

}  // namespace lockstep::ui
