// FindBar: looks for a text in an editor: the next and the previous occurrence, which one of how
// many. Enter goes on, Shift+Enter back, Escape closes. Hidden until it is opened.
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
