#include "ui/dialogs/deploy_dialog.h"

#include <QComboBox>
#include <QLabel>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "ui/widgets/widgets.h"

namespace lockstep::ui {

DeployDialog::DeployDialog(QString file, QWidget* parent)
    : Dialog("deployDialog", parent), file_(std::move(file)) {
  starts_ = new QComboBox(this);
  starts_->setObjectName("deployStart");
  starts_->addItems({"", "", "", ""});  // as before; by AgentStart
  starts_->setMinimumWidth(360);
  help_ = makeLabel("deployHelp", this, "muted");
  help_->setWordWrap(true);
  content()->addWidget(starts_);
  content()->addWidget(help_);
  connect(starts_, &QComboBox::currentIndexChanged, this, &DeployDialog::showChoice);
  retranslate();
}

std::optional<app::AgentStart> DeployDialog::start() const {
  const int chosen = starts_->currentIndex();
  return chosen <= 0 ? std::nullopt : std::optional(static_cast<app::AgentStart>(chosen - 1));
}

void DeployDialog::showChoice() {
  const QString helps[] = {
      tr("A node that has no agent yet starts it detached."),
      tr("The agent is a process of its own, which outlives the connection."),
      tr("The agent is a unit of the account's systemd, which must linger: loginctl "
         "enable-linger."),
      tr("As a systemd user unit where that works, else detached.")};
  help_->setText(helps[std::max(0, starts_->currentIndex())]);
  QStringList words{"cluster", "deploy", file_};
  if (const auto chosen = start()) {
    const std::string_view name = app::agentStartName(*chosen);
    words << "--start" << QString::fromLatin1(name.data(), static_cast<qsizetype>(name.size()));
  }
  showCommand(words);
}

void DeployDialog::retranslate() {
  setHeading(tr("Deploy agents"),
             tr("Installs Lockstep on every node and starts its agent. Each node remembers how."));
  setButtons(tr("Deploy"), tr("Cancel"));
  starts_->setAccessibleName(tr("How agents start"));
  const QString names[] = {tr("As chosen before"), tr("Detached"), tr("systemd user unit"),
                           tr("systemd user unit where possible")};
  for (int i = 0; i < starts_->count(); ++i) starts_->setItemText(i, names[i]);
  showChoice();
}

}  // namespace lockstep::ui
