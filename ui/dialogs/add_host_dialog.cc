#include "ui/dialogs/add_host_dialog.h"

#include <QComboBox>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QRegularExpression>
#include <QSpinBox>

#include "ui/models/field_model.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

// Double-quoted YAML, so that whatever was typed is one scalar.
QString quoted(const QString& text) {
  QString out = text;
  out.replace('\\', "\\\\").replace('"', "\\\"");
  return '"' + out + '"';
}

}  // namespace

AddHostDialog::AddHostDialog(const QStringList& knownHosts, const QStringList& takenNames,
                             QWidget* parent)
    : Dialog("addHostDialog", parent), taken_(takenNames) {
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
    if (!nameTyped_) {
      static const QRegularExpression outside("[^A-Za-z0-9_-]+");
      name_->setText(text.section('@', -1).section('.', 0, 0).replace(outside, "-"));
    }
    check();
  });
  connect(name_, &QLineEdit::textEdited, this, [this] { nameTyped_ = true; });
  connect(name_, &QLineEdit::textChanged, this, &AddHostDialog::check);
  host_->setFocus();
  retranslate();
  check();
}

void AddHostDialog::check() {
  QString wrong;
  static const QRegularExpression good("^[A-Za-z0-9][A-Za-z0-9_.-]*$");
  if (name_->text().isEmpty()) {
    wrong = tr("Enter a host, or leave it blank and name the node to use this machine.");
  } else if (!good.match(name_->text()).hasMatch()) {
    wrong = tr("A node's name consists of letters, digits, '-', '_' and '.'.");
  } else if (taken_.contains(name_->text())) {
    wrong = tr("The cluster already has a node %1.").arg(name_->text());
  }
  wrong_->setText(wrong);
  wrong_->setVisible(!wrong.isEmpty());
  acceptButton()->setEnabled(wrong.isEmpty());
}

QString AddHostDialog::nodeYaml() const {
  QStringList parts{"name: " + quoted(name_->text())};
  const QString host = host_->currentText().trimmed();
  if (!host.isEmpty()) {
    QStringList ssh;
    if (host.contains('@')) {
      ssh << "host: " + quoted(host.section('@', -1))
          << "user: " + quoted(host.section('@', 0, -2));
    } else {
      ssh << "host: " + quoted(host);
    }
    if (!user_->text().isEmpty() && !host.contains('@')) ssh << "user: " + quoted(user_->text());
    if (port_->value() > 0) ssh << QString("port: %1").arg(port_->value());
    if (!identity_->text().isEmpty()) ssh << "identity_file: " + quoted(identity_->text());
    parts << "ssh: {" + ssh.join(", ") + "}";
  }
  if (!address_->text().isEmpty()) parts << "address: " + quoted(address_->text());
  if (!workdir_->text().isEmpty()) parts << "workdir: " + quoted(workdir_->text());
  const bool gpus = device_->currentIndex() == 1;
  if (gpus || ranks_->value() > 1)
    parts << QString("devices: [{kind: %1, count: %2}]")
                 .arg(gpus ? "cuda" : "cpu")
                 .arg(ranks_->value());
  return "{" + parts.join(", ") + "}";
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
