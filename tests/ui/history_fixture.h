// The history page with four runs, of which the second has failed: what its tests share.
#pragma once

#include <QMenu>
#include <QPushButton>
#include <QTableView>
#include <QTest>
#include <QToolButton>

#include "tests/ui/studio_fixture.h"
#include "ui/models/run_table_model.h"
#include "ui/pages/history_page.h"

namespace lockstep::tests {

class HistoryWindow {
 protected:
  void openHistory() {
    home_ = std::make_unique<StudioHome>();
    for (int i = 0; i < 4; ++i)
      runs_ << QString::fromStdString(
          home_->addRun(i, i == 1 ? app::RunState::FAILED : app::RunState::SUCCEEDED, 120));
    openWindow(window_, *home_, {1200, 800});
    page_ = window_->openHistory();
    table_ = page_->findChild<QTableView*>("runTable");
    QVERIFY(wait([&] { return page_->runs()->rowCount() == 4; }));
  }
  void closeHistory() {
    closeStudio(window_, home_);
    runs_.clear();
  }
  // Opens the menu of a button and chooses an action of it, by mouse.
  void menuOf(const char* button, const char* action) {
    auto* opener = page_->findChild<QAbstractButton*>(button);
    auto* push = qobject_cast<QPushButton*>(opener);
    QMenu* menu = push ? push->menu() : qobject_cast<QToolButton*>(opener)->menu();
    QVERIFY(menu && opener->isEnabled());
    menu->popup(opener->mapToGlobal(QPoint(0, opener->height())));
    QVERIFY(wait([&] { return menu->isVisible(); }));
    for (QAction* one : menu->actions()) {
      if (one->objectName() != action) continue;
      QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(one).center());
      return;
    }
    QFAIL(action);
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<ui::MainWindow> window_;
  QStringList runs_;
  ui::HistoryPage* page_ = nullptr;
  QTableView* table_ = nullptr;
};

}  // namespace lockstep::tests
