// WhatIfDialog: the what-if panel of a run of the history.
#pragma once

#include "ui/dialogs/dialog.h"

namespace lockstep::ui {

class WhatIfPanel;

class WhatIfDialog : public Dialog {
  Q_OBJECT

 public:
  // `name` of the run's model.
  WhatIfDialog(const std::string& historyFolder, const QString& run, QString name, QWidget* parent);

 protected:
  void retranslate() override;

 private:
  const QString run_, name_;
  WhatIfPanel* panel_ = nullptr;
};

}  // namespace lockstep::ui
