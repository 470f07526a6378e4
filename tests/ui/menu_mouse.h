// An entry of a menu of the window, chosen by mouse.
#pragma once

#include <QMenu>
#include <QMenuBar>
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

}  // namespace lockstep::tests
