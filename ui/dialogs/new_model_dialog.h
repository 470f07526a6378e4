// NewModelDialog: creates a new model of a chosen kind, name, file and data.
#pragma once

#include "ui/dialogs/dialog.h"

class QFormLayout;
class QLineEdit;
class QListWidget;
class QPushButton;

namespace lockstep::app {
struct ModelTemplate;
}

namespace lockstep::ui {

class NewModelDialog : public Dialog {
  Q_OBJECT

 public:
  // default folder of models
  NewModelDialog(const QString& folder, QWidget* parent);

  void chooseKind(const QString& id);
  QString path() const;  // of the file, which accept() writes

 public Q_SLOTS:
  void accept() override;  // writes the file; where that fails, says why and stays

 protected:
  void retranslate() override;

 private:
  const app::ModelTemplate& kind() const;
  void kindChanged();
  void suggest();  // name and file that are not taken
  void check();
  void nameCommand();
  void browse(QLineEdit* edit, bool save);

  QString folder_;
  QListWidget* kinds_ = nullptr;
  QFormLayout* form_ = nullptr;
  QLineEdit* name_ = nullptr;
  QLineEdit* file_ = nullptr;
  QPushButton* browseFile_ = nullptr;
  QLineEdit* data_ = nullptr;
  QPushButton* browseData_ = nullptr;
  QWidget* dataRow_ = nullptr;
  QVector<QLabel*> labels_;
  QLabel* help_ = nullptr;
  QLabel* wrong_ = nullptr;
  bool nameTyped_ = false, fileTyped_ = false;
};

}  // namespace lockstep::ui
