// What tests of the launch dialog share.
#pragma once

#include <QPushButton>
#include <QTest>

#include "ui/dialogs/new_model_dialog.h"
#include "ui/pages/model_page.h"
#include "ui/window/main_window.h"

namespace lockstep::tests {

inline constexpr int kPlanTab = 2, kCompareTab = 4, kSearchTab = 5, kWhatIfTab = 6, kSummaryTab = 7;

// A new model, as the dialog for new models makes it.
inline ui::ModelPage* newModel(ui::MainWindow& window, const char* kind) {
  ui::NewModelDialog* dialog = window.newModel();
  dialog->chooseKind(kind);
  dialog->findChild<QPushButton*>("newModelDialogAccept")->click();
  QTest::qWait(0);
  return qobject_cast<ui::ModelPage*>(window.currentPage());
}

}  // namespace lockstep::tests
