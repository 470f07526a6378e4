#include "ui/dialogs/pictures_dialog.h"

#include <QCheckBox>
#include <QDir>
#include <QFileDialog>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>
#include <utility>

#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kUsualSide = 64, kMostSide = 4096;  // pixels

QString pathIn(const QLineEdit* edit) {
  const QString text = edit->text().trimmed();
  return text.startsWith("~/") ? QDir::homePath() + text.mid(1) : text;
}

}  // namespace

PicturesDialog::PicturesDialog(QStringList globals, QWidget* parent)
    : CommandDialog(
          [] {
            return Texts{tr("Pictures to a data set"),
                         tr("Makes a file of images and one of labels from JPEG and PNG pictures. "
                            "The folder has a folder of pictures for each class.")};
          },
          {}, std::move(globals), {}, parent) {
  fields_ = new QWidget(this);
  form_ = new QFormLayout(fields_);
  form_->setContentsMargins(0, 0, 0, 0);
  form_->setHorizontalSpacing(kSpaceL);
  form_->setVerticalSpacing(kSpaceS);
  form_->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  folder_ = addPath("picturesFolder");
  addSize();
  to_ = addPath("picturesTo");
  classes_ = addPath("picturesClasses");
  content()->insertWidget(0, fields_);
  connectFields();
  write();
  retranslate();
  folder_.edit->setFocus();
}

PicturesDialog::PathField PicturesDialog::addPath(const char* name) {
  const QString object(name);
  PathField out;
  out.edit = new QLineEdit(this);
  out.edit->setObjectName(object);
  out.label = makeLabel(object + "Label", this);
  out.label->setBuddy(out.edit);
  out.browse = makeButton(object + "Browse", "open", this);
  auto* row = new QHBoxLayout;
  row->setSpacing(kSpaceS);
  row->addWidget(out.edit, 1);
  row->addWidget(out.browse);
  form_->addRow(out.label, row);
  return out;
}

void PicturesDialog::addSize() {
  auto* row = new QHBoxLayout;
  row->setSpacing(kSpaceS);
  for (auto [box, name] : {std::pair{&height_, "picturesHeight"}, {&width_, "picturesWidth"}}) {
    *box = new QSpinBox(this);
    (*box)->setObjectName(name);
    (*box)->setRange(1, kMostSide);
    (*box)->setValue(kUsualSide);
    if (box == &width_) {
      auto* times = makeLabel("picturesTimes", this);
      times->setText(QString::fromUtf8("×"));
      row->addWidget(times);
    }
    row->addWidget(*box);
  }
  grey_ = new QCheckBox(this);
  grey_->setObjectName("picturesGrey");
  skip_ = new QCheckBox(this);
  skip_->setObjectName("picturesSkip");
  for (QCheckBox* box : {grey_, skip_}) {
    row->addSpacing(kSpaceM);
    row->addWidget(box);
  }
  row->addStretch(1);
  sizeLabel_ = makeLabel("picturesSizeLabel", this);
  sizeLabel_->setBuddy(height_);
  form_->addRow(sizeLabel_, row);
}

void PicturesDialog::connectFields() {
  for (const PathField* field : {&folder_, &to_, &classes_})
    connect(field->edit, &QLineEdit::textChanged, this, &PicturesDialog::write);
  for (QSpinBox* box : {height_, width_})
    connect(box, &QSpinBox::valueChanged, this, &PicturesDialog::write);
  for (QCheckBox* box : {grey_, skip_})
    connect(box, &QCheckBox::toggled, this, &PicturesDialog::write);
  // The files lie beside the folder until another place is chosen.
  connect(folder_.edit, &QLineEdit::textChanged, this, [this](const QString& text) {
    if (!toTyped_) to_.edit->setText(text.trimmed() == "/" ? QString() : QDir::cleanPath(text));
  });
  connect(to_.edit, &QLineEdit::textEdited, this,
          [this](const QString& text) { toTyped_ = !text.isEmpty(); });
  connect(folder_.browse, &QPushButton::clicked, this, &PicturesDialog::browseFolder);
  connect(to_.browse, &QPushButton::clicked, this, [this] { browseFile(to_.edit, true); });
  connect(classes_.browse, &QPushButton::clicked, this,
          [this] { browseFile(classes_.edit, false); });
}

QString PicturesDialog::written() const {
  QStringList words{"lockstep", "make-data", "images"};
  const auto add = [&](const QString& option, const QString& value) {
    if (!value.isEmpty()) words << option << quoted(value);
  };
  if (const QString folder = pathIn(folder_.edit); !folder.isEmpty()) words << quoted(folder);
  add("--size", QString("%1x%2").arg(height_->value()).arg(width_->value()));
  add("--to", pathIn(to_.edit));
  add("--classes", pathIn(classes_.edit));
  if (grey_->isChecked()) words << "--grey";
  if (skip_->isChecked()) words << "--skip-damaged";
  return words.join(' ');
}

void PicturesDialog::write() {
  setCommand(written());
  tell({});
}

void PicturesDialog::accept() {
  const bool isOwn = command() == written();
  for (const PathField* field : {&folder_, &to_}) {
    if (running() || !isOwn || !pathIn(field->edit).isEmpty()) continue;
    field->edit->setFocus();
    return tell(field == &folder_ ? tr("Choose the folder of the pictures.")
                                  : tr("Say how the files' names begin."));
  }
  CommandDialog::accept();
}

void PicturesDialog::browseFolder() {
  auto* dialog = new QFileDialog(this, tr("Choose a folder"), pathIn(folder_.edit));
  dialog->setObjectName("picturesFolderDialog");
  dialog->setFileMode(QFileDialog::Directory);
  dialog->setOption(QFileDialog::ShowDirsOnly);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QFileDialog::fileSelected, folder_.edit, &QLineEdit::setText);
  dialog->open();
}

void PicturesDialog::browseFile(QLineEdit* edit, bool save) {
  auto* dialog = new QFileDialog(this, save ? tr("Save as") : tr("Choose a file"), pathIn(edit));
  dialog->setObjectName("picturesFileDialog");
  dialog->setAcceptMode(save ? QFileDialog::AcceptSave : QFileDialog::AcceptOpen);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QFileDialog::fileSelected, this, [this, edit](const QString& path) {
    edit->setText(path);
    if (edit == to_.edit) toTyped_ = true;
  });
  dialog->open();
}

void PicturesDialog::retranslate() {
  const auto name = [](const PathField& field, const QString& text, const QString& browse) {
    field.label->setText(text);
    field.edit->setAccessibleName(text);
    setTexts(field.browse, tr("Browse…"));
    field.browse->setAccessibleName(browse);
  };
  name(folder_, tr("Folder of the pictures"), tr("Choose the folder of the pictures"));
  name(to_, tr("Files' names begin with"), tr("Choose how the files' names begin"));
  name(classes_, tr("Classes as in"), tr("Choose the file of classes"));
  classes_.edit->setPlaceholderText(tr("The -classes.txt of another set; empty: by name"));
  sizeLabel_->setText(tr("Height and width"));
  height_->setAccessibleName(tr("Height"));
  width_->setAccessibleName(tr("Width"));
  fields_->setEnabled(!running());
  grey_->setText(tr("Grey"));
  skip_->setText(tr("Leave out damaged pictures"));
  CommandDialog::retranslate();
}

}  // namespace lockstep::ui
