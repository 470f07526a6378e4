// AddHostDialog: one node for a cluster: a Host of ssh_config or a typed address, or this machine.
#pragma once

#include "app/specs/cluster_edits.h"
#include "ui/dialogs/dialog.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QSpinBox;

namespace lockstep::ui {

class AddHostDialog : public Dialog {
  Q_OBJECT

 public:
  // `file`: of the cluster, for the command that is shown.
  AddHostDialog(const QStringList& knownHosts, const QStringList& takenNames, QString file,
                QWidget* parent);
  app::NewNode node() const;

 protected:
  void retranslate() override;

 private:
  void check();

  void nameCommand();

  const QStringList taken_;
  const QString file_;
  QComboBox* host_ = nullptr;
  QLineEdit* name_ = nullptr;
  QLineEdit* address_ = nullptr;
  QLineEdit* user_ = nullptr;
  QSpinBox* port_ = nullptr;
  QLineEdit* identity_ = nullptr;
  QLineEdit* workdir_ = nullptr;
  QComboBox* device_ = nullptr;
  QSpinBox* ranks_ = nullptr;
  QVector<QLabel*> labels_;
  QLabel* wrong_ = nullptr;
  bool nameTyped_ = false;
};

}  // namespace lockstep::ui
