// YamlEditor: spec text with line numbers, highlighting and error marks. Its own undo is off: it
// emits edited() for each change, which the document puts on its undo stack; setText() shows the
// document's text and keeps cursor and scroll position. Tab indents, of a selection over several
// lines each line; after Escape it gives the keyboard to the next widget.
#pragma once

#include <QPlainTextEdit>
#include <QSyntaxHighlighter>
#include <QVector>

namespace lockstep::ui {

struct TextMark {
  int line = 0;    // from 1
  int column = 0;  // from 1; 0 the whole line
  QString text;
};

class YamlHighlighter : public QSyntaxHighlighter {
  Q_OBJECT
 public:
  explicit YamlHighlighter(QTextDocument* document);

 protected:
  void highlightBlock(const QString& text) override;
};

class YamlEditor : public QPlainTextEdit {
  Q_OBJECT

 public:
  explicit YamlEditor(const QString& objectName, QWidget* parent = nullptr);

  void setText(const QString& text);
  void setMarks(const QVector<TextMark>& marks);
  const QVector<TextMark>& marks() const { return marks_; }
  void goTo(int line, int column);
  // Marks all matches of a text, ignoring case, and goes to the first one after the cursor; "":
  // none.
  void find(const QString& text);
  void goToFound(int by);  // 1 the next, -1 the previous one, round the end
  int foundCount() const { return static_cast<int>(found_.size()); }
  int foundIndex() const;  // of the one that is selected, from 0; -1: none is
  int marginWidth() const;
  void paintMargin(QPaintEvent* event);

 Q_SIGNALS:
  void edited(const QString& text);  // by hand
  void undoWanted();
  void redoWanted();
  void foundChanged();

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  bool event(QEvent* event) override;
  // A file that is dropped on the text is the window's to open: its name is no text of the spec.
  // The address of a page is text, which browsers hand over as a URL too.
  bool canInsertFromMimeData(const QMimeData* source) const override;

 private:
  void restyle();
  void indent();
  void showMarks();
  void lookAgain();

  QWidget* margin_ = nullptr;
  YamlHighlighter* highlighter_ = nullptr;
  QVector<TextMark> marks_;
  QString sought_;
  QVector<int> found_;  // where it begins
  bool setting_ = false;
};

}  // namespace lockstep::ui
