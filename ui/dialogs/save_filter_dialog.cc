#include "ui/dialogs/save_filter_dialog.h"

#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/theme/message_text.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

SaveFilterDialog::SaveFilterDialog(const QString& filter, const QStringList& taken, QWidget* parent)
    : Dialog("saveFilterDialog", parent), filter_(filter), taken_(taken) {
  label_ = makeLabel("filterNameLabel", this);
  name_ = new QLineEdit(this);
  name_->setObjectName("filterName");
  name_->setMinimumWidth(320);
  label_->setBuddy(name_);
  note_ = makeLabel("filterNameNote", this, "muted");
  note_->setWordWrap(true);
  note_->setTextFormat(Qt::PlainText);
  content()->addWidget(label_);
  content()->addWidget(name_);
  content()->addWidget(note_);
  connect(name_, &QLineEdit::textChanged, this, &SaveFilterDialog::check);
  name_->setFocus();
  retranslate();
}

void SaveFilterDialog::check() {
  const QString name = name_->text().trimmed();
  const Status fine = app::checkFilterName(name.toStdString());
  acceptButton()->setEnabled(fine.ok());
  if (!fine.ok())
    note_->setText(name.isEmpty() ? QString() : messageText(fine.error().message()));
  else
    note_->setText(taken_.contains(name, Qt::CaseInsensitive)
                       ? tr("Replaces the filter of this name.")
                       : QString());
}

void SaveFilterDialog::accept() {
  if (!acceptButton()->isEnabled()) return;
  Q_EMIT chosen({name_->text().trimmed().toStdString(), filter_.toStdString()});
  Dialog::accept();
}

void SaveFilterDialog::retranslate() {
  setHeading(tr("Save filter"), filter_);
  label_->setText(tr("&Name"));
  name_->setAccessibleName(tr("Name"));
  setButtons(tr("Save"), tr("Cancel"));
  check();
}

}  // namespace lockstep::ui
