#include "ui/pages/code_panel.h"

#include <QApplication>
#include <QBoxLayout>
#include <QClipboard>
#include <QFileDialog>
#include <QPlainTextEdit>
#include <QPushButton>

#include "engine/base/file.h"
#include "ui/studio/run_document.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

CodePanel::CodePanel(RunDocument* document, QWidget* parent)
    : QWidget(parent), document_(document) {
  setObjectName("runCode");
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, kSpaceS, 0, 0);
  column->setSpacing(kSpaceS);
  auto* head = new QHBoxLayout;
  commit_ = new ElidedLabel("codeCommit", this);
  copy_ = makeButton("codeCopy", "copy", this);
  save_ = makeButton("codeSave", "save", this);
  head->addWidget(commit_, 1);
  head->addWidget(copy_);
  head->addWidget(save_);
  column->addLayout(head);
  patch_ = new QPlainTextEdit(this);
  patch_->setObjectName("codePatch");
  patch_->setReadOnly(true);
  patch_->setLineWrapMode(QPlainTextEdit::NoWrap);
  patch_->setFont(Theme::instance().monospace());
  column->addWidget(patch_, 1);
  connect(copy_, &QPushButton::clicked, this, [this] {
    QApplication::clipboard()->setText(QString::fromStdString(document_->documents().codePatch));
  });
  connect(save_, &QPushButton::clicked, this, &CodePanel::askSave);
}

bool CodePanel::isEmpty() const { return document_->codeCommit().empty(); }

void CodePanel::refresh() {
  const QString patch = QString::fromStdString(document_->documents().codePatch);
  const QString commit = QString::fromStdString(document_->codeCommit());
  commit_->setText(patch.isEmpty() ? tr("Commit %1, without changes").arg(commit)
                                   : tr("Commit %1, with these changes:").arg(commit));
  if (patch_->toPlainText() != patch) patch_->setPlainText(patch);  // keeps the place otherwise
  patch_->setVisible(!patch.isEmpty());
  for (QPushButton* button : {copy_, save_}) button->setEnabled(!patch.isEmpty());
}

void CodePanel::askSave() {
  auto* dialog = new QFileDialog(this, tr("Save the changes"), document_->run() + ".patch",
                                 tr("Patches (*.patch)"));
  dialog->setObjectName("savePatchDialog");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setAcceptMode(QFileDialog::AcceptSave);
  dialog->setDefaultSuffix("patch");
  connect(dialog, &QFileDialog::fileSelected, this, &CodePanel::save);
  dialog->open();
}

void CodePanel::save(const QString& path) {
  Q_EMIT saved(path, writeFileAtomically(path.toStdString(), document_->documents().codePatch));
}

void CodePanel::retranslate() {
  setTexts(copy_, tr("Copy"), tr("Copy the changes"));
  setTexts(save_, tr("Save…"), tr("Save the changes as a patch, for git apply"));
  patch_->setAccessibleName(tr("Changes since the commit"));
  refresh();
}

}  // namespace lockstep::ui
