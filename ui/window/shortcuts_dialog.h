// ShortcutsDialog: lists all commands with keyboard shortcuts.
#pragma once

#include "ui/dialogs/dialog.h"

class QAction;
class QTableWidget;

namespace lockstep::ui {

class ShortcutsDialog : public Dialog {
  Q_OBJECT
 public:
  ShortcutsDialog(QList<QAction*> actions, QWidget* parent);

 protected:
  void retranslate() override;

 private:
  QList<QAction*> actions_;
  QTableWidget* table_ = nullptr;
};

}  // namespace lockstep::ui
