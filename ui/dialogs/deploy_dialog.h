// DeployDialog: asks how the agents of a cluster's nodes are to start, now and later.
#pragma once

#include <optional>

#include "app/deploy/agent_start.h"
#include "ui/dialogs/dialog.h"

class QComboBox;
class QLabel;

namespace lockstep::ui {

class DeployDialog : public Dialog {
  Q_OBJECT

 public:
  // `file`: of the cluster, for the command that is shown.
  DeployDialog(QString file, QWidget* parent);
  std::optional<app::AgentStart> start() const;  // none: as each node was deployed

 protected:
  void retranslate() override;

 private:
  void showChoice();

  const QString file_;
  QComboBox* starts_ = nullptr;
  QLabel* help_ = nullptr;
};

}  // namespace lockstep::ui
