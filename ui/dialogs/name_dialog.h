// NameDialog: asks for the name of something, which others of its kind do not have.
#pragma once

#include <QStringList>

#include "ui/dialogs/dialog.h"

class QLineEdit;

namespace lockstep::ui {

class NameDialog : public Dialog {
  Q_OBJECT
 public:
  // `taken` names are refused; `heading` and `accept` are texts.
  NameDialog(const QString& heading, const QString& accept, const QString& name, QStringList taken,
             QWidget* parent);
  QString name() const;

 protected:
  void retranslate() override;

 private:
  void check();

  const QString heading_, accept_;
  const QStringList taken_;
  QLineEdit* name_ = nullptr;
  QLabel* note_ = nullptr;
};

}  // namespace lockstep::ui
