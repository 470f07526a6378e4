#include "ui/dialogs/new_model_dialog.h"

#include <QCoreApplication>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QRegularExpression>
#include <QSaveFile>

#include "ui/studio/new_model.h"
#include "ui/theme/format.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

QString ofTemplate(const char* text) {
  return QCoreApplication::translate("lockstep::ui::NewModel", text);
}

QString wholePath(const QString& text) {
  return text.startsWith("~/") ? QDir::homePath() + text.mid(1) : text;
}

}  // namespace

NewModelDialog::NewModelDialog(const QString& folder, QWidget* parent)
    : Dialog("newModelDialog", parent), folder_(folder) {
  auto* columns = new QHBoxLayout;
  columns->setSpacing(kSpaceXl);
  kinds_ = new QListWidget(this);
  kinds_->setObjectName("newModelKinds");
  kinds_->setFixedWidth(150);
  for (const app::ModelTemplate& one : app::modelTemplates()) {
    auto* item = new QListWidgetItem(Theme::instance().icon("model"), {}, kinds_);
    item->setSizeHint({0, 32});
    item->setData(Qt::UserRole, one.id);
  }
  kinds_->setFixedHeight(32 * kinds_->count() + 4);
  columns->addWidget(kinds_, 0, Qt::AlignTop);
  auto* right = new QVBoxLayout;
  right->setSpacing(kSpaceM);
  help_ = makeLabel("newModelHelp", this);
  help_->setWordWrap(true);
  right->addWidget(help_);
  form_ = new QFormLayout;
  form_->setHorizontalSpacing(kSpaceL);
  form_->setVerticalSpacing(kSpaceS);
  form_->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  const auto withButton = [this](QLineEdit* edit, QPushButton*& button, const char* name) {
    auto* row = new QWidget(this);
    auto* layout = new QHBoxLayout(row);
    layout->setContentsMargins({});
    layout->setSpacing(kSpaceS);
    button = makeButton(name, "open", this);
    layout->addWidget(edit, 1);
    layout->addWidget(button);
    return row;
  };
  const auto addRow = [this](QWidget* row, QLineEdit* edit) {
    auto* label = makeLabel(edit->objectName() + "Label", this);
    label->setBuddy(edit);
    labels_ << label;
    form_->addRow(label, row);
  };
  name_ = new QLineEdit(this);
  name_->setObjectName("newModelName");
  file_ = new QLineEdit(this);
  file_->setObjectName("newModelFile");
  file_->setMinimumWidth(330);
  data_ = new QLineEdit(this);
  data_->setObjectName("newModelData");
  addRow(name_, name_);
  addRow(withButton(file_, browseFile_, "newModelBrowse"), file_);
  dataRow_ = withButton(data_, browseData_, "newModelBrowseData");
  addRow(dataRow_, data_);
  right->addLayout(form_);
  wrong_ = makeLabel("newModelWrong", this, "muted");
  wrong_->setWordWrap(true);
  right->addWidget(wrong_);
  right->addStretch(1);
  columns->addLayout(right, 1);
  content()->addLayout(columns);
  connect(kinds_, &QListWidget::currentRowChanged, this, &NewModelDialog::kindChanged);
  connect(kinds_, &QListWidget::itemActivated, this, &NewModelDialog::accept);
  connect(name_, &QLineEdit::textEdited, this, [this](const QString& text) {
    nameTyped_ = !text.isEmpty();
    suggest();
    check();
  });
  connect(file_, &QLineEdit::textEdited, this, [this](const QString& text) {
    fileTyped_ = !text.isEmpty();
    check();
  });
  connect(data_, &QLineEdit::textChanged, this, &NewModelDialog::check);
  connect(browseFile_, &QPushButton::clicked, this, [this] { browse(file_, true); });
  connect(browseData_, &QPushButton::clicked, this, [this] { browse(data_, false); });
  kinds_->setCurrentRow(0);
  kinds_->setFocus();
  retranslate();
  resize(700, sizeHint().height());
}

const app::ModelTemplate& NewModelDialog::kind() const {
  return app::modelTemplates()[static_cast<std::size_t>(std::max(0, kinds_->currentRow()))];
}

void NewModelDialog::chooseKind(const QString& id) {
  for (int row = 0; row < kinds_->count(); ++row) {
    if (kinds_->item(row)->data(Qt::UserRole).toString() == id) kinds_->setCurrentRow(row);
  }
}

QString NewModelDialog::path() const { return wholePath(file_->text().trimmed()); }

