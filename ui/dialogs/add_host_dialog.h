// AddHostDialog: one node for a cluster: a Host of ssh_config or a typed address, or this machine.
#pragma once

#include "ui/dialogs/dialog.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QSpinBox;

namespace lockstep::ui {

class AddHostDialog : public Dialog {
  Q_OBJECT

 public:
  AddHostDialog(const QStringList& knownHosts, const QStringList& takenNames, QWidget* parent);
  // One item of the cluster's `nodes`, in one line of YAML.
  QString nodeYaml() const;

 protected:
  void retranslate() override;

 private:
  void check();

  QStringList taken_;
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
