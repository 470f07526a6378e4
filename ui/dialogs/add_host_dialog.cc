#include "ui/dialogs/add_host_dialog.h"

#include <QComboBox>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <utility>

#include "ui/models/field_model.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
AddHostDialog::AddHostDialog(const QStringList& knownHosts, const QStringList& takenNames,
                             QString file, QWidget* parent)
    : Dialog("addHostDialog", parent), taken_(takenNames), file_(std::move(file)) {
  auto* form = new QFormLayout;
  form->setHorizontalSpacing(kSpaceL);
  form->setVerticalSpacing(kSpaceS);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  host_ = new QComboBox(this);
  host_->setObjectName("addHostHost");
  host_->setEditable(true);
  host_->addItems(knownHosts);
  host_->setCurrentIndex(-1);  // Down: the first of them
  host_->setMinimumWidth(300);
  name_ = new QLineEdit(this);
  name_->setObjectName("addHostName");
  address_ = new QLineEdit(this);
  address_->setObjectName("addHostAddress");
  user_ = new QLineEdit(this);
  user_->setObjectName("addHostUser");
  port_ = new QSpinBox(this);
  port_->setObjectName("addHostPort");
  port_->setRange(0, 65535);
  identity_ = new QLineEdit(this);
  identity_->setObjectName("addHostIdentity");
  workdir_ = new QLineEdit(this);
  workdir_->setObjectName("addHostWorkdir");
  device_ = new QComboBox(this);
  device_->setObjectName("addHostDevice");
  device_->addItems({"", ""});
  ranks_ = new QSpinBox(this);
  ranks_->setObjectName("addHostRanks");
  ranks_->setRange(1, 256);
  for (QWidget* field :
       {static_cast<QWidget*>(host_), static_cast<QWidget*>(name_), static_cast<QWidget*>(address_),
        static_cast<QWidget*>(user_), static_cast<QWidget*>(port_),
        static_cast<QWidget*>(identity_), static_cast<QWidget*>(workdir_),
        static_cast<QWidget*>(device_), static_cast<QWidget*>(ranks_)}) {
    auto* label = makeLabel(field->objectName() + "Label", this);
    label->setBuddy(field);
    labels_ << label;
    form->addRow(label, field);
  }
  wrong_ = makeLabel("addHostWrong", this, "muted");
  wrong_->setWordWrap(true);
  content()->addLayout(form);
  content()->addWidget(wrong_);
  connect(host_, &QComboBox::editTextChanged, this, [this](const QString& text) {
    const std::string host = text.trimmed().toStdString();
    if (!nameTyped_) name_->setText(QString::fromStdString(app::nodeNameOf(host)));
    check();
  });
  connect(name_, &QLineEdit::textEdited, this, [this] { nameTyped_ = true; });
  connect(name_, &QLineEdit::textChanged, this, &AddHostDialog::check);
  for (QLineEdit* edit : {address_, user_, identity_, workdir_})
    connect(edit, &QLineEdit::textChanged, this, &AddHostDialog::nameCommand);
  for (QSpinBox* number : {port_, ranks_})
    connect(number, &QSpinBox::valueChanged, this, &AddHostDialog::nameCommand);
  connect(device_, &QComboBox::currentIndexChanged, this, &AddHostDialog::nameCommand);
  host_->setFocus();
  retranslate();
  check();
}

void AddHostDialog::check() {
  // Fields that would not count: of this machine, and a user beside one that stands in the host.
  const QString host = host_->currentText().trimmed();
  user_->setEnabled(!host.isEmpty() && !host.contains('@'));
  port_->setEnabled(!host.isEmpty());
  identity_->setEnabled(!host.isEmpty());
  QString wrong;
  if (name_->text().isEmpty()) {
    wrong = tr("Enter a host, or leave it blank and name the node to use this machine.");
  } else if (!app::isNodeName(name_->text().toStdString())) {
    wrong = tr("A node's name consists of letters, digits, '-', '_' and '.'.");
  } else if (taken_.contains(name_->text())) {
    wrong = tr("The cluster already has a node %1.").arg(name_->text());
  }
  wrong_->setText(wrong);
  wrong_->setVisible(!wrong.isEmpty());
  acceptButton()->setEnabled(wrong.isEmpty());
  nameCommand();
}

app::NewNode AddHostDialog::node() const {
  const auto text = [](const QLineEdit* edit) { return edit->text().trimmed().toStdString(); };
  return {.name = text(name_),
          .host = host_->currentText().trimmed().toStdString(),
          .address = text(address_),
          .user = text(user_),
          .port = port_->value(),
          .identityFile = text(identity_),
          .workdir = text(workdir_),
          .gpus = device_->currentIndex() == 1,
          .ranks = ranks_->value()};
}

void AddHostDialog::nameCommand() {
  const app::NewNode node = this->node();
  QStringList words{"cluster", "add", file_};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words << flag << QString::fromStdString(value);
  };
  if (!node.host.empty()) words << QString::fromStdString(node.host);
  if (node.name != app::nodeNameOf(node.host)) add("--name", node.name);
  add("--address", node.address);
  if (!node.host.empty()) {
    if (node.host.find('@') == std::string::npos) add("--user", node.user);
    if (node.port > 0) add("--port", std::to_string(node.port));
    add("--identity", node.identityFile);
  }
  add("--workdir", node.workdir);
  if (node.gpus) add("--device", "cuda");
  if (node.ranks > 1) add("--ranks", std::to_string(node.ranks));
  showCommand(words);
}

void AddHostDialog::retranslate() {
  setHeading(tr("Add a host"),
             tr("Hosts from your SSH config are listed; their users, keys and jump hosts apply."));
  const QStringList names{tr("Host"),        tr("Node name"), tr("Address for peers"),
                          tr("User"),        tr("Port"),      tr("Key file"),
                          tr("Work folder"), tr("Device"),    tr("Ranks")};
  QWidget* const fields[] = {host_,     name_,    address_, user_, port_,
                             identity_, workdir_, device_,  ranks_};
  const char* const paths[] = {"nodes.ssh.host", "nodes.name",         "nodes.address",
                               "nodes.ssh.user", "nodes.ssh.port",     "nodes.ssh.identity_file",
                               "nodes.workdir",  "nodes.devices.kind", "nodes.devices.count"};
  for (int i = 0; i < labels_.size(); ++i) {
    labels_[i]->setText(names[i]);
    fields[i]->setAccessibleName(names[i]);
    const QString help = fieldHelpOf(app::SpecKind::kCluster, paths[i]);
    labels_[i]->setToolTip(help);
    fields[i]->setToolTip(help);
  }
  host_->lineEdit()->setPlaceholderText(tr("host or user@host (blank: this machine)"));
  address_->setPlaceholderText(tr("Automatic"));
  user_->setPlaceholderText(tr("From SSH config"));
  port_->setSpecialValueText(tr("From SSH config"));
  identity_->setPlaceholderText(tr("From SSH config"));
  workdir_->setPlaceholderText("~/.lockstep");
  device_->setItemText(0, tr("CPU"));
  device_->setItemText(1, tr("NVIDIA GPUs, one per rank"));
  setButtons(tr("Add host"), tr("Cancel"));
  check();
}

}  // namespace lockstep::ui
