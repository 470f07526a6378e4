// PreferencesDialog: theme and language; a choice takes effect at once.
#pragma once

#include "ui/dialogs/dialog.h"

class QComboBox;
class QLabel;

namespace lockstep::ui {

class PreferencesDialog : public Dialog {
  Q_OBJECT
 public:
  PreferencesDialog(bool dark, const QString& language, QWidget* parent);

 Q_SIGNALS:
  void darkChosen(bool dark);
  void languageChosen(const QString& code);

 protected:
  void retranslate() override;

 private:
  QLabel* themeLabel_ = nullptr;
  QLabel* languageLabel_ = nullptr;
  QComboBox* theme_ = nullptr;
  QComboBox* language_ = nullptr;
};

}  // namespace lockstep::ui
