// ExcludeDialog: asks which node a run continues without.
#pragma once

#include <QStringList>

#include "ui/dialogs/dialog.h"

class QComboBox;
class QLabel;

namespace lockstep::ui {

class ExcludeDialog : public Dialog {
  Q_OBJECT

 public:
  // `node` is selected when the dialog opens. `reason` says why that node is slow, and is shown
  // only while it is selected; it may be empty.
  ExcludeDialog(QString run, const QStringList& nodes, const QString& node, QString reason,
                bool ofProgram, QWidget* parent);
  QString node() const;

 protected:
  void retranslate() override;

 private:
  void showNode();

  const QString run_, reasonOf_, reason_;
  const bool ofProgram_;  // of the user's own
  QComboBox* nodes_ = nullptr;
  QLabel* why_ = nullptr;
};

}  // namespace lockstep::ui
