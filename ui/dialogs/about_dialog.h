// AboutDialog: version and licences.
#pragma once

#include "ui/dialogs/dialog.h"

class QLabel;
class QPlainTextEdit;

namespace lockstep::ui {

class AboutDialog : public Dialog {
  Q_OBJECT
 public:
  explicit AboutDialog(QWidget* parent);

 protected:
  void retranslate() override;

 private:
  QLabel* icon_ = nullptr;
  QPlainTextEdit* licences_ = nullptr;
};

}  // namespace lockstep::ui
