#include "ui/dialogs/name_dialog.h"

#include <QLabel>
#include <QLineEdit>
#include <QVBoxLayout>

#include "ui/studio/dashboard.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

NameDialog::NameDialog(const QString& heading, const QString& accept, const QString& name,
                       QStringList taken, QWidget* parent)
    : Dialog("nameDialog", parent), heading_(heading), accept_(accept), taken_(std::move(taken)) {
  name_ = new QLineEdit(name, this);
  name_->setObjectName("nameField");
  name_->setMaxLength(Dashboard::kMostText);
  note_ = makeLabel("nameNote", this, "muted");
  note_->setWordWrap(true);
  content()->addWidget(name_);
  content()->addWidget(note_);
  connect(name_, &QLineEdit::textChanged, this, &NameDialog::check);
  name_->selectAll();
  name_->setFocus();
  retranslate();
  resize(380, 160);
}

QString NameDialog::name() const { return name_->text().trimmed(); }

void NameDialog::check() {
  const bool isTaken = taken_.contains(name());
  note_->setText(isTaken ? tr("There is one of this name already.") : QString());
  acceptButton()->setEnabled(!name().isEmpty() && !isTaken);
}

void NameDialog::retranslate() {
  setHeading(heading_, {});
  setButtons(accept_, tr("Cancel"));
  name_->setAccessibleName(tr("Name"));
  name_->setPlaceholderText(tr("Name"));
  check();
}

}  // namespace lockstep::ui
