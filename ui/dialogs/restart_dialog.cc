#include "ui/dialogs/restart_dialog.h"

#include <utility>

namespace lockstep::ui {

RestartDialog::RestartDialog(QString run, bool ofProgram, QWidget* parent)
    : Dialog("restartDialog", parent), run_(std::move(run)), ofProgram_(ofProgram) {
  retranslate();
}

void RestartDialog::retranslate() {
  setHeading(
      tr("Restart all ranks"),
      ofProgram_
          ? tr("The processes of all ranks are ended, and the program is started again. It "
               "continues from what it has saved itself.")
          : tr("The run takes a checkpoint, ends the processes of all ranks, and starts them "
               "again from it. The result is the same."));
  setButtons(tr("Restart"), tr("Cancel"));
  showCommand({"restart", run_});
}

}  // namespace lockstep::ui
