#include "ui/dialogs/dialog.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <algorithm>

#include "engine/base/shell_text.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kCommandWidth = 440;  // pixels, at least: most commands and titles are seen whole

}  // namespace

Dialog::Dialog(const QString& objectName, QWidget* parent) : QDialog(parent) {
  setObjectName(objectName);
  setModal(true);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(kSpaceXl, kSpaceL, kSpaceXl, kSpaceL);
  layout->setSpacing(kSpaceM);
  auto* title = new ElidedLabel(objectName + "Heading", this);  // a name in it may be long
  title->setLeast(kCommandWidth);
  title_ = title;
  title_->setFont(Theme::instance().figure());
  text_ = makeLabel(objectName + "Text", this, "muted");
  text_->setWordWrap(true);
  text_->setTextFormat(Qt::PlainText);
  content_ = new QVBoxLayout;
  content_->setSpacing(kSpaceS);
  reject_ = makeButton(objectName + "Reject", nullptr, this);
  accept_ = makeButton(objectName + "Accept", nullptr, this, "primary");
  accept_->setDefault(true);
  commandLine_ = new QLineEdit(this);
  commandLine_->setObjectName(objectName + "Command");
  commandLine_->setReadOnly(true);
  commandLine_->setMinimumWidth(kCommandWidth);
  commandLine_->setFont(Theme::instance().monospace());
  commandLine_->hide();
  auto* buttons = new QHBoxLayout;
  buttons->addStretch(1);
  buttons->addWidget(reject_);
  buttons->addWidget(accept_);
  layout->addWidget(title_);
  layout->addWidget(text_);
  layout->addLayout(content_, 1);
  layout->addWidget(commandLine_);
  layout->addSpacing(kSpaceXs);
  layout->addLayout(buttons);
  connect(reject_, &QPushButton::clicked, this, &QDialog::reject);
  connect(accept_, &QPushButton::clicked, this, &QDialog::accept);
}

void Dialog::changeEvent(QEvent* event) {
  if (event->type() == QEvent::LanguageChange) retranslate();
  QDialog::changeEvent(event);
}

void Dialog::showEvent(QShowEvent* event) {
  QDialog::showEvent(event);
  layout()->activate();
  const int wanted = layout()->hasHeightForWidth() ? layout()->totalHeightForWidth(width())
                                                   : layout()->totalMinimumSize().height();
  const int least =
      std::max(layout()->minimumHeightForWidth(width()), layout()->totalMinimumSize().height());
  // the rest scrolls
  const int room = parentWidget() ? parentWidget()->window()->height() - 2 * kSpaceXl : wanted;
  const int needed = std::max(least, std::min(wanted, room));
  if (height() < needed) resize(width(), needed);
}

void Dialog::setHeading(const QString& title, const QString& text) {
  setWindowTitle(title);
  setAccessibleName(title);
  title_->setText(title);
  text_->setText(text);
  text_->setVisible(!text.isEmpty());
  commandLine_->setAccessibleName(tr("The command that does the same"));
  setCommandToolTip();
}

void Dialog::setCommandToolTip() {
  commandLine_->setToolTip(commandLine_->accessibleName() + '\n' + commandLine_->text());
}

void Dialog::showCommand(const QStringList& words) {
  std::vector<std::string> all{"lockstep"};
  for (const QString& word : words) all.push_back(word.toStdString());
  commandLine_->setText(words.isEmpty() ? QString() : QString::fromStdString(shellLine(all)));
  commandLine_->setCursorPosition(0);
  setCommandToolTip();
  commandLine_->setVisible(!words.isEmpty());
}

void Dialog::setButtons(const QString& accept, const QString& reject) {
  setTexts(accept_, accept);
  setTexts(reject_, reject);
  reject_->setVisible(!reject.isEmpty());
}

}  // namespace lockstep::ui
