// Dialog: base of the studio's dialogs: opened, never executed; heading, content, two buttons.
#pragma once

#include <QDialog>
#include <QStringList>

class QLabel;
class QLineEdit;
class QPushButton;
class QVBoxLayout;

namespace lockstep::ui {

class Dialog : public QDialog {
  Q_OBJECT

 public:
  Dialog(const QString& objectName, QWidget* parent);

 protected:
  virtual void retranslate() = 0;  // called by the constructor of the leaf class, then on change
  void changeEvent(QEvent* event) override;
  void showEvent(QShowEvent* event) override;  // as high as its texts need
  void setHeading(const QString& title, const QString& text);
  QVBoxLayout* content() const { return content_; }
  QPushButton* acceptButton() const { return accept_; }
  QPushButton* rejectButton() const { return reject_; }
  // Shows the words of the `lockstep` command that does the same, below the content; none: nothing.
  void showCommand(const QStringList& words);
  void setButtons(const QString& accept, const QString& reject);

 private:
  void setCommandToolTip();  // where the line is too narrow for it

  QLabel* title_ = nullptr;
  QLabel* text_ = nullptr;
  QVBoxLayout* content_ = nullptr;
  QLineEdit* commandLine_ = nullptr;
  QPushButton* accept_ = nullptr;
  QPushButton* reject_ = nullptr;
};

}  // namespace lockstep::ui
