#include "ui/window/shortcuts_dialog.h"

#include <QAction>
#include <QHeaderView>
#include <QTableWidget>

#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"
#include "ui/window/command_palette.h"

namespace lockstep::ui {

ShortcutsDialog::ShortcutsDialog(QList<QAction*> actions, QWidget* parent)
    : Dialog("shortcutsDialog", parent) {
  for (QAction* action : actions) {
    if (!action->shortcut().isEmpty()) actions_ << action;
  }
  table_ = new QTableWidget(static_cast<int>(actions_.size()), 2, this);
  table_->setObjectName("shortcutsTable");
  applyTableStyle(table_);
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setMinimumSize(420, 420);
  table_->setColumnWidth(0, 250);
  content()->addWidget(table_);
  retranslate();
}

void ShortcutsDialog::retranslate() {
  setHeading(tr("Keyboard shortcuts"), {});
  table_->setAccessibleName(tr("Keyboard shortcuts"));
  table_->setHorizontalHeaderLabels({tr("Command"), tr("Keys")});
  for (int row = 0; row < actions_.size(); ++row) {
    QStringList keys;
    for (const QKeySequence& key : actions_[row]->shortcuts())
      keys << key.toString(QKeySequence::NativeText);
    table_->setItem(row, 0, new QTableWidgetItem(plainActionText(actions_[row])));
    table_->setItem(row, 1, new QTableWidgetItem(keys.join(", ")));
  }
  setButtons(tr("Close"), {});
}

}  // namespace lockstep::ui