void NewModelDialog::kindChanged() {
  help_->setText(ofTemplate(kind().help));
  form_->setRowVisible(dataRow_, kind().dataField != nullptr);
  const bool untouched =
      std::any_of(app::modelTemplates().begin(), app::modelTemplates().end(),
                  [&](const app::ModelTemplate& one) { return data_->text() == one.data; });
  if (kind().dataField && untouched) data_->setText(kind().data);
  const bool text = kind().dataField && qstrcmp(kind().dataField, "text") == 0;
  labels_[2]->setText(text ? tr("Training text") : tr("Training table"));
  data_->setAccessibleName(labels_[2]->text());
  data_->setToolTip(text ? tr("Plain text; the last tenth is used for evaluation")
                         : tr("Rows of label, numbers and categories, as in Criteo's click logs; "
                              "`lockstep make-data ctr` generates one"));
  suggest();
  check();
}

void NewModelDialog::suggest() {
  if (!nameTyped_) {
    const QString stem = qstrcmp(kind().id, "empty") == 0 ? QString("model") : QString(kind().id);
    int number = 1;
    const auto taken = [&] {
      return QFileInfo::exists(QDir(folder_).filePath(QString("%1-%2.yaml").arg(stem).arg(number)));
    };
    while (taken()) ++number;
    name_->setText(QString("%1-%2").arg(stem).arg(number));
  }
  if (!fileTyped_) {
    file_->setText(formatPath(QDir(folder_).filePath(asFileName(name_->text()) + ".yaml")));
    file_->setCursorPosition(0);
  }
}

void NewModelDialog::nameCommand() {
  QStringList words{"new", kind().id, path()};
  if (const QString name = name_->text().trimmed(); name != QFileInfo(path()).completeBaseName())
    words << "--name" << name;
  if (kind().dataField) words << "--data" << wholePath(data_->text().trimmed());
  showCommand(words);
}

void NewModelDialog::check() {
  nameCommand();
  QString wrong;
  if (name_->text().trimmed().isEmpty()) {
    wrong = tr("Give the model a name.");
  } else if (path().isEmpty()) {
    wrong = tr("Choose where the model is saved.");
  } else if (QFileInfo::exists(path())) {
    wrong = tr("The file %1 exists already.").arg(formatPath(path()));
  } else if (kind().dataField && data_->text().trimmed().isEmpty()) {
    wrong = tr("Choose the file to train on.");
  } else if (kind().dataField &&
             !QFileInfo(QFileInfo(path()).dir(), wholePath(data_->text().trimmed())).isFile()) {
    // To be made or brought before the launch.
    wrong_->setText(tr("The file %1 does not exist.").arg(data_->text().trimmed()));
    wrong_->show();
    acceptButton()->setEnabled(true);
    return;
  }
  wrong_->setText(wrong);
  wrong_->setVisible(!wrong.isEmpty());
  acceptButton()->setEnabled(wrong.isEmpty());
}

void NewModelDialog::browse(QLineEdit* edit, bool save) {
  auto* dialog =
      new QFileDialog(this, save ? tr("Save as") : tr("Choose a file"), wholePath(edit->text()),
                      save ? tr("Specs (*.yaml)") : tr("All files (*)"));
  dialog->setObjectName("newModelFileDialog");
  dialog->setAcceptMode(save ? QFileDialog::AcceptSave : QFileDialog::AcceptOpen);
  if (save) dialog->setDefaultSuffix("yaml");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QFileDialog::fileSelected, this, [this, edit](const QString& path) {
    edit->setText(path);
    if (edit == file_) fileTyped_ = true;
    check();
  });
  dialog->open();
}

void NewModelDialog::accept() {
  if (!acceptButton()->isEnabled()) return;
  QDir().mkpath(QFileInfo(path()).path());
  QSaveFile file(path());
  const QByteArray text =
      newModelText(kind(), name_->text().trimmed(), wholePath(data_->text().trimmed())).toUtf8();
  if (!file.open(QIODevice::WriteOnly) || file.write(text) != text.size() || !file.commit()) {
    wrong_->setText(tr("%1 cannot be written: %2. Save it under another name.")
                        .arg(formatPath(path()), file.errorString()));
    wrong_->show();
    return;
  }
  QDialog::accept();
}

void NewModelDialog::retranslate() {
  setHeading(tr("New model"),
             tr("A complete run spec to start from. Everything in it can be changed later."));
  for (int row = 0; row < kinds_->count(); ++row)
    kinds_->item(row)->setText(
        ofTemplate(app::modelTemplates()[static_cast<std::size_t>(row)].title));
  kinds_->setAccessibleName(tr("Kind of model"));
  labels_[0]->setText(tr("Name"));
  labels_[1]->setText(tr("Save as"));
  name_->setAccessibleName(labels_[0]->text());
  file_->setAccessibleName(labels_[1]->text());
  setTexts(browseFile_, tr("Browse…"));
  setTexts(browseData_, tr("Browse…"));
  setButtons(tr("Create"), tr("Cancel"));
  kindChanged();
}

}  // namespace lockstep::ui
