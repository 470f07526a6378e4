// SaveFilterDialog: asks under which name a filter of the history is saved.
#pragma once

#include "app/history/run_tags.h"
#include "ui/dialogs/dialog.h"

class QLabel;
class QLineEdit;

namespace lockstep::ui {

class SaveFilterDialog : public Dialog {
  Q_OBJECT

 public:
  SaveFilterDialog(const QString& filter, const QStringList& taken, QWidget* parent);

 public Q_SLOTS:
  void accept() override;

 Q_SIGNALS:
  void chosen(const lockstep::app::SavedFilter& filter);

 protected:
  void retranslate() override;

 private:
  void check();

  QString filter_;
  QStringList taken_;
  QLabel* label_ = nullptr;
  QLineEdit* name_ = nullptr;
  QLabel* note_ = nullptr;
};

}  // namespace lockstep::ui
