#include "ui/widgets/yaml_editor.h"

#include <QHelpEvent>
#include <QMimeData>
#include <QPainter>
#include <QRegularExpression>
#include <QScrollBar>
#include <QTextBlock>
#include <QToolTip>
#include <QUrl>
#include <algorithm>

#include "ui/theme/theme.h"

namespace lockstep::ui {
namespace {

class Margin : public QWidget {
 public:
  explicit Margin(YamlEditor* editor) : QWidget(editor), editor_(editor) {}
  QSize sizeHint() const override { return {editor_->marginWidth(), 0}; }

 protected:
  void paintEvent(QPaintEvent* event) override { editor_->paintMargin(event); }

 private:
  YamlEditor* editor_;
};

}  // namespace

YamlHighlighter::YamlHighlighter(QTextDocument* document) : QSyntaxHighlighter(document) {}

void YamlHighlighter::highlightBlock(const QString& text) {
  static const QRegularExpression key(R"(^\s*(?:-\s+)*([A-Za-z_][\w.\-]*)\s*:(?=\s|$))");
  static const QRegularExpression inlineKey(R"([{,]\s*([A-Za-z_][\w.\-]*)\s*:(?=\s))");
  static const QRegularExpression number(
      R"((?<![\w.\-])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.\-]))");
  static const QRegularExpression word(R"(\b(true|false|null)\b)");
  static const QRegularExpression quoted(R"("(?:[^"\\]|\\.)*"|'[^']*')");
  static const QRegularExpression comment(R"((?:^|\s)#.*$)");
  const Theme& theme = Theme::instance();
  const auto paint = [&](const QRegularExpression& pattern, int group, const char* name) {
    QTextCharFormat format;
    format.setForeground(theme.color(name));
    for (auto it = pattern.globalMatch(text); it.hasNext();) {
      const auto match = it.next();
      setFormat(static_cast<int>(match.capturedStart(group)),
                static_cast<int>(match.capturedLength(group)), format);
    }
  };
  paint(number, 0, "syntaxNumber");
  paint(word, 0, "syntaxWord");
  paint(key, 1, "syntaxKey");
  paint(inlineKey, 1, "syntaxKey");
  paint(quoted, 0, "syntaxString");
  paint(comment, 0, "syntaxComment");
}

YamlEditor::YamlEditor(const QString& objectName, QWidget* parent) : QPlainTextEdit(parent) {
  setObjectName(objectName);
  setUndoRedoEnabled(false);
  setLineWrapMode(QPlainTextEdit::NoWrap);
  setFrameShape(QFrame::NoFrame);
  margin_ = new Margin(this);
  margin_->setObjectName(objectName + "Margin");
  highlighter_ = new YamlHighlighter(document());
  connect(this, &QPlainTextEdit::blockCountChanged, this,
          [this] { setViewportMargins(marginWidth(), 0, 0, 0); });
  connect(this, &QPlainTextEdit::updateRequest, this, [this](const QRect& rect, int dy) {
    if (dy != 0) {
      margin_->scroll(0, dy);
    } else {
      margin_->update(0, rect.y(), margin_->width(), rect.height());
    }
  });
  connect(this, &QPlainTextEdit::cursorPositionChanged, this, &YamlEditor::showMarks);
  connect(document(), &QTextDocument::contentsChange, this, [this](int, int removed, int added) {
    if (!setting_ && (removed > 0 || added > 0)) Q_EMIT edited(toPlainText());
    if (!sought_.isEmpty()) lookAgain();
  });
  connect(this, &QPlainTextEdit::selectionChanged, this, [this] {
    if (!sought_.isEmpty()) Q_EMIT foundChanged();
  });
  connect(&Theme::instance(), &Theme::changed, this, &YamlEditor::restyle);
  restyle();
}

void YamlEditor::restyle() {
  setFont(Theme::instance().monospace());
  setTabStopDistance(2 * fontMetrics().horizontalAdvance(' '));
  setViewportMargins(marginWidth(), 0, 0, 0);
  highlighter_->rehighlight();
  showMarks();
}

void YamlEditor::setText(const QString& text) {
  const QString now = toPlainText();
  if (now == text) return;
  setting_ = true;
  // Only the middle that differs is replaced, so that the cursor stays where it was.
  qsizetype head = 0, tail = 0;
  const qsizetype shorter = std::min(now.size(), text.size());
  while (head < shorter && now[head] == text[head]) ++head;
  while (tail < shorter - head && now[now.size() - 1 - tail] == text[text.size() - 1 - tail])
    ++tail;
  QTextCursor cursor(document());
  cursor.setPosition(static_cast<int>(head));
  cursor.setPosition(static_cast<int>(now.size() - tail), QTextCursor::KeepAnchor);
  cursor.insertText(text.mid(head, text.size() - tail - head));
  setting_ = false;
}

void YamlEditor::setMarks(const QVector<TextMark>& marks) {
  marks_ = marks;
  showMarks();
  margin_->update();
}

void YamlEditor::showMarks() {
  QList<QTextEdit::ExtraSelection> selections;
  const Theme& theme = Theme::instance();
  QTextEdit::ExtraSelection current;
  current.format.setBackground(theme.color("alternate"));
  current.format.setProperty(QTextFormat::FullWidthSelection, true);
  current.cursor = textCursor();
  current.cursor.clearSelection();
  selections << current;
  for (const TextMark& mark : marks_) {
    const QTextBlock block = document()->findBlockByNumber(mark.line - 1);
    if (!block.isValid()) continue;
    QTextEdit::ExtraSelection row;
    row.format.setBackground(theme.color("badSoft"));
    row.format.setProperty(QTextFormat::FullWidthSelection, true);
    row.cursor = QTextCursor(block);
    selections << row;
    QTextEdit::ExtraSelection wave;
    wave.format.setUnderlineStyle(QTextCharFormat::WaveUnderline);
    wave.format.setUnderlineColor(theme.color("bad"));
    wave.cursor = QTextCursor(block);
    if (mark.column > 0) {
      wave.cursor.setPosition(block.position() +
                              std::min(mark.column - 1, std::max(0, block.length() - 1)));
    }
    wave.cursor.movePosition(QTextCursor::EndOfBlock, QTextCursor::KeepAnchor);
    selections << wave;
  }
  for (const int at : found_) {
    QTextEdit::ExtraSelection found;
    found.format.setBackground(theme.color("warningSoft"));
    found.format.setForeground(theme.color("warning"));
    found.cursor = QTextCursor(document());
    found.cursor.setPosition(at);
    found.cursor.setPosition(at + static_cast<int>(sought_.size()), QTextCursor::KeepAnchor);
    selections << found;
  }
  setExtraSelections(selections);
}

void YamlEditor::lookAgain() {
  const QString text = toPlainText();
  found_.clear();
  for (qsizetype at = 0; !sought_.isEmpty(); at += sought_.size()) {
    at = text.indexOf(sought_, at, Qt::CaseInsensitive);
    if (at < 0) break;
    found_ << static_cast<int>(at);
  }
  showMarks();
  Q_EMIT foundChanged();
}

void YamlEditor::find(const QString& text) {
  sought_ = text;
  lookAgain();
  if (found_.isEmpty() || foundIndex() >= 0) return;
  QTextCursor cursor = textCursor();
  cursor.setPosition(cursor.selectionStart());  // one letter more leaves it where it is
  setTextCursor(cursor);
  goToFound(1);
}

int YamlEditor::foundIndex() const {
  const QTextCursor cursor = textCursor();
  if (cursor.selectionEnd() - cursor.selectionStart() != sought_.size()) return -1;
  return static_cast<int>(found_.indexOf(cursor.selectionStart()));
}

void YamlEditor::goToFound(int by) {
  if (found_.isEmpty()) return;
  const int here = textCursor().selectionStart(), count = foundCount();
  int at = foundIndex();
  if (at >= 0) {
    at = (at + by + count) % count;
  } else {  // from the cursor on, or before it
    at = static_cast<int>(std::lower_bound(found_.begin(), found_.end(), here) - found_.begin());
    at = (by > 0 ? at : at - 1 + count) % count;
  }
  QTextCursor cursor(document());
  cursor.setPosition(found_[at]);
  cursor.setPosition(found_[at] + static_cast<int>(sought_.size()), QTextCursor::KeepAnchor);
  setTextCursor(cursor);
  centerCursor();
}

void YamlEditor::goTo(int line, int column) {
  const QTextBlock block = document()->findBlockByNumber(line - 1);
  if (!block.isValid()) return;
  QTextCursor cursor(block);
  cursor.setPosition(block.position() + std::clamp(column - 1, 0, std::max(0, block.length() - 1)));
  setTextCursor(cursor);
  centerCursor();
}

int YamlEditor::marginWidth() const {
  const int digits = std::max(2, static_cast<int>(QString::number(blockCount()).size()));
  return fontMetrics().horizontalAdvance('9') * digits + 2 * kSpaceS + kSpaceXs;
}

void YamlEditor::paintMargin(QPaintEvent* event) {
  QPainter painter(margin_);
  const Theme& theme = Theme::instance();
  painter.fillRect(event->rect(), theme.color("base"));
  painter.setFont(font());
  for (QTextBlock block = firstVisibleBlock(); block.isValid(); block = block.next()) {
    const QRectF area = blockBoundingGeometry(block).translated(contentOffset());
    if (area.top() > event->rect().bottom()) break;
    if (!block.isVisible()) continue;
    const int line = block.blockNumber() + 1;
    const bool bad = std::any_of(marks_.begin(), marks_.end(),
                                 [&](const TextMark& mark) { return mark.line == line; });
    painter.setPen(bad                                      ? theme.color("bad")
                   : line == textCursor().blockNumber() + 1 ? theme.color("muted")
                                                            : theme.color("disabled"));
    painter.drawText(QRectF(0, area.top(), margin_->width() - kSpaceM, fontMetrics().height()),
                     Qt::AlignRight, QString::number(line));
    if (bad) {
      painter.fillRect(QRectF(0, area.top(), 3, area.height()), theme.color("bad"));
    }
  }
}

void YamlEditor::resizeEvent(QResizeEvent* event) {
  QPlainTextEdit::resizeEvent(event);
  const QRect area = contentsRect();
  margin_->setGeometry(QRect(area.left(), area.top(), marginWidth(), area.height()));
}

void YamlEditor::keyPressEvent(QKeyEvent* event) {
  if (event->matches(QKeySequence::Undo)) return Q_EMIT undoWanted();
  if (event->matches(QKeySequence::Redo)) return Q_EMIT redoWanted();
  if (event->key() == Qt::Key_Escape) return setTabChangesFocus(true);
  if (!event->text().isEmpty()) setTabChangesFocus(false);
  if (event->key() == Qt::Key_Tab && !isReadOnly()) return indent();
  if ((event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) && !isReadOnly()) {
    // The new line is indented as the one with the cursor, but not more than the cursor is: a line
    // that moves down keeps its own indentation.
    static const QRegularExpression indent("^\\s*");
    QTextCursor cursor = textCursor();
    cursor.setPosition(cursor.selectionStart());
    const QString before = cursor.block().text().left(cursor.positionInBlock());
    insertPlainText("\n" + indent.match(before).captured());
    return;
  }
  QPlainTextEdit::keyPressEvent(event);
}

void YamlEditor::indent() {
  const QString step = QStringLiteral("  ");
  QTextBlock line = document()->findBlock(textCursor().selectionStart());
  if (line.contains(textCursor().selectionEnd())) return insertPlainText(step);
  QTextCursor edit(document());
  edit.beginEditBlock();  // one edit, which one undo takes back
  for (; line.isValid() && line.position() < textCursor().selectionEnd(); line = line.next()) {
    if (line.text().isEmpty()) continue;
    edit.setPosition(line.position());
    edit.insertText(step);
  }
  edit.endEditBlock();
}

bool YamlEditor::canInsertFromMimeData(const QMimeData* source) const {
  const QList<QUrl> urls = source->urls();
  const bool hasFile =
      std::any_of(urls.begin(), urls.end(), [](const QUrl& url) { return url.isLocalFile(); });
  return !hasFile && QPlainTextEdit::canInsertFromMimeData(source);
}

bool YamlEditor::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) {
    auto* key = static_cast<QKeyEvent*>(event);
    if (key->matches(QKeySequence::Undo) || key->matches(QKeySequence::Redo)) {
      event->ignore();  // the window's undo and redo act on the document
      return false;
    }
  }
  if (event->type() == QEvent::ToolTip) {
    auto* help = static_cast<QHelpEvent*>(event);
    const int line = cursorForPosition(viewport()->mapFromParent(help->pos())).blockNumber() + 1;
    for (const TextMark& mark : marks_) {
      if (mark.line != line) continue;
      QToolTip::showText(help->globalPos(), mark.text, this);
      return true;
    }
    QToolTip::hideText();
    return true;
  }
  return QPlainTextEdit::event(event);
}

}  // namespace lockstep::ui
