#include "ui/dialogs/restart_dialog.h"

#include <QLabel>
#include <QVBoxLayout>
#include <utility>

#include "ui/widgets/widgets.h"

namespace lockstep::ui {

RestartDialog::RestartDialog(QString run, QWidget* parent)
    : Dialog("restartDialog", parent), run_(std::move(run)) {
  command_ = makeLabel("restartCommand", this, "muted");
  command_->setTextFormat(Qt::PlainText);
  command_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  content()->addWidget(command_);
  retranslate();
}

void RestartDialog::retranslate() {
  setHeading(tr("Restart all ranks"),
             tr("The run takes a checkpoint, ends the processes of all ranks, and starts them "
                "again from it. The result is the same."));
  setButtons(tr("Restart"), tr("Cancel"));
  command_->setText("lockstep restart " + run_);
}

}  // namespace lockstep::ui
