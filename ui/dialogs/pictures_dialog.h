// PicturesDialog: `lockstep make-data images` with a field for each of its options. The fields
// write the command; it can be edited before it runs.
#pragma once

#include "ui/dialogs/command_dialog.h"

class QCheckBox;
class QFormLayout;
class QLabel;
class QPushButton;
class QSpinBox;

namespace lockstep::ui {

class PicturesDialog : public CommandDialog {
  Q_OBJECT

 public:
  PicturesDialog(QStringList globals, QWidget* parent);

  void accept() override;

 protected:
  void retranslate() override;

 private:
  struct PathField {
    QLabel* label = nullptr;
    QLineEdit* edit = nullptr;
    QPushButton* browse = nullptr;
  };
  PathField addPath(const char* name);
  void addSize();
  void connectFields();
  void write();  // the command
  QString written() const;
  void browseFolder();
  void browseFile(QLineEdit* edit, bool save);

  QWidget* fields_ = nullptr;
  QFormLayout* form_ = nullptr;
  PathField folder_, to_, classes_;
  QLabel* sizeLabel_ = nullptr;
  QSpinBox* height_ = nullptr;
  QSpinBox* width_ = nullptr;
  QCheckBox* grey_ = nullptr;
  QCheckBox* skip_ = nullptr;
  bool toTyped_ = false;
};

}  // namespace lockstep::ui
