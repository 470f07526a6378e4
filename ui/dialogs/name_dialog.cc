#include "ui/dialogs/name_dialog.h"

#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QVBoxLayout>
#include <utility>

#include "ui/widgets/widgets.h"

namespace lockstep::ui {

NameDialog::NameDialog(Texts texts, const QString& name, Check check, QWidget* parent)
    : Dialog("nameDialog", parent), texts_(std::move(texts)), check_(std::move(check)) {
  name_ = new QLineEdit(name, this);
  name_->setObjectName("nameField");
  name_->setMinimumWidth(320);
  note_ = makeLabel("nameNote", this, "muted");
  note_->setWordWrap(true);
  note_->setTextFormat(Qt::PlainText);
  content()->addWidget(name_);
  content()->addWidget(note_);
  connect(name_, &QLineEdit::textChanged, this, &NameDialog::judge);
  name_->selectAll();
  name_->setFocus();
  retranslate();
}

QString NameDialog::name() const { return name_->text().trimmed(); }

void NameDialog::judge() {
  const Verdict verdict = name().isEmpty() ? Verdict{false, {}} : check_(name());
  note_->setText(verdict.note);
  showCommand(verdict.command);
  acceptButton()->setEnabled(verdict.allowed);
}

void NameDialog::accept() {
  if (acceptButton()->isEnabled()) Dialog::accept();
}

void NameDialog::retranslate() {
  setHeading(texts_.heading, texts_.detail);
  setButtons(texts_.accept, tr("Cancel"));
  name_->setAccessibleName(tr("Name"));
  name_->setPlaceholderText(tr("Name"));
  judge();
}

}  // namespace lockstep::ui
