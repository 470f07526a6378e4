// NameDialog: asks for the name of something.
#pragma once

#include <QString>
#include <QStringList>
#include <functional>

#include "ui/dialogs/dialog.h"

class QLabel;
class QLineEdit;

namespace lockstep::ui {

class NameDialog : public Dialog {
  Q_OBJECT
 public:
  struct Texts {
    QString heading, detail, accept;  // detail may be empty
  };
  struct Verdict {
    bool allowed = true;
    QString note;
    QStringList command;  // that does the same; may be empty
  };
  // `check` judges names without spaces at their ends, other than "".
  using Check = std::function<Verdict(const QString& name)>;
  NameDialog(Texts texts, const QString& name, Check check, QWidget* parent);
  QString name() const;

 public Q_SLOTS:
  void accept() override;

 protected:
  void retranslate() override;

 private:
  void judge();

  const Texts texts_;
  const Check check_;
  QLineEdit* name_ = nullptr;
  QLabel* note_ = nullptr;
};

}  // namespace lockstep::ui
