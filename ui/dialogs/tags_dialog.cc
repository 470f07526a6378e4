#include "ui/dialogs/tags_dialog.h"

#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QVBoxLayout>
#include <utility>

#include "ui/theme/message_text.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

// As the history compares tags: the case of ASCII letters makes no difference.
QString foldedTag(QString tag) {
  for (QChar& c : tag)
    if (c >= 'A' && c <= 'Z') c = QChar(c.unicode() + 'a' - 'A');
  return tag;
}

}  // namespace

TagsDialog::TagsDialog(const QStringList& known, QStringList runs,
                       const QVector<QStringList>& ofRuns, QWidget* parent)
    : Dialog("tagsDialog", parent), runs_(std::move(runs)) {
  struct Tag {
    QString text;  // as it was first written
    int count = 0;
  };
  QMap<QString, Tag> all;  // by foldedTag()
  for (const QString& tag : known) all[foldedTag(tag)].text = tag;
  for (const QStringList& tags : ofRuns)
    for (const QString& tag : tags) {
      Tag& one = all[foldedTag(tag)];
      if (one.text.isEmpty()) one.text = tag;
      ++one.count;
    }
  for (const Tag& tag : all)
    before_[tag.text] = tag.count == 0               ? Qt::Unchecked
                        : tag.count == ofRuns.size() ? Qt::Checked
                                                     : Qt::PartiallyChecked;
  list_ = new QListWidget(this);
  list_->setObjectName("tagList");
  list_->setMinimumSize(320, 180);
  for (auto it = before_.cbegin(); it != before_.cend(); ++it) {
    auto* item = new QListWidgetItem(it.key(), list_);
    item->setFlags(Qt::ItemIsEnabled | Qt::ItemIsSelectable | Qt::ItemIsUserCheckable);
    // A third state is offered only where some of the runs have the tag.
    if (it.value() == Qt::PartiallyChecked) item->setFlags(item->flags() | Qt::ItemIsUserTristate);
    item->setCheckState(it.value());
  }
  list_->setVisible(list_->count() > 0);
  if (list_->count() > 0) list_->setCurrentRow(0);
  freshLabel_ = makeLabel("newTagsLabel", this);
  fresh_ = new QLineEdit(this);
  fresh_->setObjectName("newTags");
  freshLabel_->setBuddy(fresh_);
  wrong_ = makeLabel("newTagsWrong", this, "error");
  wrong_->setWordWrap(true);
  wrong_->setTextFormat(Qt::PlainText);
  wrong_->hide();
  content()->addWidget(list_, 1);
  content()->addWidget(freshLabel_);
  content()->addWidget(fresh_);
  content()->addWidget(wrong_);
  connect(fresh_, &QLineEdit::textChanged, this, &TagsDialog::check);
  connect(list_, &QListWidget::itemChanged, this, &TagsDialog::nameCommand);
  fresh_->setFocus();
  retranslate();
}

app::TagChange TagsDialog::change() const {
  app::TagChange out;
  for (int row = 0; row < list_->count(); ++row) {
    const QListWidgetItem* item = list_->item(row);
    if (item->checkState() == before_[item->text()]) continue;
    if (item->checkState() == Qt::Checked) out.add.push_back(item->text().toStdString());
    if (item->checkState() == Qt::Unchecked) out.remove.push_back(item->text().toStdString());
  }
  for (const std::string& tag : app::tagWords(fresh_->text().toStdString())) out.add.push_back(tag);
  return out;
}

void TagsDialog::check() {
  Status fine;
  for (const std::string& tag : app::tagWords(fresh_->text().toStdString()))
    if (fine.ok()) fine = app::checkTag(tag);
  wrong_->setVisible(!fine.ok());
  wrong_->setText(fine.ok() ? QString() : messageText(fine.error().message()));
  acceptButton()->setEnabled(fine.ok());
  nameCommand();
}

void TagsDialog::nameCommand() {
  QStringList words = QStringList{"history", "tag"} + runs_;
  const app::TagChange wanted = change();
  for (const std::string& tag : wanted.add) words << '+' + QString::fromStdString(tag);
  for (const std::string& tag : wanted.remove) words << '-' + QString::fromStdString(tag);
  showCommand(words);
}

void TagsDialog::accept() {
  if (!acceptButton()->isEnabled()) return;
  if (const app::TagChange change = this->change(); !change.empty()) Q_EMIT chosen(change);
  Dialog::accept();
}

void TagsDialog::retranslate() {
  setHeading(runs_.size() == 1 ? tr("Tags of the run") : tr("Tags of %1 runs").arg(runs_.size()),
             tr("Tags group runs: the filter tag:good shows those with the tag good."));
  list_->setAccessibleName(tr("Tags"));
  freshLabel_->setText(tr("&New tags"));
  fresh_->setPlaceholderText(tr("separated by spaces"));
  fresh_->setAccessibleName(tr("New tags"));
  setButtons(tr("Apply"), tr("Cancel"));
  nameCommand();
}

}  // namespace lockstep::ui
