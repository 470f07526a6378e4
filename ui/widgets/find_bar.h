// FindBar: searches in an editor: next and previous match, and the number of matches. Enter goes to
// the next match, Shift+Enter to the previous, Escape closes. Initially hidden.
#pragma once

#include <QWidget>

class QLabel;
class QLineEdit;
class QToolButton;

namespace lockstep::ui {

class YamlEditor;

class FindBar : public QWidget {
  Q_OBJECT

 public:
  FindBar(const QString& objectName, YamlEditor* editor, QWidget* parent);

  void open();  // with what is selected in the editor
  void close();

 protected:
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void retranslate();
  void showCount();

  YamlEditor* editor_;
  QLineEdit* text_ = nullptr;
  QLabel* count_ = nullptr;
  QToolButton* previous_ = nullptr;
  QToolButton* next_ = nullptr;
  QToolButton* close_ = nullptr;
};

}  // namespace lockstep::ui
