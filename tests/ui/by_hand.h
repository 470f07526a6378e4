// Choices as a person makes them, by mouse or by keys.
#pragma once

#include <QComboBox>
#include <QMenu>
#include <QMenuBar>
#include <QTabWidget>
#include <QTest>

#include "tests/ui/studio_fixture.h"

namespace lockstep::tests {

inline void chooseByMouse(ui::MainWindow& window, const char* menuName, const char* entryName) {
  auto* menu = window.findChild<QMenu*>(menuName);
  auto* entry = window.findChild<QAction*>(entryName);
  QVERIFY2(menu && entry && wait([&] { return entry->isEnabled(); }), entryName);
  QMenuBar* bar = window.menuBar();
  QTest::mouseClick(bar, Qt::LeftButton, {}, bar->actionGeometry(menu->menuAction()).center());
  QVERIFY2(wait([&] { return menu->isVisible(); }), menuName);
  QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(entry).center());
}

inline void chooseByKeys(QComboBox* box, int index) {
  box->setFocus();
  const int by = index - box->currentIndex();
  for (int i = 0; i < std::abs(by); ++i) QTest::keyClick(box, by > 0 ? Qt::Key_Down : Qt::Key_Up);
  QCOMPARE(box->currentIndex(), index);
}

inline void clickTab(QTabWidget* tabs, int index) {
  QTest::mouseClick(tabs->tabBar(), Qt::LeftButton, {}, tabs->tabBar()->tabRect(index).center());
  QCOMPARE(tabs->currentIndex(), index);
}

}  // namespace lockstep::tests
