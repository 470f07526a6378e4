#include "ui/dialogs/what_if_dialog.h"

#include <QVBoxLayout>
#include <utility>

#include "ui/dialogs/what_if_panel.h"

namespace lockstep::ui {

WhatIfDialog::WhatIfDialog(const std::string& historyFolder, const QString& run, QString name,
                           QWidget* parent)
    : Dialog("whatIfDialog", parent), run_(run), name_(std::move(name)) {
  resize(QSize(720, 440).boundedTo(parent->window()->size()));
  panel_ = new WhatIfPanel(this);
  panel_->setSource(whatIfOfRun(historyFolder, run));
  content()->addWidget(panel_, 1);
  retranslate();
}

void WhatIfDialog::retranslate() {
  setHeading(tr("What if %1 …").arg(name_),
             tr("How long a step of run %1 would take, had something been otherwise.").arg(run_));
  setButtons(tr("Close"), {});
  panel_->retranslate();
}

}  // namespace lockstep::ui
