#include "ui/widgets/find_bar.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QToolButton>

#include "ui/widgets/widgets.h"
#include "ui/widgets/yaml_editor.h"

namespace lockstep::ui {

FindBar::FindBar(const QString& objectName, YamlEditor* editor, QWidget* parent)
    : QWidget(parent), editor_(editor) {
  setObjectName(objectName);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins({});
  row->setSpacing(kSpaceXs);
  text_ = new QLineEdit(this);
  text_->setObjectName(objectName + "Text");
  text_->setMinimumWidth(70);
  count_ = makeLabel(objectName + "Count", this, "muted");
  previous_ = makeToolButton(objectName + "Previous", "up", this);
  next_ = makeToolButton(objectName + "Next", "down", this);
  close_ = makeToolButton(objectName + "Close", "close", this);
  row->addWidget(text_, 1);
  row->addWidget(count_);
  for (QToolButton* button : {previous_, next_, close_}) row->addWidget(button);
  connect(text_, &QLineEdit::textEdited, editor_, &YamlEditor::find);
  connect(previous_, &QToolButton::clicked, this, [this] { editor_->goToFound(-1); });
  connect(next_, &QToolButton::clicked, this, [this] { editor_->goToFound(1); });
  connect(close_, &QToolButton::clicked, this, &FindBar::close);
  connect(editor_, &YamlEditor::foundChanged, this, &FindBar::showCount);
  text_->installEventFilter(this);
  retranslate();
  showCount();
  hide();
}

void FindBar::open() {
  const QString selected = editor_->textCursor().selectedText();
  if (!selected.isEmpty() && !selected.contains(QChar::ParagraphSeparator))
    text_->setText(selected);
  show();
  editor_->find(text_->text());
  text_->setFocus(Qt::ShortcutFocusReason);
  text_->selectAll();
}

void FindBar::close() {
  hide();
  editor_->find({});
  editor_->setFocus();
}

bool FindBar::eventFilter(QObject* watched, QEvent* event) {
  if (watched == text_ && event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
      editor_->goToFound(key->modifiers() & Qt::ShiftModifier ? -1 : 1);
      return true;
    }
    if (key->key() == Qt::Key_Escape) {
      close();
      return true;
    }
  }
  return QWidget::eventFilter(watched, event);
}

void FindBar::changeEvent(QEvent* event) {
  if (event->type() == QEvent::LanguageChange) retranslate();
  QWidget::changeEvent(event);
}

void FindBar::retranslate() {
  text_->setPlaceholderText(tr("Find in the text"));
  text_->setAccessibleName(tr("Find in the text"));
  setTexts(previous_, tr("Previous match"));
  setTexts(next_, tr("Next match"));
  setTexts(close_, tr("Close"));
}

void FindBar::showCount() {
  const int all = editor_->foundCount();
  const bool sought = !text_->text().isEmpty();
  count_->setText(!sought ? QString() : QString("%1/%2").arg(editor_->foundIndex() + 1).arg(all));
  for (QToolButton* button : {previous_, next_}) button->setEnabled(all > 0);
}

}  // namespace lockstep::ui
